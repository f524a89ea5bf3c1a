"""Every cell in which a claim of the DD-SSP paper about two arms is tested: a data set at one epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame
from marginalia.papers.dd_ssp.arms import (
    ADA_SSP,
    ADA_SSP_PRINTED,
    AIM,
    AIM_SYNTH,
    DD_SSP,
    DD_SSP_100MB,
    DD_SSP_MIXTURE,
    DD_SSP_MST,
    DP_SGD_GRID,
    DP_SGD_SELECTED,
    KEYS,
    MAIN,
    METRIC,
    MIXTURE,
    OBJ_PERT,
    SIGN,
    SPLITS,
    by_trial,
)
from marginalia.papers.dd_ssp.dd_ssp_charges import at, charges
from marginalia.reporting.means import rounded
from marginalia.reporting.pairwise import CLEAR, LEVEL, LEVELS, Test, p_value, pairwise, smallest_margin

INCOME = "acs_income_lin@dd_ssp"
MARGIN = {"mse": 0.05, "auc": 0.01}  # of "the same": a share of the right arm's MSE, AUC
SIMILAR = 0.10  # of "similar": a share of the right arm's MSE
ALL, LOW, HIGH = "epsilon > 0", "epsilon <= 0.1", "epsilon >= 1"
ON_INCOME, ELSEWHERE = f"dataset == '{INCOME}'", f"dataset != '{INCOME}'"
ADVANCED, EXACT = "charged_by_advanced_composition", "charged_exactly"
COLUMNS = (
    "id", "metric", "dataset", "epsilon", "left", "right", "difference", "stderr", "df", "bound", "margin", "n_trials",
    "ahead", "p", "held",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A claim about two arms."""

    id: str
    metric: str
    left: str
    right: str
    holds: Test
    where: str = ALL
    shared: bool = False  # whether a trial's fit is shared
    margin: float | None = None


PAIRS = (
    Pair("c01", "mse", DD_SSP, AIM_SYNTH, "same", shared=True),
    Pair("c02", "mse", DD_SSP, ADA_SSP, "better", ELSEWHERE),
    Pair("c02", "mse", AIM_SYNTH, ADA_SSP, "better", ELSEWHERE),
    Pair("c02p", "mse", DD_SSP, ADA_SSP_PRINTED, "better", ELSEWHERE),
    Pair("c02p", "mse", AIM_SYNTH, ADA_SSP_PRINTED, "better", ELSEWHERE),
    Pair("c03", "mse", DD_SSP, ADA_SSP, "same", ON_INCOME, margin=SIMILAR),
    Pair("c03", "mse", AIM_SYNTH, ADA_SSP, "same", ON_INCOME, margin=SIMILAR),
    Pair("c03p", "mse", DD_SSP, ADA_SSP_PRINTED, "same", ON_INCOME, margin=SIMILAR),
    Pair("c03p", "mse", AIM_SYNTH, ADA_SSP_PRINTED, "same", ON_INCOME, margin=SIMILAR),
    Pair("c04", "auc", DD_SSP, AIM_SYNTH, "same", shared=True),
    Pair("c05", "auc", DD_SSP, OBJ_PERT, "better", LOW),
    Pair("c06", "auc", DD_SSP, OBJ_PERT, "not_worse", HIGH),
    Pair("c10a", "mse", DD_SSP_MST, DD_SSP, "not_worse", LOW),
    Pair("c10a", "auc", DD_SSP_MST, DD_SSP, "not_worse", LOW),
    Pair("c10b", "mse", DD_SSP, DD_SSP_MST, "better", HIGH),
    Pair("c10b", "auc", DD_SSP, DD_SSP_MST, "better", HIGH),
    Pair("c11a", "mse", DD_SSP, DD_SSP_MST, "not_worse"),
    Pair("c11b", "auc", DD_SSP, DD_SSP_MST, "not_worse"),
    Pair("c11c", "mse", DD_SSP, DD_SSP_MIXTURE, "not_worse"),
    Pair("c11d", "auc", DD_SSP, DD_SSP_MIXTURE, "not_worse"),
    Pair("c13b", "mse", DD_SSP_100MB, DD_SSP, "same"),
    Pair("c13b", "auc", DD_SSP_100MB, DD_SSP, "same"),
    Pair("c15", "marginal_error", AIM, MIXTURE, "better"),
)


def cells(records: Frame) -> Frame:
    """Test every claim on every data set and epsilon that it speaks of and that was run.

    ``difference``: by how much the left arm is better (lower MSE, higher AUC); ``bound``: the smallest margin at which
    the test of a claim with one would have passed; ``ahead``: whether the left mean is the better one; ``p``: of the
    test that decides ``held``. A claim with an
    ``s`` behind its name is tested on the random splits, paired by split.
    """
    import pandas as pd

    tables = [*_pairs(records, MAIN), *_pairs(records, SPLITS), *_against_dp_sgd(records)]
    return rounded(pd.concat(tables, ignore_index=True)[list(COLUMNS)])


def _pairs(records: Frame, experiment: str) -> Iterator[Frame]:
    values = {metric: by_trial(records, experiment, metric) for metric in SIGN}
    for pair in PAIRS:
        here = pairwise(
            values[pair.metric],
            pair.left,
            pair.right,
            by=KEYS,
            test=pair.holds,
            margin=MARGIN.get(pair.metric, 0.0) if pair.margin is None else pair.margin,
            relative=pair.metric == "mse",
            higher_is_better=SIGN[pair.metric] > 0,
            paired=pair.shared or experiment == SPLITS,
        )
        here = here.query("n_trials > 1").query(pair.where)
        if pair.holds == "better":
            here["margin"] = np.nan
        suffix = "s" if experiment == SPLITS else ""
        names = {"id": pair.id + suffix, "metric": pair.metric, "left": pair.left, "right": pair.right}
        yield here.assign(**names, ahead=here["difference"] > 0, held=here["p"] <= LEVELS[pair.holds])


def _against_dp_sgd(records: Frame) -> Iterator[Frame]:
    """Yield DD-SSP, and DP-SGD with privately chosen settings, against the curves of the grid, where these exist.

    Private selection (c08) may be better than where the cost is charged and worse than where it is ignored.
    """
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
