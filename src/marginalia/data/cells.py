"""One cell of a raw table, from whatever source, as one value of a few kinds; never by a look at another cell.

================  ======================================================================================================
kind              of
================  ======================================================================================================
None              NULL, NaN, NaT, text without a character
bool, int         of any width
float             double precision; of half and single precision the number with the same digits: .1 is .1
Decimal           with the zeros at its end
str               without outer spaces; what has no kind of its own, by its text
date
datetime          naive: what a clock showed, in no zone; to the microsecond
datetime in UTC   an instant, whatever the zone it came in; to the microsecond
================  ======================================================================================================

A day that Python cannot hold (before year 1, after 9999) is its ISO text, or ``infinity`` where a database says so.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cell = None | bool | int | float | Decimal | str | datetime.date  # and datetime.datetime, which is a date

_EXACT = 2**53  # whole numbers up to it are doubles
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST, _LAST = (day.toordinal() - _EPOCH.toordinal() for day in (datetime.date.min, datetime.date.max))
_DAY = 86_400  # seconds
_CYCLE = 146_097  # days of 400 years, after which the calendar repeats
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FOREVER = (2**31 - 1, 2**63 - 1)  # counts that stand for infinity in databases


class SeveralError(TypeError):
    """A cell holds several values, such as a list; its type is the message.

    >>> cell([1, 2])
    Traceback (most recent call last):
    marginalia.data.cells.SeveralError: list
    """


def cell(value: Any) -> Cell:
    """Return a value of Python, NumPy, pandas or Arrow as a cell.

    Raises
    ------
    SeveralError
        It is a list, or another thing of several values.

    >>> cell(" a "), cell(np.float32(.1)), cell(float("nan")), cell(np.datetime64("12000-01-01"))
    ('a', 0.1, None, '12000-01-01')
    >>> cell(datetime.datetime.fromisoformat("2020-01-01T00:30+02:00"))
    datetime.datetime(2019, 12, 31, 22, 30, tzinfo=datetime.timezone.utc)
    """
    for kind in type(value).__mro__:
        if (read := _READ.get(kind)) is not None:
            return read(value)
    if type(value).__name__ == "NAType":  # pandas'
        return None
    if hasattr(value, "as_py") and hasattr(value, "type"):  # a scalar of Arrow
        import pyarrow as pa

        timed = pa.types.is_temporal(value.type)  # of any year
        return of_arrow(pa.array([value], type=value.type))[0] if timed else cell(value.as_py())
    try:
        hash(value)
    except TypeError:
        raise SeveralError(type(value).__name__) from None
    return _text(str(value))


def key(value: Cell) -> Hashable:
    """Return what tells a cell from all others: its kind, and its exact value; Python takes True, 1 and 1.0 as equal.

    >>> key(True) == key(1), key(Decimal("1.0")) == key(Decimal("1.00"))
    (False, False)
    """
    return type(value), str(value) if isinstance(value, Decimal) else value


def merged(values: list[Any] | NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the position of each cell among the distinct ones, -1 of None, and these in the order met.

    >>> merged(["b", None, True, 1, "b"])
    (array([ 0, -1,  1,  2,  0]), array(['b', True, 1], dtype=object))
    """
    if isinstance(values, np.ndarray) and values.dtype == np.float64:  # distinct by construction
        gone = np.isnan(values)
        if not gone.any():
            return np.arange(len(values)), values
        return np.where(gone, -1, np.cumsum(~gone) - 1), values[~gone]
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    kinds = set(map(type, listed)) - {type(None)}
    keys = listed if len(kinds) < 2 and Decimal not in kinds else [None if v is None else key(v) for v in listed]
    apart = dict.fromkeys(keys)
    if len(apart) == len(keys) and None not in apart:
        return np.arange(len(keys)), _objects(listed)
    at = {known: i for i, known in enumerate(k for k in apart if k is not None)}
    which = np.fromiter((-1 if k is None else at[k] for k in keys), np.int64, len(keys))
    first = np.unique(which, return_index=True)[1][int((which < 0).any()) :]
    return which, _objects([listed[i] for i in first.tolist()])


