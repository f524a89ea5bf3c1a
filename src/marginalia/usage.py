"""What a piece of work took: CPU seconds and peak memory, of this process and of those that it started for it."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Cost:
    """CPU seconds of this process and peak resident memory in MB (2**20 bytes), filled in when the work ends."""

    seconds: float = 0.0
    peak_mb: float = 0.0


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
