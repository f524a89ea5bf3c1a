"""The cost of releases: one table of costs per event, and the smallest sound epsilon of a list of releases.

Three measures have one number per release, and the numbers add up, also where the parameters of a release follow from
earlier answers: pure DP (epsilon), zero-concentrated DP (rho; Bun & Steinke 2016) and Gaussian DP (mu squared; Smith &
Thakurta 2022). `cost` is their table. Other releases have a privacy profile, a delta for each epsilon, that does not
add up: objective perturbation (`objective_cost`), random stopping (`stopping_cost`) and Gaussian sketches
(`sketch_cost`). Runs on Poisson samples are
composed as privacy loss distributions (`pld`).

`composed_epsilon` applies every rule that knows a list of releases. Each is a sound bound for a list that was fixed
beforehand, so the smallest holds. (For releases that are chosen one by one: `filters`.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

from marginalia.errors import PrivacyError
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu, root, zcdp_epsilon, zcdp_rho
from marginalia.privacy.events import (
    Event,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    GaussianSketchEvent,
    GroupEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
    check_rows,
    flattened,
    is_subsampled,
)
from marginalia.privacy.joint import joint_epsilon
from marginalia.privacy.objective_cost import OUTPUT_SHARE, objective_perturbation_delta, objective_perturbation_epsilon
from marginalia.privacy.pld import bounded_epsilon, loss_distribution_epsilon
from marginalia.privacy.relation import Relation
from marginalia.privacy.sketch_cost import sketch_delta, sketch_epsilon
from marginalia.privacy.stopping_cost import random_stopping_delta, random_stopping_epsilon

Terms: TypeAlias = list[tuple[Event, int]]  # events that compose no others, and how often each ran

DELTA_SHARES = (1e-3, 1e-2, 0.1, 0.5, 0.9)  # of delta, for the first of two groups in basic composition
_OBJECTIVES = (ObjectivePerturbationEvent, GroupEvent)

# Outside these epsilons, bounds on the Gaussian-DP parameter of a selection that are never less: the tangent at 0, the
# same to nine digits below 1e-4; and 2√epsilon, by Chernoff's Φ̄(z) <= exp(-z²/2)/2, within half a percent above 1000.
_SMALL, _LARGE = 1e-4, 1000.0


@dataclass(frozen=True)
class Cost:
    """What releases cost in the measures that add up; infinite in a measure that does not know one of them.

    Attributes
    ----------
    pure : float
        Epsilon of pure DP.
    rho : float
        Parameter of zero-concentrated DP.
    mu_squared : float
        Squared parameter of Gaussian DP.
    is_gaussian : bool
        Whether `mu_squared` is exact, and not only a bound: then no other measure is tighter.

    Examples
    --------
    >>> Cost.of([(GaussianEvent(1.0, 4.0), 1), (ExponentialEvent(0.2), 3)], Relation.ADD_REMOVE).rho
    0.04625
    """

    pure: float = math.inf
    rho: float = math.inf
    mu_squared: float = math.inf
    is_gaussian: bool = False

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.pure + other.pure,
            self.rho + other.rho,
            self.mu_squared + other.mu_squared,
            self.is_gaussian and other.is_gaussian,
        )

    def is_within(self, epsilon: float, delta: float) -> bool:
        """Return whether one of the measures alone shows that the releases keep a budget.

        >>> Cost(rho=0.03).is_within(1.0, 1e-5), Cost(rho=0.04).is_within(1.0, 1e-5)
        (True, False)
        """
        if self.pure <= epsilon or delta == 0:
            return self.pure <= epsilon
        rho, mu_squared = _largest(epsilon, delta)
        return self.rho <= rho or self.mu_squared <= mu_squared

    @classmethod
    def of(cls, terms: Terms, relation: Relation) -> Cost:
        """Return the cost of all terms together."""
        costs = [(cost(event, relation), count) for event, count in terms]
        return cls(
            math.fsum(count * one.pure for one, count in costs),
            math.fsum(count * one.rho for one, count in costs),
            math.fsum(count * one.mu_squared for one, count in costs),
            all(one.is_gaussian for one, _ in costs),
        )


NOTHING = Cost(0.0, 0.0, 0.0, is_gaussian=True)


@lru_cache(maxsize=256)
def _largest(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the largest rho and the largest squared mu that a budget allows."""
    return zcdp_rho(epsilon, delta), gdp_mu(epsilon, delta) ** 2


