"""Figures of the DD-SSP cards that are no sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from marginalia.reporting.panels import DASHED, DOTTED, curve, grid, legend, look, rows_where
from marginalia.reporting.style import METHODS, RC

Tables = dict[str, pd.DataFrame]
Settings = Mapping[str, Any]

_NAMES = {
    "adult@dd_ssp": "Adult",
    "acs_income_lin@dd_ssp": "ACSIncome",
    "acs_employment@dd_ssp": "ACSEmployment",
    "acs_mobility@dd_ssp": "ACSMobility",
}
_THETAS = {
    "objective_perturbation": ("ObjPert, ε = 1", METHODS["objective_perturbation"].colour, "-"),
    "ridge": ("ridge, not private", "#D55E00", DASHED),
    "logistic": ("optimum, not private", "#000000", DOTTED),
}


def row_norms(tables: Tables, settings: Settings) -> Figure:
    """X-T1: bound, largest and mean squared norm of the training rows."""
    table = tables["dd_ssp_t1"]
    figure, (ax,) = grid(1, 1, height=2.2, legend=0.3)
    places = np.arange(len(table))
    with matplotlib.rc_context(RC):
        for i, (column, label) in enumerate(
            (("norm_bound_squared", "public bound"), ("largest_norm_squared", "largest"), ("mean_norm_squared", "mean"))
        ):
            ax.bar(places + 0.27 * (i - 1), table[column], 0.25, label=label, color=look(i)["color"])
        ax.set_xticks(places, [f"{_NAMES[d]}\n{t}" for d, t in zip(table["dataset"], table["task"], strict=True)])
        ax.tick_params(axis="x", labelsize=5.5)
        ax.grid(visible=False, axis="x")
        ax.set_ylabel("squared norm of an encoded row")
        legend(figure, [ax], columns=3)
    return figure


def inner_products(tables: Tables, settings: Settings) -> Figure:
    """X-F4: histograms of y x·theta."""
    histogram, summary = tables["dd_ssp_f4_histogram"], tables["dd_ssp_f4"]
    names = list(settings["sets"])
    figure, axes = grid(len(names), len(names), height=2.0, legend=0.35)
    with matplotlib.rc_context(RC):
        for ax, name in zip(axes, names, strict=True):
            for method, (label, colour, dash) in _THETAS.items():
                rows = rows_where(histogram, dataset=name, method=method).sort_values("left_edge")
                edges = np.append(rows["left_edge"], rows["left_edge"].max() + 1)
                ax.stairs(rows["share"], edges, color=colour, ls=dash, lw=1.0, label=label)
            for edge in (-6, 6):
                ax.axvline(edge, color="#767676", ls=(0, (3, 3)), lw=0.7)
            widest = summary.loc[summary["dataset"] == name, ["smallest", "largest"]].abs().to_numpy().max()
            ax.set_xlim(-min(30, widest + 1), min(30, widest + 1))
            ax.set_title(_NAMES[name])
            ax.set_xlabel("y x·θ")
        axes[0].set_ylabel("share of training rows")
        legend(figure, axes, columns=3)
    return figure


def parabola(tables: Tables, settings: Settings) -> Figure:
    """X-F2: the log-sigmoid and its parabola on [-6, 6], and their difference."""
    rows = rows_where(tables["dd_ssp_f2_curves"], radius=6.0)
    figure, (left, right) = grid(2, 2, height=2.1, legend=0.3)
    with matplotlib.rc_context(RC):
        left.plot(rows["s"], rows["log_sigmoid"], color="#000000", label="ln(1/(1+exp(−s)))")
        left.plot(rows["s"], rows["parabola"], color=METHODS["dd_ssp"].colour, ls=DASHED, label="parabola")
        left.set_ylabel("log-likelihood of a record")
        right.plot(rows["s"], rows["parabola"] - rows["log_sigmoid"], color="#D55E00", label="difference")
        right.axhline(0, color="#767676", lw=0.7)
        right.set_ylabel("parabola minus log-likelihood")
        for ax in (left, right):
            ax.set_xlabel("s = y x·θ")
        legend(figure, [left, right], columns=3)
    return figure


def auc_and_risk(tables: Tables, settings: Settings) -> Figure:
    """X-OLS: AUC (constant) and log-loss over the factor on least squares."""
    table = tables["dd_ssp_ols"]
    names = list(settings["sets"])
    figure, axes = grid(2 * len(names), len(names), height=1.7, legend=0.45)
    with matplotlib.rc_context(RC):
        for row, (metric, label) in enumerate((("auc", "test AUC"), ("risk", "test log-loss"))):
            for ax, name in zip(axes[row * len(names) :], names, strict=False):
                for i, source in enumerate(settings["sources"]):
                    cells = rows_where(table, dataset=name, source=source).sort_values("factor")
                    text = "exact marginals" if source == "exact" else METHODS[source].label
                    curve(ax, cells["factor"], cells[metric], label=text, **look(i))
                for value in rows_where(table, dataset=name, source="logistic regression")[metric]:
                    ax.axhline(value, color="#000000", ls=DASHED, lw=0.9, label="logistic regression")
                ax.set_xlabel("factor on least squares")
                ax.set_title(_NAMES[name])
            axes[row * len(names)].set_ylabel(label)
        legend(figure, axes, columns=6)
    return figure


def certified(tables: Tables, settings: Settings) -> Figure:
    """X-CERT: certified over nominal epsilon."""
    table = tables["dd_ssp_cert"]
    figure, (ax,) = grid(1, 1, height=2.6, legend=1.45)
    with matplotlib.rc_context(RC):
        components = list(dict.fromkeys(table["component"]))
        for i, component in enumerate(components):
            for relation, dash in (("add_remove", "-"), ("replace_one", DASHED)):
                rows = rows_where(table, component=component, relation=relation)
                if len(rows):
                    text = component + (" (replace-one)" if relation == "replace_one" else "")
                    curve(ax, rows["epsilon"], rows["epsilon_spent"] / rows["epsilon"], ls=dash, label=text, **look(i))
        ax.axhline(1, color="#000000", lw=0.9)
        ax.set_xscale("log")
        ax.set_xticks(settings["epsilons"])
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("nominal ε")
        ax.set_ylabel("certified ε / nominal ε")
        legend(figure, [ax], columns=1)
    return figure
