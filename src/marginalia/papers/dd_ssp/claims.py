"""The DD-SSP paper's qualitative claims, tested on result records.

Ferrando and Sheldon print no MSE and no AUC (their figures are plots), so what can be compared is what they say. The
claims and how each is tested stand in ``reported/dd_ssp_claims.csv``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marginalia.papers.card import Comparison, Frame
from marginalia.papers.dd_ssp.baselines import (
    ADA_SSP,
    AIM_SYNTH,
    DD_SSP,
    MAIN,
    METRIC,
    OBJ_PERT,
    SIGN,
    means_of,
    run_times,
)
from marginalia.papers.form import rounded
from marginalia.papers.reported import reported

SMALLER, MIXTURE = "dd_ssp_100mb", "dd_ssp_mixture"  # experiments
DD_SSP_MST, DD_SSP_MIXTURE = "dd_ssp/mst/tight", "dd_ssp/mixture/tight"
DP_SGD_GRID = "dp_sgd/grid_on_test/published"
SMALL_MODEL, MODEL, CHARGED = f"{DD_SSP} 100 MB", f"{DD_SSP} 200 MB", f"{DP_SGD_GRID} charged"
ALL, ADULT, INCOME = "epsilon > 0", "dataset.str.startswith('adult')", "dataset.str.startswith('acs_income')"
LOW, HALF, HIGH = "epsilon <= 0.1", "epsilon >= 0.5", "epsilon >= 1"
BETTER, CLEARLY_BETTER, NOT_WORSE = "difference > 0", "difference > two_stderr", "difference >= -two_stderr"
EQUAL, SAME_AUC = "abs(difference) <= two_stderr", "abs(difference) <= 0.01"
# claim, task, left arm, right arm, where the claim speaks, what must hold there (in the columns of `_gaps`)
TESTS = (
    ("c01", "linear", DD_SSP, AIM_SYNTH, ALL, f"{EQUAL} or abs(difference) <= 0.05 * baseline"),
    ("c02", "linear", DD_SSP, ADA_SSP, ADULT, CLEARLY_BETTER),
    ("c02", "linear", AIM_SYNTH, ADA_SSP, ADULT, CLEARLY_BETTER),
    ("c03", "linear", DD_SSP, ADA_SSP, INCOME, "abs(difference) <= 0.1 * baseline"),
    ("c03", "linear", AIM_SYNTH, ADA_SSP, INCOME, "abs(difference) <= 0.1 * baseline"),
    ("c04", "logistic", DD_SSP, AIM_SYNTH, ALL, f"{EQUAL} or {SAME_AUC}"),
    ("c05", "logistic", DD_SSP, OBJ_PERT, LOW, BETTER),
    ("c06", "logistic", DD_SSP, OBJ_PERT, HIGH, SAME_AUC),
    ("c10", "linear", DD_SSP_MST, DD_SSP, LOW, BETTER),
    ("c10", "logistic", DD_SSP_MST, DD_SSP, LOW, BETTER),
    ("c10", "linear", DD_SSP, DD_SSP_MST, HIGH, BETTER),
    ("c10", "logistic", DD_SSP, DD_SSP_MST, HIGH, BETTER),
    ("c11", "linear", DD_SSP, DD_SSP_MST, ALL, NOT_WORSE),
    ("c11", "linear", DD_SSP, DD_SSP_MIXTURE, ALL, NOT_WORSE),
    ("c11", "logistic", DD_SSP, DD_SSP_MST, ALL, NOT_WORSE),
    ("c11", "logistic", DD_SSP, DD_SSP_MIXTURE, ALL, NOT_WORSE),
    ("c13", "linear", SMALL_MODEL, MODEL, ALL, EQUAL),
    ("c07", "linear", DD_SSP, CHARGED, HALF, NOT_WORSE),
    ("c13", "logistic", SMALL_MODEL, MODEL, ALL, EQUAL),
    ("c07", "logistic", DD_SSP, CHARGED, HALF, NOT_WORSE),
)
NOT_TESTED = {
    "c07": "needs DP-SGD with its 108-point grid",
    "c08": "cannot be tested as stated",
    "c09": "needs the study dd_ssp_f4",
}
COLUMNS = ("id", "task", "dataset", "epsilon", "left", "right", "difference", "two_stderr", "held")
MOST = 0.9  # of the inner products (c09)
STRONG, NONE = 10.0, 2.0  # growth of the seconds of a fit from the smallest epsilon to the largest (c12)
LOWEST_EPSILON = 0.005  # (c14)
OPACUS_ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))  # its default


def claims(records: Frame) -> Frame:
    """Test every claim on every data set and epsilon that it speaks of.

    The claims on mixture inference and on model size need the experiments ``dd_ssp_mixture`` and ``dd_ssp_100mb``.
    ``difference``: by how much the left arm is better (lower MSE, higher AUC); ``two_stderr`` of it.
    """
    import pandas as pd

    main, smaller = means_of(records, MAIN), means_of(records, SMALLER)
    sized = [main.assign(arm=main["arm"] + " 200 MB"), smaller.assign(arm=smaller["arm"] + " 100 MB")]
    means = pd.concat([main, means_of(records, MIXTURE), *sized, _charged(main)], ignore_index=True)
    cells: list[Any] = []  # frames; the stubs of `eval` say otherwise
    for claim, task, left, right, where, holds in TESTS:
        here = _gaps(means, task, left, right).query(where, engine="python")
        cells.append(here.assign(id=claim).eval(f"held = {holds}", engine="python"))
    return rounded(pd.concat(cells, ignore_index=True)[list(COLUMNS)])


def _gaps(means: Frame, task: str, left: str, right: str) -> Frame:
    """Compare two arms wherever both were run; ``baseline`` is the right one's mean."""
    keys = ["dataset", "epsilon"]
    ours, theirs = (
        means.loc[(means["arm"] == arm) & (means["metric"] == METRIC[task]), [*keys, "mean", "stderr"]].dropna()
        for arm in (left, right)
    )
    both = ours.merge(theirs, on=keys, suffixes=("", "_right")).sort_values(keys)
    return both.assign(
        task=task, left=left, right=right, baseline=both["mean_right"],
        difference=SIGN[task] * (both["mean"] - both["mean_right"]),
        two_stderr=2 * np.hypot(both["stderr"], both["stderr_right"]),
    )  # fmt: skip


