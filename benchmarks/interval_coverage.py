"""How often confidence sets cover: exact answers are computed once a cell, only their noise is drawn again.

    python benchmarks/interval_coverage.py run                       # results/coverage.csv: about 30 CPU minutes
    python benchmarks/interval_coverage.py run --draws 250           # a quarter of it
    python benchmarks/interval_coverage.py report                    # the verdicts, printed, and docs/error-bars.csv

A cell is a table, an analysis, epsilon, a relation and a target. One real release tells which answers there are and the
noise of each; then each draw adds fresh noise of that law to the exact answers. For target ``population`` the rows are
drawn again as well, with replacement. Whether the set holds the true coefficients is read off the distance there: no
ends are searched, except for widths.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from aim_worker import load
from harness import RESULTS, Line
from numpy.typing import NDArray
from scipy import stats

from marginalia import inference
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.inference.estimates import ResidualEstimates
from marginalia.inference.formulas import Design, design
from marginalia.inference.regressions import add_sampling, equations_of
from marginalia.inference.release import Release
from marginalia.inference.sets import interval, profile
from marginalia.privacy.mechanisms.residuals import residual
from marginalia.synthesis import ResidualPlanner
from marginalia.synthesis.noisy_marginals import NoisyMarginal

RESULT_FILE = RESULTS / "coverage.csv"
EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0)
RELATIONS = ("add_remove", "replace_one")
LEVELS = (0.9, 0.95)
_WIDTHS = 15  # draws whose ends are searched

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Source:
    """Columns of a table under plain names; `bins` makes so many codes of a finer column."""

    data: str
    columns: dict[str, tuple[str, int]]  # new name -> column, codes (0: all)

    def table(self) -> Table:
        """Return the columns, with codes that stand for numbers."""
        given = load(self.data)
        codes, attributes = [], []
        for name, (column, bins) in self.columns.items():
            size = given.domain[column].size
            values = given.codes[:, given.domain.index(column)].astype(np.int64)
            codes.append(values * bins // size if bins else values)
            attributes.append(Column(name, bins or size, "numeric"))
        return Table(np.column_stack(codes), Domain(attributes))


SOURCES = {
    "adult": (
        Source("adult", {"age": ("age", 16), "sex": ("sex", 0), "edu": ("education-num", 0),
                         "hours": ("hours-per-week", 0), "high": ("income>50K", 0)}),
        "hours ~ age + edu + C(sex)", "high ~ age + edu + sex",
    ),
    "compas": (
        Source("dpml/compas", {"age": ("age", 13), "sex": ("sex", 0), "felony": ("c_charge_degree", 0),
                               "priors": ("priors_count", 0), "again": ("two_year_recid", 0)}),
        "priors ~ age + sex + felony", "again ~ age + sex + felony",
    ),
    "churn": (
        Source("dpml/churn", {"senior": ("Senior Citizen", 0), "partner": ("Partner", 0), "contract": ("Contract", 0),
                              "tenure": ("Tenure Months", 12), "left": ("Churn Value", 0)}),
        "tenure ~ partner + C(contract)", "left ~ senior + partner + C(contract)",
    ),
    "dutch": (
        Source("dpml/dutch", {"age": ("age", 0), "sex": ("sex", 0), "size": ("household_size", 0),
                              "edu": ("edu_level", 0), "job": ("occupation", 0)}),
        "edu ~ age + sex + size", "job ~ age + sex + edu",
    ),
    "law": (
        Source("dpml/law", {"lsat": ("lsat", 12), "sex": ("sex", 0), "race": ("race", 0), "income": ("fam_inc", 0),
                            "ugpa": ("ugpa", 0), "passed": ("pass_bar", 0)}),
        "ugpa ~ income + sex + race", "passed ~ lsat + sex + race",
    ),
    "heart": (
        Source("dpml/heart", {"age": ("age", 8), "sex": ("sex", 0), "chest": ("cp", 0),
                              "pulse": ("thalachh", 10), "ill": ("output", 0)}),
        "pulse ~ age + sex", "ill ~ age + sex",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Covered(Line):
    """One statement of one cell."""

    table: str
    analysis: str
    statement: str
    label: str
    target: str
    relation: str
    epsilon: float
    confidence: float
    draws: int
    covered: int
    bounded: int  # of the draws
    covered_bounded: int
    width: float  # median, at this confidence; of the target's own errors without noise for population


class Redrawn:
    """What a real release of these columns answers, as exact answers with the noise of each."""

    def __init__(self, table: Table, workload: Sequence[tuple[str, ...]], epsilon: float, relation: str) -> None:
        columns = sorted({name for q in workload for name in q}, key=table.domain.index)
        self.table = table.project(columns)
        made = ResidualPlanner(epsilon=epsilon, relation=relation, workload=workload, random_state=0).fit(self.table)
        self._answers = list(made.measurements_)
        self.domain = made.domain_
        self._public = relation == "replace_one"
        self.histogram = self.table.counts(columns).astype(np.float64)
        self._columns = columns

    def draw(self, rng: np.random.Generator, *, rows: bool) -> Release:
        """Return a release with fresh noise; `rows`: of rows drawn again, too."""
        histogram = self.histogram
        if rows:
            shares = histogram.ravel() / histogram.sum()
            histogram = rng.multinomial(int(histogram.sum()), shares).reshape(histogram.shape).astype(np.float64)
        answers = []
        for a in self._answers:
            away = tuple(i for i, name in enumerate(self._columns) if name not in a.attributes)
            truth = histogram.sum(axis=away)
            noise = rng.normal(0.0, a.drawn, truth.shape)
            answers.append(
                NoisyMarginal(a.attributes, residual(truth + noise), a.sigma, a.drawn, a.round, residual=True)
            )
        n = int(histogram.sum()) if self._public else None
        return Release(self.domain, (ResidualEstimates(self.domain, answers, n),), n)

    def exact(self) -> Release:
        """Return the release without noise."""
        answers = []
        for a in self._answers:
            away = tuple(i for i, name in enumerate(self._columns) if name not in a.attributes)
            answers.append(
                NoisyMarginal(a.attributes, residual(self.histogram.sum(axis=away)), 1e-9, 1e-9, a.round, residual=True)
            )
        n = int(self.histogram.sum())
        return Release(self.domain, (ResidualEstimates(self.domain, answers, n),), n)


def needs(formula: str, family: str) -> list[tuple[str, ...]]:
    """Return the marginals that a regression needs."""
    left, right = (side.strip() for side in formula.split("~"))
    names = [term.strip().removeprefix("C(").removesuffix(")") for term in right.split("+")]
    features = [tuple(names)] if family != "gaussian" else list(itertools.combinations(names, 2))
    return [*features, *((name, left) for name in names)]


Hits = dict[
    tuple[str, str, float], list[tuple[bool, bool, float]]
]  # (statement, label, level) -> covered, bounded, width


def regression_hits(
    redrawn: Redrawn, formula: str, family: str, target: str, draws: int, rng: np.random.Generator
) -> Hits:
    """Return what each draw said of the coefficients of the table, or of its own population."""
    exact = redrawn.exact()
    of: Design = design(exact, formula, binary=family == "binomial")
    true = equations_of(exact, of, family).solve()
    assert true is not None
    p, hits = len(true), Hits()
    chosen = sorted({1, p - 1})
    for draw in range(draws):
        release = redrawn.draw(rng, rows=target == "population")
        equations = equations_of(release, of, family)
        if target == "population":
            solution = equations.solve()
            if solution is None:
                continue
            add_sampling(release, of, equations, solution)
        at_infinity = equations.distance_at_infinity() if family == "gaussian" and target == "table" else math.nan
        joint = equations.distance(true)
        least = {j: profile(equations, true, j, float(true[j]), true)[0] for j in chosen}
        for level in LEVELS:
            note(hits, ("joint", "asymptotic" if target == "population" else "exact", level), joint, p, level)
            for j in chosen:
                name = of.names[j]
                asymptotic, guaranteed = float(stats.chi2.ppf(level, 1)), float(stats.chi2.ppf(level, p))
                width = math.nan
                if draw < _WIDTHS and level == 0.95:
                    solution = equations.solve()
                    if solution is not None:
                        low, high = interval(equations, solution, j, asymptotic, unbounded=at_infinity < asymptotic)
                        width = high - low
                bounded = not at_infinity < asymptotic
                hits.setdefault((name, "asymptotic", level), []).append((least[j] <= asymptotic, bounded, width))
                if target == "table":
                    bounded = not at_infinity < guaranteed
                    hits.setdefault((name, "certified", level), []).append((least[j] <= guaranteed, bounded, math.nan))
    return hits


def note(hits: Hits, statement: tuple[str, str, float], distance: float, p: int, level: float) -> None:
    """Add one joint statement."""
    hits.setdefault(statement, []).append((distance <= float(stats.chi2.ppf(level, p)), True, math.nan))


def marginal_hits(redrawn: Redrawn, pair: tuple[str, str], draws: int, rng: np.random.Generator) -> Hits:
    """Return what each draw said of a pair of columns: two cells, a share, a mean, a quantile."""
    counts = redrawn.table.counts(pair).astype(float)
    first = counts.sum(axis=1)
    n, codes = counts.sum(), np.arange(len(first))
    half = float(np.argmax(np.cumsum(first) >= n / 2))
    most, least = (int(np.argmax(counts)), int(np.argmin(counts)))
    hits = Hits()
    for _ in range(draws):
        release = redrawn.draw(rng, rows=False)
        for level in LEVELS:
            both = inference.cells(release, pair, confidence=level)
            asked = (
                ("largest cell", both[most], counts.ravel()[most]),
                ("smallest cell", both[least], counts.ravel()[least]),
                ("share", inference.shares(release, pair[1:], confidence=level)[0], counts.sum(axis=0)[0] / n),
                ("mean", inference.mean(release, pair[0], confidence=level), first @ codes / n),
                ("median", inference.quantile(release, pair[0], 0.5, confidence=level), half),
            )
            for name, one, truth in asked:
                # A quantile's two one-sided tests hold at least as often as they say: it jumps.
                label = "certified" if name == "median" else one.label
                width = one.high - one.low if one.bounded else math.inf
                hits.setdefault((name, label, level), []).append((one.contains(float(truth)), one.bounded, width))
    return hits


def cells() -> Iterator[tuple[str, str, str, str, float]]:
    """Yield table, analysis, target, relation and epsilon of every cell."""
    for name, (_, linear, logistic) in SOURCES.items():
        for relation, epsilon in itertools.product(RELATIONS, EPSILONS):
            yield name, linear, "table", relation, epsilon
            yield name, logistic, "table", relation, epsilon
            yield name, "marginals", "table", relation, epsilon
        for epsilon in EPSILONS:
            yield name, linear, "population", "replace_one", epsilon


def run(draws: int) -> None:
    """Measure every cell that is not in the CSV yet."""
    done = {(c.table, c.analysis, c.target, c.relation, c.epsilon) for c in Covered.read_all(RESULT_FILE)}
    tables: dict[str, Table] = {}

    def made() -> Iterable[list[Covered]]:
        for at, (name, analysis, target, relation, epsilon) in enumerate(cells()):
            if (name, analysis, target, relation, epsilon) in done:
                continue
            source, _, logistic = SOURCES[name]
            table = tables.setdefault(name, source.table())
            rng, start = np.random.default_rng([at, 1]), time.process_time()
            if analysis == "marginals":
                pair = tuple(source.columns)[:2]
                hits = marginal_hits(Redrawn(table, [pair], epsilon, relation), (pair[0], pair[1]), draws, rng)
            else:
                family = "binomial" if analysis == logistic else "gaussian"
                hits = regression_hits(
                    *(Redrawn(table, needs(analysis, family), epsilon, relation), analysis, family, target),
                    draws=draws,
                    rng=rng,
                )
            print(name, analysis, target, relation, epsilon, f"{time.process_time() - start:.1f} CPU-s", flush=True)
            yield [
                Covered(
                    *(name, analysis, statement, label, target, relation, epsilon, level, len(found)),
                    covered=sum(f[0] for f in found),
                    bounded=sum(f[1] for f in found),
                    covered_bounded=sum(f[0] for f in found if f[1]),
                    width=float(np.nanmedian([f[2] for f in found])) if any(f[2] == f[2] for f in found) else math.nan,
                )
                for (statement, label, level), found in hits.items()
            ]

    Covered.append(RESULT_FILE, made())


def holm(p_values: Array) -> Array:
    """Return p-values adjusted for all that were tested (Holm, 1979)."""
    order = np.argsort(p_values)
    adjusted = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    out = np.empty(len(p_values))
    out[order] = np.minimum(adjusted, 1.0)
    return out


def judged(lines: Sequence[Covered]) -> list[tuple[Covered, float]]:
    """Return each statement with its adjusted p-value: of covering less often than it says; exact ones, otherwise."""
    p = np.array(
        [
            stats.binomtest(c.covered, c.draws, c.confidence, "two-sided" if c.label == "exact" else "less").pvalue
            for c in lines
        ]
    )
    return list(zip(lines, holm(p), strict=True))


def report() -> str:
    """Return a Markdown table of all statements by label and target, and write `docs/error-bars.csv`."""
    found = judged(Covered.read_all(RESULT_FILE))
    lines = ["| statement | label | target | level | cells | draws | covered: all | least | fail (Holm, 5 %) |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    rows = []
    kinds = sorted({(kind(c), c.label, c.target, c.confidence) for c, _ in found})
    for of, label, target, level in kinds:
        these = [(c, p) for c, p in found if (kind(c), c.label, c.target, c.confidence) == (of, label, target, level)]
        draws = sum(c.draws for c, _ in these)
        share = sum(c.covered for c, _ in these) / draws
        least = min(c.covered / c.draws for c, _ in these)
        failed = sum(p < 0.05 for _, p in these)
        rows.append([of, label, target, level, len(these), draws, f"{share:.4f}", f"{least:.3f}", failed])
        lines.append("| " + " | ".join(map(str, rows[-1])) + " |")
    path = RESULTS.parents[1] / "docs" / "error-bars.csv"
    head = ["statement", "label", "target", "level", "cells", "draws", "covered", "least", "failed"]
    write_text(path, "".join(",".join(map(str, row)) + "\n" for row in [head, *rows]))
    return "\n".join(lines)


def kind(c: Covered) -> str:
    """Return what a statement is about."""
    if c.analysis == "marginals":
        return c.statement
    return "joint set" if c.statement == "joint" else "coefficient"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "report"])
    parser.add_argument("--draws", type=int, default=1000, help="of the noise of each cell that is not in the CSV yet")
    given = parser.parse_args()
    if given.verb == "run":
        run(given.draws)
    else:
        print(report())


if __name__ == "__main__":
    main()
