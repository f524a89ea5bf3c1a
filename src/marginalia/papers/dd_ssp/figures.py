"""Figures 3, 5 and 6 of the DD-SSP paper, arranged as there: regression above, classification below, a panel a set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from marginalia.data.catalogue import catalogue
from marginalia.experiment import Axes, Experiment, Figure, Frame
from marginalia.papers.dd_ssp.arms import (
    ADA_SSP,
    ADA_SSP_PRINTED,
    AIM_SYNTH,
    DD_SSP,
    DD_SSP_MIXTURE,
    DD_SSP_MST,
    DP_SGD_GRID,
    LOGISTIC,
    MAIN,
    METRIC,
    OBJ_PERT,
    OLS,
    means,
)
from marginalia.papers.dd_ssp.dd_ssp_charges import charges
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import curve, drawing, log_axis, rows_where
from marginalia.reporting.style import arm_look

# The paper's order: regression on Adult, ACSIncome, Taxi; classification on Adult, ACSEmployment, ACSMobility.
ORDER = ("adult@dd_ssp", "acs_income_lin@dd_ssp", "nist_taxi@dd_ssp", "acs_employment@dd_ssp", "acs_mobility@dd_ssp")
PUBLIC = {"mse": OLS, "auc": LOGISTIC}
Y = {"mse": "test MSE", "auc": "test AUC"}
LABELS = {
    DD_SSP: "DD-SSP (AIM)", AIM_SYNTH: "AIM-Synth", ADA_SSP: "AdaSSP, constants of the code",
    ADA_SSP_PRINTED: "AdaSSP, constants of Algorithm 5", OBJ_PERT: "ObjPert", DD_SSP_MST: "DD-SSP (MST)",
    DD_SSP_MIXTURE: "DD-SSP (AIM, mixture inference)",
}  # fmt: skip
FIGURE3 = (DD_SSP, AIM_SYNTH, ADA_SSP, ADA_SSP_PRINTED, OBJ_PERT)
FIGURE5 = (DD_SSP, DD_SSP_MST)
FIGURE6 = (DD_SSP, DD_SSP_MIXTURE)
COST_IGNORED, COST_CHARGED, COST_EXACT = (
    "DP-SGD, tuning ignored",
    "DP-SGD, advanced composition",
    "DP-SGD, charged exactly",
)
_DP_SGD = "#CC79A7"


def curves(records: Frame, arms: Sequence[str]) -> Frame:
    """Return means over trials: task by metric, data set, curve, epsilon; the model without privacy at infinity."""
    import pandas as pd

    tables = []
    for metric in METRIC.values():
        every = means(records, MAIN, metric).assign(metric=metric)
        tables.append(every[every["arm"].isin([*arms, PUBLIC[metric]])])
    table = pd.concat(tables, ignore_index=True)
    table["curve"] = table["arm"].map(LABELS).fillna("no privacy")
    place = {name: i for i, name in enumerate(ORDER)}
    table["place"] = table["dataset"].map(place).fillna(len(place))
    table["rank"] = table["arm"].map({arm: i for i, arm in enumerate(arms)}).fillna(len(arms))
    table = table.sort_values(
        ["metric", "place", "dataset", "rank", "epsilon"], ascending=[False, True, True, True, True]
    )
    columns = ["metric", "dataset", "curve", "arm", "epsilon", "mean", "stderr", "n_trials"]
    return rounded(table[columns].reset_index(drop=True))


def figure3(records: Frame) -> Frame:
    """Return the curves of Figure 3: DP-SGD with its tuning ignored, charged as in the paper, and charged exactly."""
    import pandas as pd

    grid = charges(records)
    parts = [curves(records, FIGURE3)]
    for name, charge in (
        (COST_IGNORED, "epsilon"),
        (COST_CHARGED, "charged_by_advanced_composition"),
        (COST_EXACT, "charged_exactly"),
    ):
        points = grid[["metric", "dataset", "mean", "stderr", "n_trials"]].assign(
            curve=name, arm=DP_SGD_GRID, epsilon=grid[charge]
        )
        parts.append(points)
    return pd.concat(parts, ignore_index=True)[list(parts[0].columns)]


def draw(table: Frame) -> Figure:
    """Draw MSE in the upper row and AUC in the lower, a panel a data set."""
    panels = {m: list(dict.fromkeys(table.loc[table["metric"] == m, "dataset"])) for m in METRIC.values()}
    panels = {m: [d for d in ORDER if d in names] + [d for d in names if d not in ORDER] for m, names in panels.items()}
    columns = max(len(names) for names in panels.values())
    shown = [m for m, names in panels.items() if names]
    private = table[table["arm"].isin(LABELS) & np.isfinite(table["epsilon"])]
    ticks = sorted(private["epsilon"].unique())
    n_curves = table["curve"].nunique()
    space = 0.2 + 0.13 * -(-n_curves // 3)
    with drawing(len(shown) * columns, columns, entries=3, height=1.95, space=space) as (drawn, axes):
        for row, metric in enumerate(shown):
            for column in range(columns):
                ax = axes[row * columns + column]
                if column >= len(panels[metric]):
                    ax.set_axis_off()
                    continue
                dataset = panels[metric][column]
                _panel(ax, rows_where(table, metric=metric, dataset=dataset), metric, ticks)
                ax.set_title(catalogue.title(dataset))
                if column == 0:
                    ax.set_ylabel(Y[metric])
                if row == len(shown) - 1:
                    ax.set_xlabel("ε")
    return drawn


def _panel(ax: Axes, rows: Frame, metric: str, ticks: Sequence[float]) -> None:
    from matplotlib.ticker import FuncFormatter

    public = rows[rows["curve"] == "no privacy"]
    for value in public["mean"].head(1):
        ax.axhline(value, color="#000000", lw=0.9, label="no privacy", zorder=1.5)
    for name in dict.fromkeys(rows["curve"]):
        here = rows_where(rows, curve=name)
        arm = here["arm"].iloc[0]
        if arm in LABELS:
            curve(ax, here["epsilon"], here["mean"], here["stderr"], label=name, zorder=3, **_look(arm))
    _band(ax, rows)
    own = rows[rows["arm"].isin(LABELS)]["mean"]
    if metric == "mse" and own.max() > 12 * own.min():
        ax.set_yscale("log")
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    log_axis(ax, ticks)
    ax.set_xlim(min(ticks) / 1.25, max(ticks) * 1.25)


def _band(ax: Axes, rows: Frame) -> None:
    """Shade between the two ends of DP-SGD's grid where both exist, and draw its three curves."""
    found = {
        name: rows_where(rows, curve=name).sort_values("epsilon") for name in (COST_IGNORED, COST_CHARGED, COST_EXACT)
    }
    if found[COST_IGNORED].empty:
        return
    looks: dict[str, dict[str, Any]] = {
        COST_IGNORED: {"ls": (0, (1, 1.2)), "lw": 1.0},
        COST_CHARGED: {"marker": "*", "ms": 6, "mew": 0, "lw": 0.9},
        COST_EXACT: {"marker": "|", "ms": 5, "ls": (0, (4, 2)), "lw": 0.8},
    }
    left, right = found[COST_IGNORED], found[COST_CHARGED]
    low, high = max(left["epsilon"].min(), right["epsilon"].min()), min(left["epsilon"].max(), right["epsilon"].max())
    if low < high:
        x = np.geomspace(low, high, 60)
        ends = (np.interp(np.log(x), np.log(end["epsilon"]), end["mean"]) for end in (left, right))
        ax.fill_between(x, *ends, color=_DP_SGD, alpha=0.22, lw=0, zorder=1)
    smallest = rows.loc[rows["arm"].isin(LABELS), "epsilon"].min()
    for name, points in found.items():
        shown = points if name != COST_IGNORED else points[points["epsilon"] >= smallest]
        ax.plot(shown["epsilon"], shown["mean"], color=_DP_SGD, label=name, zorder=2, **looks[name])


