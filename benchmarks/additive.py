"""Additive models from one private release, beside DP-EBM: what is gained where every column has a term for each code.

    python3 envs/install_peer.py interpret
    MARGINALIA_MIRROR=DATA python benchmarks/additive.py [--tables adult/logistic law/logistic]   # about 11 CPU minutes

A linear model of one-hot codes is an additive model of the columns. Writes ``results/additive.csv``: the mean test AUC
(MSE times 1000) of each arm over splits into 80 and 20 % of the rows, the same ones for all arms, and by how much it is
better than DP-EBM (Nori et al. 2021, interpret-core), paired by split. Add/remove, the relation of DP-EBM; delta 1e-5;
whitened gradient descent knows the number of training rows, as it must.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pandas as pd
from harness import RESULTS
from paired import gaps, put, splits, test_score

from marginalia.data.catalogue.catalogue import developed_on
from marginalia.learning import (
    DDSSPClassifier,
    DDSSPRegressor,
    LogisticClassifier,
    OLSRegressor,
    PreconditionedGDClassifier,
    PreconditionedGDRegressor,
)
from marginalia.peers.record import record
from marginalia.synthesis import SWIFT

PATH = RESULTS / "additive.csv"
EPSILONS = (0.1, 1.0)
DELTA, SPLITS = 1e-5, 5
EBM = "DP-EBM"
TABLES = ("compas/logistic", "adult/logistic", "law/logistic", "acs_income_lin@dd_ssp/linear")


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
    public: Any = LogisticClassifier if task_name == "logistic" else OLSRegressor
    rows = []
    for split, task, train, test in splits(name, task_name, SPLITS, stream=34):
        every = tuple(n for n in train.domain.names if n != task.target)
        limits = {
            arm: test_score(public(one_hot=codes), task, train, test, codes)
            for arm, codes in (("not private", task.one_hot), ("not private, every column one-hot", every))
        }
        for epsilon in EPSILONS:
            seed = 1000 * split + round(100 * epsilon)
            given = {"epsilon": epsilon, "delta": DELTA, "relation": "add_remove", "random_state": seed}
            for arm, model in arms(task_name, train.n_rows, task.one_hot, every, given):
                codes = every if "every" in arm else task.one_hot
                rows.append((epsilon, arm, split, test_score(model, task, train, test, codes)))
            rows += [(epsilon, arm, split, limit) for arm, limit in limits.items()]
    return pd.DataFrame(rows, columns=["epsilon", "arm", "split", "value"])


def summary(rows: pd.DataFrame, name: str, task: str) -> pd.DataFrame:
    """Return the mean of each arm, and by how much it is better than DP-EBM on the same splits."""
    table = gaps(rows, EBM, name="better_by", sign=1 if task == "logistic" else -1)
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
        put(PATH, table, ("dataset", "task"))


if __name__ == "__main__":
    main()
