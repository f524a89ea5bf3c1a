"""Risk bounds of the adaptive-margin classifier.

Wang, Zhu and Wang, "Adapting to Linear Separable Subsets with Large-Margin in Differentially Private Learning".
Bounds are clipped at 1, where they say nothing. Data radius b = 1; S is the number of outliers |S_out|, whose removal
leaves a set of margin gamma.
"""

from __future__ import annotations

import math
from statistics import NormalDist


def theorem_4_1(n: float, gamma: float, outliers: float, epsilon: float) -> float:
    """Return 1/(n gamma² min(eps, 1)) + S/(gamma n): the shape of the bound, its constant and logarithms dropped."""
    return min(1.0, 1 / (n * gamma**2 * min(epsilon, 1.0)) + outliers / (gamma * n))


def explicit_unprojected(
    n: float, gamma: float, outliers: float, mu: float, *, dimension: int, kappa: float = 4.0
) -> float:
    """Return our bound without projection, R = b and c = gamma, model and score at equal shares, with its constants.

    kappa Delta sqrt(d)/(n mu_run) + (1 + b/gamma) S/n + 2 sqrt(2 ln G)/(n mu_run), Delta = 2 b/gamma,
    mu_run = mu/sqrt(2 G) and G = ceil(log2 n) + 1 candidates. The last term is what the noise of the scores costs:
    twice the expected largest of G normal draws, as a share of n.

    `mu` is the Gaussian-DP budget of the whole selection. kappa is 4 with the constants of the paper's proof; 1.12 at
    T = n² mu_run²/d with the factors that the proof gives away, and towards 1 for more steps.
    """
    G = math.ceil(math.log2(n)) + 1
    mu_run = mu / math.sqrt(2 * G)
    descent = kappa * (2 / gamma) * math.sqrt(dimension) / (n * mu_run)
    choice = 2 * math.sqrt(2 * math.log(G)) / (n * mu_run)
    return min(1.0, descent + (1 + 1 / gamma) * outliers / n + choice)


def published_mu(epsilon: float, delta: float) -> float:
    """Return the Gaussian-DP budget of the whole selection by the paper's calibration, eps/(2 sqrt(2 ln 1/delta))."""
    return epsilon / (2 * math.sqrt(-2 * math.log(delta)))


def gaussian_rule(n: float, gamma: float, mu_model: float, *, radius: float = 1.0) -> float:
    """Return our rule of thumb for the risk on separable rows, Phi(-0.87 n mu_model gamma²/(2R)).

    `mu_model` is the Gaussian-DP budget of one model; R is 2 for the published constants, 1 for the practical ones.
    """
    return NormalDist().cdf(-0.87 * n * mu_model * gamma**2 / (2 * radius))
