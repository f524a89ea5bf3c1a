"""Read files of Stata, SPSS and SAS: the types, value labels and codes of missing answers that a file declares.

Stata is read by pandas, SPSS and SAS by pyreadstat. Whether a cell is read as its code or as the label of the code
depends on this cell, the metadata of the file and the public domain, and on no other cell.
"""

from __future__ import annotations

import datetime
import math
import os
import struct
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data.cells import Cell, Cells, cells_of, number_text, of_object
from marginalia.data.values import WORDS
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data.column import Column
    from marginalia.data.domain import Domain

PROGRAMS = {".dta": "Stata", ".sav": "SPSS", ".zsav": "SPSS", ".por": "SPSS", ".sas7bdat": "SAS", ".xpt": "SAS"}
"""The program of a file, by the ending of its name."""

_MOST_CODES = 100  # of a range of codes of missing answers that are listed
_1960 = datetime.datetime(1960, 1, 1)
_STATA_MISSING = 2_147_483_621  # codes of value labels from here on stand for `.` and `.a` to `.z`
_DAMAGED = (ValueError, LookupError, TypeError, AttributeError, EOFError, OverflowError, struct.error)


@dataclass(frozen=True)
class ValueLabels:
    """What a file declares of the codes of one column.

    Attributes
    ----------
    labels : dict of str to str
        Label by the text of the code, in the order of the codes.
    missing : tuple of str
        Texts of the codes that stand for a missing answer: user-missing values of SPSS, ``.a`` to ``.z`` of Stata.
    ordered : bool
        Whether the file says that the codes have an order.

    Examples
    --------
    >>> ValueLabels({"1": "yes", "2": "no", "9": "refused"}, missing=("9",)).categories
    ('yes', 'no')
    """

    labels: Mapping[str, str]
    missing: tuple[str, ...] = ()
    ordered: bool = False

    @property
    def categories(self) -> tuple[str, ...]:
        """The labels of codes that are answers, each once."""
        return tuple(dict.fromkeys(label for code, label in self.labels.items() if code not in self.missing))

    @property
    def reasons(self) -> tuple[str, ...]:
        """What stands for a missing answer: the label of the code, or the code itself."""
        return tuple(dict.fromkeys(self.labels.get(code, code) for code in self.missing))


Labels = Mapping[str, ValueLabels]


def program_of(path: str | os.PathLike[str]) -> str:
    """Return the program of a file by its ending; empty if it is none of these.

    >>> program_of("survey.dta"), program_of("survey.csv")
    ('Stata', '')
    """
    return PROGRAMS.get(Path(path).suffix.lower(), "")


def read_labelled(path: str | os.PathLike[str]) -> tuple[pd.DataFrame, Labels]:
    """Return the codes of a file of Stata, SPSS or SAS, and what it declares of the columns with labels.

    Raises
    ------
    InputError
        The file cannot be read, or is none of this program; pyreadstat is not installed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> with TemporaryDirectory() as folder:
    ...     ward = pd.Categorical(["A", "B", "A"], categories=["A", "B", "C"])
    ...     pd.DataFrame({"ward": ward}).to_stata(f"{folder}/t.dta", write_index=False)
    ...     read_labelled(f"{folder}/t.dta")[1]["ward"].categories
    ('A', 'B', 'C')
    """
    program = program_of(path)
    if not os.path.isfile(path):
        raise InputError(f"cannot read {path}: {'Is a directory' if os.path.isdir(path) else 'No such file'}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _of_stata(path) if program == "Stata" else _by_pyreadstat(Path(path), program)
    except ModuleNotFoundError:
        what = f"files of {program} are read by pyreadstat, which is not installed"
        raise InputError(f"{path}: {what}: pip install 'marginalia[files]'") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or str(error).splitlines()[0]}") from None
    except InputError:
        raise
    except _DAMAGED as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: not a file of {program} that can be read ({why})") from None


