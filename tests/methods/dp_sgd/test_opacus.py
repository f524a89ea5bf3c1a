"""Opacus and the closed form: the same law of weights, the same charge."""

import importlib.util
import math
from dataclasses import replace

import numpy as np
import pytest
from learning_helpers import make_table
from sklearn.metrics import roc_auc_score

from marginalia.errors import InputError
from marginalia.learning import DPSGDClassifier, DPSGDRegressor

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs torch: pip install --no-deps 'torch==2.13.0+cpu'"
)


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("learner", [DPSGDClassifier, DPSGDRegressor])
def test_without_sampling_and_noise_both_take_the_same_steps(learner, table):
    """Full batches at an epsilon that leaves no noise to speak of: equal weights up to single precision."""
    settings = {
        "selection": "fixed",
        "epsilon": 1e7,
        "batch_size": 400,
        "epochs": 12,
        "decay": 0.1,
        "clip": 0.3,
        "random_state": 0,
    }
    target = "rich" if learner is DPSGDClassifier else "pay"
    ours, theirs = (learner(backend=b, **settings).fit(table, target) for b in ("closed_form", "opacus"))
    np.testing.assert_allclose(theirs.coef_, ours.coef_, atol=1e-3)
    (event,) = theirs.ledger_.events
    assert event.arithmetic == "ideal"
    assert (replace(event, arithmetic="exact"),) == ours.ledger_.events


@pytest.mark.slow
@needs_torch
def test_same_moments_and_same_epsilon():
    """Weights over 40 seeds: every mean within 4 standard errors; pooled spread within 25 %; one event for both."""
    table = make_table(300)
    settings = {"selection": "fixed", "batch_size": 60, "epochs": 2, "clip": 0.5}
    weights = {}
    for backend in ("closed_form", "opacus"):
        models = [DPSGDClassifier(backend=backend, random_state=s, **settings).fit(table, "rich") for s in range(40)]
        weights[backend] = np.array([m.coef_ for m in models])
        assert models[0].ledger_.epsilon_spent == pytest.approx(1.0, abs=1e-3)
        assert models[0].ledger_.events[0].steps == 10
    a, b = weights.values()
    error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / 40)
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * error).all()
    assert math.sqrt(a.var(axis=0).mean() / b.var(axis=0).mean()) == pytest.approx(1.0, abs=0.25)


@pytest.mark.slow
@needs_torch
def test_the_seed_decides(table):
    one, two, other = (
        DPSGDClassifier(selection="fixed", backend="opacus", epochs=1, random_state=s).fit(table, "rich")
        for s in (1, 1, 2)
    )
    assert np.array_equal(one.coef_, two.coef_)
    assert not np.array_equal(one.coef_, other.coef_)


def test_a_missing_opacus_is_one_clear_line(table, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opacus", None)
    with pytest.raises(InputError, match="needs torch and opacus") as caught:
        DPSGDClassifier(selection="fixed", backend="opacus").fit(table, "rich")
    assert "\n" not in str(caught.value)


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 1024, "epochs": 1, "clip": 0.2},
        {"batch_size": 1024, "epochs": 2, "clip": 0.1, "epsilon": 0.1},
        {"batch_size": 512, "epochs": 1, "clip": 0.1, "learning_rate": 0.1, "epsilon": 5.0},
    ],
    ids=str,
)
def test_mean_auc_on_adult(released, settings):
    """Twenty seeds of both on Adult: mean test AUC within 3 standard errors of the difference."""
    data = released("adult")
    auc, spent = {}, []
    for backend in ("closed_form", "opacus"):
        model = DPSGDClassifier(selection="fixed", backend=backend, one_hot=data.one_hot, **settings)
        auc[backend] = []
        for seed in range(20):
            model.set_params(random_state=seed).fit(data.train, "income>50K")
            auc[backend].append(roc_auc_score(data.test.column("income>50K"), model.decision_function(data.test)))
        spent.append(model.ledger_.epsilon_spent)
    a, b = (np.array(values) for values in auc.values())
    error = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 20)
    assert abs(a.mean() - b.mean()) < 3 * error
    assert spent[0] == pytest.approx(spent[1], abs=1e-3)
