"""The judges of the claims of Ding, He and Zhu that need more than a test of ``claims.yaml``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from marginalia.experiment import Experiment, Frame, Tables
from marginalia.papers import claims
from marginalia.papers.chebyshev.chebyshev_lower_bound import comparable
from marginalia.papers.chebyshev.chebyshev_x1 import MAIN, TOLERANCE, log_slope
from marginalia.papers.claims import Found
from marginalia.reporting.pairwise import CLEAR, p_value

NAMES = ("x1", "x3", "x5", "lower_bound", "algorithm", "lemmas")


def spends_at_most(table: Frame, *, noise: str, below_one: bool) -> Found:
    """Judge whether the true ε of a noise, ``<noise>_at_<ε>``, is at most the nominal one: below 1, or from 1 on."""
    named = [str(c) for c in table.columns if str(c).startswith(f"{noise}_at_")]
    nominal = {c: float(c.removeprefix(f"{noise}_at_")) for c in named}
    columns = [c for c in named if (nominal[c] < 1) == below_one]
    return Found([bool(v <= nominal[c] * (1 + 1e-9)) for c in columns for v in table[c]])


def in_epsilon(table: Frame) -> Found:
    """Judge for k = d whether the error falls with ε up to 1 as the theorem's log(εn)/(εn) does at these n."""
    found = []
    for _, rows in table[table["epsilon"] <= 1].groupby(["k", "d", "n"]):
        if len(rows) >= 3:
            epsilon, n = rows["epsilon"].to_numpy(dtype=float), rows["n"].to_numpy(dtype=float)
            stated = log_slope(epsilon, np.log(epsilon * n) / (epsilon * n))
            found.append(abs(log_slope(epsilon, rows["lower"].to_numpy(dtype=float)) - stated) <= TOLERANCE)
    return Found(found)


def steeper_with_k(table: Frame) -> Found:
    """Judge below d whether one more derivative makes the slope of one distance steeper beyond both intervals."""
    rows = table[(table["population"] == MAIN) & (table["distance"] == "moments")].set_index(["d", "k"])
    return Found(
        [
            bool(rows.loc[(d, k + 1), "ci_high"] < rows.loc[(d, k), "ci_low"])
            for d, k in rows.index
            if k < d and (d, k + 1) in rows.index
        ]
    )


def above(table: Frame) -> Found:
    """Judge in each row whether the mean error of the proof's query is not clearly below the lower bound."""
    below = table["lower_bound"] - table["witness"]
    return Found(p_value(below, table["witness_stderr"], table["n_trials"] - 1) > CLEAR)


def optimal(table: Frame, *, same: bool) -> Found:
    """Judge whether measured error and lower bound fall alike with n, for k = d (`same`) or k ≠ d.

    The slope of their ratio over n is at most the tolerance, beside the logarithm's own where k = d.
    """
    found = []
    for (k, d), rows in table[table["decides"]].groupby(["k", "d"]):
        rows = comparable(rows)
        if (k == d) == same and len(rows) >= 3:
            n = rows["n"].to_numpy(dtype=float)
            allowed = log_slope(n, np.log(n)) if same else 0.0
            ratio = log_slope(n, (rows["measured"] / rows["lower_bound"]).to_numpy(dtype=float))
            found.append(bool(ratio <= allowed + TOLERANCE))
    return Found(found)


def kernel(table: Frame) -> Found:
    """Judge for each k whether m^k times the least error of a positive kernel does not grow from degree 16 on."""
    found = []
    for _, rows in table.groupby("k"):
        rows = rows[rows["m"] >= 16].sort_values("m")
        found.append(bool(rows["needed_constant"].iloc[-1] <= 1.5 * rows["needed_constant"].iloc[0]))
    return Found(found)


def _slopes(table: Frame, *, safe: bool) -> Frame:
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


JUDGES = (spends_at_most, in_epsilon, steeper_with_k, above, optimal, kernel)


def verdicts(records: Frame, tables: Tables) -> Frame:
    """Return a row for each claim."""
    if (rates := tables.get("chebyshev_x1")) is not None:
        tables = {**tables, "slopes": _slopes(rates, safe=False), "safe_slopes": _slopes(rates, safe=True)}
    studies = (*NAMES, "slopes", "safe_slopes")
    return claims.verdicts(Path(__file__).with_name("claims.yaml"), JUDGES, tables, studies=studies)


VERDICTS = Experiment(
    id="chebyshev_verdicts",
    paper="chebyshev",
    tables=verdicts,
    needs=tuple(f"chebyshev_{name}" for name in NAMES),
    title="The paper's claims, judged",
)
