"""How much a method will lose on a table that was never benchmarked, with an interval: looked up, not modelled.

Methods stand in the order of the race: by how many times what the best one lost they lost themselves (geometric mean).
How much one loses is what it lost in the settings nearest in rows per unit of noise and of size. Both are judged on
tables left out, with all other codings of the same people.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.advice.benchmarks import SMALLEST_LOSS, Record, Setting, read
from marginalia.errors import InputError

Array = NDArray[np.float64]
Arm = tuple[str, str]  # method, variant

HALVED = 0.15  # decades of signal per size at which another setting counts half as much
COVERAGE = 0.8  # of the interval
REACH = 2.0  # how far beyond what was benchmarked a prediction is still one
FEWEST = 3  # families of tables, of all records and of those of an arm
# Losses that no method is above: an AUC is at least a coin's, shares differ by all at most; squared errors can be any.
WORST = {"linear": math.inf, "logistic": 0.5, "": 1.0}
# What makes a loss grow (1) or fall (-1), and must have been benchmarked.
_FACTS = {"signal": -1, "size": 1, "rows": -1, "columns": 1}


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
    inside: bool  # whether signal, size, rows and columns are among those benchmarked, up to `REACH`
    behind: float  # its loss over the least one, geometric mean over the race


class Forecaster:
    """Predict losses for one task, from a matrix of logarithms (base 10) of losses: settings by arms.

    Parameters
    ----------
    task : {"linear", "logistic", ""}
        Empty for synthetic tables.
    records : iterable of Record, optional
        Default: those that come with the library.

    Raises
    ------
    InputError
        Too few tables were benchmarked.

    Attributes
    ----------
    few : dict of (str, str) to int
        Arms that were benchmarked on fewer than `FEWEST` tables, and on how many; nothing is predicted of them.
    arms : dict of (str, str) to int
        The others, and their columns of `losses`.
    losses : array of shape (settings, arms)
        Logarithms, base 10; NaN where an arm did not run.
    settings : list of (str, str, Setting)
        Data set, target and setting of each row.
    """

    def __init__(self, task: str, records: Iterable[Record] | None = None) -> None:
        self.task = task
        mine = [one for one in (read() if records is None else records) if one.setting.task == task]
        self.families = sorted({one.family for one in mine})
        if len(self.families) < FEWEST:
            kind = f"{task} models" if task else "synthetic tables"
            raise InputError(f"{kind} were benchmarked on {len(self.families)} tables; a prediction needs {FEWEST}")
        self._tables = Counter(arm for arm, _ in {(one.arm, one.family) for one in mine})
        self.few = {arm: n for arm, n in self._tables.items() if n < FEWEST}
        self.records = [one for one in mine if one.arm not in self.few]
        self.arms = {arm: i for i, arm in enumerate(dict.fromkeys(one.arm for one in self.records))}
        rows = {key: i for i, key in enumerate(dict.fromkeys(one.where for one in self.records))}
        self.settings = list(rows)
        self.losses = np.full((len(rows), len(self.arms)), np.nan)
        for one in self.records:
            self.losses[rows[one.where], self.arms[one.arm]] = math.log10(one.loss)
        self.family = np.array(list({one.where: one.family for one in self.records}.values()))
        self._facts = np.array([_facts(setting) for *_, setting in self.settings])
        self._places = np.array([_place(setting) for *_, setting in self.settings])
        counts = Counter(self.family)
        self._weights = np.array([1 / counts[family] for family in self.family])  # each family counts as one

    @property
    def trivial_loss(self) -> float:
        """What the trivial prediction lost on a typical table (geometric mean)."""
        return float(10 ** np.mean([math.log10(one.trivial_loss) for one in self.records]))

    def predict(self, arm: Arm, setting: Setting) -> Prediction:
        """Return the prediction for one of the `arms` in a setting."""
        column, all_of_them = self.arms[arm], np.ones(len(self.settings), bool)
        guess = _mean(self._near(np.array([_place(setting)])), self.losses)
        errors = self.losses - self._left_out(self.losses, near=True)
        beyond = self._beyond(np.array([_facts(setting)]), all_of_them)
        loss, low, high = (
            part[0, column] for part in self._intervals(guess, _spread(errors, len(self.families)), beyond)
        )
        inside = bool((beyond[0, column] == 0).all())
        behind = _mean(self._weights[None], self._behind)[0, column]
        return Prediction(float(loss), float(low), float(high), self._tables[arm], inside, float(10**behind))

    @cached_property
    def held_out(self) -> pd.DataFrame:
        """A row for each record: its family and loss, and what the other families alone predict, interval and all."""
        parts = []
        for family in dict.fromkeys(self.family):
            out = self.family == family
            guess = self._left_out(self.losses, near=True, use=~out)
            beyond = self._beyond(self._facts[out], ~out)
            spread = _spread((self.losses - guess)[~out], len(self.families) - 1)
            loss, low, high = self._intervals(guess[out], spread, beyond)
            found = {"measured": 10 ** self.losses[out], "predicted": loss, "low": low, "high": high}
            found["inside"] = (beyond == 0).all(axis=2)
            ran = ~np.isnan(self.losses[out])
            parts.append(pd.DataFrame({name: values[ran] for name, values in found.items()}).assign(family=family))
        return pd.concat(parts, ignore_index=True)

    @property
    def error(self) -> float:
        """The median factor by which predictions for tables left out are wrong."""
        ratio = np.log10(self.held_out["predicted"] / self.held_out["measured"])
        return float(10 ** np.median(np.abs(ratio)))

    def coverage(self) -> float | None:
        """Return the share of held-out intervals that hold the loss, of those without an open end; None: all have."""
        near = self.held_out[self.held_out["inside"]]
        return float(near["measured"].between(near["low"], near["high"]).mean()) if len(near) else None

    def choices(self, *, near: bool = False) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return, of each setting, the arm that is first in the order of the other families, and the best one.

        Parameters
        ----------
        near : bool, default False
            Whether the order is that of the nearest settings, and not that of the whole race.
        """
        order = np.where(np.isnan(self.losses), np.inf, self._left_out(self._behind, near=near))
        return order.argmin(axis=1), np.nanargmin(self.losses, axis=1)

    def regrets(self, *, near: bool = False) -> Array:
        """Return, of each setting, the loss of the first choice over the least one; see `choices`."""
        first, _ = self.choices(near=near)
        return 10 ** self._behind[np.arange(len(first)), first]

    @property
    def _behind(self) -> Array:
        return self.losses - np.nanmin(self.losses, axis=1, keepdims=True)

    def _near(self, places: Array) -> Array:
        return self._weights * 2.0 ** (-np.abs(places[:, None] - self._places) / HALVED)

    def _left_out(self, values: Array, *, near: bool, use: NDArray[np.bool_] | None = None) -> Array:
        """Return the means of `values` for each setting over those of other families, of all or of those in `use`."""
        weights = self._near(self._places) if near else self._weights
        others = self.family[:, None] != self.family
        return _mean(weights * (others if use is None else others & use), values)

    def _beyond(self, facts: Array, use: NDArray[np.bool_]) -> NDArray[np.int_]:
        """Return, of settings, arms and `_FACTS`, 1 where harder than all that an arm ran in, -1 if easier, or 0."""
        ran = ~np.isnan(self.losses) & use[:, None]
        known = np.where(ran[:, :, None], self._facts[:, None], np.nan)
        most, least = np.nanmax(known, axis=0), np.nanmin(known, axis=0)
        here = facts[:, None]
        more, less = (here > most * REACH).astype(int), (here < least / REACH).astype(int)
        return (more - less) * np.array(list(_FACTS.values()))

    def _intervals(self, guess: Array, spread: tuple[float, float], beyond: NDArray[np.int_]) -> list[Array]:
        worst = WORST[self.task]
        loss, low, high = (np.clip(10 ** (guess + s), SMALLEST_LOSS, worst) for s in (0.0, *spread))
        low = np.where((beyond == -1).any(axis=2), SMALLEST_LOSS, low)
        return [loss, low, np.where((beyond == 1).any(axis=2), worst, high)]


def _spread(errors: Array, tables: int) -> tuple[float, float]:
    """Return the quantiles of held-out errors, widened as Student's t: few tables were drawn, not many records."""
    from scipy.special import ndtri, stdtrit

    level = (1 + COVERAGE) / 2
    wider = stdtrit(tables - 1, level) * math.sqrt(1 + 1 / tables) / ndtri(level)
    low, high = np.nanquantile(errors, [1 - level, level])
    return float(wider * low), float(wider * high)


def _place(setting: Setting) -> float:
    return math.log10(setting.signal / setting.size)


def _facts(setting: Setting) -> list[float]:
    return [float(getattr(setting, name)) for name in _FACTS]


def _mean(weights: Array, values: Array) -> Array:
    """Return the weighted means of the columns of `values`, NaN left out; a row for each row of weights."""
    ran = ~np.isnan(values)
    return (weights @ np.where(ran, values, 0.0)) / (weights @ ran)
