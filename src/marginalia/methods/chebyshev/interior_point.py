"""Weighted least squares over the probability simplex by a primal-dual interior point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from marginalia.methods.chebyshev.axes import Array
from marginalia.methods.chebyshev.moments import MomentMap

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

    >>> from marginalia.methods.chebyshev.axes import Axis
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

    >>> from marginalia.methods.chebyshev.axes import Axis
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
