"""The rows of files with the same columns, as a stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from marginalia.data.csv_files import CSVFile
from marginalia.data.domain import Domain
from marginalia.data.parquet_files import ParquetFile
from marginalia.data.sources.folder import Paths, data_files
from marginalia.data.sources.stream import Stream
from marginalia.errors import InputError

_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Hive and Spark write a missing value in a path


def stream_files(
    paths: Paths,
    domain: Domain,
    *,
    suffixes: Sequence[str],
    scan: Callable[[str], CSVFile] | Callable[[str], ParquetFile],
) -> Stream:
    r"""Return the rows of files with the same columns, one file after the other, in the order of their names.

    A column of the domain that the files lack may stand in the names of their folders, as ``year=2024``. A file that
    has another size or time at a later pass is refused: counts of different rows do not belong together.

    Parameters
    ----------
    paths : path of a file or folder, pattern such as ``year=*/part-*``, or iterable of paths
        See `data_files`.
    domain : Domain
    suffixes : sequence of str
        Of the data files of a folder.
    scan : callable
        Opens one file.

    Raises
    ------
    InputError
        No file matches, the columns differ between files, or are not those of the domain; see `Stream`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.txt").write_text("a\n0\n")
    ...     stream_files(folder, Domain.from_sizes({"a": 2}), suffixes=[".txt"], scan=CSVFile.scan).counts(["a"])
    array([1, 0])
    """
    found = data_files(paths, suffixes)
    if not found.paths:
        raise InputError(f"no file matches {paths}{found.line() and '; '}{found.line()}")
    marks = {path: _mark(path) for path in found.paths}
    files = [scan(path) for path in found.paths]
    first, columns = files[0].path, files[0].names
    in_path = [k for k in _folder_values(first) if k in {*domain.names, *domain.ignored} and k not in columns]
    for path, file in zip(found.paths, files, strict=True):
        if set(file.names) != set(columns):
            raise InputError(f"{path}: the columns are not those of {first}")
        if absent := [k for k in in_path if k not in _folder_values(path)]:
            raise InputError(f"{path}: no folder is named {absent[0]}=..., as for {first}")

    def read(asked: Sequence[str]) -> Iterator[tuple[str, Any]]:
        inside = [c for c in asked if c not in in_path]
        for (path, mark), file in zip(marks.items(), files, strict=True):
            _check_unchanged(path, mark)
            constants = {c: value for c, value in _folder_values(path).items() if c in in_path and c in asked}
            for batch in file.batches(inside):
                yield path, _with_constants(batch.select(inside), constants)
            _check_unchanged(path, mark)

    known = [file.n_rows for file in files if isinstance(file, ParquetFile)]
    n_rows = (lambda: sum(known)) if known else None
    return Stream(read, domain, columns=[*columns, *in_path], name=first, n_rows=n_rows)


def _check_unchanged(path: str, mark: tuple[int, int]) -> None:
    if _mark(path) != mark:
        raise InputError(
            f"{path}: the file has changed since it was opened; nothing that was counted can be used: begin again"
        )


def _mark(path: str) -> tuple[int, int]:
    """Return the size of a file and its time in nanoseconds, to notice that it has changed."""
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
        # One text and as many references to it: each batch is encoded by its distinct values.
        refer = pa.repeat(pa.scalar(0 if value is not None else None, pa.int8()), batch.num_rows)
        batch = batch.append_column(name, pa.DictionaryArray.from_arrays(refer, pa.array([value or ""])))
    return batch