def of_numpy(values: NDArray[Any]) -> NDArray[Any]:
    """Return the cells of an array that NumPy has a type for: numbers as doubles where these are exact, else objects.

    >>> of_numpy(np.array([1, 2])), of_numpy(np.array([2**60]))
    (array([1., 2.]), array([1152921504606846976], dtype=object))
    """
    kind = values.dtype.kind
    if kind in "iu":
        if values.size and max(-int(values.min()), int(values.max())) > _EXACT:
            return values.astype(object)
        return values.astype(np.float64)
    if kind == "f":
        same_digits = values if values.dtype == np.float64 else values.astype(str)
        return same_digits.astype(np.float64) + 0.0  # no -0.0
    if kind == "M":
        unit = np.datetime_data(values.dtype)[0]
        cells = times(values) if unit in (*_PER_SECOND, "m", "h", "ps", "fs", "as") else _days(_counts(values, "D"))
        cells[np.isnat(values)] = None
        return cells
    return _objects(list(map(cell, values.tolist() if kind != "m" else values)))


def times(values: NDArray[np.datetime64], *, utc: bool = False) -> NDArray[Any]:
    """Return the cells of times: of a clock in no zone, or in `utc`; NaT is some time.

    >>> times(np.array(["2020-01-01", "12000-01-01"], "datetime64[s]")).tolist()
    [datetime.datetime(2020, 1, 1, 0, 0), '12000-01-01 00:00:00']
    """
    unit = np.datetime_data(values.dtype)[0]
    if unit not in _PER_SECOND:
        unit = "us" if unit in "mh" else "ns"
    counts, in_second = _counts(values, unit), _PER_SECOND[unit]
    inside = (counts >= _FIRST * _DAY * in_second) & (counts < (_LAST + 1) * _DAY * in_second)
    cells = np.empty(len(counts), object)
    here = counts[inside].view(f"datetime64[{unit}]").astype("datetime64[us]").astype(object)
    cells[inside] = _objects([time.replace(tzinfo=datetime.UTC) for time in here]) if utc else here
    cells[~inside] = [_far(count, in_second, "+00:00" if utc else "") for count in counts[~inside].tolist()]
    return cells


