"""Opacus and the closed form: the same law of weights."""

import importlib.util
import math

import numpy as np
import pytest
from learning_helpers import make_table
from sklearn.metrics import roc_auc_score

from marginalia.data.encoding import Encoder
from marginalia.methods.dp_sgd.descent import Batches, Run, descend
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.pld import poisson_gaussian_noise_multiplier
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="needs torch: pip install --no-deps 'torch==2.13.0+cpu'"
    ),
]


def closed_form(X, y, task, run, batches, seed):
    session = Session(Ledger("replace_one"), Randomness(seed))
    return descend(X, y, task, [run], batches, session=session)[:, 0]


def both():
    from opacus_reference import descend_by_opacus

    return closed_form, descend_by_opacus


def encoded(table, target, task, one_hot=None):
    encoder = Encoder(table.domain, target, one_hot=one_hot)
    return np.ascontiguousarray(encoder.transform(table)), encoder.target_values(table, task)


@pytest.mark.parametrize(("task", "target"), [("logistic", "rich"), ("linear", "pay")])
def test_without_sampling_and_noise_both_take_the_same_steps(task, target):
    """Full batches and no noise to speak of: equal weights up to single precision."""
    X, y = encoded(make_table(), target, task)
    run = Run(steps=12, learning_rate=1.0, clip=0.3, noise_multiplier=1e-3, decay=0.1)
    ours, theirs = (train(X, y, task, run, Batches(1.0, len(X)), 0) for train in both())
    assert np.abs(ours).max() > 0.1
    np.testing.assert_allclose(theirs, ours, atol=1e-3)


def test_same_moments():
    """Weights over 40 seeds: every mean within 4 standard errors; pooled spread within 25 %."""
    X, y = encoded(make_table(300), "rich", "logistic")
    run = Run(steps=10, learning_rate=1.0, clip=0.5, noise_multiplier=2.0)
    a, b = (
        np.array([train(X, y, "logistic", run, Batches(60 / 300, 60), seed) for seed in range(40)]) for train in both()
    )
    error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / 40)
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * error).all()
    assert math.sqrt(a.var(axis=0).mean() / b.var(axis=0).mean()) == pytest.approx(1.0, abs=0.25)


@pytest.mark.parametrize(
    ("epsilon", "size", "epochs", "clip", "rate"),
    [(1.0, 1024, 1, 0.2, 1.0), (0.1, 1024, 2, 0.1, 1.0), (5.0, 512, 1, 0.1, 0.1)],
)
def test_mean_auc_on_adult(released, epsilon, size, epochs, clip, rate):
    """Twenty seeds of both on Adult: mean test AUC within 3 standard errors of the difference."""
    data, target = released("adult"), "income>50K"
    X, y = encoded(data.train, target, "logistic", data.one_hot)
    unseen, labels = encoded(data.test, target, "logistic", data.one_hot)
    steps = epochs * len(X) // size
    noise = poisson_gaussian_noise_multiplier(epsilon, 1e-5, size / len(X), steps, "replace_one")
    run, batches = Run(steps, rate, clip, noise), Batches(size / len(X), size)
    a, b = (
        np.array([roc_auc_score(labels, unseen @ train(X, y, "logistic", run, batches, seed)) for seed in range(20)])
        for train in both()
    )
    error = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 20)
    assert abs(a.mean() - b.mean()) < 3 * error
