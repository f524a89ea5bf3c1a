"""What a piece of work took: CPU seconds and peak memory, of this process and of those that it started for it.

The fits of a job are processes of their own that compute some values again: noise scales and costs, which depend on
public numbers only. `shared` functions hand these values on, with the CPU seconds that they took: each fit reports
what it would have taken alone.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Cost:
    """CPU seconds of this process and peak resident memory in MB (2**20 bytes), filled in when the work ends."""

    seconds: float = 0.0
    peak_mb: float = 0.0


Values: TypeAlias = Mapping[Hashable, tuple[Any, float]]  # what `shared` functions returned, and its CPU seconds

MOST_VALUES = 4096  # of all shared functions together; all are forgotten beyond that

_elsewhere: list[Cost] = []
_values: dict[Hashable, tuple[Any, float]] = {}
_in_cost: set[Hashable] = set()  # values whose CPU seconds are in the `measured` cost at hand
_new: dict[Hashable, tuple[Any, float]] = {}  # values that the body of `measured` computed


def shared(function: Callable[P, T]) -> Callable[P, T]:
    """Remember a function of hashable public values, for this process and for later fits of its job.

    A value that another fit has computed adds its CPU seconds to the `measured` cost.

    Examples
    --------
    >>> @shared
    ... def square(x: int) -> int:
    ...     print("computed")
    ...     return x * x
    >>> square(3), square(3)
    computed
    (9, 9)
    """

    @wraps(function)
    def value_of(*args: P.args, **kwargs: P.kwargs) -> T:
        key = (function.__module__, function.__qualname__, args, tuple(sorted(kwargs.items())))
        known = _values.get(key)
        if known is None:
            before = time.process_time() + _seconds_elsewhere()
            value = function(*args, **kwargs)
            known = value, time.process_time() + _seconds_elsewhere() - before
            keep_values({key: known})
            _new[key] = known
        elif key not in _in_cost:
            spent_elsewhere(known[1], 0.0)
        _in_cost.add(key)
        found: T = known[0]
        return found

    return value_of


def new_values() -> Values:
    """Return what `shared` functions computed in the last body of `measured`."""
    return dict(_new)


def keep_values(values: Values) -> None:
    """Remember the `new_values` of another process."""
    if len(_values) + len(values) > MOST_VALUES:
        for seen in (_values, _in_cost, _new):
            seen.clear()
    _values.update(values)


def _seconds_elsewhere() -> float:
    return sum(other.seconds for other in _elsewhere)


def spent_elsewhere(seconds: float, peak_mb: float) -> None:
    """Add what a process that was started for the work at hand took to the `measured` cost."""
    _elsewhere.append(Cost(seconds, peak_mb))


@contextmanager
def measured() -> Iterator[Cost]:
    """Yield a `Cost` that holds what the body took.

    Memory is the peak during the body where Linux lets a process reset its own high-water mark, else
    the peak of the process so far.
    """
    cost = Cost()
    for seen in (_elsewhere, _in_cost, _new):
        seen.clear()
    _reset_peak()
    start = time.process_time()
    try:
        yield cost
    finally:
        cost.seconds = time.process_time() - start + _seconds_elsewhere()
        cost.peak_mb = max(_peak_mb(), *(other.peak_mb for other in _elsewhere), 0.0)


@contextmanager
def uncounted() -> Iterator[None]:
    """Leave the CPU seconds of the body, a measurement and no part of the fit, out of the `measured` cost."""
    start = time.process_time()
    try:
        yield
    finally:
        spent_elsewhere(start - time.process_time(), 0.0)


def _reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass  # not Linux, or not allowed: the peak of the process so far stands in


def _peak_mb() -> float:
    try:  # psutil knows the present memory only, and rusage the peak since the process began
        with open("/proc/self/status") as file:
            line = next(row for row in file if row.startswith("VmHWM:"))
        return float(line.split()[1]) / 1024
    except (OSError, StopIteration):
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
