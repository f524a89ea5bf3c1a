"""Counts of rows that are read again for each pass, and the cache of these counts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import Counts, CountSource
from marginalia.errors import InputError
from marginalia.memory import check_cost
from marginalia.subsets import subsets

Key = tuple[int, ...]  # attribute positions, ascending

CACHE_BYTES = 2**28  # of count tables, held in memory


class PassingSource(CountSource):
    """Rows that are read again for each pass, which counts the requested marginal and expected ones together.

    A subclass implements `_count`. The counts stay in memory as long as all of them fit in `CACHE_BYTES`. Where they do
    not, the ones requested longest ago are dropped, and counted again if they are requested again. What a pass counts,
    what is dropped and what is refused follows from the domain and the requests, never from the rows.

    >>> sorted(PassingSource.__abstractmethods__)
    ['_count', 'batches', 'in_memory', 'n_rows', 'recoded']
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._sizes = domain.sizes
        self._done: list[None] = []  # one per pass, shared with the recoded sources of this one
        self._cache: dict[Key, Counts] = {}  # the table requested last is the last one
        self._dropped: set[Key] = set()
        self._expected: dict[Key, None] = {}

    @property
    def passes(self) -> int:
        """Passes over the rows for counts so far, those of recoded sources among them."""
        return len(self._done)

    @abstractmethod
    def _count(self, marginals: Sequence[tuple[str, ...]]) -> Iterable[Counts]:
        """Return these marginals from one pass over the rows, each flat, last attribute fastest."""

    def expect(self, marginals: Iterable[Sequence[str]]) -> None:
        """See `CountSource.expect`."""
        self._expected.update(dict.fromkeys(map(self._key, marginals)))

    def counts(self, names: Sequence[str]) -> Counts:
        """See `CountSource.counts`."""
        key = self._key(names)
        table = self._containing(key)
        if table is None:
            self._pass(key)
            table = self._containing(key)
            assert table is not None
        self._cache[table] = counts = self._cache.pop(table)
        counts = counts.sum(axis=tuple(i for i, a in enumerate(table) if a not in key), dtype=np.int64)
        return np.asarray(np.transpose(counts, [key.index(self.domain.index(n)) for n in names]), order="C")

    def _key(self, names: Sequence[str]) -> Key:
        key = tuple(sorted(self.domain.index(n) for n in names))
        if len(set(key)) != len(key):
            raise InputError(f"counts of {', '.join(names)}: an attribute stands twice")
        return key

    def _cells(self, key: Key) -> int:
        return math.prod(self._sizes[a] for a in key)

    def _containing(self, key: Key) -> Key | None:
        """Return the smallest table in the cache that has all attributes of `key`."""
        if key in self._cache:
            return key
        return min(filter(set(key).issubset, self._cache), key=lambda q: (self._cells(q), q), default=None)

    def _pass(self, key: Key) -> None:
        """Count `key` in one pass, together with the expected marginals that fit in the cache beside it."""
        expected = self._missing()
        holders = (q for q in expected if set(key) < set(q) and 8 * self._cells(q) <= CACHE_BYTES)
        first = key if key in expected else next(holders, key)
        check_cost(f"a marginal of {self._cells(first):,} cells", 16 * self._cells(first), mend="ask for a smaller one")
        after = expected.index(first) + 1 if first in expected else 0
        chosen, n_bytes = [first], 8 * self._cells(first)
        for q in [*expected[after:], *expected[:after]]:
            # A method that requests new marginals, as PrivBayes in each round, does not request the dropped ones again.
            alike = q != first and (q in self._dropped) == (first in self._dropped)
            if alike and n_bytes + 8 * self._cells(q) <= CACHE_BYTES:
                chosen.append(q)
                n_bytes += 8 * self._cells(q)
        n_bytes += sum(counts.nbytes for counts in self._cache.values())
        while self._cache and n_bytes > CACHE_BYTES:
            oldest = next(iter(self._cache))
            n_bytes -= self._cache.pop(oldest).nbytes
            self._dropped.add(oldest)
        names = self.domain.names
        for q, flat in zip(chosen, self._count([tuple(names[a] for a in q) for q in chosen]), strict=True):
            self._cache[q] = flat.reshape([self._sizes[a] for a in q])
        self._done.append(None)

    def _missing(self) -> list[Key]:
        """Return the expected marginals that are not in the cache, without those that lie in other expected ones."""
        inside = {s for q in self._expected for s in subsets(q, smallest=1) if len(s) < len(q)}
        return [q for q in self._expected if q not in inside and q not in self._cache]


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
