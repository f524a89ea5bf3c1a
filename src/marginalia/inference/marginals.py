"""Confidence sets for counts, shares, differences, odds ratios, means and quantiles of the coded table.

The noise of each answer is Gaussian and known, so the sets hold at every number of rows and every epsilon. In a release
that asks adaptively the k-th round that tells a marginal is a stopping time: its noise is Gaussian whatever was seen
before. The first is used at half of the error allowed, the second at a quarter, and so on, and the sets intersected;
of a release that asks once, the one round is used at all of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.inference.known import ALL_ROWS, Array, Clique, Known, Release, estimand_of, part_functions
from marginalia.learning.units import bin_reach, code_values
from marginalia.privacy import checks

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
        ``exact``: it covers with the stated probability, whatever the table. ``certified``: with at least that, as
        simultaneous sets, quantiles (which jump) and answers of a release that asks adaptively do.
        ``asymptotic``: nearly, where the noise is small beside the estimate.
    outside : bool
        Whether the set is what lies *outside* of [low, high]: a ratio whose denominator may be 0.
    estimand : str
        The rows that the number is of; see `known.estimand_of`.

    Examples
    --------
    >>> print(Interval("share of sex=F", 0.42, 0.40, 0.44))
    share of sex=F: 0.42 [0.4, 0.44] exact
    >>> print(Interval("mean of y", 2.2, 2.1, 2.3, estimand="over at most 1 row per id"))
    mean of y, over at most 1 row per id: 2.2 [2.1, 2.3] exact
    """

    name: str
    estimate: float
    low: float
    high: float
    label: str = "exact"
    outside: bool = False
    estimand: str = ALL_ROWS

    def __str__(self) -> str:
        set_ = f"outside of [{self.low:.4g}, {self.high:.4g}]" if self.outside else f"[{self.low:.4g}, {self.high:.4g}]"
        about = "" if self.estimand == ALL_ROWS else f", {self.estimand}"
        return f"{self.name}{about}: {self.estimate:.4g} {set_} {self.label}"

    @property
    def bounded(self) -> bool:
        """Whether it excludes both very small and very large values."""
        return not self.outside and math.isfinite(self.low) and math.isfinite(self.high)

    def contains(self, value: float) -> bool:
        """Return whether `value` is in the set."""
        inside = self.low <= value <= self.high
        return bool(not self.low < value < self.high if self.outside else inside)


def cells(
    release: Release, attributes: Sequence[str], *, confidence: float = 0.95, simultaneous: bool = False
) -> list[Interval]:
    """Return an interval for the count of every cell of a marginal.

    Parameters
    ----------
    release : Release
    attributes : sequence of str
    confidence : float, default 0.95
        Of each cell that is looked at because it was chosen beforehand, in (0, 1).
    simultaneous : bool, default False
        Whether `confidence` is of all cells together, so that the reader may choose after looking (Šidák's inequality
        for Gaussian noise, 1967).

    Returns
    -------
    list of Interval
        In the order of the cells, the last attribute fastest.

    Raises
    ------
    InputError
        The marginal, or one that holds it, was never asked.

    Examples
    --------
    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]] * 100, Domain.from_sizes({"a": 2, "b": 2}))
    >>> release = Release.of(ResidualPlanner(epsilon=5.0, random_state=0, relation="replace_one").fit(table))
    >>> [one.contains(truth) for one, truth in zip(cells(release, ["a"]), [100, 200])]
    [True, True]
    """
    estimate, low, high, label = cell_bounds(release, attributes, confidence=confidence, simultaneous=simultaneous)
    ends = zip(estimate.ravel().tolist(), low.ravel().tolist(), high.ravel().tolist(), strict=True)
    names, estimand = _cell_names(release, attributes), estimand_of(release.unit)
    return [Interval(name, *one, label, estimand=estimand) for name, one in zip(names, ends, strict=True)]


