"""How much a method will lose on a table that was never benchmarked, with an interval, from the records of others.

The logarithm of the loss is linear in those of the signal (rows per unit of noise) and of the size of the problem. Each
arm has its own line, drawn towards the mean line of all arms (a ridge penalty), since few tables were benchmarked. What
is predicted for a table is judged on tables left out, with all other codings of the same people.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.recommend.benchmarks import SMALLEST_LOSS, Record, Setting, read

Array = NDArray[np.float64]
Arm = tuple[str, str]  # method, variant
Predict = Callable[[Arm, Setting], float]  # gives the logarithm (base 10) of a loss

PENALTY = 1.0  # of the squared distance of an arm's line from the mean line
SIZE_PENALTY = 30.0  # of the mean line's squared slope in the size: with few tables it is hardly told from the tables
WEIGHT = 4.0  # records that one arm on one family of tables counts as, however many there are
COVERAGE = 0.8  # of the interval
REACH = 2.0  # how far beyond what was benchmarked a prediction is still one
FEWEST = 3  # families of tables, of all records and of those of an arm
# Losses that no method is above: an AUC is at least a coin's, shares differ by all at most; squared errors can be any.
WORST = {"linear": math.inf, "logistic": 0.5, "": 1.0}
# What makes a loss grow (1) or fall (-1), and must have been benchmarked; `Lines` have the first two only.
_FACTS: tuple[tuple[str, int], ...] = (("signal", -1), ("size", 1), ("rows", -1), ("columns", 1))


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted loss (see `Record.loss`) and the interval that should hold the true one in `COVERAGE` of cases.

    Beyond what was benchmarked the errors on other tables say nothing; there the interval is open: on a table that is
    harder (less signal, more columns) up to the worst there is, on one that is easier down to the smallest loss.
    """

    loss: float
    low: float
    high: float
    families: int  # of tables with a record of this arm
    inside: bool  # whether all `_FACTS` are among those benchmarked, up to `REACH`


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A record, and what is predicted for it from the records of other families alone."""

    record: Record
    predicted: float
    low: float
    high: float
    inside: bool


class Lines:
    """A line for every arm, fitted to the logarithms (base 10) of losses; never rising with the signal.

    Parameters
    ----------
    records : sequence of Record
        Of one task.
    size : bool, default True
        Whether the size of the problem counts beside the signal.
    """

    def __init__(self, records: Sequence[Record], *, size: bool = True) -> None:
        self._size = size
        X = np.log10([self._features(one.setting) for one in records])
        y = np.log10([one.loss for one in records])
        arms = [(one.method, one.variant) for one in records]
        self._arms = {arm: i for i, arm in enumerate(dict.fromkeys(arms))}
        self._centre = X.mean(axis=0)
        cells = [(one.method, one.variant, one.family) for one in records]
        counts = Counter(cells)
        weights = np.array([WEIGHT / counts[cell] for cell in cells])
        Z = self._design(X - self._centre, arms)
        width = X.shape[1] + 1
        penalties = np.full(Z.shape[1], PENALTY)
        penalties[:width] = [1e-3, 1e-3, SIZE_PENALTY][:width]  # of the mean line: the first two only for numerics
        parameters = np.linalg.solve((Z.T * weights) @ Z + np.diag(penalties), (Z.T * weights) @ y)
        mean, *own = parameters.reshape(-1, width)
        self._lines = np.stack([mean, *(mean + line for line in own)])  # of an arm without records, and of each arm
        self._lines[:, 1] = np.minimum(self._lines[:, 1], 0.0)  # more signal never hurts

    def __call__(self, arm: Arm, setting: Setting) -> float:
        """Return the predicted logarithm of the loss."""
        x = np.log10(self._features(setting)) - self._centre
        line = self._lines[1 + self._arms[arm] if arm in self._arms else 0]
        return float(line[0] + line[1:] @ x)

    def _features(self, setting: Setting) -> tuple[float, ...]:
        return (setting.signal, setting.size) if self._size else (setting.signal,)

    def _design(self, X: Array, arms: Sequence[Arm]) -> Array:
        rows = np.column_stack([np.ones(len(X)), X])
        width = rows.shape[1]
        Z = np.zeros((len(X), width * (1 + len(self._arms))))
        Z[:, :width] = rows
        for row, arm in enumerate(arms):
            start = width * (1 + self._arms[arm])
            Z[row, start : start + width] = rows[row]
        return Z


class Forecaster:
    """Predict losses for one task.

    Parameters
    ----------
    task : {"linear", "logistic", ""}
        Empty for synthetic tables.
    records : iterable of Record, optional
        Default: those that come with the library.
    fit : callable, default `Lines`
        From records to predictions.

    Raises
    ------
    InputError
        Too few tables were benchmarked.

    Attributes
    ----------
    few : dict of (str, str) to int
        Arms that were benchmarked on fewer than `FEWEST` tables, and on how many; nothing is predicted of them.
    """

    def __init__(
        self, task: str, records: Iterable[Record] | None = None, *, fit: Callable[[Sequence[Record]], Predict] = Lines
    ) -> None:
        self.task, self._fit = task, fit
        self.records = [one for one in (read() if records is None else records) if one.setting.task == task]
        self.families = sorted({one.family for one in self.records})
        if len(self.families) < FEWEST:
            kind = f"{task} models" if task else "synthetic tables"
            raise InputError(f"{kind} were benchmarked on {len(self.families)} tables; a prediction needs {FEWEST}")
        tables = Counter(arm for arm, _ in {((one.method, one.variant), one.family) for one in self.records})
        self.few = {arm: n for arm, n in tables.items() if n < FEWEST}
        self.records = [one for one in self.records if (one.method, one.variant) not in self.few]
        self._truth = np.log10([one.loss for one in self.records])
        self._guesses = _left_out(self.records, fit)

    @cached_property
    def _predict(self) -> Predict:
        return self._fit(self.records)

    @property
    def trivial_loss(self) -> float:
        """What the trivial prediction lost on a typical table (geometric mean)."""
        return float(10 ** np.mean(np.log10([one.trivial_loss for one in self.records])))

    @property
    def error(self) -> float:
        """The median absolute held-out error in decades: 0.3 is a factor of 2."""
        return float(np.median(np.abs(self._guesses - self._truth)))

    def knows(self, arm: Arm) -> bool:
        """Whether there are records of an arm."""
        return any((one.method, one.variant) == arm for one in self.records)

    def predict(self, arm: Arm, setting: Setting) -> Prediction:
        """Return the prediction for an arm in a setting; `knows` says whether it stands on records of the arm."""
        spread = _spread(self.records, self._truth - self._guesses)
        return _prediction(self._predict(arm, setting), spread, setting, _of(arm, self.records))

    @cached_property
    def held_out(self) -> list[HeldOut]:
        """Every record with what is predicted for it; its interval too without any record of its family."""
        pairs: dict[int, HeldOut] = {}
        for family in self.families:
            others = [one for one in self.records if one.family != family]
            spread = _spread(others, np.log10([one.loss for one in others]) - _left_out(others, self._fit))
            for i, one in enumerate(self.records):
                if one.family == family:
                    own = _of((one.method, one.variant), others)
                    found = _prediction(self._guesses[i], spread, one.setting, own)
                    pairs[i] = HeldOut(one, found.loss, found.low, found.high, found.inside)
        return [pairs[i] for i in range(len(self.records))]

    def coverage(self) -> float | None:
        """Return the share of held-out intervals that hold the loss, of those without an open end; None: all have."""
        closed = [one.low <= one.record.loss <= one.high for one in self.held_out if one.inside]
        return float(np.mean(closed)) if closed else None

    def regrets(self) -> list[float]:
        """Return, for each held-out setting, the loss of the arm with the least predicted one over the least loss."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for i, one in enumerate(self.records):
            groups.setdefault((one.dataset, one.target, one.source, one.setting), []).append(i)
        several = [group for group in groups.values() if len(group) > 1]
        chosen = [min(group, key=lambda i: self._guesses[i]) for group in several]
        return [float(10 ** (self._truth[i] - min(self._truth[g]))) for i, g in zip(chosen, several, strict=True)]


