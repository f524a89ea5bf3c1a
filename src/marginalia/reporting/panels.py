"""What the figures of the two theory papers share: panels of curves with error bars and one legend below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from marginalia.reporting.style import DOUBLE_COLUMN, RC

# Okabe and Ito; every curve has its own marker too, for greyscale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#332288", "#56B4E9", "#882255", "#767676")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "*")
DASHED: Any = (0, (4, 2))
DOTTED: Any = (0, (1.2, 1.2))


def grid(n_panels: int, columns: int, *, height: float = 2.0, legend: float = 0.35) -> tuple[Figure, list[Axes]]:
    """Return a double-column figure with `n_panels` axes and `legend` inches of space below."""
    rows = -(-n_panels // columns)
    with matplotlib.rc_context(RC):
        total = rows * height + legend
        figure = Figure(figsize=(DOUBLE_COLUMN * min(1.0, columns / 2), total), layout="constrained")
        figure.get_layout_engine().set(rect=(0, legend / total, 1, 1 - legend / total))  # type: ignore[union-attr, call-arg]
        axes = [figure.add_subplot(rows, columns, i + 1) for i in range(n_panels)]
    return figure, axes


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


def curve(ax: Axes, x: Any, y: Any, error: Any = None, **style: Any) -> None:
    """Draw means with bars of one standard error."""
    bars = None if error is None else np.nan_to_num(np.asarray(error, dtype=float))
    ax.errorbar(np.asarray(x, dtype=float), np.asarray(y, dtype=float), yerr=bars, capsize=1.5, elinewidth=0.7, **style)


def legend(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """Put one legend for all panels below them."""
    entries: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    with matplotlib.rc_context(RC):
        figure.legend(
            entries.values(), entries.keys(), loc="lower center", ncols=columns, frameon=False, handlelength=2.6
        )


def rows_where(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the rows with these values."""
    mask = np.ones(len(table), dtype=bool)
    for column, value in values.items():
        mask &= (table[column] == value).to_numpy()
    return table[mask]
