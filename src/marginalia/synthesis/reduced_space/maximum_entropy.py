"""The maximum-entropy fit: the least informative distribution that the noisy averages allow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from marginalia.synthesis.reduced_space.spaces import Space

Array = NDArray[np.float64]

MAX_ITERATIONS = 400
MEMORY = 20  # L-BFGS pairs


def maximum_entropy(space: Space, averages: Array, tolerance: float) -> Array:
    """Return the h nearest to the space's base measure (Kullback–Leibler) with |⟨f,h⟩ - s_f| <= tolerance.

    By the dual: h ∝ base·exp(Aᵀy), y minimising ln Σ base·e^(Aᵀy) - s'y + τ‖y‖₁; L-BFGS-B over the positive and the
    negative part of y.

    Parameters
    ----------
    space : Space
    averages : ndarray of shape (|F| - 1,)
    tolerance : float
        τ, above the optimum t* of the Chebyshev fit: below it the dual diverges.

    Returns
    -------
    ndarray of shape (space.size,)
        Positive, sum 1.
    """
    r = len(averages)

    def dual(parts: Array) -> tuple[float, Array]:
        y = parts[:r] - parts[r:]
        h, log_total = _tilted(space, y)
        residual = space.means(h) - averages
        value = log_total - float(averages @ y) + tolerance * float(parts.sum())
        return value, np.concatenate([residual + tolerance, tolerance - residual])

    solver: Any = minimize
    solved = solver(
        dual,
        np.zeros(2 * r),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (2 * r),
        options={
            "maxiter": MAX_ITERATIONS,
            "maxfun": 2 * MAX_ITERATIONS,
            "maxcor": MEMORY,
            "ftol": 1e-12,
            "gtol": 1e-7,
        },
    )
    return _tilted(space, solved.x[:r] - solved.x[r:])[0]


def _tilted(space: Space, y: Array) -> tuple[Array, float]:
    """Return base·exp(Aᵀy) normalised, and the logarithm of its total."""
    v = space.price(y)
    largest = float(v.max())
    h = space.base * np.exp(v - largest)
    total = float(h.sum())
    return h / total, largest + float(np.log(total))
