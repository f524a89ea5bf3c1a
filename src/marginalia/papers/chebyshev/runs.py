"""What the experiments share: populations, one private release, and the distances of its density from the data."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import unknown_name
from marginalia.experiment import Record
from marginalia.methods.chebyshev.measures import GridMeasure, Measure
from marginalia.methods.chebyshev.moments import Axis, histogram
from marginalia.papers.chebyshev.theory.constants import a_priori_bound
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.sweep.seeds import seed_sequence

Array = NDArray[np.float64]

DELTA = 1e-6
DISTANCES = {
    "exact": "exact", "lower": "cosine lower bound", "moments": "moment part of the upper bound",
    "polynomial": "means, second moments, products",
}  # fmt: skip
RASTER_NODES = 800  # a mean-preserving raster this fine moves d_k by less than 4e-6 in the plane
FIRST_ORDER_ITERATIONS = 3000  # the experiments study the method, not the cap that a user's fit has


def population(name: str, n: int, d: int, rng: np.random.Generator) -> Array:
    """Return n records in [-1, 1]^d.

    ``beta``: 0.6·Beta(2,5) + 0.4·Beta(6,2) on all axes jointly; ``atoms``: ten fixed points; ``unif``.
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


def draw(
    experiment: str, root_seed: int, name: str, d: int, n: int, trial: int
) -> tuple[Array, np.random.SeedSequence]:
    """Return the records of one trial and the seed of its noise: runs that differ in other settings share both."""
    data_seed, noise_seed = seed_sequence(root_seed, experiment, name, d, n, trial).spawn(2)
    return population(name, n, d, np.random.default_rng(data_seed)), noise_seed


def one_run(
    experiment: str,
    root_seed: int,
    *,
    k: int,
    d: int,
    n: int,
    trial: int,
    name: str = "beta",
    exact: bool = False,
    **release: Any,
) -> Record:
    """Draw records, release their density for smoothness `k`, and measure how far it is from them.

    `release` goes to `release_records`; `exact` to `distances`.
    """
    x, noise_seed = draw(experiment, root_seed, name, d, n, trial)
    row, density = release_records(x, noise_seed, k=k, **release)
    return {"population": name, "d": d, "n": n, "trial": trial, **row, **distances(x, density, k, exact=exact)}


def release_records(
    x: Array,
    noise_seed: np.random.SeedSequence,
    *,
    k: int,
    epsilon: float = 1.0,
    m: int | None = None,
    calibration: str = "tight",
    tolerance: float = 0.1,
    mode: str = "practical",
) -> tuple[Record, Any]:
    """Release the density of records and return what the release was, and the `Density`.

    `m` None is the theory's degree, not lowered to what is quick to solve; `mode` ``paper`` is the uniform grid of
    Algorithm 1, to which records are rounded. ``bound`` is a-priori.
    """
    from marginalia.methods.chebyshev.calibration import default_degree
    from marginalia.methods.chebyshev.chebyshev import choose_axes
    from marginalia.methods.chebyshev.release import release_density

    n, d = x.shape
    m = m or default_degree(n, epsilon, DELTA, k=k, d=d)
    grid: Any = mode
    axes, _ = choose_axes([None] * d, n=n, epsilon=epsilon, delta=DELTA, k=k, m=m, c=1.6, mode=grid)
    ledger = Ledger("replace_one")
    start = time.process_time()
    density = release_density(
        x,
        axes,
        k=k,
        epsilon=epsilon,
        delta=DELTA,
        calibration=calibration,
        tolerance=tolerance,
        max_iterations=FIRST_ORDER_ITERATIONS,
        session=Session(ledger, Randomness(noise_seed)),
    )
    return {
        "k": k,
        "epsilon": epsilon,
        "calibration": calibration,
        "tolerance": tolerance,
        "m": axes[0].degree,
        "cells": density.q.size,
        "epsilon_spent": ledger.epsilon(DELTA),
        "sigma": density.sigma,
        "gap": density.gap,
        "solver": density.solver,
        "bound": a_priori_bound(axes, k, density.sigma, tolerance),
        "seconds": time.process_time() - start,
    }, density


def distances(x: Array, density: Any, k: int, *, exact: bool) -> dict[str, float]:
    """Return how far a density is from the records; NaN where a distance was not computed.

    ``exact``: d_k on the line for k <= 3; for k = 1 beyond it, if `exact` says so, the transport problem between the
    records where they are and the density. ``polynomial``: the largest error of a mean, half a second moment or a mean
    product of two columns, all of them in every F_k.
    """
    from marginalia.papers.chebyshev.theory.distance import cosine_lower_bound, earth_mover, moment_distance

    q, d = density.measure(), x.shape[1]
    polynomial = _polynomial_error(Measure.of(x), q)
    if d == 1 and k <= 3:
        return {
            "exact": line_distance(empirical(x), q, k),
            "lower": math.nan,
            "moments": math.nan,
            "polynomial": polynomial,
        }
    p = empirical(x)
    return {
        "exact": earth_mover(Measure.of(x), q) if k == 1 and exact else math.nan,
        "lower": cosine_lower_bound(p, q, k),
        "moments": moment_distance(p, q, k),
        "polynomial": polynomial,
    }


def _polynomial_error(p: Any, q: Any) -> float:
    difference = np.abs(p.means(_powers) - q.means(_powers))
    degree = np.indices(difference.shape).sum(axis=0)
    highest = np.indices(difference.shape).max(axis=0)
    difference = np.where(highest == 2, difference / 2, difference)
    return float(difference[(degree == 1) | (degree == 2)].max())


def _powers(x: Array) -> Array:
    return np.stack([np.ones_like(x), x, x**2])


def empirical(x: Array) -> Any:
    """Return the records as a measure: in the plane on a fine raster, else as they are."""
    if x.shape[1] != 2:
        return Measure.of(x)
    fine = [Axis.gauss(1, 1, n_points=RASTER_NODES)] * 2
    return GridMeasure(tuple(axis.points for axis in fine), histogram(fine, x))


def line_distance(p: Any, q: Any, k: int) -> float:
    """Return d_k between two measures on the line, to within the width of its bounds."""
    from marginalia.papers.chebyshev.theory.distance import distance_on_line

    bounds = distance_on_line(p, q, k)
    return (bounds.lower + bounds.upper) / 2
