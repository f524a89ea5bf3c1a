"""Figures of the excess-risk paper's data sets, polynomials, targets and theory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from marginalia.papers.excess_risk.table2_figures import NAMES
from marginalia.papers.excess_risk.table2_tables import reported
from marginalia.reporting.panels import COLOURS, DASHED, DOTTED, curve, grid, legend, look, rows_where
from marginalia.reporting.style import METHODS, RC

Tables = dict[str, pd.DataFrame]
Settings = Mapping[str, Any]

BOUNDS = {
    "explicit_minimax": "explicit, best polynomial", "explicit_bernstein": "explicit, Bernstein",
    "thm31": "Theorem 3.1", "thm32": "Theorem 3.2", "cor35": "Corollary 3.5", "cor36": "Corollary 3.6",
}  # fmt: skip
AIM = METHODS["aim"].colour


def rows_of_data_sets(tables: Tables, settings: Settings) -> Figure:
    """X-T1: rows, ours and as printed."""
    table = tables["comparison_excess_risk_datasets"]
    figure, axes = grid(1, 1, height=1.9)
    with matplotlib.rc_context(RC):
        place = np.arange(len(table))
        axes[0].plot(table["instances"], place, "o", color=COLOURS[0], label="file")
        axes[0].plot(
            table["reported_instances"], place, "o", ms=7, mfc="none", color=COLOURS[1], ls="", label="Table 1"
        )
        axes[0].set_yticks(place, [NAMES[name] for name in table["dataset"]])
        axes[0].set(xscale="log", xlabel="rows")
        axes[0].invert_yaxis()
    legend(figure, axes, 2)
    return figure


def polynomials(tables: Tables, settings: Settings) -> Figure:
    """X-F1: the polynomials, and their errors."""
    from marginalia.papers.excess_risk.polynomials import logistic_loss

    table, printed = tables["excess_risk_fig1"], reported("excess_risk_fig1")
    names = [f"c{k}" for k in range(settings["degree"] + 1)]
    low, high = (float(v) for v in settings["interval"])
    x = np.linspace(low, high, 801)
    truth = logistic_loss(x)
    figure, axes = grid(2, 2, height=2.3)
    with matplotlib.rc_context(RC):
        axes[0].plot(x, truth, color="black", lw=1.6, label="ln(1 + exp(-x))")
        for i, row in enumerate(table.to_dict("records")):
            label = "best (minimax)" if row["method"] == "minimax" else f"Bernstein, {row['iterations']:.0f}×"
            values = np.polynomial.Polynomial([row[name] for name in names])(x)
            axes[0].plot(x, values, color=COLOURS[i], label=label)
            axes[1].plot(x, values - truth, color=COLOURS[i], label=label)
        best = printed[printed["method"] == "minimax"].iloc[0]
        values = np.polynomial.Polynomial([best[name] for name in names])(x)
        axes[1].plot(x, values - truth, color=COLOURS[0], ls=DOTTED, label="best, as printed")
        axes[0].set(xlabel="x", ylabel="value")
        axes[1].set(xlabel="x", ylabel="polynomial − function")
    legend(figure, axes, 3)
    return figure


def accuracy_of_targets(tables: Tables, settings: Settings) -> Figure:
    """X-F5: a pair of bars for each target, a panel for each data set."""
    table = tables["excess_risk_f5"]
    sets = list(dict.fromkeys(table["dataset"]))
    figure, axes = grid(len(sets), max(2, len(sets)), height=2.1)
    with matplotlib.rc_context(RC):
        for ax, name in zip(axes, sets, strict=True):
            rows = rows_where(table, dataset=name)
            place = np.arange(len(rows))
            bars: dict[str, Any] = {"ecolor": "black", "capsize": 2, "error_kw": {"elinewidth": 0.7}}
            ax.bar(
                place - 0.2, rows["real"], 0.36, yerr=rows["real_stderr"], color="#8C8C8C", label="real rows", **bars
            )
            ax.bar(
                place + 0.2, rows["aim"], 0.36, yerr=rows["aim_stderr"], color=AIM, alpha=0.75, hatch="///",
                label="AIM’s rows", **bars,
            )  # fmt: skip
            for i, share in enumerate(rows["majority"]):
                ax.plot([i - 0.42, i + 0.42], [share, share], color="black", lw=1.2, label="most frequent class")
            ax.set_xticks(place, [t.replace("_", "\n") for t in rows["target"]])
            ax.set(title=NAMES[name], ylim=(0, 1))
            ax.grid(axis="x", visible=False)
        axes[0].set_ylabel("accuracy on real rows")
    legend(figure, axes, 3)
    return figure


def bounds(tables: Tables, settings: Settings) -> Figure:
    """X-TH1: measured excess and bounds on a logarithmic axis, a panel for each d."""
    table = tables["excess_risk_th1"]
    orders = sorted(set(table["d"]))
    figure, axes = grid(len(orders), max(2, len(orders)), height=2.4, legend=0.5)
    with matplotlib.rc_context(RC):
        for ax, d in zip(axes, orders, strict=True):
            rows = rows_where(table, d=d)
            place = np.arange(len(rows))
            ax.plot(place, rows["excess"], "o", color="black", label="measured")
            for i, (name, label) in enumerate(BOUNDS.items()):
                style = look(i)
                ax.plot(place, rows[name], ls="", mfc="none" if "cor" in name else style["color"], label=label, **style)
            ax.axhline(1.0, color="#8C8C8C", lw=0.9)
            ax.set_xticks(place, [NAMES[name] for name in rows["dataset"]])
            ax.set(yscale="log", title=f"marginals of {d} columns", ylabel="excess empirical risk")
            ax.grid(axis="x", visible=False)
    legend(figure, axes, 4)
    return figure


def hardness(tables: Tables, settings: Settings) -> Figure:
    """X-TH2: excess risk over d beside the lower bound, a panel for each g."""
    table = tables["excess_risk_th2"]
    values = sorted(set(table["g"]))
    figure, axes = grid(len(values), max(2, len(values)), height=2.1)
    with matplotlib.rc_context(RC):
        for ax, g in zip(axes, values, strict=True):
            rows = rows_where(table, g=g)
            curve(ax, rows["d"], rows["excess"], rows["stderr"], ls="", label="trained on rows", **look(0))
            ax.plot(
                rows["d"],
                rows["limit"],
                ls="",
                marker="x",
                ms=7,
                color=COLOURS[1],
                zorder=4,
                label="infinitely many rows",
            )
            ax.axhline(rows["lower_bound"].iloc[0], color="black", ls=DASHED, label="any generator, d ≤ 3")
            ax.axhline(rows["paper_bound"].iloc[0], color="black", ls=DOTTED, label="γ/40")
            ax.set_xticks(sorted(set(rows["d"])))
            ax.set(title=f"g = {g:g}", xlabel="marginals of at most d columns", ylabel="excess risk")
            ax.set_ylim(bottom=min(0.0, float(rows["excess"].min())) - 0.0005)
    legend(figure, axes, 4)
    return figure


def generator(tables: Tables, settings: Settings) -> Figure:
    """X-S2: distances and bounds of each case, a panel for each calibration."""
    table = tables["excess_risk_s2"]
    kinds = [k for k in ("published", "tight") if k in set(table["calibration"])]
    figure, axes = grid(len(kinds), max(2, len(kinds)), height=2.4, legend=0.5)
    with matplotlib.rc_context(RC):
        for ax, kind in zip(axes, kinds, strict=True):
            rows = rows_where(table, calibration=kind).sort_values(["columns", "d", "n"])
            place = np.arange(len(rows))
            ax.vlines(place, rows["distance"], rows["largest"], color=AIM, lw=1.2)
            ax.plot(place, rows["distance"], "o", color=AIM, label="mean distance (line: up to the largest)")
            ax.plot(place, rows["guarantee"], "o", mfc="none", color=COLOURS[1], ls="", label="sum of both objectives")
            ax.plot(place, rows["nu_gen"], "_", ms=9, mew=1.6, color="black", label="Lemma 3.4")
            labels = [f"{c} cols\nd = {d}\n{n:,} rows" for c, d, n in rows[["columns", "d", "n"]].to_numpy().tolist()]
            ax.set_xticks(place, labels, fontsize=4.8)
            ax.set(yscale="log", title=f"{kind} noise", ylabel="largest L1 distance, records")
            ax.grid(axis="x", visible=False)
    legend(figure, axes, 3)
    return figure


def spent_over_claimed(tables: Tables, settings: Settings) -> Figure:
    """F2: epsilon under replace-one over the epsilon claimed."""
    table = tables["excess_risk_errata_relation"]
    figure, axes = grid(1, 1, height=2.3)
    with matplotlib.rc_context(RC):
        for i, name in enumerate(NAMES):
            rows = rows_where(table, dataset=name)
            style = look(i)
            axes[0].plot(rows["epsilon"], rows["replace_one"], lw=0.7, label=NAMES[name], **style)
            axes[0].plot(rows["epsilon"], rows["measurements_alone"], lw=0.7, mfc="white", **style)
        axes[0].plot(axes[0].get_xlim(), axes[0].get_xlim(), color="#8C8C8C", zorder=1, label="claimed")
        axes[0].set(xlabel="ε claimed", ylabel="ε under replace-one")
    legend(figure, axes, 4)
    return figure
