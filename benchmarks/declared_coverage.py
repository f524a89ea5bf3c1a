"""How often sets of declared analyses cover, and how wide they are beside intervals without privacy.

    python benchmarks/declared_coverage.py run       # results/declared.csv: about 10 CPU minutes
    python benchmarks/declared_coverage.py report    # the verdicts, printed, and docs/declared.csv

Of a linear regression the exact sums are computed once a cell: one real release tells the noise of each, and 1,000
draws of that noise are judged. Of a logistic regression, whose noise follows earlier answers, whole releases are
judged. A width is that of the interval for the population, beside the one without privacy: the root of noise² +
sampling error², over the sampling error; the median over slopes, and over releases.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from harness import RESULTS, Line
from interval_coverage import SOURCES, Source, holm
from numpy.typing import NDArray
from scipy import stats

from marginalia.analyses.analyses import Analyses
from marginalia.analyses.basis import UNIT
from marginalia.analyses.declared_analyses import DeclaredAnalyses
from marginalia.analyses.planning import COUNT, Linears
from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.inference.formulas import Feature, design
from marginalia.inference.sets import Linear, wald_errors
from marginalia.privacy.relation import Neighbours, Relation

RESULT_FILE = RESULTS / "declared.csv"
EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0)
RELATIONS = ("add_remove", "replace_one")
LEVELS = (0.9, 0.95)
DRAWS, WIDTHS, RELEASES = 1000, 3, 200
Array = NDArray[np.float64]

TABLES = {
    "adult": Source("adult", {"age": ("age", 16), "sex": ("sex", 0), "edu": ("education-num", 0),
                              "race": ("race", 0), "marital": ("marital-status", 0), "hours": ("hours-per-week", 0),
                              "high": ("income>50K", 0)}),
    "law": SOURCES["law"][0],
    "churn": SOURCES["churn"][0],
}  # fmt: skip
TABLES["adult, rare category"] = TABLES["adult"]  # one of its marital states has 37 rows
LINEAR = {
    "adult": "hours ~ age + edu + C(sex) + C(race) + high",
    "adult, rare category": "hours ~ age + edu + C(sex) + C(race) + C(marital)",
    "law": "ugpa ~ lsat + income + sex + race + passed",
    "churn": "tenure ~ senior + partner + C(contract) + left",
}
LOGISTIC = {"adult": "high ~ age + edu + C(sex) + hours", "law": "passed ~ lsat + income + sex + race + ugpa"}


@dataclass(frozen=True)
class Covered(Line):
    """One statement of one cell."""

    table: str
    rows: int
    analysis: str
    family: str
    statement: str
    label: str
    relation: str
    epsilon: float
    confidence: float
    draws: int
    covered: int
    bounded: int  # of the draws
    width: float  # over that without privacy; infinite where most sets are unbounded


def rows_of(table: Table, features: Iterable[Feature]) -> Array:
    """Return features of all rows, shape (rows, features)."""
    return np.column_stack(
        [np.broadcast_to(f.values[tuple(table.codes[:, a] for a in f.clique)], len(table)) for f in features]
    )


def fit(table: Table, formula: str, family: str) -> tuple[Array, Array]:
    """Return the coefficients of the rows, and their standard errors as a sample."""
    [analysis] = Analyses.parse({"analyses": [{"formula": formula, "family": family}]}).analyses
    of = analysis.design(table.domain)
    X, y = rows_of(table, of.features), rows_of(table, [of.y])[:, 0]
    if family == "gaussian":
        b = np.linalg.solve(X.T @ X, X.T @ y)
        variance = float(((y - X @ b) ** 2).sum()) / (len(y) - len(b))
        return b, np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
    b = np.zeros(X.shape[1])
    for _ in range(60):
        m = 1 / (1 + np.exp(-X @ b))
        J = (X.T * (m * (1 - m))) @ X
        b = b + np.linalg.solve(J, X.T @ (y - m))
    return b, np.sqrt(np.diag(np.linalg.inv(J)))


def release(table: Table, formula: str, family: str, epsilon: float, relation: str, seed: int) -> DeclaredAnalyses:
    """Return one release."""
    asked = {"analyses": [{"formula": formula, "family": family}]}
    return DeclaredAnalyses(analyses=asked, epsilon=epsilon, relation=relation, random_state=seed).fit(table)


def linear(name: str, table: Table, formula: str, relation: str, epsilon: float, rng: np.random.Generator):
    """Return what 1,000 draws of one release's noise said."""
    true, sampling = fit(table, formula, "gaussian")
    widths = []
    for seed in range(WIDTHS):
        made = release(table, formula, "gaussian", epsilon, relation, seed).declared_
        equations = made.equations(design(made, formula), "gaussian")
        noise = wald_errors(equations, equations.solve())
        unbounded = equations.distance_at_infinity() < stats.chi2.ppf(0.95, 1)
        widths.append(math.inf if unbounded else float(np.median(np.hypot(1, noise / sampling)[1:])))
    linears = Linears(
        table.domain, Analyses.parse({"analyses": [{"formula": formula}]}), Neighbours(Relation(relation))
    )
    sums = [group.sums(table) * UNIT for group in linears.groups if group is not COUNT]
    exact = np.concatenate([[float(len(table))], *sums])
    L, sd, p = made.places(design(made, formula)), np.sqrt(made.variances), len(true)
    K = (L * sd) @ (L * sd).T
    distances = np.empty(DRAWS)
    bounded = np.empty(DRAWS, bool)
    for draw in range(DRAWS):
        drawn = Linear((L @ (exact + sd * rng.normal(size=len(sd)))).reshape(p, p + 1), K)
        distances[draw] = drawn.distance(true)
        bounded[draw] = drawn.distance_at_infinity() >= stats.chi2.ppf(0.95, 1) if draw < 40 else True
    shown = int(bounded[:40].mean() * DRAWS)
    for level in LEVELS:
        hits = int((distances <= stats.chi2.ppf(level, p)).sum())
        yield Covered(
            *(
                name,
                len(table),
                formula,
                "gaussian",
                "joint set",
                "exact",
                relation,
                epsilon,
                level,
                DRAWS,
                hits,
                shown,
            ),
            width=float(np.median(widths)),
        )


