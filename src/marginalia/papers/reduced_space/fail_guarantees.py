"""Card fail of the reduced-space paper: how often its theorem's 8δ and the certificate are exceeded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.papers.card import Card, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.reduced_space.runs import GAMMA, bernoulli, one_run
from marginalia.papers.rows import as_frame
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import bars, drawing
from marginalia.sweep.seeds import seed_of, seed_sequence

CARD = "reduced_space_fail"
RECORDS, ATTRIBUTES = 1000, 6
NAMES = {"above_1_delta": "δ", "above_2_delta": "2δ", "above_8_delta": "8δ", "above_certificate": "certificate"}


@as_frame
def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each trial of a block and each family."""
    from marginalia.synthesis.reduced_space.families import Family
    from marginalia.synthesis.reduced_space.guarantees import guarantee

    for trial in range(int(part), settings["trials"], settings["blocks"]):
        key = (root_seed, CARD, trial)
        codes = bernoulli(RECORDS, ATTRIBUTES, 0.7, np.random.default_rng(seed_sequence(*key)))
        for kind in ("monomials", "parities"):
            accuracy = guarantee(Family(kind, (2,) * ATTRIBUTES, 1), RECORDS, 1.0, gamma=GAMMA).accuracy
            fit = one_run(codes, order=1, seed=seed_of(*key, kind), space="sampled", measure="uniform",
                          n_points=settings["points"], family=kind, calibration="published")  # fmt: skip
            yield {"family": kind, "trial": trial, "accuracy": accuracy, **fit}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the share of runs beyond each bound, by family."""
    above = {f"above_{times}_delta": rows["error"] > times * rows["accuracy"] for times in (1, 2, 8)}
    above["above_certificate"] = rows["error"] > rows["certificate"]
    rows = rows.assign(**{name: exceeded.astype(float) for name, exceeded in above.items()})
    return {CARD: mean_table(rows, ["family"], ["accuracy", *above]).assign(theorem_allows=4 * GAMMA)}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the share of runs beyond each bound, a group of bars for each bound."""
    table = tables[CARD].set_index("family")[list(NAMES)]
    with drawing(1, 1, entries=3, height=2.2) as (figure, (ax,)):
        bars(ax, {str(family): row.tolist() for family, row in table.iterrows()}, list(NAMES.values()))
        ax.set_ylabel("share of runs beyond")
    return figure


FAIL = Card(
    id=CARD, title="Reduced space: how often the guarantees fail",
    caption="Six attributes of Bern(0.7), order 1, n = k = 1,000, epsilon = 1, γ = 0.05, published noise: share of "
            "runs whose largest error exceeds δ, 2δ, 8δ (allowed: 4γ = 0.2 for 8δ) and the certificate (allowed: γ).",
    defaults={"trials": 300, "blocks": 4, "points": 40_000},
    parts=lambda settings: list(map(str, range(settings["blocks"]))), run=run, tables=tables, figure=figure,
)  # fmt: skip
