"""Experiment X-T1 of the DD-SSP paper: its data sets (Table 1) and the norms that noise is scaled to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.data.encoding import Encoder
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.dd_ssp.runs import NAMES, training_rows
from marginalia.papers.reported import reported
from marginalia.reporting.panels import drawing, look
from marginalia.sweep.protocols import Prepared

BARS = {"norm_bound_squared": "public bound", "largest_norm_squared": "largest", "mean_norm_squared": "mean"}


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield rows, attributes and row norms of one data set, a row for each of its tasks."""
    prepared = Prepared.load(data[part])
    train = training_rows(prepared)
    n_test = 0 if prepared.test is None else prepared.test.n_rows
    for task in prepared.tasks:
        encoder = Encoder(train.domain, task.target, one_hot=task.one_hot)
        X, y = encoder.transform(train), encoder.target_values(train, task.task)
        squares = np.einsum("ij,ij->i", X, X)
        yield {
            "dataset": part,
            "task": task.task,
            "target": task.target,
            "rows": prepared.table.n_rows + n_test,
            "train_rows": train.n_rows,
            "test_rows": n_test,
            "attributes": len(train.domain),
            "features": X.shape[1],
            "norm_bound_squared": encoder.norm_bound**2,
            "largest_norm_squared": squares.max(),
            "mean_norm_squared": squares.mean(),
            "positive_rate": float(np.mean(y > 0)) if task.task == "logistic" else np.nan,
        }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the sizes beside those of the paper's Table 1."""
    table = rows.merge(reported("dd_ssp_table1"), on="dataset", how="left")
    table["agrees"] = (table["rows"] == table["reported_rows"]) & (table["attributes"] == table["reported_attributes"])
    return {"dd_ssp_t1": table}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw bound, largest and mean squared norm of the training rows."""
    table = tables["dd_ssp_t1"]
    places = np.arange(len(table))
    with drawing(1, 1, entries=3, height=2.2, space=0.3) as (drawn, (ax,)):
        for i, (column, label) in enumerate(BARS.items()):
            ax.bar(places + 0.27 * (i - 1), table[column], 0.25, label=label, color=look(i)["color"])
        names = [NAMES[name].split(" (")[0].replace(" ", "\n") for name in table["dataset"]]
        ax.set_xticks(places, [f"{name}\n{task}" for name, task in zip(names, table["task"], strict=True)])
        ax.tick_params(axis="x", labelsize=5.5)
        ax.grid(visible=False, axis="x")
        ax.set_ylabel("squared norm of an encoded row")
    return drawn


T1 = Experiment(
    id="dd_ssp_t1",
    title="DD-SSP: the data sets",
    caption=(
        "Squared norms of the encoded training rows of the DD-SSP paper's data sets: the public bound (number of "
        "features before encoding), the largest and the mean one. All noise is scaled to the bound."
    ),
    defaults={"datasets": list(NAMES)},
    parts=lambda settings: list(settings["datasets"]),
    rows=run,
    tables=tables,
    figure=figure,
    datasets=tuple(NAMES),
)
