"""The only doors to private rows: every mechanism records its event, then draws its noise from `rng`.

Noise is drawn in floating point; the certificates are those of the ideal mechanisms (Mironov 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.data.table import Table
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import checks
from marginalia.privacy.events import (
    CompositionEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.subsampling import poisson_sample

Array = NDArray[np.float64]


def gaussian(
    value: ArrayLike | Callable[[], ArrayLike],
    *,
    sensitivity: float,
    sigma: float,
    ledger: Ledger,
    rng: np.random.Generator,
    label: str = "",
) -> Array:
    """Release `value` + N(0, sigma² I).

    Parameters
    ----------
    value : array-like of any shape, or callable returning one
        A callable is evaluated here, so that private rows are read inside the mechanism.
    sensitivity : float
        L2 sensitivity of `value` under the ledger's relation.
    sigma : float
        Standard deviation of the noise of each entry.
    ledger : Ledger
    rng : numpy.random.Generator
    label : str, default=""
        Shown in the ledger.

    Returns
    -------
    ndarray of float64, shape of `value`

    Raises
    ------
    InputError
        A parameter is out of range, or `value` is not finite.
    """
    ledger.append(GaussianEvent(sensitivity, sigma, label))
    exact = _evaluated(value, label)
    return exact + sigma * rng.standard_normal(exact.shape)


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
    """Open a run of `steps` Gaussian releases on all rows (noisy gradient descent), charged now as one event.

    Parameters
    ----------
    value : callable
        ``value(theta)``: an array of L2 sensitivity at most `sensitivity`, whatever `theta`.
    sensitivity, sigma : float
        Of each release, as in `gaussian`.
    steps : int
    ledger : Ledger
    rng : numpy.random.Generator
        Each step draws one normal per entry.
    label : str, default=""

    Returns
    -------
    callable
        ``step(theta)``: ``value(theta)`` + N(0, sigma² I).

    Raises
    ------
    InputError
        A parameter is out of range, or a value is not finite.
    PrivacyError
        From `step`, when it is called more than `steps` times.
    """
    ledger.append(CompositionEvent((GaussianEvent(sensitivity, sigma, label),), checks.count("steps", steps), label))
    return _run(value, sigma, steps, rng, label)


def laplace(
    value: ArrayLike | Callable[[], ArrayLike],
    *,
    sensitivity: float,
    scale: float,
    ledger: Ledger,
    rng: np.random.Generator,
    label: str = "",
) -> Array:
    """Release `value` + independent Laplace(`scale`) noise; `sensitivity` is the L1 one, the rest as in `gaussian`.

    Raises
    ------
    InputError
        A parameter is out of range, or `value` is not finite.
    """
    ledger.append(LaplaceEvent(sensitivity, scale, label))
    exact = _evaluated(value, label)
    return exact + rng.laplace(0.0, scale, exact.shape)


def measure_marginal(
    table: Table, attributes: Sequence[str], *, sigma: float, ledger: Ledger, rng: np.random.Generator
) -> Array:
    """Release one marginal's counts with Gaussian noise.

    Parameters
    ----------
    table : Table
    attributes : sequence of str
    sigma : float
        Standard deviation of the noise of each count.
    ledger : Ledger
        Its relation sets the sensitivity: 1 (add/remove) or √2 (replace-one).
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of float64
        Shape: the sizes of `attributes`, in the order given.

    Raises
    ------
    InputError
        Unknown attribute, or `sigma` is out of range.
    """
    return gaussian(
        lambda: table.counts(attributes),
        sensitivity=ledger.relation.marginal_l2,
        sigma=sigma,
        ledger=ledger,
        rng=rng,
        label=",".join(attributes),
    )


def exponential(
    scores: ArrayLike,
    *,
    epsilon: float,
    sensitivity: float,
    ledger: Ledger,
    rng: np.random.Generator,
    label: str = "",
) -> int:
    """Draw an index with P ∝ exp(epsilon·score/(2·sensitivity)), as the largest score plus Gumbel noise.

    Parameters
    ----------
    scores : array-like of shape (n_candidates,)
    epsilon : float
    sensitivity : float
        How much one record can change any score under the ledger's relation.
    ledger : Ledger
    rng : numpy.random.Generator
        One Gumbel draw per candidate, in order.
    label : str, default=""

    Returns
    -------
    int
        Index into `scores`.

    Raises
    ------
    InputError
        A parameter is out of range, there is no candidate, or a score is not finite.
    """
    exact = np.asarray(scores, dtype=np.float64)
    return lazy_exponential(
        exact, lambda i: float(exact[i]), epsilon=epsilon, sensitivity=sensitivity, ledger=ledger, rng=rng, label=label
    )


def lazy_exponential(
    bounds: ArrayLike,
    score: Callable[[int], float],
    *,
    epsilon: float,
    sensitivity: float,
    ledger: Ledger,
    rng: np.random.Generator,
    label: str = "",
) -> int:
    """Draw the index that `exponential` would draw with the same `rng`, evaluating only scores that could win.

    All Gumbel noise is drawn first; candidates are then tried in order of decreasing bound plus noise until no bound
    left reaches the best score plus noise found. The law, hence the privacy, is that of `exponential`; the number of
    scores evaluated depends on private rows and must not be released (nor the run time).

    Parameters
    ----------
    bounds : array-like of shape (n_candidates,)
        ``bounds[i] >= score(i)``, up to a rounding error of 1e-9 (relative to the larger of the bound and 1);
        infinity where nothing is known.
    score : callable
        Score of candidate i.
    epsilon, sensitivity, ledger, rng, label
        As in `exponential`.

    Returns
    -------
    int
        Index into `bounds`.

    Raises
    ------
    InputError
        A parameter is out of range, there is no candidate, a score is not finite, or exceeds its bound.
    """
    bounds = np.asarray(bounds, dtype=np.float64)
    if bounds.ndim != 1 or bounds.size == 0:
        raise InputError(f"the exponential mechanism got scores of shape {bounds.shape}: need one number a candidate")
    usable = bounds > -np.inf  # False for NaN too
    if not usable.all():
        worst = int(np.argmin(usable))
        raise InputError(f"candidate {worst} of the exponential mechanism has score or bound {bounds[worst]}")
    ledger.append(ExponentialEvent(epsilon, label))
    factor = epsilon / (2 * checks.positive("sensitivity", sensitivity))
    gumbel = rng.gumbel(size=bounds.size)
    allowed = bounds + 1e-9 * np.maximum(np.abs(bounds), 1.0)
    reach = factor * allowed + gumbel
    best, best_value = -1, -np.inf
    for i in np.argsort(-reach, kind="stable").tolist():
        if reach[i] < best_value:
            break
        s = score(i)
        if not (math.isfinite(s) and s <= allowed[i]):
            raise InputError(f"score {s} of candidate {i} is not finite or above its bound {bounds[i]}")
        value = factor * s + gumbel[i]
        if value > best_value or (value == best_value and i < best):
            best, best_value = i, value
    return best


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
    """Open a run of `steps` Gaussian releases on Poisson samples (DP-SGD); the whole run is charged now, as one event.

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
    ledger : Ledger
    rng : numpy.random.Generator
        Each step draws a `poisson_sample`, then one normal per coordinate.
    label : str, default=""

    Returns
    -------
    callable
        ``step(theta)``: the noisy sum on a fresh sample.

    Raises
    ------
    InputError
        A parameter is out of range.
    PrivacyError
        From `step`, when it is called more than `steps` times.
    """
    sigma = checks.positive("clip", clip) * checks.positive("noise_multiplier", noise_multiplier)
    ledger.append(PoissonGaussianEvent(rate, noise_multiplier, steps, label))

    def sampled_sum(theta: Array) -> Array:
        return clipped_sum(theta, poisson_sample(n_rows, rate, rng))

    return _run(sampled_sum, sigma, steps, rng, label)


def objective_perturbation(
    minimise: Callable[[Array, float], Array],
    *,
    n_features: int,
    bound: float,
    sigma: float,
    regulariser: float,
    ledger: Ledger,
    rng: np.random.Generator,
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
    ledger : Ledger
    rng : numpy.random.Generator
    label : str, default=""

    Returns
    -------
    ndarray of shape (n_features,)

    Raises
    ------
    InputError
        A parameter is out of range, or the minimiser is not finite or of the wrong shape.
    """
    ledger.append(ObjectivePerturbationEvent(bound, sigma, regulariser, label))
    b = sigma * rng.standard_normal(checks.count("n_features", n_features))
    theta = _evaluated(lambda: minimise(b, regulariser), label)
    if theta.shape != b.shape:
        raise InputError(f"the perturbed minimiser has shape {theta.shape}: need {b.shape}")
    return theta


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
        exact = _evaluated(lambda: value(theta), label)
        return exact + sigma * rng.standard_normal(exact.shape)

    return step


def _evaluated(value: ArrayLike | Callable[[], ArrayLike], label: str) -> Array:
    exact = np.asarray(value() if callable(value) else value, dtype=np.float64)
    if not np.isfinite(exact).all():
        raise InputError(f"the value to release{f' for {label}' if label else ''} is not finite: check the data")
    return exact
