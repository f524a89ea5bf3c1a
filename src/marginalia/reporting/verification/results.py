"""The tables of a results folder, written from result rows and from the rows of cards: by the workflow, and to verify.

Cards and comparisons are handed in: this floor knows no paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from marginalia.card import Card, Comparison
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


def write_card(card: Card, rows: pd.DataFrame, settings: Mapping[str, Any], folder: Path) -> dict[str, pd.DataFrame]:
    """Write the tables of a card, and return them by name."""
    made: dict[str, pd.DataFrame] = card.tables(rows, settings)
    for name, frame in made.items():
        formats.write_csv(frame, folder / f"{name}.csv")
    return made


def write_comparison(
    comparison: Comparison, records: pd.DataFrame, made: Mapping[str, Mapping[str, pd.DataFrame]], folder: Path
) -> None:
    """Write the table of a comparison; `made` maps cards to their tables."""
    needed = {name: frame for card in comparison.needs for name, frame in made.get(card, {}).items()}
    frame = comparison.table(records, needed) if comparison.needs else comparison.table(records)
    formats.write_csv(frame, folder / f"{comparison.id}.csv")
