"""What judges the claims of Ding, He and Zhu (``claims.csv``): rates, bounds, privacy and statements of the proofs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.chebyshev.chebyshev_lower_bound import comparable
from marginalia.papers.chebyshev.chebyshev_x1 import MAIN, TOLERANCE, log_slope
from marginalia.papers.claims import Found, Judge
from marginalia.reporting.pairwise import CLEAR, LEVEL, p_value

NAMES = ("x1", "x3", "x5", "lower_bound", "algorithm", "lemmas")


def _slopes(
    choose: Callable[[Frame], Any], test: Callable[[Any], bool], *, safe: bool = False
) -> Callable[[Frame], Found]:
    """Return the test of each chosen row of `_judged`."""

    def judge(table: Frame) -> Found:
        rows = _judged(table, safe=safe)
        return Found([bool(test(row)) for row in _each(rows[choose(rows)])])

    return judge


def _each(table: Frame) -> Any:
    """Return the rows as named tuples, whose fields no stub can know."""
    return table.itertuples()


def _judged(table: Frame, *, safe: bool) -> Frame:
    """Return the slopes of the main population, one for each (k, d).

    Of the exact distance where there is one. Else of the cosine queries for k >= d, where the rate is the same for
    every query, and of the moments, which bound d_k from above, for k < d; if `safe` of the moments throughout.
    """
    rows = table[table["population"] == MAIN]
    by_moments = (rows["k"] < rows["d"]) | safe
    rank = np.select(
        [rows["distance"] == "exact", rows["distance"] == np.where(by_moments, "moments", "lower")], [0, 1], default=2
    )
    rows = rows.assign(rank=rank)
    return rows[rows["rank"] < 2].sort_values("rank").groupby(["d", "k"], as_index=False).first()


def _polynomial(table: Frame) -> Found:
    """An upper bound: the interval must end below -1 + tolerance; that a wide one reaches -1 is no evidence."""
    rows = table[(table["population"] == MAIN) & (table["distance"] == "polynomial") & (table["k"] > table["d"])]
    return Found([row.ci_high <= -1 + TOLERANCE for row in _each(rows)])


def _epsilon(table: Frame) -> Found:
    """For k = d, whether the error falls with ε up to 1 as the theorem's log(εn)/(εn) does at these n."""
    found = []
    for _, rows in table[table["epsilon"] <= 1].groupby(["k", "d", "n"]):
        if len(rows) >= 3:
            epsilon, n = rows["epsilon"].to_numpy(dtype=float), rows["n"].to_numpy(dtype=float)
            stated = log_slope(epsilon, np.log(epsilon * n) / (epsilon * n))
            found.append(abs(log_slope(epsilon, rows["lower"].to_numpy(dtype=float)) - stated) <= TOLERANCE)
    return Found(found)


def _steeper_with_k(table: Frame) -> Found:
    """Below d, whether one more derivative makes the slope steeper beyond both intervals (one distance throughout)."""
    rows = table[(table["population"] == MAIN) & (table["distance"] == "moments")].set_index(["d", "k"])
    return Found(
        [
            bool(rows.loc[(d, k + 1), "ci_high"] < rows.loc[(d, k), "ci_low"])
            for d, k in rows.index
            if k < d and (d, k + 1) in rows.index
        ]
    )


def _private(below_one: bool) -> Callable[[Frame], Found]:
    """Return the test of Algorithm 1's noise below ε = 1, or of Lemma 1's from there on: true ε at most the nominal."""

    def judge(table: Frame) -> Found:
        name = "line_3_at_" if below_one else "lemma_1_at_"
        named = [str(c) for c in table.columns if str(c).startswith(name)]
        columns = [c for c in named if (float(c.removeprefix(name)) < 1) == below_one]
        return Found([bool(v <= float(c.removeprefix(name)) * (1 + 1e-9)) for c in columns for v in table[c]])

    return judge


def _above(table: Frame) -> Found:
    """For each table family, (k, d) and n: the mean error of the proof's query is not clearly below the bound."""
    below = table["lower_bound"] - table["witness"]
    return Found(p_value(below, table["witness_stderr"], table["n_trials"] - 1) > CLEAR)


def _between(table: Frame) -> Found:
    rows = table[table["decides"]]
    return Found([r.lower_bound <= r.measured <= r.upper_bound for r in _each(rows)])


