"""Risk bounds of the adaptive-margin classifier and of the methods it is compared with.

Wang, Zhu and Wang, "Adapting to Linear Separable Subsets with Large-Margin in Differentially Private Learning".
Functions without a constant in their name give the *shape* of a bound, logarithms dropped; those that start with
``explicit`` carry the constants of the proofs. All are clipped at 1, where they say nothing. Data radius b = 1 unless
given; S is the number of outliers |S_out|, whose removal leaves a set of margin gamma.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from statistics import NormalDist


def theorem_4_1(n: float, gamma: float, outliers: float, epsilon: float) -> float:
    """Return 1/(n gamma² min(eps, 1)) + S/(gamma n): empirical and population risk, with high probability."""
    return _clipped(1 / (n * gamma**2 * min(epsilon, 1.0)) + outliers / (gamma * n))


def theorem_6_5(n: float, gamma: float, outliers: float, epsilon: float, *, output: str = "average") -> float:
    """Return 1/(gamma² n eps) + S/(gamma n) + 1/n² (mean over the average) or 1/n (last iterate)."""
    tail = 1 / n**2 if output == "average" else 1 / n
    return _clipped(1 / (gamma**2 * n * epsilon) + outliers / (gamma * n) + tail)


def theorem_7_1(n: float, gamma: float, outliers: float, epsilon: float, delta: float, n_candidates: int) -> float:
    """Return ln(|Theta| n/delta)/(gamma² n eps) + S/(gamma n) + 1/n², of private tuning."""
    log = math.log(n_candidates * n / delta)
    return _clipped(log / (gamma**2 * n * epsilon) + outliers / (gamma * n) + 1 / n**2)


def theorem_l_2(n: float, gamma: float, outliers: float, epsilon: float, *, radius: float) -> float:
    """Return b²(1 + 1/eps)/(n gamma²) + b S/(n gamma) + 1/(n eps) + 1/n, for rows of norm at most b.

    The paper prints 1/eps for 1/(n eps).
    """
    return _clipped(
        radius**2 * (1 + 1 / epsilon) / (n * gamma**2)
        + radius * outliers / (n * gamma)
        + 1 / (n * epsilon)
        + 1 / n
    )  # fmt: skip


def best(bound: Callable[[float, float], float], curve: Iterable[tuple[float, float]]) -> float:
    """Return the smallest ``bound(gamma, S)`` over the points of a curve, such as a removal curve, with gamma > 0."""
    return min((bound(gamma, outliers) for gamma, outliers in curve if gamma > 0), default=1.0)


def explicit_published(
    n: float, gamma: float, outliers: float, epsilon: float, delta: float, *, jl_factor: float, radius: float = 1.0
) -> float:
    """Return the bound of the published algorithm's averaged output with the constants of its proof.

    4 Delta sqrt(k)/(n mu) + 23 b S/(5 gamma n) + 2 sqrt(2 ln G)/(n mu) + 1/n², Delta = 12 b/gamma,
    k = C (b/gamma)² ln(G(n+2)(n+1)n²), mu = eps/(4 sqrt(G ln(1/delta))), G = ceil(log2 n) + 1.

    Parameters
    ----------
    n, gamma, outliers, epsilon, delta
    jl_factor : float
        C: 36 by a union bound, 2 by measurement.
    radius : float, default 1.0
        b.
    """
    G, log = _grid_size(n), _jl_log(n)
    mu = epsilon / (4 * math.sqrt(G * math.log(1 / delta)))
    k = jl_factor * (radius / gamma) ** 2 * log
    return _clipped(
        4 * (12 * radius / gamma) * math.sqrt(k) / (n * mu)
        + 23 * radius * outliers / (5 * gamma * n)
        + _choice(G, n, mu)
        + 1 / n**2
    )


def explicit_unprojected(
    n: float, gamma: float, outliers: float, mu: float, *, dimension: int, kappa: float = 4.0, radius: float = 1.0
) -> float:
    """Return our bound without projection, R = b and c = gamma, model and score at equal shares.

    kappa Delta sqrt(d)/(n mu_run) + (1 + b/gamma) S/n + 2 sqrt(2 ln G)/(n mu_run), Delta = 2 b/gamma and
    mu_run = mu/sqrt(2 G).

    Parameters
    ----------
    n, gamma, outliers
    mu : float
        Gaussian-DP budget of the whole selection.
    dimension : int
        d.
    kappa : float, default 4.0
        4 with the constants of the paper's proof; 1.12 at T = n² mu_run²/d with the factors that the proof gives
        away, and towards 1 for more steps.
    radius : float, default 1.0
        b.
    """
    G = _grid_size(n)
    mu_run = mu / math.sqrt(2 * G)
    return _clipped(
        kappa * (2 * radius / gamma) * math.sqrt(dimension) / (n * mu_run)
        + (1 + radius / gamma) * outliers / n
        + _choice(G, n, mu_run)
    )


def last_iterate(
    n: float, gamma: float, outliers: float, epsilon: float, delta: float, *, radius: float = 1.0
) -> float:
    """Return the shape of the last iterate's bound, logarithms kept, at failure probability beta = 1/n².

    sqrt(ln(G/beta)) sqrt(ln(G(n+1)(n+2)/beta)) b²/(n gamma² mu) + b S/(gamma n) + 2 sqrt(2 ln 2G)/(n mu)
    + 2 sqrt(2 ln(2/beta))/(n mu); the last term as corrected (it lacks the noise scale in the paper).
    """
    G = _grid_size(n)
    mu = epsilon / (4 * math.sqrt(G * math.log(1 / delta)))
    descent = math.sqrt(math.log(G * n**2) * _jl_log(n)) * radius**2 / (n * gamma**2 * mu)
    choice = 2 * (math.sqrt(2 * math.log(2 * G)) + math.sqrt(2 * math.log(2 * n**2))) / (n * mu)
    return _clipped(descent + radius * outliers / (gamma * n) + choice)


def private_tuning(n: float, gamma: float, outliers: float, epsilon: float, delta: float) -> float:
    """Return the shape of the bound of private tuning (Equation 26), its last constant corrected to 24 sqrt(2)."""
    G = _grid_size(n)
    log = math.log(G * (n**2 - 1) / delta)
    descent = math.sqrt(_jl_log(n) * log) / (gamma**2 * epsilon * n)
    return _clipped(descent + outliers / (n * gamma) + 24 * math.sqrt(2) * math.log(n**2 * G / delta) / (n * epsilon))


def gaussian_rule(n: float, gamma: float, mu_model: float, *, radius: float = 1.0) -> float:
    """Return our rule of thumb for the risk on separable rows, Phi(-0.87 n mu_model gamma²/(2R)).

    Parameters
    ----------
    n, gamma
    mu_model : float
        Gaussian-DP budget of one model.
    radius : float, default 1.0
        R: 2 for the published constants, 1 for the practical ones.
    """
    return NormalDist().cdf(-0.87 * n * mu_model * gamma**2 / (2 * radius))


def rows_needed(bound: Callable[[float], float], level: float = 0.1) -> float:
    """Return the number of rows from which on ``bound(n) <= level``, to a relative 1e-6."""
    low = high = 2.0
    while bound(high) > level:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if bound(middle) > level else (low, middle)
    return high


def known_margin(n: float, gamma: float, epsilon: float) -> float:
    """Return 1/(n gamma² eps): realizable case, gamma known (Nguyen, Ullman and Zakynthinou 2020, Thms 6 and 11)."""
    return _clipped(1 / (n * gamma**2 * epsilon))


def bassily_pure(n: float, gamma: float, ramp: float, epsilon: float) -> float:
    """Return 1/(n g²) (1/eps) + R + sqrt((1/(n g²) + 1/n) R) (Bassily, Mohri and Suresh 2022, Thm 3.1).

    Pure DP, exponential time.

    Parameters
    ----------
    n, gamma, epsilon
    ramp : float
        R, the smallest mean ramp loss min(1, max(0, 1 - z/gamma)) over halfspaces.
    """
    rate = 1 / (n * gamma**2)
    return _clipped(rate / epsilon + ramp + math.sqrt((rate + 1 / n) * ramp))


def bassily_efficient(n: float, gamma: float, hinge: float, epsilon: float) -> float:
    """Return 1/(sqrt(n eps) g) + L (Bassily, Mohri and Suresh 2022, Thm 3.2); polynomial time.

    Parameters
    ----------
    n, gamma, epsilon
    hinge : float
        L, the smallest mean hinge loss max(0, 1 - z/gamma) over halfspaces; at most (1 + b/gamma) S/n.
    """
    return _clipped(1 / (math.sqrt(n * epsilon) * gamma) + hinge)


def _clipped(value: float) -> float:
    return min(1.0, value)


def _grid_size(n: float) -> int:
    return math.ceil(math.log2(n)) + 1


def _jl_log(n: float) -> float:
    """Return ln(G (n+2)(n+1)/beta) with beta = 1/n²."""
    return math.log(_grid_size(n)) + math.log(n + 2) + math.log(n + 1) + 2 * math.log(n)


def _choice(candidates: int, n: float, mu: float) -> float:
    """Return what the noise of the scores costs: twice the expected largest of G normal draws, as a share of n."""
    return 2 * math.sqrt(2 * math.log(candidates)) / (n * mu)
