"""Parquet files of any size as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from marginalia.data.domain import Domain
from marginalia.data.reading import instants_of_spark, with_instants
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.folder import Paths
from marginalia.data.sources.stream import BATCH, Stream
from marginalia.errors import InputError

SUFFIXES = (".parquet",)


def open_parquet(paths: Paths, *, domain: Domain) -> Stream:
    """Return the rows of Parquet files with the same columns, in the order of the files.

    Cells are encoded as by `Table.read`: original values where the attribute has a `type`, else codes.

    Parameters
    ----------
    paths : path of a file or folder, pattern such as ``year=*/part-*.parquet``, or iterable of paths
        See `stream_files`.
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
    ...     rows = open_parquet(f"{folder}/*.parquet", domain=table.domain)
    ...     rows.n_rows, rows.counts(["region", "smoker"]).tolist()
    (3, [[0, 0], [1, 1], [0, 1]])
    """
    return stream_files(paths, domain, suffixes=SUFFIXES, columns_of=_columns, batches_of=_batches, rows_of=_rows)


def _rows(path: str) -> int:
    return int(_opened(path).metadata.num_rows)


def _columns(path: str) -> list[str]:
    # Without the index of a frame, under the name that pandas gives it: it is no column for `Table.read` either.
    return [str(n) for n in _opened(path).schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", n)]


def _batches(path: str, columns: Sequence[str]) -> Iterator[Any]:
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
