"""Zhou et al., Figure 1, and what makes a best approximation best."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from marginalia.papers.excess_risk.polynomials import bernstein, logistic_loss, minimax, sup_error

INTERVAL = (-5.0, 5.0)


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
