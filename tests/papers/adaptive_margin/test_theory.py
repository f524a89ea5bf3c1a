"""The bounds: where they meet 0.1, what they reduce to, and how they move."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalia.papers.adaptive_margin import theory
from marginalia.privacy.calibration import gdp_mu

BIG = 1e9  # rows at which no bound is clipped


@pytest.mark.parametrize(("kappa", "rows_needed"), [(4, (1.8e4, 3.0e4, 9.3e4)), (1, (5e3, 7.8e3, 2.3e4))])
def test_rows_needed_for_a_risk_of_one_tenth(kappa, rows_needed):
    """Values computed apart from this code, to the two digits given there."""
    mu = gdp_mu(1, 1e-6)
    for gamma, n in zip((0.5, 0.3, 0.1), rows_needed, strict=True):
        few, many = (theory.explicit_unprojected(n * f, gamma, 0, mu, dimension=20, kappa=kappa) for f in (0.94, 1.06))
        assert many < 0.1 < few


def test_outliers_are_charged_by_one_over_gamma():
    assert theory.theorem_4_1(BIG, 0.1, 1e7, 1) - theory.theorem_4_1(BIG, 0.1, 0, 1) == pytest.approx(0.1)
    ours = [theory.explicit_unprojected(BIG, 0.1, S, 0.2, dimension=9) for S in (0, 1e7)]
    assert ours[1] - ours[0] == pytest.approx(0.11)


def test_epsilon_above_one_buys_nothing_in_theorem_4_1():
    assert theory.theorem_4_1(1e6, 0.1, 5, 3) == theory.theorem_4_1(1e6, 0.1, 5, 1)


@given(st.floats(100, 1e7), st.floats(1e-3, 1), st.floats(0, 1e5), st.floats(0.05, 4))
def test_bounds_are_probabilities_that_fall_with_rows(n, gamma, outliers, epsilon):
    bounds = (
        lambda n: theory.theorem_4_1(n, gamma, outliers, epsilon),
        lambda n: theory.gaussian_rule(n, gamma, 0.1),
    )
    for bound in bounds:
        assert 0 <= bound(4 * n) <= bound(n) <= 1


def test_a_doubling_grid_costs_a_factor_of_four_at_most():
    n, S = 1e6, 0
    for gamma in (0.31, 0.017, 0.9):
        below = 2.0 ** math.floor(math.log2(gamma))
        assert theory.theorem_4_1(n, below, S, 1) <= 4 * theory.theorem_4_1(n, gamma, S, 1)


def test_rule_of_thumb():
    """Risk on separable rows of margin .2 at n = 250 .. 16000, published constants, epsilon 1."""
    expected = {250: 0.48, 500: 0.46, 1000: 0.43, 2000: 0.37, 4000: 0.26, 8000: 0.105, 16000: 0.008}
    for n, risk in expected.items():
        G = math.ceil(math.log2(n)) + 1
        mu_run = theory.published_mu(1, 1e-6) / math.sqrt(2 * G)
        assert theory.gaussian_rule(n, 0.2, mu_run, radius=2) == pytest.approx(risk, abs=0.04)
