"""Means over trials, with standard errors, for the tables of experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def mean_table(rows: pd.DataFrame, keys: Sequence[str], values: Sequence[str], spread: str = "stderr") -> pd.DataFrame:
    """Return means of `values`, their ``stderr`` or ``std`` and numbers of trials for each combination of `keys`."""
    groups = rows.groupby(list(keys), dropna=False)[list(values)]  # one block: by columns last digits would differ
    spreads = groups.agg({"stderr": "sem", "std": "std"}[spread]).add_suffix(f"_{spread}")
    return groups.mean().join(spreads).assign(n_trials=groups.size()).reset_index()


def rounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Round every column of floats to the digits that published tables carry."""
    from marginalia.reporting.tables import round_significant

    return frame.assign(**{str(name): round_significant(frame[name]) for name in frame.select_dtypes("float")})


def beside_real(rows: pd.DataFrame, where: str, arm: str) -> pd.DataFrame:
    """Return held-out AUC of each arm beside that of a model trained on the real rows of the same splits.

    `rows` has columns `where` (the table), `arm` ("real" for the real rows), epsilon, trial and auc. Returned are means
    over splits, the worst split, and ``lost``, the paired difference to the real rows; tables without a label are not.
    """
    rows = rows.dropna(subset=["auc"])
    real = rows[rows[arm] == "real"].set_index([where, "trial"])["auc"].rename("auc_real")
    paired = rows[rows[arm] != "real"].join(real, on=[where, "trial"])
    paired["lost"] = paired["auc_real"] - paired["auc"]
    return (
        paired.groupby([where, arm, "epsilon"])
        .agg(
            auc=("auc", "mean"),
            auc_stderr=("auc", "sem"),
            worst_auc=("auc", "min"),
            auc_real=("auc_real", "mean"),
            lost=("lost", "mean"),
            lost_stderr=("lost", "sem"),
            n_trials=("lost", "size"),
        )
        .reset_index()
    )
