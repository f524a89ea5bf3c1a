"""Store raw rows without loss: each cell as text with its kind, in a Parquet file whose types no row decides.

A library that infers the type of a column changes cells by a look at other cells: integers beside an empty cell become
doubles, and one date after the year 9999 makes a column of dates unreadable. Here every column has the same Arrow type,
whatever its declared type, because a raw cell may always be something else: a missing mark, a special text, a typing
error.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data.cells import Cell
from marginalia.data.checksums import write_parquet
from marginalia.data.coding import RawColumn
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

_EXACT = 2**53  # whole numbers up to it are the same cell as doubles
_FORMAT = {b"marginalia.cells": b"1"}

# Letter of each kind of cell, how its value is written, and how it is read.
_KINDS: dict[type, tuple[str, Callable[[Any], str], Callable[[str], Cell]]] = {
    bool: ("b", str, "True".__eq__),
    int: ("i", str, int),
    float: ("f", repr, float),
    Decimal: ("n", str, Decimal),
    str: ("s", str, str),
    datetime.date: ("d", datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.datetime: ("t", datetime.datetime.isoformat, datetime.datetime.fromisoformat),
}
_READ = {letter: read for letter, _, read in _KINDS.values()}


def text_of_cell(value: Cell) -> str:
    """Return a cell that is not None as text, from which `cell_of_text` makes the same cell.

    >>> text_of_cell(2**60), text_of_cell("7"), text_of_cell(7.0), text_of_cell(Decimal("1.50"))
    ('i1152921504606846976', 's7', 'i7', 'n1.50')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        value = int(value)  # arrays of small integers come as doubles
    letter, write, _ = _KINDS[type(value)]
    return letter + write(value)


def cell_of_text(text: str) -> Cell:
    """Return the cell that `text_of_cell` wrote.

    >>> cell_of_text("d2020-01-01")
    datetime.date(2020, 1, 1)
    """
    return _READ[text[0]](text[1:])


def cell_texts(column: RawColumn) -> NDArray[Any]:
    """Return the text of each row of a column, None where there is no value.

    >>> import pandas as pd
    >>> cell_texts(RawColumn.of(pd.Series([True, None]))).tolist()
    ['bTrue', None]
    """
    return np.array([*map(text_of_cell, column.distinct.tolist()), None], dtype=object)[column.which]


def write_cells(frame: pd.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write the cells of a data frame to a Parquet file; cells that hold several values have none.

    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> with TemporaryDirectory() as folder:
    ...     write_cells(pd.DataFrame({"a": ["7", 7]}, dtype=object), f"{folder}/t.parquet")
    ...     read_cells(f"{folder}/t.parquet")["a"].tolist()
    ['7', 7]
    """
    import pyarrow as pa

    columns = {}
    for name in frame.columns:
        column = RawColumn.of(frame[name], str(name), lenient=True)
        texts = pa.array(list(map(text_of_cell, column.distinct.tolist())), pa.string())
        which = pa.array(column.which, pa.int64(), mask=column.which < 0).cast(pa.int32())
        columns[str(name)] = pa.DictionaryArray.from_arrays(which, texts)
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([(name, kind) for name in columns], metadata=_FORMAT)
    write_parquet(path, pa.Table.from_arrays(list(columns.values()), schema=schema))


def read_cells(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return what `write_cells` wrote, each column as objects.

    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"a": [2**60 + 1, None, "x"]}, dtype=object)
    >>> with TemporaryDirectory() as folder:
    ...     write_cells(rows, f"{folder}/t.parquet")
    ...     read_cells(f"{folder}/t.parquet")["a"].tolist()
    [1152921504606846977, None, 'x']
    """
    import pandas as pd
    from pyarrow import ArrowException, parquet

    try:
        table = parquet.read_table(path)
        if not _FORMAT.items() <= (table.schema.metadata or {}).items():
            raise InputError(f"{path} was prepared by another version of marginalia; prepare the data set again")
        texts = {name: RawColumn.of_arrow(table.column(name), name) for name in table.column_names}
    except (ArrowException, OSError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    columns = {}
    for name, column in texts.items():
        cells = np.empty(len(column.distinct) + 1, dtype=object)  # the last: no value
        cells[:-1] = [cell_of_text(text) for text in column.distinct.tolist()]
        columns[name] = cells[column.which]
    return pd.DataFrame(columns, dtype=object)
