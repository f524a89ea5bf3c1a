"""The judges of the reduced-space paper's claims that need more than a test of ``claims.yaml``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.claims import Found
from marginalia.papers.reduced_space.reduced_space_fail import CERTIFICATE, STEPS
from marginalia.papers.reduced_space.runs import GAMMA
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value, welch
from marginalia.reporting.panels import rows_where

NAMES = ("privacy", "lemma", "points", "fail", "corollary", "n", "f", "m", "kappa", "cells", "epsilon")
MARGIN = 0.01  # of an equivalence, in the largest error of an average
WIDE = ("adult_bool20", "dutch_bool16")  # far more cells than points are drawn
TIGHTER = 4.0
DOMAIN = "30|F| draws exceed the 256 points of the domain, and 10|F| draws meet most of them"


def points_are_enough(points: Frame) -> Found:
    """Judge Lemma 3.3; the note says down to which share of its m it still holds in every cell."""
    whole = rows_where(points, share=1.0)
    held = (points["failures"] <= points["allowed"]).groupby(points["share"]).all()
    least = min(share for share in held.index if held[held.index >= share].all())
    return Found(
        whole["failures"] <= whole["allowed"], _sets(points["law"]), f"still in every cell with {least:g} of its m"
    )


def accuracy(fail: Frame) -> Found:
    """Judge Theorem 2.3 on its last step, the accuracy of 8δ."""
    step = rows_where(fail, step=STEPS[-1][1])
    note = _notes(f"largest error of all runs: {step['largest'].max():.2g} δ" if len(step) else "", _shown([step]))
    return Found(_seldom(step), _sets(fail["case"]), note)


def proof(fail: Frame) -> Found:
    """Judge every inequality on the way to 8δ; the note names those that fail."""
    before = [rows_where(fail, step=name) for _, name, *_ in STEPS[:-1]]
    failed = sorted({name for step in before if len(step) for name in step["step"][~_seldom(step)]})
    held = np.concatenate([_seldom(step) for step in before])
    return Found(held, _sets(fail["case"]), _notes("; ".join(failed), _shown(before)))


def few_points(n: Frame | None, f: Frame | None) -> Found:
    """Judge whether 8δ holds with fewer points, where an error can exceed it."""
    outside = [table for table in (n, f) if table is not None]
    telling = [_values(t, "bound") < _widest(t) for t in outside]
    held = [_values(t, "above_bound")[w] <= 4 * GAMMA for t, w in zip(outside, telling, strict=True)]
    return Found(np.concatenate(held), _bits_of(n, f), _empty(sum(int((~w).sum()) for w in telling)))


def both_vanish(corollary: Frame) -> Found:
    """Judge whether each step of n makes the mean error clearly smaller, and ε."""
    p: list[float] = []
    for _, own in corollary.sort_values("n").groupby("p"):
        error, stderr, n = (_values(own, column) for column in ("error", "error_stderr", "n_trials"))
        falls = p_value(error[:-1] - error[1:], *welch(stderr[:-1], n[:-1], stderr[1:], n[1:]))
        p += list(np.where(np.diff(own["epsilon"]) < 0, falls, 1.0))
    return Found(sets=_widths(corollary), p=p, level=CLEAR)


def mostly(corollary: Frame) -> Found:
    """Judge whether few runs exceed 8δ, where an error can exceed it."""
    seldom, empty = [], 0
    for _, own in corollary.sort_values("n").groupby("p"):
        telling = own["bound"] < 1  # monomials: an average lies in [0, 1]
        seldom += list((own["above_bound"] <= 4 * own["gamma"])[telling])
        empty += int((~telling).sum())
    return Found(seldom, _widths(corollary), _empty(empty))


def few_times_the_functions(points: Frame) -> Found:
    """Judge whether 3|F| and 10|F| points have the mean error of 30|F|; the note names those that have not."""
    some = points[points["times"].isin((3, 10))]
    excess, stderr, n = (_values(some, column) for column in ("excess", "excess_stderr", "n_trials"))
    p = p_value(excess, stderr, n - 1, "same", MARGIN)
    late = some[p > LEVEL]
    names = ", ".join(" ".join(map(str, row)) for row in late[["law", "times"]].itertuples(index=False))
    note = _notes(f"short: {names} |F|" if len(late) else "", DOMAIN if len(some) else "")
    return Found(sets=_sets(points["law"]), note=note, p=p, level=LEVEL)


def kappa_orders(pairs: Frame, kappa: Frame | None) -> Found:
    """Judge whether of two measures the one with the smaller κ is nearer; pairs without an order are left out."""
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


def smaller_than_the_domain(kappa: Frame | None, fail: Frame | None) -> Found:
    """Judge whether the theorem's number of points is smaller than the domain."""
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


def less_noise(noise: Frame) -> Found:
    """Judge whether the noise of a cell of a marginal is clearly smaller with parities (Welch's test)."""
    p = []
    for _, own in noise.groupby(["p", "order", "cell"]):
        a, b = (rows_where(own, arm=f"{kind}, exact noise").iloc[0] for kind in ("parities", "monomials"))
        spread = welch(a["error_stderr"], a["n_trials"], b["error_stderr"], b["n_trials"])
        p.append(float(p_value(b["error"] - a["error"], *spread)))
    return Found(sets=_widths(noise), p=p, level=CLEAR)


def follows_the_noise(means: Frame, *, arm: str, follows: bool) -> Found:
    """Judge on wide tables whether the largest error shrinks with ε at half the rate of the noise or faster, or not."""
    finite = means.loc[np.isfinite(means["epsilon"]), "epsilon"]
    low, high = (
        rows_where(means, arm=arm, epsilon=epsilon).set_index("dataset")["max_error"].filter(WIDE)
        for epsilon in (finite.min(), finite.max())
    )
    return Found((high <= 2 * finite.min() / finite.max() * low).to_numpy() == follows, WIDE)


def tighter(n: Frame | None, f: Frame | None) -> Found:
    """Judge whether the certificate is a quarter of 8δ and of the largest possible error."""
    known = [table for table in (n, f) if table is not None]
    held = [TIGHTER * _values(t, "certificate") <= np.minimum(_values(t, "bound"), _widest(t)) for t in known]
    return Found(np.concatenate(held), _bits_of(n, f))


def certificate(fail: Frame) -> Found:
    """Judge whether the certificate fails no more often than it says."""
    step = rows_where(fail, step=CERTIFICATE)
    return Found(_seldom(step), _sets(fail["case"]), _shown([step]))


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


JUDGES = (
    points_are_enough, accuracy, proof, few_points, both_vanish, mostly, few_times_the_functions, kappa_orders,
    smaller_than_the_domain, less_noise, follows_the_noise, tighter, certificate,
)  # fmt: skip


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    return claims.verdicts(Path(__file__).with_name("claims.yaml"), JUDGES, tables, studies=NAMES)


VERDICTS = Experiment(
    id="reduced_space_verdicts",
    paper="reduced_space",
    tables=verdicts,
    needs=tuple(f"reduced_space_{name}" for name in NAMES),
    title="The claims of the reduced-space paper",
)
