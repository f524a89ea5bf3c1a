"""Additive models from one private release, beside DP-EBM: what is gained where every column has a term for each code.

    python3 envs/install_peer.py interpret
    MARGINALIA_MIRROR=DATA python benchmarks/additive.py [--tables adult/logistic law/logistic]   # about 8 CPU minutes

A linear model of one-hot codes is an additive model of the columns. Writes ``results/additive.csv``: the mean test AUC
(MSE times 1000) of each arm over splits into 80 and 20 % of the rows, the same ones for all arms, and by how much it is
better than DP-EBM (Nori et al. 2021, interpret-core), paired by split. Add/remove, the relation of DP-EBM; delta 1e-5;
whitened gradient descent knows the number of training rows, as it must.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from harness import RESULTS

from marginalia.data.catalogue.catalogue import developed_on, entry
from marginalia.data.datasets import load
from marginalia.data.files import write_text
from marginalia.learning import (
    DDSSPClassifier,
    DDSSPRegressor,
    LogisticClassifier,
    OLSRegressor,
    PreconditionedGDClassifier,
    PreconditionedGDRegressor,
)
from marginalia.peers.record import record
from marginalia.sweep.metrics import scores
from marginalia.sweep.protocols import tasks_of
from marginalia.synthesis import SWIFT

PATH = RESULTS / "additive.csv"
EPSILONS = (0.1, 1.0)
DELTA, SPLITS = 1e-5, 5
EBM = "DP-EBM"
TABLES = ("compas/logistic", "adult/logistic", "law/logistic")


def arms(task: str, n: int, one_hot: Any, every: tuple[str, ...], given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the learner of every arm that depends on epsilon."""
    descent: Any = PreconditionedGDClassifier if task == "logistic" else PreconditionedGDRegressor
    statistics: Any = DDSSPClassifier if task == "logistic" else DDSSPRegressor
    yield EBM, record("peer/interpret/ebm").load(task)(one_hot=one_hot, **given)
    yield "preconditioned_gd", descent(one_hot=one_hot, n_public=n, **given)
    yield "preconditioned_gd, every column one-hot", descent(one_hot=every, n_public=n, **given)
    yield "dd_ssp on swift", statistics(marginals=SWIFT(**given), one_hot=one_hot)
    yield "dd_ssp on swift, every column one-hot", statistics(marginals=SWIFT(**given), one_hot=every)


def measured(name: str, task_name: str) -> pd.DataFrame:
    """Return a row for each split, epsilon and arm."""
    (task,) = (t for t in tasks_of(entry(name)) if t.task == task_name)
    whole = load(name).table
    table, rows = whole.project(task.columns(whole.domain.names)), []
    every = tuple(n for n in table.domain.names if n != task.target)
    public: Any = LogisticClassifier if task_name == "logistic" else OLSRegressor
    for split in range(SPLITS):
        order = np.random.default_rng([split, 34]).permutation(table.n_rows)
        test, train = (table.take(part) for part in np.split(order, [table.n_rows // 5]))

        def value(model: Any, codes: Any) -> float:
            model.fit(train, task.target)  # noqa: B023
            found = scores(model, test, target=task.target, task=task.task, one_hot=codes)  # noqa: B023
            return found["auc"] if task_name == "logistic" else 1000 * found["mse"]

        limits = {
            "not private": value(public(one_hot=task.one_hot), task.one_hot),
            "not private, every column one-hot": value(public(one_hot=every), every),
        }
        for epsilon in EPSILONS:
            seed = 1000 * split + round(100 * epsilon)
            given = {"epsilon": epsilon, "delta": DELTA, "relation": "add_remove", "random_state": seed}
            for arm, model in arms(task_name, train.n_rows, task.one_hot, every, given):
                rows.append((epsilon, arm, split, value(model, every if "every" in arm else task.one_hot)))
            rows += [(epsilon, arm, split, limit) for arm, limit in limits.items()]
    return pd.DataFrame(rows, columns=["epsilon", "arm", "split", "value"])


def summary(rows: pd.DataFrame, name: str, task: str) -> pd.DataFrame:
    """Return the mean of each arm, and by how much it is better than DP-EBM on the same splits."""
    wide = rows.pivot(index=["epsilon", "split"], columns="arm", values="value")[list(rows["arm"].unique())]
    gaps = wide.sub(wide[EBM], axis=0) * (-1 if task == "linear" else 1)
    by = {"mean": wide.groupby("epsilon").mean(), "better_by": gaps.groupby("epsilon").mean()}
    by["stderr"] = gaps.groupby("epsilon").sem()
    table = pd.concat({key: part.stack() for key, part in by.items()}, axis=1).reset_index()
    place = {"dataset": name, "task": task, "developed_on": "yes" if developed_on(name, task) else "no"}
    return pd.DataFrame(place, index=table.index).join(table.assign(splits=SPLITS)).round(5)


def main() -> None:
    """Measure the tables that are asked for and keep the lines of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    for chosen in parser.parse_args().tables:
        name, task = chosen.rsplit("/", 1)
        table = summary(measured(name, task), name, task)
        print(table.to_string(), flush=True)
        if PATH.exists():
            before = pd.read_csv(PATH)
            table = pd.concat([before[(before["dataset"] != name) | (before["task"] != task)], table])
        write_text(PATH, table.to_csv(index=False, lineterminator="\n"))


if __name__ == "__main__":
    main()
