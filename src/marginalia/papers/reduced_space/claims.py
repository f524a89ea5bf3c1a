"""The claims of the reduced-space paper and of our additions to it, each with the cells in which it held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from marginalia.papers.card import Comparison, Frame, Record
from marginalia.papers.reduced_space.epsilon_tables import (
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
)  # fmt: skip
from marginalia.papers.reduced_space.fail_guarantees import CERTIFICATE, STEPS
from marginalia.papers.reduced_space.runs import GAMMA
from marginalia.papers.rows import as_frame
from marginalia.reporting.panels import rows_where
from marginalia.reporting.verdicts import claim_row, equivalence_of

NEEDS = tuple(f"reduced_space_{card}" for card in ("privacy", "lemma", "points", "fail", "corollary", "n", "f", "m",
                                                   "kappa", "cells", "epsilon"))  # fmt: skip
LEVEL = 0.05  # of each family of binomial tests, Bonferroni over its cells
SURE = 2.0  # standard errors
MARGIN = 0.01  # of an equivalence, in AUC or in the largest error of an average
WIDE = ("adult_bool20", "dutch_bool16")  # far more cells than points are drawn
TIGHTER = 4.0
SLIGHTLY = 10.0
DOMAIN = "30|F| draws exceed the 256 points of the domain, and 10|F| draws meet most of them"
OUR_OWN = "our addition"


@as_frame
def verdicts(records: Frame, tables: Mapping[str, Frame]) -> Iterator[Record]:
    """Judge every claim whose tables are there; the others stand as not tested."""
    # A table that is missing has no rows, so that its claims have no cells.
    of = {name.removeprefix("reduced_space_"): table for name, table in tables.items()}
    yield from _theory(of)
    yield from _real(of)
    yield from _additions(of)


def _theory(of: Mapping[str, Frame]) -> Iterator[Record]:
    share = _column(of, "privacy", "share")
    yield claim_row(
        "T2.2", place="Theorem 2.2", claim="Noise of scale 2|F|/(nε) on every average makes Algorithm 1 ε-DP",
        test="over all pairs of records, n times the averages move by at most 2|F| in 1-norm",
        cells=share <= 1, sets=_sets(of, "privacy", "family"),
        note=f"the largest move is {share.max():.2f} of it" if share.size else "",
    )  # fmt: skip
    for identity, place, lemma in (("L3.2", "Lemma 3.2", "as printed"), ("L3.2r", "Lemma 3.2, repaired", "repaired")):
        own = _where(of, "lemma", lemma=lemma)
        short = own[own["failure"] > own["allowed"]] if len(own) else own
        yield claim_row(
            identity, place=place, claim="With n ≥ log(|F|/γ)/δ² records the averages err by more than δ with "
            "probability at most γ" if lemma == "as printed" else "So they do with Hoeffding's 2 log(2|F|/γ)/δ²",
            test="exact failure probability of fair bits at most γ", cells=_at_most(own, "failure", "allowed"),
            sets=sorted(set(own["values"])) if len(own) else (),
            note=f"fails for functions with values {', '.join(sorted(set(short['values'])))}" if len(short) else "",
        )  # fmt: skip
    whole = _where(of, "points", share=1.0)
    yield claim_row(
        "L3.3", place="Lemma 3.3", claim="m ≥ K|F|/(γδ²) points carry the population's averages to δ with "
        "probability 1 - γ", test="share of failing runs at most γ at the lemma's m",
        cells=_at_most(whole, "failures", "allowed"), sets=_sets(of, "points", "law"), note=_spare(of),
    )  # fmt: skip
    yield claim_row(
        "T2.3", place="Theorem 2.3", claim="Inside its hypothesis the synthetic data are 8δ-accurate with probability "
        "1 - 4γ", test="failing runs do not exceed 4γ (binomial test)", cells=_seldom(_step(of, STEPS[-1][1])),
        sets=_sets(of, "fail", "case"),
        note=_worst(_step(of, STEPS[-1][1])) + _shown([_step(of, STEPS[-1][1])]),
    )  # fmt: skip
    before = [_step(of, name) for _, name, *_ in STEPS[:-1]]
    yield claim_row(
        "T2.3p", place="Section 3.2, the proof", claim="Every inequality on the way to 8δ holds as often as "
        "the proof says",
        test="failing runs of each step do not exceed its share of γ (binomial test)",
        cells=np.concatenate([_seldom(step) for step in before]), sets=_sets(of, "fail", "case"),
        note="; ".join(sorted({name for step in before if len(step) for name in step["step"][~_seldom(step)]}))
        + _shown(before),
    )  # fmt: skip
    outside = [_table(of, name) for name in ("n", "f")]
    told = [_values(t, "bound") < _widest(t) for t in outside]
    yield claim_row(
        "T2.3m", place="Theorem 2.3, with fewer points than it asks", claim="8δ holds with probability 1 - 4γ",
        test="failing runs at most 4γ, where 8δ is less than the largest error there can be",
        cells=np.concatenate([_values(t, "above_bound")[w] <= 4 * GAMMA for t, w in zip(outside, told, strict=True)]),
        sets=_sets_of(outside), note=_empty(sum(int((~w).sum()) for w in told)),
    )  # fmt: skip
    yield from _corollary(_table(of, "corollary"))


def _corollary(table: Frame) -> Iterator[Record]:
    fall, seldom, empty = [], [], 0
    for _, own in table.sort_values("n").groupby("p") if len(table) else ():
        error, stderr = own["error"].to_numpy(), own["error_stderr"].to_numpy()
        drop, width = error[:-1] - error[1:], np.hypot(stderr[:-1], stderr[1:])
        fall += list((drop > SURE * width) & (np.diff(own["epsilon"]) < 0))
        told = own["bound"] < 1  # monomials: an average lies in [0, 1]
        seldom += list((own["above_bound"] <= 4 * own["gamma"])[told])
        empty += int((~told).sum())
    sets = [f"{p} bits" for p in table["p"].unique()] if len(table) else []
    yield claim_row(
        "C2.4a", place="Corollary 2.4", claim="With n ≫ N log N records accuracy and privacy both vanish",
        test="at every step of n the mean error falls by more than two standard errors, and so does ε = δ",
        cells=fall, sets=sets, note="",
    )  # fmt: skip
    yield claim_row(
        "C2.4b", place="Corollary 2.4", claim="… with probability 1 - o(1)", test="8δ exceeded in at most 4γ of the "
        "runs, γ = 1/ln n, where 8δ < 1", cells=seldom, sets=sets, note=_empty(empty),
    )  # fmt: skip


def _real(of: Mapping[str, Frame]) -> Iterator[Record]:
    points = _table(of, "m")
    some = points[points["times"].isin((3, 10))] if len(points) else points
    enough = _same(some, "excess", "excess_stderr", MARGIN)
    late = some[~enough]
    yield claim_row(
        "S2.4", place="Section 2.4", claim="A reduced space of the order of |F| points is enough",
        test="with 3|F| and 10|F| points the mean error is "
        f"that of 30|F| to ±{MARGIN:g} (paired, two one-sided tests)", cells=enough,
        sets=_sets(of, "m", "law"),
        note=(f"short: {_cells(late, 'law', 'times')} |F|; " if len(late) else "") + (DOMAIN if len(some) else ""),
    )  # fmt: skip
    pairs = _table(of, "kappa_pairs")
    told = pairs[pairs["order"] != "tied"] if len(pairs) else pairs
    turned = told[told["order"] == "reversed"] if len(told) else told
    noisy = int((told["order"] == "reversed by noise").sum()) if len(told) else 0
    sure = int((told["difference"] > SURE * told["difference_stderr"]).sum()) if len(told) else 0
    yield claim_row(
        "S2.3", place="Section 2.3", claim="The smaller κ of a sampling measure, the better its points",
        test="of two measures the one with the smaller κ leaves the smaller distance to the data's averages",
        cells=(told["order"] == "kept").to_numpy() if len(told) else [], sets=_sets(of, "kappa", "dataset"),
        note=f"kept beyond two standard errors: {sure}; reversed: {noisy} within, {len(turned)} beyond; "
        f"{len(pairs) - len(told)} ties left out" if len(told) else "",
    )  # fmt: skip
    asked = _where(of, "kappa", measure="uniform").drop_duplicates("dataset") if "kappa" in of else _table(of, "kappa")
    known = _table(of, "fail").drop_duplicates("case") if "fail" in of else _table(of, "fail")
    fewer = [*(asked["asked"] < asked["cells"])] if len(asked) else []
    times = known["m"] / known["n_functions"] if len(known) else known
    yield claim_row(
        "S2.7", place="Section 2.7", claim="The method works in a reduced space, not on the entire domain",
        test="the m of Theorem 2.3 (uniform points, ε = 1) is smaller than the whole domain",
        cells=[*fewer, *(known["m"] < 2.0 ** known["case"].map(_bits))] if len(known) else fewer,
        sets=[*_sets(of, "kappa", "dataset"), *_sets(of, "fail", "case")],
    )  # fmt: skip
    yield claim_row(
        "S2.7b", place="Section 2.7", claim="By Theorem 2.3 its size is slightly larger than |F|",
        test=f"the theorem's m is at most {SLIGHTLY:g}|F|, its smallest here",
        cells=times <= SLIGHTLY if len(known) else [], sets=_sets(of, "fail", "case"),
        note=f"{times.min():,.0f} to {times.max():,.0f} |F|: the factor κ/(γδ²) is not slight" if len(known) else "",
    )  # fmt: skip
    for identity, arm in (("S4a", PAPER), ("S4b", OURS)):
        own = _where(of, "epsilon_auc", arm=arm)
        same = _same(own, "lost", "lost_stderr", MARGIN)
        yield claim_row(
            identity, place="Section 4, open question", claim="Linear statistics of pairs are enough for a "
            f"classifier ({arm})",
            test=f"AUC equals that of the real rows to ±{MARGIN:g} (two one-sided tests)", cells=same,
            sets=_sets(of, "epsilon", "dataset"),
        )  # fmt: skip
    for identity, arm, metric, what in (
        ("P1", PAPER, "auc", "AUC"), ("P2", PAPER, "tv2", "total variation of pairs"),
        ("P3", OURS, "tv2", "total variation of pairs"),
    ):  # fmt: skip
        yield _better(of, identity, "Section 2.2, usefulness", metric, what, arm, INDEPENDENT)


def _additions(of: Mapping[str, Frame]) -> Iterator[Record]:
    yield _better(of, "A1", OUR_OWN, "auc", "AUC", OURS, PAPER)
    yield _better(of, "A2", OUR_OWN, "tv2", "total variation of pairs", OURS, PAPER)
    yield _better(of, "A3", OUR_OWN, "mean_error", "mean error of a cell", EXACT, PAPER)
    yield _better(of, "A4", OUR_OWN, "mean_error", "mean error of a cell", PARITIES, EXACT)
    yield _better(of, "A5", OUR_OWN, "mean_error", "mean error of a cell", TREE, PARITIES)
    noise = _table(of, "cells")
    less = []
    for _, own in noise.groupby(["p", "order", "cell"]) if len(noise) else ():
        a, b = (rows_where(own, arm=f"{kind}, exact noise").iloc[0] for kind in ("parities", "monomials"))
        less.append(b["error"] - a["error"] > SURE * np.hypot(a["error_stderr"], b["error_stderr"]))
    yield claim_row(
        "A6", place=OUR_OWN, claim="Parities put less noise on every cell of a marginal than monomials",
        test="root mean square error, more than two standard errors", cells=less,
        sets=[f"{p} bits" for p in noise["p"].unique()] if len(noise) else [],
    )  # fmt: skip
    means = _table(of, "epsilon")
    for identity, arm, claim in (("A7", PARITIES, "Uniform points leave an error that no ε removes"),
                                 ("A8", TREE, "Points from the released tree leave none")):  # fmt: skip
        yield claim_row(
            identity, place=OUR_OWN, claim=claim, test="from the smallest to the largest ε the largest error of a cell "
            + ("does not shrink" if arm == PARITIES else "shrinks") + " by at least half as much as the noise",
            cells=_follows(means, arm) != (arm == PARITIES), sets=WIDE if len(means) else (),
        )  # fmt: skip
    yield _better(of, "A9", OUR_OWN, "tv3", "total variation of triples", MAXENT, TREE)
    yield _better(of, "A10", OUR_OWN, "auc", "AUC", MAXENT, TREE)
    yield _better(of, "A11", OUR_OWN, "mean_error", "mean error of a cell", L1, TREE)
    yield _better(of, "A12", OUR_OWN, "mean_error", "mean error of a cell", GAUSSIAN, OURS)
    known = [_table(of, name) for name in ("n", "f")]
    yield claim_row(
        "A13", place=OUR_OWN, claim="The certificate is at least four times tighter than 8δ",
        test="mean certificate at most a quarter of 8δ, or of the largest error there can be if that is less",
        sets=_sets_of(known),
        cells=np.concatenate([TIGHTER * _values(t, "certificate") <= np.minimum(_values(t, "bound"), _widest(t))
                              for t in known]),
    )  # fmt: skip
    yield claim_row(
        "A14", place=OUR_OWN, claim="The certificate fails with probability at most γ",
        test="failing runs do not exceed γ (binomial test)", cells=_seldom(_step(of, CERTIFICATE)),
        sets=_sets(of, "fail", "case"), note=_shown([_step(of, CERTIFICATE)]).removeprefix("; "),
    )  # fmt: skip


def _better(
    of: Mapping[str, Frame], identity: str, place: str, metric: str, what: str, arm: str, against: str
) -> Record:
    """Judge whether an arm beats another in every table and ε: paired difference beyond two standard errors."""
    assert (metric, arm, against) in COMPARED
    own = _where(of, "epsilon_pairs", metric=metric, arm=arm, against=against)
    gain = (1 if metric == "auc" else -1) * _values(own, "difference")
    sure = SURE * _values(own, "difference_stderr")
    worse = int((gain < -sure).sum())
    return claim_row(
        identity, place=place, claim=f"{arm} beats {against} in {what}",
        test="paired difference over splits beyond two standard errors, a cell a table and ε", cells=gain > sure,
        sets=dict.fromkeys(own["dataset"]) if len(own) else (), note=f"worse in {worse}" if worse else "",
    )  # fmt: skip


def _same(rows: Frame, mean: str, stderr: str, margin: float) -> Any:
    """Return for each row whether its paired difference lies within the margin (two one-sided tests)."""
    values = zip(*(_values(rows, column) for column in (mean, stderr, "n_trials")), strict=True)
    return np.array([equivalence_of(m, s, n - 1, margin).equivalent for m, s, n in values], dtype=bool)


def _follows(means: Frame, arm: str) -> Any:
    """Return for each wide table whether the largest error shrinks with ε, at half the rate of the noise or faster."""
    if not len(means):
        return np.zeros(0, dtype=bool)
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


def _widest(table: Frame) -> Any:
    """Return the largest error that an average can have: 1 of functions 0 or 1, 2 of functions ±1."""
    return np.where(table["arm"].str.startswith("parities"), 2.0, 1.0) if len(table) else np.zeros(0)


def _empty(left_out: int) -> str:
    return f"{left_out} cells left out, where 8δ is more than any error can be" if left_out else ""


def _sets_of(tables: list[Frame]) -> list[str]:
    return [name for name, table in zip(("8 bits", "6 to 12 bits"), tables, strict=True) if len(table)]


def _spare(of: Mapping[str, Frame]) -> str:
    """Say down to which share of the lemma's m it still holds in every cell."""
    points = _table(of, "points")
    if not len(points):
        return ""
    held = (points["failures"] <= points["allowed"]).groupby(points["share"]).all()
    return (
        f"still in every cell with {min(share for share in held.index if held[held.index >= share].all()):g} of its m"
    )


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
    return f"; {shown} of {cells} shown by the upper 95 % limit of the failures" if cells else ""


