"""Reduced space, N: error over the number of records, beside its theorem (8δ) and the certificate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings
from marginalia.papers.reduced_space.runs import ARMS, Law, one_run, summary
from marginalia.reporting.panels import DASHED, DOTTED, curve, drawing, look, rows_where
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "reduced_space_n"


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each trial and arm, at one number of records."""
    n = int(part)
    for trial in range(settings["trials"]):
        key = (root_seed, ID, n, trial)
        codes = Law.half_and_half(8).sample(n, np.random.default_rng(seed_sequence(*key)))
        for name, arm in ARMS.items():
            fit = one_run(
                codes,
                order=2,
                seed=seed_of(*key, name),
                space="sampled",
                measure="uniform",
                n_points=settings["points"],
                **arm,
            )
            yield {"arm": name, "n": n, "trial": trial, **fit}


def error_beside_bounds(table: Frame, over: str, label: str) -> Figure:
    """Draw error, certificate and 8δ over a column, a panel for each family in its own units."""
    units = {name: "error (functions 0 or 1)" if "monomials" in name else "error (functions ±1)" for name in ARMS}
    with drawing(2, 2, entries=4, height=2.3) as (figure, axes):
        for i, (ax, arm) in enumerate(zip(axes, ARMS, strict=True)):
            rows = rows_where(table, arm=arm).sort_values(over)
            curve(ax, rows[over], rows["error"], rows["error_stderr"], label="largest error, mean", **look(i))
            ax.plot(rows[over], rows["error_max"], ls="none", marker="_", color="#000000", label="worst run")
            ax.plot(rows[over], rows["certificate"], color="#555555", ls=DASHED, label="certificate")
            ax.plot(rows[over], rows["bound"], color="#555555", ls=DOTTED, label="8δ of Theorem 2.3")
            ax.set(xscale="log", yscale="log", xlabel=label, ylabel=units[arm], title=arm)
        low = min(ax.get_ylim()[0] for ax in axes)
        high = max(ax.get_ylim()[1] for ax in axes)
        for ax in axes:
            ax.set_ylim(low, high)
    return figure


N = Experiment(
    id=ID,
    title="Error over the number of records",
    caption="Largest error over all averages of order 2 on eight bits of a known population (ε = 1, 2,000 uniform "
    "points, as many synthetic rows as records): mean and worst of the runs, beside the 8δ of Theorem 2.3 and "
    "the certificate that each run publishes (γ = 0.05). An average of a ±1-valued function moves by twice a "
    "share of records.",
    defaults={"trials": 100, "records": (1000, 3000, 10_000, 30_000, 100_000), "points": 2000},
    parts=lambda settings: list(map(str, settings["records"])),
    rows=run,
    tables=lambda rows, settings: {ID: summary(rows, ["arm", "n"])},
    figure=lambda tables, settings: error_beside_bounds(tables[ID], "n", "records n"),
)
