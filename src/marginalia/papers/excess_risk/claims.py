"""What Zhou et al. state and a run can test, judged on the sets that were run.

The statements, where they stand, and what is tested are in ``reported/excess_risk_claims.csv``. Where the paper's own
table decides a claim too, the note says how often it holds there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from marginalia.papers.card import Comparison, Frame
from marginalia.papers.excess_risk.c3_bound import ROWS as C3_FITS
from marginalia.papers.excess_risk.data import LABELS
from marginalia.papers.excess_risk.f4_methods import MARGIN
from marginalia.papers.excess_risk.fig1_polynomials import DEGREES
from marginalia.papers.excess_risk.table2 import ERRORS_TABLE, LIMIT
from marginalia.papers.reported import reported
from marginalia.reporting.verdicts import COLUMNS, claim_row, equivalence_of

Tables = Mapping[str, Frame]
Found = tuple[Any, Any, str]  # whether it held in each cell, the data sets (or a table that has them), a note
CARDS = ("datasets", "fig1", "table2", "table2_strict", "f4", "f5", "errata", "th1", "th2", "s2")
SMALL = 1e-9


def verdicts(records: object, tables: Tables) -> Frame:
    """Return the verdict on every claim; one whose card was not run is "not tested"."""
    import pandas as pd

    rows = []
    for line in reported("excess_risk_claims").to_dict("records"):
        try:
            cells, sets, note = TESTS[line["id"]](_Run(tables))
        except _NotRunError:
            cells, sets, note = [], [], ""
        rows.append(
            claim_row(
                line["id"],
                **{k: line[k] for k in ("place", "claim", "test")},
                cells=np.asarray(cells, dtype=bool),
                sets=_sets(sets),
                note=note,
            )
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


class _NotRunError(Exception):
    """The configuration does not run a card."""


class _Run(dict[str, Any]):
    """The tables of the cards that were run, without the paper's prefix."""

    def __init__(self, tables: Tables) -> None:
        super().__init__({name.replace("excess_risk_", ""): table for name, table in tables.items()})

    def __missing__(self, name: str) -> Any:
        raise _NotRunError(name)


def _sets(of: Any) -> list[str]:
    names = {str(name).split("@")[0] for name in (of if isinstance(of, list) else of.get("dataset", ()))}
    return [name for name in LABELS if name in names]


def _count(cells: Iterable[Any]) -> str:
    cells = [bool(cell) for cell in cells]
    return f"{sum(cells)} of {len(cells)}"


def _bound(bound: str, run: _Run) -> Found:
    rows = run["th1_verdict"][run["th1_verdict"]["bound"] == bound]
    cells = [i < held for held, n in zip(rows["holds"], rows["n"], strict=True) for i in range(n)]
    useful = int(rows["below_trivial"].sum())
    return cells, run["th1"], f"says something (is below 1, the largest excess there is) in {useful} of {len(cells)}"


def _surpassed(run: _Run) -> Found:
    rows = run["table2_excess"]
    rows = rows[rows["epsilon"].astype(float) == 2].set_index("dataset")
    n = run["datasets"].set_index("dataset")["instances"]

    def below(excess: Any) -> list[bool]:
        return [value < math.log(n[name]) ** -3 for name, value in excess.items() if name in n]

    note = f"the paper's own table: {_count(below(rows['reported_excess']))}"
    if "th1" in run:
        bounded = run["th1"].groupby("dataset")["excess"].first()  # the same at every d
        note += f"; models of bounded norm, as in its theory, at ε = 1: {_count(below(bounded))}"
    sets = [name for name in rows.index if name in n]
    return below(rows["excess_risk"]), sets, f"{note}; the lower bound is for one distribution"


def _lemma33(run: _Run) -> Found:
    rows = run["errata"][run["errata"]["quantity"] == "epsilon of Lemma 3.3's noise"]
    held, proved = rows["found"] <= rows["claimed"] * 1.0001, rows["claimed"] <= 1
    where = rows["where"].str.split(", delta").str[0]
    fails, beyond = (list(dict.fromkeys(where[~held & at])) for at in (proved, ~proved))
    also = [w for w in beyond if w not in fails]
    notes = [f"fails at {'; '.join(fails)}"] if fails else []
    notes += [f"beyond ε = 1, for which its formula is not proved, also at {'; '.join(also)}"] if also else []
    return held[proved], [], "; ".join(notes)


