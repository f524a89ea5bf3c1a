"""Hessian mixing and linear mixing: the noise of the authors' code, its price, and least squares without noise."""

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest
from tiers import others_slow

from marginalia.methods.hessian_mixing import (
    HessianMixingRegressor,
    published_plan,
    tight_plan,
)
from marginalia.methods.linear_mixing import LinearMixingRegressor
from marginalia.methods.ols import OLSRegressor
from marginalia.privacy import Relation
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.recompute import recomputed_epsilon

# What the authors' code computes for n rows, p features and epsilon, rows of norm 1 and |y| <= 1: sizes of sketches,
# gamma of linear mixing, of one round and of three, noise of three gradients, tau of linear and of Hessian mixing.
AUTHORS = {
    (1000, 8, 0.1): (42, 111, 855.26019, 1190.86658, 2298.34996, 130.98368, 5.79849, 5.91682),
    (1000, 8, 1.0): (42, 111, 94.71096, 127.54568, 246.97511, 14.95046, 5.79849, 5.91682),
    (1000, 8, 10.0): (42, 111, 11.77568, 14.07953, 27.22466, 1.78416, 5.79849, 5.91682),
    (40_000, 20, 1.0): (60, 155, 143.71458, 192.95602, 369.53934, 19.558, 6.95543, 7.05438),
}


