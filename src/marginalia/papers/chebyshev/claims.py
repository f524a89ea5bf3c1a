"""The claims of Ding, He and Zhu, judged: rates, bounds, privacy and the statements of the proofs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from marginalia.papers.card import Comparison, Frame, Record
from marginalia.papers.chebyshev.lower_bound import comparable
from marginalia.papers.chebyshev.x1_rates import MAIN, TOLERANCE, log_slope
from marginalia.papers.rows import as_frame
from marginalia.reporting.verdicts import claim_row

NEEDS = (
    "chebyshev_x1",
    "chebyshev_x3",
    "chebyshev_x5",
    "chebyshev_lower_bound",
    "chebyshev_algorithm",
    "chebyshev_lemmas",
)
MADE = ("Beta mixture",)
HARD = ("hard tables of Theorem 2",)
Tables = Mapping[str, Frame]
Cells = Callable[[Frame], list[bool]]


@as_frame
def verdicts(records: Frame, tables: Tables) -> Iterator[Record]:
    """Yield a row for each claim; one whose table was not made is not tested."""
    for id, place, claim, test, sets, needs, cells, note in CLAIMS:
        found: list[bool] = [] if needs not in tables or tables[needs].empty else cells(tables[needs])
        yield claim_row(id, place=place, claim=claim, test=test, cells=found, sets=sets if found else (), note=note)


def _slopes(choose: Callable[[Frame], Any], test: Callable[[Any], bool], *, safe: bool = False) -> Cells:
    """Return the test of each chosen row of `_judged`."""

    def cells(table: Frame) -> list[bool]:
        rows = _judged(table, safe=safe)
        return [bool(test(row)) for row in _each(rows[choose(rows)])]

    return cells


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


def _polynomial(table: Frame) -> list[bool]:
    """An upper bound: the interval must end below -1 + tolerance; that a wide one reaches -1 is no evidence."""
    rows = table[(table["population"] == MAIN) & (table["distance"] == "polynomial") & (table["k"] > table["d"])]
    return [row.ci_high <= -1 + TOLERANCE for row in _each(rows)]


def _epsilon(table: Frame) -> list[bool]:
    """For k = d, whether the error falls with ε up to 1 as the theorem's log(εn)/(εn) does at these n."""
    found = []
    for _, rows in table[table["epsilon"] <= 1].groupby(["k", "d", "n"]):
        if len(rows) >= 3:
            epsilon, n = rows["epsilon"].to_numpy(dtype=float), rows["n"].to_numpy(dtype=float)
            stated = log_slope(epsilon, np.log(epsilon * n) / (epsilon * n))
            found.append(abs(log_slope(epsilon, rows["lower"].to_numpy(dtype=float)) - stated) <= TOLERANCE)
    return found


def _steeper_with_k(table: Frame) -> list[bool]:
    """Below d, whether one more derivative makes the slope steeper beyond both intervals (one distance throughout)."""
    rows = table[(table["population"] == MAIN) & (table["distance"] == "moments")].set_index(["d", "k"])
    return [
        bool(rows.loc[(d, k + 1), "ci_high"] < rows.loc[(d, k), "ci_low"])
        for d, k in rows.index
        if k < d and (d, k + 1) in rows.index
    ]


def _private(below_one: bool) -> Cells:
    """Return the test of Algorithm 1's noise below ε = 1, or of Lemma 1's from there on: true ε at most the nominal."""

    def cells(table: Frame) -> list[bool]:
        name = "line_3_at_" if below_one else "lemma_1_at_"
        named = [str(c) for c in table.columns if str(c).startswith(name)]
        columns = [c for c in named if (float(c.removeprefix(name)) < 1) == below_one]
        return [bool(v <= float(c.removeprefix(name)) * (1 + 1e-9)) for c in columns for v in table[c]]

    return cells


def _above(table: Frame) -> list[bool]:
    """For each table family, (k, d) and n: the mean error of the proof's query is not below the bound, at 2 s.e."""
    return [r.witness + 2 * r.witness_stderr >= r.lower_bound for r in _each(table)]


def _between(table: Frame) -> list[bool]:
    rows = table[table["decides"]]
    return [r.lower_bound <= r.measured <= r.upper_bound for r in _each(rows)]


