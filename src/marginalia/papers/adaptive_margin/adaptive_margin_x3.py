"""X3: risk over the number of outliers on made-up data, beside the S/(gamma n) of Wang, Zhu and Wang, Thm 4.1."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables, part_name, part_values
from marginalia.papers.adaptive_margin.looks import ARMS, REFERENCES
from marginalia.papers.adaptive_margin.runs import mean_risks, risks
from marginalia.reporting.panels import band, drawing, outer_labels, rows_where

ID = "adaptive_margin_x3"


def parts(settings: Settings) -> list[str]:
    """One part for each kind of outlier and trial."""
    return [part_name(kind, trial) for kind in settings["kinds"] for trial in range(settings["trials"])]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the risks of all arms for every number of outliers."""
    kind, number = part_values(part)
    n, key = settings["n"], (root_seed, ID, kind, int(number))
    for share in settings["shares"]:
        S = round(share * n)
        where = {"kind": kind, "outlier_share": share, "outliers": S, "trial": int(number)}
        for row in risks(n, settings["gamma"], settings, (*key, float(share)), data_key=key, outliers=S, kind=kind):
            yield {**where, **row}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the mean risks beside S/n and S/(gamma n)."""
    table = mean_risks(rows, ["kind", "outlier_share", "outliers", "variant", "calibration"])
    return {ID: table.assign(S_over_gamma_n=table["outlier_share"] / settings["gamma"])}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the risks over the share of outliers: on training rows above, on clean test rows below."""
    kinds, shares = list(settings["kinds"]), np.array(settings["shares"], float)
    titles = {"empirical": "training rows", "clean_test": "clean test rows"}
    panels = list(product(titles, kinds))
    looks = {**ARMS, ("svm", "none"): REFERENCES["svm"]}
    with drawing(len(panels), len(kinds), entries=5, height=1.9, space=0.5) as (figure, axes):
        for ax, (value, kind) in zip(axes, panels, strict=True):
            for (variant, calibration), look in looks.items():
                arm = rows_where(tables[ID], kind=kind, variant=variant, calibration=calibration)
                band(ax, arm, "outlier_share", value, f"{value}_std", look)
            ax.plot(shares, shares, color="#222222", lw=0.8, label="S/n")
            shape = np.minimum(shares / settings["gamma"], 1)
            ax.plot(shares, shape, color="#D55E00", lw=0.8, ls=(0, (1, 1)), label="S/(γn), shape")
            ax.set(ylim=(-0.02, 0.62), title=f"{kind} outliers, {titles[value]}")
        outer_labels(axes, "share of outliers S/n", "risk", columns=len(kinds))
    return figure


X3 = Experiment(
    id=ID,
    title="Risk over the number of outliers",
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
    caption="Risk on the training rows (outliers included) and on clean test rows over the share of outliers S/n; mean "
    "of the trials, bands one standard deviation. Far outliers lie deep on the wrong side, flips are inliers "
    "with the other label. Lines: S/n, and the shape S/(gamma n) of the bound. epsilon = 1, delta = 1e-6, "
    "replace-one.",
    defaults={
        "n": 10_000,
        "d": 50,
        "gamma": 0.1,
        "kinds": ["far", "flip"],
        "shares": [0.0, 0.005, 0.01, 0.03, 0.1, 0.2],
        "trials": 5,
        "epsilon": 1.0,
        "delta": 1e-6,
    },
)
