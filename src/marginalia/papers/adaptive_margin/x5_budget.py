"""Card X5 of the adaptive-margin paper: where the privacy budget goes; formulas only, no data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalia.learning.adaptive_margin_selection import published_tuning_rate, tuning_rate
from marginalia.papers.card import Card, lazily
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.privacy.stopping import mean_runs, random_stopping_mu

if TYPE_CHECKING:
    import pandas as pd

CARD = "adaptive_margin_x5"


def parts(settings: Mapping[str, Any]) -> list[str]:
    """One part: it takes a second."""
    return ["all"]


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return budgets by epsilon, then budgets of one candidate by the number of candidates."""
    import pandas as pd

    delta = settings["delta"]
    found: list[dict[str, Any]] = []
    for epsilon in settings["epsilons"]:
        for calibration, mu in _budgets(epsilon, delta).items():
            found.append(
                {"block": "calibration", "epsilon": epsilon, "rule": calibration, "mu": mu, "candidates": 1,
                 "epsilon_spent": gdp_epsilon(mu, delta)}
            )  # fmt: skip
    epsilon, n = settings["epsilon"], settings["n"]
    for G in settings["candidates"]:
        for rule, mu, runs in _per_candidate(G, n, epsilon, delta, settings["misses"]):
            found.append(
                {"block": "candidates", "epsilon": epsilon, "rule": rule, "mu": mu, "candidates": G, "runs": runs}
            )
    return pd.DataFrame(found)


def _budgets(epsilon: float, delta: float) -> dict[str, float]:
    """Return mu by the paper's formula, by the conversion mu²/2 + mu sqrt(2 ln 1/delta) it rests on, and exactly."""
    log = -2 * math.log(delta)
    return {
        "published": epsilon / (2 * math.sqrt(log)),
        "conversion": math.sqrt(log + 2 * epsilon) - math.sqrt(log),
        "tight": gdp_mu(epsilon, delta),
    }


def _per_candidate(G: int, n: int, epsilon: float, delta: float, misses: list[float]) -> list[tuple[str, float, float]]:
    """Return (rule, mu of one model and its score together, expected number of models trained)."""
    budgets = _budgets(epsilon, delta)
    found = [(f"iter {rule}", budgets[rule] / math.sqrt(G), float(G)) for rule in ("published", "tight")]
    r = published_tuning_rate(G, n)
    for rule in ("published", "tight"):
        mu = random_stopping_mu(epsilon, delta, r=r, method=rule)
        found.append((f"private tuning {rule}, published r", mu, mean_runs(r)))
    for miss in misses:
        r = tuning_rate(G, miss)
        mu = random_stopping_mu(epsilon, delta, r=r)
        found.append((f"private tuning tight, miss {miss:g}", mu, mean_runs(r)))
    return found


def tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return mu and what is really spent for each epsilon, and mu of one candidate for each number of them."""
    calibration = rows[rows["block"] == "calibration"]
    wide = calibration.pivot(index="epsilon", columns="rule", values="mu").reset_index()
    wide["noise_ratio"] = wide["tight"] / wide["published"]
    spent = calibration[calibration["rule"] == "published"].set_index("epsilon")["epsilon_spent"]
    wide["spent_at_published"] = wide["epsilon"].map(spent)
    wide.columns.name = None
    candidates = rows[rows["block"] == "candidates"][["candidates", "rule", "mu", "runs"]].reset_index(drop=True)
    return {CARD: wide, f"{CARD}_candidates": candidates}


X5 = Card(
    id=CARD,
    title="Adaptive margin: what the budget buys",
    caption=(
        "Left: Gaussian-DP budget mu that the paper's calibration, the conversion it rests on, and the exact formula "
        "buy for epsilon. Right: mu of one model with its score over the number of candidates, epsilon = 1, "
        "for trying all (iter) and for private tuning; delta = 1e-6."
    ),
    defaults={
        "epsilons": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0],
        "delta": 1e-6,
        "epsilon": 1.0,
        "n": 39_073,
        "candidates": [4, 8, 17, 32, 64, 128, 256, 512, 1000],
        "misses": [0.05, 0.2, 0.5],
    },
    parts=parts,
    run=run,
    tables=tables,
    figure=lazily("marginalia.papers.adaptive_margin.figures", "budget"),
)
