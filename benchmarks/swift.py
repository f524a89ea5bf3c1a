"""SWIFT beside AIM and MST: error of all pairs and CPU seconds.

    python benchmarks/swift.py run adult wide_40    # rows of results/swift.csv; without names: all
    python benchmarks/swift.py report               # docs/swift.csv

Every case runs in a process of its own on one thread.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store
from residual import DOCS, workload_of

from marginalia.data.domain import Domain
from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.methods.aim import AIM
from marginalia.methods.mst import MST
from marginalia.methods.swift import SWIFT
from marginalia.sweep.metrics import marginal_error

RESULT_FILE = RESULTS / "swift.csv"
METHODS = {"mst": MST, "swift": SWIFT, "aim": AIM}
EPSILONS = {"wide_40": (1.0,), "wide_100": (1.0,)}  # others: these
SETS = (
    "adult", "compas", "law", "dutch", "nist_taxi", "acs_income_lin@dd_ssp", "acs_employment@dd_ssp",
    "acs_mobility@dd_ssp", "adult_smooth4", "compas_smooth3", "adult_bool20", "compas_bool13", "law_bool13",
    "dutch_bool16",
)  # fmt: skip
CASES, ALL = (*SETS, "wide_40", "wide_100"), (0.1, 1.0, 2.0)
TUNED = ("adult", "law", "acs_income_lin@dd_ssp", "compas_bool13", "wide_40")  # SWIFT's constants were chosen on these
SEEDS = 3


def fits(case: str) -> list[dict[str, Any]]:
    """Fit every method at each epsilon and seed; the methods take turns in going first."""
    table, workload, judged = workload_of(case)
    small = Table(np.zeros((50, 3), int), Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    for kind in METHODS.values():
        kind(epsilon=1.0, random_state=0).fit(small)
    found = []
    for epsilon in EPSILONS.get(case, ALL):
        runs: dict[str, list[tuple[float, float, float]]] = {method: [] for method in METHODS}
        for seed in range(SEEDS):
            turns = [*METHODS][seed % len(METHODS) :] + [*METHODS][: seed % len(METHODS)]
            for method in turns:
                given = {} if method == "mst" else {"workload": workload}
                model = METHODS[method](epsilon=epsilon, random_state=seed, **given)
                fit = measured(partial(model.fit, table))
                runs[method].append((fit.cpu, fit.wall, marginal_error(model, table, judged)))
        for method, of in runs.items():
            cpu, wall, error = (float(mean) for mean in np.mean(of, axis=0))
            one = {"cpu": cpu, "wall": wall, "error": error, "errors": [run[2] for run in of], "peak": peak_mb()}
            found.append({"method": method, "epsilon": epsilon, **one})
    return found


def rows_of(case: str) -> list[Row]:
    """Run a case in a process of its own."""
    return [
        Row(
            f"{case} {one['epsilon']:g}", one["method"], one["cpu"], one["wall"], one["peak"], one["error"],
            "error of the workload", "seeds: " + " ".join(f"{error:.6g}" for error in one["errors"]),
        )
        for one in in_own_process([sys.executable, Path(__file__), "fit", case])["fits"]
    ]  # fmt: skip


def report() -> None:
    """Write docs/swift.csv: a line a case, with the errors and the CPU seconds of each method.

    `difference` is SWIFT's error less AIM's, with the standard error of the mean over seeds; both in shares of AIM's.
    """
    rows: dict[str, dict[str, Row]] = {}
    for row in Row.read_all(RESULT_FILE):
        rows.setdefault(row.case, {})[row.implementation] = row
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    cost = [f"{method}_cpu" for method in METHODS]
    writer.writerow(["data", "epsilon", *METHODS, "difference", "standard_error", *cost, "tuned"])
    for case, of in rows.items():
        errors = {m: np.array([float(e) for e in row.note.removeprefix("seeds: ").split()]) for m, row in of.items()}
        apart = (errors["swift"] - errors["aim"]) / errors["aim"].mean()
        spread = apart.std(ddof=1) / len(apart) ** 0.5
        numbers = [*(of[m].quality for m in METHODS), apart.mean(), spread, *(of[m].cpu_seconds for m in METHODS)]
        tuned = "yes" if case.split()[0] in TUNED else ""
        writer.writerow([*case.split(), *(f"{number:.6g}" for number in numbers), tuned])
    write_text(DOCS / "swift.csv", text.getvalue())


if __name__ == "__main__":
    task, *names = sys.argv[1:] or ["report"]
    if task == "fit":
        print(json.dumps({"fits": fits(names[0])}))
    elif task == "report":
        report()
    else:
        order = [f"{name} {epsilon:g}" for name in CASES for epsilon in EPSILONS.get(name, ALL)]
        for name in names or CASES:
            store(RESULT_FILE, rows_of(name), order)
