"""Compiled: add a batch of coded rows to the counts of many marginals at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

_BLOCK = 8192  # rows: their codes stay in the caches while every marginal reads them
_MOST = 2**32 - 1  # that a counter holds


class Tally:
    """Counts of several marginals, in one pass over batches of rows.

    Counters have 32 bits, which is twice as fast as 64, and are emptied into wider ones before they could overflow.

    Parameters
    ----------
    marginals : sequence of tuple of int
        Positions of the attributes, at least one each.
    sizes : sequence of int
        Of all attributes.

    >>> tally = Tally([(0,), (0, 1)], [2, 3])
    >>> tally.add(np.array([[0, 1, 1], [2, 0, 0]], np.uint8))  # one line a column
    >>> [counts.tolist() for counts in tally.counts]
    [[1, 2], [0, 0, 1, 2, 0, 0]]
    """

    def __init__(self, marginals: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> None:
        self._axes = np.array([a for q in marginals for a in q], np.int64)
        self._sizes = np.array([sizes[a] for q in marginals for a in q], np.int64)
        self._starts = np.cumsum([0, *(len(q) for q in marginals)])
        cells = [int(np.prod([sizes[a] for a in q])) for q in marginals]
        self._offsets = np.cumsum([0, *cells])
        self._flat = np.zeros(int(self._offsets[-1]), np.uint32)
        self._rows = 0  # in these counters
        self._wide: NDArray[np.int64] | None = None

    def add(self, codes: NDArray[np.integer]) -> None:
        """Count rows; `codes` has shape (attributes, rows), all inside their sizes, each line contiguous."""
        for low in range(0, codes.shape[1], _MOST):
            part = codes[:, low : low + _MOST]
            if self._rows + part.shape[1] > _MOST:
                self._empty()
            _add(part, self._axes, self._sizes, self._starts, self._offsets, self._flat)
            self._rows += part.shape[1]

    @property
    def counts(self) -> list[NDArray[np.int64]]:
        """The counts of each marginal, flat, last attribute fastest."""
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
                for r in range(low, high):
                    at = np.uint64(0)
                    for i in range(s, end):
                        at = at * np.uint64(sizes[i]) + np.uint64(codes[axes[i], r])
                    table[at] += one
