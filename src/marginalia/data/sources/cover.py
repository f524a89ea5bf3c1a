"""Which tables to count so that the marginals asked for are sums of them, in fewer increments a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

_LARGEST = 2**14  # cells of a table of three attributes: its counters stay in the second cache
_MOST = 2**23  # cells of all of them: 100 MB
_FEWEST = 3  # pairs from which it may pay


def covering(marginals: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return tables, of which every marginal is one or a sum of one: small pairs are taken three at a time.

    Three attributes have three pairs, so all pairs of d attributes need d(d-1)/6 tables where these share no pair
    (Steiner's triple systems: they exist for d = 1 or 3 modulo 6, and taking the first triple that still fits finds
    them for d = 2^k - 1). Tables come in the order of the attributes.

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
    size, left = np.array(sizes, np.float64), float(_MOST)
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
