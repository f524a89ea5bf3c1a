"""Root finding to full double precision (scipy.optimize is imported when first needed: it is slow to load)."""

from collections.abc import Callable


def root(function: Callable[[float], float], lower: float, upper: float) -> float:
    """Return the root of a continuous `function` that changes sign on [lower, upper].

    >>> round(root(lambda x: x * x - 2, 0.0, 2.0), 12)
    1.414213562373
    """
    from scipy.optimize import brentq

    return float(brentq(function, lower, upper, xtol=1e-300, rtol=9e-16))  # the smallest rtol that brentq takes
