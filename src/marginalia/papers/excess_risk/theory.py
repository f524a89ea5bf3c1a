"""The theorems of Zhou et al.: polynomials close to a loss, and bounds on the excess empirical risk that follow.

Functions named after a statement give it with its O-constants set to 1: shapes, no bounds. The one to use is
`explicit_bound`, from the same proof with every constant kept. n records, m features in [-1, 1], labels ±1, models of
norm at most tau (tau = 1/sqrt(m) is the reference), loss K-Lipschitz; all marginals of at most d columns are within nu
records of the true ones in L1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def logistic_loss(t: Array) -> Array:
    """Return ln(1 + exp(-t)), minus the logarithm of the sigmoid."""
    return np.logaddexp(0.0, -np.asarray(t, dtype=np.float64))


def bernstein(f: Function, degree: int, interval: tuple[float, float], *, iterations: int = 1) -> Polynomial:
    """Return the (iterated) Bernstein polynomial of f on an interval [a, b], in powers of x itself.

    Σ_i v_i B_{d,i} with v = Σ_{j<c} (I - M)^j f(nodes), M_ij = B_{d,j}(i/d) and c `iterations`: the operator
    I - (I - P_d)^c, that is Bernstein's own P_d applied to f, then to what is left of it, c times. With K the Lipschitz
    constant of f and b - a = 2R the error of P_d is at most (5/2) K R / sqrt(d) (Popoviciu).
    """
    from scipy.special import comb

    a, b = interval
    i = np.arange(degree + 1)
    nodes = i / degree
    basis = comb(degree, i) * nodes[:, None] ** i * (1 - nodes[:, None]) ** (degree - i)
    values = left = np.asarray(f(a + (b - a) * nodes), dtype=np.float64)
    for _ in range(iterations - 1):
        left = left - basis @ left
        values = values + left
    u = Polynomial([-a / (b - a), 1 / (b - a)])
    terms = [v * float(comb(degree, k)) * u**k * (1 - u) ** (degree - k) for k, v in enumerate(values)]
    return sum(terms[1:], terms[0])


def minimax(f: Function, degree: int, interval: tuple[float, float], *, points: int = 4001) -> Polynomial:
    """Return the polynomial of least maximal distance from f, by a linear program on Chebyshev points.

    Between the `points` on which it is minimised the distance is larger by about (pi / points)² of the second
    derivative.
    """
    from scipy.optimize import linprog

    a, b = interval
    grid = np.cos(np.pi * np.arange(points) / (points - 1))
    values = np.asarray(f(a + (b - a) * (grid + 1) / 2), dtype=np.float64)
    basis = np.polynomial.chebyshev.chebvander(grid, degree)
    slack = np.ones((points, 1))
    solution = linprog(
        np.r_[np.zeros(degree + 1), 1.0],
        A_ub=np.block([[basis, -slack], [-basis, -slack]]),
        b_ub=np.r_[values, -values],
        bounds=[*[(None, None)] * (degree + 1), (0, None)],
        method="highs",
    )
    if not solution.success:
        raise RuntimeError(f"the linear program of the minimax polynomial failed: {solution.message}")
    coefficients = np.asarray(solution.x)[:-1]
    return Chebyshev(coefficients, domain=[a, b]).convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])


def sup_error(p: Polynomial, f: Function, interval: tuple[float, float], *, points: int = 200_001) -> float:
    """Return the largest |p - f| on an even grid of the interval."""
    x = np.linspace(*interval, points)
    return float(np.abs(p(x) - f(x)).max())


def thm31(lipschitz: float, tau: float, m: int, d: int, n: float, nu: float, phi0: float) -> float:
    """Return K tau sqrt(m/(d-1)) + (K tau sqrt(m) + phi0) (3m max{1, tau})^(d-1) nu/n; phi0 = phi(0).

    With nu = `nu_gen`, Corollary 3.5.
    """
    reach = lipschitz * tau * math.sqrt(m)
    return reach / math.sqrt(d - 1) + (reach + phi0) * (3 * m * max(1.0, tau)) ** (d - 1) * nu / n


def thm32(tau: float, m: int, d: int, n: float, nu: float, *, factor: float = 2.0) -> float:
    """Return tau sqrt(m)/(d-1) + tau sqrt(m) (2m max{1, tau})^(d-1) nu/n, for logistic loss.

    As printed; the proof gives tau² m/(d-1) for the first term (the same at tau = 1/sqrt(m)) and hides a factor
    ln 2 + tau sqrt(m) in the second. With nu = `nu_gen`, Corollary 3.6, which has a `factor` 3 of m where 2 would do.
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

    Lemma 3.4 for the generator Gen_{d,sigma}: l `levels`, the largest number of values of a column; lambda `exponent`.
    """
    spread = math.sqrt(2 * (math.log(2) * (1 + exponent) + d * math.log(m * levels)))
    return 2.0 * levels**d * spread * sigma


def explicit_bound(p: Polynomial, loss: Function, nu_share: float) -> float:
    """Return 4 E + 2 (nu/n) Σ_{k>=1} |a_k|: a bound at tau = 1/sqrt(m) on the excess risk, without hidden constants.

    p, of degree at most d - 1, has coefficients a_k: the better it approximates the loss, the smaller the bound. nu/n
    (`nu_share`) is the largest L1 distance between normalised marginals of at most d columns, label included.

    E is the largest |p - loss| on [-1, 1], where all margins are. A monomial of the margin of degree k is an
    expectation over k features and, for odd k, the label; summed over index tuples its coefficients are at most
    |w|_1^k <= (tau sqrt(m))^k = 1, so the paper's factor m^(d-1) is not needed. The constant cancels.
    """
    return 4 * sup_error(p, loss, (-1.0, 1.0)) + 2 * nu_share * float(np.abs(p.coef[1:]).sum())
