"""Read Parquet files as they are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BATCH = 2**17  # rows
_INDEX = re.compile(r"__index_level_\d+__")  # how pandas names the index of a frame, which is no column


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file.

    Attributes
    ----------
    path : str
    names : tuple of str
        Columns.
    n_rows : int
    instants : tuple of str
        Columns in which Spark wrote instants as INT96, a type that does not say so.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> with TemporaryDirectory() as folder:
    ...     parquet.write_table(pa.table({"age": [30, 31], "ward": ["A", "B"]}), f"{folder}/t.parquet")
    ...     file = ParquetFile.scan(f"{folder}/t.parquet")
    ...     file.names, file.n_rows, [batch.to_pydict() for batch in file.batches(["ward"])]
    (('age', 'ward'), 2, [{'ward': ['A', 'B']}])
    """

    path: str
    names: tuple[str, ...]
    n_rows: int
    instants: tuple[str, ...]

    @classmethod
    def scan(cls, path: str | os.PathLike[str]) -> ParquetFile:
        """Read what a file says of its columns and rows.

        Raises
        ------
        InputError
            The file cannot be read, or is no Parquet file.
        """
        path = os.fspath(path)
        with reading_parquet(path), _opened(path) as file:
            metadata = file.metadata
            if sum(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) != metadata.num_rows:
                raise ValueError("the numbers of rows do not add up")
            names = tuple(str(name) for name in file.schema_arrow.names if not _INDEX.fullmatch(str(name)))
            of_spark = b"org.apache.spark.version" in (metadata.metadata or {})
            columns = [metadata.schema.column(i) for i in range(metadata.num_columns)] if of_spark else []
            instants = tuple(column.path for column in columns if column.physical_type == "INT96")
            return cls(path, names, metadata.num_rows, instants)
        raise AssertionError

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of these columns as Arrow batches."""
        with reading_parquet(self.path), _opened(self.path) as file:
            for batch in file.iter_batches(batch_size=BATCH, columns=list(columns), use_threads=False):
                yield _with_instants(batch, self.instants)

    def read(self) -> Any:
        """Return all rows as an Arrow table, with what pandas has noted of the index."""
        with reading_parquet(self.path), _opened(self.path) as file:
            return _with_instants(file.read(), self.instants)
        raise AssertionError


@contextmanager
def reading_parquet(path: str) -> Iterator[None]:
    """Raise an InputError for a file that cannot be read, whatever Arrow and pandas raise for a damaged one.

    >>> with reading_parquet("t.parquet"):
    ...     raise KeyError("a type that does not exist")
    Traceback (most recent call last):
    marginalia.errors.InputError: t.parquet: not a Parquet file ('a type that does not exist')
    """
    try:
        yield
    except InputError:  # a ValueError
        raise
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
        raise InputError(f"cannot read {path}: {why}") from None
    except (ValueError, NotImplementedError, LookupError, TypeError) as error:  # Arrow's own errors are some of these
        raise InputError(f"{path}: not a Parquet file ({str(error).strip().splitlines()[0]})") from None


def _opened(path: str) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path, coerce_int96_timestamp_unit="us")


def _with_instants(rows: Any, names: Iterable[str]) -> Any:
    """Return an Arrow table, or batch, in which times in some columns are instants in UTC."""
    import pyarrow as pa

    for name in names:
        if (at := rows.schema.get_field_index(name)) >= 0:
            rows = rows.set_column(at, name, rows.column(at).cast(pa.timestamp("us", "UTC")))
    return rows


def whole_numbers(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the columns of a Parquet file that holds whole numbers and no gaps; none of any other file.

    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> with TemporaryDirectory() as folder:
    ...     parquet.write_table(pa.table({"a": [1, 0]}), f"{folder}/t.parquet")
    ...     whole_numbers(f"{folder}/t.parquet")
    {'a': array([1, 0])}
    """
    from pyarrow import types

    try:
        table = ParquetFile.scan(path).read()
    except InputError:
        return {}
    plain = len(set(table.column_names)) == table.num_columns and all(
        types.is_integer(column.type) and not column.null_count for column in table.columns
    )
    # By DLPack, as Arrow's own way to NumPy imports pandas.
    return (
        {
            name: np.from_dlpack(column.combine_chunks())
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        if plain
        else {}
    )
