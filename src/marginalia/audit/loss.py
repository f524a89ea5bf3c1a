"""The privacy loss that a replay shows, beside what the ledger charges.

Along one transcript the mechanisms of two neighbours are known laws: Gaussians and Laplaces around two exact values,
and two laws of each selection. What tells them apart is computed from these, without sampling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from marginalia.audit.findings import Finding
from marginalia.audit.replay import Pair, change
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import (
    Event,
    GroupEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
    is_subsampled,
    leaves,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import MechanismCall
from marginalia.privacy.stopping_cost import random_stopping_epsilon

Array = NDArray[np.float64]
_TOLERANCE = 1e-9
_BINS = 24  # of the continuous part of a Laplace loss
_STEP = 1e-4  # of the grid on which losses of selections are added up
_MOST_PAIRS = 3  # whose loss is computed
_LEVELS = 20  # of the attained share of a Poisson-sampled gradient, rounded down


@dataclass(frozen=True)
class Audited:
    """What the worst pair attains.

    >>> Audited(epsilon=0.95, mu=0.25, share=0.95).mu
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


def audited(
    pairs: Sequence[Pair], ledger: Ledger, epsilon: float, delta: float, shares: Sequence[float] = ()
) -> Audited:
    """Return what the worst of some pairs attains under the ledger's kind of release.

    Where the ledger has Poisson samples, random stopping or objective perturbation, it is what their accountant charges
    for the changes that were attained; `shares` are those of objective perturbation.
    """
    kinds: list[Event] = [event for event, _ in leaves(ledger.events)]
    certified = ledger.epsilon_spent or math.inf
    worst = Audited(0.0, 0.0, 0.0)
    for pair in sorted(pairs, key=lambda p: -p.loss)[:_MOST_PAIRS]:
        if worst.epsilon > 0 and any(map(is_subsampled, kinds)):
            break  # each needs a loss distribution of its own
        mu = math.sqrt(_mu_squared(pair))
        value = _by_kind(kinds, pair, mu, delta)
        if value > worst.epsilon or (value == 0 and mu > worst.mu):
            worst = Audited(value, mu, value / certified)
    for event in kinds:
        one = event.event if isinstance(event, GroupEvent) else event
        if isinstance(one, ObjectivePerturbationEvent) and shares:
            moved = max(shares) * (event.rows if isinstance(event, GroupEvent) else 1)
            worst = Audited(max(shares) * certified, moved * one.bound / one.sigma, max(shares))
    return worst


def _by_kind(kinds: Sequence[Event], pair: Pair, mu: float, delta: float) -> float:
    for event in kinds:
        if isinstance(event, RandomStoppingEvent):
            runs = max((a.size for call, a in zip(pair.calls, pair.first, strict=True) if a.ndim == 1), default=1)
            return random_stopping_epsilon(mu / math.sqrt(runs), delta, r=event.r, eta=event.eta) if mu > 0 else 0.0
        if is_subsampled(event):
            counts = Counter(math.floor(share * _LEVELS + 1e-6) / _LEVELS for share in pair.shares())
            attained = ((event.noise_multiplier / s, c) for s, c in sorted(counts.items()) if s > 0)
            found = tuple(PoissonGaussianEvent(event.rate, multiplier, c) for multiplier, c in attained)
            return composed_epsilon(found, pair.relation, delta)
    losses: list[tuple[Array, Array]] = []
    for call, a, b in zip(pair.calls, pair.first, pair.second, strict=True):
        if call.mechanism == "exponential":
            losses.append((laws_of(call, a), laws_of(call, b)))
        elif call.mechanism == "laplace":
            moved = np.abs(a - b).ravel() * (call.quantum / call.scale)
            losses += [laplace_loss(float(m)) for m in moved if m > 0]
    return transcript_epsilon(mu, losses, delta)


def _mu_squared(pair: Pair) -> float:
    return sum(
        (change(call, a, b) / call.scale) ** 2
        for call, a, b in zip(pair.calls, pair.first, pair.second, strict=True)
        if call.mechanism in ("gaussian", "partition")
    )


def unbooked(calls: Sequence[MechanismCall], ledger: Ledger, runs: Sequence[int]) -> list[Finding]:
    """Return where the ledger was charged less than what was asked for, kind by kind.

    Parameters
    ----------
    calls : sequence of MechanismCall
        All releases of a fit.
    runs : sequence of int
        How many runs random stopping drew.
    """
    if not ledger.events:
        return (
            [Finding("unreleased", "the ledger", "no release was booked")]
            if not calls
            else [Finding("booked", "the ledger", f"{len(calls)} releases were made, and none is in it")]
        )
    spent, charged = Counter[str](), Counter[str]()
    for a in calls:
        if a.mechanism == "partition":  # counts of what both neighbours have, and what one alone may show
            spent["gaussian"] += (a.sensitivity / a.scale) ** 2  # type: ignore[assignment]
            spent["failure"] += float(ndtr((1 - a.threshold) / a.scale))  # type: ignore[assignment]
            continue
        cost = a.scale if a.mechanism == "exponential" else a.sensitivity / a.scale
        spent[a.mechanism] += cost**2 if a.mechanism in ("gaussian", "objective") else cost  # type: ignore[assignment]
    for event, count in leaves(ledger.events):
        for kind, cost in _charges(event, ledger, sum(runs)):
            charged[kind] += count * cost  # type: ignore[assignment]
    findings = []
    for kind in sorted({*spent, *charged}):
        what = f"{kind} releases"
        if spent[kind] > charged[kind] * (1 + _TOLERANCE):
            text = f"asked for {spent[kind]:.9g}, charged {charged[kind]:.9g} (sum of squares for Gaussians)"
            findings.append(Finding("booked", what, text))
        elif charged[kind] > 0 and spent[kind] == 0:
            findings.append(Finding("booked", what, "are in the ledger, but were made outside the mechanisms"))
    return findings


def _charges(event: Event, ledger: Ledger, runs: int) -> list[tuple[str, float]]:
    fields: Any = event
    match type(event).__name__:
        case "GaussianEvent":
            return [("gaussian", (fields.sensitivity / fields.sigma) ** 2)]
        case "PoissonGaussianEvent":
            return [("gaussian", fields.steps * (ledger.relation.units / fields.noise_multiplier) ** 2)]
        case "LaplaceEvent":
            return [("laplace", fields.sensitivity / fields.scale)]
        case "ExponentialEvent":
            return [("exponential", fields.epsilon)]
        case "FailureEvent":
            return [("failure", fields.probability)]
        case "ObjectivePerturbationEvent":
            return [("objective", (fields.bound / fields.sigma) ** 2)]
        case "GroupEvent":
            return _charges(fields.event, ledger, runs)
        case "RandomStoppingEvent":
            inside = [(c, k, cost) for e, c in leaves((fields.event,)) for k, cost in _charges(e, ledger, runs)]
            return [(kind, runs * count * cost) for count, kind, cost in inside]
    return []