def cell_bounds(
    release: Release, attributes: Sequence[str], *, confidence: float = 0.95, simultaneous: bool = False
) -> tuple[Array, Array, Array, str]:
    """Return estimates, lower and upper ends of the counts on `attributes`, in their shape, and the label.

    As `cells`, all at once: the noise of every cell of a marginal has the same variance.

    >>> from marginalia.data import Domain, Table
    >>> from marginalia.synthesis import ResidualPlanner
    >>> table = Table([[0, 1], [1, 0], [1, 1]] * 100, Domain.from_sizes({"a": 2, "b": 2}))
    >>> release = Release.of(ResidualPlanner(epsilon=5.0, random_state=0, relation="replace_one").fit(table))
    >>> estimate, low, high, label = cell_bounds(release, ["b", "a"])
    >>> estimate.shape, bool((low < high).all()), label
    ((2, 2), True, 'exact')
    """
    clique, levels, rounds, label = _told(release, attributes, confidence)
    shape = [release.domain.sizes[a] for a in clique]
    count = math.prod(shape)
    if count > _MOST_CELLS:
        raise InputError(f"the marginal on {', '.join(attributes)} has more than {_MOST_CELLS:,} cells")
    if simultaneous and count > 1:
        label = "certified"  # Šidák's inequality
    found = []
    for known, level in zip(rounds, levels, strict=True):
        value, variance = known.counts(clique), known.cell_variance(clique)
        half = _z(level, count if simultaneous else 1) * math.sqrt(variance)
        found.append((value, value - half, value + half, 1.0 / max(variance, 1e-300)))
    low, high = np.max([f[1] for f in found], axis=0), np.min([f[2] for f in found], axis=0)
    torn = low > high  # the answers contradict each other, which is rare: the first stands
    low, high = np.where(torn, found[0][1], low), np.where(torn, found[0][2], high)
    estimate = np.average([f[0] for f in found], axis=0, weights=[f[3] for f in found])
    order = [clique.index(release.domain.index(name)) for name in attributes]
    estimate, low, high = (np.transpose(part, order) for part in (np.clip(estimate, low, high), low, high))
    return estimate, low, high, label


def _cell_names(release: Release, attributes: Sequence[str]) -> Iterator[str]:
    texts = [[f"{name}={text}" for text in release.domain[name].texts] for name in attributes]
    return (", ".join(cell) for cell in itertools.product(*texts))


def _z(level: float, count: int) -> float:
    """Return the two-sided quantile of noise at an error of `level`, of `count` numbers at once (Šidák 1967)."""
    each = level if count == 1 else -math.expm1(math.log1p(-level) / count)
    return float(-ndtri(each / 2))


def shares(
    release: Release, attributes: Sequence[str], *, confidence: float = 0.95, simultaneous: bool = False
) -> list[Interval]:
    """Return an interval for the share of every cell of a marginal; where the number of rows is private, a ratio.

    A ratio's set is Fieller's (1954): exact, and unbounded where the number of rows may be 0.
    """
    if release.n_rows is not None:
        n = max(1, release.n_rows)
        found = cells(release, attributes, confidence=confidence, simultaneous=simultaneous)
        return [replace(one, estimate=one.estimate / n, low=one.low / n, high=one.high / n) for one in found]
    clique, levels, rounds, label = _told(release, attributes, confidence)
    shape = [release.domain.sizes[a] for a in clique]
    if simultaneous and math.prod(shape) > 1:
        label = "certified"
        levels = [-math.expm1(math.log1p(-level) / math.prod(shape)) for level in levels]
    order = [clique.index(release.domain.index(name)) for name in attributes]
    places = np.transpose(np.arange(math.prod(shape)).reshape(shape), order).ravel()
    out = []
    for name, place in zip(_cell_names(release, attributes), places, strict=True):
        one = np.zeros(shape)
        one.ravel()[place] = 1.0
        out.append(_about(release, _ratio(name, rounds, clique, one, np.ones(shape), levels, label)))
    return out


def mean(release: Release, attribute: str, *, confidence: float = 0.95) -> Interval:
    """Return an interval for the mean of a column whose codes stand for numbers (`numbers_of`), over all kept rows.

    Of a column in bins it is the mean of their middles: `notes_on_bins`.
    """
    clique, levels, rounds, label = _told(release, [attribute], confidence)
    values = numbers_of(release, attribute)
    name = f"mean of {attribute}"
    if release.n_rows is not None:
        return _about(release, _linear(name, rounds, clique, values / max(1, release.n_rows), levels, label))
    return _about(release, _ratio(name, rounds, clique, values, np.ones(values.size), levels, label))


