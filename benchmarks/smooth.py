"""What binds whitened gradient descent: lines or curves, split of the budget, interactions, noise.

``python benchmarks/smooth.py [DATASET ...]`` fits all arms on the same five splits and writes
``results/smooth.csv`` (of named data sets it replaces the rows).

Relation add/remove, delta = 1e-5, the number of training rows public. AUC, or the mean squared error of a target in
[-1, 1]. ``better_by``: than lines, in AUC or as a share of their error; `stderr` of it, paired by split.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from marginalia.data import datasets
from marginalia.data.catalogue import catalogue
from marginalia.data.encoding import one_hot_blocks, ordered_columns
from marginalia.data.splits import random_split
from marginalia.data.table import Table
from marginalia.learning import LogisticClassifier, OLSRegressor, PreconditionedGDClassifier, PreconditionedGDRegressor
from marginalia.methods import preconditioned_gd
from marginalia.sweep.metrics import roc_auc

OUT = Path(__file__).parent / "results" / "smooth.csv"
TRIALS, EPSILONS, DELTA = 5, (0.5, 1.0, 8.0), 1e-5
LINES, BOOSTED = "lines", "gradient boosting, not private"
CASES = {  # on which nothing of `smooth` was chosen
    "catholic": "logistic",
    "pensions": "logistic",
    "alcohol": "logistic",
    "cps91": "logistic",
    "labsup": "logistic",
    "rwm1984": "logistic",
    "computers": "linear",
    "star": "linear",
    "vietnam_h": "linear",
    "acs_income_lin@dd_ssp": "linear",
}
ABLATED = ("catholic", "pensions")  # with the arms that say what binds

Score = Callable[[Table], Any]  # of test rows
Arms = Iterator[tuple[float, str, Callable[[], Score]]]


def columns_of(table: Table, name: str, target: str) -> tuple[list[str], list[str]]:
    """Return the unordered columns of more than two codes, and all columns with a block of their own."""
    declared = catalogue.entry(name).one_hot
    blocks = set(one_hot_blocks(table.domain) if declared is None else declared) - {target}
    return sorted(blocks), sorted(blocks | ordered_columns(table.domain) - {target})


def boosted(train: Table, target: str, task: str) -> Score:
    """Return gradient boosting without privacy, with interactions of any order, on codes."""
    names = [name for name in train.names if name != target]
    model = HistGradientBoostingClassifier if task == "logistic" else HistGradientBoostingRegressor
    fitted = model(random_state=0).fit(train.codes[:, [train.names.index(n) for n in names]], values(train, target))

    def score(test: Table) -> Any:
        rows = test.codes[:, [test.names.index(n) for n in names]]
        return fitted.decision_function(rows) if task == "logistic" else fitted.predict(rows)

    return score


def values(table: Table, target: str) -> Any:
    """Return the target in [-1, 1]."""
    return 2 * table.column(target) / (table.domain[target].size - 1) - 1


def arms(name: str, task: str, target: str, train: Table, seed: int) -> Arms:
    """Yield epsilon, the name of an arm, and its fit."""
    blocks, every = columns_of(train, name, target)
    ours = PreconditionedGDClassifier if task == "logistic" else PreconditionedGDRegressor
    public: Any = LogisticClassifier if task == "logistic" else OLSRegressor

    def scores(model: Any) -> Score:
        fitted = model.fit(train, target)
        return fitted.decision_function if task == "logistic" else fitted.predict

    def private(share: float = 0.2, bound: float | None = None, **changes: Any) -> Score:
        settings = {"one_hot": blocks, "relation": "add_remove", "n_public": train.n_rows, "random_state": seed}
        limit = preconditioned_gd.FEATURES if bound is None else bound
        with mock.patch.multiple(preconditioned_gd, SHARE=share, FEATURES=limit):
            return scores(ours(epsilon=epsilon, delta=DELTA, **settings | changes))

    yield np.inf, "lines, not private", lambda: scores(public(one_hot=blocks))
    yield np.inf, "every column one-hot, not private", lambda: scores(public(one_hot=every))
    if name in ABLATED:
        yield np.inf, BOOSTED, lambda: boosted(train, target, task)
    for epsilon in EPSILONS:
        yield epsilon, LINES, private
        yield epsilon, "every column one-hot", lambda: private(one_hot=every)
        yield epsilon, "smooth", lambda: private(smooth=True)
        if name in ABLATED:
            yield epsilon, "smooth, cosines always", lambda: private(smooth=True, bound=np.inf)
            yield epsilon, "smooth, half of the budget for X'X", lambda: private(share=0.5, smooth=True)


def rows(name: str) -> pd.DataFrame:
    """Return the table of one data set."""
    task = CASES[name]
    target = catalogue.entry(name).tasks[task].target  # type: ignore[index]
    table = datasets.load(name).table
    found = []
    for trial in range(TRIALS):
        split = random_split(table, seed=np.random.SeedSequence([20261129, trial]), test_fraction=0.2)
        train, test = split.train, split.test
        for epsilon, arm, fit in arms(name, task, target, train, 1000 + trial):
            score, truth = np.asarray(fit()(test)), values(test, target)
            value = roc_auc(truth > 0, score) if task == "logistic" else float(np.mean((score - truth) ** 2))
            found.append({"epsilon": epsilon, "arm": arm, "trial": trial, "value": value})
    frame = pd.DataFrame(found)
    lines = frame[frame["arm"] == LINES].set_index(["epsilon", "trial"])["value"]
    keys = pd.MultiIndex.from_frame(frame[["epsilon", "trial"]])
    base = lines.reindex(keys).to_numpy()
    gain = frame["value"] - base if task == "logistic" else 1 - frame["value"] / base
    groups = frame.assign(gain=gain).groupby(["epsilon", "arm"], sort=False)
    made = groups.agg(mean=("value", "mean"), better_by=("gain", "mean"), stderr=("gain", "sem")).reset_index()
    metric = "AUC" if task == "logistic" else "MSE"
    return made.assign(dataset=name, metric=metric, splits=TRIALS).round(5)


def main() -> None:
    """Measure the data sets that are named, or all."""
    columns = ["dataset", "metric", "epsilon", "arm", "splits", "mean", "better_by", "stderr"]
    for name in sys.argv[1:] or CASES:
        made = rows(name)[columns]
        old = pd.read_csv(OUT, keep_default_na=False) if OUT.exists() else made.head(0)
        if list(old) != columns:
            old = made.head(0)
        table = pd.concat([old[old["dataset"] != name], made])
        order = table["dataset"].map({name: place for place, name in enumerate(CASES)})
        table.iloc[np.argsort(order.to_numpy(), kind="stable")].to_csv(OUT, index=False)


if __name__ == "__main__":
    main()
