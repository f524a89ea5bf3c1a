"""Weighted least squares over the probability simplex: by a primal-dual interior point, or by first-order methods.

The first-order methods are for more moments than an interior point can hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from marginalia.methods.chebyshev.moments import Array, MomentMap

MAX_ITERATIONS = 80
PATIENCE = 3  # iterations without a better gap: the floor of double precision is reached
TO_BOUNDARY = 0.995


@dataclass(frozen=True)
class Solution:
    """A point of the simplex and how good it is.

    >>> Solution(np.array([0.5, 0.5]), gap=0.0, iterations=3).gap
    0.0
    """

    z: Array  # shape (R_1, …, R_d)
    gap: float  # ⟨∇F, z⟩ - min ∇F >= F(z) - F*
    iterations: int


@dataclass(frozen=True, eq=False)
class Objective:
    """F(z) = ½ Σ_K ω_K ((Az)_K - m_K)², target m and weights ω of shape (m_1 + 1, …, m_d + 1), ω_0 = 0.

    >>> from marginalia.methods.chebyshev.moments import Axis
    >>> objective = Objective(MomentMap([Axis.midpoints(2, degree=1)]), np.array([1.0, 0.5]), np.array([0.0, 1.0]))
    >>> objective.gradient(objective.uniform()).round(3)
    array([ 0.707, -0.707])
    """

    map: MomentMap
    target: Array
    weights: Array

    def gradient(self, z: Array) -> Array:
        """∇F(z)."""
        return self.map.adjoint(self.weights * (self.map.apply(z) - self.target))

    def gap(self, z: Array) -> float:
        """Return the duality gap of a point of the simplex."""
        return _gap(self.gradient(z), z)

    def uniform(self) -> Array:
        """The centre of the simplex."""
        return np.full(self.map.shape, 1.0 / self.map.n_cells)


def _gap(gradient: Array, z: Array) -> float:
    return float(np.vdot(gradient, z) - gradient.min())


def interior_point(objective: Objective, tolerance: float) -> Solution:
    """Minimise F over the simplex (Mehrotra's predictor-corrector) to the duality gap `tolerance`.

    The Newton matrix is BᵀB + diag(s/z), B = Ω^½ A; by Woodbury one Cholesky factor of the M x M matrix I + B diag(z/s)
    Bᵀ serves all solves of an iteration, and that matrix comes from `MomentMap.gram` without the grid's size. Returns
    the iterate with the smallest gap, which is above `tolerance` when double precision gave out.

    >>> from marginalia.methods.chebyshev.moments import Axis
    >>> objective = Objective(MomentMap([Axis.midpoints(2, degree=1)]), np.array([1.0, 0.5]), np.array([0.0, 1.0]))
    >>> interior_point(objective, 1e-9).z.round(3)
    array([0.323, 0.677])
    """
    z = objective.uniform()
    gradient = objective.gradient(z)
    multiplier = -float(gradient.min()) + 0.1 * float(np.abs(gradient).max())
    s = gradient + multiplier
    best = Solution(z, _gap(gradient, z), 0)
    stalled = 0
    for iteration in range(1, MAX_ITERATIONS + 1):
        if best.gap <= tolerance or stalled == PATIENCE:
            break
        step = _newton(objective, z, s, gradient + multiplier - s)
        if step is None:
            break
        mu = float(np.vdot(z, s)) / z.size
        dz, _, ds = step(-z * s)
        affine = float(np.vdot(z + _length(z, dz, 1.0) * dz, s + _length(s, ds, 1.0) * ds)) / z.size
        centre = (max(affine, 0.0) / mu) ** 3 * mu
        dz, change, ds = step(centre - z * s - dz * ds)
        length = min(1.0, TO_BOUNDARY * min(_length(z, dz, 2.0), _length(s, ds, 2.0)))
        z = z + length * dz
        s = s + length * ds
        multiplier += length * change
        gradient = objective.gradient(z)
        gap = _gap(gradient, z / z.sum())
        if not np.isfinite(gap):
            break
        stalled = 0 if gap < best.gap else stalled + 1
        if gap < best.gap:
            best = Solution(z / z.sum(), gap, iteration)
    return best


def _newton(
    objective: Objective, z: Array, s: Array, dual: Array
) -> Callable[[Array], tuple[Array, float, Array]] | None:
    """Factor I + B diag(z/s) Bᵀ and return the Newton step; None when rounding has made the matrix indefinite."""
    root, D = np.sqrt(objective.weights), z / s
    T = objective.map.gram(D)
    T *= root.ravel()
    T *= root.ravel()[:, None]
    factor = _cholesky(T)
    if factor is None:
        return None

    def inverse(v: Array) -> Array:
        """(BᵀB + D⁻¹)⁻¹ v = D v - D Bᵀ (I + T)⁻¹ B D v."""
        Dv = D * v
        inner = cho_solve(factor, (root * objective.map.apply(Dv)).ravel(), check_finite=False)
        return Dv - D * objective.map.adjoint(root * inner.reshape(root.shape))

    ones = inverse(np.ones_like(z))  # for the constraint Σz = 1

    def step(complement: Array) -> tuple[Array, float, Array]:
        """(dz, d multiplier, ds) that changes z∘s by `complement` to first order."""
        u = inverse(complement / z - dual)
        change = (float(u.sum()) + float(z.sum()) - 1) / float(ones.sum())
        dz = u - change * ones
        return dz, change, (complement - s * dz) / z

    return step


def _length(x: Array, dx: Array, largest: float) -> float:
    """Longest step up to `largest` that keeps x >= 0."""
    falling = dx < 0
    return min(largest, float((-x[falling] / dx[falling]).min())) if falling.any() else largest


def _cholesky(T: Array) -> tuple[Array, bool] | None:
    """Factor I + T (T is overwritten); rounding on a nearly singular matrix is met by a growing ridge."""
    T.flat[:: T.shape[0] + 1] += 1.0
    ridge, largest = 0.0, 1e-15 * float(T.diagonal().max())
    for _ in range(12):
        try:
            return cho_factor(T + ridge * np.eye(len(T)) if ridge else T, lower=True, check_finite=False)
        except LinAlgError:
            ridge = ridge * 10 if ridge else largest
    return None


CHECK_EVERY = 10  # iterations between two looks at the gap
RELAXATION = 1.6
BALANCED_ITERATIONS = 400  # ADMM adapts its penalty this long; a penalty that never settles need not converge
POWER_ITERATIONS = 30


def project_simplex(v: Array) -> Array:
    """Return the point of the probability simplex nearest to `v` (any shape), by sorting.

    >>> project_simplex(np.array([0.9, 0.5, -0.3]))
    array([0.7, 0.3, 0. ])
    """
    ordered = np.sort(v, axis=None)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, v.size + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    return np.maximum(v - excess[last], 0.0)


def first_order(solver: str, objective: Objective, tolerance: float, max_iterations: int) -> Solution:
    """Return the best of the start, every tenth and the last iterate, stopping at the duality gap `tolerance`.

    ``fista``: accelerated projected gradient with restart (Beck & Teboulle 2009; O'Donoghue & Candès 2015); ``admm``:
    alternating directions on Gauss grids, where A Aᵀ = R^d I makes the quadratic step exact.

    >>> from marginalia.methods.chebyshev.moments import Axis
    >>> from marginalia.methods.chebyshev.moments import MomentMap
    >>> objective = Objective(MomentMap([Axis.gauss(1, 1, n_points=2)]), np.array([1.0, 0.5]), np.array([0.0, 1.0]))
    >>> [first_order(solver, objective, 1e-9, 100).z.round(3).tolist() for solver in ("fista", "admm")]
    [[0.75, 0.25], [0.75, 0.25]]
    """
    iterates = {"fista": _fista, "admm": _admm}[solver](objective)
    start = next(iterates)
    best = Solution(start, objective.gap(start), 0)
    for iteration, z in enumerate(itertools.islice(iterates, max_iterations), start=1):
        if iteration % CHECK_EVERY == 0 or iteration == max_iterations:
            gap = objective.gap(z)
            if gap < best.gap:
                best = Solution(z, gap, iteration)
            if best.gap <= tolerance:
                break
    return best


def _fista(objective: Objective) -> Iterator[Array]:
    step = 1 / _lipschitz(objective)
    z = y = objective.uniform()
    t = 1.0
    yield z
    while True:
        following = project_simplex(y - step * objective.gradient(y))
        if float(np.vdot(y - following, following - z)) > 0:
            t, y = 1.0, following
        else:
            t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
            y = following + (t - 1) / t_next * (following - z)
            t = t_next
        z = following
        yield z


def _admm(objective: Objective) -> Iterator[Array]:
    A, omega, norm = objective.map, objective.weights, float(objective.map.n_cells)
    rho = float(np.median(omega[omega > 0])) * norm
    pull = A.adjoint(omega * objective.target)
    u = objective.uniform()
    dual = np.zeros_like(u)
    yield u
    for iteration in itertools.count(1):
        v = pull + rho * (u - dual)
        z = (v - A.adjoint(omega / (rho + omega * norm) * A.apply(v))) / rho
        relaxed = RELAXATION * z + (1 - RELAXATION) * u
        before, u = u, project_simplex(relaxed + dual)
        dual = dual + relaxed - u
        yield u
        if iteration % CHECK_EVERY == 0 and iteration <= BALANCED_ITERATIONS:
            primal, moved = float(np.linalg.norm(z - u)), rho * float(np.linalg.norm(u - before))
            scale = 2.0 if primal * rho > 2 * moved else 0.5 if moved > 2 * primal * rho else 1.0
            rho *= scale
            dual = dual / scale


def _lipschitz(objective: Objective) -> float:
    """Largest eigenvalue of AᵀΩA: exact on Gauss grids, else by power iteration with a margin of 5 %."""
    A, omega = objective.map, objective.weights
    if A.is_orthogonal:
        return float(omega.max()) * A.n_cells
    v, root = omega, np.sqrt(omega)
    for _ in range(POWER_ITERATIONS):
        v = v / np.linalg.norm(v)
        v = root * A.apply(A.adjoint(root * v))
    return 1.05 * float(np.linalg.norm(v))
