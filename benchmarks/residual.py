"""Marginals from residuals beside Gaussian noise on every pair and AIM: error and CPU seconds.

    python benchmarks/residual.py run                      # all cases: rows of results/residual.csv
    python benchmarks/residual.py run compas wide_100      # some
    python benchmarks/residual.py regression               # DD-SSP on these sources: results/residual_regression.csv
    python benchmarks/residual.py tables                   # docs/residual*.csv: a line a case, a column a method

A case is a data set with all pairs as the workload, or the table of benchmarks/wide.py. It has a process of its own on
one thread, where a method's first fit, which loads and compiles, is not timed; memory is the largest so far.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store

from marginalia.data.datasets import load
from marginalia.data.domain import Domain
from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.methods.aim import AIM
from marginalia.methods.dd_ssp import DDSSPClassifier, DDSSPRegressor
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.methods.residual_planner import ResidualPlanner
from marginalia.papers.recent.methods.aim_residual import ResidualAIM
from marginalia.sweep.metrics import marginal_error, scores
from marginalia.synthesis.base import Synthesizer

DOCS = Path(__file__).parents[1] / "docs"
SEEDS, EPSILONS = 3, (0.1, 1.0, 2.0)
SETS = (
    "adult", "adult@dd_ssp", "compas", "compas_smooth3", "compas_bool13", "acs_income_lin@dd_ssp",
    "acs_employment@dd_ssp", "acs_mobility@dd_ssp", "law", "dutch", "nist_taxi",
)  # fmt: skip
METHODS: dict[str, tuple[type[Synthesizer], dict[str, Any]]] = {
    "gaussian_marginals": (GaussianMarginals, {}),
    "residual_planner unbiased": (ResidualPlanner, {"estimate": "unbiased"}),
    "residual_planner nonnegative": (ResidualPlanner, {"estimate": "nonnegative"}),
    "residual_planner": (ResidualPlanner, {}),
    "aim_residual": (ResidualAIM, {}),
    "aim": (AIM, {}),
}
# Of 100 columns: all pairs, all triples, and so many quadruples named at random.
WIDE = {"wide_40": (40, 2, 0), "wide_100": (100, 2, 0), "wide_100_3way": (100, 3, 0), "wide_100_4way": (100, 4, 5_000)}
WIDE_METHODS = {
    "wide_40": tuple(METHODS),
    "wide_100": ("gaussian_marginals", "residual_planner unbiased", "residual_planner", "aim_residual", "aim"),
    "wide_100_3way": ("residual_planner",),
    "wide_100_4way": ("residual_planner", "aim_residual"),
}
ORDER = [f"{name} {epsilon:g}" for name in (*SETS, *WIDE) for epsilon in EPSILONS]
REGRESSIONS = (
    ("adult@dd_ssp", "education-num"), ("adult@dd_ssp", "income>50K"), ("acs_income_lin@dd_ssp", "PINCP"),
    ("acs_employment@dd_ssp", "ESR"), ("compas", "two_year_recid"),
)  # fmt: skip


def workload_of(case: str) -> tuple[Table, Any, list[tuple[str, ...]]]:
    """Return the table of a case, its workload, and the marginals of it on which errors are taken (at most 5,000)."""
    rng = np.random.default_rng(0)
    if case not in WIDE:
        table = load(case).table
        return table, 2, list(itertools.combinations(table.domain.names, 2))
    from wide import wide_table

    columns, order, named = WIDE[case]
    table = wide_table(columns)
    if named:
        chosen = {tuple(sorted(rng.choice(columns, order, replace=False).tolist())) for _ in range(named)}
        marginals = [tuple(table.domain.names[a] for a in q) for q in sorted(chosen)]
    else:
        marginals = list(itertools.combinations(table.domain.names, order))
    judged = rng.permutation(len(marginals))[:5000]
    return table, marginals if named else order, [marginals[i] for i in judged]


def fits(case: str, epsilons: Sequence[float], seeds: int) -> list[dict[str, Any]]:
    """Fit every method at each epsilon; return mean cost (of the fit, and of answering) and error."""
    table, workload, judged = workload_of(case)
    small = Table(np.zeros((50, 3), int), Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    found = []
    for method in WIDE_METHODS.get(case, tuple(METHODS)):
        kind, options = METHODS[method]
        kind(epsilon=1.0, random_state=0, **options).fit(small).marginal(("a", "b"))
        for epsilon in epsilons:
            runs = []
            for seed in range(seeds):
                model = kind(epsilon=epsilon, workload=workload, random_state=seed, **options)
                fit = measured(partial(model.fit, table))
                answers = measured(partial(marginal_error, model, table, judged))
                runs.append((fit.cpu, fit.wall, answers.cpu, answers.value))
            cpu, wall, answering, error = (float(mean) for mean in np.mean(runs, axis=0))
            one = {"cpu": cpu, "wall": wall, "answers": answering, "error": error, "peak": peak_mb()}
            found.append({"method": method, "epsilon": epsilon, **one})
    return found


def rows_of(case: str) -> Iterator[Row]:
    """Run a case in a process of its own."""
    epsilons, seeds = ((1.0,), 1 if "way" in case else SEEDS) if case in WIDE else (EPSILONS, SEEDS)
    words = [case, json.dumps(epsilons), str(seeds)]
    for one in in_own_process([sys.executable, Path(__file__), "fit", *words])["fits"]:
        yield Row(
            f"{case} {one['epsilon']:g}", one["method"], one["cpu"], one["wall"], one["peak"], one["error"],
            "error of the workload", f"mean of {seeds} seeds; answers {one['answers']:.2f} CPU-s",
        )  # fmt: skip


def regression(dataset: str, target: str) -> Iterator[Row]:
    """Fit DD-SSP to every source on a random four fifths of the rows; judge it on the rest."""
    table, task = load(dataset).table, "linear" if target in ("education-num", "PINCP") else "logistic"
    metric, learner = ("mse", DDSSPRegressor) if task == "linear" else ("auc", DDSSPClassifier)
    for method in ("gaussian_marginals", "residual_planner unbiased", "residual_planner", "aim_residual", "aim"):
        kind, options = METHODS[method]
        for epsilon in EPSILONS:
            runs = []
            for seed in range(SEEDS):
                order = np.random.default_rng(seed).permutation(table.n_rows)
                train, test = np.split(order, [4 * table.n_rows // 5])
                model = learner(marginals=kind(epsilon=epsilon, random_state=seed, **options))
                fit = measured(partial(model.fit, table.take(train), target))
                found = scores(model, table.take(test), target=target, task=task, one_hot=None)[metric]
                runs.append((fit.cpu, fit.wall, found))
            cpu, wall, value = (float(mean) for mean in np.mean(runs, axis=0))
            case = f"{dataset} {target} {epsilon:g}"
            yield Row(case, method, cpu, wall, peak_mb(), value, metric, f"mean of {SEEDS} seeds")


def table_of(rows: Sequence[Row]) -> str:
    """Return a CSV with a line for each case: the quality of each method, and the CPU seconds of its fit."""
    methods = [m for m in METHODS if any(row.implementation == m for row in rows)]
    short = [m.split()[-1] for m in methods]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["data", "epsilon", *short, *(f"{m}_cpu" for m in short)])
    for case in dict.fromkeys(row.case for row in rows):
        name, epsilon = case.rsplit(" ", 1)
        here = {row.implementation: row for row in rows if row.case == case}
        numbers = [f"{getattr(here[m], what):.4g}" if m in here else ""
                   for what in ("quality", "cpu_seconds") for m in methods]  # fmt: skip
        writer.writerow([name, epsilon, *numbers])
    return text.getvalue()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("run", "regression", "tables", "fit"))
    parser.add_argument("words", nargs="*", help="cases; all where none is named")
    options = parser.parse_args(arguments)
    if options.task == "fit":  # what `run` starts
        case, epsilons, seeds = options.words
        print(json.dumps({"fits": fits(case, json.loads(epsilons), int(seeds))}))
        return
    if options.task == "regression":
        order = [f"{dataset} {target} {epsilon:g}" for dataset, target in REGRESSIONS for epsilon in EPSILONS]
        for dataset, target in REGRESSIONS:
            store(RESULTS / "residual_regression.csv", regression(dataset, target), order)
        return
    if options.task == "tables":
        for name in ("residual", "residual_regression"):
            write_text(DOCS / f"{name}.csv", table_of(Row.read_all(RESULTS / f"{name}.csv")))
        return
    for case in options.words or (*SETS, *WIDE):
        store(RESULTS / "residual.csv", rows_of(case), ORDER)


if __name__ == "__main__":
    main()
