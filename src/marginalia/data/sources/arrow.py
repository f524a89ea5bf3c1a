"""Rows that come as Arrow batches: coded, checked and counted while they stream."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from marginalia.data.attribute import Attribute
from marginalia.data.coding import ROWS, Fault, RawColumn, check_not_ambiguous, codes_of
from marginalia.data.domain import Domain
from marginalia.data.folding import Folds
from marginalia.data.reading import check_header
from marginalia.data.sources.folder import Paths, data_files
from marginalia.data.sources.source import PassingSource, covering, sums
from marginalia.data.table import Counts, Table, zero_faults
from marginalia.errors import InputError
from marginalia.memory import check_cost
from marginalia.progress import bar

BATCH = 2**17  # rows


class ArrowSource(PassingSource):
    """Rows that `_arrow` yields; cells are coded as by `Table.read`: original values where an attribute has a `type`.

    Memory holds one batch of rows and the counts, however many rows there are.

    Parameters
    ----------
    columns : sequence of str
        That the rows have, those that the domain ignores too.
    domain : Domain
        Its order becomes that of `columns`.
    where : str
        Named in error messages.

    >>> sorted(ArrowSource.__abstractmethods__)
    ['_arrow', 'n_rows']
    """

    def __init__(self, columns: Sequence[str], domain: Domain, where: str) -> None:
        check_header(list(columns), where)
        if domain.unit is not None:
            raise InputError(
                f"{where}: which rows of each `{domain.unit.column}` are kept is chosen where rows are opened; call "
                "marginalia.data.sources.opening.open_source"
            )
        kept = [c for c in columns if c not in domain.ignored]
        if absent := [n for n in domain.names if n not in kept]:
            raise InputError(
                f"{where}: column '{absent[0]}' of the domain is missing; there are {', '.join(kept)[:300]}"
            )
        if extra := [c for c in kept if c not in domain]:
            raise InputError(
                f"{where}: column '{extra[0]}' is not in the domain; declare it there, under attributes or ignored, or "
                "drop it from the file"
            )
        self.columns = tuple(columns)
        self._given = domain.project(kept)  # as `Table.from_frame` orders it
        for attribute in self._given:
            check_not_ambiguous(attribute, where)
        self._codes: Mapping[str, NDArray[np.integer]] = {}
        super().__init__(self._given)

    @abstractmethod
    def _arrow(self, columns: Sequence[str]) -> Iterator[tuple[str, int, Any]]:
        """Yield batches of these columns: where they are from, the number of their first row there, the batch."""

    def recoded(self, codes: Mapping[str, NDArray[np.integer]], domain: Domain) -> ArrowSource:
        """See `CountSource.recoded`."""
        source = copy(self)
        PassingSource.__init__(source, domain)
        source._done = self._done
        source._codes = {n: np.asarray(codes[n])[self._codes[n]] if self._codes else codes[n] for n in domain.names}
        return source

    def batches(self) -> Iterator[Table]:
        """See `CountSource.batches`."""
        for _, _, codes, _ in self._coded(self.domain.names):
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
        return Table._trusted(codes, self.domain)

    def faults(self) -> Iterator[tuple[str, Fault]]:
        """Yield all cells without a code, and where they are: a `Fault` for each reason, column and batch of rows."""
        for where, first, batch in self._arrow(self._given.names):
            codes = np.zeros((batch.num_rows, len(self._given)), np.int64)
            for j, attribute in enumerate(self._given):
                codes[:, j], found = codes_of(_raw(batch.column(attribute.name), attribute), attribute)
                yield from ((where, _later(fault, first)) for fault in found)
            yield from ((where, _later(fault, first)) for fault in zero_faults(codes, self._given))

    def folded(self) -> list[str]:
        """Return a line for everything of the cells that the codes do not keep, by a pass over such columns."""
        folds = Folds(self._given)
        for _, _, batch in self._arrow(folds.names) if folds.names else ():
            for name in folds.names:
                folds.add(self._given[name], _raw(batch.column(name), self._given[name]))
        return list(folds.lines())

    def raw(
        self, chosen: Callable[[int], NDArray[np.int64]], also: Sequence[str] = ()
    ) -> Iterator[dict[str, RawColumn]]:
        """Yield the raw columns of some rows in batches: of so many rows that come next, those that are `chosen`.

        With the columns `also` that the domain does not read, where the rows have them.
        """
        also = [name for name in also if name in self.columns]
        for _, _, batch in self._arrow([*self._given.names, *also]):
            rows = chosen(batch.num_rows)
            if len(rows):
                taken = batch.take(rows)
                found = {a.name: _raw(taken.column(a.name), a) for a in self._given}
                yield found | {n: RawColumn.of_arrow(taken.column(n), n, lenient=True) for n in also}

    def _count(self, marginals: Sequence[tuple[str, ...]]) -> Iterator[Counts]:
        from marginalia.data.sources.kernel import Tally  # numba takes 0.2 s to load

        asked = {n for q in marginals for n in q}
        names = [n for n in self.domain.names if n in asked]
        at = {n: i for i, n in enumerate(names)}
        wanted, sizes = [tuple(at[n] for n in q) for q in marginals], [self.domain[n].size for n in names]
        tables = covering(wanted, sizes)
        tally = Tally(tables, sizes)
        # The number of rows where it has been found out: for a CSV file that is a pass of its own.
        with bar(f"pass {self.passes + 1}", vars(self).get("n_rows")) as advance:
            for codes in self._read(names):
                tally.add(codes)
                advance(codes.shape[1])
        return sums(wanted, tables, tally.counts_of, sizes)

    def _read(self, names: Sequence[str]) -> Iterator[NDArray[np.integer]]:
        """Yield the codes of batches of rows, shape (names, rows), checked."""
        return (codes for _, _, codes, _ in self._coded(names))

    def _coded(
        self, names: Sequence[str], also: Sequence[str] = ()
    ) -> Iterator[tuple[str, int, NDArray[np.integer], Any]]:
        """Yield where a batch is from, the number of its first row there, its codes, and it with the columns `also`."""
        zeros = {n for z in self._given.declared_zeros for n in z.attributes}
        read = [n for n in self._given.names if n in zeros or n in names]
        of = self._given.project(read)
        kind = _smallest([*of.sizes, *(self.domain[n].size for n in names)])
        for where, first, batch in self._arrow([*read, *(c for c in also if c not in read)]):
            codes = np.empty((len(read), batch.num_rows), kind)
            for line, attribute in zip(codes, of, strict=True):
                line[:] = _coded(batch.column(attribute.name), attribute, where, first)
            for fault in zero_faults(codes.T, of) if zeros else ():
                raise InputError(f"{where}: {_later(fault, first).line()}")
            out = codes if read == list(names) else codes[[read.index(n) for n in names]]
            if self._codes:
                for line, n in zip(out, names, strict=True):
                    line[:] = self._codes[n][line]
            yield where, first, out, batch


def _coded(column: Any, attribute: Attribute, where: str, first: int) -> NDArray[np.integer]:
    """Return the codes of a column of a batch; `first` is the number of its first row there."""
    import pyarrow as pa

    if attribute.type in (None, "code") and pa.types.is_integer(column.type) and not column.null_count:
        codes = column.to_numpy(zero_copy_only=False)
        if not codes.size or (codes.min() >= 0 and codes.max() < attribute.size):
            return np.asarray(codes)
    try:
        codes, faults = codes_of(_raw(column, attribute), attribute)
    except InputError as error:
        raise InputError(f"{where}, rows from {first} {ROWS}: {error}") from None
    if faults:
        fault = min(faults, key=lambda fault: int(fault.rows[0]))
        raise InputError(f"{where}: {_later(fault, first).line()}")
    return codes


def without_views(batch: Any) -> Any:
    """Return a batch with plain text in place of views of text (as Polars writes), which Arrow cannot filter.

    >>> import pyarrow as pa
    >>> batch = pa.record_batch([pa.array(["a"], pa.string_view())], names=["x"])
    >>> without_views(batch).schema.field("x").type
    DataType(string)
    """
    import pyarrow as pa

    columns = [c.cast(pa.string()) if pa.types.is_string_view(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _raw(column: Any, attribute: Attribute) -> RawColumn:
    return RawColumn.of_arrow(column, attribute.name, lenient=attribute.lenient)


def _later(fault: Fault, first: int) -> Fault:
    return replace(fault, rows=fault.rows + first)


def _smallest(sizes: Sequence[int]) -> type[np.integer[Any]]:
    largest = max(sizes, default=1)
    return np.uint8 if largest <= 2**8 else np.uint16 if largest <= 2**16 else np.int32


_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Hive and Spark write a missing value in a path


class FileSource(ArrowSource):
    """The rows of files with the same columns, one file after the other.

    A column of the domain that the files lack may stand in the names of their folders, as ``year=2024``. A file that is
    another one at a later pass, by its size or time, is refused: counts of different rows do not belong together.

    Parameters
    ----------
    paths : path of a file or folder, pattern such as ``year=*/part-*``, or iterable of paths
        Files of a folder or pattern are read in the order of their names, each once; see `data_files`.
    domain : Domain

    Attributes
    ----------
    skipped : str
        One line on what of a folder or pattern is not read; empty where nothing is left out.

    >>> sorted(FileSource.__abstractmethods__)
    ['_batches', '_columns', 'n_rows']
    """

    SUFFIXES: ClassVar[tuple[str, ...]]  # of the files of a folder

    def __init__(self, paths: Paths, *, domain: Domain) -> None:
        found = data_files(paths, self.SUFFIXES)
        if not found.paths:
            raise InputError(f"no file matches {paths}{found.line() and '; '}{found.line()}")
        self._paths, self.skipped = list(found.paths), found.line()
        self._marks = {path: _mark(path) for path in self._paths}
        columns = self._columns(self._paths[0])
        known = {*domain.names, *domain.ignored}
        self._in_path = [k for k in _folder_values(self._paths[0]) if k in known and k not in columns]
        for path in self._paths[1:]:
            if set(self._columns(path)) != set(columns):
                raise InputError(f"{path}: the columns are not those of {self._paths[0]}")
            if absent := [k for k in self._in_path if k not in _folder_values(path)]:
                raise InputError(f"{path}: no folder is named {absent[0]}=..., as for {self._paths[0]}")
        super().__init__([*columns, *self._in_path], domain, self._paths[0])

    def __repr__(self) -> str:
        files = "1 file" if len(self._paths) == 1 else f"{len(self._paths)} files"
        return f"{type(self).__name__}({files}, {self.domain!r})"

    @abstractmethod
    def _columns(self, path: str) -> list[str]:
        """Return the columns of a file."""

    @abstractmethod
    def _batches(self, path: str, columns: Sequence[str]) -> Iterator[Any]:
        """Yield Arrow batches of these columns of a file; without columns, of any."""

    def _arrow(self, columns: Sequence[str]) -> Iterator[tuple[str, int, Any]]:
        inside = [c for c in columns if c not in self._in_path]
        for path in self._paths:
            self._check_unchanged(path)
            values, row = _folder_values(path), 0
            for batch in self._batches(path, inside):
                yield path, row, _with_constants(batch.select(inside), {c: values[c] for c in self._in_path})
                row += batch.num_rows
            self._check_unchanged(path)

    def _check_unchanged(self, path: str) -> None:
        if _mark(path) != self._marks[path]:
            raise InputError(
                f"{path}: the file has changed since it was opened; nothing that was counted can be used: begin again"
            )


def _mark(path: str) -> tuple[int, int]:
    """Return what tells a file from a later one of the same name: its size, and its time in nanoseconds."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    return status.st_size, status.st_mtime_ns


def _folder_values(path: str) -> dict[str, str | None]:
    """Return the columns in the names of a file's folders."""
    pairs = (part.split("=", 1) for part in Path(path).parts[:-1] if "=" in part)
    return {unquote(name): None if value == _NULL else unquote(value) for name, value in pairs}


def _with_constants(batch: Any, values: Mapping[str, str | None]) -> Any:
    import pyarrow as pa

    for name, value in values.items():
        # One text and as many references to it: each batch is coded by its distinct values.
        refer = pa.repeat(pa.scalar(0 if value is not None else None, pa.int8()), batch.num_rows)
        batch = batch.append_column(name, pa.DictionaryArray.from_arrays(refer, pa.array([value or ""])))
    return batch
