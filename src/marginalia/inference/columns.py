"""What the codes of a public column stand for in an answer: numbers, values or gaps, and bins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.names import edge_text
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.learning.units import bin_reach, code_values, ends_of_codes

Quantity = Literal[
    "number",
    "count",
    "difference",
    "share",
    "day",
    "hour",
    "minute",
    "second",
    "hour of day",
    "minute of day",
    "second of day",
]
"""What a number is: one in the units of its column, a number of rows or of more rows than others, a share of rows, a
date or timestamp as days, hours, ... since 1970-01-01, or a time of day as hours, minutes or seconds since midnight."""
_MOST_DECIMALS = 10


def shown(
    numbers: tuple[float, float, float], quantity: Quantity, decimals: int = 0, *, outside: bool = False
) -> list[str]:
    """Return an estimate and the ends of its set as texts in the units of the answer.

    Ends are rounded so that no possible value is lost. Counts are whole and from 0 on, shares from 0 to 1, times are
    dates. Other numbers have two digits of the length of the set, and at least so many decimals, less common zeros.

    >>> shown((25.8714, 25.512, 26.2377), "number"), shown((-3.2, -11.9, 5.1), "count")
    (['25.87', '25.51', '26.24'], ['0', '0', '5'])
    >>> shown((19000.4, 18990.2, 19010.7), "day")
    ['2022-01-08', '2021-12-29', '2022-01-19']
    >>> shown((540.2, 531.7, 548.9), "minute of day")
    ['09:00', '08:51', '09:09']
    """
    estimate, low, high = numbers
    if (most := _most(quantity)) is not None:
        estimate, low, high = (min(max(x, 0.0), most) for x in numbers) if not outside else numbers
    if quantity in ("count", "difference"):
        return [f"{x:,.0f}" if math.isfinite(x) else str(x) for x in (estimate, low, high)]
    if unit_of(quantity) is not None:
        down, up = (math.ceil, math.floor) if outside else (math.floor, math.ceil)
        return [time_text(x, quantity, rounding) for x, rounding in ((estimate, round), (low, down), (high, up))]
    length, known = abs(high - low), [x for x in (estimate, low, high) if math.isfinite(x)]
    digits = 1 - math.floor(math.log10(length)) if 0 < length < math.inf else 4
    digits = min(max(digits, decimals, 0), _MOST_DECIMALS)
    texts = {x: f"{x:,.{digits}f}" for x in known}
    if digits > decimals:
        zeros = min((len(text) - len(text.rstrip("0")) for text in texts.values()), default=0)
        cut = min(zeros, digits - decimals)
        texts = {x: text[: len(text) - cut].rstrip(".") for x, text in texts.items()}
    return [texts.get(x, str(x)) for x in (estimate, low, high)]


def _most(quantity: Quantity) -> float | None:
    """Return the largest number that is possible, of a quantity that is at least 0; None of others."""
    if quantity in ("share", "count"):
        return 1.0 if quantity == "share" else math.inf
    unit = unit_of(quantity)
    return None if unit is None or quantity == unit else 86_400 / values.SECONDS[unit] - 1


def quantity_of(column: Column) -> Quantity:
    """Return what the numbers of a column are: dates or times, times of day, or other numbers.

    >>> quantity_of(Column("at", 1, edges=(0, 1440), type="timestamp", unit="minute", format="%H%M"))
    'minute of day'
    """
    if (unit := column.counted_in) is None:
        return "number"
    is_clock = column.format is not None and not values.has_day(column.format)
    return cast("Quantity", f"{unit} of day") if is_clock else unit


def unit_of(quantity: str) -> values.Unit | None:
    """Return the unit of dates and times, also of times of day; None of other quantities.

    >>> unit_of("minute of day"), unit_of("count")
    ('minute', None)
    """
    unit = quantity.removesuffix(" of day")
    return unit if unit in values.SECONDS else None


def time_text(count: float, quantity: str, rounding: Callable[[float], int] = int) -> str:
    """Return a date or time in ISO form, a time of day without its day.

    >>> time_text(19000.4, "day"), time_text(540.2, "minute of day")
    ('2022-01-08', '09:00')
    """
    unit = unit_of(quantity)
    assert unit is not None
    if not math.isfinite(count):
        return str(count)
    try:
        written = values.iso(rounding(count), unit)
    except (ValueError, OverflowError):  # beyond what a calendar has
        return f"{count:.4g} {unit}s since 1970-01-01"
    return written if quantity == unit else written.partition("T")[2]


def with_value(column: Column) -> NDArray[np.bool_]:
    """Return which codes stand for a value, shape (size,): not those of missing values and of special texts.

    >>> from marginalia.data import Column
    >>> with_value(Column("pay", 4, "numeric", edges=(0, 20, 60), type="number", special=("refused",), missing=()))
    array([ True,  True, False, False])
    """
    return np.arange(column.size) < column.n_values + (column.other is not None)


def numbers_of(column: Column) -> Array:
    """Return the number that each code with a value stands for: a numeric label, or the middle of a bin.

    Raises
    ------
    InputError
        The column is of text or of truth values.

    Examples
    --------
    >>> from marginalia.data import Column
    >>> numbers_of(Column("pay", 3, "numeric", edges=(0, 20, 60), type="number", missing=()))
    array([10., 40.])
    """
    if column.type in ("string", "boolean"):
        raise InputError(f"'{column.name}' is of type {column.type}: its codes stand for no numbers")
    return code_values(column)


def number_function(column: Column) -> Array:
    """Return the number of each code, shape (size,); 0 for codes without a value."""
    numbers = np.zeros(column.size)
    numbers[: column.n_values] = numbers_of(column)
    return numbers


def clipped_at(column: Column) -> str:
    """Return where the values of a column in bins are clipped, since its outer bins are open; empty where none is.

    >>> clipped_at(Column("age", 2, "numeric", edges=(0, 20, 60), type="integer", bottom=True, top=True))
    'at 0 and 59'
    """
    if column.edges is None:
        return ""
    low, high = ends_of_codes(column)
    ends = [(column.bottom, low[0]), (column.top, high[-1])]
    texts = [edge_text(column, float(end)) for is_open, end in ends if is_open]
    return f"at {' and '.join(texts)}" if texts else ""


def notes_on_bins(domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    """Return notes on those of these columns that are in bins: in the coded table a row has the middle of its bin.

    >>> from marginalia.data import Column, Domain
    >>> age = Column("age", 2, "numeric", edges=(0, 20, 60), type="number", top=True)
    >>> notes_on_bins(Domain([age]), ["age"])
    ('age: values clipped at 60; a row counts as the middle of its bin, at most 20 from its clipped value',)
    """
    notes = []
    for name in names:
        column, reach, at = domain[name], bin_reach(domain[name]), clipped_at(domain[name])
        parts = [f"values clipped {at}"] if at else []
        if reach:
            value = "clipped value" if at else "value"
            parts.append(f"a row counts as the middle of its bin, at most {reach:.4g} from its {value}")
        if parts:
            notes.append(f"{name}: {'; '.join(parts)}")
        if column.lenient:
            notes.append(f"{name}: the release learned its bins; this answer is about the table in these bins")
    return tuple(notes)


def notes_on_labels(domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    """Return notes on those of these columns whose labels the release learned.

    >>> from marginalia.data import Column, Domain
    >>> ward = Column("ward", 3, type="string", labels=("A",), other="other", missing=("?",), lenient=True)
    >>> notes_on_labels(Domain([ward]), ["ward"])
    ('ward: the release learned its labels; this answer is about the table in these labels, all others as `other`',)
    """
    return tuple(
        f"{name}: the release learned its labels; this answer is about the table in these labels, all others as "
        f"`{domain[name].other}`"
        for name in dict.fromkeys(names)
        if domain[name].lenient and domain[name].other is not None
    )
