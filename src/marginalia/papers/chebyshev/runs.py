"""What the Chebyshev cards share: populations, one private release, and the distances of its density from the data."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import unknown_name
from marginalia.sweep.seeds import seed_sequence

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]

DELTA = 1e-6
RASTER_NODES = 800  # a mean-preserving raster this fine moves d_k by less than 4e-6 in the plane
RESAMPLES = 2000
FIRST_ORDER_ITERATIONS = 3000  # the cards study the method, not the cap that a user's fit has


def population(name: str, n: int, d: int, rng: np.random.Generator) -> Array:
    """Return n records in [-1, 1]^d.

    Parameters
    ----------
    name : {"beta", "atoms", "unif"}
        ``beta``: 0.6·Beta(2,5) + 0.4·Beta(6,2) on all axes jointly; ``atoms``: ten fixed points; ``unif``.
    n, d : int
    rng : numpy.random.Generator
    """
    if name == "beta":
        first = rng.random(n) < 0.6
        return 2 * np.where(first[:, None], rng.beta(2, 5, (n, d)), rng.beta(6, 2, (n, d))) - 1
    if name == "atoms":
        points = np.random.default_rng(10 * d).uniform(-1, 1, (10, d))
        return points[rng.integers(10, size=n)]
    if name == "unif":
        return rng.uniform(-1, 1, (n, d))
    raise unknown_name("population", name, ("beta", "atoms", "unif"))


def one_run(
    keys: Sequence[str | int | float],
    root_seed: int,
    *,
    k: int,
    d: int,
    n: int,
    trial: int,
    name: str = "beta",
    epsilon: float = 1.0,
    m: int | None = None,
    calibration: str = "tight",
    tolerance: float = 0.1,
    exact: bool = True,
    distances: Sequence[int] = (),
) -> dict[str, Any]:
    """Draw records, release their density, and measure how far it is from them.

    Parameters
    ----------
    keys : sequence
        Names the random stream together with n and the trial; runs that differ in other settings share records and
        noise.
    root_seed : int
    k, d, n, trial : int
    name : str
        Population.
    epsilon, m, calibration, tolerance
        Of the release; `m` None is the theory's degree, not lowered to what is quick to solve.
    exact : bool
        For d >= 2 and k = 1: also solve the transport problem between the density and the split records.
    distances : sequence of int
        Measure d_j for these j instead of j = k.

    Returns
    -------
    dict
        Settings, ``m_used, sigma, gap, solver, bound`` (a-priori), and for each j ``exact, lower, moments`` (with the
        suffix ``_j`` when `distances` is given); NaN where a distance was not computed.
    """
    from marginalia.privacy.ledger import Ledger
    from marginalia.synthesis.chebyshev.calibration import default_degree
    from marginalia.synthesis.chebyshev.constants import a_priori_bound
    from marginalia.synthesis.chebyshev.grids import choose_axes
    from marginalia.synthesis.chebyshev.release import release_density

    data_seed, noise_seed = seed_sequence(root_seed, *keys, name, d, n, trial).spawn(2)
    x = population(name, n, d, np.random.default_rng(data_seed))
    m = m or default_degree(n, epsilon, DELTA, k=k, d=d)
    axes = choose_axes([None] * d, n=n, epsilon=epsilon, delta=DELTA, k=k, m=m, c=1.6, mode="practical")
    ledger = Ledger("replace_one")
    start = time.process_time()
    density = release_density(
        x,
        axes,
        k=k,
        epsilon=epsilon,
        delta=DELTA,
        ledger=ledger,
        rng=np.random.default_rng(noise_seed),
        calibration=calibration,
        tolerance=tolerance,
        max_iterations=FIRST_ORDER_ITERATIONS,
    )
    row: dict[str, Any] = {
        "population": name, "k": k, "d": d, "n": n, "trial": trial, "epsilon": epsilon, "calibration": calibration,
        "tolerance": tolerance, "m": axes[0].degree, "epsilon_spent": ledger.epsilon(DELTA), "sigma": density.sigma,
        "gap": density.gap, "solver": density.solver, "bound": a_priori_bound(axes, k, density.sigma, tolerance),
        "seconds": time.process_time() - start,
    }  # fmt: skip
    for j in distances or (k,):
        found = _distances(x, density, j, exact=exact)
        row |= {f"{key}_{j}" if distances else key: value for key, value in found.items()}
    return row


def _distances(x: Array, density: Any, k: int, *, exact: bool) -> dict[str, float]:
    from marginalia.synthesis.chebyshev.axes import Axis, histogram
    from marginalia.synthesis.chebyshev.distance import (
        cosine_lower_bound,
        distance_on_line,
        earth_mover,
        moment_distance,
    )
    from marginalia.synthesis.chebyshev.measures import GridMeasure, Measure

    q = density.measure()
    d = x.shape[1]
    if d == 1:
        found = distance_on_line(Measure.of(x), q, k)
        return {"exact": (found.lower + found.upper) / 2, "lower": math.nan, "moments": math.nan}
    transported = math.nan
    if k == 1 and exact:
        transported = earth_mover(q, GridMeasure(q.axes, histogram(density.axes, x)))
    if d == 2:
        fine = [Axis.gauss(1, 1, n_points=RASTER_NODES)] * 2
        p: Any = GridMeasure(tuple(a.points for a in fine), histogram(fine, x))
    else:
        p = Measure.of(x)
    return {"exact": transported, "lower": cosine_lower_bound(p, q, k), "moments": moment_distance(p, q, k)}


def log_slope(n: Array, error: Array) -> float:
    """Least-squares slope of log error on log n."""
    return float(np.polyfit(np.log(n), np.log(error), 1)[0])


def slope_interval(rows: pd.DataFrame, column: str, seed: int = 0) -> tuple[float, float, float]:
    """Return the slope of the mean error over n, and its 95 % bootstrap interval over trials.

    Parameters
    ----------
    rows : DataFrame
        Columns n and `column`; rows without a value are left out.
    column : str
    seed : int
    """
    groups = [(n, g[column].to_numpy()) for n, g in rows.dropna(subset=[column]).groupby("n", sort=True)]
    ns = np.array([n for n, _ in groups], dtype=float)
    rng = np.random.default_rng(seed)
    means = np.array([[rng.choice(v, v.size).mean() for _, v in groups] for _ in range(RESAMPLES)])
    slopes = np.polyfit(np.log(ns), np.log(means).T, 1)[0]
    low, high = np.quantile(slopes, (0.025, 0.975))
    return log_slope(ns, np.array([v.mean() for _, v in groups])), float(low), float(high)


def mean_table(rows: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return means, standard errors and numbers of trials of `values` for each combination of `keys`."""
    import pandas as pd

    groups = rows.groupby(list(keys), sort=True, dropna=False)
    means = groups[list(values)].mean()
    errors = groups[list(values)].sem().add_suffix("_stderr")
    return pd.concat([means, errors, groups.size().rename("n_trials")], axis=1).reset_index()


