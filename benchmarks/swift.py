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

import numpy as np
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store
from residual import DOCS, SETS, workload_of

from marginalia.data.domain import Domain
from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.sweep.metrics import marginal_error
from marginalia.synthesis.aim import AIM
from marginalia.synthesis.mst import MST
from marginalia.synthesis.swift.synthesizer import SWIFT

RESULT_FILE = RESULTS / "swift.csv"
METHODS = {"mst": MST, "swift": SWIFT, "aim": AIM}
EPSILONS = {"wide_40": (1.0,), "wide_100": (1.0,)}  # others: these
CASES, ALL = (*SETS, "wide_40", "wide_100"), (0.1, 1.0, 2.0)
SEEDS = 3


def fits(case: str) -> list[dict[str, object]]:
    """Fit every method at each epsilon; return mean cost and error, with the error's standard error."""
    table, workload, judged = workload_of(case)
    small = Table(np.zeros((50, 3), int), Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    found = []
    for method, kind in METHODS.items():
        kind(epsilon=1.0, random_state=0).fit(small)
        for epsilon in EPSILONS.get(case, ALL):
            runs = []
            for seed in range(SEEDS):
                given = {} if kind is MST else {"workload": workload}
                model = kind(epsilon=epsilon, random_state=seed, **given)
                fit = measured(partial(model.fit, table))
                runs.append((fit.cpu, fit.wall, marginal_error(model, table, judged)))
            cpu, wall, error = (float(mean) for mean in np.mean(runs, axis=0))
            spread = float(np.std([run[2] for run in runs], ddof=1) / SEEDS**0.5)
            one = {"cpu": cpu, "wall": wall, "error": error, "spread": spread, "peak": peak_mb()}
            found.append({"method": method, "epsilon": epsilon, **one})
    return found


def rows_of(case: str) -> list[Row]:
    """Run a case in a process of its own."""
    return [
        Row(
            f"{case} {one['epsilon']:g}", one["method"], one["cpu"], one["wall"], one["peak"], one["error"],
            "error of the workload", f"mean of {SEEDS} seeds, standard error {one['spread']:.2g}",
        )
        for one in in_own_process([sys.executable, Path(__file__), "fit", case])["fits"]
    ]  # fmt: skip


def report() -> None:
    """Write docs/swift.csv: a line a case, with the errors and the CPU seconds of each method."""
    rows: dict[str, dict[str, float]] = {}
    for row in Row.read_all(RESULT_FILE):
        of = rows.setdefault(row.case, {})
        of[row.implementation], of[f"{row.implementation}_cpu"] = row.quality, row.cpu_seconds
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["data", "epsilon", *METHODS, *(f"{m}_cpu" for m in METHODS)])
    for case, of in rows.items():
        writer.writerow([*case.split(), *(f"{of[k]:.6g}" for k in (*METHODS, *(f"{m}_cpu" for m in METHODS)))])
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