def made_up(n=4000, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X /= np.linalg.norm(X, axis=1).max()
    y = X @ rng.normal(size=p) + 0.1 * rng.normal(size=n)
    return X, y / np.abs(y).max()


@pytest.mark.parametrize(("n", "p", "epsilon"), AUTHORS)
def test_published_noise_is_that_of_the_authors_code(n, p, epsilon):
    small, large, *expected = AUTHORS[n, p, epsilon]
    delta = 1 / n**2
    linear = published_plan(epsilon, delta, small, 1, gradients=False, inflation=2.0)
    one = published_plan(epsilon, delta, small, 1, gradients=True)
    three = published_plan(epsilon, delta, large, 3, gradients=True)
    found = (2 / linear.ratio, 1 / one.ratio, 1 / three.ratio, three.gradient, linear.tau, three.tau)
    assert found == pytest.approx(expected, rel=1e-5)
    assert three.eigenvalue == pytest.approx(1 / three.ratio / math.sqrt(large))
    assert linear.eigenvalue * 2 == pytest.approx(math.sqrt(2) * 2 / linear.ratio / math.sqrt(small))  # in rows² of 2


def test_sizes_of_sketches():
    X, y = made_up(n=1000, p=8)
    common = {"epsilon": 1.0, "delta": 1e-6, "calibration": "published", "relation": "add_remove", "random_state": 0}
    for learner, vectors in (
        (HessianMixingRegressor(**common), 3 * 111),
        (HessianMixingRegressor(rounds=1, **common), 42),
        (LinearMixingRegressor(**common), 42),
    ):
        sketch = learner.fit(X, y).ledger_.events[1].events[0]
        assert sketch.vectors == vectors


@pytest.mark.parametrize(
    ("epsilon", "gradients", "relation"),
    others_slow(
        itertools.product([0.05, 1.0, 8.0], [True, False], Relation),
        (1.0, True, Relation.REPLACE_ONE),
        (1.0, False, Relation.ADD_REMOVE),
    ),
)
def test_tight_spends_the_budget_and_no_more(epsilon, gradients, relation):
    plan = tight_plan(epsilon, 1e-6, 120, 3 if gradients else 1, relation, gradients)
    assert 0.999 * epsilon <= composed_epsilon(plan.events(), relation, 1e-6) <= epsilon
    assert 0.995 * epsilon <= recomputed_epsilon(plan.events(), relation, 1e-6) <= epsilon * (1 + 1e-4)


@pytest.mark.parametrize("learner", [HessianMixingRegressor, LinearMixingRegressor])
@pytest.mark.parametrize("relation", list(Relation))
def test_certified(learner, relation):
    ledger = learner(epsilon=1.0, delta=1e-6, relation=relation, random_state=0).fit(*made_up()).ledger_
    assert ledger.certified
    assert ledger.epsilon_spent == pytest.approx(1.0, rel=1e-3)


def test_what_the_published_noise_costs():
    """One record more or less: about half of what is claimed; one replaced: more than is claimed (Hessian mixing)."""
    X, y = made_up()
    spent = {}
    for relation in Relation:
        model = HessianMixingRegressor(delta=1e-6, calibration="published", relation=relation, random_state=0)
        spent[relation] = model.fit(X, y).ledger_.epsilon_spent
    assert 0.5 < spent[Relation.ADD_REMOVE] < 0.6
    assert 1.0 < spent[Relation.REPLACE_ONE] < 1.1


@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_with_little_noise_it_is_least_squares(calibration):
    X, y = made_up(p=3)
    common = {"epsilon": 1e4, "delta": 1e-3, "calibration": calibration, "fit_intercept": False, "random_state": 0}
    reference = OLSRegressor(fit_intercept=False).fit(X, y).coef_
    three, nine = (HessianMixingRegressor(rounds=rounds, **common).fit(X, y).coef_ for rounds in (3, 9))
    assert np.abs(nine - reference).max() < 1e-3 < np.abs(reference).max()
    assert np.abs(nine - reference).max() < np.abs(three - reference).max()


def test_the_order_of_rows_does_not_matter():
    X, y = made_up(n=500)
    order = np.random.default_rng(1).permutation(500)
    one, two = (HessianMixingRegressor(random_state=3).fit(*rows).coef_ for rows in ((X, y), (X[order], y[order])))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("learner", [HessianMixingRegressor, LinearMixingRegressor])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_ratio_holds_for_both_neighbours_when_the_bound_just_holds(learner, relation):
    """The noise on the smallest eigenvalue is as large as its bound allows; then every row may go."""
    X, y = made_up(n=400, p=2)
    epsilon = 10.0 if learner is HessianMixingRegressor else 30.0
    shown = []

    def worst(call, exact, draw):
        if call.label == "smallest eigenvalue":
            tau = -NormalDist().inv_cdf(0.1 * 1e-6)
            return np.asarray(exact() * call.quantum + tau * call.scale)
        if call.mechanism == "sketch":
            shown.append((call, exact()))
        return draw()

    with intercepting(worst):
        model = learner(epsilon=epsilon, delta=1e-6, relation=relation, random_state=0).fit(X, y)
    [(call, covariance)] = shown
    rows = np.column_stack([X, np.ones(len(X))])
    squared = 2.0
    if learner is LinearMixingRegressor:
        rows, squared = np.column_stack([rows, y]), 3.0
    covariance = covariance * call.quantum
    ridge = np.diag(covariance - rows.T @ rows).mean()
    least = min(np.linalg.eigvalsh(covariance - np.outer(row, row))[0] for row in rows)
    assert ridge > 1.0  # so that the bound matters
    assert squared <= least * call.sensitivity <= squared * 1.5
    assert call.sensitivity == model.ledger_.events[1].events[0].ratio


def test_residuals_are_clipped():
    """Sketches that are far too small make theta huge; no row's part of the next gradient exceeds its bound."""
    X, y = made_up(n=500)
    gradients = []

    def hook(call, exact, draw):
        if call.label == "gradients":
            gradients.append(np.asarray(exact()) * call.quantum)
        return np.tile(1e-9 * np.eye(6), (3, 1, 1)) if call.mechanism == "sketch" else draw()

    with intercepting(hook):
        model = HessianMixingRegressor(relation="add_remove", random_state=0, target_bound=0.5).fit(X, y)
    rows = np.abs(np.column_stack([X, np.ones(500)]))
    assert len(gradients) == 3
    assert np.all(np.abs(gradients) <= rows.sum(axis=0) * 0.5)
    assert np.abs(model.coef_).max() > 1e6
    assert model.ledger_.events[2].events[0].sensitivity == pytest.approx(math.sqrt(2) * 0.5, rel=1e-6)
