"""The DD-SSP paper's arms in the records of its sweep, and the gaps between two of them."""

from __future__ import annotations

import numpy as np

from marginalia.card import Frame

MAIN, GRID, SMALLER, SPLITS = "dd_ssp", "dd_ssp_grid", "dd_ssp_100mb", "dd_ssp_splits"  # experiments
METRIC = {"linear": "mse", "logistic": "auc"}
SIGN = {"mse": -1.0, "auc": 1.0, "marginal_error": -1.0}  # towards the better value
# method/variant/calibration
DD_SSP = "dd_ssp/aim/tight"
DD_SSP_MST, DD_SSP_MIXTURE = "dd_ssp/mst/tight", "dd_ssp/mixture/tight"
DD_SSP_GAUSSIAN = "dd_ssp/gaussian_marginals/tight"
DD_SSP_100MB = f"{DD_SSP} 100 MB"
AIM_SYNTH = "aim_synth/tight"
AIM, MIXTURE = "aim/tight", "mixture/tight"
ADA_SSP, ADA_SSP_PRINTED = "ada_ssp/code_constants/published", "ada_ssp/paper_constants/published"
SSP = "ssp/tight"
OBJ_PERT, OBJ_PERT_TIGHT = "objective_perturbation/published", "objective_perturbation/tight"
DP_SGD, DP_SGD_SELECTED = "dp_sgd/tight", "dp_sgd/private_selection/tight"
DP_SGD_GRID = "dp_sgd/grid_on_test/published"
OLS, LOGISTIC, TRIVIAL = "ols/none", "logistic/none", "trivial/none"
KEYS = ["dataset", "epsilon"]


def with_arm(rows: Frame) -> Frame:
    """Return the rows with the name of their arm in a column ``arm``, of text even if there are no rows."""
    import pandas as pd

    keys = rows[["method", "variant", "calibration"]].itertuples(index=False, name=None)
    arms = pd.Series(["/".join(filter(None, key)) for key in keys], rows.index, dtype=str)
    return rows.assign(arm=arms.where(rows["experiment"] != SMALLER, arms + " 100 MB"))


def by_trial(records: Frame, experiment: str, metric: str) -> Frame:
    """Return values indexed by (data set, epsilon, trial), a column an arm.

    With `MAIN` the arms of the smaller model stand beside the others, as arms of their own.
    """
    wanted = (MAIN, SMALLER) if experiment == MAIN else (experiment,)
    rows = records[records["experiment"].isin(wanted) & (records["metric"] == metric) & (records["status"] == "ok")]
    return with_arm(rows).pivot_table("value", [*KEYS, "trial"], "arm", aggfunc="first")


def means(records: Frame, experiment: str, metric: str) -> Frame:
    """Return mean, standard error and number of trials of each arm at each data set and epsilon."""
    wide = by_trial(records, experiment, metric).reset_index()
    values = wide.melt([*KEYS, "trial"], var_name="arm", value_name="value").dropna(subset="value")
    groups = values.groupby([*KEYS, "arm"])["value"]
    return groups.agg(mean="mean", stderr="sem", n_trials="size").reset_index()


def gaps(values: Frame, metric: str, left: str, right: str, *, paired: bool) -> Frame:
    """Compare two arms wherever both were run.

    Parameters
    ----------
    values : DataFrame
        As `by_trial` returns them.
    metric : str
    left, right : str
    paired : bool
        Whether a trial's values belong together, by a shared fit or a shared split; else the two means are taken to be
        independent, with the degrees of freedom of Welch (1947).

    Returns
    -------
    DataFrame
        ``dataset``, ``epsilon``, ``difference`` (by how much the left arm is better), ``stderr`` of it, degrees of
        freedom ``df``, ``baseline`` (the right arm's mean), ``n_trials``; only cells with two trials or more.
    """
    import pandas as pd

    cells = []
    if {left, right} <= set(values.columns):
        for key, rows in values[[left, right]].groupby(level=KEYS):
            ours, theirs = rows[left].dropna(), rows[right].dropna()
            if paired:
                both = (ours - theirs).dropna()
                n, mean, variance = len(both), both.mean(), both.var() / max(len(both), 1)
                df = float(n - 1)
            else:
                n, mean = min(len(ours), len(theirs)), ours.mean() - theirs.mean()
                parts = [(arm.var() / len(arm), len(arm) - 1) for arm in (ours, theirs) if len(arm) > 1]
                variance = sum(v for v, _ in parts)
                spread = sum(v**2 / k for v, k in parts)
                df = variance**2 / spread if spread > 0 else float(sum(k for _, k in parts))
            if n > 1:
                cells.append((*key, SIGN[metric] * mean, np.sqrt(variance), df, theirs.mean(), n))
    columns = [*KEYS, "difference", "stderr", "df", "baseline", "n_trials"]
    frame = pd.DataFrame(cells, columns=columns).astype(dict.fromkeys(columns[1:], float))
    return frame.assign(left=left, right=right)
