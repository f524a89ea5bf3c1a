"""Runs of many Gaussian releases (noisy gradient descent), on all rows or on Poisson samples of them.

A run is charged as a whole before its first step, and no step beyond it is possible.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.errors import PrivacyError
from marginalia.privacy import checks
from marginalia.privacy.events import CompositionEvent, GaussianEvent, PoissonGaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import Array, with_gaussian_noise
from marginalia.privacy.subsampling import poisson_sample


def gaussian_run(
    value: Callable[[Array], ArrayLike],
    *,
    sensitivity: float,
    sigma: float,
    steps: int,
    ledger: Ledger,
    rng: np.random.Generator,
    label: str = "",
) -> Callable[[Array], Array]:
    """Open a run of `steps` Gaussian releases on all rows, charged now as one event.

    Parameters
    ----------
    value : callable
        ``value(theta)``: an array of L2 sensitivity at most `sensitivity`, whatever `theta`.
    sensitivity, sigma, ledger, rng, label
        As in `additive.gaussian`, for each release; a step draws one normal per entry.
    steps : int

    Returns
    -------
    callable
        ``step(theta)``: ``value(theta)`` + N(0, sigma² I); `PrivacyError` when called more than `steps` times.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> step = gaussian_run(lambda w: -w, sensitivity=1, sigma=0.1, steps=20, ledger=Ledger("add_remove"), rng=rng)
    >>> step(np.ones(2)).round(2)
    array([-0.99, -1.01])
    """
    ledger.append(CompositionEvent((GaussianEvent(sensitivity, sigma, label),), checks.count("steps", steps), label))
    return _run(value, sigma, steps, rng, label)


def poisson_gaussian(
    clipped_sum: Callable[[Array, NDArray[np.intp]], Array],
    *,
    n_rows: int,
    rate: float,
    clip: float,
    noise_multiplier: float,
    steps: int,
    ledger: Ledger,
    rng: np.random.Generator,
    label: str = "",
) -> Callable[[Array], Array]:
    """Open a run of `steps` Gaussian releases on Poisson samples (DP-SGD), charged now as one event.

    Parameters
    ----------
    clipped_sum : callable
        ``clipped_sum(theta, rows)``: sum over the records `rows` (indices) of vectors of L2 norm at most `clip`.
    n_rows : int
        Number of records.
    rate : float
        Probability that a record is in a batch; it must not be computed from a private number of records.
    clip : float
    noise_multiplier : float
        The noise has standard deviation ``noise_multiplier * clip``, under either relation.
    steps : int
    ledger, rng, label
        As in `additive.gaussian`; a step draws a `poisson_sample`, then one normal per coordinate.

    Returns
    -------
    callable
        ``step(theta)``: the noisy sum on a fresh sample; `PrivacyError` when called more than `steps` times.

    Examples
    --------
    >>> step = poisson_gaussian(
    ...     lambda theta, rows: np.ones((100, 2))[rows].sum(axis=0), n_rows=100, rate=0.1, clip=2.0,
    ...     noise_multiplier=1.0, steps=50, ledger=Ledger("add_remove"), rng=np.random.default_rng(0),
    ... )
    >>> step(np.zeros(2)).round(1)
    array([12.9,  9.6])
    """
    sigma = checks.positive("clip", clip) * checks.positive("noise_multiplier", noise_multiplier)
    ledger.append(PoissonGaussianEvent(rate, noise_multiplier, steps, label))

    def sampled_sum(theta: Array) -> Array:
        return clipped_sum(theta, poisson_sample(n_rows, rate, rng))

    return _run(sampled_sum, sigma, steps, rng, label)


def _run(
    value: Callable[[Array], ArrayLike], sigma: float, steps: int, rng: np.random.Generator, label: str
) -> Callable[[Array], Array]:
    """Steps of a run that has been charged: value(theta) + N(0, sigma² I), `steps` times and no more."""
    left = steps

    def step(theta: Array) -> Array:
        nonlocal left
        if left == 0:
            raise PrivacyError(f"the run '{label}' was charged for {steps} steps; another one is not covered")
        left -= 1
        return with_gaussian_noise(lambda: value(theta), sigma, rng, label)

    return step
