"""The pictures of the quality page: each column, real against synthetic, and the pairs that differ most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from marginalia.data.domain import Column
from marginalia.data.names import code_names, edge_text
from marginalia.figure_style import COLOURS, RC, SINGLE_COLUMN
from marginalia.quality.quality import ColumnQuality

REAL, SYNTHETIC = "#8a8a8a", COLOURS[0]
_BARS = 12  # codes that get a bar with a name; of a column with more and without order, the most frequent do
_STEPS = 200  # of an outline; more codes are joined
_LETTERS = 24  # of a name on an axis: two dates and what is between them
_TICKS = 7
_CARD = 2.9  # inches, shown at the width of a phone or a third of a desk
_LEGEND = 0.3
_NAMED_COLUMNS = 45  # with more, the map of all pairs has no names


def column_chart(attribute: Column, quality: ColumnQuality) -> Figure:
    """Draw the shares of the codes of one column in both tables."""
    shares = [counts / counts.sum() for counts in (quality.real, quality.synthetic)]
    ordered = attribute.kind != "categorical" and attribute.size > _BARS
    with matplotlib.rc_context(RC):
        return _steps(attribute, shares) if ordered else _bars(attribute, shares)


def _bars(attribute: Column, shares: Sequence[NDArray[np.float64]]) -> Figure:
    """Draw a pair of bars for each code."""
    names = [_short(name) for name in code_names(attribute)]
    shown = np.arange(attribute.size)
    if attribute.size > _BARS:
        shown = np.sort(np.argsort(-(shares[0] + shares[1]), kind="stable")[: _BARS - 1])
        names = [*(names[code] for code in shown), f"{attribute.size - len(shown)} others"]
    height = 0.24 * len(names) + 0.35
    figure = Figure(figsize=(_CARD, height + _LEGEND), layout="constrained")
    axes = figure.add_subplot()
    places = np.arange(len(names))
    for share, side, colour, what in zip(shares, (-0.2, 0.2), (REAL, SYNTHETIC), ("real", "synthetic"), strict=True):
        values = share[shown]
        if len(values) < len(names):
            values = np.append(values, 1 - values.sum())
        axes.barh(places + side, values, 0.4, color=colour, label=what)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(_percent())
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _steps(attribute: Column, shares: Sequence[NDArray[np.float64]]) -> Figure:
    """Draw outlines over the codes in their order; those of other and missing values stand apart on the right."""
    n = attribute.n_values
    extra = attribute.size - n
    figure = Figure(figsize=(_CARD, 1.4 + _LEGEND), layout="constrained")
    axes = figure.add_subplot()
    first = np.arange(0, n, -(-n // _STEPS))  # code of each step
    real, synthetic = (np.add.reduceat(share[:n], first) for share in shares)
    axes.stairs(real, np.append(first, n), fill=True, color=REAL, alpha=0.55, label="real")
    axes.stairs(synthetic, np.append(first, n), color=SYNTHETIC, lw=1.2, label="synthetic")
    gap = n + max(1.0, 0.04 * n)
    width = max(1.0, 0.03 * n)
    for place, code in enumerate(range(n, attribute.size)):
        left = gap + 2.5 * width * place
        axes.bar(left, shares[0][code], width, color=REAL, alpha=0.55)
        axes.bar(left + width, shares[1][code], width, color=SYNTHETIC)
    names = code_names(attribute)
    if attribute.edges is not None and attribute.labels is None:
        at = _spread(n + 1)
        ticks, labels = [float(i) for i in at], [_round(attribute, attribute.edges[i]) for i in at]
    else:
        at = _spread(n)
        ticks, labels = [i + 0.5 for i in at], [_short(names[i]) for i in at]
    ticks += [gap + 2.5 * width * place + width / 2 for place in range(extra)]
    labels += [_short(name) for name in names[n:]]
    crowded = sum(map(len, labels)) > 40
    axes.set_xticks(ticks, labels, rotation=35 if crowded else 0, ha="right" if crowded else "center")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_percent())
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def pair_chart(attributes: Sequence[Column], difference: NDArray[np.float64]) -> Figure:
    """Draw the difference of shares, synthetic minus real, in every cell of a pair."""
    rows, columns = attributes
    most = float(np.abs(difference).max()) or 1.0
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        figure = Figure(figsize=(_CARD, 2.5), layout="constrained")
        axes = figure.add_subplot()
        image = axes.imshow(difference, cmap="PuOr_r", vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
        for axis, attribute in ((axes.yaxis, rows), (axes.xaxis, columns)):
            at = _spread(attribute.size)
            axis.set_ticks(at, _tick_names(attribute, at))
        axes.tick_params(axis="x", rotation=35)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
        axes.set_ylabel(rows.name)
        axes.set_xlabel(columns.name)
        bar = figure.colorbar(image, ax=axes, shrink=0.9, format=_percent())
        bar.set_label("synthetic − real", fontsize=6.5)
        return figure


def overview_chart(names: Sequence[str], errors: Mapping[tuple[str, str], float]) -> Figure:
    """Draw the marginal error of every pair of columns as a map."""
    place = {name: i for i, name in enumerate(names)}
    grid = np.full((len(names), len(names)), np.nan)
    for (a, b), error in errors.items():
        grid[place[a], place[b]] = grid[place[b], place[a]] = error
    named = len(names) <= _NAMED_COLUMNS
    side = max(SINGLE_COLUMN, min(7.0, 0.16 * len(names) + 1.6))
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        figure = Figure(figsize=(side, 0.85 * side), layout="constrained")
        axes = figure.add_subplot()
        image = axes.imshow(grid, cmap="viridis_r", vmin=0, interpolation="nearest")
        ticks = range(len(names)) if named else []
        axes.set_xticks(ticks, [_short(name) for name in names] if named else [], rotation=90)
        axes.set_yticks(ticks, [_short(name) for name in names] if named else [])
        figure.colorbar(image, ax=axes, shrink=0.8).set_label("marginal error", fontsize=6.5)
        return figure


def _tick_names(attribute: Column, codes: Sequence[int]) -> list[str]:
    """Return short names for some codes: of a bin where it begins."""
    names = code_names(attribute)
    if attribute.edges is not None and attribute.labels is None:
        begins = [_round(attribute, edge) for edge in attribute.edges[:-1]]
        names[attribute.bottom : len(begins)] = begins[attribute.bottom :]
    return [_short(names[code], 14) for code in codes]


def _round(attribute: Column, edge: float) -> str:
    """Return an edge as short as a tick needs it."""
    text = edge_text(attribute, edge)
    if len(text) <= 6 or "-" in text[1:]:  # short, or a date
        return text
    digits = f"{edge:.4g}"
    plain = np.format_float_positional(float(digits), trim="-")
    return plain if len(plain) <= len(digits) else digits


def _spread(n: int) -> list[int]:
    """Return at most `_TICKS` places from 0 to n-1, evenly spaced, the first among them."""
    return list(range(0, n, -(-n // _TICKS)))


def _short(name: str, most: int = _LETTERS) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _percent() -> FuncFormatter:
    return FuncFormatter(lambda share, _: f"{100 * share:.4g}%")
