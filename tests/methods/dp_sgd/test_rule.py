"""The setting by rule: from public numbers alone, what it says it is, and not held back by itself."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from marginalia.data.units import Unit
from marginalia.learning import DPSGDClassifier, DPSGDRegressor
from marginalia.methods.dp_sgd.descent import Batches, Run, descend, descend_without_noise
from marginalia.methods.dp_sgd.rule import MOMENTUM, STEPS, run_by_rule
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.events import PoissonGaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

TARGET = {DPSGDClassifier: "rich", DPSGDRegressor: "pay"}


def steps_by_hand(X, y, run):
    """Full-batch logistic regression with momentum, and all its iterates, as one would write it."""
    w, v, iterates = np.zeros(X.shape[1]), np.zeros(X.shape[1]), []
    for _ in range(run.steps):
        g = (1 / (1 + np.exp(-X @ w)) - (y + 1) / 2)[:, None] * X
        norm = np.linalg.norm(g, axis=1, keepdims=True)
        g *= np.minimum(1, run.clip / np.maximum(norm, 1e-300))
        v = run.momentum * v - run.learning_rate * g.mean(axis=0)
        w = w + v
        iterates.append(w)
    return np.array(iterates)


@pytest.mark.parametrize("noise", [0.0, 1e-7])
@pytest.mark.parametrize(("average", "first"), [(False, 30), (True, 15)])
def test_momentum_and_average(noise, average, first):
    """The second noise is the path of exact sums, block after block, with next to none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 4))
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(size=2500) > 0, 1.0, -1.0)
    run = Run(31, 0.5, 0.4, noise, momentum=0.8, average=average)
    if noise:
        session = Session(Ledger("replace_one"), Randomness(0))
        (got,) = descend(X, y, "logistic", [run], Batches(1.0, 2500.0), session=session).T
    else:
        (got,) = descend_without_noise(X, y, "logistic", [run], Batches(1.0, 2500.0), Randomness(0)).T
    np.testing.assert_allclose(got, steps_by_hand(X, y, run)[first:].mean(axis=0), rtol=1e-3 if noise else 1e-9)


def test_runs_of_several_lengths_keep_their_momentum_and_average():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 3)), rng.choice([-1.0, 1.0], 200)
    runs = [Run(9, 0.5, 0.4, 0.0, momentum=0.8, average=True), Run(20, 0.2, 1.0, 0.0, momentum=0.5), Run(5, 1, 1, 0.0)]
    together = descend_without_noise(X, y, "logistic", runs, Batches(1.0, 200.0), Randomness(0))
    for run, column in zip(runs, together.T, strict=True):
        (alone,) = descend_without_noise(X, y, "logistic", [run], Batches(1.0, 200.0), Randomness(0)).T
        np.testing.assert_allclose(column, alone, rtol=1e-12)


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_more_noise_means_tighter_clips_and_shorter_ways(task):
    runs = [run_by_rule(task, bound=3.0, n=10_000, noise_multiplier=s) for s in (0.0, 1.0, 30.0, 1e3, 1e6, 1e12)]
    clips, rates = [r.clip for r in runs], [r.learning_rate for r in runs]
    assert clips == sorted(clips, reverse=True)
    assert rates == sorted(rates, reverse=True)
    assert clips[0] == 3.0
    assert clips[-1] == pytest.approx(0.3)
    assert all(r.steps == STEPS and r.momentum == MOMENTUM and r.average for r in runs)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_the_noise_of_a_score_is_bounded_whatever_the_budget(task):
    """On rows without gradient the released weights are noise; a score's is about the horizon at any noise.

    4,000 weights: their deviation is known to 1.1 %, and 5 % is beyond four standard errors.
    """
    X, y, found = np.zeros((3, 4000)), np.ones(3), []
    for noise in (200.0, 2e4):
        run = run_by_rule(task, bound=2.0, n=100, noise_multiplier=noise)
        w = descend(X, y, task, [run], Batches(1.0, 100.0), session=Session(Ledger("add_remove"), Randomness(0)))
        found.append(2.0 * w.std())
    assert found[0] == pytest.approx(found[1], rel=0.05)
    assert found[0] < {"linear": 0.5, "logistic": 2.0}[task]


