"""The judges of the statements of Zhou et al. that need more than a test of ``claims.yaml``."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.claims import Found, Names
from marginalia.papers.excess_risk.runs import LABELS
from marginalia.reporting.pairwise import CLEAR, p_value, welch
from marginalia.reporting.panels import rows_where

NAMES = ("datasets", "fig1", "table2", "table2_strict", "f4", "f5", "errata", "th1", "th2", "s2")


def _found(cells: Any, of: Any, note: str) -> Found:
    """Return in which cells a claim held; `of` is the data sets, or a table that has them."""
    return Found(np.asarray(cells, dtype=bool), _sets(of), note)


def _sets(of: Any) -> list[str]:
    names = {str(name).split("@")[0] for name in (of if isinstance(of, list) else of.get("dataset", ()))}
    return [name for name in LABELS if name in names]


def _count(cells: Iterable[Any]) -> str:
    cells = [bool(cell) for cell in cells]
    return f"{sum(cells)} of {len(cells)}"


def bounded(verdict: Frame, th1: Frame, *, bound: str) -> Found:
    """Judge in each synthetic set whether its excess risk is at most a bound."""
    rows = verdict[verdict["bound"] == bound]
    cells = [i < held for held, n in zip(rows["holds"], rows["n"], strict=True) for i in range(n)]
    useful = int(rows["below_trivial"].sum())
    return _found(cells, th1, f"says something (is below 1, the largest excess there is) in {useful} of {len(cells)}")


def surpassed(excess: Frame, sizes: Frame, th1: Frame | None) -> Found:
    """Judge whether the mean excess risk at ε = 2 is below 1/ln³ n."""
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


def lemma33(errata: Frame) -> Found:
    """Judge Lemma 3.3 where its formula is proved; the note names where it fails."""
    rows = errata[errata["quantity"] == "epsilon of Lemma 3.3's noise"]
    held, proved = rows["found"] <= rows["claimed"] * 1.0001, rows["claimed"] <= 1
    where = rows["where"].str.split(", delta").str[0]
    fails, beyond = (list(dict.fromkeys(where[~held & at])) for at in (proved, ~proved))
    also = [w for w in beyond if w not in fails]
    notes = [f"fails at {'; '.join(fails)}"] if fails else []
    notes += [f"beyond ε = 1, for which its formula is not proved, also at {'; '.join(also)}"] if also else []
    return _found(held[proved], [], "; ".join(notes))


def theorem41(th2: Frame, errata: Frame) -> Found:
    """Judge Theorem 4.1 on its surrogate instance; the note has the least n of its own instance."""
    rows = th2[th2["d"] <= 3]
    least: Any = errata.set_index(["quantity", "where"]).loc[("least log10(n) of Theorem 4.1", "d = 1"), "found"]
    return _found(rows["above"], [], f"the theorem's own instance needs 10^{least:.0f} records for d = 1")


def theorem41_loss(errata: Frame) -> Found:
    """Judge both constants of the loss of Theorem 4.1."""
    rows = errata[errata["flaw"] == "F10c"].set_index("quantity")
    lipschitz, convex = rows.loc["Lipschitz constant"], rows.loc["strong convexity"]
    held = [lipschitz["found"] <= 1.001 * lipschitz["claimed"], convex["found"] >= 0.999 * convex["claimed"]]
    return _found(held, [], f"strong convexity is {convex['ratio']:.2f} of the claimed; the rate stays")


def falls(degrees: Frame, *, along: str) -> Found:
    """Judge each step of the degree or of the iterations, of each method: the largest error falls."""
    keys = ["method", "iterations"] if along == "degree" else ["degree"]
    rows = degrees.fillna({"iterations": 0}) if along == "degree" else degrees.query("method == 'iterated_bernstein'")
    return _found(rows.sort_values(along).groupby(keys)["max_error"].diff().dropna() < 0, [], "")


def beats_the_minimax(degrees: Frame) -> Found:
    """Judge whether nine iterations have a smaller error than the minimax polynomial of the same degree."""
    best, nine = (
        degrees.query(which).set_index("degree")["max_error"] for which in ("method == 'minimax'", "iterations == 9")
    )
    return _found(nine < best, [], "impossible: no polynomial beats the minimax one, and the printed one is not it")


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


def trend(compared: Frame, *, metric: str, rises: bool) -> Found:
    """Judge each step of ε of each data set: the mean of a metric does not go the wrong way."""
    lines, sign = _cells(compared, metric), 1 if rises else -1
    note = f"{_beyond_noise(lines, 'mean', sign)}; the paper's own table: {_count(_steps(lines, 'reported', sign))}"
    return _found(_steps(lines, "mean", sign), lines, note)


def marginal_error_falls(errors: Frame) -> Found:
    """Judge each step of ε of each data set: the mean marginal error does not grow."""
    rows = errors.sort_values(["dataset", "epsilon"])
    note = f"{_beyond_noise(rows, 'marginal_error', -1)}; measured: half of the L1 distance that the paper defines"
    return _found(_steps(rows, "marginal_error", -1), rows, note)


def heart_lowest(compared: Frame) -> Found:
    """Judge at each ε whether Heart has the lowest mean accuracy."""

    def lowest(column: str) -> list[bool]:
        wide = rows.pivot(index="epsilon", columns="dataset", values=column)
        return [name == "heart" for name in wide.dropna(how="all").idxmin(axis=1)]

    rows = _cells(compared, "accuracy")
    return _found(lowest("mean"), rows, f"the paper's own table: {_count(lowest('reported'))}")


def same_budgets(f4: Frame) -> Found:
    """Judge whether the certified ε of each run as published is within 1 % of the nominal one."""
    rows = f4[(f4["variant"] == "published") & (f4["inputs"] == "codes")]
    ratio = rows["epsilon_spent"] / rows["epsilon"]
    spent = ratio.groupby(rows["method"]).agg(["min", "max"])
    note = "; ".join(f"{name}: {low:.2f} to {high:.2f} of ε" for name, low, high in spent.itertuples())
    return _found((ratio - 1).abs() < 0.01, rows, f"AIM spends all of it; {note}; δ differs too")


def weak(pairs: Frame) -> Found:
    """Judge on Heart and Dutch whether AIM is clearly better than DP-SGD, as published."""

    def p_better(**arms: str) -> Any:
        rows = rows_where(pairs, method="dp_sgd", **arms)
        rows = rows[rows["dataset"].isin(["heart", "dutch"])]
        return p_value(rows["difference"], rows["stderr"], rows["n"] - 1)

    equal = _count(p_better(aim="all_rows", inputs="one_hot", variant="tight") <= CLEAR)
    p = p_better(aim="as_published", inputs="codes", variant="published")
    return Found(sets=_sets(["heart", "dutch"]), note=f"on equal terms: {equal}", p=p, level=CLEAR)


JUDGES = (
    bounded, surpassed, lemma33, theorem41, theorem41_loss, falls, beats_the_minimax, trend, marginal_error_falls,
    heart_lowest, same_budgets, weak,
)  # fmt: skip


def _at_2(excess: Frame, strict: Frame | None) -> Frame:
    """Return the losses at ε = 2, and beside them those with the test rows held out, where these were run."""
    rows = excess[excess["epsilon"].astype(float) == 2].set_index("dataset")
    for loss, metric in (("accuracy_drop", "accuracy"), ("excess_risk", "empirical_risk")):
        rows[f"held_out_{loss}"] = np.nan
        if strict is not None:
            own = strict[(strict["epsilon"].astype(str) == "2") & (strict["metric"] == metric)]
            rows[f"held_out_{loss}"] = own.set_index("dataset")["lost"]
    return rows.reset_index()


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    if (excess := tables.get("excess_risk_table2_excess")) is not None:
        tables = {**tables, "at_2": _at_2(excess, tables.get("excess_risk_table2_strict"))}
    path = Path(__file__).with_name("claims.yaml")
    names = Names(title=lambda name: LABELS.get(name, name), listed=_sets)
    return claims.verdicts(path, JUDGES, tables, studies=(*NAMES, "c3", "at_2"), names=names)


VERDICTS = Experiment(
    id="excess_risk_verdicts",
    title="What the paper claims, and what came out",
    paper="excess_risk",
    tables=verdicts,
    needs=tuple(f"excess_risk_{name}" for name in NAMES),
)
