"""Root finding to full double precision (scipy.optimize is imported when first needed: it is slow to load)."""

from collections.abc import Callable

_RELATIVE = 9e-16  # the smallest that brentq takes


def root(function: Callable[[float], float], lower: float, upper: float, *, relative: float = _RELATIVE) -> float:
    """Return the root of a continuous `function` that changes sign on [lower, upper]."""
    from scipy.optimize import brentq

    return float(brentq(function, lower, upper, xtol=1e-300, rtol=relative))
