"""Figures at paper size: a metric against epsilon, and certified against requested epsilon; same bytes each time.

Their captions say what is drawn, what bands and signs mean, and what is missing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from marginalia.data.files import atomic_path
from marginalia.errors import InputError
from marginalia.figure_style import DOUBLE_COLUMN, RC, SINGLE_COLUMN
from marginalia.reporting.arms import Line, Panel, arms_of, is_tuned_on_test, leading, panels_of, plain_titles
from marginalia.reporting.formats import span
from marginalia.reporting.style import RELATION_NAMES
from marginalia.reporting.tables import ARM, NON_PRIVATE, lacks_certificate, private_note, rows_of
from marginalia.sweep.metrics import METRICS

Width = Literal["double", "single"]
# No date and no version of the writer, so that the same figure is the same file.
_METADATA = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "ModDate": None}}
WITHOUT_CERTIFICATE = {
    "refuted": "refuted by an audit",
    "no": "spends more than ε",
    "draft": "domain read off the rows",
    "declared": "declared by its author",
    "part": "protects some rows only",
}
_CROSS: dict[str, Any] = {"marker": "x", "ms": 6.0, "mew": 0.9, "color": "#222222"}
# Trials of a setting chosen on test rows, at the epsilon of one run and at that of all runs.
_COST_IGNORED: dict[str, Any] = {"ls": (0, (1, 1.2)), "lw": 1.0}
_COST_CHARGED: dict[str, Any] = {"ls": (0, (5, 1.5)), "lw": 0.8, "marker": "*", "ms": 6.5, "mew": 0.0}
_STRONG: dict[str, Any] = {"lw": 1.8, "ms": 4.8}  # highlighted lines
_THIN: dict[str, Any] = {"lw": 0.5, "ms": 2.4, "mew": 0.4, "alpha": 0.6}  # lines that are not among the leading ones
_PANEL_HEIGHT = 2.05  # inches, with title and axis label
_LEGEND_LINE = 0.123
_ROOMY = 10  # arms in a panel; more of them get more height
_CROWDED_EXTRA = 0.5
_APART = 3.0  # levels of less than this ratio are too close for a note each
_ROOM = 1e3  # ratio of a reference line to the nearest private mean beyond which the axis does not reach it
_FAR = 1e6  # ratio of a private mean to the median one beyond which the axis does not reach it


def metric_vs_epsilon(aggregates: pd.DataFrame, metric: str, *, width: Width = "double") -> Figure:
    """Draw one metric against epsilon: a panel for each data set and target, a line for each arm.

    Bands are ± 1 standard error over trials; non-private and trivial predictors are horizontal lines. Arms that are not
    `leading` are thin and have no bands. An incomplete point carries its coverage (``3/5``), a point without any
    success stands on the axis as ``0/5`` (once for points that lie close), a point whose certificate exceeds the
    requested epsilon is crossed. A point beyond `ceiling_of` stands on the upper edge, apart from its line, one below
    `ground_of` on the lower edge. Axes of AUC begin below the lowest mean. A reference line far from the private arms
    is a note at the edge with its value. Highlighted arms are strong, and on top.

    `aggregates` are those of one experiment and protocol. Two columns of a paper are 7 in with panels side by
    side (3.4 in for a single panel of few arms); one, and a phone, 3.4 in with panels below each other.
    """
    rows = aggregates[aggregates["metric"] == metric]
    if rows.empty:
        raise InputError(f"no rows of metric '{metric}' to draw")
    panels = panels_of(rows)
    arms = [arms_of(p.rows, context=rows) for p in panels]
    followed = leading(rows)
    with matplotlib.rc_context(RC):
        handles = _legend_handles([arm for panel in arms for arm in panel], followed)
    columns = 1 if width == "single" else {1: 1, 2: 2, 3: 3, 4: 2}.get(len(panels), 3)
    crowded = max(map(len, arms)) > _ROOMY
    inches = SINGLE_COLUMN if width == "single" or (len(panels) == 1 and not crowded) else DOUBLE_COLUMN
    panel_height = _PANEL_HEIGHT + (_CROWDED_EXTRA if crowded else 0.0)
    n_rows = math.ceil(len(panels) / columns)
    legend_columns, legend_height = _legend_size(handles, inches)
    height = n_rows * panel_height + legend_height + 0.35
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(inches, height))
        grid = figure.subplots(n_rows, columns, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.remove()
        titles = plain_titles(panels)
        name = METRICS[metric].name if metric in METRICS else metric
        for place, (axes, panel, lines) in enumerate(zip(grid.flat, panels, arms, strict=False)):
            letter = f"({chr(ord('a') + place)}) " if len(panels) > 1 else ""
            _draw_panel(axes, panel, lines, followed, title=letter + titles[place], inches=inches / columns)
            axes.set_ylabel(name if place % columns == 0 else "")
            axes.set_xlabel("ε" if place + columns >= len(panels) else "")
        figure.legend(
            handles=handles,
            loc="lower center",
            ncols=legend_columns,
            frameon=False,
            borderaxespad=0.2,
            handlelength=3.6,
            columnspacing=1.4,
            labelspacing=0.32,
            borderpad=0.1,
        )
        figure.subplots_adjust(
            left=0.54 / inches,
            right=1 - 0.08 / inches,
            top=1 - 0.22 / height,
            bottom=(legend_height + 0.4) / height,
            wspace=0.55 / (inches / columns - 0.54),
            hspace=0.42 / (panel_height - 0.4),
        )
    return figure


def _draw_panel(
    axes: Any, panel: Panel, arms: Sequence[Line], followed: set[tuple[str, ...]], *, title: str, inches: float
) -> None:
    ceiling, ground, remote = ceiling_of(panel.rows), ground_of(panel.rows), far_references(panel.rows)
    means = panel.rows.loc[~panel.rows.index.isin(remote.index), "mean"]
    shown = means[means >= ground].clip(upper=ceiling)
    log = shown.min() > 0 and shown.max() > 10 * shown.min()
    if log:
        _log_axis(axes, shown)
    _note_far_references(axes, [arm for arm in arms if arm.rows.index.isin(remote.index).any()], shown)
    for arm in arms:
        if not arm.is_private and not arm.rows.index.isin(remote.index).any():
            axes.axhline(arm.rows["mean"].iloc[0], zorder=1.5, **_reference_line(arm))
    if (said := _said(panel.rows["metric"].iloc[0])) is not None:
        axes.axhline(said, color="#767676", lw=0.9, ls=":", zorder=1.5)
    for arm in arms:
        if arm.is_tuned_on_test:
            _draw_tuned_on_test(axes, arm)
    for place, arm in enumerate(a for a in arms if a.is_private and not a.is_tuned_on_test):
        x, y = arm.rows["epsilon"].to_numpy(float), arm.rows["mean"].to_numpy(float)
        spread = arm.rows["stderr"].fillna(0.0).to_numpy(float)
        lower = np.maximum(y - spread, 0.2 * y) if log else y - spread
        within = (y >= ground) & (y <= ceiling)  # a line to a point beyond, and its band, would fill the panel
        line = np.where(within | np.isnan(y), y, np.nan)
        if arm.key in followed:
            axes.fill_between(x, lower, y + spread, where=within, color=arm.look.colour, alpha=0.16, lw=0, zorder=2)
            axes.plot(x, line, zorder=3.99 if arm.is_highlighted else 3 + place / 100, **_line(arm))
        else:
            axes.plot(x, line, zorder=2.5 + place / 100, **_line(arm) | _THIN)
        for height, beyond in ((1.0, x[y > ceiling]), (0.0, x[y < ground])):
            if beyond.size:
                edge = _line(arm) | {"ls": "", "clip_on": False}
                axes.plot(beyond, np.full(len(beyond), height), transform=axes.get_xaxis_transform(), zorder=5, **edge)
        over = lacks_certificate(arm.rows).to_numpy()
        axes.plot(x[over], y[over], ls="", zorder=4, **_CROSS)
        k, n = arm.rows["k"].to_numpy(), arm.rows["n_trials"].to_numpy()
        for i in np.flatnonzero((k > 0) & (k < n)):
            _note(axes, f"{k[i]}/{n[i]}", (x[i], y[i]), arm.look.colour)
    if floor_of(panel.rows) is not None:
        axes.set_ylim(*_score_limits(panel.rows))
    elif math.isfinite(ceiling) or ground > 0:
        below = panel.rows[panel.rows["mean"].between(ground, ceiling) & ~panel.rows.index.isin(remote.index)]
        low, high = float(below["mean"].min()), float((below["mean"] + below["stderr"].fillna(0.0)).max())
        ratio = (high / low) ** 0.07 if log else 1.0
        axes.set_ylim(
            *((low / ratio, high * ratio) if log else (low - 0.07 * (high - low), high + 0.07 * (high - low)))
        )
    levels = sorted(panel.rows.loc[np.isfinite(panel.rows["epsilon"]), "epsilon"].unique())
    lost = [arm for arm in arms if arm.is_private and not arm.is_tuned_on_test and (arm.rows["k"] == 0).any()]
    for place, arm in enumerate(lost):  # on the axis: there is no value to show
        where = axes.get_xaxis_transform()
        height, points = 0.08 * place, arm.rows[arm.rows["k"] == 0]
        x = points["epsilon"].to_numpy(float)
        axes.plot(x, np.full(len(x), height), transform=where, clip_on=False, zorder=5, **(_line(arm) | {"ls": ""}))
        for close in np.split(np.arange(len(x)), np.flatnonzero(x[1:] >= _APART * x[:-1]) + 1):
            at_end = x[close[-1]] == levels[-1]  # no room at its right
            told = close[0] if at_end else close[-1]
            text = f"0/{points['n_trials'].iloc[told]}"
            _note(axes, text, (x[told], height), arm.look.colour, xycoords=where, left=at_end)
    _epsilon_axis(axes, levels)
    axes.set_title(title, loc="left", fontsize=min(RC["axes.titlesize"], 118 * inches / len(title)))


def _said(metric: str) -> float | None:
    """Return how often intervals say that they hold, of a metric of how often they do."""
    of = METRICS.get(metric)
    return of.ends[1] if of is not None and of.of_intervals and of.ends is not None else None


def _draw_tuned_on_test(axes: Any, arm: Line) -> None:
    """Draw the trials of a winner twice, at the epsilon of one run and at that of all, and shade what lies between."""
    rows = arm.rows[arm.rows["k"] > 0]
    y = rows["mean"].to_numpy(float)
    ignored, charged = rows["epsilon"].to_numpy(float), rows["epsilon_spent"].to_numpy(float)
    shared = np.geomspace(charged.min(), ignored.max(), 50) if charged.min() < ignored.max() else np.array([])
    between = (np.interp(np.log(shared), np.log(x), y) for x in (ignored, charged))
    axes.fill_between(shared, *between, color=arm.look.colour, alpha=0.22, lw=0, zorder=1.8)
    for x, line in ((ignored, _COST_IGNORED), (charged, _COST_CHARGED)):
        axes.plot(x, y, color=arm.look.colour, zorder=2.5, **line)


def _note(axes: Any, text: str, at: tuple[float, float], colour: str, *, left: bool = False, **where: Any) -> None:
    note = axes.annotate(
        text,
        at,
        xytext=(-4.5 if left else 4.5, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center_baseline",
        fontsize=6,
        color=colour,
        fontweight="bold",
        zorder=6,
        annotation_clip=False,
        **where,
    )
    note.set_path_effects([withStroke(linewidth=1.8, foreground="white")])


def _line(arm: Line) -> dict[str, Any]:
    look = arm.look
    return {
        "color": look.colour,
        "ls": look.dash,
        "marker": look.marker,
        "fillstyle": look.fill,
        "markerfacecoloralt": "white",
        "mew": 0.8,
    } | (_STRONG if arm.is_highlighted else {})


def _reference_line(arm: Line) -> dict[str, Any]:
    width = _STRONG["lw"] if arm.is_highlighted else 0.9
    return {"color": arm.look.colour, "lw": width, "ls": (0, (1, 1.6)) if arm.key[0] == "trivial" else "-"}


def ceiling_of(rows: pd.DataFrame) -> float:
    """Return beyond what error a point is put on the upper edge, infinity if none is beyond.

    That is the error at which nothing is kept, or twice that of the trivial predictor; or far beyond the median.
    """
    metric = METRICS[rows["metric"].iloc[0]]
    if metric.higher_is_better:
        return math.inf
    limit = metric.ends[0] if metric.ends else 2 * float(rows.loc[rows["method"] == "trivial", "mean"].max())
    far, private = _FAR * _median(rows), _private_means(rows)
    limits = [one for one, means in ((limit, rows["mean"]), (far, private)) if one > 0 and (means > one).any()]
    return min(limits, default=math.inf)


def ground_of(rows: pd.DataFrame) -> float:
    """Return below what error a point of a private arm is put on the lower edge, minus infinity if none is below."""
    private, limit = _private_means(rows), _median(rows) / _FAR
    return limit if (private < limit).any() and private.min() > 0 else -math.inf


def far_references(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of predictors without privacy whose error is far from those of all private arms.

    The axis does not reach them: rows that follow a line exactly leave a predictor without privacy an error of 5e-28.
    """
    private = _private_means(rows).clip(ground_of(rows), ceiling_of(rows))
    references = rows[(rows["calibration"] == NON_PRIVATE) & rows["mean"].notna()]
    if private.empty or private.min() <= 0 or METRICS[rows["metric"].iloc[0]].higher_is_better:
        return references.head(0)
    return references[~references["mean"].between(private.min() / _ROOM, private.max() * _ROOM)]