@lru_cache(maxsize=4096)
def cost(event: Event, relation: Relation) -> Cost:
    """Return what one release costs.

    Sources: a selection has bounded range (Cesar & Rogers 2021 for zCDP; for Gaussian DP the proof is in
    docs/proofs.md); objective perturbation is Gaussian-DP if its regulariser is at least 2·sigma² (`objective_cost`).

    >>> cost(LaplaceEvent(sensitivity=1.0, scale=2.0), Relation.ADD_REMOVE).pure
    0.5
    """
    match event:
        case GaussianEvent():
            return _gaussian((event.sensitivity / event.sigma) ** 2)
        case LaplaceEvent():
            # The Rényi divergence of order a of two Laplace laws a distance e apart, over a, falls with a: its limit at
            # a = 1 bounds it. The limit is convex in e, so that e in one coordinate costs most. Losses are in [-e, e].
            e = event.sensitivity / event.scale
            return Cost(e, e + math.expm1(-e), bounded_range_mu(2 * event.sensitivity / event.scale) ** 2)
        case ExponentialEvent():
            return Cost(event.epsilon, event.epsilon**2 / 8, bounded_range_mu(event.epsilon) ** 2)
        case PoissonGaussianEvent(rate=1):
            return _gaussian(event.steps * (relation.units / event.noise_multiplier) ** 2)
        case ObjectivePerturbationEvent() if event.regulariser >= 2 * event.sigma**2:
            # Two neighbours of a common table under replace-one: group privacy doubles mu.
            return _gaussian((relation.units * event.bound / event.sigma) ** 2)
        case GroupEvent():
            one = cost(event.event, relation)
            return _gaussian(event.rows**2 * one.mu_squared) if one.is_gaussian else Cost()
    return Cost()


def _gaussian(mu_squared: float) -> Cost:
    return Cost(rho=mu_squared / 2, mu_squared=mu_squared, is_gaussian=True)


@lru_cache(maxsize=4096)
def bounded_range_mu(epsilon: float) -> float:
    """Return the Gaussian-DP parameter of a selection of epsilon-bounded range: 2 Φ⁻¹(1/(1 + exp(-epsilon/2))).

    Proof: docs/proofs.md.

    >>> round(bounded_range_mu(1.0), 6)
    0.623893
    """
    epsilon = checks.not_negative("epsilon", epsilon)
    if epsilon < _SMALL:
        return epsilon * math.sqrt(2 * math.pi) / 4
    if epsilon > _LARGE:
        return 2 * math.sqrt(epsilon)
    from scipy.special import expit, ndtri  # here, since scipy is slow to load

    return -2 * float(ndtri(expit(-epsilon / 2)))


def composed_epsilon(events: tuple[Event, ...], relation: Relation, delta: float, k: int = 1) -> float:
    """Return the smallest certified epsilon at `delta` of the composition of `events`, in any order.

    Parameters
    ----------
    events : tuple of Event
    relation : Relation
    delta : float
        In [0, 1). At 0 the result is the pure epsilon, or infinity.
    k : int, default 1
        The most rows of a privacy unit.

    Raises
    ------
    PrivacyError
        No rule covers the mix of releases, or the cost of an event is stated for fewer than `k` rows.

    Notes
    -----
    The probabilities of failures and the delta of all other releases add up.

    Examples
    --------
    >>> round(composed_epsilon((GaussianEvent(1.0, 4.0), ExponentialEvent(0.1)), Relation.ADD_REMOVE, 1e-5), 3)
    0.958
    """
    check_rows(events, k)
    terms = flattened(events)
    failing = math.fsum(count * event.probability for event, count in terms if isinstance(event, FailureEvent))
    if failing:
        terms = [term for term in terms if not isinstance(term[0], FailureEvent)]
        if delta <= failing:
            return math.inf
        delta -= failing
    return _epsilon(terms, relation, delta)


