"""Read a sheet of an Excel workbook: each cell by its own type, whatever the other cells of its column."""

from __future__ import annotations

import os
import re
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

from marginalia.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

_NAMED = re.compile(r"(.*\.xls[xm])(?:\?sheet=(.+))?", re.IGNORECASE | re.DOTALL)


def sheet_of(text: str | os.PathLike[str]) -> tuple[str, str | None] | None:
    """Return the file and the sheet that a text names; None if it names no workbook.

    >>> sheet_of("stays.xlsx?sheet=2024"), sheet_of("stays.XLSX"), sheet_of("stays.csv")
    (('stays.xlsx', '2024'), ('stays.XLSX', None), None)
    """
    found = _NAMED.fullmatch(os.fspath(text))
    return None if found is None else (found[1], found[2])


def read_sheet(path: str, sheet: str | None = None) -> pd.DataFrame:
    """Return the rows of a sheet, each column as objects; the first row that is not empty has the names.

    Parameters
    ----------
    path : str
    sheet : str, optional
        May be left out where only one sheet has cells.

    Raises
    ------
    InputError
        The file is no workbook, several sheets have cells, a row is longer than the header; openpyxl is not installed.

    Examples
    --------
    >>> read_sheet("no/such/file.xlsx")
    Traceback (most recent call last):
    marginalia.errors.InputError: ...
    """
    import pandas as pd

    try:
        import openpyxl
    except ModuleNotFoundError:
        what = "workbooks are read by openpyxl, which is not installed: pip install 'marginalia[files]'"
        raise InputError(f"{path}: {what}, or save the sheet as CSV in UTF-8") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of formats that are not read
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            rows = _rows(path, book, sheet)
            book.close()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not an Excel workbook that can be read; save the sheet as CSV in UTF-8") from None
    if not rows:
        raise InputError(f"{path}: the sheet is empty; a table needs a header line")
    names, table = ["" if name is None else str(name).strip() for name in rows[0]], rows[1:]
    for i, row in enumerate(table):
        if len(row) > len(names):
            many = f"{len(row)} cells, the header has {len(names)} (rows count from 0, without the header)"
            fix = "remove rows above the header, or give each column a name in it"
            raise InputError(f"{path}, row {i}: {many}; {fix}")
        row += [None] * (len(names) - len(row))
    columns: Any = zip(*table, strict=True) if table else [[] for _ in names]
    frame = pd.DataFrame({j: pd.Series(list(cells), dtype=object) for j, cells in enumerate(columns)})
    return frame.set_axis(names, axis=1)


def _rows(path: str, book: Any, wanted: str | None) -> list[list[Any]]:
    """Return the rows of a sheet that are not empty, without empty cells at their ends."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if wanted is not None:
        if wanted not in sheets:
            raise unknown_name(f"sheet of {path}", wanted, sheets)
        return _filled(sheets[wanted])
    filled = {
        name: rows for name, sheet in sheets.items() if sheet.sheet_state == "visible" and (rows := _filled(sheet))
    }
    if len(filled) > 1:
        some = ", ".join(list(filled)[:5]) + ", ..." * (len(filled) > 5)
        first = next(iter(filled))
        raise InputError(f"{path}: {len(filled)} sheets have cells ({some}); name one: '{path}?sheet={first}'")
    return next(iter(filled.values()), [])


def _filled(sheet: Any) -> list[list[Any]]:
    found = []
    for row in sheet.iter_rows(values_only=True):
        cells = list(row)
        while cells and (cells[-1] is None or cells[-1] == ""):
            cells.pop()
        if cells:
            found.append(cells)
    return found
