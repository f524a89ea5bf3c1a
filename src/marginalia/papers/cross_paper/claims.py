"""What the papers say about each other's methods and about the baselines, judged on the same splits of the same tables.

Methods meet the same five random splits, so a cell (data set, target, epsilon) is judged by the differences on them:
the spread over splits counts. Errors are compared by their logarithm, AUC as it is. Every arm spends the epsilon it is
given under the same relation; the papers' own settings are judged on their own pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.catalogue.catalogue import title
from marginalia.papers.card import Comparison, Frame
from marginalia.papers.cross_paper.ranking import Contest, contests
from marginalia.reporting.verdicts import COLUMNS, claim_row, equivalence

MARGIN = {"auc": 0.01, "mse": float(np.log(1.05)), "marginal_error": float(np.log(1.05))}
MARGIN_NAMES = {"auc": ".01 AUC", "mse": "5 % of the MSE", "marginal_error": "5 % of the error"}
LOW = 0.1  # up to this epsilon is "high privacy"
Cell = tuple[Any, ...]  # data set, target, epsilon
Gaps = NDArray[np.float64]  # of two arms on each split

_DD_SSP = "DD-SSP paper, section 4, Figure 3"
Arm = tuple[str, str]  # method, variant; every arm is the exactly calibrated one


@dataclass(frozen=True)
class Claim:
    """One statement: by which metric which arm is said to be how much like which others, at which budgets."""

    id: str
    place: str
    text: str
    metric: str
    arm: Arm
    others: tuple[Arm, ...]
    how: str  # better | equal | no worse
    budgets: Callable[[float], bool] = lambda epsilon: True
    note: str = ""


CLAIMS = (
    Claim("x1", "DD-SSP paper, sections 1, 4 and 6", "DD-SSP beats AdaSSP in linear regression", "mse",
          ("dd_ssp", "aim"), (("ada_ssp", ""),), "better", note="AdaSSP calibrated exactly; as published: page dd_ssp"),
    Claim("x2", "DD-SSP paper, section 6", "DD-SSP beats data-independent SSP in linear regression", "mse",
          ("dd_ssp", "aim"), (("ssp", ""),), "better", note="SSP as one exactly calibrated release"),
    Claim("x3", _DD_SSP, "DD-SSP beats objective perturbation at low epsilon", "auc",
          ("dd_ssp", "aim"), (("objective_perturbation", ""),), "better", lambda e: e <= LOW,
          note="objective perturbation calibrated exactly"),
    Claim("x4", _DD_SSP, "DD-SSP is competitive with objective perturbation at higher epsilon", "auc",
          ("dd_ssp", "aim"), (("objective_perturbation", ""),), "no worse", lambda e: e > LOW),
    Claim("x5", _DD_SSP, "DD-SSP and AIM-Synth are nearly identical in linear regression", "mse",
          ("dd_ssp", "aim"), (("aim_synth", ""),), "equal"),
    Claim("x6", _DD_SSP, "DD-SSP closely matches AIM-Synth in logistic regression", "auc",
          ("dd_ssp", "aim"), (("aim_synth", ""),), "equal"),
    Claim("x7", "DD-SSP paper, sections 4 and 6", "DD-SSP is competitive with DP-SGD, linear", "mse",
          ("dd_ssp", "aim"), (("dp_sgd", ""),), "no worse", note="DP-SGD at one fixed setting, nothing tuned"),
    Claim("x8", "DD-SSP paper, sections 4 and 6", "DD-SSP is competitive with DP-SGD, logistic", "auc",
          ("dd_ssp", "aim"), (("dp_sgd", ""),), "no worse", note="DP-SGD at one fixed setting, nothing tuned"),
    Claim("x9", "DD-SSP paper, section 1", "DD-SSP is robust to the source of marginals", "auc",
          ("dd_ssp", "aim"), (("dd_ssp", "mst"), ("dd_ssp", "gaussian_marginals")), "equal"),
    Claim("x10", "DD-SSP paper, appendix H", "MST does well at low epsilon: no worse than AIM", "auc",
          ("dd_ssp", "mst"), (("dd_ssp", "aim"),), "no worse", lambda e: e <= LOW),
    Claim("x11", "DD-SSP paper, appendix H", "AIM outperforms MST at higher epsilon", "auc",
          ("dd_ssp", "aim"), (("dd_ssp", "mst"),), "better", lambda e: e > LOW),
    Claim("x12", "Excess-risk paper, appendix D, Figure 4", "AIM's rows train a model as good as DP-SGD's or better",
          "auc", ("aim_synth", ""), (("dp_sgd", ""),), "no worse",
          note="by AUC; by accuracy, as in the paper: page excess_risk"),
    Claim("x13", "Excess-risk paper, appendix D, Figure 4", "AIM's rows train a model as good as PATE's or better",
          "auc", ("aim_synth", ""), (("pate", ""),), "no worse",
          note="by AUC; by accuracy, as in the paper: page excess_risk; PATE leaves its public rows unprotected"),
    Claim("x14", "Excess-risk paper, appendix D.3", "AIM preserves marginals better than the other mechanisms",
          "marginal_error", ("aim", ""),
          (("mst", ""), ("independent", ""), ("gaussian_marginals", ""), ("mixture", "")), "better"),
)  # fmt: skip


def verdicts(records: Frame) -> Frame:
    """Judge every claim of the papers about each other's methods, in the columns of `marginalia.reporting.verdicts`."""
    import pandas as pd

    held = list(contests(records, partial=True))
    return pd.DataFrame([_judged(claim, held) for claim in CLAIMS], columns=list(COLUMNS))


