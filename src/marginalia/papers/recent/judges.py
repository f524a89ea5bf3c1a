"""What judges the claims of 2025 and 2026 (``claims.csv``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.claims import Found, Judge
from marginalia.papers.recent.recent_rivals import (
    AIM,
    AIM_FOURS,
    AIM_TRIPLES,
    HIGH,
    ID,
    MST,
    PRIVBAYES,
    RESIDUAL,
    SETS,
    SWIFT,
    TAB_PE,
    named,
)
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value
from marginalia.reporting.panels import rows_where

GAIN = 0.10  # of accuracy
FASTER, ORDERS = 28.0, 10.0
COMPETITIVE = 0.10  # of AIM's error
DIFFERENCES, TIME = ("differences",), ("time",)


def _pair(differences: Frame, metric: str, arm: str, against: str) -> Frame:
    """Return the differences ``arm - against`` of a metric, a row for each table, whichever way round they stand."""
    own = rows_where(differences, metric=metric)
    forward = rows_where(own, arm=arm, against=against)
    if len(forward):
        return forward
    backward = rows_where(own, arm=against, against=arm)
    return backward.assign(
        difference=-backward["difference"], mean=backward["mean"] + backward["difference"], arm=arm, against=against
    )


def _ahead(own: Frame, sign: int = 1) -> Found:
    """Judge a row of differences each: whether `sign` times it is clearly above 0."""
    p = p_value(sign * own["difference"], own["stderr"], own["n_trials"] - 1)
    gains = ", ".join(f"{named(name)} {d:+.3f}" for name, d in zip(own["dataset"], own["difference"], strict=True))
    return Found(sets=[*map(named, own["dataset"])], note=gains, p=p, level=CLEAR)


def _beats(against: str) -> Judge:
    def judge(differences: Frame) -> Found:
        own = _pair(differences, "accuracy", TAB_PE, against)
        return _ahead(own[own["dataset"].isin(HIGH)])

    return judge, DIFFERENCES


def _with_its_order(differences: Frame) -> Found:
    import pandas as pd

    orders = {"2": AIM_TRIPLES, "3": AIM_FOURS}
    chosen = [
        rows_where(_pair(differences, "accuracy", TAB_PE, orders[name.partition("_")[2]]), dataset=name)
        for name in HIGH
    ]
    return _ahead(pd.concat(chosen))


def _largest_gain(differences: Frame) -> Found:
    own = _pair(differences, "accuracy", TAB_PE, AIM)
    gain, best = max(zip(own["difference"], own["dataset"], strict=True))
    return Found([gain >= GAIN], [*map(named, own["dataset"])], f"largest on {named(best)}: {gain:+.3f}")


def _gain_on_real(differences: Frame) -> Found:
    own = _pair(differences, "accuracy", TAB_PE, AIM)
    own = own[own["dataset"].isin(SETS)]
    note = f"between {own['difference'].min():+.3f} and {own['difference'].max():+.3f}"
    return Found(own["difference"] >= GAIN, [*map(named, own["dataset"])], note)


def _on_the_others(differences: Frame) -> Found:
    own = _pair(differences, "accuracy", TAB_PE, AIM)
    return _ahead(own[~own["dataset"].isin(HIGH)])


def _pairs_kept(differences: Frame) -> Found:
    return _ahead(_pair(differences, "pairs", AIM, TAB_PE), -1)


def _competitive(differences: Frame) -> Found:
    own = _pair(differences, "answers", RESIDUAL, AIM)
    p = p_value(-own["difference"], own["stderr"], own["n_trials"] - 1, "not_worse", COMPETITIVE * own["mean"])
    share = own["difference"] / own["mean"]
    note = f"error {share.min():+.0%} to {share.max():+.0%} of AIM's"
    return Found(sets=[*map(named, own["dataset"])], note=note, p=p, level=LEVEL)


def _times(arm: str, least: float) -> Judge:
    """Return the judge of whether `arm` is more than `least` times as quick as AIM on each table."""

    def judge(time: Frame) -> Found:
        ratio = _ratio(time, AIM, arm)
        note = f"AIM takes {ratio.min():.2g} to {ratio.max():.2g} times as long"
        return Found(ratio > least, [*map(named, ratio.index)], note)

    return judge, TIME


def _ratio(time: Frame, arm: str, to: str) -> Any:
    by_arm = time.pivot(index="dataset", columns="arm", values="cpu_seconds")
    return by_arm[arm] / by_arm[to]


def _trade_off(differences: Frame, time: Frame) -> Found:
    held, sets = [], []
    for other in (MST, PRIVBAYES):
        own = _pair(differences, "pairs", AIM, other).set_index("dataset")
        p = p_value(-own["difference"], own["stderr"], own["n_trials"] - 1)
        slower = _ratio(time, AIM, other).reindex(own.index) > 1
        held += [*(slower & (p <= CLEAR))]
        sets += [*map(named, own.index)]
    return Found(held, sets)


def _never(*tables: Frame | None) -> Found:
    """Return no cell: what cannot be run has a row all the same, with its reason as the note."""
    return Found()


JUDGES: dict[str, Judge] = {
    "t1": _beats(AIM),
    "t1s": _beats(SWIFT),
    "t1m": _beats(MST),
    "t1p": _beats(PRIVBAYES),
    "t1w": (_with_its_order, DIFFERENCES),
    "t2": (_largest_gain, DIFFERENCES),
    "t2r": (_gain_on_real, DIFFERENCES),
    "t3": _times(TAB_PE, FASTER),
    "t3f": _times(TAB_PE, 1.0),
    "t4": (_on_the_others, DIFFERENCES),
    "t5": (_pairs_kept, DIFFERENCES),
    "g1": (_competitive, DIFFERENCES),
    "g2": _times(RESIDUAL, ORDERS),
    "m1": (_never, ("margnet",)),
    "m2": (_never, ("margnet",)),
    "b1": (_trade_off, ("differences", "time")),
    "b2": (_never, ("tab_bench",)),
}


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    given = {name.replace(f"{ID}_", "recent_"): table for name, table in tables.items()}
    return claims.listed_verdicts(Path(__file__).with_name("claims.csv"), JUDGES, given)


VERDICTS = Experiment(
    id="recent_verdicts",
    paper="recent",
    tables=verdicts,
    needs=(ID,),
    title="Claims of 2025 and 2026",
)
