"""Which certified private arm did best, for each data set and epsilon."""

from __future__ import annotations

import numpy as np
import pandas as pd

from marginalia.reporting.arms import arms_of, panels_of
from marginalia.reporting.tables import ARM, HIGHER_IS_BETTER, NON_PRIVATE, PANEL, is_certified


def best_certified(aggregates: pd.DataFrame) -> pd.DataFrame:
    """Name the best certified private arm of each data set, task and epsilon.

    An arm takes part where every one of its trials succeeded and its certificate covers the requested epsilon.
    Choosing by test results is itself a look at the data: this describes a benchmark, it is not a private selection.

    `aggregates` are those of one metric. ``as_good`` names the other arms whose mean lies within two standard errors of
    the difference.
    """
    columns = [*PANEL, "metric", "epsilon", *ARM, "name", "mean", "stderr", "certified", "as_good"]
    lines = []
    for panel in panels_of(aggregates):
        arms = arms_of(panel.rows, context=aggregates)
        named = pd.concat([arm.rows.assign(name=arm.name) for arm in arms], ignore_index=True)
        complete = named["k"] == named["n_trials"]
        candidates = named[(named["calibration"] != NON_PRIVATE) & is_certified(named) & complete]
        ascending = not HIGHER_IS_BETTER[named["metric"].iloc[0]]
        for _, ranked in candidates.sort_values("mean", ascending=ascending, kind="stable").groupby("epsilon"):
            behind, error = (ranked["mean"] - ranked["mean"].iloc[0]).abs(), ranked["stderr"].fillna(0.0)
            _, *as_good = ranked["name"][behind <= 2 * np.hypot(error, error.iloc[0])]
            lines.append(ranked.iloc[0].to_dict() | {"as_good": "; ".join(as_good)})
    return pd.DataFrame(lines, columns=columns)
