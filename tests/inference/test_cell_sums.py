"""Sums over cells and the covariance of their noise against whole matrices, which large designs never build."""

import functools

import numpy as np
import pytest
from scipy import optimize

from marginalia.inference import cell_sums, scores
from marginalia.inference.cell_sums import CellSums
from marginalia.inference.scores import Scores
from marginalia.subsets import subsets

# Sizes of the axes, and the axes of each function.
DESIGNS = {
    "dummies": ([3, 4], [(), (0,), (0,), (1,)]),
    "one axis": ([5], [(0,), (0,)]),
    "no axis": ([1], [()]),
    "interactions": ([3, 4, 1, 2], [(), (0,), (2,), (0, 1), (0, 1), (1, 3), (3,)]),
    "three axes": ([2, 3, 2, 2], [(0, 1, 2), (1, 2, 3), (0, 3), (1,)]),
}


def case(of, seed=0):
    """Functions of a design with random values, and variances of all residuals; one residual has no noise."""
    rng = np.random.default_rng(seed)
    sizes, cliques = DESIGNS[of]
    functions = [(q, rng.normal(size=[sizes[a] for a in q])) for q in cliques]
    parts = [q for q in subsets(range(len(sizes))) if all(sizes[a] > 1 for a in q)]
    return sizes, functions, {q: 0.0 if q == () and len(parts) > 1 else 0.1 + rng.random() for q in parts}


def whole(sizes, functions, variances):
    """Return X, shape (functions, cells), and the covariance of the noise of the counts, from their definitions."""
    X = [
        np.broadcast_to(values.reshape([n if a in q else 1 for a, n in enumerate(sizes)]), sizes).ravel()
        for q, values in functions
    ]
    K = 0.0
    for part, variance in variances.items():
        factors = [np.eye(n) - 1 / n if a in part else np.full((n, n), 1 / n**2) for a, n in enumerate(sizes)]
        K = K + variance * functools.reduce(np.kron, factors)
    return np.array(X), K


@pytest.mark.parametrize("by_marginals", [False, True])
@pytest.mark.parametrize("of", DESIGNS)
def test_sums_and_their_covariance_are_those_of_whole_matrices(of, by_marginals, monkeypatch):
    monkeypatch.setattr(cell_sums, "_WHOLE", 0 if by_marginals else 10**9)
    sizes, functions, variances = case(of)
    sums, (X, K) = CellSums(sizes, functions, variances), whole(sizes, functions, variances)
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=(2, X.shape[1])), rng.normal(size=(2, len(X)))
    np.testing.assert_allclose(sums.of(w), w @ X.T, atol=1e-12)
    np.testing.assert_allclose(sums.combined(x), x @ X, atol=1e-12)
    np.testing.assert_allclose(sums.products(w), [(X * one) @ X.T for one in w], atol=1e-12)
    np.testing.assert_allclose(sums.products(w[0]), (X * w[0]) @ X.T, atol=1e-12)
    np.testing.assert_allclose(sums.explained(w), w @ K, atol=1e-12)
    np.testing.assert_allclose(sums.explained(w[0]), K @ w[0], atol=1e-12)
    expected = [(X * one) @ K @ (X * one).T for one in w]
    np.testing.assert_allclose(sums.covariance(w), expected, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_allclose(sums.covariance(w[0]), expected[0], atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(sums.at(np.array([0, X.shape[1] - 1])), X[:, [0, -1]])
    np.testing.assert_array_equal(sums.occupied(), X.any(axis=0))
    np.testing.assert_array_equal(sums.largest(), np.abs(X).max(axis=1))


@pytest.mark.parametrize("by_marginals", [False, True])
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_distances_are_those_of_whole_matrices(family, by_marginals, monkeypatch):
    monkeypatch.setattr(cell_sums, "_WHOLE", 0 if by_marginals else 10**9)
    monkeypatch.setattr(scores, "_AT_ONCE", 20)
    sizes, functions, variances = case("dummies", seed=2)
    X, K = whole(sizes, functions, variances)
    rng = np.random.default_rng(3)
    counts, h, V = rng.normal(40, 5, X.shape[1]), rng.normal(size=len(X)), np.eye(len(X))
    equations = Scores(family, sizes, functions, counts, variances, 0.4, h, V)
    points = rng.normal(size=(3, len(X)))
    found = zip(points, equations._distances(points), equations.each_local(points), strict=True)
    for b, distance, at in found:
        eta = b @ X
        w = 0.4 - (np.exp(eta) if family == "poisson" else 1 / (1 + np.exp(-eta)))
        r, of_noise = h + X @ (w * counts), V + (X * w) @ K @ (X * w).T
        expected = r @ np.linalg.solve(of_noise, r)
        assert distance == pytest.approx(expected, rel=1e-9)
        assert at.distance == pytest.approx(expected, rel=1e-9)
        slope = optimize.approx_fprime(b, equations.distance, 1e-7)
        np.testing.assert_allclose(at.slope, slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())
        np.testing.assert_allclose(equations.local(b).slope, at.slope, rtol=1e-9)
