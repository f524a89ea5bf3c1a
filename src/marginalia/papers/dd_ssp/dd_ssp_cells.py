"""Every cell in which a claim of the DD-SSP paper about two arms is tested: a data set at one epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame
from marginalia.papers.claims import Arms, read
from marginalia.papers.dd_ssp.arms import (
    DD_SSP,
    DP_SGD_GRID,
    DP_SGD_SELECTED,
    KEYS,
    MAIN,
    METRIC,
    SIGN,
    by_trial,
    trials,
)
from marginalia.papers.dd_ssp.dd_ssp_charges import at, charges
from marginalia.reporting.means import rounded
from marginalia.reporting.pairwise import CLEAR, LEVEL, LEVELS, p_value, smallest_margin

MARGIN = {"mse": 0.05, "auc": 0.01}  # of DD-SSP against the grid: a share of the MSE, AUC
ADVANCED, EXACT = "charged_by_advanced_composition", "charged_exactly"
COLUMNS = (
    "id", "metric", "dataset", "epsilon", "left", "right", "difference", "stderr", "df", "bound", "margin", "n_trials",
    "ahead", "p", "held",
)  # fmt: skip


def cells(records: Frame) -> Frame:
    """Test every claim about two arms on every data set and epsilon that it speaks of and that was run.

    ``difference``: by how much the left arm is better (lower MSE, higher AUC); ``bound``: the smallest margin at which
    the test of a claim with one would have passed; ``ahead``: whether the left mean is the better one; ``p``: of the
    test that decides ``held``.
    """
    import pandas as pd

    compared = sorted(_compared(records), key=lambda found: str(found["experiment"].iloc[0]))
    return rounded(pd.concat([*compared, to_the_grid(records)], ignore_index=True)[list(COLUMNS)])


def _compared(records: Frame) -> Iterator[Frame]:
    """Yield the cells of each test of ``claims.yaml`` that compares two arms."""
    tables = {"trials": trials(records)}
    for claim in read(Path(__file__).with_name("claims.yaml")):
        for test in claim.test:
            if isinstance(test, Arms) and len(found := test.rows(tables)):
                if test.verb == "better":
                    found["margin"] = np.nan
                held = found["p"] <= LEVELS[test.verb]
                yield found.assign(id=claim.id, ahead=found["difference"] > 0, held=held)


def to_the_grid(records: Frame) -> Frame:
    """Test DD-SSP, and DP-SGD with privately chosen settings, against the curves of the grid, where these exist.

    Private selection (c08) may be better than where the cost is charged and worse than where it is ignored.
    """
    import pandas as pd

    return pd.concat(_against_dp_sgd(records), ignore_index=True)


def _against_dp_sgd(records: Frame) -> Iterator[Frame]:
    grid = charges(records)
    for metric in METRIC.values():
        values = by_trial(records, MAIN, metric)
        for claim, charge in (("c07", ADVANCED), ("c07x", EXACT)):
            here = _to_curve(values, grid, metric, DD_SSP, charge)
            here["margin"] = MARGIN[metric] * (1 if metric == "auc" else here["baseline"])
            statistic = here["difference"], here["stderr"], here["df"]
            here["bound"] = smallest_margin(*statistic, "not_worse")
            here["p"] = p_value(*statistic, "not_worse", here["margin"])
            yield here.assign(id=claim, held=here["p"] <= LEVEL)
        for claim, charge, side in (("c08 upper", "epsilon", 1), ("c08 lower", ADVANCED, -1)):
            here = _to_curve(values, grid, metric, DP_SGD_SELECTED, charge)
            outside = p_value(side * here["difference"], here["stderr"], here["df"]) <= CLEAR
            yield here.assign(id=claim, bound=np.nan, margin=np.nan, p=np.nan, held=~outside)


def _to_curve(values: Frame, grid: Frame, metric: str, arm: str, charge: str) -> Frame:
    """Compare an arm with the grid's curve at one of its charges, in the columns of `pairwise`."""
    import pandas as pd

    lines = []
    if arm in values.columns:
        key: Any
        for key, cell in values[[arm]].dropna().groupby(level=KEYS):
            (dataset, epsilon), rows = key, cell[arm].to_numpy(float)
            curve = grid[(grid["metric"] == metric) & (grid["dataset"] == dataset)]
            mean, stderr = at(curve, charge, epsilon) if len(curve) else (np.nan, np.nan)
            if np.isfinite(mean) and len(rows) > 1:
                gap, noise, n = SIGN[metric] * (rows.mean() - mean), rows.std(ddof=1) / np.sqrt(len(rows)), len(rows)
                lines.append((dataset, epsilon, gap, np.hypot(noise, stderr), n - 1, mean, n))
    columns = [*KEYS, "difference", "stderr", "df", "baseline", "n_trials"]
    frame = pd.DataFrame(lines, columns=columns).astype(dict.fromkeys(columns[1:], float))
    right = f"{DP_SGD_GRID} by {charge}"
    return frame.assign(metric=metric, left=arm, right=right, ahead=frame["difference"] > 0)


CELLS = Experiment("dd_ssp_cells", paper="dd_ssp", tables=cells)