def _worst(steps: Frame) -> str:
    return f"largest error of all runs: {steps['largest'].max():.2g} δ" if len(steps) else ""


def _step(of: Mapping[str, Frame], name: str) -> Frame:
    return _where(of, "fail", step=name)


def _bits(case: str) -> int:
    return int(case.split()[0])


def _cells(rows: Frame, *columns: str) -> str:
    return ", ".join(" ".join(map(str, row)) for row in rows[list(columns)].itertuples(index=False))


def _table(of: Mapping[str, Frame], name: str) -> Frame:
    from pandas import DataFrame

    return of.get(name, DataFrame())


def _where(of: Mapping[str, Frame], name: str, **values: Any) -> Frame:
    table = _table(of, name)
    return rows_where(table, **values) if len(table) else table


def _values(table: Frame, column: str) -> Any:
    return table[column].to_numpy(dtype=float) if len(table) else np.zeros(0)


def _column(of: Mapping[str, Frame], name: str, column: str) -> Any:
    return _values(_table(of, name), column)


def _at_most(table: Frame, column: str, limit: str) -> Any:
    return _values(table, column) <= _values(table, limit)


def _sets(of: Mapping[str, Frame], name: str, column: str) -> list[str]:
    return list(dict.fromkeys(_table(of, name)[column])) if name in of else []


VERDICTS = Comparison(
    id="reduced_space_verdicts", paper="reduced_space", table=verdicts, needs=NEEDS,
    title="The claims of the reduced-space paper",
)  # fmt: skip
