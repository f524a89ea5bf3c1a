"""X7: Gaussian histograms beside Chebyshev moment matching, plain on the same grid and dyadic on the line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from marginalia.experiment import Experiment, Figure, Folders, Frame, Record, Settings, Tables
from marginalia.methods.chebyshev.measures import GridMeasure
from marginalia.methods.chebyshev.moments import Axis, histogram
from marginalia.papers.chebyshev.runs import DELTA, Array, draw, empirical, line_distance, one_run
from marginalia.privacy.calibration import gdp_mu
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import drawing, look, rows_where

ID = "chebyshev_x7"
# k, d, n, m
GRID_CASES = ((2, 2, 10_000, 16), (2, 2, 100_000, 33), (2, 1, 10_000, 33), (2, 1, 10_000, 132), (2, 1, 10_000, 4))
NAMES = {"chebyshev": "moment matching", "dyadic": "dyadic tree", "histogram": "histogram"}


def dyadic_histogram(x: Array, levels: int, mu: float, rng: np.random.Generator) -> Array:
    """Return the density on 2^levels equal bins of [-1, 1] from noisy counts of all dyadic intervals.

    Every level is a histogram with Gaussian noise of standard deviation √(2·levels)/(n·mu); least squares over the tree
    (Hay et al. 2010: pool upwards by precision, then distribute residuals downwards), then the simplex.
    `mu` is the Gaussian-DP parameter of the whole release under ``replace_one``.
    """
    from marginalia.methods.chebyshev.solvers import project_simplex

    noise = np.sqrt(2 * levels) / (len(x) * mu)
    leaf = np.clip(((x + 1) / 2 * 2**levels).astype(int), 0, 2**levels - 1)
    measured = [
        np.bincount(leaf >> (levels - level), minlength=2**level) / len(x) + noise * rng.standard_normal(2**level)
        for level in range(1, levels + 1)
    ]
    pooled, precision = [measured[-1]], [1.0]
    for noisy in reversed(measured[:-1]):
        below = pooled[0].reshape(-1, 2).sum(axis=1)
        weight = precision[0] / 2
        pooled.insert(0, (noisy + weight * below) / (1 + weight))
        precision.insert(0, 1 + weight)
    fitted = pooled[0] + (1 - pooled[0].sum()) / 2
    for below in pooled[1:]:
        residual = fitted - below.reshape(-1, 2).sum(axis=1)
        fitted = below + np.repeat(residual / 2, 2)
    return project_simplex(fitted)


def grid_histogram(x: Array, axes: Any, mu: float, rng: np.random.Generator) -> Array:
    """Return the simplex projection of the histogram on the cells of a grid, noise √2/(n·mu) a cell."""
    from marginalia.methods.chebyshev.solvers import project_simplex

    H = histogram(axes, x)
    return project_simplex(H + np.sqrt(2) / (len(x) * mu) * rng.standard_normal(H.shape))


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each method and trial."""
    cases, rows_of = (settings["grid_cases"], _grid_rows) if part == "grid" else (settings["tree_records"], _tree_rows)
    for trial in range(settings["trials"]):
        for case in cases:
            yield from rows_of(case, settings, trial, root_seed)


def _grid_rows(case: tuple[int, int, int, int], settings: Settings, trial: int, root_seed: int) -> Iterator[Record]:
    from marginalia.papers.chebyshev.theory.distance import cosine_lower_bound

    k, d, n, m = case
    release = one_run(ID, root_seed, k=k, d=d, n=n, m=m, trial=trial)
    x, noise_seed = draw(ID, root_seed, "beta", d, n, trial)
    axes = [Axis.gauss(m, k)] * d
    H = grid_histogram(x, axes, gdp_mu(1.0, DELTA), np.random.default_rng(noise_seed))
    p, q = empirical(x), GridMeasure(tuple(axis.points for axis in axes), H)
    common = {"comparison": "same grid", "k": k, "d": d, "n": n, "m": m, "levels": 0, "trial": trial}
    yield {**common, "method": "chebyshev", "error": release["exact" if d == 1 else "lower"]}
    error = line_distance(p, q, k) if d == 1 else cosine_lower_bound(p, q, k)
    yield {**common, "method": "histogram", "error": error}


