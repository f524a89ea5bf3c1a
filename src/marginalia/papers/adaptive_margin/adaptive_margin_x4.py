"""X4: risk over the margin and over rows on separable made-up data, beside Wang, Zhu and Wang, Theorem 4.1."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.papers.adaptive_margin.looks import ARMS
from marginalia.papers.adaptive_margin.runs import mean_risks, risks
from marginalia.papers.adaptive_margin.theory import explicit_unprojected, gaussian_rule, published_mu, theorem_4_1
from marginalia.privacy.calibration import gdp_mu
from marginalia.reporting.panels import band, drawing, log_axis, rows_where

ID = "adaptive_margin_x4"


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield the risks of all arms on separable samples, one for each margin and each number of rows."""
    trial = int(part)
    points = [("gamma", settings["n"], gamma) for gamma in settings["gammas"]]
    points += [("n", n, settings["gamma"]) for n in settings["rows"]]
    for sweep, n, gamma in points:
        for row in risks(n, gamma, settings, (root_seed, ID, sweep, n, float(gamma), trial)):
            yield {"sweep": sweep, "n": n, "gamma": gamma, "trial": trial, **row}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the mean risks beside Theorem 4.1 times one fitted constant, the rule of thumb and an explicit bound."""
    epsilon, delta, d = settings["epsilon"], settings["delta"], settings["d"]
    table = mean_risks(rows, ["sweep", "n", "gamma", "variant", "calibration"])
    lines = list(zip(table["variant"], table["n"].astype(int), table["gamma"], strict=True))
    table["shape"] = [theorem_4_1(n, g, 0, epsilon) for _, n, g in lines]
    for _, arm in table.groupby(["variant", "calibration"]):
        # The factor that brings the shape closest to the risks, in logarithms, where neither is at an end.
        inside = arm[arm["clean_test"].between(1e-3, 0.4, inclusive="neither")]
        factor = 1.0 if inside.empty else np.exp(np.mean(np.log(inside["clean_test"] / inside["shape"])))
        table.loc[arm.index, "shape_factor"] = factor
        table.loc[arm.index, "shape_scaled"] = np.minimum(factor * arm["shape"], 0.5)
    table["rule_of_thumb"] = [
        gaussian_rule(n, g, _model_budget(v, n, epsilon, delta), radius=2.0 if v == "published" else 1.0)
        for v, n, g in lines
    ]
    mu = gdp_mu(epsilon, delta)
    table["explicit_unprojected"] = [
        explicit_unprojected(n, g, 0, mu, dimension=d, kappa=1.12) if v == "practical" else math.nan
        for v, n, g in lines
    ]
    return {ID: table}


def _model_budget(variant: str, n: int, epsilon: float, delta: float) -> float:
    """Return the Gaussian-DP budget of one model: published constants and calibration, or practical and tight."""
    from marginalia.methods.adaptive_margin import PRACTICAL, PUBLISHED

    constants, calibrated = (PUBLISHED, published_mu) if variant == "published" else (PRACTICAL, gdp_mu)
    return calibrated(epsilon, delta) * math.sqrt(constants.model_share / constants.margins(n, epsilon).size)


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the clean test risk over the margin and over n, with the scaled shape and the rule of thumb."""
    with drawing(2, 2, entries=3, height=2.4, space=0.5) as (figure, axes):
        for ax, sweep, label in zip(axes, ("gamma", "n"), ("margin γ", "rows n"), strict=True):
            rows = rows_where(tables[ID], sweep=sweep)
            for (variant, calibration), look in ARMS.items():
                arm = rows_where(rows, variant=variant, calibration=calibration).sort_values(sweep)
                if arm.empty:
                    continue
                band(ax, arm, sweep, "clean_test", "clean_test_std", look)
                thin = {"color": look["color"], "lw": 0.8, "marker": ""}
                ax.plot(arm[sweep], arm["shape_scaled"], ls=(0, (5, 3)), label="Theorem 4.1, scaled (shape)", **thin)
                ax.plot(arm[sweep], arm["rule_of_thumb"], ls=(0, (1, 1)), label="rule of thumb", **thin)
            log_axis(ax, rows[sweep])
            ax.set(ylim=(-0.02, 0.52), xlabel=label)
        axes[0].set_ylabel("test risk")
    return figure


X4 = Experiment(
    id=ID,
    title="Risk over the margin and over the number of rows",
    caption="Test risk on separable rows over the margin (n = 10 000) and over n (margin 0.2), d = 50; mean of the "
    "trials, bands one standard deviation. Dashed: Theorem 4.1 times one fitted constant (shape). Dotted: our "
    "rule of thumb Phi(-0.87 n mu gamma²/(2R)). epsilon = 1, delta = 1e-6, replace-one.",
    defaults={
        "n": 10_000,
        "d": 50,
        "gamma": 0.2,
        "gammas": [0.02, 0.05, 0.1, 0.2, 0.4],
        "rows": [250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000],
        "trials": 5,
        "epsilon": 1.0,
        "delta": 1e-6,
    },
    parts=lambda settings: list(map(str, range(settings["trials"]))),
    rows=run,
    tables=tables,
    figure=figure,
)
