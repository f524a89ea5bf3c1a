"""The cost of a list of events by the tightest sound accountant; a mix that none covers is refused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import PrivacyError
from marginalia.privacy.accountants import pld
from marginalia.privacy.accountants.objective import (
    OUTPUT_SHARE,
    is_gaussian_dp,
    objective_perturbation_delta,
    objective_perturbation_epsilon,
)
from marginalia.privacy.accountants.prices import bounded_range_mu
from marginalia.privacy.accountants.stopping import random_stopping_delta, random_stopping_epsilon
from marginalia.privacy.calibration import gdp_epsilon, zcdp_epsilon
from marginalia.privacy.events import (
    Event,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
    leaves,
)
from marginalia.privacy.relation import Relation

Parts = list[tuple[Event, int]]

# Above this many nats of privacy loss the grid of a loss distribution grows large; zCDP or pure DP answers instead.
_LARGEST_LOSS = 300.0

SHARES = (1e-3, 1e-2, 0.1, 0.5, 0.9)  # of delta, for the first of two groups in basic composition
_STEPS = 3000  # of the loss grid of a release with a certificate of its own, over the epsilon that it may cost


def composed_epsilon(events: tuple[Event, ...], relation: Relation, delta: float) -> float:
    """Return the smallest certified epsilon at `delta` of the composition of `events`, in any order.

    At delta 0 it is the pure epsilon, or infinity. A mix that no accountant covers is a `PrivacyError`. Failures come
    off delta first: their probabilities and the delta of the rest add up.

    >>> round(composed_epsilon((GaussianEvent(1.0, 4.0), ExponentialEvent(0.1)), Relation.ADD_REMOVE, 1e-5), 3)
    0.958
    """
    parts = leaves(events)
    failing = math.fsum(count * event.probability for event, count in parts if isinstance(event, FailureEvent))
    if failing:
        parts = [part for part in parts if not isinstance(part[0], FailureEvent)]
        if delta <= failing:
            return math.inf
        delta -= failing
    return _composed_epsilon(parts, relation, delta)


def _composed_epsilon(parts: Parts, relation: Relation, delta: float) -> float:
    if not parts:
        return 0.0
    pure = _sum(parts, _pure)
    if delta == 0:
        return math.inf if pure is None else pure
    mu_squared = _sum(parts, lambda event: _mu_squared(event, relation))
    if mu_squared is not None:
        return gdp_epsilon(math.sqrt(mu_squared), delta)
    rho = _sum(parts, lambda event: _rho(event, relation))
    # Of Laplace releases alone the loss distribution is exact.
    selected = any(isinstance(event, ExponentialEvent | GaussianEvent) for event, _ in parts)
    with_selections = _sum(parts, lambda event: squared_mu(event, relation)) if selected else None
    applicable = (
        pure,
        None if with_selections is None else gdp_epsilon(math.sqrt(with_selections), delta),
        _single(parts, relation, delta),
        _objective_and_gaussians(parts, relation, delta),
        _by_loss_distribution(parts, relation, delta),
        None if rho is None else zcdp_epsilon(rho, delta),
        *_by_two_groups(parts, relation, delta),
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


def squared_mu(event: Event, relation: Relation) -> float | None:
    """Squared Gaussian-DP parameter of an event, or None: exact for Gaussian releases, a bound for pure ones.

    >>> round(squared_mu(ExponentialEvent(0.1), Relation.ADD_REMOVE), 6)
    0.003927
    """
    match event:
        case ExponentialEvent():
            return bounded_range_mu(event.epsilon) ** 2
        case LaplaceEvent():  # losses between -e and e
            return bounded_range_mu(2 * event.sensitivity / event.scale) ** 2
    return _mu_squared(event, relation)


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


def in_two_groups(parts: Parts, relation: Relation) -> tuple[Parts, Parts]:
    """Part what has no parameter that adds up from the rest.

    The first group holds the releases with a certificate of their own (objective perturbation, random stopping) or,
    where there are none, the Poisson-sampled ones.

    >>> parts = [(GaussianEvent(1.0, 4.0), 3), (PoissonGaussianEvent(0.1, 2.0, 50), 1)]
    >>> first, rest = in_two_groups(parts, Relation.ADD_REMOVE)
    >>> len(first), rest[0][1]
    (1, 3)
    """
    own = [part for part in parts if _on_its_own(part[0], relation)]
    first = own or [part for part in parts if isinstance(part[0], PoissonGaussianEvent) and part[0].rate < 1]
    return first, [part for part in parts if part not in first]


def _by_two_groups(parts: Parts, relation: Relation, delta: float) -> list[float]:
    """Bounds for what no accountant prices as a whole: two groups, each by its own accountant.

    Their (epsilon, delta) add up (Dwork & Roth 2014, Thm 3.16), at a share of delta out of `SHARES`; every share gives
    a bound, so the smallest is one. Where the rest is Gaussian-DP the two are composed (`_beside`).
    """
    first, rest = in_two_groups(parts, relation)
    alone = bool(first) and _on_its_own(first[0][0], relation)
    if not (first and rest) or (alone and sum(count for _, count in first) > 1):
        return []
    if not alone and all(isinstance(event, GaussianEvent | LaplaceEvent) for event, _ in rest):
        return []  # one loss distribution of all, which is smaller
    split = _objective_and_gaussians(parts, relation, delta)
    # What a fit alone was calibrated by stays its price: it could be a thousandth smaller.
    worth = math.inf if split is None else 0.99 * split
    if split is not None and _composed_epsilon(first, relation, delta) >= worth:
        return []  # with the rest it costs no less; what follows takes seconds
    try:
        bounds = [
            _composed_epsilon(first, relation, share * delta) + _composed_epsilon(rest, relation, (1 - share) * delta)
            for share in SHARES
        ]
    except PrivacyError:  # a group is covered by no accountant
        return []
    mu_squared = _sum(rest, lambda event: squared_mu(event, relation))
    if alone and mu_squared is not None:
        bounds.append(_beside(first[0][0], math.sqrt(mu_squared), relation, delta, at_most=min(bounds)))
    return [bound for bound in bounds if bound < worth]


def _on_its_own(event: Event, relation: Relation) -> bool:
    """Whether an event has a certificate for itself alone, and no parameter that adds up."""
    certified = isinstance(event, ObjectivePerturbationEvent | RandomStoppingEvent)
    return certified and _mu_squared(event, relation) is None


def _beside(event: Event, mu: float, relation: Relation, delta: float, *, at_most: float) -> float:
    """Return the epsilon of a release with the profile f(epsilon) beside releases that are mu-GDP together.

    Whatever came first, δ(ε) <= E f(ε - L), where L ~ N(mu²/2, mu²) is the loss of mu-GDP: given the first outcome the
    rest has a profile of at most f(ε - its loss). A profile averages hockey sticks of the loss, each of which is
    largest for the dominating pair, so the order does not matter; where f is a bound only, the smallest profile above
    all those of the release stands in between (Zhu, Dong & Wang 2022). f(-x) = 1 - e^-x (1 - f(x)), as the bounds hold
    for both orders of neighbours. L is rounded up and ε - L down to a grid, so the answer is at most two steps above.
    """
    if not 0 < mu < 9:
        return at_most
    step = at_most / _STEPS
    last = math.ceil((mu * mu / 2 + mu * 9) / step)
    first = math.floor((mu * mu / 2 - mu * 9) / step)
    from scipy.special import ndtr  # here, since scipy is slow to load

    steps = np.arange(first, last + 1)
    below = ndtr((steps * step - mu * mu / 2) / mu)
    weights = np.diff(below, prepend=0.0)  # of a loss in (previous, this] step; what is below the grid joins its end
    beyond = float(ndtr((mu * mu / 2 - last * step) / mu))
    profile = _profile_on_grid(event, relation, step, _STEPS - first, last)

    def certified(k: int) -> bool:
        at = k - steps + last  # position of step k - steps, of which the first is -last
        return beyond + float(weights @ profile[at]) <= delta

    lower, upper = 0, _STEPS
    if not certified(upper):
        return at_most
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if certified(middle) else (middle, upper)
    return upper * step


@lru_cache(maxsize=256)
def _profile_on_grid(event: Event, relation: Relation, step: float, up: int, down: int) -> NDArray[np.float64]:
    """Return the profile at -down, .., up steps, remembered: seconds, and every trial of a sweep asks for the same."""
    half = max(up, down)
    right = np.array([_profile(event, relation, k * step) for k in range(half + 1)])
    x = np.arange(half, 0, -1) * step
    left = 1 - np.exp(-x) * (1 - right[:0:-1])
    profile = np.concatenate([left[half - down :], right[: up + 1]])
    profile.setflags(write=False)
    return profile


def _profile(event: Event, relation: Relation, epsilon: float) -> float:
    match event:
        case ObjectivePerturbationEvent(bound=bound, sigma=sigma, regulariser=regulariser):
            return objective_perturbation_delta(
                epsilon, bound=bound, sigma=sigma, regulariser=regulariser, relation=relation
            )
        case RandomStoppingEvent(event=run, r=r, eta=eta):
            mu_squared = _sum(leaves((run,)), lambda inner: _mu_squared(inner, relation))
            return random_stopping_delta(math.sqrt(mu_squared or 0.0), epsilon, r=r, eta=eta)
    raise PrivacyError(f"no profile is known for {type(event).__name__}")


def _by_loss_distribution(parts: Parts, relation: Relation, delta: float) -> float | None:
    """Privacy loss distribution of Gaussians, Laplaces and Poisson-sampled Gaussians with fixed parameters.

    Beside Poisson-sampled runs a selection counts as the Gaussian release that it is bounded by.
    """
    mu_squared, largest_loss = 0.0, 0.0
    sampled = any(isinstance(event, PoissonGaussianEvent) for event, _ in parts)
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
        elif isinstance(event, ExponentialEvent) and sampled:
            mu_squared += count * bounded_range_mu(event.epsilon) ** 2
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
