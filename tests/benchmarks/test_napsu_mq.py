"""Intervals from several synthetic tables, by the rules for fully synthetic data."""

import napsu_mq
import numpy as np
import pytest
from scipy import stats


def test_the_rules_are_those_of_raghunathan_reiter_and_rubin():
    q, u = np.array([0.0, 1.0, 2.0, 5.0]), np.array([0.1, 0.3, 0.2, 0.2])
    between, within = np.var(q, ddof=1), 0.2
    variance = 1.25 * between - within  # (1 + 1/m) B - U
    freedom = 3 * (1 - within / (1.25 * between)) ** 2
    half = stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    assert napsu_mq.combined(q, u) == pytest.approx((2.0 - half, 2.0 + half))


def test_a_variance_that_comes_out_negative_is_that_within_tables():
    q, u = np.array([0.9, 1.0, 1.1, 1.0]), np.full(4, 0.04)
    low, high = napsu_mq.combined(q, u)
    between = 1.25 * np.var(q, ddof=1)
    assert between < 0.04
    half = stats.t.ppf(0.975, 3 * (1 - 0.04 / between) ** 2) * 0.2
    assert (low, high) == pytest.approx((1 - half, 1 + half))


def test_intervals_of_complete_posterior_draws_cover_as_they_say():
    """A mean known up to an error of 2, of tables that add one of 1: 1,000 releases; false alarm 1e-4."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(1000):
        centre = 2 * rng.normal()  # the estimate of a true 0
        q = centre + 2 * rng.normal(size=50) + rng.normal(size=50)
        low, high = napsu_mq.combined(q, np.ones(50))
        hits += low <= 0 <= high
    assert stats.binomtest(hits, 1000, 0.95).pvalue > 1e-4
