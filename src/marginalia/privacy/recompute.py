"""A second accountant, which shares no code of this library with the first: what a certificate is checked against.

Compositions are priced by privacy loss distributions (dp-accounting; Doroshenko et al. 2022 for the discretisation),
on a grid of its own and selections included, or by Rényi divergences order by order where these are smaller or the
distribution would be too large. Objective perturbation and random stopping are integrated numerically; beside other
releases, the loss distribution that goes with their profile is composed with that of the rest. The probabilities of
failures come off delta.

**Selections.** A release of e-bounded range has, between neighbours, a loss in [t - e, t] for some t in [0, e]. Of all
pairs of laws with such losses the pair with the two losses t - e and t dominates: a hockey-stick divergence averages a
convex function of the likelihood ratio, whose mean is fixed. Its trade-off function is a polygon with its corner at
((e^t - 1)/(e^e - 1), (e^(e-t) - 1)/(e^e - 1)) (Dong, Durfee & Rogers 2020). With c = 1/(e^e - 1) the corners lie on
f(a) = c(1+c)/(a+c) - c; f is convex and meets each polygon at (0, 1), the corner and (1, 0), so each polygon lies above
it. So f bounds the release whatever t is, hence also where t depends on what was released before, and compositions of
f bound adaptive compositions. In terms of the loss f is δ(s) = c·(e^(e/2) - e^(s/2))², |s| ≤ e: this is composed here.

**Gaussian DP of selections.** f is bounded by Gaussian DP with mu(e) = 2Φ⁻¹(e^(e/2)/(1 + e^(e/2))). The two have the
same δ(0). With L the loss and Q the second law of a pair, δ'(s) = -e^s·Q(L > s); so the derivative of
d = δ_Gauss - δ_f has the sign of h(s) = Q_f(L > s) - Q_Gauss(L > s), and h(0) = h(∞) = 0. On (0, e) the densities of L
under Q, Gaussian over f, have a ratio proportional to exp(-s²/2mu²), which falls; beyond e only the Gaussian has mass.
So h rises at most up to some point, then falls, and h(e) < 0. Were it negative throughout, d would fall from d(0) = 0
to its limit 0, which cannot be. So h is first positive, then negative: d rises from 0, then falls to 0, and
δ_f ≤ δ_Gauss for s ≥ 0; for s < 0 too, as both trade-off functions are symmetric. (So what is certified in Gaussian DP
is confirmed here.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import PrivacyError
from marginalia.privacy import checks
from marginalia.privacy.events import (
    CompositionEvent,
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
)
from marginalia.privacy.relation import Relation

# Relative excess over the first accountant's answer that discretisation may cause, and that confirms it all the same.
AGREEMENT = 1e-3

_FINE = 0.024  # width of the loss grid in standard deviations of the loss of one release: adds 1.5e-4 to the variance
_CELLS = 1_000_000
_FEW_CELLS = 20_000
_FINEST, _COARSEST = 20_000, 1000  # cells up to epsilon, where the releases are composed with one more
_LARGEST_LOSS = 150.0
_MOST_NATS, _MOST_RELEASES = 3000.0, 10**7  # of Poisson samples: a file may list more, which no memory holds
_LONGEST_CHAIN = 1000  # of neighbours between two tables
_ORDERS = 1 + np.exp(np.linspace(math.log(1e-4), math.log(1e6), 3000))
Array = NDArray[np.float64]
_Key: TypeAlias = tuple[float, tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]


@dataclass
class _Composition:
    """What composes, by kind: parameters and how often."""

    mu: float = 0.0
    laplace: Counter[float] = field(default_factory=Counter)  # by scale / sensitivity
    selections: Counter[float] = field(default_factory=Counter)  # by e
    poisson: Counter[tuple[float, float]] = field(default_factory=Counter)  # by rate and noise multiplier

    @property
    def key(self) -> _Key:
        """All of it, in order, as what a cache can remember."""
        counted = (self.laplace, self.selections, self.poisson)
        laplace, selections, poisson = (tuple(sorted(kind.items())) for kind in counted)
        return self.mu, laplace, selections, poisson


def recomputed_epsilon(events: tuple[Event, ...], relation: Relation, delta: float, k: int = 1) -> float:
    """Return the smallest epsilon at `delta` (in [0, 1)) that this accountant certifies for `events`.

    Infinity where delta is 0 and the events are not purely private. A file may list any events: what floats do not hold
    is not covered.

    Raises
    ------
    PrivacyError
        It does not cover the events, or one of them is not for units of up to `k` rows.

    Examples
    --------
    >>> round(recomputed_epsilon((GaussianEvent(1.0, 4.0), ExponentialEvent(0.1)), Relation.ADD_REMOVE, 1e-5), 3)
    0.952
    """
    delta = delta and checks.open_unit("delta", delta)
    try:
        with np.errstate(all="ignore"):
            epsilon = _recomputed(events, relation, delta, k)
    except (ArithmeticError, ValueError, LookupError, MemoryError):
        epsilon = math.nan
    if math.isnan(epsilon):
        raise PrivacyError("not independently recomputed: its numbers leave the range that floats hold")
    return epsilon


def recomputed_filter(
    events: tuple[Event, ...],
    relation: Relation,
    budget: tuple[float, float],
    reserve: tuple[float, float],
    k: int = 1,
) -> tuple[float, float, float]:
    """Return what releases that were chosen one by one cost: first part, and epsilon and delta of the reserve.

    The two parts of `budget`, and which release is charged to which, are defined in `privacy.filters`.

    Raises
    ------
    PrivacyError
        An event is not for units of up to `k` rows.

    Examples
    --------
    >>> events = (GaussianEvent(1.0, 4.0), LaplaceEvent(1.0, 2.0))
    >>> first, *of_reserve = recomputed_filter(events, Relation.ADD_REMOVE, (2.0, 1e-5), (1.0, 0.0))
    >>> round(first, 3), of_reserve
    (0.926, [0.5, 0.0])
    """
    most = (budget[0] - reserve[0], budget[1] - reserve[1])
    largest = 0.0  # squared Gaussian-DP parameter that the first part allows
    if min(most) > 0:
        upper = 1.0
        while _of_mu(upper, most[1]) < most[0]:
            upper *= 2
        largest = _bisected(lambda mu: _of_mu(mu, most[1]) - most[0], 0.0, upper) ** 2
    squared = epsilon = delta = 0.0
    for event in events:
        _check_rows((event,), k)
        flat = [part for part in _flattened((event,)) if not isinstance(part[0], FailureEvent)]
        delta += math.fsum(n * e.probability for e, n in _flattened((event,)) if isinstance(e, FailureEvent))
        if not flat:
            continue
        release = tuple(CompositionEvent((part,), n) for part, n in flat)
        pure = recomputed_epsilon(release, relation, 0.0, k)
        squares = [_squared_mu(part, relation) for part, _ in flat]
        added = math.fsum(n * one for (_, n), one in zip(flat, squares, strict=True)) if largest else math.inf
        if math.isfinite(added) and not (epsilon + pure <= reserve[0] and pure * largest < added * reserve[0]):
            squared += added
        elif math.isfinite(pure):
            epsilon += pure
        else:
            half = max(0.0, reserve[1] - delta) / 2
            epsilon += recomputed_epsilon(release, relation, half, k) if half and reserve[0] else math.inf
            delta += half
    return _of_mu(math.sqrt(squared), most[1]), epsilon, delta


def _squared_mu(event: Event, relation: Relation) -> float:
    """Return the squared Gaussian-DP parameter of a release; infinity where none is known."""
    e = 2 * event.sensitivity / event.scale if isinstance(event, LaplaceEvent) else _pure(event)
    if e is not None:
        from scipy.special import expit, ndtri

        return float(4 * ndtri(expit(-e / 2)) ** 2) if e < 1000 else 4 * e
    try:
        parts = _sorted_out([(event, 1)], relation)
    except PrivacyError:
        return math.inf
    return math.inf if parts.poisson else parts.mu**2


def _of_mu(mu: float, delta: float) -> float:
    """Return the epsilon at `delta` of Gaussian DP (Balle and Wang 2018, theorem 8)."""
    from scipy.special import log_ndtr, ndtr

    if mu == 0 or not mu < 1e3:  # a file may list any events
        return math.inf if mu else 0.0

    def excess(epsilon: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))) - delta

    return _bisected(lambda epsilon: -excess(epsilon), 0.0, mu * (mu / 2 + 40)) if excess(0.0) > 0 else 0.0


def _bisected(rising: Callable[[float], float], lower: float, upper: float) -> float:
    """Return the smallest number, to the last bits, where a function that rises from below 0 is not below 0."""
    while (middle := (lower + upper) / 2) not in (lower, upper):
        lower, upper = (middle, upper) if rising(middle) < 0 else (lower, middle)
    return upper


def _check_rows(events: tuple[Event, ...], k: int) -> None:
    for event, _ in _flattened(events):
        if (rows := _most_rows(event)) < k:
            kind = type(event).__name__
            raise PrivacyError(
                f"not independently recomputed: {kind} for {rows:g} row{'s' * (rows > 1)}, where a unit has up to {k}"
            )


def _recomputed(events: tuple[Event, ...], relation: Relation, delta: float, k: int) -> float:
    _check_rows(events, k)
    every = _flattened(events)
    flat = [part for part in every if not isinstance(part[0], FailureEvent)]
    delta -= math.fsum(n * event.probability for event, n in every if isinstance(event, FailureEvent))
    if delta < 0 or (delta == 0 and len(flat) < len(every)):
        return math.inf
    if not flat:
        return 0.0
    pure = [_pure(event) for event, _ in flat]
    total = math.fsum(count * one for (_, count), one in zip(flat, pure, strict=True)) if None not in pure else math.inf
    if delta == 0:
        return total
    if (alone := _alone(flat, relation, delta)) is not None:
        return alone
    return min(total, _composed(_sorted_out(flat, relation), relation, delta))


def _flattened(events: tuple[Event, ...]) -> list[tuple[Event, int]]:
    """Return every event that composes no others, with the number of times it ran, in order."""
    found: list[tuple[Event, int]] = []
    waiting = [(event, 1) for event in reversed(events)]
    while waiting:
        event, times = waiting.pop()
        if isinstance(event, CompositionEvent):
            waiting += [(inner, times * event.count) for inner in reversed(event.events)]
        else:
            found.append((event, times))
    return found


def _most_rows(event: Event) -> float:
    """Return the largest unit, in rows, that an event is for; infinity where its sensitivity is that of any unit."""
    match event:
        case ObjectivePerturbationEvent() | GaussianSketchEvent():
            return 1
        case GroupEvent(rows=rows):
            return rows
        case RandomStoppingEvent(event=run):
            return min((_most_rows(inner) for inner, _ in _flattened((run,))), default=math.inf)
    return math.inf


def _pure(event: Event) -> Any:
    if isinstance(event, LaplaceEvent):
        return event.sensitivity / event.scale
    return event.epsilon if isinstance(event, ExponentialEvent) else None


def _sorted_out(flat: list[tuple[Event, int]], relation: Relation) -> _Composition:
    found, squares = _Composition(), [0.0]
    for event, count in flat:
        match event:
            case GaussianEvent(sensitivity=moved, sigma=sigma):
                squares.append(count * (moved / sigma) ** 2)
            case PoissonGaussianEvent(rate=1, noise_multiplier=multiplier, steps=steps):
                squares.append(count * steps * (relation.units / multiplier) ** 2)
            case ObjectivePerturbationEvent(bound=bound, sigma=sigma, regulariser=reg) if reg >= 2 * sigma**2:
                squares.append(count * (relation.units * bound / sigma) ** 2)
            case GroupEvent(event=of, rows=rows) if of.regulariser >= 2 * of.sigma**2:
                squares.append(count * (relation.units * rows * of.bound / of.sigma) ** 2)
            case LaplaceEvent(sensitivity=moved, scale=scale):
                found.laplace[scale / moved] += count
            case ExponentialEvent(epsilon=e):
                found.selections[e] += count
            case PoissonGaussianEvent(rate=rate, noise_multiplier=multiplier, steps=steps):
                found.poisson[(rate, multiplier)] += count * steps
            case _:
                raise PrivacyError(f"not independently recomputed: {type(event).__name__} beside other releases")
    found.mu = math.sqrt(math.fsum(squares))
    return found


def _composed(parts: _Composition, relation: Relation, delta: float) -> float:
    return _priced(parts.key, relation, delta)


@lru_cache(maxsize=8192)  # runs that differ in the order of their releases, or in what these are of, cost the same
def _priced(key: _Key, relation: Relation, delta: float) -> float:
    parts = _Composition(key[0], *map(Counter, map(dict, key[1:])))
    return min(_by_orders(parts, delta), _by_loss_distribution(parts, relation, delta))


def _is_too_large(rate: float, multiplier: float, steps: int) -> bool:
    """Whether Poisson samples lose more, in one release at ten deviations or in all on average, than a grid holds."""
    mu = 1 / multiplier
    average = steps * rate**2 * math.expm1(min(mu**2, 700.0)) / 2
    return steps > _MOST_RELEASES or mu * (10 + mu) > _MOST_NATS or average > _MOST_NATS


Profile = Callable[[float], float]  # smallest delta at epsilon >= 0


def _by_loss_distribution(
    parts: _Composition, relation: Relation, delta: float, beside: tuple[Profile, float] | None = None
) -> float:
    # `beside`: the profile of one release more, and the epsilon that it has at `delta`.
    if parts.mu**2 / 2 + sum(n / b for b, n in parts.laplace.items()) > _LARGEST_LOSS:
        return math.inf
    if sum(n * e for e, n in parts.selections.items()) > 20 * _LARGEST_LOSS:
        return math.inf
    if any(_is_too_large(rate, multiplier, steps) for (rate, multiplier), steps in parts.poisson.items()):
        return math.inf
    if max([*parts.laplace.values(), *parts.selections.values()], default=0) > _MOST_RELEASES:
        return math.inf
    width = _width(parts)
    if beside is not None:  # neither finer nor coarser than the loss of the one release more has a use for
        width = min(max(width, beside[1] / _FINEST), beside[1] / _COARSEST)
    total = _distribution(parts.key, relation, width)
    if beside is not None:
        total = total.compose(_of_profile(*beside, width))
    return float(total.get_epsilon_for_delta(delta))


@lru_cache(maxsize=1)  # the same releases are asked for at several delta, one after the other
def _distribution(key: _Key, relation: Relation, width: float) -> Any:
    """Return the loss distribution of a composition on a grid."""
    from dp_accounting.pld import privacy_loss_distribution as library
    from dp_accounting.privacy_accountant import NeighboringRelation

    neighbours = NeighboringRelation.ADD_OR_REMOVE_ONE
    if relation is Relation.REPLACE_ONE:
        neighbours = NeighboringRelation.REPLACE_ONE
    mu, laplace, selections, poisson = key
    parts = [_gaussian(mu, width)] if mu > 0 else []
    for (rate, multiplier), steps in poisson:
        one = library.from_gaussian_mechanism(
            multiplier, value_discretization_interval=width, sampling_prob=rate, neighboring_relation=neighbours
        )
        parts.append(one.self_compose(steps))
    for scale, count in laplace:
        parts.append(library.from_laplace_mechanism(scale, value_discretization_interval=width).self_compose(count))
    for e, count in selections:
        one = _selection(e, width)
        few = 2 * count * e / width <= _FEW_CELLS
        parts.append(_doubled(one, count) if few else one.self_compose(count))
    if not parts:
        return library.identity(value_discretization_interval=width)
    return reduce(lambda total, one: total.compose(one), parts)


def _gaussian(mu: float, width: float) -> Any:
    """Return the loss distribution of a Gaussian release, N(mu²/2, mu²), on a grid that leaves out a mass of 1e-21."""
    from scipy.special import log_ndtr, ndtr

    cells = np.arange(math.floor((mu / 2 - 9.6) * mu / width), math.ceil((mu / 2 + 9.6) * mu / width) + 1)
    s = cells * width
    return _on_grid(width, cells, ndtr(mu / 2 - s / mu) - np.exp(s + log_ndtr(-mu / 2 - s / mu)))


def _doubled(one: Any, count: int) -> Any:
    """Compose a loss distribution of few cells with itself: the library's bounds on its tails would take longer."""
    power, total = one, None
    while count:
        if count % 2:
            total = power if total is None else total.compose(power)
        count //= 2
        power = power.compose(power) if count else power
    return total


