"""What objective perturbation costs: a certificate for one release, by a one-dimensional integral.

Ours, for losses of the form l(y·<x, θ>) with the logistic l, ‖x‖ ≤ B, an unconstrained domain and the exact minimiser
(Kifer, Smith & Thakurta 2012 give the mechanism, with looser constants). With τ = B/sigma and κ = B²/(4·regulariser)
the privacy loss of adding one record is at most

    g(Y) = max over a in [0, 1] of  a·Y + a²τ²/2 + ln(1 + 4a(1-a)κ),      Y ~ N(0, τ²),

so δ(ε) ≤ E[(1 - e^{ε - g(Y)})₊]; removing one lacks the logarithm and is covered. Where ε ≥ 4κ - τ²/2 the bound is
the Gaussian one, δ_G(ε; τ). That is a statement about one ε: the mechanism is τ-GDP only if 4κ ≤ τ²/2, that is, if
regulariser ≥ 2·sigma².

A computed minimiser is not the exact one. The objective is regulariser-strongly convex, so a gradient of norm at most t
there means ‖θ̂ - θ*‖ ≤ t/regulariser, whatever the rows. Given θ*, the released θ̂ + N(0, s²) is therefore a Gaussian
release of sensitivity 2t/regulariser, under either relation: the two together are an adaptive composition, certified
as (ε₁ + ε₂, δ₁ + δ₂), with the fixed share δ₂ = δ/1000 for the Gaussian (`split_for_output`).

Replace-one is by group privacy. It is all but tight: no sigma below 2B/μ(ε, δ) can do, since among other rows that pull
θ far to one side two rows of opposite directions have gradients that differ by 2B, without any curvature. Group
privacy asks for 1.0001 times as much at ε = .2, 1.002 at 1, 1.008 at 2, 1.023 at 4, 1.076 at 10 (δ = 1e-5).

**Units of up to k records.** With several records that come or go the gradient at the minimiser moves by Σ aᵢyᵢxᵢ,
not along one line that is fixed beforehand: the proof above is for one. So a chain of j = k neighbours leads from one
table to the other (2k under replace-one, as k records leave and k come). With P₀, …, P_j the laws along it and S any
event, P₀(S) ≤ e^x₁·P₁(S) + δ₁(x₁) ≤ … for any losses x₁ + … + x_j = ε, of either sign:

    δ_j(ε) ≤ Σᵢ e^(x₁ + … + xᵢ₋₁)·δ₁(xᵢ),        δ₁(-x) = 1 - e^-x·(1 - δ₁(x)).

Of Gaussian laws τ apart this is an equality at xᵢ = ε/j + τ²(i - (j + 1)/2), the losses of one outcome, so where all of
these are at least 4κ - τ²/2 the bound is δ_G(ε; jτ); what a fit is calibrated to lies there. Elsewhere the losses are
equal, which costs some per mille of ε. Such a bound need not fall with ε: what is certified is searched for upwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy import checks
from marginalia.privacy.accountants.accountant import Parts, total
from marginalia.privacy.accountants.gdp import exact_squared_mu
from marginalia.privacy.calibration import gdp_delta, gdp_epsilon
from marginalia.privacy.events import Event, GroupEvent, ObjectivePerturbationEvent
from marginalia.privacy.relation import Relation

OUTPUT_SHARE = 1e-3  # of epsilon and of delta: what the noise that hides the gap to the exact minimiser may spend

_KINDS = (ObjectivePerturbationEvent, GroupEvent)
_TINY = 1e-300
_LARGEST = 700.0  # epsilon of a group that is searched for: its exponential is a float
_SLOPES = 4001  # grid of a; what lies between its points is covered by a bound on the curvature


@dataclass(frozen=True)
class ObjectivePerturbation:
    """One objective perturbation, alone or with Gaussian releases: basic composition, delta split in a fixed way.

    >>> event = ObjectivePerturbationEvent(bound=1.0, sigma=4.0, regulariser=8.0)
    >>> round(ObjectivePerturbation(Relation.ADD_REMOVE).epsilon([(event, 1)], 1e-5), 4)
    0.9263
    """

    relation: Relation

    def covers(self, parts: Parts) -> bool:
        """Whether one event is an objective perturbation that is not Gaussian-DP, and all others are."""
        objectives = [(event, count) for event, count in parts if isinstance(event, _KINDS)]
        if len(objectives) != 1 or objectives[0][1] != 1:
            return False
        ((event, _),) = objectives
        return self.certifies(event) and self._rest(parts, event) is not None

    def epsilon(self, parts: Parts, delta: float) -> float:
        """Return the sum of both epsilons; alone, the release has all of delta."""
        (event,) = (event for event, _ in parts if isinstance(event, _KINDS))
        mu_squared = self._rest(parts, event)
        assert mu_squared is not None
        share = OUTPUT_SHARE if mu_squared > 0 else 0.0
        own = objective_perturbation_epsilon((1 - share) * delta, **_fields(event), relation=self.relation)
        return own + (gdp_epsilon(math.sqrt(mu_squared), share * delta) if len(parts) > 1 else 0.0)

    def _rest(self, parts: Parts, objective: Event) -> float | None:
        rest = [part for part in parts if part[0] is not objective]
        return total(rest, lambda event: exact_squared_mu(event, self.relation))

    def certifies(self, event: Event) -> bool:
        """Whether it is an objective perturbation with no Gaussian-DP parameter."""
        return isinstance(event, _KINDS) and exact_squared_mu(event, self.relation) is None

    def delta(self, event: Event, epsilon: float) -> float:
        """Return the profile of an event that it certifies."""
        assert isinstance(event, _KINDS)
        return objective_perturbation_delta(epsilon, **_fields(event), relation=self.relation)


def _fields(event: ObjectivePerturbationEvent | GroupEvent) -> dict[str, Any]:
    one, rows = (event.event, event.rows) if isinstance(event, GroupEvent) else (event, 1)
    return {"bound": one.bound, "sigma": one.sigma, "regulariser": one.regulariser, "rows": rows}


def split_for_output(epsilon: float, delta: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Split a budget between objective perturbation and the Gaussian noise on its minimiser.

    >>> split_for_output(1.0, 1e-5)[1]
    (0.001, 1e-08)
    """
    epsilon, delta = checks.positive("epsilon", epsilon), checks.open_unit("delta", delta)
    rest = 1 - OUTPUT_SHARE
    return (rest * epsilon, rest * delta), (OUTPUT_SHARE * epsilon, OUTPUT_SHARE * delta)