def with_labels(frame: pd.DataFrame, declared: Labels, domain: Domain | None) -> pd.DataFrame:
    """Return a table of codes with labels in place of codes, where the domain speaks of labels.

    Without a domain every code that has a label is read as the label.

    >>> import pandas as pd
    >>> labels = {"sex": ValueLabels({"1": "m", "2": "f"})}
    >>> with_labels(pd.DataFrame({"sex": [2, 3]}), labels, None)["sex"].tolist()
    [Cell(kind='text', text='f'), Cell(kind='number', text='3')]
    """
    shown = {}
    for name, own in declared.items():
        codes = cells_of(frame[name], name)
        column = domain[name] if domain is not None and name in domain else None
        read = [_read_as(cell, own.labels.get(cell.text), column, domain) for cell in codes.listed]
        shown[name] = Cells(codes.which, read).rows()
    return frame.assign(**shown)


def _read_as(cell: Cell, label: str | None, column: Column | None, domain: Domain | None) -> Cell:
    """Return a code, or its label where the column of the domain names the label, or holds texts."""
    if label is None:
        return cell
    as_label = Cell("text", label)
    if column is None:
        return as_label if domain is None else cell
    if label in column.written or cell.text in column.written:
        return as_label if label in column.written else cell
    if column.type == "boolean":
        is_word = any(label.casefold() in words for words in WORDS.values())
        return as_label if is_word or label.casefold() in map(str.casefold, column.labels or ()) else cell
    return as_label if column.type == "string" else cell


def _of_stata(path: str | os.PathLike[str]) -> tuple[pd.DataFrame, Labels]:
    import pandas as pd

    stata: Any = import_module("pandas.io.stata")
    with stata.StataReader(path, convert_dates=False, convert_categoricals=False, convert_missing=True) as reader:
        frame, sets = reader.read(), reader.value_labels()
        # What a column is: pandas hands this out in no other way.
        facts = dict(
            zip(frame.columns, zip(reader._typlist, reader._fmtlist, reader._lbllist, strict=True), strict=True)
        )
    known_as = stata.StataMissingValue.MISSING_VALUES
    columns, declared = {}, {}
    for name, (kind, form, label_set) in facts.items():
        named = sets.get(label_set, {})
        codes = {code: known_as[code] if code >= _STATA_MISSING else number_text(float(code)) for code in named}
        labels = _cleaned({codes[code]: text for code, text in named.items()})
        apart = {code for code in labels if code.startswith(".")}
        read = _stata_time(form)
        columns[name] = frame[name]
        if frame[name].dtype == object and not isinstance(kind, int) and kind != "Q":
            mixed = [_stata_cell(value, kind, read) for value in frame[name]]
            columns[name] = pd.Series(mixed, dtype=object)
            apart |= {cell.text for cell in mixed if cell is not None and cell.kind == "text"}
        elif read is not None:
            cells = cells_of(frame[name], name)
            columns[name] = Cells(cells.which, [read(float(cell.text)) for cell in cells.listed]).rows()
        if labels or apart:
            declared[name] = ValueLabels(labels, tuple(sorted(apart)))
    return pd.DataFrame(columns), declared


def _stata_cell(value: Any, kind: Any, read: Callable[[float], Cell] | None) -> Cell | None:
    """Return a value of a numeric column with missing values: these are objects of pandas."""
    if hasattr(value, "string"):
        return None if value.string == "." else Cell("text", value.string)
    return of_object(np.float32(value) if kind == "f" else value) if read is None else read(float(value))


