"""AIM on tables of many columns: CPU seconds, memory and error as the number of columns grows.

    python benchmarks/wide.py run 40 100 200 --seeds 3     # rows of results/wide.csv
    python benchmarks/wide.py run 40 --table 0             # another table
    python benchmarks/wide.py reference 40                 # the first rounds of mbi, extrapolated
    python benchmarks/wide.py profile 40                   # CPU seconds by function, printed
    python benchmarks/wide.py report                       # docs/large-tables.md and its figure

Every run has a process of its own on one thread.
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import json
import pstats
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from aim import REFERENCE, REFERENCE_PYTHON, Settings, reference_row
from aim_worker import write_problem
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.methods.aim import AIM
from marginalia.privacy.calibration import zcdp_rho

RESULT_FILE = RESULTS / "wide.csv"
OURS = "marginalia"
COLUMNS = (20, 40, 60, 80, 100, 150, 200)
TABLE = 1  # its seed; 0 gives a harder one at 40 columns
CASES = [f"columns_{d}{other}" for d in COLUMNS for other in ("", *(f"_table{s}" for s in range(5) if s != TABLE))]


def wide_table(n_columns: int, n_rows: int = 100_000, seed: int = TABLE) -> Table:
    """Return a seeded table whose columns share about n_columns / 10 uniform latent factors.

    A column has 2 to 10 codes. It follows a factor or (half of the time, where there is one) an earlier column, blurred
    by Gaussian noise of a tenth of the range, for 60 % of the rows, and is uniform for the rest.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 11, n_columns)
    factors = rng.random((n_rows, max(1, round(n_columns / 10))))
    codes = np.empty((n_rows, n_columns), np.int64)
    for j, size in enumerate(sizes):
        if j and rng.random() < 0.5:
            k = int(rng.integers(j))
            source = (codes[:, k] + rng.random(n_rows)) / sizes[k]
        else:
            source = factors[:, rng.integers(factors.shape[1])]
        blurred = np.clip(source + rng.normal(scale=0.1, size=n_rows), 0.0, np.nextafter(1.0, 0.0))
        follows = rng.random(n_rows) < 0.6
        codes[:, j] = np.floor(size * np.where(follows, blurred, rng.random(n_rows)))
    return Table(codes, Domain.from_sizes({f"x{j}": int(m) for j, m in enumerate(sizes)}))


def fingerprint(table: Table) -> str:
    """Return the first digits of the SHA-256 of the codes, one byte each, row by row."""
    return hashlib.sha256(np.asarray(table.codes, np.uint8).tobytes()).hexdigest()[:12]


def aim_of(seed: int) -> AIM:
    """Return an unfitted AIM: all pairs, epsilon 1, 80 MB."""
    return AIM(epsilon=1.0, relation="add_remove", max_model_mb=80, random_state=seed)


def fit(n_columns: int, seed: int, *, of: int = TABLE, profile: bool = False) -> dict[str, Any]:
    """Fit AIM to the table of seed `of`; return its cost and error."""
    table = wide_table(n_columns, seed=of)
    aim_of(0).fit(wide_table(4, 500))  # compile
    aim = aim_of(seed)
    profiler = cProfile.Profile(time.process_time)
    run = measured(lambda: profiler.runcall(aim.fit, table) if profile else aim.fit(table))
    peak = peak_mb()
    if profile:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(35)
    cost = {"cpu_seconds": run.cpu, "wall_seconds": run.wall, "peak_mb": peak}
    return {**cost, "quality": aim.workload_error(table), "rounds": aim.rounds_, "table": fingerprint(table)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("run", "reference", "profile", "fit", "report"))
    parser.add_argument("columns", type=int, nargs="*")
    parser.add_argument("--seeds", type=int, default=1, help="of AIM: 1 to this one (fit, profile: this one)")
    parser.add_argument("--table", type=int, default=TABLE, help="seed of the table")
    parser.add_argument("--reference-python", type=Path, default=REFERENCE_PYTHON)
    parser.add_argument("--reference-seconds", type=float, default=600.0, help="CPU limit of a run of the reference")
    chosen = parser.parse_args(arguments)
    if chosen.task == "report":
        from wide_report import write_report

        write_report(RESULT_FILE)
    for d in chosen.columns:
        case = f"columns_{d}" + ("" if chosen.table == TABLE else f"_table{chosen.table}")
        if chosen.task == "run":
            store(RESULT_FILE, [_row(case, d, chosen.table, chosen.seeds)], CASES)
        elif chosen.task == "reference":
            reference = Settings(False, chosen.reference_python, 1, chosen.reference_seconds)
            store(RESULT_FILE, [_reference_row(case, d, chosen.table, reference)], CASES)
        else:  # `fit` is what `run` starts: one seed, printed as JSON
            print(json.dumps(fit(d, chosen.seeds, of=chosen.table, profile=chosen.task == "profile")))


def _row(case: str, n_columns: int, of: int, seeds: int) -> Row:
    worker = [sys.executable, Path(__file__), "fit", str(n_columns), "--table", str(of), "--seeds"]
    runs = [in_own_process([*worker, str(s)]) for s in range(1, 1 + seeds)]
    mean = {k: float(np.mean([r[k] for r in runs])) for k in ("cpu_seconds", "wall_seconds", "quality", "rounds")}
    note = f"{seeds} seeds, {mean['rounds']:.0f} rounds"
    if seeds > 1:
        note += f", standard error of the quality {np.std([r['quality'] for r in runs], ddof=1) / seeds**0.5:.2g}"
    return Row(
        case=case,
        implementation=OURS,
        cpu_seconds=mean["cpu_seconds"],
        wall_seconds=mean["wall_seconds"],
        peak_mb=max(r["peak_mb"] for r in runs),
        quality=mean["quality"],
        quality_name="workload_error",
        note=f"{note}; table {runs[0]['table']}",
    )


def _reference_row(case: str, n_columns: int, of: int, reference: Settings) -> Row:
    """Run the first rounds of the reference's AIM; extrapolate to the number of rounds that we take."""
    ours = [r for r in Row.read_all(RESULT_FILE) if (r.case, r.implementation) == (case, OURS)]
    if not ours:
        raise SystemExit(f"run {n_columns} first: extrapolating needs our number of rounds")
    aim, table = aim_of(1), wide_table(n_columns, seed=of)
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder) / "rows.npz"
        header = {"order": 2, "seed": 1, "max_model_mb": aim.max_model_mb, "seconds": reference.reference_seconds}
        rho = zcdp_rho(aim.epsilon, aim.delta)
        write_problem(problem, table.domain, [], codes=np.asarray(table.codes), rho=rho, **header)
        run = reference.run_reference("aim", problem)
    print(f"{REFERENCE}: {len(run['rounds'])} rounds", file=sys.stderr)
    return reference_row(case, run, int(ours[0].note.split(", ")[1].split()[0]))


if __name__ == "__main__":
    main()
