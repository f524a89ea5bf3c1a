"""DP-SGD by rule on the tables that its constants were chosen on: against its former setting, its limit, and others.

    MARGINALIA_MIRROR=DATA python benchmarks/dp_sgd_rule.py [--tables adult/linear]     # about 10 CPU minutes

Writes ``results/dp_sgd_rule.csv``: for each table, task and epsilon the mean test AUC (MSE times 1000) over splits into
80 and 20 % of the rows, the same ones for all arms, and the rule's mean advantage with its standard error, paired by
split. "without noise" is the very setting of the private run, its noise switched off. Replace-one, delta 1e-5.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
from harness import RESULTS
from paired import gaps, put, splits, test_score

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
    rows = []
    for split, task, train, test in splits(name, task_name, SPLITS, stream=33):
        known: dict[str, float] = {}  # what does not depend on epsilon is fitted once
        for epsilon in EPSILONS:
            given = {"one_hot": task.one_hot, "random_state": 1000 * split + round(100 * epsilon)}
            encoder = DPSGDClassifier if task_name == "logistic" else DPSGDRegressor
            bound = math.hypot(encoder(one_hot=task.one_hot)._encoder(train.domain, task.target).norm_bound, 1)
            for arm, model in arms(task_name, train.n_rows, bound, epsilon, given):
                if arm not in known:
                    value = test_score(model, task, train, test, task.one_hot)
                    if arm in ("fixed, without noise", "not private"):
                        known[arm] = value
                rows.append((epsilon, arm, split, known.get(arm, value)))
    return pd.DataFrame(rows, columns=["epsilon", "arm", "split", "value"])


def summary(rows: pd.DataFrame, name: str, task: str) -> pd.DataFrame:
    """Return the mean of each arm, and by how much the rule is better on the same splits."""
    table = gaps(rows, "rule", name="rule_better_by", sign=-1 if task == "logistic" else 1)
    place = pd.DataFrame({"dataset": name, "task": task}, index=table.index)
    return place.join(table.assign(splits=SPLITS)).round(5)


def main() -> None:
    """Measure the tables that are asked for and keep the lines of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [f"{n}/{t}" for n, t in TABLES]
    parser.add_argument("--tables", nargs="*", default=every, choices=every)
    chosen = parser.parse_args().tables
    for name, task in TABLES:
        if f"{name}/{task}" in chosen:
            table = summary(measured(name, task), name, task)
            print(table.to_string(), flush=True)
            put(PATH, table, ("dataset", "task"))


if __name__ == "__main__":
    main()
