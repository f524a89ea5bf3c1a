"""Confidence sets for counts, shares, differences, odds ratios, means and quantiles of the coded table.

All of them follow from *linear functionals*: sums over all rows of a function of one marginal. `_Question` finds the
rounds that give the marginal and the error that each of them is allowed; `_intersection` makes intervals of the sums,
`_ratio` of a ratio of two. The noise of each sum is Gaussian and known, so the sets hold at every number of rows and
every epsilon. In an adaptive release the k-th round that gives a marginal is a stopping time: its noise is Gaussian
whatever was released before. The first is used at half of the error, the second at a quarter, and so on, and the sets
are intersected. A release of one round is used at all of it.

Means, quantiles and shares of a column with missing or special values are over the rows with a value. Means and shares
are ratios of two released sums then, also where the number of rows is public; a quantile is that of the sum of the
function 1(up to the code) - share, which is 0 for rows without a value.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from marginalia.data.column import Column
from marginalia.data.names import code_names
from marginalia.data.values import SECONDS
from marginalia.errors import InputError
from marginalia.inference.columns import (
    Quantity,
    clipped_at,
    number_function,
    numbers_of,
    quantity_of,
    shown,
    unit_of,
    with_value,
)
from marginalia.inference.estimates import Array, Clique, ResidualEstimates, part_functions
from marginalia.inference.release import ALL_ROWS, Release, Source, estimand_of
from marginalia.privacy import checks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_MOST_CELLS = 100_000


@dataclass(frozen=True)
class Interval:
    """A confidence set of one number: from `low` to `high`, or, where `outside`, all numbers not between them.

    Attributes
    ----------
    name : str
    estimate : float
    low, high : float
        Infinite where nothing is excluded on that side.
    label : str
        ``exact``: the set covers with the stated probability, whatever the table. ``certified``: with at least this
        probability, as simultaneous sets, quantiles (which jump) and sets of adaptive releases do.
        ``asymptotic``: nearly, where the noise is small relative to the estimate.
    outside : bool
        Whether the set is the outside of [low, high]: a ratio whose denominator may be 0.
    estimand : str
        The rows that the number is of; see `release.estimand_of`.
    quantity : str
        What the number is; see `columns.Quantity`.
    decimals : int
        At least so many are shown.
    clipped : str
        Where values were clipped, as ``at 0 and 99``: then the number is that of the clipped values. Empty: nowhere.
    without_value : Interval, optional
        The share of rows that are left out, since they have no value in a column: a missing or a special one.

    Examples
    --------
    >>> print(Interval("share of sex=F", 0.42, 0.40, 0.44))
    share of sex=F: 0.42 [0.40, 0.44] exact
    """

    name: str
    estimate: float
    low: float
    high: float
    label: str = "exact"
    outside: bool = False
    estimand: str = ALL_ROWS
    without_value: Interval | None = None
    quantity: Quantity = "number"
    decimals: int = 0
    clipped: str = ""

    def __str__(self) -> str:
        estimate, low, high = self.shown()
        about = "" if self.estimand == ALL_ROWS else f", {self.estimand}"
        about = f", values clipped {self.clipped}{about}" if self.clipped else about
        return f"{self.name}{about}: {estimate} {'outside of ' * self.outside}[{low}, {high}] {self.label}"

    def shown(self) -> list[str]:
        """Return the estimate and both ends as texts in the units of the answer; see `columns.shown`."""
        return shown((self.estimate, self.low, self.high), self.quantity, self.decimals, outside=self.outside)

    @property
    def bounded(self) -> bool:
        """Whether the set excludes both very small and very large values."""
        return not self.outside and math.isfinite(self.low) and math.isfinite(self.high)

    def to_frame(self) -> pd.DataFrame:
        """Return one row with the estimate, the ends and their label, named as the answer; dates as timestamps.

        Times of day are timedeltas since midnight.

        Examples
        --------
        >>> Interval("share of sex=F", 0.42, 0.40, 0.44).to_frame().loc["share of sex=F", "low"].item()
        0.4
        """
        import pandas as pd

        ends: dict[str, object] = {"estimate": self.estimate, "low": self.low, "high": self.high}
        if (unit := unit_of(self.quantity)) is not None:
            seconds = np.array([self.estimate, self.low, self.high]) * SECONDS[unit]
            seconds = np.where(np.isfinite(seconds), seconds, np.nan)
            is_clock = self.quantity != unit
            times = pd.to_timedelta(seconds, unit="s") if is_clock else pd.to_datetime(seconds, unit="s")
            ends = dict(zip(ends, times, strict=True))
        gaps = math.nan if self.without_value is None else self.without_value.estimate
        facts = {"outside": self.outside, "label": self.label, "rows": self.estimand, "without_value": gaps}
        return pd.DataFrame([{**ends, **facts, "clipped": self.clipped}], index=[self.name])

    def plot(self) -> Figure:
        """Return a figure of the estimate and its set; `plot` draws those of a whole marginal."""
        from marginalia.inference.error_bars import plot_intervals

        return plot_intervals([self], "", zero=False)

    def contains(self, value: float) -> bool:
        """Return whether `value` is in the set."""
        inside = self.low <= value <= self.high
        return bool(not self.low < value < self.high if self.outside else inside)


@dataclass(frozen=True)
class _Question:
    """A marginal, the rounds that give it, and the error that each of them is allowed."""

    release: Release
    attributes: tuple[str, ...]
    clique: Clique
    rounds: list[ResidualEstimates]
    levels: list[float]
    label: str

    @classmethod
    def of(cls, release: Release, attributes: Sequence[str], confidence: float, *, count: int = 1) -> _Question:
        """Return the question about a marginal; `count`: of answers that hold at once (Šidák 1967)."""
        alpha = 1.0 - checks.open_unit("confidence", confidence)
        positions = [release.domain.index(name) for name in attributes]
        if not positions or len(set(positions)) != len(positions):
            raise InputError("name at least one column, each once")
        clique = tuple(sorted(positions))
        rounds = release.holding(clique)
        if not rounds:
            text = ", ".join(attributes)
            raise InputError(
                f"the marginal on {text} was never asked, so no interval is known; release it, or all pairs"
            )
        levels, label = [alpha], "exact"
        if len(release.rounds) > 1:
            levels, label = [alpha / 2 ** (k + 1) for k in range(len(rounds))], "certified"
        if count > 1:
            levels, label = [-math.expm1(math.log1p(-level) / count) for level in levels], "certified"
        return cls(release, tuple(attributes), clique, rounds, levels, label)

    @property
    def shape(self) -> list[int]:
        """Sizes of the marginal, in the order of the domain."""
        return [self.release.domain.sizes[a] for a in self.clique]

    def asked_order(self) -> list[int]:
        """Return the axes of the marginal in the order of `attributes`."""
        return [self.clique.index(self.release.domain.index(name)) for name in self.attributes]

    def cell_sums(self) -> list[tuple[Array, Array]]:
        """Return the counts of all cells and the variances of their noise, from each round."""
        sums = []
        for estimates in self.rounds:
            counts = estimates.counts(self.clique)
            sums.append((counts, np.broadcast_to(estimates.cell_variance(self.clique), counts.shape)))
        return sums

    def sums(self, functions: Iterable[Array]) -> list[tuple[Array, Array]]:
        """Return the sums of functions of the marginal and the variances of their noise, from each round."""
        parts = [part_functions(self.clique, function) for function in functions]
        pairs = ([estimates.sum_of(part) for part in parts] for estimates in self.rounds)
        return [(np.array([value for value, _ in of]), np.array([variance for _, variance in of])) for of in pairs]

    def of_codes(self, functions: Sequence[Array]) -> Array:
        """Return the product of a function of the codes of each of `attributes`, over the marginal."""
        return np.transpose(functools.reduce(np.multiply.outer, functions), np.argsort(self.asked_order()))

    @property
    def gaps(self) -> tuple[str, ...]:
        """The columns that have codes without a value."""
        return tuple(name for name in self.attributes if not with_value(self.release.domain[name]).all())

    def with_value(self) -> Array:
        """Return 1 for each cell in which all columns have a value, else 0."""
        return self.of_codes([with_value(self.release.domain[name]).astype(float) for name in self.attributes])

    def without_value(self) -> Interval:
        """Return the share of rows that lack a value in some column."""
        return replace(_per_row(self, name_without_value(self.gaps), 1.0 - self.with_value()), quantity="share")

    def interval(
        self,
        name: str,
        estimate: float,
        low: float,
        high: float,
        *,
        outside: bool = False,
        complete: bool = False,
    ) -> Interval:
        """Return an interval that states its rows; `complete`: only those with a value in all columns."""
        return Interval(
            *(name, float(estimate), float(low), float(high), self.label, bool(outside)),
            estimand=estimand_of(self.release.unit, self.gaps if complete else ()),
            without_value=self.without_value() if complete and self.gaps else None,
        )


def name_without_value(gaps: Sequence[str]) -> str:
    """Return the name of the share of rows that lack a value in some of these columns.

    >>> name_without_value(["pay", "age"])
    'share of rows without a value of pay or age'
    """
    return f"share of rows without a value of {' or '.join(gaps)}"


def _intersection(sums: Sequence[tuple[Array, Array]], levels: Sequence[float]) -> tuple[Array, Array, Array]:
    """Return estimates, lower and upper ends of some sums; where rounds contradict each other the first holds alone."""
    values = np.array([value for value, _ in sums])
    variances = np.array([variance for _, variance in sums])
    z = np.array([-ndtri(level / 2) for level in levels]).reshape(-1, *[1] * (values.ndim - 1))
    halves = z * np.sqrt(variances)
    low, high = (values - halves).max(axis=0), (values + halves).min(axis=0)
    contradicted = low > high
    low = np.where(contradicted, values[0] - halves[0], low)
    high = np.where(contradicted, values[0] + halves[0], high)
    weights = 1.0 / np.maximum(variances, 1e-300)
    estimate = (values * weights).sum(axis=0) / weights.sum(axis=0)
    return np.minimum(np.maximum(estimate, low), high), low, high


def _linear(question: _Question, name: str, function: Array) -> Interval:
    """Return an interval for the sum of a function over all rows."""
    ends = _intersection(question.sums([function]), question.levels)
    return question.interval(name, *(end[0] for end in ends))


def _per_row(question: _Question, name: str, function: Array, *, complete: bool = False) -> Interval:
    """Return an interval for the mean of a function over all rows, or over those with a value (`complete`).

    It is the interval of a ratio, unless the mean is over a public number of rows.
    """
    if complete and question.gaps:
        return _ratio(question, name, function, question.with_value(), complete=True)
    if question.release.n_rows is None:
        return _ratio(question, name, function, np.ones(function.shape))
    return _linear(question, name, function / max(1, question.release.n_rows))


def _ratio(question: _Question, name: str, top: Array, bottom: Array, *, complete: bool = False) -> Interval:
    """Return Fieller's set of a ratio of two sums, from the first round that gives them."""
    z = -ndtri(question.levels[0] / 2)
    first = replace(question, rounds=question.rounds[:1])
    # The set moves with the ratio: numbers far from 0, such as dates, would lose digits in the squares.
    numbers = top[bottom > 0] / bottom[bottom > 0]
    middle = (numbers.max() + numbers.min()) / 2
    top = top - middle * bottom
    [(sums, variances)] = first.sums((top, bottom, top + bottom))
    (a, b, _), (s_a, s_b, both) = sums.tolist(), variances.tolist()
    estimate, low, high, outside = fieller((a, b), (s_a, s_b), (both - s_a - s_b) / 2, z)
    return question.interval(name, middle + estimate, middle + low, middle + high, outside=outside, complete=complete)


