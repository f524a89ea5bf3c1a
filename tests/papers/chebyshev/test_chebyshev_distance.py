"""The smooth-query distance: known values, oracles, and bounds that must enclose it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import wasserstein_distance

from marginalia.errors import InputError
from marginalia.methods.chebyshev.measures import GridMeasure, Measure
from marginalia.methods.chebyshev.moments import Axis, histogram
from marginalia.papers.chebyshev.theory.constants import (
    _kernel_moments,
    _rasterising_error,
    a_priori_bound,
    fejer_korovkin,
    smoothness_constant,
    tail,
)
from marginalia.papers.chebyshev.theory.distance import (
    UPPER_DEGREE,
    cosine_lower_bound,
    distance_on_line,
    earth_mover,
    moment_distance,
)


def test_smoothness_constants():
    expected = {1: (0.5, 1.0, 1.5), 2: (1.299413, 3.098826, 5.398240), 3: (4.724683, 13.347606, 26.618768)}
    for k, values in expected.items():
        assert [smoothness_constant(k, d) for d in (1, 2, 3)] == pytest.approx(values, abs=1e-6)


@pytest.mark.slow
def test_smoothness_constant_bounds_the_coefficients_of_cosines():
    """f = cos(ax+b)/max(a, a^k) is k-smooth; its weighted Chebyshev coefficients must stay below C(k, 1)."""
    rng = np.random.default_rng(0)
    theta = (np.arange(4096) + 0.5) * np.pi / 4096
    for k in (1, 2, 3):
        for a, b in rng.uniform(0, 12, (60, 2)):
            f = np.cos(a * np.cos(theta) + b) / max(a, a**k)
            j = np.arange(1, 60)
            c = math.sqrt(2) * np.cos(np.outer(j, theta)) @ f / 4096
            assert (j ** (2.0 * k) * c**2).sum() <= smoothness_constant(k, 1) * (1 + 1e-9)


def test_fejer_korovkin_kernel():
    assert fejer_korovkin(64)[1:4] == pytest.approx([0.99886734, 0.99554053, 0.99009556], abs=1e-8)
    rho = fejer_korovkin(64)
    assert ((rho >= 0) & (rho <= 1)).all()

    def kernel(y):
        return (1 + 2 * (rho[1:] * np.cos(np.arange(1, 65) * y)).sum()) / (2 * math.pi)

    first, second = _kernel_moments(64)
    assert first == pytest.approx(2 * quad(lambda y: y * kernel(y), 0, math.pi, limit=400)[0], rel=1e-8)
    assert second == pytest.approx(2 * quad(lambda y: y * y * kernel(y), 0, math.pi, limit=400)[0], rel=1e-8)
    assert second == pytest.approx(0.00228604, abs=1e-8)


@pytest.mark.parametrize(
    ("p", "q", "distances"),
    [([-0.5, 0.5], [0.0], (0.5, 0.125, 0.125)), ([-0.5], [0.5], (1.0, 1.0, 1.0))],
)
def test_distances_of_atoms(p, q, distances):
    for k, exact in enumerate(distances, start=1):
        found = distance_on_line(Measure.of(p), Measure.of(q), k)
        assert found.lower - 1e-9 <= exact <= found.upper + 1e-9
        assert found.upper - found.lower <= 1.5e-3


def upper_bound(p, q, k, degree=None):
    """The certified bound: what moments up to the degree tell, and the tail beyond."""
    return moment_distance(p, q, k, degree=degree) + tail(degree or UPPER_DEGREE[p.d], k, p.d)


@given(st.integers(0, 10**6))
def test_first_distance_is_wasserstein(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-1, 1, 7), rng.uniform(-1, 1, 11)
    assert distance_on_line(Measure.of(x), Measure.of(y), 1).lower == pytest.approx(wasserstein_distance(x, y))


@pytest.mark.parametrize("seed", range(4))
def test_bounds_enclose_and_distances_fall_with_smoothness(seed):
    rng = np.random.default_rng(seed)
    p, q = Measure.of(rng.uniform(-1, 1, 30)), Measure.of(2 * rng.beta(2, 4, 30) - 1)
    before = math.inf
    for k in (1, 2, 3):
        exact = distance_on_line(p, q, k, n_intervals=400)
        assert exact.lower <= before + 1e-9
        before = exact.upper
        assert cosine_lower_bound(p, q, k) <= exact.upper + 1e-9
        assert upper_bound(p, q, k) >= exact.lower
        assert upper_bound(p, q, k) <= 5 * exact.upper
    assert distance_on_line(p, q, 4, n_intervals=400).upper >= 0.0


def test_hat_integrals_agree_with_quadrature():
    """The k = 2 program against a dense one built by numerical integration."""
    rng = np.random.default_rng(5)
    p, q = Measure.of(rng.uniform(-1, 1, 6)), Measure.of(rng.uniform(-1, 1, 6))
    x = np.linspace(-1, 1, 200_001)
    F = [np.searchsorted(np.sort(m.atoms[:, 0]), x, side="right") / 6 for m in (p, q)]
    N = 20
    nodes = np.linspace(-1, 1, N + 1)
    b = [np.trapezoid((F[1] - F[0]) * np.maximum(0, 1 - np.abs(x - t) * N / 2), x) for t in nodes]
    from scipy.optimize import linprog

    D = np.diff(np.eye(N + 1), axis=0)
    dense = linprog(-np.array(b), A_ub=np.vstack([D, -D]), b_ub=np.full(2 * N, 2 / N), bounds=(-1, 1))
    assert distance_on_line(p, q, 2, n_intervals=N).lower == pytest.approx(-dense.fun, abs=1e-4)


def test_earth_mover_equals_the_line_and_adds_over_axes():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1, 1, 9))
    a, b = rng.dirichlet(np.ones(9), 2)
    p, q = GridMeasure((x,), a), GridMeasure((x,), b)
    assert earth_mover(p, q) == pytest.approx(distance_on_line(p, q, 1).lower)
    # l1 metric: two point masses are their coordinate distances apart
    axes = (np.array([-1.0, 0.2, 1.0]), np.array([-0.5, 0.5]))
    u, v = np.zeros((3, 2)), np.zeros((3, 2))
    u[0, 0] = v[1, 1] = 1
    assert earth_mover(GridMeasure(axes, u), GridMeasure(axes, v)) == pytest.approx(1.2 + 1.0)
    with pytest.raises(InputError, match="dimensions"):
        earth_mover(p, GridMeasure(axes, u))


@pytest.mark.parametrize(("d", "sizes"), [(1, (6,)), (2, (4, 5)), (3, (3, 2, 4))])
def test_earth_mover_of_records_equals_the_full_transport_problem(d, sizes):
    """Against a linear program over every pair of record and node, with records outside the hull of the nodes too.

    The records put on the grid first, as the density's own moments see them, come out lower.
    """
    from scipy.optimize import linprog

    rng = np.random.default_rng(d)
    axes = tuple(rng.permutation(np.cos(np.pi * (np.arange(size) + 0.5) / size)) for size in sizes)
    x = rng.uniform(-1, 1, (9, d))
    x = np.concatenate([x, x[:2], np.ones((1, d))])
    p, q = Measure.of(x), GridMeasure(axes, rng.dirichlet(np.ones(math.prod(sizes))).reshape(sizes))
    nodes = q.scattered()
    cost = np.abs(x[:, None, :] - nodes.atoms[None]).sum(axis=2)
    leaves = np.kron(np.eye(len(x)), np.ones((1, len(nodes.atoms))))
    arrives = np.kron(np.ones((1, len(x))), np.eye(len(nodes.atoms)))
    full = linprog(cost.ravel(), A_eq=np.vstack([leaves, arrives]), b_eq=np.concatenate([p.weights, nodes.weights]))
    exact = earth_mover(p, q)
    assert exact == pytest.approx(full.fun, abs=1e-9)
    if d == 1:
        assert exact == pytest.approx(distance_on_line(p, q, 1).lower)
    on_grid = histogram([Axis(a, a.size - 1, "gauss") for a in axes], x)
    assert earth_mover(GridMeasure(axes, on_grid), q) < exact - 1e-3


def test_two_dimensions_lower_below_exact_below_upper():
    rng = np.random.default_rng(2)
    nodes = np.cos(np.pi * (np.arange(12) + 0.5) / 12)
    p, q = (GridMeasure((nodes, nodes), w.reshape(12, 12)) for w in rng.dirichlet(np.full(144, 0.3), 2))
    exact = earth_mover(p, q)
    assert cosine_lower_bound(p, q, 1) <= exact <= upper_bound(p, q, 1, degree=128)
    scattered = cosine_lower_bound(p.scattered(), q.scattered(), 2)
    assert scattered == pytest.approx(cosine_lower_bound(p, q, 2))  # both forms of a measure agree
    assert scattered <= upper_bound(p, q, 2)
    assert scattered <= exact


def test_the_a_priori_bound_adds_its_three_parts():
    axes = (Axis.gauss(33, 2), Axis.gauss(33, 2))
    silent = a_priori_bound(axes, 2, 0.0, 0.1)
    assert silent == pytest.approx(_rasterising_error(axes, 2) + tail(33, 2, 2))
    assert _rasterising_error(axes, 2) == pytest.approx(2 * math.pi**2 / (8 * 66**2))
    assert a_priori_bound(axes, 2, 0.02, 0.1) > silent
