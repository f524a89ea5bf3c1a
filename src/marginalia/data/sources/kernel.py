"""Count many marginals in one pass: the tables that cover them, and a compiled kernel that adds a batch of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_BLOCK = 8192  # rows: their codes stay in the caches while every marginal reads them
_MOST = 2**32 - 1  # that a counter holds
_LARGEST = 2**14  # cells of a table of three columns: its counters stay in the second cache
_MOST_CELLS = 2**23  # cells of all of them: 100 MB
_FEWEST = 3  # pairs from which it may pay


class Tally:
    """Counts of several marginals, in one pass over batches of rows.

    Counters have 32 bits, which is twice as fast as 64, and are emptied into wider ones before they could overflow.

    Parameters
    ----------
    marginals : sequence of tuple of int
        Positions of the columns, at least one each.
    sizes : sequence of int
        Of all columns.

    >>> tally = Tally([(0,), (0, 1)], [2, 3])
    >>> tally.add(np.array([[0, 1, 1], [2, 0, 0]], np.uint8))  # one line a column
    >>> [counts.tolist() for counts in tally.counts]
    [[1, 2], [0, 0, 1, 2, 0, 0]]
    """

    def __init__(self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> None:
        self._axes = np.array([a for q in marginals for a in q], np.int64)
        self._sizes = np.array([sizes[a] for q in marginals for a in q], np.int64)
        self._starts = np.cumsum([0, *(len(q) for q in marginals)])
        cells = [math.prod(sizes[a] for a in q) for q in marginals]
        self._offsets = np.cumsum([0, *cells])
        self._flat = np.zeros(int(self._offsets[-1]), np.uint32)
        self._rows = 0  # in these counters
        self._wide: NDArray[np.int64] | None = None

    def add(self, codes: NDArray[np.integer]) -> None:
        """Count rows; `codes` has shape (columns, rows), all inside their sizes, each line contiguous."""
        for low in range(0, codes.shape[1], _MOST):
            part = codes[:, low : low + _MOST]
            if self._rows + part.shape[1] > _MOST:
                self._empty()
            _add(part, self._axes, self._sizes, self._starts, self._offsets, self._flat)
            self._rows += part.shape[1]

    @property
    def counts(self) -> list[NDArray[np.int64]]:
        """The counts of each marginal, flat, last column fastest."""
        return [self.counts_of(i) for i in range(len(self._offsets) - 1)]

    def counts_of(self, which: int) -> NDArray[np.int64]:
        """Return the counts of one marginal."""
        cells = slice(self._offsets[which], self._offsets[which + 1])
        counts = self._flat[cells].astype(np.int64)
        return counts if self._wide is None else counts + self._wide[cells]

    def _empty(self) -> None:
        self._wide = self._flat.astype(np.int64) if self._wide is None else self._wide + self._flat
        self._flat[:] = 0
        self._rows = 0


@njit(cache=True)
def _add(codes, axes, sizes, starts, offsets, out):  # type: ignore[no-untyped-def]
    one, n = np.uint32(1), codes.shape[1]
    for low in range(0, n, _BLOCK):
        high = min(n, low + _BLOCK)
        for q in range(starts.size - 1):
            s, end = starts[q], starts[q + 1]
            table = out[offsets[q] : offsets[q + 1]]
            a = codes[axes[s], low:high]
            if end - s == 1:
                for r in range(a.size):
                    table[np.uint32(a[r])] += one
            elif table.size > _MOST:  # places that 32 bits cannot hold
                _add_rows(codes, axes[s:end], sizes[s:end], low, high, table)
            elif end - s == 2:
                b, m = codes[axes[s + 1], low:high], np.uint32(sizes[s + 1])
                for r in range(a.size):
                    table[np.uint32(a[r]) * m + np.uint32(b[r])] += one
            elif end - s == 3:
                b, m = codes[axes[s + 1], low:high], np.uint32(sizes[s + 1])
                c, k = codes[axes[s + 2], low:high], np.uint32(sizes[s + 2])
                for r in range(a.size):
                    table[(np.uint32(a[r]) * m + np.uint32(b[r])) * k + np.uint32(c[r])] += one
            else:
                _add_rows(codes, axes[s:end], sizes[s:end], low, high, table)


@njit(cache=True)
def _add_rows(codes, axes, sizes, low, high, table):  # type: ignore[no-untyped-def]
    for r in range(low, high):
        at = np.uint64(0)
        for i in range(axes.size):
            at = at * np.uint64(sizes[i]) + np.uint64(codes[axes[i], r])
        table[at] += np.uint32(1)


def covering(marginals: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return tables, of which every marginal is one or a sum of one: small pairs are taken three at a time.

    Three columns have three pairs, so all pairs of d columns need d(d-1)/6 tables where these share no pair
    (Steiner's triple systems: they exist for d = 1 or 3 modulo 6, and taking the first triple that still fits finds
    them for d = 2^k - 1). Tables come in the order of the columns.

    >>> covering([(0, 1), (0, 2), (1, 2), (0, 3)], [2, 3, 4, 5])
    [(0, 1, 2), (0, 3)]
    """
    pairs = [q for q in marginals if len(q) == 2]
    if len(pairs) < _FEWEST:
        return list(marginals)
    d = len(sizes)
    open_ = np.zeros((d, d), bool)
    for a, b in pairs:
        open_[a, b] = open_[b, a] = True
    size, left = np.array(sizes, np.float64), float(_MOST_CELLS)
    tables: list[tuple[int, ...]] = [q for q in marginals if len(q) != 2]
    for a, b in pairs:
        if not open_[a, b]:
            continue
        fitting = np.flatnonzero(open_[a] & open_[b] & (size * sizes[a] * sizes[b] <= min(_LARGEST, left)))
        table = tuple(sorted((a, b, *fitting[:1].tolist())))
        if fitting.size:
            left -= sizes[a] * sizes[b] * sizes[fitting[0]]
        open_[np.ix_(table, table)] = False
        tables.append(table)
    return tables


def sums(
    marginals: Sequence[tuple[int, ...]],
    tables: Sequence[tuple[int, ...]],
    counts_of: Callable[[int], NDArray[np.int64]],
    sizes: Sequence[int],
) -> Iterator[NDArray[np.int64]]:
    """Yield the counts of marginals, flat, from those of the tables that cover them: ``counts_of(i)`` of the i-th.

    >>> [flat.tolist() for flat in sums([(0, 1), (0, 2)], [(0, 1, 2)], lambda i: np.arange(8), [2, 2, 2])]
    [[1, 5, 9, 13], [2, 4, 10, 12]]
    """
    held = {q: i for i, table in enumerate(tables) for q in {table, *combinations(table, 2)}}
    for q in marginals:
        table, flat = tables[held[q]], counts_of(held[q])
        if table == q:
            yield flat
        else:
            cells = flat.reshape([sizes[a] for a in table])
            yield cells.sum(axis=tuple(i for i, a in enumerate(table) if a not in q)).ravel()
