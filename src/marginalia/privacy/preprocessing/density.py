"""Where the values of a private column lie: noisy counts of cells, divided further where there are many values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import gaussian
from marginalia.privacy.randomness import Randomness

Array = NDArray[np.float64]

FAILURE = 0.01  # probability that some empty cell of a round passes for an occupied one
FALSE_BOUND = 1e-4  # the same for the bounds of a column: one that is wrong by far makes all cells too wide
# Standard deviations of noise from which on thin ends belong to the values, and so do this many cells beyond the bounds
# together: the further they reach, the worse is a false alarm.
TAIL = 2.0
TAILS = {1: TAIL, 2: 2.5, 4: 3.0, 8: 3.5}
MOST_DIVIDED = 64  # cells a round
# Cells that are known before any row is read.
FAN_OUT = 16  # parts of a divided cell
_WHOLE = 53  # whole numbers up to 2^53 are told apart
_SMALLEST, _LARGEST = -128, 128  # exponents of other numbers
_RANGE = 20  # binary digits below the largest number that are kept apart from 0


@dataclass(frozen=True)
class Density:
    """Noisy counts of adjacent cells of the number line, the outer ones open.

    >>> Density(np.array([0.0, 1.0, 2.0]), np.array([30.0, 12.5])).total
    42.5
    """

    edges: Array  # of shape (m + 1,)
    counts: Array  # of shape (m,), at least 0

    @property
    def total(self) -> float:
        """Number of values, as far as the noise lets it be known; at least 1."""
        return max(1.0, float(self.counts.sum()))


def releases(rounds: int, bounds: tuple[float, float] | None) -> int:
    """Return how many Gaussian releases `density` makes.

    >>> releases(2, None), releases(2, (0.0, 100.0))
    (3, 2)
    """
    return rounds + (bounds is None)


def density(
    values: Callable[[], Array],
    *,
    whole: bool,
    rounds: int,
    worth: float,
    sigma: float,
    ledger: Ledger,
    randomness: Randomness,
    bounds: tuple[float, float] | None = None,
    limits: tuple[float, float] | None = None,
    tails: bool = True,
    label: str = "",
) -> Density:
    """Release where values lie: rounds of Gaussian histograms, each of which divides the full cells of the one before.

    The first round counts on a grid of powers of two (or divides the public bounds); each of `rounds` more divides
    every cell that holds enough, and the outermost ones that hold anything, into 16 and counts all cells again. Nearly
    empty cells at either end are left out.

    Parameters
    ----------
    values : callable
        ``values()``: the private column, shape (n,), NaN where missing; evaluated inside the mechanism.
    whole : bool
        Whether the values are whole numbers.
    rounds : int
    worth : float
        Share of all values from which on a cell is divided.
    sigma : float
        Standard deviation of the noise of each count of each round.
    ledger, randomness, label
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
    adaptive Gaussian releases, which add up in Gaussian DP. The number of releases is public (`releases`): where no
    cell is worth dividing, the fullest one is divided all the same.

    Bounds from a logarithmic histogram: Karwa & Vadhan (2018), Algorithm 1; Wilson et al. (2020), section 5.1.1, as we
    do on powers of two of both signs. With probability 1 - FALSE_BOUND no empty stretch of the first round counts as
    occupied (a threshold of normal quantiles, by the union bound). A value beyond the bounds is misplaced, while an
    empty cell within them does little harm: so bounds grow over neighbouring cells that hold more than noise likely
    would. Every cell is counted in every round: a cell that is not divided gets a better count for nothing.

    Dividing only what holds much: PrivTree (Zhang, Xiao & Xie 2016), there with Laplace noise at any depth and fan-out
    2; at a fixed depth a round of Gaussian noise costs less (see docs/preprocessing.md).

    Examples
    --------
    >>> ages = np.repeat(np.arange(20.0, 60.0), 100)
    >>> found = density(
    ...     lambda: ages, whole=True, rounds=1, worth=0.02, sigma=5.0, ledger=Ledger("add_remove"),
    ...     randomness=Randomness(0),
    ... )
    >>> found.edges[[0, -1]], found.edges.size
    (array([17., 60.]), 30)
    """

    def count(edges: Array, name: str) -> Array:
        return gaussian(
            lambda: histogram(values(), edges),
            sensitivity=ledger.relation.marginal_l2,
            sigma=sigma,
            ledger=ledger,
            randomness=randomness,
            label=f"{label}: {name}",
        )

    edges = number_line(whole, limits) if bounds is None else divided(*bounds, whole)
    counts = count(edges, "bounds" if bounds is None else "cells")
    if bounds is None:
        first, last = _bounds(edges, counts, sigma, tails)
        if last >= first:
            edges, counts = without_dust(edges[first : last + 2], counts[first : last + 1])
        else:  # nothing is known
            edges, counts = np.array([0.0, 1.0]), np.zeros(1)
    variances = np.full(counts.size, sigma**2)
    for _ in range(rounds - (bounds is not None)):
        counts = np.maximum(counts, 0.0)
        noise = _threshold(sigma, counts.size)
        least = np.full(counts.size, max(noise, worth * float(counts.sum())))
        held = np.flatnonzero(counts > noise)
        least[held[[0, -1]] if held.size else 0] = noise  # where values begin and end matters however few they are
        finer, parts = _divided(edges, counts, least, whole)
        edges, counts, variances = _merged(finer, parts, count(finer, "parts"), counts, variances, sigma)
        if bounds is None:
            dust = TAIL * sigma if tails else _threshold(sigma, counts.size)
            edges, counts, variances = _trimmed(edges, counts, variances, dust)
    return Density(edges, np.maximum(counts, 0.0))


def _threshold(sigma: float, cells: int, failure: float = FAILURE) -> float:
    """Return what the noise of so many empty cells exceeds anywhere with probability at most `failure`."""
    from scipy.special import ndtri  # here, since scipy is slow to load

    return -sigma * float(ndtri(failure / cells))


def _bounds(edges: Array, counts: Array, sigma: float, tails: bool) -> tuple[int, int]:
    """Return the first and the last cell between which values lie; (0, -1) where nothing is known."""
    below, cells = np.concatenate([[0.0], np.cumsum(counts)]), counts.size

    def held(left: int, width: int, least: float) -> bool:
        inside = left >= 0 and left + width <= cells
        return inside and float(below[left + width] - below[left]) > math.sqrt(width) * least

    surely = _threshold(sigma, len(TAILS) * cells, FALSE_BOUND)
    for width in TAILS:  # the narrowest in which values show
        found = [i for i in range(cells - width + 1) if held(i, width, surely)]
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


def _divided(edges: Array, counts: Array, least: Array, whole: bool) -> tuple[Array, NDArray[np.intp]]:
    """Return finer edges, and for each cell between them the old cell that it is a part of.

    Divided are the cells with more than `least` values, the fullest if none has.
    """
    inner = [divided(a, b, whole)[1:-1] for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]
    can = np.array([one.size > 0 for one in inner])
    order = np.argsort(np.where(can, -counts, np.inf), kind="stable")[:MOST_DIVIDED]
    chosen = [int(i) for i in order if can[i] and counts[i] > least[i]] or [int(order[0])]
    pieces, parts = [], []
    for i, left in enumerate(edges[:-1].tolist()):
        new = inner[i] if i in chosen else np.empty(0)
        pieces += [np.array([left]), new]
        parts += [i] * (new.size + 1)
    return np.concatenate([*pieces, edges[-1:]]), np.array(parts)


def _merged(
    edges: Array, parts: NDArray[np.intp], measured: Array, counts: Array, variances: Array, sigma: float
) -> tuple[Array, Array, Array]:
    """Return the cells with their counts: those of parts adjusted to what was known of the cell that they divide.

    The difference is shared evenly, by inverse variance (Hay, Rastogi, Miklau & Suciu 2010, one step down the tree);
    a cell counted again as a whole has the weighted mean of its counts.
    """
    size = np.bincount(parts)
    noise = size * sigma**2
    gap = (counts - np.bincount(parts, measured)) / size * noise / (noise + variances)
    again = 1 / (1 / variances + 1 / sigma**2)
    return edges, measured + gap[parts], np.where(size == 1, again, sigma**2)[parts]


def _trimmed(edges: Array, counts: Array, variances: Array, least: float) -> tuple[Array, Array, Array]:
    """Leave out cells at either end that together hold at most `least` values.

    Not more, though the noise of many cells could explain it: what is left out is misplaced, and a wide outer bin with
    few values does little harm.
    """
    first, last = 0, counts.size - 1
    while first < last and counts[: first + 1].sum() <= least:
        first += 1
    while last > first and counts[last:].sum() <= least:
        last -= 1
    return edges[first : last + 2], counts[first : last + 1], variances[first : last + 1]


def number_line(whole: bool, limits: tuple[float, float] | None = None) -> Array:
    """Return edges that follow powers of two, the same on both sides of 0; the outer cells are open.

    A grid that is public whatever the rows hold: 0, ±1, ±2, ±4, .. ±2^53 for whole numbers, else 0 and ±2^k for k
    from -128 to 128; inside `limits` where a type has some.

    >>> number_line(whole=True)[53:58], number_line(whole=True, limits=(-3, 3))
    (array([-1., 0., 1., 2., 4.]), array([-3., -2., -1., 0., 1., 2., 3.]))
    """
    powers = 2.0 ** np.arange(0 if whole else _SMALLEST, (_WHOLE if whole else _LARGEST) + 1)
    edges = np.concatenate([-powers[::-1], [0.0], powers])
    return edges if limits is None else np.unique(np.clip(edges, *limits))


def divided(left: float, right: float, whole: bool) -> Array:
    """Return the edges of the equal parts of one cell, its own included; a cell too narrow to divide keeps its two.

    >>> divided(64.0, 128.0, whole=True)[:3], divided(2.0, 4.0, whole=True), divided(0.0, 1.0, whole=True)
    (array([64., 68., 72.]), array([2., 3., 4.]), array([0., 1.]))
    """
    edges = np.linspace(left, right, FAN_OUT + 1)
    if whole:
        return np.unique(np.rint(edges))
    return edges if (np.diff(edges) > 2.0**-40 * max(abs(left), abs(right))).all() else edges[[0, -1]]


def without_dust(edges: Array, counts: Array) -> tuple[Array, Array]:
    """Merge the cells nearest to 0 that are too small, beside the outermost ones, to matter.

    >>> without_dust(np.array([0.0, 2.0**-30, 1.0, 2.0]), np.array([3.0, 1.0, 9.0]))
    (array([0., 1., 2.]), array([4., 9.]))
    """
    kept = (edges == 0) | (np.abs(edges) >= np.abs(edges).max() * 2.0**-_RANGE)
    kept[[0, -1]] = True
    return edges[kept], np.add.reduceat(counts, np.flatnonzero(kept)[:-1])


def histogram(values: Array, edges: Array) -> NDArray[np.int64]:
    """Count values in left-closed cells, the outer ones open at their ends; NaN is in none.

    >>> histogram(np.array([-9.0, 0.0, 1.0, 5.0, np.nan, np.inf]), np.array([0.0, 1.0, 2.0]))
    array([2, 3])
    """
    cells = np.searchsorted(edges[1:-1], values[~np.isnan(values)], side="right")
    return np.bincount(cells, minlength=edges.size - 1).astype(np.int64)
