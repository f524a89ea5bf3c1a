"""Estimates with their intervals, one below the other: a figure of what a release says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from marginalia.errors import InputError
from marginalia.figure_style import COLOURS, RC, SINGLE_COLUMN
from marginalia.inference.columns import time_text, unit_of

_ROW = 0.24  # inches
_APART = 0.2  # of a row, between series
MOST = 60  # lines that a figure can hold


@dataclass(frozen=True)
class Series:
    """One estimate and interval for each name; ends may be infinite.

    >>> Series("private", (0.5,), (-math.inf,), (math.inf,)).name
    'private'
    """

    name: str
    estimates: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]


def plot_intervals(found: Iterable[Any], title: str, *, zero: bool) -> Figure:
    """Draw intervals or coefficients, one below the other; of dates in the units of their axis.

    Parameters
    ----------
    found : iterable of Interval or Coefficient
        At most `MOST`.
    title : str
    zero : bool
        Whether a vertical line marks 0.

    Raises
    ------
    InputError
        There are too many, or a set is the outside of two numbers.
    """
    found = list(found)
    if len(found) > MOST:
        raise InputError(f"{len(found)} intervals do not fit on one figure; at most {MOST} do")
    if any(getattr(one, "outside", False) for one in found):
        raise InputError("a set that lies outside of two numbers cannot be drawn; a larger epsilon may help")
    series = Series("", *zip(*((one.estimate, one.low, one.high) for one in found), strict=True))
    quantities = {quantity for one in found if unit_of(quantity := getattr(one, "quantity", "number")) is not None}
    tick_text = partial(time_text, quantity=quantities.pop()) if quantities else None
    return error_bars([one.name for one in found], [series], title=title, zero=zero, tick_text=tick_text)


def error_bars(
    names: Sequence[str],
    series: Sequence[Series],
    *,
    title: str = "",
    zero: bool = True,
    tick_text: Callable[[float], str] | None = None,
) -> Figure:
    """Draw each name's intervals on a line of its own; an end without a bound is an arrow at the edge.

    Parameters
    ----------
    names : sequence of str
        At most `MOST`.
    series : sequence of Series
    title : str
    zero : bool
        Whether a vertical line marks 0.
    tick_text : callable, optional
        Text of a whole number on the axis, such as a date.
    """
    ends = [x for s in series for part in (s.estimates, s.lows, s.highs) for x in part if math.isfinite(x)]
    low, high = min([*ends, 0.0] if zero else ends, default=-1.0), max([*ends, 0.0] if zero else ends, default=1.0)
    margin = 0.06 * (high - low) or 1.0
    left, right = low - margin, high + margin
    height = _ROW * len(names) * max(1.0, 0.6 * len(series)) + 0.75
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(1.5 * SINGLE_COLUMN, height), layout="constrained")
        axes = figure.add_subplot()
        for k, one in enumerate(series):
            colour = COLOURS[k % len(COLOURS)]
            shift = _APART * (k - (len(series) - 1) / 2)
            for place, (at, a, b) in enumerate(zip(one.estimates, one.lows, one.highs, strict=True)):
                y = place + shift
                axes.plot([max(a, left), min(b, right)], [y, y], color=colour, lw=1.0)
                for end, edge, marker in ((a, left, "<"), (b, right, ">")):
                    if not math.isfinite(end):
                        axes.plot([edge], [y], marker=marker, ms=4.0, color=colour, clip_on=False)
                axes.plot([at], [y], "o", ms=3.0, color=colour, label=one.name if not place else None)
        if zero:
            axes.axvline(0.0, color="#222222", lw=0.6)
        axes.set_xlim(left, right)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), [name if len(name) <= 40 else name[:39] + "…" for name in names])
        axes.grid(axis="y", visible=False)
        if tick_text is not None:
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.xaxis.set_major_formatter(lambda x, _: tick_text(x))
        axes.set_title(title, loc="left")
        if len(series) > 1:
            figure.legend(loc="outside lower center", ncols=len(series), frameon=False)
    return figure
