"""The release itself: noisy moments of the records, and the density on the grid that fits them best.

Ding, He and Zhu, "Minimax optimal differentially private synthetic data for smooth queries", Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.methods.chebyshev.calibration import (
    PRINTED,
    attained_sensitivity,
    certified_sensitivity,
    noise_scale,
)
from marginalia.methods.chebyshev.measures import GridMeasure
from marginalia.methods.chebyshev.moments import Array, Axis, Degrees, MomentMap, histogram
from marginalia.methods.chebyshev.solvers import Objective, Solution, first_order, interior_point
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_epsilon
from marginalia.privacy.relation import Neighbours
from marginalia.privacy.session import Session

INTERIOR_POINT_MOMENTS = 2500  # about five M x M arrays: 250 MB
FIRST_ORDER_ITERATIONS = 300
_UNIT = 2.0**-46  # of a moment
_UNIT_OF_SUMS = 2.0**-26  # of a sum over up to 2^33 records


@dataclass(frozen=True, eq=False)
class Density:
    """A probability vector on a grid, fitted to noisy moments.

    >>> axes, q, moments = (Axis.midpoints(2, degree=1),), np.array([0.5, 0.5]), np.array([1.0, 0.1])
    >>> Density(axes, q, moments, n=9, sigma=0.1, gap=0.02, tolerance=0.1, solver="fista", iterations=30).message
    'fista, duality gap 0.02 N0 after 30 iterations'
    """

    axes: tuple[Axis, ...]
    q: Array  # shape (R_1, …, R_d), non-negative, sum 1
    moments: Array  # noisy, shape (m_1 + 1, …, m_d + 1); entry 0 is 1
    n: int  # records: the public number, or the noisy one
    sigma: float  # moment K carries noise of standard deviation sigma·‖K‖^(k/2)
    gap: float  # duality gap in units of N₀ = ½σ²S, half the expected squared noise norm
    tolerance: float  # the gap that was asked for
    solver: str
    iterations: int

    @property
    def message(self) -> str:
        """How the fit ended."""
        verdict = "" if self.gap <= self.tolerance else "inexact: "
        return f"{verdict}{self.solver}, duality gap {self.gap:.3g} N0 after {self.iterations} iterations"

    def measure(self) -> GridMeasure:
        """Return the density as a measure on [-1, 1]^d."""
        return GridMeasure(tuple(a.points for a in self.axes), self.q)


def release_density(
    points: Array,
    axes: Sequence[Axis],
    *,
    k: int,
    epsilon: float,
    delta: float,
    session: Session,
    calibration: str = "tight",
    tolerance: float = 0.1,
    max_iterations: int = FIRST_ORDER_ITERATIONS,
    copies: NDArray[np.int64] | None = None,
    n_units: int = 0,
) -> Density:
    """Release the distribution of `points`, (n, d) in [-1, 1] with n public, by moment matching (Algorithm 1).

    `copies`: how often each point stands there; n is their sum. `n_units`: the public number of units of records, where
    one may have several: n is then private, and released with the sums whose quotients by it are the moments.

    Deviations: the grid is whatever `axes` say; `tight` and `corrected` noise in place of the published one, which is
    too small; the fit stops at a duality gap of `tolerance` times half the noise, since solving on fits noise.

    The ledger gets one Gaussian event under ``replace_one``. With the published noise its sensitivity is the one that
    two corners of the cube attain, if that refutes epsilon: what it then reports is a lower bound.

    >>> from marginalia.privacy import Ledger
    >>> from marginalia.privacy.randomness import Randomness
    >>> x, session = np.linspace(-1, 1, 500)[:, None], Session(Ledger("replace_one"), Randomness(0))
    >>> density = release_density(x, [Axis.gauss(4, 1)], k=1, epsilon=1.0, delta=1e-5, session=session)
    >>> density.q.shape, round(session.ledger.epsilon(1e-5), 6)
    ((8,), 1.0)
    """
    if points.ndim != 2 or points.shape[1] != len(axes):
        raise InputError(f"points have shape {points.shape}: need (n, {len(axes)})")
    n = len(points) if copies is None else int(copies.sum())
    if n == 0:
        raise InputError("chebyshev: the table has no rows, so it has no moments")
    if not np.all(np.abs(points) <= 1):
        raise InputError("chebyshev: a value lies outside the public bounds [-1, 1]; scale and clamp the columns first")
    checks.positive("tolerance", tolerance)
    indices = Degrees(tuple(a.degree for a in axes), k)
    moment_map = MomentMap(axes)
    noise = indices.power(k / 2)
    scale = np.where(noise > 0, noise, 1.0)
    unit, weight, of_sums = _UNIT, 0.0, session.neighbours.contributions > 1
    if of_sums:
        unit, most = _UNIT_OF_SUMS, session.neighbours.contributions * n_units
        weight, sensitivity = _of_sums(indices, axes, session.neighbours)
        sigma = noise_scale(indices, 1, epsilon, delta, calibration=calibration, axes=axes)
        sigma *= sensitivity / math.sqrt(certified_sensitivity(indices, axes))
        rounding = _rounding(indices, axes, mass=2 * most, unit=unit)  # twice: the product with n is rounded too
    else:
        sigma = noise_scale(indices, n, epsilon, delta, calibration=calibration, axes=axes)
        rounding = _rounding(indices, axes)
        sensitivity = _recorded_sensitivity(indices, axes, sigma * n, epsilon, delta) / n
    if calibration not in PRINTED:
        sigma *= 1 + rounding / sensitivity  # pays for what rounding adds to the sensitivity

    def whole_moments() -> NDArray[np.int64]:
        moments = (moment_map.apply(histogram(axes, points, copies)) / scale).ravel()
        if of_sums:
            return np.rint(np.append(weight, moments[1:]) * (n / unit)).astype(np.int64)
        return np.rint(moments[1:] / unit).astype(np.int64)  # K = 0 is the constant 1

    released = session.gaussian(
        whole_moments,
        quantum=unit,
        sensitivity=sensitivity + rounding,
        sigma=sigma,
        label=f"Chebyshev moments up to degree {'x'.join(str(a.degree) for a in axes)}",
    )
    if of_sums:
        noisy_n = max(1.0, float(released[0]) / weight)
        n, released, sigma = round(noisy_n), released[1:] / noisy_n, sigma / noisy_n
    moments = np.concatenate([[1.0], released]).reshape(indices.shape) * scale
    half_noise = 0.5 * sigma**2 * indices.total_weight
    objective = Objective(moment_map, moments, indices.fit_weights)
    solver, solution = _fit(objective, tolerance * half_noise, k, max_iterations)
    q = np.maximum(solution.z, 0.0)
    gap = solution.gap / half_noise
    return Density(tuple(axes), q / q.sum(), moments, n, sigma, gap, tolerance, solver, solution.iterations)


def _fit(objective: Objective, gap: float, k: int, max_iterations: int) -> tuple[str, Solution]:
    """Fit by the solver that suits the size and the grid; return its name too."""
    if objective.target.size <= INTERIOR_POINT_MOMENTS:
        return "interior_point", interior_point(objective, gap)
    solver = "admm" if k >= 2 and objective.map.is_orthogonal else "fista"
    return solver, first_order(solver, objective, gap, max_iterations)


def _of_sums(indices: Degrees, axes: Sequence[Axis], neighbours: Neighbours) -> tuple[float, float]:
    """Return the weight of the number of records beside the sums of T̄_K/‖K‖^(k/2), and the sensitivity of all of them.

    No record is longer than the root of Σ 2^nnz(K) w_K without the weight. Where two may be further apart than that,
    the weight makes up the difference: the number of records then costs nothing.
    """
    apart, longest = certified_sensitivity(indices, axes), float((2**indices.support * indices.noise_weights).sum())
    weight = max(apart - longest, longest / 4)
    return math.sqrt(weight), neighbours.sum_sensitivity(math.sqrt(longest + weight), math.sqrt(apart))


def _rounding(indices: Degrees, axes: Sequence[Axis], *, mass: float = 1.0, unit: float = _UNIT) -> float:
    """Return how much further apart rounding puts the computed moments of two tables, of so much mass each.

    Each moment is a sum of shares, 1 in all, of products of polynomials of size 2^(nnz/2): a few units in the last
    place for each term of an axis and for each degree of a polynomial, and one rounding to a whole number.
    """
    ulps = sum(a.size + 8 * a.degree + 8 for a in axes)
    size = math.sqrt(float((2**indices.support * indices.noise_weights).sum()))
    return 2 * ulps * 2.0**-53 * size * mass + math.sqrt(indices.noise_weights.size) * unit


def _recorded_sensitivity(indices: Degrees, axes: Sequence[Axis], sigma: float, epsilon: float, delta: float) -> float:
    """Return the certified n·Δ, or the attained one where that alone proves that `sigma` does not keep epsilon."""
    certified = math.sqrt(certified_sensitivity(indices, axes))
    attained = min(certified, math.sqrt(attained_sensitivity(indices)))
    return attained if gdp_epsilon(attained / sigma, delta) > epsilon * (1 + 1e-9) else certified
