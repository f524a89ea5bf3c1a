"""Runs of many Gaussian releases (noisy gradient descent), on all rows or on Poisson samples of them.

A run is charged as a whole before its first step, and no step beyond it is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import checks
from marginalia.privacy.events import CompositionEvent, GaussianEvent, PoissonGaussianEvent
from marginalia.privacy.mechanisms.additive import Array, with_gaussian_noise

if TYPE_CHECKING:
    from marginalia.privacy.session import Session

Integers = NDArray[np.int64]


def gaussian_run(
    session: Session,
    value: Callable[[Array], Integers],
    *,
    sensitivity: float,
    sigma: float,
    steps: int,
    quantum: float = 1.0,
    label: str = "",
) -> Callable[[Array], Array]:
    """Open a run of `steps` Gaussian releases on all rows, charged now as one event.

    Parameters
    ----------
    value : callable
        ``value(theta)``: integers in multiples of `quantum`, of L2 sensitivity at most `sensitivity`, whatever `theta`.
    sensitivity, sigma, quantum, label
        As in `additive.gaussian`, for each release.
    steps : int

    Returns
    -------
    callable
        ``step(theta)``: ``value(theta)``·quantum + N(0, sigma² I); `PrivacyError` when called more than `steps` times.

    Examples
    --------
    >>> from marginalia.privacy import Ledger, Session
    >>> from marginalia.privacy.randomness import Randomness
    >>> session = Session(Ledger("add_remove"), Randomness(0))
    >>> step = session.gaussian_run(lambda w: np.array([-1, 2]), sensitivity=1, sigma=0.1, steps=20)
    >>> step(np.ones(2)).round(0)
    array([-1.,  2.])
    """
    event = GaussianEvent(sensitivity, sigma, label, arithmetic="exact")
    session.charge(CompositionEvent((event,), checks.count("steps", steps), label))

    def step(theta: Array) -> Array:
        return with_gaussian_noise(
            lambda: value(theta), sensitivity, sigma, session.randomness, quantum=quantum, label=label
        )

    return _limited(step, steps, label)


def poisson_run(
    session: Session,
    clipped_sum: Callable[[Array, NDArray[np.intp]], Integers],
    *,
    n_units: int,
    rate: float,
    clip: float,
    noise_multiplier: ArrayLike,
    steps: int,
    quantum: float = 1.0,
    label: str = "",
) -> Callable[[Array], Array]:
    """Open a run of `steps` Gaussian releases on Poisson samples (DP-SGD), charged now as one event.

    Parameters
    ----------
    clipped_sum : callable
        ``clipped_sum(theta, chosen)``: sum over the protected units `chosen` (indices; each a record, or a person with
        all its records) of integers, in multiples of `quantum`, of shape (p, m): m columns, each of L2 norm at most
        `clip` for one protected unit.
    n_units : int
        Number of protected units.
    rate : float
        Probability that one is in a batch; it must not be computed from a private number of them.
    clip : float
    noise_multiplier : float (m = 1) or array-like of shape (m,)
        The noise of a column has standard deviation ``noise_multiplier * clip``, under either relation. k columns of
        the same noise cost as much as one with its noise divided by the root of k.
    steps : int
    quantum, label
        As in `additive.gaussian`; a step draws a coin for each protected unit, and noise for each coordinate.

    Returns
    -------
    callable
        ``step(theta)``: the noisy sum on a fresh sample; `PrivacyError` when called more than `steps` times.

    Examples
    --------
    >>> ones = np.ones((100, 2), dtype=np.int64)
    >>> from marginalia.privacy import Ledger, Session
    >>> from marginalia.privacy.randomness import Randomness
    >>> step = Session(Ledger("add_remove"), Randomness(0)).poisson_run(
    ...     lambda theta, rows: ones[rows].sum(axis=0)[:, None],
    ...     n_units=100, rate=0.1, clip=2.0, noise_multiplier=1.0, steps=50,
    ... )
    >>> step(np.zeros(2)).shape
    (2, 1)
    """
    clip = checks.positive("clip", clip)
    multipliers = np.atleast_1d(np.asarray(noise_multiplier, dtype=np.float64))
    smallest = checks.positive("noise_multiplier", multipliers.min())
    together = float(smallest / math.sqrt(math.fsum((smallest / multipliers) ** 2)))
    session.charge(PoissonGaussianEvent(rate, together, steps, label, arithmetic="exact"))
    same = {m: np.flatnonzero(multipliers == m) for m in dict.fromkeys(multipliers.tolist())}
    # All columns are looked at, not copied, where they are alike.
    alike = [(m, columns.size, columns if len(same) > 1 else slice(None)) for m, columns in same.items()]

    def step(theta: Array) -> Array:
        sums = clipped_sum(theta, session.randomness.secret.coins(n_units, rate))
        if sums.shape[1:] != multipliers.shape:
            raise InputError(f"the run '{label}' has noise for {multipliers.size} columns, sums of shape {sums.shape}")
        noisy = np.empty(sums.shape)
        for multiplier, size, columns in alike:
            moved = session.ledger.relation.units * clip * math.sqrt(size)
            noisy[:, columns] = with_gaussian_noise(
                sums[:, columns], moved, multiplier * clip, session.randomness, quantum=quantum, label=label
            )
        return noisy

    return _limited(step, steps, label)


def _limited(step: Callable[[Array], Array], steps: int, label: str) -> Callable[[Array], Array]:
    """Return `step`, which may be called `steps` times and no more."""
    left = steps

    def limited(theta: Array) -> Array:
        nonlocal left
        if left == 0:
            raise PrivacyError(f"the run '{label}' was charged for {steps} steps; another one is not covered")
        left -= 1
        return step(theta)

    return limited
