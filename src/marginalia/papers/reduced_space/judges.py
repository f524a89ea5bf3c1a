"""What judges the claims of the reduced-space paper and of our additions to it (``claims.csv``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.claims import Found, Judge
from marginalia.papers.reduced_space.reduced_space_epsilon import (
    COMPARED,
    EXACT,
    GAUSSIAN,
    INDEPENDENT,
    L1,
    MAXENT,
    OURS,
    PAPER,
    PARITIES,
    TREE,
)
from marginalia.papers.reduced_space.reduced_space_fail import CERTIFICATE, STEPS
from marginalia.papers.reduced_space.runs import GAMMA
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value, welch
from marginalia.reporting.panels import rows_where

NAMES = ("privacy", "lemma", "points", "fail", "corollary", "n", "f", "m", "kappa", "cells", "epsilon")
MARGIN = 0.01  # of an equivalence, in AUC or in the largest error of an average
WIDE = ("adult_bool20", "dutch_bool16")  # far more cells than points are drawn
TIGHTER = 4.0
SLIGHTLY = 10.0
DOMAIN = "30|F| draws exceed the 256 points of the domain, and 10|F| draws meet most of them"


def _privacy(moves: Frame) -> Found:
    return Found(moves["share"] <= 1, _sets(moves["family"]), f"the largest move is {moves['share'].max():.2f} of it")


def _lemma(kind: str) -> Callable[[Frame], Found]:
    """Return the judge of Lemma 3.2 as printed, or as repaired."""

    def judge(lemma: Frame) -> Found:
        own = rows_where(lemma, lemma=kind)
        short = own[own["failure"] > own["allowed"]]
        note = f"fails for functions with values {', '.join(sorted(set(short['values'])))}" if len(short) else ""
        return Found(own["failure"] <= own["allowed"], sorted(set(own["values"])), note)

    return judge


def _points(points: Frame) -> Found:
    """Judge Lemma 3.3; the note says down to which share of its m it still holds in every cell."""
    whole = rows_where(points, share=1.0)
    held = (points["failures"] <= points["allowed"]).groupby(points["share"]).all()
    least = min(share for share in held.index if held[held.index >= share].all())
    return Found(
        whole["failures"] <= whole["allowed"], _sets(points["law"]), f"still in every cell with {least:g} of its m"
    )


def _accuracy(fail: Frame) -> Found:
    step = rows_where(fail, step=STEPS[-1][1])
    note = _notes(f"largest error of all runs: {step['largest'].max():.2g} δ" if len(step) else "", _shown([step]))
    return Found(_seldom(step), _sets(fail["case"]), note)


def _proof(fail: Frame) -> Found:
    """Judge every inequality on the way to 8δ; the note names those that fail."""
    before = [rows_where(fail, step=name) for _, name, *_ in STEPS[:-1]]
    failed = sorted({name for step in before if len(step) for name in step["step"][~_seldom(step)]})
    held = np.concatenate([_seldom(step) for step in before])
    return Found(held, _sets(fail["case"]), _notes("; ".join(failed), _shown(before)))


def _few_points(n: Frame | None, f: Frame | None) -> Found:
    outside = [table for table in (n, f) if table is not None]
    telling = [_values(t, "bound") < _widest(t) for t in outside]
    held = [_values(t, "above_bound")[w] <= 4 * GAMMA for t, w in zip(outside, telling, strict=True)]
    return Found(np.concatenate(held), _bits_of(n, f), _empty(sum(int((~w).sum()) for w in telling)))


def _both_vanish(corollary: Frame) -> Found:
    p: list[float] = []
    for _, own in corollary.sort_values("n").groupby("p"):
        error, stderr, n = (_values(own, column) for column in ("error", "error_stderr", "n_trials"))
        falls = p_value(error[:-1] - error[1:], *welch(stderr[:-1], n[:-1], stderr[1:], n[1:]))
        p += list(np.where(np.diff(own["epsilon"]) < 0, falls, 1.0))
    return Found(sets=_widths(corollary), p=p, level=CLEAR)


def _mostly(corollary: Frame) -> Found:
    seldom, empty = [], 0
    for _, own in corollary.sort_values("n").groupby("p"):
        telling = own["bound"] < 1  # monomials: an average lies in [0, 1]
        seldom += list((own["above_bound"] <= 4 * own["gamma"])[telling])
        empty += int((~telling).sum())
    return Found(seldom, _widths(corollary), _empty(empty))


def _enough_points(points: Frame) -> Found:
    some = points[points["times"].isin((3, 10))]
    p = _same(some, "excess", "excess_stderr", MARGIN)
    late = some[p > LEVEL]
    names = ", ".join(" ".join(map(str, row)) for row in late[["law", "times"]].itertuples(index=False))
    note = _notes(f"short: {names} |F|" if len(late) else "", DOMAIN if len(some) else "")
    return Found(sets=_sets(points["law"]), note=note, p=p, level=LEVEL)


def _kappa_orders(pairs: Frame, kappa: Frame | None) -> Found:
    told = pairs[pairs["order"] != "tied"]
    if not len(told):
        return Found((), () if kappa is None else _sets(kappa["dataset"]))
    turned, noisy = (int((told["order"] == order).sum()) for order in ("reversed", "reversed by noise"))
    sure = int((p_value(told["difference"], told["difference_stderr"], told["n_trials"] - 1) <= CLEAR).sum())
    return Found(
        told["order"] == "kept",
        () if kappa is None else _sets(kappa["dataset"]),
        f"kept clearly: {sure}; reversed: {noisy} by noise, {turned} clearly; {len(pairs) - len(told)} ties left out",
    )


def _smaller_than_the_domain(kappa: Frame | None, fail: Frame | None) -> Found:
    held: list[bool] = []
    sets: list[str] = []
    if kappa is not None:
        asked = rows_where(kappa, measure="uniform").drop_duplicates("dataset")
        held, sets = [*(asked["asked"] < asked["cells"])], _sets(kappa["dataset"])
    if fail is not None:
        known = fail.drop_duplicates("case")
        held = [*held, *(known["m"] < 2.0 ** known["case"].map(lambda case: int(case.split()[0])))]
        sets = [*sets, *_sets(fail["case"])]
    return Found(held, sets)


def _slightly_larger(fail: Frame) -> Found:
    known = fail.drop_duplicates("case")
    times = known["m"] / known["n_functions"]
    note = f"{times.min():,.0f} to {times.max():,.0f} |F|: the factor κ/(γδ²) is not slight"
    return Found(times <= SLIGHTLY, _sets(fail["case"]), note)


def _as_good_as_real(arm: str) -> Judge:
    """Return what judges whether models trained on an arm's rows lose no AUC to those of the real rows."""

    def judge(auc: Frame, means: Frame | None) -> Found:
        p = _same(rows_where(auc, arm=arm), "lost", "lost_stderr", MARGIN)
        return Found(sets=() if means is None else _sets(means["dataset"]), p=p, level=LEVEL)

    return judge, ("epsilon_auc", "epsilon?")