def _selection(e: float, width: float) -> Any:
    """Return the loss distribution of a release of e-bounded range (see the top of this file) on a grid."""
    last = math.ceil(e / width)
    cells = np.arange(-last, last + 1)
    s = np.clip(cells * width, -e, e)
    profile = np.expm1((e - s) / 2) ** 2 * np.exp(s) / math.expm1(e)
    below = cells * width < -e  # beyond the smallest loss nothing but the whole first law is left
    profile = np.where(below, -np.expm1(cells * width), profile)
    return _on_grid(width, cells, profile)


def _of_profile(profile: Profile, reach: float, width: float) -> Any:
    """Return a loss distribution whose profile is no smaller than `profile`, which holds for both orders of neighbours.

    Below 0 it is 1 - e^s (1 - profile(-s)). In terms of x = e^s a profile is convex, so the lower hull of some of its
    points lies above it between them, and so it does where the points are those of a bound that is not convex itself.
    """
    while profile(reach) > 1e-30 and reach < 1e3:
        reach *= 1.25
    s, y = _lower_hull(profile, reach, 2000)
    last = math.ceil(reach / width)
    cells = np.arange(-last, last + 1)
    values = np.interp(np.exp(cells * width), np.exp(s), y)
    values = np.where(cells * width < s[0], -np.expm1(cells * width), values)
    return _on_grid(width, cells, values)


