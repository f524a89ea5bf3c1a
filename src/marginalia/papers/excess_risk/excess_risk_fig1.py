"""Zhou et al., Figure 1: polynomials of degree 4 close to the logistic loss."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.polynomial import Polynomial

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.figure_style import COLOURS
from marginalia.papers.excess_risk.theory import bernstein, logistic_loss, minimax, sup_error
from marginalia.papers.reported import reported
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import DOTTED, drawing

KEYS = ["panel", "method", "iterations"]
DEGREES = "excess_risk_fig1_degrees"


def coefficients(settings: Settings) -> list[str]:
    """Return the names of the columns of coefficients."""
    return [f"c{k}" for k in range(settings["degree"] + 1)]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield a row for each polynomial of Figure 1, and the errors of other degrees."""
    low, high = map(float, settings["interval"])
    interval = (low, high)
    for degree in sorted({settings["degree"], *settings["degrees"]}):
        polynomials = [("a", "minimax", math.nan, minimax(logistic_loss, degree, interval))]
        for c in settings["iterations"]:
            p = bernstein(logistic_loss, degree, interval, iterations=c)
            polynomials.append(("b", "iterated_bernstein", float(c), p))
        for panel, method, iterations, p in polynomials:
            shown = zip(coefficients(settings), p.coef, strict=True) if degree == settings["degree"] else ()
            yield {
                "panel": panel,
                "method": method,
                "iterations": iterations,
                "degree": degree,
                "interval_low": low,
                "interval_high": high,
                **{name: round(float(a), 12) + 0.0 for name, a in shown},
                "max_error": sup_error(p, logistic_loss, interval),
            }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return every coefficient and error beside the printed one; ``agrees``: to the decimals that are printed."""
    values = [*coefficients(settings), "max_error"]
    degrees = rows[["method", "iterations", "degree", "max_error"]]
    rows = rows[rows["degree"] == settings["degree"]].reset_index(drop=True)
    ours = rows.melt(KEYS, values, "quantity", "mean")
    printed = reported(FIG1.id).melt(KEYS, values, "quantity", "reported")
    both = ours.merge(printed, on=[*KEYS, "quantity"], how="left")
    both["difference"] = both["mean"] - both["reported"]
    decimals = both["quantity"].map({"max_error": 3}).fillna(4)
    decimals[(both["panel"] == "a") & (both["quantity"] == "c0")] = 2
    both["agrees"] = both["difference"].abs() <= 0.5 * 10.0**-decimals + 1e-9
    both = both.sort_values(KEYS, kind="stable", ignore_index=True)
    return {FIG1.id: rounded(rows), f"comparison_{FIG1.id}": rounded(both), DEGREES: rounded(degrees)}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the paper's two panels, and below each the errors."""
    names = coefficients(settings)
    low, high = settings["interval"]
    x = np.linspace(low, high, 801)
    truth = logistic_loss(x)
    printed = reported(FIG1.id).query("method == 'minimax'").iloc[0]
    with drawing(4, 2, entries=3, height=1.7, space=0.5) as (figure, axes):
        for ax in axes[:2]:
            ax.plot(x, truth, color="black", lw=1.6, label="ln(1 + exp(-x))")
        for colour, row in zip(COLOURS, tables[FIG1.id].to_dict("records"), strict=False):
            column = "ab".index(row["panel"])
            label = "best polynomial" if row["method"] == "minimax" else f"Bernstein, {row['iterations']:.0f}×"
            values = Polynomial([row[name] for name in names])(x)
            axes[column].plot(x, values, color=colour, label=label)
            axes[column + 2].plot(x, values - truth, color=colour, label=label)
        values = Polynomial(printed[names].astype(float))(x)
        style = {"color": COLOURS[5], "ls": DOTTED, "label": "“minimax”, as printed"}
        axes[0].plot(x, values, **style)
        axes[2].plot(x, values - truth, **style)
        for ax, title in zip(axes, ("(a) minimax", "(b) iterated Bernstein"), strict=False):
            ax.set_title(title)
        axes[0].set_ylabel("value")
        axes[2].set_ylabel("polynomial − function")
        for ax in axes[2:]:
            ax.set(xlabel="x")
    return figure


FIG1 = Experiment(
    id="excess_risk_fig1",
    title="Figure 1: polynomials of degree 4 for the logistic loss",
    caption=(
        "Polynomials of degree 4 for ln(1 + exp(-x)) on [-5, 5] (above) and their errors (below; the scales differ). "
        "Dotted: what the paper prints as the minimax polynomial. Iterated Bernstein polynomials after 1, 4 and 9 "
        "rounds."
    ),
    defaults={"degree": 4, "degrees": (2, 4, 6, 8, 10), "interval": (-5.0, 5.0), "iterations": (1, 4, 9)},
    parts=lambda settings: ["polynomials"],
    rows=run,
    tables=tables,
    figure=figure,
)
