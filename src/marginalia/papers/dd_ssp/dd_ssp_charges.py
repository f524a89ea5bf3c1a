"""What the 108 runs of DP-SGD's grid cost: by advanced composition, as the DD-SSP paper charges them, and exactly."""

from __future__ import annotations

import math

import numpy as np

from marginalia.experiment import Experiment, Frame
from marginalia.papers.dd_ssp.arms import DP_SGD_GRID, GRID, MAIN, METRIC, with_arm
from marginalia.reporting.means import rounded

RUNS = 108  # appendix G.2: 3 batch sizes, 3 clipping norms, 3 numbers of epochs, 4 learning rates


def advanced_composition(epsilon: float, delta: float, runs: int = RUNS) -> tuple[float, float]:
    """Return the (epsilon, delta) of all of `runs` (epsilon, delta)-DP runs (Steinke 2022, theorem 22).

    epsilon' = min(k e, k e²/2 + sqrt(2 ln(1/delta') k e²)) and delta' + k delta, here with delta' = k delta: the paper
    does not say which it took.
    """
    slack = runs * delta
    grown = runs * epsilon**2 / 2 + math.sqrt(2 * math.log(1 / slack) * runs) * epsilon
    return min(runs * epsilon, grown), runs * delta + slack


def charges(records: Frame) -> Frame:
    """Return the winner of each grid search with the epsilon of one run and both charges for all of them.

    ``charged_exactly`` is that of the privacy loss distribution, at the delta of one run;
    ``charged_by_advanced_composition`` holds at ``delta_advanced`` only.
    """
    import pandas as pd

    rows = with_arm(records[records["experiment"].isin([MAIN, GRID]) & (records["status"] == "ok")])
    rows = rows[(rows["arm"] == DP_SGD_GRID) & rows["metric"].isin(METRIC.values())]
    groups = rows.groupby(["task", "metric", "dataset", "epsilon", "delta"])
    table = groups.agg(
        charged_exactly=("epsilon_spent", "max"),
        mean=("value", "mean"),
        stderr=("value", "sem"),
        n_trials=("value", "size"),
    ).reset_index()
    pairs = [advanced_composition(e, d) for e, d in zip(table["epsilon"], table["delta"], strict=True)]
    both = pd.DataFrame(pairs, table.index, ["charged_by_advanced_composition", "delta_advanced"])
    order = ["task", "metric", "dataset", "epsilon", "delta", "charged_exactly", *both.columns]
    return rounded(table.join(both)[[*order, "mean", "stderr", "n_trials"]])


def at(curve: Frame, charge: str, epsilon: float) -> tuple[float, float]:
    """Return mean and standard error of a charged curve at one epsilon, interpolated in ln epsilon; NaN outside."""
    points = curve.sort_values(charge, kind="stable")
    mean, stderr = (
        np.interp(math.log(epsilon), np.log(points[charge]), points[column], left=np.nan, right=np.nan)
        for column in ("mean", "stderr")
    )
    return float(mean), float(stderr)


CHARGES = Experiment("dd_ssp_charges", paper="dd_ssp", tables=charges)
