"""Card X6 of the adaptive-margin paper: what each constant is worth, one changed at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.errors import InputError
from marginalia.learning.adaptive_margin_grid import PRACTICAL, PUBLISHED, Constants
from marginalia.learning.adaptive_margin_selection import Trainer, make_candidates, split
from marginalia.papers.adaptive_margin.data import (
    DIGITS,
    Sample,
    mean_and_spread,
    rows_of,
    synthetic,
)
from marginalia.papers.card import Card, lazily
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import Ledger
from marginalia.sweep.seeds import seed_of, seed_sequence

if TYPE_CHECKING:
    import pandas as pd

CARD = "adaptive_margin_x6"
TABULAR = ("adult@dpml", "compas@dpml")
FAR_OUTLIERS = "synthetic_far"  # 2000 rows in 20 dimensions, margin .3, 20 far outliers
WIDE = "synthetic_wide"  # 2000 rows in 3000 dimensions, margin .3: the only set that is projected

# One constant changed: (name, value) -> constants. Every other one is the practical variant's.
CHANGES: dict[tuple[str, float | str], Constants] = {
    ("practical", ""): PRACTICAL,
    **{("steps", T): replace(PRACTICAL, min_steps=T, max_steps=T, max_steps_large=T) for T in (30, 100, 300, 1000)},
    **{("step_scale", s): replace(PRACTICAL, step_scale=s) for s in (0.3, 3.0, 10.0)},
    ("radius", 2.0): replace(PRACTICAL, radius=2.0),
    ("hinge_share", 1 / 3): replace(PRACTICAL, hinge_share=1 / 3),
    **{("model_share", s): replace(PRACTICAL, model_share=s) for s in (0.5, 0.7)},
    **{("grid_cut", c): replace(PRACTICAL, grid_cut=c) for c in (0.0, 1.0)},
    ("output", "last"): PRACTICAL,
}

# From the published to the practical variant, one change after the other.
STEPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("0 published", {}),
    ("1 R = b", {"radius": 1.0}),
    ("2 c = gamma", {"hinge_share": 1.0}),
    ("3 exact mu", {}),
    ("4 grid cut", {"grid_cut": 0.25}),
    ("5 90/10", {"model_share": 0.9}),
    ("6 steps", {"steps_over_dimension": True, "min_steps": 30}),
)

PROJECTIONS = (0.0, 0.5, 1.0, 2.0, 3.0)  # C_JL; 0 stands for no projection


def parts(settings: Mapping[str, Any]) -> list[str]:
    """One part a set and trial."""
    return [f"{name}-{trial}" for name in settings["sets"] for trial in range(settings["trials"])]


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return the test errors of all changes on one split."""
    import pandas as pd

    name, _, number = part.rpartition("-")
    trial = int(number)
    train, test = _sample(name, data, np.random.default_rng(seed_sequence(root_seed, CARD, name, trial)))
    seed = seed_of(root_seed, CARD, name, trial, "adaptive_margin")
    found: list[dict[str, Any]] = []
    for (change, value), (constants, calibration) in _arms(name).items():
        output = "last" if change == "output" else "average"
        found.append(
            {"change": change, "value": str(value), **_fit(train, test, constants, calibration, output, settings, seed)}
        )
    if name != WIDE:
        found += _curve(train, test, settings, seed)
    return pd.DataFrame([{"set": name, "n": len(train.y), "trial": trial, **row} for row in found])


def _arms(name: str) -> dict[tuple[str, float | str], tuple[Constants, str]]:
    if name == WIDE:  # c = gamma/3 and R = 2 throughout, so that only the projection differs
        plain = replace(PUBLISHED, project_below=0.0)
        return {
            ("jl_factor", C): (replace(plain, jl_factor=C, project_below=1.0) if C else plain, "tight")
            for C in PROJECTIONS
        }
    changes = {key: (constants, "tight") for key, constants in CHANGES.items()}
    return {**changes, **_ladder()} if name == FAR_OUTLIERS else changes