def _better(metric: str, arm: str, against: str) -> Judge:
    """Return what judges whether an arm beats another in every table and ε (paired t-test)."""
    assert (metric, arm, against) in COMPARED

    def judge(pairs: Frame) -> Found:
        own = rows_where(pairs, metric=metric, arm=arm, against=against)
        gain = (1 if metric == "auc" else -1) * _values(own, "difference")
        spread = _values(own, "difference_stderr"), _values(own, "n_trials") - 1
        worse = int((p_value(-gain, *spread) <= CLEAR).sum())
        note = f"worse in {worse}" if worse else ""
        return Found(sets=_sets(own["dataset"]), note=note, p=p_value(gain, *spread), level=CLEAR)

    return judge, ("epsilon_pairs",)


def _less_noise(noise: Frame) -> Found:
    p = []
    for _, own in noise.groupby(["p", "order", "cell"]):
        a, b = (rows_where(own, arm=f"{kind}, exact noise").iloc[0] for kind in ("parities", "monomials"))
        spread = welch(a["error_stderr"], a["n_trials"], b["error_stderr"], b["n_trials"])
        p.append(float(p_value(b["error"] - a["error"], *spread)))
    return Found(sets=_widths(noise), p=p, level=CLEAR)


def _floor(means: Frame) -> Found:
    return Found(~_follows(means, PARITIES), WIDE)


def _no_floor(means: Frame) -> Found:
    return Found(_follows(means, TREE), WIDE)


def _tighter(n: Frame | None, f: Frame | None) -> Found:
    known = [table for table in (n, f) if table is not None]
    held = [TIGHTER * _values(t, "certificate") <= np.minimum(_values(t, "bound"), _widest(t)) for t in known]
    return Found(np.concatenate(held), _bits_of(n, f))


def _certificate(fail: Frame) -> Found:
    step = rows_where(fail, step=CERTIFICATE)
    return Found(_seldom(step), _sets(fail["case"]), _shown([step]))


def _same(rows: Frame, mean: str, stderr: str, margin: float) -> Any:
    """Return for each row the p-value of its paired difference lying within the margin (two one-sided tests)."""
    return p_value(_values(rows, mean), _values(rows, stderr), _values(rows, "n_trials") - 1, "same", margin)


