"""Cells of raw tables, from every source, as a kind and a text; what a cell is never depends on another cell.

A library that infers the type of a column looks at all of its cells: ``pa.array`` of Python objects drops the time of a
``datetime`` beside a ``date``. Here columns of objects are read one cell at a time, and only columns that come with a
type are read as arrays.

==========  ===========================================================================================================
kind        text
==========  ===========================================================================================================
(no cell)   NULL, NaN, NaT, text of spaces only
text        without outer spaces; values without a kind of their own, and times that Python cannot hold
number      its digits; whole numbers without a decimal point, decimals with the zeros that they came with; numbers of
            half and single precision with the shortest digits of their own precision
boolean     ``True``, ``False``
time        a date, or a date and time on a clock in no zone, to the microsecond: ``2020-01-31 10:30:00``
instant     a date and time in UTC, whatever zone it came in: ``2020-01-31 09:30:00+00:00``
==========  ===========================================================================================================
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["text", "number", "boolean", "time", "instant"]

_EXACT = 2**53  # whole numbers up to it are doubles
_EPOCH = datetime.datetime(1970, 1, 1)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST, _LAST = (int((time - _EPOCH) // datetime.timedelta(seconds=1)) for time in (_EPOCH.min, _EPOCH.max))
_FOREVER = (2**31 - 1, 2**63 - 1)  # counts that stand for infinity in databases
_SHORT_YEAR = re.compile(r"^-(\d{3})-")  # NumPy writes -044 for the year -44
_LONG = 400  # digits of a decimal that is written with its exponent


class SeveralError(TypeError):
    """A cell holds several values, such as a list; its type is the message.

    >>> of_object([1, 2])
    Traceback (most recent call last):
    marginalia.data.cells.SeveralError: list
    """


class Cell(NamedTuple):
    """What one cell of a raw table says.

    >>> of_object(1.0), of_object(True)
    (Cell(kind='number', text='1'), Cell(kind='boolean', text='True'))
    """

    kind: Kind
    text: str


@dataclass(frozen=True)
class Cells:
    """The cells of a raw column: the position of each row's cell among the distinct ones, -1 of an empty one.

    Attributes
    ----------
    which : ndarray of shape (rows,), int64
    distinct : list of Cell, or ndarray of float64 or datetime64
        Doubles stand for numbers with their shortest digits. A cell may be there twice, and may be in no row.
    utc : bool
        Whether an array of times holds instants, or times on a clock in no zone.

    Examples
    --------
    >>> import pandas as pd
    >>> cells_of(pd.Series(["b", None, "b"])).which
    array([ 0, -1,  0])
    """

    which: NDArray[np.int64]
    distinct: list[Cell] | NDArray[Any]
    utc: bool = False

    @cached_property
    def listed(self) -> list[Cell]:
        """The distinct cells."""
        if isinstance(self.distinct, list):
            return self.distinct
        if self.distinct.dtype.kind == "M":
            return [cell for cell in _times(self.distinct, utc=self.utc) if cell is not None]
        return [Cell("number", number_text(number)) for number in self.distinct.tolist()]

    @property
    def seconds(self) -> NDArray[np.int64]:
        """The whole seconds since 1970-01-01T00:00 of an array of times; the rest of a second is dropped."""
        unit, counts = np.datetime_data(self.distinct.dtype)[0], self.distinct.view(np.int64)  # type: ignore[union-attr]
        return counts * 86_400 if unit == "D" else counts // _PER_SECOND[unit]

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of rows of each distinct cell."""
        return np.bincount(self.which[self.which >= 0], minlength=len(self.distinct))

    def rows(self) -> NDArray[Any]:
        """Return the cell of each row, None of an empty one."""
        cells = np.empty(len(self.distinct) + 1, object)  # the last: no cell
        for i, cell in enumerate(self.listed):
            cells[i] = cell
        return cells[self.which]

    def at(self, positions: NDArray[np.integer]) -> Cells:
        """Return the column whose rows are those at some positions, -1 or beyond for none."""
        return Cells(np.append(self.which, -1)[positions], self.distinct, self.utc)


