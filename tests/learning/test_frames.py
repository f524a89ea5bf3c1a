"""Data frames in, predictions in the target's own units out."""

import json
import math
import sys
import types
import warnings

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.ada_ssp import AdaSSPRegressor
from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier
from marginalia.methods.dd_ssp import DDSSPClassifier, DDSSPRegressor
from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier, DPSGDRegressor
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.methods.independent import Independent
from marginalia.methods.logistic import LogisticClassifier
from marginalia.methods.models import load_model, save_model
from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier
from marginalia.methods.ols import OLSRegressor
from marginalia.methods.pate import PATEClassifier
from marginalia.methods.ssp import SSPClassifier, SSPRegressor
from marginalia.methods.trivial import TrivialClassifier, TrivialRegressor

ATTRIBUTES = [
    {"name": "age", "type": "integer", "edges": [0, 30, 60, 90], "top": True, "missing": []},
    {"name": "ward", "type": "string", "labels": ["a", "b", "c"], "other": True},
    {"name": "born", "type": "date", "edges": ["1950-01-01", "1980-01-01", "2010-01-01"]},
    {"name": "smoker", "type": "boolean"},
    {"name": "stage", "type": "integer", "labels": ["1", "2", "4"], "kind": "ordinal"},
    {"name": "pay", "type": "number", "edges": [0, 10, 20, 60]},
    {"name": "ill", "type": "string", "labels": ["healthy", "ill"]},
]
DOMAIN = Domain.from_dict({"attributes": ATTRIBUTES, "ignored": ["id"]})
LEARNED = [
    {"name": "age", "type": "integer", "edges": {"private": "quantile", "bins": 4, "bounds": [0, 100]}},
    {"name": "ward", "type": "string", "labels": "private"},
    *ATTRIBUTES[2:],
]
REGRESSORS = [
    SSPRegressor, AdaSSPRegressor, DDSSPRegressor, DPSGDRegressor, OLSRegressor, TrivialRegressor,
]  # fmt: skip
CLASSIFIERS = [
    SSPClassifier, DDSSPClassifier, DPSGDClassifier, ObjectivePerturbationClassifier, AdaptiveMarginClassifier,
    PATEClassifier, LogisticClassifier, TrivialClassifier,
]  # fmt: skip


