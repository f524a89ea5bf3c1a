"""Rows that stay where they are: what a pass over them counts, and what is kept of it for later."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from tempfile import TemporaryFile, gettempdir
from typing import IO

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import Counts, CountSource
from marginalia.errors import InputError
from marginalia.memory import check_cost
from marginalia.subsets import subsets

Key = tuple[int, ...]  # attribute positions, ascending
Kept = tuple[NDArray[np.int64] | None, Counts]  # cells and their counts, or all counts

KEPT_BYTES = 2**28  # of count tables: those made in one pass, and those kept for later


class PassingSource(CountSource):
    """Rows that are read anew for counts: a pass counts what is asked and what was expected, up to a bound of memory.

    A subclass implements `_count`. What was counted answers all its sub-marginals by sums, which are exact. The tables
    that were asked longest ago move to a temporary file, which has no name and ends with the process: nothing is
    counted twice, so the number of passes is known beforehand (`passes_for`).

    >>> sorted(PassingSource.__abstractmethods__)
    ['_count', 'batches', 'in_memory', 'n_rows', 'recoded']
    """

    verbose = False  # whether to show the passes, and a bound of their number, on standard error

    def __init__(self, domain: Domain, *, kept_bytes: int = KEPT_BYTES) -> None:
        self.domain = domain
        self._sizes = domain.sizes
        self._done: list[None] = []  # one a pass; the recoded sources of this one share it
        self._kept_bytes = kept_bytes
        self._kept: OrderedDict[Key, Kept] = OrderedDict()  # the last one asked last
        self._used = 0  # bytes of these
        self._spilled = _Spilled()
        self._keys_of: dict[int, set[Key]] = {}  # kept tables, by each of their attributes
        self._expected: dict[Key, None] = {}

    @property
    def passes(self) -> int:
        """Passes over the rows for counts so far, those of recoded sources among them."""
        return len(self._done)

    @abstractmethod
    def _count(self, marginals: Sequence[tuple[str, ...]]) -> Iterable[Counts]:
        """Give these marginals from one pass over the rows, each flat, last attribute fastest."""

    def expect(self, marginals: Iterable[Sequence[str]]) -> None:
        """See `CountSource.expect`."""
        self._expected.update(dict.fromkeys(map(self._key, marginals)))

    def counts(self, names: Sequence[str]) -> Counts:
        """See `CountSource.counts`."""
        key = self._key(names)
        held = self._holder(key)
        if held is None:  # the empty marginal has an empty key
            held = self._pass(key)
        table = self._table(held)
        self._kept.move_to_end(held)
        table = table.sum(axis=tuple(i for i, a in enumerate(held) if a not in key), dtype=np.int64)
        return np.asarray(np.transpose(table, [key.index(self.domain.index(n)) for n in names]), order="C")

    def passes_for(self, marginals: Iterable[Sequence[str]]) -> int:
        """Return how many passes over the rows it takes to count these marginals, in any order.

        >>> from marginalia.data.sources.parquet import ParquetSource
        >>> from tempfile import TemporaryDirectory
        >>> import pandas as pd
        >>> with TemporaryDirectory() as folder:
        ...     pd.DataFrame({"a": [0, 1], "b": [1, 1]}).to_parquet(f"{folder}/t.parquet")
        ...     source = ParquetSource(f"{folder}/t.parquet", domain=Domain.from_sizes({"a": 2, "b": 2}))
        ...     source.passes_for([("a", "b"), ("a",)])
        1
        """
        return len(self._bundles(dict.fromkeys(map(self._key, marginals))))

    @property
    def passes_at_most(self) -> int:
        """The passes so far, and those for all that is expected and was not counted yet."""
        return self.passes + len(self._bundles(self._left()))

    def _key(self, names: Sequence[str]) -> Key:
        key = tuple(sorted(self.domain.index(n) for n in names))
        if len(set(key)) != len(key):
            raise InputError(f"counts of {', '.join(names)}: an attribute stands twice")
        return key

    def _cells(self, key: Key) -> int:
        return math.prod(self._sizes[a] for a in key)

    def _holder(self, key: Key) -> Key | None:
        """Return the smallest kept table that tells the counts of `key`."""
        if key in self._kept or key in self._spilled:
            return key
        if not key:
            return min(self._kept, key=self._cells, default=None)
        holders = set.intersection(*sorted((self._keys_of.get(a, set()) for a in key), key=len))
        return min(holders, key=lambda k: (self._cells(k), k), default=None)

    def _table(self, key: Key) -> Counts:
        if key not in self._kept:
            self._keep(key, self._spilled[key])
            self._spill({key})
        cells, counts = self._kept[key]
        shape = [self._sizes[a] for a in key]
        if cells is not None:
            dense = np.zeros(self._cells(key), np.int64)
            dense[cells] = counts
            counts = dense
        return counts.reshape(shape)

    def _left(self) -> dict[Key, None]:
        """Return what is expected and not counted."""
        return {q: None for q in self._expected if self._holder(q) is None}

    def _bundles(self, expected: Iterable[Key]) -> list[list[Key]]:
        """Return what each pass counts: the first maximal tables that fit in memory together, and so on.

        Taking any group away leaves the others as they are: the order in which they are asked for does not matter.
        """
        inner = {s for q in expected for s in subsets(q, smallest=1) if len(s) < len(q)}
        left, groups = [q for q in expected if q not in inner], []
        while left:
            group, room = [], max(self._kept_bytes // 8, self._cells(left[0]))
            for q in left:
                if self._cells(q) <= room:
                    group.append(q)
                    room -= self._cells(q)
            groups.append(group)
            taken = set(group)
            left = [q for q in left if q not in taken]
        return groups

    def _pass(self, key: Key) -> Key:
        """Count `key`, and what was expected, in one pass; return the table that tells `key`."""
        check_cost(f"a marginal of {self._cells(key):,} cells", 8 * self._cells(key), mend="ask for a smaller one")
        self._expected = self._left()
        groups, wanted = self._bundles(self._expected), set(key)
        chosen = next((group for group in groups if any(wanted <= set(q) for q in group)), None)
        if chosen is None:  # not expected
            first = groups[0] if groups else []
            chosen = [key, *first] if sum(map(self._cells, [key, *first])) <= self._kept_bytes // 8 else [key]
        names = self.domain.names
        tables = self._count([tuple(names[a] for a in q) for q in chosen])
        for q, flat in zip(chosen, tables, strict=True):
            cells = np.flatnonzero(flat)
            self._keep(q, (None, flat) if 2 * cells.size >= flat.size else (cells, flat[cells]))
            for a in q:
                self._keys_of.setdefault(a, set()).add(q)
        self._done.append(None)
        self._spill(set(chosen))
        held = self._holder(key)
        assert held is not None
        return held

    def _keep(self, key: Key, kept: Kept) -> None:
        self._kept[key] = kept
        self._used += _n_bytes(kept)

    def _spill(self, new: set[Key]) -> None:
        """Move the tables asked longest ago to disk while all of them take too much memory."""
        while self._used > self._kept_bytes and (q := next((q for q in self._kept if q not in new), None)) is not None:
            kept = self._kept.pop(q)
            self._used -= _n_bytes(kept)
            self._spilled[q] = kept


def _n_bytes(kept: Kept) -> int:
    return sum(part.nbytes for part in kept if part is not None)


class _Spilled:
    """Tables in a file without a name, which the system removes when it is closed."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._at: dict[Key, tuple[int, int | None, int]] = {}  # position, number of cells, number of counts

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def __setitem__(self, key: Key, kept: Kept) -> None:
        if key in self._at:  # it was read back
            return
        cells, counts = kept
        try:
            if self._file is None:
                self._file = TemporaryFile(prefix="marginalia-")  # noqa: SIM115
            at = self._file.seek(0, os.SEEK_END)
            for part in (cells, counts):
                if part is not None:
                    self._file.write(np.ascontiguousarray(part, np.int64).data)
        except OSError as error:
            raise InputError(f"cannot put counts aside in {gettempdir()}: {error.strerror}; set TMPDIR") from None
        self._at[key] = at, None if cells is None else cells.size, counts.size

    def __getitem__(self, key: Key) -> Kept:
        assert self._file is not None
        at, n_cells, n_counts = self._at[key]
        self._file.seek(at)
        both = np.frombuffer(self._file.read(8 * ((n_cells or 0) + n_counts)), np.int64)
        return (None, both) if n_cells is None else (both[:n_cells], both[n_cells:])


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
