"""Bounds on the excess empirical risk of a linear model trained on synthetic rows with close marginals.

Zhou et al., "Bounding the Excess Risk for Linear Models Trained on Marginal-Preserving, Differentially-Private,
Synthetic Data". Functions named after a statement give it with its O-constants set to 1: shapes, no bounds. The one to
use is `explicit_bound`, from the same proof with every constant kept. n records, m features in [-1, 1], labels ±1,
models of norm at most tau (tau = 1/sqrt(m) is the reference), loss K-Lipschitz; all marginals of at most d columns are
within nu records of the true ones in L1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import Polynomial

from marginalia.papers.excess_risk.polynomials import Function, sup_error


def thm31(lipschitz: float, tau: float, m: int, d: int, n: float, nu: float, phi0: float) -> float:
    """Return K tau sqrt(m/(d-1)) + (K tau sqrt(m) + phi0) (3m max{1, tau})^(d-1) nu/n; phi0 = phi(0)."""
    reach = lipschitz * tau * math.sqrt(m)
    return reach / math.sqrt(d - 1) + (reach + phi0) * (3 * m * max(1.0, tau)) ** (d - 1) * nu / n


def thm32(tau: float, m: int, d: int, n: float, nu: float, *, factor: float = 2.0) -> float:
    """Return tau sqrt(m)/(d-1) + tau sqrt(m) (2m max{1, tau})^(d-1) nu/n, for logistic loss.

    As printed; the proof gives tau² m/(d-1) for the first term (the same at tau = 1/sqrt(m)) and hides a factor
    ln 2 + tau sqrt(m) in the second.

    Parameters
    ----------
    factor : float, default 2
        Of m: Corollary 3.6 has 3.
    """
    reach = tau * math.sqrt(m)
    return reach / (d - 1) + reach * (factor * m * max(1.0, tau)) ** (d - 1) * nu / n


def sigma_gen(m: int, d: int, epsilon: float, delta: float) -> float:
    """Return 2 m^(d/2) sqrt(ln(1.25/delta))/epsilon, the noise of Lemma 3.3 for all marginals of at most d columns.

    From sensitivity sqrt(2 m^d). There are more than m^d marginals for m = 1, for d = 1, and for d = 2 with m <= 3;
    with m = 1 the noise is too small.
    """
    return 2 * m ** (d / 2) * math.sqrt(math.log(1.25 / delta)) / epsilon


def nu_gen(m: int, levels: int, d: int, exponent: float, sigma: float) -> float:
    """Return 2 l^d sqrt(2 (ln2 (1 + lambda) + d ln(m l))) sigma, which no marginal exceeds w.p. 1 - 2^-lambda.

    Parameters
    ----------
    m, levels, d : int
        Features, largest number l of values of a column, order.
    exponent : float
        lambda.
    sigma : float
        Of the generator Gen_{d,sigma} (Lemma 3.4).
    """
    spread = math.sqrt(2 * (math.log(2) * (1 + exponent) + d * math.log(m * levels)))
    return 2.0 * levels**d * spread * sigma


def cor35(
    lipschitz: float, tau: float, m: int, levels: int, d: int, n: float, exponent: float, sigma: float, phi0: float
) -> float:
    """Return `thm31` for the generator Gen_{d,sigma}."""
    return thm31(lipschitz, tau, m, d, n, nu_gen(m, levels, d, exponent, sigma), phi0)


def cor36(tau: float, m: int, levels: int, d: int, n: float, exponent: float, sigma: float) -> float:
    """Return tau sqrt(m)/(d-1) + tau sqrt(m) (3m max{1, tau})^(d-1) nu_gen/n, for logistic loss (2m would do)."""
    return thm32(tau, m, d, n, nu_gen(m, levels, d, exponent, sigma), factor=3.0)


def explicit_bound(p: Polynomial, loss: Function, *, m: int, nu_share: float, tau: float | None = None) -> float:
    """Return 4 E + 2 (nu/n) Σ_{k>=1} |a_k| (tau sqrt(m))^k: a bound on the excess risk without hidden constants.

    Parameters
    ----------
    p : Polynomial
        Of degree at most d - 1, coefficients a_k; the better it approximates the loss, the smaller the bound.
    loss : callable(array) -> array
    m : int
    nu_share : float
        nu/n: the largest L1 distance between normalised marginals of at most d columns, label included.
    tau : float, optional
        Default 1/sqrt(m).

    Notes
    -----
    E is the largest |p - loss| on [-R, R], R = max(tau sqrt(m), 1). A monomial of the margin of degree k is an
    expectation over k features and, for odd k, the label; summed over index tuples its coefficients are at most
    |w|_1^k <= (tau sqrt(m))^k, so the paper's factor m^(d-1) is not needed. The constant cancels.
    """
    reach = 1.0 if tau is None else tau * math.sqrt(m)
    radius = max(reach, 1.0)
    error = sup_error(p, loss, (-radius, radius))
    a = np.abs(p.coef[1:])
    return 4 * error + 2 * nu_share * float(a @ reach ** np.arange(1, len(a) + 1))


def lower_bound(n: float) -> float:
    """Return 1/(40 ln³ n): what the steps of Theorem 4.1's proof give (the paper prints 1/(16 ln³ n))."""
    return 1 / (40 * math.log(n) ** 3)