def cells_of(column: Any, name: str = "values", *, lenient: bool = False) -> Cells:
    """Return the cells of a column of a data frame or of an Arrow array.

    A column with several values in a cell (lists) is refused; `lenient` takes such a cell as empty.

    >>> import pyarrow as pa
    >>> cells_of(pa.array([18_262, 3_700_000, 2**31 - 1], pa.int32()).cast(pa.date32())).listed
    [Cell(kind='time', text='2020-01-01'), Cell(kind='text', text='12100-04-04'), Cell(kind='text', text='infinity')]
    """
    return (_of_series if hasattr(column, "dtype") else _of_arrow)(column, name, lenient)


def of_object(value: Any) -> Cell | None:
    """Return a value of Python, NumPy, pandas or Arrow as a cell; None where there is no value.

    Raises
    ------
    SeveralError
        It is a list, or another thing of several values.

    >>> of_object(" a "), of_object(np.float32(.1)).text, of_object(float("nan"))
    (Cell(kind='text', text='a'), '0.1', None)
    >>> of_object(datetime.datetime.fromisoformat("2020-01-01T00:30+02:00"))
    Cell(kind='instant', text='2019-12-31 22:30:00+00:00')
    """
    for kind in type(value).__mro__:
        if (read := _READ.get(kind)) is not None:
            return read(value)
    if type(value).__name__ == "NAType":  # pandas'
        return None
    if hasattr(value, "as_py") and hasattr(value, "type"):  # a scalar of Arrow
        import pyarrow as pa

        timed = value.is_valid and pa.types.is_temporal(value.type)  # of any year
        return of_object(_of_type(pa.array([value])).rows()[0] if timed else value.as_py())
    try:
        hash(value)
    except TypeError:
        raise SeveralError(type(value).__name__) from None
    return _text(str(value))


def number_text(number: float) -> str:
    """Return the digits of a double: the shortest that read as it, without a decimal point of whole numbers.

    >>> number_text(1e3), number_text(0.1), number_text(float("-inf"))
    ('1000', '0.1', '-inf')
    """
    return str(int(number)) if number.is_integer() else repr(number)


def _of_series(raw: pd.Series[Any], name: str, lenient: bool) -> Cells:
    import pandas as pd
    import pyarrow as pa

    kind = raw.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return _of_series(pd.Series(raw.cat.categories), name, lenient).at(raw.cat.codes.to_numpy())
    if isinstance(kind, pd.ArrowDtype) or (isinstance(kind, pd.StringDtype) and kind.storage == "pyarrow"):
        return _of_arrow(raw.array.__arrow_array__(), name, lenient)
    if isinstance(kind, pd.DatetimeTZDtype):
        return _of_arrow(pa.array(raw.dt.tz_convert("UTC")), name, lenient)
    typed = getattr(kind, "numpy_dtype", kind)  # of pandas' nullable types
    if isinstance(typed, np.dtype) and typed.kind in "biufMm" and typed != np.longdouble:
        return _of_arrow(pa.array(raw.array, from_pandas=True), name, lenient)  # of this type, whatever the cells
    # Not `to_numpy` alone: that of pandas before 3.1 fails where a cell is a signalling NaN.
    return _of_objects(np.asarray(pd.Series(raw.to_numpy(dtype=object), dtype=object).array), name, lenient)


def _of_arrow(column: Any, name: str, lenient: bool) -> Cells:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        at = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
        return _of_arrow(column.dictionary, name, lenient).at(at)
    if pa.types.is_run_end_encoded(column.type):
        return _of_arrow(pa.compute.run_end_decode(column), name, lenient)
    try:
        encoded = column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # of nested types, and some that are rare
        try:
            return _of_objects(column.to_pylist(), name, lenient)
        except (ValueError, OverflowError, pa.ArrowNotImplementedError):
            what = f"column '{name}' holds values of type {column.type}; give each cell one value"
            raise InputError(what) from None
    at = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return _of_type(encoded.dictionary).at(at)


