import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from marginalia.learning.solvers import least_squares, minimise_logistic, nearest_semidefinite


def problem(seed, n=60, p=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = np.where(X @ rng.standard_normal(p) + rng.standard_normal(n) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.slow
@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 6))
def test_least_squares_is_the_solution_of_least_norm(seed, n, p):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, p)), rng.standard_normal(n)
    X[:, -1] = X[:, 0]  # always singular for p > 1
    expected = np.linalg.lstsq(X, y, rcond=1e-8)[0]
    theta = least_squares(X.T @ X, X.T @ y)
    assert np.allclose(X @ theta, X @ expected, atol=1e-5)
    assert np.linalg.norm(theta) <= np.linalg.norm(expected) * (1 + 1e-5) + 1e-9


def test_least_squares_with_a_ridge():
    X, y = problem(0)
    expected = np.linalg.solve(X.T @ X + 3 * np.eye(4), X.T @ y)
    assert np.allclose(least_squares(X.T @ X, X.T @ y, ridge=3.0), expected, rtol=1e-12)


def test_least_squares_of_nothing_is_zero():
    assert np.array_equal(least_squares(np.zeros((3, 3)), np.zeros(3)), np.zeros(3))


@given(st.integers(0, 1000))
def test_nearest_semidefinite_is_a_projection(seed):
    A = np.random.default_rng(seed).standard_normal((5, 5))
    A = A + A.T
    P = nearest_semidefinite(A)
    assert np.linalg.eigvalsh(P)[0] >= -1e-12 * np.linalg.norm(A)
    assert np.allclose(nearest_semidefinite(P), P, atol=1e-12)
    # The residual is orthogonal to the projection and negative semidefinite.
    assert abs(np.sum((A - P) * P)) < 1e-9
    assert np.linalg.eigvalsh(A - P)[-1] <= 1e-12 * np.linalg.norm(A)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 10), st.floats(0, 50))
def test_perturbed_logistic_loss_is_minimised(seed, regulariser, perturbation):
    X, y = problem(seed)
    b = perturbation * np.random.default_rng(seed + 1).standard_normal(4)
    w = np.random.default_rng(seed + 2).uniform(0, 3, len(y))

    def loss(theta):
        return w @ np.logaddexp(0, -y * (X @ theta)) + regulariser / 2 * theta @ theta + b @ theta

    minimum = minimise_logistic(X, y, regulariser=regulariser, linear=b, weights=w)
    reference = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-7})
    assert minimum.gradient_norm <= 1e-6
    assert loss(minimum.theta) <= reference.fun + 1e-9 * (1 + abs(reference.fun))
    assert np.allclose(minimum.theta, reference.x, atol=1e-3 * (1 + np.linalg.norm(reference.x)))


def test_the_start_does_not_matter():
    X, y = problem(3)
    one = minimise_logistic(X, y, regulariser=0.1)
    far = minimise_logistic(X, y, regulariser=0.1, start=np.full(4, 80.0))
    assert np.allclose(one.theta, far.theta, atol=1e-8)


def test_a_column_of_zeros_gets_nothing():
    X, y = problem(4)
    X[:, 2] = 0
    minimum = minimise_logistic(X, y)
    assert minimum.theta[2] == 0
    assert np.allclose(minimum.theta[[0, 1, 3]], minimise_logistic(X[:, [0, 1, 3]], y).theta, atol=1e-8)


def test_separable_data_end_with_a_vanishing_gradient():
    X, _ = problem(5)
    minimum = minimise_logistic(X, np.sign(X[:, 0]))
    assert minimum.gradient_norm <= 1e-6
    assert np.isfinite(minimum.theta).all()
    assert np.array_equal(np.sign(X @ minimum.theta), np.sign(X[:, 0]))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_badly_scaled_columns_converge(scale):
    X, y = problem(6)
    X[:, 1] *= scale
    plain, scaled = minimise_logistic(problem(6)[0], y), minimise_logistic(X, y)
    assert np.allclose(plain.theta[1], scaled.theta[1] * scale, rtol=1e-4)