def composed_rho(events: tuple[Event, ...], relation: Relation) -> float:
    """Return the zCDP parameter of the composition of `events`; `PrivacyError` where an event has none.

    >>> composed_rho((GaussianEvent(1.0, 4.0), ExponentialEvent(0.1)), Relation.ADD_REMOVE)
    0.0325
    """
    terms = flattened(events)
    rho = Cost.of(terms, relation).rho
    if rho == math.inf:
        without = [term for term in terms if cost(term[0], relation).rho == math.inf]
        raise PrivacyError(f"no zCDP parameter is known for {_kinds(without)}")
    return rho


def _epsilon(terms: Terms, relation: Relation, delta: float) -> float:
    if not terms:
        return 0.0
    total = Cost.of(terms, relation)
    if delta == 0:
        return total.pure
    rules = (_exactly_gaussian,) if total.is_gaussian else _RULES
    bounds = [_finite(rule, terms, total, relation, delta) for rule in rules]
    known = [bound for bound in bounds if bound is not None]
    if not known:
        raise _uncovered(terms)
    return min(known)


# A rule returns a bound on the epsilon of terms at a delta above 0, and None if it does not apply to them.
Rule: TypeAlias = Callable[[Terms, Cost, Relation, float], float | None]


def _finite(rule: Rule, terms: Terms, total: Cost, relation: Relation, delta: float) -> float | None:
    """Return the bound of a rule; infinity where floats do not hold its numbers, as a file may list any events."""
    try:
        with np.errstate(all="ignore"):
            bound = rule(terms, total, relation, delta)
    except (ArithmeticError, ValueError, MemoryError):
        return math.inf
    return math.inf if bound is not None and math.isnan(bound) else bound


def _exactly_gaussian(terms: Terms, total: Cost, relation: Relation, delta: float) -> float:
    return gdp_epsilon(math.sqrt(total.mu_squared), delta)


def _purely(terms: Terms, total: Cost, relation: Relation, delta: float) -> float | None:
    """Epsilons add up at every delta."""
    return total.pure if total.pure < math.inf else None


def _as_gaussian(terms: Terms, total: Cost, relation: Relation, delta: float) -> float | None:
    """Gaussian DP bounds selections too. Of Laplace releases alone the loss distribution is exact."""
    applies = total.mu_squared < math.inf and any(isinstance(e, ExponentialEvent | GaussianEvent) for e, _ in terms)
    return gdp_epsilon(math.sqrt(total.mu_squared), delta) if applies else None


def _concentrated(terms: Terms, total: Cost, relation: Relation, delta: float) -> float | None:
    return zcdp_epsilon(total.rho, delta) if total.rho < math.inf else None


def _by_loss_distribution(terms: Terms, total: Cost, relation: Relation, delta: float) -> float | None:
    """One loss distribution of Gaussian and Laplace releases and Poisson-sampled runs, with fixed parameters.

    Beside such runs a selection counts as the Gaussian release that it is bounded by.
    """
    mu_squared, laplace, poisson = 0.0, dict[float, int](), dict[tuple[float, float], int]()
    sampled = any(isinstance(event, PoissonGaussianEvent) for event, _ in terms)
    for event, count in terms:
        one = cost(event, relation)
        if one.is_gaussian or (isinstance(event, ExponentialEvent) and sampled):
            mu_squared += count * one.mu_squared
        elif isinstance(event, LaplaceEvent):
            scale = event.scale / event.sensitivity
            laplace[scale] = laplace.get(scale, 0) + count
        elif isinstance(event, PoissonGaussianEvent):
            run = event.rate, event.noise_multiplier
            poisson[run] = poisson.get(run, 0) + count * event.steps
        else:
            return None
    runs = tuple(sorted((rate, multiplier, steps) for (rate, multiplier), steps in poisson.items()))
    scales = tuple(sorted(laplace.items()))
    bound = bounded_epsilon(runs, scales, mu_squared, relation, delta)
    if bound is None:
        return loss_distribution_epsilon(runs, scales, math.sqrt(mu_squared), relation, delta)
    return bound if runs else None


