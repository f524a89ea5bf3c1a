"""The maximum-entropy fit: the least informative distribution that the noisy averages allow."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from marginalia.methods.reduced_space.families import Array
from marginalia.methods.reduced_space.spaces import Space

# At most 400 iterations, two evaluations each, 20 L-BFGS pairs.
OPTIONS = {"maxiter": 400, "maxfun": 800, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-7}


def maximum_entropy(space: Space, averages: Array, tolerance: float) -> Array:
    """Return the h nearest to the space's base measure (Kullback–Leibler) with |⟨f,h⟩ - s_f| <= tolerance.

    By the dual: h ∝ base·exp(Aᵀy), y minimising ln Σ base·e^(Aᵀy) - s'y + τ‖y‖₁; L-BFGS-B over the positive and the
    negative part of y. `tolerance` τ must exceed the optimum t* of the Chebyshev fit: below it the dual diverges.

    >>> from marginalia.methods.reduced_space.families import Family
    >>> from marginalia.methods.reduced_space.spaces import Cube
    >>> maximum_entropy(Cube(Family("parities", (2, 2), 1)), np.array([0.5, 0.0]), 0.1).round(2)
    array([0.35, 0.35, 0.15, 0.15])
    """
    r = len(averages)

    def dual(parts: Array) -> tuple[float, Array]:
        y = parts[:r] - parts[r:]
        h, log_total = _tilted(space, y)
        residual = space.means(h) - averages
        value = log_total - float(averages @ y) + tolerance * float(parts.sum())
        return value, np.concatenate([residual + tolerance, tolerance - residual])

    solver: Any = minimize
    bounds = [(0, None)] * (2 * r)
    solved = solver(dual, np.zeros(2 * r), jac=True, method="L-BFGS-B", bounds=bounds, options=OPTIONS)
    return _tilted(space, solved.x[:r] - solved.x[r:])[0]


def _tilted(space: Space, y: Array) -> tuple[Array, float]:
    """Return base·exp(Aᵀy) normalised, and the logarithm of its total."""
    v = space.price(y)
    largest = float(v.max())
    h = space.base * np.exp(v - largest)
    total = float(h.sum())
    return h / total, largest + float(np.log(total))
