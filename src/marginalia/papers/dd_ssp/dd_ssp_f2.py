"""Experiment X-F2 of the DD-SSP paper: the parabola in place of the log-likelihood (Figure 2)."""

from __future__ import annotations

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Settings, Tables
from marginalia.methods.registry import BUILT_IN
from marginalia.reporting.means import rounded
from marginalia.reporting.panels import DASHED, drawing, rows_where


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Frame:
    """Return the log-sigmoid and its parabola on a grid, and the parabola's coefficients, for each radius."""
    import pandas as pd
    from scipy.special import log_expit

    from marginalia.learning.statistics import log_sigmoid_coefficients

    curves = []
    for radius in map(float, settings["radii"]):
        s = np.linspace(-radius, radius, settings["points"])
        b0, b1, b2 = b = log_sigmoid_coefficients(radius)
        parabola = np.polynomial.polynomial.polyval(s, b)
        columns = {"radius": radius, "s": s, "log_sigmoid": log_expit(s), "parabola": parabola}
        curves.append(pd.DataFrame({**columns, "b0": b0, "b1": b1, "b2": b2}))
    return pd.concat(curves, ignore_index=True)


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return coefficients, largest error and the factor on least squares for each radius; and the curves."""
    from marginalia.learning.statistics import logistic_scale

    error = (rows["parabola"] - rows["log_sigmoid"]).abs()
    summary = (
        rows.assign(largest_error=error)
        .groupby("radius")
        .agg({"b0": "first", "b1": "first", "b2": "first", "largest_error": "max"})
    )
    summary["factor_on_least_squares"] = [logistic_scale(float(radius)) for radius in summary.index]
    return {"dd_ssp_f2": summary.reset_index(), "dd_ssp_f2_curves": rounded(rows.drop(columns=["b0", "b1", "b2"]))}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the log-sigmoid and its parabola on [-6, 6], and their difference."""
    rows = rows_where(tables["dd_ssp_f2_curves"], radius=6.0)
    with drawing(2, 2, entries=3, height=2.1, space=0.3) as (drawn, (left, right)):
        left.plot(rows["s"], rows["log_sigmoid"], color="#000000", label="ln(1/(1+exp(−s)))")
        left.plot(rows["s"], rows["parabola"], color=BUILT_IN["dd_ssp"].colour, ls=DASHED, label="parabola")
        left.set_ylabel("log-likelihood of a record")
        right.plot(rows["s"], rows["parabola"] - rows["log_sigmoid"], color="#D55E00", label="difference")
        right.axhline(0, color="#767676", lw=0.7)
        right.set_ylabel("parabola minus log-likelihood")
        for ax in (left, right):
            ax.set_xlabel("s = y x·θ")
    return drawn


F2 = Experiment(
    id="dd_ssp_f2",
    title="DD-SSP: the parabola in place of the log-likelihood",
    caption=(
        "The log-likelihood ln(1/(1+exp(-s))) of one record and the parabola through it at three Chebyshev nodes, on "
        "[-6, 6] (the paper's Figure 2), with their difference, which is 0 at the three nodes."
    ),
    defaults={"radii": [2.0, 4.0, 6.0, 10.0], "points": 121},
    parts=lambda settings: ["all"],
    rows=run,
    tables=tables,
    figure=figure,
)
