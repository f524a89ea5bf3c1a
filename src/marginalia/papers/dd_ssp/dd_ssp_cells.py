"""Every cell in which a claim of the DD-SSP paper about two arms is tested: a data set at one epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginalia.card import Comparison, Frame
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
    gaps,
)
from marginalia.papers.dd_ssp.dd_ssp_charges import at, charges
from marginalia.papers.form import rounded
from marginalia.reporting.verdicts import CLEAR, LEVEL, ahead, equivalence_of, p_ahead

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
class Test:
    """A claim about two arms."""

    id: str
    metric: str
    left: str
    right: str
    holds: str  # better: clearly ahead; same: equivalent; not_worse: behind by less than the margin
    where: str = ALL
    shared: bool = False  # whether a trial's fit is shared
    margin: float | None = None


TESTS = (
    Test("c01", "mse", DD_SSP, AIM_SYNTH, "same", shared=True),
    Test("c02", "mse", DD_SSP, ADA_SSP, "better", ELSEWHERE),
    Test("c02", "mse", AIM_SYNTH, ADA_SSP, "better", ELSEWHERE),
    Test("c02p", "mse", DD_SSP, ADA_SSP_PRINTED, "better", ELSEWHERE),
    Test("c02p", "mse", AIM_SYNTH, ADA_SSP_PRINTED, "better", ELSEWHERE),
    Test("c03", "mse", DD_SSP, ADA_SSP, "same", ON_INCOME, margin=SIMILAR),
    Test("c03", "mse", AIM_SYNTH, ADA_SSP, "same", ON_INCOME, margin=SIMILAR),
    Test("c03p", "mse", DD_SSP, ADA_SSP_PRINTED, "same", ON_INCOME, margin=SIMILAR),
    Test("c03p", "mse", AIM_SYNTH, ADA_SSP_PRINTED, "same", ON_INCOME, margin=SIMILAR),
    Test("c04", "auc", DD_SSP, AIM_SYNTH, "same", shared=True),
    Test("c05", "auc", DD_SSP, OBJ_PERT, "better", LOW),
    Test("c06", "auc", DD_SSP, OBJ_PERT, "not_worse", HIGH),
    Test("c10a", "mse", DD_SSP_MST, DD_SSP, "not_worse", LOW),
    Test("c10a", "auc", DD_SSP_MST, DD_SSP, "not_worse", LOW),
    Test("c10b", "mse", DD_SSP, DD_SSP_MST, "better", HIGH),
    Test("c10b", "auc", DD_SSP, DD_SSP_MST, "better", HIGH),
    Test("c11a", "mse", DD_SSP, DD_SSP_MST, "not_worse"),
    Test("c11b", "auc", DD_SSP, DD_SSP_MST, "not_worse"),
    Test("c11c", "mse", DD_SSP, DD_SSP_MIXTURE, "not_worse"),
    Test("c11d", "auc", DD_SSP, DD_SSP_MIXTURE, "not_worse"),
    Test("c13b", "mse", DD_SSP_100MB, DD_SSP, "same"),
    Test("c13b", "auc", DD_SSP_100MB, DD_SSP, "same"),
    Test("c15", "marginal_error", AIM, MIXTURE, "better"),
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
    for test in TESTS:
        here = gaps(
            values[test.metric], test.metric, test.left, test.right, paired=test.shared or experiment == SPLITS
        ).query(test.where)
        suffix = "s" if experiment == SPLITS else ""
        yield _judged(here, test.holds, test.margin, test.metric).assign(id=test.id + suffix)


def _against_dp_sgd(records: Frame) -> Iterator[Frame]:
    """Yield DD-SSP, and DP-SGD with privately chosen settings, against the curves of the grid, where these exist.

    Private selection (c08) may be better than where the cost is charged and worse than where it is ignored.
    """
    grid = charges(records)
    for metric in METRIC.values():
        values = by_trial(records, MAIN, metric)
        for claim, charge in (("c07", ADVANCED), ("c07x", EXACT)):
            here = _to_curve(values, grid, metric, DD_SSP, charge)
            yield _judged(here, "not_worse", None, metric).assign(id=claim)
        for claim, charge, side in (("c08 upper", "epsilon", 1), ("c08 lower", ADVANCED, -1)):
            here = _judged(_to_curve(values, grid, metric, DP_SGD_SELECTED, charge), "better", None, metric)
            outside = ahead(side * here["difference"], here["stderr"], here["df"])
            yield here.assign(id=claim, p=np.nan, held=~outside)


def _to_curve(values: Frame, grid: Frame, metric: str, arm: str, charge: str) -> Frame:
    """Compare an arm with the grid's curve at one of its charges, as `gaps` does two arms."""
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
    return frame.assign(left=arm, right=f"{DP_SGD_GRID} by {charge}")


def _judged(here: Frame, holds: str, margin: float | None, metric: str) -> Frame:
    """Return the cells with bound, margin, ``ahead``, the test's ``p`` and ``held``."""
    from scipy.stats import t

    here = here.assign(metric=metric, ahead=here["difference"] > 0)
    if holds == "better":
        p = p_ahead(here["difference"], here["stderr"], here["df"])
        return here.assign(bound=np.nan, margin=np.nan, p=p, held=p <= CLEAR)
    share = MARGIN[metric] if margin is None else margin
    here["margin"] = share if metric == "auc" else share * here["baseline"]
    if holds == "same":
        tested = [equivalence_of(*row) for row in here[["difference", "stderr", "df", "margin"]].to_numpy(float)]
        return here.assign(
            bound=[e.bound for e in tested], p=[e.p for e in tested], held=[e.equivalent for e in tested]
        )
    bound = t.isf(LEVEL, here["df"].astype(float)) * here["stderr"] - here["difference"]
    p = p_ahead(here["difference"] + here["margin"], here["stderr"], here["df"])
    return here.assign(bound=bound, p=p, held=bound <= here["margin"])


CELLS = Comparison("dd_ssp_cells", "dd_ssp", cells)
