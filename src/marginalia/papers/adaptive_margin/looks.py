"""Figures of the adaptive-margin cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from marginalia.reporting.panels import DASHED, DOTTED, grid, legend, log_axis, rows_where
from marginalia.reporting.style import METHODS, RC

Tables = dict[str, pd.DataFrame]
Settings = Mapping[str, Any]

_PURPLE = METHODS["adaptive_margin"].colour
_PALE = "#9E77C7"
_LONG = (0, (10, 1.5))


def _look(label: str, colour: str, marker: Any, dash: Any = "-", *, is_open: bool = False) -> dict[str, Any]:
    return {"label": label, "color": colour, "marker": marker, "ls": dash, "mfc": "white" if is_open else colour}


# (variant, calibration) -> how it is drawn; published calibrations are dashed with open marks.
_ARMS = {
    ("practical", "tight"): _look("practical", _PURPLE, "H"),
    ("private_tuning", "tight"): _look("practical, private tuning", _PURPLE, "X", _LONG),
    ("fixed", "tight"): _look("fixed c = 0.003", "#B8336A", "d", _LONG),
    ("published", "tight"): _look("published, exact budget", _PALE, "o"),
    ("published", "published"): _look("published", _PALE, "o", DASHED, is_open=True),
    ("published_last", "published"): _look("published, last iterate", _PALE, "s", DOTTED, is_open=True),
}
_PERTURBED, _SGD = METHODS["objective_perturbation"], METHODS["dp_sgd"]
_RIVALS = {
    ("objective_perturbation", "", "tight"): _look("ObjPert", _PERTURBED.colour, _PERTURBED.marker),
    ("objective_perturbation", "", "published"): _look(
        "ObjPert, published", _PERTURBED.colour, _PERTURBED.marker, DASHED, is_open=True
    ),
    ("dp_sgd", "", "tight"): _look("DP-SGD", _SGD.colour, _SGD.marker),
    ("dp_sgd", "rate_10", "tight"): _look("DP-SGD, learning rate 10", _SGD.colour, "^", _LONG),
}
_REFERENCES = {
    "majority": _look("majority class", "#767676", ""),
    "svm": _look("SVM, not private", "#000000", "", DASHED),
    "logistic": _look("logistic, not private", "#000000", "", (0, (1, 1))),
}
_NAMES = {
    "adult@dpml": "Adult", "compas@dpml": "COMPAS", "acs_employment@dd_ssp": "ACS (held out)",
    "digits_parity": "digits, even or odd", "digits_3v8": "digits 3 v 8", "digits_0v1": "digits 0 v 1",
    "digits_1v9": "digits 1 v 9", "synthetic_far": "synthetic, 20 far outliers",
    "synthetic_wide": "synthetic, d = 3000",
}  # fmt: skip


def risk_over_epsilon(tables: Tables, settings: Settings) -> Figure:
    """X2: test error over epsilon, a panel a data set."""
    table = tables["adaptive_margin_x2"]
    names = [name for name in settings["sets"] if name in set(table["dataset"])]
    figure, axes = grid(len(names), min(3, len(names)), height=2.0, legend=0.75)
    with matplotlib.rc_context(RC):
        for ax, name in zip(axes, names, strict=False):
            rows = table[table["dataset"] == name]
            for method, look in _REFERENCES.items():
                for value in rows.loc[rows["method"] == method, "error"]:
                    ax.axhline(value, zorder=1.5, lw=0.9, **look)
            for (variant, calibration), look in _ARMS.items():
                arm = rows[(rows["variant"] == variant) & (rows["calibration"] == calibration)]
                _band(ax, arm[arm["method"] == "adaptive_margin"], "epsilon", "error", "stderr", look)
            for (method, variant, calibration), look in _RIVALS.items():
                arm = rows_where(rows, method=method, variant=variant, calibration=calibration)
                _band(ax, arm, "epsilon", "error", "stderr", look)
            log_axis(ax, settings["epsilons"])
            ax.set_title(f"{_NAMES.get(name, name)}, n = {rows['n_train'].iloc[0]:,}")
        _labels(axes[: len(names)], "ε", "test error", columns=3)
        legend(figure, axes, columns=4)
    return figure


def margin_over_removed(tables: Tables, settings: Settings) -> Figure:
    """X1: margin over the share of removed points, a panel a pair of classes."""
    table = tables["adaptive_margin_x1"]
    names = list(dict.fromkeys(table["set"]))
    figure, axes = grid(len(names), 3, height=2.0, legend=0.45)
    features = list(dict.fromkeys(table["features"]))
    colours = dict(zip(features, ("#767676", _PURPLE, "#009E73", "#D55E00", "#0072B2"), strict=False))
    dashes = dict(zip(sorted(set(table["C"]), reverse=True), ("-", (0, (4, 2)), (0, (1.5, 1.5))), strict=False))
    with matplotlib.rc_context(RC):
        for ax, name in zip(axes, names, strict=False):
            for (kind, C), curve in table[table["set"] == name].groupby(["features", "C"]):
                look = {"color": colours.get(kind), "ls": dashes.get(C, "-"), "label": f"{kind}, C = {C:g}"}
                ax.plot(100 * curve["share"], curve["margin"], **look)
            ax.set_title(f"{_NAMES.get(name, name)}, n = {table.loc[table['set'] == name, 'n'].iloc[0]:,}")
        _labels(axes[: len(names)], "removed points (%)", "margin of the rest", columns=3)
        legend(figure, axes, columns=4)
    return figure


def bounds_on_data(tables: Tables, settings: Settings) -> Figure:
    """X7: both bounds over the share of removed points."""
    table = tables["adaptive_margin_x7_curves"]
    names = list(dict.fromkeys(table["set"]))
    figure, axes = grid(len(names), 3, height=1.9, legend=0.45)
    with matplotlib.rc_context(RC):
        for ax, name in zip(axes, names, strict=False):
            curve = table[table["set"] == name]
            x = 100 * curve["share"]
            ax.plot(x, curve["theorem_4_1"], color=_PURPLE, label="Theorem 4.1 (shape)")
            ax.plot(
                x, curve["explicit_unprojected"], color="#D55E00", ls=(0, (4, 2)), label="without projection (explicit)"
            )
            ax.set_ylim(0, 1.05)
            ax.set_title(f"{_NAMES.get(name, name)}, n = {curve['n'].iloc[0]:,}")
        _labels(axes[: len(names)], "removed points (%)", "bound on the risk", columns=3)
        legend(figure, axes, columns=2)
    return figure


def risk_over_outliers(tables: Tables, settings: Settings) -> Figure:
    """X3: risks over the share of outliers; rows are training and clean test rows."""
    table = tables["adaptive_margin_x3"]
    kinds = list(settings["kinds"])
    figure, axes = grid(2 * len(kinds), len(kinds), height=1.9, legend=0.5)
    looks = {**_ARMS, ("svm", "none"): _REFERENCES["svm"]}
    shares = np.array(settings["shares"], float)
    with matplotlib.rc_context(RC):
        for place, (value, title) in enumerate((("empirical", "training rows"), ("clean_test", "clean test rows"))):
            for column, kind in enumerate(kinds):
                ax = axes[place * len(kinds) + column]
                rows = table[table["kind"] == kind]
                for (variant, calibration), look in looks.items():
                    arm = rows[(rows["variant"] == variant) & (rows["calibration"] == calibration)]
                    _band(ax, arm, "outlier_share", value, f"{value}_std", look)
                ax.plot(shares, shares, color="#222222", lw=0.8, label="S/n")
                ax.plot(
                    shares,
                    np.minimum(shares / settings["gamma"], 1),
                    color="#D55E00",
                    lw=0.8,
                    ls=(0, (1, 1)),
                    label="S/(γn), shape",
                )
                ax.set_ylim(-0.02, 0.62)
                ax.set_title(f"{kind} outliers, {title}")
        _labels(axes, "share of outliers S/n", "risk", columns=len(kinds))
        legend(figure, axes, columns=5)
    return figure


def risk_over_margin_and_rows(tables: Tables, settings: Settings) -> Figure:
    """X4: clean test risk over the margin and over n, with the scaled shape and the rule of thumb."""
    table = tables["adaptive_margin_x4"]
    figure, axes = grid(2, 2, height=2.4, legend=0.5)
    with matplotlib.rc_context(RC):
        for ax, sweep, label in zip(axes, ("gamma", "n"), ("margin γ", "rows n"), strict=True):
            rows = table[table["sweep"] == sweep]
            for (variant, calibration), look in _ARMS.items():
                arm = rows[(rows["variant"] == variant) & (rows["calibration"] == calibration)].sort_values(sweep)
                if arm.empty:
                    continue
                _band(ax, arm, sweep, "clean_test", "clean_test_std", look)
                thin = {"color": look["color"], "lw": 0.8, "marker": ""}
                ax.plot(arm[sweep], arm["shape_scaled"], ls=(0, (5, 3)), label="Theorem 4.1, scaled (shape)", **thin)
                ax.plot(arm[sweep], arm["rule_of_thumb"], ls=(0, (1, 1)), label="rule of thumb", **thin)
            log_axis(ax, rows[sweep])
            ax.set_ylim(-0.02, 0.52)
            ax.set_xlabel(label)
        axes[0].set_ylabel("test risk")
        legend(figure, axes, columns=3)
    return figure


def budget(tables: Tables, settings: Settings) -> Figure:
    """X5: mu over epsilon, and mu of one candidate over their number."""
    calibration, candidates = tables["adaptive_margin_x5"], tables["adaptive_margin_x5_candidates"]
    figure, axes = grid(2, 2, height=2.5, legend=0.62)
    with matplotlib.rc_context(RC):
        for rule, look in (("tight", "-"), ("conversion", (0, (4, 2))), ("published", (0, (1.5, 1.5)))):
            axes[0].plot(
                calibration["epsilon"], calibration[rule], color=_PURPLE, ls=look, marker="o", label=f"{rule} (left)"
            )
        axes[0].set_xlabel("ε")
        axes[0].set_ylabel("μ of the whole selection")
        rules = list(dict.fromkeys(candidates["rule"]))
        colours = ("#9E77C7", _PURPLE, "#B5B5B5", "#767676", "#56B4E9", "#0072B2", "#D55E00")
        for rule, colour, marker in zip(rules, colours, "oHsd^vX", strict=False):
            rows = candidates[candidates["rule"] == rule]
            axes[1].plot(rows["candidates"], rows["mu"], color=colour, marker=marker, label=rule)
        axes[1].set_xlabel("candidates |Θ|")
        axes[1].set_ylabel("μ of one model with its score")
        for ax in axes:
            ax.set_xscale("log")
            ax.set_yscale("log")
        log_axis(axes[0], settings["epsilons"])
        legend(figure, axes, columns=3)
    return figure


def ablations(tables: Tables, settings: Settings) -> Figure:
    """X6: error of every change a panel a set, and the error of each grid candidate."""
    table, curves = tables["adaptive_margin_x6"], tables["adaptive_margin_x6_curve"]
    names = [name for name in settings["sets"] if name in set(table["set"])]
    figure, axes = grid(len(names) + 1, 3, height=3.0, legend=0.0)
    with matplotlib.rc_context(RC):
        for ax, name in zip(axes, names, strict=False):
            rows = table[table["set"] == name].reset_index(drop=True)
            base = rows.loc[rows["change"] == "practical", "error"]
            for value in base:
                ax.axvline(value, color="#767676", lw=0.8)
            labels = [f"{c} {_short(v)}".strip() for c, v in zip(rows["change"], rows["value"], strict=True)]
            ax.errorbar(rows["error"], range(len(rows)), xerr=rows["error_std"], fmt="H", color=_PURPLE, ms=3.5, lw=0.8)
            ax.set_yticks(range(len(rows)), labels, fontsize=5.0)
            ax.invert_yaxis()
            ax.set_xlabel("test error")
            ax.set_title(_NAMES.get(name, name))
        for name in [n for n in names if n in set(curves["set"])]:
            curve = curves[curves["set"] == name]
            axes[len(names)].plot(curve["gamma"], curve["error"], marker="o", ms=2.5, label=_NAMES.get(name, name))
        axes[len(names)].set_xscale("log")
        axes[len(names)].set_xlabel("candidate γ")
        axes[len(names)].set_title("error of each candidate")
        low, high = axes[len(names)].get_ylim()
        axes[len(names)].set_ylim(low, high + 0.35 * (high - low))
        axes[len(names)].legend(fontsize=5, frameon=False, loc="upper left")
    return figure


def _short(value: str) -> str:
    try:
        return f"{round(float(value), 3):g}"
    except ValueError:
        return value


def _band(ax: Any, rows: pd.DataFrame, x: str, y: str, spread: str, look: Mapping[str, Any]) -> None:
    if rows.empty:
        return
    rows = rows.sort_values(x)
    width = rows[spread].fillna(0.0)
    ax.fill_between(rows[x], rows[y] - width, rows[y] + width, color=look["color"], alpha=0.15, lw=0)
    ax.plot(rows[x], rows[y], **look)


def _labels(axes: list[Any], x: str, y: str, *, columns: int) -> None:
    for place, ax in enumerate(axes):
        if place % columns == 0:
            ax.set_ylabel(y)
        if place + columns >= len(axes):
            ax.set_xlabel(x)
