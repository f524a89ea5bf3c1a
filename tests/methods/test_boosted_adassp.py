"""Boosted AdaSSP: what it spends, the authors' noise, and least squares without noise."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from marginalia.errors import InputError
from marginalia.methods.boosted_adassp import BoostedAdaSSPRegressor
from marginalia.methods.ols import OLSRegressor
from marginalia.privacy import Relation
from marginalia.privacy.mechanisms.hooks import intercepting


def made_up(n=4000, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X /= np.linalg.norm(X, axis=1).max()
    y = X @ rng.normal(size=p) + 0.1 * rng.normal(size=n)
    return X, y / np.abs(y).max()


def fit(X, y, **given):
    return BoostedAdaSSPRegressor(**{"delta": 1e-6, "random_state": 0, **given}).fit(X, y)


@pytest.mark.parametrize(
    ("calibration", "relation"), [("tight", "add_remove"), ("tight", "replace_one"), ("published", "add_remove")]
)
def test_the_budget_is_spent_and_no_more(calibration, relation):
    """Up to the room for rounding in the sensitivity of the eigenvalue, which the published noise does not have."""
    ledger = fit(*made_up(), calibration=calibration, relation=relation, rounds=10).ledger_
    assert ledger.epsilon_spent == pytest.approx(1.0, rel=1e-5)
    if calibration == "tight":
        assert ledger.certified


def test_the_published_noise_costs_more_where_a_record_is_replaced():
    """X'X moves by the root of 2, X'r by 2: ten rounds and two releases of one multiplier."""
    ledger = fit(*made_up(), calibration="published", relation="replace_one", rounds=10).ledger_
    assert 1.7 < ledger.epsilon_spent < 2.4
    assert not ledger.certified


@pytest.mark.parametrize("rounds", [1, 100])
def test_published_multiplier_is_that_of_rounds_and_two_releases(rounds):
    """delta(epsilon) of as many releases is the budget's: Gaussian DP with mu = sqrt(rounds + 2)/multiplier."""
    events = fit(*made_up(n=50), calibration="published", relation="add_remove", rounds=rounds).ledger_.events
    eigenvalue, moment, run = events[0], events[1], events[2].events[0]
    multiplier = eigenvalue.sigma  # rows have norm 1
    assert moment.sigma == run.sigma == multiplier
    mu, phi = math.sqrt(rounds + 2) / multiplier, NormalDist().cdf
    assert phi(mu / 2 - 1 / mu) - math.e * phi(-mu / 2 - 1 / mu) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_with_little_noise_it_is_least_squares(calibration):
    X, y = made_up(p=3)
    model = fit(X, y, epsilon=1e5, delta=1e-3, calibration=calibration, fit_intercept=False, rounds=5)
    assert model.coef_ == pytest.approx(OLSRegressor(fit_intercept=False).fit(X, y).coef_, abs=2e-3)


def test_boosting_undoes_the_shrinkage_of_the_ridge():
    """Without noise on X'r: the first round is AdaSSP, too small by the ridge; later rounds approach least squares."""

    def exact_products(call, exact, draw):
        return np.asarray(exact()) * call.quantum if call.label == "X'r" else draw()

    X, y = made_up(n=200, p=3)
    reference = OLSRegressor(fit_intercept=False).fit(X, y).coef_
    distances = []
    for rounds in (1, 10, 100):
        with intercepting(exact_products):  # at the noise of X'X of one round
            model = fit(X, y, fit_intercept=False, relation="add_remove", rounds=rounds)
        assert model.ridge_ > 0
        distances.append(np.linalg.norm(model.coef_ - reference))
    assert distances[0] > 2 * distances[1] > 4 * distances[2]


def test_residuals_are_clipped():
    """An X'X that is far too small makes theta huge; no row's part of the next product exceeds its bound."""
    X, y = made_up(n=500)
    products = []

    def hook(call, exact, draw):
        if call.label == "X'r":
            products.append(np.asarray(exact()) * call.quantum)
        return 1e-9 * np.eye(6) if call.label == "X'X" else np.asarray(1e6) if "eigen" in call.label else draw()

    with intercepting(hook):
        model = fit(X, y, target_bound=0.5, rounds=3)
    rows = np.abs(np.column_stack([X, np.ones(500)]))
    assert len(products) == 3
    assert np.all(np.abs(products) <= rows.sum(axis=0) * 0.5)
    assert np.abs(model.coef_).max() > 1e6


def test_the_order_of_rows_does_not_matter():
    X, y = made_up(n=500)
    order = np.random.default_rng(1).permutation(500)
    one, two = (fit(*rows, rounds=4).coef_ for rows in ((X, y), (X[order], y[order])))
    assert one.tobytes() == two.tobytes()


def test_rounds_are_a_whole_number():
    with pytest.raises(InputError, match="rounds"):
        fit(*made_up(n=20), rounds=0)


def test_relations_are_those_of_the_ledger():
    assert fit(*made_up(n=50), relation=Relation.ADD_REMOVE, rounds=2).ledger_.relation is Relation.ADD_REMOVE