def _private_means(rows: pd.DataFrame) -> pd.Series:
    return rows.loc[rows["calibration"] != NON_PRIVATE, "mean"].dropna()


def _median(rows: pd.DataFrame) -> float:
    """Return the median error of the private arms; NaN, which bounds nothing, without any and of a score."""
    return math.nan if METRICS[rows["metric"].iloc[0]].higher_is_better else float(_private_means(rows).median())


def _note_far_references(axes: Any, arms: Sequence[Line], shown: pd.Series) -> None:
    """Name each reference line that the axis does not reach at the edge beyond which it lies, with its value."""
    places = {"below": 0.03, "above": 0.97}
    for arm in arms:
        mean = arm.rows["mean"].iloc[0]
        where, sign, step = ("below", "↓", 0.08) if mean < shown.min() else ("above", "↑", -0.08)
        _note(
            axes,
            f"{sign} {arm.name}: {mean:.2g}",
            (0.0, places[where]),
            arm.look.colour,
            xycoords="axes fraction",
        )
        places[where] += step


def floor_of(rows: pd.DataFrame) -> float | None:
    """Return the trivial predictor's score where an axis that showed it would squeeze all curves into its top."""
    means = rows[["method", "mean"]].dropna()
    trivial = means.loc[means["method"] == "trivial", "mean"]
    curves = means.loc[means["method"] != "trivial", "mean"]
    if trivial.empty or curves.empty or not METRICS[rows["metric"].iloc[0]].higher_is_better:
        return None
    low, high = curves.min(), curves.max()
    return float(trivial.min()) if low - trivial.min() > 0.25 * (high - low) else None