def objective_perturbation_delta(
    epsilon: float,
    *,
    bound: float,
    sigma: float,
    regulariser: float,
    relation: Relation = Relation.ADD_REMOVE,
    rows: int = 1,
) -> float:
    """Delta at which one release is certified (epsilon, delta)-DP, epsilon ≥ 0.

    `bound` is the public B, `sigma` the deviation of each coordinate of the linear perturbation, and `regulariser` the
    coefficient of ‖θ‖²/2 in the summed objective. Replace-one is by group privacy: (1 + e^{ε/2}) times the add/remove
    delta at ε/2. So are units of up to `rows` records.

    >>> f"{objective_perturbation_delta(1.0, bound=1.0, sigma=4.0, regulariser=8.0):.2e}"
    '2.92e-06'
    """
    epsilon = checks.not_negative("epsilon", epsilon)
    tau = checks.positive("bound", bound) / checks.positive("sigma", sigma)
    kappa = bound**2 / (4 * checks.positive("regulariser", regulariser))
    if rows > 1:
        return _group_delta(epsilon, tau, kappa, rows * int(relation.units))
    if relation is Relation.REPLACE_ONE:
        delta = _delta(epsilon / 2, tau, kappa)
        group = epsilon / 2 + math.log1p(math.exp(-epsilon / 2))  # ln(1 + e^{ε/2})
        return math.exp(min(0.0, math.log(delta) + group)) if delta > 0 else 0.0
    return _delta(epsilon, tau, kappa)


