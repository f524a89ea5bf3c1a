"""Conversions and calibrations against published values, other formulas and each other."""

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from tiers import others_slow

from marginalia.errors import InputError
from marginalia.privacy.calibration import (
    gaussian_sigma,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    halved_budget,
    zcdp_epsilon,
    zcdp_rho,
)
from marginalia.privacy.pld import loss_distribution_epsilon, poisson_gaussian_noise_multiplier
from marginalia.privacy.relation import Relation

epsilons = st.floats(1e-3, 50)
deltas = st.floats(-12, math.log10(0.5)).map(lambda power: 10**power)
mus = st.floats(-3, 1.3).map(lambda power: 10**power)


class TestGaussianDP:
    def test_mu_published(self) -> None:
        published = [
            (0.05, 1e-5, 0.01731),
            (0.1, 1e-5, 0.03252),
            (0.2, 1e-5, 0.06133),
            (0.5, 1e-5, 0.14221),
            (1, 1e-5, 0.268051),
            (2, 1e-5, 0.50155),
            (4, 1e-5, 0.92493),
            (0.25, 1e-6, 0.0649),
            (0.5, 1e-6, 0.1241),
            (1, 1e-6, 0.2367044),
            (2, 1e-6, 0.4483),
            (4, 1e-6, 0.8379),
            (8, 1e-6, 1.532),
        ]
        off = {
            (epsilon, delta): gdp_mu(epsilon, delta)
            for epsilon, delta, mu in published
            if gdp_mu(epsilon, delta) != pytest.approx(mu, abs=0.6 * 10 ** -len(str(mu).split(".")[1]))
        }
        assert not off

    def test_reference_values(self) -> None:
        assert gdp_epsilon(1, 1e-5) == pytest.approx(4.377178, abs=5e-7)
        assert gdp_delta(1, 1) == pytest.approx(0.1269367, abs=5e-8)
        assert gdp_epsilon(0.0951199, 1e-6) == pytest.approx(0.376187, abs=2e-6)
        assert gaussian_sigma(1, 1e-5) == pytest.approx(3.730632, abs=5e-7)

    @pytest.mark.parametrize(
        ("mu", "epsilon"), others_slow([(0.3, 0.7), (1, 0.1), (3, 2), (8, 50), (0.05, 0.01)], (0.3, 0.7), (3, 2))
    )
    def test_delta_is_the_hockey_stick_integral(self, mu: float, epsilon: float) -> None:
        grid = np.linspace(-12, 12 + mu, 2_000_001)
        excess = np.maximum(norm.pdf(grid, mu) - math.exp(epsilon) * norm.pdf(grid), 0)
        assert gdp_delta(mu, epsilon) == pytest.approx(np.trapezoid(excess, grid), rel=1e-6)

    @pytest.mark.slow
    @given(epsilons, deltas)
    def test_mu_inverts_epsilon(self, epsilon: float, delta: float) -> None:
        mu = gdp_mu(epsilon, delta)
        assert gdp_delta(mu, epsilon) == pytest.approx(delta, rel=1e-8)
        assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-9)

    @given(mus, deltas)
    def test_epsilon_inverts_delta(self, mu: float, delta: float) -> None:
        epsilon = gdp_epsilon(mu, delta)
        if epsilon == 0:
            assert gdp_delta(mu, 0) <= delta
        else:
            assert gdp_delta(mu, epsilon) == pytest.approx(delta, rel=1e-8)

    @given(mus, epsilons, deltas)
    def test_monotone(self, mu: float, epsilon: float, delta: float) -> None:
        assert gdp_epsilon(1.01 * mu, delta) >= gdp_epsilon(mu, delta) >= gdp_epsilon(mu, min(1.01 * delta, 0.99))
        assert gdp_delta(mu, epsilon) >= gdp_delta(mu, 1.01 * epsilon)
        assert gdp_mu(1.01 * epsilon, delta) > gdp_mu(epsilon, delta)

    def test_no_release_costs_nothing(self) -> None:
        assert gdp_epsilon(0, 1e-5) == 0
        assert gdp_delta(0, 0) == 0

    @pytest.mark.slow
    @given(st.floats(1e-2, 30), st.floats(-12, -1).map(lambda power: 10**power))
    def test_agrees_with_dp_accounting(self, epsilon: float, delta: float) -> None:
        mu = 1 / dp_accounting.get_sigma_gaussian(epsilon, delta)
        assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=1e-9)
        assert gdp_epsilon(mu, delta) == pytest.approx(dp_accounting.get_epsilon_gaussian(1 / mu, delta), rel=1e-9)
        assert gdp_delta(mu, epsilon) == pytest.approx(
            GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon), rel=1e-9, abs=0
        )

    @pytest.mark.parametrize(("mu", "epsilon"), [(1e-3, 0.01), (0.01, 0.3), (0.05, 1), (0.1, 3.6), (1, 38)])
    def test_keeps_digits_that_dp_accounting_loses(self, mu: float, epsilon: float) -> None:
        with mpmath.workdps(60):
            m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
            exact = float(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))
        ours = abs(gdp_delta(mu, epsilon) / exact - 1)
        assert ours < 1e-11
        assert ours < 0.1 * abs(GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon) / exact - 1)

    def test_deep_tail_does_not_cancel(self) -> None:
        # δ = 1e-300 at tiny mu: the two terms of the formula agree to 12 digits there.
        mu = gdp_mu(1e-3, 1e-300)
        assert 1e-3 / mu == pytest.approx(math.sqrt(2 * 300 * math.log(10)), rel=0.02)


