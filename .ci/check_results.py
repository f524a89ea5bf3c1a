"""Check that a results folder is complete: `check_results.py FOLDER` looks for report, tables, figures and failures."""

import sys
from pathlib import Path

import pandas as pd

TABLES = ("mse", "auc", "marginal_error", "certificates")
MIN_REPORT_BYTES = 50_000


def problems(folder: Path) -> list[str]:
    """Return a line for each output that is missing, empty or records a failure."""
    found = []
    report = folder / "report.html"
    if not report.is_file() or report.stat().st_size < MIN_REPORT_BYTES:
        found.append(f"{report}: missing, or smaller than {MIN_REPORT_BYTES} bytes")
    for name in TABLES:
        table = folder / "tables" / f"{name}.csv"
        if not table.is_file() or pd.read_csv(table).empty:
            found.append(f"{table}: missing or without a row")
        found += [
            f"{figure}: missing"
            for figure in (folder / "figures" / f"{name}.{ending}" for ending in ("png", "svg", "pdf"))
            if not figure.is_file()
        ]
    failures = folder / "tables" / "failures.csv"
    if not failures.is_file():
        found.append(f"{failures}: missing")
    elif len(rows := pd.read_csv(failures)):
        found.append(f"{failures}: {len(rows)} runs failed")
    return found


if __name__ == "__main__":
    results = Path(sys.argv[1])
    lines = problems(results)
    print(*lines or [f"{results}: report, tables and figures are complete; no run failed"], sep="\n")
    sys.exit(bool(lines))