def fieller(
    sums: tuple[float, float], variances: tuple[float, float], covariance: float, z: float
) -> tuple[float, float, float, bool]:
    """Return a / b, the ends of Fieller's (1954) set of this ratio, and whether the set lies outside of them.

    Parameters
    ----------
    sums : (float, float)
        a and b, with normal noise.
    variances : (float, float)
        Of the noise of a and b.
    covariance : float
        Of the noise of a and b.
    z : float
        Normal quantile.

    Examples
    --------
    >>> [round(x, 6) for x in fieller((30.0, 100.0), (4.0, 0.0), 0.0, 2.0)[:3]]
    [0.3, 0.26, 0.34]
    """
    (a, b), (s_a, s_b) = sums, variances
    # (a - r b)² <= z² (s_a - 2 r covariance + r² s_b)
    q2, q1, q0 = b * b - z * z * s_b, -2 * (a * b - z * z * covariance), a * a - z * z * s_a
    estimate = a / b if b != 0 else math.nan
    root = q1 * q1 - 4 * q2 * q0
    if q2 == 0 or (q2 < 0 and root <= 0):
        return estimate, -math.inf, math.inf, False
    middle, half = -q1 / (2 * q2), math.sqrt(max(root, 0.0)) / (2 * abs(q2))
    return estimate, middle - half, middle + half, q2 < 0


