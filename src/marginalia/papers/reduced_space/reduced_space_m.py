"""Experiment m of the reduced-space paper: how many points the reduced space needs, over laws of growing κ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.reduced_space.runs import Law, one_run, summary
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import curve, drawing, log_axis, look
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "reduced_space_m"
BITS, ORDER, FUNCTIONS = 8, 2, 37


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each trial and number of points, of Bern(q) or, at q = 0, of the half-and-half law."""
    q, n = float(part), settings["records"]
    law = Law.half_and_half(BITS) if q == 0 else Law((q,) * BITS)
    for trial in range(settings["trials"]):
        key = (root_seed, ID, part, trial)
        codes = law.sample(n, np.random.default_rng(seed_sequence(*key)))
        for times in settings["times"]:
            m = times * FUNCTIONS
            fit = one_run(codes, order=ORDER, seed=seed_of(*key), space="sampled", measure="uniform", n_points=m)
            yield {"law": law.name, "kappa": law.condition_number, "m": m, "times": times, "trial": trial, **fit}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the errors, and by how much each number of points misses the largest one's, paired over runs."""
    widest = rows[rows["times"] == max(settings["times"])].set_index(["law", "trial"])["error"].rename("best")
    paired = rows.join(widest, on=["law", "trial"])
    paired["excess"] = paired["error"] - paired["best"]
    keys = ["law", "kappa", "times", "m"]
    return {ID: summary(rows, keys).merge(mean_table(paired, keys, ["excess"]).drop(columns="n_trials"), on=keys)}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw error and optimum over m/|F|, a curve for each law."""
    with drawing(2, 2, entries=3, height=2.3, space=0.5) as (figure, axes):
        for ax, column, name in (
            (axes[0], "error", "largest error"),
            (axes[1], "optimum", "optimum t* of the program"),
        ):
            for i, (kappa, rows) in enumerate(tables[ID].sort_values("kappa").groupby("kappa")):
                label = f"{rows['law'].iloc[0]}, κ = {kappa:.3g}"
                curve(ax, rows["times"], rows[column], rows[f"{column}_stderr"], label=label, **look(i))
            log_axis(ax, settings["times"])
            ax.set(xlabel="points m over functions |F|", ylabel=name, ylim=(0, None))
    return figure


M = Experiment(
    id=ID,
    title="How many points the reduced space needs",
    caption="Largest error and optimum t* of the linear program, over the number m of uniform points in units of the "
    "number |F| = 37 of functions (parities of order 2 on eight bits, 5,000 records, ε = 1), for populations "
    "of growing Rényi condition number κ. Mean over runs, bars of one standard error.",
    defaults={"trials": 60, "records": 5000, "times": (1, 3, 10, 30), "laws": (0.0, 0.5, 0.7, 0.8, 0.9)},
    parts=lambda settings: [f"{q:g}" for q in settings["laws"]],
    rows=run,
    tables=tables,
    figure=figure,
)
