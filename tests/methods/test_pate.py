"""PATE: its noise, its votes, and what it refuses."""

import math

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from learning_helpers import make_table
from sklearn.linear_model import LogisticRegression

from marginalia.data import Domain, Table
from marginalia.data.splits import random_split
from marginalia.errors import InputError
from marginalia.learning import PATEClassifier
from marginalia.methods import pate
from marginalia.methods.pate import _published_gamma, _teacher
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session


@pytest.mark.parametrize(("queries", "gamma"), [(100, 0.010003), (20, 0.022367)])
def test_published_noise(queries, gamma):
    got = _published_gamma(1.0, 1e-5, queries)
    assert got == pytest.approx(gamma, abs=5e-7)
    assert 4 * queries * got**2 + 2 * got * math.sqrt(2 * queries * math.log(1e5)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("queries", "sigma"), [(100, 52.8), (20, 23.6)])
def test_tight_noise(queries, sigma):
    model = PATEClassifier(n_queries=queries, n_teachers=5, random_state=0).fit(make_table(), "rich")
    assert model.sigma_ == pytest.approx(sigma, abs=0.05)
    assert model.ledger_.epsilon_spent == pytest.approx(1.0, abs=1e-6)
    assert model.ledger_.certified


@pytest.mark.parametrize(("queries", "spent", "generic"), [(100, 0.7148, 0.717), (20, 0.6829, 0.690)])
def test_published_certificate(queries, spent, generic):
    """F7's .717/.690 charge each query as any 2 gamma-DP mechanism; the ledger knows that it is Laplace noise."""
    step = 2 * _published_gamma(1.0, 1e-5, queries)  # also the grid, on which losses of +-2 gamma then lie
    charged = privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(step, 0), value_discretization_interval=step
    ).self_compose(queries)
    assert charged.get_epsilon_for_delta(1e-5) == pytest.approx(generic, abs=1e-3)
    model = PATEClassifier(calibration="published", n_queries=queries, n_teachers=5, random_state=0)
    ledger = model.fit(make_table(), "rich").ledger_
    assert ledger.certified
    assert ledger.epsilon_spent == pytest.approx(spent, abs=2e-4)
    assert len(ledger.events) == queries


NEIGHBOURS = [(0, 0), (0, 1), (57, 0), (57, 1), (299, 0), (299, 1)]  # a row, and what it becomes


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False])
def test_with_the_noisy_votes_forced_no_private_row_shows(given, monkeypatch):
    """A replaced row dealt to the public part entered the student as it was, under a certificate for every row."""
    table, known = make_table(300), make_table(40, seed=9).drop("rich")

    def forced(session, votes, **event):
        votes = votes() if callable(votes) else votes
        return np.random.default_rng(5).normal(0, 10, np.shape(votes))

    monkeypatch.setattr(Session, "gaussian", forced)
    model = PATEClassifier(n_teachers=4, n_queries=30, public=known if given else None, random_state=0)
    before = model.fit(table, "rich").coef_
    moved = []
    for row, value in NEIGHBOURS + [(row, 0) for row in range(0, 300, 3)]:
        codes = table.codes.copy()
        codes[row] = 0 if value == 0 else [2, 5, 7, 1, 1]
        moved.append(np.abs(model.fit(Table(codes, table.domain), "rich").coef_ - before).max())
    if given:
        assert max(moved) == 0
        assert model._scope() == ""
    else:
        assert max(moved) > 1e-3
        assert "T public rows are not protected" in model._scope()


@pytest.mark.parametrize("calibration", ["tight", "published"])
@pytest.mark.slow
def test_public_rows_of_the_caller_are_the_ones_labelled(calibration):
    """At a huge epsilon the student learns the plain majority of the teachers on them; arrays and tables agree."""
    table, known = make_table(600), make_table(50, seed=4)
    settings = {"epsilon": 1e9, "calibration": calibration, "n_teachers": 7, "random_state": 3}
    model = PATEClassifier(public=known, **settings).fit(table, "rich")
    X, y, public = model.encoder_.transform(table), table.column("rich"), model.encoder_.transform(known)
    parts = np.split(Randomness(3).generator.permutation(600)[: 7 * 85], 7)
    oracle = LogisticRegression(max_iter=10_000, tol=1e-8)
    student = oracle.fit(public, sum(oracle.fit(X[part], y[part]).predict(public) for part in parts) > 3.5)
    np.testing.assert_allclose(model.coef_, student.coef_[0], rtol=1e-3)
    from_arrays = PATEClassifier(public=public, **settings).fit(X, y)
    np.testing.assert_allclose(from_arrays.coef_, model.coef_)
    assert model.ledger_.certified


def test_wrong_public_rows_are_one_line(table):
    X, y = np.random.default_rng(0).normal(size=(100, 2)), np.arange(100) % 2
    for public, rows, pattern in (
        (table, (X, y), "public is a Table"),
        (np.ones((5, 3)), (X, y), "3 features"),
        ([[np.nan, 1.0]], (X, y), "NaN"),
        (table.drop("colour"), (table, "rich"), "colour"),
    ):
        with pytest.raises(InputError, match=pattern) as caught:
            PATEClassifier(public=public).fit(*rows)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="more than the 5 public rows"):
        PATEClassifier(public=np.ones((5, 2)), n_queries=6).fit(X, y)


