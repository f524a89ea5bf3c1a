"""The certificate of objective perturbation: goldens, and the true divergence in one dimension."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from tiers import others_slow

from marginalia.errors import InputError
from marginalia.privacy.calibration import gdp_delta, gdp_epsilon, gdp_mu, halved_budget
from marginalia.privacy.objective_cost import objective_perturbation_delta, objective_perturbation_epsilon
from marginalia.privacy.relation import Relation


def published(epsilon: float, bound: float) -> dict[str, float]:
    sigma = bound * math.sqrt(8 * math.log(2 / 1e-5) + 4 * epsilon) / epsilon
    return {"bound": bound, "sigma": sigma, "regulariser": bound**2 / (2 * epsilon)}


@pytest.mark.slow
def test_published_constants() -> None:
    certified = {0.05: 0.0309, 0.1: 0.0625, 0.5: 0.3069, 1: 0.5869, 2: 1.0886}
    for bound in (1.0, math.sqrt(14)):
        spent = {nominal: objective_perturbation_epsilon(1e-5, **published(nominal, bound)) for nominal in certified}
        assert spent == pytest.approx(certified, abs=6e-5)


def test_published_noise_levels() -> None:
    for squared, sigma, regulariser in ((14, 37.724, 7), (16, 40.328, 8), (20, 45.088, 10)):
        constants = published(1, math.sqrt(squared))
        assert constants["sigma"] == pytest.approx(sigma, abs=6e-4)
        assert constants["regulariser"] == pytest.approx(regulariser)


@pytest.mark.slow
@given(st.floats(0.01, 8), st.floats(1, 10), st.floats(0.1, 10))
def test_tight_calibration_costs_what_a_gaussian_costs(epsilon: float, factor: float, bound: float) -> None:
    sigma = bound / gdp_mu(epsilon, 1e-5)
    spent = objective_perturbation_epsilon(1e-5, bound=bound, sigma=sigma, regulariser=factor * bound**2 / epsilon)
    assert spent == pytest.approx(epsilon, rel=1e-9)


@given(st.floats(0.05, 4), st.floats(0.3, 3))
def test_replace_one_runs_at_half_the_budget(epsilon: float, bound: float) -> None:
    half, delta = halved_budget(epsilon, 1e-5)
    sigma = bound / gdp_mu(half, delta)
    spent = objective_perturbation_epsilon(
        1e-5, bound=bound, sigma=sigma, regulariser=2.5 * bound**2 / half, relation=Relation.REPLACE_ONE
    )
    assert spent == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.2, 1.0001), (1, 1.0022), (2, 1.0076), (4, 1.0235), (10, 1.0761)])
def test_group_privacy_is_nearly_tight(epsilon: float, ratio: float) -> None:
    """No sigma below 2B/mu can do: where other rows hold θ far out, two rows' gradients differ by 2B."""
    turn, theta = 1.5, np.array([-500.0, 0.0])
    rows = np.array([[math.cos(turn), math.sin(turn)], [math.cos(turn), -math.sin(turn)]])
    a = 1 / (1 + np.exp(rows @ theta))
    assert np.linalg.norm(a[0] * rows[0] - a[1] * rows[1]) > 1.99
    assert (a * (1 - a)).max() < 1e-12
    needed = 2 / gdp_mu(epsilon, 1e-5)
    assert 1 / gdp_mu(*halved_budget(epsilon, 1e-5)) / needed == pytest.approx(ratio, abs=6e-5)


def true_delta(x: float, sigma: float, regulariser: float, base: float, epsilon: float, removed: bool) -> float:
    """Hockey-stick of adding (removing) one record in one dimension, beside tiny records of total gradient `base`."""
    theta = np.linspace(-60, 60, 600_001) * sigma / regulariser

    def density(with_record: bool) -> np.ndarray:
        a = 1 / (1 + np.exp(np.clip(x * theta, -700, 700)))
        gradient = -a * x if with_record else 0.0 * theta
        curvature = a * (1 - a) * x**2 if with_record else 0.0 * theta
        b = -(regulariser * theta + gradient + base)
        return norm.pdf(b, scale=sigma) * (regulariser + curvature)

    first, second = density(not removed), density(removed)
    return float(np.trapezoid(np.maximum(first - math.exp(epsilon) * second, 0), theta))


