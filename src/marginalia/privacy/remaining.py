"""What is left of a budget after the events that were recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from marginalia.errors import PrivacyError
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu, zcdp_epsilon, zcdp_rho
from marginalia.privacy.costs import DELTA_SHARES, Cost, composed_epsilon, in_two_groups
from marginalia.privacy.events import Event, FailureEvent, compositions, flattened
from marginalia.privacy.relation import Relation

Plan = Callable[[float, float], Iterable[Event]]  # events that a method would record with a budget

# Of what a budget leaves, all relative.
_ROUNDING = 1e-12  # of the roots that turn a budget into a parameter and back
_CLOSE = 1e-3  # how near the budget a plan has to come
_GRID = 2e-3  # what the loss distribution of Poisson-sampled runs may be too large by
_MOST_TRIES = 12


def remaining_budget(
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
        ``plan(epsilon, delta)``: the events that a method would record with this budget. Without `plan`, the
        result is for Gaussian releases and selections that are composed in Gaussian DP or in zCDP.

    Raises
    ------
    PrivacyError
        Nothing is left.

    Notes
    -----
    Failures come off delta. In either measure what was spent comes off the total, and the smaller epsilon of the two
    is returned, as it is not known which one the next method takes. Releases with a certificate of their own and
    Poisson-sampled ones are a group for themselves, at a fixed share of delta (`costs.in_two_groups`). A plan is
    priced together with the events: the largest epsilon, to 0.1 %, at which all of it keeps the budget.

    Examples
    --------
    >>> from marginalia.privacy.events import GaussianEvent
    >>> before = (GaussianEvent(1.0, 12.0), FailureEvent(1e-6))
    >>> [f"{left:.4g}" for left in remaining_budget(before, Relation.ADD_REMOVE, 1.0, 1e-5)]
    ['0.9358', '9e-06']
    >>> [f"{left:.4g}" for left in remaining_budget((), Relation.ADD_REMOVE, 1.0, 1e-5)]
    ['1', '1e-05']
    """
    if not events:
        return epsilon, delta
    rest = tuple(part for part in flattened(events) if not isinstance(part[0], FailureEvent))
    failing = math.fsum(n * event.probability for event, n in flattened(events) if isinstance(event, FailureEvent))
    left_delta = delta - failing
    if left_delta < 0 or (failing and left_delta == 0):
        raise PrivacyError(f"nothing is left: failures have used up delta {delta:g}")
    left = _without_plan(list(rest), relation, epsilon, left_delta)
    if plan is not None:
        left = _with_plan(events, relation, epsilon, delta, left_delta, plan, guess=left[0])
    if left[0] <= 0:
        raise PrivacyError(f"nothing is left of epsilon {epsilon:g} at delta {delta:g} ({relation})")
    return left


def _without_plan(
    parts: list[tuple[Event, int]], relation: Relation, epsilon: float, delta: float
) -> tuple[float, float]:
    """What is left for releases that add up in Gaussian DP or in zCDP; an epsilon of 0 where nothing is."""
    if delta == 0:
        return max(0.0, epsilon - composed_epsilon(compositions(parts), relation, 0.0)), 0.0
    if not parts:
        return epsilon, delta
    first, rest = in_two_groups(parts, relation)
    if first:
        own = compositions(first)
        each = [
            _without_plan(rest, relation, epsilon - composed_epsilon(own, relation, share * delta), (1 - share) * delta)
            for share in DELTA_SHARES
        ]
        return max(each)[0] * (1 - _GRID), max(each)[1]
    if epsilon <= 0:
        return 0.0, delta
    spent = Cost.of(parts, relation)
    in_gdp, in_zcdp = gdp_mu(epsilon, delta) ** 2 - spent.mu_squared, zcdp_rho(epsilon, delta) - spent.rho
    if min(in_gdp, in_zcdp) <= 0:
        return 0.0, delta
    least = min(gdp_epsilon(math.sqrt(in_gdp), delta), zcdp_epsilon(in_zcdp, delta))
    return least * (1 - _ROUNDING), delta


def _with_plan(
    events: tuple[Event, ...], relation: Relation, epsilon: float, delta: float, left: float, plan: Plan, guess: float
) -> tuple[float, float]:
    """Return the largest nominal epsilon at which the plan keeps the budget, to `_CLOSE`."""

    def spent(nominal: float) -> float:
        # Recorded events are charged one by one, and a bound on the cost may fall where another event is added.
        planned = tuple(plan(nominal, left))
        return max(composed_epsilon((*events, *planned[:n]), relation, delta) for n in range(1, len(planned) + 1))

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