def _lemma34(run: _Run) -> Found:
    rows = run["s2"][run["s2"]["calibration"] == "published"]
    outside = round(float((rows["violated"] * rows["trials"]).sum()))
    return rows["violated"] <= rows["allowed"], [], f"{outside} of {rows['trials'].sum()} runs outside: very wide"


def _cited(statement: str, run: _Run) -> Found:
    rows = run["errata_cited"]
    rows = rows[rows["statement"] == statement]
    return rows["found"] <= rows["bound"] * (1 + SMALL), [], ""


def _theorem41(run: _Run) -> Found:
    rows = run["th2"][run["th2"]["d"] <= 3]
    least = run["errata"].set_index(["quantity", "where"]).loc[("least log10(n) of Theorem 4.1", "d = 1"), "found"]
    return rows["above"], [], f"the theorem's own instance needs 10^{least:.0f} records for d = 1"


def _theorem41_loss(run: _Run) -> Found:
    rows = run["errata"][run["errata"]["flaw"] == "F10c"].set_index("quantity")
    lipschitz, convex = rows.loc["Lipschitz constant"], rows.loc["strong convexity"]
    held = [lipschitz["found"] <= 1.001 * lipschitz["claimed"], convex["found"] >= 0.999 * convex["claimed"]]
    return held, [], f"strong convexity is {convex['ratio']:.2f} of the claimed; the rate stays"


def _printed_polynomials(method: str, run: _Run) -> Found:
    rows = run["comparison_fig1"]
    rows = rows[rows["method"] == method]
    return rows["agrees"], [], ""


def _degree(run: _Run) -> Found:
    rows = run[DEGREES.replace("excess_risk_", "")].fillna({"iterations": 0}).sort_values("degree")
    return rows.groupby(["method", "iterations"])["max_error"].diff().dropna() < 0, [], ""


def _iterations(run: _Run) -> Found:
    rows = run[DEGREES.replace("excess_risk_", "")].query("method == 'iterated_bernstein'").sort_values("iterations")
    return rows.groupby("degree")["max_error"].diff().dropna() < 0, [], ""


def _best(run: _Run) -> Found:
    rows = run[DEGREES.replace("excess_risk_", "")]
    best, nine = (
        rows.query(which).set_index("degree")["max_error"] for which in ("method == 'minimax'", "iterations == 9")
    )
    return nine < best, [], "impossible: no polynomial beats the minimax one, and the printed one is not it"


def _table1(run: _Run) -> Found:
    rows = run["comparison_datasets"]
    return rows["agrees"], rows, "Churn: the paper counts the training rows"


def _preprocessing(run: _Run) -> Found:
    rows = run["datasets"]
    return ~rows["codes_are_ranks"].astype(bool), rows, "codes are ranks of the private values, in every column"


def _theorem_c1(run: _Run) -> Found:
    rows = run["errata_relation"]
    note = (
        f"spends up to {rows['ratio'].max():.2f} times ε; private for an added or removed record, which the code counts"
    )
    return rows["measurements_alone"] <= rows["epsilon"], rows, note


def _values(run: _Run) -> Found:
    rows = run["comparison_table2"]
    return rows["z"].abs() <= LIMIT, rows, "the cells apart are listed below"


def _cells(run: _Run, metric: str) -> Frame:
    rows = run["comparison_table2"]
    rows = rows[(rows["epsilon"] != "real") & (rows["metric"] == metric)]
    return rows.assign(at=rows["epsilon"].astype(float)).sort_values(["dataset", "at"])


def _steps(lines: Frame, column: str, sign: int) -> list[bool]:
    """Return for each step of epsilon of a data set whether sign times `column` does not fall."""
    step = sign * lines.groupby("dataset")[column].diff()
    return [bool(held) for held in (step >= 0)[step.notna()]]


