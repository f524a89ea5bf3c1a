"""Card: the size of each table and of the marginals of all its pairs."""

from __future__ import annotations

from itertools import combinations

from marginalia.papers.card import Card, Figure, Folders, Frame, Settings, Tables
from marginalia.reporting.panels import drawing
from marginalia.sweep.protocols import Prepared

SETS = ("adult", "compas")


def parts(settings: Settings) -> list[str]:
    """One part a table."""
    return list(settings["sets"])


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Frame:
    """Return rows, columns, and cells of all pairs."""
    import pandas as pd

    table = Prepared.load(data[part]).table
    cells = sum(a * b for a, b in combinations(table.domain.sizes, 2))
    return pd.DataFrame([{"dataset": part, "rows": len(table), "columns": len(table.domain), "cells": cells}])


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the sizes."""
    return {SIZES.id: rows}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the cells of each table."""
    table = tables[SIZES.id]
    with drawing(1, 1, entries=1) as (drawn, (ax,)):
        ax.bar(table["dataset"], table["cells"], label="cells of all pairs")
        ax.set_yscale("log")
    return drawn


SIZES = Card(
    id="cross_paper_sizes",
    title="Sizes of the tables",
    caption="Cells of all two-way marginals.",
    defaults={"sets": SETS},
    parts=parts,
    run=run,
    tables=tables,
    figure=figure,
    datasets=SETS,
)
