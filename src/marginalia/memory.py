"""What a piece of work will take, said before it begins: what does not fit in memory is refused."""

from __future__ import annotations

import math
import warnings

import psutil

from marginalia.errors import InputError

_SHARE = 0.8  # of the free memory that one piece of work may take
_LONG = 60.0  # seconds from which they are announced


def check_cost(what: str, n_bytes: float, seconds: float = 0.0, *, mend: str) -> None:
    """Refuse work that does not fit in the memory that is free; announce work that takes more than a minute.

    Called with public numbers only, before anything private is read.

    Parameters
    ----------
    what : str
        The work, for the message: a subject in the singular (``"SSPRegressor with 19999 features"``).
    n_bytes : float
        Memory that it takes at once; an integer may be of any size.
    seconds : float, default 0.0
        Processor time, within a factor of about three.
    mend : str
        What the user can do.

    Raises
    ------
    InputError
        It takes more than four fifths of the free memory.

    Examples
    --------
    >>> check_cost("a table of 10 rows", 80, mend="take fewer rows")
    >>> check_cost("a table of 1e15 rows", 8e15, mend="take fewer rows")
    Traceback (most recent call last):
    marginalia.errors.InputError: a table of 1e15 rows needs 7,629,394,532 MB of memory, ... are free; take fewer rows
    """
    free = free_bytes()
    if n_bytes > _SHARE * free:
        time = f" and {_duration(seconds)}" if seconds > _LONG else ""
        raise InputError(
            f"{what} needs {_megabytes(n_bytes)} MB of memory{time}, {_megabytes(free)} MB are free; {mend}"
        )
    if seconds > _LONG:
        warnings.warn(f"{what} takes {_duration(seconds)} and {_megabytes(n_bytes)} MB", UserWarning, stacklevel=2)


def free_bytes() -> float:
    """Return how much memory this process may still take: what the machine has free, or less under a limit of its own.

    >>> free_bytes() > 0
    True
    """
    free = float(psutil.virtual_memory().available)
    process = psutil.Process()
    if hasattr(process, "rlimit"):  # Linux
        limit, _ = process.rlimit(psutil.RLIMIT_AS)
        if limit != psutil.RLIM_INFINITY:
            free = min(free, max(0.0, float(limit - process.memory_info().vms)))
    return free


def short(number: float) -> str:
    """Return a whole number for people, however large.

    >>> short(19999), short(10**20)
    ('19,999', '1e+20')
    """
    return f"{number:,}" if number < 10**15 else f"{min(number, 10**300):.3g}"


def _megabytes(n_bytes: float) -> str:
    return short(math.ceil(n_bytes / 2**20 if n_bytes < 2**100 else min(n_bytes, 10**300)))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return "about a minute"
    return f"about {seconds / 60:.0f} minutes" if seconds < 7200 else f"about {seconds / 3600:,.0f} hours"