def _lower_hull(profile: Profile, reach: float, size: int) -> tuple[Array, Array]:
    """Return the losses from -`reach` to `reach`, and the values, of the lower hull of a profile in terms of e^loss."""
    right = np.linspace(0.0, reach, size)
    above = np.array([profile(s) for s in right.tolist()])
    s = np.concatenate([-right[:0:-1], right])
    y = np.concatenate([1 - np.exp(-right[:0:-1]) * (1 - above[:0:-1]), above])
    hull: list[int] = []
    x = np.exp(s)
    for i in range(s.size):
        while len(hull) > 1 and (
            (y[(m := hull[-1])] - y[(k := hull[-2])]) * (x[i] - x[k]) >= (y[i] - y[k]) * (x[m] - x[k])
        ):
            hull.pop()  # it lies on or above the line between its neighbours
        hull.append(i)
    return s[hull], y[hull]


def _on_grid(width: float, cells: NDArray[np.int64], profile: Array) -> Any:
    """Return the loss distribution that connects the points of a profile at the edges of a grid."""
    from dp_accounting.pld.pld_pmf import create_pmf_pessimistic_connect_dots_fixed_gap
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    profile = np.clip(profile, 0, 1)
    return PrivacyLossDistribution(create_pmf_pessimistic_connect_dots_fixed_gap(width, cells[0], cells[-1], profile))