def _follows(means: Frame, arm: str) -> Any:
    """Return for each wide table whether the largest error shrinks with ε, at half the rate of the noise or faster."""
    finite = means.loc[np.isfinite(means["epsilon"]), "epsilon"]
    low, high = (
        rows_where(means, arm=arm, epsilon=epsilon).set_index("dataset")["max_error"].filter(WIDE)
        for epsilon in (finite.min(), finite.max())
    )
    return (high <= 2 * finite.min() / finite.max() * low).to_numpy()


def _seldom(steps: Frame) -> Any:
    """Return for each row whether its failing runs can be told from the allowed share (one-sided, Bonferroni)."""
    from scipy.stats import binom

    if not len(steps):
        return np.zeros(0, dtype=bool)
    failures = np.rint(steps["failures"] * steps["n_trials"])
    return binom.sf(failures - 1, steps["n_trials"], steps["allowed_failures"]) >= LEVEL / len(steps)


def _shown(steps: list[Frame]) -> str:
    """Say in how many cells the runs show the share to be kept: 95 % upper limit of the failures (Clopper-Pearson)."""
    from scipy.stats import beta

    shown, cells = 0, 0
    for step in steps:
        if len(step):
            n = step["n_trials"]
            failures = np.rint(step["failures"] * n)
            limit = beta.ppf(1 - LEVEL, failures + 1, np.maximum(n - failures, 1e-9))
            shown, cells = shown + int((limit <= step["allowed_failures"]).sum()), cells + len(step)
    return f"{shown} of {cells} shown by the upper 95 % limit of the failures" if cells else ""


def _widest(table: Frame) -> Any:
    """Return the largest error that an average can have: 1 of functions 0 or 1, 2 of functions ±1."""
    return np.where(table["arm"].str.startswith("parities"), 2.0, 1.0)


def _empty(left_out: int) -> str:
    return f"{left_out} cells left out, where 8δ is more than any error can be" if left_out else ""


def _notes(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _values(table: Frame, column: str) -> Any:
    return table[column].to_numpy(dtype=float)


def _sets(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _bits_of(n: Frame | None, f: Frame | None) -> list[str]:
    return [name for name, table in (("8 bits", n), ("6 to 12 bits", f)) if table is not None]


def _widths(table: Frame) -> list[str]:
    return [f"{p} bits" for p in table["p"].unique()]


JUDGES: dict[str, Judge] = {
    "T2.2": (_privacy, ("privacy",)),
    "L3.2": (_lemma("as printed"), ("lemma",)),
    "L3.2r": (_lemma("repaired"), ("lemma",)),
    "L3.3": (_points, ("points",)),
    "T2.3": (_accuracy, ("fail",)),
    "T2.3p": (_proof, ("fail",)),
    "T2.3m": (_few_points, ("n?", "f?")),
    "C2.4a": (_both_vanish, ("corollary",)),
    "C2.4b": (_mostly, ("corollary",)),
    "S2.4": (_enough_points, ("m",)),
    "S2.3": (_kappa_orders, ("kappa_pairs", "kappa?")),
    "S2.7": (_smaller_than_the_domain, ("kappa?", "fail?")),
    "S2.7b": (_slightly_larger, ("fail",)),
    "S4a": _as_good_as_real(PAPER),
    "S4b": _as_good_as_real(OURS),
    "P1": _better("auc", PAPER, INDEPENDENT),
    "P2": _better("tv2", PAPER, INDEPENDENT),
    "P3": _better("tv2", OURS, INDEPENDENT),
    "A1": _better("auc", OURS, PAPER),
    "A2": _better("tv2", OURS, PAPER),
    "A3": _better("mean_error", EXACT, PAPER),
    "A4": _better("mean_error", PARITIES, EXACT),
    "A5": _better("mean_error", TREE, PARITIES),
    "A6": (_less_noise, ("cells",)),
    "A7": (_floor, ("epsilon",)),
    "A8": (_no_floor, ("epsilon",)),
    "A9": _better("tv3", MAXENT, TREE),
    "A10": _better("auc", MAXENT, TREE),
    "A11": _better("mean_error", L1, TREE),
    "A12": _better("mean_error", GAUSSIAN, OURS),
    "A13": (_tighter, ("n?", "f?")),
    "A14": (_certificate, ("fail",)),
}


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    return claims.listed_verdicts(Path(__file__).with_name("claims.csv"), JUDGES, tables)


VERDICTS = Experiment(
    id="reduced_space_verdicts",
    paper="reduced_space",
    tables=verdicts,
    needs=tuple(f"reduced_space_{name}" for name in NAMES),
    title="The claims of the reduced-space paper",
)
