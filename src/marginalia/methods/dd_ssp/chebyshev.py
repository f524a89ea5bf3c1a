"""The quadratic that stands in for the log-likelihood of logistic regression."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev as series
from numpy.typing import NDArray
from scipy.special import log_expit


@lru_cache(maxsize=64)
def log_sigmoid_coefficients(radius: float = 6.0) -> tuple[float, float, float]:
    """Return b0, b1, b2 of  ln(1/(1+e^-s)) ~ b0 + b1 s + b2 s^2  on [-radius, radius].

    Interpolation at the three Chebyshev nodes radius·cos(pi (k+1/2)/3) (Ferrando and Sheldon, section 3.2; Huggins,
    Adams and Broderick 2017). b0 = -ln 2 and b1 = 1/2 for every radius, since ln(1/(1+e^-s)) - s/2 is even.

    >>> [round(b, 4) for b in log_sigmoid_coefficients()]
    [-0.6931, 0.5, -0.0708]
    """
    b0, b1, b2 = series.cheb2poly(_series(radius)) / radius ** np.arange(3)
    return float(b0), float(b1), float(b2)


@lru_cache(maxsize=64)
def logistic_scale(radius: float = 6.0, *, code_scale: bool = False) -> float:
    """Return the factor -b1/(2 b2) between least squares on -1/+1 labels and the quadratic logistic optimum.

    With `code_scale` of the coefficients in the Chebyshev *basis* in place of the monomial ones, as the authors' code
    has it: a third of the right size, the same ranking.

    >>> round(logistic_scale() / logistic_scale(code_scale=True), 6)
    3.0
    """
    _, b1, b2 = _series(radius) if code_scale else log_sigmoid_coefficients(radius)
    return float(-b1 / (2 * b2))


def _series(radius: float) -> NDArray[np.float64]:
    """Return the coefficients of T_0, T_1, T_2 in s/radius."""
    nodes = series.chebpts1(3)
    return np.asarray(series.chebfit(nodes, log_expit(radius * nodes), 2), dtype=np.float64)
