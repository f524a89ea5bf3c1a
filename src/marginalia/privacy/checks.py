"""The one place where parameters are validated: a function returns its number, or raises `InputError` in one line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, SupportsFloat

from marginalia.errors import InputError, unknown_name
from marginalia.privacy.relation import Relation

if TYPE_CHECKING:
    from marginalia.data.units import Unit

LEAST_EPSILON = 1e-5
LARGEST_EPSILON = 1e12  # far beyond, the conversions no longer end
LARGEST_DELTA = 0.01


def budget(epsilon: SupportsFloat, delta: SupportsFloat, *, pure: bool = False) -> tuple[float, float]:
    """Return a privacy budget as floats; with `pure` delta may be 0.

    An epsilon below `LEAST_EPSILON` is refused, since the accountants' rounding is then no longer small beside it: what
    costs epsilon by the formula costs more by the accountant. A delta above `LARGEST_DELTA` is refused, since with
    probability delta everything may be told: a release of each record as it is, with probability 1/n, is (0, 1/n)-DP.
    So delta must be far below 1/n; n is private under add_remove, hence one bound for all tables, the 1/n of a hundred
    records, fewer than which nothing here learns from.

    >>> budget(1.0, 1e-5)
    (1.0, 1e-05)
    >>> budget(1.0, 0.9)
    Traceback (most recent call last):
    marginalia.errors.InputError: delta is 0.9: need at most 0.01, and far less than 1 in ...
    """
    if pure and delta == 0:
        return _epsilon(epsilon), 0.0
    if open_unit("delta", delta) > LARGEST_DELTA:
        need = f"at most {LARGEST_DELTA:g}, and far less than 1 in the number of records"
        _refuse("delta", delta, f"{need}, since with probability delta a release may show a record as it is")
    return _epsilon(epsilon), float(delta)


def _epsilon(epsilon: SupportsFloat) -> float:
    if 0 < positive("epsilon", epsilon) < LEAST_EPSILON:
        need = f"at least {LEAST_EPSILON:g}"
        _refuse("epsilon", epsilon, f"{need}, below which rounding in the accountant is larger than the budget")
    if float(epsilon) > LARGEST_EPSILON:
        _refuse("epsilon", epsilon, f"at most {LARGEST_EPSILON:g}, which is no privacy already")
    return float(epsilon)


def positive(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float; refuse anything but a finite number above 0.

    >>> positive("epsilon", "1")
    Traceback (most recent call last):
    marginalia.errors.InputError: epsilon is '1': need a number
    """
    return above(name, value, 0)


def not_negative(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float; refuse anything but a finite number of at least 0.

    >>> not_negative("mu", 0)
    0.0
    """
    return at_least(name, value, 0)


def above(name: str, value: SupportsFloat, least: float) -> float:
    """Return `value` as a float; refuse anything but a finite number above `least`.

    >>> above("eta", -1, least=-1)
    Traceback (most recent call last):
    marginalia.errors.InputError: eta is -1: need a finite number above -1
    """
    number = _number(name, value)
    return number if least < number < math.inf else _refuse(name, value, f"a finite number above {least:g}")


def at_least(name: str, value: SupportsFloat, least: float) -> float:
    """Return `value` as a float; refuse anything but a finite number of at least `least`.

    >>> at_least("size", 0.5, least=1)
    Traceback (most recent call last):
    marginalia.errors.InputError: size is 0.5: need a finite number of at least 1
    """
    number = _number(name, value)
    return number if least <= number < math.inf else _refuse(name, value, f"a finite number of at least {least:g}")


def open_unit(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float; refuse anything outside the open interval (0, 1).

    >>> open_unit("delta", 1e-5)
    1e-05
    """
    number = _number(name, value)
    return number if 0 < number < 1 else _refuse(name, value, "a number strictly between 0 and 1")


def probability(name: str, value: SupportsFloat) -> float:
    """Return `value` as a float; refuse anything outside (0, 1].

    >>> probability("rate", 1)
    1.0
    """
    number = _number(name, value)
    return number if 0 < number <= 1 else _refuse(name, value, "a probability in (0, 1]")


def count(name: str, value: SupportsFloat, least: int = 1) -> int:
    """Return `value` as an int; refuse anything but a whole number of at least `least`.

    >>> count("steps", 20.0)
    20
    """
    number = _number(name, value)
    whole = least <= number < math.inf and number == int(number)
    return int(number) if whole else _refuse(name, value, f"a whole number of at least {least}")


def _number(name: str, value: SupportsFloat) -> float:
    try:
        if isinstance(value, str | bool):  # float() would read a number written out, and true as 1
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):  # the last of a whole number of hundreds of digits
        raise InputError(f"{name} is {_shown(value)}: need a number") from None


def _refuse(name: str, value: SupportsFloat, need: str) -> NoReturn:
    raise InputError(f"{name} is {value}: need {need}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def relation(method: Any) -> None:
    """Refuse a method's relation for which it has no proof, or that does not exist.

    >>> from marginalia.learning import PATEClassifier
    >>> relation(PATEClassifier(relation="replace_one"))
    """
    name, chosen, proven = type(method).__name__, str(method.relation), tuple(map(str, method.RELATIONS))
    if chosen not in tuple(Relation):
        raise unknown_name(f"relation of {name}", chosen, Relation)
    if chosen not in proven:
        raise InputError(
            f"{name} has no proof for {Relation(chosen).in_words()}; take relation {' or '.join(proven)}, or a method "
            f"that `marginalia methods list` shows with {chosen}"
        )


def unit(method: Any, of: Unit | None) -> None:
    """Refuse a method that charges for single rows, on a table whose units may have several.

    Refuse a privately chosen number of rows per unit where it would decide the kind or the parameters of a release that
    is not Gaussian: the certificate composes such releases as fixed beforehand.

    >>> unit(object(), None)
    """
    from marginalia.data.units import UnitOfLearnedRows  # which imports this module

    if of is None or of.rows == 1:
        return
    name = type(method).__name__
    if isinstance(of, UnitOfLearnedRows) and not getattr(method, "PRIVATE_ROWS_PER_UNIT", True):
        raise InputError(
            f"{name} has no proof for a privately chosen rows_per_unit: give it as a number, or take another method"
        )
    if not getattr(method, "UNITS", False):
        raise InputError(f"{name} has a proof for single rows, not for {of}; take rows_per_unit 1, or another method")
    if getattr(method, "calibration", "tight") == "published":
        raise InputError(f"the published constants of {name} are those of single rows; take calibration tight")
