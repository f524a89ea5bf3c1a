"""What methods may ask of private rows: exact counts of a few attributes, their number, the rows in batches."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from tempfile import TemporaryFile, gettempdir
from typing import IO, TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from marginalia.data.attribute import Purchase
from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.memory import check_cost

if TYPE_CHECKING:
    from marginalia.data.table import Table

Counts = NDArray[np.int64]
Key = tuple[int, ...]  # attribute positions, ascending
Kept = tuple[NDArray[np.int64] | None, Counts]  # cells and their counts, or all counts

KEPT_BYTES = 2**28  # of count tables: those made in one pass, and those kept for later


class PrivateRows(ABC):
    """Private rows that a fit takes: as codes, or in original values with labels or edges left to be bought.

    >>> sorted(PrivateRows.__abstractmethods__)
    ['coded', 'n_rows']
    """

    domain: Domain  # what is public of them; a column that is to be bought has a stand-in
    purchases: tuple[Purchase, ...] = ()  # what is left to be bought before they have codes

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of records."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self.domain.names

    @abstractmethod
    def coded(self, domain: Domain) -> CountSource:
        """Return the rows as codes of a domain in which nothing is left to be bought; rows with codes keep theirs."""


class CountSource(PrivateRows):
    """Private rows of a public domain, wherever they lie. `marginalia.data.table.Table` is the one in memory.

    A method that needs counts only runs on every source, and the same seed gives the same release from each. Methods
    call it inside a mechanism, as all that reads private rows; `expect` reads nothing.

    >>> from marginalia.data.table import Table
    >>> source = Table([[0, 1], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> isinstance(source, CountSource), source.counts(["b"])
    (True, array([0, 2]))
    """

    def coded(self, domain: Domain) -> Self:
        """Return these rows: they have codes."""
        return self

    @abstractmethod
    def counts(self, names: Sequence[str]) -> Counts:
        """Return the marginal on `names` as counts, shape = the size of each name, in the order given."""

    @abstractmethod
    def expect(self, marginals: Iterable[Sequence[str]]) -> None:
        """Say which marginals may be asked, so that one pass over the rows can count many of them."""

    @abstractmethod
    def recoded(self, codes: Mapping[str, NDArray[np.integer]], domain: Domain) -> CountSource:
        """Return the same rows with every code c of attribute `name` replaced by ``codes[name][c]``, of `domain`."""

    @abstractmethod
    def batches(self) -> Iterator[Table]:
        """Yield the rows, in the order they lie in, as tables that fit in memory."""

    @abstractmethod
    def in_memory(self) -> Table:
        """Return all rows as one table; InputError where they do not fit in memory."""


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
        inner = {s for q in expected for s in _subsets(q) if len(s) < len(q)}
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


def _subsets(key: Key) -> Iterator[Key]:
    for k in range(1, len(key) + 1):
        yield from combinations(key, k)