def _by_profile(terms: Terms, total: Cost, relation: Relation, delta: float) -> float | None:
    """One release with a profile; beside objective perturbation, Gaussian ones with a fixed share of delta."""
    if len(terms) == 1 and terms[0][1] == 1 and isinstance(event := terms[0][0], RandomStoppingEvent):
        return random_stopping_epsilon(_run_mu(event, relation), delta, r=event.r, eta=event.eta)
    if len(terms) == 1 and terms[0][1] == 1 and isinstance(event := terms[0][0], GaussianSketchEvent):
        return sketch_epsilon(delta, vectors=event.vectors, ratio=event.ratio, relation=relation)
    objectives = [(event, count) for event, count in terms if isinstance(event, _OBJECTIVES)]
    if len(objectives) != 1 or objectives[0][1] != 1:
        return None
    ((event, _),) = objectives
    rest = [term for term in terms if term[0] is not event]
    gaussian = Cost.of(rest, relation)
    if not has_profile(event, relation) or not gaussian.is_gaussian:
        return None
    share = OUTPUT_SHARE if gaussian.mu_squared > 0 else 0.0
    own = objective_perturbation_epsilon((1 - share) * delta, **_objective(event), relation=relation)
    return own + (gdp_epsilon(math.sqrt(gaussian.mu_squared), share * delta) if rest else 0.0)


def _by_basic_composition(terms: Terms, total: Cost, relation: Relation, delta: float) -> float | None:
    """The (epsilon, delta) of two groups add up (Dwork & Roth 2014, Thm 3.16), at each of `DELTA_SHARES`.

    A release with a profile and releases with a Gaussian-DP parameter are composed more tightly (`joint`).
    """
    first, rest = in_two_groups(terms, relation)
    if not (first and rest):
        return None
    own = first[0][0] if has_profile(first[0][0], relation) else None
    if own is not None and sum(count for _, count in first) != 1:
        return None
    if own is None and all(isinstance(event, GaussianEvent | LaplaceEvent) for event, _ in rest):
        return None  # one loss distribution of all is smaller
    # The epsilon by which a single fit was calibrated stays its cost: the bound below could be a thousandth smaller.
    calibrated = _by_profile(terms, total, relation, delta)
    worth = math.inf if calibrated is None else 0.99 * calibrated
    if calibrated is not None and _epsilon(first, relation, delta) >= worth:
        return math.inf  # with the rest it costs no less; the bounds below take seconds
    try:
        bounds = [
            _epsilon(first, relation, share * delta) + _epsilon(rest, relation, (1 - share) * delta)
            for share in DELTA_SHARES
        ]
    except PrivacyError:  # no rule covers a group
        raise _uncovered(terms) from None
    mu_squared = Cost.of(rest, relation).mu_squared
    if own is not None and mu_squared < math.inf:
        bounds.append(joint_epsilon(profile, own, relation, math.sqrt(mu_squared), delta, at_most=min(bounds)))
    return min((bound for bound in bounds if bound < worth), default=math.inf)


_RULES: tuple[Rule, ...] = (
    _purely,
    _as_gaussian,
    _concentrated,
    _by_profile,
    _by_loss_distribution,
    _by_basic_composition,
)


def in_two_groups(terms: Terms, relation: Relation) -> tuple[Terms, Terms]:
    """Separate the releases without a number that adds up from all others.

    The first group holds the releases with a profile or, if there are none, the Poisson-sampled runs.

    >>> terms = [(GaussianEvent(1.0, 4.0), 3), (PoissonGaussianEvent(0.1, 2.0, 50), 1)]
    >>> first, rest = in_two_groups(terms, Relation.ADD_REMOVE)
    >>> len(first), rest[0][1]
    (1, 3)
    """
    own = [term for term in terms if has_profile(term[0], relation)]
    first = own or [term for term in terms if is_subsampled(term[0])]
    return first, [term for term in terms if term not in first]


def has_profile(event: Event, relation: Relation) -> bool:
    """Return whether a release has a privacy profile, and no cost in a measure that adds up.

    >>> has_profile(GaussianEvent(1.0, 4.0), Relation.ADD_REMOVE)
    False
    """
    if isinstance(event, RandomStoppingEvent | GaussianSketchEvent):
        return True
    return isinstance(event, _OBJECTIVES) and not cost(event, relation).is_gaussian


def profile(event: Event, relation: Relation, epsilon: float) -> float:
    """Return the delta that a release with a privacy profile is certified for at `epsilon` >= 0.

    >>> event = RandomStoppingEvent(GaussianEvent(1.0, 10.0), r=1 / 64)
    >>> f"{profile(event, Relation.ADD_REMOVE, 1.0):.1e}"
    '2.9e-07'
    """
    if isinstance(event, RandomStoppingEvent):
        return random_stopping_delta(_run_mu(event, relation), epsilon, r=event.r, eta=event.eta)
    if isinstance(event, GaussianSketchEvent):
        return sketch_delta(epsilon, vectors=event.vectors, ratio=event.ratio, relation=relation)
    return objective_perturbation_delta(epsilon, **_objective(event), relation=relation)


