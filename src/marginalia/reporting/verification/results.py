"""The tables of a sweep, written from its records: by the workflow, and to verify."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from marginalia.reporting import formats, tables
from marginalia.sweep.metrics import METRICS


def write_sweep(records: pd.DataFrame, folder: Path) -> None:
    """Write the tables of a sweep: a metric each, certificates, failures and timings."""
    there = set(records["metric"])
    frames = {m.id: tables.aggregate(records, m.id) for m in METRICS.values() if m.id in there or not m.optional}
    frames |= {
        "certificates": tables.certificates(records),
        "failures": tables.failures(records),
        "timings": tables.timings(records),
    }
    for name, frame in frames.items():
        formats.write_csv(frame, folder / f"{name}.csv")
