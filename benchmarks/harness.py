"""What the benchmarks share: result rows, the CSV that keeps them, and processes that are timed alone."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self, get_type_hints

from marginalia.data.files import write_text
from marginalia.sweep.version import code_version

RESULTS = Path(__file__).parent / "results"

# One thread a process, on both sides: CPU seconds then compare algorithms, not thread pools that spin.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def machine() -> str:
    """Return the processor and its number of cores."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return f"{model}, {os.cpu_count()} cores"


@dataclass(frozen=True)
class Row:
    """One line of a benchmark's CSV.

    Attributes
    ----------
    case : str
        What was run.
    implementation : str
        ``marginalia``, or the reference with its version.
    cpu_seconds, wall_seconds : float
        Of one run (means where `note` says so).
    peak_mb : float
        Largest resident memory of the process.
    quality : float
    quality_name : str
        What `quality` measures.
    note : str
    code_version, machine : str
        Filled in here.
    """

    case: str
    implementation: str
    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    quality: float
    quality_name: str
    note: str = ""
    code_version: str = ""
    machine: str = ""

    @classmethod
    def read_all(cls, path: Path) -> list[Self]:
        """Return the rows of a CSV; none if there is no such file."""
        if not path.exists():
            return []
        kinds = get_type_hints(cls)
        with path.open(newline="", encoding="utf-8") as file:
            return [cls(**{k: kinds[k](v) for k, v in row.items()}) for row in csv.DictReader(file)]


def store(path: Path, rows: Iterable[Row], order: Sequence[str]) -> None:
    """Put `rows` into the CSV in place of older ones of the same case and implementation.

    Parameters
    ----------
    path : Path
    rows : iterable of Row
    order : sequence of str
        Every case, in the order of the file; rows of cases that no longer exist are dropped.
    """
    stamped = [Row(**{**asdict(r), "code_version": code_version(), "machine": machine()}) for r in rows]
    new = {(r.case, r.implementation) for r in stamped}
    kept = [r for r in Row.read_all(path) if (r.case, r.implementation) not in new and r.case in order]
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for row in sorted([*kept, *stamped], key=lambda r: (order.index(r.case), r.implementation)):
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in asdict(row).items()})
    write_text(path, text.getvalue())


def store_ratios(path: Path, prototypes: Mapping[str, float | None], *, ours: str = "marginalia") -> None:
    """Write ``<name>_ratios.csv`` beside a CSV: our CPU seconds over those stated for the prototype of the method.

    Parameters
    ----------
    path : Path
    prototypes : mapping
        Case to the prototype's CPU seconds; None where none were stated.
    ours : str
        The implementation to compare.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["case", "cpu_seconds", "prototype_cpu_seconds", "ratio", "quality", "quality_name", "note"])
    for row in Row.read_all(path):
        if row.implementation == ours:
            theirs = prototypes.get(row.case)
            known = ("", "") if theirs is None else (f"{theirs:g}", f"{row.cpu_seconds / theirs:.3g}")
            numbers = (f"{row.cpu_seconds:.3g}", *known, f"{row.quality:.4g}")
            writer.writerow([row.case, *numbers, row.quality_name, row.note])
    write_text(path.with_name(f"{path.stem}_ratios.csv"), text.getvalue())


@dataclass(frozen=True)
class Measured:
    """CPU and wall seconds of a call, and what it returned."""

    cpu: float
    wall: float
    value: Any


def measured(call: Callable[[], Any]) -> Measured:
    """Run `call` and time it."""
    cpu, wall = time.process_time(), time.perf_counter()
    value = call()
    return Measured(time.process_time() - cpu, time.perf_counter() - wall, value)


def peak_mb() -> float:
    """Largest resident memory of this process so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would count the parent as well, which a new process shares until it starts
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


def in_own_process(command: Sequence[str | Path]) -> dict[str, Any]:
    """Run a worker on one thread and return the JSON object it prints.

    Raises
    ------
    RuntimeError
        The worker failed; its own message is on stderr.
    """
    done = subprocess.run(
        [str(c) for c in command], env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(c) for c in command[:3])} ... ended with exit code {done.returncode}")
    return json.loads(done.stdout)
