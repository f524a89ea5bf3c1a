"""From the values of a raw column to the codes of its attribute, and back.

A value without a code is a `Fault`. Going back, a value inside a bin is drawn, uniformly and from a seeded stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.data import values
from marginalia.data.attribute import BOOLEANS, Attribute
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


Codes = NDArray[np.int64]
Reason = tuple[str, str]  # what is wrong with a value, and how to mend it
ROWS = "(rows count from 0)"
_EMPTY = ("has no code", "give missing values one by `missing: []`, or drop these rows")
CORRECT = "correct the file, or the domain"
_EXACT = 2**53  # whole numbers up to it are doubles
# Columns of objects in which equal ones have the same text; infer_dtype's names.
_OF_ONE_KIND = ("string", "boolean", "integer", "mixed-integer-float", "datetime", "datetime64", "date", "empty")


@dataclass(frozen=True)
class Fault:
    """Cells of one column that have no code, all for the same reason.

    >>> Fault("age", "is not a number", "correct it", "'x'", rows=np.array([3, 7])).line()
    "column 'age', row 3: 'x' is not a number; correct it (rows count from 0)"
    """

    column: str
    what: str
    mend: str
    value: str  # the first one
    rows: NDArray[np.integer]

    def line(self) -> str:
        """Say where the first cell is, what is wrong with it, and how to mend it."""
        return f"column '{self.column}', row {self.rows[0]}: {self.value} {self.what}; {self.mend} {ROWS}"

    def count_line(self, n_rows: int) -> str:
        """Say how many of the rows are concerned, which is the first, and how to mend it."""
        many = f"{self.rows.size} of {n_rows} rows"
        return f"column '{self.column}': {many}: {self.value} in row {self.rows[0]} {self.what}; {self.mend}"


@dataclass(frozen=True)
class RawColumn:
    """The values of a raw column: each row's position among the distinct ones, -1 where there is none.

    >>> import pandas as pd
    >>> RawColumn.of(pd.Series(["b", None, "b"])).which
    array([ 0, -1,  0])
    """

    which: NDArray[np.int64]
    distinct: NDArray[Any]  # float64, or objects

    @classmethod
    def of(cls, raw: pd.Series[Any], name: str = "values", *, lenient: bool = False) -> RawColumn:
        """Return the column of a data frame; text loses its outer spaces, and empty text is no value.

        Cells that hold several values (lists) are refused, or `lenient` no values.
        """
        import pandas as pd

        if isinstance(raw.dtype, pd.CategoricalDtype):
            which, distinct = raw.cat.codes.to_numpy(), raw.cat.categories
        else:
            try:
                if raw.dtype == object and pd.api.types.infer_dtype(raw, skipna=True) not in _OF_ONE_KIND:
                    which, distinct = _factorized(raw)
                else:
                    which, distinct = pd.factorize(raw)
            except TypeError:  # lists and other things without a hash
                if lenient:
                    return cls.of(raw.where(raw.map(values.has_hash).astype(bool), None), name)
                kind = type(next(v for v in raw if not values.has_hash(v))).__name__
                raise InputError(f"column '{name}' holds values of type {kind}; give each cell one value") from None
        whole = pd.api.types.is_integer_dtype(distinct.dtype)
        if whole and len(distinct) and max(-int(distinct.min()), int(distinct.max())) > _EXACT:
            distinct = distinct.astype(object)  # doubles do not tell these apart, and another kind of column would
        elif whole or pd.api.types.is_float_dtype(distinct.dtype):
            single = distinct.dtype == np.float32  # .1 stands for .1, as in a text, and not for .100000001
            return cls(which.astype(np.int64), np.asarray(distinct, str if single else None).astype(np.float64))
        known = np.asarray(distinct.astype(object))
        empty = np.array([isinstance(v, str) and not v.strip() for v in known], dtype=bool)
        return cls(np.where(np.append(empty, True)[which], -1, which).astype(np.int64), known)

    def cells(self) -> NDArray[Any]:
        """Return the value of each row as an object, None where there is none."""
        return np.array([*self.distinct.tolist(), None], dtype=object)[self.which]


def _factorized(raw: pd.Series[Any]) -> tuple[NDArray[np.int64], pd.Index[Any]]:
    """Factorize objects of several kinds: True, 1 and Decimal("1.0") are equal, and the first would stand for all.

    One row would then change what all others say.
    """
    import pandas as pd

    def key(value: object) -> str:
        hash(value)
        return f"{type(value).__name__} {value}"

    which, _ = pd.factorize(raw.map(key, na_action="ignore"))
    firsts = np.unique(which, return_index=True)[1][int((which < 0).any()) :]
    return which, pd.Index(raw.to_numpy()[firsts], dtype=object)


def codes_of(raw: pd.Series[Any] | RawColumn, attribute: Attribute) -> tuple[Codes, list[Fault]]:
    """Return the codes of a raw column, -1 where a value has none, and why.

    >>> import pandas as pd
    >>> ward = Attribute("ward", 3, labels=("surgery", "medicine"), type="string", missing=("?",))
    >>> codes_of(pd.Series(["medicine", "?", None]), ward)
    (array([1, 2, 2]), [])
    """
    column = raw if isinstance(raw, RawColumn) else RawColumn.of(raw, attribute.name, lenient=attribute.lenient)
    of_distinct, reasons = _distinct_codes(column.distinct, attribute)
    missing = attribute.missing_code
    if attribute.lenient:
        of_distinct[of_distinct < 0] = attribute.size - 1
    of_each = np.append(of_distinct, -1 if missing is None else missing)
    codes = of_each[column.which]
    bad = np.flatnonzero(codes < 0)
    if not bad.size:
        return codes, []
    why = [reasons.get(int(i), _EMPTY) for i in column.which[bad]]
    faults = []
    for reason in dict.fromkeys(why):
        rows = bad[np.array([other == reason for other in why])]
        first = int(column.which[rows[0]])
        value = "an empty cell" if first < 0 else values.shown(column.distinct[first])
        faults.append(Fault(attribute.name, *reason, value, rows))
    return codes, faults


def numbers_of(raw: pd.Series[Any], attribute: Attribute) -> NDArray[np.float64]:
    """Return a raw column as numbers (dates: days since 1970-01-01), NaN where its value counts as missing.

    >>> import pandas as pd
    >>> age = Attribute("age", 2, edges=(0, 9), type="number", bottom=True, top=True, missing=("?",), lenient=True)
    >>> numbers_of(pd.Series(["3", " ", "?", "x", "-inf"]), age)
    array([  3.,  nan,  nan,  nan, -inf])
    """
    column = RawColumn.of(raw, attribute.name, lenient=attribute.lenient)
    numbers, _ = _numbers(column.distinct, attribute)
    numbers = np.where(_marked(column.distinct, numbers, attribute), np.nan, numbers)
    return np.append(numbers, np.nan)[column.which]


def category_counts(raw: pd.Series[Any], marks: Collection[str] = ()) -> dict[str, int]:
    """Return how often each value of a raw column occurs, by its text; missing values are none.

    >>> import pandas as pd
    >>> category_counts(pd.Series(["a", 1.0, "?", "1", None]), ["?"])
    {'a': 1, '1': 2}
    """
    column = RawColumn.of(raw, lenient=True)
    each = np.bincount(column.which[column.which >= 0], minlength=len(column.distinct))
    counts: dict[str, int] = {}
    for value, count in zip(np.asarray(column.distinct, dtype=object).tolist(), each.tolist(), strict=True):
        label = values.text(value)
        if count and label not in marks:
            counts[label] = counts.get(label, 0) + count
    return counts


def check_not_ambiguous(attribute: Attribute, where: str) -> None:
    """Raise for an attribute of a file of an older version whose values could be taken for its codes.

    >>> check_not_ambiguous(Attribute("age", 2, edges=(0, 18, 65)), "t.csv")
    Traceback (most recent call last):
    marginalia.errors.InputError: t.csv: the domain does not say what column 'age' holds: add `type: code` if ...
    """
    if attribute.type is not None:
        return
    for code, label in enumerate(attribute.labels or ()):
        try:
            ambiguous = values.number(label) != code
        except ValueError:
            continue
        if ambiguous:
            break
    else:
        if attribute.edges is None:
            return
    raise InputError(
        f"{where}: the domain does not say what column '{attribute.name}' holds: add `type: code` if its codes "
        f"0..{attribute.size - 1}, or the type of its values (integer, number, date, string)"
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


def _distinct_codes(distinct: NDArray[Any], attribute: Attribute) -> tuple[Codes, dict[int, Reason]]:
    """Return the code of each distinct value, -1 where it has none, and why (by its position)."""
    if attribute.type in ("integer", "number", "date"):
        numbers, reasons = _numbers(distinct, attribute)
        codes = _number_codes(numbers, attribute)
        beyond = [i for i in np.flatnonzero(codes < 0).tolist() if i not in reasons]
        if beyond:
            reasons |= dict.fromkeys(beyond, _outside(attribute))
    else:
        read = {"string": _label_code, "boolean": _boolean_code}.get(str(attribute.type), _own_code)
        numbers = np.full(len(distinct), np.nan)
        codes, reasons = np.full(len(distinct), -1, dtype=np.int64), {}
        for i, value in enumerate(distinct.tolist()):
            found = read(value, attribute)
            if isinstance(found, int):
                codes[i] = found
            else:
                reasons[i] = found
    if attribute.missing:
        codes[_marked(distinct, numbers, attribute)] = attribute.size - 1
    return codes, reasons


def _marked(distinct: NDArray[Any], numbers: NDArray[np.float64], attribute: Attribute) -> NDArray[np.bool_]:
    """Return which distinct values are marks of missing ones."""
    marks = np.isin(numbers, list(attribute.mark_values))
    if attribute.missing and (distinct.dtype == object or not attribute.mark_values):
        marks |= np.array([values.text(v) in attribute.missing for v in distinct.tolist()], dtype=bool)
    return marks


def _own_code(value: Any, attribute: Attribute) -> int | Reason:
    try:
        code = values.number(value)
    except ValueError:
        return "is not an integer code", "say by `type` what the column holds, or replace its values by codes"
    if not code.is_integer():
        return "is a fraction and not an integer code", "say by `type` what the column holds"
    return int(code) if 0 <= code < attribute.size else (f"is outside the codes 0..{attribute.size - 1}", CORRECT)


def _label_code(value: Any, attribute: Attribute) -> int | Reason:
    positions = attribute.positions
    code = positions.get(values.text(value), positions.get(str(value).strip(), attribute.other_code))
    return _no_label(attribute, "; `other: true` gives unknown values a code") if code is None else code


def _no_label(attribute: Attribute, more: str = "") -> Reason:
    some = ", ".join((attribute.labels or ())[:8])[:200]
    return f"is not among the labels {some}{', ...' if attribute.n_values > 8 else ''}", f"{CORRECT}{more}"


def _boolean_code(value: Any, attribute: Attribute) -> int | Reason:
    if isinstance(value, bool | np.bool_):
        return int(value)
    labels = attribute.labels or BOOLEANS
    written = values.text(value)
    if written in labels:
        return labels.index(written)
    for code, label in enumerate(labels):
        if written.lower() == label.lower():
            return code
    if written in ("0", "1") and (attribute.labels is None or not isinstance(value, str)):
        return int(written)
    return f"is neither {labels[0]} nor {labels[1]}", CORRECT


def _numbers(distinct: NDArray[Any], attribute: Attribute) -> tuple[NDArray[np.float64], dict[int, Reason]]:
    """Return each value as a number, of a date as days since 1970-01-01; NaN where it is none, and why."""
    reasons: dict[int, Reason] = {}
    if distinct.dtype == np.float64 and attribute.type != "date":
        numbers = distinct
        unread = np.isnan(numbers) if attribute.lenient else ~np.isfinite(numbers)
        reasons = {int(i): ("is not a number", CORRECT) for i in np.flatnonzero(unread)}
    else:
        read: Callable[[Any], float] = partial(values.number, infinite=attribute.lenient)
        if attribute.type == "date":
            read = partial(values.day, format=attribute.format)
        numbers = np.full(len(distinct), np.nan)
        for i, value in enumerate(distinct.tolist()):
            try:
                numbers[i] = read(value)
            except ValueError as error:
                reasons[i] = str(error), CORRECT
    if attribute.type == "integer" and not attribute.lenient:
        fractions = np.flatnonzero(np.isfinite(numbers) & (numbers != np.floor(numbers)))
        reasons |= {int(i): ("is not a whole number", f"{CORRECT}; type: number reads it") for i in fractions}
    unreadable = list(reasons)
    numbers = numbers.copy() if unreadable else numbers
    numbers[unreadable] = np.nan
    return numbers, reasons


def _number_codes(numbers: NDArray[np.float64], attribute: Attribute) -> Codes:
    if attribute.edges is not None:
        return bin_codes(numbers, attribute.edges, bottom=attribute.bottom, top=attribute.top)
    positions = attribute.positions
    return np.array([positions.get(number, -1) for number in numbers.tolist()], dtype=np.int64)


def _outside(attribute: Attribute) -> Reason:
    if attribute.edges is None:
        return _no_label(attribute)
    show = values.iso if attribute.type == "date" else "{:g}".format
    first, last = show(attribute.edges[0]), show(attribute.edges[-1])
    return (
        f"is outside the bins from {first} to {last} (left-closed)",
        f"{CORRECT}; `bottom: true`, `top: true` open the outer bins",
    )


def original_values(codes: NDArray[np.integer], attribute: Attribute, rng: np.random.Generator) -> pd.Series[Any]:
    """Return the values behind the codes of one attribute.

    A value of a bin is drawn uniformly inside it: whole numbers for integers, days for dates, and numbers rounded to
    three significant digits of the bin's width. An open outer bin counts as it stands, from edge to edge.

    Returns
    -------
    Series
        Codes as they are where the attribute holds codes; text, integers as int64 or (with missing values)
        Int64, numbers as float64, Booleans as bool or boolean, dates as datetime64. A missing value is the first mark
        where that is a value of the type, else pandas' own.

    Examples
    --------
    >>> age = Attribute("age", 3, edges=(0, 18, 65), type="integer", missing=())
    >>> original_values(np.array([0, 1, 2]), age, np.random.default_rng(0)).tolist()
    [15, 47, <NA>]
    """
    import pandas as pd

    if attribute.holds_codes:
        return pd.Series(codes)
    codes = np.asarray(codes)
    gone = codes == attribute.size - 1 if attribute.missing is not None else np.zeros(codes.shape, dtype=bool)
    mark = next(iter(attribute.missing or ()), None)
    if attribute.type == "string":
        known = [*(attribute.labels or ()), *(() if attribute.other is None else (attribute.other,)), mark]
        return pd.Series(known).take(codes).reset_index(drop=True)
    if attribute.type == "boolean":
        truth = pd.Series(codes == 1)
        return truth.astype("boolean").mask(gone) if gone.any() else truth
    here = np.where(gone, 0, codes)
    if attribute.edges is None:
        numbers = np.array(attribute.label_values, dtype=np.float64)[here]
    else:
        numbers = _inside_bins(here, attribute, rng)
    if attribute.mark_value is not None:
        numbers[gone] = attribute.mark_value
        gone = np.zeros_like(gone)
    if attribute.type == "number":
        return pd.Series(np.where(gone, np.nan, numbers))
    whole = pd.Series(numbers.astype(np.int64))
    if attribute.type == "integer":
        return whole.astype("Int64").mask(gone) if gone.any() else whole
    days = numbers.astype(np.int64).astype("datetime64[D]")
    days[gone] = np.datetime64("NaT", "D")
    return pd.Series(days.astype("datetime64[s]"))


def as_text(column: pd.Series[Any], attribute: Attribute) -> pd.Series[Any]:
    """Return original values as a CSV file holds them: ISO dates, Booleans by their labels, missing ones by their mark.

    >>> import pandas as pd
    >>> ill = Attribute("ill", 3, labels=("no", "yes"), type="boolean", missing=("?",))
    >>> as_text(pd.Series([True, None], dtype="boolean"), ill).tolist()
    ['yes', '?']
    """
    import pandas as pd

    if attribute.holds_codes or attribute.type == "string":
        return column
    gone = column.isna()
    if attribute.type == "date":
        if attribute.format is not None:
            column = column.dt.strftime(attribute.format).astype(object)
        else:
            column = pd.Series(np.datetime_as_string(column.to_numpy().astype("datetime64[D]")), dtype=object)
    elif attribute.type == "boolean":
        labels = np.array(attribute.labels or BOOLEANS, dtype=object)
        column = pd.Series(labels[column.fillna(False).to_numpy(dtype=bool).astype(int)], dtype=object)
    mark = next(iter(attribute.missing or ()), None)
    return column.astype(object).mask(gone, mark) if gone.any() else column


def _inside_bins(codes: NDArray[np.integer], attribute: Attribute, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a value inside the bin of each code that is no mark of a missing value."""
    edges = np.array(attribute.edges, dtype=np.float64)
    draw = _numbers_between if attribute.type == "number" else _whole_numbers_between
    numbers = draw(edges[codes], edges[codes + 1], rng)
    marks = list(attribute.mark_values)
    while marks and (again := np.flatnonzero(np.isin(numbers, marks))).size:
        numbers[again] = draw(edges[codes[again]], edges[codes[again] + 1], rng)
    return numbers


def _whole_numbers_between(
    low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = rng.integers(np.ceil(low).astype(np.int64), np.ceil(high).astype(np.int64))
    return drawn.astype(np.float64)


def _numbers_between(
    low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = low + rng.random(low.shape) * (high - low)
    digits = (2 - np.floor(np.log10(high - low))).astype(int)
    wide = high - low > 100 * np.spacing(np.maximum(abs(low), abs(high)))  # of fewer doubles none is round
    rounded = drawn.copy()
    for d in np.unique(digits[wide]):
        if -300 < d < 23:  # beyond, rounding itself over- or underflows
            rounded[wide & (digits == d)] = np.round(drawn[wide & (digits == d)], d)
    # Rounding can leave the bin at its ends: to the end that belongs to it. No -0.0.
    return np.where((rounded < low) | (rounded >= high), low, rounded) + 0.0
