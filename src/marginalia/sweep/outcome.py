"""How a fit ended, what it said, and what it cost."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

LONGEST_MESSAGE = 1000  # characters of what an error says that are kept


@dataclass(slots=True)
class Cost:
    """CPU seconds of this process and peak resident memory in MB (2**20 bytes), filled in when the work ends."""

    seconds: float = 0.0
    peak_mb: float = 0.0


@dataclass
class Outcome:
    """How a fit ended.

    Attributes
    ----------
    status, message : str
        As in `ResultRecord`.
    cost : Cost
    values : dict of metric to float
        Empty unless the status is ``ok``.
    spent : float
        Epsilon by the ledger; NaN unless the status is ``ok``.
    """

    status: str = "ok"
    message: str = ""
    cost: Cost = field(default_factory=Cost)
    values: dict[str, float] = field(default_factory=dict)
    spent: float = math.nan


_elsewhere: list[Cost] = []


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
    _elsewhere.clear()
    _reset_peak()
    start = time.process_time()
    try:
        yield cost
    finally:
        cost.seconds = time.process_time() - start + sum(other.seconds for other in _elsewhere)
        cost.peak_mb = max(_peak_mb(), *(other.peak_mb for other in _elsewhere), 0.0)


@contextmanager
def uncounted() -> Iterator[None]:
    """Leave the CPU seconds of the body, a measurement and no part of the fit, out of the `measured` cost."""
    start = time.process_time()
    try:
        yield
    finally:
        spent_elsewhere(start - time.process_time(), 0.0)


def said(error: BaseException, before: str) -> str:
    """Return the first line of what an error says, which may be anything, as text that a file can hold."""
    try:
        text = str(error)
    except BaseException as another:  # its own code runs here
        text = f"(its text raises {type(another).__name__})"
    line = next(iter(f"{before}{text}"[: 2 * LONGEST_MESSAGE].splitlines()), "")
    return line[:LONGEST_MESSAGE].encode("utf-8", "backslashreplace").decode()


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
