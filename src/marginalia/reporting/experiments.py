"""The tables, the figure and the caption of an experiment, made from its rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd

from marginalia.errors import InputError
from marginalia.experiment import Curves, Experiment, Figure, Frame, Settings, Tables
from marginalia.figure_style import RC
from marginalia.reporting import formats
from marginalia.reporting.means import mean_table, rounded
from marginalia.reporting.panels import curve, drawing, log_axis, look
from marginalia.sweep.metrics import METRICS
from marginalia.sweep.resolve import OTHER_TABLES

UNREPEATED = ("seconds", "peak_mb")  # columns of rows that differ each time


def make_tables(experiment: Experiment, rows: Frame, settings: Settings, others: Mapping[str, Tables] = {}) -> Tables:
    """Return the tables of an experiment by name.

    Parameters
    ----------
    experiment : Experiment
    rows : DataFrame
        Of all its parts; of one without runs of its own, the records of the sweep.
    settings : mapping
    others : mapping of id to tables
        Of other experiments: those that it needs are handed to it.

    Raises
    ------
    InputError
        There is no main table, or a table has the name of one of the sweep.
    """
    if experiment.tables is None:
        return {experiment.id: _means(rows, experiment.keys)}
    given: list[Any] = [settings] if experiment.defaults else []
    if experiment.needs:
        given.append({name: table for other in experiment.needs for name, table in others.get(other, {}).items()})
    made = experiment.tables(rows, *given)
    made = made if isinstance(made, dict) else {experiment.id: made}
    if experiment.id not in made:
        raise InputError(f"experiment '{experiment.id}': 'tables' returns no table '{experiment.id}', the main one")
    if taken := made.keys() & {*METRICS, *OTHER_TABLES}:
        raise InputError(f"experiment '{experiment.id}': '{min(taken)}' is a table of the sweep; rename yours")
    return made


def write_tables(tables: Tables, folder: Path) -> None:
    """Write each table as ``<name>.csv``."""
    for name, frame in tables.items():
        formats.write_csv(frame, folder / f"{name}.csv")


def draw(experiment: Experiment, tables: Tables, settings: Settings) -> Figure:
    """Return the figure of an experiment that has one, in the style of the project."""
    assert experiment.figure is not None
    with matplotlib.rc_context(RC):
        if isinstance(experiment.figure, Curves):
            return _curves(experiment.figure, tables[experiment.id])
        given = [settings] if experiment.defaults else []
        return experiment.figure(dict(tables), *given)


def caption(experiment: Experiment, tables: Tables) -> str:
    """Return what the figure of an experiment shows."""
    return experiment.caption if isinstance(experiment.caption, str) else experiment.caption(tables)


def _means(rows: Frame, keys: tuple[str, ...]) -> Frame:
    numbers = map(str, rows.select_dtypes("number"))
    values = [name for name in numbers if name not in (*keys, "trial", *UNREPEATED)]
    return rounded(mean_table(rows, keys, values))


def _curves(wanted: Curves, table: Frame) -> Figure:
    """Draw means with bars of one standard error: a panel, and in it a curve, for each value of two columns."""
    panels = list(table.groupby(wanted.panel, sort=False)) if wanted.panel else [("", table)]
    names = list(pd.unique(table[wanted.curve])) if wanted.curve else [""]
    columns = min(3, len(panels))
    with drawing(len(panels), columns, entries=3 if wanted.curve else 0, space=0.2 + 0.13 * -(-len(names) // 3)) as (
        figure,
        axes,
    ):
        for place, (ax, (title, rows)) in enumerate(zip(axes, panels, strict=True)):
            for i, name in enumerate(names):
                one = rows[rows[wanted.curve] == name] if wanted.curve else rows
                one = one.sort_values(wanted.x)
                if len(one):
                    curve(ax, one[wanted.x], one[wanted.y], one.get(f"{wanted.y}_stderr"), label=str(name), **look(i))
            if "x" in wanted.log:
                log_axis(ax, rows[wanted.x])
            if "y" in wanted.log:
                ax.set_yscale("log")
            if wanted.panel:
                ax.set_title(f"{wanted.panel} = {title!s}")
            ax.set(xlabel=wanted.x, ylabel=wanted.y if place % columns == 0 else "")
    return figure
