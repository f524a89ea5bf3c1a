"""The experiment of the noiseless limits: the same fit without its noise, and what is said to bind."""

import numpy as np
import pandas as pd
import pytest
from contract import check_experiment

from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.learning import (
    DPSGDClassifier,
    ObjectivePerturbationClassifier,
    PreconditionedGDRegressor,
    SSPRegressor,
)
from marginalia.learning.base import LinearClassifier, parameters
from marginalia.learning.private import BudgetedLearner
from marginalia.methods.dp_sgd.rule import MOMENTUM, STEPS, run_by_rule
from marginalia.methods.ssp import _joint_sensitivity
from marginalia.methods.task import Task
from marginalia.papers.cross_paper.cross_paper_limits import LIMITS, noiseless
from marginalia.privacy.calibration import gaussian_sigma, gdp_mu
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.sweep.protocols import Prepared

SMALL = {"trials": 2, "epsilons": [0.1, 8.0], "datasets": ["law", "compas"]}
BUDGET = {"epsilon": 0.1, "delta": 1e-5, "relation": "replace_one"}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, [5, 3, 2], (2000, 3))
    codes[:, 2] = codes[:, 0] + rng.integers(0, 3, 2000) > 3
    return Table(codes, Domain([Column("age", 5, "numeric"), Column("job", 3), Column("income", 2)]))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("prepared")
    for name in SMALL["datasets"]:
        Prepared(name, table, (Task("logistic", "income"), Task("linear", "age"))).save(folder / name)
    return folder


@pytest.fixture(scope="module")
def sample():
    """One feature in whole numbers of 2^-8, so that nothing is rounded, and labels that it tells."""
    rng = np.random.default_rng(2)
    x = rng.integers(-256, 257, 4000) / 256
    return x[:, None], np.where(x + rng.normal(size=4000) > 0, 1.0, -1.0)


@pytest.mark.slow
def test_the_experiment(prepared):
    check_experiment("cross_paper_limits", SMALL, prepared)


def test_ssp_without_noise_is_ridge_regression_on_exact_sums(sample):
    X, y = sample
    model = SSPRegressor(**BUDGET, fit_intercept=False, random_state=0)
    S = _joint_sensitivity(Neighbours(Relation.REPLACE_ONE), 1.0, 1.0, 1.0)
    ridge = model._ridge(1, gaussian_sigma(BUDGET["epsilon"], BUDGET["delta"], sensitivity=S))
    assert ridge > 10
    assert noiseless(model).fit(X, y).coef_[0] == pytest.approx(X[:, 0] @ y / (X[:, 0] @ X[:, 0] + ridge), rel=1e-6)
    assert model.fit(X, y).coef_[0] != pytest.approx(X[:, 0] @ y / (X[:, 0] @ X[:, 0] + ridge), rel=1e-4)


def test_objective_perturbation_without_noise_is_the_minimiser_with_its_ridge(sample):
    X, y = sample
    given = {**BUDGET, "relation": "add_remove"}
    (theta,) = noiseless(ObjectivePerturbationClassifier(**given, random_state=0)).fit(X, y).coef_
    pull = float((y * X[:, 0] / (1 + np.exp(y * X[:, 0] * theta))).sum())
    assert pull / theta == pytest.approx(1 / BUDGET["epsilon"], rel=0.01)  # B²/epsilon, less the share of the output


@pytest.mark.parametrize("epsilon", [0.1, 8.0])
def test_dp_sgd_by_rule_without_noise_is_gradient_descent_in_floats_with_the_setting_of_that_budget(sample, epsilon):
    X, y = sample
    given = {**BUDGET, "epsilon": epsilon}
    noise = 2 * np.sqrt(STEPS) / gdp_mu(epsilon, BUDGET["delta"])
    run = run_by_rule("logistic", bound=np.sqrt(2), n=len(X), noise_multiplier=noise)
    setting = {"learning_rate": run.learning_rate, "clip": run.clip, "momentum": MOMENTUM, "average": True}
    setting |= {"batch_size": len(X), "steps": STEPS, "fit_intercept": True, "selection": "fixed"}
    plain = DPSGDClassifier(epsilon=np.inf, **setting).fit(X, y)
    quiet = noiseless(DPSGDClassifier(**given, random_state=0)).fit(X, y)
    assert quiet.coef_[0] == pytest.approx(plain.coef_[0], rel=1e-3)
    assert quiet.intercept_ == pytest.approx(plain.intercept_, abs=1e-3)


