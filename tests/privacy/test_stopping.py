"""Random stopping: closed forms, goldens, and a brute-force law."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from marginalia.errors import InputError
from marginalia.privacy.calibration import gdp_delta, gdp_mu
from marginalia.privacy.stopping_cost import (
    mean_runs,
    random_stopping_epsilon,
    random_stopping_mu,
)


@pytest.mark.parametrize(("r", "mu_run"), [(1 / 64, 0.1024), (1 / 304, 0.0903), (1 / 16, 0.1192)])
def test_published_calibration_goldens(r: float, mu_run: float) -> None:
    assert random_stopping_mu(1, 1e-6, r=r) == pytest.approx(mu_run, abs=6e-5)


def test_reference_values() -> None:
    assert random_stopping_mu(1, 1e-6, r=1 / 64) == pytest.approx(0.10239, abs=5e-6)
    assert random_stopping_epsilon(0.1, 2.859e-7, r=1 / 64) == pytest.approx(1, abs=2e-5)
    r = 1 / (17 * (39073**2 - 1))  # the paper's own constants on Adult
    assert random_stopping_mu(1, 1e-6, r=r, method="published") == pytest.approx(0.0192, abs=6e-5)
    assert random_stopping_mu(1, 1e-6, r=r) == pytest.approx(0.0476, abs=6e-5)
    assert random_stopping_epsilon(0.0192, 1e-200, r=r) < 1


@pytest.mark.slow
@given(st.floats(0.01, 1), st.floats(0.005, 0.5), st.floats(0.1, 4))
def test_minimum_over_the_free_parameter(mu: float, r: float, epsilon: float) -> None:
    grid = np.linspace(0, 6 * mu, 4001)
    terms = [math.exp(e) + (1 / r - 1) * gdp_delta(mu, e) for e in grid[::40]]
    fine = min(terms)
    rest = epsilon - 2 * math.log(fine)
    coarse = 1.0 if rest < 0 else min(1.0, gdp_delta(mu, rest) / r)
    if 0 < coarse < 1:
        assert random_stopping_epsilon(mu, coarse * (1 + 1e-9), r=r) <= epsilon * (1 + 1e-9)


@given(st.floats(0.05, 5), st.floats(0.001, 0.5), st.sampled_from([0.0, 0.5, 1.0, 2.0, -0.5]))
def test_calibration_spends_the_budget(epsilon: float, r: float, eta: float) -> None:
    mu = random_stopping_mu(epsilon, 1e-6, r=r, eta=eta)
    assert random_stopping_epsilon(mu, 1e-6, r=r, eta=eta) == pytest.approx(epsilon, rel=1e-9)
    assert mu < gdp_mu(epsilon, 1e-6)  # choosing the best of several runs is never free


def test_mean_of_the_law() -> None:
    # P(k) ∝ (1-r)^k Π_{l<k} (l+eta)/(l+1), up to the constant, which for eta = 0 becomes (1-r)^k/k.
    k, means = np.arange(1, 6001), {}
    for r, eta in itertools.product((0.3, 0.01), (-0.5, 0.0, 1.0, 2.5)):
        factors = np.concatenate([[1.0], (k[:-1] + eta) / (k[:-1] + 1)])
        weights = (1 - r) ** k * np.cumprod(factors)
        means[r, eta] = float(k @ weights / weights.sum())
    assert {law: mean_runs(*law) for law in means} == pytest.approx(means, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "r"), [(0.3, 1 / 4), (1.0, 1 / 16), (0.1, 1 / 64)])
def test_never_below_the_true_divergence(mu: float, r: float) -> None:
    # The whole run is one N(shift, 1) score, the smallest wins: density q·PGF'(P(another score is larger)).
    y = np.linspace(-14, 12, 400_001)

    def winner(shift: float) -> np.ndarray:
        return norm.pdf(y - shift) * r / (r + (1 - r) * norm.cdf(y - shift)) ** 2

    for epsilon in (0.1, 0.5, 1.0, 2.0):
        for first, second in ((0.0, mu), (mu, 0.0)):
            gap = winner(first) - math.exp(epsilon) * winner(second)
            truth = float(np.trapezoid(np.maximum(gap, 0), y))
            if truth > 2e-9:  # the integral is good to 1e-9
                assert random_stopping_epsilon(mu, truth - 1e-9, r=r) >= epsilon


def test_bad_input() -> None:
    with pytest.raises(InputError, match="r is 1"):
        random_stopping_mu(1, 1e-6, r=1)
    with pytest.raises(InputError, match="eta"):
        mean_runs(0.5, -1)
    with pytest.raises(InputError, match="for eta = 1"):
        random_stopping_mu(1, 1e-6, r=0.1, eta=0, method="published")
    with pytest.raises(InputError, match="unknown method 'exact'"):
        random_stopping_mu(1, 1e-6, r=0.1, method="exact")
