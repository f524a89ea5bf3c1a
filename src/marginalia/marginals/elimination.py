"""Greedy variable elimination, and the junction-tree size that the papers' MAX-SIZE rule counts.

Attributes are integers (column positions). The graph is kept as bit masks in several int64 words, so any
number of attributes works. Eliminating v joins its closed neighbourhood into one clique; the greedy order
takes the smallest resulting clique first, ties by column order (McKenna et al. 2019, Private-PGM).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

Clique = tuple[int, ...]

_BITS = 62  # per signed 64-bit word: no shift touches the sign
_MB = 8 / 2**20
_PLACE = np.zeros(67, np.int64)  # 2 generates the multiplicative group modulo 67: 2^b % 67 tells b
_MESSAGE, _CLIQUE, _FILL = range(3)  # measures of the cost of an elimination
_PLACE[[2**b % 67 for b in range(_BITS)]] = range(_BITS)


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
    kept = np.empty(len(sizes))
    _greedy(graph, _byte_products(sizes, graph.shape[1]), order, scopes, kept)
    members = tuple(tuple(_attributes(row)) for row in scopes)
    return Elimination(tuple(int(v) for v in order), members, float(kept.sum()))


@dataclass(frozen=True, slots=True)
class Order:
    """An order of elimination, with the messages that it makes."""

    order: tuple[int, ...]  # attributes, first eliminated first
    separators: tuple[Clique, ...]  # sorted axes of each elimination's message
    cells: float  # of all messages


def orders(cliques: Iterable[Clique], sizes: Sequence[int]) -> list[Order]:
    """Return greedy orders: by the smallest message, by the smallest clique, and by the least fill.

    The fill of an attribute is the sum, over the pairs of its neighbours that are not neighbours yet, of the cells of
    their table. Ties go to the first attribute.

    >>> [o.order for o in orders([(0, 1), (1, 2), (0, 2)], (4, 3, 2))]
    [(0, 1, 2), (0, 1, 2), (0, 1, 2)]
    """
    graph = _graph(cliques, len(sizes))
    products = _byte_products(sizes, graph.shape[1])
    weights = np.array(sizes, np.float64)
    out = []
    for rule in (_MESSAGE, _CLIQUE, _FILL):
        order, separators, cells = _order_by(graph, products, weights, rule)
        members = tuple(tuple(_attributes(row)) for row in separators)
        out.append(Order(tuple(int(v) for v in order), members, float(cells)))
    return out


def megabytes_with(
    cliques: Iterable[Clique], candidates: Sequence[Clique], sizes: Sequence[int]
) -> NDArray[np.float64]:
    """Return the junction-tree size in MB of `cliques` plus each of `candidates` in turn, shape (candidates,).

    A candidate changes nothing before its first attribute goes, and nothing in components that it does not touch; where
    all its attributes are neighbours already it changes nothing at all. Only the rest of each elimination is run again.

    >>> megabytes_with([(0, 1)], [(1, 2), (0, 1, 2)], (2, 3, 4)) * 2**17  # cells
    array([18., 24.])
    """
    graph = _graph(cliques, len(sizes))
    masks = np.zeros((len(candidates), graph.shape[1]), np.int64)
    attributes = np.fromiter(itertools.chain.from_iterable(candidates), np.int64)
    rows = np.repeat(np.arange(len(candidates)), [len(c) for c in candidates])
    np.bitwise_or.at(masks, (rows, attributes // _BITS), np.int64(1) << attributes % _BITS)
    return np.asarray(_greedy_each(graph, masks, _byte_products(sizes, graph.shape[1]))) * _MB


def maximal(cliques: Iterable[Clique]) -> list[Clique]:
    """Return the cliques that lie in no other one, sorted and without repetition.

    >>> maximal([(0,), (0, 1), (1, 0), (2,)])
    [(0, 1), (2,)]
    """
    kept: list[frozenset[int]] = []
    holding: defaultdict[int, list[frozenset[int]]] = defaultdict(list)  # of the kept ones, those with an attribute
    for c in sorted({frozenset(c) for c in cliques}, key=lambda c: (-len(c), sorted(c))):
        if not any(c <= k for k in min((holding[a] for a in c), key=len, default=kept)):
            kept.append(c)
            for a in c:
                holding[a].append(c)
    return sorted(tuple(sorted(c)) for c in kept)


def _mask(clique: Clique, words: int) -> list[int]:
    out = [0] * words
    for v in clique:
        out[v // _BITS] |= 1 << (v % _BITS)
    return out


def _attributes(mask: NDArray[np.int64]) -> list[int]:
    return [w * _BITS + b for w, word in enumerate(mask.tolist()) for b in range(_BITS) if word >> b & 1]


def _byte_products(sizes: Sequence[int], words: int) -> NDArray[np.float64]:
    """Return the product of the sizes of the attributes in every byte of a mask, shape (bytes of a mask, 256)."""
    out = np.ones((words, 64))
    padded = np.ones(words * _BITS)
    padded[: len(sizes)] = sizes
    out[:, :_BITS] = padded.reshape(words, _BITS)
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    return np.asarray(np.where(bits == 1, out.reshape(-1, 1, 8), 1.0).prod(axis=2))


def _graph(cliques: Iterable[Clique], d: int) -> NDArray[np.int64]:
    """Return the closed neighbourhood of every attribute as bit masks, shape (d, words)."""
    graph = np.zeros((d, max(1, -(-d // _BITS))), np.int64)
    for v in range(d):
        graph[v, v // _BITS] |= 1 << (v % _BITS)
    for clique in cliques:
        graph[list(clique)] |= np.array(_mask(clique, graph.shape[1]), np.int64)
    return graph


@njit(cache=True)
def _cells(mask, products):  # type: ignore[no-untyped-def]
    cells = 1.0
    for w in range(mask.size):
        rest, byte = np.uint64(mask[w]), np.uint64(8 * w)
        while rest:
            cells *= products[byte, rest & np.uint64(255)]
            rest >>= np.uint64(8)
            byte += np.uint64(1)
    return cells


@njit(cache=True)
def _eliminate_next(g, cost, left, n_left, scopes, waiting, n_waiting, products):  # type: ignore[no-untyped-def]
    """Eliminate the cheapest of the `n_left` attributes in `left` (ascending), the first one among equals.

    `scopes` gets its scope. `waiting` lists the eliminated attributes of whose scopes no other one has gone yet. Return
    the attribute, the cells of its scope (0 where an earlier scope contains it) and the length of `waiting`.
    """
    at = 0
    least = cost[left[0]]
    for i in range(1, n_left):
        if cost[left[i]] < least:
            at, least = i, cost[left[i]]
    v = left[at]
    for i in range(at, n_left - 1):
        left[i] = left[i + 1]
    word, bit = v // _BITS, np.int64(1) << (v % _BITS)
    is_maximal = True
    more = False
    kept = 0
    for i in range(n_waiting):
        u = waiting[i]
        if not scopes[u, word] & bit:
            waiting[kept] = u
            kept += 1
            continue
        # v is the first of u's neighbours to go. Of the scopes that contain v's, one belongs to such a u.
        same = True
        for w in range(g.shape[1]):
            rest = scopes[u, w]
            if w == u // _BITS:
                rest &= ~(np.int64(1) << (u % _BITS))
            same = same and rest == g[v, w]
        if same:
            is_maximal = False
    for w in range(g.shape[1]):
        scopes[v, w] = g[v, w]
        rest = g[v, w]
        if w == word:
            rest &= ~bit
        while rest:
            low = rest & -rest
            rest ^= low
            more = True
            u = w * _BITS + _PLACE[low % 67]
            for x in range(g.shape[1]):
                g[u, x] |= g[v, x]
            g[u, word] &= ~bit
            cost[u] = _cells(g[u], products)
    if more:
        waiting[kept] = v
        kept += 1
    return v, cost[v] if is_maximal else 0.0, kept


@njit(cache=True)
def _greedy(graph, products, order, scopes, kept):  # type: ignore[no-untyped-def]
    """Eliminate every attribute; fill, by step, `order`, `scopes` and the cells of maximal cliques `kept`."""
    d = graph.shape[0]
    g = graph.copy()
    made = np.empty_like(graph)
    cost = np.empty(d)
    for v in range(d):
        cost[v] = _cells(g[v], products)
    left, waiting = np.arange(d), np.empty(d, np.int64)
    n_waiting = np.int64(0)  # of a literal 0 numba compiles another version of what gets it
    for t in range(d):
        order[t], kept[t], n_waiting = _eliminate_next(g, cost, left, d - t, made, waiting, n_waiting, products)
        for w in range(graph.shape[1]):  # as loops in this file, since assignments of slices take seconds to compile
            scopes[t, w] = made[order[t], w]


@njit(cache=True)
def _price(g, v, products, sizes, rule):  # type: ignore[no-untyped-def]
    """Return the cost of eliminating `v`."""
    if rule != _FILL:
        cells = _cells(g[v], products)
        return cells / sizes[v] if rule == _MESSAGE else cells
    fill = 0.0
    for a in range(sizes.size):
        if a != v and (g[v, a // _BITS] >> (a % _BITS)) & 1:
            for w in range(g.shape[1]):
                rest = g[v, w] & ~g[a, w]
                while rest:
                    low = rest & -rest
                    rest ^= low
                    fill += sizes[a] * sizes[w * _BITS + _PLACE[low % 67]]
    return fill


@njit(cache=True)
def _order_by(graph, products, sizes, rule):  # type: ignore[no-untyped-def]
    """Eliminate the cheapest attribute again and again; return the order, the messages' axes and cells."""
    d, words = graph.shape
    g = graph.copy()
    price = np.empty(d)
    for v in range(d):
        price[v] = _price(g, v, products, sizes, rule)
    order, separators, total = np.empty(d, np.int64), np.zeros_like(graph), 0.0
    for t in range(d):
        v = int(np.argmin(price))
        order[t] = v
        total += _cells(g[v], products) / sizes[v]
        for w in range(words):
            separators[t, w] = g[v, w]
        separators[t, v // _BITS] &= ~(np.int64(1) << (v % _BITS))
        price[v] = np.inf
        for u in range(d):
            if (separators[t, u // _BITS] >> (u % _BITS)) & 1:
                for w in range(words):
                    g[u, w] |= g[v, w]
                g[u, v // _BITS] &= ~(np.int64(1) << (v % _BITS))
        for u in range(d):
            near = False
            for w in range(words):
                near = near or (g[u, w] & separators[t, w]) != 0
            if near and price[u] < np.inf:
                price[u] = _price(g, u, products, sizes, rule)
    return order, separators, total


@njit(cache=True)
def _components(order, scopes):  # type: ignore[no-untyped-def]
    """Return the connected component of every attribute, named by its last one to go."""
    d = order.size
    out = np.arange(d)
    for t in range(d - 1, -1, -1):
        v = order[t]
        for s in range(t + 1, d):
            u = order[s]
            if (scopes[t, u // _BITS] >> (u % _BITS)) & 1:
                out[v] = out[u]
                break
    return out


@njit(cache=True)
def _greedy_each(graph, masks, products):  # type: ignore[no-untyped-def]
    d, words = graph.shape
    order, kept, scopes = np.empty(d, np.int64), np.empty(d), np.empty_like(graph)
    _greedy(graph, products, order, scopes, kept)
    component = _components(order, scopes)
    step = np.empty(d, np.int64)
    for t in range(d):
        step[order[t]] = t
    totals = np.full(masks.shape[0], kept.sum())
    first = np.full(masks.shape[0], d)  # step from which on the candidate makes a difference
    for i in range(masks.shape[0]):
        for v in range(d):
            if (masks[i, v // _BITS] >> (v % _BITS)) & 1:
                for w in range(words):
                    if masks[i, w] & ~graph[v, w]:
                        first[i] = min(first[i], step[v])
    for i in range(masks.shape[0]):
        if first[i] < d:
            for v in range(d):
                if (masks[i, v // _BITS] >> (v % _BITS)) & 1:
                    first[i] = min(first[i], step[v])
    g, made = graph.copy(), np.empty_like(graph)
    cost = np.empty(d)
    for v in range(d):
        cost[v] = _cells(g[v], products)
    left, waiting = np.arange(d), np.empty(d, np.int64)
    n_waiting = np.int64(0)
    g_i, cost_i, made_i = np.empty_like(g), np.empty_like(cost), np.empty_like(made)
    left_i, waiting_i = np.empty_like(left), np.empty_like(waiting)
    touched = np.zeros(d, np.bool_)
    starts = np.zeros(d + 2, np.int64)
    for i in range(first.size):
        starts[first[i] + 1] += 1
    for t in range(d + 1):
        starts[t + 1] += starts[t]
    by_step = np.empty(first.size, np.int64)  # stable
    for i in range(first.size):
        by_step[starts[first[i]]] = i
        starts[first[i]] += 1
    at = 0
    before = 0.0
    for t in range(d):
        while at < by_step.size and first[by_step[at]] == t:
            i = by_step[at]
            at += 1
            for v in range(d):
                cost_i[v], touched[v] = cost[v], False
                for w in range(words):
                    g_i[v, w], made_i[v, w] = g[v, w], made[v, w]
            for v in range(d):
                if (masks[i, v // _BITS] >> (v % _BITS)) & 1:
                    touched[component[v]] = True
                    for w in range(words):
                        g_i[v, w] |= masks[i, w]
                    cost_i[v] = _cells(g_i[v], products)
            n_left = m_waiting = np.int64(0)
            for k in range(d - t):
                if touched[component[left[k]]]:
                    left_i[n_left] = left[k]
                    n_left += 1
            for k in range(n_waiting):
                if touched[component[waiting[k]]]:
                    waiting_i[m_waiting] = waiting[k]
                    m_waiting += 1
            totals[i] = before
            for s in range(t, d):
                if not touched[component[order[s]]]:
                    totals[i] += kept[s]
            for n in range(n_left, 0, -1):
                _, cells, m_waiting = _eliminate_next(g_i, cost_i, left_i, n, made_i, waiting_i, m_waiting, products)
                totals[i] += cells
        _, _, n_waiting = _eliminate_next(g, cost, left, d - t, made, waiting, n_waiting, products)
        before += kept[t]
    return totals