def logistic(name: str, table: Table, formula: str, relation: str, epsilon: float):
    """Return what whole releases said."""
    true, sampling = fit(table, formula, "binomial")
    joint, certified, bounded, widths, wide = [], [], [], [], []
    for seed in range(RELEASES):
        made = release(table, formula, "binomial", epsilon, relation, seed).declared_
        equations = made.equations(design(made, formula, binary=True), "binomial")
        b = equations.solve()
        joint.append(equations.distance(true))
        at_infinity = equations.distance_at_infinity()
        unbounded = b is None or at_infinity < stats.chi2.ppf(0.95, 1)
        widths.append(
            math.inf if unbounded else float(np.median(np.hypot(1, wald_errors(equations, b) / sampling)[1:]))
        )
        ends = np.array([equations.guaranteed(b, j, 0.95, at_infinity=at_infinity) for j in range(len(true))])
        certified.append(((ends[:, 0] <= true) & (true <= ends[:, 1])).all())
        bounded.append(np.isfinite(ends).all())
        if bounded[-1]:
            wide.append(float(np.median(np.hypot(1, np.ptp(ends, axis=1) / 2 / 1.96 / sampling)[1:])))
    for level in LEVELS:
        hits = int((np.array(joint) <= stats.chi2.ppf(level, len(true))).sum())
        head = (name, len(table), formula, "binomial", "joint set", "asymptotic", relation, epsilon, level)
        yield Covered(*head, RELEASES, hits, int(np.isfinite(widths).sum()), float(np.median(widths)))
    head = (name, len(table), formula, "binomial", "all coefficients", "certified", relation, epsilon, 0.95)
    enough = 2 * len(wide) > RELEASES
    yield Covered(*head, RELEASES, sum(certified), sum(bounded), float(np.median(wide)) if enough else math.inf)


def run() -> None:
    """Measure every cell that is not in the CSV yet."""
    done = {(c.table, c.family, c.relation, c.epsilon) for c in Covered.read_all(RESULT_FILE)}
    tables = {name: source.table() for name, source in TABLES.items()}

    def made() -> Iterable[list[Covered]]:
        cells = [(n, "gaussian", r, e) for n, r, e in itertools.product(LINEAR, RELATIONS, EPSILONS)]
        cells += [(n, "binomial", r, e) for n, r, e in itertools.product(LOGISTIC, RELATIONS, EPSILONS[2:])]
        for at, (name, family, relation, epsilon) in enumerate(cells):
            if (name, family, relation, epsilon) in done:
                continue
            start, table = time.process_time(), tables[name]
            if family == "gaussian":
                found = list(linear(name, table, LINEAR[name], relation, epsilon, np.random.default_rng([at, 2])))
            else:
                found = list(logistic(name, table, LOGISTIC[name], relation, epsilon))
            print(name, family, relation, epsilon, f"{time.process_time() - start:.1f} CPU-s", flush=True)
            yield found

    Covered.append(RESULT_FILE, made())


def report() -> str:
    """Return a Markdown table, and write `docs/declared.csv`."""
    lines = Covered.read_all(RESULT_FILE)
    exact = [c for c in lines if c.label == "exact"]
    p = [stats.binomtest(c.covered, c.draws, c.confidence).pvalue for c in exact]
    wrong = sum(q < 0.05 for q in holm(np.array(p)))
    rows = [
        [c.table, c.rows, c.family, c.label, c.relation, c.epsilon, c.draws, f"{c.covered / c.draws:.3f}",
         f"{c.bounded / c.draws:.2f}", f"{c.width:.2f}"]
        for c in lines if c.confidence == 0.95
    ]  # fmt: skip
    head = ["table", "rows", "family", "label", "relation", "epsilon", "draws", "covered", "bounded", "width"]
    path = RESULTS.parents[1] / "docs" / "declared.csv"
    write_text(path, pd.DataFrame(rows, columns=head).to_csv(index=False, lineterminator="\n"))
    body = ["| " + " | ".join(map(str, row)) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join([*body, f"{wrong} of {len(exact)} exact cells fail (two-sided, Holm, 5 %)"])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "report"])
    if parser.parse_args().verb == "run":
        run()
    else:
        print(report())


if __name__ == "__main__":
    main()