def _look(arm: str) -> dict[str, Any]:
    method, *variant, calibration = arm.split("/")
    look = arm_look(method, "".join(variant), calibration)
    return {
        "color": look.colour,
        "marker": look.marker,
        "fillstyle": look.fill,
        "ls": look.dash,
        "markerfacecoloralt": "white",
    }


def figure5(records: Frame) -> Frame:
    """Return the curves of Figure 5."""
    return curves(records, FIGURE5)


def figure6(records: Frame) -> Frame:
    """Return the curves of Figure 6."""
    return curves(records, FIGURE6)


F3 = Experiment(
    id="dd_ssp_figure3",
    title="DD-SSP against its baselines",
    caption=(
        "Figure 3 of the paper. Above: mean squared error of regression; below: AUC of classification, on the test "
        "rows; means over trials with bars of one standard error (of noise, on one split). Shaded: DP-SGD between its "
        "108-point grid tuned at no cost and charged by advanced composition (stars), as in the paper; dashed with "
        "ticks: charged by the privacy loss distribution. The winner of the grid is chosen on test rows: none of the "
        "three is private. Advanced composition raises δ to 216 times that of one run. NIST Taxi stands in for the "
        "paper's Taxi, which was not released; Fire, ACSIncome (classification) and ACSPublicCoverage cannot be "
        "reached here."
    ),
    paper="dd_ssp",
    tables=figure3,
    figure=lambda tables: draw(tables["dd_ssp_figure3"]),
)
_CAPTION = (
    "Figure {} of the paper: DD-SSP on marginals of AIM with Private-PGM, and of {}. Above: mean squared error of "
    "regression; below: AUC of classification, on the test rows; means over trials with bars of one standard error. "
    "NIST Taxi stands in for the paper's Taxi."
)
F5 = Experiment(
    id="dd_ssp_figure5",
    title="DD-SSP on MST and on AIM",
    caption=_CAPTION.format(5, "MST"),
    paper="dd_ssp",
    tables=figure5,
    figure=lambda tables: draw(tables["dd_ssp_figure5"]),
)
F6 = Experiment(
    id="dd_ssp_figure6",
    title="DD-SSP with Private-PGM and with mixture inference",
    caption=_CAPTION.format(6, "AIM with mixture inference in its place"),
    paper="dd_ssp",
    tables=figure6,
    figure=lambda tables: draw(tables["dd_ssp_figure6"]),
)
