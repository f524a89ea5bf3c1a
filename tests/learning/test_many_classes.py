"""More than two classes: one release for all, by methods that can; a refusal that names them by the others."""

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.learning.rows import ArrayRows
from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier
from marginalia.methods.dd_ssp import DDSSPClassifier
from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.methods.logistic import LogisticClassifier
from marginalia.methods.models import load_model, save_model
from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier
from marginalia.methods.ols import OLSRegressor
from marginalia.methods.pate import PATEClassifier
from marginalia.methods.preconditioned_gd import PreconditionedGDClassifier
from marginalia.methods.ssp import SSPClassifier

DOMAIN = Domain.from_dict(
    {
        "attributes": [
            {"name": "u", "type": "string", "labels": ["a", "b", "c"]},
            {"name": "v", "type": "integer", "edges": [0, 2, 4, 6]},
            {"name": "w", "type": "boolean"},
            {"name": "kind", "type": "string", "labels": ["red", "green", "blue"]},
        ]
    }
)


def frame_of(n=4000):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "u": np.array(list("abc"))[np.where(rng.random(n) < 0.8, kind, rng.integers(0, 3, n))],
            "v": rng.integers(0, 6, n),
            "w": rng.random(n) < 0.5,
            "kind": np.array(["red", "green", "blue"])[kind],
        }
    )


def exact(frame):
    """Least squares of each class against the rest, with an intercept (last) and without noise."""
    encoder = OLSRegressor().fit(Table.from_frame(frame, DOMAIN), "kind").encoder_
    X = encoder.transform(Table.from_frame(frame, DOMAIN))
    X = np.column_stack([X, np.ones(len(X))])
    Y = np.stack([2.0 * (frame["kind"] == c) - 1 for c in ("red", "green", "blue")], axis=1)
    return X, np.linalg.lstsq(X, Y, rcond=None)[0].T


@pytest.mark.parametrize("made", [
    lambda e: SSPClassifier(epsilon=e, random_state=0, relation="add_remove"),
    lambda e: DDSSPClassifier(marginals=GaussianMarginals(epsilon=e, random_state=0, relation="add_remove")),
])  # fmt: skip
def test_all_classes_from_one_release(made, tmp_path):
    frame = frame_of()
    X, truth = exact(frame)
    model = made(1e6).set_params(domain=DOMAIN, target="kind").fit(frame)
    ratio = np.column_stack([model.coef_, model.intercept_]) / truth
    assert np.allclose(ratio, ratio.mean(), rtol=0.02)  # a positive multiple, the same for all
    assert ratio.mean() > 0
    assert model.classes_.tolist() == ["blue", "green", "red"]  # in scikit-learn's order; coefficients in that of codes
    assert np.array_equal(model.predict(frame), np.array(["red", "green", "blue"])[(X @ truth.T).argmax(axis=1)])
    assert np.array_equal(model.decision_function(frame).argmax(axis=1), 2 - (X @ truth.T).argmax(axis=1))
    private = made(1.0).set_params(domain=DOMAIN, target="kind").fit(frame)
    assert private.ledger_.certified
    assert private.ledger_.epsilon_spent == pytest.approx(1.0)
    assert (private.predict(frame) == frame["kind"]).mean() > 0.6
    shares = private.predict_proba(frame)
    assert shares.shape == (4000, 3)
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.array_equal(private.classes_[shares.argmax(axis=1)], private.predict(frame))
    save_model(private, tmp_path / "m.json")
    assert load_model(tmp_path / "m.json").predict(frame).tolist() == private.predict(frame).tolist()
    of_table = made(1.0).fit(Table.from_frame(frame, DOMAIN), "kind")
    assert np.array_equal(of_table.coef_, private.coef_)
    assert of_table.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("labels", [["low", "mid", "top"], [7, 3, 5], [2.0, 1.0, -1.0]])
