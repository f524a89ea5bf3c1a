"""Zhou et al., Table 1: the data sets."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from marginalia.data.catalogue.catalogue import uncoded
from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.figure_style import COLOURS
from marginalia.papers.excess_risk.runs import LABELS, SETS, TEST_FRACTION, read_set
from marginalia.papers.reported import reported
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import drawing


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield what Table 1 tells of every data set, and what the generator faces on it."""
    for name in settings["datasets"]:
        yield _summary(name, settings, data)


def _summary(name: str, settings: Settings, data: Folders) -> Record:
    from marginalia.marginals.workload import Workload

    table, task = read_set(name, data)
    domain = table.domain
    workload = Workload.parse(4, domain, max_cells=settings["max_cells"])
    candidates = workload.closure()
    codes = [len(np.unique(column)) for column in table.codes.T]
    return {
        "dataset": uncoded(name),
        "instances": table.n_rows,
        "features": len(domain),
        "training_rows": table.n_rows - math.ceil(TEST_FRACTION * table.n_rows),
        "label": task.target,
        "positive_rate": float(table.column(task.target).mean()),
        "largest_domain": max(domain.sizes),
        "codes_are_ranks": codes == list(domain.sizes),
        "workload": len(workload.cliques),
        "all_4_way": math.comb(len(domain), 4),
        "candidates": len(candidates),
        "candidate_cells": sum(domain.n_cells([domain.names[a] for a in clique]) for clique in candidates),
    }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the summary of every data set, and Table 1 beside it."""
    printed = reported(DATASETS.id).rename(columns={n: f"reported_{n}" for n in ("instances", "features")})
    both = printed.merge(rows, on="dataset")
    same_rows = both["instances"] == both["reported_instances"]
    both["agrees"] = same_rows & (both["features"] == both["reported_features"])
    training = ~both["agrees"] & (both["training_rows"] == both["reported_instances"])
    both["note"] = np.where(training, "the paper counts the training rows", "")
    columns = ["dataset", "instances", "reported_instances", "features", "reported_features", "agrees", "note"]
    rows = rows.sort_values("dataset", ignore_index=True)
    return {DATASETS.id: rounded(rows), f"comparison_{DATASETS.id}": both[columns]}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the numbers of rows, ours and as printed."""
    table = tables[f"comparison_{DATASETS.id}"]
    with drawing(1, 1, entries=2, height=1.9) as (figure, (ax,)):
        place = np.arange(len(table))
        ax.plot(table["instances"], place, "o", color=COLOURS[0], label="file")
        ax.plot(table["reported_instances"], place, "o", ms=7, mfc="none", color=COLOURS[1], ls="", label="Table 1")
        ax.set_yticks(place, [LABELS[name] for name in table["dataset"]])
        ax.set(xscale="log", xlabel="rows")
        ax.invert_yaxis()
    return figure


DATASETS = Experiment(
    id="excess_risk_datasets",
    title="Table 1: the data sets",
    caption=(
        "Rows of the published files (filled) and as printed in Table 1 (open). Churn's printed number is that of the "
        "80 % of its rows that train."
    ),
    defaults={"datasets": SETS, "max_cells": 1e6},
    parts=lambda settings: ["sets"],
    rows=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