class TestZeroConcentratedDP:
    def test_rho_published(self) -> None:
        published = [
            (0.05, 1e-5, 0.00012105),
            (0.1, 1e-5, 0.00043299),
            (0.2, 1e-5, 0.00155884),
            (0.5, 1e-5, 0.00850553),
            (1, 1e-5, 0.03055660),
            (2, 1e-5, 0.10825636),
            (5, 1e-5, 0.55097347),
        ]
        published += [
            (epsilon, rows**-2.0, rho)
            for rows, values in {
                48842: (0.000985, 0.014270, 0.053645),
                4824: (0.001354, 0.018984, 0.070076),
                7214: (0.001272, 0.017961, 0.066555),
                60420: (0.000961, 0.013949, 0.052506),
                303: (0.002383, 0.030845, 0.109172),
                20798: (0.001096, 0.015717, 0.058748),
            }.items()
            for epsilon, rho in zip((0.25, 1, 2), values, strict=True)
        ]
        off = {
            (epsilon, delta): zcdp_rho(epsilon, delta)
            for epsilon, delta, rho in published
            if zcdp_rho(epsilon, delta) != pytest.approx(rho, abs=0.51e-6 if rho > 0.0009 else 0.51e-8)
        }
        assert not off

    def test_epsilon_published(self) -> None:
        assert zcdp_epsilon(0.5, 1e-5) == pytest.approx(4.7285, abs=2e-4)  # theirs minimises over a list of orders

    @pytest.mark.slow
    @given(st.floats(1e-6, 20), deltas)
    def test_minimum_over_orders(self, rho: float, delta: float) -> None:
        def log_delta(log_t: float, epsilon: float) -> float:
            t = math.exp(
                log_t
            )  # order a = 1 + t, the form that Canonne et al. minimise: exp((a-1)(aρ-ε))/(a-1)·(1-1/a)^a
            return t * ((1 + t) * rho - epsilon) - math.log(t) + (1 + t) * (math.log(t) - math.log1p(t))

        epsilon = zcdp_epsilon(rho, delta)
        best = min(
            minimize_scalar(log_delta, args=(epsilon,), bounds=(low, low + 4), method="bounded").fun
            for low in range(-12, 16, 3)
        )
        if epsilon > 0:
            assert best == pytest.approx(math.log(delta), abs=1e-6)
        else:
            assert best <= math.log(delta) + 1e-6

    @pytest.mark.slow
    @given(epsilons, deltas)
    def test_rho_inverts_epsilon(self, epsilon: float, delta: float) -> None:
        assert zcdp_epsilon(zcdp_rho(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-10)

    @pytest.mark.slow
    @given(mus, deltas)
    def test_never_below_the_exact_gaussian(self, mu: float, delta: float) -> None:
        assert zcdp_epsilon(mu**2 / 2, delta) >= gdp_epsilon(mu, delta) * (1 - 1e-12)


class TestGaussianSigma:
    @pytest.mark.slow
    @given(epsilons, deltas, st.floats(0.1, 100), st.integers(1, 500))
    def test_spends_the_budget_exactly(self, epsilon: float, delta: float, sensitivity: float, releases: int) -> None:
        sigma = gaussian_sigma(epsilon, delta, sensitivity=sensitivity, releases=releases)
        assert gdp_epsilon(math.sqrt(releases) * sensitivity / sigma, delta) == pytest.approx(epsilon, rel=1e-9)

    def test_classical_formula(self) -> None:
        # Plain Private-PGM: σ² = 2·(2|Q|)·ln(1.25/δ)/ε², one release per marginal, replace-one.
        sigma = gaussian_sigma(0.5, 1e-6, sensitivity=math.sqrt(2), releases=10, method="classical")
        assert sigma**2 == pytest.approx(2 * 20 * math.log(1.25e6) / 0.25)

    @pytest.mark.parametrize(
        ("features", "epsilon_1_sd"), [(math.sqrt(91), 40.3), (14.0, 59.2), (math.sqrt(210), 61.2), (21.0, 88.7)]
    )
    def test_reduced_space_statistics(self, features: float, epsilon_1_sd: float) -> None:
        assert gaussian_sigma(1, 1e-6, sensitivity=features) == pytest.approx(epsilon_1_sd, abs=0.06)


class TestPoissonSampledGaussian:
    @pytest.mark.slow
    @pytest.mark.parametrize(("epsilon", "expected"), [(0.1, 20.19), (1, 2.5915), (5, 0.905)])
    def test_published(self, epsilon: float, expected: float) -> None:
        multiplier = poisson_gaussian_noise_multiplier(epsilon, 1e-5, 1024 / 47842, 934, Relation.ADD_REMOVE)
        assert multiplier == pytest.approx(expected, rel=1e-3)

    @pytest.mark.parametrize(
        ("rows", "steps", "expected"), others_slow([(47842, 3737, 1.424), (50000, 3906, 1.400), (28358, 2215, 1.764)])
    )
    @pytest.mark.slow
    def test_fixed_dp_sgd_setting(self, rows: int, steps: int, expected: float) -> None:
        multiplier = poisson_gaussian_noise_multiplier(1, 1e-5, 256 / rows, steps, Relation.ADD_REMOVE)
        assert multiplier == pytest.approx(expected, abs=1.5e-3)

    @pytest.mark.parametrize("relation", list(Relation))
    def test_spends_no_more_and_hardly_less(self, relation: Relation) -> None:
        multiplier = poisson_gaussian_noise_multiplier(0.7, 1e-6, 0.02, 900, relation)
        spent = loss_distribution_epsilon(((0.02, multiplier, 900),), (), 0.0, relation, 1e-6)
        assert 0.7 * (1 - 3e-4) < spent <= 0.7

    @pytest.mark.slow
    def test_rarely_sampled_records_need_little_noise(self) -> None:
        assert poisson_gaussian_noise_multiplier(1, 1e-5, 5e-6, 1, Relation.ADD_REMOVE) < 0.3

    def test_full_batch_is_a_plain_gaussian(self) -> None:
        assert poisson_gaussian_noise_multiplier(1, 1e-5, 1.0, 20, Relation.ADD_REMOVE) == pytest.approx(
            gaussian_sigma(1, 1e-5, releases=20)
        )
        assert poisson_gaussian_noise_multiplier(1, 1e-5, 1.0, 20, Relation.REPLACE_ONE) == pytest.approx(
            gaussian_sigma(1, 1e-5, releases=20, sensitivity=2)
        )


@pytest.mark.slow
class TestLossDistributions:
    @settings(max_examples=10, deadline=None)
    @given(st.floats(0.05, 3), st.sampled_from([1e-10, 1e-6, 1e-3, 0.1]))
    def test_gaussian_close_above_exact(self, mu: float, delta: float) -> None:
        exact = gdp_epsilon(mu, delta)
        spent = loss_distribution_epsilon((), (), mu, Relation.ADD_REMOVE, delta)
        assert exact * (1 - 1e-7) <= spent <= exact * 1.001 + 1e-6

    @settings(max_examples=10, deadline=None)
    @given(st.floats(0.05, 5), st.sampled_from([1e-10, 1e-6, 1e-3, 0.01]))
    def test_single_laplace_closed_form(self, scale: float, delta: float) -> None:
        # δ(ε) = 1 - exp((ε - 1/scale)/2)
        exact = 1 / scale + 2 * math.log1p(-delta)
        assert loss_distribution_epsilon((), ((scale, 1),), 0.0, Relation.ADD_REMOVE, delta) == pytest.approx(
            exact, rel=1e-3
        )


def test_halved_budget_is_group_privacy() -> None:
    half, small = halved_budget(1.0, 1e-5)
    assert half == 0.5
    assert small * (1 + math.exp(half)) == pytest.approx(1e-5)


def test_bad_epsilon() -> None:
    for call in (gdp_mu, zcdp_rho, gaussian_sigma, halved_budget):
        for bad in (0, -1, math.nan, math.inf, "one", None):
            with pytest.raises(InputError, match=f"epsilon is '?{bad}"):
                call(bad, 1e-5)  # type: ignore[operator]


def test_bad_delta() -> None:
    for call in (gdp_mu, gdp_epsilon, zcdp_rho, zcdp_epsilon, gaussian_sigma, halved_budget):
        for bad in (0, 1, -1e-5, 2, math.nan, math.inf, "small"):
            with pytest.raises(InputError, match=f"delta is '?{bad}"):
                call(1.0, bad)  # type: ignore[operator]


def test_bad_rest() -> None:
    with pytest.raises(InputError, match="mu is -1"):
        gdp_epsilon(-1, 0.1)
    with pytest.raises(InputError, match="releases is"):
        gaussian_sigma(1, 0.1, releases=1.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown method 'exact'"):
        gaussian_sigma(1, 0.1, method="exact")
    with pytest.raises(InputError, match="rate is 2"):
        poisson_gaussian_noise_multiplier(1, 0.1, 2.0, 10, Relation.ADD_REMOVE)
