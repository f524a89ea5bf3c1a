"""What judges the papers' claims about each other's methods and about the baselines (``claims.csv``).

Methods meet the same five random splits, so a cell (data set, target, epsilon) is judged by the differences on them:
the spread over splits counts. Errors are compared by their logarithm, AUC as it is. Every arm spends the epsilon it is
given under the same relation; the papers' own settings are judged on their own pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.card import Comparison, Frame
from marginalia.data.catalogue.catalogue import title
from marginalia.papers import claims
from marginalia.papers.claims import Found, Judge
from marginalia.papers.cross_paper.ranking import Contest, contests
from marginalia.reporting.verdicts import CLEAR, LEVEL, Equivalence, equivalence, p_ahead

MARGIN = {"auc": 0.01, "mse": float(np.log(1.05)), "marginal_error": float(np.log(1.05))}
LOW = 0.1  # up to this epsilon is "high privacy"
Cell = tuple[Any, ...]  # data set, target, epsilon
Gaps = NDArray[np.float64]  # of two arms on each split
Arm = tuple[str, str]  # method, variant; every arm is the exactly calibrated one


def compare(
    metric: str, arm: Arm, *others: Arm, how: str, budgets: Callable[[float], bool] = lambda epsilon: True
) -> Judge:
    """Return what judges by a metric, at some budgets, how much an arm is like others: better | equal | no worse."""
    margin = MARGIN[metric]
    tests: dict[str, tuple[Callable[[Gaps], float], float]] = {
        "better": (p_better, CLEAR),
        "equal": (lambda gaps: equivalence(gaps, margin).p, LEVEL),
        "no worse": (lambda gaps: p_better(gaps + margin), LEVEL),  # a mean of -margin or less is refuted
    }
    p_value, level = tests[how]

    def judge(held: Sequence[Contest]) -> Found:
        cells = {
            (contest.experiment, other, *cell): gaps
            for contest in held
            if contest.metric == metric
            for other in others
            for cell, gaps in differences(contest, arm, other).items()
            if budgets(cell[-1])
        }
        if not cells:
            return Found()
        note = f"clearly worse in {sum(p_better(-gaps) <= CLEAR for gaps in cells.values())}"
        if how == "equal":
            note += f"; {_typical([equivalence(gaps, margin) for gaps in cells.values()], metric)}"
        sets = [title(str(cell[2])) for cell in cells]
        return Found(sets=sets, note=note, p=[p_value(gaps) for gaps in cells.values()], level=level)

    return judge, ("contests",)


def differences(contest: Contest, arm: Arm, other: Arm) -> Mapping[Cell, Gaps]:
    """Return the differences of two arms on the splits of each cell, positive where `arm` is better; none: not run.

    Errors by their logarithm: their ratio is what two data sets of different scale have in common.
    """
    names = {key[:2]: name for name, key in contest.arms.items() if key[2] == "tight"}
    if not {arm, other} <= set(names):
        return {}
    both = contest.trials[[names[arm], names[other]]].dropna()
    values = both if contest.higher_is_better else -np.log(both)
    gaps = values[names[arm]] - values[names[other]]
    return {tuple(cell): gap.to_numpy() for cell, gap in gaps.groupby(level=[0, 1, 2])}  # type: ignore[arg-type]


def p_better(gaps: Gaps) -> float:
    """Return the p-value of the one-sided t-test that the mean difference is positive; 1 with fewer than two."""
    n = len(gaps)
    return float(p_ahead(gaps.mean(), gaps.std(ddof=1) / np.sqrt(n), n - 1)) if n > 1 else 1.0


def _typical(tests: Sequence[Equivalence], metric: str) -> str:
    """Return the medians over cells of the absolute mean difference and of the margin that would have passed."""
    size, bound = float(np.median([abs(t.mean) for t in tests])), float(np.median([t.bound for t in tests]))
    unit = ("", 1.0) if metric == "auc" else (" %", 100.0)
    return f"median |difference| {size * unit[1]:.2g}{unit[0]}, median bound {bound * unit[1]:.2g}{unit[0]}"


AIM, MST, GAUSSIAN = ("dd_ssp", "aim"), ("dd_ssp", "mst"), ("dd_ssp", "gaussian_marginals")
OBJECTIVE, SYNTH, DP_SGD = ("objective_perturbation", ""), ("aim_synth", ""), ("dp_sgd", "")
RELEASES = (("mst", ""), ("independent", ""), ("gaussian_marginals", ""), ("mixture", ""))
JUDGES: dict[str, Judge] = {
    "x1": compare("mse", AIM, ("ada_ssp", ""), how="better"),
    "x2": compare("mse", AIM, ("ssp", ""), how="better"),
    "x3": compare("auc", AIM, OBJECTIVE, how="better", budgets=lambda e: e <= LOW),
    "x4": compare("auc", AIM, OBJECTIVE, how="no worse", budgets=lambda e: e > LOW),
    "x5": compare("mse", AIM, SYNTH, how="equal"),
    "x6": compare("auc", AIM, SYNTH, how="equal"),
    "x7": compare("mse", AIM, DP_SGD, how="no worse"),
    "x8": compare("auc", AIM, DP_SGD, how="no worse"),
    "x9": compare("auc", AIM, MST, GAUSSIAN, how="equal"),
    "x10": compare("auc", MST, AIM, how="no worse", budgets=lambda e: e <= LOW),
    "x11": compare("auc", AIM, MST, how="better", budgets=lambda e: e > LOW),
    "x12": compare("auc", SYNTH, DP_SGD, how="no worse"),
    "x13": compare("auc", SYNTH, ("pate", ""), how="no worse"),
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
