"""DP-SGD by rule on the tables that its constants were chosen on: against its former setting, its limit, and others.

    MARGINALIA_MIRROR=DATA python benchmarks/dp_sgd_rule.py [--tables adult compas]     # about 10 CPU minutes

Writes ``results/dp_sgd_rule.csv``: for each table, task and epsilon the mean test AUC (MSE times 1000) over splits into
80 and 20 % of the rows, the same ones for all arms, and the rule's mean advantage with its standard error, paired by
split. "without noise" is the very setting of the private run, its noise switched off. Replace-one, delta 1e-5.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from harness import RESULTS

from marginalia.data.catalogue.catalogue import entry
from marginalia.data.datasets import load
from marginalia.data.files import write_text
from marginalia.learning import (
    DPSGDClassifier,
    DPSGDRegressor,
    LogisticClassifier,
    ObjectivePerturbationClassifier,
    OLSRegressor,
    PreconditionedGDClassifier,
    PreconditionedGDRegressor,
)
from marginalia.methods.dp_sgd.rule import MOMENTUM, STEPS, run_by_rule
from marginalia.privacy.calibration import gdp_mu
from marginalia.sweep.metrics import scores
from marginalia.sweep.protocols import tasks_of

PATH = RESULTS / "dp_sgd_rule.csv"
EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 8.0)
DELTA, SPLITS = 1e-5, 5
TABLES = (
    ("compas", "logistic"),
    ("adult", "logistic"),
    ("acs_employment@dd_ssp", "logistic"),
    ("adult", "linear"),
    ("nist_taxi", "linear"),
)


def arms(task: str, n: int, bound: float, epsilon: float, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the learner of every arm."""
    descent: Any = DPSGDClassifier if task == "logistic" else DPSGDRegressor
    private = {"epsilon": epsilon, "delta": DELTA, "relation": "replace_one", **given}
    yield "rule", descent(**private)
    noise = 2 * math.sqrt(STEPS) / gdp_mu(epsilon, DELTA)
    run = run_by_rule("logistic" if task == "logistic" else "linear", bound=bound, n=n, noise_multiplier=noise)
    setting = {"batch_size": n, "steps": STEPS, "learning_rate": run.learning_rate, "clip": run.clip}
    setting |= {"momentum": MOMENTUM, "average": True, "fit_intercept": True}
    yield "rule, without noise", descent(epsilon=math.inf, selection="fixed", **setting, **given)
    yield "fixed", descent(selection="fixed", **private)
    yield "fixed, without noise", descent(epsilon=math.inf, selection="fixed", **given)
    if task == "logistic":
        yield "preconditioned_gd", PreconditionedGDClassifier(**private)
        yield "objective_perturbation", ObjectivePerturbationClassifier(**private)
        yield "not private", LogisticClassifier(one_hot=given["one_hot"])
    else:
        yield "preconditioned_gd", PreconditionedGDRegressor(**private)
        yield "not private", OLSRegressor(one_hot=given["one_hot"])


def measured(name: str, task_name: str) -> pd.DataFrame:
    """Return a row for each split, epsilon and arm."""
    (task,) = (t for t in tasks_of(entry(name)) if t.task == task_name)
    whole = load(name).table
    table, rows = whole.project(task.columns(whole.domain.names)), []
    for split in range(SPLITS):
        order = np.random.default_rng([split, 33]).permutation(table.n_rows)
        test, train = (table.take(part) for part in np.split(order, [table.n_rows // 5]))
        known: dict[str, float] = {}  # what does not depend on epsilon is fitted once
        for epsilon in EPSILONS:
            given = {"one_hot": task.one_hot, "random_state": 1000 * split + round(100 * epsilon)}
            encoder = DPSGDClassifier if task_name == "logistic" else DPSGDRegressor
            bound = math.hypot(encoder(one_hot=task.one_hot)._encoder(train.domain, task.target).norm_bound, 1)
            for arm, model in arms(task_name, train.n_rows, bound, epsilon, given):
                if arm not in known:
                    model.fit(train, task.target)
                    found = scores(model, test, target=task.target, task=task.task, one_hot=task.one_hot)
                    value = found["auc"] if task_name == "logistic" else 1000 * found["mse"]
                    if arm in ("fixed, without noise", "not private"):
                        known[arm] = value
                rows.append((name, task_name, epsilon, arm, split, known.get(arm, value)))
    return pd.DataFrame(rows, columns=["dataset", "task", "epsilon", "arm", "split", "value"])


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each arm, and by how much the rule is better on the same splits."""
    keys = ["dataset", "task", "epsilon"]
    wide = rows.pivot(index=[*keys, "split"], columns="arm", values="value")
    sign = np.where(wide.index.get_level_values("task") == "linear", -1.0, 1.0)
    gaps = (wide.rsub(wide["rule"], axis=0)).mul(sign, axis=0)
    parts = {"mean": wide.groupby(keys).mean(), "gain": gaps.groupby(keys).mean(), "stderr": gaps.groupby(keys).sem()}
    table = pd.concat({name: part.stack() for name, part in parts.items()}, axis=1).reset_index()
    place = {arm: i for i, arm in enumerate(rows["arm"].unique())}
    table = table.rename(columns={"level_3": "arm", "gain": "rule_better_by"}).assign(splits=rows["split"].nunique())
    return table.sort_values([*keys, "arm"], key=lambda c: c.map(place) if c.name == "arm" else c).round(5)


def main() -> None:
    """Measure the tables that are asked for and keep the lines of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", default=[f"{n}/{t}" for n, t in TABLES])
    chosen = parser.parse_args().tables
    for name, task in TABLES:
        if f"{name}/{task}" in chosen:
            table = summary(measured(name, task))
            if PATH.exists():
                before = pd.read_csv(PATH)
                table = pd.concat([before[(before["dataset"] != name) | (before["task"] != task)], table])
            write_text(PATH, table.to_csv(index=False, lineterminator="\n"))
            print(table[(table["dataset"] == name) & (table["task"] == task)].to_string())


if __name__ == "__main__":
    main()
