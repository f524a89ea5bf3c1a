"""What judges the statements of Zhou et al. (``claims.csv``) on the sets that were run.

Where the paper's own table decides a claim too, the note says how often it holds there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.claims import Found, Judge
from marginalia.papers.excess_risk.excess_risk_f4 import MARGIN
from marginalia.papers.excess_risk.excess_risk_table2 import LIMIT
from marginalia.papers.excess_risk.runs import LABELS
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value, smallest_margin, welch

NAMES = ("datasets", "fig1", "table2", "table2_strict", "f4", "f5", "errata", "th1", "th2", "s2")
SMALL = 1e-9


def _found(cells: Any, of: Any, note: str) -> Found:
    """Return in which cells a claim held; `of` is the data sets, or a table that has them."""
    return Found(np.asarray(cells, dtype=bool), _sets(of), note)


def _by_test(p: Any, level: float, of: Any, note: str) -> Found:
    """Return what a test at a level found, by its p-value in each cell."""
    return Found(sets=_sets(of), note=note, p=np.asarray(p, dtype=float), level=level)


def _sets(of: Any) -> list[str]:
    names = {str(name).split("@")[0] for name in (of if isinstance(of, list) else of.get("dataset", ()))}
    return [name for name in LABELS if name in names]


def _count(cells: Iterable[Any]) -> str:
    cells = [bool(cell) for cell in cells]
    return f"{sum(cells)} of {len(cells)}"


def _bound(bound: str, verdict: Frame, th1: Frame) -> Found:
    rows = verdict[verdict["bound"] == bound]
    cells = [i < held for held, n in zip(rows["holds"], rows["n"], strict=True) for i in range(n)]
    useful = int(rows["below_trivial"].sum())
    return _found(cells, th1, f"says something (is below 1, the largest excess there is) in {useful} of {len(cells)}")


def _surpassed(excess: Frame, sizes: Frame, th1: Frame | None) -> Found:
    rows = excess[excess["epsilon"].astype(float) == 2].set_index("dataset")
    n = sizes.set_index("dataset")["instances"]

    def below(values: Any) -> list[bool]:
        return [value < math.log(n[name]) ** -3 for name, value in values.items() if name in n]

    note = f"the paper's own table: {_count(below(rows['reported_excess']))}"
    if th1 is not None:
        bounded = th1.groupby("dataset")["excess"].first()  # the same at every d
        note += f"; models of bounded norm, as in its theory, at ε = 1: {_count(below(bounded))}"
    sets = [name for name in rows.index if name in n]
    return _found(below(rows["excess_risk"]), sets, f"{note}; the lower bound is for one distribution")


def _lemma33(errata: Frame) -> Found:
    rows = errata[errata["quantity"] == "epsilon of Lemma 3.3's noise"]
    held, proved = rows["found"] <= rows["claimed"] * 1.0001, rows["claimed"] <= 1
    where = rows["where"].str.split(", delta").str[0]
    fails, beyond = (list(dict.fromkeys(where[~held & at])) for at in (proved, ~proved))
    also = [w for w in beyond if w not in fails]
    notes = [f"fails at {'; '.join(fails)}"] if fails else []
    notes += [f"beyond ε = 1, for which its formula is not proved, also at {'; '.join(also)}"] if also else []
    return _found(held[proved], [], "; ".join(notes))


def _lemma34(s2: Frame) -> Found:
    rows = s2[s2["calibration"] == "published"]
    outside = round(float((rows["violated"] * rows["trials"]).sum()))
    return _found(
        rows["violated"] <= rows["allowed"], [], f"{outside} of {rows['trials'].sum()} runs outside: very wide"
    )


def _cited(statement: str, cited: Frame) -> Found:
    rows = cited[cited["statement"] == statement]
    return _found(rows["found"] <= rows["bound"] * (1 + SMALL), [], "")


def _theorem41(th2: Frame, errata: Frame) -> Found:
    rows = th2[th2["d"] <= 3]
    least: Any = errata.set_index(["quantity", "where"]).loc[("least log10(n) of Theorem 4.1", "d = 1"), "found"]
    return _found(rows["above"], [], f"the theorem's own instance needs 10^{least:.0f} records for d = 1")


def _theorem41_loss(errata: Frame) -> Found:
    rows = errata[errata["flaw"] == "F10c"].set_index("quantity")
    lipschitz, convex = rows.loc["Lipschitz constant"], rows.loc["strong convexity"]
    held = [lipschitz["found"] <= 1.001 * lipschitz["claimed"], convex["found"] >= 0.999 * convex["claimed"]]
    return _found(held, [], f"strong convexity is {convex['ratio']:.2f} of the claimed; the rate stays")


def _printed_polynomials(method: str, compared: Frame) -> Found:
    rows = compared[compared["method"] == method]
    return _found(rows["agrees"], [], "")


def _degree(degrees: Frame) -> Found:
    rows = degrees.fillna({"iterations": 0}).sort_values("degree")
    return _found(rows.groupby(["method", "iterations"])["max_error"].diff().dropna() < 0, [], "")


def _iterations(degrees: Frame) -> Found:
    rows = degrees.query("method == 'iterated_bernstein'").sort_values("iterations")
    return _found(rows.groupby("degree")["max_error"].diff().dropna() < 0, [], "")


def _best(degrees: Frame) -> Found:
    best, nine = (
        degrees.query(which).set_index("degree")["max_error"] for which in ("method == 'minimax'", "iterations == 9")
    )
    return _found(nine < best, [], "impossible: no polynomial beats the minimax one, and the printed one is not it")


def _table1(compared: Frame) -> Found:
    return _found(compared["agrees"], compared, "Churn: the paper counts the training rows")


def _preprocessing(sets: Frame) -> Found:
    return _found(~sets["codes_are_ranks"].astype(bool), sets, "codes are ranks of the private values, in every column")


def _theorem_c1(rows: Frame) -> Found:
    note = (
        f"spends up to {rows['ratio'].max():.2f} times ε; private for an added or removed record, which the code counts"
    )
    return _found(rows["measurements_alone"] <= rows["epsilon"], rows, note)


def _values(compared: Frame) -> Found:
    published = compared.dropna(subset=["reported"])
    return _found(published["z"].abs() <= LIMIT, published, "the cells apart are listed below")


def _cells(compared: Frame, metric: str) -> Frame:
    rows = compared[(compared["epsilon"] != "real") & (compared["metric"] == metric)]
    return rows.assign(at=rows["epsilon"].astype(float)).sort_values(["dataset", "at"])


def _steps(lines: Frame, column: str, sign: int) -> list[bool]:
    """Return for each step of epsilon of a data set whether sign times `column` does not fall."""
    step = sign * lines.groupby("dataset")[column].diff()
    return [bool(held) for held in (step >= 0)[step.notna()]]


def _beyond_noise(lines: Frame, column: str, sign: int) -> str:
    """Say how many steps go clearly the wrong way, and how many sets gain from the first epsilon to the last."""
    groups = lines.groupby("dataset")
    before = groups[[column, "stderr", "n"]].shift()
    steps = (p_value(-sign * (lines[column] - before[column]), *_apart(lines, before)) <= CLEAR).sum()
    first, last = groups.first(), groups.last()
    better = _count(p_value(sign * (last[column] - first[column]), *_apart(first, last)) <= CLEAR)
    return f"clearly (Welch's test): wrong steps {steps}, better at the last ε than at the first {better}"


def _apart(first: Frame, second: Frame) -> tuple[Any, Any]:
    return welch(first["stderr"], first["n"], second["stderr"], second["n"])


def _trend(metric: str, sign: int, compared: Frame) -> Found:
    lines = _cells(compared, metric)
    note = f"{_beyond_noise(lines, 'mean', sign)}; the paper's own table: {_count(_steps(lines, 'reported', sign))}"
    return _found(_steps(lines, "mean", sign), lines, note)


def _marginal_error(errors: Frame) -> Found:
    rows = errors.sort_values(["dataset", "epsilon"])
    note = f"{_beyond_noise(rows, 'marginal_error', -1)}; measured: half of the L1 distance that the paper defines"
    return _found(_steps(rows, "marginal_error", -1), rows, note)


def _average(errors: Frame) -> Found:
    note = "Theorem C.3, cited for it, bounds each marginal apart"
    return _found(errors["marginal_error_max"] <= errors["marginal_error"], errors, note)


def _heart_lowest(compared: Frame) -> Found:
    def lowest(column: str) -> list[bool]:
        wide = rows.pivot(index="epsilon", columns="dataset", values=column)
        return [name == "heart" for name in wide.dropna(how="all").idxmin(axis=1)]

    rows = _cells(compared, "accuracy")
    return _found(lowest("mean"), rows, f"the paper's own table: {_count(lowest('reported'))}")


def _at_most(
    column: str, theirs: str, metric: str, limit: float, sets: list[str], excess: Frame, strict: Frame | None
) -> Found:
    """A loss at epsilon 2: as published, in the paper's own table, and with the test rows held out."""
    rows = excess[excess["epsilon"].astype(float) == 2].set_index("dataset")
    rows = rows.loc[[name for name in sets if name in rows.index]]
    means = _count(rows[column] < limit)
    note = f"the mean alone: {means}; the paper's own table: {_count(rows[theirs] < limit - SMALL)}"
    if strict is not None:
        strict = strict[(strict["epsilon"].astype(str) == "2") & (strict["metric"] == metric)].set_index("dataset")
        held_out = strict["lost"].reindex(rows.index).dropna()
        note += f"; test rows unseen, public domain: {_count(held_out < limit)}"
    p = p_value(limit - rows[column], rows[f"{column}_stderr"], rows["n"] - 1)
    return _by_test(p, LEVEL, list(rows.index), note)