def _of_objects(values: Iterable[Any], name: str, lenient: bool) -> Cells:
    """Return the cells of Python objects, each read by itself."""
    positions: dict[Cell | None, int] = {None: -1}
    texts: dict[str, int] = {}  # objects of the same text are the same cell; of other types equal is not the same
    which = []
    for value in values:
        is_text = type(value) is str
        if is_text and value in texts:
            which.append(texts[value])
            continue
        try:
            cell = of_object(value)
        except SeveralError as error:
            if not lenient:
                raise InputError(f"column '{name}' holds values of type {error}; give each cell one value") from None
            cell = None
        which.append(positions.setdefault(cell, len(positions) - 1))
        if is_text:
            texts[value] = which[-1]
    return Cells(np.array(which, np.int64), [cell for cell in positions if cell is not None])


def _without_empty(cells: NDArray[np.float64] | list[Cell | None]) -> Cells:
    """Return a column with these cells, of which NaN and None are empty."""
    if isinstance(cells, list):
        gone = np.array([cell is None for cell in cells], bool)
        known: Any = [cell for cell in cells if cell is not None]
    else:
        gone = np.isnan(cells)
        known = cells[~gone]
    return Cells(np.where(gone, -1, np.cumsum(~gone) - 1), known)


def _of_type(values: Any) -> Cells:
    """Return the cells of an Arrow array without nulls: numbers as doubles where these are exact."""
    import pyarrow as pa

    of = values.type
    if pa.types.is_integer(of):
        numbers = values.to_numpy(zero_copy_only=False)
        if not numbers.size or max(-int(numbers.min()), int(numbers.max())) <= _EXACT:
            return _without_empty(numbers.astype(np.float64))
        return _without_empty([Cell("number", str(number)) for number in numbers.tolist()])
    if pa.types.is_floating(of):
        numbers = values.to_numpy(zero_copy_only=False)
        same_digits = numbers if of == pa.float64() else numbers.astype(str)
        return _without_empty(same_digits.astype(np.float64) + 0.0)  # no -0.0
    if pa.types.is_date32(of):
        return _of_times(values.view(pa.int32()).to_numpy().astype("M8[D]"))
    if pa.types.is_date64(of):
        return _of_times((values.view(pa.int64()).to_numpy() // 86_400_000).astype("M8[D]"))
    if pa.types.is_timestamp(of):
        return _of_times(values.view(pa.int64()).to_numpy().view(f"M8[{of.unit}]"), utc=of.tz is not None)
    if pa.types.is_time(of) or pa.types.is_duration(of):
        counts = values.view(pa.int32() if pa.types.is_time32(of) else pa.int64()).to_pylist()
        passed = [datetime.timedelta(microseconds=count * 10**6 // _PER_SECOND[of.unit]) for count in counts]
        clock = (lambda passed: Cell("text", _clock(passed))) if pa.types.is_time(of) else _duration
        return _without_empty(list(map(clock, passed)))
    return _without_empty(list(map(of_object, values.to_pylist())))


def _of_times(values: NDArray[np.datetime64], *, utc: bool = False) -> Cells:
    """Return the cells of times, as an array if Python can hold all of them: to write each one takes long."""
    cells = Cells(np.arange(len(values)), values, utc)
    inside = (cells.seconds >= _FIRST) & (cells.seconds <= _LAST)
    return cells if inside.all() else _without_empty(_times(values, utc=utc))


def _times(values: NDArray[np.datetime64], *, utc: bool = False) -> list[Cell | None]:
    """Return the cells of days (unit D) or of times in s, ms, us or ns, on a clock in no zone or in `utc`."""
    zone: str = "+00:00" if utc else ""
    kind: Kind = "instant" if utc else "time"
    if values.dtype == "M8[ns]":
        values = values.astype("M8[us]")
    unit, counts = np.datetime_data(values.dtype)[0], values.view(np.int64)
    if unit == "D":
        written, first, last = np.datetime_as_string(values), _FIRST // 86_400, _LAST // 86_400
        whole, micro = counts, np.zeros_like(counts)
    else:
        whole, part = np.divmod(counts, _PER_SECOND[unit])
        micro, first, last = part * 10**6 // _PER_SECOND[unit], _FIRST, _LAST
        written = np.datetime_as_string(whole.view("M8[s]"))
    inside = ((whole >= first) & (whole <= last)).tolist()
    cells: list[Cell | None] = []
    for text, fraction, is_inside, count in zip(written.tolist(), micro.tolist(), inside, counts.tolist(), strict=True):
        text = f"{text.replace('T', ' ')}{f'.{fraction:06d}' if fraction else ''}{zone}"
        if is_inside:
            cells.append(Cell(kind, text))
        elif abs(count) in _FOREVER:
            cells.append(Cell("text", "-infinity" if count < 0 else "infinity"))
        else:
            cells.append(Cell("text", _SHORT_YEAR.sub(r"-0\1-", text)))
    return cells


def _text(value: str) -> Cell | None:
    text = str.__str__(value).strip()
    return Cell("text", text) if text else None


def _bytes(value: bytes) -> Cell | None:
    """Return the text of bytes: old writers of Parquet do not say that it is one."""
    try:
        return _text(bytes(value).decode())
    except UnicodeDecodeError:
        return Cell("text", f"0x{bytes(value).hex()}")


def _whole(value: Any) -> Cell:
    whole = int(value)
    return Cell("number", str(whole) if whole.bit_length() < 10_000 else f"{Decimal(whole):f}")


def _double(value: Any) -> Cell | None:
    number = float(value) if isinstance(value, float) else float(str(value))
    return None if number != number else Cell("number", number_text(number + 0.0))


def _decimal(value: Decimal) -> Cell | None:
    if value.is_nan():
        return None
    if not value.is_finite():
        return _double(float(value))
    return Cell("number", f"{value:f}" if abs(value.adjusted()) < _LONG else str(value))


def _time(value: datetime.datetime) -> Cell | None:
    if value != value:  # NaT
        return None
    if hasattr(value, "asm8"):  # pandas', of any year; in UTC where it has a zone
        return _times(np.array([value.asm8]), utc=value.tzinfo is not None)[0]
    there = datetime.datetime.combine(_plain_date(value), value.time().replace(fold=0))
    if (offset := value.utcoffset()) is None:
        return Cell("time", str(there))
    count = (there - _EPOCH - offset) // datetime.timedelta(microseconds=1)
    return _times(np.array([count], "M8[us]"), utc=True)[0]


def _plain_date(value: datetime.date) -> datetime.date:
    return datetime.date(value.year, value.month, value.day)


def _clock(passed: datetime.timedelta) -> str:
    """Return the time of day so long after midnight."""
    return (_EPOCH + passed).time().isoformat()


def _duration(value: datetime.timedelta) -> Cell | None:
    if value != value:  # NaT
        return None
    rest = datetime.timedelta(seconds=value.seconds, microseconds=value.microseconds)
    return Cell("text", f"{value.days} days {'+' if value.days < 0 else ''}{_clock(rest)}")


def _numpy_time(value: np.datetime64) -> Cell | None:
    if np.isnat(value):
        return None
    unit = np.datetime_data(value.dtype)[0]
    if unit not in _PER_SECOND:
        unit = "D" if unit in "YMWD" else "us" if unit in "mh" else "ns"
    return _times(np.array([value]).astype(f"M8[{unit}]"))[0]


def _numpy_duration(value: np.timedelta64) -> Cell | None:
    return None if np.isnat(value) else _duration(value.astype("timedelta64[us]").item())


_READ: dict[type, Callable[[Any], Cell | None]] = {
    Cell: lambda cell: cell,
    type(None): lambda _: None,
    str: _text,
    bool: lambda value: Cell("boolean", str(value)),
    np.bool_: lambda value: Cell("boolean", str(bool(value))),
    int: _whole,
    np.integer: _whole,
    float: _double,
    np.floating: _double,
    Decimal: _decimal,
    datetime.datetime: _time,
    datetime.date: lambda value: Cell("time", _plain_date(value).isoformat()),
    np.datetime64: _numpy_time,
    datetime.time: lambda value: Cell("text", value.isoformat()),
    datetime.timedelta: _duration,
    np.timedelta64: _numpy_duration,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
}