def _width(parts: _Composition) -> float:
    """Return the width of the loss grid: a small share of the deviation of the loss of one release."""
    single = [(parts.mu, 1, parts.mu**2 / 2 + 12 * parts.mu)] if parts.mu > 0 else []
    single += [(min(1 / b, 1.0), n, 1 / b) for b, n in parts.laplace.items()]
    single += [(min(e / 2, 1.0), n, e) for e, n in parts.selections.items()]
    for (rate, multiplier), n in parts.poisson.items():
        spread = rate * math.sqrt(math.expm1(min(multiplier**-2, 50.0)))
        reach = math.log1p(rate * math.expm1(min(2 * (10 / multiplier + multiplier**-2), 700.0)))
        single.append((min(spread, 1.0), n, reach))
    releases = sum(n for _, n, _ in single)
    spread = math.sqrt(sum(n * s**2 for s, n, _ in single))
    reach = max(max(r for *_, r in single), 20 * spread + spread**2)
    return max(_FINE * spread / math.sqrt(releases), reach / _CELLS)


def _by_orders(parts: _Composition, delta: float) -> float:
    """Rényi divergences added up at each order; the conversion and its smallest order by dp-accounting."""
    if parts.poisson:
        return math.inf
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    divergence = _ORDERS * parts.mu**2 / 2
    for b, count in parts.laplace.items():
        divergence = divergence + count * _laplace_divergence(1 / b)
    for e, count in parts.selections.items():
        divergence = divergence + count * _ORDERS * e**2 / 8  # Cesar & Rogers 2021, Lemma 3.2
    return float(compute_epsilon(_ORDERS.tolist(), divergence.tolist(), delta)[0])


