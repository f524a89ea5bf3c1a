"""What finished runs took: ``python -m marginalia.planning.spent results/paper`` writes ``costs.csv`` there.

To be called where the runs were made: Snakemake's benchmark files, which it reads, are not published.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from marginalia.data.files import write_text
from marginalia.errors import InputError
from marginalia.reporting.provenance import cost

_COSTS = ("jobs", "wall_hours_of_all_jobs", "cpu_hours_of_all_jobs", "largest_peak_mb")


def spent(folder: Path) -> pd.DataFrame:
    """Return one row for each finished run below a folder, and their sum.

    ``elapsed_hours`` are those from the first job to the last; the last row has sums, the largest peak, and the time in
    which at least one of the runs was under way.
    """
    rows = []
    for path in sorted(folder.glob("*/provenance.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        costs = cost(path.parent / "benchmarks")
        if not costs["jobs"]:
            raise InputError(f"no benchmark files below {path.parent / 'benchmarks'}: call this where the run was made")
        run = {"block": path.parent.name, "finished": facts["finished"], "code": facts["code"]["version"]}
        rows.append(run | costs)
    if not rows:
        raise InputError(f"no finished run below {folder}: it holds no */provenance.json")
    table = pd.DataFrame(rows)
    began, ended = (pd.to_datetime(table[name]) for name in ("first_job_began", "last_job_ended"))
    table["elapsed_hours"] = (ended - began).dt.total_seconds() / 3600
    total = {name: table[name].max() if name.startswith("largest") else table[name].sum() for name in _COSTS}
    order = began.argsort()
    before = ended[order].cummax().shift(fill_value=began.min())  # what earlier runs have covered
    alone = (ended[order] - np.maximum(began[order], before)).dt.total_seconds().clip(lower=0)
    total["elapsed_hours"] = alone.sum() / 3600
    table = table[["block", "finished", "code", "elapsed_hours", *_COSTS]]
    return pd.concat([table, pd.DataFrame([{"block": "all", **total}])], ignore_index=True)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    write_text(root / "costs.csv", spent(root).to_csv(index=False, float_format="%.6g", lineterminator="\n"))
