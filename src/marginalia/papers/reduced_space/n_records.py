"""Card N of the reduced-space paper: error over the number of records, beside its theorem (8δ) and the certificate."""

from __future__ import annotations

import numpy as np

from marginalia.papers.card import Card, Folders, Frame, Settings, frame
from marginalia.papers.reduced_space.accuracy import ARMS, error_beside_bounds, one_run, summary
from marginalia.papers.reduced_space.data import half_and_half
from marginalia.sweep.seeds import seed_of, seed_sequence

CARD = "reduced_space_n"


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Frame:
    """Return one row for each trial and arm, at one number of records."""
    n, rows = int(part), []
    for trial in range(settings["trials"]):
        key = (root_seed, CARD, n, trial)
        codes = half_and_half(n, 8, np.random.default_rng(seed_sequence(*key)))
        for name, arm in ARMS.items():
            fit = one_run(codes, order=2, seed=seed_of(*key, name), space="sampled", measure="uniform",
                          n_points=settings["points"], **arm)  # fmt: skip
            rows.append({"arm": name, "n": n, "trial": trial, **fit})
    return frame(rows)


N = Card(
    id=CARD,
    title="Reduced space: error over the number of records",
    caption=(
        "Largest error over all averages of order 2 on eight Boolean attributes (epsilon = 1, 2,000 uniform points, as "
        "many synthetic rows as records): mean over runs, beside the theorem's 8δ and the certificate."
    ),
    defaults={"trials": 100, "records": (1000, 3000, 10_000, 30_000, 100_000), "points": 2000},
    parts=lambda settings: list(map(str, settings["records"])),
    run=run,
    tables=lambda rows, settings: {CARD: summary(rows, ["arm", "n"])},
    figure=lambda tables, settings: error_beside_bounds(tables[CARD], "n", "records n"),
)
