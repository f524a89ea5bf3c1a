"""Grids, splitting and the tensor operators against dense matrices and reference values."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from marginalia.methods.chebyshev.moments import Axis, Degrees, MomentMap, histogram, polynomials

X = np.array([-1, -0.5, 0, 0.3, 0.9])


def dense(moment_map: MomentMap) -> np.ndarray:
    """A as an M x N matrix, term by term from the definition."""
    rows = []
    for K in product(*(range(a.degree + 1) for a in moment_map.axes)):
        factors = [
            np.cos(a * np.arccos(axis.points)) * (np.sqrt(2) if a else 1)
            for a, axis in zip(K, moment_map.axes, strict=True)
        ]
        row = factors[0]
        for f in factors[1:]:
            row = np.multiply.outer(row, f)
        rows.append(row.ravel())
    return np.array(rows)


MAPS = [
    MomentMap([Axis.gauss(5, 2)]),
    MomentMap([Axis.gauss(3, 2), Axis.gauss(4, 1)]),
    MomentMap([Axis.midpoints(7, 3), Axis.binary()]),
    MomentMap([Axis.gauss(2, 2), Axis.midpoints(5, 3), Axis.binary()]),
]


def test_moments_of_five_points():
    assert_allclose(polynomials(X, 4).mean(axis=1), [1, -0.08485281, -0.19798990, -0.16291740, 0.45639500], atol=5e-9)


def test_records_are_split_between_gauss_nodes():
    axis = Axis.gauss(4, 2, n_points=8)
    assert_allclose(axis.points[:4], [0.98078528, 0.83146961, 0.55557023, 0.19509032], atol=5e-9)
    H = histogram([axis], X[:, None])
    expected = [0.09179263, 0.10820737, 0.05820556, 0.24179444, 0.13083125, 0.16916875, 0, 0.2]
    assert_allclose(H, expected, atol=5e-9)
    assert_allclose(MomentMap([axis]).apply(H), [1, -0.07941807, -0.17010617, -0.09036561, 0.32883663], atol=5e-9)


def test_the_papers_grid_rounds():
    axis = Axis.uniform(3, 2)
    H = histogram([axis], X[:, None])
    assert_allclose(axis.points[H > 0], [-1, -5 / 9, -1 / 9, 1 / 3, 7 / 9])
    assert_allclose(MomentMap([axis]).apply(H)[1:], [-0.15713484, -0.26189140, -0.28129076], atol=5e-9)


def test_a_tie_goes_to_the_lower_node():
    axis = Axis.uniform(4, 1)  # -1, -.5, 0, .5
    assert axis.place([-0.75, 0.25])[0].tolist() == [0, 2]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.integers(2, 30))
def test_splitting_keeps_mass_and_mean(values, R):
    axis = Axis.gauss(1, 1, n_points=R)
    x = np.array(values)
    H = histogram([axis], x[:, None])
    clamped = np.clip(x, axis.points.min(), axis.points.max())
    assert H.min() >= 0
    shares = H * (2.0**30 * len(x))  # whole numbers of 2^-30 of a record, but for the division by their number
    np.testing.assert_allclose(shares, np.rint(shares), rtol=0, atol=1e-4)
    assert np.rint(shares).sum() == 2.0**30 * len(x)
    width = np.abs(np.diff(axis.points)).max()
    assert H @ axis.points == pytest.approx(clamped.mean(), abs=2.0**-30 * width)


def test_codes_lie_on_their_own_grid():
    axis = Axis.midpoints(6, 3)
    first, _, share = axis.place(axis.points)
    assert first.tolist() == [0, 1, 2, 3, 4, 4]  # the last is split wholly onto its second node
    assert_allclose(histogram([axis], axis.points[:, None]), np.full(6, 1 / 6))
    assert set(share.round(12)) <= {0.0, 1.0}


@pytest.mark.parametrize("moment_map", MAPS)
def test_operators_equal_the_dense_matrix(moment_map):
    rng = np.random.default_rng(0)
    A = dense(moment_map)
    z = rng.random(moment_map.shape)
    v = rng.standard_normal([a.degree + 1 for a in moment_map.axes])
    assert_allclose(moment_map.apply(z).ravel(), A @ z.ravel(), atol=1e-12)
    assert_allclose(moment_map.adjoint(v).ravel(), A.T @ v.ravel(), atol=1e-12)
    D = rng.random(moment_map.shape)
    assert_allclose(moment_map.gram(D), A @ np.diag(D.ravel()) @ A.T, atol=1e-12)


def test_gauss_nodes_make_the_rows_orthogonal():
    moment_map = MAPS[1]
    A = dense(moment_map)
    assert moment_map.is_orthogonal
    assert_allclose(A @ A.T, moment_map.n_cells * np.eye(len(A)), atol=1e-10)
    assert not MAPS[2].is_orthogonal


@pytest.mark.parametrize(
    ("k", "d", "m", "S"),
    [
        (1, 1, 16, 3.380729),
        (2, 1, 16, 1.584347),
        (1, 2, 8, 16.733067),
        (2, 2, 8, 5.709581),
        (3, 2, 8, 3.287426),
        (1, 3, 5, 50.518025),
        (2, 3, 5, 15.805748),
        (3, 3, 5, 7.354659),
    ],
)
def test_total_weight(k, d, m, S):
    assert Degrees((m,) * d, k).total_weight == pytest.approx(S, abs=5e-7)