@pytest.mark.parametrize("made", [
    lambda e: SSPClassifier(epsilon=e, random_state=0),
    lambda e: DDSSPClassifier(marginals=GaussianMarginals(epsilon=e, random_state=0), n_bins=65),
    lambda e: PreconditionedGDClassifier(epsilon=e, random_state=0),
])  # fmt: skip
def test_arrays_of_three_classes(made, labels):
    """The models of arrays are those that least squares on the same rows gives, up to a positive factor."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (3000, 3))
    y = np.array(labels)[X.argmax(axis=1)]
    model = made(1e6).fit(X, y)
    assert model.classes_.tolist() == sorted(labels)
    assert model.coef_.shape == (3, 3)
    Z = np.column_stack([X, np.ones(len(X))])
    truth = np.linalg.lstsq(Z, 2.0 * (y[:, None] == model.classes_) - 1, rcond=None)[0].T
    assert (model.predict(X) == model.classes_[(Z @ truth.T).argmax(axis=1)]).mean() > 0.97
    if not isinstance(model, PreconditionedGDClassifier):
        ratio = np.column_stack([model.coef_, model.intercept_]) / truth
        assert np.allclose(ratio, ratio.mean(), rtol=0.1)
    shares = model.predict_proba(X)
    assert shares.shape == (3000, 3)
    assert np.array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))
    private = made(1.0).fit(X, y)
    assert private.ledger_.certified
    assert [p.value for p in private.ledger_.public_inputs if p.name == "classes"] in (
        [],
        [list(map(str, sorted(labels)))],
    )


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("bound", [0.7, 3000.0])
def test_no_row_of_an_array_moves_the_statistics_farther_than_is_charged(relation, bound):
    """Rows at the bound, one and all pairs of them; both units of the whole numbers are right."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    X *= bound / np.linalg.norm(X, axis=1, keepdims=True)
    X[:4] = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]) * bound
    y = np.arange(60) % 3
    model = SSPClassifier(relation=relation, feature_bound=bound, fit_intercept=False, random_state=0).fit(X, y)
    (event,) = model.ledger_.events
    rows = ArrayRows(X, y.astype(float), bound, 1.0)
    moved = []
    for one in range(60):
        gram, x, of_y = ArrayRows(X[[one]], rows.y[[one]], bound, 1.0).whole_class_gram(3, most_apart=2.0**9)
        moved.append(np.append(np.triu(gram[:2, :2])[np.triu_indices(2)] * x**2, gram[:2, 2:] * x * of_y))
    moved = np.array(moved)
    assert np.allclose(moved[:, 3:].sum(axis=0), (X.T @ np.eye(3)[y]).ravel(), atol=bound * 0.02)
    farthest = np.linalg.norm(moved, axis=1).max()
    if relation == "replace_one":
        farthest = max(np.linalg.norm(moved - one, axis=1).max() for one in moved)
    assert event.sensitivity * 0.6 <= farthest <= event.sensitivity * (1 + 1e-12)


@pytest.mark.parametrize("bound", [1e-3, 1.0, 3000.0])
def test_the_sums_of_classes_are_released_in_their_unit(bound):
    X = np.random.default_rng(1).uniform(-bound, bound, (300, 2)) / 2
    y = np.arange(300) % 3
    model = SSPClassifier(epsilon=1e9, feature_bound=bound, fit_intercept=False, random_state=0).fit(X, y)
    released = model.measurements_[0].values
    assert np.allclose(released[:, :2], np.triu(X.T @ X), atol=0.5 * bound**2)
    assert np.allclose(released[:, 2:], X.T @ np.eye(3)[y], atol=0.3 * bound)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_no_record_moves_the_statistics_farther_than_is_charged(relation):
    """All records of the domain, and all pairs of them: the exact largest move."""
    from itertools import product

    records = np.array(list(product(*(range(size) for size in DOMAIN.sizes))))
    table = Table(records, DOMAIN)
    encoder = OLSRegressor().fit(table, "kind").encoder_
    X, Y = encoder.transform(table), np.eye(3)[table.column("kind")]
    p = X.shape[1]
    upper = np.triu_indices(p)
    moved = np.array([np.append(np.outer(x, x)[upper], np.outer(x, y)) for x, y in zip(X, Y, strict=True)])
    model = SSPClassifier(relation=relation, random_state=0).fit(table, "kind")
    (event,) = model.ledger_.events
    farthest = np.linalg.norm(moved, axis=1).max()
    if relation == "replace_one":
        farthest = max(np.linalg.norm(moved - one, axis=1).max() for one in moved)
    assert farthest <= event.sensitivity * (1 + 1e-12)
    assert farthest >= event.sensitivity * 0.6


@pytest.mark.parametrize("cls", [
    AdaptiveMarginClassifier, DPSGDClassifier, ObjectivePerturbationClassifier, PATEClassifier, LogisticClassifier,
])  # fmt: skip
def test_the_others_name_those_that_can(cls):
    with pytest.raises(InputError, match=r"has 3 codes; .* learns exactly 2 classes; (SSPClassifier|for more)"):
        cls(domain=DOMAIN, target="kind").fit(frame_of())


def test_published_constants_are_for_two_classes():
    with pytest.raises(InputError, match="two classes"):
        SSPClassifier(calibration="published", relation="add_remove", domain=DOMAIN, target="kind").fit(frame_of())