def objective_perturbation_epsilon(
    delta: float,
    *,
    bound: float,
    sigma: float,
    regulariser: float,
    relation: Relation = Relation.ADD_REMOVE,
    rows: int = 1,
) -> float:
    """Smallest epsilon at which one release is certified (epsilon, `delta`)-DP; the rest as for the delta.

    >>> round(objective_perturbation_epsilon(1e-5, bound=1.0, sigma=4.0, regulariser=8.0), 4)
    0.9263
    """
    delta = checks.open_unit("delta", delta)

    def certified(epsilon: float) -> bool:
        needed = objective_perturbation_delta(
            epsilon, bound=bound, sigma=sigma, regulariser=regulariser, relation=relation, rows=rows
        )
        return needed <= delta

    if certified(0.0):
        return 0.0
    if rows > 1:
        # No epsilon below that of Gaussian laws is certified; upwards from there.
        lower = upper = gdp_epsilon(rows * relation.units * bound / sigma, delta)
        while not certified(upper):
            lower, upper = upper, 1.02 * upper + 1e-6
            if upper > _LARGEST:
                return math.inf
        return _certified_between(certified, lower, upper)
    # Bisection from a certified upper end, which stays certified: safe even where group privacy's factor (1 + e^{ε/2})
    # makes the delta rise with epsilon.
    lower, upper = 0.0, 1.0
    while not certified(upper):
        lower, upper = upper, 2 * upper
    return _certified_between(certified, lower, upper)


def _certified_between(certified: Callable[[float], bool], lower: float, upper: float) -> float:
    while upper - lower > 1e-13 * upper:
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if certified(middle) else (middle, upper)
    return upper


def _group_delta(epsilon: float, tau: float, kappa: float, steps: int) -> float:
    """Return a bound on the delta of the ends of a chain of so many neighbours; see the top of this file."""
    if epsilon / steps - (steps - 1) / 2 * tau**2 >= 4 * kappa - tau**2 / 2:
        return gdp_delta(steps * tau, epsilon)
    # A sum over steps of e^(i·epsilon/steps), in logarithms.
    each = math.log(steps)
    if epsilon > 0:
        each = epsilon - epsilon / steps + math.log(math.expm1(-epsilon) / math.expm1(-epsilon / steps))
    # Never 0: what floats do not hold is multiplied by e^epsilon.
    return math.exp(min(0.0, math.log(max(_delta(epsilon / steps, tau, kappa), _TINY)) + each))


def _delta(epsilon: float, tau: float, kappa: float) -> float:
    if epsilon >= 4 * kappa - tau**2 / 2:
        return gdp_delta(tau, epsilon)
    from scipy.special import ndtr  # here, since scipy is slow to load

    slopes, heights, ends = _envelope(tau, kappa)
    # g is piecewise linear, heights + slopes·Y on [ends[i], ends[i+1]], and exceeds epsilon above `start`.
    start = np.clip((epsilon - heights) / slopes, ends[:-1], ends[1:])
    parts = np.zeros_like(start)
    above = start < ends[1:]  # elsewhere there is no such Y, and no integral to compute
    start, end, slopes, heights = start[above], ends[1:][above], slopes[above], heights[above]
    mass = ndtr(-start / tau) - ndtr(-end / tau)
    tilted = ndtr(-start / tau - slopes * tau) - ndtr(-end / tau - slopes * tau)
    shift = np.minimum(epsilon - heights + (slopes * tau) ** 2 / 2, 700.0)
    parts[above] = np.maximum(mass - np.exp(shift) * tilted, 0.0)
    return float(np.sum(parts))


@lru_cache(maxsize=64)
def _envelope(tau: float, kappa: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return an upper bound of g as the maximum of lines: slopes, heights and the Y at which each takes over."""
    a = np.linspace(0.0, 1.0, _SLOPES)
    # Within half a grid step of an interior maximum in a the exponent falls by at most curvature·step²/8.
    slack = (8 * kappa + 16 * kappa**2) * (a[1] - a[0]) ** 2 / 8
    height = a**2 * tau**2 / 2 + np.log1p(4 * a * (1 - a) * kappa) + slack
    kept: list[int] = []
    for i in range(1, _SLOPES):  # slope 0 never exceeds the epsilon asked for: its loss is the slack at most
        while len(kept) >= 2 and _below(a, height, kept[-2], kept[-1], i):
            kept.pop()
        kept.append(i)
    slopes, heights = a[kept], height[kept]
    crossings = (heights[:-1] - heights[1:]) / (slopes[1:] - slopes[:-1])
    return slopes, heights, np.concatenate([[-np.inf], crossings, [np.inf]])


def _below(a: NDArray[np.float64], height: NDArray[np.float64], left: int, middle: int, right: int) -> bool:
    """Whether line `middle` is nowhere the largest of the three."""
    return (height[middle] - height[left]) * (a[right] - a[left]) <= (height[right] - height[left]) * (
        a[middle] - a[left]
    )
