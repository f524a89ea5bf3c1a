"""Greedy variable elimination, and the junction-tree size that the papers' MAX-SIZE rule counts.

Attributes are integers (column positions). The graph is kept as bit masks in several int64 words, so any
number of attributes works. Eliminating v joins its closed neighbourhood into one clique; the greedy order
takes the smallest resulting clique first, ties by column order (McKenna et al. 2019, Private-PGM).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

Clique = tuple[int, ...]

_BITS = 62  # per signed 64-bit word: no shift touches the sign
_MB = 8 / 2**20


@dataclass(frozen=True, slots=True)
class Elimination:
    """A greedy elimination.

    >>> eliminate([(0, 1), (1, 2)], (2, 3, 4)).megabytes * 2**20  # 2*3 + 3*4 cells of 8 bytes
    144.0
    """

    order: tuple[int, ...]  # attributes, first eliminated first
    scopes: tuple[Clique, ...]  # sorted clique made by each elimination, the eliminated attribute included
    cells: float  # sum over the maximal cliques of the triangulated graph

    @property
    def megabytes(self) -> float:
        """Size of the junction tree's tables in float64, as the MAX-SIZE rule counts it."""
        return self.cells * _MB


def eliminate(cliques: Iterable[Clique], sizes: Sequence[int]) -> Elimination:
    """Eliminate every attribute greedily.

    Parameters
    ----------
    cliques : iterable of Clique
    sizes : sequence of int
        Number of values of every attribute of the domain.

    Examples
    --------
    >>> eliminate([(0, 1), (1, 2), (0, 2)], (2, 3, 4)).scopes[0]
    (0, 1, 2)
    """
    graph = _graph(cliques, len(sizes))
    order = np.empty(len(sizes), np.int64)
    scopes = np.empty_like(graph)
    cells = _greedy(graph, np.asarray(sizes, np.float64), order, scopes)
    members = tuple(tuple(_attributes(row)) for row in scopes)
    return Elimination(tuple(int(v) for v in order), members, float(cells))


def megabytes_with(
    cliques: Iterable[Clique], candidates: Sequence[Clique], sizes: Sequence[int]
) -> NDArray[np.float64]:
    """Return the junction-tree size in MB of `cliques` plus each of `candidates` in turn, shape (candidates,).

    >>> megabytes_with([(0, 1)], [(1, 2), (0, 1, 2)], (2, 3, 4)) * 2**17  # cells
    array([18., 24.])
    """
    graph = _graph(cliques, len(sizes))
    masks = np.array([_mask(c, graph.shape[1]) for c in candidates], np.int64).reshape(len(candidates), graph.shape[1])
    return np.asarray(_greedy_each(graph, masks, np.asarray(sizes, np.float64))) * _MB


def maximal(cliques: Iterable[Clique]) -> list[Clique]:
    """Return the cliques that lie in no other one, sorted and without repetition.

    >>> maximal([(0,), (0, 1), (1, 0), (2,)])
    [(0, 1), (2,)]
    """
    kept: list[frozenset[int]] = []
    for c in sorted({frozenset(c) for c in cliques}, key=lambda c: (-len(c), sorted(c))):
        if not any(c <= k for k in kept):
            kept.append(c)
    return sorted(tuple(sorted(c)) for c in kept)


def _mask(clique: Clique, words: int) -> list[int]:
    out = [0] * words
    for v in clique:
        out[v // _BITS] |= 1 << (v % _BITS)
    return out


def _attributes(mask: NDArray[np.int64]) -> list[int]:
    return [w * _BITS + b for w, word in enumerate(mask.tolist()) for b in range(_BITS) if word >> b & 1]


def _graph(cliques: Iterable[Clique], d: int) -> NDArray[np.int64]:
    """Return the closed neighbourhood of every attribute as bit masks, shape (d, words)."""
    graph = np.zeros((d, max(1, -(-d // _BITS))), np.int64)
    for v in range(d):
        graph[v, v // _BITS] |= 1 << (v % _BITS)
    for clique in cliques:
        graph[list(clique)] |= np.array(_mask(clique, graph.shape[1]), np.int64)
    return graph


@njit(cache=True)
def _cells(mask, sizes):  # type: ignore[no-untyped-def]
    cells = 1.0
    for w in range(mask.size):
        rest = mask[w]
        v = w * _BITS
        while rest:
            if rest & 1:
                cells *= sizes[v]
            rest >>= 1
            v += 1
    return cells


@njit(cache=True)
def _greedy(graph, sizes, order, scopes):  # type: ignore[no-untyped-def]
    """Eliminate every attribute; fill `order` and `scopes`; return the cells of the maximal cliques."""
    d, words = graph.shape
    g = graph.copy()
    cost = np.empty(d)
    done = np.zeros(d, np.uint8)
    for v in range(d):
        cost[v] = _cells(g[v], sizes)
    total = 0.0
    for t in range(d):
        best = -1
        for v in range(d):
            if not done[v] and (best < 0 or cost[v] < cost[best]):
                best = v
        order[t] = best
        scopes[t] = g[best]
        done[best] = 1
        # Later scopes lack earlier attributes, so only an earlier scope can contain this one.
        is_maximal = True
        for i in range(t):
            inside = True
            for w in range(words):
                if scopes[t, w] & ~scopes[i, w]:
                    inside = False
                    break
            if inside:
                is_maximal = False
                break
        if is_maximal:
            total += cost[best]
        for u in range(d):
            if not done[u] and (g[best, u // _BITS] >> (u % _BITS)) & 1:
                for w in range(words):
                    g[u, w] |= g[best, w]
                g[u, best // _BITS] &= ~(np.int64(1) << (best % _BITS))
                cost[u] = _cells(g[u], sizes)
    return total


@njit(cache=True)
def _greedy_each(graph, masks, sizes):  # type: ignore[no-untyped-def]
    d, words = graph.shape
    totals = np.empty(masks.shape[0])
    order = np.empty(d, np.int64)
    scopes = np.empty_like(graph)
    for i in range(masks.shape[0]):
        g = graph.copy()
        for v in range(d):
            if (masks[i, v // _BITS] >> (v % _BITS)) & 1:
                for w in range(words):
                    g[v, w] |= masks[i, w]
        totals[i] = _greedy(g, sizes, order, scopes)
    return totals