def _laplace_divergence(e: float) -> Array:
    """Mironov 2017, Table II, for means a distance of e scales apart."""
    a = _ORDERS
    up, down = np.log(a / (2 * a - 1)) + (a - 1) * e, np.log((a - 1) / (2 * a - 1)) - a * e
    return np.maximum(np.logaddexp(up, down) / (a - 1), 0.0)


def _alone(flat: list[tuple[Event, int]], relation: Relation, delta: float) -> float | None:
    """Price what has a statement for one epsilon at a time; None where there is no such event."""
    special = [part for part in flat if _is_special(part[0])]
    if not special:
        return None
    (event, count), *more = special
    rest = _sorted_out([part for part in flat if not _is_special(part[0])], relation)
    if more or count > 1:
        kinds = ", ".join(sorted({type(e).__name__ for e, _ in flat}))
        raise PrivacyError(f"not independently recomputed: the composition of {kinds}")
    profile = _profile(event, relation)
    if len(flat) == 1:
        return _smallest(profile, delta)
    shares = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9)  # basic composition: of delta, what goes to the rest
    apart = min(_smallest(profile, (1 - s) * delta) + _composed(rest, relation, s * delta) for s in shares)
    return min(apart, _by_loss_distribution(rest, relation, delta, (profile, _smallest(profile, delta))))


