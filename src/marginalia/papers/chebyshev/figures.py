"""Figures of the Chebyshev cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from marginalia.reporting.panels import DASHED, DOTTED, curve, grid, legend, log_axis, look, rows_where
from marginalia.reporting.style import RC

Tables = dict[str, pd.DataFrame]
Settings = Mapping[str, Any]

_NAMES = {"exact": "exact", "lower": "cosine lower bound", "moments": "moment part of the upper bound"}


def rates(tables: Tables, settings: Settings) -> Figure:
    """X1: error over n, a panel for each (k, d); beta population filled, atoms open."""
    errors, slopes = tables["chebyshev_x1_errors"], tables["chebyshev_x1"]
    pairs = [tuple(int(v) for v in pair.split(",")) for pair in settings["grid"]]
    figure, axes = grid(len(pairs), 3, height=1.9)
    with matplotlib.rc_context(RC):
        for ax, (k, d) in zip(axes, pairs, strict=True):
            for i, name in enumerate(settings["populations"]):
                rows = rows_where(errors, population=name, k=k, d=d).sort_values("n")
                shown = "exact" if rows["exact"].notna().sum() >= 3 else "lower"
                rows = rows.dropna(subset=[shown])
                curve(ax, rows["n"], rows[shown], rows[f"{shown}_stderr"], label=name, **look(i))
                fitted = rows_where(slopes, population=name, k=k, d=d, distance=shown)
                if i == 0 and len(rows) and len(fitted):
                    first = rows.iloc[0]
                    n = rows["n"].to_numpy(dtype=float)
                    for column, dash in (("finite_n", DASHED), ("asymptotic", DOTTED)):
                        line = first[shown] * (n / n[0]) ** fitted[column].iloc[0]
                        ax.plot(n, line, color="#555555", ls=dash, label=column.replace("_", " ") + " slope")
                    ax.set_title(f"k = {k}, d = {d}: slope {fitted['slope'].iloc[0]:.2f}")
                    ax.set_ylabel(f"$d_k$ ({_NAMES[shown]})")
            ax.set(xscale="log", yscale="log", xlabel="records n")
    legend(figure, axes, 4)
    return figure


def ablation(tables: Tables, settings: Settings) -> Figure:
    """X2 to X6: error over the setting named ``over``, a curve for each case."""
    table = next(iter(tables.values()))
    over = settings["over"]
    names = ["k", "d", "n"] if over != "k" else ["d", "n"]
    figure, axes = grid(1, 1, height=2.4, legend=0.5)
    with matplotlib.rc_context(RC):
        ax = axes[0]
        for i, (key, rows) in enumerate(table.groupby(names, sort=True)):
            shown = "exact" if rows["exact"].notna().any() else "lower"
            rows = rows.sort_values(over)
            label = ", ".join(
                f"{a} = {v:,}" for a, v in zip(names, key if isinstance(key, tuple) else (key,), strict=True)
            )
            curve(ax, rows[over], rows[shown], rows[f"{shown}_stderr"], label=f"{label} ({_NAMES[shown]})", **look(i))
            if rows["calibration"].nunique() > 1:
                for _, row in rows.iterrows():
                    ax.annotate(row["calibration"], (row[over], row[shown]), xytext=(4, 4), textcoords="offset points")
        ax.set(xlabel=over.replace("_", " "), ylabel="$d_k$", yscale="log")
        if over not in ("k", "epsilon_spent"):
            ax.set_xscale("log")
        elif over == "k":
            ax.set_xticks(sorted(table["k"].unique()))
    legend(figure, axes, 1)
    return figure


def histograms(tables: Tables, settings: Settings) -> Figure:
    """X7: error of both methods, a group of bars for each case."""
    table = tables["chebyshev_x7"]
    figure, axes = grid(2, 2, height=2.3)
    with matplotlib.rc_context(RC):
        for ax, (comparison, rows) in zip(axes, table.groupby("comparison"), strict=False):
            cases = sorted({tuple(v) for v in rows[["d", "k", "n"]].to_numpy().tolist()})
            if comparison == "same grid":
                ours = rows[rows["method"] == "chebyshev"]
                cases = sorted({tuple(v) for v in ours[["d", "k", "n", "m"]].to_numpy().tolist()})
            for i, method in enumerate(sorted(rows["method"].unique())):
                own = rows[rows["method"] == method]
                values, bars = [], []
                for case in cases:
                    names = ["d", "k", "n", "m"][: len(case)]
                    one = rows_where(own, **dict(zip(names, case, strict=True)))
                    values.append(one["error"].min() if len(one) else np.nan)
                    bars.append(one["error_stderr"].iloc[0] if len(one) else np.nan)
                place = np.arange(len(cases)) + 0.36 * (i - 0.5)
                ax.bar(place, values, 0.34, yerr=bars, label=method, color=look(i)["color"], error_kw={"lw": 0.7})
            labels = [
                f"d={c[0]} k={c[1]}\nn={c[2]:,}\nm={c[3]}" if len(c) > 3 else f"k={c[1]}\n{c[2]:,}" for c in cases
            ]
            ax.set_xticks(np.arange(len(cases)), labels, fontsize=5)
            where = str(comparison) if comparison == "same grid" else f"{comparison} on the line; k and n"
            ax.set(yscale="log", ylabel="error", title=where)
            ax.grid(axis="x", visible=False)
    legend(figure, axes, 3)
    return figure


def real_tables(tables: Tables, settings: Settings) -> Figure:
    """X8: smooth error (above) and AUC (below) over epsilon, a column for each column set."""
    table = tables["chebyshev_x8"]
    sets = [s for s in settings["column_sets"] if s in set(table["columns"])]
    figure, axes = grid(2 * len(sets), len(sets), height=1.9)
    with matplotlib.rc_context(RC):
        for j, name in enumerate(sets):
            rows = rows_where(table, columns=name)
            for metric, ax in (("lower", axes[j]), ("auc", axes[len(sets) + j])):
                private = rows[rows["method"] != "real"]
                for i, (key, arm) in enumerate(private.groupby(["method", "variant"], sort=True)):
                    arm = arm.sort_values("epsilon")
                    if arm[metric].notna().any():
                        curve(
                            ax,
                            arm["epsilon"],
                            arm[metric],
                            arm[f"{metric}_stderr"],
                            label=" ".join(map(str, key)),
                            **look(i),
                        )
                real = rows_where(rows, method="real")
                if metric == "auc" and real["auc"].notna().any():
                    ax.axhline(real["auc"].iloc[0], color="#000000", lw=0.9, label="real rows")
                ax.set(xlabel="ε", ylabel="smooth error" if metric == "lower" else "AUC")
                log_axis(ax, private["epsilon"])
                if metric == "lower":
                    ax.set_yscale("log")
                    ax.set_title(name.replace("_", " "))
                elif not rows["auc"].notna().any():
                    ax.set_axis_off()
    legend(figure, axes, 4)
    return figure
