"""First-order solvers of the same problem, for more moments than an interior point can hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from marginalia.methods.chebyshev.axes import Array
from marginalia.methods.chebyshev.interior_point import Objective, Solution

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

    >>> from marginalia.methods.chebyshev.axes import Axis
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