def quantile(release: Release, attribute: str, share: float, *, confidence: float = 0.95) -> Interval:
    """Return an interval for a quantile of an ordered column: its smallest value with a share of rows up to it.

    Two one-sided tests, at a code and at the one below; the interval runs over the codes that neither rejects.
    A quantile jumps, so it covers at least as often as it says: ``certified``.
    """
    checks.open_unit("share", share)
    clique, levels, rounds, _ = _told(release, [attribute], confidence)
    values = numbers_of(release, attribute)
    up_to = np.tril(np.ones((values.size, values.size)))  # row k: codes up to k
    kept, best = np.ones(values.size, bool), 0
    for at, (known, level) in enumerate(zip(rounds, levels, strict=True)):
        z = -ndtri(level / 2)
        found = [known.sum_of(part_functions(clique, below - share)) for below in up_to]  # F(k) - share of N
        score = np.array([value for value, _ in found])
        noise = np.sqrt([max(variance, 0.0) for _, variance in found])
        kept &= (score >= -z * noise) & (np.r_[-math.inf, (score - z * noise)[:-1]] < 0)
        if at == 0:
            best = int(np.argmax(score >= 0)) if (score >= 0).any() else values.size - 1
    inside = np.flatnonzero(kept) if kept.any() else np.array([best])
    return Interval(
        f"quantile {share:g} of {attribute}",
        float(values[best]),
        float(values[inside.min()]),
        float(values[inside.max()]),
        "certified",
        estimand=estimand_of(release.unit),
    )


def odds_ratio(release: Release, first: str, second: str, *, confidence: float = 0.95) -> Interval:
    """Return an interval for the odds ratio of two columns of two codes each, over all kept rows.

    From simultaneous intervals of the four cells; ``certified``, since that is wider than needed.
    """
    for name in (first, second):
        if release.domain[name].size != 2:
            raise InputError(f"an odds ratio needs columns of two codes; '{name}' has {release.domain[name].size}")
    four = cells(release, [first, second], confidence=confidence, simultaneous=True)
    (a, b, c, d) = ((max(one.low, 0.0), one.estimate, max(one.high, 0.0)) for one in four)

    def ratio(top: float, bottom: float) -> float:
        return top / bottom if bottom > 0 else (math.inf if top > 0 else 1.0)

    estimate = ratio(max(a[1], 0) * max(d[1], 0), max(b[1], 0) * max(c[1], 0))
    low = ratio(a[0] * d[0], b[2] * c[2]) if b[2] * c[2] > 0 else 0.0
    high = a[2] * d[2] / (b[0] * c[0]) if b[0] * c[0] > 0 else math.inf
    return _about(release, Interval(f"odds ratio of {first} and {second}", estimate, low, high, "certified"))


def difference(
    release: Release, attributes: Sequence[str], one: Sequence[int], other: Sequence[int], *, confidence: float = 0.95
) -> Interval:
    """Return an interval for the count of one cell of a marginal less that of another, given as codes."""
    clique, levels, rounds, label = _told(release, attributes, confidence)
    function = np.zeros([release.domain[name].size for name in attributes])
    function[tuple(one)] += 1.0
    function[tuple(other)] -= 1.0
    order = [list(attributes).index(release.domain.names[a]) for a in clique]
    name = f"{', '.join(attributes)}: {tuple(one)} less {tuple(other)}"
    return _about(release, _linear(name, rounds, clique, np.transpose(function, order), levels, label))


def numbers_of(release: Release, attribute: str) -> Array:
    """Return the number that each code of a column stands for: a numeric label, or the middle of a bin.

    Raises
    ------
    InputError
        Some code stands for no number: text, `other`, a special text, or a missing value.
    """
    column = release.domain[attribute]
    if column.n_values < column.size:
        apart = ", ".join(column.texts[column.n_values :])
        raise InputError(f"'{attribute}' has codes that stand for no number ({apart})")
    if column.type in ("string", "boolean"):
        raise InputError(f"'{attribute}' is of type {column.type}: its codes stand for no numbers")
    return code_values(column)


