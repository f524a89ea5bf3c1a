"""Utility against seconds, a row of panels for each data set: peers as open marks beside our filled ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from marginalia.papers.card import Axes, Figure, Frame
from marginalia.papers.cross_paper.ranking import marker
from marginalia.papers.form import in_style
from marginalia.reporting.style import DOUBLE_COLUMN, method_rank

AT = 1.0  # epsilon of the marks: the nearest there is
COLUMNS = {  # neighbouring relation and measure of a column of panels, what its axis says, and its title
    ("add_remove", "k_marginal"): ("k-marginal score", "Rows"),
    ("add_remove", "utility"): ("share kept of the gain", "Prediction"),
    ("replace_one", "utility"): ("share kept of the gain", "Prediction, replace-one"),
}
_HEIGHT = 1.55  # inches of a panel
_LOWEST = -0.5  # shares below are drawn at the edge
_NAME = 4  # columns of the legend


@in_style
def figure(table: Frame) -> Figure:
    """Draw a mark for each release of `releases` at the epsilon nearest to 1; thin lines span the others."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from marginalia.data.catalogue import catalogue
    from marginalia.reporting.panels import rows_where
    from marginalia.reporting.tables import rows_of

    shown = table[table["seconds"].notna()]
    columns = [c for c in COLUMNS if c[1] in shown and rows_where(shown, relation=c[0])[c[1]].notna().any()]
    count = shown.groupby("dataset", sort=False)["name"].nunique()
    datasets = [str(name) for name in count.sort_values(ascending=False, kind="stable").index]
    limits = (shown["seconds"].min() / 1.6, shown["seconds"].max() * 1.6)
    arms = sorted(rows_of(shown.drop_duplicates("name")), key=lambda a: (a.peer, method_rank(a.method), a.variant))
    handles = [Line2D([], [], ls="", label=arm.name, **marker(arm)) for arm in arms]
    legend = 0.135 * int(np.ceil(len(handles) / _NAME)) + 0.1
    height = _HEIGHT * len(datasets) + legend + 0.5
    drawn = Figure(figsize=(DOUBLE_COLUMN, height))
    grid = drawn.subplots(len(datasets), max(len(columns), 1), squeeze=False)
    for line, dataset in zip(grid, datasets, strict=True):
        for axes, (relation, measure) in zip(line, columns, strict=False):
            here = rows_where(shown, dataset=dataset, relation=relation)
            here = here[here[measure].notna()]
            if here.empty:
                axes.remove()
                continue
            label, title = COLUMNS[relation, measure]
            _draw(axes, here, measure, limits)
            axes.set_title(catalogue.title(dataset), loc="left", fontsize=7)
            if dataset == datasets[0]:
                axes.annotate(title, (0, 1), xytext=(0, 15), xycoords="axes fraction", textcoords="offset points",
                              fontsize=7.5, fontweight="bold")  # fmt: skip
            axes.set_ylabel(label, labelpad=1.5)
            axes.set_xlabel("CPU seconds" if dataset == datasets[-1] else "")
    drawn.legend(handles=handles, loc="lower center", ncols=_NAME, frameon=False, handlelength=1.2, columnspacing=1.4,
                 labelspacing=0.32, borderaxespad=0.2)  # fmt: skip
    drawn.subplots_adjust(
        left=0.5 / DOUBLE_COLUMN, right=1 - 0.08 / DOUBLE_COLUMN, top=1 - 0.36 / height,
        bottom=(legend + 0.42) / height, wspace=0.32, hspace=0.42 / (_HEIGHT - 0.42),
    )  # fmt: skip
    return drawn


def _draw(axes: Axes, rows: Frame, measure: str, limits: tuple[float, float]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    from marginalia.reporting.tables import rows_of

    edge = _LOWEST if measure == "utility" else 0.0
    for _, arm in rows.groupby("name", sort=False):
        row: Any = next(rows_of(arm.iloc[[np.abs(np.log(arm["epsilon"] / AT)).argmin()]]))
        style, values = marker(row, 4.5), arm[measure].clip(lower=edge)
        axes.vlines(row.seconds, values.min(), values.max(), color=style["color"], lw=0.6, alpha=0.45)
        axes.plot([row.seconds], [max(getattr(row, measure), edge)], ls="", clip_on=False, zorder=3, **style)
    axes.set(xscale="log", xlim=limits)
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if measure == "utility":
        axes.axhline(1, color="#000000", lw=0.7)
        if rows[measure].min() <= 0:  # else guessing lies below the panel
            axes.axhline(0, color="#767676", lw=0.7, ls=(0, (1, 1.6)))


def caption(table: Frame) -> str:
    """Return the caption: what the axes are, what is not drawn."""
    from marginalia.data.catalogue import catalogue

    parts = [
        "Utility against CPU seconds of a whole release at ε = 1 (mean over trials); thin lines span the other ε. Open "
        "marks: other libraries' methods, whose ε is their claim; a library has one colour, a method the mark of ours "
        "of that name. Rows: SDNist's k-marginal score of as many synthetic rows as there are real ones. Prediction: "
        "held-out AUC, or MSE where there is none, of learners and of a public learner on synthetic rows, 0 for the "
        f"trivial predictor (dotted) and 1 for the one without privacy (line); values below {_LOWEST:g} stand there."
    ]
    lost = table[table["k"] == 0].drop_duplicates(["dataset", "name"])
    if len(lost):
        by_set = {str(dataset): ", ".join(rows["name"]) for dataset, rows in lost.groupby("dataset", sort=False)}
        names = "; ".join(f"{catalogue.title(dataset)}: {those}" for dataset, those in by_set.items())
        parts.append(f"Not drawn where no run ended: {names}.")
    return " ".join(parts)
