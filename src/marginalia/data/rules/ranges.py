"""Smallest and largest number of each code of a column, and the grid that the numbers of the column lie on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.column import Column
from marginalia.data.rules.expressions import DAYS

Floats = NDArray[np.float64]

_LARGEST = float(np.finfo(np.float64).max)


def seconds_of(column: Column) -> int:
    """Return the seconds of one step of a date or a time; 1 for numbers, which are compared as they are.

    >>> seconds_of(Column("day", 1, edges=(0, 9), type="date"))
    86400
    """
    return 1 if column.counted_in is None else values.SECONDS[column.counted_in]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Smallest and largest number of each code, and the numbers that the column can hold.

    Numbers are in the unit of comparisons: seconds for dates and times. Codes without a number have NaN.

    Parameters
    ----------
    low, high : ndarray of shape (size,)
        The first and the last number in the bin, or the label.
    widest_low, widest_high : ndarray of shape (size,)
        The same; an open outer bin ends only where its type ends.
    seconds, parts : int
        Numbers are whole multiples of ``seconds / parts``; `parts` 0: any double.
    missing : frozenset of float
        Numbers that stand for missing or special values, in the unit of the column.

    Examples
    --------
    >>> age = Ranges.of(Column("age", 3, edges=(0, 15, 90), type="integer", missing=("0",), top=True))
    >>> age.low, age.high, age.widest_high[1] == 2.0**53
    (array([ 1., 15., nan]), array([14., 89., nan]), np.True_)
    """

    low: Floats
    high: Floats
    widest_low: Floats
    widest_high: Floats
    seconds: int
    parts: int
    missing: frozenset[float]

    @classmethod
    def of(cls, column: Column) -> Ranges:
        """Return the ranges of a column of numbers, dates or codes."""
        return _ranges(column)

    def at_least(self, numbers: Floats, *, strict: bool = False) -> Floats:
        """Return the smallest number of the column from each number on (above it, if `strict`); NaN stays NaN."""
        return self._nearest(numbers, strict, 1)

    def at_most(self, numbers: Floats, *, strict: bool = False) -> Floats:
        """Return the largest number of the column up to each number (below it, if `strict`); NaN stays NaN."""
        return self._nearest(numbers, strict, -1)

    def _nearest(self, numbers: Floats, strict: bool, way: int) -> Floats:
        limit = np.nextafter(numbers, way * np.inf) if strict else np.array(numbers, dtype=np.float64)
        found = limit
        if self.parts:
            with np.errstate(invalid="ignore", over="ignore"):
                steps = np.rint(limit * self.parts / self.seconds)
                steps += np.where(way * (self._number(steps) - limit) < 0, way, 0)
                found = np.where(np.abs(limit) < 1e300, self._number(steps), limit)
        taken = np.isin(found / self.seconds, list(self.missing))
        if taken.any():
            found[taken] = self._nearest(found[taken], True, way)
        return found

    def _number(self, steps: Floats) -> Floats:
        return steps * self.seconds / self.parts


@lru_cache(maxsize=512)
def _ranges(column: Column) -> Ranges:
    seconds, n, decimals = seconds_of(column), column.n_values, column.decimals
    missing = frozenset() if column.holds_codes else column.mark_values
    parts = 1 if column.type != "number" else 10**decimals if decimals is not None else 0
    low, high = np.full((2, column.size), np.nan)
    if column.holds_codes:
        low[:n] = high[:n] = np.arange(n)
    elif column.edges is not None:
        edges = np.array(column.edges, dtype=np.float64) * seconds
        grid = Ranges(low, high, low, high, seconds, parts, missing)
        low[:n], high[:n] = grid.at_least(edges[:-1]), grid.at_most(edges[1:], strict=True)
    else:
        low[:n] = high[:n] = np.array(column.label_values, dtype=np.float64) * seconds
    widest_low, widest_high = low.copy(), high.copy()
    if column.type in ("date", "timestamp"):
        least, most = DAYS[0] * 86400.0, (DAYS[1] + 1) * 86400.0 - seconds
    else:
        most = 2.0**53 if column.type == "integer" else 2.0**53 / parts if parts else _LARGEST
        least = -most
    if column.bottom:
        widest_low[0] = min(least, low[0])
    if column.top:
        widest_high[n - 1] = max(most, high[n - 1])
    for ends in (low, high, widest_low, widest_high):
        ends.flags.writeable = False
    return Ranges(low, high, widest_low, widest_high, seconds, parts, missing)
