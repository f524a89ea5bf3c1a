"""Experiment F of the reduced-space paper: error over the number of released averages, with the whole cube as space."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from marginalia.experiment import Experiment, Folders, Record, Settings
from marginalia.papers.reduced_space.reduced_space_n import error_beside_bounds
from marginalia.papers.reduced_space.runs import ARMS, Law, one_run, summary
from marginalia.sweep.seeds import seed_of, seed_sequence

ID = "reduced_space_f"


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each order, trial and arm, at one number of attributes."""
    p = int(part)
    for order, trial in product(settings["orders"], range(settings["trials"])):
        key = (root_seed, ID, p, order, trial)
        codes = Law.half_and_half(p).sample(settings["records"], np.random.default_rng(seed_sequence(*key)))
        for name, arm in ARMS.items():
            fit = one_run(codes, order=order, seed=seed_of(*key, name), space="cube", **arm)
            yield {"arm": name, "p": p, "order": order, "trial": trial, **fit}


F = Experiment(
    id=ID,
    title="Error over the number of functions",
    caption="Largest error over the number of released averages (6 to 12 bits, order 1 to 3), 10,000 records, ε = 1, "
    "every point of the domain as space: mean and worst of the runs, beside 8δ and the certificate.",
    defaults={"trials": 20, "records": 10_000, "attributes": (6, 8, 10, 12), "orders": (1, 2, 3)},
    parts=lambda settings: list(map(str, settings["attributes"])),
    rows=run,
    tables=lambda rows, settings: {ID: summary(rows, ["arm", "p", "order", "n_functions"])},
    figure=lambda tables, settings: error_beside_bounds(tables[ID], "n_functions", "released averages |F|"),
)