def _charged(means: Frame) -> Frame:
    """Return DP-SGD with its whole grid charged, at the epsilons of DD-SSP.

    The charge is that of the loss distribution of all runs, far below the advanced composition of the paper; between
    its points the curve is interpolated in ln epsilon.
    """
    import pandas as pd

    rows = []
    grid = means[means["arm"] == DP_SGD_GRID].dropna(subset="mean").sort_values("epsilon_spent", kind="stable")
    for (dataset, metric), curve in grid.groupby(["dataset", "metric"]):
        ours = means[(means["arm"] == DD_SSP) & (means["dataset"] == dataset) & (means["metric"] == metric)]
        at = ours["epsilon"].unique()
        values = {
            column: np.interp(np.log(at), np.log(curve["epsilon_spent"]), curve[column], left=np.nan, right=np.nan)
            for column in ("mean", "stderr")
        }
        rows.append(pd.DataFrame({"dataset": dataset, "metric": metric, "epsilon": at, "arm": CHARGED, **values}))
    return pd.concat(rows) if rows else means.iloc[:0]


def verdicts(records: Frame, tables: Mapping[str, Frame]) -> Frame:
    """Sum up `claims`: for each claim in how many cells it held, and a verdict in words.

    Three claims are not about pairs of arms: c09 is read off the table of the study ``dd_ssp_f4`` (a cell is a data
    set), c12 off `run_times` (data set and method), c14 off the accountant (one cell).
    """
    import pandas as pd

    cells = {claim: rows["held"] for claim, rows in claims(records).groupby("id")}
    if (products := tables.get("dd_ssp_f4")) is not None:
        cells["c09"] = 1 - products.loc[products["method"] == "objective_perturbation", "outside"] >= MOST
    times = run_times(records)
    cells["c12"] = (times["ratio"] > STRONG).where(times["method"] == "aim", times["ratio"].between(1 / NONE, NONE))
    floor = smallest_certifiable_epsilon(float(records.loc[records["delta"] > 0, "delta"].min()))
    cells["c14"] = pd.Series([floor <= LOWEST_EPSILON])
    table = reported("dd_ssp_claims")[["id", "claim", "datasets"]]
    table["held"] = [int(np.sum(cells.get(claim, ()))) for claim in table["id"]]
    table["tested"] = [len(cells.get(claim, ())) for claim in table["id"]]
    table["verdict"] = list(map(_verdict, table["id"], table["held"], table["tested"]))
    table.loc[table["id"] == "c14", "verdict"] += f": with the default orders of Opacus it is {floor:.3g}"
    return table


def _verdict(claim: str, held: int, tested: int) -> str:
    if not tested:
        return f"not tested: {NOT_TESTED[claim]}" if claim in NOT_TESTED else "not tested"
    if held == tested:
        return "held"
    return "held in most cells" if held > tested / 2 else "held in some cells" if held else "not held"


def smallest_certifiable_epsilon(delta: float, orders: Sequence[float] = OPACUS_ORDERS) -> float:
    """Return what Rényi orders certify for a mechanism that says nothing (Balle et al. 2020, theorem 21)."""
    alpha = np.asarray(orders, dtype=float)
    return float(np.min(np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)))


CLAIMS = Comparison("comparison_dd_ssp_claims", "dd_ssp", claims)
VERDICTS = Comparison("dd_ssp_verdicts", "dd_ssp", verdicts, needs=("dd_ssp_f4",))
