"""Solvers agree with reference optima and with each other, and their gap bounds the error."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginalia.methods.chebyshev.calibration import noise_scale
from marginalia.methods.chebyshev.moments import Axis, Degrees, MomentMap, histogram
from marginalia.methods.chebyshev.solvers import Objective, first_order, interior_point, project_simplex

SOLVERS = {
    "interior point": lambda o, gap: interior_point(o, gap),
    "fista": lambda o, gap: first_order("fista", o, gap, 30_000),
    "admm": lambda o, gap: first_order("admm", o, gap, 30_000),
}


def value(objective: Objective, z: np.ndarray) -> float:
    """F(z)."""
    return 0.5 * float((objective.weights * (objective.map.apply(z) - objective.target) ** 2).sum())


def line_problem() -> Objective:
    target = np.array([1, 0.5, -0.8, 0.3, 0.2])
    return Objective(MomentMap([Axis.gauss(4, 2, n_points=8)]), target, Degrees((4,), 2).fit_weights)


def plane_problem() -> Objective:
    target = np.zeros((3, 3))
    for K, value in {(1, 0): 0.9, (0, 1): -0.8, (1, 1): 1.1, (2, 2): -1.2, (2, 0): 0.3}.items():
        target[K] = value
    return Objective(MomentMap([Axis.gauss(2, 2, n_points=4)] * 2), target, Degrees((2, 2), 2).fit_weights)


@pytest.mark.parametrize("name", SOLVERS)
def test_reference_optimum_on_the_line(name):
    objective = line_problem()
    solution = SOLVERS[name](objective, 1e-10)
    assert value(objective, solution.z) == pytest.approx(0.0026571555, abs=1e-10)
    assert_allclose(solution.z, [0.117684, 0.202642, 0, 0.489475, 0.190198, 0, 0, 0], atol=2e-6)
    fitted = objective.map.apply(solution.z)[1:]
    assert_allclose(fitted, [0.48408535, -0.62460478, -0.15266701, 0.59471580], atol=1e-6)


@pytest.mark.parametrize("name", SOLVERS)
def test_reference_optimum_in_the_plane(name):
    objective = plane_problem()
    solution = SOLVERS[name](objective, 1e-9)
    assert value(objective, solution.z) == pytest.approx(0.1871620537, abs=2e-9)


def noisy_problem(axes: list[Axis], k: int) -> tuple[Objective, float, float]:
    """A private release of 2,000 records: (objective, N₀, F at the true histogram)."""
    rng = np.random.default_rng(3)
    indices = Degrees(tuple(a.degree for a in axes), k)
    moment_map = MomentMap(axes)
    H = histogram(axes, rng.uniform(-1, 0.5, (2000, len(axes))))
    sigma = noise_scale(indices, 2000, 1.0, 1e-6, calibration="tight")
    target = moment_map.apply(H) + sigma * indices.power(k / 2) * rng.standard_normal(indices.shape)
    objective = Objective(moment_map, target, indices.fit_weights)
    return objective, 0.5 * sigma**2 * indices.total_weight, value(objective, H)


@pytest.mark.parametrize(
    ("axes", "k"),
    [
        ([Axis.gauss(20, 2)], 2),
        ([Axis.gauss(7, 1), Axis.gauss(7, 1)], 1),
        ([Axis.midpoints(12, 5), Axis.binary()], 2),
        ([Axis.gauss(3, 3), Axis.gauss(3, 3), Axis.binary()], 3),
    ],
)
def test_the_gap_bounds_the_error_and_solvers_agree(axes, k):
    objective, half_noise, at_truth = noisy_problem(axes, k)
    best = interior_point(objective, 1e-6 * half_noise)
    assert best.gap <= 1e-4 * half_noise
    optimum = value(objective, best.z) - best.gap
    assert value(objective, best.z) <= at_truth
    solvers = ["interior point", "fista"] + (["admm"] if objective.map.is_orthogonal else [])
    for name in solvers:
        solution = SOLVERS[name](objective, 0.1 * half_noise)
        assert solution.gap <= 0.1 * half_noise
        assert solution.z.sum() == pytest.approx(1)
        assert solution.z.min() >= 0
        assert -1e-12 <= value(objective, solution.z) - optimum <= solution.gap + best.gap


def test_exact_moments_are_fitted_exactly():
    axes = [Axis.gauss(6, 2), Axis.gauss(6, 2)]
    H = histogram(axes, np.random.default_rng(0).uniform(-1, 1, (50, 2)))
    moment_map = MomentMap(axes)
    objective = Objective(moment_map, moment_map.apply(H), Degrees((6, 6), 2).fit_weights)
    assert value(objective, interior_point(objective, 1e-13).z) < 1e-12


def test_projection_on_the_simplex():
    rng = np.random.default_rng(0)
    v = rng.standard_normal((4, 5))
    z = project_simplex(v)
    assert z.shape == v.shape
    assert z.min() >= 0
    assert z.sum() == pytest.approx(1)
    for other in rng.dirichlet(np.ones(20), 50).reshape(50, 4, 5):  # nearest point: obtuse angle to all others
        assert np.vdot(v - z, other - z) <= 1e-12
    assert_allclose(project_simplex(z), z, atol=1e-15)