@pytest.mark.parametrize("nominal", others_slow([0.1, 1.0, 4.0]))
@pytest.mark.parametrize("removed", [False, True])
def test_never_below_the_true_divergence(nominal: float, removed: bool) -> None:
    constants = published(nominal, 1.0)
    for base in (0.0, 3.0 * constants["sigma"], -3.0 * constants["sigma"]):
        for epsilon in (0.2 * nominal, 0.6 * nominal):
            truth = true_delta(1.0, constants["sigma"], constants["regulariser"], base, epsilon, removed)
            assert truth <= objective_perturbation_delta(epsilon, **constants) * (1 + 1e-6) + 1e-12


def test_attained_by_the_empty_table() -> None:
    sigma = 1 / gdp_mu(1, 1e-5)
    truth = true_delta(1.0, sigma, 1.0, 0.0, 1.0, removed=True)
    assert truth == pytest.approx(1e-5, rel=1e-3)
    assert objective_perturbation_delta(1.0, bound=1.0, sigma=sigma, regulariser=1.0) == pytest.approx(1e-5)


def test_not_a_gaussian_mechanism_at_every_epsilon() -> None:
    # B = Δ = 1, σ = 1000, empty table: true δ(.1) = 1.36e-4, while 1/1000-GDP would give 0.
    constants = {"bound": 1.0, "sigma": 1000.0, "regulariser": 1.0}
    truth = true_delta(1.0, 1000.0, 1.0, 0.0, 0.1, removed=False)
    assert truth == pytest.approx(1.36e-4, rel=0.02)
    assert gdp_delta(1e-3, 0.1) == 0
    assert objective_perturbation_delta(0.1, **constants) >= truth


@pytest.mark.slow
@settings(max_examples=30)
@given(st.floats(0.05, 3), st.floats(0.3, 30), st.floats(0.05, 20))
def test_against_brute_force_integral(epsilon: float, sigma: float, regulariser: float) -> None:
    tau, kappa = 1 / sigma, 1 / (4 * regulariser)
    y = np.linspace(-10, 10, 8001) * tau
    a = np.linspace(0, 1, 401)
    g = (y[:, None] * a + a**2 * tau**2 / 2 + np.log1p(4 * a * (1 - a) * kappa)).max(axis=1)
    integral = float(np.trapezoid(-np.expm1(np.minimum(epsilon - g, 0)) * norm.pdf(y, scale=tau), y))
    ours = objective_perturbation_delta(epsilon, bound=1, sigma=sigma, regulariser=regulariser)
    assert ours == pytest.approx(integral, rel=0.01, abs=2e-6)


def test_monotone_in_every_constant() -> None:
    base = {"bound": 1.0, "sigma": 5.0, "regulariser": 0.5}
    spent = objective_perturbation_epsilon(1e-5, **base)
    assert objective_perturbation_epsilon(1e-5, **{**base, "sigma": 6.0}) < spent
    assert objective_perturbation_epsilon(1e-5, **{**base, "regulariser": 0.6}) < spent
    assert objective_perturbation_epsilon(1e-6, **base) > spent
    assert objective_perturbation_epsilon(1e-5, **base, relation=Relation.REPLACE_ONE) > 2 * spent
    assert spent >= gdp_epsilon(0.2, 1e-5)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="sigma is -1"):
        objective_perturbation_epsilon(1e-5, bound=1, sigma=-1, regulariser=1)
    with pytest.raises(InputError, match="delta is 0"):
        objective_perturbation_epsilon(0, bound=1, sigma=1, regulariser=1)
