"""Data frames in, predictions in the target's own units out."""

import json
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
    from_table, from_frame = made(cls).fit(table, target), made(cls).fit(frame, target, domain=DOMAIN)
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
    model = made(cls, **parameters).fit(frame, "pay", domain=schema)
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
    small = made(cls, **parameters).fit(frame, "pay", domain=Domain.from_dict(schema), preprocessing_share=0.5)
    assert small.ledger_.events != model.ledger_.events


def test_fitted_marginals_give_the_domain():
    frame = frame_of()
    source = GaussianMarginals(random_state=0).fit(frame, domain=DOMAIN)
    model = DDSSPRegressor(marginals=source).fit(frame, "pay")
    assert model.predict(frame).max() <= 40
    with pytest.raises(InputError, match="fitted already"):
        DDSSPRegressor(marginals=source).fit(frame, "pay", domain={"attributes": LEARNED, "ignored": ["id"]})


@pytest.mark.parametrize("cls", [OLSRegressor, TrivialRegressor])
def test_without_a_ledger_nothing_is_learned(cls):
    with pytest.raises(InputError, match="this fit has no ledger for that"):
        cls().fit(frame_of(), "pay", domain={"attributes": LEARNED, "ignored": ["id"]})


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
    model = OLSRegressor().fit(frame, target, domain=domain)
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
        model = made(cls).fit(frame, target, domain=DOMAIN)
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
    "a list with a domain": (lambda f: ([[1.0]], DOMAIN), "list"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_one_line(case):
    change, said = REFUSED[case]
    X, domain = change(frame_of())
    model = SSPRegressor(random_state=0).fit(frame_of(), "pay", domain=DOMAIN)
    with pytest.raises(InputError) as error:
        model.fit(X, "pay", domain=domain)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not hasattr(model, "coef_")  # the old fit does not pass for the new one


def lazy_frame():
    cls = type("LazyFrame", (), {"columns": ["age"], "__module__": "polars.dataframe.frame"})
    return cls()


def test_a_frame_without_its_rows_is_refused_in_one_line():
    for fit in (
        lambda: SSPRegressor().fit(lazy_frame(), "pay", domain=DOMAIN),
        lambda: SSPRegressor().fit(lazy_frame(), "pay"),
        lambda: Independent().fit(lazy_frame(), domain=DOMAIN),
        lambda: SSPRegressor().fit(frame_of(), "pay", domain=DOMAIN).predict(lazy_frame()),
    ):
        with pytest.raises(InputError, match="not polars LazyFrame"):
            fit()


def test_a_frame_to_predict_from_has_all_features_and_no_others():
    frame = frame_of()
    model = SSPRegressor(random_state=0).fit(frame, "pay", domain=DOMAIN)
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
