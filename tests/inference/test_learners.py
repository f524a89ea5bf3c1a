"""Intervals for the coefficients of learners that release noisy sums, and refusals of all others."""

import numpy as np
import pytest
from redrawn import at_least, table_of

from marginalia.errors import InputError
from marginalia.inference import coefficients
from marginalia.learning import AdaSSPRegressor, DPSGDClassifier, OLSRegressor, SSPClassifier, SSPRegressor
from marginalia.learning.statistics import NoisySums
from marginalia.methods.models import load_model, save_model


@pytest.fixture(scope="module")
def table():
    return table_of((3, 2, 4, 2), 2000, seed=3)


def least_squares(model, table, task):
    X, y = model.encoder_.transform(table), model.encoder_.target_values(table, task)
    if model.has_intercept:
        X = np.column_stack([X, np.ones(len(X))])
    return np.linalg.lstsq(X, y, rcond=None)[0]


@pytest.mark.slow
@pytest.mark.parametrize("calibration", ["tight", "published"])
@pytest.mark.parametrize(("kind", "target", "task"), [(SSPRegressor, "c", "linear"), (SSPClassifier, "d", "logistic")])
def test_sets_of_whole_releases_hold_the_least_squares_fit_of_the_rows(kind, target, task, calibration, table):
    draws, joint, first = 60, 0, 0
    for seed in range(draws):
        model = kind(epsilon=1.0, random_state=seed, calibration=calibration).fit(table, target)
        true = least_squares(model, table, task)
        found = coefficients(model, confidence=0.9)
        joint += found.covers(true)
        first += found.coefficients[0].low <= true[0] <= found.coefficients[0].high
    assert at_least(joint, draws, 0.9)
    assert joint < draws or calibration == "published"  # of 60 at 90 %: none missed in 2 of 1,000 studies
    assert at_least(first, draws, 0.9)


def test_the_noise_is_of_the_sigma_that_is_stated(table):
    z = []
    for seed in range(12):
        model = SSPRegressor(epsilon=1.0, random_state=seed, fit_intercept=False).fit(table, "c")
        X, y = model.encoder_.transform(table), model.encoder_.target_values(table)
        (kept,) = model.measurements_
        truth = np.column_stack([X.T @ X, X.T @ y])
        above = np.triu(np.ones_like(truth)) > 0
        z += list(((kept.values - truth) / kept.drawn)[above])
    assert abs(np.mean(np.square(z)) - 1) < 5 * (2 / len(z)) ** 0.5


@pytest.mark.parametrize("kind", [SSPRegressor, AdaSSPRegressor])
def test_a_file_keeps_them(kind, table, tmp_path):
    model = kind(random_state=0).fit(table, "c")
    assert model.measurements_
    save_model(model, tmp_path / "m.json")
    back = load_model(tmp_path / "m.json")
    for new, old in zip(back.measurements_, model.measurements_, strict=True):
        np.testing.assert_array_equal(new.values, old.values)
        assert (new.label, new.sigma, new.drawn, new.round) == (old.label, old.sigma, old.drawn, old.round)


def test_a_file_of_an_older_version_keeps_none(table, tmp_path):
    model = SSPRegressor(random_state=0).fit(table, "c")
    model.measurements_ = []
    save_model(model, tmp_path / "m.json")
    with pytest.raises(InputError, match="no measurements kept"):
        coefficients(load_model(tmp_path / "m.json"))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: AdaSSPRegressor(random_state=0).fit(t, "c"), "its ridge follows a noisy eigenvalue"),
        (lambda t: OLSRegressor().fit(t, "c"), "counts each as a person"),
        pytest.param(  # published noise has a formula, tight noise of two steps takes ten seconds to find
            lambda t: DPSGDClassifier(random_state=0, selection="fixed", steps=2, calibration="published").fit(t, "d"),
            "path that depends on it",
            marks=pytest.mark.slow,
        ),
        (lambda t: SSPClassifier(random_state=0).fit(t, "a"), "more than two classes"),
    ],
)
def test_others_state_none_and_say_why_and_what_to_do(make, said, table):
    with pytest.raises(InputError, match=said) as error:
        coefficients(make(table))
    assert "marginalia infer RELEASE FORMULA" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_set_is_that_of_the_noise_by_hand(table):
    """One noisy number stands in two places of X'X: r_0 and r_1 share it."""
    model = SSPRegressor(random_state=0, fit_intercept=False).fit(table.project(["a", "c"]), "c")
    model.measurements_ = [NoisySums("X'X, X'y", np.array([[50.0, 10.0, 20.0], [0.0, 60.0, 5.0]]), 3.0, 3.0)]
    assert model.n_features_in_ == 2
    equations, (b, c) = coefficients(model).equations, (0.7, -0.4)
    each = 9.0 * (1 + b * b + c * c)
    np.testing.assert_allclose(equations.variance(np.array([b, c])), [[each, 9 * b * c], [9 * b * c, each]])
    np.testing.assert_allclose(equations.residuals(np.array([b, c])), [20 - 35 + 4, 5 - 7 + 24])