def _c3(form: str, remark: str, rows: Frame) -> Found:
    width = rows[f"{form}_bound"].median() / rows["distance"].median()
    vacuous = 100 * rows[f"{form}_vacuous"].mean()
    note = f"{width:.1f} times the true distance (medians); {vacuous:.0f} % of the bounds are 2 or more and say nothing"
    return _found(rows[f"{form}_all"] == 1, rows, f"{note}; {remark}" if remark else note)


def _as_well(aim: str, inputs: str, variant: str, method: str, pairs: Frame) -> Found:
    rows = _pairs(pairs, aim, inputs, variant, method)
    better, worse = (_count(rows[which]) for which in ("better", "worse"))
    beaten = [LABELS[name] for name in dict.fromkeys(rows["dataset"][rows["worse"].astype(bool)])]
    note = f"clearly better: {better}; worse: {worse}"
    return _by_test(rows["p_as_well"], LEVEL, rows, f"{note} ({', '.join(beaten)})" if beaten else note)


def _pairs(pairs: Frame, aim: str, inputs: str, variant: str, method: str) -> Frame:
    rows = pairs[(pairs["aim"] == aim) & (pairs["inputs"] == inputs)]
    return rows[(rows["variant"] == variant) & (rows["method"] == method)]


def _budgets(f4: Frame) -> Found:
    rows = f4[(f4["variant"] == "published") & (f4["inputs"] == "codes")]
    ratio = rows["epsilon_spent"] / rows["epsilon"]
    spent = ratio.groupby(rows["method"]).agg(["min", "max"])
    note = "; ".join(f"{name}: {low:.2f} to {high:.2f} of ε" for name, low, high in spent.itertuples())
    return _found((ratio - 1).abs() < 0.01, rows, f"AIM spends all of it; {note}; δ differs too")


