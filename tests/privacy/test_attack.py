"""What (epsilon, delta) allows an attacker, against the pair of distributions that attains it."""

import math

import numpy as np
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
from marginalia.methods.registry import BUILT_IN
from marginalia.privacy.attack import FALSE_POSITIVES, of_budget, of_gaussian
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.events import GaussianEvent, flattened


def worst_pair(epsilon, delta):
    """The pair of laws on four outcomes of which any pair that is (epsilon, delta)-close is a post-processing."""
    high, low = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return np.array([delta, high, low, 0]), np.array([0, low, high, delta])


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-2), (1.0, 1e-9), (5.0, 1e-3)])
def test_the_bounds_are_those_of_the_worst_pair(epsilon, delta):
    member, other = worst_pair(epsilon, delta)
    found = of_budget(epsilon, delta)
    assert found.success == pytest.approx(np.maximum(member, other).sum() / 2)
    power, left = 0.0, FALSE_POSITIVES  # Neyman and Pearson: accuse where the ratio is largest
    for p, q in zip(member, other, strict=True):
        share = 1.0 if q <= left else left / q
        power, left = power + share * p, left - share * q
    assert found.true_positives == pytest.approx(power)


def test_extreme_budgets():
    assert of_budget(1e-6, 1e-9).success == pytest.approx(0.5, abs=1e-6)
    assert of_budget(1e6, 1e-5).success == 1.0
    assert of_budget(1e6, 1e-5).true_positives == 1.0
    with pytest.raises(InputError, match="epsilon is 0"):
        of_budget(0, 1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_gaussian_noise_leaves_less_to_an_attacker(epsilon):
    """By integration over a normal law and one that is shifted by mu."""
    mu = gdp_mu(epsilon, 1e-5)
    x = np.linspace(-12, 12 + mu, 400_001)
    other = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    member = np.exp(-((x - mu) ** 2) / 2) / math.sqrt(2 * math.pi)
    step = x[1] - x[0]
    found = of_gaussian(epsilon, 1e-5)
    assert found.success == pytest.approx(np.maximum(member, other).sum() * step / 2, abs=1e-4)
    accused = other[::-1].cumsum()[::-1] * step <= FALSE_POSITIVES
    assert found.true_positives == pytest.approx(member[accused].sum() * step, abs=1e-3)
    assert found.success < of_budget(epsilon, 1e-5).success
    assert found.true_positives <= of_budget(epsilon, 1e-5).true_positives


@pytest.mark.parametrize("name", [m.id for m in BUILT_IN.values() if m.kind != "downstream" and m.arms[0].is_private])
def test_the_methods_with_gaussian_noise_alone(name):
    """As their ledgers say; and calibrated, so that the noise is that of the mu of the budget."""
    rng = np.random.default_rng(0)
    table = Table(rng.integers(0, 2, (400, 3)), Domain.from_sizes({"a": 2, "b": 2, "y": 2}))
    budget = Budget(1.0, 1e-5, BUILT_IN[name].relations[-1], 0, 400)
    fitted = (
        fit_synthesizer(name, table, budget)
        if BUILT_IN[name].kind == "synthesizer"
        else fit_learner(name, table, "y", budget)
    )
    found = list(flattened(tuple(fitted.ledger_.events)))
    assert ({type(event) for event, _ in found} == {GaussianEvent}) == BUILT_IN[name].gaussian
    if BUILT_IN[name].gaussian:
        mu = math.sqrt(sum(times * (event.sensitivity / event.sigma) ** 2 for event, times in found))
        assert mu <= gdp_mu(1.0, 1e-5) * (1 + 1e-9)
