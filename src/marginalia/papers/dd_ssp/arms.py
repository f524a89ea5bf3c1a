"""The DD-SSP paper's arms in the records of its sweep."""

from __future__ import annotations

from marginalia.experiment import Frame

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


def trials(records: Frame) -> Frame:
    """Return the rows that claims compare; in `MAIN` the arms of the smaller model are arms of their own."""
    rows = with_arm(records[records["status"] == "ok"])
    rows = rows.assign(experiment=rows["experiment"].replace(SMALLER, MAIN), target=rows["target"].fillna(""))
    return rows.sort_values([*KEYS, "trial"], kind="stable")


def by_trial(records: Frame, experiment: str, metric: str) -> Frame:
    """Return values of `trials` indexed by (data set, epsilon, trial), a column an arm."""
    rows = trials(records[records["metric"] == metric])
    return rows[rows["experiment"] == experiment].pivot_table("value", [*KEYS, "trial"], "arm", aggfunc="first")


def means(records: Frame, experiment: str, metric: str) -> Frame:
    """Return mean, standard error and number of trials of each arm at each data set and epsilon."""
    wide = by_trial(records, experiment, metric).reset_index()
    values = wide.melt([*KEYS, "trial"], var_name="arm", value_name="value").dropna(subset="value")
    groups = values.groupby([*KEYS, "arm"])["value"]
    return groups.agg(mean="mean", stderr="sem", n_trials="size").reset_index()