def _beyond_noise(lines: Frame, column: str, sign: int) -> str:
    """Say how many steps go the wrong way, and how many sets rise from the first epsilon to the last, by two errors."""
    groups = lines.groupby("dataset")
    steps: Any = sign * groups[column].diff() / np.hypot(lines["stderr"], groups["stderr"].shift())
    first, last = groups.first(), groups.last()
    rise: Any = sign * (last[column] - first[column]) / np.hypot(first["stderr"], last["stderr"])
    better = _count(rise > 2)
    return f"by two standard errors: wrong steps {(steps < -2).sum()}, better at the last ε than at the first {better}"


def _trend(metric: str, sign: int, run: _Run) -> Found:
    lines = _cells(run, metric)
    note = f"{_beyond_noise(lines, 'mean', sign)}; the paper's own table: {_count(_steps(lines, 'reported', sign))}"
    return _steps(lines, "mean", sign), lines, note


def _marginal_error(run: _Run) -> Found:
    rows = run[ERRORS_TABLE.replace("excess_risk_", "")].sort_values(["dataset", "epsilon"])
    note = f"{_beyond_noise(rows, 'marginal_error', -1)}; measured: half of the L1 distance that the paper defines"
    return _steps(rows, "marginal_error", -1), rows, note


def _average(run: _Run) -> Found:
    rows = run[ERRORS_TABLE.replace("excess_risk_", "")]
    note = "Theorem C.3, cited for it, bounds each marginal apart"
    return rows["marginal_error_max"] <= rows["marginal_error"], rows, note


def _heart_lowest(run: _Run) -> Found:
    def lowest(column: str) -> list[bool]:
        wide = rows.pivot(index="epsilon", columns="dataset", values=column)
        return [name == "heart" for name in wide.idxmin(axis=1)]

    rows = _cells(run, "accuracy")
    return lowest("mean"), rows, f"the paper's own table: {_count(lowest('reported'))}"


def _at_most(column: str, theirs: str, metric: str, limit: float, sets: list[str], run: _Run) -> Found:
    """A loss at epsilon 2: as published, in the paper's own table, and with the test rows held out."""
    rows = run["table2_excess"]
    rows = rows[rows["epsilon"].astype(float) == 2].set_index("dataset")
    rows = rows.loc[[name for name in sets if name in rows.index]]
    surely = _count(rows[column] + 2 * rows[f"{column}_stderr"] < limit)
    note = f"by two standard errors: {surely}; the paper's own table: {_count(rows[theirs] < limit - SMALL)}"
    if "table2_strict" in run:
        strict = run["table2_strict"]
        strict = strict[(strict["epsilon"].astype(str) == "2") & (strict["metric"] == metric)].set_index("dataset")
        held_out = strict["lost"].reindex(rows.index).dropna()
        note += f"; test rows unseen, public domain: {_count(held_out < limit)}"
    return rows[column] < limit, list(rows.index), note


def _c3(form: str, remark: str, run: _Run) -> Found:
    rows = run[C3_FITS.replace("excess_risk_", "")]
    width = rows[f"{form}_bound"].median() / rows["distance"].median()
    vacuous = 100 * rows[f"{form}_vacuous"].mean()
    note = f"{width:.1f} times the true distance (medians); {vacuous:.0f} % of the bounds are 2 or more and say nothing"
    return rows[f"{form}_all"] == 1, rows, f"{note}; {remark}" if remark else note


def _as_well(aim: str, inputs: str, variant: str, method: str, run: _Run) -> Found:
    rows = _pairs(run, aim, inputs, variant, method)
    better, worse = (_count(rows[which]) for which in ("better", "worse"))
    beaten = [LABELS[name] for name in dict.fromkeys(rows["dataset"][rows["worse"].astype(bool)])]
    note = f"by two standard errors better: {better}; worse: {worse}"
    return rows["as_well"].astype(bool), rows, f"{note} ({', '.join(beaten)})" if beaten else note


def _pairs(run: _Run, aim: str, inputs: str, variant: str, method: str) -> Frame:
    rows = run["f4_pairs"]
    rows = rows[(rows["aim"] == aim) & (rows["inputs"] == inputs)]
    return rows[(rows["variant"] == variant) & (rows["method"] == method)]