def _left_out(records: Sequence[Record], fit: Callable[[Sequence[Record]], Predict]) -> Array:
    """Return the predictions for each family of tables from the records of all others."""
    guesses = np.empty(len(records))
    for family in {one.family for one in records}:
        predict = fit([one for one in records if one.family != family])
        for i, one in enumerate(records):
            if one.family == family:
                guesses[i] = predict((one.method, one.variant), one.setting)
    return guesses


def _spread(records: Sequence[Record], errors: Array) -> tuple[float, float]:
    """Return the quantiles of held-out errors, widened as Student's t: few tables were drawn, not many records."""
    from scipy.special import ndtri, stdtrit

    level, n = (1 + COVERAGE) / 2, len({one.family for one in records})
    wider = stdtrit(n - 1, level) * np.sqrt(1 + 1 / n) / ndtri(level)
    low, high = np.quantile(errors, [1 - level, level])
    return float(wider * low), float(wider * high)


def _of(arm: Arm, records: Sequence[Record]) -> list[Record]:
    return [one for one in records if (one.method, one.variant) == arm]


def _prediction(guess: float, spread: tuple[float, float], setting: Setting, own: Sequence[Record]) -> Prediction:
    """Return what the logarithm of a loss and the spread of errors come to, given the records of the same arm."""
    beyond = {
        _beyond(getattr(setting, name), [getattr(one.setting, name) for one in own]) * sign for name, sign in _FACTS
    }
    worst = WORST[setting.task]
    loss, low, high = (
        float(np.clip(10**value, SMALLEST_LOSS, worst)) for value in (guess, *(guess + s for s in spread))
    )
    return Prediction(
        loss,
        SMALLEST_LOSS if -1 in beyond else low,
        worst if 1 in beyond else high,
        len({one.family for one in own}),
        beyond == {0},
    )


def _beyond(value: float, known: Sequence[float]) -> int:
    """Return 1 for more than was benchmarked, -1 for less, 0 for neither."""
    return int(value > max(known) * REACH) - int(value < min(known) / REACH) if known else 1