def beside_real(rows: pd.DataFrame, where: str, arm: str) -> pd.DataFrame:
    """Return held-out AUC of each arm beside that of a model trained on the real rows of the same splits.

    Parameters
    ----------
    rows : DataFrame
        Columns `where` (the table), `arm` ("real" for the real rows), epsilon, trial and auc.
    where, arm : str

    Returns
    -------
    DataFrame
        ``auc, auc_stderr, worst_auc, auc_real, lost, lost_stderr, n_trials``: means over splits, the worst split, and
        the paired difference to the real rows. Tables without a label are left out.
    """
    import pandas as pd

    rows = rows.dropna(subset=["auc"])
    real = rows[rows[arm] == "real"].set_index([where, "trial"])["auc"].rename("auc_real")
    paired = rows[rows[arm] != "real"].join(real, on=[where, "trial"])
    paired = paired.assign(lost=paired["auc_real"] - paired["auc"])
    groups = paired.groupby([where, arm, "epsilon"], sort=True)
    return pd.DataFrame(
        {
            "auc": groups["auc"].mean(),
            "auc_stderr": groups["auc"].sem(),
            "worst_auc": groups["auc"].min(),
            "auc_real": groups["auc_real"].mean(),
            "lost": groups["lost"].mean(),
            "lost_stderr": groups["lost"].sem(),
            "n_trials": groups.size(),
        }
    ).reset_index()
