"""Read one raw value: a number, a date, a time, a text. What cannot be read without guessing is refused, and why."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from importlib import resources
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.data.cells import Cell, SeveralError, number_text, of_object

Unit = Literal["day", "hour", "minute", "second"]
SECONDS: dict[Unit, int] = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
MOST_DECIMALS = 6
PIVOT = 1969  # first of the hundred years in which `strptime` reads years of two digits
WIDE = 2.0**53  # beyond which double precision does not tell whole numbers apart
_EPOCH = datetime.date(1970, 1, 1)
EPOCH = _EPOCH.toordinal()
_TIME = re.compile(
    r"[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?"
    r"(?: ?(Z|UTC|GMT|([+-])(\d{2})(?::?(\d{2})(?::(\d{2}))?)?))?$"
)
# Ways to write a date besides ISO, by their shape: a format is proposed, and never guessed.
_FORMATS = {
    "00000000": ("%Y%m%d", "%d%m%Y", "%m%d%Y"),
    "000000000000": ("%Y%m%d%H%M", "%d%m%Y%H%M"),
    "00000000000000": ("%Y%m%d%H%M%S", "%d%m%Y%H%M%S"),
    "0.0.0": ("%d.%m.%Y", "%Y.%m.%d"),
    "0/0/0": ("%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d"),
    "0-0-0": ("%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d"),
    "0 A 0": ("%d %b %Y", "%d %B %Y"),
    "0-A-0": ("%d-%b-%Y", "%d-%B-%Y"),
    "A 0, 0": ("%b %d, %Y", "%B %d, %Y"),
    "A 0 0": ("%b %d %Y", "%B %d %Y"),
}
_CLOCK = re.compile(r" \d{1,2}:\d{2}(:\d{2})?(?:( ?)[AaPp][Mm])?$")
_SHORT_CLOCK = re.compile(r"([T ])(\d{4})(\d{2})?$", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
WHOLE = re.compile(r"0|-?[1-9][0-9]*")  # a whole number as `exact_text` writes it
_MORE_DIGITS = re.compile(r"(:\d{2}[.,]\d{6})\d+")  # of a second than a microsecond needs
# A day that Python cannot hold, as `marginalia.data.cells` writes it.
_BEYOND = re.compile(r"(-\d{4,}|\d{5,}|0000)-\d{2}-\d{2}$|[+-]?infinity$")

_DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2}  # of each part of a format

_SHOWN = {"hour": "minutes", "minute": "minutes", "second": "seconds"}  # as `isoformat` calls it
_WITH_COMMA = re.compile(r"[+-]?\d[\d.' ]*,\d+([.,]\d+)*%?$")


WORDS = {False: ("false", "no", "0", "f", "n", "off"), True: ("true", "yes", "1", "t", "y", "on")}
"""How truth values are written in files and databases, in lower case; the usual first."""


def text(value: Any) -> str:
    """Return a raw value as text, the same from whatever source; see `marginalia.data.cells.Cell`.

    >>> text(1.0), text(" a "), text(Decimal("1.50")), text(np.datetime64("2020-01-01T10:30"))
    ('1', 'a', '1.50', '2020-01-01 10:30:00')
    """
    return cell_of(value).text


def cell_of(value: Any) -> Cell:
    """Return a cell as it is, and any other value as one; without a value, by its text in Python.

    >>> cell_of("a"), cell_of(3)
    (Cell(kind='text', text='a'), Cell(kind='number', text='3'))
    """
    if isinstance(value, Cell):
        return value
    try:
        found = None if isinstance(value, str) else of_object(value)
    except SeveralError:
        found = None
    return found or Cell("text", str(value).strip())


def spellings(cell: Cell) -> tuple[str, ...]:
    """Return the texts that may stand for a cell: its own, and if it is no text other usual ones.

    A time at midnight may be written as a day, a day as midnight, with a T, and an instant with a Z.

    >>> spellings(Cell("time", "2020-01-01")), spellings(Cell("text", "2020-01-01"))
    (('2020-01-01', '2020-01-01 00:00:00', '2020-01-01T00:00:00'), ('2020-01-01',))
    """
    own = cell.text
    if cell.kind == "number" and ("." in own or "E" in own):
        return own, number_text(float(own))
    if cell.kind not in ("time", "instant"):
        return (own,)
    time = own if " " in own else f"{own} 00:00:00"
    written = [own, time.removesuffix(" 00:00:00"), time, time.replace(" ", "T")]
    if cell.kind == "instant":
        written += [other.replace("+00:00", "Z") for other in written]
    return tuple(dict.fromkeys(written))


def exact(value: Any) -> Decimal | None:
    """Return the number that a cell or a label is, None where it is no plain one.

    >>> exact("01.50") == exact(1.5), exact("x")
    (True, None)
    """
    written = text(value)
    return Decimal(written) if _NUMBER.fullmatch(written) else None


def exact_text(value: Any) -> str:
    """Return the number that a cell or a label is, digit by digit, the same however it is written.

    ValueError says why it is none. Of a double it is the shortest number that reads as it.

    >>> exact_text("007"), exact_text(7.0), exact_text("1.50"), exact_text(Decimal("15e-1")), exact_text("1e3")
    ('7', '7', '1.5', '1.5', '1000')
    """
    if WHOLE.fullmatch(written := text(value)):
        return written
    if (found := exact(value)) is None:
        number(value)  # says more
        raise ValueError("is not a number")
    written = f"{found:f}"
    if "." in written:
        written = written.rstrip("0").rstrip(".")
    return "0" if written == "-0" else written


def number(value: Any, *, infinite: bool = False) -> float:
    """Return a raw value as a finite number, or an infinite one if that is allowed; ValueError says why it is none.

    >>> number(" 1.5e3 ")
    1500.0
    >>> number("1,5")
    Traceback (most recent call last):
    ValueError: has a comma: `format` declares how numbers are written, such as #.##0,00
    """
    kind, written = cell_of(value)
    try:
        result = math.nan if kind == "boolean" or "_" in written else float(written)
    except ValueError:
        result = math.nan
    if math.isfinite(result) or (infinite and math.isinf(result)):
        return result
    if kind == "text" and _WITH_COMMA.match(written):
        raise ValueError("has a comma: `format` declares how numbers are written, such as #.##0,00")
    raise ValueError("is not a number")


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
    """Return for each number the least whole number of steps of 10^-decimals that is not below it; exact below 2^50.

    >>> steps_from([4.9, 4.901], 2)
    array([490., 491.])
    """
    near = rounded(numbers, decimals)
    return np.asarray(np.rint(near * 10.0**decimals) + (near < np.asarray(numbers)))


def day(
    value: Any,
    format: str | None = None,
    *,
    zone: str | None = None,
    pivot: int | None = None,
    iso_first: bool = False,
) -> int:
    """Return the day of a raw value, counted from 1970-01-01; see `moment`.

    >>> day("1970-01-03"), day("03/01/1970", "%d/%m/%Y")
    (2, 2)
    >>> day("31.01.1970")
    Traceback (most recent call last):
    ValueError: is not a date in ISO form (2024-01-31): declare `format: "%d.%m.%Y"`
    """
    return moment(value, "day", format, zone=zone, pivot=pivot, iso_first=iso_first)


def moment(
    value: Any,
    unit: Unit,
    format: str | None = None,
    *,
    zone: str | None = None,
    pivot: int | None = None,
    iso_first: bool = False,
) -> int:
    """Return the time of a raw value in whole units since 1970-01-01T00:00; ValueError says why it has none.

    Dates and date-times are read as ISO 8601. A date alone is its midnight. With a `format` text is read by `strptime`,
    and in no other way (except as ISO, with `iso_first`).

    An instant (an aware datetime, or a text with an offset) is shown on the clocks of `zone`, by default UTC. What has
    no offset is taken as it stands: the clock time of wherever it was written down.

    Parameters
    ----------
    value : date, datetime or text
    unit : {"day", "hour", "minute", "second"}
        What is shorter is dropped; a leap second counts to the second before.
    format, zone : str, optional
    pivot : int, optional
        The first of the hundred years that the two-digit years of a format lie in; default: 1969.
    iso_first : bool

    Examples
    --------
    >>> moment("1970-01-02 03:30", "hour"), moment("1970-01-02T03:30+01:00", "hour")
    (27, 26)
    >>> moment("1970-01-02T03:30+01:00", "hour", zone="Asia/Kathmandu")  # 02:30 in UTC, 08:00 there
    32
    >>> moment("1970-01-02 25:00", "hour")
    Traceback (most recent call last):
    ValueError: has a time of day that no clock shows
    """
    return _count(_clock(value, unit, format, zone, pivot, iso_first=iso_first), unit)


def whole_moment(
    value: Any, unit: Unit, format: str | None = None, *, zone: str | None = None, pivot: int | None = None
) -> int:
    """Return the `moment` of a value that begins a unit, as edges and labels do; ValueError if it lies inside one.

    >>> whole_moment("1970-01-01 02:00", "hour")
    2
    >>> whole_moment("1970-01-01 02:30", "hour")
    Traceback (most recent call last):
    ValueError: begins no whole hour
    """
    clock = _clock(value, "second", format, zone, pivot, iso_first=True)
    count = _count(clock, unit)
    if clock != _at(count, unit):
        raise ValueError(f"begins no whole {unit}")
    return count


def time_text(value: Any, format: str | None = None, *, zone: str | None = None, pivot: int | None = None) -> str:
    """Return the time that a raw value says, to the microsecond, the same however it is written; see `moment`.

    Midnight is written as its day.

    >>> time_text("1970-01-03"), time_text("1970-01-03T01:00+01:00"), time_text("1970-01-03 10:30:00.50")
    ('1970-01-03', '1970-01-03', '1970-01-03 10:30:00.500000')
    """
    kind, written = cell_of(value)
    clock = _clock(Cell(kind, _MORE_DIGITS.sub(r"\1", written)), "second", format, zone, pivot)
    return clock.date().isoformat() if clock.time() == datetime.time() else str(clock)


def is_shortened(
    value: Any, unit: Unit, format: str | None = None, *, zone: str | None = None, pivot: int | None = None
) -> bool:
    """Whether a raw value that has a `moment` says more of the time than that does.

    >>> is_shortened("1970-01-01 02:30", "hour"), is_shortened("1970-01-01 02:00", "hour")
    (True, False)
    """
    try:
        whole_moment(value, unit, format, zone=zone, pivot=pivot)
    except ValueError:
        return True
    return False


def is_instant(value: Any) -> bool:
    """Whether a raw value says which instant it means, whatever the zone: it has an offset.

    >>> is_instant("2024-01-31 10:00Z"), is_instant("2024-01-31 10:00")
    (True, False)
    """
    found = _TIME.search(text(value))
    return found is not None and found[5] is not None


@cache
def zone_rules(name: str) -> datetime.tzinfo:
    """Return a zone of the IANA data base, by the rules of the package tzdata: the same on every machine.

    >>> zone_rules("Europe/Berlin")
    zoneinfo.ZoneInfo(key='Europe/Berlin')
    >>> zone_rules("Berlin")
    Traceback (most recent call last):
    ValueError: is no zone of the IANA data base, such as Europe/Berlin
    """
    data = resources.files("tzdata")
    if name not in data.joinpath("zones").read_text().split():
        raise ValueError("is no zone of the IANA data base, such as Europe/Berlin")
    with data.joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _clock(
    value: Any, unit: Unit, format: str | None, zone: str | None, pivot: int | None = None, *, iso_first: bool = False
) -> datetime.datetime:
    """Return the date and time that a raw value says, on the clocks of the zone."""
    kind, written = cell_of(value)
    if kind in ("time", "instant"):
        return _on_the_clock(datetime.datetime.fromisoformat(written), zone)
    if format is None or (iso_first and _is_iso(_TIME.sub("", written))):
        return _on_the_clock(_date_time(written, unit), zone)
    try:
        clock = datetime.datetime.strptime(_with_zeros(written, format), format)
        if not has_day(format):
            clock = datetime.datetime.combine(_EPOCH, clock.time())
        if pivot is not None:  # strptime has another hundred years
            clock = clock.replace(year=pivot + (clock.year - pivot) % 100)
        return _on_the_clock(clock, zone)
    except ValueError:
        raise ValueError(f"is not a date of format {format}") from None


@cache
def has_day(format: str) -> bool:
    """Whether a format of times names a day; the times of others are those of 1970-01-01.

    >>> has_day("%d.%m.%Y %H:%M"), has_day("%H%M")
    (True, False)
    """
    return re.search("%[^HIMSfp%]", format) is not None


@cache
def _digits_of(format: str) -> int:
    """Return the number of digits of a date whose format has nothing between them; 0 of other formats."""
    parts = format.split("%")[1:]
    is_whole = "%".join(["", *parts]) == format and all(part in _DIGITS for part in parts)
    return sum(_DIGITS[part] for part in parts) if is_whole else 0


def _with_zeros(written: str, format: str) -> str:
    """Return the digits of a date or a time with the zeros before them that are lost where it was a number.

    Without it `strptime` would take 1012024 for 10 January. ValueError of another number of digits.

    >>> _with_zeros("1012024", "%d%m%Y")
    '01012024'
    """
    if not (digits := _digits_of(format)):
        return written
    lost = 0 if format.startswith(("%Y", "%y")) else digits - 1 if format.startswith("%H") else 1
    if not (written.isascii() and written.isdigit() and digits - lost <= len(written) <= digits):
        raise ValueError
    return written.zfill(digits)


def _count(clock: datetime.datetime, unit: Unit) -> int:
    days = clock.toordinal() - EPOCH
    return (
        days
        if unit == "day"
        else (days * 86_400 + clock.hour * 3600 + clock.minute * 60 + clock.second) // SECONDS[unit]
    )


def _on_the_clock(value: datetime.datetime, zone: str | None) -> datetime.datetime:
    """Return what a clock shows at an instant in a zone; a clock time as it is."""
    rules = datetime.UTC if zone is None else zone_rules(zone)
    try:
        if value.utcoffset() is not None:
            value = value.astimezone(rules)
        return value.replace(tzinfo=None)
    except OverflowError:
        raise ValueError("is a date outside the years 1 to 9999") from None


def _date_time(written: str, unit: Unit) -> datetime.datetime:
    """Return the date, the time of day and the offset of a text; of a day without offset no time is looked at."""
    if 16 <= len(written) <= 25 and written[10] in "T " and written[11:13] != "24" and written[13] == ":":
        try:
            return datetime.datetime.fromisoformat(written)  # what most texts are, several times as fast as below
        except ValueError:
            pass
    found = _TIME.search(written)
    date = _date(written[: found.start()] if found else written, written)
    if found is None or (unit == "day" and not found[5]):
        return datetime.datetime.combine(date, datetime.time())
    hour, minute, second = (int(found[i] or 0) for i in (1, 2, 3))
    offset = None
    if found[5]:
        offset = datetime.timedelta(hours=int(found[7] or 0), minutes=int(found[8] or 0), seconds=int(found[9] or 0))
        offset = -offset if found[6] == "-" else offset
    try:
        zone = None if offset is None else datetime.timezone(offset)
        time = datetime.time(hour, minute, min(second, 59) if second <= 60 else second, _micro(found[4]), zone)
    except ValueError:
        raise ValueError("has a time of day that no clock shows") from None
    return datetime.datetime.combine(date, time)


def _micro(digits: str | None) -> int:
    """Return the decimals of a second in whole microseconds; at least one where there is anything left of them."""
    return 0 if not digits or not int(digits) else max(1, int(digits[:6].ljust(6, "0")))


def _date(date: str, written: str) -> datetime.date:
    """Return the date in an ISO text; the error names the formats that the text, with its time of day, fits."""
    try:
        return datetime.date.fromisoformat(date)
    except ValueError:
        if _BEYOND.match(date):
            raise ValueError("is a date outside the years 1 to 9999") from None
        some = " or ".join(f'"{format}"' for format in formats_of(written))
        more = f" in ISO form (2024-01-31): declare `format: {some}`" if some else ""
        raise ValueError(f"is not a date{more}") from None


def formats_of(written: str) -> tuple[str, ...]:
    """Return the common formats of `strptime` in which a text is a date, with or without a time of day.

    >>> formats_of("31.01.2024"), formats_of("Jan 3, 2024 5:30 PM"), formats_of("2024-01-31")
    (('%d.%m.%Y',), ('%b %d, %Y %I:%M %p',), ('%Y-%m-%d',))
    >>> formats_of("03/04/2024"), formats_of("3"), formats_of("20240131T0830")
    (('%d/%m/%Y', '%m/%d/%Y'), (), ('%Y%m%dT%H%M',))
    """
    clock = ""
    if found := _CLOCK.search(written):
        hour, seconds = "%H" if found[2] is None else "%I", ":%S" if found[1] else ""
        clock = f" {hour}:%M{seconds}" + ("" if found[2] is None else f"{found[2]}%p")
    elif (found := _SHORT_CLOCK.search(written)) and _shape(written[: found.start()]) in _FORMATS:
        clock = f"{found[1]}%H%M{'%S' if found[3] else ''}"
    else:
        found = None
    shape = _shape(written[: found.start()] if found else written)
    return tuple(date + clock for date in _FORMATS.get(shape, ()) if _fits(written, date + clock))


def _shape(date: str) -> str:
    """Return the shape of a date, a key of `_FORMATS`: numbers as 0, words as A; of digits alone each as 0."""
    return "0" * len(date) if date.isdigit() else re.sub(r"[0-9]+", "0", re.sub("[A-Za-z]+", "A", date))


def _fits(written: str, format: str) -> bool:
    try:
        datetime.datetime.strptime(_with_zeros(written, format), format)
    except ValueError:
        return False
    return True


def is_time_format(format: str, unit: Unit, moments: Iterable[int], *, pivot: int | None = None) -> bool:
    """Whether times, by their whole units since 1970-01-01T00:00, can be written by a format and read again.

    >>> is_time_format("%d/%m/%Y %H:%M", "minute", [1439]), is_time_format("%d/%m/%Y %H", "minute", [1439])
    (True, False)
    """
    try:
        return all(moment(_at(count, unit).strftime(format), unit, format, pivot=pivot) == count for count in moments)
    except ValueError:
        return False


def _is_iso(written: str) -> bool:
    try:
        datetime.date.fromisoformat(written)
    except ValueError:
        return False
    return True


def iso(count: float, unit: Unit = "day") -> str:
    """Return the ISO text of a time in whole units since 1970-01-01T00:00; hours are written with their minutes.

    >>> iso(2), iso(27, "hour"), iso(61, "second")
    ('1970-01-03', '1970-01-02T03:00', '1970-01-01T00:01:01')
    """
    at = _at(int(count), unit)
    return at.date().isoformat() if unit == "day" else at.isoformat(timespec=_SHOWN[unit])


def written_time(count: float, unit: Unit, format: str | None) -> str:
    """Return a time in whole units since 1970-01-01T00:00 as files hold it; ISO text where the format cannot.

    >>> written_time(2, "day", "%d.%m.%Y"), written_time(2, "day", None)
    ('03.01.1970', '1970-01-03')
    """
    if format is None or not is_time_format(format, unit, [int(count)]):
        return iso(count, unit)
    return _at(int(count), unit).strftime(format)


def _at(count: int, unit: Unit) -> datetime.datetime:
    days, seconds = divmod(count * SECONDS[unit], 86_400)
    date = datetime.date.fromordinal(days + EPOCH)
    return datetime.datetime.combine(date, datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60))


def shown(value: Any, length: int = 40) -> str:
    """Return a value as a message shows it: in quotes, on one line, long ones cut.

    >>> shown("a" * 99)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    written = text(value)
    return repr(written if len(written) <= length else written[:length] + "...")
