"""Basic composition: two groups of releases, each by its own accountant, for what none prices as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import PrivacyError
from marginalia.privacy.accountants.accountant import Parts, SingleReleaseAccountant, total, uncovered
from marginalia.privacy.accountants.gdp import squared_mu
from marginalia.privacy.accountants.objective import ObjectivePerturbation
from marginalia.privacy.accountants.stopping import RandomStopping
from marginalia.privacy.events import Event, GaussianEvent, LaplaceEvent, is_subsampled
from marginalia.privacy.relation import Relation

SHARES = (1e-3, 1e-2, 0.1, 0.5, 0.9)  # of delta, for the first of two groups in basic composition
_STEPS = 3000  # of the loss grid of a release with a certificate of its own, over the epsilon that it may cost
_KNOTS = 512  # points at which its profile is computed


@dataclass(frozen=True)
class TwoGroups:
    """Their (epsilon, delta) add up (Dwork & Roth 2014, Thm 3.16), at a share of delta out of `SHARES`.

    Every share gives a bound, so the smallest is one. Where the first group is one release with a certificate of its
    own and the rest is Gaussian-DP, the two are composed (`_beside`).

    Parameters
    ----------
    relation : Relation
    smallest : callable
        ``smallest(parts, delta)``: the price of a group by the tightest accountant; `PrivacyError` where none is.

    Examples
    --------
    >>> parts = [(GaussianEvent(1.0, 4.0), 1), (GaussianEvent(1.0, 5.0), 1)]
    >>> TwoGroups(Relation.ADD_REMOVE, lambda parts, delta: 0.0).covers(parts)  # Gaussian DP prices them as a whole
    False
    """

    relation: Relation
    smallest: Callable[[Parts, float], float]

    def covers(self, parts: Parts) -> bool:
        """Whether there are two groups, the first no more than one release where it has a certificate of its own."""
        first, rest = in_two_groups(parts, self.relation)
        if not (first and rest):
            return False
        if _certifier(first[0][0], self.relation) is not None:
            return sum(count for _, count in first) == 1
        # One loss distribution of all is smaller.
        return not all(isinstance(event, GaussianEvent | LaplaceEvent) for event, _ in rest)

    def epsilon(self, parts: Parts, delta: float) -> float:
        """Return the smallest bound; infinity where it is no less than what another accountant says already."""
        first, rest = in_two_groups(parts, self.relation)
        worth = math.inf
        objective = ObjectivePerturbation(self.relation)
        if objective.covers(parts):
            # What a fit alone was calibrated by stays its price: it could be a thousandth smaller.
            worth = 0.99 * objective.epsilon(parts, delta)
            if self.smallest(first, delta) >= worth:
                return math.inf  # with the rest it costs no less; what follows takes seconds
        try:
            bounds = [
                self.smallest(first, share * delta) + self.smallest(rest, (1 - share) * delta) for share in SHARES
            ]
        except PrivacyError:  # a group is covered by no accountant
            raise uncovered(parts) from None
        accountant = _certifier(first[0][0], self.relation)
        mu_squared = total(rest, lambda event: squared_mu(event, self.relation))
        if accountant is not None and mu_squared is not None:
            bounds.append(_beside(accountant, first[0][0], math.sqrt(mu_squared), delta, at_most=min(bounds)))
        return min((bound for bound in bounds if bound < worth), default=math.inf)


def in_two_groups(parts: Parts, relation: Relation) -> tuple[Parts, Parts]:
    """Part what has no parameter that adds up from the rest.

    The first group holds the releases with a certificate of their own (objective perturbation, random stopping) or,
    where there are none, the Poisson-sampled ones.

    >>> from marginalia.privacy import PoissonGaussianEvent
    >>> parts = [(GaussianEvent(1.0, 4.0), 3), (PoissonGaussianEvent(0.1, 2.0, 50), 1)]
    >>> first, rest = in_two_groups(parts, Relation.ADD_REMOVE)
    >>> len(first), rest[0][1]
    (1, 3)
    """
    own = [part for part in parts if _certifier(part[0], relation) is not None]
    first = own or [part for part in parts if is_subsampled(part[0])]
    return first, [part for part in parts if part not in first]


def _certifier(event: Event, relation: Relation) -> SingleReleaseAccountant | None:
    """Return the accountant of an event that has a certificate for itself alone, and no parameter that adds up."""
    singles: tuple[SingleReleaseAccountant, ...] = (ObjectivePerturbation(relation), RandomStopping(relation))
    return next((accountant for accountant in singles if accountant.certifies(event)), None)


def _beside(accountant: SingleReleaseAccountant, event: Event, mu: float, delta: float, *, at_most: float) -> float:
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
    profile = _profile_on_grid(accountant, event, step, _STEPS - first, last)

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
def _profile_on_grid(
    accountant: SingleReleaseAccountant, event: Event, step: float, up: int, down: int
) -> NDArray[np.float64]:
    """Return a bound on the profile at -down, .., up steps, remembered: every trial of a sweep asks for the same.

    A profile is convex in e^epsilon, so between two points it lies below the line between bounds on it there.
    """
    half = max(up, down)
    apart = max(1, half // _KNOTS)  # steps from one point to the next
    knots = np.array([accountant.delta(event, k * step) for k in range(0, half + 2 * apart, apart)])
    if apart > 1:
        share = np.expm1(np.arange(apart) * step) / math.expm1(apart * step)
        right = (knots[:-1, None] + np.diff(knots)[:, None] * share).ravel()[: half + 1]
    else:
        right = knots[: half + 1]
    x = np.arange(half, 0, -1) * step
    left = 1 - np.exp(-x) * (1 - right[:0:-1])
    profile = np.concatenate([left[half - down :], right[: up + 1]])
    profile.setflags(write=False)
    return profile
