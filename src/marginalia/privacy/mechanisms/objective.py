"""Objective perturbation: the minimiser of a randomly tilted logistic objective."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.events import ObjectivePerturbationEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import Array, gaussian
from marginalia.privacy.mechanisms.transcript import Asked, released
from marginalia.privacy.randomness import Randomness


def objective_perturbation(
    minimise: Callable[[Array, float], Array],
    *,
    n_features: int,
    bound: float,
    sigma: float,
    regulariser: float,
    output_sensitivity: float,
    output_sigma: float,
    ledger: Ledger,
    randomness: Randomness,
    label: str = "",
) -> Array:
    """Release the minimiser of a randomly perturbed logistic objective (Kifer, Smith & Thakurta 2012).

    The objective is Σ ln(1 + exp(-y·<x, θ>)) + regulariser/2·‖θ‖² + <b, θ> over all θ, b ~ N(0, sigma² I). Its
    certificate is for the exact minimiser; Gaussian noise on the computed one, charged as a release of its own, hides
    how far the two are apart (`privacy.accountants.objective`).

    Parameters
    ----------
    minimise : callable
        ``minimise(b, regulariser)``: the minimiser, shape (n_features,), up to a gradient of 2-norm at most t.
    n_features : int
    bound : float
        Public bound on the norm of a feature row.
    sigma, regulariser : float
    output_sensitivity : float
        2t/regulariser: how far the computed minimisers of two tables can be apart where the exact ones agree.
    output_sigma : float
        Standard deviation of the noise on each coordinate of the minimiser.
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
    ...     output_sensitivity=1e-9, output_sigma=1e-6, ledger=Ledger("add_remove"), randomness=Randomness(0),
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

    theta = released(Asked("objective", label, bound, sigma, regulariser, shape), lambda: np.zeros(shape), draw)
    # Rounding to whole numbers of the unit is far inside the gap between a computed minimiser and the exact one.
    unit = math.ldexp(1.0, math.frexp(output_sensitivity)[1] - 20)
    return gaussian(
        np.rint(theta / unit).astype(np.int64),
        unit=unit,
        sensitivity=output_sensitivity,
        sigma=output_sigma,
        ledger=ledger,
        randomness=randomness,
        label="minimiser",
    )
