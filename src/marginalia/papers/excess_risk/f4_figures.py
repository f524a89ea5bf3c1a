"""Figure 4 of the excess-risk paper, as bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from marginalia.reporting.panels import legend
from marginalia.reporting.style import DOUBLE_COLUMN, METHODS, RC

NAMES = {
    "adult": "Adult", "churn": "Churn", "compas": "COMPAS", "dutch": "Dutch", "heart": "Heart", "law": "Law",
}  # fmt: skip
_DP_SGD, _PATE = METHODS["dp_sgd"].colour, METHODS["pate"].colour
# Method, variant, place of K among the data set's, label, how the bar is drawn.
BARS: tuple[tuple[str, str, int, str, dict[str, Any]], ...] = (
    ("logistic", "", 0, "no privacy", {"color": "#4d4d4d"}),
    (
        "aim",
        "",
        0,
        "AIM, as the paper prints it",
        {"color": "white", "edgecolor": METHODS["aim"].colour, "hatch": "////"},
    ),
    ("dp_sgd", "published", 0, "DP-SGD published", {"color": "white", "edgecolor": _DP_SGD, "hatch": "...."}),
    ("dp_sgd", "tight", 0, "DP-SGD tight", {"color": _DP_SGD}),
    ("pate", "published", 0, "PATE published, smallest K", {"color": "white", "edgecolor": _PATE}),
    ("pate", "published", 1, "PATE published, middle K", {"color": "white", "edgecolor": _PATE, "hatch": "----"}),
    ("pate", "published", 2, "PATE published, largest K", {"color": "white", "edgecolor": _PATE, "hatch": "xxxx"}),
    ("pate", "tight", 0, "PATE tight, largest K", {"color": _PATE}),
)


def accuracies(tables: dict[str, pd.DataFrame], settings: Mapping[str, Any]) -> Figure:
    """X-F4: a group of bars for each data set."""
    table = tables["excess_risk_f4"]
    sets = [d for name in NAMES for d in table["dataset"].unique() if d.split("@")[0] == name]
    width = 0.86 / len(BARS)
    with matplotlib.rc_context(RC | {"hatch.linewidth": 0.5, "axes.grid.axis": "y"}):
        figure = Figure(figsize=(DOUBLE_COLUMN, 3.0))
        axes = figure.add_axes((0.065, 0.27, 0.925, 0.69))
        for place, (method, variant, which, label, style) in enumerate(BARS):
            at, heights, errors = [], [], []
            for group, dataset in enumerate(sets):
                own = table[
                    (table["dataset"] == dataset) & (table["method"] == method) & (table["variant"] == variant)
                ].sort_values("n_teachers")
                row = own.iloc[which]
                at.append(group + (place - (len(BARS) - 1) / 2) * width)
                heights.append(row["reported"] if method == "aim" else row["mean"])
                errors.append(0.0 if np.isnan(row["stderr"]) else row["stderr"])
            axes.bar(at, heights, width * 0.9, yerr=errors, label=label, linewidth=0.7,
                     error_kw={"elinewidth": 0.7, "capsize": 1.2}, **style)  # fmt: skip
            for x, height, error in zip(at, heights, errors, strict=True):
                text = axes.text(x, height + error + 0.008, f"{height:.3f}".lstrip("0"), rotation=90, fontsize=5.2,
                                 ha="center", va="bottom", zorder=4)  # fmt: skip
                text.set_path_effects([withStroke(linewidth=1.2, foreground="white")])
        for group, dataset in enumerate(sets):
            row = table[(table["dataset"] == dataset) & (table["method"] == "trivial")].iloc[0]
            axes.hlines(row["mean"], group - 0.45, group + 0.45, color="black", lw=0.9, ls=(0, (4, 2)),
                        label="majority class", zorder=3)  # fmt: skip
        axes.set_xticks(range(len(sets)), [NAMES[d.split("@")[0]] for d in sets])
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.5, len(sets) - 0.5)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel(f"test accuracy at ε = {float(settings['epsilon']):g}")
        legend(figure, [axes], columns=4)
    return figure
