"""Read one raw value: a number, a date, a text. What cannot be read without guessing is refused, with the reason."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_DECIMALS = 6
WIDE = 2.0**53  # beyond which double precision does not tell whole numbers apart
EPOCH = datetime.date(1970, 1, 1).toordinal()
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_TIME = re.compile(r"[T ]+\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)? ?([AaPp][Mm]|Z|[+-]\d{2}(:?\d{2})?)?$")
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})$")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})$")
_DAY_NAME = re.compile(r"(\d{1,2})[ -]([A-Za-z]{3,9})\.?,?[ -](\d{4})$")
_NAME_DAY = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2}),? (\d{4})$")
_WITH_COMMA = re.compile(r"[+-]?\d[\d.' ]*,\d+([.,]\d+)*%?$")


def text(value: Any) -> str:
    """Return a raw value as text without outer spaces; whole numbers have no decimal point.

    >>> text(1.0), text(" a ")
    ('1', 'a')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def has_hash(value: object) -> bool:
    """Whether a raw value is one value: lists have no hash, nor tuples with lists inside.

    >>> has_hash((1, 2)), has_hash(([1], 2))
    (True, False)
    """
    try:
        hash(value)
    except TypeError:
        return False
    return True


def number(value: Any, *, infinite: bool = False) -> float:
    """Return a raw value as a finite number, or an infinite one if that is allowed; ValueError says why it is none.

    >>> number(" 1.5e3 ")
    1500.0
    >>> number("1,5")
    Traceback (most recent call last):
    ValueError: has a comma: numbers are read with a decimal point and without separators of thousands
    """
    try:
        result = float(value)
    except OverflowError:
        result = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        result = math.nan
    readable = math.isfinite(result) or (infinite and math.isinf(result))
    if isinstance(value, bool | np.bool_) or not readable or (isinstance(value, str) and "_" in value):
        if isinstance(value, str) and _WITH_COMMA.match(value.strip()):
            raise ValueError("has a comma: numbers are read with a decimal point and without separators of thousands")
        raise ValueError("is not a number")
    return result


def rounded(numbers: ArrayLike, decimals: int) -> NDArray[np.float64]:
    """Return numbers rounded to decimals, half to even, each by itself: by the shortest decimal that reads as it.

    So 2.675 is half way between 2.67 and 2.68, as a text, a float or a Decimal. NaN and infinities stay.

    >>> rounded([2.675, 4.9, -0.001], 2), rounded([0.5, 1.5], 0)
    (array([2.68, 4.9 , 0.  ]), array([0., 2.]))
    """
    numbers = np.asarray(numbers, dtype=np.float64)
    scale = 10.0**decimals
    with np.errstate(over="ignore", invalid="ignore"):
        steps = numbers * scale
        result = np.array(np.rint(steps) / scale)
        near = np.abs(np.abs(steps - np.trunc(steps)) - 0.5) < 1e-4  # where the error of the product might decide
    doubtful = np.isfinite(numbers) & (near | (np.abs(steps) > 2.0**35))
    step = Decimal(1).scaleb(-decimals)
    for i in np.flatnonzero(doubtful & (np.abs(numbers) < WIDE)):
        result.flat[i] = float(Decimal(repr(float(numbers.flat[i]))).quantize(step, ROUND_HALF_EVEN))
    return np.where(np.abs(numbers) < WIDE, result, numbers) + 0.0  # no -0.0


def decimals_of(numbers: ArrayLike) -> NDArray[np.int64]:
    """Return for each number how many decimals its shortest text has: 0 to 6, or 7 for more; NaN has no entry.

    >>> decimals_of([4.9, 3.0, 1 / 3, float("nan"), float("inf")])
    array([1, 0, 7, 0])
    """
    known = np.asarray(numbers, dtype=np.float64)
    known = known[~np.isnan(known)]
    found = np.full(known.shape, MOST_DECIMALS + 1)
    with np.errstate(over="ignore"):
        for d in range(MOST_DECIMALS, -1, -1):
            found[np.rint(known * 10.0**d) / 10.0**d == known] = d
    return found


