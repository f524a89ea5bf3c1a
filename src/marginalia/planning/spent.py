"""What finished runs took: ``python -m marginalia.planning.spent results/paper`` writes ``costs.csv`` there.

To be called where the runs were made: Snakemake's benchmark files, which it reads, are not published.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

import pandas as pd

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.reporting.provenance import cost

COSTS = ("jobs", "wall_hours_of_all_jobs", "cpu_hours_of_all_jobs", "largest_peak_mb")


def spent(folder: Path) -> pd.DataFrame:
    """Return one row for each finished run below a folder, and their sum.

    Parameters
    ----------
    folder : Path
        Holds one results folder for each run, with its ``provenance.json`` and ``benchmarks/``.

    Returns
    -------
    DataFrame
        ``block, finished, code``, the costs of `reporting.provenance`, and ``elapsed_hours`` from the first job to the
        last; the last row has sums, the largest peak, and the time in which at least one of the runs was under way.

    Raises
    ------
    InputError
        There is no finished run, or one without benchmark files.
    """
    rows, spans = [], []
    for path in sorted(folder.glob("*/provenance.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        costs = cost(path.parent / "benchmarks")
        if not costs["jobs"]:
            raise InputError(f"no benchmark files below {path.parent / 'benchmarks'}: call this where the run was made")
        began, ended = (datetime.fromisoformat(costs[name]) for name in ("first_job_began", "last_job_ended"))
        spans.append((began, ended))
        rows.append(
            {
                "block": path.parent.name,
                "finished": facts["finished"],
                "code": facts["code"]["version"],
                "elapsed_hours": (ended - began).total_seconds() / 3600,
                **{name: costs[name] for name in COSTS},
            }
        )
    if not rows:
        raise InputError(f"no finished run below {folder}: it holds no */provenance.json")
    table = pd.DataFrame(rows)
    total = {name: table[name].max() if name.startswith("largest") else table[name].sum() for name in COSTS}
    total["elapsed_hours"] = _union_hours(spans)
    return pd.concat([table, pd.DataFrame([{"block": "all", **total}])], ignore_index=True)


def _union_hours(spans: list[tuple[datetime, datetime]]) -> float:
    """Return the length of the union of time spans."""
    seconds, until = 0.0, min(began for began, _ in spans)
    for began, ended in sorted(spans):
        seconds += max((ended - max(began, until)).total_seconds(), 0.0)
        until = max(until, ended)
    return seconds / 3600


if __name__ == "__main__":
    root = Path(sys.argv[1])
    write_text(root / "costs.csv", spent(root).to_csv(index=False, float_format="%.6g", lineterminator="\n"))
