"""Find codes for "no value" among numbers and dates: 999, 9999999, -9 or 9999-12-31, alone at an end of the range.

Each code is one of a public list. Whether a column holds it is read off the private rows: that is for the owner of the
table, and a domain file that is drafted so names it under `inferred`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values

# The digits of codes: usual ones, and those that are usual beside them, as 98 (refused) is beside 99 (not known).
_USUAL = re.compile(r"[789]|9{2,}|888+|777+|666+")
_BESIDE = re.compile(r"88|77|66|9[678]|99+[4-8]|9{5,}[0-8]")
_LIMITS = frozenset({2.0**15 - 1, 2.0**16 - 1, 2.0**31 - 1, 2.0**32 - 1, -(2.0**15), -(2.0**31)})  # of whole numbers
# Dates: of these years no record is; of those only few are.
_NO_YEARS = (1, 1753, 1800, 2222, 2299, 2500, 2999, 3000, 3999, 4000, 4712, 5000, 7777, 8888, 9000, 9998, 9999)
_FEW_YEARS = (1899, 1900, 1901, 1910, 1911, 1960, 1970, 2037, 2049, 2050, 2099, 2100, 2199, 2200)
_DAYS = ("01-01", "09-09", "11-11", "12-30", "12-31")  # of these years
_OTHER_DAYS = frozenset({"1111-11-11", "1582-10-14", "2222-02-22", "2262-04-11", "7777-07-07", "8888-08-08"})

_MOST = 6  # codes at one end
_NEXT = 5  # ordinary values next to the codes, to which the codes are compared
_TIMES = 3  # as many rows: the codes stand out
_APART = 2  # times the widest step between ordinary values: the gap before short codes
_FEWEST = 5  # rows of a code that stands out by its rows
_SHARE = 0.1  # of the ordinary range: the least gap before a short code that does not stand out by its rows
_OFTEN = 0.02  # share of the rows that give the last answer to a question: the next one is then not missing by chance
_WIDE = 50  # times a code below zero: the range of the other numbers, if these are not below zero


@dataclass(frozen=True)
class Sentinel:
    """A value of a column that seems to stand for none.

    Attributes
    ----------
    value : float
        The number; of dates and times, units since 1970-01-01.
    rows : int

    Examples
    --------
    >>> Sentinel(999.0, 12).rows
    12
    """

    value: float
    rows: int


def of_numbers(numbers: NDArray[np.float64], rows: NDArray[np.integer]) -> list[Sentinel]:
    """Return the codes among numbers that stand alone at an end of the range, ascending.

    Parameters
    ----------
    numbers : ndarray of shape (m,)
        Distinct, ascending, finite.
    rows : ndarray of shape (m,)
        The number of rows of each.

    Examples
    --------
    >>> ages = np.array([-9.0, *range(18, 81), 999.0])
    >>> of_numbers(ages, np.full(65, 10))
    [Sentinel(value=-9.0, rows=10), Sentinel(value=999.0, rows=10)]
    >>> of_numbers(ages[1:-1], np.full(63, 10))
    []
    """
    low = _leading([_digits(number) if number < 0 else 0 for number in numbers[:_MOST].tolist()])
    high = _leading([_digits(number) if number > 0 else 0 for number in numbers[: -_MOST - 1 : -1].tolist()])
    return _at_both_ends(numbers, rows, low, high, step=0.0 if (numbers % 1).any() else 1.0, signed=True)


def of_times(counts: NDArray[np.float64], rows: NDArray[np.integer], unit: values.Unit) -> list[Sentinel]:
    """Return the dates of no event, such as 9999-12-31 and 1900-01-01, that stand alone at an end of the range.

    Parameters
    ----------
    counts : ndarray of shape (m,)
        Units since 1970-01-01, distinct and ascending.
    rows : ndarray of shape (m,)
        The number of rows of each.
    unit : {"day", "hour", "minute", "second"}

    Examples
    --------
    >>> of_times(np.array([*range(19_000, 19_100), 2_932_896.0]), np.ones(101, int), "day")
    [Sentinel(value=2932896.0, rows=1)]
    """
    per_day = 86_400 // values.SECONDS[unit]
    digits = [_digits_of_date(values.iso(count // per_day)) for count in (*counts[:_MOST], *counts[: -_MOST - 1 : -1])]
    middle = len(digits) // 2
    return _at_both_ends(
        counts, rows, _leading(digits[:middle]), _leading(digits[middle:]), step=float(per_day), signed=False
    )


def _digits(number: float) -> int:
    """Return the number of digits of a code, 0 of any other number."""
    written = _written(number)
    if number in _LIMITS or (len(written) > 1 and (_USUAL.fullmatch(written) or _BESIDE.fullmatch(written))):
        return len(written)
    return int(number in (7, 8, 9) or (-9 <= number < 0 and number.is_integer()))


def _written(number: float) -> str:
    return values.text(abs(number)).replace(".", "").lstrip("0")


def _digits_of_date(date: str) -> int:
    """Return 4 of a date that no event has, 3 of one that few events have, 0 of any other."""
    if date in _OTHER_DAYS:
        return 4
    return 0 if date[5:] not in _DAYS else 4 if int(date[:4]) in _NO_YEARS else 3 * (int(date[:4]) in _FEW_YEARS)


def _leading(digits: list[int]) -> list[int]:
    """Return the numbers before the first 0."""
    return digits[: digits.index(0)] if 0 in digits else digits


def _at_both_ends(
    numbers: NDArray[np.float64],
    rows: NDArray[np.integer],
    low: list[int],
    high: list[int],
    *,
    step: float,
    signed: bool,
) -> list[Sentinel]:
    """Return the codes at both ends, of which each has so many digits from the outermost one on."""
    first, last = len(low), numbers.size - len(high)
    if last - first < 2:
        return []
    below = _End(-numbers[:last][::-1], rows[:last][::-1], low[::-1], step, negative=signed).codes()
    above = _End(numbers[first:], rows[first:], high[::-1], step).codes()
    found = [*range(below), *range(numbers.size - above, numbers.size)]
    return [Sentinel(float(numbers[i]), int(rows[i])) for i in found]


@dataclass(frozen=True)
class _End:
    """The distinct values of a column, ordered so that the codes at one end come last, with the digits of these."""

    numbers: NDArray[np.float64]
    rows: NDArray[np.integer]
    digits: Sequence[int]
    step: float  # the least between two values of the type
    negative: bool = False  # the codes are numbers below zero, here with the other sign

    def codes(self) -> int:
        """Return how many values are codes."""
        most, n = len(self.digits), self.numbers.size
        found = next((k for k in range(most, 0, -1) if self._stand_alone(n - k, self.digits[-k])), 0)
        return most if self.negative and 0 < found >= most - 2 else found  # -1 is a code, too, beside -8 and -9

    def _stand_alone(self, first: int, digits: int) -> bool:
        """Whether the values from `first` on, of which the first has so many digits, stand apart from the others."""
        steps, gap = np.diff(self.numbers[:first]), self.numbers[first] - self.numbers[first - 1]
        span, widest, near = steps.sum(), steps.max(), steps[-_NEXT:].max()
        is_spike = self._is_spike(first)
        if self.negative and self.numbers[first - 1] <= 0:  # all other numbers are 0 and more
            return bool(gap > max(self.step, near * (not self.step)) or is_spike or span >= _WIDE * self.numbers[-1])
        if digits == 1 and not self.negative:
            return self._is_no_answer(first)
        if gap > max(span, 2.0):
            return True
        if not is_spike and not any(_USUAL.fullmatch(_written(number)) for number in self.numbers[first:].tolist()):
            return False
        if digits > 3:
            return bool(gap > widest or (is_spike and gap > self.step))
        is_far = gap > _APART * widest and gap >= _SHARE * span
        return bool(is_far or (is_spike and gap > max(near, self.step)))

    def _is_spike(self, first: int) -> bool:
        """Whether a code has many more rows than each of the ordinary values next to it, and no code has fewer."""
        near = self.rows[max(first - _NEXT, 0) : first].max()
        most = self.rows[first:].max()
        return first >= _NEXT and bool(most >= max(_FEWEST, _TIMES * near) and self.rows[first] >= near)

    def _is_no_answer(self, first: int) -> bool:
        """Whether 9, with 7 or 8 before it, is a code beside answers such as 1 to 5, of which the last is usual."""
        answers, last = self.numbers[:first], self.rows[first - 1]
        if self.numbers[-1] != 9 or self.step != 1 or answers[0] < 0 or np.diff(answers).max() > 1:
            return False
        is_often = last >= max(_FEWEST, _OFTEN * self.rows.sum()) or self.rows[-1] >= max(_FEWEST, _TIMES * last)
        return bool(is_often and self.numbers[first] - answers[-1] >= 2)