def _score_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """Return an axis of scores that ends a little outside the curves and their bands."""
    curves = rows[rows["method"] != "trivial"].dropna(subset="mean")
    spread = curves["stderr"].where(curves["calibration"] != NON_PRIVATE).fillna(0.0)
    low, high = float((curves["mean"] - spread).min()), float((curves["mean"] + spread).max())
    margin = 0.08 * (high - low) or 0.01
    return low - margin, high + margin


def _log_axis(axes: Any, means: pd.Series) -> None:
    axes.set_yscale("log")
    few = means.max() < 200 * means.min()  # one labelled tick a decade would leave a short axis bare
    _plain_log_ticks(axes.yaxis, subs=(1.0, 2.0, 5.0) if few else (1.0,))


def _plain_log_ticks(axis: Any, *, subs: Sequence[float] = (1.0, 2.0, 5.0)) -> None:
    axis.set_major_locator(LogLocator(subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _epsilon_axis(axes: Any, epsilons: Sequence[float]) -> None:
    if not epsilons:
        return
    if epsilons[-1] > 4 * epsilons[0]:
        axes.set_xscale("log")
        axes.set_xlim(epsilons[0] / 1.25, epsilons[-1] * 1.25)
    axes.xaxis.set_major_locator(FixedLocator(list(epsilons)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def _legend_handles(arms: Sequence[Line], followed: set[tuple[str, ...]]) -> list[Any]:
    """Return one legend entry for each arm of the figure, then the references, then what the cross means.

    Highlighted arms and references come first.
    """
    ordered = sorted(arms, key=lambda arm: (not arm.is_highlighted, not arm.is_private))
    handles: list[Any] = []
    for name, arm in {arm.name: arm for arm in ordered}.items():
        if arm.is_tuned_on_test:
            handles += [
                Line2D([], [], label=f"{name}: cost ignored, not private", color=arm.look.colour, **_COST_IGNORED),
                Line2D([], [], label=f"{name}: all runs charged", color=arm.look.colour, **_COST_CHARGED),
            ]
        elif arm.is_private:
            handles.append(Line2D([], [], label=name, **_line(arm) | ({} if arm.key in followed else _THIN)))
        else:
            label = name if arm.key[0] == "trivial" else f"{name} (no privacy)"
            handles.append(Line2D([], [], label=label, **_reference_line(arm)))
    without = {verdict for arm in arms if not arm.is_tuned_on_test for verdict in arm.verdicts}
    if without:
        label = " or ".join(text for verdict, text in WITHOUT_CERTIFICATE.items() if verdict in without)
        handles.append(Line2D([], [], label=label, ls="", **_CROSS))
    return handles


def _legend_size(handles: Sequence[Any], inches: float) -> tuple[int, float]:
    """Return the number of legend columns that fit, and the height in inches."""
    longest = max(len(h.get_label()) for h in handles)
    columns = max(1, min(4, len(handles), int((inches - 0.1) / (0.046 * longest + 0.5))))
    return columns, math.ceil(len(handles) / columns) * _LEGEND_LINE + 0.08


def certified_epsilon(certificates: pd.DataFrame, *, width: Width = "double") -> Figure:
    """Draw, for each private arm, the certified epsilon as a share of the requested one.

    Right of 1 the arm spends more than it was asked to, and is not certified; left of 1 its noise is larger than
    needed. Marker size grows with the requested epsilon; data sets are summarised by their largest share.
    `certificates` are those of `tables.certificates`; the width is 7 in or 3.4 in.
    """
    if certificates.empty:
        raise InputError("no certified epsilon to draw: the table of certificates is empty")
    largest = certificates.groupby([*ARM, "epsilon"], sort=False)["ratio"].max().reset_index()
    unknown = np.isinf(largest["ratio"])  # what was spent is not known
    largest["ratio"] = largest["ratio"].mask(unknown)
    silent = {tuple(row) for row in largest[unknown][[*ARM]].itertuples(index=False)}
    arms = arms_of(largest.assign(dataset="all", epsilon_spent=largest["ratio"] * largest["epsilon"]))
    epsilons = sorted(largest["epsilon"].unique())
    sizes = dict(zip(epsilons, np.linspace(2.6, 6.6, len(epsilons)), strict=True))
    inches = SINGLE_COLUMN if width == "single" else DOUBLE_COLUMN
    height = 0.155 * len(arms) + 0.95
    with matplotlib.rc_context(RC | {"axes.grid.axis": "x"}):
        figure = Figure(figsize=(inches, height))
        axes = figure.subplots()
        limit = max(1.25, 1.08 * largest["ratio"].fillna(0).max())
        if limit > 6:
            axes.set_xscale("log")
            _plain_log_ticks(axes.xaxis)
        axes.axvspan(1, limit, color="#f6e6e0", lw=0, zorder=0)
        axes.axvline(1, color="#000000", lw=0.9, zorder=1)
        for place, arm in enumerate(arms):
            axes.axhline(place, color="#eeeeee", lw=0.5, zorder=0.5)
            look = _line(arm) | {"ls": "", "mew": 0.7}
            # one marker, the largest, where shares coincide; the largest first, so that all stay visible
            apart = arm.rows.assign(shown=arm.rows["ratio"].round(2)).drop_duplicates("shown", keep="last")
            for row in rows_of(apart[::-1]):
                axes.plot([row.ratio], [place], zorder=3, **look | {"ms": sizes[row.epsilon]})
            if arm.rows["ratio"].isna().all():
                why = "nothing certified " if arm.key in silent else "no run succeeded "
                axes.text(1, place, why, fontsize=6, color="#555555", ha="right", va="center")
        axes.set_yticks(range(len(arms)), [arm.name for arm in arms])
        for label in (label for label, arm in zip(axes.get_yticklabels(), arms, strict=True) if arm.is_highlighted):
            label.set_fontweight("bold")
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(arms) - 0.4, -0.6)
        axes.set_xlim(right=limit, left=None if limit > 6 else 0)
        axes.set_xlabel("certified ε / requested ε")
        for text, side in (("certified  ", "right"), ("  not certified", "left")):
            axes.text(1, 1.01, text, transform=axes.get_xaxis_transform(), fontsize=6.5, va="bottom", ha=side)
        dot: dict[str, Any] = {"ls": "", "marker": "o", "color": "#555555", "mew": 0}
        handles = [Line2D([], [], ms=sizes[e], label=f"ε = {e:g}", **dot) for e in epsilons]
        figure.legend(
            handles=handles,
            loc="lower center",
            ncols=min(len(epsilons), 6),
            frameon=False,
            handletextpad=0.1,
            columnspacing=1.2,
            borderaxespad=0.1,
        )
        names = 0.05 * max(len(arm.name) for arm in arms) + 0.15
        figure.subplots_adjust(left=names / inches, right=1 - 0.1 / inches, top=1 - 0.2 / height, bottom=0.58 / height)
    return figure


def sweep_figure(tables: Mapping[str, pd.DataFrame], experiment: str, table: str) -> Figure:
    """Return the figure of one experiment's rows in a table: of a metric, or of ``certificates``."""
    frame = tables[table][tables[table]["experiment"] == experiment]
    return certified_epsilon(frame) if table == "certificates" else metric_vs_epsilon(frame, table)


def save_figure(figure: Figure, stem: str | os.PathLike[str], *, kinds: Iterable[str] = tuple(_METADATA)) -> None:
    """Write ``stem.png`` (200 dpi), ``stem.svg`` and ``stem.pdf``, each atomically and the same bytes each time."""
    with matplotlib.rc_context(RC):
        for kind in kinds:
            metadata = _METADATA[kind]
            with atomic_path(f"{os.fspath(stem)}.{kind}") as temporary:
                figure.savefig(temporary, format=kind, metadata=metadata)


def caption(aggregates: pd.DataFrame, metric: str) -> str:
    """Return the caption of `metric_vs_epsilon`: what is drawn, what bands and signs mean, what is missing."""
    rows = aggregates[aggregates["metric"] == metric]
    private = rows[rows["calibration"] != NON_PRIVATE]
    better = f"{'higher' if METRICS[metric].higher_is_better else 'lower'} is better"
    if (said := _said(metric)) is not None:
        better = f"{said:g} is what they say, dotted; more is not better"
    deltas = ", ".join(f"{d:g}" for d in sorted(private["delta"].unique()))
    relations = [RELATION_NAMES.get(r, r) for r in sorted(private["relation"].unique())]
    parts = [
        f"{METRICS[metric].title} against ε ({better}); δ = {deltas}, "
        f"{' and '.join(relations)} neighbours{' (the latter marked in the legend)' if len(relations) > 1 else ''}.",
        f"Lines are means over {span(rows['n_trials'])} trials, bands or bars ± 1 standard error.",
    ]
    if metric == "marginal_error":
        parts.append("Marginal error is half the L1 distance between normalised marginals, averaged over the workload.")
    if metric == "coverage":
        parts.append(
            "What the intervals are worth: the share of cells of answered one- and two-way marginals they hold."
        )
    if metric == "naive_coverage":
        parts.append("A warning: intervals for the same cells from synthetic rows that are taken for real ones.")
    if "published" in set(private["calibration"]):
        parts.append("Published calibrations are dashed with open markers, tight ones drawn through and filled.")
    if (rows["calibration"] == NON_PRIVATE).any():
        parts.append("Horizontal lines: predictors without privacy and the trivial predictor.")
    followed = leading(rows)
    lines = [arm for arm in arms_of(rows.drop_duplicates([*ARM])) if arm.is_private and not arm.is_tuned_on_test]
    if thin := sum(arm.key not in followed for arm in lines):
        parts.append(f"Thin and without bands: {thin} of {len(lines)} private arms, those that are first least often.")
    tuned = [is_tuned_on_test(*key) for key in zip(*(private[c] for c in ARM[:3]), strict=True)]
    if any(tuned):
        parts.append(
            "Grid tuned on test: hyper-parameters chosen by the test rows, drawn at the ε of one run (cost ignored, "
            "not private) and, with stars, at what all runs of the grid cost; shaded between. Test rows leak in both."
        )
    private = private[~np.array(tuned, dtype=bool)]
    if any(math.isfinite(ceiling_of(panel.rows)) for panel in panels_of(rows)):
        ends = METRICS[metric].ends
        beyond = f"{ends[0]:g}, where nothing is kept," if ends else "twice the error of the trivial predictor"
        if not ends and "trivial" not in set(rows["method"]):
            beyond = "a million times the median error"
        parts.append(f"Points beyond {beyond} stand on the upper edge, apart from their lines.")
    if any((panel.rows["mean"] < ground_of(panel.rows)).any() for panel in panels_of(rows)):
        parts.append("Points of errors a million times smaller than the median stand on the lower edge.")
    if any(len(far_references(panel.rows)) for panel in panels_of(rows)):
        parts.append("Lines without privacy that lie far off the axis are named at its edge, with their values.")
    floors = {floor for panel in panels_of(rows) if (floor := floor_of(panel.rows)) is not None}
    if floors:
        parts.append(f"The trivial predictor ({span(sorted(floors))}) lies below the axes.")
    if (private["certified"] == "no").any():
        parts.append("Crossed points spend more privacy than requested and carry no certificate.")
    if (private["certified"] == "draft").any():
        parts.append("Crossed: labels or other facts of the domain were read off the private rows.")
    if (private["certified"] == "refuted").any():
        parts.append("Crossed: methods of which an audit found that their privacy does not hold.")
    if (private["certified"] == "declared").any():
        parts.append("Crossed: methods whose privacy is their author's word, which no audit has passed.")
    if (private["certified"] == "part").any():
        parts.append("Crossed: methods that protect some of the rows only.")
    holes = int((private["k"] < private["n_trials"]).sum())
    if holes:
        parts.append(f"Points with missing trials show how many succeeded (k/n): {holes} of {len(private)}.")
    return " ".join(filter(None, (*parts, private_note(rows))))


def certificate_caption(certificates: pd.DataFrame) -> str:
    """Return the caption of `certified_epsilon`."""
    over = certificates[certificates["certified"] == "no"].drop_duplicates([*ARM])
    deltas = ", ".join(f"{d:g}" for d in sorted(certificates["delta"].unique()))
    return (
        "Certified ε as a share of the requested ε, for every private arm, the largest over data sets and trials; "
        f"δ = {deltas}. Marker size grows with ε; where shares coincide the largest stands for all. "
        "Left of 1, noise is larger than the guarantee needs; right of 1, the guarantee does not hold: "
        f"{len(over) or 'no'} arm{'' if len(over) == 1 else 's'} here."
    )