def frame_of(n=600, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    return pd.DataFrame(
        {
            "age": pd.array(age, dtype="Int64"),
            "ward": pd.Categorical(rng.choice(list("abcd"), n)),
            "born": pd.Timestamp("1950-01-01", tz="Europe/Berlin") + pd.to_timedelta(rng.integers(0, 20000, n), "D"),
            "smoker": rng.random(n) < 0.3,
            "stage": rng.choice([1, 2, 4], n).astype(np.int8),
            "pay": np.clip(age * 0.6, 0, 59),
            "ill": pd.array(np.where(age > 50, "ill", "healthy"), dtype="str"),
            "id": range(n),
        },
        index=rng.permutation(n) + 5,
    )


def made(cls, **parameters):
    if "random_state" in cls().get_params() and cls not in (OLSRegressor, LogisticClassifier):
        parameters["random_state"] = 0
    if "relation" in cls().get_params() and cls in (DPSGDClassifier, DPSGDRegressor):
        parameters["relation"] = "replace_one"
    return cls(**parameters)


@pytest.mark.parametrize("cls", [*REGRESSORS, *CLASSIFIERS])
def test_a_frame_is_learnt_from_as_its_table_is(cls):
    frame, target = frame_of(), "pay" if cls in REGRESSORS else "ill"
    table = Table.from_frame(frame, DOMAIN)
    from_table = made(cls).fit(table, target)
    from_frame = made(cls, domain=DOMAIN, target=target).fit(frame)
    assert np.array_equal(from_table.coef_, from_frame.coef_)
    assert not from_table.from_frame_
    others = [name for name in reversed(DOMAIN.names) if name != target]
    without = frame[others]
    predicted = from_frame.predict(without.head(50))
    if cls in REGRESSORS:
        codes = (from_table.predict(table)[:50] + 1) * 1.0
        assert np.allclose(predicted, np.interp(codes, [0, 1, 2], [5.0, 15.0, 40.0]))
        assert np.array_equal(from_frame.predict(table), from_table.predict(table))
    else:
        assert from_frame.classes_.tolist() == ["healthy", "ill"]
        assert from_table.classes_.tolist() == [0, 1]
        assert predicted.tolist() == [["healthy", "ill"][c] for c in from_table.predict(table)[:50]]
        assert np.array_equal(from_frame.predict_proba(without), from_table.predict_proba(table))


@pytest.mark.parametrize("cls", [SSPRegressor, AdaSSPRegressor, DDSSPRegressor])
def test_what_a_schema_leaves_open_is_learned_in_the_same_ledger(cls):
    frame = pd.concat([frame_of()] * 5)
    schema = {"attributes": LEARNED, "ignored": ["id"]}
    parameters = {} if cls is DDSSPRegressor else {"epsilon": 1.0}
    model = made(cls, domain=schema, target="pay", **parameters).fit(frame)
    domain = model.encoder_.domain
    assert domain.source == "released"
    assert model.ledger_.certified
    labels = {event.label for event in model.ledger_.events}
    assert any("ward" in label for label in labels)
    assert 0.9 < model.ledger_.epsilon_spent <= 1.0
    names = [public.name for public in model.ledger_.public_inputs]
    assert names[0] == "domain"
    assert "bounds of age" in names
    assert model.predict(frame.head(3)).shape == (3,)
    small = made(cls, domain=Domain.from_dict(schema), target="pay", **parameters)
    small.fit(frame, preprocessing_share=0.5)
    assert small.ledger_.events != model.ledger_.events


def test_fitted_marginals_give_the_domain():
    frame = frame_of()
    source = GaussianMarginals(random_state=0).fit(frame, domain=DOMAIN)
    model = DDSSPRegressor(marginals=source, target="pay").fit(frame)
    assert model.predict(frame).max() <= 40
    with pytest.raises(InputError, match="fitted already"):
        DDSSPRegressor(marginals=source, domain={"attributes": LEARNED, "ignored": ["id"]}, target="pay").fit(frame)


@pytest.mark.parametrize("cls", [OLSRegressor, TrivialRegressor])
def test_without_a_ledger_nothing_is_learned(cls):
    with pytest.raises(InputError, match="this fit has no ledger for that"):
        cls(domain={"attributes": LEARNED, "ignored": ["id"]}, target="pay").fit(frame_of())


@pytest.mark.parametrize(
    ("target", "values"),
    [
        ("age", [14.5, 44.5, 74.5]),
        ("stage", [1, 2, 4]),
        ("smoker", [0, 1]),
        ("born", ["1964-12-31", "1994-12-31"]),
        ("ill", [0, 1]),
    ],
)
def test_units_of_a_regression(target, values):
    """Beyond the outer codes the value is theirs; a missing code is none of the target's."""
    attributes = [{k: v for k, v in a.items() if k not in ("missing",)} for a in ATTRIBUTES]
    domain = Domain.from_dict({"attributes": attributes, "ignored": ["id"]})
    frame = frame_of()
    model = OLSRegressor(domain=domain, target=target).fit(frame)
    for size, at in ((-1e6, 0), (1e6, -1)):
        model.coef_ = np.zeros_like(model.coef_)
        model.intercept_ = size
        found = model.predict(frame.head(1))
        if target == "born":
            assert str(found[0])[:10] in (values[at], str(np.datetime64(values[at]) + 1))
        else:
            assert found[0] == values[at]


def test_a_saved_model_predicts_frames_too(tmp_path):
    frame = frame_of()
    for cls, target in ((SSPRegressor, "pay"), (SSPClassifier, "ill"), (SSPClassifier, "smoker")):
        model = made(cls, domain=DOMAIN, target=target).fit(frame)
        save_model(model, tmp_path / "m.json")
        assert load_model(tmp_path / "m.json").predict(frame).tolist() == model.predict(frame).tolist()
        of_table = made(cls).fit(Table.from_frame(frame, DOMAIN), target)
        save_model(of_table, tmp_path / "t.json")
        assert "frame" not in json.loads((tmp_path / "t.json").read_text())
        assert load_model(tmp_path / "t.json", original=True).predict(frame).tolist() == model.predict(frame).tolist()


REFUSED = {
    "no domain": (lambda f: (f, None), "needs its public domain"),
    "unknown column": (lambda f: (f.assign(extra=1), DOMAIN), "column 'extra' is not in the domain"),
    "missing column": (lambda f: (f.drop(columns="age"), DOMAIN), "column 'age' of the domain is missing"),
    "duplicate columns": (lambda f: (pd.concat([f, f[["age"]]], axis=1), DOMAIN), "'age'"),
    "duplicate columns, learned": (
        lambda f: (pd.concat([f, f[["age"]]], axis=1), {"attributes": LEARNED, "ignored": ["id"]}), "'age'",
    ),
    "a bad value": (lambda f: (f.assign(stage=3), DOMAIN), "column 'stage', row 0: '3' is not among the labels"),
    "domain of a wrong kind": (lambda f: (f, 7), "domain is a Domain, a dict or the path"),
    "no such file": (lambda f: (f, "none.yaml"), "none.yaml"),
    "a table with a domain": (lambda f: (Table.from_frame(f, DOMAIN), DOMAIN), "domain is that of a data frame"),
    "a list with a domain": (lambda f: ([[1.0]], DOMAIN), "domain and target describe a data frame, and this is list"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_one_line(case):
    change, said = REFUSED[case]
    X, domain = change(frame_of())
    model = SSPRegressor(random_state=0, domain=DOMAIN, target="pay").fit(frame_of())
    with pytest.raises(InputError) as error:
        model.set_params(domain=domain).fit(X)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not hasattr(model, "coef_")  # the old fit does not pass for the new one


def test_the_warning_names_the_line_of_the_caller():
    with pytest.warns(DeprecationWarning, match="domain and the name of the target in fit") as found:
        DPSGDRegressor(epsilon=math.inf, steps=1, selection="fixed", random_state=0).fit(
            frame_of(), "pay", domain=DOMAIN
        )
    assert {one.filename for one in found} == {__file__}


def test_the_domain_in_fit_is_deprecated():
    frame = frame_of()
    with pytest.warns(DeprecationWarning, match=r"SSPRegressor\(domain=..., target=...\)") as said:
        old = SSPRegressor(random_state=0).fit(frame, "pay", domain=DOMAIN)
    assert [one.filename for one in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = SSPRegressor(random_state=0, domain=DOMAIN, target="pay").fit(frame)
        of_table = SSPRegressor(random_state=0).fit(Table.from_frame(frame, DOMAIN), "pay")
    assert np.array_equal(old.coef_, new.coef_)
    assert np.array_equal(old.coef_, of_table.coef_)


@pytest.mark.parametrize("how", ["series", "column", "array", "list", "column of an array", "named series", "Polars"])
def test_values_of_the_target_come_apart_from_the_frame(how):
    polars = pytest.importorskip("polars")
    frame = frame_of()
    y = frame["ill"]
    values = {
        "series": y.rename(None).reset_index(drop=True), "column": frame[["ill"]], "array": y.to_numpy(),
        "list": y.tolist(), "column of an array": y.to_numpy()[:, None], "named series": y,
        "Polars": polars.Series(y.tolist()),
    }[how]  # fmt: skip
    whole = SSPClassifier(random_state=0, domain=DOMAIN, target="ill").fit(frame)
    for X in (frame.drop(columns="ill"), frame.assign(ill="healthy")):
        apart = SSPClassifier(random_state=0, domain=DOMAIN, target="ill").fit(X, values)
        assert np.array_equal(apart.coef_, whole.coef_)
        assert apart.score(X, values) == whole.score(frame)
    if how in ("column", "named series"):
        of_name = SSPClassifier(random_state=0, domain=DOMAIN).fit(frame.drop(columns="ill"), values)
        assert np.array_equal(of_name.coef_, whole.coef_)


@pytest.mark.parametrize(
    ("parameters", "X", "y", "said"),
    [
        ({"target": "ill"}, "frame", "values", "needs its public domain"),
        ({"domain": DOMAIN}, "frame", "values", "y is no Series with the name of a column .* target='NAME'"),
        ({"domain": DOMAIN}, "frame", None, "y is not given: name the target"),
        ({"domain": DOMAIN, "target": "pay"}, "frame", "ill", "fit names the target 'ill', the constructor 'pay'"),
        ({"domain": DOMAIN, "target": "ill"}, "frame", "fewer", "y has 599 values and X has 600 rows"),
        ({"domain": DOMAIN, "target": "ill"}, "frame", "two columns", "y has 2 columns"),
        ({"domain": DOMAIN, "target": "ill"}, "frame", "a set", "y is set: need one value for every row"),
        (
            {"domain": DOMAIN, "target": "ill"},
            "frame",
            "codes",
            "y holds whole numbers, and target",
        ),
        ({"domain": DOMAIN, "target": "ill"}, "array", "values", r"numpy ndarray; .*set_output\(transform='pandas'\)"),
        ({"target": "ill"}, "array", "values", "domain and target describe a data frame"),
        ({"domain": DOMAIN, "target": "il"}, "frame", None, "did you mean 'ill'"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_targets_that_cannot_be_meant_end_in_one_line(parameters, X, y, said):
    frame = frame_of()
    values = {
        "values": frame["ill"].to_numpy(), "fewer": frame["ill"].to_numpy()[1:], "two columns": frame[["ill", "pay"]],
        "a set": {1}, "codes": (frame["ill"] == "ill").to_numpy().astype(int),
    }  # fmt: skip
    given = frame if X == "frame" else np.zeros((600, 3))
    with pytest.raises(InputError, match=said) as error:
        SSPClassifier(random_state=0, **parameters).fit(given, values.get(y, y))
    assert "\n" not in str(error.value)


def test_scores_take_the_target_from_the_frame():
    frame = frame_of()
    classifier = SSPClassifier(random_state=0, domain=DOMAIN, target="ill").fit(frame)
    accuracy = (classifier.predict(frame) == frame["ill"]).mean()
    assert accuracy > 0.6
    regressor = SSPRegressor(random_state=0, epsilon=100.0, domain=DOMAIN, target="pay").fit(frame)
    error = regressor.predict(frame) - frame["pay"].to_numpy()
    r2 = 1 - error.var() / frame["pay"].var(ddof=0) - error.mean() ** 2 / frame["pay"].var(ddof=0)
    for model, truth in ((classifier, accuracy), (regressor, r2)):
        name = model.target
        for X, y in ((frame, name), (frame, None), (frame, frame[name]), (frame.drop(columns=name), frame[name])):
            assert model.score(X, y) == pytest.approx(truth)
        assert model.score(frame, sample_weight=np.r_[np.ones(300), np.zeros(300)]) == pytest.approx(
            model.score(frame.head(300))
        )
        text = frame.assign(**{name: frame[name].astype(str)})
        assert model.score(text) == pytest.approx(truth)
        for arguments, said in (
            ((frame, "age"), f"the model predicts '{name}', not 'age'"),
            ((frame.drop(columns=name),), f"the target column '{name}' is missing"),
            ((np.zeros((3, model.encoder_.n_features)),), "score needs y"),
        ):
            with pytest.raises(InputError, match=said):
                model.score(*arguments)
    with pytest.raises(InputError, match="missing or infinite"):
        regressor.score(frame, frame["pay"].where(frame["pay"] > 5))
    with pytest.raises(InputError, match="no numbers"):
        regressor.score(frame, frame["ill"])
    table = Table.from_frame(frame, DOMAIN)
    of_table = SSPClassifier(random_state=0).fit(table, "ill")
    assert of_table.score(table) == of_table.score(table, "ill") == pytest.approx(accuracy)
    of_table = SSPRegressor(random_state=0, epsilon=100.0).fit(table, "pay")
    assert 0.5 < of_table.score(table, "pay") < 1
    born = OLSRegressor(domain=DOMAIN, target="born").fit(frame)
    assert abs(born.score(frame)) < 0.1


def test_classes_stand_in_the_order_that_scikit_learn_expects():
    """Its metrics take the last class in sorted order for the positive one; the codes keep the order of the domain."""
    from sklearn.metrics import get_scorer, roc_auc_score

    frame = frame_of(2000)
    turned = [a | ({"labels": ["ill", "healthy"]} if a["name"] == "ill" else {}) for a in ATTRIBUTES]
    for attributes in (ATTRIBUTES, turned):
        domain = Domain.from_dict({"attributes": attributes, "ignored": ["id"]})
        model = SSPClassifier(random_state=0, domain=domain, target="ill").fit(frame)
        assert model.classes_.tolist() == ["healthy", "ill"]
        shares = model.predict_proba(frame)
        assert np.array_equal(model.predict(frame), model.classes_[shares.argmax(axis=1)])
        assert np.array_equal(model.decision_function(frame) > 0, model.predict(frame) == "ill")
        area = roc_auc_score(frame["ill"] == "ill", shares[:, 1])
        assert area > 0.8
        assert get_scorer("roc_auc")(model, frame, frame["ill"]) == pytest.approx(area)
        assert get_scorer("neg_log_loss")(model, frame, frame["ill"]) > -0.69


def test_names_of_features():
    frame = frame_of()
    model = SSPRegressor(random_state=0, domain=DOMAIN, target="pay").fit(frame)
    assert model.feature_names_in_.tolist() == ["age", "ward", "born", "smoker", "stage", "ill"]
    assert model.n_features_in_ == 6
    assert model.get_feature_names_out().tolist() == list(model.encoder_.feature_names)
    assert len(model.get_feature_names_out()) == len(model.coef_)
    encoded = model.encoder_.transform(Table.from_frame(frame, DOMAIN))
    assert np.allclose(model.predict(encoded), model.predict(Table.from_frame(frame, DOMAIN)))
    with pytest.raises(InputError, match="that encoder_ made"):
        model.predict(encoded[:, :3])
    assert SSPRegressor().fit([[1.0, 2.0]] * 3, [1.0, 0.0, 1.0]).get_feature_names_out().tolist() == ["x0", "x1"]
    X = pd.DataFrame({"u": [0.5, -0.5] * 9})
    assert SSPRegressor().fit(X, X["u"]).get_feature_names_out().tolist() == ["u"]
    with pytest.raises(ValueError, match="not fitted"):
        SSPRegressor().get_feature_names_out()


@pytest.mark.parametrize("cls", [c for c in [*REGRESSORS, *CLASSIFIERS] if hasattr(c(), "random_state")])
def test_weights_of_rows_are_refused_in_one_line(cls):
    y = [1, 0, 1, 0]
    with pytest.raises(InputError, match=f"{cls.__name__} takes no sample_weight: its noise is for rows of equal"):
        cls().fit([[0.5], [0.1], [0.3], [0.2]], y, sample_weight=[1, 1, 2, 1])
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        cls().fit([[0.5], [0.1], [0.3], [0.2]], y, weights=[1, 1, 2, 1])


def test_the_domain_is_not_part_of_a_certificate_of_parameters(tmp_path):
    frame = frame_of()
    model = SSPRegressor(random_state=0, domain=DOMAIN, target="pay").fit(frame)
    save_model(model, tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    for parameters in (content["params"], content["certificate"]["parameters"]):
        assert {"domain", "target"} & set(parameters) == set()
    loaded = load_model(tmp_path / "m.json")
    assert loaded.score(frame) == model.score(frame)
    assert loaded.feature_names_in_.tolist() == model.feature_names_in_.tolist()


def lazy_frame():
    cls = type("LazyFrame", (), {"columns": ["age"], "__module__": "polars.dataframe.frame"})
    return cls()


def test_a_frame_without_its_rows_is_refused_in_one_line():
    for fit in (
        lambda: SSPRegressor(domain=DOMAIN, target="pay").fit(lazy_frame()),
        lambda: SSPRegressor().fit(lazy_frame(), [1.0]),
        lambda: Independent().fit(lazy_frame(), domain=DOMAIN),
        lambda: SSPRegressor(domain=DOMAIN, target="pay").fit(frame_of()).predict(lazy_frame()),
    ):
        with pytest.raises(InputError, match=r"not polars LazyFrame: call .collect\(\) first"):
            fit()


def test_a_frame_to_predict_from_has_all_features_and_no_others():
    frame = frame_of()
    model = SSPRegressor(random_state=0, domain=DOMAIN, target="pay").fit(frame)
    for given, said in (
        (frame.drop(columns="ward"), "'ward'"),
        (frame.assign(more=1), "'more'"),
        (pd.concat([frame, frame[["age"]]], axis=1), "'age'"),
    ):
        with pytest.raises(InputError, match=said):
            model.predict(given)
    assert model.predict(frame.head(0)).shape == (0,)
    assert model.predict(frame.assign(pay="not known")).shape == (600,)


def test_frames_of_encoded_columns_stay_what_they_were():
    """A frame with an array of targets is scikit-learn's, and needs no domain."""
    X = pd.DataFrame({"u": [0.5, -0.5] * 500, "v": [0.1, 0.2] * 500})
    model = SSPRegressor(random_state=0).fit(X, X["u"])
    assert model.encoder_ is None
    assert model.predict(X).shape == (1000,)
    assert model.feature_names_in_.tolist() == ["u", "v"]
    assert isinstance(sys.modules["pandas"], types.ModuleType)


def test_rows_far_outside_their_bound_are_warned_of_once():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 20))
    y = X[:, 0]
    with pytest.warns(UserWarning, match="feature_bound is 1 and most rows") as said:
        SSPRegressor(random_state=0).fit(X, y)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SSPRegressor(feature_bound=4.0, random_state=0).fit(X, y)
        OLSRegressor().fit(X, y)
        few = X / 20
        few[:150] *= 1e6  # many rows, but fewer than half
        SSPRegressor(random_state=0).fit(few, y)


def test_rows_drawn_after_a_fit_on_polars_are_of_polars():
    polars = pytest.importorskip("polars")
    frame = frame_of().astype({"ward": "str"}).drop(columns="id").assign(born=pd.Timestamp("1990-05-01"))
    of_pandas = Independent(random_state=0).fit(frame, domain=DOMAIN)
    of_polars = Independent(random_state=0).fit(polars.from_pandas(frame), domain=DOMAIN)
    drawn = of_polars.sample(50)
    assert isinstance(drawn, polars.DataFrame)
    assert drawn.equals(polars.from_pandas(of_pandas.sample(50)))
    assert all(isinstance(batch, polars.DataFrame) for batch in of_polars.sample_batches(50))
    assert isinstance(of_polars.fit(frame, domain=DOMAIN).sample(5), pd.DataFrame)
