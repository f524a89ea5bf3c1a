"""Least squares from Z'Z, and the minimiser of a logistic loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

Array = NDArray[np.float64]

_MAX_STEPS = 200  # of Newton's method; it needs fewer than 20 on regular problems


def least_squares(xtx: Array, xty: Array, *, ridge: float = 0.0) -> Array:
    """Solve (X'X + ridge I) theta = X'y for a symmetric X'X whose negative eigenvalues are noise and count as 0.

    Directions without any weight (eigenvalue + ridge at rounding level) get coefficient 0: the solution of least
    norm, to which the ridge of 1e-12 of the literature converges.

    >>> least_squares(np.diag([2.0, 0.0]), np.ones(2)).round(6)
    array([0.5, 0. ])
    """
    values, vectors = np.linalg.eigh(xtx)
    values = np.maximum(values, 0.0) + ridge
    usable = values > values[-1] * len(values) * np.finfo(float).eps
    projected = np.zeros_like(values)
    np.divide(vectors.T @ xty, values, out=projected, where=usable)
    return vectors @ projected


def nearest_semidefinite(matrix: Array) -> Array:
    """Return the positive semidefinite matrix nearest to a symmetric one: its negative eigenvalues become 0.

    >>> nearest_semidefinite(np.diag([2.0, -1.0]))
    array([[2., 0.],
           [0., 0.]])
    """
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


@dataclass(frozen=True)
class Minimum:
    """Where `minimise_logistic` stopped.

    >>> Minimum(np.zeros(2), gradient_norm=1e-7, n_steps=6).gradient_norm <= 1e-6
    True
    """

    theta: Array
    gradient_norm: float  # 2-norm of the objective's gradient at `theta`
    n_steps: int


def minimise_logistic(
    X: Array,
    y: Array,
    *,
    regulariser: float = 0.0,
    linear: Array | None = None,
    weights: Array | None = None,
    start: Array | None = None,
    tolerance: float = 1e-6,
    margin: float = 0.0,
) -> Minimum:
    """Minimise  sum_i w_i ln(1 + exp(c - y_i x_i.theta)) + regulariser/2 |theta|^2 + linear.theta  by Newton's method.

    The margin c is 0 for the logistic loss. Labels y are -1 and +1, weights w (default 1) not negative. Steps are
    halved until the objective falls (Armijo), so the method converges from any start (default 0); near the minimum it
    doubles the correct digits in each step. It stops when the 2-norm of the gradient is at most `tolerance`, or when
    rounding stops all progress. Check `Minimum.gradient_norm`: without a regulariser, separable data have no minimum,
    and the gradient vanishes only as theta grows.

    >>> X, y = np.array([[1.0], [1.0], [1.0]]), np.array([1.0, 1.0, -1.0])
    >>> minimise_logistic(X, y).theta.round(6)  # ln 2: two to one
    array([0.693147])
    """
    p = X.shape[1]
    theta = np.zeros(p) if start is None else start
    b = np.zeros(p) if linear is None else linear
    w = np.ones(len(y)) if weights is None else weights
    positive = (y + 1) / 2

    def objective(theta: Array, scores: Array) -> float:
        return float(w @ np.logaddexp(0.0, -y * scores) + regulariser / 2 * theta @ theta + b @ theta)

    def gradient(theta: Array, probability: Array) -> Array:
        return X.T @ (w * (probability - positive)) + regulariser * theta + b

    scores = X @ theta - margin * y  # only differences are added to these
    value, probability = objective(theta, scores), expit(scores)
    g = gradient(theta, probability)
    scaled = np.empty_like(X)
    n_steps, stuck = 0, False
    while np.linalg.norm(g) > tolerance and not stuck and n_steps < _MAX_STEPS:
        n_steps += 1
        np.multiply(X, np.sqrt(w * probability * (1 - probability))[:, None], out=scaled)
        step = _newton_step(scaled.T @ scaled, regulariser, g)
        change = X @ step
        length, slope = 1.0, float(g @ step)
        # Objectives this close are equal up to rounding; the gradient then decides.
        slack = 1e-13 * (abs(value) + 1.0)
        while True:
            trial = objective(theta + length * step, scores + length * change)
            if trial <= value + 1e-4 * length * slope + slack or length < 1e-10:
                break
            length /= 2
        theta, scores = theta + length * step, scores + length * change
        probability = expit(scores)
        previous, g = np.linalg.norm(g), gradient(theta, probability)
        stuck = value - trial <= slack and np.linalg.norm(g) >= previous
        value = trial
    return Minimum(theta, float(np.linalg.norm(g)), n_steps)


def _newton_step(hessian: Array, regulariser: float, g: Array) -> Array:
    # A singular Hessian (a level nobody has, a column that others determine) gets a ridge far below its own scale:
    # the gradient has no part in such a direction, so the step has none either.
    ridge = max(regulariser, 1e-12 * float(np.trace(hessian)), np.finfo(float).tiny)
    hessian[np.diag_indices_from(hessian)] += ridge
    return -cho_solve(cho_factor(hessian, lower=True, overwrite_a=True), g)