def _optimal(same: bool) -> Cells:
    """Return the test that measured error and lower bound fall alike with n, for k = d (`same`) or k ≠ d.

    The slope of their ratio over n is at most the tolerance, beside the logarithm's own where k = d.
    """

    def cells(table: Frame) -> list[bool]:
        found = []
        for (k, d), rows in table[table["decides"]].groupby(["k", "d"]):
            rows = comparable(rows)
            if (k == d) == same and len(rows) >= 3:
                n = rows["n"].to_numpy(dtype=float)
                allowed = log_slope(n, np.log(n)) if same else 0.0
                ratio = log_slope(n, (rows["measured"] / rows["lower_bound"]).to_numpy(dtype=float))
                found.append(bool(ratio <= allowed + TOLERANCE))
        return found

    return cells


def _statement(name: str) -> Cells:
    return lambda table: [bool(v) for v in table.loc[table["statement"].str.startswith(name), "holds"]]


def _every(name: str) -> Cells:
    """Return the test of a statement about all cases, in one cell: a counterexample refutes it."""

    def cells(table: Frame) -> list[bool]:
        cases = _statement(name)(table)
        return [all(cases)] if cases else []

    return cells


def _kernel(table: Frame) -> list[bool]:
    """For each k: m^k times the least error of a positive kernel does not grow from 16 to the largest degree."""
    found = []
    for _, rows in table.groupby("k"):
        rows = rows[rows["m"] >= 16].sort_values("m")
        found.append(bool(rows["needed_constant"].iloc[-1] <= 1.5 * rows["needed_constant"].iloc[0]))
    return found


def _grids(table: Frame) -> list[bool]:
    return [bool(v) for v in table["equal"]]


