"""Card X-S2: the generator of the excess-risk paper's theory on tiny tables, against Lemmas 3.3 and 3.4."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.errors import unknown_name
from marginalia.papers.card import Card, lazily
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data.table import Table

CARD = "excess_risk_s2"
# Name of a case: columns (label included), order d, rows, search.
CASES = {
    "2-1-10": (2, 1, 10, "exhaustive"),
    "2-2-10": (2, 2, 10, "exhaustive"),
    "3-1-10": (3, 1, 10, "exhaustive"),
    "3-2-10": (3, 2, 10, "exhaustive"),
    "3-2-1000": (3, 2, 1000, "program"),
    "4-2-1000": (4, 2, 1000, "program"),
    "4-3-1000": (4, 3, 1000, "program"),
    "4-2-10000": (4, 2, 10_000, "program"),
}


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return, for each trial and calibration, the largest marginal distance and every bound on it, in records."""
    import pandas as pd

    from marginalia.papers.excess_risk.theory import nu_gen
    from marginalia.synthesis.exhaustive import Exhaustive

    if part not in CASES:
        raise unknown_name(f"case of study {CARD}", part, CASES)
    columns, d, n, search = CASES[part]
    found = []
    for trial in range(settings["trials"]):
        table = binary_rows(columns, n, np.random.default_rng(seed_sequence(root_seed, CARD, part, trial)))
        for calibration in ("published", "tight"):
            start = time.process_time()
            model = Exhaustive(
                epsilon=settings["epsilon"], delta=settings["delta"], order=d, search=search, calibration=calibration,
                random_state=seed_of(root_seed, CARD, part, trial, "noise"),
            ).fit(table)  # fmt: skip
            seconds = time.process_time() - start
            sigma = model.measurements_[0].sigma
            made = model.sample()
            distance = max(
                float(np.abs(made.counts(q) - table.counts(q)).sum())
                for k in range(1, d + 1)
                for q in itertools.combinations(table.domain.names, k)
            )
            found.append(
                {"columns": columns, "d": d, "n": n, "search": search, "calibration": calibration, "trial": trial,
                 "distance": distance, "objective": model.objective_, "objective_real": model.objective(table),
                 "nu_gen": nu_gen(columns - 1, 2, d, settings["exponent"], sigma), "sigma": sigma,
                 "epsilon_spent": model.ledger_.epsilon(model.delta), "seconds": seconds}
            )  # fmt: skip
    return pd.DataFrame(found)


def binary_rows(columns: int, n: int, rng: np.random.Generator) -> Table:
    """Return rows of ±1 columns as codes 0 and 1, each a noisy copy of the one before."""
    from marginalia.data.domain import Domain
    from marginalia.data.table import Table

    codes = np.zeros((n, columns), np.int64)
    codes[:, 0] = rng.random(n) < 0.4
    for j in range(1, columns):
        codes[:, j] = np.where(rng.random(n) < 0.3, rng.random(n) < 0.5, codes[:, j - 1])
    return Table(codes, Domain.from_sizes({f"x{j}": 2 for j in range(columns)}))


S2 = Card(
    id=CARD,
    title="Excess risk: the theory's generator on tiny tables",
    caption=(
        "Largest L1 distance between a true marginal of at most d columns and that of the data set found, in records: "
        "mean and largest of the trials (marks), what the two objectives guarantee (open), and Lemma 3.4's bound "
        "(dashes). Binary columns, label included; epsilon = 1, delta = 1e-6."
    ),
    defaults={"cases": tuple(CASES), "trials": 100, "epsilon": 1.0, "delta": 1e-6, "exponent": 1.0},
    parts=lambda settings: list(settings["cases"]),
    run=run,
    tables=lazily("marginalia.papers.excess_risk.tables", "generator"),
    figure=lazily("marginalia.papers.excess_risk.figures", "generator"),
)
