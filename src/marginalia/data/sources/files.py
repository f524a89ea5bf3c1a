"""The rows of many files as one table: which files, the columns in their folders' names, and that none changes."""

from __future__ import annotations

import glob
import hashlib
import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from marginalia.data.domain import Domain
from marginalia.data.sources.arrow import ArrowSource
from marginalia.data.sources.source import KEPT_BYTES
from marginalia.errors import InputError

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Hive and Spark write a missing value in a path


class FileSource(ArrowSource):
    """The rows of files with the same columns, one file after the other.

    A column of the domain that the files lack may stand in the names of their folders, as ``year=2024``. A file that is
    another one at a later pass, by its size or time, is refused: counts of different rows do not belong together.

    Parameters
    ----------
    paths : path of a file or folder, pattern such as ``year=*/part-*``, or iterable of paths
        Files of a folder or pattern are read in the order of their names.
    domain : Domain
    kept_bytes : int, default 2**28
        Bound on the counts of one pass, and on those kept for later.

    >>> sorted(FileSource.__abstractmethods__)
    ['_batches', '_columns', 'n_rows']
    """

    SUFFIXES: ClassVar[tuple[str, ...]]  # of the files of a folder

    def __init__(self, paths: Paths, *, domain: Domain, kept_bytes: int = KEPT_BYTES) -> None:
        self._paths = _found(paths, self.SUFFIXES)
        self._marks = {path: _mark(path) for path in self._paths}
        columns = self._columns(self._paths[0])
        self._in_path = [k for k in _folder_values(self._paths[0]) if k in domain and k not in columns]
        for path in self._paths[1:]:
            if set(self._columns(path)) != set(columns):
                raise InputError(f"{path}: the columns are not those of {self._paths[0]}")
            if absent := [k for k in self._in_path if k not in _folder_values(path)]:
                raise InputError(f"{path}: no folder is named {absent[0]}=..., as for {self._paths[0]}")
        super().__init__([*columns, *self._in_path], domain, self._paths[0], kept_bytes=kept_bytes)

    def __repr__(self) -> str:
        files = "1 file" if len(self._paths) == 1 else f"{len(self._paths)} files"
        return f"{type(self).__name__}({files}, {self.domain!r})"

    @property
    def mark(self) -> str:
        """Hash of the sizes and times of all files, those of other shards among them."""
        return hashlib.sha256(repr(list(self._marks.values())).encode()).hexdigest()

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


def _found(paths: Paths, suffixes: Sequence[str]) -> list[str]:
    if not isinstance(paths, str | os.PathLike):
        found = [os.fspath(p) for p in paths]
    elif os.path.isdir(text := os.fspath(paths)):
        found = sorted(str(p) for p in Path(text).rglob("*") if p.name.endswith(tuple(suffixes)) and p.is_file())
    else:
        found = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else [text]
    if not found:
        raise InputError(f"no file matches {paths}")
    if len(set(map(os.path.abspath, found))) < len(found):
        raise InputError(f"{paths}: a file stands twice; its rows would be counted twice")
    return found


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
