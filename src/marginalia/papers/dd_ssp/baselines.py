"""The DD-SSP paper's arms raced against baselines that are calibrated exactly, and on other splits of the same rows."""

from __future__ import annotations

import numpy as np

from marginalia.experiment import Experiment, Frame
from marginalia.papers.dd_ssp.arms import (
    ADA_SSP,
    AIM_SYNTH,
    DD_SSP,
    DP_SGD,
    KEYS,
    MAIN,
    METRIC,
    OBJ_PERT,
    OBJ_PERT_TIGHT,
    SIGN,
    SPLITS,
    SSP,
    by_trial,
)
from marginalia.reporting.means import rounded
from marginalia.reporting.pairwise import pairwise

# task, published baseline, calibrated baselines; fixed DP-SGD takes part where it was run
RACES = (("linear", ADA_SSP, (SSP,)), ("logistic", OBJ_PERT, (SSP, OBJ_PERT_TIGHT)))
OTHERS = {"linear": (AIM_SYNTH, ADA_SSP, SSP), "logistic": (AIM_SYNTH, OBJ_PERT, OBJ_PERT_TIGHT)}
NAMES = {SSP: "SSP", OBJ_PERT_TIGHT: "ObjPert", DP_SGD: "DP-SGD, fixed setting"}
SPLIT_COLUMNS = {
    "mean_released": "released_gap", "sem_released": "noise_stderr", "mean": "random_gap", "sem": "random_stderr",
    "std": "split_std", "size": "n_splits",
}  # fmt: skip


def base(records: Frame) -> Frame:
    """Race DD-SSP against baselines that are calibrated exactly: what data dependence gains.

    For each data set, task and epsilon the means of all arms over the trials that all of them have, by how much DD-SSP
    is better than the best of the calibrated ones (``gain``, against ``best_calibrated``), two standard errors of that,
    and ``dd_ssp`` = better, worse or tie.
    """
    import pandas as pd

    lines = []
    for task, published, calibrated in RACES:
        metric = METRIC[task]
        values = by_trial(records, MAIN, metric)
        needed = [DD_SSP, AIM_SYNTH, published, *calibrated]
        if not set(needed) <= set(values.columns):
            continue
        rivals = [arm for arm in (*calibrated, DP_SGD) if arm in values]
        for (dataset, epsilon), cell in values.groupby(level=KEYS):
            there = [arm for arm in {*needed, *rivals} if cell[arm].notna().any()]
            if not set(needed) <= set(there):
                continue
            rows = cell[there].dropna()
            mean = rows.mean()
            best = max((arm for arm in rivals if arm in mean), key=lambda arm: SIGN[metric] * mean[arm])
            better = SIGN[metric] > 0
            found = pairwise(rows, DD_SSP, best, by=KEYS, higher_is_better=better, paired=False).query("n_trials > 1")
            gain, two = (found["difference"].iloc[0], 2 * found["stderr"].iloc[0]) if len(found) else (np.nan, np.nan)
            lines.append(
                {
                    "task": task,
                    "dataset": dataset,
                    "epsilon": epsilon,
                    "dd_ssp_on_aim": mean[DD_SSP],
                    "aim_synth": mean[AIM_SYNTH],
                    "published_baseline": mean[published],
                    "ssp_tight": mean[SSP],
                    "objective_perturbation_tight": mean.get(OBJ_PERT_TIGHT, np.nan),
                    "dp_sgd_fixed": mean.get(DP_SGD, np.nan),
                    "best_calibrated": NAMES[best],
                    "gain": gain,
                    "two_stderr": two,
                    "n_trials": len(rows),
                    "dd_ssp": "tie" if not abs(gain) > two else "better" if gain > 0 else "worse",
                }
            )
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
        released, random = (by_trial(records, experiment, METRIC[task]) for experiment in (MAIN, SPLITS))
        for other in others:
            if not {DD_SSP, other} <= set(released.columns) & set(random.columns):
                continue
            here, elsewhere = (
                (SIGN[METRIC[task]] * (values[DD_SSP] - values[other]))
                .dropna()
                .groupby(KEYS)
                .agg(["mean", "sem", "std", "size"])
                .query("size > 1")
                for values in (released, random)
            )
            both = here.add_suffix("_released").join(elsewhere, how="inner").sort_index().reset_index()
            both["beyond_split"] = both["mean_released"].abs() > 2 * both["std"]
            tables.append(both.assign(task=task, left=DD_SSP, right=other).rename(columns=SPLIT_COLUMNS))
    order = ["task", "dataset", "epsilon", "left", "right", *SPLIT_COLUMNS.values(), "beyond_split"]
    return rounded(pd.concat(tables, ignore_index=True)[order] if tables else pd.DataFrame())


BASE = Experiment("dd_ssp_base", paper="dd_ssp", tables=base)
SPLIT = Experiment("dd_ssp_split", paper="dd_ssp", tables=splits)
