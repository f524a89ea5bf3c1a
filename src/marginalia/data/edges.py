"""Bin edges as files write them: numbers, dates, bins of equal width, steps in each power of ten, single values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

import numpy as np

from marginalia.data import values
from marginalia.errors import InputError, unknown_name

EDGE_KEYS = ("private", "bins", "bounds", "from", "to", "steps")
MOST_BINS = 4096
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_TIME_OF_DAY = re.compile(r"(\d{1,2}:\d{2})(:\d{2})?", re.ASCII)
_DECADES = 6  # below the largest edge, between which and 0 there are no more steps


def edges_of(raw: Any, facts: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the edges of a column as numbers; of dates and timestamps in units since 1970-01-01.

    Parameters
    ----------
    raw : list, or mapping
        Of one of the forms of a domain file.
    facts : mapping
        `type`, `unit`, `zone` and `decimals` of the column.

    Raises
    ------
    InputError
        The edges are of no form, or not of the type.

    Examples
    --------
    >>> edges_of({"bins": 2, "bounds": [0, 9]}, {"type": "number"})
    (0.0, 4.5, 9.0)
    >>> edges_of({"from": 0, "to": 30, "steps": "1-3"}, {"type": "integer"})
    (0.0, 1.0, 3.0, 10.0, 30.0)
    >>> edges_of(["00:00", "08:30", "24:00"], {"type": "timestamp", "unit": "minute"})
    (0.0, 510.0, 1440.0)
    """
    if isinstance(raw, Mapping):
        if unknown := set(raw) - set(EDGE_KEYS):
            raise unknown_name("key of the edges", min(map(str, unknown)), EDGE_KEYS)
        return _steps(raw, facts) if "steps" in raw else _equal_bins(raw, facts)
    if not isinstance(raw, list | tuple):
        raise InputError(f"edges must be a list of numbers, such as [0, 18, 65], not {values.shown(raw)}")
    return tuple(_edge(value, facts) for value in raw)


def bins_of(raw: Any) -> int:
    """Return a number of bins.

    >>> bins_of(16)
    16
    """
    if isinstance(raw, bool) or not isinstance(raw, int) or not 2 <= raw <= MOST_BINS:
        raise InputError(f"bins must be a whole number from 2 to {MOST_BINS}, not {values.shown(raw)}")
    return raw


def bounds_of(raw: Any, facts: Mapping[str, Any]) -> tuple[float, float]:
    """Return public bounds of edges, the lower one first.

    >>> bounds_of(["1970-01-01", "1970-02-01"], {"type": "date"})
    (0.0, 31.0)
    """
    bounds = () if isinstance(raw, Mapping) else edges_of(raw, facts)
    if len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise InputError("bounds are two numbers (or dates), the lower first")
    if facts.get("type") == "integer" and not all(map(float.is_integer, bounds)):
        raise InputError("bounds of integers are whole numbers")
    return bounds


def point_edges(points: Iterable[float], of_type: str | None, decimals: int | None) -> tuple[float, ...]:
    """Return the edges of bins that hold one value each: one unit wide, or 0 alone among numbers without decimals.

    >>> point_edges([0, 9.99], "number", 2), point_edges([40], "integer", None)
    ((0.0, 0.01, 9.99, 10.0), (40.0, 41.0))
    """
    edges: list[float] = []
    for point in points:
        if of_type == "number" and decimals is None:
            if point != 0:
                raise InputError(f"the point {point:g} needs `decimals`: of other numbers only 0 has a bin of its own")
            edges += [0.0, math.nextafter(0.0, 1.0)]
            continue
        scale = 10.0 ** (decimals or 0)
        if values.rounded(point, decimals or 0) != point:
            raise InputError(f"the point {point:g} has more than {decimals or 0} decimals")
        edges += [float(point), (round(point * scale) + 1) / scale]
    return tuple(edges)


def points_of(raw: Any, facts: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the edges that the points of a column in a domain file add to its own.

    >>> points_of([40], {"type": "integer"})
    (40.0, 41.0)
    """
    if (of_type := facts.get("type")) not in ("integer", "number", "date", "timestamp"):
        raise InputError("'points' are for integers, numbers, dates and timestamps")
    if not isinstance(raw, list | tuple):
        raise InputError("'points' must be a list of values, such as [0, 9.99]")
    return point_edges(edges_of(raw, facts), of_type, facts.get("decimals"))


def _edge(value: Any, facts: Mapping[str, Any]) -> float:
    of_type, zone = facts.get("type"), facts.get("zone")
    if of_type == "timestamp":
        if facts.get("unit") not in get_args(values.Unit):
            raise InputError(f"a timestamp needs its 'unit': {', '.join(get_args(values.Unit))}")
        if isinstance(value, str) and (found := _TIME_OF_DAY.fullmatch(value)):
            value = "1970-01-02" if found[1] == "24:00" else f"1970-01-01 {value}"
        try:
            return float(values.whole_moment(value, facts["unit"], zone=zone))
        except ValueError as error:
            raise InputError(f"edge {values.shown(value)} {error}") from None
    try:
        if of_type == "date":
            return float(values.day(value, zone=zone))
        if isinstance(value, str) and _EXPONENT.fullmatch(value):  # YAML 1.1 takes 1e-7 for a text
            value = float(value)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise ValueError
        return float(value)
    except (ValueError, OverflowError):
        raise InputError(f"edges are numbers (or dates, with type: date), not {values.shown(value)}") from None


def _equal_bins(raw: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the edges of bins of equal width between public bounds."""
    if set(raw) != {"bins", "bounds"}:
        raise InputError("equal bins need their number and bounds, such as {bins: 4, bounds: [0, 8]}")
    first, last = bounds_of(raw["bounds"], facts)
    edges = np.linspace(first, last, bins_of(raw["bins"]) + 1)
    whole = facts.get("type") in ("date", "timestamp")  # as they are written
    return tuple((np.ceil(edges) if whole else edges).tolist())


def _steps(raw: Mapping[str, Any], facts: Mapping[str, Any]) -> tuple[float, ...]:
    """Return edges that follow the same steps in each power of ten, such as 1, 2, 5, 10, 20, 50 on both sides of 0."""
    of_type, decimals = facts.get("type"), facts.get("decimals")
    if set(raw) != {"from", "to", "steps"} or of_type not in ("integer", "number"):
        raise InputError("steps of numbers need both ends, such as {from: 0, to: 1000, steps: 1-2-5}")
    first, last = bounds_of([raw["from"], raw["to"]], facts)
    if not re.fullmatch(r"1(-[2-9])*", steps := str(raw["steps"])) or (digits := steps.split("-")) != sorted(
        set(digits)
    ):
        raise InputError(f"steps are digits that ascend from 1, such as 1-2-5, not {values.shown(steps)}")
    largest = max(-first, last)
    unit = 1.0 if of_type == "integer" else 10.0 ** -(decimals or 0) if decimals is not None else 0.0
    least = first if first > 0 else -last if last < 0 else max(unit, largest / 10.0**_DECADES)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(largest)) + 1)
    sizes = [float(f"{digit}e{power}") for power in powers for digit in digits]
    inner = {0.0, *(sign * size for size in sizes if size >= least for sign in (1, -1))}
    return (first, *sorted(edge for edge in inner if first < edge < last), last)
