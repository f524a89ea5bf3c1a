"""What is claimed about the reduced-space method's arms, tested on the means of card epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

WIDE = ("adult_bool20", "dutch_bool16")  # far more cells than points are drawn
LARGEST_SHARE = 0.51  # of epsilon, that the published noise may really spend: (|F| - 1)/(2|F|) and rounding


def claims(means: pd.DataFrame) -> pd.DataFrame:
    """Test every claim cell by cell: a table at an epsilon.

    Parameters
    ----------
    means : DataFrame
        Main table of card epsilon: ``dataset, arm, epsilon`` and mean metrics.

    Returns
    -------
    DataFrame
        ``id, claim, tested, held, worst``: numbers of cells, and by which share the worst one misses (0: none does).
    """
    import pandas as pd

    def cells(arm: str, metric: str) -> pd.Series:
        return means[means["arm"] == arm].set_index(["dataset", "epsilon"])[metric]

    def at(epsilon: float, arm: str) -> pd.Series:
        rows = means[(means["arm"] == arm) & (means["epsilon"] == epsilon) & means["dataset"].isin(WIDE)]
        return rows.set_index("dataset")["max_error"]

    finite = means.loc[np.isfinite(means["epsilon"]), "epsilon"]
    low, high = float(finite.min()), float(finite.max())
    share = 2 * low / high  # noise shrinks by low/high; twice that still counts as following it
    spent = cells("published, uniform, lp", "epsilon_spent")
    asked = spent.index.get_level_values("epsilon").to_numpy()
    on_adult = {arm: _adult(cells(arm, "auc")) for arm in ("tree, lp", "tree, maxent")}
    return pd.DataFrame(
        [
            _verdict("C2a", "uniform points: the largest error does not follow the noise as epsilon grows",
                     share * at(low, "uniform, lp"), at(high, "uniform, lp")),
            _verdict("C2b", "points from the released tree: it does", at(high, "tree, lp"),
                     share * at(low, "tree, lp")),
            _verdict("C5a", "maxent is at least as good as the LP in total variation of triples",
                     cells("tree, maxent", "tv3"), cells("tree, lp", "tv3")),
            _verdict("C5b", "maxent is at least as good as the LP in AUC on Adult",
                     on_adult["tree, lp"], on_adult["tree, maxent"]),
            _verdict("C5c", "the L1 fit is at least as good as the LP in mean error",
                     cells("tree, l1", "mean_error"), cells("tree, lp", "mean_error")),
            _verdict("C6", "the published noise spends half of epsilon", spent / asked, 0 * spent + LARGEST_SHARE),
        ]
    )  # fmt: skip


def _adult(cells: pd.Series) -> pd.Series:
    return cells[[dataset.startswith("adult") for dataset in cells.index.get_level_values("dataset")]]


def _verdict(identity: str, claim: str, smaller: pd.Series, larger: pd.Series) -> dict[str, Any]:
    smaller, larger = smaller.align(larger, join="inner")
    excess = (smaller / larger - 1).to_numpy(dtype=float)
    worst = float(max(0.0, excess.max())) if excess.size else float("nan")
    return {"id": identity, "claim": claim, "tested": excess.size, "held": int((excess <= 0).sum()), "worst": worst}
