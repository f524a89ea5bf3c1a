"""Card X-TH2: generators that are fed exact marginals of the hard instance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.papers.card import Card, lazily
from marginalia.sweep.seeds import seed_sequence

if TYPE_CHECKING:
    import pandas as pd

CARD = "excess_risk_th2"


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return the excess risk of models trained on each generator's rows, for a secret and its opposite.

    The generator is the law of maximum entropy with the exact marginals of at most d columns; ``real`` is the instance
    itself. Both risks are taken on the real rows of the same trial.
    """
    import pandas as pd

    from marginalia.papers.excess_risk.hard_instance import HardInstance

    g, trial = float(part.partition("-")[0]), int(part.partition("-")[2])
    instance = HardInstance(g, settings["hidden"], settings["known"])
    rng = np.random.default_rng(seed_sequence(root_seed, CARD, g, trial))
    n = settings["n"]
    secret = instance.secret(rng)
    found = []
    laws = {d: instance.maximum_entropy(d) for d in settings["orders"]}
    for sign in (1, -1):
        X, y = instance.draw(n, (sign * secret).astype(np.int8), rng)
        best = float(instance.loss(y * (X @ instance.fit(X, y))).mean())
        for d, law in laws.items():
            # By symmetry the law for the opposite secret is the same law of the numbers of agreeing columns.
            Z, v = instance.draw_from(law, n, (sign * secret).astype(np.int8), rng)
            w = instance.fit(Z, v)
            found.append(
                {"g": g, "trial": trial, "sign": sign, "d": d,
                 "excess": float(instance.loss(y * (X @ w)).mean()) - best,
                 "limit": instance.risk(*instance.best_on(law)) - instance.optimum,
                 "lower_bound": instance.lower_bound, "margin": instance.margin}
            )  # fmt: skip
    return pd.DataFrame(found)


TH2 = Card(
    id=CARD,
    title="Excess risk: no generator of three-way marginals succeeds",
    caption=(
        "Excess risk of models trained on rows of the maximum-entropy law that has the exact marginals of at most d "
        "columns of the hard instance (40 hidden, 40 known columns), mean over a secret and its opposite; bars are one "
        "standard error over trials, crosses the limit of infinitely many rows. Dashed: what any generator that sees "
        "three-way marginals must lose. Dotted: gamma/40, the paper's bound."
    ),
    defaults={"g": (0.05, 0.1), "orders": (2, 3, 4), "hidden": 40, "known": 40, "n": 20_000, "trials": 5},
    parts=lambda settings: [f"{float(g):g}-{trial}" for g in settings["g"] for trial in range(settings["trials"])],
    run=run,
    tables=lazily("marginalia.papers.excess_risk.tables", "hardness"),
    figure=lazily("marginalia.papers.excess_risk.figures", "hardness"),
)
