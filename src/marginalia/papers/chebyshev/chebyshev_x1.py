"""Experiments X1 and X9 of Chebyshev moment matching: how the error falls with n, and how loose the a-priori bound is.

Ding, He and Zhu prove the rate n^(-min(1, k/d)); on the n that can be run its noise term is still far from that slope.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from marginalia.experiment import (
    Experiment,
    Figure,
    Folders,
    Frame,
    Record,
    Settings,
    Tables,
    frame,
    part_name,
    part_values,
)
from marginalia.papers.chebyshev.runs import DELTA, DISTANCES, Array, one_run
from marginalia.reporting.means import mean_table
from marginalia.reporting.panels import DASHED, DOTTED, curve, drawing, look, rows_where

ID = "chebyshev_x1"
TOLERANCE = 0.12  # of a measured slope around the finite-n one
RESAMPLES = 2000  # of the bootstrap
# (k, d): the numbers of records that the solver and the exact distances can follow.
RECORDS = (300, 1000, 3000, 10_000, 30_000, 100_000)
GRID = {
    "1,1": (100, 200, 400, 800, 1600, 3200), "2,1": RECORDS, "3,1": RECORDS, "4,1": RECORDS[:-1],
    "1,2": RECORDS[:-1], "2,2": RECORDS[:-1], "3,2": RECORDS, "4,2": RECORDS[:-1],
    "1,3": RECORDS[1:-1], "2,3": RECORDS[1:-1], "3,3": RECORDS[1:-2], "4,3": RECORDS[1:-1],
}  # fmt: skip
EXACT_RECORDS = 30_000  # transport problems in space and plane: minutes beyond
QUICK_RECORDS = 10_000  # beyond, a transport problem takes a quarter of a minute, and fewer trials solve it
MAIN = "beta"  # the population on which slopes are judged; others only where the distance is exact
# Windows of n in which the slope of S(m_n)/n is followed towards the asymptote.
WINDOWS = ((1e3, 1e4), (1e4, 1e5), (1e6, 1e7))
WINDOW_POINTS = 5


def parts(settings: Settings) -> list[str]:
    """Return a part for each population and (k, d); of other populations only where d_k can be computed exactly."""
    pairs, exact = settings["grid"], ("1,1", "2,1", "3,1", "1,2", "1,3")
    return [part_name(name, p) for name in settings["populations"] for p in pairs if name == MAIN or p in exact]


def run(part: str, settings: Settings, root_seed: int, data: Folders) -> Iterator[Record]:
    """Yield one row for each n and trial."""
    name, k, d = part_values(part)
    for n in settings["grid"][part_name(k, d)]:
        for trial in range(settings["trials"]):
            exact = n <= settings["exact_records"] and (n <= QUICK_RECORDS or trial < settings["long_trials"])
            yield one_run(ID, root_seed, k=int(k), d=int(d), n=n, trial=trial, name=name, exact=exact)


def finite_slope(k: int, d: int, ns: Sequence[float] | Array) -> float:
    """Return the slope of S(m_n)/n over the same n: what the theorem's noise term predicts before the asymptote."""
    from marginalia.methods.chebyshev.calibration import default_degree

    weights = [total_weight(default_degree(int(n), 1.0, DELTA, k=k, d=d), k, d) / n for n in ns]
    return log_slope(np.array(ns, dtype=float), np.array(weights))


def theorem_slope(k: int, d: int, ns: Sequence[float] | Array) -> float:
    """Return the slope of Theorem 1's bound over these n: -k/d below d, -1 above, and with the logarithm at k = d."""
    n = np.array(ns, dtype=float)
    return log_slope(n, np.log(n) / n) if k == d else -min(1.0, k / d)


def wang_slope(k: int, d: int, *, pure: bool = False) -> float:
    """Return the rate of Wang et al. (2016) that the paper quotes: -2k/(3d+2k), or -k/(2d+k) for delta = 0."""
    return -k / (2 * d + k) if pure else -2 * k / (3 * d + 2 * k)


def log_slope(n: Array, error: Array) -> float:
    """Least-squares slope of log error on log n."""
    return float(np.polyfit(np.log(n), np.log(error), 1)[0])


def slope_interval(rows: Frame, column: str, seed: int = 0) -> tuple[float, float, float]:
    """Return the slope of the mean error over n and its 95 % bootstrap interval over trials, without missing values."""
    groups = {n: g[column].to_numpy() for n, g in rows.dropna(subset=[column]).groupby("n", sort=True)}
    ns = np.array(list(groups), dtype=float)
    sizes = [v.size for v in groups.values()]
    rng = np.random.default_rng(seed)
    places = rng.integers(0, np.repeat(sizes, sizes), (RESAMPLES, sum(sizes)))  # each resample draws from every group
    drawn = np.split(places, np.cumsum(sizes)[:-1], axis=1)
    means = [v[chosen].mean(axis=1) for v, chosen in zip(groups.values(), drawn, strict=True)]
    slopes = np.polyfit(np.log(ns), np.log(means), 1)[0]
    low, high = np.quantile(slopes, (0.025, 0.975))
    return log_slope(ns, np.array([v.mean() for v in groups.values()])), float(low), float(high)


@lru_cache(maxsize=256)
def total_weight(m: int, k: int, d: int) -> float:
    """Return S, as `Degrees.total_weight`, for degrees that no release could reach.

    The multi-indices are counted by ‖K‖²: d-fold sums of squares, by FFT.
    """
    if d == 1 or (m + 1) ** d <= 1_000_000:
        from marginalia.methods.chebyshev.moments import Degrees

        return Degrees((m,) * d, k).total_weight
    from scipy import fft

    length = d * m * m + 1
    squares = np.zeros(length)
    squares[np.arange(m + 1) ** 2] = 1
    counts = np.rint(fft.irfft(fft.rfft(squares) ** d, length))
    return float((counts[1:] * np.arange(1, length) ** (-k / 2)).sum())


