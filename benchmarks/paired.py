"""Learners on the same random splits of a table: how each scores on test rows, and how far from one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalia.data.catalogue.catalogue import entry
from marginalia.data.datasets import load
from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.methods.task import Task
from marginalia.sweep.metrics import scores
from marginalia.sweep.protocols import tasks_of


def splits(name: str, task_name: str, count: int, *, stream: int) -> Iterator[tuple[int, Task, Table, Table]]:
    """Yield number, task, training rows (80 %) and test rows of each split; `stream` tells a benchmark's from others'.

    A fifth, rounded down, is for the test. Columns that the task may not use are left out.
    """
    (task,) = (t for t in tasks_of(entry(name)) if t.task == task_name)
    whole: Any = load(name).table
    table = whole.project(task.columns(whole.domain.names))
    for number in range(count):
        order = np.random.default_rng([number, stream]).permutation(table.n_rows)
        test, train = (table.take(part) for part in np.split(order, [table.n_rows // 5]))
        yield number, task, train, test


def test_score(model: Any, task: Task, train: Table, test: Table, one_hot: Sequence[str] | None) -> float:
    """Fit a learner and return its test AUC, or its test MSE times 1000; `one_hot`: the columns that it encodes so."""
    model.fit(train, task.target)
    found = scores(model, test, target=task.target, task=task.task, one_hot=one_hot)
    return found["auc"] if task.task == "logistic" else 1000 * found["mse"]


def gaps(rows: pd.DataFrame, reference: str, *, name: str, sign: int) -> pd.DataFrame:
    """Return for each epsilon and arm, in the order of `rows`, the mean, and the mean gap with its standard error.

    Parameters
    ----------
    rows : DataFrame
        With ``epsilon``, ``arm``, ``split`` and ``value``.
    reference : str
        The arm that the others are compared with, split by split.
    name : str
        Of the column of gaps.
    sign : {1, -1}
        A gap is the value of an arm without that of the reference (1), or the other way round.
    """
    wide = rows.pivot(index=["epsilon", "split"], columns="arm", values="value")[list(rows["arm"].unique())]
    apart = wide.sub(wide[reference], axis=0) if sign == 1 else wide.rsub(wide[reference], axis=0)
    gap = apart.groupby("epsilon")
    parts = {"mean": wide.groupby("epsilon").mean(), name: gap.mean(), "stderr": gap.sem()}
    return pd.concat({key: part.stack() for key, part in parts.items()}, axis=1).reset_index()


def put(path: Path, table: pd.DataFrame, key: Sequence[str]) -> pd.DataFrame:
    """Write lines into a CSV where those of the same `key` stood, new ones at its end; return the whole, as kept."""
    lines = [table]
    if path.exists():
        before = pd.read_csv(path)
        ours = before.set_index(list(key)).index.isin(table.set_index(list(key)).index)
        first = int(ours.argmax()) if ours.any() else len(before)
        lines = [before[:first], table, before[first:][~ours[first:]]]
    whole = pd.concat([part for part in lines if len(part)], ignore_index=True)
    write_text(path, whole.to_csv(index=False, lineterminator="\n"))
    return whole
