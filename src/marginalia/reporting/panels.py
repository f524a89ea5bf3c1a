"""What the figures of the papers' experiments share: panels of curves with bars or bands, and one legend below them.

Matplotlib is imported by the functions that draw: the plan imports every experiment, and those import this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.figure_style import COLOURS, DOUBLE_COLUMN, RC

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Every curve has its own marker, too, for greyscale.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "*")
DASHED: Any = (0, (4, 2))
DOTTED: Any = (0, (1.2, 1.2))


@contextmanager
def drawing(
    n_panels: int, columns: int, *, entries: int, height: float = 2.0, space: float = 0.35
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Open a `grid` in the project's style; at the end put one legend below it, `entries` side by side (0: none).

    `height` of a panel and `space` for the legend are in inches.
    """
    figure, axes = grid(n_panels, columns, height=height, legend=space)
    with _style():
        yield figure, axes
    if entries:
        legend(figure, axes, entries)


def grid(n_panels: int, columns: int, *, height: float = 2.0, legend: float = 0.35) -> tuple[Figure, list[Axes]]:
    """Return a double-column figure with `n_panels` axes and `legend` inches of space below."""
    rows = -(-n_panels // columns)
    with _style():
        total = rows * height + legend
        figure = _figure_class()(figsize=(DOUBLE_COLUMN * min(1.0, columns / 2), total), layout="constrained")
        figure.get_layout_engine().set(rect=(0, legend / total, 1, 1 - legend / total))  # type: ignore[union-attr, call-arg]
        axes = [figure.add_subplot(rows, columns, i + 1) for i in range(n_panels)]
    return figure, axes


@cache
def _figure_class() -> type[Figure]:
    """Return a figure that, before it is written, only places its parts: Matplotlib draws them into nothing, too.

    They are placed from where they began, so that a figure is the same however often it was written before.
    """
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    class Placed(Figure):
        def draw(self, renderer: Any) -> None:
            engine = self.get_layout_engine()
            if self.canvas.is_saving() and isinstance(engine, ConstrainedLayoutEngine):
                for axes in self.axes:
                    if place := axes.get_subplotspec():
                        axes.set_subplotspec(place)
                with suppress(ValueError):  # as Matplotlib does: no room
                    engine.execute(self)
            else:  # the engine has been put aside
                super().draw(renderer)

    return Placed


def look(i: int) -> dict[str, Any]:
    """Return colour and marker of the i-th curve; when the colours are used up they come again, dashed and hollow."""
    style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[(i + i // len(COLOURS)) % len(MARKERS)]}
    return style if i < len(COLOURS) else {**style, "ls": DASHED, "mfc": "white"}


def log_axis(ax: Axes, ticks: Iterable[float]) -> None:
    """Make x logarithmic, with these ticks and no others."""
    ticks = sorted(set(ticks))
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)


def outer_labels(axes: Sequence[Axes], x: str, y: str, *, columns: int) -> None:
    """Label y in the first column of a grid and x where no panel is below."""
    for place, ax in enumerate(axes):
        if place % columns == 0:
            ax.set_ylabel(y)
        if place + columns >= len(axes):
            ax.set_xlabel(x)


def curve(ax: Axes, x: Any, y: Any, error: Any = None, **style: Any) -> None:
    """Draw means with bars of one standard error."""
    bars = None if error is None else np.nan_to_num(np.asarray(error, dtype=float))
    ax.errorbar(np.asarray(x, dtype=float), np.asarray(y, dtype=float), yerr=bars, capsize=1.5, elinewidth=0.7, **style)


def band(ax: Axes, rows: pd.DataFrame, x: str, y: str, spread: str, style: Mapping[str, Any]) -> None:
    """Draw means, in the order of `x`, with a band of one `spread`; nothing where there are no rows."""
    if rows.empty:
        return
    rows = rows.sort_values(x)
    width = rows[spread].fillna(0.0)
    ax.fill_between(rows[x], rows[y] - width, rows[y] + width, color=style["color"], alpha=0.15, lw=0)
    ax.plot(rows[x], rows[y], **style)


def bars(ax: Axes, groups: Mapping[str, Sequence[float]], ticks: Sequence[str]) -> None:
    """Draw two groups of bars side by side, a tick for each pair."""
    for i, (group, values) in enumerate(groups.items()):
        places = [j + 0.38 * (i - 0.5) for j in range(len(values))]
        ax.bar(places, values, 0.36, label=group, color=look(i)["color"])
    ax.set_xticks(range(len(ticks)), ticks, fontsize=5.5)
    ax.grid(axis="x", visible=False)


def legend(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """Put one legend for all panels below them."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    with _style():
        figure.legend(entries.values(), entries, loc="lower center", ncols=columns, frameon=False, handlelength=2.6)


def rows_where(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the rows with these values."""
    return table[np.logical_and.reduce([table[column] == value for column, value in values.items()])]


def _style() -> AbstractContextManager[None]:
    import matplotlib

    return matplotlib.rc_context(RC)
