"""Utility against CPU seconds as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from marginalia.reporting.figures import METRIC_NAMES
from marginalia.reporting.style import DOUBLE_COLUMN, RC, ArmLook, arm_look, method_rank
from marginalia.reporting.tables import rows_of

SHOWN = (0.1, 1.0)  # epsilon: the nearest ones there are
_PANEL = 1.75  # inches
_LOWEST = -0.5  # utility below this is drawn at the edge


def figure(table: pd.DataFrame) -> Figure:
    """Draw one point for each arm, a column for each metric, a row for each experiment and two budgets.

    Parameters
    ----------
    table : DataFrame
        Of `frontier.frontier`.
    """
    metrics = [m for m in METRIC_NAMES if m in set(table["metric"])]
    levels = sorted(table["epsilon"].unique())
    shown = sorted({_nearest(levels, wanted) for wanted in SHOWN})
    experiments = list(dict.fromkeys(table["experiment"]))
    limits = (table["seconds"].min() / 1.5, table["seconds"].max() * 1.5)
    rows = [(e, level) for i, e in enumerate(experiments) for level in (shown if i == 0 else shown[-1:])]
    looks = {
        row.name: (row, arm_look(row.method, row.variant, row.calibration))
        for row in sorted(rows_of(table), key=lambda r: (method_rank(r.method), r.variant))
    }
    handles = [
        Line2D([], [], ls="", label=f"{name} *" if row.pure_epsilon == "yes" else name, **_marker(look))
        for name, (row, look) in looks.items()
    ]
    handles.append(Line2D([], [], color="#555555", lw=0.9, ls=(0, (3, 2)), label="best for its time"))
    legend = 0.13 * int(np.ceil(len(handles) / 4)) + 0.1
    height = _PANEL * len(rows) + legend + 0.35
    with matplotlib.rc_context(RC):
        drawn = Figure(figsize=(DOUBLE_COLUMN, height))
        grid = drawn.subplots(len(rows), len(metrics), squeeze=False)
        for place, (line, (experiment, level)) in enumerate(zip(grid, rows, strict=True)):
            for axes, metric in zip(line, metrics, strict=True):
                here = table[
                    (table["experiment"] == experiment) & (table["metric"] == metric) & (table["epsilon"] == level)
                ]
                if here.empty:
                    axes.remove()
                    continue
                _draw(axes, here, metric, f"{experiment}, ε = {level:g}: {METRIC_NAMES[metric]}", limits)
                axes.set_xlabel("CPU seconds" if place == len(rows) - 1 else "")
        drawn.legend(handles=handles, loc="lower center", ncols=4, frameon=False, handlelength=1.2,
                     columnspacing=1.4, labelspacing=0.32, borderaxespad=0.2)  # fmt: skip
        drawn.subplots_adjust(
            left=0.55 / DOUBLE_COLUMN, right=1 - 0.08 / DOUBLE_COLUMN, top=1 - 0.2 / height,
            bottom=(legend + 0.42) / height, wspace=0.42, hspace=0.42 / (_PANEL - 0.42),
        )  # fmt: skip
    return drawn


def _nearest(levels: Sequence[float], wanted: float) -> float:
    return min(levels, key=lambda epsilon: abs(np.log(epsilon / wanted)))


def _marker(look: ArmLook) -> dict[str, Any]:
    return {
        "color": look.colour, "marker": look.marker, "fillstyle": look.fill, "markerfacecoloralt": "white",
        "mew": 0.8, "ms": 5,
    }  # fmt: skip


def _draw(axes: matplotlib.axes.Axes, rows: pd.DataFrame, metric: str, title: str, limits: tuple[float, float]) -> None:
    edge = _LOWEST if metric != "marginal_error" else 0.0
    for row in rows_of(rows):
        look = arm_look(row.method, row.variant, row.calibration)
        at = max(row.utility, edge)
        axes.vlines(row.seconds, max(row.lowest, edge), max(row.highest, edge), color=look.colour, lw=0.6, alpha=0.45)
        axes.plot([row.seconds], [at], ls="", clip_on=False, zorder=3, **_marker(look))
    best = rows[rows["on_frontier"] == "yes"].sort_values("seconds")
    axes.step(
        best["seconds"],
        best["utility"].clip(lower=edge),
        where="post",
        color="#555555",
        lw=0.9,
        ls=(0, (3, 2)),
        zorder=1.5,
    )
    axes.set_xscale("log")
    axes.set_xlim(*limits)
    axes.xaxis.set_major_locator(LogLocator(numticks=10))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if metric != "marginal_error":
        axes.axhline(1, color="#000000", lw=0.7)
        axes.axhline(0, color="#767676", lw=0.7, ls=(0, (1, 1.6)))
        axes.set_ylim(bottom=max(edge, min(-0.05, float(rows["lowest"].min()) - 0.05)))
        axes.set_ylabel("share of the non-private gain", labelpad=1.5)
    else:
        axes.set_ylabel("1 − marginal error", labelpad=1.5)
    axes.set_title(title, loc="left", fontsize=7)


def caption(table: pd.DataFrame) -> str:
    """Return the caption: what the axes are, what the marks mean."""
    parts = [
        "Utility against CPU seconds of a whole release, the fit of its source included (geometric mean over data "
        "sets). Utility is 0 for the trivial predictor (dotted) and 1 for the best non-private learner (line); of "
        "synthetic data 1 minus the marginal error. Thin lines span the data sets; values below "
        f"{_LOWEST:g} stand at the edge. Dashed: no arm is both quicker and more useful.",
    ]
    if (table["pure_epsilon"] == "yes").any():
        parts.append("* purely ε-DP: makes no use of δ.")
    if (table["datasets"] < table["n_datasets"]).any():
        parts.append("Arms without a value on some data set are drawn from the others and are not on the dashed line.")
    return " ".join(parts)
