"""What judges the claims of 2025 and 2026 that ``claims.yaml`` leaves to a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.claims import Found, Names
from marginalia.papers.recent import recent_intervals, recent_least_squares
from marginalia.papers.recent.recent_rivals import AIM, ID, MST, PRIVBAYES, TAB_PE, named
from marginalia.reporting.pairwise import CLEAR, p_value
from marginalia.reporting.panels import rows_where

GAIN = 0.10  # of accuracy


def largest_gain(differences: Frame) -> Found:
    """Judge in one cell whether Tab-PE's largest gain over AIM is 10 % of accuracy."""
    own = rows_where(differences, metric="accuracy", arm=TAB_PE, against=AIM)
    gain, best = max(zip(own["difference"], own["dataset"], strict=True))
    return Found([gain >= GAIN], map(named, own["dataset"]), f"largest on {named(best)}: {gain:+.3f}")


def trade_off(differences: Frame, time: Frame) -> Found:
    """Judge whether AIM keeps pairs clearly better than MST and than PrivBayes, and takes longer."""
    seconds = time.pivot(index="dataset", columns="arm", values="cpu_seconds")
    held: list[Any] = []
    sets: list[str] = []
    for other in (MST, PRIVBAYES):
        own = rows_where(differences, metric="pairs", arm=AIM, against=other).set_index("dataset")
        p = p_value(-own["difference"], own["stderr"], own["n_trials"] - 1)
        slower = (seconds[AIM] > seconds[other]).reindex(own.index)
        held += [*(slower & (p <= CLEAR))]
        sets += [*map(named, own.index)]
    return Found(held, sets)


JUDGES = (largest_gain, trade_off)
STUDIES = ("differences", "time", "least_squares", "intervals")


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    short = {name.replace(f"{ID}_", "recent_"): table for name, table in tables.items()}
    path = Path(__file__).with_name("claims.yaml")
    return claims.verdicts(path, JUDGES, short, studies=STUDIES, names=Names(named))


VERDICTS = Experiment(
    id="recent_verdicts",
    paper="recent",
    tables=verdicts,
    needs=(ID, recent_least_squares.ID, recent_intervals.ID),
    title="Claims of 2025 and 2026",
)
