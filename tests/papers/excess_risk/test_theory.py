"""The bounds of Zhou et al. at reference values, and the explicit one against measured excess risks."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from marginalia.papers.excess_risk.polynomials import bernstein, logistic_loss, minimax
from marginalia.papers.excess_risk.theory import (
    cor35,
    cor36,
    explicit_bound,
    lower_bound,
    nu_gen,
    sigma_gen,
    thm31,
    thm32,
)

TAU = 13**-0.5


def test_reference_values():
    sigma = sigma_gen(13, 4, 1.0, 1e-9)
    assert sigma == pytest.approx(1546.933, abs=1e-3)
    assert nu_gen(13, 96, 4, 10, sigma) == pytest.approx(2.2341193e12, rel=1e-7)
    assert thm31(1, TAU, 13, 4, 48842, 1000, math.log(2)) == pytest.approx(2056.918, abs=1e-3)
    assert thm32(TAU, 13, 4, 48842, 1000) == pytest.approx(360.1876, abs=1e-4)
    assert thm32(TAU, 13, 4, 48842, 1000, factor=3) == pytest.approx(1214.841, abs=1e-3)
    nu = nu_gen(13, 96, 4, 10, sigma)
    assert cor35(1, TAU, 13, 96, 4, 48842, 10, sigma, math.log(2)) == thm31(1, TAU, 13, 4, 48842, nu, math.log(2))
    assert cor36(TAU, 13, 96, 4, 48842, 10, sigma) == thm32(TAU, 13, 4, 48842, nu, factor=3)
    assert lower_bound(48842) == pytest.approx(1 / (40 * math.log(48842) ** 3))


@pytest.mark.parametrize(
    ("polynomial", "constant", "slope"),
    [
        (bernstein(logistic_loss, 3, (-1, 1)), 0.1616, 1.159),
        (minimax(logistic_loss, 2, (-1, 1)), 0.0024, 1.240),
        (minimax(logistic_loss, 4, (-1, 1)), 0.0000375, 1.259),
    ],
)
def test_the_explicit_bound_in_numbers(polynomial, constant, slope):
    at = [explicit_bound(polynomial, logistic_loss, m=13, nu_share=nu) for nu in (0.0, 1.0)]
    assert at[0] == pytest.approx(constant, rel=2e-2)
    assert at[1] - at[0] == pytest.approx(slope, abs=6e-4)


def risk(w, X, y):
    return float(np.mean(logistic_loss(y * (X @ w))))


def best(X, y):
    m = X.shape[1]
    found = minimize(
        risk, np.zeros(m), args=(X, y), method="SLSQP", options={"ftol": 1e-12},
        constraints=[{"type": "ineq", "fun": lambda w: 1 / m - w @ w}],
    )  # fmt: skip
    return found.x


@pytest.mark.parametrize("seed", range(5))
def test_no_excess_risk_is_above_the_explicit_bound(seed):
    rng = np.random.default_rng(seed)
    n, m = 200, 3
    X, Z = (rng.choice([-1.0, 1.0], (n, m)) for _ in range(2))
    y, v = (np.where(R @ rng.normal(size=m) + rng.normal(size=n) > 0, 1.0, -1.0) for R in (X, Z))
    real, synthetic = np.column_stack([X, y]), np.column_stack([Z, v])
    cells = [np.unique(np.vstack([real, synthetic])[:, q], axis=0, return_inverse=True)[1].ravel()
             for q in ([a, b, c] for a in range(m + 1) for b in range(a) for c in range(b))]  # fmt: skip
    nu = max(np.abs(np.bincount(at[:n], minlength=8) - np.bincount(at[n:], minlength=8)).sum() for at in cells) / n
    excess = risk(best(Z, v), X, y) - risk(best(X, y), X, y)
    assert -1e-6 <= excess <= explicit_bound(minimax(logistic_loss, 2, (-1, 1)), logistic_loss, m=m, nu_share=nu)


def test_logistic_loss_sees_the_label_through_first_moments_only():
    # ln(1 + e^-t) = -t/2 + ln(2 cosh(t/2)): an even part, and one linear in t.
    t = np.linspace(-20, 20, 1001)
    np.testing.assert_allclose(logistic_loss(t), -t / 2 + np.log(2 * np.cosh(t / 2)), atol=1e-12)