def _budgets(run: _Run) -> Found:
    rows = run["f4"]
    rows = rows[(rows["variant"] == "published") & (rows["inputs"] == "codes")]
    ratio = rows["epsilon_spent"] / rows["epsilon"]
    spent = ratio.groupby(rows["method"]).agg(["min", "max"])
    note = "; ".join(f"{name}: {low:.2f} to {high:.2f} of ε" for name, low, high in spent.itertuples())
    return (ratio - 1).abs() < 0.01, rows, f"AIM spends all of it; {note}; δ differs too"


def _weak(run: _Run) -> Found:
    def better(aim: str, inputs: str, variant: str) -> list[bool]:
        rows = _pairs(run, aim, inputs, variant, "dp_sgd").set_index("dataset")["better"]
        return [bool(rows[name]) for name in ("heart", "dutch") if name in rows.index]

    own = better("as_published", "codes", "published")
    return own, ["heart", "dutch"], f"on equal terms: {_count(better('all_rows', 'one_hot', 'tight'))}"


def _targets(run: _Run) -> Found:
    rows = run["f5"]
    tests = [
        equivalence_of(mean, stderr, n - 1, MARGIN)
        for mean, stderr, n in zip(rows["difference"], rows["difference_stderr"], rows["n"], strict=True)
    ]
    idle = rows["real"] < rows["majority"] + MARGIN
    note = (
        f"all pass at {max(test.bound for test in tests):.4f}; in {_count(idle)} real rows gain nothing over a constant"
    )
    return [test.equivalent for test in tests], rows, note


_OTHERS = [name for name in LABELS if name != "heart"]
_DROP, _RISK = ("accuracy_drop", "reported_drop", "accuracy"), ("excess_risk", "reported_excess", "empirical_risk")
_ARMS = {
    "published": ("as_published", "codes", "published"), "held_out": ("all_rows", "codes", "published"),
    "exact": ("all_rows", "codes", "tight"), "one_hot": ("all_rows", "one_hot", "published"),
    "equal_terms": ("all_rows", "one_hot", "tight"),
}  # fmt: skip
TESTS: dict[str, Callable[[_Run], Found]] = {
    **{f"cited_{name}": partial(_cited, name) for name in ("2.3", "2.4", "B.2")},
    **{name: partial(_bound, name) for name in ("thm31", "thm32", "cor35", "cor36")},
    "section4_surpassed": _surpassed, "lemma33": _lemma33, "lemma34": _lemma34, "theorem41": _theorem41,
    "theorem41_loss": _theorem41_loss, "figure1_bernstein": partial(_printed_polynomials, "iterated_bernstein"),
    "figure1_minimax": partial(_printed_polynomials, "minimax"), "figure1_degree": _degree,
    "figure1_iterations": _iterations, "figure1_best": _best, "table1": _table1, "preprocessing": _preprocessing,
    "theorem_c1": _theorem_c1, "table2_values": _values, "figure3_accuracy": partial(_trend, "accuracy", 1),
    "figure3_roc_auc": partial(_trend, "roc_auc", 1), "figure3_empirical_risk": partial(_trend, "empirical_risk", -1),
    "figure2": _marginal_error, "average_bounds_all": _average, "heart_lowest": _heart_lowest,
    "drop_below_1": partial(_at_most, *_DROP, 0.01, _OTHERS),
    "drop_at_most_22": partial(_at_most, *_DROP, 0.022 + 2 * SMALL, list(LABELS)),
    "risk_below_02": partial(_at_most, *_RISK, 0.02, _OTHERS),
    "heart_excess": partial(_at_most, *_RISK, 0.032 + 2 * SMALL, ["heart"]),
    "theorem_c3_printed": partial(_c3, "printed", "a release does not tell the true marginal that it needs"),
    "theorem_c3_noisy": partial(_c3, "noisy", "the printed λ₁ term, without the weight, is not proved to do"),
    "theorem_c3_weighted": partial(_c3, "weighted", ""),
    **{f"figure4_{name}_{method}": partial(_as_well, *arm, method)
       for name, arm in _ARMS.items() for method in ("dp_sgd", "pate")},
    "figure4_budgets": _budgets, "figure4_weak": _weak, "figure5": _targets,
}  # fmt: skip
VERDICTS = Comparison(
    "excess_risk_verdicts", "excess_risk", verdicts, needs=tuple(f"excess_risk_{name}" for name in CARDS),
    title="What the paper claims, and what came out",
)  # fmt: skip
