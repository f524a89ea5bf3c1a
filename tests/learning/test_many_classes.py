"""More than two classes: one release for all, by methods that can; a refusal that names them by the others."""

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier
from marginalia.methods.dd_ssp import DDSSPClassifier
from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.methods.logistic import LogisticClassifier
from marginalia.methods.models import load_model, save_model
from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier
from marginalia.methods.ols import OLSRegressor
from marginalia.methods.pate import PATEClassifier
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
    model = made(1e6).fit(frame, "kind", domain=DOMAIN)
    ratio = np.column_stack([model.coef_, model.intercept_]) / truth
    assert np.allclose(ratio, ratio.mean(), rtol=0.02)  # a positive multiple, the same for all
    assert ratio.mean() > 0
    assert model.classes_.tolist() == ["red", "green", "blue"]
    assert np.array_equal(model.predict(frame), model.classes_[(X @ truth.T).argmax(axis=1)])
    private = made(1.0).fit(frame, "kind", domain=DOMAIN)
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
    with pytest.raises(InputError, match=r"has 3 codes; a classifier needs exactly 2, but for SSPClassifier"):
        cls().fit(frame_of(), "kind", domain=DOMAIN)


def test_published_constants_are_for_two_classes():
    with pytest.raises(InputError, match="two classes"):
        SSPClassifier(calibration="published", relation="add_remove").fit(frame_of(), "kind", domain=DOMAIN)
