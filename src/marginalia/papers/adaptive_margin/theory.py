"""Risk bounds of the adaptive-margin classifier, and those that the paper compares them with.

Wang, Zhu and Wang, "Adapting to Linear Separable Subsets with Large-Margin in Differentially Private Learning".
Bounds are clipped at 1, where they say nothing. Data radius b = 1; S is the number of outliers |S_out|, whose removal
leaves a set of margin gamma.
"""

from __future__ import annotations

import math
from statistics import NormalDist


def theorem_4_1(
    n: float, gamma: float, outliers: float, epsilon: float, *, b: float = 1.0, clipped: bool = True
) -> float:
    """Return b²/(n gamma² min(eps, 1)) + b S/(gamma n): the shape of the bound, its constant and logarithms dropped.

    Last row of Tables 1 (b = 1) and 2. `b` bounds the norm of the rows. Above 1 it says nothing: `clipped` cuts there.
    """
    value = (b / gamma) ** 2 / (n * min(epsilon, 1.0)) + b * outliers / (gamma * n)
    return min(1.0, value) if clipped else value


def bassily_3_1(n: float, gamma: float, ramp: float, epsilon: float, *, b: float = 1.0, wide: bool = False) -> float:
    """Return the shape of Bassily, Mohri and Suresh (2022), Theorem 3.1, as Table 1 quotes it, or (`wide`) Table 2.

    `ramp` is the mean over the rows of min(1, max(0, 1 - y<w, x>/gamma)) at some w of norm 1; Table 2 adds the terms of
    non-private learning. The root has 1/(n gamma²) in it, as in Table 2; Table 1 prints 1/(n² gamma²).
    """
    square = (b / gamma) ** 2 / n
    learning = square + 1 / n if wide else 0.0
    return square / epsilon + learning + ramp + math.sqrt(ramp * (square + 1 / n))


def bassily_3_2(n: float, gamma: float, hinge: float, epsilon: float, *, b: float = 1.0, wide: bool = False) -> float:
    """Return the shape of Bassily, Mohri and Suresh (2022), Theorem 3.2, as Table 1 quotes it, or (`wide`) Table 2.

    `hinge` is the mean over the rows of max(0, 1 - y<w, x>/gamma) at some w of norm 1.
    """
    root = b / (gamma * math.sqrt(n))
    learning = root + 1 / math.sqrt(n) if wide else 0.0
    return root / math.sqrt(epsilon) + learning + hinge


def explicit_published(
    n: float, gamma: float, outliers: float, epsilon: float, delta: float, *, dimension: int, clipped: bool = True
) -> float:
    """Return Theorem 6.5 (1) with the constants of its proof, where no candidate is projected.

    4 Delta sqrt(d)/(n mu_run) (Lemma C.1) + (1 + 3 b/gamma) S/n (the loss of the outliers) + 2 sqrt(2 ln G)/(n mu_run)
    (Lemma F.1), Delta = 12 b/gamma, mu_run the budget of one model. `clipped` cuts at 1.
    """
    G = math.ceil(math.log2(n)) + 1
    mu_run = published_mu(epsilon, delta) / math.sqrt(2 * G)
    descent = 4 * (12 / gamma) * math.sqrt(dimension) / (n * mu_run)
    value = descent + (1 + 3 / gamma) * outliers / n + 2 * math.sqrt(2 * math.log(G)) / (n * mu_run)
    return min(1.0, value) if clipped else value


def sample_penalty(n: int, dimension: int) -> float:
    """Return what Lemma 6.6 adds to twice the training error, 5 (VC ln 2n + ln 4/beta)/n, beta = 1/n².

    The paper prints ln(beta/4), which would lower the bound as the probability of failure falls.
    """
    return 5 * (dimension * math.log(2 * n) + math.log(4 * float(n) ** 2)) / n


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
