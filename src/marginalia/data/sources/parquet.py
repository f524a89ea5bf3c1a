"""Parquet files of any size: streamed in batches, many marginals counted in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from marginalia.data.reading import instants_of_spark, with_instants
from marginalia.data.sources.arrow import BATCH, FileSource
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

    @cached_property
    def n_rows(self) -> int:
        """Number of records, from the files' metadata."""
        return sum(_opened(path).metadata.num_rows for path in self._paths)

    def _columns(self, path: str) -> list[str]:
        # Without the index of a frame, under the name that pandas gives it: it is no column for `Table.read` either.
        return [str(n) for n in _opened(path).schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", n)]

    def _batches(self, path: str, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            with _opened(path) as file:
                instants = instants_of_spark(file.metadata)
                for batch in file.iter_batches(batch_size=BATCH, columns=list(columns), use_threads=False):
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
