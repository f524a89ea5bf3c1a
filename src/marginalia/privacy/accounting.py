"""The cost of a list of events by the tightest sound accountant; a mix that none covers is refused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

from marginalia.errors import PrivacyError
from marginalia.privacy import pld
from marginalia.privacy.calibration import gdp_epsilon, zcdp_epsilon
from marginalia.privacy.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
    leaves,
)
from marginalia.privacy.objective import OUTPUT_SHARE, is_gaussian_dp, objective_perturbation_epsilon
from marginalia.privacy.prices import bounded_range_mu
from marginalia.privacy.relation import Relation
from marginalia.privacy.stopping import random_stopping_epsilon

Parts = list[tuple[Event, int]]

# Above this many nats of privacy loss the grid of a loss distribution grows large; zCDP or pure DP answers instead.
_LARGEST_LOSS = 300.0


def composed_epsilon(events: tuple[Event, ...], relation: Relation, delta: float) -> float:
    """Return the smallest certified epsilon at `delta` of the composition of `events`, in any order.

    At delta 0 it is the pure epsilon, or infinity. A mix that no accountant covers is a `PrivacyError`.

    >>> round(composed_epsilon((GaussianEvent(1.0, 4.0), ExponentialEvent(0.1)), Relation.ADD_REMOVE, 1e-5), 3)
    0.958
    """
    parts = leaves(events)
    if not parts:
        return 0.0
    pure = _sum(parts, _pure)
    if delta == 0:
        return math.inf if pure is None else pure
    mu_squared = _sum(parts, lambda event: _mu_squared(event, relation))
    if mu_squared is not None:
        return gdp_epsilon(math.sqrt(mu_squared), delta)
    rho = _sum(parts, lambda event: _rho(event, relation))
    with_selections = _sum(parts, lambda event: _mu_squared_of_any(event, relation))
    applicable = (
        pure,
        None if with_selections is None else gdp_epsilon(math.sqrt(with_selections), delta),
        _single(parts, relation, delta),
        _objective_and_gaussians(parts, relation, delta),
        _by_loss_distribution(parts, relation, delta),
        None if rho is None else zcdp_epsilon(rho, delta),
    )
    bounds = [bound for bound in applicable if bound is not None]
    if not bounds:
        raise PrivacyError(f"no accountant covers the composition of {_kinds(parts)}: such a mix is not certified")
    return min(bounds)


def composed_rho(events: tuple[Event, ...], relation: Relation) -> float:
    """Return the zCDP parameter of the composition of `events`; `PrivacyError` where an event has none.

    >>> composed_rho((GaussianEvent(1.0, 4.0), ExponentialEvent(0.1)), Relation.ADD_REMOVE)
    0.0325
    """
    parts = leaves(events)
    rho = _sum(parts, lambda event: _rho(event, relation))
    if rho is None:
        without = [part for part in parts if _rho(part[0], relation) is None]
        raise PrivacyError(f"no zCDP parameter is known for {_kinds(without)}")
    return rho


def _sum(parts: Parts, cost: Callable[[Event], float | None]) -> float | None:
    """Sum of an additive cost over all parts; None if one has no such cost."""
    costs = [cost(event) for event, _ in parts]
    if None in costs:
        return None
    return math.fsum(count * one for (_, count), one in zip(parts, costs, strict=True) if one is not None)


def _mu_squared(event: Event, relation: Relation) -> float | None:
    """Squared Gaussian-DP parameter; it adds up under adaptive composition."""
    match event:
        case GaussianEvent():
            return (event.sensitivity / event.sigma) ** 2
        case PoissonGaussianEvent(rate=1):
            return event.steps * (relation.records / event.noise_multiplier) ** 2
        case ObjectivePerturbationEvent() if is_gaussian_dp(event.sigma, event.regulariser):
            # Two neighbours of a common table under replace-one: group privacy doubles mu.
            return (relation.records * event.bound / event.sigma) ** 2
    return None


def _mu_squared_of_any(event: Event, relation: Relation) -> float | None:
    """Return `_mu_squared`, of selections too: an upper bound there, where it is exact for Gaussian releases."""
    return bounded_range_mu(event.epsilon) ** 2 if isinstance(event, ExponentialEvent) else _mu_squared(event, relation)


def _pure(event: Event) -> float | None:
    """Pure-DP parameter."""
    match event:
        case LaplaceEvent():
            return event.sensitivity / event.scale
        case ExponentialEvent():
            return event.epsilon
    return None


def _rho(event: Event, relation: Relation) -> float | None:
    """ZCDP parameter; it adds up under adaptive composition, and where the parameters adapt too."""
    match event:
        case LaplaceEvent():
            # The Rényi divergence of order a, over a, of two Laplace laws a distance e apart falls with a, so its
            # limit at a = 1 bounds it; it is convex in e, so spreading e over coordinates never costs more.
            e = event.sensitivity / event.scale
            return e + math.expm1(-e)
        case ExponentialEvent():
            return event.epsilon**2 / 8  # bounded range (Cesar & Rogers 2021)
    mu_squared = _mu_squared(event, relation)
    return None if mu_squared is None else mu_squared / 2


def _objective_and_gaussians(parts: Parts, relation: Relation, delta: float) -> float | None:
    """One objective perturbation, alone or with Gaussian releases: basic composition, delta split in a fixed way."""
    objectives = [
        event for event, count in parts if isinstance(event, ObjectivePerturbationEvent) for _ in range(count)
    ]
    if len(objectives) != 1:
        return None
    (event,) = objectives
    rest = [part for part in parts if part[0] is not event]
    mu_squared = _sum(rest, lambda other: _mu_squared(other, relation))
    if mu_squared is None:
        return None
    share = OUTPUT_SHARE if mu_squared > 0 else 0.0
    own = objective_perturbation_epsilon(
        (1 - share) * delta, bound=event.bound, sigma=event.sigma, regulariser=event.regulariser, relation=relation
    )
    return own + (gdp_epsilon(math.sqrt(mu_squared), share * delta) if rest else 0.0)


def _single(parts: Parts, relation: Relation, delta: float) -> float | None:
    """Certificates that hold for one release at one epsilon and say nothing about compositions."""
    if len(parts) > 1 or parts[0][1] > 1:
        return None
    match parts[0][0]:
        case RandomStoppingEvent(event=run, r=r, eta=eta):
            mu_squared = _sum(leaves((run,)), lambda event: _mu_squared(event, relation))
            if mu_squared is None:
                raise PrivacyError("random stopping is certified only for runs of Gaussian releases")
            return random_stopping_epsilon(math.sqrt(mu_squared), delta, r=r, eta=eta)
    return None


def _by_loss_distribution(parts: Parts, relation: Relation, delta: float) -> float | None:
    """Privacy loss distribution of Gaussians, Laplaces and Poisson-sampled Gaussians with fixed parameters."""
    mu_squared, largest_loss = 0.0, 0.0
    laplace: Counter[float] = Counter()
    poisson: Counter[tuple[float, float]] = Counter()
    for event, count in parts:
        gaussian = _mu_squared(event, relation)
        if gaussian is not None:
            mu_squared += count * gaussian
        elif isinstance(event, LaplaceEvent):
            scale = event.scale / event.sensitivity
            laplace[scale] += count
            largest_loss += count / scale
        elif isinstance(event, PoissonGaussianEvent):
            poisson[event.rate, event.noise_multiplier] += count * event.steps
        else:
            return None
    if not poisson and largest_loss + mu_squared / 2 > _LARGEST_LOSS:
        return None
    if not all(pld.fits(rate, multiplier, steps) for (rate, multiplier), steps in poisson.items()):
        # Sampling never adds to the loss (joint convexity), and pure epsilons add up.
        mu_squared += math.fsum(steps * (relation.records / m) ** 2 for (_, m), steps in poisson.items())
        return gdp_epsilon(math.sqrt(mu_squared), delta) + largest_loss
    return pld.epsilon(
        tuple(sorted((rate, multiplier, steps) for (rate, multiplier), steps in poisson.items())),
        tuple(sorted(laplace.items())),
        math.sqrt(mu_squared),
        relation,
        delta,
    )


def _kinds(parts: Parts) -> str:
    return ", ".join(sorted({type(event).__name__ for event, _ in parts}))
