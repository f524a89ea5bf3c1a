"""The cost of objective perturbation: the privacy profile of one release, by a one-dimensional integral.

The profile is ours, for the logistic loss, ‖x‖ ≤ B, an unconstrained domain and the exact minimiser (Kifer, Smith &
Thakurta 2012 give the mechanism, with looser constants). With τ = B/sigma and κ = B²/(4·regulariser) the privacy loss
of adding one record is at most

    g(Y) = max over a in [0, 1] of  a·Y + a²τ²/2 + ln(1 + 4a(1-a)κ),      Y ~ N(0, τ²),

so δ(ε) ≤ E[(1 - e^{ε - g(Y)})₊], and the mechanism is τ-GDP only if regulariser ≥ 2·sigma². Proofs, among them those
for replace-one, computed minimisers and units of several records: docs/proofs.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_delta, gdp_epsilon
from marginalia.privacy.relation import Relation
from marginalia.usage import shared

OUTPUT_SHARE = 1e-3  # of epsilon and of delta: what the noise that hides the gap to the exact minimiser may spend

_TINY = 1e-300
_LARGEST = 700.0  # epsilon of a group that is searched for: its exponential is a float
_SLOPES = 4001  # grid of a; what lies between its points is covered by a bound on the curvature


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


@shared
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
    """Return a bound on the delta between the ends of a chain of `steps` neighbours; see docs/proofs.md."""
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
