"""Card X7: Gaussian histograms beside Chebyshev moment matching, plain on the same grid and dyadic on the line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.papers.card import Card, lazily
from marginalia.papers.chebyshev.runs import DELTA, mean_table, one_run, population
from marginalia.sweep.seeds import seed_sequence

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

CARD = "chebyshev_x7"


def dyadic_histogram(x: Array, levels: int, mu: float, rng: np.random.Generator) -> Array:
    """Return the density on 2^levels equal bins of [-1, 1] from noisy counts of all dyadic intervals.

    Every level is a histogram with Gaussian noise of standard deviation √(2·levels)/(n·mu); least squares over the tree
    (Hay et al. 2010: pool upwards by precision, then distribute residuals downwards), then the simplex.

    Parameters
    ----------
    x : ndarray of shape (n,)
    levels : int
    mu : float
        Gaussian-DP parameter of the whole release, ``replace_one``.
    rng : numpy.random.Generator
    """
    from marginalia.synthesis.chebyshev.first_order import project_simplex

    noise = np.sqrt(2 * levels) / (len(x) * mu)
    leaf = np.clip(((x + 1) / 2 * 2**levels).astype(int), 0, 2**levels - 1)
    measured = [
        np.bincount(leaf >> (levels - level), minlength=2**level) / len(x) + noise * rng.standard_normal(2**level)
        for level in range(1, levels + 1)
    ]
    pooled, precision = [measured[-1]], [1.0]
    for own in reversed(measured[:-1]):
        below = pooled[0].reshape(-1, 2).sum(axis=1)
        weight = precision[0] / 2
        pooled.insert(0, (own + weight * below) / (1 + weight))
        precision.insert(0, 1 + weight)
    fitted = pooled[0] + (1 - pooled[0].sum()) / 2
    for below in pooled[1:]:
        residual = fitted - below.reshape(-1, 2).sum(axis=1)
        fitted = below + np.repeat(residual / 2, 2)
    return project_simplex(fitted)


def grid_histogram(x: Array, axes: Any, mu: float, rng: np.random.Generator) -> Array:
    """Return the simplex projection of the histogram on the cells of a grid, noise √2/(n·mu) a cell."""
    from marginalia.synthesis.chebyshev.axes import histogram
    from marginalia.synthesis.chebyshev.first_order import project_simplex

    H = histogram(axes, x)
    return project_simplex(H + np.sqrt(2) / (len(x) * mu) * rng.standard_normal(H.shape))


def parts(settings: Mapping[str, Any]) -> list[str]:
    """The cases on a common grid, then the dyadic ones."""
    return ["grid", "tree"]


def run(part: str, settings: Mapping[str, Any], root_seed: int, data: Mapping[str, Path]) -> pd.DataFrame:
    """Return one row for each method and trial."""
    import pandas as pd

    found = []
    for trial in range(settings["trials"]):
        if part == "grid":
            for case in settings["grid_cases"]:
                found += _grid_rows(case, trial, root_seed)
        else:
            for n in settings["tree_records"]:
                found += _tree_rows(n, settings, trial, root_seed)
    return pd.DataFrame(found)


def _grid_rows(case: tuple[int, int, int, int], trial: int, root_seed: int) -> list[dict[str, Any]]:
    from marginalia.privacy.calibration import gdp_mu
    from marginalia.synthesis.chebyshev.axes import Axis, histogram
    from marginalia.synthesis.chebyshev.distance import cosine_lower_bound, distance_on_line
    from marginalia.synthesis.chebyshev.measures import GridMeasure, Measure

    k, d, n, m = case
    ours = one_run((CARD,), root_seed, k=k, d=d, n=n, m=m, trial=trial, exact=False)
    data_seed, noise_seed = seed_sequence(root_seed, CARD, "beta", d, n, trial).spawn(2)
    x = population("beta", n, d, np.random.default_rng(data_seed))
    axes = [Axis.gauss(m, k)] * d
    q = GridMeasure(
        tuple(a.points for a in axes), grid_histogram(x, axes, gdp_mu(1.0, DELTA), np.random.default_rng(noise_seed))
    )
    if d == 1:
        found = distance_on_line(Measure.of(x), q, k)
        theirs, own = (found.lower + found.upper) / 2, ours["exact"]
    else:
        fine = [Axis.gauss(1, 1, n_points=800)] * 2
        p = GridMeasure(tuple(a.points for a in fine), histogram(fine, x))
        theirs, own = cosine_lower_bound(p, q, k), ours["lower"]
    common = {"comparison": "same grid", "k": k, "d": d, "n": n, "m": m, "levels": 0, "trial": trial}
    return [{**common, "method": "chebyshev", "error": own}, {**common, "method": "histogram", "error": theirs}]


def _tree_rows(n: int, settings: Mapping[str, Any], trial: int, root_seed: int) -> list[dict[str, Any]]:
    from marginalia.privacy.calibration import gdp_mu
    from marginalia.synthesis.chebyshev.distance import distance_on_line
    from marginalia.synthesis.chebyshev.measures import GridMeasure, Measure

    data_seed, noise_seed = seed_sequence(root_seed, CARD, "beta", 1, n, trial).spawn(2)
    x = population("beta", n, 1, np.random.default_rng(data_seed))
    found = []
    for k in (1, 2, 3):
        m = settings["largest_degree"] if k == 1 and n > 3200 else None
        ours = one_run((CARD,), root_seed, k=k, d=1, n=n, m=m, trial=trial)
        common = {"comparison": "dyadic tree", "k": k, "d": 1, "n": n, "trial": trial}
        found.append({**common, "m": ours["m"], "levels": 0, "method": "chebyshev", "error": ours["exact"]})
    for levels in settings["levels"]:
        tree = dyadic_histogram(x[:, 0], levels, gdp_mu(1.0, DELTA), np.random.default_rng(noise_seed))
        q = GridMeasure(((np.arange(2**levels) + 0.5) * 2 / 2**levels - 1,), tree)
        for k in (1, 2, 3):
            between = distance_on_line(Measure.of(x), q, k)
            common = {"comparison": "dyadic tree", "k": k, "d": 1, "n": n, "trial": trial}
            error = (between.lower + between.upper) / 2
            found.append({**common, "m": 0, "levels": levels, "method": "dyadic", "error": error})
    return found


def tables(rows: pd.DataFrame, settings: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return mean errors; of the trees the best number of levels in hindsight, which favours them."""
    keys = ["comparison", "d", "k", "n", "m", "method", "levels"]
    means = mean_table(rows, keys, ["error"])
    best = means.loc[means.groupby(["comparison", "d", "k", "n", "m", "method"])["error"].idxmin()]
    return {CARD: best.sort_values(keys).reset_index(drop=True)}


X7 = Card(
    id=CARD,
    title="Chebyshev moment matching beside Gaussian histograms",
    caption=(
        "Mean error (exact d_k on the line, cosine lower bound in the plane) at epsilon = 1: on the same grid, and "
        "beside a dyadic tree on the line with its best number of levels in hindsight. Bars: one standard error."
    ),
    defaults={
        "trials": 10,
        "grid_cases": (
            (2, 2, 10_000, 16),
            (2, 2, 100_000, 33),
            (2, 1, 10_000, 33),
            (2, 1, 10_000, 132),
            (2, 1, 10_000, 4),
        ),
        "tree_records": (400, 1600, 10_000),
        "levels": (5, 7, 9),
        "largest_degree": 300,
    },
    parts=parts,
    run=run,
    tables=tables,
    figure=lazily("marginalia.papers.chebyshev.figures", "histograms"),
)
