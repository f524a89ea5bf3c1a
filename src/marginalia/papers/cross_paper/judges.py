"""The papers' claims about each other's methods and about the baselines (``claims.yaml``), judged on the trials of all.

Methods meet the same five random splits, so a cell (data set, target, epsilon) is judged by the differences on them:
the spread over splits counts. Every arm spends the epsilon it is given under the same relation; the papers' own
settings are judged on their own pages.
"""

from __future__ import annotations

from pathlib import Path

from marginalia.data.catalogue.catalogue import title
from marginalia.experiment import Experiment, Frame
from marginalia.papers import claims
from marginalia.papers.claims import CELL, Names
from marginalia.papers.cross_paper.ranking import contests


def verdicts(records: Frame) -> Frame:
    """Return a row for each claim."""
    return claims.verdicts(Path(__file__).with_name("claims.yaml"), (), {"trials": trials(records)}, names=Names(title))


def trials(records: Frame) -> Frame:
    """Return a row for each trial of the certified and exactly calibrated arms; an arm is method/variant."""
    import pandas as pd

    parts = [pd.DataFrame(columns=[*CELL, "trial", "arm", "value", "metric"])]
    for contest in contests(records, partial=True):
        arms = {name: "/".join(filter(None, key[:2])) for name, key in contest.arms.items() if key[2] == "tight"}
        rows = contest.trials[list(arms)].rename(columns=arms).melt(var_name="arm", ignore_index=False).dropna()
        parts.append(rows.reset_index().assign(experiment=contest.experiment, metric=contest.metric))
    return pd.concat(parts[1:] or parts, ignore_index=True)


VERDICTS = Experiment(
    id="cross_paper_verdicts",
    title="What the papers say of each other's methods",
    paper="cross_paper",
    tables=verdicts,
)