def _weak(pairs: Frame) -> Found:
    def p_better(aim: str, inputs: str, variant: str) -> Any:
        rows = _pairs(pairs, aim, inputs, variant, "dp_sgd").set_index("dataset")["p_better"]
        return np.array([rows[name] for name in ("heart", "dutch") if name in rows.index])

    equal = _count(p_better("all_rows", "one_hot", "tight") <= CLEAR)
    return _by_test(
        p_better("as_published", "codes", "published"), CLEAR, ["heart", "dutch"], f"on equal terms: {equal}"
    )


def _targets(rows: Frame) -> Found:
    statistic = rows["difference"], rows["difference_stderr"], rows["n"] - 1
    bound = smallest_margin(*statistic).max()
    idle = rows["real"] < rows["majority"] + MARGIN
    note = f"all pass at {bound:.4f}; in {_count(idle)} real rows gain nothing over a constant"
    return _by_test(p_value(*statistic, "same", MARGIN), LEVEL, rows, note)


_OTHERS = [name for name in LABELS if name != "heart"]
_DROP, _RISK = ("accuracy_drop", "reported_drop", "accuracy"), ("excess_risk", "reported_excess", "empirical_risk")
_ARMS = {
    "published": ("as_published", "codes", "published"),
    "held_out": ("all_rows", "codes", "published"),
    "exact": ("all_rows", "codes", "tight"),
    "one_hot": ("all_rows", "one_hot", "published"),
    "equal_terms": ("all_rows", "one_hot", "tight"),
}
DEGREES, TABLE2, AT_2 = ("fig1_degrees",), ("table2",), ("table2_excess", "table2_strict?")
JUDGES: dict[str, Judge] = {
    **{f"cited_{name}": (partial(_cited, name), ("errata_cited",)) for name in ("2.3", "2.4", "B.2")},
    **{name: (partial(_bound, name), ("th1_verdict", "th1")) for name in ("thm31", "thm32", "cor35", "cor36")},
    "section4_surpassed": (_surpassed, ("table2_excess", "datasets", "th1?")),
    "lemma33": (_lemma33, ("errata",)),
    "lemma34": (_lemma34, ("s2",)),
    "theorem41": (_theorem41, ("th2", "errata")),
    "theorem41_loss": (_theorem41_loss, ("errata",)),
    "figure1_bernstein": (partial(_printed_polynomials, "iterated_bernstein"), ("comparison_fig1",)),
    "figure1_minimax": (partial(_printed_polynomials, "minimax"), ("comparison_fig1",)),
    "figure1_degree": (_degree, DEGREES),
    "figure1_iterations": (_iterations, DEGREES),
    "figure1_best": (_best, DEGREES),
    "table1": (_table1, ("comparison_datasets",)),
    "preprocessing": (_preprocessing, ("datasets",)),
    "theorem_c1": (_theorem_c1, ("errata_relation",)),
    "table2_values": (_values, TABLE2),
    "figure3_accuracy": (partial(_trend, "accuracy", 1), TABLE2),
    "figure3_roc_auc": (partial(_trend, "roc_auc", 1), TABLE2),
    "figure3_empirical_risk": (partial(_trend, "empirical_risk", -1), TABLE2),
    "figure2": (_marginal_error, ("table2_errors",)),
    "average_bounds_all": (_average, ("table2_errors",)),
    "heart_lowest": (_heart_lowest, TABLE2),
    "drop_below_1": (partial(_at_most, *_DROP, 0.01, _OTHERS), AT_2),
    "drop_at_most_22": (partial(_at_most, *_DROP, 0.022 + 2 * SMALL, list(LABELS)), AT_2),
    "risk_below_02": (partial(_at_most, *_RISK, 0.02, _OTHERS), AT_2),
    "heart_excess": (partial(_at_most, *_RISK, 0.032 + 2 * SMALL, ["heart"]), AT_2),
    "theorem_c3_printed": (
        partial(_c3, "printed", "a release does not tell the true marginal that it needs"),
        ("c3_fits",),
    ),
    "theorem_c3_noisy": (
        partial(_c3, "noisy", "the printed λ₁ term, without the weight, is not proved to do"),
        ("c3_fits",),
    ),
    "theorem_c3_weighted": (partial(_c3, "weighted", ""), ("c3_fits",)),
    **{
        f"figure4_{name}_{method}": (partial(_as_well, *arm, method), ("f4_pairs",))
        for name, arm in _ARMS.items()
        for method in ("dp_sgd", "pate")
    },
    "figure4_budgets": (_budgets, ("f4",)),
    "figure4_weak": (_weak, ("f4_pairs",)),
    "figure5": (_targets, ("f5",)),
}


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    return claims.listed_verdicts(Path(__file__).with_name("claims.csv"), JUDGES, tables)


VERDICTS = Experiment(
    id="excess_risk_verdicts",
    title="What the paper claims, and what came out",
    paper="excess_risk",
    tables=verdicts,
    needs=tuple(f"excess_risk_{name}" for name in NAMES),
)
