"""The smooth-query distance d_k(p, q) = sup |∫f dp - ∫f dq| over f with all partials of order 1 … k at most 1.

Exact on the line (from linear programs on a fine grid, with certified ends) and for k = 1 on a common grid; certified
upper and lower bounds elsewhere. d_1 is the Wasserstein-1 distance for the l1 metric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from marginalia.errors import InputError
from marginalia.synthesis import programs
from marginalia.synthesis.chebyshev.axes import Array
from marginalia.synthesis.chebyshev.constants import fejer_korovkin, smoothness_constant
from marginalia.synthesis.chebyshev.measures import AnyMeasure, GridMeasure
from marginalia.synthesis.chebyshev.moments import Degrees, polynomials

UPPER_DEGREE = {1: 256, 2: 512, 3: 64, 4: 16}
FREQUENCIES = {1: (0.25, 60.0), 2: (0.5, 30.0), 3: (1.0, 12.0), 4: (1.0, 6.0)}  # dimension: (step, largest)


@dataclass(frozen=True)
class Bounds:
    """An interval that holds the distance; `lower` is 0 where only an upper end is known.

    >>> Bounds(0.0, 0.25).upper
    0.25
    """

    lower: float
    upper: float


def distance_on_line(p: AnyMeasure, q: AnyMeasure, k: int, *, n_intervals: int = 1000) -> Bounds:
    """Return d_k of two measures on [-1, 1].

    With h = f', d_k is the largest ∫ h (F_q - F_p) over |h| <= 1 whose derivatives up to order k-1 are at most 1: a
    linear program in the values of h at N+1 nodes, N = `n_intervals`. Its optimum is within O(1/N) of d_2 and O(1/N²)
    of d_3; for k >= 4 it bounds from above only.

    >>> from marginalia.synthesis.chebyshev.measures import Measure
    >>> distance_on_line(Measure.of([-0.5, 0.5]), Measure.of([0.0, 0.0]), k=1)
    Bounds(lower=0.5, upper=0.5)
    """
    x, weight = _sorted_difference(p, q)
    # F_p - F_q is constant between atoms, and 0 beyond the last.
    area = float((np.abs(np.cumsum(weight)[:-1]) * np.diff(x)).sum())
    if k == 1:
        return Bounds(area, area)
    N, s = n_intervals, 2 / n_intervals
    b = -_hat_integrals(x, weight, N)
    ones = np.ones(N + 1)
    rows, limits = [], []
    for order in range(1, k):
        difference = sparse.diags_array(
            [(-1) ** (order - i) * math.comb(order, i) * ones[: N + 1 - order] for i in range(order + 1)],
            offsets=range(order + 1),
            shape=(N + 1 - order, N + 1),
        )
        rows += [difference, -difference]
        limits.append(np.full(2 * (N + 1 - order), s**order))
    A, limit = sparse.vstack(rows).tocsr(), np.concatenate(limits)
    value = -float(programs.solve(-b, A_ub=A, b_ub=limit, bounds=(-1, 1), method="highs").fun)
    if k == 2:
        return Bounds(value, value + s / 2 * area)
    slack = s * s / 8 * area
    return Bounds(max(0.0, (value - slack) / (1 + s / 2)) if k == 3 else 0.0, value + slack)


def _sorted_difference(p: AnyMeasure, q: AnyMeasure) -> tuple[Array, Array]:
    """Return the atoms of both measures, ascending, and the signed weights of p - q."""
    p, q = (m.scattered() if isinstance(m, GridMeasure) else m for m in (p, q))
    x = np.concatenate([p.atoms[:, 0], q.atoms[:, 0]])
    order = np.argsort(x, kind="stable")
    return x[order], np.concatenate([p.weights, -q.weights])[order]


def _hat_integrals(x: Array, weight: Array, N: int) -> Array:
    """Return ∫ F·hat_i for i = 0 … N, where F jumps by `weight` at `x`, exactly."""
    s = 2 / N
    j = np.clip(np.floor((x + 1) / s).astype(int), 0, N - 1)
    t = (x + 1) / s - j
    values: Array = np.zeros(N + 1)
    values += np.bincount(j, weights=weight * s / 2 * (1 - t) ** 2, minlength=N + 1)
    values += np.bincount(j + 1, weights=weight * s / 2 * (1 - t**2), minlength=N + 1)
    # Right of an atom's cell F has jumped already: half a hat at node j+1, whole hats after.
    jumped = np.cumsum(np.bincount(j, weights=weight, minlength=N))
    values[1:N] += jumped[: N - 1] * s / 2
    values[2:] += s / 2 * jumped[: N - 1]
    return values


def earth_mover(p: GridMeasure, q: GridMeasure) -> float:
    """Return d_1 of two measures on the same product grid (others are refused): a linear program over potentials.

    A function on the nodes is 1-Lipschitz for the l1 metric exactly when it is so along every grid edge.

    >>> nodes = (np.array([-1.0, 1.0]),)
    >>> earth_mover(GridMeasure(nodes, np.array([1.0, 0.0])), GridMeasure(nodes, np.array([0.75, 0.25])))
    0.5
    """
    if p.q.shape != q.q.shape or not all(np.array_equal(a, b) for a, b in zip(p.axes, q.axes, strict=True)):
        raise InputError("the two measures lie on different grids; put both on one")
    index = np.arange(p.q.size).reshape(p.q.shape)
    heads, tails, lengths = [], [], []
    for i, x in enumerate(p.axes):
        nodes = np.moveaxis(index, i, 0)
        heads.append(nodes[1:].ravel())
        tails.append(nodes[:-1].ravel())
        lengths.append(np.repeat(np.abs(np.diff(x)), nodes[0].size))
    head, end, length = (np.concatenate(v) for v in (heads, tails, lengths))
    edge = np.arange(head.size)
    D = sparse.csr_array(
        (np.repeat([1.0, -1.0], edge.size), (np.tile(edge, 2), np.concatenate([head, end]))), (edge.size, index.size)
    )
    bounds = [(0.0, 0.0), *[(None, None)] * (index.size - 1)]  # potentials are free up to a constant
    both = sparse.vstack([D, -D]).tocsr()
    return -float(programs.solve(-(p.q - q.q).ravel(), A_ub=both, b_ub=np.tile(length, 2), bounds=bounds).fun)


def cosine_lower_bound(
    p: AnyMeasure, q: AnyMeasure, k: int, *, step: float | None = None, largest: float | None = None
) -> float:
    """Return max_a |φ_p(a) - φ_q(a)| / max(‖a‖_∞, ‖a‖_∞^k) <= d_k, φ the characteristic functions.

    The frequencies a are the multiples of `step` up to `largest` in each coordinate.

    >>> from marginalia.synthesis.chebyshev.measures import Measure
    >>> round(cosine_lower_bound(Measure.of([-0.5, 0.5]), Measure.of([0.0, 0.0]), k=1), 4)
    0.3622
    """
    default_step, default_largest = FREQUENCIES[p.d]
    step, largest = step or default_step, largest or default_largest
    a = step * np.arange(-round(largest / step), round(largest / step) + 1)
    difference = np.abs(p.means(lambda x: np.exp(1j * np.outer(a, x))) - q.means(lambda x: np.exp(1j * np.outer(a, x))))
    size = np.max(np.meshgrid(*(np.abs(a),) * p.d, indexing="ij"), axis=0)
    size[size == 0] = np.inf
    return float((difference / np.maximum(size, size**k)).max())


def moment_distance(p: AnyMeasure, q: AnyMeasure, k: int, *, degree: int | None = None) -> float:
    """Return √C(k,d)·Γ_ρ: what moments up to `degree` add to the bound d_k <= √C(k,d)·Γ_ρ + `tail`.

    >>> from marginalia.synthesis.chebyshev.measures import Measure
    >>> round(moment_distance(Measure.of([-0.5, 0.5]), Measure.of([0.0, 0.0]), k=1), 4)
    0.6289
    """
    M = degree or UPPER_DEGREE[p.d]
    difference = p.means(lambda x: polynomials(x, M)) - q.means(lambda x: polynomials(x, M))
    rho = fejer_korovkin(M)
    for i in range(p.d):
        difference *= rho.reshape([-1 if j == i else 1 for j in range(p.d)])
    gamma = math.sqrt(float((Degrees((M,) * p.d, k).fit_weights * difference**2).sum()))
    return math.sqrt(smoothness_constant(k, p.d)) * gamma
