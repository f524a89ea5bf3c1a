"""The DD-SSP paper's arms in the records of its sweep: raced (X-BASE), on other splits (X-SPLIT), and timed (X-G3)."""

from __future__ import annotations

import numpy as np

from marginalia.papers.card import Comparison, Frame
from marginalia.papers.form import rounded

MAIN, SPLITS = "dd_ssp", "dd_ssp_splits"  # experiments
METRIC = {"linear": "mse", "logistic": "auc"}
SIGN = {"linear": -1.0, "logistic": 1.0}  # towards the better value
# method/variant/calibration
DD_SSP = "dd_ssp/aim/tight"
AIM_SYNTH = "aim_synth/tight"
ADA_SSP = "ada_ssp/code_constants/published"
SSP = "ssp/tight"
OBJ_PERT = "objective_perturbation/published"
OBJ_PERT_TIGHT = "objective_perturbation/tight"
DP_SGD = "dp_sgd/tight"
# task, published baseline, calibrated baselines; fixed DP-SGD takes part where it was run
RACES = (("linear", ADA_SSP, (SSP,)), ("logistic", OBJ_PERT, (SSP, OBJ_PERT_TIGHT)))
OTHERS = {"linear": (AIM_SYNTH, ADA_SSP, SSP), "logistic": (AIM_SYNTH, OBJ_PERT, OBJ_PERT_TIGHT)}
SPLIT_COLUMNS = {
    "mean_released": "released_gap", "sem_released": "noise_stderr", "mean": "random_gap", "sem": "random_stderr",
    "std": "split_std", "size": "n_splits",
}  # fmt: skip


def with_arm(rows: Frame) -> Frame:
    """Return the rows with the name of their arm in a column ``arm``, of text even if there are no rows."""
    import pandas as pd

    keys = rows[["method", "variant", "calibration"]].itertuples(index=False, name=None)
    return rows.assign(arm=pd.Series(["/".join(filter(None, key)) for key in keys], rows.index, dtype=str))


def means_of(records: Frame, experiment: str) -> Frame:
    """Return means and standard errors of MSE and AUC in one experiment."""
    import pandas as pd

    from marginalia.reporting.tables import aggregate

    rows = records[records["experiment"] == experiment]
    return with_arm(pd.concat([aggregate(rows, metric) for metric in METRIC.values()], ignore_index=True))


def base(records: Frame) -> Frame:
    """Race DD-SSP against baselines that are calibrated exactly: what data dependence gains.

    For each data set, task and epsilon the means of all arms, by how much DD-SSP is better than the best of the
    calibrated ones (``gain``), two standard errors of that, and ``dd_ssp`` = better, worse or tie.
    """
    import pandas as pd

    means = means_of(records, MAIN)
    lines = []
    for task, published, calibrated in RACES:
        here = means[(means["task"] == task) & np.isfinite(means["epsilon"])]
        for (dataset, epsilon), rows in here.groupby(["dataset", "epsilon"]):
            arms = rows.drop_duplicates("arm").set_index("arm")
            if not {DD_SSP, AIM_SYNTH, published, *calibrated} <= set(arms.index):
                continue
            mean, stderr, sign = arms["mean"], arms["stderr"], SIGN[task]
            best = max((arm for arm in (*calibrated, DP_SGD) if arm in mean), key=lambda arm: sign * mean[arm])
            gain, two = sign * (mean[DD_SSP] - mean[best]), 2 * np.hypot(stderr[DD_SSP], stderr[best])
            lines.append({
                "task": task, "dataset": dataset, "epsilon": epsilon, "dd_ssp_on_aim": mean[DD_SSP],
                "aim_synth": mean[AIM_SYNTH], "published_baseline": mean[published], "ssp_tight": mean[SSP],
                "objective_perturbation_tight": mean.get(OBJ_PERT_TIGHT, np.nan),
                "dp_sgd_fixed": mean.get(DP_SGD, np.nan), "best_calibrated": best, "gain": gain, "two_stderr": two,
                "dd_ssp": "tie" if abs(gain) <= two else "better" if gain > 0 else "worse",
            })  # fmt: skip
    return rounded(pd.DataFrame(lines))


def splits(records: Frame) -> Frame:
    """Ask which of the paper's gaps are larger than what another split of the same data would change.

    The gap (how much better the left arm is) on the released split with its standard error over noise; the same on
    random splits, paired by split, with the standard deviation of one split (noise included); and ``beyond_split``:
    the released gap exceeds two of these.
    """
    import pandas as pd

    tables = []
    for task, others in OTHERS.items():
        released, random = (_by_trial(records, experiment, METRIC[task]) for experiment in (MAIN, SPLITS))
        for other in others:
            if not {DD_SSP, other} <= set(released.columns) & set(random.columns):
                continue
            here, elsewhere = (
                (SIGN[task] * (values[DD_SSP] - values[other])).dropna().groupby(["dataset", "epsilon"])
                .agg(["mean", "sem", "std", "size"]).query("size > 1")
                for values in (released, random)
            )  # fmt: skip
            both = here.add_suffix("_released").join(elsewhere, how="inner").sort_index().reset_index()
            both["beyond_split"] = both["mean_released"].abs() > 2 * both["std"]
            tables.append(both.assign(task=task, left=DD_SSP, right=other).rename(columns=SPLIT_COLUMNS))
    order = ["task", "dataset", "epsilon", "left", "right", *SPLIT_COLUMNS.values(), "beyond_split"]
    return rounded(pd.concat(tables, ignore_index=True)[order] if tables else pd.DataFrame())


def _by_trial(records: Frame, experiment: str, metric: str) -> Frame:
    """Return values indexed by (data set, epsilon, trial), a column an arm."""
    rows = records[(records["experiment"] == experiment) & (records["metric"] == metric) & (records["status"] == "ok")]
    return with_arm(rows).pivot_table("value", ["dataset", "epsilon", "trial"], "arm", aggfunc="first")


def run_times(records: Frame) -> Frame:
    """Return for each data set and method the mean seconds at the smallest and largest epsilon, and their ratio."""
    import pandas as pd

    from marginalia.reporting.tables import round_significant

    rows = records[(records["experiment"] == MAIN) & (records["status"] == "ok")]
    rows = rows[rows["method"].isin(["aim", "ada_ssp", "objective_perturbation"]) & np.isfinite(rows["epsilon"])]
    once = rows.drop_duplicates(["dataset", "method", "variant", "calibration", "epsilon", "trial"])
    seconds = once.groupby(["dataset", "method", "epsilon"])["seconds"].mean().unstack("epsilon")
    low, high = seconds.columns.min(), seconds.columns.max()
    frame = pd.DataFrame({f"seconds_at_{low:g}": seconds[low], f"seconds_at_{high:g}": seconds[high]})
    frame["ratio"] = frame.iloc[:, 1] / frame.iloc[:, 0]
    return frame.apply(round_significant, digits=3).reset_index()


BASE = Comparison("dd_ssp_base", "dd_ssp", base)
RUN_TIMES = Comparison("dd_ssp_run_times", "dd_ssp", run_times)
SPLIT = Comparison("dd_ssp_split", "dd_ssp", splits)
