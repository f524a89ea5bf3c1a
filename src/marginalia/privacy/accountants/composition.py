"""The cost of a list of events by the tightest sound accountant; a mix that none covers is refused."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from marginalia.privacy.accountants.accountant import Accountant, Parts, uncovered
from marginalia.privacy.accountants.gdp import GaussianDP
from marginalia.privacy.accountants.objective import ObjectivePerturbation
from marginalia.privacy.accountants.pld import LossDistribution
from marginalia.privacy.accountants.pure import PureDP
from marginalia.privacy.accountants.stopping import RandomStopping
from marginalia.privacy.accountants.two_groups import TwoGroups
from marginalia.privacy.accountants.zcdp import ZeroConcentratedDP
from marginalia.privacy.events import Event, FailureEvent, check_rows, leaves
from marginalia.privacy.relation import Relation


@cache
def accountants(relation: Relation) -> tuple[Accountant, ...]:
    """Return every accountant; each is sound alone, so the smallest answer of those that cover a composition holds.

    >>> [type(accountant).__name__ for accountant in accountants(Relation.ADD_REMOVE)][:2]
    ['PureDP', 'GaussianDP']
    """
    return (
        PureDP(),
        GaussianDP(relation),
        RandomStopping(relation),
        ObjectivePerturbation(relation),
        LossDistribution(relation),
        ZeroConcentratedDP(relation),
        TwoGroups(relation, lambda parts, delta: _smallest(parts, relation, delta)),
    )


def composed_epsilon(events: tuple[Event, ...], relation: Relation, delta: float, k: int = 1) -> float:
    """Return the smallest certified epsilon at `delta` of the composition of `events`, in any order.

    At delta 0 it is the pure epsilon, or infinity. A mix that no accountant covers is a `PrivacyError`, and so is an
    event whose cost is stated for fewer rows than the `k` of a unit. Failures come off delta first: their probabilities
    and the delta of the rest add up.

    >>> from marginalia.privacy.events import ExponentialEvent, GaussianEvent
    >>> round(composed_epsilon((GaussianEvent(1.0, 4.0), ExponentialEvent(0.1)), Relation.ADD_REMOVE, 1e-5), 3)
    0.958
    """
    check_rows(events, k)
    parts = leaves(events)
    failing = math.fsum(count * event.probability for event, count in parts if isinstance(event, FailureEvent))
    if failing:
        parts = [part for part in parts if not isinstance(part[0], FailureEvent)]
        if delta <= failing:
            return math.inf
        delta -= failing
    return _smallest(parts, relation, delta)


def _smallest(parts: Parts, relation: Relation, delta: float) -> float:
    if not parts:
        return 0.0
    if delta == 0:  # where every other accountant says infinity
        pure = PureDP()
        return pure.epsilon(parts, delta) if pure.covers(parts) else math.inf
    bounds = [_bound(accountant, parts, delta) for accountant in accountants(relation) if accountant.covers(parts)]
    if not bounds:
        raise uncovered(parts)
    return min(bounds)


def _bound(accountant: Accountant, parts: Parts, delta: float) -> float:
    """Return the bound of one accountant; infinity where floats do not hold its numbers, as a file may say anything."""
    try:
        with np.errstate(all="ignore"):
            bound = accountant.epsilon(parts, delta)
    except (ArithmeticError, ValueError, MemoryError):
        return math.inf
    return math.inf if math.isnan(bound) else bound
