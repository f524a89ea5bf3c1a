"""How long a download, and the trial of a user's Python file, may take."""

from __future__ import annotations

import math
import os
import threading

from marginalia.errors import InputError

VARIABLE = "MARGINALIA_WAIT_SECONDS"


def longest() -> float:
    """Return the seconds that a whole download may take: 600, or those of the environment.

    >>> longest() > 0
    True
    """
    text = os.environ.get(VARIABLE, "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise InputError(f"{VARIABLE} is '{text}'; give a number of seconds above 0")
    return seconds


def too_long(seconds: float) -> str:
    """Return the line for what took longer.

    >>> too_long(600.0)
    'no end within 600 seconds; MARGINALIA_WAIT_SECONDS allows more'
    """
    return f"no end within {seconds:g} seconds; {VARIABLE} allows more"
