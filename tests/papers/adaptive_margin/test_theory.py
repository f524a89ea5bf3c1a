"""The bounds: where they meet 0.1, what they reduce to, and how they move."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginalia.papers.adaptive_margin import theory
from marginalia.papers.adaptive_margin.adaptive_margin_x9 import _rate
from marginalia.papers.adaptive_margin.runs import Sample, removal_curve, synthetic
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


def test_rows_of_another_radius_are_rescaled_rows():
    """Theorem L.2: a bound depends on gamma/b alone."""
    for bound, loss in ((theory.theorem_4_1, 30), (theory.bassily_3_1, 0.1), (theory.bassily_3_2, 0.1)):
        assert bound(BIG, 0.6, loss, 1.0, b=3.0) == pytest.approx(bound(BIG, 0.2, loss, 1.0))


def test_the_bounds_of_table_1():
    assert theory.bassily_3_1(1e4, 0.1, 0.0, 0.5) == pytest.approx(0.02)
    assert theory.bassily_3_1(1e4, 0.1, 0.04, 1.0) == pytest.approx(0.01 + 0.04 + math.sqrt(0.04 * (0.01 + 1e-4)))
    assert theory.bassily_3_2(1e4, 0.1, 0.3, 0.25) == pytest.approx(0.2 + 0.3)
    assert theory.bassily_3_2(1e4, 0.1, 0.3, 0.25, wide=True) == pytest.approx(0.2 + 0.3 + 0.1 + 0.01)
    assert theory.theorem_4_1(100, 0.1, 50, 1.0, clipped=False) == pytest.approx(1 + 5)


def test_the_constants_of_the_proof_need_many_rows():
    """The clipped bound falls from 1 as n grows, and an outlier costs 1 + 3/gamma rows."""
    few, many = (theory.explicit_published(n, 0.5, 0, 1.0, 1e-6, dimension=20) for n in (1e4, 1e8))
    assert few == 1 > 0.01 > many
    with_outliers = theory.explicit_published(1e8, 0.5, 1e6, 1.0, 1e-6, dimension=20)
    assert with_outliers - many == pytest.approx(0.01 * 7)


def test_penalty_of_the_population_risk():
    assert theory.sample_penalty(1000, 10) == pytest.approx(5 * (10 * math.log(2000) + math.log(4e6)) / 1000)


def test_the_rate_of_lemma_m1_is_enough_and_not_needed():
    """At shape 1 the largest rate is beta/((1 - beta)(G - 1)), as for Lemma 7.2; the lemma's is smaller."""
    printed, turned = _rate(1.0, 17, 0.2)
    assert printed["measured"] == pytest.approx(0.2 / (0.8 * 16))
    assert printed["bound"] == pytest.approx(0.2 / (17 + 0.2 - 3.4))
    assert (printed["holds"], turned["holds"]) == (False, True)


class TestRemoval:
    def test_separable_rows_keep_a_margin_that_grows(self):
        train, _, _ = synthetic(120, 3, 0.2, np.random.default_rng(0), n_test=1)
        curve = removal_curve(train, C=1e4, max_share=0.1)
        assert curve["margin"].iloc[0] >= 0.19
        # Every row lies exactly .2 from the edge, so here the margin cannot grow: equal, to the solver's precision.
        assert curve["margin"].iloc[-1] >= curve["margin"].iloc[0] - 1e-6
        assert curve["removed"].tolist() == list(range(13))

    def test_flipped_rows_go_first(self):
        train, _, _ = synthetic(200, 3, 0.3, np.random.default_rng(1), n_test=1, outliers=6, kind="flip")
        curve = removal_curve(train, C=100, max_share=0.05)
        assert curve.loc[curve["removed"] == 5, "margin"].item() == 0
        assert curve.loc[curve["removed"] == 6, "margin"].item() > 0.25

    def test_one_class_is_separable_from_the_origin(self):
        """All rows of one label: the margin is the distance of their hull from the origin, here .6."""
        rows = Sample(np.array([[0.6, 0.8], [0.6, -0.8], [0.9, 0.1]]), np.ones(3))
        assert removal_curve(rows, C=1e4, max_share=0.0)["margin"].item() == pytest.approx(0.6, rel=1e-3)
