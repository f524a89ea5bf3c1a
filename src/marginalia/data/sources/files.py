"""The rows of files with the same columns, as a stream."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from marginalia.data.csv_files import CSVFile
from marginalia.data.domain import Domain
from marginalia.data.parquet_files import ParquetFile
from marginalia.data.reading import is_read_whole
from marginalia.data.sources.folder import Paths, data_files
from marginalia.data.sources.stream import Stream
from marginalia.errors import InputError

PARQUET = ".parquet"
SUFFIXES = (PARQUET, ".csv", ".csv.gz", ".tsv", ".txt")  # of the data files of a folder
_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Hive and Spark write a missing value in a path


def stream_files(paths: Paths, *, domain: Domain) -> Stream:
    r"""Return the rows of files with the same columns, one file after the other, in the order of their names.

    Files whose names end in ``.parquet`` are Parquet, all others CSV (which may be packed by gzip, or alone in a zip);
    cells are encoded as by `Table.read`. A CSV file is read once when it is opened, for characters that are no text.
    A column of the domain that the files lack may stand in the names of their folders, as ``year=2024``. A file that
    has another size or time at a later pass is refused: counts of different rows do not belong together.

    Parameters
    ----------
    paths : path of a file or folder, pattern such as ``year=*/part-*``, or iterable of paths
        See `data_files`.
    domain : Domain

    Raises
    ------
    InputError
        No file matches, some files are Parquet and some CSV, a file cannot be read, or the columns differ between files
        or are not those of the domain; see `Stream`. When rows are read: a file has changed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("smoker; region\n0; 1\n1; 1\n1; 2\n")
    ...     rows = stream_files(f"{folder}/*.csv", domain=Domain.from_sizes({"smoker": 2, "region": 3}))
    ...     rows.n_rows, rows.counts(["region", "smoker"]).tolist()
    (3, [[0, 0], [1, 1], [0, 1]])
    """
    found = data_files(paths, SUFFIXES)
    if not found.paths and isinstance(paths, str | os.PathLike) and os.path.isdir(paths):
        raise InputError(f"{paths}: this folder holds neither CSV nor Parquet files; {found.line() or 'it is empty'}")
    if not found.paths:
        raise InputError(f"no file matches {paths}{found.line() and '; '}{found.line()}")
    kinds = {path.endswith(PARQUET): Path(path).name for path in reversed(found.paths)}  # the first file of each
    if len(kinds) > 1:
        raise InputError(
            f"{paths}: {kinds[True]} is Parquet and {kinds[False]} is not; they may hold the same rows twice: give a "
            "pattern that matches files of one kind"
        )
    if whole := [path for path in found.paths if is_read_whole(path)]:
        raise InputError(f"{whole[0]}: a file of this kind is read alone; write several as Parquet or CSV")
    marks = {path: _mark(path) for path in found.paths}
    files = [(ParquetFile if True in kinds else CSVFile).scan(path) for path in found.paths]
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
