"""The polynomials of Zhou et al., their bounds at reference values, and the explicit one against measured risks."""

import math

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy.optimize import minimize

from marginalia.papers.excess_risk.theory import (
    bernstein,
    explicit_bound,
    logistic_loss,
    minimax,
    nu_gen,
    sigma_gen,
    sup_error,
    thm31,
    thm32,
)

TAU = 13**-0.5
INTERVAL = (-5.0, 5.0)


def test_reference_values():
    sigma = sigma_gen(13, 4, 1.0, 1e-9)
    assert sigma == pytest.approx(1546.933, abs=1e-3)
    assert nu_gen(13, 96, 4, 10, sigma) == pytest.approx(2.2341193e12, rel=1e-7)
    assert thm31(1, TAU, 13, 4, 48842, 1000, math.log(2)) == pytest.approx(2056.918, abs=1e-3)
    assert thm32(TAU, 13, 4, 48842, 1000) == pytest.approx(360.1876, abs=1e-4)
    assert thm32(TAU, 13, 4, 48842, 1000, factor=3) == pytest.approx(1214.841, abs=1e-3)


@pytest.mark.parametrize(
    ("polynomial", "constant", "slope"),
    [
        (bernstein(logistic_loss, 3, (-1, 1)), 0.1616, 1.159),
        (minimax(logistic_loss, 2, (-1, 1)), 0.0024, 1.240),
        (minimax(logistic_loss, 4, (-1, 1)), 0.0000375, 1.259),
    ],
)
def test_the_explicit_bound_in_numbers(polynomial, constant, slope):
    at = [explicit_bound(polynomial, logistic_loss, nu) for nu in (0.0, 1.0)]
    assert at[0] == pytest.approx(constant, rel=2e-2)
    assert at[1] - at[0] == pytest.approx(slope, abs=6e-4)


def risk(w, X, y):
    return float(np.mean(logistic_loss(y * (X @ w))))


def best(X, y):
    m = X.shape[1]
    found = minimize(
        risk,
        np.zeros(m),
        args=(X, y),
        method="SLSQP",
        options={"ftol": 1e-12},
        constraints=[{"type": "ineq", "fun": lambda w: 1 / m - w @ w}],
    )
    return found.x


@pytest.mark.parametrize("seed", range(5))
def test_no_excess_risk_is_above_the_explicit_bound(seed):
    rng = np.random.default_rng(seed)
    n, m = 200, 3
    X, Z = (rng.choice([-1.0, 1.0], (n, m)) for _ in range(2))
    y, v = (np.where(R @ rng.normal(size=m) + rng.normal(size=n) > 0, 1.0, -1.0) for R in (X, Z))
    real, synthetic = np.column_stack([X, y]), np.column_stack([Z, v])
    cells = [
        np.unique(np.vstack([real, synthetic])[:, q], axis=0, return_inverse=True)[1].ravel()
        for q in ([a, b, c] for a in range(m + 1) for b in range(a) for c in range(b))
    ]
    nu = max(np.abs(np.bincount(at[:n], minlength=8) - np.bincount(at[n:], minlength=8)).sum() for at in cells) / n
    excess = risk(best(Z, v), X, y) - risk(best(X, y), X, y)
    assert -1e-6 <= excess <= explicit_bound(minimax(logistic_loss, 2, (-1, 1)), logistic_loss, nu)


def test_logistic_loss_sees_the_label_through_first_moments_only():
    # ln(1 + e^-t) = -t/2 + ln(2 cosh(t/2)): an even part, and one linear in t.
    t = np.linspace(-20, 20, 1001)
    np.testing.assert_allclose(logistic_loss(t), -t / 2 + np.log(2 * np.cosh(t / 2)), atol=1e-12)


@pytest.mark.parametrize(
    ("iterations", "coefficients", "error"),
    [
        (1, (1.237714, -0.5, 0.05440705, 0.0, -0.00014588), 0.5446),
        (4, (0.7934017, -0.5, 0.08119435, 0.0, -0.00050647), 0.1003),
        (9, (0.7504384, -0.5, 0.09311276, 0.0, -0.00091447), 0.0573),
    ],
)
def test_iterated_bernstein_polynomials_of_figure_1(iterations, coefficients, error):
    p = bernstein(logistic_loss, 4, INTERVAL, iterations=iterations)
    np.testing.assert_allclose(p.coef, coefficients, rtol=2e-5, atol=1e-8)
    assert sup_error(p, logistic_loss, INTERVAL) == pytest.approx(error, abs=6e-5)


def test_the_minimax_polynomial_is_three_times_better_than_the_printed_one():
    p = minimax(logistic_loss, 4, INTERVAL)
    np.testing.assert_allclose(p.coef, (0.7133785, -0.5, 0.1037715, 0.0, -0.00131389), rtol=1e-5, atol=1e-8)
    error = sup_error(p, logistic_loss, INTERVAL)
    assert error == pytest.approx(0.0202, abs=5e-5)
    printed = Polynomial([0.71, -0.5, 0.1096, 0, -0.0015])
    # Its coefficients are printed to two digits, the last of which moves the error by up to .03.
    assert sup_error(printed, logistic_loss, INTERVAL) == pytest.approx(0.061, abs=2e-3)
    # Chebyshev's criterion: the error alternates between +-E at degree + 2 points.
    x = np.linspace(*INTERVAL, 100_001)
    r = p(x) - logistic_loss(x)
    signs = np.sign(r[np.abs(r) > 0.999 * error])
    assert 1 + np.count_nonzero(np.diff(signs)) >= 6


def test_bernstein_keeps_lines_and_meets_popovicius_bound():
    line = bernstein(lambda x: 3 - 2 * x, 5, (-1.0, 4.0), iterations=3)
    np.testing.assert_allclose(line.coef[:2], (3, -2), atol=1e-12)
    assert np.abs(line.coef[2:]).max() < 1e-12
    for degree in (2, 5, 10):  # 5/4 w(f, (b - a)/sqrt(d)), and the logistic loss is 1-Lipschitz
        error = sup_error(bernstein(logistic_loss, degree, INTERVAL), logistic_loss, INTERVAL)
        assert error <= 1.25 * 10 / np.sqrt(degree)
