"""What every learner promises, whatever it does inside."""

import inspect

import numpy as np
import pytest
from learning_helpers import ExactMarginals, make_table
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from marginalia.data import Column, Domain, Table
from marginalia.data.encoding import Encoder
from marginalia.errors import InputError
from marginalia.learning import (
    AdaSSPRegressor,
    DDSSPClassifier,
    DDSSPRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    LogisticClassifier,
    ObjectivePerturbationClassifier,
    OLSRegressor,
    PATEClassifier,
    SSPClassifier,
    SSPRegressor,
    TrivialClassifier,
    TrivialRegressor,
)

REGRESSORS = (OLSRegressor, TrivialRegressor, SSPRegressor, AdaSSPRegressor, DDSSPRegressor, DPSGDRegressor)
CLASSIFIERS = (
    LogisticClassifier,
    TrivialClassifier,
    SSPClassifier,
    ObjectivePerturbationClassifier,
    DDSSPClassifier,
    DPSGDClassifier,
    PATEClassifier,
)
LEARNERS = REGRESSORS + CLASSIFIERS
PRIVATE = (SSPRegressor, AdaSSPRegressor, SSPClassifier, ObjectivePerturbationClassifier)
RANDOM = (*PRIVATE, DDSSPRegressor, DDSSPClassifier, DPSGDRegressor, DPSGDClassifier, PATEClassifier)
SAMPLING = (DPSGDRegressor, DPSGDClassifier, PATEClassifier)  # their seed picks rows by position


def target_of(learner):
    return "pay" if learner in REGRESSORS else "rich"


def make(learner, **parameters):
    if learner in RANDOM:
        parameters.setdefault("random_state", 0)
    return learner(**parameters)


def assert_refused(pattern, learner, X, y, **parameters):
    with pytest.raises(InputError, match=pattern) as caught:
        make(learner, **parameters).fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("learner", LEARNERS)
class TestEveryLearner:
    def test_predictions_from_a_table(self, learner, table):
        model = make(learner).fit(table, target_of(learner))
        X = model.encoder_.transform(table)
        assert model.coef_.shape == (X.shape[1],) == (model.n_features_in_,)
        expected = X @ model.coef_ + model.intercept_
        score = model.predict if learner in REGRESSORS else model.decision_function
        # From a table with or without the target, columns in any order, or from its encoded rows.
        shuffled = table.project(table.domain.names[::-1])
        for given in (table, table.drop(target_of(learner)), shuffled, X):
            assert np.allclose(score(given), expected, atol=1e-12)

    def test_the_seed_decides(self, learner, table):
        one, two, other = (
            make(learner, **({"random_state": seed} if learner in RANDOM else {})).fit(table, target_of(learner)).coef_
            for seed in (1, 1, 2)
        )
        assert np.array_equal(one, two)
        assert np.array_equal(one, other) == (learner not in RANDOM)

    def test_parameters_are_keywords_and_copied_untouched(self, learner):
        for parameter in inspect.signature(learner).parameters.values():
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        copy = clone(learner(one_hot=["colour"]))
        assert copy.one_hot == ["colour"]

    def test_one_hot_is_the_callers_choice(self, learner, table):
        model = make(learner, one_hot=["age", "rich"]).fit(table, target_of(learner))
        assert "age=3" in model.encoder_.feature_names
        assert "colour" in model.encoder_.feature_names

    def test_a_refit_forgets_the_arrays(self, learner, table):
        import pandas as pd

        frame = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (30, 2)), columns=["a", "b"])
        model = make(learner).fit(frame, np.arange(30) % 2)
        assert list(model.feature_names_in_) == ["a", "b"]
        model.fit(table, target_of(learner))
        assert model.predict(model.encoder_.transform(table)).shape == (len(table),)
        with pytest.raises(InputError, match="array"):
            model.fit(frame, np.arange(30) % 2).predict(table)

    # Bad input: one clear line each.

    def test_unknown_target(self, learner, table):
        assert_refused("unknown target 'riche'; did you mean 'rich'", learner, table, "riche")

    def test_missing_target(self, learner, table):
        assert_refused("name of the target", learner, table, None)
        assert_refused("name of the target", learner, table, table.column("rich"))

    def test_target_name_without_a_table(self, learner):
        assert_refused("needs a Table", learner, np.ones((3, 2)), "rich")

    def test_empty_table(self, learner, table):
        empty, target = table.take(slice(0)), target_of(learner)
        hidden = learner in (*PRIVATE, DDSSPRegressor, DDSSPClassifier)  # add/remove: one row more or less is private
        if hidden:
            relation = {"relation": "add_remove"} if learner in PRIVATE else {}
            assert make(learner, **relation).fit(empty, target).ledger_.certified
        else:
            assert_refused("no rows", learner, empty, target)
        if learner in PRIVATE:
            assert_refused("no rows", learner, empty, target, relation="replace_one")

    def test_no_feature(self, learner, table):
        assert_refused("at least one feature", learner, table.project([target_of(learner)]), target_of(learner))

    def test_unknown_one_hot(self, learner, table):
        assert_refused("one-hot", learner, table, target_of(learner), one_hot=["color"])

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_not_a_number(self, learner, bad):
        X = np.ones((4, 2))
        X[2, 1] = bad
        assert_refused("NaN|infinity", learner, X, [0, 1, 0, 1])
        if learner in REGRESSORS:
            assert_refused("NaN|infinity", learner, np.ones((4, 2)), [0, 1, bad, 1])

    def test_rows_and_labels_of_different_number(self, learner):
        assert_refused("inconsistent numbers", learner, np.ones((4, 2)), [0, 1, 0])

    def test_prediction_before_a_fit(self, learner, table):
        with pytest.raises(NotFittedError):
            learner().predict(table)

    def test_prediction_from_another_domain(self, learner, table):
        model = make(learner).fit(table, target_of(learner))
        with pytest.raises(InputError, match="colour"):
            model.predict(table.drop("colour"))
        wider = Domain([Column(a.name, a.size + 1, a.kind) for a in table.domain])
        with pytest.raises(InputError, match="codes"):
            model.predict(Table(table.codes, wider))


