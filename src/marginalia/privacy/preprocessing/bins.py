"""Bins from noisy counts of cells: post-processing, which reads no row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy.preprocessing.density import Density

Array = NDArray[np.float64]

SPREAD = 0.25  # what a bin of mass m costs beside its deviation d from evenness, in m (d + SPREAD m)
TOLERANCE = 0.001  # share of all values by which those drawn inside bins may be misplaced
_PARTS, _MOST_PARTS = 8, 512  # of equal mass, for each bin and in all: `adaptive` chooses between them


def uniform(density: Density, bins: int, whole: bool) -> Array:
    """Return edges of bins of equal width.

    >>> uniform(Density(np.array([0.0, 4.0, 8.0]), np.array([9.0, 1.0])), 4, True)
    array([0., 2., 4., 6., 8.])
    """
    edges = np.linspace(density.edges[0], density.edges[-1], bins + 1)
    return np.unique(np.rint(edges) if whole else edges)  # in a very narrow range some are the same


def quantile(density: Density, bins: int, whole: bool) -> Array:
    """Return edges of bins of equal count, as if values lay evenly inside each cell.

    A cell that holds as much as a bin is cut off from its neighbours: its value may be a single one.

    >>> quantile(Density(np.array([0.0, 1.0, 9.0]), np.array([60.0, 40.0])), 2, True)
    array([0., 1., 9.])
    """
    inner = np.interp(np.arange(1, bins) / bins, density.below, density.edges)
    if whole:
        inner = np.rint(inner)
    heavy = density.counts >= density.counts.sum() / bins
    inside = heavy[np.clip(np.searchsorted(density.edges, inner, side="right") - 1, 0, heavy.size - 1)]
    sides = [density.edges[:-1][heavy], density.edges[1:][heavy]] if inside.any() else []
    edges = np.unique(np.concatenate([density.edges[[0, -1]], inner, *sides]))
    return edges if edges.size <= bins + 1 else _fewest_lost(density, edges, bins)


def adaptive(density: Density, bins: int, whole: bool) -> Array:
    """Return edges such that values lie evenly inside a bin, and no bin holds very many.

    The sum over bins of m (d + SPREAD m) is smallest, with m the share of values in a bin and d the largest deviation
    of its counts from even ones: the mean error of a range query that ends at the place of a random value, where d is
    what evenness gets wrong inside the bin it ends in, and SPREAD m stands for what a bin hides of other columns. An
    optimal histogram by dynamic programming (Jagadish et al. 1998, there with squared errors). Edges are chosen from
    those at which the shape of the density changes, and from those of parts of equal mass.

    >>> density = Density(np.array([0.0, 1.0, 2.0, 3.0, 8.0]), np.array([90.0, 0.0, 2.0, 8.0]), np.array([1.0]))
    >>> adaptive(density, 2, True)
    array([0., 1., 8.])
    """
    parts = min(_PARTS * bins, _MOST_PARTS) if density.counts.any() else 1
    places = np.interp(np.arange(1, parts) / parts, density.below, density.edges)
    edges = np.unique(np.concatenate([density.edges[[0, -1]], density.breaks, np.rint(places) if whole else places]))
    return _fewest_lost(density, edges, bins)


RULES: Mapping[str, Callable[[Density, int, bool], Array]] = {
    "adaptive": adaptive,
    "quantile": quantile,
    "uniform": uniform,
}


def without_empty(edges: Array, marks: Iterable[float]) -> Array:
    """Return edges of whole numbers such that each bin holds one that is no mark of a missing value.

    >>> without_empty(np.array([-1.0, 0.0, 5.0]), [-1.0])
    array([-1.,  5.])
    """
    kept, marks = [float(edges[0])], list(marks)
    for right in edges[1:].tolist():
        numbers = math.ceil(right) - math.ceil(kept[-1])
        if numbers - sum(kept[-1] <= mark < right for mark in marks) >= 1:
            kept.append(right)
        elif len(kept) > 1:
            kept[-1] = right
    if len(kept) == 1:  # nothing but marks: one bin that reaches beyond them
        kept.append(max(float(edges[-1]), kept[0]) + len(marks) + 1)
    return np.array(kept)


def places_within(density: Density, edges: Array) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Return for each bin how its values lie: places inside it, and the shares of its values below them.

    Values lie evenly between two of them; the fewest places, greedily, that keep `TOLERANCE` (Douglas & Peucker 1973).

    >>> places_within(Density(np.array([0.0, 1.0, 8.0]), np.array([50.0, 50.0])), np.array([0.0, 8.0]))
    (((1.0, 0.5),),)
    """
    x = np.union1d(density.edges, edges)
    F = np.interp(x, density.edges, density.below)

    def between(i: int, j: int) -> list[int]:
        """Return the places to keep between two that are kept."""
        off = np.abs(F[i : j + 1] - F[i] - (F[j] - F[i]) * ((x[i : j + 1] - x[i]) / (x[j] - x[i])))
        k = i + int(off.argmax())
        return [*between(i, k), k, *between(k, j)] if off[k - i] > TOLERANCE else []

    ends = np.searchsorted(x, edges).tolist()
    return tuple(
        tuple((float(x[k]), round(float((F[k] - F[i]) / (F[j] - F[i])), 4)) for k in between(i, j))
        for i, j in itertools.pairwise(ends)
    )


def _fewest_lost(density: Density, edges: Array, bins: int) -> Array:
    """Return at most `bins` + 1 of `edges`, the outer ones among them, with the smallest cost (see `adaptive`)."""
    m = edges.size - 1
    if m <= bins:
        return edges
    x, F = density.edges, density.below
    G = np.interp(edges, x, F)
    cost = np.full((m, m + 1), np.inf)  # of a bin from edge i to edge j
    for i in range(m):
        j = np.arange(i + 1, m + 1)
        inside = (x > edges[i]) & (x < edges[-1])
        xs, Fs = x[inside], F[inside]
        with np.errstate(over="ignore"):  # beyond a bin that holds 0 alone, where it does not count
            way = np.minimum((xs[None, :] - edges[i]) / (edges[j] - edges[i])[:, None], 1.0)
        off = np.abs(Fs[None, :] - G[i] - (G[j] - G[i])[:, None] * way)
        off[xs[None, :] >= edges[j][:, None]] = 0.0
        mass = G[j] - G[i]
        cost[i, j] = mass * (off.max(axis=1, initial=0.0) + SPREAD * mass)
    best = np.full((bins + 1, m + 1), np.inf)
    best[0, 0] = 0.0
    back = np.zeros((bins + 1, m + 1), dtype=np.intp)
    for b in range(1, bins + 1):
        through = best[b - 1, :m, None] + cost
        back[b], best[b] = through.argmin(axis=0), through.min(axis=0)
    at, chosen = m, [m]
    for b in range(int(best[:, m].argmin()), 0, -1):
        at = int(back[b, at])
        chosen.append(at)
    return edges[chosen[::-1]]
