"""Uses of scikit-learn with private learners: each is correct, or ends in one clear line."""

import pickle
import warnings
from io import BytesIO

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import calibration, compose, ensemble, inspection, metrics, model_selection, multiclass, multioutput
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE, SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from marginalia.data.domain import Domain
from marginalia.errors import InputError, PrivacyWarning
from marginalia.learning import DDSSPClassifier, LogisticClassifier, SSPClassifier, SSPRegressor
from marginalia.synthesis import GaussianMarginals

polars = pytest.importorskip("polars")
pytestmark = pytest.mark.filterwarnings("ignore::marginalia.errors.PrivacyWarning")

COLUMNS = [
    {"name": "age", "type": "integer", "edges": [0, 25, 50, 75, 100], "top": True, "bottom": True},
    {"name": "ward", "type": "string", "labels": ["north", "east", "west"]},
    {"name": "pay", "type": "number", "edges": [0, 20, 40, 60], "top": True, "bottom": True},
    {"name": "ill", "type": "string", "labels": ["yes", "no"]},
]
DOMAIN = Domain.from_dict({"attributes": COLUMNS})


def domain_of(labels, type="string"):
    return Domain.from_dict({"attributes": [*COLUMNS[:3], {"name": "ill", "type": type, "labels": labels}]})


def frame_of(n=600):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, n)
    return pd.DataFrame(
        {
            "age": age,
            "ward": rng.choice(["north", "east", "west"], n),
            "pay": np.clip(age * 0.5 + rng.normal(0, 3, n), 0, 60),
            "ill": np.where(age + rng.normal(0, 10, n) > 50, "yes", "no"),
        }
    )


FRAME = frame_of()
X, Y = FRAME.drop(columns="ill"), FRAME["ill"]
Z = np.column_stack([FRAME["age"] / 50 - 1, FRAME["pay"] / 30 - 1])  # public bounds of both
NUMBER = FRAME["pay"].to_numpy() / 60
THREE = np.array(["low", "mid", "top"])[np.digitize(FRAME["age"], [33, 66])]


def classifier(**parameters):
    return SSPClassifier(**{"epsilon": 5.0, "random_state": 0, "domain": DOMAIN, "target": "ill", **parameters})


def regressor(**parameters):
    return SSPRegressor(**{"epsilon": 50.0, "random_state": 0, "domain": DOMAIN, "target": "pay", **parameters})


def of_arrays(**parameters):
    return SSPClassifier(**{"epsilon": 5.0, "random_state": 0, "feature_bound": 1.5, **parameters})


def good(scores, least=0.75):
    assert np.all(np.isfinite(scores))
    assert np.mean(scores) > least


