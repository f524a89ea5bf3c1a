"""Polynomials close to a loss function: Bernstein's, iterated Bernstein, and the best one (Zhou et al., Figure 1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray
from scipy.special import comb

Array = NDArray[np.float64]
Function = Callable[[Array], Array]


def logistic_loss(t: Array) -> Array:
    """Return ln(1 + exp(-t)), minus the logarithm of the sigmoid."""
    return np.logaddexp(0.0, -np.asarray(t, dtype=np.float64))


def bernstein(f: Function, degree: int, interval: tuple[float, float], *, iterations: int = 1) -> Polynomial:
    """Return the (iterated) Bernstein polynomial of f.

    Parameters
    ----------
    f : callable(array) -> array
    degree : int
        d, at least 1.
    interval : (float, float)
        [a, b].
    iterations : int, default 1
        c: the operator I - (I - P_d)^c, that is P_d applied to f, then to what is left of it, c times; 1 is
        Bernstein's own P_d.

    Returns
    -------
    numpy.polynomial.Polynomial
        In powers of x itself (domain = window), coefficients of x^0, x^1, ...

    Notes
    -----
    Σ_i v_i B_{d,i} with v = Σ_{j<c} (I - M)^j f(nodes) and M_ij = B_{d,j}(i/d). With K the Lipschitz constant of f and
    b - a = 2R its error is at most (5/2) K R / sqrt(d) (Popoviciu).
    """
    a, b = interval
    nodes = np.arange(degree + 1) / degree
    basis = _bernstein_basis(degree, nodes)
    values = left = np.asarray(f(a + (b - a) * nodes), dtype=np.float64)
    for _ in range(iterations - 1):
        left = left - basis @ left
        values = values + left
    u = Polynomial([-a / (b - a), 1 / (b - a)])
    terms = [v * float(comb(degree, i)) * u**i * (1 - u) ** (degree - i) for i, v in enumerate(values)]
    return sum(terms[1:], terms[0])


def _bernstein_basis(degree: int, u: Array) -> Array:
    i = np.arange(degree + 1)
    return np.asarray(comb(degree, i) * u[:, None] ** i * (1 - u[:, None]) ** (degree - i))


def minimax(f: Function, degree: int, interval: tuple[float, float], *, points: int = 4001) -> Polynomial:
    """Return the polynomial of least maximal distance from f, by a linear program on Chebyshev points.

    Parameters
    ----------
    f, degree, interval
        See `bernstein`.
    points : int, default 4001
        Extrema of a Chebyshev polynomial on which the distance is minimised; between them it is larger by about
        (pi / points)² of the second derivative.
    """
    from scipy.optimize import linprog

    a, b = interval
    grid = np.cos(np.pi * np.arange(points) / (points - 1))
    values = np.asarray(f(a + (b - a) * (grid + 1) / 2), dtype=np.float64)
    basis = np.polynomial.chebyshev.chebvander(grid, degree)
    slack = np.ones((points, 1))
    found = linprog(
        np.r_[np.zeros(degree + 1), 1.0],
        A_ub=np.block([[basis, -slack], [-basis, -slack]]),
        b_ub=np.r_[values, -values],
        bounds=[*[(None, None)] * (degree + 1), (0, None)],
        method="highs",
    )
    if not found.success:
        raise RuntimeError(f"the linear program of the minimax polynomial failed: {found.message}")
    coefficients = np.asarray(found.x)[:-1]
    return Chebyshev(coefficients, domain=[a, b]).convert(kind=Polynomial, domain=[-1, 1], window=[-1, 1])


def sup_error(p: Polynomial, f: Function, interval: tuple[float, float], *, points: int = 200_001) -> float:
    """Return the largest |p - f| on an even grid of the interval."""
    x = np.linspace(*interval, points)
    return float(np.abs(p(x) - f(x)).max())