def _ladder() -> dict[tuple[str, float | str], tuple[Constants, str]]:
    found: dict[tuple[str, float | str], tuple[Constants, str]] = {}
    constants = PUBLISHED
    for step, (name, change) in enumerate(STEPS):
        constants = replace(constants, **change)
        found["ladder", name] = (constants, "published" if step < 3 else "tight")
    return found


def _sample(name: str, data: Mapping[str, Path], rng: np.random.Generator) -> tuple[Sample, Sample]:
    if name == FAR_OUTLIERS:
        train, test, _ = synthetic(2000, 20, 0.3, rng, n_test=5000, outliers=20)
        return train, test
    if name == WIDE:
        train, test, _ = synthetic(2000, 3000, 0.3, rng, n_test=2000)
        return train, test
    if name not in (*TABULAR, *DIGITS):
        raise InputError(
            f"set '{name}' of study {CARD} is none of {', '.join((*TABULAR, *DIGITS, FAR_OUTLIERS, WIDE))}"
        )
    return rows_of(name, data).halves(0.2, rng)


def _fit(
    train: Sample,
    test: Sample,
    constants: Constants,
    calibration: str,
    output: Any,
    settings: Mapping[str, Any],
    seed: int,
) -> dict[str, Any]:
    from marginalia.learning import AdaptiveMarginClassifier

    start = time.process_time()
    model = AdaptiveMarginClassifier(
        epsilon=settings["epsilon"], delta=settings["delta"], variant=constants, calibration=calibration, output=output,
        selection="iter", fit_intercept=False, data_radius=1.0, random_state=seed,
    ).fit(train.X, train.y)  # fmt: skip
    return {
        "error": test.error(model.coef_),
        "gamma": model.gamma_,
        "epsilon_spent": model.ledger_.epsilon_spent,
        "seconds": time.process_time() - start,
    }


def _curve(train: Sample, test: Sample, settings: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """Return the exact errors of every candidate of the whole grid: not private, to see how they tie."""
    n, d = train.X.shape
    everything = replace(PRACTICAL, grid_cut=0.0)
    margins = everything.margins(n, settings["epsilon"])
    rng = np.random.default_rng(seed)
    trainer = Trainer(train.X * train.y[:, None], make_candidates(margins, n, d, everything, rng), everything)
    mu, _ = split(gdp_mu(settings["epsilon"], settings["delta"]) / math.sqrt(margins.size), PRACTICAL.model_share)
    w = trainer.train(np.arange(margins.size), mu, ledger=Ledger("replace_one"), rng=rng)
    return [
        {"change": "curve", "value": f"{gamma:.6g}", "error": test.error(w[:, j]), "gamma": gamma}
        for j, gamma in enumerate(margins.tolist())
    ]


def tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the mean error of every change, and the error of each candidate of the grid."""
    changes = mean_and_spread(rows[rows["change"] != "curve"], ["set", "change", "value"], ["error"])
    base = changes[changes["change"] == "practical"].set_index("set")["error"]
    changes["difference"] = changes["error"] - changes["set"].map(base)
    curve = mean_and_spread(rows[rows["change"] == "curve"], ["set", "gamma"], ["error"])
    return {CARD: changes, f"{CARD}_curve": curve}


X6 = Card(
    id=CARD,
    title="Adaptive margin: what each constant is worth",
    caption=(
        "Test error with one constant of the practical variant changed, mean of the trials; bars are one standard "
        "deviation, the line is the practical variant. Last panel: error of every candidate of the grid (not private). "
        "epsilon = 1, delta = 1e-6, replace-one."
    ),
    defaults={
        "sets": [*TABULAR, "digits_parity", FAR_OUTLIERS, WIDE],
        "trials": 3,
        "epsilon": 1.0,
        "delta": 1e-6,
    },
    parts=parts,
    run=run,
    tables=tables,
    figure=lazily("marginalia.papers.adaptive_margin.figures", "ablations"),
    datasets=TABULAR,
)