def refused(call, said, error=InputError):
    with pytest.raises(error, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


def cross_val_score():
    good(model_selection.cross_val_score(classifier(), X, Y, cv=3))
    good(model_selection.cross_val_score(classifier(), FRAME, cv=3))
    good(model_selection.cross_val_score(classifier(), FRAME, Y, cv=3))


def cross_validate():
    found = model_selection.cross_validate(
        classifier(), X, Y, cv=3, scoring=["accuracy", "roc_auc", "neg_log_loss"], return_estimator=True
    )
    good(found["test_accuracy"])
    good(found["test_roc_auc"], 0.85)
    assert all(model.ledger_.epsilon_spent == pytest.approx(5.0) for model in found["estimator"])


def cross_val_predict():
    found = model_selection.cross_val_predict(classifier(), X, Y, cv=3)
    good(found == Y)
    refused(
        lambda: model_selection.cross_val_predict(classifier(), X, Y, cv=3, method="predict_proba"),
        "y holds whole numbers, and target 'ill' has the labels yes, no",
    )
    model, y = classifier(domain=domain_of(["0", "1"], "integer")), (Y == "yes").astype(int)
    good(model_selection.cross_val_predict(model, X, y, cv=3, method="predict_proba").argmax(axis=1) == y)


def grid_search():
    search = model_selection.GridSearchCV(classifier(), {"epsilon": [0.1, 5.0]}, cv=2).fit(X, Y)
    assert search.best_estimator_.ledger_.epsilon_spent == pytest.approx(search.best_params_["epsilon"])
    good(search.score(X, Y))
    assert search.feature_names_in_.tolist() == ["age", "ward", "pay"]


def randomized_search():
    search = model_selection.RandomizedSearchCV(regressor(), {"epsilon": [20.0, 50.0]}, n_iter=2, cv=2, random_state=0)
    good(search.fit(FRAME).score(FRAME), 0.5)


def halving_search():
    search = model_selection.HalvingGridSearchCV(
        classifier(), {"epsilon": [1.0, 5.0]}, cv=2, min_resources=200, random_state=0
    )
    good(search.fit(X, Y).score(X, Y))


def pipeline_of_a_scaler():
    model = make_pipeline(StandardScaler(), of_arrays(feature_bound=3.0)).fit(Z, Y)
    good(model.score(Z, Y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused(lambda: make_pipeline(StandardScaler(), classifier()).fit(X[["age", "pay"]], Y), "set_output")


def pipeline_of_an_encoder():
    encoder = OneHotEncoder(categories=[["north", "east", "west"]], sparse_output=False)
    good(make_pipeline(encoder, of_arrays()).fit(X[["ward"]], Y).score(X[["ward"]], Y), 0.4)


def pipeline_of_a_column_transformer():
    transformer = compose.ColumnTransformer(
        [
            ("numbers", FunctionTransformer(lambda x: x / 60), ["age", "pay"]),
            ("wards", OneHotEncoder(categories=[["north", "east", "west"]], sparse_output=False), ["ward"]),
        ]
    )
    model = make_pipeline(transformer, of_arrays(feature_bound=2.5)).fit(X, Y)
    good(model.score(X, Y))


def pipeline_of_a_selection():
    good(make_pipeline(SelectKBest(k=1), of_arrays()).fit(Z, Y).score(Z, Y))


def pipeline_of_a_function():
    model = make_pipeline(FunctionTransformer(lambda frame: frame.assign(age=frame["age"] // 2 * 2)), classifier())
    model.fit(FRAME)
    good(model.score(FRAME))
    good(model.score(X, Y))
    assert "ward=east" in model[-1].get_feature_names_out()


def clones():
    model = classifier(one_hot=["age"]).fit(FRAME)
    copy = clone(model)
    assert not hasattr(copy, "coef_")
    assert copy.domain == DOMAIN
    assert np.array_equal(copy.fit(FRAME).coef_, model.coef_)


def parameters():
    model = SSPClassifier().set_params(domain=DOMAIN, target="ill", epsilon=5.0)
    assert {"domain", "target", "epsilon", "delta", "relation"} <= set(model.get_params())
    good(model.fit(FRAME).score(FRAME))
    nested = make_pipeline(FunctionTransformer(), model)
    assert nested.set_params(sspclassifier__target="ward").get_params()["sspclassifier__target"] == "ward"
    with pytest.raises(ValueError, match="Invalid parameter 'eps'"):
        model.set_params(eps=1.0)


def pickles():
    model = classifier().fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert str(again.ledger_) == str(model.ledger_)


def joblib_files():
    file = BytesIO()
    joblib.dump(classifier().fit(X, Y), file)
    file.seek(0)
    good(joblib.load(file).score(X, Y))


def set_output():
    model = make_pipeline(FunctionTransformer(feature_names_out="one-to-one"), classifier())
    model.set_output(transform="pandas").fit(X, Y)
    good(model.score(X, Y))
    numbers = compose.ColumnTransformer(
        [("same", "passthrough", ["age", "ward", "pay"])], verbose_feature_names_out=False
    )
    good(make_pipeline(numbers.set_output(transform="pandas"), classifier()).fit(X, Y).score(X, Y))


def voting():
    of_codes = domain_of(["0", "1"], "integer")
    models = [("a", classifier(domain=of_codes)), ("b", classifier(domain=of_codes, epsilon=4.0))]
    y = (Y == "yes").astype(int)
    for how in ("hard", "soft"):
        good(ensemble.VotingClassifier(models, voting=how).fit(X, y).score(X, y))
    good(ensemble.VotingClassifier([("a", of_arrays()), ("b", of_arrays(epsilon=4.0))]).fit(Z, Y).score(Z, Y))
    refused(lambda: ensemble.VotingClassifier([("a", classifier())]).fit(X, Y), "voting, .* number the classes")


def bagging():
    good(ensemble.BaggingClassifier(of_arrays(), n_estimators=3, random_state=0).fit(Z, Y).score(Z, Y))
    bag = ensemble.BaggingClassifier(classifier(), n_estimators=2, random_state=0)
    refused(lambda: bag.fit(X[["age", "pay"]], Y), "domain and target describe a data frame")


def stacking():
    stack = ensemble.StackingClassifier([("a", of_arrays()), ("b", of_arrays(epsilon=4.0))], LogisticClassifier(), cv=2)
    good(stack.fit(Z, Y).score(Z, Y))


def boosting():
    refused(lambda: ensemble.AdaBoostClassifier(of_arrays()).fit(Z, Y), "sample_weight|sample_weights", ValueError)


def one_against_rest():
    model = multiclass.OneVsRestClassifier(of_arrays()).fit(Z, THREE)
    good(model.score(Z, THREE), 0.6)
    assert model.classes_.tolist() == ["low", "mid", "top"]


def one_against_one():
    good(multiclass.OneVsOneClassifier(of_arrays(epsilon=20.0)).fit(Z, THREE).score(Z, THREE), 0.6)


def several_outputs():
    both = np.column_stack([Y == "yes", FRAME["pay"] > 25]).astype(int)
    good(multioutput.MultiOutputClassifier(of_arrays()).fit(Z, both).predict(Z) == both)
    two = np.column_stack([NUMBER, NUMBER / 2])
    found = multioutput.MultiOutputRegressor(SSPRegressor(epsilon=50.0, feature_bound=1.5, random_state=0)).fit(Z, two)
    good(found.score(Z, two), 0.5)
    refused(lambda: of_arrays().fit(Z, both), "y should be a 1d array")


def calibrated():
    numbered = classifier(domain=domain_of(["0", "1"], "integer"))
    for base, target, several in ((classifier(), Y, True), (numbered, (Y == "yes").astype(int), False)):
        model = calibration.CalibratedClassifierCV(base, cv=2, ensemble=several).fit(X, target)
        good(model.score(X, target))
        assert metrics.roc_auc_score(Y == "yes", model.predict_proba(X)[:, 1]) > 0.85


def permutation_importance():
    model = classifier().fit(X, Y)
    found = inspection.permutation_importance(model, X, Y, n_repeats=3, random_state=0)
    assert found.importances_mean.argmax() != 1
    assert found.importances_mean.max() > 0.05


def partial_dependence():
    model = regressor().fit(FRAME)
    X = FRAME.drop(columns="pay").astype({"age": float})
    found = inspection.partial_dependence(model, X, ["age"], custom_values={"age": np.array([10.0, 40.0, 90.0])})
    assert np.all(np.diff(found["average"][0]) > 0)
    found = inspection.partial_dependence(classifier().fit(FRAME), FRAME, ["ward"], categorical_features=["ward"])
    assert found["average"].shape == (1, 3)


def learning_curve():
    _, _, scores = model_selection.learning_curve(classifier(), X, Y, cv=2, train_sizes=[0.5, 1.0])
    good(scores)


def validation_curve():
    scores = model_selection.validation_curve(classifier(), X, Y, param_name="epsilon", param_range=[1.0, 9.0], cv=2)[1]
    good(scores)


def weights_of_rows():
    refused(lambda: classifier().fit(X, Y, sample_weight=np.ones(len(X))), "takes no sample_weight")
    model = make_pipeline(FunctionTransformer(), classifier())
    refused(lambda: model.fit(X, Y, sspclassifier__sample_weight=np.ones(len(X))), "takes no sample_weight")
    assert not has_fit_parameter(classifier(), "sample_weight")
    assert has_fit_parameter(LogisticClassifier(), "sample_weight")
    weights = (Y == "yes").to_numpy(float)
    fitted = classifier().fit(X, Y)
    assert fitted.score(X, Y, sample_weight=weights) == pytest.approx(fitted.score(X[Y == "yes"], Y[Y == "yes"]))


def labels_of_each_type():
    for labels, type in (
        ([False, True], "boolean"),
        ([0, 1], "integer"),
        (["no", "yes"], "string"),
        ([7, 3], "integer"),
    ):
        y = np.array(labels)[(Y == "yes").to_numpy().astype(int)]
        for model, rows in ((classifier(domain=domain_of([str(v) for v in labels], type)), X), (of_arrays(), Z)):
            if type == "boolean" and rows is X:
                content = [*COLUMNS[:3], {"name": "ill", "type": "boolean"}]
                model.set_params(domain=Domain.from_dict({"attributes": content}))
            model.fit(rows, y)
            assert model.classes_.tolist() == sorted(labels)
            assert model.classes_.dtype.kind == y.dtype.kind
            good(model.predict(rows) == y)


def targets_of_each_kind():
    first = classifier().fit(X, Y).coef_
    for y in (Y, FRAME[["ill"]], Y.to_numpy(), Y.tolist(), Y.astype("category"), Y.astype(object), polars.Series(Y)):
        assert np.array_equal(classifier().fit(X, y).coef_, first)


def three_classes():
    domain = domain_of(["top", "mid", "low"])
    models = (
        classifier(domain=domain),
        DDSSPClassifier(marginals=GaussianMarginals(epsilon=5.0, random_state=0), domain=domain, target="ill"),
    )
    for model in models:
        model.fit(X, THREE)
        good(model.score(X, THREE), 0.6)
        area = metrics.get_scorer("roc_auc_ovr")(model, X, THREE)
        assert area > 0.7
        assert metrics.get_scorer("neg_log_loss")(model, X, THREE) > -1.1
        assert model.decision_function(X).shape == (600, 3)
    good(of_arrays().fit(Z, THREE).score(Z, THREE), 0.6)


def sparse_rows():
    from scipy.sparse import csr_matrix

    refused(lambda: of_arrays().fit(csr_matrix(Z), Y), "[Ss]parse", (InputError, TypeError))
    refused(lambda: classifier().fit(csr_matrix(Z), Y), "domain and target describe a data frame")


def missing_values():
    gaps = X.assign(pay=X["pay"].where(X["pay"] > 5))
    refused(lambda: classifier().fit(gaps, Y), "column 'pay', row [0-9]+")
    marked = [{**column, "missing": ["NA"]} if column["name"] == "pay" else column for column in COLUMNS]
    good(classifier(domain=Domain.from_dict({"attributes": marked})).fit(gaps, Y).score(gaps, Y))
    refused(lambda: of_arrays().fit(np.where(Z > 0.9, np.nan, Z), Y), "contains NaN")
    refused(lambda: classifier().fit(X, Y.where(X["age"] > 5)), "column 'ill', row")


def polars_frames():
    X_, y = polars.from_pandas(X), polars.Series("ill", Y.tolist())
    model = classifier().fit(X_, y)
    assert np.array_equal(model.predict(X_), classifier().fit(X, Y).predict(X))
    assert model.score(X_, y) == model.score(polars.from_pandas(FRAME)) == model.score(X, Y)
    good(model_selection.cross_val_score(classifier(), polars.from_pandas(FRAME), y, cv=2))
    refused(lambda: classifier().fit(polars.from_pandas(FRAME).lazy()), r"call .collect\(\) first")
    refused(lambda: classifier().fit(X_.lazy(), y), r"call .collect\(\) first")
    refused(lambda: model.predict(X_.lazy()), r"call .collect\(\) first")
    refused(lambda: model.score(X_.lazy(), y), r"call .collect\(\) first")


def types_of_pandas():
    nullable = X.astype({"age": "Int64", "pay": "Float64", "ward": "category"})
    first = classifier().fit(X, Y).coef_
    assert np.array_equal(classifier().fit(nullable, Y.astype("string")).coef_, first)
    assert np.array_equal(classifier().fit(X.convert_dtypes(dtype_backend="pyarrow"), Y).coef_, first)


def names_that_differ():
    model = classifier().fit(X, Y)
    refused(lambda: model.predict(X.rename(columns={"age": "years"})), "years|age")
    assert np.array_equal(model.predict(X[["pay", "ward", "age"]]), model.predict(X))
    frame = pd.DataFrame(Z, columns=["u", "v"])
    of_frame = of_arrays().fit(frame, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        of_frame.predict(frame.rename(columns={"u": "w"}))


def number_of_features():
    assert classifier().fit(X, Y).n_features_in_ == 3
    assert classifier().fit(X, Y).feature_names_in_.tolist() == ["age", "ward", "pay"]
    model = of_arrays().fit(Z, Y)
    assert model.n_features_in_ == 2
    refused(lambda: model.predict(Z[:, :1]), "1 features, but SSPClassifier is expecting 2")


def scores():
    model = classifier().fit(X, Y)
    assert (
        model.score(X, Y)
        == model.score(FRAME, "ill")
        == model.score(FRAME)
        == metrics.accuracy_score(Y, model.predict(X))
    )
    model = regressor().fit(FRAME)
    assert model.score(FRAME) == pytest.approx(metrics.r2_score(FRAME["pay"], model.predict(FRAME)))


def order_of_probabilities():
    model = classifier().fit(X, Y)
    shares = model.predict_proba(X)
    assert shares.shape == (600, 2)
    assert model.classes_.tolist() == ["no", "yes"]  # the domain has them the other way round
    assert metrics.roc_auc_score(Y == "yes", shares[:, 1]) > 0.85


def decision_function():
    model = classifier().fit(X, Y)
    assert model.decision_function(X).shape == (600,)
    assert np.array_equal(model.classes_[(model.decision_function(X) > 0).astype(int)], model.predict(X))


def scorers():
    model = classifier().fit(X, Y)
    for name, least in (("accuracy", 0.75), ("balanced_accuracy", 0.75), ("roc_auc", 0.85), ("f1_macro", 0.75)):
        good(metrics.get_scorer(name)(model, X, Y), least)
    precision = metrics.make_scorer(metrics.average_precision_score, response_method="predict_proba", pos_label="yes")
    good(precision(model, X, Y), 0.8)
    good(metrics.get_scorer("neg_mean_absolute_error")(regressor().fit(FRAME), FRAME, FRAME["pay"]), -15)


def transformed_target():
    model = compose.TransformedTargetRegressor(
        SSPRegressor(epsilon=50.0, feature_bound=1.5, random_state=0),
        func=lambda y: y / 2,
        inverse_func=lambda y: y * 2,
    )
    good(model.fit(Z, NUMBER).score(Z, NUMBER), 0.5)


def metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        search = model_selection.GridSearchCV(
            classifier().set_fit_request(preprocessing_share=True), {"epsilon": [5.0]}, cv=2
        )
        good(search.fit(X, Y, preprocessing_share=0.2).score(X, Y))
        with pytest.raises(TypeError, match="sample_weight"):
            classifier().set_fit_request(sample_weight=True)


def html():
    for model in (classifier(), classifier().fit(X, Y), make_pipeline(StandardScaler(), classifier())):
        assert "SSPClassifier" in model._repr_html_()
    assert "SSPClassifier(" in repr(classifier())


def tags():
    assert is_classifier(classifier())
    assert get_tags(classifier()).classifier_tags.multi_class
    assert not get_tags(LogisticClassifier()).classifier_tags.multi_class
    assert get_tags(regressor()).estimator_type == "regressor"
    assert get_tags(classifier()).target_tags.required


def elimination_of_features():
    good(RFE(of_arrays(), n_features_to_select=1).fit(Z, Y).score(Z, Y))


def frozen():
    from sklearn.frozen import FrozenEstimator

    model = classifier().fit(X, Y)
    frozen = calibration.CalibratedClassifierCV(FrozenEstimator(model)).fit(X, Y)
    good(frozen.score(X, Y))


def several_jobs():
    good(model_selection.cross_val_score(of_arrays(), Z, Y, cv=2, n_jobs=2))


USES = [
    cross_val_score, cross_validate, cross_val_predict, grid_search, randomized_search, halving_search,
    pipeline_of_a_scaler, pipeline_of_an_encoder, pipeline_of_a_column_transformer, pipeline_of_a_selection,
    pipeline_of_a_function, clones, parameters, pickles, joblib_files, set_output, voting, bagging, stacking, boosting,
    one_against_rest, one_against_one, several_outputs, calibrated, permutation_importance, partial_dependence,
    learning_curve, validation_curve, weights_of_rows, labels_of_each_type, targets_of_each_kind, three_classes,
    sparse_rows, missing_values, polars_frames, types_of_pandas, names_that_differ, number_of_features, scores,
    order_of_probabilities, decision_function, scorers, transformed_target, metadata_routing, html, tags,
    elimination_of_features, frozen, several_jobs,
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_uses_of_scikit_learn(use):
    use()


# What the ledger does not cover.

PUBLIC_STEPS = [
    FunctionTransformer(), Normalizer(), PolynomialFeatures(1), "passthrough", None,
    SimpleImputer(strategy="constant"),
    OrdinalEncoder(categories=[[0, 1]] * 2, handle_unknown="use_encoded_value", unknown_value=-1),
    compose.ColumnTransformer([("a", Normalizer(), [0]), ("b", "passthrough", [1])]),
    FeatureUnion([("a", FunctionTransformer()), ("b", Normalizer())]),
]  # fmt: skip
LEARNING_STEPS = {
    "StandardScaler": StandardScaler(),
    "SelectKBest": SelectKBest(k=1),
    "SimpleImputer": SimpleImputer(),
    "OneHotEncoder": OneHotEncoder(sparse_output=False),
    "StandardScaler, OneHotEncoder": compose.ColumnTransformer(
        [("a", StandardScaler(), [0]), ("b", OneHotEncoder(sparse_output=False), [1])]
    ),
    "SelectKBest, StandardScaler": Pipeline([("a", SelectKBest(k=1)), ("b", StandardScaler())]),
}


def warned(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    messages = [str(one.message) for one in found if one.category is PrivacyWarning]
    assert all("\n" not in message for message in messages)
    return messages


@pytest.mark.parametrize("step", PUBLIC_STEPS, ids=str)
def test_steps_with_public_settings_are_no_reason_to_warn(step):
    assert warned(lambda: Pipeline([("a", step), ("b", of_arrays())]).fit(Z, Y)) == []


@pytest.mark.parametrize("names", LEARNING_STEPS)
def test_steps_that_learn_from_the_rows_are_named(names):
    model = make_pipeline(FunctionTransformer(), LEARNING_STEPS[names], of_arrays())
    (message,) = warned(lambda: model.fit(Z, Y))
    assert f"fits {names} to the same private rows as SSPClassifier" in message
    outer = make_pipeline(LEARNING_STEPS[names], make_pipeline(FunctionTransformer(), of_arrays()))
    assert f"fits {names} to the same" in warned(lambda: outer.fit(Z, Y))[0]
    assert warned(lambda: make_pipeline(LEARNING_STEPS[names], LogisticClassifier()).fit(Z, Y)) == []  # not private
    fitted = model[-1]
    assert warned(lambda: fitted.fit(Z, Y)) == []  # alone, it is one fit again


OUTER = {
    "GridSearchCV": model_selection.GridSearchCV(of_arrays(), {"epsilon": [1.0, 5.0]}, cv=2),
    "RandomizedSearchCV": model_selection.RandomizedSearchCV(of_arrays(), {"epsilon": [1.0]}, n_iter=1, cv=2),
    "BaggingClassifier": ensemble.BaggingClassifier(of_arrays(), n_estimators=2),
    "OneVsRestClassifier": multiclass.OneVsRestClassifier(of_arrays()),
    "OneVsOneClassifier": multiclass.OneVsOneClassifier(of_arrays()),
    "StackingClassifier": ensemble.StackingClassifier([("a", of_arrays())], cv=2),
    "VotingClassifier": ensemble.VotingClassifier([("a", of_arrays()), ("b", of_arrays())]),
    "CalibratedClassifierCV": calibration.CalibratedClassifierCV(of_arrays(), cv=2),
    "RFE": RFE(of_arrays(), n_features_to_select=1),
    "ClassifierChain": None,
    "DDSSPClassifier": model_selection.GridSearchCV(DDSSPClassifier(), {"n_bins": [3, 5]}, cv=2),
}


@pytest.mark.parametrize("name", OUTER)
def test_estimators_around_a_private_fit_are_named(name):
    outer, y = OUTER[name], Y
    if outer is None:
        outer, y = multioutput.ClassifierChain(of_arrays()), np.column_stack([Y == "yes", THREE == "low"]).astype(int)
    said = set(warned(lambda: outer.fit(Z, y)))
    assert any("ledger_ covers one fit only" in message for message in said)
    assert any(message.startswith(f"{type(outer).__name__} fits ") for message in said)


def test_fits_of_clones_are_seen_without_the_estimator_around_them():
    """As in functions and in the processes of joblib, where no caller tells."""
    messages = warned(lambda: model_selection.cross_val_score(of_arrays(), Z, Y, cv=3))
    assert messages
    assert set(messages) == {
        "this SSPClassifier is one of several clones, as cross_val_score and searches make them: ledger_ covers one "
        "fit only. Fits to the same rows cost their sum, which a budget file records (marginalia.Odometer), and scores "
        "of them are in no ledger"
    }
    first = of_arrays()
    copies = [pickle.loads(pickle.dumps(clone(first))) for _ in range(2)]
    assert warned(lambda: copies[0].fit(Z, Y)) == []  # it was sent when it was the only one
    assert len(warned(lambda: copies[1].fit(Z, Y))) == 1
    assert warned(lambda: clone(of_arrays()).fit(Z, Y)) == []
    assert warned(lambda: classifier().fit(X, Y)) == []


def test_a_released_source_serves_any_number_of_fits():
    from marginalia.data.table import Table

    source = GaussianMarginals(epsilon=1.0, random_state=0).fit(Table.from_frame(FRAME, DOMAIN))
    model = make_pipeline(FunctionTransformer(), DDSSPClassifier(marginals=source, target="ill"))
    assert warned(lambda: model.fit(FRAME)) == []


class Own(BaseEstimator):
    def fit(self, X, y):
        self.model_ = of_arrays().fit(X, y)
        return self


def test_a_class_of_the_users_own_is_not_taken_for_scikit_learns():
    assert warned(lambda: Own().fit(Z, Y)) == []