def test_steps_of_least_squares_do_not_diverge_on_the_hardest_rows():
    """All rows the same, at the bound: the curvature is the largest that there is, and nothing is clipped."""
    run = run_by_rule("linear", bound=2.0, n=100, noise_multiplier=0.0)
    X, y = np.full((100, 4), 1.0), np.full(100, 0.1)
    (w,) = descend_without_noise(X, y, "linear", [run], Batches(1.0, 100.0), Randomness(0)).T
    assert X[0] @ w == pytest.approx(0.1, abs=0.02)


def test_steps_of_logistic_regression_keep_the_order_on_the_hardest_rows():
    """Fifteen attributes always at the same code, and one that tells: the long way swings, and ranks all the same."""
    rng = np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], 4000)
    X = np.column_stack([np.ones((4000, 15)), sign])
    y = np.where(rng.random(4000) < 0.5 + 0.2 * sign, 1.0, -1.0)
    run = run_by_rule("logistic", bound=4.0, n=4000, noise_multiplier=0.0)
    (w,) = descend_without_noise(X, y, "logistic", [run], Batches(1.0, 4000.0), Randomness(0)).T
    assert roc_auc_score(y, X @ w) == pytest.approx(roc_auc_score(y, sign))
    assert 0.5 < w[-1] < 1.2  # half the log odds ratio is .85


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("learner", [DPSGDClassifier, DPSGDRegressor])
def test_the_rule_follows_public_numbers_and_is_one_event(learner, relation, table):
    """Other rows, and under add/remove another number of them, give the same event, of exactly the budget."""
    model = learner(epsilon=0.7, relation=relation, n_public=400, random_state=0)
    tables = [table, table.take(slice(None, None, -1))] + ([table.take(slice(300))] if relation == "add_remove" else [])
    ledgers = [model.fit(t, TARGET[learner]).ledger_ for t in tables]
    (event,) = ledgers[0].events
    units = {"add_remove": 1, "replace_one": 2}[relation]
    noise = units * math.sqrt(STEPS) / gdp_mu(0.7, 1e-5)
    assert isinstance(event, PoissonGaussianEvent)
    assert (event.rate, event.steps, event.noise_multiplier) == (1.0, STEPS, pytest.approx(noise))
    assert all(ledger.events == ledgers[0].events and ledger.certified for ledger in ledgers)
    assert ledgers[0].epsilon_spent == pytest.approx(0.7, rel=1e-6)


def test_the_learner_runs_the_rule(table):
    """Without noise, by hand: the bound of a table's rows and the constant, and no noise is q = 0."""
    model = DPSGDClassifier(epsilon=math.inf).fit(table, "rich")
    X = np.column_stack([model.encoder_.transform(table), np.ones(400)])
    y = model.encoder_.target_values(table, "logistic")
    run = run_by_rule("logistic", bound=math.hypot(model.encoder_.norm_bound, 1), n=400, noise_multiplier=0.0)
    expected = steps_by_hand(X, y, run)[STEPS // 2 :].mean(axis=0)
    np.testing.assert_allclose([*model.coef_, model.intercept_], expected, rtol=1e-9)


def test_units_of_k_rows_count_as_rows_of_a_longer_bound(table, monkeypatch):
    told = []
    monkeypatch.setattr(
        "marginalia.methods.dp_sgd.dp_sgd.run_by_rule",
        lambda task, **given: told.append(given) or run_by_rule(task, **given),
    )
    units = table.of_units(Unit("patient", 4), np.arange(400) // 4)
    for t in (table, units):
        DPSGDClassifier(random_state=0).fit(t, "rich")
    assert told[1]["bound"] == pytest.approx(2 * told[0]["bound"])
    assert (told[0]["n"], told[1]["n"]) == (400, 100)
    assert told[0]["noise_multiplier"] == told[1]["noise_multiplier"]