def asymptote() -> Iterator[Record]:
    """Yield the slope of S(m_n)/n in windows of ever larger n, which isolates how slowly the asymptote is reached."""
    for pair in GRID:
        k, d = map(int, part_values(pair))
        slopes = {
            f"n_{low:.0e}_{high:.0e}".replace("+0", ""): finite_slope(k, d, np.geomspace(low, high, WINDOW_POINTS))
            for low, high in WINDOWS
        }
        yield {"k": k, "d": d, "asymptotic": -min(1.0, k / d), **slopes}


def _slopes(rows: Frame) -> Iterator[Record]:
    keys: Any
    for keys, group in rows.groupby(["population", "k", "d"]):
        name, k, d = keys[0], int(keys[1]), int(keys[2])
        for distance in DISTANCES:
            measured = group.dropna(subset=[distance])
            ns = tuple(sorted(measured["n"].unique()))
            if len(ns) < 3:
                continue
            slope, low, high = slope_interval(measured, distance)
            finite = finite_slope(k, d, ns)
            judged = name == MAIN and (distance == "exact" or (distance == "lower" and k >= d))
            yield {
                "population": name,
                "k": k,
                "d": d,
                "distance": distance,
                "n_from": ns[0],
                "n_to": ns[-1],
                "asymptotic": -min(1.0, k / d),
                "theorem": theorem_slope(k, d, ns),
                "finite_n": finite,
                "wang_2016": wang_slope(k, d),
                "wang_2016_pure": wang_slope(k, d, pure=True),
                "slope": slope,
                "ci_low": low,
                "ci_high": high,
                "within_tolerance": abs(slope - finite) <= TOLERANCE if judged else None,
            }


def tables(rows: Frame, settings: Settings) -> Tables:
    """Return the slopes, the errors behind them, the way to the asymptote, and the a-priori bound (X9)."""
    errors = mean_table(rows, ["population", "k", "d", "n"], [*DISTANCES, "m", "gap", "bound"])
    best = errors["exact"].fillna(errors["lower"])
    bound = errors[["population", "k", "d", "n", "m", "bound"]].assign(measured=best, ratio=errors["bound"] / best)
    return {
        ID: frame(_slopes(rows)),
        f"{ID}_errors": errors,
        f"{ID}_asymptote": frame(asymptote()),
        "chebyshev_x9": bound,
    }


NAMES = {"beta": "Beta mixture", "atoms": "ten fixed points"}
LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "finite_n": ("slope of the proof's noise term on these n", {"color": "#555555", "ls": DASHED}),
    "asymptotic": ("asymptotic slope -min(1, k/d)", {"color": "#555555", "ls": DOTTED}),
    "wang_2016": ("slope of Wang et al. (2016)", {"color": "#CC79A7", "ls": "-", "lw": 0.9}),
}


def figure(tables: Tables, settings: Settings) -> Figure:
    """Draw error over n, a panel for each (k, d): a row for each dimension, a column for each smoothness."""
    errors, slopes = tables["chebyshev_x1_errors"], tables["chebyshev_x1"]
    pairs = [tuple(map(int, part_values(pair))) for pair in settings["grid"]]
    with drawing(len(pairs), min(4, len(pairs)), entries=3, height=1.75, space=0.5) as (drawn, axes):
        for ax, (k, d) in zip(axes, pairs, strict=True):
            for i, name in enumerate(settings["populations"]):
                rows = rows_where(errors, population=name, k=k, d=d).sort_values("n")
                shown = "exact" if rows["exact"].notna().sum() >= 3 else "lower"
                rows = rows.dropna(subset=[shown])
                if len(rows):
                    curve(ax, rows["n"], rows[shown], rows[f"{shown}_stderr"], label=NAMES.get(name, name), **look(i))
                fitted = rows_where(slopes, population=name, k=k, d=d, distance=shown)
                if i == 0 and len(rows) and len(fitted):
                    n = rows["n"].to_numpy(dtype=float)
                    for column, (label, style) in LINES.items():
                        line = rows[shown].iloc[0] * (n / n[0]) ** fitted[column].iloc[0]
                        ax.plot(n, line, label=label, **style)
                    ax.set_title(f"k = {k}, d = {d}\nslope {fitted['slope'].iloc[0]:.2f}", fontsize=7)
                    ax.set_ylabel("exact $d_k$" if shown == "exact" else "$d_k$, lower bound")
            if not ax.has_data():  # too few n for a curve
                ax.set_axis_off()
                continue
            ax.set(xscale="log", yscale="log", xlabel="records n")
    return drawn


X1 = Experiment(
    id=ID,
    title="How the error falls with the number of records",
    caption="Mean distance d_k between the private density and the data over the number of records n, a row for each "
    "dimension d and a column for each smoothness k (epsilon = 1, delta = 1e-6, noise as small as it may be). "
    "Exact distances where they can be computed, else the largest error of a cosine query; bars: one standard "
    "error over trials. For k = d = 1 the degree, and with it the solver's work, grows so fast that the records end at "
    "3,200. Lines start at the first mean: dashed, the slope of the proof's noise term on the same "
    "n; dotted, the asymptotic slope -min(1, k/d); thin, the slope of Wang et al. (2016).",
    defaults={
        "trials": 10,
        "populations": (MAIN, "atoms"),
        "grid": GRID,
        "exact_records": EXACT_RECORDS,
        "long_trials": 3,
    },
    parts=parts,
    rows=run,
    tables=tables,
    figure=figure,
)