@pytest.mark.parametrize("learner", CLASSIFIERS)
class TestEveryClassifier:
    def test_classes_and_probabilities(self, learner, table):
        model = make(learner).fit(table, "rich")
        scores, chances = model.decision_function(table), model.predict_proba(table)
        assert np.array_equal(model.classes_, [0, 1])
        assert np.array_equal(model.predict(table), (scores > 0).astype(int))
        assert np.allclose(chances.sum(axis=1), 1)
        assert np.allclose(np.log(chances[:, 1] / chances[:, 0]), scores)

    def test_labels_of_any_kind(self, learner):
        X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
        named = make(learner).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
        coded = make(learner).fit(X, (X[:, 0] > 0).astype(int))
        assert np.array_equal(named.classes_, ["no", "yes"])
        assert np.array_equal(named.coef_, coded.coef_)
        assert set(named.predict(X)) <= {"no", "yes"}

    def test_target_that_is_no_class(self, learner, table):
        if not learner.MULTI_CLASS:
            assert_refused("exactly 2", learner, table, "pay")
            assert_refused("binary", learner, np.ones((3, 1)), ["a", "b", "c"])
        assert_refused("one class", learner, np.ones((3, 1)), ["a", "a", "a"])


@pytest.mark.parametrize("learner", PRIVATE)
class TestEveryPrivateLearner:
    @pytest.mark.parametrize(
        ("parameter", "values"),
        [
            ("epsilon", [0, -1, np.nan, np.inf, "much", "1"]),
            ("delta", [0, 1, -0.1, np.nan]),
            ("calibration", ["loose", "tigt"]),
            ("relation", ["swap"]),
            ("feature_bound", [0, -1, np.nan]),
            ("random_state", [-1, "seed", 1.5]),
        ],
    )
    def test_bad_parameters(self, learner, table, parameter, values):
        for value in values:
            with pytest.raises(InputError, match=parameter) as caught:
                make(learner, **{parameter: value}).fit(table, target_of(learner))
            assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
    @pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0])
    def test_tight_is_certified(self, learner, table, relation, epsilon):
        model = make(learner, epsilon=epsilon, relation=relation).fit(table, target_of(learner))
        assert model.ledger_.certified
        assert model.ledger_.epsilon_spent == pytest.approx(epsilon, abs=1e-6)
        assert model.ledger_.relation == relation

    def test_long_rows_are_shrunk(self, learner):
        """Rows that agree after shrinking give the same model."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (50, 3)) * 40
        y = rng.integers(0, 2, 50)
        unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
        assert np.allclose(make(learner).fit(X, y).coef_, make(learner).fit(unit, y).coef_, atol=1e-9)


@pytest.mark.parametrize("learner", [SSPRegressor, AdaSSPRegressor, DDSSPRegressor])
def test_targets_are_clipped_to_their_bound(learner):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (50, 3)), rng.uniform(-9, 9, 50)
    for bound in (1.0, 4.0):
        clipped = make(learner, target_bound=bound).fit(X, np.clip(y, -bound, bound)).coef_
        assert np.allclose(make(learner, target_bound=bound).fit(X, y).coef_, clipped)
    with pytest.raises(InputError, match="target_bound"):
        make(learner, target_bound=-1).fit(X, y)


def test_statistics_are_computed_once_for_a_table(monkeypatch):
    table = make_table(seed=11)
    asked = []
    counts = Table.counts
    monkeypatch.setattr(Table, "counts", lambda self, names: asked.append(names) or counts(self, names))
    for seed in range(5):
        SSPRegressor(random_state=seed, relation="add_remove").fit(table, "pay")
        AdaSSPRegressor(random_state=seed, relation="add_remove").fit(table, "pay")
    OLSRegressor().fit(table, "pay")
    pairs = 10
    # Once for the sums of whole numbers that the private learners release, once for the exact ones.
    assert len([names for names in asked if len(names) == 2]) == 2 * pairs


def test_the_bound_of_a_table_is_its_domains(table):
    """Never that of its rows: the noise of a narrow table is that of its domain."""
    narrow = table.take(table.column("age") == 4)
    events = [SSPRegressor(random_state=0, relation="add_remove").fit(t, "pay").ledger_.events for t in (table, narrow)]
    assert events[0] == events[1]
    assert Encoder(table.domain, "pay").norm_bound == 2.0


def test_dd_ssp_with_a_source_that_is_no_estimator(table):
    model = DDSSPRegressor(marginals=ExactMarginals(), random_state=5).fit(table, "pay")
    assert model.marginals_.random_state == 5


@pytest.mark.parametrize("learner", [c for c in LEARNERS if c not in SAMPLING])
def test_the_order_of_the_rows_does_not_matter(learner, table):
    turned = table.take(np.arange(len(table))[::-1])
    one, two = (make(learner).fit(t, target_of(learner)).coef_ for t in (table, turned))
    assert np.allclose(one, two, atol=1e-9)
