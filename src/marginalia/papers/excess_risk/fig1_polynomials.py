"""Zhou et al., Figure 1: polynomials of degree 4 close to the logistic loss."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.polynomial import Polynomial

from marginalia.papers.card import Card, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.excess_risk.theory import bernstein, logistic_loss, minimax, sup_error
from marginalia.papers.form import rounded
from marginalia.papers.reported import reported
from marginalia.papers.rows import as_frame
from marginalia.reporting.panels import COLOURS, DOTTED, drawing

KEYS = ["panel", "method", "iterations"]


def coefficients(settings: Settings) -> list[str]:
    """Return the names of the columns of coefficients."""
    return [f"c{k}" for k in range(settings["degree"] + 1)]


@as_frame
def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield a row for each polynomial of Figure 1."""
    low, high = map(float, settings["interval"])
    interval, degree = (low, high), settings["degree"]
    polynomials = [("a", "minimax", math.nan, minimax(logistic_loss, degree, interval))]
    for c in settings["iterations"]:
        p = bernstein(logistic_loss, degree, interval, iterations=c)
        polynomials.append(("b", "iterated_bernstein", float(c), p))
    for panel, method, iterations, p in polynomials:
        yield {
            "panel": panel, "method": method, "iterations": iterations, "degree": degree,
            "interval_low": low, "interval_high": high,
            **{name: round(float(a), 12) + 0.0 for name, a in zip(coefficients(settings), p.coef, strict=True)},
            "max_error": sup_error(p, logistic_loss, interval),
        }  # fmt: skip


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return every coefficient and error beside the printed one; ``agrees``: to the decimals that are printed."""
    values = [*coefficients(settings), "max_error"]
    ours = rows.melt(KEYS, values, "quantity", "mean")
    printed = reported(FIG1.id).melt(KEYS, values, "quantity", "reported")
    both = ours.merge(printed, on=[*KEYS, "quantity"], how="left")
    both["difference"] = both["mean"] - both["reported"]
    decimals = both["quantity"].map({"max_error": 3}).fillna(4)
    decimals[(both["panel"] == "a") & (both["quantity"] == "c0")] = 2
    both["agrees"] = both["difference"].abs() <= 0.5 * 10.0**-decimals + 1e-9
    both = both.sort_values(KEYS, kind="stable", ignore_index=True)
    return {FIG1.id: rounded(rows), f"comparison_{FIG1.id}": rounded(both)}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the polynomials, and their errors."""
    names = coefficients(settings)
    low, high = settings["interval"]
    x = np.linspace(low, high, 801)
    truth = logistic_loss(x)
    with drawing(2, 2, entries=3, height=2.3) as (figure, axes):
        axes[0].plot(x, truth, color="black", lw=1.6, label="ln(1 + exp(-x))")
        for colour, row in zip(COLOURS, tables[FIG1.id].to_dict("records"), strict=False):
            label = "best (minimax)" if row["method"] == "minimax" else f"Bernstein, {row['iterations']:.0f}×"
            values = Polynomial([row[name] for name in names])(x)
            axes[0].plot(x, values, color=colour, label=label)
            axes[1].plot(x, values - truth, color=colour, label=label)
        best = reported(FIG1.id).query("method == 'minimax'").iloc[0]
        values = Polynomial(best[names].astype(float))(x)
        axes[1].plot(x, values - truth, color=COLOURS[0], ls=DOTTED, label="best, as printed")
        axes[0].set(xlabel="x", ylabel="value")
        axes[1].set(xlabel="x", ylabel="polynomial − function")
    return figure


FIG1 = Card(
    id="excess_risk_fig1", title="Excess risk, Figure 1: polynomials of degree 4 for the logistic loss",
    caption=(
        "ln(1 + exp(-x)) on [-5, 5], its best polynomial of degree 4 and iterated Bernstein polynomials (left), and "
        "their errors (right). Dotted: the polynomial that the paper prints as the best one."
    ),
    defaults={"degree": 4, "interval": (-5.0, 5.0), "iterations": (1, 4, 9)},
    parts=lambda settings: ["polynomials"],
    run=run, tables=tables, figure=figure,
)  # fmt: skip
