"""Parquet files of any size as a stream."""

from __future__ import annotations

from marginalia.data.domain import Domain
from marginalia.data.parquet_files import ParquetFile
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.folder import Paths
from marginalia.data.sources.stream import Stream

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
    return stream_files(paths, domain, suffixes=SUFFIXES, scan=ParquetFile.scan)
