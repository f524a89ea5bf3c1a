"""Captions of the figures of every sweep: what is drawn, what bands and signs mean, what is missing."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from marginalia.reporting.arms import is_tuned_on_test, panels_of
from marginalia.reporting.figures import METRIC_TITLES, ceiling_of, floor_of
from marginalia.reporting.formats import span
from marginalia.reporting.style import RELATION_NAMES
from marginalia.reporting.tables import ARM, HIGHER_IS_BETTER, NON_PRIVATE


def caption(aggregates: pd.DataFrame, metric: str) -> str:
    """Return the caption of `metric_vs_epsilon`: what is drawn, what bands and signs mean, what is missing."""
    rows = aggregates[aggregates["metric"] == metric]
    private = rows[rows["calibration"] != NON_PRIVATE]
    better = "higher" if HIGHER_IS_BETTER[metric] else "lower"
    deltas = ", ".join(f"{d:g}" for d in sorted(private["delta"].unique()))
    relations = [RELATION_NAMES.get(r, r) for r in sorted(private["relation"].unique())]
    parts = [
        f"{METRIC_TITLES[metric]} against ε ({better} is better); δ = {deltas}, "
        f"{' and '.join(relations)} neighbours{' (the latter marked in the legend)' if len(relations) > 1 else ''}.",
        f"Lines are means over {span(rows['n_trials'])} trials, bands or bars ± 1 standard error.",
    ]
    if metric == "marginal_error":
        parts.append("Marginal error is half the L1 distance between normalised marginals, averaged over the workload.")
    if "published" in set(private["calibration"]):
        parts.append("Published calibrations are dashed with open markers, tight ones drawn through and filled.")
    if (rows["calibration"] == NON_PRIVATE).any():
        parts.append("Horizontal lines: predictors without privacy and the trivial predictor.")
    tuned = [is_tuned_on_test(*key) for key in zip(*(private[c] for c in ARM[:3]), strict=True)]
    if any(tuned):
        parts.append(
            "Grid tuned on test: hyper-parameters chosen by the test rows, drawn at the ε of one run (cost ignored, "
            "not private) and, with stars, at what all runs of the grid cost; shaded between. Test rows leak in both."
        )
    private = private[~np.array(tuned, dtype=bool)]
    if any(math.isfinite(ceiling_of(panel.rows)) for panel in panels_of(rows)):
        parts.append(
            "Points beyond twice the error of the trivial predictor stand on the upper edge, apart from their lines."
        )
    floors = {floor for panel in panels_of(rows) if (floor := floor_of(panel.rows)) is not None}
    if floors:
        parts.append(f"The trivial predictor ({span(sorted(floors))}) lies below the axes.")
    if (private["certified"] == "no").any():
        parts.append("Crossed points spend more privacy than requested and carry no certificate.")
    if (private["certified"] == "declared").any():
        parts.append("Crossed: methods whose privacy is their author's word, which no audit has passed.")
    if (private["certified"] == "part").any():
        parts.append("Crossed: methods that protect some of the rows only.")
    holes = int((private["k"] < private["n_trials"]).sum())
    if holes:
        parts.append(f"Points with missing trials show how many succeeded (k/n): {holes} of {len(private)}.")
    return " ".join(parts)


def certificate_caption(certificates: pd.DataFrame) -> str:
    """Return the caption of `certified_epsilon`."""
    over = certificates[certificates["certified"] == "no"].drop_duplicates([*ARM])
    deltas = ", ".join(f"{d:g}" for d in sorted(certificates["delta"].unique()))
    return (
        "Certified ε as a share of the requested ε, for every private arm, the largest over data sets and trials; "
        f"δ = {deltas}. Marker size grows with ε; where shares coincide the largest stands for all. "
        "Left of 1, noise is larger than the guarantee needs; right of 1, the guarantee does not hold: "
        f"{len(over) or 'no'} arm{'' if len(over) == 1 else 's'} here."
    )
