"""Objective perturbation: the minimiser of a randomly tilted logistic objective."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import ObjectivePerturbationEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import Array
from marginalia.privacy.mechanisms.transcript import Asked, released
from marginalia.privacy.randomness import Randomness


def objective_perturbation(
    minimise: Callable[[Array, float], Array],
    *,
    n_features: int,
    bound: float,
    sigma: float,
    regulariser: float,
    ledger: Ledger,
    randomness: Randomness,
    label: str = "",
) -> Array:
    """Release the minimiser of a randomly perturbed logistic objective (Kifer, Smith & Thakurta 2012).

    The objective is Σ ln(1 + exp(-y·<x, θ>)) + regulariser/2·‖θ‖² + <b, θ> over all θ, b ~ N(0, sigma² I). The
    certificate is for the exact minimiser: `minimise` should reach a gradient norm that is negligible beside sigma.

    Parameters
    ----------
    minimise : callable
        ``minimise(b, regulariser)``: the minimiser, shape (n_features,).
    n_features : int
    bound : float
        Public bound on the norm of a feature row.
    sigma, regulariser : float
    ledger, randomness, label
        As in `additive.gaussian`.

    Returns
    -------
    ndarray of shape (n_features,)

    Raises
    ------
    InputError
        A parameter is out of range, or the minimiser is not finite or of the wrong shape.

    Examples
    --------
    Without any record the minimiser is -b/regulariser:

    >>> objective_perturbation(
    ...     lambda b, regulariser: -b / regulariser, n_features=2, bound=1, sigma=2, regulariser=10,
    ...     ledger=Ledger("add_remove"), randomness=Randomness(0),
    ... ).shape
    (2,)
    """
    shape = (checks.count("n_features", n_features),)
    ledger.append(ObjectivePerturbationEvent(bound, sigma, regulariser, label), randomness.kind)

    def draw() -> Array:
        b = sigma * randomness.generator.standard_normal(shape)
        theta = np.asarray(minimise(b, regulariser), dtype=np.float64)
        if theta.shape != shape or not np.isfinite(theta).all():
            raise InputError(f"the perturbed minimiser is not finite, or not of shape {shape}: check the data")
        return theta

    asked = Asked("objective", label, bound, sigma, regulariser, shape)
    return np.asarray(released(asked, lambda: np.zeros(shape), draw))
