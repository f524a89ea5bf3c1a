"""Explicit constants where the paper has unknown ones, and the error bound of a run before it runs.

For f with all partial derivatives of order 1 … k at most 1: Σ ‖K‖^(2k) c_K² <= C(k,d) (in place of the paper's
eᵏ k!, which fails for large d), and f is within `tail` of its Fejér–Korovkin mean of degree m.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np

from marginalia.methods.chebyshev.moments import Array, Axis, Degrees

QUADRATURE_POINTS = 1 << 17


def chain_rule(order: int) -> Array:
    """Return the P_b(θ), b = 0 … order, of ∂_θ^order f(cos θ) = Σ_b P_b(θ) f^(b)(cos θ), on a lattice of θ.

    P_{0,0} = 1 and P_{j+1,b} = P'_{j,b} - sin θ P_{j,b-1} are trigonometric polynomials: their derivatives by FFT are
    exact up to rounding. Shape (order + 1, 2^17), θ over a period.

    >>> abs(chain_rule(2)).max(axis=1).round(4)  # 0, cos and sin²
    array([0., 1., 1.])
    """
    theta = 2 * np.pi * (np.arange(QUADRATURE_POINTS) + 0.5) / QUADRATURE_POINTS
    sine = np.sin(theta)
    frequency = np.arange(QUADRATURE_POINTS // 2 + 1)
    P = [np.ones_like(theta)]
    for _ in range(order):
        slopes = []
        for p in P:
            spectrum = np.fft.rfft(p)
            spectrum[2 * order + 2 :] = 0  # rounding, which differentiation would amplify
            slopes.append(np.fft.irfft(1j * frequency * spectrum, QUADRATURE_POINTS))
        P = [a - sine * b for a, b in zip([*slopes, np.zeros_like(theta)], [np.zeros_like(theta), *P], strict=True)]
    return np.array(P)


@lru_cache(maxsize=16)
def _mean_square_growth(order: int) -> float:
    """a_j: mean over θ of A_j², where |∂_θ^j f(cos θ)| <= A_j(θ) = Σ_b |P_{j,b}(θ)|."""
    return float(np.mean(np.sum(np.abs(chain_rule(order)), axis=0) ** 2))


def smoothness_constant(k: int, d: int) -> float:
    """Return C(k, d) = Σ_{|α|=k} (k!/α!) Π a_{α_i}, the bound on Σ ‖K‖^(2k) c_K².

    >>> round(smoothness_constant(1, 2), 6)
    1.0
    """
    total = 0.0
    for alpha in itertools.product(range(k + 1), repeat=d):
        if sum(alpha) == k:
            multinomial = math.factorial(k) / math.prod(math.factorial(a) for a in alpha)
            total += multinomial * math.prod(_mean_square_growth(a) for a in alpha)
    return total


def fejer_korovkin(degree: int) -> Array:
    """Return the multipliers ρ_0 … ρ_degree of the Fejér–Korovkin kernel, a positive kernel of that degree.

    >>> fejer_korovkin(2).round(4)
    array([1.    , 0.7071, 0.25  ])
    """
    s = np.sin(np.arange(1, degree + 2) * np.pi / (degree + 2))
    return np.correlate(s, s, mode="full")[degree:] / float(s @ s)


def _kernel_moments(degree: int) -> tuple[float, float]:
    """Return (E|y|, E y²) under the Fejér–Korovkin kernel on [-π, π], from its Fourier series."""
    rho, j = fejer_korovkin(degree)[1:], np.arange(1, degree + 1)
    sign = np.where(j % 2, -1.0, 1.0)
    first = math.pi / 2 + 2 / math.pi * float((rho * (sign - 1) / j**2).sum())
    second = math.pi**2 / 3 + 4 * float((rho * sign / j**2).sum())
    return first, second


def tail(degree: int, k: int, d: int) -> float:
    """Return twice the distance from a k-smooth f to its kernel mean: 2d·E|y| (k = 1) or 2d·(5/4)·E y²/2 (k >= 2).

    A positive kernel gives no better order than degree⁻², however smooth f is.

    >>> round(tail(16, 1, d=1), 4), round(tail(32, 1, d=1), 4)
    (0.2725, 0.1434)
    """
    first, second = _kernel_moments(degree)
    return 2 * d * first if k == 1 else 2 * d * 1.25 * second / 2


def _rasterising_error(axes: tuple[Axis, ...], k: int) -> float:
    """Return how far splitting (or rounding) the records onto the grid can move d_k.

    Gauss nodes lie at most π/R apart and leave 1 - cos(π/2R) at the ends: d·π/(2R) for k = 1, d·π²/(8R²) above. The
    paper's uniform grid rounds, and misses +1: its step on each axis. Codes and two-valued columns lie on their nodes.
    """
    total = 0.0
    for axis in axes:
        if axis.kind == "gauss":
            total += math.pi / (2 * axis.size) if k == 1 else math.pi**2 / (8 * axis.size**2)
        elif axis.kind == "uniform":
            total += 2 / axis.size
    return total


def a_priori_bound(axes: tuple[Axis, ...], k: int, sigma: float, tolerance: float) -> float:
    """Return a bound on E d_k(data, density) that needs no data: rasterising + degree + noise.

    `sigma` is the noise scale of the release, `tolerance` the solver's relative duality gap τ. Valid for any data; 6 to
    20 times the error measured on smooth ones.

    >>> round(a_priori_bound((Axis.gauss(16, 1),), k=1, sigma=0.001, tolerance=0.1), 4)
    0.3246
    """
    indices = Degrees(tuple(a.degree for a in axes), k)
    noise = (2 + math.sqrt(tolerance)) * sigma * math.sqrt(indices.total_weight)
    d = len(axes)
    deterministic = _rasterising_error(axes, k) + tail(min(indices.degrees), k, d)
    return deterministic + math.sqrt(smoothness_constant(k, d)) * noise