def steps_from(numbers: ArrayLike, decimals: int) -> NDArray[np.float64]:
    """Return for each number the least whole number of steps of 10^-decimals that is not below it.

    >>> steps_from([4.9, 4.901], 2)
    array([490., 491.])
    """
    near = rounded(numbers, decimals)
    return np.asarray(np.rint(near * 10.0**decimals) + (near < np.asarray(numbers)))


def day(value: Any, format: str | None = None, *, iso_first: bool = False) -> int:
    """Return the day of a raw value, counted from 1970-01-01; ValueError says why it has none.

    With a `format` text is read by `strptime`, and in no other way (but as an ISO date, with `iso_first`).

    Dates and date-times are read as ISO 8601, year first, with the month's English name, day.month.year with points,
    and day/month/year or month/day/year with slashes or hyphens where only one of the two is a date. A time is dropped.

    >>> day("1970-01-03"), day("Jan 3, 1970"), day("13/01/1970"), day("03/01/1970", "%d/%m/%Y")
    (2, 2, 12, 2)
    >>> day("03/04/1970")
    Traceback (most recent call last):
    ValueError: may be 3 April or 4 March: say by `format` which, or write dates as year-month-day
    """
    if isinstance(value, datetime.date):  # and its subclasses, pandas' Timestamp among them
        try:
            return value.toordinal() - EPOCH
        except NotImplementedError:  # pandas' own beyond the years of Python
            raise ValueError("is a date outside the years 1 to 9999") from None
    if format is not None and not (iso_first and _is_iso(text(value))):
        try:
            return datetime.datetime.strptime(text(value), format).date().toordinal() - EPOCH
        except ValueError:
            raise ValueError(f"is not a date of format {format}") from None
    written = _TIME.sub("", text(value))
    try:
        return datetime.date.fromisoformat(written).toordinal() - EPOCH
    except ValueError:
        pass
    try:
        year, month, day_ = _year_month_day(written)
        return datetime.date(year, month, day_).toordinal() - EPOCH
    except ValueError as error:
        raise ValueError(str(error) if "may be" in str(error) else "is not a date") from None


def is_date_format(format: str, days: Iterable[int] = (12482, 6573, 17115)) -> bool:
    """Whether dates, by their days since 1970-01-01, can be written by a format and read again.

    >>> is_date_format("%d/%m/%Y"), is_date_format("%d/%m"), is_date_format("%d/%m/%y", [-1000])
    (True, False, False)
    """
    try:
        return all(day(datetime.date.fromordinal(d + EPOCH).strftime(format), format) == d for d in days)
    except ValueError:
        return False


def _is_iso(written: str) -> bool:
    try:
        datetime.date.fromisoformat(written)
    except ValueError:
        return False
    return True


def iso(days: float) -> str:
    """Return the ISO text of a day counted from 1970-01-01.

    >>> iso(2)
    '1970-01-03'
    """
    return datetime.date.fromordinal(int(days) + EPOCH).isoformat()


def shown(value: Any, length: int = 40) -> str:
    """Return a value as a message shows it: in quotes, on one line, long ones cut.

    >>> shown("a" * 99)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    written = text(value)
    return repr(written if len(written) <= length else written[:length] + "...")


def _year_month_day(written: str) -> tuple[int, int, int]:
    if found := _YEAR_FIRST.match(written):
        return int(found[1]), int(found[3]), int(found[4])
    if found := _DAY_NAME.match(written):
        return int(found[3]), _month(found[2]), int(found[1])
    if found := _NAME_DAY.match(written):
        return int(found[3]), _month(found[1]), int(found[2])
    if found := _YEAR_LAST.match(written):
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        if found[2] == "." or first > 12:  # with points the day stands first everywhere
            return year, second, first
        if second > 12 or first == second:
            return year, first, second
        one, other = (f"{d} {_MONTHS[m - 1].title()}" for d, m in ((first, second), (second, first)) if m)
        raise ValueError(f"may be {one} or {other}: say by `format` which, or write dates as year-month-day")
    raise ValueError


def _month(name: str) -> int:
    matches = [i for i, month in enumerate(_MONTHS, 1) if month.startswith(name.lower())]
    return matches[0] if len(matches) == 1 else 0