def _optimal(same: bool) -> Callable[[Frame], Found]:
    """Return the test that measured error and lower bound fall alike with n, for k = d (`same`) or k ≠ d.

    The slope of their ratio over n is at most the tolerance, beside the logarithm's own where k = d.
    """

    def judge(table: Frame) -> Found:
        found = []
        for (k, d), rows in table[table["decides"]].groupby(["k", "d"]):
            rows = comparable(rows)
            if (k == d) == same and len(rows) >= 3:
                n = rows["n"].to_numpy(dtype=float)
                allowed = log_slope(n, np.log(n)) if same else 0.0
                ratio = log_slope(n, (rows["measured"] / rows["lower_bound"]).to_numpy(dtype=float))
                found.append(bool(ratio <= allowed + TOLERANCE))
        return Found(found)

    return judge


def _statement(name: str) -> Callable[[Frame], Found]:
    def judge(table: Frame) -> Found:
        return Found([bool(v) for v in table.loc[table["statement"].str.startswith(name), "holds"]])

    return judge


def _every(name: str) -> Callable[[Frame], Found]:
    """Return the test of a statement about all cases, in one cell: a counterexample refutes it."""

    def judge(table: Frame) -> Found:
        cases = _statement(name)(table).held
        return Found([all(cases)] if cases else [])

    return judge


def _kernel(table: Frame) -> Found:
    """For each k: m^k times the least error of a positive kernel does not grow from 16 to the largest degree."""
    found = []
    for _, rows in table.groupby("k"):
        rows = rows[rows["m"] >= 16].sort_values("m")
        found.append(bool(rows["needed_constant"].iloc[-1] <= 1.5 * rows["needed_constant"].iloc[0]))
    return Found(found)


def _grids(table: Frame) -> Found:
    return Found(p=table["p"], level=LEVEL)


RATES, LEMMAS = ("x1",), ("lemmas",)
JUDGES: dict[str, Judge] = {
    "privacy": (_private(True), ("x5_true_epsilon",)),
    "privacy_from_1": (_private(False), ("x5_true_epsilon",)),
    "rate_below": (_slopes(lambda t: t["k"] < t["d"], lambda r: r.slope <= r.theorem + TOLERANCE), RATES),
    "rate_equal": (_slopes(lambda t: t["k"] == t["d"], lambda r: abs(r.slope - r.theorem) <= TOLERANCE), RATES),
    "log_factor": (_slopes(lambda t: t["k"] == t["d"], lambda r: r.ci_low > -1), RATES),
    "rate_above": (_slopes(lambda t: t["k"] > t["d"], lambda r: abs(r.slope + 1) <= TOLERANCE), RATES),
    "transition": (_steeper_with_k, RATES),
    "polynomials": (_polynomial, RATES),
    "in_epsilon": (_epsilon, ("x3",)),
    "beats_2016": (_slopes(lambda t: t["k"] > 0, lambda r: r.ci_high < r.wang_2016, safe=True), RATES),
    "lower_bound": (_above, ("lower_bound",)),
    "between": (_between, ("lower_bound",)),
    "optimal": (_optimal(False), ("lower_bound",)),
    "optimal_equal": (_optimal(True), ("lower_bound",)),
    "grid": (_grids, ("algorithm_grids",)),
    "lemma_1": (_statement("Lemma 1,"), LEMMAS),
    "lemma_2": (_statement("Lemma 2"), LEMMAS),
    "lemma_5": (_statement("Lemmas 4 and 5"), LEMMAS),
    "lemma_9": (_statement("Lemma 9"), LEMMAS),
    "lemma_8": (_statement("Lemma 8"), LEMMAS),
    "lemma_10": (_statement("Lemma 10"), LEMMAS),
    "proposition_1": (_statement("Proposition 1"), LEMMAS),
    "lemma_13": (_statement("Lemma 13"), LEMMAS),
    "largest": (_statement("Section 4.1"), LEMMAS),
    "theorem_3": (_every("Theorem 3: constant, sum"), LEMMAS),
    "rounding": (_statement("Section 4.2"), LEMMAS),
    "jackson": (_kernel, ("lemmas_kernels",)),
}


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    return claims.listed_verdicts(Path(__file__).with_name("claims.csv"), JUDGES, tables)


VERDICTS = Experiment(
    id="chebyshev_verdicts",
    paper="chebyshev",
    tables=verdicts,
    needs=tuple(f"chebyshev_{name}" for name in NAMES),
    title="The paper's claims, judged",
)
