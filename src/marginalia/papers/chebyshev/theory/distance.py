"""The smooth-query distance d_k(p, q) = sup |∫f dp - ∫f dq| over f with all partials of order 1 … k at most 1.

Exact on the line (from linear programs on a fine grid, with certified ends) and for k = 1 between records and a measure
on a grid; certified upper and lower bounds elsewhere. d_1 is the Wasserstein-1 distance for the l1 metric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from marginalia.errors import InputError
from marginalia.methods.chebyshev.measures import AnyMeasure, GridMeasure
from marginalia.methods.chebyshev.moments import Array, Degrees, polynomials
from marginalia.papers.chebyshev.theory.constants import fejer_korovkin, smoothness_constant
from marginalia.synthesis import programs

UPPER_DEGREE = {1: 256, 2: 512, 3: 64, 4: 16}
FREQUENCIES = {1: (0.25, 60.0), 2: (0.5, 30.0), 3: (1.0, 12.0), 4: (1.0, 6.0)}  # dimension: (step, largest)
SIMPLEX_ATOMS = 5000  # an interior point solves larger transport problems up to five times faster


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

    >>> from marginalia.methods.chebyshev.measures import Measure
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


def earth_mover(p: AnyMeasure, q: GridMeasure) -> float:
    """Return d_1 of any measure `p`, its atoms where they are, and a measure `q` on a product grid, both of mass 1.

    The shortest way in the l1 metric from an atom to any node passes one of the 2^d nodes around the atom and then
    follows grid edges, so the transport problem is a flow on the grid with 2^d arcs more for each atom: a linear
    program, without any rounding of the atoms.

    Parameters
    ----------
    p : Measure or GridMeasure
        Its atoms may lie anywhere, outside the hull of the nodes too.
    q : GridMeasure

    Raises
    ------
    InputError
        When the two have different dimensions.

    >>> from marginalia.methods.chebyshev.measures import Measure
    >>> nodes = (np.array([-1.0, 1.0]),)
    >>> earth_mover(Measure.of([-0.5, 1.0]), GridMeasure(nodes, np.array([0.5, 0.5])))
    0.25
    """
    if p.d != q.d:
        raise InputError(f"the two measures have {p.d} and {q.d} dimensions; they must have the same")
    atoms = p.scattered() if isinstance(p, GridMeasure) else p
    order = [np.argsort(x) for x in q.axes]
    axes = [x[i] for x, i in zip(q.axes, order, strict=True)]
    target = q.q[np.ix_(*order)].ravel()
    x, index = np.unique(atoms.atoms, axis=0, return_inverse=True)
    supply = np.bincount(index.ravel(), weights=atoms.weights)
    node, far = _nodes_around(axes, x)
    a, b, length = _edges(axes)
    record, arc, edge = np.repeat(np.arange(len(x)), node.shape[1]), np.arange(node.size), np.arange(a.size)
    # Columns: atom -> node, then every edge in both directions. Rows: what leaves an atom, what arrives at a node.
    row = np.concatenate([record, len(x) + np.concatenate([node.ravel(), b, a, a, b])])
    column = np.concatenate([arc, arc, node.size + np.concatenate([edge, edge, a.size + edge, a.size + edge])])
    value = np.concatenate([np.ones(2 * arc.size), np.repeat([1.0, -1.0, 1.0, -1.0], a.size)])
    flow = sparse.csr_array((value, (row, column)), (len(x) + target.size, node.size + 2 * a.size))
    # One balance follows from the others.
    solved = programs.solve(
        np.concatenate([far.ravel(), length, length]),
        A_eq=flow[:-1],
        b_eq=np.concatenate([supply, target])[:-1],
        bounds=(0, None),
        method="highs-ipm" if len(x) > SIMPLEX_ATOMS else "highs-ds",
    )
    return float(solved.fun)


def _nodes_around(axes: list[Array], x: Array) -> tuple[NDArray[np.intp], Array]:
    """Return for each point the flat indices of the 2^d nodes around it, and its l1 distances to them."""
    node, far = np.zeros((len(x), 1), dtype=np.intp), np.zeros((len(x), 1))
    for nodes, values in zip(axes, x.T, strict=True):
        above = np.searchsorted(nodes, values, side="right")
        ends = [np.clip(side, 0, nodes.size - 1) for side in (above - 1, above)]
        node = np.concatenate([node * nodes.size + end[:, None] for end in ends], axis=1)
        far = np.concatenate([far + np.abs(values - nodes[end])[:, None] for end in ends], axis=1)
    return node, far


def _edges(axes: list[Array]) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Return the lower ends, upper ends and lengths of the edges between neighbouring nodes of a product grid."""
    index = np.arange(math.prod(x.size for x in axes)).reshape([x.size for x in axes])
    lower, upper, length = [], [], []
    for i, x in enumerate(axes):
        nodes = np.moveaxis(index, i, 0)
        lower.append(nodes[:-1].ravel())
        upper.append(nodes[1:].ravel())
        length.append(np.repeat(np.diff(x), nodes[0].size))
    return np.concatenate(lower), np.concatenate(upper), np.concatenate(length)


def cosine_lower_bound(
    p: AnyMeasure, q: AnyMeasure, k: int, *, step: float | None = None, largest: float | None = None
) -> float:
    """Return max_a |φ_p(a) - φ_q(a)| / max(‖a‖_∞, ‖a‖_∞^k) <= d_k, φ the characteristic functions.

    The frequencies a are the multiples of `step` up to `largest` in each coordinate.

    >>> from marginalia.methods.chebyshev.measures import Measure
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

    >>> from marginalia.methods.chebyshev.measures import Measure
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
