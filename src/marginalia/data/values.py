"""Read one raw value: a number, a date, a text. What cannot be read without guessing is refused, with the reason."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from marginalia.data.cells import SeveralError, cell

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
_OFFSET = re.compile(r":\d{2}([.,]\d+)? ?(Z|[+-]\d{2}(:?\d{2})?)$")
_YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})$")
_YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4})$")
_DAY_NAME = re.compile(r"(\d{1,2})[ -]([A-Za-z]{3,9})\.?,?[ -](\d{4})$")
_NAME_DAY = re.compile(r"([A-Za-z]{3,9})\.? (\d{1,2}),? (\d{4})$")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_LONG = 400  # digits of a decimal that is shown with its exponent
# A day that Python cannot hold, as `marginalia.data.cells` writes it.
_BEYOND = re.compile(
    r"((-\d{4,}|\d{5,}|0000)-\d{2}-\d{2}( \d{2}:\d{2}:\d{2}.*)?|[+-]?infinity)$"
)  # of the years of Python
_WITH_COMMA = re.compile(r"[+-]?\d[\d.' ]*,\d+([.,]\d+)*%?$")


WORDS = {False: ("false", "no", "0", "f", "n", "off"), True: ("true", "yes", "1", "t", "y", "on")}
"""How truth values are written in files and databases, in lower case; the usual first."""


def text(value: Any) -> str:
    """Return a raw value as text, the same from whatever source.

    Whole numbers have no decimal point, decimals the zeros that they came with. Times are ISO 8601 with a space,
    instants in UTC.

    >>> text(1.0), text(" a "), text(Decimal("1.50")), text(np.datetime64("2020-01-01T10:30"))
    ('1', 'a', '1.50', '2020-01-01 10:30:00')
    """
    if type(value) is not str:
        try:
            found = cell(value)
        except SeveralError:
            found = None
        value = str(value) if found is None else found
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, Decimal) and abs(value.adjusted()) < _LONG:
        return f"{value:f}"
    return str(value).strip()


def spellings(value: Any) -> tuple[str, ...]:
    """Return the texts that may stand for a cell: its own, and if it is no text other usual ones.

    A time at midnight may be written as a day, a day as midnight, with a T, and an instant with a Z.

    >>> spellings(datetime.date(2020, 1, 1)), spellings("2020-01-01")
    (('2020-01-01', '2020-01-01 00:00:00', '2020-01-01T00:00:00'), ('2020-01-01',))
    """
    own = text(value)
    if isinstance(value, Decimal):
        return own, text(float(value))
    if not isinstance(value, datetime.date):
        return (own,)
    time = value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
    written = [own, time.date().isoformat()] if time.time() == datetime.time() and time.tzinfo is None else [own]
    written += [time.isoformat(" "), time.isoformat()]
    if time.tzinfo is not None:
        written += [other.replace("+00:00", "Z") for other in written]
    return tuple(dict.fromkeys(written))


def exact(value: Any) -> Decimal | None:
    """Return the number that a cell or a label is, None where it is no plain one.

    >>> exact("01.50") == exact(1.5), exact("x")
    (True, None)
    """
    written = text(value)
    return Decimal(written) if _NUMBER.fullmatch(written) else None


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
    value = value if type(value) is str else cell(value)
    if isinstance(value, datetime.date):
        return value.toordinal() - EPOCH
    if format is not None and not (iso_first and _is_iso(text(value))):
        try:
            return datetime.datetime.strptime(text(value), format).date().toordinal() - EPOCH
        except ValueError:
            raise ValueError(f"is not a date of format {format}") from None
    written = text(value)
    if _OFFSET.search(written) and (time := _instant(written)) is not None:
        return day(time)
    written = _TIME.sub("", written)
    try:
        return datetime.date.fromisoformat(written).toordinal() - EPOCH
    except ValueError:
        if _BEYOND.match(text(value)):
            raise ValueError("is a date outside the years 1 to 9999") from None
    try:
        year, month, day_ = _year_month_day(written)
        return datetime.date(year, month, day_).toordinal() - EPOCH
    except ValueError as error:
        raise ValueError(str(error) if "may be" in str(error) else "is not a date") from None


def _instant(written: str) -> Any:
    try:
        return cell(datetime.datetime.fromisoformat(written.replace(" +", "+").replace(" -", "-")))
    except ValueError:
        return None


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