def _stata_time(form: str) -> Callable[[float], Cell] | None:
    """Return how a number of a column with this display format is read as a time; None of other formats."""
    form = form.replace("%-", "%").removeprefix("%").removeprefix("t")
    periods = {"w": (52, 7), "m": (12, 0), "q": (4, 0), "h": (2, 0)}
    if form[:1] == "d":
        return lambda days: _time(lambda: (_1960 + datetime.timedelta(days)).date(), days)
    if form[:1].lower() == "c" and "." not in form[:1]:
        return lambda milli: _time(lambda: _1960 + datetime.timedelta(milliseconds=milli), milli)
    if form[:1] not in periods or "." in form or form[1:2].isdigit():
        return None
    many, days = periods[form[0]]

    def first_day(count: float) -> datetime.date:
        year, place = divmod(int(count), many)
        if days:
            return datetime.date(1960 + year, 1, 1) + datetime.timedelta(days * place)
        return datetime.date(1960 + year, 1 + place * 12 // many, 1)

    return lambda count: _time(lambda: first_day(count), count)


def _time(read: Callable[[], datetime.date], number: float) -> Cell:
    """Return a date as a cell; a number that stands for none that Python can hold as it is."""
    try:
        cell = of_object(read())
    except (OverflowError, ValueError):
        cell = None
    return cell or Cell("number", number_text(number))


def _by_pyreadstat(path: Path, program: str) -> tuple[pd.DataFrame, Labels]:
    import pyreadstat

    kind = path.suffix.lower()
    readers = {".por": pyreadstat.read_por, ".xpt": pyreadstat.read_xport, ".sas7bdat": pyreadstat.read_sas7bdat}
    options = {} if kind in (".por", ".xpt") else {"user_missing": True}
    catalogue = path.with_suffix(".sas7bcat")
    try:
        frame, about = readers.get(kind, pyreadstat.read_sav)(str(path), **options)
        sets = about.variable_value_labels
        if kind == ".sas7bdat" and catalogue.is_file():
            known = pyreadstat.read_sas7bcat(str(catalogue))[1].value_labels
            sets = {name: known.get(form, {}) for name, form in about.variable_to_label.items()}
    except pyreadstat.ReadstatError as error:
        raise ValueError(str(error)) from None
    declared = {}
    for name in frame.columns:
        own, letters = sets.get(name, {}), set(about.missing_user_values.get(name, ()))
        if about.readstat_variable_types.get(name) != "string":
            letters |= {code for code in own if isinstance(code, str)}
        labels = _cleaned({_code(code, letters): label for code, label in own.items()})
        ranges = _in_ranges(about.missing_ranges.get(name, ()), labels)
        missing = [*(f".{letter}" for letter in sorted(letters)), *ranges]
        if letters:
            cells = frame[name].astype(object)
            frame[name] = cells.map(lambda value, of=letters: f".{value}" if value in of else value)
        if labels or missing:
            ordered = about.variable_measure.get(name) == "ordinal"
            declared[str(name)] = ValueLabels(labels, tuple(dict.fromkeys(missing)), ordered)
    frame.columns = [str(name) for name in frame.columns]
    return frame, declared


def _code(code: Any, letters: set[str]) -> str:
    """Return the text of a code as its cells have it."""
    return f".{code}" if code in letters else _text(code)


def _text(code: Any) -> str:
    cell = of_object(code)
    return "" if cell is None else cell.text


def _cleaned(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels that are texts, in the order of their codes, on one line."""
    clean = {code: " ".join(str(label).split()) for code, label in labels.items()}

    def place(code: str) -> tuple[int, float]:
        try:
            return 0, float(code)
        except ValueError:
            return 1, math.nan

    return {code: clean[code] for code in sorted(clean, key=place) if clean[code]}


def _in_ranges(ranges: Any, labels: Mapping[str, str]) -> list[str]:
    """Return the codes in ranges of missing values: those with a label, and all of a range of few whole numbers."""
    found = []
    for low, high in ((one["lo"], one["hi"]) for one in ranges):
        if isinstance(low, str):
            found.append(low.strip())
            continue
        for code in labels:
            try:
                found += [code] if low <= float(code) <= high else []
            except ValueError:
                continue
        if high - low < _MOST_CODES:
            found += [number_text(low + i) for i in range(int(high - low) + 1)]
    return found
