"""Parquet files of any size: streamed in batches, many marginals counted in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from marginalia.data.reading import instants_of_spark, with_instants
from marginalia.data.sources.arrow import BATCH, FileSource
from marginalia.data.sources.source import PassingSource
from marginalia.errors import InputError


class ParquetSource(FileSource):
    """The rows of Parquet files with the same columns, in the order of the files.

    Cells are coded as by `Table.read`: original values where the attribute has a `type`, else codes. Memory holds one
    batch of rows and the counts, whatever the size of the files.

    Parameters
    ----------
    paths : path of a file or folder, pattern such as ``year=*/part-*.parquet``, or iterable of paths
        See `FileSource`.
    domain : Domain
    kept_bytes : int, default 2**28
        Bound on the counts of one pass, and on those kept for later.

    Raises
    ------
    InputError
        A file cannot be read; columns are missing, unknown or differ between files. When rows are read: a value
        without a code; a file has changed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 1], [1, 1], [1, 2]], Domain.from_sizes({"smoker": 2, "region": 3}))
    >>> with TemporaryDirectory() as folder:
    ...     table.to_parquet(f"{folder}/t.parquet")
    ...     source = ParquetSource(f"{folder}/*.parquet", domain=table.domain)
    ...     source.n_rows, source.counts(["region", "smoker"]).tolist()
    (3, [[0, 0], [1, 1], [0, 1]])
    """

    SUFFIXES = (".parquet",)
    _groups: dict[str, list[int]] | None = None  # row groups of each file that are read; None: all

    @cached_property
    def n_rows(self) -> int:
        """Number of records, from the files' metadata."""
        return sum(rows for path in self._paths for _, rows in self._row_groups(path))

    @property
    def paths(self) -> list[str]:
        """The files, in the order in which they are read."""
        return list(self._paths)

    def shards(self, n_shards: int) -> list[tuple[ParquetSource, int]]:
        """Cut the rows into runs of row groups of about the same length, some maybe empty, to be counted apart.

        Returns
        -------
        list of (ParquetSource, int)
            Each shard, and the number of its first row in all rows.

        >>> from tempfile import TemporaryDirectory
        >>> import pandas as pd
        >>> from marginalia.data.domain import Domain
        >>> with TemporaryDirectory() as folder:
        ...     pd.DataFrame({"a": [0, 1] * 6}).to_parquet(f"{folder}/t.parquet", row_group_size=5)
        ...     source = ParquetSource(f"{folder}/t.parquet", domain=Domain.from_sizes({"a": 2}))
        ...     [(shard.n_rows, first) for shard, first in source.shards(2)]
        [(5, 0), (7, 5)]
        """
        chosen: list[dict[str, list[int]]] = [{} for _ in range(n_shards)]
        firsts, row, n = [self.n_rows] * n_shards, 0, self.n_rows
        for path in self._paths:
            for group, rows in self._row_groups(path):
                at = min(n_shards - 1, (2 * row + rows) * n_shards // (2 * n)) if n else 0  # by its middle row
                chosen[at].setdefault(path, []).append(group)
                firsts[at] = min(firsts[at], row)
                row += rows
        return [(self._shard(groups), first) for groups, first in zip(chosen, firsts, strict=True)]

    def _arrow(self, columns: Sequence[str]) -> Iterator[tuple[str, int, Any]]:
        for path, row, batch in super()._arrow(columns):
            yield path, row + self._skipped(path), batch

    def _skipped(self, path: str) -> int:
        """Return how many rows of a file come before those that are read."""
        if self._groups is None:
            return 0
        found = _opened(path).metadata
        return sum(found.row_group(group).num_rows for group in range(self._groups[path][0]))

    def _shard(self, groups: dict[str, list[int]]) -> ParquetSource:
        shard = copy(self)
        PassingSource.__init__(shard, self.domain, kept_bytes=self._kept_bytes)
        vars(shard).pop("n_rows", None)
        shard._paths, shard._groups = list(groups), groups
        return shard

    def _row_groups(self, path: str) -> list[tuple[int, int]]:
        """Return the row groups of a file that are read, each with its number of rows."""
        found = _opened(path).metadata
        groups = range(found.num_row_groups) if self._groups is None else self._groups[path]
        return [(group, found.row_group(group).num_rows) for group in groups]

    def _columns(self, path: str) -> list[str]:
        # Without the index of a frame, under the name that pandas gives it: it is no column for `Table.read` either.
        return [str(n) for n in _opened(path).schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", n)]

    def _batches(self, path: str, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            with _opened(path) as file:
                groups = None if self._groups is None else self._groups[path]
                instants = instants_of_spark(file.metadata)
                for batch in file.iter_batches(
                    batch_size=BATCH, columns=list(columns), row_groups=groups, use_threads=False
                ):
                    yield with_instants(batch, instants)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: a damaged file ({str(error).splitlines()[0]})") from None


def _opened(path: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or str(error).splitlines()[0]}") from None
    except pa.ArrowException as error:
        raise InputError(f"{path}: not a Parquet file ({str(error).splitlines()[0]})") from None
