"""A privacy filter: what releases cost whose kinds and parameters follow from earlier answers.

The smallest of several accountants is a bound for a list of releases that was fixed beforehand. It is none where the
next release is chosen after a look at earlier answers: each branch may be certified by another accountant, and the
deltas of the branches add up. A filter has one measure, Gaussian DP, and two parts that are fixed when it is opened:
(e1, d1) for releases with a Gaussian-DP parameter, and a reserve (e2, d2) for all others, which add up by basic
composition. A release is made only if its part has room for it.

**Theorem.** Releases that are chosen after a look at earlier ones, and for which both parts have room, are
(e1 + e2, d1 + d2)-DP together.

**Proof.** Let P and Q be the laws of all answers on two neighbours. A release of the reserve is (e, d)-DP: the law of
its answer under the first neighbour is at most e^e times the one under the second, apart from a part of mass d (the
positive part of their difference). Take these parts away from P: what is left, P', lacks at most d2, as the reserve has
no room for more. Let R be the process whose answers of the first part are those of the second neighbour, and of the
reserve those of P'. Between P' and R only the first part differs. The answers of the reserve have the same kernels in
both, as if whoever chooses the releases drew them. So the filter of Gaussian DP bounds them (Smith and Thakurta 2022,
"Fully adaptive composition for Gaussian differential privacy"): P'(S) <= e^e1 R(S) + d1 for each set S of
answers. And R <= e^e2 Q, step by step (basic composition with adaptive parameters; Rogers, Roth, Ullman and Vadhan
2016). Together P(S) <= e^(e1 + e2) Q(S) + d1 + d2. ∎ (In general: Haney et al. 2023 on concurrent filters, Whitehouse,
Ramdas, Rogers and Wu 2023 on fully adaptive composition.)

The parts have to be fixed beforehand. If what one part leaves went over to the other, a branch could spend it where it
is worth most: between Gaussian releases and failures the true delta would be up to twice the one that is stated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Self

from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.privacy.costs import Cost, composed_epsilon
from marginalia.privacy.events import CompositionEvent, Event, FailureEvent, flattened
from marginalia.privacy.relation import Relation

ROUNDING = 1e-9  # relative excess over a budget that is put down to rounding
_ROOT = 1e-12  # of the roots that turn a budget into a parameter and back, relative
_KEPT = ", the reserve for releases without a Gaussian-DP parameter,"


@dataclass(frozen=True)
class Filter:
    """A budget for releases that are chosen one by one, and what they have cost; `charge` returns another one.

    Parameters
    ----------
    relation : Relation
    epsilon, delta : float
        The whole budget. With a delta of 0 all of it is the reserve, and pure epsilons add up.
    reserve : (float, float), default (0, 0)
        The part (e2, d2) of the budget for releases without a Gaussian-DP parameter. The first of those that need a
        delta has half of d2, each later one half of what is left. Failures come off d2 as they are.
    mu_squared : float, default 0
        Sum of the squared Gaussian-DP parameters.
    epsilon_reserve_spent, delta_reserve_spent : float, default 0

    Raises
    ------
    InputError
        The reserve is no part of the budget: epsilons in [0, epsilon], deltas in [0, delta) where delta is above 0.

    Examples
    --------
    >>> from marginalia.privacy.events import GaussianEvent, LaplaceEvent
    >>> opened = Filter(Relation.ADD_REMOVE, epsilon=2.0, delta=1e-5, reserve=(1.0, 0.0))
    >>> spent = opened.charge([GaussianEvent(1.0, 4.0), LaplaceEvent(1.0, 2.0)])
    >>> round(spent.mu_squared, 4), spent.epsilon_reserve_spent, spent.overspent
    (0.0625, 0.5, '')
    """

    relation: Relation
    epsilon: float
    delta: float
    reserve: tuple[float, float] = (0.0, 0.0)
    mu_squared: float = 0.0
    epsilon_reserve_spent: float = 0.0
    delta_reserve_spent: float = 0.0

    def __post_init__(self) -> None:
        checks.budget(self.epsilon, self.delta, pure=True)
        if self.delta == 0:
            object.__setattr__(self, "reserve", (self.epsilon, 0.0))
        if len(self.reserve) != 2:
            raise InputError(f"reserve is {self.reserve}: need an epsilon and a delta")
        epsilon, delta = self.reserve
        if not (0 <= epsilon <= self.epsilon and (0 <= delta < self.delta or delta == self.delta == 0)):
            raise InputError(
                f"reserve is ({epsilon:g}, {delta:g}): need an epsilon from 0 to {self.epsilon:g} and a delta from 0 "
                f"to below {self.delta:g}"
            )

    @cached_property
    def mu_squared_budget(self) -> float:
        """The largest sum of squared Gaussian-DP parameters that the first part allows."""
        epsilon, delta = self.epsilon - self.reserve[0], self.delta - self.reserve[1]
        return gdp_mu(epsilon, delta) ** 2 if min(epsilon, delta) > 0 else 0.0

    @property
    def epsilon_spent(self) -> float:
        """What the releases cost: of the first part at its delta, and of the reserve."""
        return self._first_epsilon + self.epsilon_reserve_spent

    def remaining_epsilon(self, delta: float) -> float:
        """Return the epsilon at `delta` of what is left for releases with a Gaussian-DP parameter.

        At a delta of 0, and where that of the filter is 0, it is what is left for purely private releases.

        >>> opened = Filter(Relation.ADD_REMOVE, epsilon=1.0, delta=1e-5, reserve=(0.0, 1e-6))
        >>> round(opened.remaining_epsilon(1e-5), 3), round(opened.remaining_epsilon(9e-6), 3)
        (0.993, 1.0)
        """
        if self.delta == 0:
            return max(0.0, self.epsilon - self.epsilon_reserve_spent)
        mu_squared = self.mu_squared_budget - self.mu_squared
        if mu_squared <= 0:
            return 0.0
        if delta == 0:  # the mu of losses between -epsilon and epsilon, solved for epsilon (`costs.bounded_range_mu`)
            half = NormalDist().cdf(math.sqrt(mu_squared) / 2)
            return math.log(half / (1 - half)) if half < 1 else self.epsilon
        if not self.mu_squared and delta == self.delta - self.reserve[1]:
            return self.epsilon - self.reserve[0]
        return gdp_epsilon(math.sqrt(mu_squared), delta) * (1 - _ROOT)

    def has_room(self, epsilon: float, delta: float) -> bool:
        """Whether one part has room for releases that are (epsilon, delta)-DP together and tight there.

        >>> Filter(Relation.ADD_REMOVE, epsilon=1.0, delta=1e-5).has_room(1.0, 1e-5)
        True
        """
        if self.overspent:
            return False
        left = max(self.remaining_epsilon(delta), self.reserve[0] - self.epsilon_reserve_spent)
        return epsilon <= left * (1 + ROUNDING)

    @property
    def overspent(self) -> str:
        """Of which part more is spent than it has, as a clause; else empty."""
        (epsilon, delta), first = self.reserve, self.epsilon - self.reserve[0]
        if self._first_epsilon > first * (1 + ROUNDING):
            shown = f"{_shown(self._first_epsilon, first)} at delta {self.delta - delta:g}"
            return f"epsilon {shown} ({self.relation})"
        if self.epsilon_reserve_spent > epsilon * (1 + ROUNDING):
            shown = f"{_shown(self.epsilon_reserve_spent, epsilon)} at delta {delta:g}"
            return f"epsilon {shown} ({self.relation}){_KEPT * (self.delta > 0)}"
        if self.delta_reserve_spent > delta * (1 + ROUNDING):
            return f"delta {_shown(self.delta_reserve_spent, delta)}{_KEPT}"
        return ""

    @property
    def _first_epsilon(self) -> float:
        """What the releases with a Gaussian-DP parameter cost at the delta of their part."""
        if not self.mu_squared:
            return 0.0
        try:
            epsilon = gdp_epsilon(math.sqrt(self.mu_squared), self.delta - self.reserve[1])
        except (ArithmeticError, ValueError):  # a file may list any events
            return math.inf
        return math.inf if math.isnan(epsilon) else epsilon

    def charge(self, events: Iterable[Event]) -> Self:
        """Return the filter after some releases, whether or not it has room for them.

        A release is charged to the first part if all that it composes has a Gaussian-DP parameter, else to the reserve.
        One that is purely private is charged where it takes the smaller share.

        >>> from marginalia.privacy.events import PoissonGaussianEvent
        >>> run = PoissonGaussianEvent(rate=0.01, noise_multiplier=1.0, steps=100)
        >>> Filter(Relation.ADD_REMOVE, epsilon=1.0, delta=1e-5).charge([run]).overspent
        'epsilon inf of 0 at delta 0 (add_remove), the reserve for releases without a Gaussian-DP parameter,'
        """
        spent = self
        for event in events:
            spent = spent._charge(event)
        return spent

    def _charge(self, event: Event) -> Self:
        parts = flattened((event,))
        failing = math.fsum(n * part.probability for part, n in parts if isinstance(part, FailureEvent))
        spent = replace(self, delta_reserve_spent=self.delta_reserve_spent + failing)
        rest = [part for part in parts if not isinstance(part[0], FailureEvent)]
        if not rest:
            return spent
        release = tuple(CompositionEvent((part,), n) for part, n in rest)
        mu_squared = Cost.of(rest, self.relation).mu_squared if self.mu_squared_budget else math.inf
        pure = _price(release, self.relation, 0.0) if mu_squared == math.inf or self.reserve[0] else math.inf
        if mu_squared < math.inf and not spent._is_cheaper_from_reserve(pure, mu_squared):
            return replace(spent, mu_squared=spent.mu_squared + mu_squared)
        if math.isfinite(pure):
            return replace(spent, epsilon_reserve_spent=spent.epsilon_reserve_spent + pure)
        delta = max(0.0, self.reserve[1] - spent.delta_reserve_spent) / 2
        epsilon = _price(release, self.relation, delta) if delta and self.reserve[0] else math.inf
        return replace(
            spent,
            epsilon_reserve_spent=spent.epsilon_reserve_spent + epsilon,
            delta_reserve_spent=spent.delta_reserve_spent + delta,
        )

    def _is_cheaper_from_reserve(self, pure: float, mu_squared: float) -> bool:
        """Whether a purely private release takes a smaller share of the reserve, and has room there."""
        if self.epsilon_reserve_spent + pure > self.reserve[0]:
            return False
        return pure / self.reserve[0] < mu_squared / self.mu_squared_budget


@lru_cache(maxsize=1024)
def _price(release: tuple[Event, ...], relation: Relation, delta: float) -> float:
    """Return the epsilon of one release, which is planned as a whole; infinity where no accountant covers it."""
    try:
        return composed_epsilon(release, relation, delta)
    except PrivacyError:
        return math.inf


def _shown(spent: float, of: float) -> str:
    return f"{spent:.3g} of {of:g}" if spent > 1.001 * of else f"{spent:.9g} of {of:g}"


@dataclass(frozen=True)
class OneOf:
    """Several filters with the same budget, one of which has room: for files that did not fix a measure.

    Wherever releases stop, one of the filters had room for all of them. By the theorem for each, the deltas add up.

    Examples
    --------
    >>> opened = OneOf.of_earlier_versions(Relation.ADD_REMOVE, epsilon=2.0, delta=0.004)
    >>> [(each.delta, each.reserve) for each in opened.filters]
    [(0.002, (0.0, 0.0002)), (0.002, (1.0, 0.001))]
    """

    filters: tuple[Filter, ...]

    @classmethod
    def of_earlier_versions(cls, relation: Relation, *, epsilon: float, delta: float) -> Self:
        """Return what prices the entries of a file of version 1 or 2: a half of delta for each of two reserves."""
        if delta == 0:
            return cls((Filter(relation, epsilon, 0.0),))
        half = delta / 2
        return cls(
            tuple(Filter(relation, epsilon, half, (e, d)) for e, d in ((0.0, half / 10), (epsilon / 2, half / 2)))
        )

    def charge(self, events: Iterable[Event]) -> OneOf:
        """Return the filters after some releases."""
        every = tuple(events)
        return OneOf(tuple(each.charge(every) for each in self.filters))

    @property
    def epsilon_spent(self) -> float:
        """The smallest of what the filters say."""
        return min(each.epsilon_spent for each in self._with_room or self.filters)

    @property
    def overspent(self) -> str:
        """Empty where one of the filters has room, else what one says."""
        return "" if self._with_room else self.filters[0].overspent

    def remaining_epsilon(self, delta: float) -> float:
        """Return the largest epsilon at `delta` that one of the filters with room has left."""
        return max((each.remaining_epsilon(delta) for each in self._with_room), default=0.0)

    def has_room(self, epsilon: float, delta: float) -> bool:
        """Whether one of the filters has room."""
        return any(each.has_room(epsilon, delta) for each in self._with_room)

    @property
    def _with_room(self) -> tuple[Filter, ...]:
        return tuple(each for each in self.filters if not each.overspent)
