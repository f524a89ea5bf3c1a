"""What releases have cost, by bounds that take no time, and what a budget leaves for those that come next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from marginalia.errors import PrivacyError
from marginalia.privacy.accountants.accounting import SHARES, composed_epsilon, composed_rho, in_two_groups, squared_mu
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu, zcdp_epsilon, zcdp_rho
from marginalia.privacy.events import CompositionEvent, Event, FailureEvent, leaves
from marginalia.privacy.relation import Relation

Plan = Callable[[float, float], Iterable[Event]]

_ROUNDING = 1e-12  # relative: of the roots that turn a budget into a parameter and back
_CLOSE = 1e-3  # relative: how near the budget a plan has to come
_GRID = 2e-3  # relative: what the loss distribution of Poisson-sampled runs may be too large by
_MOST_TRIES = 12


def remaining(
    events: tuple[Event, ...], relation: Relation, epsilon: float, delta: float, plan: Plan | None = None
) -> tuple[float, float]:
    """Return the (epsilon, delta) that is left of a budget after `events`; without events, the budget itself.

    Parameters
    ----------
    events : tuple of Event
    relation : Relation
    epsilon, delta : float
        The budget.
    plan : callable, optional
        ``plan(epsilon, delta)``: the events that a method would book with so much. Without one, what is left is for
        Gaussian releases and selections that keep their books in Gaussian DP or in zCDP.

    Raises
    ------
    PrivacyError
        Nothing is left.

    Notes
    -----
    Failures come off delta. In either currency what was spent comes off the total, and the smaller epsilon of the two
    is returned, as it is not known which one the next method takes. Releases with a certificate of their own and
    Poisson-sampled ones are a group for themselves, at a fixed share of delta (`accounting.in_two_groups`). A plan is
    priced together with the events: the largest epsilon, to 0.1 %, at which all of it keeps the budget.

    Examples
    --------
    >>> from marginalia.privacy.events import GaussianEvent
    >>> before = (GaussianEvent(1.0, 12.0), FailureEvent(1e-6))
    >>> [f"{left:.4g}" for left in remaining(before, Relation.ADD_REMOVE, 1.0, 1e-5)]
    ['0.9358', '9e-06']
    >>> [f"{left:.4g}" for left in remaining((), Relation.ADD_REMOVE, 1.0, 1e-5)]
    ['1', '1e-05']
    """
    if not events:
        return epsilon, delta
    rest = tuple(part for part in leaves(events) if not isinstance(part[0], FailureEvent))
    failing = math.fsum(n * event.probability for event, n in leaves(events) if isinstance(event, FailureEvent))
    left_delta = delta - failing
    if left_delta < 0 or (failing and left_delta == 0):
        raise PrivacyError(f"nothing is left: failures have used up delta {delta:g}")
    left = _additive(list(rest), relation, epsilon, left_delta)
    if plan is not None:
        left = _planned(events, relation, epsilon, delta, left_delta, plan, guess=left[0])
    if left[0] <= 0:
        raise PrivacyError(f"nothing is left of epsilon {epsilon:g} at delta {delta:g} ({relation})")
    return left


def _additive(parts: list[tuple[Event, int]], relation: Relation, epsilon: float, delta: float) -> tuple[float, float]:
    """What is left for releases that add up in Gaussian DP or in zCDP; an epsilon of 0 where nothing is."""
    if delta == 0:
        return max(0.0, epsilon - composed_epsilon(_counted(parts), relation, 0.0)), 0.0
    if not parts:
        return epsilon, delta
    first, rest = in_two_groups(parts, relation)
    if first:
        own = _counted(first)
        each = [
            _additive(rest, relation, epsilon - composed_epsilon(own, relation, share * delta), (1 - share) * delta)
            for share in SHARES
        ]
        return max(each)[0] * (1 - _GRID), max(each)[1]
    if epsilon <= 0:
        return 0.0, delta
    mu_squared = math.fsum(n * (squared_mu(event, relation) or 0.0) for event, n in parts)
    rho = math.fsum(n * composed_rho((event,), relation) for event, n in parts)
    in_gdp, in_zcdp = gdp_mu(epsilon, delta) ** 2 - mu_squared, zcdp_rho(epsilon, delta) - rho
    if min(in_gdp, in_zcdp) <= 0:
        return 0.0, delta
    least = min(gdp_epsilon(math.sqrt(in_gdp), delta), zcdp_epsilon(in_zcdp, delta))
    return least * (1 - _ROUNDING), delta


def _counted(parts: list[tuple[Event, int]]) -> tuple[Event, ...]:
    return tuple(CompositionEvent((event,), n) for event, n in parts)


def _planned(
    events: tuple[Event, ...], relation: Relation, epsilon: float, delta: float, left: float, plan: Plan, guess: float
) -> tuple[float, float]:
    """Return the largest nominal epsilon at which the plan keeps the budget, to `_CLOSE`."""

    def spent(nominal: float) -> float:
        return composed_epsilon((*events, *plan(nominal, left)), relation, delta)

    lower, upper, at = 0.0, epsilon, guess if guess > 0 else epsilon / 2
    for _ in range(_MOST_TRIES):
        cost = spent(at)
        lower, upper = (at, upper) if cost <= epsilon * (1 + _ROUNDING) else (lower, at)
        if upper <= lower * (1 + _CLOSE) or epsilon * (1 - _CLOSE) <= cost <= epsilon * (1 + _ROUNDING):
            break
        # Costs of Gaussian kind add up in squares; aimed a little below the budget, and kept inside what is known.
        squared = at**2 + (epsilon * (1 - _CLOSE / 4)) ** 2 - cost**2
        at = math.sqrt(squared) if lower**2 < squared < upper**2 else (lower + upper) / 2
    return lower, left


def added(costs: tuple[float, float], parts: Mapping[Event, int], relation: Relation) -> tuple[float, float]:
    """Return pure epsilon and zCDP parameter with more events: sound bounds that cost nothing to keep.

    >>> from marginalia.privacy.events import ExponentialEvent
    >>> added((0.0, 0.0), {ExponentialEvent(0.2): 2}, Relation.ADD_REMOVE)
    (0.4, 0.010000000000000002)
    """
    pure, rho = costs
    for event, count in parts.items():
        one_pure, one_rho = _cost(event, relation)
        pure, rho = pure + count * one_pure, rho + count * one_rho
    return pure, rho


@lru_cache(maxsize=4096)
def _cost(event: Event, relation: Relation) -> tuple[float, float]:
    """Pure epsilon and zCDP parameter of one event, each infinite where there is none."""
    try:
        rho = composed_rho((event,), relation)
    except PrivacyError:
        rho = math.inf
    return composed_epsilon((event,), relation, 0.0), rho


@lru_cache(maxsize=256)
def affordable_rho(epsilon: float, delta: float) -> float:
    """Largest zCDP parameter that a budget allows, remembered.

    >>> round(affordable_rho(1.0, 1e-5), 8)
    0.0305566
    """
    return zcdp_rho(epsilon, delta)