def cells(
    release: Source, attributes: Sequence[str], *, confidence: float = 0.95, simultaneous: bool = False
) -> list[Interval]:
    """Return an interval for the count of every cell of a marginal.

    Parameters
    ----------
    release : fitted synthesizer, Release, or path of a file of one
    attributes : sequence of str
    confidence : float, default 0.95
        Of each cell that was chosen before the release was seen, in (0, 1).
    simultaneous : bool, default False
        Whether `confidence` holds for all cells together, so that you may choose a cell afterwards (Šidák's inequality
        for Gaussian noise, 1967).

    Returns
    -------
    list of Interval
        In the order of the cells, the last attribute fastest.

    Raises
    ------
    InputError
        No round measured the marginal, or a marginal that contains it.

    Examples
    --------
    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]] * 100, Domain.from_sizes({"a": 2, "b": 2}))
    >>> release = Release.of(ResidualPlanner(epsilon=5.0, random_state=0, relation="replace_one").fit(table))
    >>> [one.contains(truth) for one, truth in zip(cells(release, ["a"]), [100, 200])]
    [True, True]
    """
    release = Release.of(release)
    estimate, low, high, label = cell_bounds(release, attributes, confidence=confidence, simultaneous=simultaneous)
    ends = zip(estimate.ravel().tolist(), low.ravel().tolist(), high.ravel().tolist(), strict=True)
    names, estimand = _cell_names(release, attributes), estimand_of(release.unit)
    return [
        Interval(name, *one, label, estimand=estimand, quantity="count") for name, one in zip(names, ends, strict=True)
    ]


