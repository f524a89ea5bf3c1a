"""What utility costs: CPU seconds of a release against utility relative to learning without privacy."""

from __future__ import annotations

import numpy as np
import pandas as pd

from marginalia.errors import InputError
from marginalia.papers.cross_paper.ranking import METRICS, PURE_EPSILON
from marginalia.reporting.arms import arms_of
from marginalia.reporting.tables import (
    ARM,
    HIGHER_IS_BETTER,
    NON_PRIVATE,
    aggregate,
    is_certified,
    round_significant,
    timings,
)

_PLACE = ["experiment", "protocol", "dataset", "epsilon"]


def frontier(records: pd.DataFrame) -> pd.DataFrame:
    """Put each private arm's utility beside its CPU seconds, and mark those that no other beats in both.

    Utility is the share of what privacy can take away that is kept, 0 for the trivial predictor and 1 for the best
    non-private learner of the task; of synthetic data, which have no trivial form, 1 minus the marginal error (real
    rows have 1). Seconds are those of the whole release: of an arm that post-processes a synthesizer, the fit of
    that too. This table holds times, so it does not repeat byte for byte.

    Parameters
    ----------
    records : DataFrame
        Result rows in the tidy schema; the experiments hold ``trivial`` and a non-private learner.

    Returns
    -------
    DataFrame
        A row for each experiment, metric, epsilon and arm: ``seconds`` (geometric mean over data sets), ``utility``
        (mean over data sets), ``lowest`` and ``highest`` over them, ``datasets`` of ``n_datasets``, and
        ``on_frontier``, ``yes`` where no arm measured on as many data sets is as quick and more useful, or quicker
        and as useful.
    """
    spent = _seconds(records)
    lines = []
    for metric in METRICS:
        rows = aggregate(records, metric)
        if rows.empty:
            continue
        names = {arm.key: arm.name for arm in arms_of(rows.drop_duplicates([*ARM, "epsilon"]))}
        rows = _with_utility(rows, metric)
        usable = (rows["calibration"] != NON_PRIVATE) & is_certified(rows) & (rows["k"] > 0)
        rows = rows[usable].merge(spent, on=[*_PLACE, "task", "target", *ARM], how="left", validate="one_to_one")
        for (experiment, epsilon), there in rows.groupby(["experiment", "epsilon"], sort=False):
            n_datasets = there[["dataset", "target"]].drop_duplicates().shape[0]
            for key, arm in there.groupby(list(ARM), sort=False):
                method, variant, calibration, relation = map(str, key)
                lines.append(
                    {
                        "experiment": experiment, "metric": metric, "epsilon": epsilon,
                        "name": names[method, variant, calibration, relation], "method": method, "variant": variant,
                        "calibration": calibration, "relation": relation,
                        "pure_epsilon": "yes" if method in PURE_EPSILON else "no",
                        "datasets": len(arm), "n_datasets": n_datasets,
                        "seconds": np.exp(np.log(arm["seconds"].clip(lower=1e-4)).mean()),
                        "utility": arm["utility"].mean(), "lowest": arm["utility"].min(),
                        "highest": arm["utility"].max(),
                    }
                )  # fmt: skip
    frame = pd.DataFrame(lines)
    groups = frame.groupby(["experiment", "metric", "epsilon"], sort=False)
    frame["on_frontier"] = pd.concat([unbeaten(group) for _, group in groups]).map({True: "yes", False: "no"})
    for column, digits in (("seconds", 3), ("utility", 4), ("lowest", 4), ("highest", 4)):
        frame[column] = round_significant(frame[column], digits)
    return frame


def unbeaten(points: pd.DataFrame) -> pd.Series:
    """Return for each row whether no other one is at least as quick and as useful, and better in one of the two."""
    complete = points["datasets"] == points["n_datasets"]
    result = []
    for row, whole in zip(points.itertuples(), complete, strict=True):
        quicker, better = points["seconds"] <= row.seconds, points["utility"] >= row.utility
        strictly = (points["seconds"] < row.seconds) | (points["utility"] > row.utility)
        result.append(bool(whole and not (quicker & better & strictly & complete).any()))
    return pd.Series(result, index=points.index)


def _with_utility(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    if metric == "marginal_error":
        return rows.assign(utility=1 - rows["mean"])
    place = ["experiment", "protocol", "dataset", "task", "target"]
    references = rows[rows["calibration"] == NON_PRIVATE]
    worst = references[references["method"] == "trivial"].set_index(place)["mean"]
    others = references[references["method"] != "trivial"].groupby(place)["mean"]
    best = others.max() if HIGHER_IS_BETTER[metric] else others.min()
    keys = pd.MultiIndex.from_frame(rows[place])
    low, high = worst.reindex(keys).to_numpy(float), best.reindex(keys).to_numpy(float)
    if np.isnan(low).any() or np.isnan(high).any():
        where = rows[np.isnan(low) | np.isnan(high)].iloc[0]
        raise InputError(
            f"experiment '{where['experiment']}': {metric} on {where['dataset']} has no trivial and non-private "
            "values to compare with; add trivial and ols or logistic to its methods"
        )
    return rows.assign(utility=(rows["mean"] - low) / (high - low))


def _seconds(records: pd.DataFrame) -> pd.DataFrame:
    """Return mean CPU seconds of each release, the fit of its source included."""
    mean = timings(records)[[*_PLACE, "task", "target", *ARM, "seconds"]]
    fits = mean[mean["task"] == ""].drop(columns=["task", "target", "variant", "calibration", "relation"])
    source = mean.assign(method=[_source(m, v) for m, v in zip(mean["method"], mean["variant"], strict=True)])
    fits = fits.drop_duplicates([*_PLACE, "method"])
    joined = source[[*_PLACE, "method"]].merge(fits, on=[*_PLACE, "method"], how="left")
    below = joined["seconds"].fillna(0.0).to_numpy() * (mean["task"] != "").to_numpy()
    return mean.assign(seconds=mean["seconds"] + below)


def _source(method: str, variant: str) -> str:
    """Return the synthesizer that an arm with a task stands on, or its own id, which no fit of a synthesizer has."""
    if method == "dd_ssp":
        return variant
    return "aim" if method == "aim_synth" else method
