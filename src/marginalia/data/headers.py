"""Recognize first lines of a table that are no header, or a second one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from marginalia.data import values
from marginalia.data.cells import Cell, Cells, cells_of

if TYPE_CHECKING:
    import pandas as pd

_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?|[0-9]{1,2}([./])[0-9]{1,2}\2[0-9]{2,4}")
_SEVERAL = 2  # columns with a text above their numbers, from which on it is a second header line
_ENOUGH = 3  # distinct values below that text


def value_in_header(names: Sequence[str]) -> str:
    """Return a name of a column that is a value, as in a file without a header line; empty if all may be names.

    Numbers that ascend, such as years, may be names, and so may dates.

    >>> value_in_header(["39", "Private", "13"]), value_in_header(["id", "2023", "2024"])
    ('39', '')
    """
    dates = [name for name in names if _DATE.fullmatch(name)]
    if len(dates) == 1 or sorted(set(dates)) != dates:
        return dates[0]
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    counted = [float(name.replace(",", ".")) for name in numbers]
    return "" if sorted(set(counted)) == counted else numbers[0]


def second_header(frame: pd.DataFrame) -> str:
    """Return the first texts of row 0 where it is a second header line, such as one of units; else an empty text.

    >>> import pandas as pd
    >>> second_header(pd.DataFrame({"age": ["years", "30", "31", "4"], "weight": ["kg", "70", "71.5", "80"]}))
    "'years', 'kg'"
    """
    texts = []
    for j, name in enumerate(frame.columns):
        column = cells_of(frame.iloc[:, j], str(name), lenient=True)
        if (first := int(column.which[0])) >= 0 and _is_above_numbers(column, first):
            texts.append(values.shown(column.listed[first]))
    return ", ".join(texts[:3]) if len(texts) >= _SEVERAL else ""


def _is_above_numbers(column: Cells, first: int) -> bool:
    """Whether a cell is a text that no other row has, and all other cells are numbers or dates."""
    if column.counts[first] > 1 or len(column.distinct) <= _ENOUGH or _is_value(column.listed[first]):
        return False
    return all(_is_value(cell) for i, cell in enumerate(column.listed) if i != first)


def _is_value(cell: Cell) -> bool:
    for read in (values.number, values.day):
        try:
            read(cell)
        except ValueError:
            continue
        return True
    return False
