"""What the published runs took: ``python -m marginalia.planning.spent results/paper`` writes ``costs.csv`` there."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd

from marginalia.data.files import write_text
from marginalia.errors import InputError

COSTS = ("jobs", "wall_hours_of_all_jobs", "cpu_hours_of_all_jobs", "largest_peak_mb")


def spent(folder: Path) -> pd.DataFrame:
    """Return one row for each finished run below a folder, and their sum.

    Parameters
    ----------
    folder : Path
        Holds one results folder for each run, with its ``provenance.json``.

    Returns
    -------
    DataFrame
        ``block, finished, code`` and the costs of `reporting.provenance`; the last row has sums, and the largest peak.

    Raises
    ------
    InputError
        There is no finished run.
    """
    rows = []
    for path in sorted(folder.glob("*/provenance.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        costs = {name: facts["cost"].get(name) for name in COSTS}
        rows.append(
            {"block": path.parent.name, "finished": facts["finished"], "code": facts["code"]["version"], **costs}
        )
    if not rows:
        raise InputError(f"no finished run below {folder}: it holds no */provenance.json")
    table = pd.DataFrame(rows)
    total = {name: table[name].max() if name.startswith("largest") else table[name].sum() for name in COSTS}
    return pd.concat([table, pd.DataFrame([{"block": "all", **total}])], ignore_index=True)


if __name__ == "__main__":
    root = Path(sys.argv[1])
    write_text(root / "costs.csv", spent(root).to_csv(index=False, float_format="%.6g", lineterminator="\n"))