def _is_special(event: Event) -> bool:
    one = event.event if isinstance(event, GroupEvent) else event
    weak = isinstance(one, ObjectivePerturbationEvent) and one.regulariser < 2 * one.sigma**2
    return weak or isinstance(event, RandomStoppingEvent | GaussianSketchEvent)


def _profile(event: Event, relation: Relation) -> Profile:
    match event:
        case ObjectivePerturbationEvent(bound=bound, sigma=sigma, regulariser=regulariser):
            one = _objective_profile(bound / sigma, bound**2 / (4 * regulariser))
            if relation is Relation.ADD_REMOVE:
                return one
            return lambda eps: (1 + math.exp(min(eps / 2, 700.0))) * one(eps / 2)  # group privacy
        case GroupEvent(event=of, rows=rows):
            one = _objective_profile(of.bound / of.sigma, of.bound**2 / (4 * of.regulariser))
            return _of_chain(one, rows * int(relation.units))
        case RandomStoppingEvent(event=run, r=r, eta=eta):
            inner = _sorted_out(_flattened((run,)), relation)
            if inner.laplace or inner.selections or inner.poisson:
                raise PrivacyError("not independently recomputed: random stopping of runs that are not Gaussian")
            return _stopping_profile(inner.mu, r, eta)
        case GaussianSketchEvent(vectors=vectors, ratio=ratio):
            return _sketch_profile(vectors, ratio, relation)
    raise PrivacyError(f"not independently recomputed: {type(event).__name__}")


@lru_cache(maxsize=16)  # of 700 kB; the methods of a sweep have few privacy budgets
def _objective_profile(tau: float, kappa: float) -> Callable[[float], float]:
    """Return E[(1 - e^(eps - g(Y)))₊], Y ~ N(0, τ²), as a function of eps: a plain sum over a grid of Y.

    g(Y) is the largest of a·Y + a²τ²/2 + ln(1 + 4a(1-a)κ) over a in [0, 1]; see
    `marginalia.privacy.objective_cost`. It never falls with Y, so the sum runs over the end of the grid, and is
    kept for each point where it may begin.
    """
    a = np.linspace(0.0, 1.0, 1001)
    y = np.linspace(-3.0, 14.0, 17_001)
    height = (a * tau) ** 2 / 2 + np.log1p(4 * a * (1 - a) * kappa)
    loss = np.concatenate([np.max(np.outer(part * tau, a) + height, axis=1) for part in np.array_split(y, 20)])
    weight = np.exp(-(y**2) / 2) * (y[1] - y[0]) / math.sqrt(2 * math.pi)
    weight[0] += 0.00134989803163  # Φ(-3), at a loss that is larger than any there
    # From point i on: the sums of w_j, and of w_j·e^(loss_i - loss_j).
    beyond, tilted = np.cumsum(weight[::-1])[::-1], weight.copy()
    for i in range(len(y) - 2, -1, -1):
        tilted[i] += math.exp(loss[i] - loss[i + 1]) * tilted[i + 1]

    def profile(eps: float) -> float:
        i = int(np.searchsorted(loss, eps, side="right"))
        return max(float(beyond[i] - math.exp(eps - loss[i]) * tilted[i]), 0.0) if i < len(y) else 0.0

    return profile


