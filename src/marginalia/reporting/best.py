"""Which certified private arm did best, for each data set and epsilon."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from marginalia.reporting.arms import arms_of, panels_of
from marginalia.reporting.tables import ARM, HIGHER_IS_BETTER, NON_PRIVATE, PANEL, is_certified, rows_of


def best_certified(aggregates: pd.DataFrame) -> pd.DataFrame:
    """Name the best certified private arm of each data set, task and epsilon.

    An arm takes part where every one of its trials succeeded and its certificate covers the requested epsilon.
    Choosing by test results is itself a look at the data: this describes a benchmark, it is not a private selection.

    Parameters
    ----------
    aggregates : DataFrame
        Of `tables.aggregate`, one metric.

    Returns
    -------
    DataFrame
        ``experiment, protocol, dataset, task, target, metric, epsilon``, the winner's ``method, variant,
        calibration, relation``, its ``name``, ``mean`` and ``stderr``, and ``as_good``: the names of the other arms
        whose mean lies within two standard errors of the difference.
    """
    columns = [*PANEL, "metric", "epsilon", *ARM, "name", "mean", "stderr", "as_good"]
    lines = []
    for panel in panels_of(aggregates):
        named = pd.concat(
            [arm.rows.assign(name=arm.name) for arm in arms_of(panel.rows, context=aggregates)], ignore_index=True
        )
        complete = named["k"] == named["n_trials"]
        candidates = named[(named["calibration"] != NON_PRIVATE) & is_certified(named) & complete]
        ascending = not HIGHER_IS_BETTER[named["metric"].iloc[0]]
        for _, ranked in candidates.sort_values("mean", ascending=ascending, kind="stable").groupby("epsilon"):
            best, *others = rows_of(ranked)
            close = [o.name for o in others if abs(o.mean - best.mean) <= 2 * math.hypot(_known(o), _known(best))]
            line = {column: getattr(best, column) for column in columns if column != "as_good"}
            lines.append(line | {"as_good": "; ".join(close)})
    return pd.DataFrame(lines, columns=columns)


def _known(row: Any) -> float:
    return 0.0 if math.isnan(row.stderr) else float(row.stderr)
