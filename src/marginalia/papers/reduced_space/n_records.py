"""Card N of the reduced-space paper: error over the number of records, beside its theorem (8δ) and the certificate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalia.papers.card import Card, Folders, Record, Settings
from marginalia.papers.form import as_frame
from marginalia.papers.reduced_space.runs import ARMS, error_beside_bounds, half_and_half, one_run, summary
from marginalia.sweep.seeds import seed_of, seed_sequence

CARD = "reduced_space_n"


@as_frame
def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each trial and arm, at one number of records."""
    n = int(part)
    for trial in range(settings["trials"]):
        key = (root_seed, CARD, n, trial)
        codes = half_and_half(n, 8, np.random.default_rng(seed_sequence(*key)))
        for name, arm in ARMS.items():
            fit = one_run(codes, order=2, seed=seed_of(*key, name), space="sampled", measure="uniform",
                          n_points=settings["points"], **arm)  # fmt: skip
            yield {"arm": name, "n": n, "trial": trial, **fit}


N = Card(
    id=CARD, title="Reduced space: error over the number of records",
    caption="Largest error over all averages of order 2 on eight Boolean attributes (epsilon = 1, 2,000 uniform "
            "points, as many synthetic rows as records): mean over runs, beside the theorem's 8δ and the certificate.",
    defaults={"trials": 100, "records": (1000, 3000, 10_000, 30_000, 100_000), "points": 2000},
    parts=lambda settings: list(map(str, settings["records"])), run=run,
    tables=lambda rows, settings: {CARD: summary(rows, ["arm", "n"])},
    figure=lambda tables, settings: error_beside_bounds(tables[CARD], "n", "records n"),
)  # fmt: skip
