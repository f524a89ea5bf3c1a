"""What the codes of a public column stand for in an answer: numbers, values or gaps, and bins."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.learning.units import bin_reach, code_values


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
