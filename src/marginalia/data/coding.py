"""From the values of a raw column to the codes of its column in the domain, and back.

A cell without a code is a `Problem`. Going back, a value inside a bin is drawn, uniformly and from a seeded stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.data import values
from marginalia.data.cells import Cell, Cells, cells_of
from marginalia.data.column import BOOLEANS, NUMBERS, Column, number_or_text
from marginalia.data.number_formats import NumberFormat, read_number
from marginalia.data.similar import Rule, merged
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


Codes = NDArray[np.int64]
Reason = tuple[str, str]  # what is wrong with a value, and how to mend it
ROWS = "(rows count from 0)"
_EMPTY = ("has no code", "give missing values one by `missing: []`, or drop these rows")
CORRECT = "correct the file, or the domain"
_ISO: dict[values.Unit, str] = {"day": "D", "hour": "m", "minute": "m", "second": "s"}  # what is written, for numpy


@dataclass(frozen=True)
class Problem:
    """Cells of one column that have no code, or lose something, all for the same reason.

    Attributes
    ----------
    column, reason : str
    rows, first_row : int
        How many rows, and the first of them; 0 rows: the whole column, and `reason` is the whole message.
    fix : str
    severity : {"error", "warning", "info"}
        Whether the cells have no code, count as missing because they cannot be read, or lose something.
    cell : str
        The first cell.
    where : str
        The file or table of the first row.

    Examples
    --------
    >>> Problem("age", "is not a number", 2, 3, "correct it", cell="'x'").line
    "column 'age', row 3: 'x' is not a number; correct it (rows count from 0)"
    """

    column: str
    reason: str
    rows: int = 0
    first_row: int = 0
    fix: str = ""
    severity: Literal["error", "warning", "info"] = "error"
    cell: str = ""
    where: str = ""

    @property
    def line(self) -> str:
        """Where the first cell is, what is wrong with it, and how to correct it."""
        if not self.rows:
            return self.reason
        return f"column '{self.column}', row {self.first_row}: {self.cell} {self.reason}; {self.fix} {ROWS}"

    def count_line(self, n_rows: int, *, where: str = "") -> str:
        """Return how many of the rows are concerned, which is the first, and how to correct it.

        >>> Problem("age", "is not a number", 2, 3, "correct it", cell="'x'").count_line(9)
        "column 'age': 2 of 9 rows: 'x' in row 3 is not a number; correct it"
        """
        if not self.rows:
            return self.reason
        first = f"{self.cell} in row {self.first_row}{where and f' of {where}'}"
        return f"column '{self.column}': {self.rows} of {n_rows} rows: {first} {self.reason}; {self.fix}"


def codes_of(raw: pd.Series[Any] | Cells, column: Column) -> tuple[Codes, list[Problem]]:
    """Return the codes of a raw column, -1 where a value has none, and why.

    >>> import pandas as pd
    >>> ward = Column("ward", 3, labels=("surgery", "medicine"), type="string", missing=("?",))
    >>> codes_of(pd.Series(["medicine", "?", None]), ward)
    (array([1, 2, 2]), [])
    """
    cells = raw if isinstance(raw, Cells) else cells_of(raw, column.name, lenient=column.lenient)
    return Coder(column).encode(cells)


def numbers_of(raw: pd.Series[Any], column: Column) -> NDArray[np.float64]:
    """Return a raw column as numbers (of dates and timestamps: units since 1970-01-01), NaN where it holds no value.

    Cells that count as missing hold none, nor do those with special texts.

    >>> import pandas as pd
    >>> age = Column("age", 2, edges=(0, 9), type="number", bottom=True, top=True, missing=("?",), lenient=True)
    >>> numbers_of(pd.Series(["3", " ", "?", "x", "-inf"]), age)
    array([  3.,  nan,  nan,  nan, -inf])
    """
    cells = cells_of(raw, column.name, lenient=column.lenient)
    of = Coder(column)
    numbers, _ = of.numbers(cells)
    numbers = np.where(of.apart_codes(cells, numbers) >= 0, np.nan, numbers)
    return np.append(numbers, np.nan)[cells.which]


def category_counts(raw: pd.Series[Any], marks: Collection[str] = (), merge: Collection[Rule] = ()) -> dict[str, int]:
    """Return how often each value of a raw column occurs, by its text; missing values are none.

    Texts that differ only by the rules of `merge` are one.

    >>> import pandas as pd
    >>> category_counts(pd.Series(["a", 1.0, "?", "1", None]), ["?"])
    {'a': 1, '1': 2}
    >>> category_counts(pd.Series(["a", "A", "n/a", "N/A"]), ["n/a"], ["case"])
    {'a': 2}
    """
    column = cells_of(raw, lenient=True)
    counts: dict[str, int] = {}
    marks = {merged(mark, merge) for mark in marks} if merge else marks
    for (_, text), count in zip(column.listed, column.counts.tolist(), strict=True):
        label = merged(text, merge) if merge else text
        if count and label not in marks:
            counts[label] = counts.get(label, 0) + count
    return counts


def check_not_ambiguous(column: Column, where: str) -> None:
    """Raise for a column of a file of an older version whose values could be taken for its codes.

    >>> check_not_ambiguous(Column("age", 2, edges=(0, 18, 65)), "t.csv")
    Traceback (most recent call last):
    marginalia.errors.InputError: t.csv: the domain does not say what column 'age' holds: add `type: code` if ...
    """
    if column.type is not None:
        return
    for code, label in enumerate(column.labels or ()):
        try:
            ambiguous = values.number(label) != code
        except ValueError:
            continue
        if ambiguous:
            break
    else:
        if column.edges is None:
            return
    raise InputError(
        f"{where}: the domain does not say what column '{column.name}' holds: add `type: code` if its codes "
        f"0..{column.size - 1}, or the type of its values (integer, number, date, string)"
    )


def bin_codes(
    numbers: ArrayLike, edges: Sequence[float], *, bottom: bool = False, top: bool = False
) -> NDArray[np.int64]:
    """Return the left-closed bin of each value, from 0 to ``len(edges) - 2``, -1 of those in no bin.

    Values beyond the outer edges fall into the outer bins where these are open (`bottom`, `top`).

    >>> bin_codes([18, 30, 64, 65], [0, 30, 65])
    array([ 0,  1,  1, -1])
    """
    numbers = np.asarray(numbers, dtype=np.float64)
    codes = np.searchsorted(edges, numbers, side="right") - 1
    last = len(edges) - 2
    codes[np.isnan(numbers)] = -1
    if bottom:
        codes[numbers < edges[0]] = 0
    codes[codes > last] = last if top else -1
    return codes.astype(np.int64)


class Coder:
    """The code of each cell of one column, by public facts that are worked out once.

    No column keeps one: what was looked up last would be pickled with a model, and tell which cells there were.

    Parameters
    ----------
    column : Column
    lenient : bool, optional
        Default: as the column says.

    Examples
    --------
    >>> age = Column("age", 2, edges=(0, 18, 65), type="integer")
    >>> codes, reasons = Coder(age).codes(Cells(np.arange(2), np.array([20.0, 70.0])))
    >>> codes, reasons[1][0]
    (array([ 1, -1]), 'is outside the bins from 0 to 65 (left-closed)')
    """

    def __init__(self, column: Column, *, lenient: bool | None = None) -> None:
        self.column = column
        self.lenient = column.lenient if lenient is None else lenient

    @cached_property
    def _positions(self) -> dict[Any, int]:
        """The code of each label, by the label's value."""
        if self.column.merge:
            return {self.column.merged(label): code for code, label in enumerate(self.column.labels or ())}
        return {value: code for code, value in enumerate(self.column.label_values)}

    @cached_property
    def _words(self) -> dict[str, int]:
        """The code of each label of text in lower case; of equal ones the first."""
        return {label.casefold(): code for label, code in reversed(self._positions.items())}

    @cached_property
    def _label_numbers(self) -> dict[Decimal, int]:
        """The code of each label of text that is a plain number, by its exact value; of equal ones the first."""
        numbers = ((values.exact(label), code) for code, label in enumerate(self.column.labels or ()))
        return {number: code for number, code in reversed([*numbers]) if number is not None}

    @cached_property
    def _apart(self) -> dict[str | float, int]:
        """The codes of what stands for no value of the column's type, by its text, and by its value if it has one.

        These are the special texts and the marks of missing values, such as -9 among numbers.
        """
        of = self.column
        codes: dict[str, int] = dict(zip(of.special, of.special_codes, strict=True))
        codes |= dict.fromkeys(of.missing or (), of.size - 1)
        return {key: code for text, code in codes.items() for key in (of.merged(text), number_or_text(of, text))}

    def encode(self, cells: Cells, among: NDArray[np.bool_] | None = None) -> tuple[Codes, list[Problem]]:
        """Return the code of each row, -1 where it has none, and why; with `among` of these rows only."""
        of_distinct, reasons = self.codes(cells)
        column, missing = self.column, self.column.missing_code
        if self.lenient:
            of_distinct[of_distinct < 0] = column.size - 1
        codes = np.append(of_distinct, -1 if missing is None else missing)[cells.which]
        bad = np.flatnonzero(codes < 0 if among is None else (codes < 0) & among)
        why = [reasons.get(int(i), _EMPTY) for i in cells.which[bad]]
        problems = []
        for reason, fix in dict.fromkeys(why):
            rows = bad[np.array([other == (reason, fix) for other in why])]
            first = int(cells.which[rows[0]])
            cell = "an empty cell" if first < 0 else values.shown(cells.listed[first])
            problems.append(Problem(column.name, reason, rows.size, int(rows[0]), fix, cell=cell))
        return codes, problems

    def codes(self, cells: Cells) -> tuple[Codes, dict[int, Reason]]:
        """Return the code of each distinct cell, -1 where it has none, and why (by its position)."""
        column = self.column
        if column.type in NUMBERS:
            numbers, reasons = self.numbers(cells)
            codes = self._number_codes(numbers)
            beyond = [i for i in np.flatnonzero(codes < 0).tolist() if i not in reasons]
            if beyond:
                reasons |= dict.fromkeys(beyond, self._outside())
        else:
            read = {"string": self._label_code, "boolean": self._boolean_code}.get(str(column.type), self._own_code)
            numbers = np.full(len(cells.distinct), np.nan)
            codes, reasons = np.full(len(cells.distinct), -1, dtype=np.int64), {}
            for i, cell in enumerate(cells.listed):
                found = read(cell)
                if isinstance(found, int):
                    codes[i] = found
                else:
                    reasons[i] = found
        apart = self.apart_codes(cells, numbers)
        return np.where(apart >= 0, apart, codes), reasons

    def apart_codes(self, cells: Cells, numbers: NDArray[np.float64]) -> Codes:
        """Return the code of each distinct cell that is a special text or a mark of a missing value, else -1.

        It is one by the number or time that it is, or by its text; either way by itself alone.
        """
        codes = np.full(len(cells.distinct), -1, dtype=np.int64)
        texts = {}
        for key, code in self._apart.items():
            if isinstance(key, str):
                texts[key] = code
            else:
                codes[numbers == key] = code
        if not isinstance(cells.distinct, list) and cells.distinct.dtype.kind == "f":
            for text, code in texts.items():  # by the number that has this text: to write all takes long
                if (number := _number_of_text(text)) is not None:
                    codes[cells.distinct == number] = code
        elif texts:
            for i, cell in enumerate(cells.listed):
                for written in map(self.column.merged, values.spellings(cell)):
                    if written in texts:
                        codes[i] = texts[written]
                        break
        return codes

    def numbers(self, cells: Cells) -> tuple[NDArray[np.float64], dict[int, Reason]]:
        """Return each distinct cell as a number, of a time as units since 1970-01-01; NaN where it is none, and why."""
        column = self.column
        reasons: dict[int, Reason] = {}
        unit, of = column.counted_in, None if isinstance(cells.distinct, list) else cells.distinct.dtype.kind
        if of == "M" and unit is not None and not (cells.utc and column.zone):
            numbers = (cells.seconds // values.SECONDS[unit]).astype(np.float64)
        elif of == "f" and unit is None:
            numbers = np.asarray(cells.distinct)
            unread = np.isnan(numbers) if self.lenient else ~np.isfinite(numbers)
            reasons = {int(i): ("is not a number", CORRECT) for i in np.flatnonzero(unread)}
        else:
            read: Callable[[Any], float] = partial(read_number, format=column.format, infinite=self.lenient)
            if unit is not None:
                read = partial(values.moment, unit=unit, format=column.format, zone=column.zone, pivot=column.pivot)
            numbers = np.full(len(cells.distinct), np.nan)
            for i, cell in enumerate(cells.listed):
                try:
                    numbers[i] = read(cell)
                except ValueError as error:
                    reasons[i] = str(error), CORRECT
        if column.type == "integer" and not self.lenient:
            fractions = np.flatnonzero(np.isfinite(numbers) & (numbers != np.floor(numbers)))
            reasons |= {int(i): ("is not a whole number", f"{CORRECT}; type: number reads it") for i in fractions}
        unreadable = list(reasons)
        numbers = numbers.copy() if unreadable else numbers
        numbers[unreadable] = np.nan
        return numbers, reasons

    def _own_code(self, cell: Cell) -> int | Reason:
        try:
            code = values.number(cell)
        except ValueError:
            return "is not an integer code", "say by `type` what the column holds, or replace its values by codes"
        if not code.is_integer():
            return "is a fraction and not an integer code", "say by `type` what the column holds"
        size = self.column.size
        return int(code) if 0 <= code < size else (f"is outside the codes 0..{size - 1}", CORRECT)

    def _label_code(self, cell: Cell) -> int | Reason:
        """Find a cell among labels by its text; one that is no text also by other ways to write it."""
        for written in map(self.column.merged, values.spellings(cell)):
            if written in self._positions:
                return self._positions[written]
        code = self.column.other_code
        if cell.kind == "boolean":
            words = values.WORDS[cell.text == "True"]
            code = next((self._words[word] for word in words if word in self._words), code)
        elif cell.kind == "number" and (number := values.exact(cell)) is not None:
            code = self._label_numbers.get(number, code)
        return self._no_label("; `other: true` gives unknown values a code") if code is None else code

    def _boolean_code(self, cell: Cell) -> int | Reason:
        labels = self.column.labels or BOOLEANS
        if cell.kind == "boolean":
            return int(cell.text == "True")
        truth = None
        for written in values.spellings(cell):
            if written in labels:
                return labels.index(written)
            for code, label in enumerate(labels):
                if written.casefold() == label.casefold():
                    return code
            truth = next((truth for truth in (False, True) if written.casefold() in values.WORDS[truth]), truth)
        return (f"is neither {labels[0]} nor {labels[1]}", CORRECT) if truth is None else int(truth)

    def _number_codes(self, numbers: NDArray[np.float64]) -> Codes:
        column = self.column
        if column.decimals is not None:
            numbers = values.rounded(numbers, column.decimals)
        if column.edges is not None:
            return bin_codes(numbers, column.edges, bottom=column.bottom, top=column.top)
        return np.array([self._positions.get(number, -1) for number in numbers.tolist()], dtype=np.int64)

    def _no_label(self, more: str = "") -> Reason:
        of = self.column
        some = ", ".join((of.labels or ())[:8])[:200]
        return f"is not among the labels {some}{', ...' if of.n_values > 8 else ''}", f"{CORRECT}{more}"

    def _outside(self) -> Reason:
        edges, unit = self.column.edges, self.column.counted_in
        if edges is None:
            return self._no_label()
        first, last = (f"{e:g}" if unit is None else self.column.time_text(e) for e in (edges[0], edges[-1]))
        return (
            f"is outside the bins from {first} to {last} (left-closed)",
            f"{CORRECT}; `bottom: true`, `top: true` open the outer bins",
        )


def _number_of_text(text: str) -> float | None:
    """Return the double that is written so."""
    try:
        number = values.number(text, infinite=True)
    except ValueError:
        return None
    return number if values.text(number) == text else None


def original_values(codes: NDArray[np.integer], column: Column, rng: np.random.Generator) -> pd.Series[Any]:
    """Return the values behind the codes of one column.

    A value of a bin is drawn inside it, by what `within` says, else uniformly: whole numbers for integers, days for
    dates, whole units for timestamps, multiples of 10^-`decimals` for numbers that have decimals, others rounded to
    three significant digits of the width of the bin, or of its part. An open outer bin counts as it stands, from edge
    to edge.

    Returns
    -------
    Series
        Codes as they are where the column holds codes; text, integers as int64 or (with missing values)
        Int64, numbers as float64, Booleans as bool or boolean, dates and timestamps as datetime64 without a zone. A
        missing value is the first mark where that is a value of the type, else pandas' own. A special text is its
        value where it is one of the type; with others, the column is one of objects.

    Examples
    --------
    >>> age = Column("age", 3, edges=(0, 18, 65), type="integer", missing=())
    >>> original_values(np.array([0, 1, 2]), age, np.random.default_rng(0)).tolist()
    [15, 47, <NA>]
    """
    return with_types(drawn_numbers(codes, column, rng), codes, column)


def drawn_numbers(codes: NDArray[np.integer], column: Column, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the numbers behind codes, drawn inside their bins; NaN where a code stands for none.

    Dates and times are counted in their unit. Text and Booleans have no numbers.

    >>> age = Column("age", 3, edges=(0, 18, 65), type="integer", missing=())
    >>> drawn_numbers(np.array([0, 1, 2]), age, np.random.default_rng(0))
    array([15., 47., nan])
    """
    codes = np.asarray(codes)
    there = codes < column.n_values
    if column.type in ("string", "boolean"):
        return np.full(codes.shape, np.nan)
    if column.holds_codes:
        numbers = codes.astype(np.float64)
    elif column.edges is None:
        numbers = np.array(column.label_values, dtype=np.float64)[np.where(there, codes, 0)]
    else:
        numbers = _inside_bins(np.where(there, codes, 0), column, rng)
    return np.where(there, numbers, np.nan)


def with_types(numbers: NDArray[np.float64], codes: NDArray[np.integer], column: Column) -> pd.Series[Any]:
    """Return the values behind codes, whose numbers `drawn_numbers` has drawn; see `original_values`.

    >>> born = Column("born", 2, "numeric", edges=(0, 366, 731), type="date")
    >>> with_types(np.array([0.0, 400.0]), np.array([0, 1]), born).dt.date.astype(str).tolist()
    ['1970-01-01', '1971-02-05']
    """
    import pandas as pd

    if column.holds_codes:
        return pd.Series(codes)
    codes = np.asarray(codes)
    gone = codes == (-1 if column.missing_code is None else column.missing_code)
    mark = next(iter(column.missing or ()), None)
    if column.type == "string":
        other = () if column.other is None else (column.other,)
        known = [*(column.labels or ()), *other, *column.special, mark]
        return pd.Series(known).take(codes).reset_index(drop=True)
    if column.type == "boolean":
        truth = pd.Series(codes == 1)
        return _with_special(truth.astype("boolean").mask(gone) if gone.any() else truth, codes, column)
    numbers = np.where(codes < column.n_values, numbers, 0.0)
    for code, value in _special_values(column).items():
        numbers[codes == code] = value
    shown = None if mark is None else number_or_text(column, mark)
    if isinstance(shown, float):
        numbers[gone] = shown
        gone = np.zeros_like(gone)
    return _with_special(_of_type(numbers, gone, column), codes, column)


def _of_type(numbers: NDArray[np.float64], gone: NDArray[np.bool_], column: Column) -> pd.Series[Any]:
    """Return numbers as values of the column's type, with pandas' own missing value where one is gone."""
    import pandas as pd

    if column.type == "number":
        return pd.Series(np.where(gone, np.nan, numbers))
    whole = pd.Series(numbers.astype(np.int64))
    if column.type == "integer":
        return whole.astype("Int64").mask(gone) if gone.any() else whole
    assert column.counted_in is not None
    seconds = (numbers.astype(np.int64) * values.SECONDS[column.counted_in]).astype("datetime64[s]")
    seconds[gone] = np.datetime64("NaT", "s")
    return pd.Series(seconds)


def _special_values(column: Column) -> dict[int, float]:
    """Return the special codes whose texts are numbers or times of the column's type, and these."""
    read = (number_or_text(column, text) for text in column.special)
    return {code: x for code, x in zip(column.special_codes, read, strict=True) if not isinstance(x, str)}


def _with_special(series: pd.Series[Any], codes: NDArray[np.integer], column: Column) -> pd.Series[Any]:
    """Return a column of values with the special texts that are none of its type."""
    values_of = _special_values(column)
    texts = [code for code in column.special_codes if code not in values_of]
    series = series.astype(object) if texts else series
    for code in texts:
        series[codes == code] = column.texts[code]
    return series


def as_text(series: pd.Series[Any], column: Column) -> pd.Series[Any]:
    """Return original values as a CSV file holds them: ISO dates, Booleans by their labels, missing ones by their mark.

    >>> import pandas as pd
    >>> ill = Column("ill", 3, labels=("no", "yes"), type="boolean", missing=("?",))
    >>> as_text(pd.Series([True, None], dtype="boolean"), ill).tolist()
    ['yes', '?']
    """
    import pandas as pd

    if column.holds_codes or column.type == "string":
        return series
    if len(column.special):
        return _as_text_with_special(series, column)
    gone, mark = series.isna(), next(iter(column.missing or ()), None)
    if len(series) and gone.all():  # Pandas may know no type of such a column
        return pd.Series(mark, index=series.index, dtype=object)
    if (unit := column.counted_in) is not None:
        if column.format is not None:
            series = series.dt.strftime(column.format).astype(object)
        else:
            times = series.to_numpy().astype(f"datetime64[{_ISO[unit]}]")
            series = pd.Series(np.datetime_as_string(times), dtype=object)
    elif column.type == "boolean":
        labels = np.array(column.labels or BOOLEANS, dtype=object)
        series = pd.Series(labels[series.fillna(False).to_numpy(dtype=bool).astype(int)], dtype=object)
    elif column.format is not None:
        write = NumberFormat.parse(column.format).write
        series = series.astype(object).map(lambda number: write(number, column.decimals), na_action="ignore")
    elif column.decimals is not None:
        series = series.map(f"{{:.{column.decimals}f}}".format).astype(object)
    return series.astype(object).mask(gone, mark) if gone.any() else series


def _as_text_with_special(series: pd.Series[Any], column: Column) -> pd.Series[Any]:
    """Return the special cells of a column as their texts, and the others as if there were none."""
    import pandas as pd

    written = pd.Series(None, index=range(len(series)), dtype=object)
    values_of = _special_values(column)
    for code, text in zip(column.special_codes, column.special, strict=True):
        cell: Any = text
        if code in values_of:
            cell = _of_type(np.array([values_of[code]]), np.array([False]), column)[0]
        written[series.isin([cell]).to_numpy()] = text
    plain = written.isna().to_numpy()
    rest = series[plain].reset_index(drop=True).infer_objects()
    if len(rest):
        size = column.size - len(column.special)
        written[plain] = as_text(rest, column.replace(special=(), size=size)).to_numpy(dtype=object)
    return written


def _inside_bins(codes: NDArray[np.integer], column: Column, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a value inside the bin of each code that is no mark of a missing value."""
    edges, d = np.array(column.edges, dtype=np.float64), column.decimals
    numbers = np.empty(codes.size)
    again, marks = np.arange(codes.size), list(column.mark_values)
    while again.size:
        bins = codes[again]
        low, high = edges[bins], edges[bins + 1]
        if column.within is not None:
            numbers[again] = _by_density(low, high, bins, column, rng)
        elif d is not None:
            steps = _whole_numbers_between(values.steps_from(low, d), values.steps_from(high, d), rng)
            numbers[again] = steps / 10.0**d
        else:
            numbers[again] = (_numbers_between if column.type == "number" else _whole_numbers_between)(low, high, rng)
        again = again[np.isin(numbers[again], marks)] if marks else again[:0]
    return numbers


def _by_density(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    bins: NDArray[np.integer],
    column: Column,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Draw a value of each bin from the density that the column has within it, on multiples of its unit."""
    share, first, last = rng.random(low.shape), low.copy(), high.copy()  # the part of the bin that a value is in
    drawn = low + share * (high - low)
    if column.within == "log":
        beside = (low > 0) | (high < 0)
        drawn[beside] = low[beside] * (high[beside] / low[beside]) ** share[beside]
        half = np.abs(drawn[beside]) / 2
        first[beside], last[beside] = drawn[beside] - half, drawn[beside] + half
    else:
        assert column.edges is not None
        assert column.within is not None
        for b, places in enumerate(column.within):
            if places and (here := np.flatnonzero(bins == b)).size:
                x = np.array([column.edges[b], *(place for place, _ in places), column.edges[b + 1]])
                below = np.array([0.0, *(share_below for _, share_below in places), 1.0])
                part = np.clip(np.searchsorted(below, share[here], side="right") - 1, 0, len(places))
                first[here], last[here] = x[part], x[part + 1]
                drawn[here] = np.interp(share[here], below, x)
    if column.type == "number" and column.decimals is None:
        rounded = _rounded_between(drawn, first, np.maximum(last, np.nextafter(first, np.inf)))
        return np.where((rounded < low) | (rounded >= high), low, rounded)
    d = column.decimals or 0
    steps = np.clip(np.floor(drawn * 10.0**d), values.steps_from(low, d), values.steps_from(high, d) - 1)
    return steps / 10.0**d + 0.0


def _whole_numbers_between(
    low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = rng.integers(np.ceil(low).astype(np.int64), np.ceil(high).astype(np.int64))
    return drawn.astype(np.float64)


def _numbers_between(
    low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    return _rounded_between(low + rng.random(low.shape) * (high - low), low, high)


def _rounded_between(
    drawn: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Round to three significant digits of the bin's width, and not out of the bin."""
    digits = (2 - np.floor(np.log10(high - low))).astype(int)
    wide = high - low > 100 * np.spacing(np.maximum(abs(low), abs(high)))  # of fewer doubles none is round
    rounded = drawn.copy()
    for d in np.unique(digits[wide]):
        if -300 < d < 23:  # beyond, rounding itself over- or underflows
            rounded[wide & (digits == d)] = np.round(drawn[wide & (digits == d)], d)
    # Rounding can leave the bin at its ends: to the end that belongs to it. No -0.0.
    return np.where((rounded < low) | (rounded >= high), low, rounded) + 0.0
