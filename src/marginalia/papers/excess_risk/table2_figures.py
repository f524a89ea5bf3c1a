"""Figures of the excess-risk cards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from marginalia.reporting.panels import DOTTED, curve, grid, legend, rows_where
from marginalia.reporting.style import METHODS, RC

Tables = dict[str, pd.DataFrame]
Settings = Mapping[str, Any]

NAMES = {
    "adult": "Adult", "churn": "Churn", "compas": "COMPAS", "dutch": "Dutch", "heart": "Heart", "law": "Law",
}  # fmt: skip
METRICS = {"accuracy": "accuracy", "roc_auc": "ROC-AUC", "empirical_risk": "empirical risk"}
AIM = METHODS["aim"]
_PAPER = "#D55E00"


def utility_over_epsilon(tables: Tables, settings: Settings) -> Figure:
    """X-F3 and X-F2: three metrics and the marginal error over epsilon, a row of panels for each data set."""
    table, errors = tables["excess_risk_table2"], tables["excess_risk_f2"]
    sets = [name for name in NAMES if name in set(table["dataset"])]
    figure, axes = grid(4 * len(sets), 4, height=1.3, legend=0.35)
    with matplotlib.rc_context(RC):
        for i, name in enumerate(sets):
            row = axes[4 * i : 4 * i + 4]
            _three_metrics(row, table, name)
            own = rows_where(errors, dataset=name)
            curve(row[3], own["epsilon"], own["marginal_error"], own["stderr"], color=AIM.colour, marker=AIM.marker)
            row[3].set_ylim(0, 1.1 * float(own["marginal_error"].max()))
            _finish(row, (*METRICS.values(), "marginal error"), name, first=i == 0, last=i == len(sets) - 1)
        legend(figure, axes, columns=4)
    return figure


def strict_utility(tables: Tables, settings: Settings) -> Figure:
    """Table 2 under the strict protocol: three metrics over epsilon, a row of panels for each data set."""
    table = tables["excess_risk_table2_strict"]
    sets = [name for name in NAMES if name in set(table["dataset"])]
    figure, axes = grid(3 * len(sets), 3, height=1.3, legend=0.35)
    with matplotlib.rc_context(RC):
        for i, name in enumerate(sets):
            row = axes[3 * i : 3 * i + 3]
            _three_metrics(row, table, name)
            _finish(row, METRICS.values(), name, first=i == 0, last=i == len(sets) - 1)
        legend(figure, axes, columns=4)
    return figure


def _three_metrics(row: Sequence[Axes], table: pd.DataFrame, name: str) -> None:
    for ax, metric in zip(row, METRICS, strict=False):
        own = rows_where(table, dataset=name, metric=metric)
        private = own[own["epsilon"] != "real"].assign(at=lambda t: t["epsilon"].astype(float)).sort_values("at")
        curve(ax, private["at"], private["mean"], private["stderr"], label="ours", color=AIM.colour, marker=AIM.marker)
        ax.plot(private["at"], private["reported"], ls="", marker="o", mfc="none", color=_PAPER, label="published")
        for _, real in own[own["epsilon"] == "real"].iterrows():
            ax.axhline(real["mean"], color="black", lw=0.9, label="real rows, ours")
            ax.axhline(real["reported"], color=_PAPER, lw=0.9, ls=DOTTED, label="real rows, published")


def _finish(row: Sequence[Axes], labels: Iterable[str], name: str, *, first: bool, last: bool) -> None:
    for ax, label in zip(row, labels, strict=True):
        ax.set_title(label if first else "")
        ax.set_xlim(0, None)
        ax.yaxis.set_major_locator(MaxNLocator(4))
        ax.set_xlabel("ε" if last else "")
    row[0].set_ylabel(NAMES[name], fontweight="bold")
