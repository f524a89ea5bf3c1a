"""Predictions of `marginalia recommend` for tables that no record is of, made before they are measured.

``python docs/recommend_fresh.py`` (minutes; needs the data files: ``MARGINALIA_MIRROR``) predicts, fits and measures,
and writes ``recommend_fresh.csv`` beside this file. The tables are small: most lie at the lower end of what was
benchmarked, or below. ``python docs/recommend_fresh.py costs`` does the same with seconds and memory, of these and
of benchmarked tables whose own records are left out: ``recommend_costs.csv``.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from marginalia.data.datasets import load
from marginalia.data.files import write_text
from marginalia.data.splits import random_split
from marginalia.data.table import Table
from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
from marginalia.methods.logistic.logistic import LogisticClassifier
from marginalia.methods.ols.ols import OLSRegressor
from marginalia.methods.record import Arm
from marginalia.methods.trivial.trivial import TrivialRegressor
from marginalia.planning.costs import Costs
from marginalia.recommend.benchmarks import SMALLEST_LOSS, family_of
from marginalia.recommend.recommend import GOOD_CHOICE, Option, cost_on_table, recommend
from marginalia.sweep.metrics import marginal_error, scores

FILE = Path(__file__).with_name("recommend_fresh.csv")
TABLES = ("churn@dpml", "heart@dpml", "diabetes", "breast_cancer")
EPSILONS = (0.5, 2.0)
SEEDS = 4
LEARNERS = (("ssp", ""), ("ada_ssp", ""), ("objective_perturbation", ""), ("aim_synth", ""), ("dd_ssp", "aim"))
SYNTHESIZERS = (("aim", ""), ("mst", ""), ("independent", ""))
RELATION, DELTA, TEST_FRACTION = "replace_one", 1e-5, 0.2
COSTS = Path(__file__).with_name("recommend_costs.csv")
COSTED = ("diabetes", "churn@dpml", "dutch", "acs_employment@dd_ssp")
COSTED_METHODS, COSTED_FITS = ("ssp", "mst", "aim"), 3


def model_loss(option: Option, table: Table, target: str, task: str, epsilon: float) -> float:
    """Return what a model loses on test rows, mean over seeds."""
    losses = []
    for seed in range(SEEDS):
        split = random_split(table, seed=seed, test_fraction=TEST_FRACTION)
        budget = Budget(epsilon, DELTA, RELATION, seed)
        private = fit_learner(option.method, split.train, target, budget, source=option.variant or None)
        public = (OLSRegressor() if task == "linear" else LogisticClassifier()).fit(split.train, target)
        models = (
            (private, public, TrivialRegressor().fit(split.train, target)) if task == "linear" else (private, public)
        )
        found = [scores(m, split.test, target=target, task=task, one_hot=None) for m in models]
        if task == "linear":
            lost, gain = found[0]["mse"] - found[1]["mse"], found[2]["mse"] - found[1]["mse"]
            losses.append(lost / gain)
        else:
            losses.append(found[1]["auc"] - found[0]["auc"])
    return max(float(np.mean(losses)), SMALLEST_LOSS)


def table_loss(option: Option, table: Table, epsilon: float) -> float:
    """Return the marginal error on the rows that were fitted, mean over seeds."""
    losses = []
    for seed in range(SEEDS):
        train = random_split(table, seed=seed, test_fraction=TEST_FRACTION).train
        losses.append(
            marginal_error(fit_synthesizer(option.method, train, Budget(epsilon, DELTA, RELATION, seed)), train)
        )
    return max(float(np.mean(losses)), SMALLEST_LOSS)


def measured() -> pd.DataFrame:
    """Return one row for each table, budget and method: predicted and measured."""
    rows = []
    for name in TABLES:
        data = load(name)
        for task, spec in data.tasks.items():
            table = data.table.project([c for c in data.table.domain.names if c not in spec.drop])
            n = len(random_split(table, seed=0, test_fraction=TEST_FRACTION).train)
            for epsilon in EPSILONS:
                advice = recommend(table.domain, spec.target, rows=n, epsilon=epsilon, relation=RELATION)
                assert advice.models is not None
                cells = [
                    (o, model_loss(o, table, spec.target, task, epsilon))
                    for o in chosen(advice.models.options, LEARNERS)
                ]
                tables = [(o, table_loss(o, table, epsilon)) for o in chosen(advice.tables.options, SYNTHESIZERS)]
                kinds = (("models", cells), ("synthetic tables", tables))
                rows += [(kind, name, n, epsilon, option, loss) for kind, found in kinds for option, loss in found]
    return pd.DataFrame(
        {
            "for": kind, "table": name, "rows": n, "epsilon": epsilon, "method": option.name,
            "near": option.prediction.inside, "predicted": option.prediction.loss, "low": option.prediction.low,
            "high": option.prediction.high, "measured": loss,
        }
        for kind, name, n, epsilon, option, loss in rows
    )  # fmt: skip


def chosen(options: list[Option], arms: tuple[tuple[str, str], ...]) -> list[Option]:
    """Return the options of some arms, in their ranking."""
    return [option for option in options if (option.method, option.variant) in arms]


def summary(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each purpose, near to the benchmarks and far from them."""
    rows = []
    for (purpose, near), group in cells.groupby(["for", "near"], sort=False):
        ratio = np.log10(group["predicted"] / group["measured"])
        first = group.groupby(["table", "epsilon"]).apply(
            lambda g: g.loc[g["predicted"].idxmin(), "measured"] / g["measured"].min(), include_groups=False
        )
        rows.append(
            {
                "for": purpose, "near the benchmarks": bool(near), "fits": len(group),
                "median_factor": 10 ** np.median(np.abs(ratio)), "predicted_over_measured": 10 ** np.median(ratio),
                "intervals_held": group["measured"].between(group["low"], group["high"]).mean(),
                "settings": len(first), "first_choice_good": (first <= GOOD_CHOICE).mean(),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def cost(name: str, method: str) -> dict[str, object]:
    """Return predicted and measured seconds and memory of a fit, in a process that has run one before."""
    data = load(name)
    task, spec = next(iter(data.tasks.items()))
    table = data.table.project([c for c in data.table.domain.names if c not in spec.drop])
    train = random_split(table, seed=0, test_fraction=TEST_FRACTION).train
    seconds = []
    for seed in range(COSTED_FITS + 1):
        begun, budget = time.process_time(), Budget(1.0, DELTA, RELATION, seed)
        if method == "ssp":
            fit_learner(method, train, spec.target, budget)
        else:
            fit_synthesizer(method, train, budget)
        seconds.append(time.process_time() - begun)
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    others = Costs([row for row in Costs().rows if family_of(row.dataset) != family_of(name)])
    arm = Arm(method, tasks=(task,) if method == "ssp" else ())
    shape = train.n_rows, len(train.domain)
    said = cost_on_table(others, arm, task=task if method == "ssp" else "", epsilon=1.0, shape=shape)
    return {
        "table": name, "rows": shape[0], "columns": shape[1], "method": method, "predicted_s": said.seconds,
        "basis": said.basis, "measured_s": float(np.mean(seconds[1:])), "predicted_mb": said.peak_mb,
        "measured_mb": peak,
    }  # fmt: skip


def costs() -> pd.DataFrame:
    """Return a row for each table and method, each measured in a process of its own."""
    asked = [(name, method) for name in COSTED for method in COSTED_METHODS]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return pd.DataFrame(pool.starmap(cost, asked, chunksize=1))


if __name__ == "__main__":
    if sys.argv[1:] == ["costs"]:
        write_text(COSTS, costs().to_csv(index=False, float_format="%.3g", lineterminator="\n"))
        raise SystemExit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tables this small make noisy matrices indefinite
        content = summary(measured())
    write_text(FILE, content.to_csv(index=False, float_format="%.4g", lineterminator="\n"))
