"""Card m of the reduced-space paper: how many points the reduced space needs, over laws of growing κ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.papers.card import Card, Figure, Folders, Record, Settings, Tables
from marginalia.papers.reduced_space.runs import bernoulli, half_and_half, one_run, summary
from marginalia.papers.rows import as_frame
from marginalia.reporting.panels import curve, drawing, look
from marginalia.sweep.seeds import seed_of, seed_sequence

CARD = "reduced_space_m"


@as_frame
def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each trial and number of points, of Bern(q) or, at q = 0, of the half-and-half law."""
    q, n = float(part), settings["records"]
    kappa = 1.118 if q == 0 else (2 * (q * q + (1 - q) ** 2)) ** 8
    law = {"law": "half and half" if q == 0 else f"Bern({q:g})", "kappa": kappa}
    for trial in range(settings["trials"]):
        key = (root_seed, CARD, part, trial)
        rng = np.random.default_rng(seed_sequence(*key))
        codes = half_and_half(n, 8, rng) if q == 0 else bernoulli(n, 8, q, rng)
        for m in settings["points"]:
            fit = one_run(codes, order=2, seed=seed_of(*key), space="sampled", measure="uniform", n_points=m)
            yield {**law, "m": m, "trial": trial, **fit}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw error and optimum over m, a curve for each law."""
    with drawing(2, 2, entries=3, height=2.3, space=0.5) as (figure, axes):
        for ax, column, name in ((axes[0], "error", "largest error"), (axes[1], "optimum", "LP optimum t*")):
            for i, (kappa, rows) in enumerate(tables[CARD].sort_values("kappa").groupby("kappa")):
                label = f"{rows['law'].iloc[0]}, κ = {kappa:.3g}"
                curve(ax, rows["m"], rows[column], rows[f"{column}_stderr"], label=label, **look(i))
            ax.set(xscale="log", xlabel="points m", ylabel=name)
    return figure


M = Card(
    id=CARD, title="Reduced space: how many points it needs",
    caption="Largest error and LP optimum t* over the number m of uniform points, eight attributes, order 2, n = "
            "5,000, epsilon = 1, for laws of growing Rényi condition number κ.",
    defaults={"trials": 60, "records": 5000, "points": (30, 100, 300, 1000), "laws": (0.0, 0.5, 0.7, 0.8, 0.9)},
    parts=lambda settings: [f"{q:g}" for q in settings["laws"]], run=run,
    tables=lambda rows, settings: {CARD: summary(rows, ["law", "kappa", "m"])}, figure=figure,
)  # fmt: skip