@pytest.mark.parametrize("calibration", ["tight", "published"])
def test_without_noise_the_student_learns_the_majority(calibration):
    """At a huge epsilon the labels are the plain majority of teachers on the parts that the seed deals out."""
    table = make_table(600)
    model = PATEClassifier(epsilon=1e9, calibration=calibration, n_teachers=7, n_queries=50, random_state=3)
    model.fit(table, "rich")
    X, y = model.encoder_.transform(table), table.column("rich")
    order = Randomness(3).generator.permutation(600)
    public, parts = X[order[:50]], np.split(order[50 : 50 + 7 * 78], 7)
    oracle = LogisticRegression(solver="newton-cg", max_iter=10_000, tol=1e-10)
    votes = sum(oracle.fit(X[part], y[part]).predict(public) for part in parts)
    student = oracle.fit(public, votes > 3.5)
    # The student stops at scikit-learn's default tolerance.
    np.testing.assert_allclose(model.coef_, student.coef_[0], rtol=5e-4)
    assert model.intercept_ == pytest.approx(student.intercept_[0], rel=5e-4)


def rows_of(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    X, noise = rng.normal(size=(n, d)), rng.normal(size=n)
    if kind == "codes":
        X = rng.integers(0, 95, (n, d)).astype(float)
    elif kind == "one_hot":
        X = np.eye(d)[rng.integers(0, d, n)]
    elif kind == "repeated":
        X[:, 1:] = X[:, :1]
    return X, X[:, 0] - X[:, 0].mean() + (0 if kind == "separable" else noise) > 0


@pytest.mark.parametrize("kind", ["normal", "codes", "one_hot", "repeated", "separable"])
@pytest.mark.parametrize(("n", "d"), [(80, 3), (75, 100), (5, 4), (300, 12)])
def test_teachers_are_those_of_scikit_learn(kind, n, d, monkeypatch):
    X, positive = rows_of(kind, n, d)
    oracle = LogisticRegression(solver="newton-cholesky", max_iter=10_000).fit(X, positive)
    monkeypatch.delattr(pate, "_logistic_regression")  # the fast path alone
    expected = np.append(oracle.coef_[0], oracle.intercept_[0])
    np.testing.assert_allclose(_teacher(X, positive), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.filterwarnings("ignore:The inner solver")
@pytest.mark.parametrize("scale", [1e9, 1e-200])
def test_teachers_on_features_of_any_scale_are_those_of_scikit_learn(scale):
    X, positive = rows_of("normal", 60, 3)
    X[:, 2] *= scale
    np.testing.assert_allclose(_teacher(X, positive), pate._logistic_regression(X, positive), rtol=1e-7, atol=1e-10)


def test_a_class_without_votes_can_still_win():
    """All teachers vote 0; with the noise of T queries about half of the labels flip when K is small."""
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.zeros(400)
    y[Randomness(0).generator.permutation(400)[0]] = 1  # the first public row at seed 0: no teacher sees class 1
    model = PATEClassifier(n_teachers=3, n_queries=100, random_state=0).fit(X, y)
    assert np.abs(model.coef_).max() > 0  # both labels occur among the 100 public rows


def test_unanimous_labels_make_a_constant_student():
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.zeros(400)
    y[Randomness(0).generator.permutation(400)[0]] = 1
    model = PATEClassifier(epsilon=1e9, n_teachers=3, n_queries=100, random_state=0).fit(X, y)
    assert np.array_equal(model.coef_, [0, 0])
    assert np.array_equal(model.predict(X), np.zeros(400))


@pytest.mark.parametrize(
    ("parameters", "pattern"),
    [
        ({"relation": "add_remove"}, "has no proof for add_remove"),
        ({"n_queries": 400}, "leave none for the teachers"),
        ({"n_queries": 0}, "n_queries"),
        ({"n_teachers": 301, "n_queries": 100}, "use at most 300"),
        ({"n_teachers": 2.5}, "n_teachers"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"calibration": "classical"}, "calibration"),
    ],
    ids=str,
)
def test_bad_parameters_are_one_line(table, parameters, pattern):
    with pytest.raises(InputError, match=pattern) as caught:
        PATEClassifier(**parameters).fit(table, "rich")
    assert "\n" not in str(caught.value)


# X-F4: accuracy at epsilon 1 with published noise on integer codes, 10 splits; the largest ensemble.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "teachers", "queries", "accuracy"),
    [
        ("compas", "two_year_recid", 300, 100, 0.661),
        ("heart", "output", 15, 20, 0.521),
        ("churn", "Churn Value", 200, 100, 0.708),
    ],
)
def test_golden_accuracy(mirror, name, target, teachers, queries, accuracy):
    folder = mirror / "dpml"
    table = Table.from_csv(folder / f"{name}.csv", domain=Domain.from_json(folder / f"{name}_domain.json"))
    accuracies = []
    for seed in range(10):
        split = random_split(table, seed=seed, test_fraction=0.2)
        model = PATEClassifier(calibration="published", n_teachers=teachers, n_queries=queries, random_state=seed)
        model.fit(split.train.drop(target).codes, split.train.column(target))
        accuracies.append(np.mean(model.predict(split.test.drop(target).codes) == split.test.column(target)))
    error = np.std(accuracies, ddof=1) / math.sqrt(10)
    assert np.mean(accuracies) == pytest.approx(accuracy, abs=3 * math.sqrt(2) * error)
