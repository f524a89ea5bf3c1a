"""The bounds: where they meet 0.1, what they reduce to, and how they move."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalia.papers.adaptive_margin import bounds_theory as theory
from marginalia.privacy.calibration import gdp_mu

BIG = 1e9  # rows at which no bound is clipped


def test_rows_needed_for_a_risk_of_one_tenth():
    """Values computed apart from this code, to the two digits given there."""
    for factor, expected in ((36, (7e6, 2e7, 2e8)), (2, (1.5e6, 4.5e6, 4.6e7))):
        for gamma, rows in zip((0.5, 0.3, 0.1), expected, strict=True):
            found = theory.rows_needed(
                lambda n, g=gamma, c=factor: theory.explicit_published(n, g, 0, 1, 1e-6, jl_factor=c)
            )
            assert found == pytest.approx(rows, rel=0.12)
    mu = gdp_mu(1, 1e-6)
    for kappa, expected in ((4, (1.8e4, 3.0e4, 9.3e4)), (1, (5e3, 7.8e3, 2.3e4))):
        for gamma, rows in zip((0.5, 0.3, 0.1), expected, strict=True):
            found = theory.rows_needed(
                lambda n, g=gamma, k=kappa: theory.explicit_unprojected(n, g, 0, mu, dimension=20, kappa=k)
            )
            assert found == pytest.approx(rows, rel=0.06)


def test_first_term_of_the_published_bound_in_its_other_form():
    n, gamma, epsilon, delta, factor, b = 1e9, 0.3, 0.7, 1e-7, 3.0, 1.5
    G = math.ceil(math.log2(n)) + 1
    L = math.log(G * (n + 2) * (n + 1) * n**2)
    first = 192 * math.sqrt(factor) * b**2 * math.sqrt(L * G * math.log(1 / delta)) / (n * gamma**2 * epsilon)
    rest = 2 * math.sqrt(2 * math.log(G)) * 4 * math.sqrt(G * math.log(1 / delta)) / (n * epsilon) + n**-2
    found = theory.explicit_published(n, gamma, 0, epsilon, delta, jl_factor=factor, radius=b)
    assert found == pytest.approx(first + rest)


def test_outliers_are_charged_by_one_over_gamma():
    shapes = (
        lambda S: theory.theorem_4_1(BIG, 0.1, S, 1),
        lambda S: theory.theorem_6_5(BIG, 0.1, S, 1),
        lambda S: theory.theorem_7_1(BIG, 0.1, S, 1, 1e-6, 30),
        lambda S: theory.theorem_l_2(BIG, 0.1, S, 1, radius=1),
        lambda S: theory.last_iterate(BIG, 0.1, S, 1, 1e-6),
        lambda S: theory.private_tuning(BIG, 0.1, S, 1, 1e-6),
    )
    for shape in shapes:
        assert shape(1e7) - shape(0) == pytest.approx(0.1)
    explicit = [theory.explicit_published(BIG, 0.1, S, 1, 1e-6, jl_factor=2) for S in (0, 1e7)]
    assert explicit[1] - explicit[0] == pytest.approx(0.46)
    ours = [theory.explicit_unprojected(BIG, 0.1, S, 0.2, dimension=9) for S in (0, 1e7)]
    assert ours[1] - ours[0] == pytest.approx(0.11)


def test_epsilon_above_one_buys_nothing_in_theorem_4_1():
    assert theory.theorem_4_1(1e6, 0.1, 5, 3) == theory.theorem_4_1(1e6, 0.1, 5, 1)


def test_the_radius_is_a_unit():
    scaled = theory.theorem_l_2(BIG, 0.5, 100, 1, radius=5)
    assert scaled == pytest.approx(theory.theorem_l_2(BIG, 0.1, 100, 1, radius=1))


@given(st.floats(100, 1e7), st.floats(1e-3, 1), st.floats(0, 1e5), st.floats(0.05, 4))
def test_bounds_are_probabilities_that_fall_with_rows(n, gamma, outliers, epsilon):
    bounds = (
        lambda n: theory.theorem_4_1(n, gamma, outliers, epsilon),
        lambda n: theory.theorem_6_5(n, gamma, outliers, epsilon, output="last"),
        lambda n: theory.known_margin(n, gamma, epsilon),
        lambda n: theory.bassily_pure(n, gamma, 0.01, epsilon),
        lambda n: theory.bassily_efficient(n, gamma, 0.01, epsilon),
        lambda n: theory.gaussian_rule(n, gamma, 0.1),
    )
    for bound in bounds:
        assert 0 <= bound(4 * n) <= bound(n) <= 1


def test_best_takes_the_best_point_of_a_curve():
    curve = [(0.0, 0), (0.05, 10), (0.2, 30), (0.3, 400)]
    found = theory.best(lambda g, S: theory.theorem_4_1(10_000, g, S, 1), curve)
    assert found == pytest.approx(1 / (10_000 * 0.2**2) + 30 / (0.2 * 10_000))
    assert theory.best(lambda g, S: 0.0, [(0.0, 5)]) == 1.0


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
        mu_run = 1 / (4 * math.sqrt(G * math.log(1e6)))
        assert theory.gaussian_rule(n, 0.2, mu_run, radius=2) == pytest.approx(risk, abs=0.04)


def test_against_the_efficient_method_it_wins_where_it_says_anything():
    """With the outliers' hinge loss put in, Theorem 4.1 is the smaller exactly where n gamma² eps > 1."""
    for n, gamma in ((1e4, 0.1), (1e6, 0.01), (1e4, 0.012)):
        ours, theirs = 1 / (n * gamma**2), 1 / (math.sqrt(n) * gamma)
        assert (ours < theirs) == (n * gamma**2 > 1)
        assert theory.theorem_4_1(n, gamma, 0, 1) == pytest.approx(min(1, ours))
        assert theory.bassily_efficient(n, gamma, 0, 1) == pytest.approx(min(1, theirs))
