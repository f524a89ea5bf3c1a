"""Algorithm 1 word for word: the paper's grid and its own noise, beside our grid with equal noise and our default.

The paper rounds every record to a uniform grid of m^k points an axis, without +1; we split it between neighbours among
2m^max(1, k/2) Gauss nodes. The theorem is for ε < 1, so ε = 0.5 here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from marginalia.experiment import (
    Experiment,
    Figure,
    Folders,
    Frame,
    Record,
    Settings,
    Tables,
    frame,
    part_name,
    part_values,
)
from marginalia.papers.chebyshev.runs import distances, draw, release_records
from marginalia.reporting.means import mean_table
from marginalia.reporting.pairwise import LEVEL, p_value, smallest_margin
from marginalia.reporting.panels import drawing, look, rows_where

ID = "chebyshev_algorithm"
EPSILON = 0.5
# (k, d): records. For k = d = 3 the paper's grid has m^9 cells: 1,000 records (4^9) are the most.
GRID = {"1,1": 1000, "2,1": 10_000, "3,1": 10_000, "1,2": 1000, "2,2": 1000, "3,2": 3000,
        "1,3": 1000, "2,3": 1000, "3,3": 1000}  # fmt: skip
SOLVED = 1e-3  # gap over half the noise: the minimiser of line 4, a hundred times closer than our default
# name: grid, noise, gap
ARMS = {
    "Algorithm 1": ("paper", "line_3", SOLVED),
    "Algorithm 1's grid, corrected noise": ("paper", "corrected", SOLVED),
    "our grid, corrected noise": ("practical", "corrected", SOLVED),
    "our grid, Algorithm 1's noise": ("practical", "line_3", SOLVED),
    "our default": ("practical", "tight", 0.1),
}
# Pairs that share their noise: draws and size.
PAIRS = {
    "corrected": ("Algorithm 1's grid, corrected noise", "our grid, corrected noise"),
    "Algorithm 1's": ("Algorithm 1", "our grid, Algorithm 1's noise"),
}
MARGIN = 0.1  # of our error: within it the two grids count as equal


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each arm and trial; all arms of a trial share records and noise."""
    k, d = map(int, part_values(part))
    n = settings["grid"][part]
    for trial in range(settings["trials"]):
        x, noise_seed = draw(ID, root_seed, "beta", d, n, trial)
        for arm, (mode, calibration, tolerance) in ARMS.items():
            row, density = release_records(
                x, noise_seed, k=k, epsilon=EPSILON, calibration=calibration, tolerance=tolerance, mode=mode
            )
            yield {"arm": arm, "d": d, "n": n, "trial": trial, **row, **distances(x, density, k, exact=True)}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return mean errors of every arm, and the test of the two grids at equal noise."""
    rows = rows.assign(error=rows["exact"].fillna(rows["lower"]), is_exact=rows["exact"].notna())
    keys = ["k", "d", "n", "m", "arm", "is_exact"]
    means = mean_table(rows, keys, ["cells", "epsilon_spent", "sigma", "gap", "error"])
    means["arm"] = means["arm"].astype("category").cat.set_categories(list(ARMS))
    means = means.sort_values(["d", "k", "arm"]).astype({"arm": str}).reset_index(drop=True)
    return {
        ID: means[[*keys, "cells", "epsilon_spent", "sigma", "gap", "error", "error_stderr", "n_trials"]],
        f"{ID}_grids": frame(_grids(rows)),
    }


def _grids(rows: Frame) -> Iterator[Record]:
    """Yield for each case and noise the relative difference, paper's grid less ours, and whether it is within 10 %."""
    for (d, k, n), case in rows.groupby(["d", "k", "n"]):
        errors = case.pivot_table(index="trial", columns="arm", values="error")
        for noise, (paper, ours) in PAIRS.items():
            relative: Any = (errors[paper] - errors[ours]) / errors[ours].mean()
            statistic = relative.mean(), relative.sem(), len(relative) - 1
            p = float(p_value(*statistic, "same", MARGIN))
            yield {
                "k": k,
                "d": d,
                "n": n,
                "noise": noise,
                "difference": statistic[0],
                "stderr": statistic[1],
                "bound": float(smallest_margin(*statistic)),
                "p": p,
                "equal": p <= LEVEL,
                "n_trials": len(relative),
            }


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the error of every arm, a group of bars for each (k, d)."""
    table = tables[ID]
    cases = sorted({tuple(v) for v in table[["d", "k", "n"]].to_numpy().tolist()})
    with drawing(1, 1, entries=3, height=2.4, space=0.55) as (drawn, (ax,)):
        drawn.set_figwidth(7.0)
        for i, arm in enumerate(ARMS):
            one = [rows_where(table, arm=arm, d=d, k=k, n=n) for d, k, n in cases]
            place = np.arange(len(cases)) + 0.16 * (i - 2)
            values, spread = ([float(r[c].iloc[0]) for r in one] for c in ("error", "error_stderr"))
            ax.bar(place, values, 0.15, yerr=spread, label=arm, color=look(i)["color"], error_kw={"lw": 0.6})
        ax.set_xticks(np.arange(len(cases)), [f"k = {k}, d = {d}\nn = {n:,}" for d, k, n in cases], fontsize=6)
        ax.set(yscale="log", ylabel="$d_k$")
        ax.grid(axis="x", visible=False)
    return drawn


ALGORITHM = Experiment(
    id=ID,
    title="Algorithm 1 word for word",
    caption="Mean distance d_k to the records at nominal epsilon 0.5, which the paper's theorem covers: Algorithm 1 as "
    "printed (its grid, its noise, solved to the end), the same grid and ours with one and the same noise, and "
    "our default. Exact on the line and for k = 1, else the largest error of a cosine query; bars: one "
    "standard error. The printed noise is smaller because it spends more: see epsilon_spent in the table.",
    defaults={"trials": 10, "grid": GRID},
    parts=lambda settings: [part_name(pair) for pair in settings["grid"]],
    rows=run,
    tables=tables,
    figure=figure,
)
