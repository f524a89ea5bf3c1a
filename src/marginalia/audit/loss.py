"""The privacy loss that a replay shows, beside what the ledger charges.

Along one transcript the mechanisms of two neighbours are known laws: Gaussians and Laplaces around two exact values,
and two laws of each selection. What tells them apart is computed from these, without sampling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr
from scipy.stats import chi2

from marginalia.audit.findings import Finding
from marginalia.audit.replay import TOLERANCE, Pair, change, relative_variances
from marginalia.privacy.costs import composed_epsilon
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
    flattened,
    is_subsampled,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import MechanismCall
from marginalia.privacy.relation import Relation
from marginalia.privacy.stopping_cost import random_stopping_epsilon

Array = NDArray[np.float64]
_BINS = 24  # of the continuous part of a Laplace loss
_PIECES, _LEAST = 60, 1e-300  # of the squared lengths of a sketch
_STEP = 1e-4  # of the grid on which losses of selections are added up
_MOST_PAIRS = 3  # whose loss is computed
_LEVELS = 20  # of the attained share of a Poisson-sampled gradient, rounded down


@dataclass(frozen=True)
class LossEstimate:
    """What the worst pair attains.

    >>> LossEstimate(epsilon=0.95, mu=0.25, share=0.95).mu
    0.25
    """

    epsilon: float  # the smallest one with which the worst pair agrees, at the delta of the budget
    mu: float  # root of the sum of squared (change/sigma) of the Gaussian releases
    share: float  # of the certified epsilon


def transcript_epsilon(mu: float, losses: Sequence[tuple[Array, Array]], delta: float) -> float:
    """Return the epsilon at `delta` of a Gaussian of parameter `mu` and of finite laws, released together.

    Parameters
    ----------
    mu : float
    losses : sequence of (log p, log q)
        Two laws of the same outcomes.
    delta : float
        At 0 without a Gaussian: the largest sum of losses.

    >>> round(transcript_epsilon(1.0, [], 1e-5), 4)
    4.3772
    """
    both = []
    for sign in (0, 1):
        values, masses = np.zeros(1), np.ones(1)
        for pair in losses:
            log_p, log_q = pair[sign], pair[1 - sign]
            values, masses = _convolve(values, masses, log_p - log_q, np.exp(log_p))
        both.append(_epsilon(mu, values, masses, delta))
    return max(both)


def _convolve(values: Array, masses: Array, loss: Array, p: Array) -> tuple[Array, Array]:
    """Return the law of a sum of losses, rounded down to a grid where it has many values."""
    total = np.add.outer(values, loss).ravel()
    mass = np.multiply.outer(masses, p).ravel()
    if total.size > 256:
        whole, at = np.unique(np.floor(total / _STEP), return_inverse=True)
        return whole * _STEP, np.bincount(at, weights=mass).astype(np.float64)
    return total, mass


def _epsilon(mu: float, values: Array, masses: Array, delta: float) -> float:
    if delta == 0:
        return math.inf if mu > 0 else float(values[masses > 0].max())

    def attained(epsilon: float) -> float:
        e = epsilon - values
        if mu == 0:
            return float((masses * -np.expm1(np.minimum(e, 0.0))).sum())
        low, high = ndtr(mu / 2 - e / mu), ndtr(-mu / 2 - e / mu)
        return float((masses * np.maximum(low - np.exp(np.minimum(e, 700.0)) * high, 0.0)).sum())

    if attained(0.0) <= delta:
        return 0.0
    lower, upper = 0.0, 1.0
    while attained(upper) > delta:
        lower, upper = upper, 2 * upper
    for _ in range(60):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if attained(middle) > delta else (lower, middle)
    return lower


def laws_of(call: MechanismCall, exponents: NDArray[np.int64]) -> Array:
    """Return the log-probabilities of a selection."""
    scores = exponents.astype(np.float64) * call.quantum
    return np.asarray(scores - logsumexp(scores))


def laplace_loss(change_over_scale: float) -> tuple[Array, Array]:
    """Return two laws of finitely many outcomes whose ratio is that of two Laplaces, of each piece the mean."""
    c = change_over_scale
    edges = np.linspace(0.0, c, _BINS + 1)
    first = np.concatenate([[0.5], np.exp(-edges[:-1]) / 2 * -np.expm1(-c / _BINS), [np.exp(-c) / 2]])
    return np.log(first), np.log(first[::-1])


def sketch_loss(variance: float, vectors: int) -> tuple[Array, Array]:
    """Return two laws of finitely many outcomes: pieces of the squared lengths of normal vectors, of variance 1 or not.

    >>> sketch_loss(1.01, 600)[0].shape
    (61,)
    """
    edges = vectors + math.sqrt(2 * vectors) * np.linspace(-9, 9, _PIECES)
    edges = np.concatenate([[0.0], edges[edges > 0], [np.inf]])
    p, q = (np.diff(chi2.cdf(edges / v, vectors)) - np.diff(chi2.sf(edges / v, vectors)) for v in (1.0, variance))
    return np.log(np.maximum(p / 2, _LEAST)), np.log(np.maximum(q / 2, _LEAST))


def worst_loss(pairs: Sequence[Pair], ledger: Ledger, delta: float, shares: Sequence[float] = ()) -> LossEstimate:
    """Return what the worst of some pairs attains under the ledger's kind of release.

    Where the ledger has Poisson samples, random stopping or objective perturbation, it is what their accountant charges
    for the changes that were attained; `shares` are those of objective perturbation.
    """
    kinds: list[Event] = [event for event, _ in flattened(ledger.events)]
    certified = ledger.epsilon_spent or math.inf
    worst = LossEstimate(0.0, 0.0, 0.0)
    for pair in sorted(pairs, key=lambda p: -p.loss)[:_MOST_PAIRS]:
        if worst.epsilon > 0 and any(map(is_subsampled, kinds)):
            break  # each needs a loss distribution of its own
        mu = math.sqrt(_mu_squared(pair))
        value = _by_kind(kinds, pair, mu, delta)
        if value > worst.epsilon or (value == 0 and mu > worst.mu):
            worst = LossEstimate(value, mu, value / certified)
    for event in kinds:
        one = event.event if isinstance(event, GroupEvent) else event
        if isinstance(one, ObjectivePerturbationEvent) and shares:
            moved = max(shares) * (event.rows if isinstance(event, GroupEvent) else 1)
            worst = LossEstimate(max(shares) * certified, moved * one.bound / one.sigma, max(shares))
    return worst


def _by_kind(kinds: Sequence[Event], pair: Pair, mu: float, delta: float) -> float:
    for event in kinds:
        if isinstance(event, RandomStoppingEvent):
            runs = max((a.size for call, a in zip(pair.calls, pair.first, strict=True) if a.ndim == 1), default=1)
            return random_stopping_epsilon(mu / math.sqrt(runs), delta, r=event.r, eta=event.eta) if mu > 0 else 0.0
        if is_subsampled(event):
            counts = Counter(math.floor(share * _LEVELS + 1e-6) / _LEVELS for share in pair.shares())
            attained = ((event.noise_multiplier / s, c) for s, c in sorted(counts.items()) if s > 0)
            events = tuple(PoissonGaussianEvent(event.rate, multiplier, c) for multiplier, c in attained)
            return composed_epsilon(events, pair.relation, delta)
    losses: list[tuple[Array, Array]] = []
    for call, a, b in zip(pair.calls, pair.first, pair.second, strict=True):
        if call.mechanism == "exponential":
            losses.append((laws_of(call, a), laws_of(call, b)))
        elif call.mechanism == "laplace":
            moved = np.abs(a - b).ravel() * (call.quantum / call.scale)
            losses += [laplace_loss(float(m)) for m in moved if m > 0]
        elif call.mechanism == "sketch":
            losses += [sketch_loss(float(v), round(call.scale**-2)) for v in relative_variances(a, b) if v != 1]
    return transcript_epsilon(mu, losses, delta)


def _mu_squared(pair: Pair) -> float:
    return sum(
        (change(call, a, b) / call.scale) ** 2
        for call, a, b in zip(pair.calls, pair.first, pair.second, strict=True)
        if call.mechanism in ("gaussian", "partition")
    )


def unbooked(calls: Sequence[MechanismCall], ledger: Ledger, runs: Sequence[int]) -> list[Finding]:
    """Return where the ledger was charged less than the mechanisms were called for, kind by kind.

    Parameters
    ----------
    calls : sequence of MechanismCall
        All releases of a fit.
    runs : sequence of int
        How many runs random stopping drew.
    """
    if not ledger.events:
        return (
            [Finding("unreleased", "the ledger", "no release was charged")]
            if not calls
            else [Finding("charge", "the ledger", f"{len(calls)} releases were made, and none is in it")]
        )
    spent, charged = cost_of_calls(calls), cost_of_ledger(ledger, sum(runs))
    findings = []
    for kind in sorted({*spent, *charged}):
        where = f"{kind} releases"
        if spent[kind] > charged[kind] * (1 + TOLERANCE):
            text = f"asked for {spent[kind]:.9g}, charged {charged[kind]:.9g} (sum of squares for Gaussians)"
            findings.append(Finding("charge", where, text))
        elif charged[kind] > 0 and spent[kind] == 0:
            findings.append(Finding("charge", where, "are in the ledger, but were made outside the mechanisms"))
    return findings


def cost_of_calls(calls: Sequence[MechanismCall]) -> Counter[str]:
    """Return the cost of releases, summed over each kind.

    Squares of sensitivity/sigma for Gaussians; epsilons of selections and Laplaces, and their squares, as accountants
    compose both; chances of failure.

    >>> cost_of_calls([MechanismCall("laplace", "", sensitivity=1.0, scale=4.0, quantum=1.0, shape=(3,))])
    Counter({'laplace': 0.25, 'laplace (squared)': 0.0625})
    """
    costs: Counter[str] = Counter()
    for call in calls:
        if call.mechanism == "partition":  # counts of what both neighbours have, and what one alone may show
            _add(costs, "gaussian", call.sensitivity / call.scale)
            _add(costs, "failure", float(ndtr((1 - call.threshold) / call.scale)))
        else:
            if call.mechanism == "sketch" and call.threshold:
                _add(costs, "failure", call.threshold)
            _add(
                costs, call.mechanism, call.scale if call.mechanism == "exponential" else call.sensitivity / call.scale
            )
    return costs


def cost_of_ledger(ledger: Ledger, runs: int = 1) -> Counter[str]:
    """Return what the events of a ledger charge, as `cost_of_calls`; a random stopping charges its run `runs` times."""
    costs: Counter[str] = Counter()
    for event, count in flattened(ledger.events):
        _add_event(costs, event, count, ledger.relation, runs)
    return costs


def _add(costs: Counter[str], kind: str, cost: float, count: float = 1) -> None:
    if kind in ("laplace", "exponential"):
        costs[f"{kind} (squared)"] += count * cost**2  # type: ignore[assignment]
    costs[kind] += count * (cost**2 if kind in ("gaussian", "objective", "sketch") else cost)  # type: ignore[assignment]


def _add_event(costs: Counter[str], event: Event, count: float, relation: Relation, runs: int) -> None:
    match event:
        case GaussianEvent():
            _add(costs, "gaussian", event.sensitivity / event.sigma, count)
        case PoissonGaussianEvent():
            _add(costs, "gaussian", relation.units / event.noise_multiplier, count * event.steps)
        case LaplaceEvent():
            _add(costs, "laplace", event.sensitivity / event.scale, count)
        case ExponentialEvent():
            _add(costs, "exponential", event.epsilon, count)
        case FailureEvent():
            _add(costs, "failure", event.probability, count)
        case ObjectivePerturbationEvent():
            _add(costs, "objective", event.bound / event.sigma, count)
        case GaussianSketchEvent():
            _add(costs, "sketch", event.ratio * math.sqrt(event.vectors), count)
        case GroupEvent():
            _add_event(costs, event.event, count, relation, runs)
        case RandomStoppingEvent():
            for inner, times in flattened((event.event,)):
                _add_event(costs, inner, runs * count * times, relation, runs)