def cell_bounds(
    release: Source, attributes: Sequence[str], *, confidence: float = 0.95, simultaneous: bool = False
) -> tuple[Array, Array, Array, str]:
    """Return estimates, lower and upper ends of the counts on `attributes`, in their shape, and the label.

    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]] * 100, Domain.from_sizes({"a": 2, "b": 2}))
    >>> release = Release.of(ResidualPlanner(epsilon=5.0, random_state=0, relation="replace_one").fit(table))
    >>> estimate, low, high, label = cell_bounds(release, ["b", "a"])
    >>> estimate.shape, bool((low < high).all()), label
    ((2, 2), True, 'exact')
    """
    release = Release.of(release)
    cells = math.prod(release.domain[name].size for name in attributes)
    question = _Question.of(release, attributes, confidence, count=cells if simultaneous else 1)
    if cells > _MOST_CELLS:
        raise InputError(f"the marginal on {', '.join(attributes)} has more than {_MOST_CELLS:,} cells")
    order = question.asked_order()
    estimate, low, high = (np.transpose(part, order) for part in _intersection(question.cell_sums(), question.levels))
    return estimate, low, high, question.label


def _cell_names(release: Release, attributes: Sequence[str]) -> Iterator[str]:
    texts = [[f"{name}={text}" for text in code_names(release.domain[name])] for name in attributes]
    return (", ".join(cell) for cell in itertools.product(*texts))


