"""What finished runs took: ``python -m marginalia.advice.spent results/paper`` writes ``costs.csv`` there.

To be called where the runs were made: Snakemake's benchmark files, which it reads, are not published.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pandas as pd

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.reporting.provenance import cost, jobs

_COSTS = ("jobs", "wall_hours_of_all_jobs", "cpu_hours_of_all_jobs", "largest_peak_mb")


def spent(folder: Path) -> pd.DataFrame:
    """Return one row for each finished run below a folder, and their sum.

    ``elapsed_hours`` are those in which at least one job was under way: the pause of a run that was stopped and resumed
    is left out. The last row has sums, the largest peak, and the hours in which a job of any run was under way.
    """
    rows = []
    under_way: list[tuple[float, float]] = []
    for path in sorted(folder.glob("*/provenance.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        intervals = [(began, ended) for began, ended, _ in jobs(path.parent / "benchmarks")]
        if not intervals:
            raise InputError(f"no benchmark files below {path.parent / 'benchmarks'}: call this where the run was made")
        under_way += intervals
        run = {"block": path.parent.name, "finished": facts["finished"], "code": facts["code"]["version"]}
        rows.append(run | {"elapsed_hours": _covered(intervals) / 3600} | cost(path.parent / "benchmarks"))
    if not rows:
        raise InputError(f"no finished run below {folder}: it holds no */provenance.json")
    table = pd.DataFrame(rows)
    total = {name: table[name].max() if name.startswith("largest") else table[name].sum() for name in _COSTS}
    total["elapsed_hours"] = _covered(under_way) / 3600
    table = table[["block", "finished", "code", "elapsed_hours", *_COSTS]]
    return pd.concat([table, pd.DataFrame([{"block": "all", **total}])], ignore_index=True)


def _covered(intervals: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals."""
    covered, until = 0.0, -math.inf
    for began, ended in sorted(intervals):
        covered += max(ended - max(began, until), 0.0)
        until = max(until, ended)
    return covered


if __name__ == "__main__":
    root = Path(sys.argv[1])
    write_text(root / "costs.csv", spent(root).to_csv(index=False, float_format="%.6g", lineterminator="\n"))
