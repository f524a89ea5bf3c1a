"""Intervals from NAPSU-MQ's synthetic tables beside those of a declared analysis: five binary columns of COMPAS.

    python benchmarks/napsu_mq.py run       # results/napsu_mq.csv; needs `python3 envs/install_peer.py twinify`
    python benchmarks/napsu_mq.py report    # docs/napsu_mq.csv

The 7,214 rows stand for a population: each release is of as many rows drawn from them, and the coefficients of the
population are what intervals should hold. NAPSU-MQ (Räisä, Jälkö, Kaski and Honkela, 2023) gives tables from draws of a
posterior; a logistic regression is fitted to each, and the rules for fully synthetic data put them together
(Raghunathan, Reiter and Rubin, 2003; a variance that comes out negative is replaced as by Reiter, 2002, and as by
twinify's `non_negative_conf_int`). All are given epsilon 1, delta 1e-5 and the relation replace one.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from aim_worker import load
from declared_coverage import fit
from harness import RESULTS, Line
from numpy.typing import NDArray
from scipy import stats

from marginalia import inference
from marginalia.data.attribute import Attribute
from marginalia.data.domain import Domain
from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.methods.declared_analyses.declared_analyses import DeclaredAnalyses
from marginalia.peers.record import record
from marginalia.synthesis import ResidualPlanner

RESULT_FILE = RESULTS / "napsu_mq.csv"
FEATURES = ("male", "young", "felony", "before")
FORMULA = f"again ~ {' + '.join(FEATURES)}"
ASKED: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "relation": "replace_one"}
LEVEL, SETS = 0.95, 50
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Interval(Line):
    """One coefficient of one release."""

    seed: int
    method: str
    term: str
    true: float
    low: float
    high: float
    seconds: float  # of CPU, for the release and all of its intervals


def population() -> Table:
    """Return five binary columns of COMPAS."""
    given = load("dpml/compas")
    columns = {
        "male": given.column("sex") == 0,
        "young": given.column("age") < 12,  # below 30 years: codes begin at 18
        "felony": given.column("c_charge_degree") == 0,
        "before": given.column("priors_count") > 0,
        "again": given.column("two_year_recid") == 1,
    }
    domain = Domain([Attribute(name, 2, "numeric") for name in columns])
    return Table(np.column_stack(list(columns.values())).astype(np.int64), domain)


def combined(q: Array, u: Array) -> tuple[float, float]:
    """Return the interval from estimates and squared standard errors of synthetic tables, each as long as the real one.

    >>> [round(float(end), 3) for end in combined(np.array([0.0, 1.0, 2.0]), np.array([0.1, 0.1, 0.1]))]
    [-4.178, 6.178]
    """
    between = (1 + 1 / len(q)) * q.var(ddof=1)
    variance, freedom = between - u.mean(), (len(q) - 1) * (1 - u.mean() / between) ** 2
    if variance <= 0:
        variance = u.mean()
    low, high = stats.t(loc=q.mean(), scale=math.sqrt(variance), df=freedom).interval(LEVEL)
    return float(low), float(high)


def from_sets(rows: Table, n: int) -> Array:
    """Return intervals from tables of `n` rows that stand one below the other, shape (coefficients, 2)."""
    fits = [fit(rows.take(slice(start, start + n)), FORMULA, "binomial") for start in range(0, len(rows), n)]
    q, se = np.array([b for b, _ in fits]), np.array([se for _, se in fits])
    return np.array([combined(q[:, j], se[:, j] ** 2) for j in range(q.shape[1])])


def without_privacy(sample: Table, seed: int) -> Array:
    """Return the usual intervals."""
    b, se = fit(sample, FORMULA, "binomial")
    z = stats.norm.ppf((1 + LEVEL) / 2)
    return np.column_stack([b - z * se, b + z * se])


def declared_analysis(sample: Table, seed: int) -> Array:
    """Return the intervals of a release that was made for this regression alone."""
    declared = {"analyses": [{"formula": FORMULA, "family": "binomial"}]}
    return ours(DeclaredAnalyses(analyses=declared, random_state=seed, **ASKED), sample)


def residual_planner(sample: Table, seed: int) -> Array:
    """Return the intervals of a release of the marginals that this regression needs."""
    workload = [FEATURES, *((name, "again") for name in FEATURES)]
    return ours(ResidualPlanner(workload=workload, random_state=seed, **ASKED), sample)


def ours(model: Any, sample: Table) -> Array:
    """Return the intervals that a release states."""
    asked = {"family": "binomial", "target": "population", "confidence": LEVEL}
    return np.array([(c.low, c.high) for c in inference.regression(model.fit(sample), FORMULA, **asked).coefficients])


def napsu_mq(sample: Table, seed: int) -> Array:
    """Return the intervals from tables that stand one below the other."""
    peer = record("peer/twinify/napsu_mq").load()(sets=SETS, random_state=seed, **ASKED).fit(sample)
    return from_sets(peer.rows_, len(sample))


METHODS: dict[str, Callable[[Table, int], Array]] = {
    "without privacy": without_privacy,
    "declared analysis": declared_analysis,
    "residual_planner": residual_planner,
    "NAPSU-MQ": napsu_mq,
}


def seconds() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def run(releases: int, of_napsu: int) -> None:
    """Measure the releases that are not in the CSV yet."""
    done = {(line.seed, line.method) for line in Interval.read_all(RESULT_FILE)}
    table = population()
    true = fit(table, FORMULA, "binomial")[0]
    declared_analysis(table, 0)  # compiled before the clock starts

    def made() -> Iterator[list[Interval]]:
        for method, intervals in METHODS.items():
            for seed in range(of_napsu if intervals is napsu_mq else releases):
                if (seed, method) in done:
                    continue
                drawn = np.random.default_rng([seed, 34]).integers(len(table), size=len(table))
                start = seconds()
                found = intervals(Table(table.codes[drawn], table.domain), seed)
                spent = round(seconds() - start, 3)
                print(method, seed, f"{spent:.1f} CPU-s", flush=True)
                yield [
                    Interval(seed, method, term, float(b), float(low), float(high), spent)
                    for term, b, (low, high) in zip(("Intercept", *FEATURES), true, found, strict=True)
                ]

    Interval.append(RESULT_FILE, made())


def report() -> str:
    """Return the table of docs/error-bars.md, and write `docs/napsu_mq.csv`: slopes alone."""
    rows = pd.DataFrame(map(vars, Interval.read_all(RESULT_FILE))).query("term != 'Intercept'")
    rows["covered"] = (rows["low"] <= rows["true"]) & (rows["true"] <= rows["high"])
    rows["width"] = rows["high"] - rows["low"]
    plain = rows.query("method == 'without privacy'").set_index(["seed", "term"])["width"]
    rows["over"] = rows["width"] / plain.reindex(pd.MultiIndex.from_frame(rows[["seed", "term"]])).to_numpy()
    grouped = rows.groupby("method", sort=False)
    text = grouped.agg(
        releases=("seed", "nunique"),
        slopes=("covered", "size"),
        covered=("covered", "sum"),
        width=("width", "median"),
        over=("over", "median"),
        seconds=("seconds", "mean"),
    ).rename(columns={"over": "width over that without privacy", "seconds": "CPU seconds"})
    csv = text.round(3).to_csv(lineterminator="\n")
    write_text(RESULTS.parents[1] / "docs" / "napsu_mq.csv", csv)
    return csv


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "report"])
    parser.add_argument("--releases", type=int, default=200, help="of ours (default: 200)")
    parser.add_argument("--napsu", type=int, default=5, help="of NAPSU-MQ, minutes each (default: 5)")
    given = parser.parse_args()
    if given.verb == "run":
        run(given.releases, given.napsu)
    else:
        print(report())


if __name__ == "__main__":
    main()