def _of_chain(one: Profile, steps: int) -> Profile:
    """Return a bound on the profile of two laws that so many neighbours lie between, each with the profile `one`.

    By tests: of level a, the largest power is F(a) <= min over x of δ(x) + e^x·a, so that of the ends of a chain is at
    most F(F(…F(a))). The losses x that are chosen along the way, from any first level, make a line A + e^E·a, E their
    sum, that bounds the power at every level: δ(E) <= A. Each level gives a point of the profile.
    """
    from scipy.special import ndtr

    if steps > _LONGEST_CHAIN:
        raise PrivacyError(f"not independently recomputed: groups of more than {_LONGEST_CHAIN} records")
    reach = 1e-3
    while one(reach) > 1e-100 and reach < 300.0:
        reach *= 1.25
    x, y = _lower_hull(lambda s: max(one(s), 1e-43), reach, 6000)  # no sum over a grid knows less: it is multiplied
    slope = np.diff(y) / np.diff(np.exp(x))  # it rises
    level = ndtr(np.linspace(-22.0, 8.0, 40_000))
    power, loss = np.zeros_like(level), np.zeros_like(level)
    for _ in range(steps):
        at = np.searchsorted(slope, -level)
        power, level = y[at] + np.exp(x[at]) * power, y[at] + np.exp(x[at]) * level
        loss += x[at]
    order = np.argsort(loss)
    loss, smallest = loss[order], np.minimum.accumulate(power[order])

    def profile(eps: float) -> float:
        i = int(np.searchsorted(loss, eps, side="right"))
        if not 0 < i < len(loss):
            return float(smallest[-1]) if i else 1.0
        share = math.expm1(eps - loss[i - 1]) / math.expm1(loss[i] - loss[i - 1])  # a profile is convex in e^eps
        return min(1.0, float((1 - share) * smallest[i - 1] + share * smallest[i]))

    return profile


def _stopping_profile(mu: float, r: float, eta: float) -> Callable[[float], float]:
    """Return the bound of `marginalia.privacy.stopping_cost`, its inner minimum taken over a grid."""
    from scipy.stats import norm

    def gaussian(e: Any) -> Any:
        return norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu)

    grid = mu * np.linspace(0.0, 12.0, 200_001)
    ratio = float(np.log(np.exp(grid) + (1 / r - 1) * gaussian(grid)).min())
    mean = (1 - r) / (-r * math.log(r)) if eta == 0 else eta * (1 - r) / r / (1 - r**eta)

    def profile(eps: float) -> float:
        left = eps - (eta + 1) * ratio
        return mean * float(gaussian(left)) if left >= 0 else 1.0

    return profile


@lru_cache(maxsize=16)
def _sketch_profile(vectors: int, ratio: float, relation: Relation) -> Profile:
    """Return the profile of normal vectors of variance 1, and of 1 + `ratio` in one direction.

    With a record replaced, the two tables differ so in two directions, one each: the mean over what is drawn in the
    first, by Gauss-Legendre quadrature, of the profile of the second.
    """
    from scipy.stats import chi2, gamma

    a = 1 + ratio
    narrow, wide = gamma(vectors / 2, scale=2), gamma(vectors / 2, scale=2 * a)  # of the squared lengths
    half = vectors / 2 * math.log(a)

    def longer(eps: Any) -> Any:  # more likely under the wide law by more than e^eps
        length = 2 * a * (eps + half) / ratio
        return wide.sf(length) - np.exp(eps) * narrow.sf(length)

    def shorter(eps: float) -> float:
        length = 2 * a * (half - eps) / ratio
        return float(narrow.cdf(length) - math.exp(eps) * wide.cdf(length))

    if relation is Relation.ADD_REMOVE:
        return lambda eps: max(float(longer(eps)), shorter(eps), 0.0)
    nodes, weights = np.polynomial.legendre.leggauss(600)
    lower, upper = chi2.ppf(1e-28, vectors), chi2.isf(1e-28, vectors)
    drawn = lower + (nodes + 1) * (upper - lower) / 2
    weights = weights * (upper - lower) / 2 * chi2.pdf(drawn, vectors)
    losses = half - drawn * ratio / (2 * a)
    return lambda eps: max(float(weights @ longer(eps - losses)), 0.0)


def _smallest(profile: Callable[[float], float], delta: float) -> float:
    """Return the epsilon above which the profile stays at most `delta`, by bisection."""
    if profile(0.0) <= delta:
        return 0.0
    lower, upper = 0.0, 1.0
    while profile(upper) > delta:
        lower, upper = upper, 2 * upper
        if upper > 1e6:
            return math.inf
    for _ in range(60):
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if profile(middle) <= delta else (middle, upper)
    return upper
