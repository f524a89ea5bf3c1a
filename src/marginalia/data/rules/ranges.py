"""The numbers behind the codes of one attribute: from which to which, and on which grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marginalia.data.attribute import Attribute
from marginalia.data.rules.expressions import DAYS

Floats = NDArray[np.float64]

SECONDS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}
_LARGEST = float(np.finfo(np.float64).max)


def n_ranges(attribute: Attribute) -> int:
    """Return how many codes stand for a number or a day; the others stand for none.

    >>> n_ranges(Attribute("age", 3, edges=(0, 15, 90), type="integer", missing=()))
    2
    """
    if attribute.holds_codes:
        return attribute.n_values
    return len(attribute.label_values) if attribute.edges is None else len(attribute.edges) - 1


def unit_of(attribute: Attribute) -> int:
    """Return how many seconds one step of a date or a time is; 1 for numbers, which are compared as they are.

    >>> unit_of(Attribute("day", 1, edges=(0, 9), type="date"))
    86400
    """
    if attribute.type == "date":
        return SECONDS["day"]
    return SECONDS[attribute.unit or "second"] if attribute.type == "timestamp" else 1


@dataclass(frozen=True, eq=False)
class Ranges:
    """The smallest and the largest number of each code, and the numbers that the attribute can hold at all.

    Numbers are as in comparisons: those of dates and times in seconds. Codes without a number have NaN.

    Parameters
    ----------
    low, high : ndarray of shape (size,)
        The first and the last number in the bin, or the label.
    widest_low, widest_high : ndarray of shape (size,)
        The same; an open outer bin has no end but that of its type.
    multiple, parts : int
        Numbers are whole multiples of ``multiple / parts``; `parts` 0: any double.
    marks : frozenset of float
        Numbers that stand for missing values, in the unit of the attribute.

    Examples
    --------
    >>> age = Ranges.of(Attribute("age", 3, edges=(0, 15, 90), type="integer", missing=("0",), top=True))
    >>> age.low, age.high, age.widest_high[1] == 2.0**53
    (array([ 1., 15., nan]), array([14., 89., nan]), np.True_)
    """

    low: Floats
    high: Floats
    widest_low: Floats
    widest_high: Floats
    multiple: int
    parts: int
    marks: frozenset[float]

    @classmethod
    def of(cls, attribute: Attribute) -> Ranges:
        """Return the ranges of an attribute of numbers, dates or codes."""
        return _ranges(attribute)

    def at_least(self, numbers: Floats, *, strict: bool = False) -> Floats:
        """Return the smallest number of the attribute's grid from here on (or above, `strict`); NaN stays."""
        return self._near(numbers, np.nextafter(numbers, np.inf) if strict else numbers, up=True)

    def at_most(self, numbers: Floats, *, strict: bool = False) -> Floats:
        """Return the largest number of the attribute's grid up to here (or below, `strict`); NaN stays."""
        return self._near(numbers, np.nextafter(numbers, -np.inf) if strict else numbers, up=False)

    def _near(self, numbers: Floats, limit: Floats, *, up: bool) -> Floats:
        found = limit.astype(np.float64)
        finite = np.isfinite(found) & (np.abs(found) < 1e300)
        step = np.inf if up else -np.inf
        if self.parts:
            steps = np.rint(np.where(finite, found, 0.0) * self.parts / self.multiple)
            steps += np.where(self._at(steps) < found, 1, 0) if up else np.where(self._at(steps) > found, -1, 0)
            found = np.where(finite, self._at(steps), found)
        scale = float(self.multiple)
        while self.marks and (hit := np.isin(found / scale, list(self.marks))).any():
            if self.parts:
                again = np.rint(found * self.parts / self.multiple) + (1 if up else -1)
                found = np.where(hit, self._at(again), found)
            else:
                found = np.where(hit, np.nextafter(found, step), found)
        return found

    def _at(self, steps: Floats) -> Floats:
        return steps * self.multiple / self.parts

    def between(self, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
        """Draw numbers from `low` to `high`, which are of the grid."""
        if self.parts:
            first, last = (np.rint(end * self.parts / self.multiple).astype(np.int64) for end in (low, high))
            drawn = self._at(rng.integers(first, last, endpoint=True).astype(np.float64))
        else:
            drawn = low + rng.random(low.shape) * (high - low)
            with np.errstate(divide="ignore"):
                digits = 2 - np.floor(np.log10(high - low))
            for d in np.unique(digits[np.isfinite(digits) & (abs(digits) < 23)]):
                round_ = np.round(drawn, int(d))
                drawn = np.where((digits == d) & (round_ >= low) & (round_ <= high), round_, drawn)
        up = self.at_least(drawn)
        return np.clip(np.where(up <= high, up, self.at_most(drawn)), low, high)


@lru_cache(maxsize=512)
def _ranges(attribute: Attribute) -> Ranges:
    scale = unit_of(attribute)
    marks = frozenset() if attribute.holds_codes else attribute.mark_values
    decimals = attribute.decimals
    parts = 1 if attribute.type != "number" else 10**decimals if decimals is not None else 0
    n = n_ranges(attribute)
    nothing = np.full(attribute.size, np.nan)
    grid = Ranges(nothing, nothing, nothing, nothing, scale, parts, marks)
    low, high = nothing.copy(), nothing.copy()
    if attribute.holds_codes:
        low[:n] = high[:n] = np.arange(n)
    elif attribute.edges is not None:
        edges = np.array(attribute.edges, dtype=np.float64) * scale
        low[:n], high[:n] = grid.at_least(edges[:-1]), grid.at_most(edges[1:], strict=True)
    else:
        low[:n] = high[:n] = np.array(attribute.label_values, dtype=np.float64) * scale
    widest_low, widest_high = low.copy(), high.copy()
    if attribute.type in ("date", "timestamp"):
        least, most = DAYS[0] * 86400.0, (DAYS[1] + 1) * 86400.0 - scale
    else:
        most = 2.0**53 if attribute.type == "integer" else 2.0**53 / parts if parts else _LARGEST
        least = -most
    if attribute.bottom:
        widest_low[0] = min(least, low[0])
    if attribute.top:
        widest_high[n - 1] = max(most, high[n - 1])
    for ends in (low, high, widest_low, widest_high):
        ends.flags.writeable = False
    return Ranges(low, high, widest_low, widest_high, scale, parts, marks)
