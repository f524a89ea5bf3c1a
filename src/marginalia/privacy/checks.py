"""Validation of privacy parameters, shared by events, calibration and mechanisms."""

import math
from typing import SupportsFloat

from marginalia.errors import InputError


def positive(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float; refuse anything but a finite number above 0."""
    number = _number(name, value)
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} is {value}: need a finite number above 0")
    return number


def not_negative(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float; refuse anything but a finite number of at least 0."""
    number = _number(name, value)
    if not (math.isfinite(number) and number >= 0):
        raise InputError(f"{name} is {value}: need a finite number of at least 0")
    return number


def open_unit(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float; refuse anything outside the open interval (0, 1)."""
    number = _number(name, value)
    if not 0 < number < 1:
        raise InputError(f"{name} is {value}: need a number strictly between 0 and 1")
    return number


def count(name: str, value: SupportsFloat) -> int:
    """Return `value` as an int; refuse anything but a whole number of at least 1."""
    number = _number(name, value)
    if not (math.isfinite(number) and number >= 1 and number == int(number)):
        raise InputError(f"{name} is {value}: need a whole number of at least 1")
    return int(number)


def _number(name: str, value: SupportsFloat) -> float:
    try:
        if isinstance(value, str):  # float() would read a number written out
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {value!r}: need a number") from None
