"""Rows that stay where they are: read as Arrow batches, encoded, checked and counted in passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marginalia.data.cells import Cells, cells_of
from marginalia.data.coding import Problem, check_not_ambiguous
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.encode import Batch, check_columns, encode, merged, smallest
from marginalia.data.table import Counts, CountSource, Table
from marginalia.errors import InputError
from marginalia.memory import check_cost
from marginalia.progress import bar
from marginalia.subsets import subsets

Key = tuple[int, ...]  # column positions, ascending
Read = Callable[[Sequence[str]], Iterator[tuple[str, Any]]]
Group = Callable[[Sequence[str]], Iterator[tuple[Mapping[str, NDArray[np.integer]], Counts]]]

BATCH = 2**17  # rows
CACHE_BYTES = 2**28  # of count tables, held in memory


@final
class Stream(CountSource):
    """Private rows that are read again for each pass; the one implementation of `CountSource` beside `Table`.

    Cells are encoded as by `Table.read`. A pass counts the requested marginal and expected ones together. The counts
    stay in memory as long as all of them fit in `CACHE_BYTES`; where they do not, the ones requested longest ago are
    dropped, and counted again on request. What a pass counts, what is dropped and what is refused follows from the
    domain and the requests, never from the rows. Memory holds one batch of rows and the counts.

    Parameters
    ----------
    read : callable
        ``read(columns)`` yields pairs: the name of the file or table, for error messages, and an Arrow record batch
        of its next rows, with these columns at least.
    domain : Domain
        Without a privacy unit; its order becomes that of `columns`.
    columns : sequence of str
        Columns of the rows, including those that the domain ignores.
    name : str, default "rows"
        Of the rows, for error messages.
    n_rows : callable, optional
        Returns the number of rows; default: a pass counts them.
    ordered : bool, default True
        Whether each pass has the rows in the same order; if not, `in_memory` sorts them by their codes.
    group : callable, optional
        Counts where the rows lie: ``group(names)`` yields the codes of groups of equal rows, by column, and the
        number of rows of each group. Then no marginal reads rows.

    Raises
    ------
    InputError
        The columns are not those of the domain. When rows are read: a value without a code, or another number of rows
        than in an earlier pass.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"smoker": [0, 1, 1], "region": ["a", "b", None]})
    >>> domain = Domain([Column("smoker", 2), Column("region", 3, type="string", labels=("a", "b"), missing=())])
    >>> def read(columns):
    ...     yield from (("rows", batch) for batch in rows.select(list(columns)).to_batches())
    >>> Stream(read, domain, columns=rows.column_names).counts(["smoker", "region"])
    array([[1, 0, 0],
           [0, 1, 1]])
    """

    def __init__(
        self,
        read: Read,
        domain: Domain,
        *,
        columns: Sequence[str],
        name: str = "rows",
        n_rows: Callable[[], int] | None = None,
        ordered: bool = True,
        group: Group | None = None,
    ) -> None:
        if domain.unit is not None:
            raise InputError(
                f"{name}: which rows of each `{domain.unit.column}` are kept is chosen where rows are opened; call "
                "marginalia.data.sources.opening.Data.open"
            )
        kept = check_columns(columns, domain, name, "there are")
        self.columns, self.name, self.ordered = tuple(columns), name, ordered
        self._read, self._n_rows, self._group = read, n_rows, group
        self._raw_domain = domain.project(kept)  # as `Table.from_frame` orders it
        for column in self._raw_domain:
            check_not_ambiguous(column, name)
        self._codes: Mapping[str, NDArray[np.integer]] = {}  # of recoded rows
        self._target: Column | None = None  # rows in which it is missing are left out
        self._first_n: int | None = None  # rows of the first pass
        self._passes: list[None] = []  # one per pass, shared with what is derived from this stream
        self._start(self._raw_domain)

    def _start(self, domain: Domain) -> None:
        self.domain = domain
        self._sizes = domain.sizes
        self._cache: dict[Key, Counts] = {}  # the table requested last is the last one
        self._dropped: set[Key] = set()
        self._expected: dict[Key, None] = {}

    def __repr__(self) -> str:
        return f"Stream({self.name!r}, {self.domain!r})"

    @property
    def passes(self) -> int:
        """Passes over the rows for counts so far, including those for `recoded` and `complete` rows."""
        return len(self._passes)

    @property
    def only_counts(self) -> bool:
        """Whether the rows are counted where they lie, and cannot be read."""
        return self._group is not None

    @cached_property
    def n_rows(self) -> int:
        """Number of records."""
        known = None if self._target is not None else self._n_rows
        return int(self.counts([])) if known is None else known()

    def recoded(self, codes: Mapping[str, NDArray[np.integer]], domain: Domain) -> Stream:
        """See `CountSource.recoded`."""
        stream = copy(self)
        stream._codes = {n: np.asarray(codes[n])[self._codes[n]] if self._codes else codes[n] for n in domain.names}
        stream._start(domain)
        return stream

    def complete(self, target: str, domain: Domain) -> Stream:
        """Return the rows in which `target` is not missing, of `domain`, where it has no code of a missing value."""
        stream = copy(self)
        stream._target = self._raw_domain[target]
        vars(stream).pop("n_rows", None)
        stream._start(domain)
        return stream

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
            raise InputError(f"counts of {', '.join(names)}: a column stands twice")
        return key

    def _cells(self, key: Key) -> int:
        return math.prod(self._sizes[a] for a in key)

    def _containing(self, key: Key) -> Key | None:
        """Return the smallest table in the cache that has all columns of `key`."""
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
        self._passes.append(None)

    def _missing(self) -> list[Key]:
        """Return the expected marginals that are not in the cache, without those that lie in other expected ones."""
        inside = {s for q in self._expected for s in subsets(q, smallest=1) if len(s) < len(q)}
        return [q for q in self._expected if q not in inside and q not in self._cache]

    def batches(self) -> Iterator[Table]:
        """See `CountSource.batches`."""
        for _, codes in self._coded(self.domain.names):
            yield Table(codes.T, self.domain)

    def in_memory(self) -> Table:
        """See `CountSource.in_memory`."""
        n, d = self.n_rows, len(self.domain)
        kind = np.dtype(np.int16 if max(self.domain.sizes, default=1) <= 2**15 else np.int32)
        check_cost(
            f"a table of {n:,} rows and {d} columns",
            kind.itemsize * n * d,
            mend="take fewer rows, or a method that needs counts only",
        )
        codes, row = np.empty((n, d), kind, order="F"), 0
        for batch in self.batches():
            codes[row : (row := row + batch.n_rows)] = batch.codes
        table = Table._trusted(codes, self.domain)
        return table if self.ordered else table.take(np.lexsort(table.codes.T[::-1]))

    def problems(self) -> list[Problem]:
        """Return all problems of the cells, by a pass over all columns: those of one column and reason as one."""
        encoded = encode(self._batches(self._raw_domain.names), self._raw_domain, on_error="collect")
        return merged(problem for found in encoded for problem in found.problems)

    def raw(self, chosen: Callable[[int], NDArray[np.int64]], also: Sequence[str] = ()) -> Iterator[dict[str, Cells]]:
        """Yield the raw columns of some rows in batches: of so many rows that come next, those that are `chosen`.

        With the columns `also` that the domain does not read, where the rows have them.
        """
        also = [name for name in also if name in self.columns]
        for batch in self._batches([*self._raw_domain.names, *also]):
            rows = chosen(len(batch))
            if len(rows):
                taken = Batch(batch.where, None, batch.rows.take(rows))
                found = {a.name: cells_of(taken.column(a.name), a.name, lenient=a.lenient) for a in self._raw_domain}
                yield found | {n: cells_of(taken.column(n), n, lenient=True) for n in also}

    def _count(self, marginals: Sequence[tuple[str, ...]]) -> Iterator[Counts]:
        """Yield these marginals from one pass over the rows, each flat, last column fastest."""
        from marginalia.data.sources.kernel import Tally, covering, sums  # numba takes 0.2 s to load

        asked = {n for q in marginals for n in q}
        names = [n for n in self.domain.names if n in asked]
        at = {n: i for i, n in enumerate(names)}
        wanted, sizes = [tuple(at[n] for n in q) for q in marginals], [self.domain[n].size for n in names]
        tables = covering(wanted, sizes)
        if self._group is not None:
            grouped = [self._grouped([names[a] for a in q], self._group) for q in tables]
            return sums(wanted, tables, grouped.__getitem__, sizes)
        tally = Tally(tables, sizes)
        # The number of rows if it is known: to count those of a CSV file takes a pass.
        with bar(f"pass {self.passes + 1}", vars(self).get("n_rows")) as advance:
            for _, codes in self._coded(names):
                tally.add(codes)
                advance(codes.shape[1])
        return sums(wanted, tables, tally.counts_of, sizes)

    def _grouped(self, names: Sequence[str], group: Group) -> Counts:
        """Return a marginal, flat, from groups of equal rows."""
        target = [] if self._target is None else [self._target.name]
        sizes = [self.domain[n].size for n in names]
        flat = np.zeros(math.prod(sizes), np.int64)
        for codes, counts in group(list(dict.fromkeys([*names, *target]))):
            kept = slice(None) if self._target is None else codes[self._target.name] != self._target.missing_code
            each = [self._codes[n][codes[n][kept]] if self._codes else codes[n][kept] for n in names]
            cells = np.ravel_multi_index(each, sizes) if names else np.zeros(len(counts[kept]), np.intp)
            np.add.at(flat, cells, counts[kept])
        return flat

    def _batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield batches with these columns; the rows of each file or table are numbered by themselves."""
        place, row, n = "", 0, 0
        for where, rows in self._read(columns):
            if where != place:
                place, row = where, 0
            yield Batch(where, row, rows)
            row += len(rows)
            n += len(rows)
        self._first_n = n if self._first_n is None else self._first_n
        if n != self._first_n:
            raise InputError(
                f"{self.name}: first {self._first_n} rows, now {n}: each pass has to read the same rows; take a copy"
            )

    def _coded(self, names: Sequence[str], also: Sequence[str] = ()) -> Iterator[tuple[Batch, NDArray[np.integer]]]:
        """Yield batches, which have the columns `also`, and the codes of each, shape (names, rows)."""
        needed = {n for z in self._raw_domain.declared_zeros for n in z.attributes}.union(names)
        target = None if self._target is None else self._target.name
        read = [n for n in self._raw_domain.names if n in needed or n == target]
        batches = self._batches([*read, *(c for c in also if c not in read)])
        for batch, codes, _ in encode(batches, self._raw_domain.project(read)):
            out = codes if read == list(names) else codes[[read.index(n) for n in names]]
            if self._target is not None:
                out = out[:, codes[read.index(self._target.name)] != self._target.missing_code]
            if self._codes:
                out = out.astype(smallest([*self._raw_domain.sizes, *(self.domain[n].size for n in names)]))
                for line, n in zip(out, names, strict=True):
                    line[:] = self._codes[n][line]
            yield batch, out