def of_arrow(values: Any) -> NDArray[Any]:
    """Return the cells of an Arrow array, as doubles or objects; see `of_numpy`.

    >>> import pyarrow as pa
    >>> of_arrow(pa.array([18_262, 3_700_000, 2**31 - 1], pa.int32()).cast(pa.date32())).tolist()
    [datetime.date(2020, 1, 1), '12100-04-04', 'infinity']
    """
    import pyarrow as pa

    if values.null_count:
        cells = np.full(len(values), None, object)
        cells[values.is_valid().to_numpy(zero_copy_only=False)] = of_arrow(values.drop_null())
        return cells
    of = values.type
    if pa.types.is_integer(of) or pa.types.is_floating(of):
        return of_numpy(values.to_numpy(zero_copy_only=False))
    if pa.types.is_date32(of):
        return _days(values.view(pa.int32()).to_numpy().astype(np.int64))
    if pa.types.is_date64(of):
        return _days(values.view(pa.int64()).to_numpy() // (1000 * _DAY))
    if pa.types.is_timestamp(of):
        return times(values.view(pa.int64()).to_numpy().view(f"datetime64[{of.unit}]"), utc=of.tz is not None)
    if pa.types.is_time(of) or pa.types.is_duration(of):
        counts = values.view(pa.int32() if pa.types.is_time32(of) else pa.int64()).to_pylist()
        passed = [datetime.timedelta(microseconds=count * 10**6 // _PER_SECOND[of.unit]) for count in counts]
        write = _duration if pa.types.is_duration(of) else lambda passed: (_EPOCH + passed).time().isoformat()
        return _objects(list(map(write, passed)))
    return _objects(list(map(cell, values.to_pylist())))


def _objects(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _counts(values: NDArray[np.datetime64], unit: str) -> NDArray[np.int64]:
    return values.astype(f"datetime64[{unit}]").view(np.int64)


def _days(counts: NDArray[np.int64]) -> NDArray[Any]:
    """Return the cells of days since 1970-01-01."""
    inside = (counts >= _FIRST) & (counts <= _LAST)
    cells = np.empty(len(counts), object)
    cells[inside] = counts[inside].view("datetime64[D]").astype(object)
    cells[~inside] = [_infinity(count) or _far_day(count) for count in counts[~inside].tolist()]
    return cells


def _infinity(count: int) -> str:
    return ("-infinity" if count < 0 else "infinity") if abs(count) in _FOREVER else ""


def _far(count: int, in_second: int, zone: str) -> str:
    """Return the text of a time beyond those of Python; years are counted with a year 0, as ISO 8601 does."""
    days, rest = divmod(count, _DAY * in_second)
    clock = _EPOCH + datetime.timedelta(microseconds=rest * 10**6 // in_second)
    return _infinity(count) or f"{_far_day(days)} {clock.time().isoformat()}{zone}"


def _far_day(count: int) -> str:
    cycles, rest = divmod(count - _FIRST, _CYCLE)
    day = datetime.date.min + datetime.timedelta(rest)
    year = day.year + 400 * cycles
    return f"{'-' if year < 0 else ''}{abs(year):04d}-{day:%m-%d}"


def _text(value: str) -> str | None:
    return str.__str__(value).strip() or None


def _bytes(value: bytes) -> str | None:
    """Return the text of bytes: old writers of Parquet do not say that it is one."""
    try:
        return _text(bytes(value).decode())
    except UnicodeDecodeError:
        return f"0x{bytes(value).hex()}"


def _double(value: Any) -> float | None:
    number = float(value) if isinstance(value, float) else float(str(value))
    return None if number != number else number + 0.0


def _decimal(value: Decimal) -> Decimal | float | None:
    return None if value.is_nan() else value if value.is_finite() else float(value)


def _time(value: datetime.datetime) -> Any:
    if type(value) is datetime.datetime and value.tzinfo in (None, datetime.UTC) and not value.fold:
        return value
    if value != value:  # NaT
        return None
    if hasattr(value, "asm8"):  # pandas', of any year; in UTC where it has a zone
        return times(np.array([value.asm8]), utc=value.tzinfo is not None)[0]
    there = datetime.datetime.combine(_date(value), value.time().replace(fold=0))
    if (offset := value.utcoffset()) is None:
        return there
    count = (there - _EPOCH - offset) // datetime.timedelta(microseconds=1)
    return times(np.array([count], "datetime64[us]"), utc=True)[0]


def _date(value: datetime.date) -> datetime.date:
    return value if type(value) is datetime.date else datetime.date(value.year, value.month, value.day)


def _duration(value: datetime.timedelta) -> str | None:
    if value != value:  # NaT
        return None
    rest = datetime.timedelta(seconds=value.seconds, microseconds=value.microseconds)
    return f"{value.days} days {'+' if value.days < 0 else ''}{(_EPOCH + rest).time().isoformat()}"


def _numpy_time(value: np.datetime64) -> Any:
    return of_numpy(np.array([value]))[0]


def _numpy_duration(value: np.timedelta64) -> str | None:
    return None if np.isnat(value) else _duration(value.astype("timedelta64[us]").item())


_READ: dict[type, Callable[[Any], Any]] = {
    type(None): lambda _: None,
    str: _text,
    bool: bool,
    np.bool_: bool,
    int: int,
    np.integer: int,
    float: _double,
    np.floating: _double,
    Decimal: _decimal,
    datetime.datetime: _time,
    datetime.date: _date,
    np.datetime64: _numpy_time,
    datetime.time: lambda value: value.isoformat(),
    datetime.timedelta: _duration,
    np.timedelta64: _numpy_duration,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
}
