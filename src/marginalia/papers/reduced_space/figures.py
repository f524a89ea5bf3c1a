"""Figures of the reduced-space cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from marginalia.reporting.panels import DASHED, DOTTED, curve, grid, legend, log_axis, look, rows_where
from marginalia.reporting.style import RC

Tables = dict[str, pd.DataFrame]
Settings = Mapping[str, Any]


def over_records(tables: Tables, settings: Settings) -> Figure:
    """N: error, certificate and 8δ over n."""
    return _bounds(tables["reduced_space_n"], "n", "records n")


def over_functions(tables: Tables, settings: Settings) -> Figure:
    """F: error, certificate and 8δ over |F|."""
    return _bounds(tables["reduced_space_f"].sort_values("n_functions"), "n_functions", "released averages |F|")


def _bounds(table: pd.DataFrame, over: str, label: str) -> Figure:
    figure, axes = grid(2, 2, height=2.3)
    with matplotlib.rc_context(RC):
        for i, (ax, (arm, rows)) in enumerate(zip(axes, table.groupby("arm"), strict=False)):
            curve(ax, rows[over], rows["error"], rows["error_stderr"], label="largest error", **look(i))
            ax.plot(rows[over], rows["certificate"], color="#555555", ls=DASHED, label="certificate")
            ax.plot(rows[over], rows["bound"], color="#555555", ls=DOTTED, label="8δ of the theorem")
            ax.set(xscale="log", yscale="log", xlabel=label, ylabel="error", title=str(arm))
    legend(figure, axes, 4)
    return figure


def over_points(tables: Tables, settings: Settings) -> Figure:
    """M: error and optimum over m, a curve for each law."""
    table = tables["reduced_space_m"]
    figure, axes = grid(2, 2, height=2.3, legend=0.5)
    with matplotlib.rc_context(RC):
        for ax, column, name in ((axes[0], "error", "largest error"), (axes[1], "optimum", "LP optimum t*")):
            for i, (_, rows) in enumerate(table.sort_values("kappa").groupby("kappa", sort=True)):
                label = f"{rows['law'].iloc[0]}, κ = {rows['kappa'].iloc[0]:.3g}"
                curve(ax, rows["m"], rows[column], rows[f"{column}_stderr"], label=label, **look(i))
            ax.set(xscale="log", xlabel="points m", ylabel=name)
    legend(figure, axes, 3)
    return figure


def measures(tables: Tables, settings: Settings) -> Figure:
    """Kappa: noise-free optimum over m, a curve for each measure."""
    table = tables["reduced_space_kappa"]
    sets = list(dict.fromkeys(table["dataset"]))
    figure, axes = grid(len(sets), max(2, len(sets)), height=2.3, legend=0.5)
    with matplotlib.rc_context(RC):
        for ax, name in zip(axes, sets, strict=True):
            for i, (measure, rows) in enumerate(rows_where(table, dataset=name).groupby("measure", sort=True)):
                curve(ax, rows["m"], rows["optimum"], rows["optimum_stderr"], label=str(measure), **look(i))
            ax.set(xscale="log", xlabel="points m", ylabel="noise-free optimum", title=name)
    legend(figure, axes, 3)
    return figure


def real_tables(tables: Tables, settings: Settings) -> Figure:
    """Epsilon: AUC (above) and total variation of pairs (below), a column for each table."""
    table = tables["reduced_space_epsilon"]
    sets = [s for s in settings["sets"] if s in set(table["dataset"])]
    figure, axes = grid(2 * len(sets), max(2, len(sets)), height=2.0, legend=0.6)
    with matplotlib.rc_context(RC):
        for j, name in enumerate(sets):
            rows = rows_where(table, dataset=name)
            for metric, ax in (("auc", axes[j]), ("tv2", axes[len(sets) + j])):
                private = rows[rows["arm"] != "real"]
                for i, (arm, own) in enumerate(private.groupby("arm", sort=True)):
                    own = own.sort_values("epsilon")
                    curve(ax, own["epsilon"], own[metric], own[f"{metric}_stderr"], label=str(arm), **look(i))
                if metric == "auc":
                    ax.axhline(rows_where(rows, arm="real")["auc"].iloc[0], color="#000000", lw=0.9, label="real rows")
                    ax.set_title(name)
                    ax.set_ylim(bottom=max(0.5, ax.get_ylim()[0]))  # from chance
                else:
                    ax.set_yscale("log")
                ax.set(xlabel="ε", ylabel="AUC" if metric == "auc" else "total variation of pairs")
                log_axis(ax, private["epsilon"])
    legend(figure, axes, 4)
    return figure


def failures(tables: Tables, settings: Settings) -> Figure:
    """Fail: share of runs beyond each bound, a group of bars for each bound."""
    table = tables["reduced_space_fail"]
    names = {"above_1_delta": "δ", "above_2_delta": "2δ", "above_8_delta": "8δ", "above_certificate": "certificate"}
    groups = {str(row["family"]): [row[column] for column in names] for _, row in table.iterrows()}
    return _bars(groups, list(names.values()), "share of runs beyond")


def lemma(tables: Tables, settings: Settings) -> Figure:
    """Lemma: exact failure probability, a group of bars for each number of bits and range of values."""
    table = tables["reduced_space_lemma"]
    cases = table[["bits", "values"]].drop_duplicates()
    labels = [f"{row['bits']} bits, {row['values']}" for _, row in cases.iterrows()]
    groups = {str(name): rows["failure"].tolist() for name, rows in table.groupby("lemma", sort=True)}
    return _bars(groups, labels, "failure probability", line=settings["gamma"])


def _bars(groups: dict[str, list[float]], labels: list[str], name: str, line: float | None = None) -> Figure:
    figure, axes = grid(1, 1, height=2.2)
    with matplotlib.rc_context(RC):
        for i, (group, values) in enumerate(groups.items()):
            place = [j + 0.38 * (i - 0.5) for j in range(len(values))]
            axes[0].bar(place, values, 0.36, label=group, color=look(i)["color"])
        if line is not None:
            axes[0].axhline(line, color="#000000", ls=DASHED, lw=0.9, label="allowed")
        axes[0].set_xticks(range(len(labels)), labels, fontsize=5.5)
        axes[0].set_ylabel(name)
        axes[0].grid(axis="x", visible=False)
    legend(figure, axes, 3)
    return figure
