"""Toy card: the mean of n fair coins, over n."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.card import Card, Figure, Folders, Frame, Record, Settings, Tables, as_frame
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import curve, drawing, look
from marginalia.sweep.seeds import seed_sequence


@as_frame
def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the error of the mean of each trial."""
    for trial in range(settings["trials"]):
        rng = np.random.default_rng(seed_sequence(root_seed, "dd_ssp_toy", part, trial))
        yield {"n": int(part), "trial": trial, "error": abs(float(rng.integers(2, size=int(part)).mean()) - 0.5)}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the mean error at each n."""
    return {"dd_ssp_toy": mean_table(rows, ["n"], ["error"])}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the error over n."""
    table = tables["dd_ssp_toy"]
    with drawing(1, 1, entries=1) as (drawn, (ax,)):
        curve(ax, table["n"], table["error"], table["error_stderr"], label="coins", **look(0))
        ax.set(xlabel="n", ylabel="error", xscale="log")
    return drawn


TOY = Card(
    id="dd_ssp_toy",
    title="Coins",
    caption="Mean absolute error of the mean of n coins; bars: one standard error.",
    defaults={"trials": 5, "sizes": (10, 100, 1000)},
    parts=lambda settings: [str(n) for n in settings["sizes"]],
    run=run,
    tables=tables,
    figure=figure,
)