def plot(release: Source, *columns: str, confidence: float = 0.95, simultaneous: bool = False) -> Figure:
    """Return a figure of a release: the counts of a marginal with their intervals, one below the other.

    Parameters
    ----------
    release : fitted synthesizer, Release, or path of a file of one
    *columns : str
        Of the marginal. Without them the counts of each column by itself.
    confidence : float, default 0.95
        Of each count, in (0, 1).
    simultaneous : bool, default False
        Whether `confidence` holds for all counts of a marginal together.

    Raises
    ------
    InputError
        The release lacks a marginal, or there are more counts than a figure holds.

    Examples
    --------
    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]] * 100, Domain.from_sizes({"a": 2, "b": 2}))
    >>> figure = plot(ResidualPlanner(epsilon=1.0, random_state=0).fit(table))
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['a=0', 'a=1', 'b=0', 'b=1']
    """
    from marginalia.inference.error_bars import plot_intervals

    release = Release.of(release)
    marginals = [columns] if columns else [(name,) for name in release.domain.names]
    found = [
        one for names in marginals for one in cells(release, names, confidence=confidence, simultaneous=simultaneous)
    ]
    return plot_intervals(found, f"number of rows ({confidence:.0%} intervals)", zero=True)


def shares(
    release: Source, attributes: Sequence[str], *, confidence: float = 0.95, simultaneous: bool = False
) -> list[Interval]:
    """Return an interval for the share of every cell of a marginal, of the rows with a value in all its columns.

    Cells of missing values and special texts are left out: `Interval.without_value` is their share of all rows. The set
    of a ratio (where there are gaps, or the number of rows is private) is Fieller's (1954): exact, and unbounded where
    the denominator may be 0.

    Examples
    --------
    >>> from marginalia.data import Column, Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> ward = Column("ward", 3, labels=("a", "b"), type="string", missing=("?",))
    >>> table = Table([[0], [0], [1], [2]] * 500, Domain([ward]))
    >>> found = shares(Release.of(ResidualPlanner(epsilon=5.0, workload=1, random_state=0).fit(table)), ["ward"])
    >>> [(one.name, round(one.estimate, 2), one.estimand) for one in found]
    [('ward=a', 0.67, 'over rows with a value of ward'), ('ward=b', 0.33, 'over rows with a value of ward')]
    >>> round(found[0].without_value.estimate, 2)
    0.25
    """
    release = Release.of(release)
    known = [with_value(release.domain[name]) for name in attributes]
    count = math.prod(int(codes.sum()) for codes in known) if simultaneous else 1
    question = _Question.of(release, attributes, confidence, count=count)
    if not question.gaps and release.n_rows is not None:
        n = max(1, release.n_rows)
        counts = cells(release, attributes, confidence=confidence, simultaneous=simultaneous)
        return [
            replace(one, estimate=one.estimate / n, low=one.low / n, high=one.high / n, quantity="share")
            for one in counts
        ]
    intervals = []
    codes = itertools.product(*(range(release.domain[name].size) for name in attributes))
    for name, cell in zip(_cell_names(release, attributes), codes, strict=True):
        if all(codes[code] for codes, code in zip(known, cell, strict=True)):
            indicators = [np.eye(len(codes))[code] for codes, code in zip(known, cell, strict=True)]
            found = _per_row(question, name, question.of_codes(indicators), complete=True)
            intervals.append(replace(found, quantity="share"))
    return intervals


def without_value(release: Source, attributes: Sequence[str], *, confidence: float = 0.95) -> Interval:
    """Return an interval for the share of rows that lack a value in one of these columns: it is missing, or special."""
    release = Release.of(release)
    return _Question.of(release, attributes, confidence).without_value()


def mean(release: Source, attribute: str, *, confidence: float = 0.95) -> Interval:
    """Return an interval for the mean of a column whose codes stand for numbers, over all kept rows with a value.

    For a column in bins it is the mean of the middles of the bins; see `columns.notes_on_bins`. Where an outer bin is
    open, it is that of values clipped at the edges (`Interval.clipped`). Each row counts once, also where the domain
    declares survey weights; see `weights.weighted_mean`.
    """
    release = Release.of(release)
    question, column = _Question.of(release, [attribute], confidence), release.domain[attribute]
    name = f"mean of {attribute}{', unweighted' * (release.domain.weights is not None)}"
    found = _per_row(question, name, number_function(column), complete=True)
    return in_units_of(column, found)


def in_units_of(column: Column, mean: Interval) -> Interval:
    """Return the mean of a column in its units, and where its values were clipped."""
    decimals = 1 if column.decimals is None else column.decimals
    return replace(mean, quantity=quantity_of(column), decimals=decimals, clipped=clipped_at(column))