def _run_mu(event: RandomStoppingEvent, relation: Relation) -> float:
    """Gaussian-DP parameter of one run."""
    run = Cost.of(flattened((event.event,)), relation)
    if not run.is_gaussian:
        raise PrivacyError("random stopping is certified only for runs of Gaussian releases")
    return math.sqrt(run.mu_squared)


def _objective(event: Event) -> dict[str, Any]:
    one, rows = (event.event, event.rows) if isinstance(event, GroupEvent) else (event, 1)
    assert isinstance(one, ObjectivePerturbationEvent)
    return {"bound": one.bound, "sigma": one.sigma, "regulariser": one.regulariser, "rows": rows}


def _kinds(terms: Terms) -> str:
    return ", ".join(sorted({type(event).__name__ for event, _ in terms}))


def _uncovered(terms: Terms) -> PrivacyError:
    return PrivacyError(f"no accountant covers the composition of {_kinds(terms)}: such a mix is not certified")


Measure: TypeAlias = Literal["gdp", "zcdp"]
MEASURES: tuple[Measure, ...] = ("gdp", "zcdp")


@dataclass(frozen=True)
class CompositionBudget:
    """A budget for selections and Gaussian releases whose parameters follow from earlier answers, in one measure.

    zCDP charges a selection less, and is less tight where rho is converted to (epsilon, delta); Gaussian DP is the
    other way round.

    Attributes
    ----------
    measure : {"gdp", "zcdp"}
    total : float
        Squared mu, or rho.

    Examples
    --------
    >>> zcdp = CompositionBudget.of(1.0, 1e-5, "zcdp")
    >>> round(zcdp.total, 6), zcdp.gaussian(0.1), zcdp.selection(0.1)
    (0.030557, 0.005000000000000001, 0.0012500000000000002)
    """

    measure: Measure
    total: float

    @classmethod
    def of(cls, epsilon: float, delta: float, measure: Measure) -> CompositionBudget:
        """Return the largest budget that implies (epsilon, delta)-DP, less what rounding may take."""
        total = zcdp_rho(epsilon, delta) if measure == "zcdp" else gdp_mu(epsilon, delta) ** 2
        return cls(measure, total * (1 - 1e-12))

    def gaussian(self, ratio: float) -> float:
        """Return the cost of a Gaussian release of sensitivity/sigma = `ratio`."""
        return ratio**2 / 2 if self.measure == "zcdp" else ratio**2

    def selection(self, epsilon: float) -> float:
        """Return the cost of an exponential mechanism."""
        return epsilon**2 / 8 if self.measure == "zcdp" else bounded_range_mu(epsilon) ** 2

    def largest(self, cost_of: Callable[[float], float], budget: float) -> float:
        """Return the largest x with ``cost_of(x) <= budget``; the cost rises from 0 without bound.

        >>> round(CompositionBudget("gdp", 1.0).largest(lambda x: 4 * x**2, 1.0), 9)
        0.5
        """
        upper = 1.0
        while cost_of(upper) <= budget:
            upper *= 2
        while cost_of(upper / 2) > budget:
            upper /= 2
        x = root(lambda x: cost_of(x) - budget, upper / 2, upper)
        while cost_of(x) > budget:  # only by rounding
            x *= 1 - 1e-15
        return x


def best_measure(
    epsilon: float,
    delta: float,
    noise_ratio: Callable[[CompositionBudget], float],
    measures: Sequence[Measure] = MEASURES,
) -> CompositionBudget:
    """Return the budget in the measure that allows the larger sensitivity/sigma; only public numbers decide.

    >>> for release in (CompositionBudget.gaussian, CompositionBudget.selection):
    ...     best_measure(1.0, 1e-5, lambda b: b.largest(lambda x: release(b, x), b.total)).measure
    'gdp'
    'zcdp'
    """
    return max((CompositionBudget.of(epsilon, delta, measure) for measure in measures), key=noise_ratio)