def _judged(claim: Claim, held: Iterable[Contest]) -> dict[str, Any]:
    cells = {
        (contest.experiment, other, *cell): gaps
        for contest in held
        if contest.metric == claim.metric
        for other in claim.others
        for cell, gaps in differences(contest, claim.arm, other).items()
        if claim.budgets(cell[-1])
    }
    margin = MARGIN[claim.metric]
    tests: dict[str, Callable[[Gaps], bool]] = {
        "better": better,
        "equal": lambda gaps: equivalence(gaps, margin).equivalent,
        "no worse": lambda gaps: no_worse(gaps, margin),
    }
    said = {
        "better": "paired difference beyond two standard errors",
        "equal": f"equivalent within {MARGIN_NAMES[claim.metric]} (two one-sided tests at 5 %)",
        "no worse": f"not worse by {MARGIN_NAMES[claim.metric]} (one-sided test at 5 %)",
    }
    worse = sum(better(-gaps) for gaps in cells.values())
    notes = [claim.note, f"clearly worse in {worse}" if cells else "", _typical(cells.values(), margin, claim)]
    return claim_row(
        claim.id, place=claim.place, claim=claim.text, test=said[claim.how],
        cells=[tests[claim.how](gaps) for gaps in cells.values()], sets=[title(str(cell[2])) for cell in cells],
        note="; ".join(filter(None, notes)),
    )  # fmt: skip


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


def better(gaps: Gaps) -> bool:
    """Return whether the mean difference is positive by more than two standard errors."""
    return len(gaps) > 1 and bool(gaps.mean() > 2 * gaps.std(ddof=1) / np.sqrt(len(gaps)))


def no_worse(gaps: Gaps, margin: float) -> bool:
    """Return whether a mean of ``-margin`` or less is refuted at 5 % (one-sided t-test)."""
    from scipy import stats

    if len(gaps) < 2:
        return False
    stderr = gaps.std(ddof=1) / np.sqrt(len(gaps))
    return bool(gaps.mean() + margin > stats.t.isf(0.05, len(gaps) - 1) * stderr)


def _typical(cells: Iterable[Gaps], margin: float, claim: Claim) -> str:
    """Return the medians over cells of the absolute mean difference and of the margin that would have passed."""
    tests = [equivalence(gaps, margin) for gaps in cells]
    if claim.how != "equal" or not tests:
        return ""
    size, bound = float(np.median([abs(t.mean) for t in tests])), float(np.median([t.bound for t in tests]))
    unit = ("", 1.0) if claim.metric == "auc" else (" %", 100.0)
    return f"median |difference| {size * unit[1]:.2g}{unit[0]}, median bound {bound * unit[1]:.2g}{unit[0]}"


VERDICTS = Comparison(
    "cross_paper_verdicts", "cross_paper", verdicts, title="What the papers say of each other's methods"
)
