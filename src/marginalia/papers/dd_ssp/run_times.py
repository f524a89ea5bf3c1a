"""CPU seconds of the DD-SSP paper's methods: how they grow with epsilon, and beside what the paper reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame
from marginalia.papers.dd_ssp.arms import (
    AIM,
    DD_SSP,
    DD_SSP_MIXTURE,
    DD_SSP_MST,
    DP_SGD_GRID,
    KEYS,
    MAIN,
    MIXTURE,
    SMALLER,
    with_arm,
)
from marginalia.papers.reported import reported

# What a synthesizer's fit takes stands in its own rows; those of the regression say what comes on top.
SOURCES = {DD_SSP: AIM, DD_SSP_MST: "mst/tight", DD_SSP_MIXTURE: MIXTURE, f"{DD_SSP} 100 MB": f"{AIM} 100 MB"}
TIMED = {
    AIM: "AIM", f"{AIM} 100 MB": "AIM, 100 MB", MIXTURE: "AIM with mixture inference", "mst/tight": "MST",
    "ada_ssp/code_constants/published": "AdaSSP", "objective_perturbation/published": "ObjPert",
    "dp_sgd/tight": "DP-SGD, one run", "search": "DP-SGD, search of its grid",
}  # fmt: skip


def seconds(records: Frame) -> Frame:
    """Return the CPU seconds of every fit: data set, task, epsilon, trial, arm, seconds.

    Rows of the grid are the final runs; the search, which the first of them carries, is an arm ``search``.
    """
    import pandas as pd

    rows = records[records["experiment"].isin([MAIN, SMALLER]) & (records["status"] == "ok")]
    rows = with_arm(rows[np.isfinite(rows["epsilon"])])
    once = rows.groupby([*KEYS, "task", "arm", "trial"])["seconds"].max().reset_index()
    grid = once[once["arm"] == DP_SGD_GRID]
    keys = [*KEYS, "task"]
    run = grid.groupby(keys)["seconds"].transform("min")
    search = grid.assign(seconds=grid["seconds"] - run, arm="search").sort_values("seconds", kind="stable")
    once.loc[grid.index, "seconds"] = run
    return pd.concat([once, search.groupby(keys, as_index=False).last()], ignore_index=True)


def growth(records: Frame) -> Frame:
    """Return for each data set and method the mean seconds at the smallest and largest epsilon run, and their ratio."""
    from marginalia.reporting.tables import round_significant

    rows = seconds(records)
    rows = rows[rows["arm"].isin(TIMED)]
    by_epsilon = rows.groupby(["dataset", "arm", "epsilon"])["seconds"].mean().reset_index()
    ordered = by_epsilon.sort_values("epsilon").groupby(["dataset", "arm"])
    table = ordered.agg(
        epsilon_from=("epsilon", "first"),
        epsilon_to=("epsilon", "last"),
        seconds_from=("seconds", "first"),
        seconds_to=("seconds", "last"),
        slowest=("seconds", "max"),
    ).reset_index()
    table["ratio"] = table["seconds_to"] / table["seconds_from"]
    for column in ("seconds_from", "seconds_to", "slowest", "ratio"):
        table[column] = round_significant(table[column], 3)
    order = {arm: place for place, arm in enumerate(TIMED)}
    table = table.sort_values(["arm", "dataset"], key=lambda c: c.map(order) if c.name == "arm" else c)
    return table.assign(method=table["arm"].map(TIMED))[
        ["method", "dataset", "epsilon_from", "epsilon_to", "seconds_from", "seconds_to", "ratio", "slowest"]
    ]


def beside_reported(records: Frame) -> Frame:
    """Put our CPU seconds beside each run time of the paper (appendix G.3 and G.4); empty where the set is not run.

    A fit is the synthesizer and the regression on it; an experiment is all epsilons and trials of a data set.
    """
    import pandas as pd

    from marginalia.reporting.tables import round_significant

    table = reported("dd_ssp_runtimes").fillna({"task": "", "dataset": ""})
    rows = _with_sources(seconds(records))
    ours = [_ours(rows, line) for line in table.itertuples(index=False)]
    table["our_seconds"] = round_significant(pd.Series(ours, dtype=float), 3)
    columns = ["place", "task", "dataset", "method", "phase", "epsilon", "reported", "reported_seconds", "our_seconds"]
    return table[columns]


def _with_sources(rows: Frame) -> Frame:
    """Add the seconds of a synthesizer to those of what is made of its marginals."""
    keys = [*KEYS, "trial"]
    fits = rows[rows["arm"].isin(SOURCES.values())].set_index([*keys, "arm"])["seconds"]
    source = rows["arm"].map(SOURCES)
    before = rows.assign(arm=source).join(fits.rename("before"), on=[*keys, "arm"])["before"]
    return rows.assign(seconds=rows["seconds"] + before.fillna(0.0))


def _ours(rows: Frame, line: Any) -> float:
    """Return our seconds of what one reported value speaks of."""
    arms = ["search"] if line.phase == "search" else line.arms.split()
    here = rows[rows["arm"].isin(arms)]
    for column in ("task", "dataset"):
        if wanted := getattr(line, column):
            here = here[here[column] == wanted]
    if here.empty:
        return np.nan
    if line.phase == "experiment":
        # the marginals are fitted once for both tasks
        tasks = here.sort_values("task").drop_duplicates([*KEYS, "trial"])
        return float(tasks["seconds"].sum())
    ends = {"smallest": here["epsilon"].min(), "largest": here["epsilon"].max()}
    if line.epsilon in ends:
        here = here[here["epsilon"] == ends[line.epsilon]]
    means = here.groupby([*KEYS, "task", "arm"])["seconds"].mean()
    return float(means.agg(line.statistic))


RUN_TIMES = Experiment("dd_ssp_run_times", paper="dd_ssp", tables=growth)
REPORTED = Experiment("dd_ssp_run_times_reported", paper="dd_ssp", tables=beside_reported)