X1, X3, TRUE, LOWER = "chebyshev_x1", "chebyshev_x3", "chebyshev_x5_true_epsilon", "chebyshev_lower_bound"
LEMMAS, KERNELS, GRIDS = "chebyshev_lemmas", "chebyshev_lemmas_kernels", "chebyshev_algorithm_grids"
# id, place, claim, test, sets, table, cells, note
CLAIMS: tuple[tuple[str, str, str, str, tuple[str, ...], str, Cells, str], ...] = (
    ("privacy", "Theorem 1, Section 4.1", "Algorithm 1 is (ε, δ)-DP for ε < 1",
     "what two corners of the cube spend is at most ε (12 settings, ε = 0.5)", (), TRUE, _private(True),
     "its noise is too small"),
    ("privacy_from_1", "Section 1.2, Lemma 1", "with Lemma 1's noise it is so for ε >= 1",
     "the same, ε = 1, 2, 4", (), TRUE, _private(False), "the sensitivity it is given is too small"),
    ("rate_below", "Theorem 1", "k < d: the error falls like n^(-k/d)",
     f"measured slope at most -k/d + {TOLERANCE:g}", MADE, X1,
     _slopes(lambda t: t["k"] < t["d"], lambda r: r.slope <= r.theorem + TOLERANCE),
     "it falls faster: small degrees, and smooth data"),
    ("rate_equal", "Theorem 1", "k = d: like log(εn)/(εn)",
     f"slope within {TOLERANCE:g} of that bound's over the same n", MADE, X1,
     _slopes(lambda t: t["k"] == t["d"], lambda r: abs(r.slope - r.theorem) <= TOLERANCE), ""),
    ("log_factor", "Theorem 1", "k = d: the logarithm is seen",
     "the 95 % interval of the slope lies above -1", MADE, X1,
     _slopes(lambda t: t["k"] == t["d"], lambda r: r.ci_low > -1),
     "an upper bound needs no logarithm to be seen; at these n it hardly can be"),
    ("rate_above", "Theorem 1", "k > d: like 1/(εn), and more smoothness buys nothing",
     f"slope within {TOLERANCE:g} of -1", MADE, X1,
     _slopes(lambda t: t["k"] > t["d"], lambda r: abs(r.slope + 1) <= TOLERANCE), "k up to 4"),
    ("transition", "Section 1.2", "k < d: more smoothness buys a faster rate",
     "the slope at k + 1 is steeper beyond both 95 % intervals", MADE, X1, _steeper_with_k, ""),
    ("polynomials", "Section 1.2", "means, second moments and products err like 1/n whatever d",
     f"upper end of the slope's 95 % interval at most -1 + {TOLERANCE:g}, k > d", MADE, X1, _polynomial, ""),
    ("in_epsilon", "Theorem 1", "k = d: the error depends on ε as on n", "slope over ε <= 1 within "
     f"{TOLERANCE:g} of that of log(εn)/(εn), d_k by cosine queries", MADE, X3, _epsilon, "one setting, k = d = 2"),
    ("beats_2016", "Abstract, Section 1.1", "faster than the n^(-2k/(3d+2k)) of Wang et al. (2016)",
     "the 95 % interval of the slope lies below that rate", MADE, X1,
     _slopes(lambda t: t["k"] > 0, lambda r: r.ci_high < r.wang_2016, safe=True),
     "rates compared, not the other algorithm"),
    ("lower_bound", "Theorem 2, Lemma 7", "no private method beats the lower bound on Construction 1 (and two points)",
     "mean error of the proof's query, plus two standard errors, at or above the bound", HARD, LOWER, _above,
     "of all private methods one can be run: a failure would refute the theorem, none does not prove it"),
    ("between", "Theorems 1 and 2", "the error lies between the two bounds",
     "lower bound <= measured d_k <= proven upper bound; where d_k cannot be computed, the largest error of a cosine "
     "query in its place", HARD, LOWER, _between, "both with our constants"),
    ("optimal", "Theorem 2", "k ≠ d: optimal in n",
     f"measured error over lower bound grows no faster than n^{TOLERANCE:g}", HARD, LOWER, _optimal(False),
     "three to ten trials a point; where two points decide for k < d, their bound falls faster than the cells'"),
    ("optimal_equal", "Theorem 2", "k = d: optimal up to a logarithm",
     "the same, beside the logarithm's own slope", HARD, LOWER, _optimal(True), ""),
    ("grid", "Algorithm 1, lines 1 and 2", "our smaller grid does as well as the paper's (our change, not its claim)",
     "equivalent within 10 % at equal noise, two one-sided tests", MADE, GRIDS, _grids, ""),
    ("lemma_1", "Lemma 1", "both noises of the Gaussian mechanism suffice", "true ε <= ε", (), LEMMAS,
     _statement("Lemma 1,"), ""),
    ("lemma_2", "Lemma 2", "the basis is orthonormal", "quadrature, to 1e-12", (), LEMMAS, _statement("Lemma 2"), ""),
    ("lemma_5", "Lemmas 4 and 5", "total variation between outputs on tables that differ in h records",
     "the most that (ε, δ)-DP allows any method is at most the bound", (), LEMMAS, _statement("Lemmas 4 and 5"),
     "attained for one changed record, not for more"),
    ("lemma_9", "Lemma 9", "coefficients of the chain rule are at most |α|!", "one variable, orders 1 to 6", (),
     LEMMAS, _statement("Lemma 9"), ""),
    ("lemma_8", "Lemma 8", "Parseval with derivatives", "both sides equal to 1e-10, f = cos(5x + 1)", (), LEMMAS,
     _statement("Lemma 8"), ""),
    ("lemma_10", "Lemma 10", "Bernstein's inequality", "random trigonometric polynomials", (), LEMMAS,
     _statement("Lemma 10"), ""),
    ("proposition_1", "Proposition 1", "at most (1 + k/d)^d terms", "all orders, k up to 4, d up to 3", (), LEMMAS,
     _statement("Proposition 1"), ""),
    ("lemma_13", "Lemma 13", "bound on the sum of weights S", "S <= bound", (), LEMMAS, _statement("Lemma 13"), ""),
    ("largest", "Section 4.1", "a basis function is at most √(2^nnz/π^d)", "its value at a corner", (), LEMMAS,
     _statement("Section 4.1"), "this is what breaks the privacy proof"),
    ("theorem_3", "Theorem 3", "the constant e^k k! does for every d", "f = Σ x_i, k = 1, d from 1 to 12: all of them",
     (), LEMMAS, _every("Theorem 3: constant, sum"), "one cell, as one counterexample is enough: false from d = 6 on"),
    ("rounding", "Section 4.2", "rounding to the grid moves d_k by at most half a step times √d",
     "records at the corner that the grid lacks", (), LEMMAS, _statement("Section 4.2"),
     "no node at +1; and for d > 1 it is d, not √d: Σ x_i is in F_k. Rates are not affected"),
    ("jackson", "Lemma 12 (for Lemma 3, Theorem 4)", "a positive kernel of degree m errs by at most C^k/m^k",
     "m^k times the least possible error stays bounded, k = 1 to 4", (), KERNELS, _kernel,
     "false from k = 3 on; another kernel keeps the rate"),
)  # fmt: skip
VERDICTS = Comparison(
    id="chebyshev_verdicts", paper="chebyshev", table=verdicts, needs=NEEDS, title="The paper's claims, judged"
)
