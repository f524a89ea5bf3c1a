"""Store raw rows without loss: each cell as text with its kind, in a Parquet file whose types no row decides.

A library that infers the type of a column changes cells by a look at other cells: integers beside an empty cell become
doubles, and one date after the year 9999 makes a column of dates unreadable. Here every column has the same Arrow type,
whatever its declared type, because a raw cell may always be something else: a missing mark, a special text, a typing
error.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data.cells import Cell, Cells, Kind, cells_of
from marginalia.data.checksums import write_parquet
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_FORMAT = {b"marginalia.cells": b"2"}
_LETTERS: dict[Kind, str] = {"text": "s", "number": "n", "boolean": "b", "time": "t", "instant": "i"}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}


def cell_texts(column: Cells) -> NDArray[Any]:
    """Return the kind and text of each row's cell as one text, None where there is no value.

    >>> import pandas as pd
    >>> cell_texts(cells_of(pd.Series([True, None, 7.0], dtype=object))).tolist()
    ['bTrue', None, 'n7']
    """
    return np.array([*_texts(column), None], dtype=object)[column.which]


def _texts(column: Cells) -> list[str]:
    return [_LETTERS[cell.kind] + cell.text for cell in column.listed]


def write_cells(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write the cells of a data frame to a Parquet file; cells that hold several values have none.

    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> with TemporaryDirectory() as folder:
    ...     write_cells(pd.DataFrame({"a": ["7", 7]}, dtype=object), f"{folder}/t.parquet")
    ...     read_cells(f"{folder}/t.parquet")["a"].tolist()
    [Cell(kind='text', text='7'), Cell(kind='number', text='7')]
    """
    import pyarrow as pa

    columns = {}
    for name in frame.columns:
        column = cells_of(frame[name], str(name), lenient=True)
        texts = pa.array(_texts(column), pa.string())
        which = pa.array(column.which, pa.int64(), mask=column.which < 0).cast(pa.int32())
        columns[str(name)] = pa.DictionaryArray.from_arrays(which, texts)
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([(name, kind) for name in columns], metadata=_FORMAT)
    write_parquet(path, pa.Table.from_arrays(list(columns.values()), schema=schema))


def read_cells(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return what `write_cells` wrote, each column as objects: a `Cell`, or None where there is no value.

    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"a": [2**60 + 1, None, "x"]}, dtype=object)
    >>> with TemporaryDirectory() as folder:
    ...     write_cells(rows, f"{folder}/t.parquet")
    ...     read_cells(f"{folder}/t.parquet")["a"].tolist()
    [Cell(kind='number', text='1152921504606846977'), None, Cell(kind='text', text='x')]
    """
    import pandas as pd
    from pyarrow import ArrowException, parquet

    try:
        table = parquet.read_table(path)
        if not _FORMAT.items() <= (table.schema.metadata or {}).items():
            raise InputError(f"{path} was prepared by another version of marginalia; prepare the data set again")
        texts = {name: cells_of(table.column(name), name) for name in table.column_names}
    except (ArrowException, OSError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    columns = {}
    for name, column in texts.items():
        stored = [Cell(_KINDS[cell.text[0]], cell.text[1:]) for cell in column.listed]
        columns[name] = Cells(column.which, stored).rows()
    return pd.DataFrame(columns, dtype=object)