def notes_on_bins(domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    """Return a line for each of these columns that is in bins, where answers take it for numbers.

    Such answers are of the coded table, in which a row has the middle of its bin.

    >>> from marginalia.data import Attribute, Domain
    >>> age = Attribute("age", 2, "numeric", edges=(0, 20, 60), type="number", top=True)
    >>> notes_on_bins(Domain([age]), ["age"])
    ('age: a row counts as the middle of its bin, at most 20 from its value, and further in the open last one',)
    """
    notes = []
    for name in names:
        column, reach = domain[name], bin_reach(domain[name])
        outer = " and ".join(which for which, is_open in (("first", column.bottom), ("last", column.top)) if is_open)
        if reach:
            further = f", and further in the open {outer} one" if outer else ""
            notes.append(f"{name}: a row counts as the middle of its bin, at most {reach:.4g} from its value{further}")
        elif outer:
            notes.append(f"{name}: a row in the open {outer} bin counts as its middle, however far its value is")
    return tuple(notes)


def _about(release: Release, interval: Interval) -> Interval:
    """Return an interval that states the rows of the release."""
    return replace(interval, estimand=estimand_of(release.unit))


def _told(
    release: Release, attributes: Sequence[str], confidence: float
) -> tuple[Clique, list[float], list[Known], str]:
    """Return the marginal, the error that each round is allowed, the rounds that tell it, and what that promises."""
    alpha = 1.0 - checks.open_unit("confidence", confidence)
    positions = [release.domain.index(name) for name in attributes]
    if not positions or len(set(positions)) != len(positions):
        raise InputError("name at least one column, each once")
    clique = tuple(sorted(positions))
    rounds = release.holding(clique)
    if not rounds:
        text = ", ".join(attributes)
        raise InputError(f"the marginal on {text} was never asked, so no interval is known; release it, or all pairs")
    if len(release.rounds) == 1:
        return clique, [alpha], rounds, "exact"
    return clique, [alpha / 2 ** (k + 1) for k in range(len(rounds))], rounds, "certified"


def _linear(
    name: str, rounds: Sequence[Known], clique: Clique, function: Array, levels: Sequence[float], label: str
) -> Interval:
    """Return an interval for the sum of a function over all rows: the intersection over the rounds that tell it."""
    parts = part_functions(clique, function)
    found = []
    for known, level in zip(rounds, levels, strict=True):
        value, variance = known.sum_of(parts)
        half = -ndtri(level / 2) * math.sqrt(variance)
        found.append((value, variance, value - half, value + half))
    low, high = max(f[2] for f in found), min(f[3] for f in found)
    if low > high:  # the answers contradict each other, which is rare: the first stands
        low, high = found[0][2:]
    weights = np.array([1.0 / max(f[1], 1e-300) for f in found])
    estimate = float(np.dot(weights, [f[0] for f in found]) / weights.sum())
    return Interval(name, min(max(estimate, low), high), low, high, label)


def _ratio(
    name: str,
    rounds: Sequence[Known],
    clique: Clique,
    top: Array,
    bottom: Array,
    levels: Sequence[float],
    label: str,
) -> Interval:
    """Return Fieller's set of a ratio of two sums, from the first round that tells them."""
    known, z = rounds[0], -ndtri(levels[0] / 2)
    a, s_a = known.sum_of(part_functions(clique, top))
    b, s_b = known.sum_of(part_functions(clique, bottom))
    both = known.sum_of(part_functions(clique, top + bottom))[1]
    cross = (both - s_a - s_b) / 2
    # (a - r b)² <= z² (s_a - 2 r cross + r² s_b)
    q2, q1, q0 = b * b - z * z * s_b, -2 * (a * b - z * z * cross), a * a - z * z * s_a
    estimate = a / b if b != 0 else math.nan
    root = q1 * q1 - 4 * q2 * q0
    if q2 > 0:
        half = math.sqrt(max(root, 0.0))
        return Interval(name, estimate, (-q1 - half) / (2 * q2), (-q1 + half) / (2 * q2), label)
    if root <= 0 or q2 == 0:
        return Interval(name, estimate, -math.inf, math.inf, label)
    ends = sorted(((-q1 - math.sqrt(root)) / (2 * q2), (-q1 + math.sqrt(root)) / (2 * q2)))
    return Interval(name, estimate, ends[0], ends[1], label, outside=True)
