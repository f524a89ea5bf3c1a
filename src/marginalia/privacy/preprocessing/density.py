"""Where the values of a private column lie: noisy counts of cells that are divided where values are, and a density."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy.session import Session

Array = NDArray[np.float64]
Places = NDArray[np.intp]

# Shares of mu² of the rounds; without bounds the first one looks for them.
INSIDE = (0.15, 0.2, 0.25, 0.4)
ANYWHERE = (0.3, 0.15, 0.2, 0.35)
# Probability that noise passes for values, as bounds that are wrong by far make all cells too wide; where nothing is so
# sure, a guess is better than none.
FALSE_BOUND, FALSE_GUESS = 1e-4, 0.1
# Standard deviations of noise from which on thin ends belong to the values, and so do this many cells beyond the bounds
# together: the further they reach, the worse is a false alarm.
TAILS = {1: 2.0, 2: 2.5, 4: 3.0, 8: 3.5}
SURE = 4.0  # standard deviations from which on a cell is divided
END = 1.5  # and below which a stretch at either end is left out; or below SURE, if it has little mass (`SMALL`)
SMALL = 0.01
LEFT_OUT = 1e-6  # mass that such a stretch keeps inside public bounds
PENALTIES = (2.0, 4.0, 8.0)  # of one more stretch, in units of chi-square
MOST_CELLS = 700
# Cells that are known before any row is read.
EQUAL = 16  # inside public bounds
_WHOLE = 53  # whole numbers up to 2^53 are told apart
_SMALLEST, _LARGEST = -128, 128  # exponents of other numbers
_DUST, _NARROW = 30, 40  # binary digits below the largest number that are kept apart from 0, and from each other
ZERO_ENDS = math.nextafter(0.0, 1.0)  # [0, ZERO_ENDS) holds 0 alone


@dataclass(frozen=True)
class Density:
    """Estimated counts of adjacent cells of the number line, the outer ones open; values lie evenly inside a cell.

    >>> Density(np.array([0.0, 1.0, 2.0]), np.array([30.0, 12.5])).total
    42.5
    """

    edges: Array  # of shape (m + 1,)
    counts: Array  # of shape (m,), at least 0
    breaks: Array = field(default_factory=lambda: np.empty(0))  # the edges at which its shape changes

    @property
    def total(self) -> float:
        """Number of values, as far as the noise lets it be known; at least 1."""
        return max(1.0, float(self.counts.sum()))

    @property
    def below(self) -> Array:
        """Share of the values below each edge: from 0 to 1, or all 0 where there are none."""
        sums = np.concatenate([[0.0], np.cumsum(self.counts)])
        return sums / (sums[-1] or 1.0)


def density(
    values: Callable[[], Array],
    *,
    whole: bool,
    mu: float,
    session: Session,
    bounds: tuple[float, float] | None = None,
    limits: tuple[float, float] | None = None,
    tails: bool = True,
    label: str = "",
) -> Density:
    """Release where values lie: four Gaussian histograms, each of which divides the full cells of the one before.

    The first counts on a grid of powers of two, or on one that closes in on either end of the public bounds. A cell
    that surely holds values is then divided into the more parts, the more it holds. All cells are counted in every
    round; all counts together give a density of few stretches.

    Parameters
    ----------
    values : callable
        ``values()``: the private column, shape (n,), NaN where missing; evaluated inside the mechanism.
    whole : bool
        Whether the values are whole numbers (of days, of cents).
    mu : float
        All releases together are mu-GDP.
    session, label
        As in `additive.gaussian`.
    bounds : tuple of float, optional
        Public bounds: no round is spent on finding them.
    limits : tuple of float, optional
        The least and the largest value of the type, between which bounds are looked for.
    tails : bool, default True
        Whether bounds reach beyond what surely holds values, to where a thin tail may end: that costs little where
        bins follow counts. Else thin ends are left out, for the sake of bins of equal width.

    Returns
    -------
    Density

    Notes
    -----
    A record is in at most one cell of a round, so a round has L2 sensitivity 1 (add/remove) or √2; the rounds are
    adaptive Gaussian releases, which add up in Gaussian DP. Their number and noise are public: where no cell is worth
    dividing, the fullest one is divided all the same.

    Bounds from a logarithmic histogram: Karwa & Vadhan (2018), Algorithm 1; Wilson et al. (2020), section 5.1.1, as we
    do on powers of two of both signs. Occupied is what exceeds the noise of all empty stretches with probability 1 -
    FALSE_BOUND (a threshold of normal quantiles, by the union bound). A value beyond the bounds is misplaced, while an
    empty cell within them does little harm: so bounds grow over neighbouring cells that hold more than noise likely
    would.

    Dividing only what holds much: PrivTree (Zhang, Xiao & Xie 2016), there with Laplace noise at any depth and fan-out
    2. With a fan-out that follows the count four rounds reach any depth that matters (see docs/preprocessing.md).
    All counts of the tree are used by least squares: Hay, Rastogi, Miklau & Suciu (2010).

    Examples
    --------
    >>> ages = np.repeat(np.arange(20.0, 60.0), 100)
    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> found = density(lambda: ages, whole=True, mu=1.0, session=session)
    >>> found.edges[[0, -1]]
    array([20., 60.])
    """
    shares = ANYWHERE if bounds is None else INSIDE
    sigmas = [session.neighbours.marginal_sensitivity_l2 / (mu * math.sqrt(share)) for share in shares]

    def count(edges: Array, sigma: float, name: str) -> Array:
        return session.gaussian(
            lambda: histogram(values(), edges),
            sensitivity=session.neighbours.marginal_sensitivity_l2,
            sigma=sigma,
            label=f"{label}: {name}",
        )

    if bounds is None:
        edges = number_line(whole, limits)
        edges, counts, variances = _inside(edges, count(edges, sigmas[0], "bounds"), sigmas[0], tails, whole)
    else:
        edges = grid(*bounds, whole)
        counts = count(edges, sigmas[0], "cells")
        variances = np.full(counts.size, sigmas[0] ** 2)
    rounds = [(counts, variances)]
    parents: list[Places] = []
    for sigma in sigmas[1:]:
        edges, parts = _divided(edges, *least_squares(rounds, parents), sigma, whole)
        rounds.append((count(edges, sigma, "parts"), np.full(parts.size, sigma**2)))
        parents.append(parts)
    return smoothed(edges, *least_squares(rounds, parents), trimmed=bounds is None, tails=tails)


def least_squares(rounds: list[tuple[Array, Array]], parents: list[Places]) -> tuple[Array, Array]:
    """Return the best linear estimates of the counts of the finest cells, from all rounds, and their variances.

    Parameters
    ----------
    rounds : list of (counts, variances)
        Of all cells of each round, which divide those of the round before.
    parents : list of arrays
        For each cell of the second round and on, the cell of the round before that it is a part of.

    Examples
    --------
    >>> rounds = [(np.array([10.0]), np.array([1.0])), (np.array([4.0, 5.0]), np.array([1.0, 1.0]))]
    >>> [a.round(3).tolist() for a in least_squares(rounds, [np.array([0, 0])])]
    [[4.333, 5.333], [0.667, 0.667]]
    """
    known, sums = [rounds[-1]], []
    for (counts, variances), parts in zip(rounds[-2::-1], parents[::-1], strict=True):  # up the tree
        finer, noise = known[-1]
        total, spread = np.bincount(parts, finer), np.bincount(parts, noise)
        together = 1 / (1 / variances + 1 / spread)
        sums.append((total, spread))
        known.append((together * (counts / variances + total / spread), together))
    estimate, variance = known.pop()
    for (finer, noise), (total, spread), parts in zip(known[::-1], sums[::-1], parents, strict=True):  # and down
        weight = noise / spread[parts]
        variance = noise - noise * weight + weight**2 * variance[parts]
        estimate = finer + weight * (estimate - total)[parts]
    return estimate, variance


def smoothed(edges: Array, counts: Array, variances: Array, *, trimmed: bool, tails: bool = True) -> Density:
    """Return a density of few stretches, each even in the values or in their logarithms, that fits noisy counts.

    The mean of three partitions into stretches, of which each minimises chi-square plus a penalty for a stretch. A
    stretch at either end that may be empty has no values; it is cut off if `trimmed`, else it keeps a little mass.
    Without `tails` one that is not surely occupied may be empty.

    >>> edges, counts = np.arange(7.0), np.array([0.0, 50.0, 49.0, 51.0, 9.0, 11.0])
    >>> smoothed(edges, counts, np.full(6, 4.0), trimmed=True).counts.round().tolist()
    [50.0, 50.0, 50.0, 10.0, 10.0]
    """
    widths = [_widths(edges), _widths(_logarithms(edges))]
    cost, shape = _costs(widths, counts, variances)
    fits, breaks, total = [], {0, counts.size}, float(counts.sum())
    for penalty in PENALTIES:
        stretches = _cheapest(cost + penalty)
        fit, sure = np.zeros(counts.size), []
        for i, j in stretches:
            width = widths[shape[i, j]][i:j]
            precision = float((width**2 / variances[i:j]).sum())
            height = float((width * counts[i:j] / variances[i:j]).sum()) / precision
            fit[i:j] = max(height, 0.0) * width
            least = END if tails and fit[i:j].sum() > SMALL * total else SURE
            sure.append(height * math.sqrt(precision) > least)
        if any(sure):
            first, last = sure.index(True), len(sure) - 1 - sure[::-1].index(True)
            fit[: stretches[first][0]] = fit[stretches[last][1] :] = 0.0
        fits.append(fit)
        breaks |= {j for _, j in stretches}
    counts = np.mean(fits, axis=0)
    held = np.flatnonzero(counts)
    if not held.size:
        return Density(edges, counts, edges[[0, -1]])
    first, end = int(held[0]), int(held[-1]) + 1
    inner = edges[sorted({first, end} | {b for b in breaks if first < b < end})]
    if trimmed:
        return Density(edges[first : end + 1], counts[first:end], inner)
    for outer in (slice(0, first), slice(end, counts.size)):
        length = widths[1][outer]
        counts[outer] = LEFT_OUT * counts[first:end].sum() * length / (length.sum() or 1.0)
    return Density(edges, counts, np.unique([edges[0], *inner, edges[-1]]))


def _logarithms(edges: Array) -> Array:
    """Return sign(x) log(1 + |x|/u), with u the least edge beside 0 that is not negligible."""
    size = np.abs(edges)
    unit = max(float(size[size > ZERO_ENDS].min(initial=size.max())), 2.0**-20 * float(size.max()))
    return np.asarray(np.sign(edges) * np.log1p(size / unit))


def _widths(edges: Array) -> Array:
    """Return the widths of cells, as shares of all; that of 0 alone is negligible but not 0."""
    return np.asarray(np.maximum(np.diff(edges) / (edges[-1] - edges[0]), 2.0**-60))


def _costs(widths: list[Array], counts: Array, variances: Array) -> tuple[Array, NDArray[np.int8]]:
    """Return the least chi-square of a stretch from cell i up to j, and in which widths it is even then."""
    m = counts.size
    costs = np.full((len(widths), m, m + 1), np.inf)
    for i in range(m):  # sums from i on: differences of sums from 0 on would lose the narrow cells
        y, var = counts[i:], variances[i:]
        squares = np.cumsum(y**2 / var)
        for cost, width in zip(costs, widths, strict=True):
            w = width[i:]
            cost[i, i + 1 :] = squares - np.cumsum(w * y / var) ** 2 / np.cumsum(w**2 / var)
    shape = costs.argmin(axis=0).astype(np.int8)
    return np.take_along_axis(costs, shape[None], axis=0)[0], shape


def _cheapest(cost: Array) -> list[tuple[int, int]]:
    """Return the stretches (i, j) from the first to the last cell whose costs have the smallest sum."""
    m = cost.shape[0]
    best, back = np.zeros(m + 1), np.zeros(m + 1, dtype=np.intp)
    for j in range(1, m + 1):
        through = best[:j] + cost[:j, j]
        back[j] = through.argmin()
        best[j] = through[back[j]]
    stretches, j = [], m
    while j > 0:
        stretches.append((int(back[j]), j))
        j = int(back[j])
    return stretches[::-1]


def _inside(edges: Array, counts: Array, sigma: float, tails: bool, whole: bool) -> tuple[Array, Array, Array]:
    """Return the cells between bounds, with their counts and variances; [0, 1] where nothing, or 0 alone, is found."""
    first, last = _bounds(edges, counts, sigma, tails)
    if last < first:
        return np.array([0.0, 1.0]), np.zeros(1), np.array([sigma**2])
    edges, counts = edges[first : last + 2], counts[first : last + 1]
    if edges.tolist() == [0.0, ZERO_ENDS]:  # it has no width to divide
        return np.array([0.0, 1.0]), counts, np.array([sigma**2])
    kept = np.ones(edges.size, dtype=bool) if whole else _without_dust(edges)
    starts = np.flatnonzero(kept)
    counts = np.add.reduceat(counts[: starts[-1]], starts[:-1])
    return edges[kept], counts, sigma**2 * np.diff(starts).astype(float)


def _bounds(edges: Array, counts: Array, sigma: float, tails: bool) -> tuple[int, int]:
    """Return the first and the last cell between which values lie; (0, -1) where nothing is known."""
    from scipy.special import ndtri  # here, since scipy is slow to load

    below, cells = np.concatenate([[0.0], np.cumsum(counts)]), counts.size

    def held(left: int, width: int, least: float) -> bool:
        inside = left >= 0 and left + width <= cells
        return inside and float(below[left + width] - below[left]) > math.sqrt(width) * least

    for failure, width in itertools.product((FALSE_BOUND, FALSE_GUESS), TAILS):  # the narrowest in which values show
        least = -sigma * float(ndtri(failure / (len(TAILS) * cells)))
        found = [i for i in range(cells - width + 1) if held(i, width, least)]
        if found:
            break
    else:
        return 0, -1
    first, last = found[0], found[-1] + width - 1
    if tails:
        while more := next((w for w in TAILS if held(last + 1, w, TAILS[w] * sigma)), 0):
            last += more
        while more := next((w for w in TAILS if held(first - w, w, TAILS[w] * sigma)), 0):
            first -= more
    return first, last


def _divided(edges: Array, counts: Array, variances: Array, sigma: float, whole: bool) -> tuple[Array, Places]:
    """Return finer edges, and for each cell between them the old cell that it is a part of.

    A cell that surely holds values has as many parts as show above the noise `sigma` of the next count; the fullest has
    some if none does.
    """
    most = _most_parts(edges, whole)
    full = (counts > SURE * np.sqrt(variances)) & (most > 1)
    wanted = np.maximum(np.where(full, counts, 1.0) / (2 * sigma), 1.0)
    parts = np.where(full, np.clip(2.0 ** np.ceil(np.log2(wanted)), 4, 256), 1.0)
    if full.any():
        outer = np.flatnonzero(full)[[0, -1]]
        parts[outer] = np.maximum(parts[outer], 8)
    elif (most > 1).any():
        parts[np.where(most > 1, counts, -np.inf).argmax()] = 4
    while np.minimum(parts, most).sum() > MOST_CELLS and (parts > 1).any():
        parts = np.maximum(parts // 2, 1)
    pieces = [
        divided(a, b, int(n), whole)[:-1]
        for a, b, n in zip(edges[:-1].tolist(), edges[1:].tolist(), parts, strict=True)
    ]
    return np.concatenate([*pieces, edges[-1:]]), np.repeat(np.arange(parts.size), [p.size for p in pieces])


def _most_parts(edges: Array, whole: bool) -> Array:
    width = np.diff(edges)
    if whole:
        return width
    return np.where(width > 2.0**-_NARROW * np.abs(edges).max(), 256.0, 1.0)


def number_line(whole: bool, limits: tuple[float, float] | None = None) -> Array:
    """Return edges that follow powers of two, the same on both sides of 0; the outer cells are open.

    A grid that is public whatever the rows hold: 0, ±1, ±2, ±4, .. ±2^53 for whole numbers, else 0 and ±2^k for k
    from -128 to 128, and a cell for 0 alone; inside `limits` where a type has some.

    >>> number_line(whole=True)[53:58], number_line(whole=True, limits=(-3, 3))
    (array([-1.,  0.,  1.,  2.,  4.]), array([-3., -2., -1.,  0.,  1.,  2.,  3.]))
    """
    powers = 2.0 ** np.arange(0 if whole else _SMALLEST, (_WHOLE if whole else _LARGEST) + 1)
    edges = np.concatenate([-powers[::-1], [0.0] if whole else [0.0, ZERO_ENDS], powers])
    return edges if limits is None else np.unique(np.clip(edges, *limits))


def grid(lower: float, upper: float, whole: bool) -> Array:
    """Return edges between public bounds: 16 equal cells, the number line, and steps that close in on either end.

    >>> grid(0.0, 20.0, whole=True)[:8]
    array([0., 1., 2., 4., 5., 6., 8., 9.])
    """
    width = upper - lower
    steps = width * 2.0 ** -np.arange(1, _DUST + 1)
    steps = steps[steps >= 1] if whole else steps
    edges = np.concatenate([divided(lower, upper, EQUAL, whole), lower + steps, upper - steps, number_line(whole)])
    edges = np.unique(np.clip(np.rint(edges) if whole else edges, lower, upper))
    return edges if whole else np.unique([lower, *edges[_without_dust(edges)], upper])


def divided(left: float, right: float, parts: int, whole: bool) -> Array:
    """Return the edges of the equal parts of one cell, its own included.

    >>> divided(64.0, 128.0, 16, whole=True)[:3], divided(2.0, 4.0, 16, whole=True)
    (array([64., 68., 72.]), array([2., 3., 4.]))
    """
    edges = np.linspace(left, right, parts + 1)
    return np.unique(np.rint(edges)) if whole else edges


def _without_dust(edges: Array) -> NDArray[np.bool_]:
    """Return which edges to keep: not those so near to 0, or to another, that it does not matter beside the largest."""
    largest, of_zero = float(np.abs(edges).max()), (edges == 0) | (edges == ZERO_ENDS)
    apart = np.append(True, np.diff(edges) > largest * 2.0**-_NARROW)
    return np.asarray(of_zero | (apart & (np.abs(edges) >= largest * 2.0**-_DUST)))


def histogram(values: Array, edges: Array) -> NDArray[np.int64]:
    """Count values in left-closed cells, the outer ones open at their ends; NaN is in none.

    >>> histogram(np.array([-9.0, 0.0, 1.0, 5.0, np.nan, np.inf]), np.array([0.0, 1.0, 2.0]))
    array([2, 3])
    """
    cells = np.searchsorted(edges[1:-1], values[~np.isnan(values)], side="right")
    return np.bincount(cells, minlength=edges.size - 1).astype(np.int64)