def quantile(release: Source, attribute: str, share: float, *, confidence: float = 0.95) -> Interval:
    """Return an interval for a quantile of a column: its smallest value with a share of the rows with a value up to it.

    Two one-sided tests, at a value and at the value below. The interval contains the values that neither test rejects.
    A quantile jumps, so the interval covers at least as often as stated: ``certified``.
    """
    release = Release.of(release)
    checks.open_unit("share", share)
    question = replace(_Question.of(release, [attribute], confidence), label="certified")
    values = np.sort(numbers_of(release.domain[attribute]))
    numbers, known = number_function(release.domain[attribute]), question.with_value()
    sums = question.sums(((numbers <= value) - share) * known for value in values)  # F(value) - share of N
    possible = np.ones(values.size, bool)
    for (score, variance), level in zip(sums, question.levels, strict=True):
        z, noise = -ndtri(level / 2), np.sqrt(np.maximum(variance, 0.0))
        possible &= (score >= -z * noise) & (np.r_[-math.inf, (score - z * noise)[:-1]] < 0)
    reached = np.flatnonzero(sums[0][0] >= 0)
    best = int(reached[0]) if reached.size else values.size - 1
    inside = np.flatnonzero(possible) if possible.any() else np.array([best])
    ends = values[best], values[inside.min()], values[inside.max()]
    found = question.interval(f"quantile {share:g} of {attribute}", *ends, complete=True)
    column = release.domain[attribute]
    in_open_bin = (column.bottom and found.low == values[0]) or (column.top and found.high == values[-1])
    return replace(found, quantity=quantity_of(column), clipped=clipped_at(column) if in_open_bin else "")


def odds_ratio(release: Source, first: str, second: str, *, confidence: float = 0.95) -> Interval:
    """Return an interval for the odds ratio of two columns of two values each, over all kept rows with both.

    The interval follows from simultaneous intervals of the four cells. It is wider than needed, so ``certified``.
    """
    release = Release.of(release)
    known = [with_value(release.domain[name]) for name in (first, second)]
    for name, codes in zip((first, second), known, strict=True):
        if codes.sum() != 2:
            raise InputError(f"an odds ratio needs columns of two codes; '{name}' has {codes.sum()}")
    question = replace(_Question.of(release, [first, second], confidence, count=4), label="certified")
    order = question.asked_order()
    four = zip(
        *(
            np.transpose(part, order)[:2, :2].ravel().tolist()
            for part in _intersection(question.cell_sums(), question.levels)
        ),
        strict=True,
    )
    a, b, c, d = ((max(low, 0.0), estimate, max(high, 0.0)) for estimate, low, high in four)

    def ratio(top: float, bottom: float) -> float:
        return top / bottom if bottom > 0 else (math.inf if top > 0 else 1.0)

    estimate = ratio(max(a[1], 0) * max(d[1], 0), max(b[1], 0) * max(c[1], 0))
    low = ratio(a[0] * d[0], b[2] * c[2]) if b[2] * c[2] > 0 else 0.0
    high = a[2] * d[2] / (b[0] * c[0]) if b[0] * c[0] > 0 else math.inf
    return question.interval(f"odds ratio of {first} and {second}", estimate, low, high, complete=True)


def difference(
    release: Source, attributes: Sequence[str], one: Sequence[int], other: Sequence[int], *, confidence: float = 0.95
) -> Interval:
    """Return an interval for the count of one cell of a marginal less that of another; cells are given as codes."""
    release = Release.of(release)
    question = _Question.of(release, attributes, confidence)
    function = np.zeros([release.domain[name].size for name in attributes])
    function[tuple(one)] += 1.0
    function[tuple(other)] -= 1.0
    cells = [
        ", ".join(
            f"{name}={code_names(release.domain[name])[code]}" for name, code in zip(attributes, cell, strict=True)
        )
        for cell in (one, other)
    ]
    function = np.transpose(function, np.argsort(question.asked_order()))
    return replace(_linear(question, f"{cells[0]} less {cells[1]}", function), quantity="difference")
