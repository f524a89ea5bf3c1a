"""What judges the papers' claims about each other's methods and about the baselines (``claims.csv``).

Methods meet the same five random splits, so a cell (data set, target, epsilon) is judged by the differences on them:
the spread over splits counts. Errors are compared by their logarithm, AUC as it is. Every arm spends the epsilon it is
given under the same relation; the papers' own settings are judged on their own pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.card import Comparison, Frame
from marginalia.data.catalogue.catalogue import title
from marginalia.papers import claims
from marginalia.papers.claims import Found, Judge
from marginalia.papers.cross_paper.ranking import Contest, contests
from marginalia.reporting.pairwise import CLEAR, LEVELS, Test, p_value, pairwise

MARGIN = {"auc": 0.01, "mse": float(np.log(1.05)), "marginal_error": float(np.log(1.05))}
UNIT = {True: ("", 1.0), False: (" %", 100.0)}  # of AUC, of errors
LOW = 0.1  # up to this epsilon is "high privacy"
CELL = ["dataset", "target", "epsilon"]
Arm = tuple[str, str]  # method, variant; every arm is the exactly calibrated one


def compare(
    metric: str, arm: Arm, *others: Arm, how: Test, budgets: Callable[[float], bool] = lambda epsilon: True
) -> Judge:
    """Return what judges by a metric, at some budgets, whether an arm is better than others, the same or not worse."""

    def judge(held: Sequence[Contest]) -> Found:
        import pandas as pd

        chosen = [contest for contest in held if contest.metric == metric]
        tested = [differences(contest, arm, other, how) for contest in chosen for other in others]
        cells = pd.concat(
            [cells[cells["epsilon"].map(budgets).astype(bool)] for cells in tested if len(cells)] or [pd.DataFrame()]
        )
        if not len(cells):
            return Found()
        worse = p_value(-cells["difference"], cells["stderr"], cells["df"]) <= CLEAR
        note = f"clearly worse in {worse.sum()}"
        if how == "same":
            size, bound, (unit, scale) = cells["difference"].abs(), cells["bound"], UNIT[metric == "auc"]
            note += f"; median |difference| {size.median() * scale:.2g}{unit}"
            note += f", median bound {bound.median() * scale:.2g}{unit}"
        return Found(sets=[title(name) for name in cells["dataset"]], note=note, p=cells["p"], level=LEVELS[how])

    return judge, ("contests",)


def differences(contest: Contest, arm: Arm, other: Arm, how: Test) -> Frame:
    """Test two arms on the splits of each cell (`pairwise`); no rows where one was not run.

    Errors by their logarithm: their ratio is what two data sets of different scale have in common.
    """
    names = {key[:2]: name for name, key in contest.arms.items() if key[2] == "tight"}
    values: Any = contest.trials if contest.higher_is_better else np.log(contest.trials)
    return pairwise(
        values,
        names.get(arm),
        names.get(other),
        by=CELL,
        test=how,
        margin=MARGIN[contest.metric],
        higher_is_better=contest.higher_is_better,
    )


AIM, MST, GAUSSIAN = ("dd_ssp", "aim"), ("dd_ssp", "mst"), ("dd_ssp", "gaussian_marginals")
OBJECTIVE, SYNTH, DP_SGD = ("objective_perturbation", ""), ("aim_synth", ""), ("dp_sgd", "")
RELEASES = (("mst", ""), ("independent", ""), ("gaussian_marginals", ""), ("mixture", ""))
JUDGES: dict[str, Judge] = {
    "x1": compare("mse", AIM, ("ada_ssp", ""), how="better"),
    "x2": compare("mse", AIM, ("ssp", ""), how="better"),
    "x3": compare("auc", AIM, OBJECTIVE, how="better", budgets=lambda e: e <= LOW),
    "x4": compare("auc", AIM, OBJECTIVE, how="not_worse", budgets=lambda e: e > LOW),
    "x5": compare("mse", AIM, SYNTH, how="same"),
    "x6": compare("auc", AIM, SYNTH, how="same"),
    "x7": compare("mse", AIM, DP_SGD, how="not_worse"),
    "x8": compare("auc", AIM, DP_SGD, how="not_worse"),
    "x9": compare("auc", AIM, MST, GAUSSIAN, how="same"),
    "x10": compare("auc", MST, AIM, how="not_worse", budgets=lambda e: e <= LOW),
    "x11": compare("auc", AIM, MST, how="better", budgets=lambda e: e > LOW),
    "x12": compare("auc", SYNTH, DP_SGD, how="not_worse"),
    "x13": compare("auc", SYNTH, ("pate", ""), how="not_worse"),
    "x14": compare("marginal_error", ("aim", ""), *RELEASES, how="better"),
    "x15": compare("marginal_error", ("reduced_space", ""), ("mwem_pgm", ""), how="better"),
}


def verdicts(records: Frame) -> Frame:
    """Return a row for each claim."""
    held = {"contests": list(contests(records, partial=True))}
    return claims.verdicts(Path(__file__).with_name("claims.csv"), JUDGES, held)


VERDICTS = Comparison(
    "cross_paper_verdicts", "cross_paper", verdicts, title="What the papers say of each other's methods"
)