@pytest.mark.slow
def test_the_batches_stay_and_the_noise_goes(sample):
    """Of a fixed setting the limit does not depend on epsilon, as its noise alone does; and on its batches it does."""
    X, y = sample

    def limit(epsilon, seed):
        model = DPSGDClassifier(**{**BUDGET, "epsilon": epsilon}, selection="fixed", epochs=1, random_state=seed)
        return noiseless(model).fit(X, y).coef_[0]

    assert limit(0.1, 0) == pytest.approx(limit(8.0, 0), abs=1e-6)
    assert limit(0.1, 0) != pytest.approx(limit(0.1, 1), abs=1e-6)


def test_a_noiseless_fit_has_no_ledger_and_leaves_the_private_one_as_it_was(sample):
    X, y = sample
    model = PreconditionedGDRegressor(**BUDGET, random_state=0)
    before = model.fit(X, y).coef_.tolist()
    assert not hasattr(noiseless(model).fit(X, y), "ledger_")
    assert model.fit(X, y).coef_.tolist() == before
    assert model.ledger_.certified


def test_noise_that_cannot_be_switched_off_is_refused(table):
    learner = LinearOfSelection(**BUDGET, random_state=0)
    with pytest.raises(InputError, match="LinearOfSelection draws noise that is neither Gaussian nor Laplace"):
        noiseless(learner).fit(table, "income")


@parameters
class LinearOfSelection(BudgetedLearner, LinearClassifier):
    """Picks by the exponential mechanism."""

    def _release(self, rows, session):
        place = session.select([0.0, 1.0], epsilon=0.1, sensitivity=1)
        return np.full(rows.n_features, float(place))


def test_what_binds():
    """Noise costs .1, .1 and 0, the setting 0, .3 and 0, but for a wiggle; of errors the other way round."""
    lines = []
    for metric, sign in (("auc", 1), ("mse", -1)):
        for epsilon, noise, setting in ((0.1, 0.1, 0.0), (1.0, 0.1, 0.3), (8.0, 0.0, 0.0)):
            for trial, wiggle in enumerate((-0.002, 0.001, 0.001)):
                place = {"dataset": "law", "task": "logistic" if sign > 0 else "linear", "metric": metric}
                place |= {"epsilon": epsilon, "method": "ssp", "variant": "", "trial": trial}
                level = 0.1 * trial  # of the split, which all share
                quiet, best = 1 + sign * (noise + wiggle) + level, 1 + sign * (noise + setting) + level
                lines.append({**place, "private": 1 + level, "noiseless": quiet, "optimum": best})
    table, counts = LIMITS.tables(pd.DataFrame(lines), SMALL).values()
    assert table["binds"].tolist() == ["noise", "setting", "neither"] * 2
    assert table["noise_costs"].tolist() == pytest.approx([0.1, 0.1, 0.0] * 2)
    assert table["setting_costs"].tolist() == pytest.approx([0.0, 0.3, 0.0] * 2)
    assert counts[["noise", "setting", "neither"]].to_numpy().tolist() == np.eye(3, dtype=int).tolist() * 2


def test_each_panel_has_a_title_of_its_own_and_the_legend_tells_all_signs():
    lines = [
        {"dataset": dataset, "metric": metric, "epsilon": epsilon, "method": "ssp", "variant": ""}
        | {"mean": 0.6, "noiseless": 0.7, "optimum": 0.8}
        for dataset, metric in (("adult", "mse"), ("adult", "auc"), ("law", "auc"))
        for epsilon in (0.1, 8.0)
    ]
    drawn = LIMITS.figure({"cross_paper_limits": pd.DataFrame(lines)}, SMALL)
    titles = [axes.get_title() for axes in drawn.axes]
    assert titles == ["Adult, regression", "Adult, classification", "Law School"]
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert names[:3] == ["private, ε = 0.1", "private, ε = 8", "the same, noise switched off"]
    assert names[3:] == ["what noise costs (any colour)", "what the setting costs", "no privacy"]