def _tree_rows(n: int, settings: Settings, trial: int, root_seed: int) -> Iterator[Record]:
    x, noise_seed = draw(ID, root_seed, "beta", 1, n, trial)
    p, common = empirical(x), {"comparison": "dyadic tree", "d": 1, "n": n, "trial": trial}
    for k in (1, 2, 3):
        m = settings["largest_degree"] if k == 1 and n > 3200 else None
        release = one_run(ID, root_seed, k=k, d=1, n=n, m=m, trial=trial)
        yield {**common, "k": k, "m": release["m"], "levels": 0, "method": "chebyshev", "error": release["exact"]}
    for levels in settings["levels"]:
        tree = dyadic_histogram(x[:, 0], levels, gdp_mu(1.0, DELTA), np.random.default_rng(noise_seed))
        q = GridMeasure(((np.arange(2**levels) + 0.5) * 2 / 2**levels - 1,), tree)
        for k in (1, 2, 3):
            error = line_distance(p, q, k)
            yield {**common, "k": k, "m": 0, "levels": levels, "method": "dyadic", "error": error}


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return mean errors; of the trees the best number of levels in hindsight, which favours them."""
    keys = ["comparison", "d", "k", "n", "m", "method", "levels"]
    means = mean_table(rows, keys, ["error"])
    best = means.loc[means.groupby(["comparison", "d", "k", "n", "m", "method"])["error"].idxmin()]
    return {ID: best.sort_values(keys).reset_index(drop=True)}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw the error of both methods, a group of bars for each case."""
    with drawing(2, 2, entries=3, height=2.3) as (drawn, axes):
        for ax, (comparison, rows) in zip(axes, tables[ID].groupby("comparison"), strict=False):
            same_grid = comparison == "same grid"
            names = ["d", "k", "n", "m"] if same_grid else ["d", "k", "n"]
            shown = rows[rows["method"] == "chebyshev"] if same_grid else rows
            cases = sorted({tuple(v) for v in shown[names].to_numpy().tolist()})
            for i, method in enumerate(sorted(rows["method"].unique())):
                values, bars = [], []
                for case in cases:
                    one = rows_where(rows, method=method, **dict(zip(names, case, strict=True)))
                    values.append(one["error"].min() if len(one) else np.nan)
                    bars.append(one["error_stderr"].iloc[0] if len(one) else np.nan)
                place = np.arange(len(cases)) + 0.36 * (i - 0.5)
                ax.bar(
                    place,
                    values,
                    0.34,
                    yerr=bars,
                    label=NAMES[method],
                    color=look(list(NAMES).index(method))["color"],
                    error_kw={"lw": 0.7},
                )
            labels = [f"d={c[0]} k={c[1]}\nn={c[2]:,}\nm={c[3]}" if same_grid else f"k={c[1]}\n{c[2]:,}" for c in cases]
            ax.set_xticks(np.arange(len(cases)), labels, fontsize=5)
            where = (
                "same grid, d dimensions, degree m"
                if same_grid
                else "dyadic tree, on the line, smoothness k, n records"
            )
            ax.set(yscale="log", ylabel="error", title=where)
            ax.grid(axis="x", visible=False)
    return drawn


X7 = Experiment(
    id=ID,
    title="Chebyshev moment matching beside Gaussian histograms",
    caption="Mean error (exact d_k on the line, cosine lower bound in the plane) at epsilon = 1: on the same grid, and "
    "beside a dyadic tree on the line with its best number of levels in hindsight. Bars: one standard error.",
    defaults={
        "trials": 10,
        "grid_cases": GRID_CASES,
        "tree_records": (400, 1600, 10_000),
        "levels": (5, 7, 9),
        "largest_degree": 300,
    },
    parts=lambda settings: ["grid", "tree"],
    rows=run,
    tables=tables,
    figure=figure,
)
