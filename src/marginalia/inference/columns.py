"""What the codes of a public column stand for in an answer: numbers, values or gaps, and bins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.learning.units import bin_reach, code_values

Quantity = Literal["number", "count", "difference", "share", "day", "hour", "minute", "second"]
"""What a number is: one in the units of its column, a number of rows or of more rows than others, a share of rows, or a
date or timestamp as days, hours, ... since 1970-01-01."""
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
    """
    estimate, low, high = numbers
    if quantity == "share" or quantity == "count":
        least, most = 0.0, 1.0 if quantity == "share" else math.inf
        estimate, low, high = (min(max(x, least), most) for x in numbers) if not outside else numbers
    if quantity in ("count", "difference"):
        return [f"{x:,.0f}" if math.isfinite(x) else str(x) for x in (estimate, low, high)]
    if quantity in ("day", "hour", "minute", "second"):
        down, up = (math.ceil, math.floor) if outside else (math.floor, math.ceil)
        return [_time(x, quantity, rounding) for x, rounding in ((estimate, round), (low, down), (high, up))]
    length, known = abs(high - low), [x for x in (estimate, low, high) if math.isfinite(x)]
    digits = 1 - math.floor(math.log10(length)) if 0 < length < math.inf else 4
    digits = min(max(digits, decimals, 0), _MOST_DECIMALS)
    texts = {x: f"{x:,.{digits}f}" for x in known}
    if digits > decimals:
        zeros = min((len(text) - len(text.rstrip("0")) for text in texts.values()), default=0)
        cut = min(zeros, digits - decimals)
        texts = {x: text[: len(text) - cut].rstrip(".") for x, text in texts.items()}
    return [texts.get(x, str(x)) for x in (estimate, low, high)]


def _time(count: float, unit: values.Unit, rounding: Callable[[float], int]) -> str:
    if not math.isfinite(count):
        return str(count)
    try:
        return values.iso(rounding(count), unit)
    except (ValueError, OverflowError):  # beyond what a calendar has
        return f"{count:.4g} {unit}s since 1970-01-01"


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


def notes_on_bins(domain: Domain, names: Iterable[str]) -> tuple[str, ...]:
    """Return a note for each of these columns that is in bins: in the coded table a row has the middle of its bin.

    >>> from marginalia.data import Column, Domain
    >>> age = Column("age", 2, "numeric", edges=(0, 20, 60), type="number", top=True)
    >>> notes_on_bins(Domain([age]), ["age"])
    ('age: a row counts as the middle of its bin, at most 20 from its value, and further in the open last one',)
    """
    notes = []
    for name in names:
        column, reach = domain[name], bin_reach(domain[name])
        outer = " and ".join(which for which, is_open in (("first", column.bottom), ("last", column.top)) if is_open)
        if reach:
            further = f", and further in the open {outer} one" if outer else ""
            notes.append(f"{name}: a row counts as the middle of its bin, at most {reach:.4g} from its value{further}")
        elif outer:
            notes.append(f"{name}: a row in the open {outer} bin counts as its middle, however far its value is")
        if column.lenient:
            notes.append(f"{name}: the release learned its bins; this answer is about the table in these bins")
    return tuple(notes)
