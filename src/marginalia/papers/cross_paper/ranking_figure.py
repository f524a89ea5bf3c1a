"""The ranking of methods as a figure: mean ranks, and which of them the data cannot tell from the best."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from marginalia.reporting.figures import METRIC_NAMES
from marginalia.reporting.style import DOUBLE_COLUMN, RC, arm_look
from marginalia.reporting.tables import rows_of

_ROW, _HEAD, _FOOT = 0.135, 0.34, 0.55  # inches
_LETTER = 0.0508
_BAND = "#e8eef4"


def figure(table: pd.DataFrame) -> Figure:
    """Draw the mean rank of each arm, a panel for each experiment (row) and metric (column).

    Parameters
    ----------
    table : DataFrame
        Of `ranking.ranking`.
    """
    experiments, metrics = list(dict.fromkeys(table["experiment"])), list(dict.fromkeys(table["metric"]))
    ranked = table[table["mean_rank"].notna()]
    counts = [max(((ranked["experiment"] == e) & (ranked["metric"] == m)).sum() for m in metrics) for e in experiments]
    heights = [_ROW * n + _HEAD for n in counts]
    column = DOUBLE_COLUMN / len(metrics)
    names = _LETTER * ranked["name"].str.len().max() + 0.08
    height = sum(heights) + _FOOT + 0.2 * (len(experiments) - 1)
    with matplotlib.rc_context(RC | {"axes.grid.axis": "x"}):
        drawn = Figure(figsize=(DOUBLE_COLUMN, height))
        grid = drawn.subplots(
            len(experiments), len(metrics), squeeze=False, gridspec_kw={"height_ratios": [n + 0.8 for n in counts]}
        )
        for row, experiment in zip(grid, experiments, strict=True):
            for axes, metric in zip(row, metrics, strict=True):
                here = ranked[(ranked["experiment"] == experiment) & (ranked["metric"] == metric)]
                if here.empty:
                    axes.remove()
                else:
                    _draw(axes, here, f"{experiment}: {METRIC_NAMES[metric]}")
        handles = [
            Patch(color=_BAND, label="within the critical difference of the best"),
            Line2D([], [], color="#555555", lw=1, label="smallest to largest mean rank over ε"),
        ]
        drawn.legend(handles=handles, loc="lower center", ncols=2, frameon=False, borderaxespad=0.1)
        drawn.subplots_adjust(
            left=names / DOUBLE_COLUMN, right=1 - 0.06 / DOUBLE_COLUMN, top=1 - 0.22 / height, bottom=_FOOT / height,
            wspace=(names + 0.06) / (column - names - 0.06), hspace=0.62 / (sum(heights) / len(heights)),
        )  # fmt: skip
    return drawn


def _draw(axes: matplotlib.axes.Axes, rows: pd.DataFrame, title: str) -> None:
    rows = rows.sort_values("mean_rank", kind="stable")
    by_epsilon = rows[[c for c in rows.columns if c.startswith("rank_at_")]]
    first = rows.iloc[0]
    if np.isfinite(first["critical_difference"]):
        axes.axvspan(first["mean_rank"], first["mean_rank"] + first["critical_difference"], color=_BAND, lw=0, zorder=0)
    for place, row in enumerate(rows_of(rows)):
        look = arm_look(row.method, row.variant, row.calibration)
        spread = by_epsilon.iloc[place]
        axes.hlines(place, spread.min(), spread.max(), color=look.colour, lw=1, zorder=2)
        axes.plot(
            [row.mean_rank], [place], ls="", color=look.colour, marker=look.marker, fillstyle=look.fill,
            markerfacecoloralt="white", mew=0.8, ms=4.5, zorder=3,
        )  # fmt: skip
    names = [f"{row.name} *" if row.pure_epsilon == "yes" else row.name for row in rows_of(rows)]
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0.5, len(rows) + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlabel("mean rank", labelpad=1.5)
    sets = "data set" if first["n_datasets"] == 1 else "data sets"
    axes.set_title(f"{title} ({first['n_datasets']} {sets})", loc="right", fontsize=7)


def caption(table: pd.DataFrame) -> str:
    """Return the caption: what is ranked, over what, and what the band means."""
    tested = table[table["friedman_p"].notna()].drop_duplicates(["experiment", "metric"])
    untested = table[table["friedman_p"].isna() & table["mean_rank"].notna()].drop_duplicates(["experiment", "metric"])
    p = "; ".join(f"{r.experiment}, {METRIC_NAMES[r.metric]}: p = {r.friedman_p:.2g}" for r in rows_of(tested))
    parts = [
        "Mean rank of each certified private arm over data sets and ε (1 = best); bars span the ranks at single ε.",
        "Shaded: not distinguishable from the best by Nemenyi's critical difference at the 5 % level, a data set "
        "counting once.",
        f"Friedman test: {p}." if p else "",
    ]
    if len(untested):
        parts.append("Panels without a band hold too few data sets for a test.")
    if (table["pure_epsilon"] == "yes").any():
        parts.append("* purely ε-DP: makes no use of δ.")
    unranked = table[table["mean_rank"].isna()]
    if len(unranked):
        names = ", ".join(f"{r.name} ({r.experiment}, {METRIC_NAMES[r.metric]})" for r in rows_of(unranked))
        parts.append(f"Not ranked for want of values: {names}.")
    return " ".join(filter(None, parts))
