"""How well any private method can do: Theorem 2 of Ding, He and Zhu with every constant worked out.

For every (ε, δ)-DP method that releases a measure, and for some table of n records, the expected d_k between the two is
at least `lower_bound`. Two families of tables are used, both with the paper's bound on how far h changed records move
the distribution of an output (Lemmas 4 and 5):

- *cells*, the paper's Construction 1 with the Assouad inequality (Lemma 7): the cube is cut into m^d cells of side
  r = 2/m, and in each of them h records either stay on its face or move to its centre. The paper's constant is unknown,
  since its bump is any smooth one; here the bump is a product of perfect splines, which has the largest height that a
  bump of one variable can have, and the paper's condition r <= 1 is not needed.
- *two points* (Le Cam's inequality): h records lie at the corner (-1, …, -1) or at (1, …, 1). The query Σ x_i belongs
  to every F_k and tells them apart by 2d.

The first decides for k < d; the second is larger for k >= d, where it carries the factor d that Theorem 2 has not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from marginalia.methods.chebyshev.measures import GridMeasure
from marginalia.methods.chebyshev.moments import Array, along

_FINE = 1 << 15  # intervals on which the derivatives of the bump are searched
_MOVED = 8.0  # times 1/ε: more moved records than that only lose


@dataclass(frozen=True)
class LowerBound:
    """A lower bound on the expected d_k of every private method, and the tables that prove it.

    Attributes
    ----------
    value : float
    family : {"cells", "two points"}
    m : int
        Cells an axis; 1 for two points.
    moved : int
        Records h that move in a cell, or from one corner to the other.

    >>> LowerBound(0.1, "cells", 4, 1).value
    0.1
    """

    value: float
    family: str
    m: int
    moved: int


def spline(x: ArrayLike, k: int, order: int = 0) -> Array:
    """Return a derivative of the bump of one variable: the perfect spline of degree k on [-½, ½], 1 at its middle.

    Its k-th derivative is ±c with jumps at the k zeros of the Chebyshev polynomial U_k(2x), which makes it orthogonal
    to all polynomials below degree k: the spline and its derivatives below the k-th vanish at both ends. `order` runs
    from 0 to k.

    >>> spline([-0.5, -0.25, 0.0, 0.5], k=2)
    array([0. , 0.5, 1. , 0. ])
    >>> round(float(abs(spline(0.1, k=2, order=2))), 6)
    16.0
    """
    return _spline(np.asarray(x, dtype=np.float64), k, order) / _spline(np.zeros(()), k, 0)


def _knots(k: int) -> Array:
    return -0.5 * np.cos(np.pi * np.arange(k + 2) / (k + 1))


def _spline(x: Array, k: int, order: int) -> Array:
    jumps = np.array([1.0, *(2.0 * (-1.0) ** j for j in range(1, k + 1)), (-1.0) ** (k + 1)])
    beyond = x[..., None] - _knots(k)
    power = np.where(beyond > 0, np.abs(beyond) ** (k - order), 0.0)
    value: Array = (jumps * power).sum(axis=-1) / math.factorial(k - order)
    return np.where(np.abs(x) >= 0.5, 0.0, value)


@lru_cache(maxsize=64)
def steepest(k: int, order: int) -> float:
    """Return an upper bound on the derivative of `spline` of an order up to k; exact for orders k and k - 1.

    Order k - 1 is piecewise linear, so its largest value is at a knot. Below: the largest value on a fine lattice, plus
    what the next derivative allows between its points.

    >>> round(steepest(2, 2), 6), round(steepest(1, 1), 6)
    (16.0, 2.0)
    """
    if order == 0:
        return 1.0
    if order == k:
        return 1 / float(_spline(np.zeros(()), k, 0))
    if order == k - 1:
        return float(np.abs(spline(_knots(k), k, order)).max())
    x = (np.arange(_FINE + 1) / _FINE) - 0.5
    return float(np.abs(spline(x, k, order)).max()) + steepest(k, order + 1) / (2 * _FINE)


def bump_height(side: float, k: int, d: int) -> float:
    """Return the height A such that A·Π φ(x_i/side), φ the `spline`, is in F_k: all partials of order 1 … k at most 1.

    It is side^k/c with c = 2, 16, 163.9 for k = 1, 2, 3, the same for every d: the mixed derivatives are smaller.

    >>> [round(bump_height(0.5, k, d=2) / 0.5**k, 6) for k in (1, 2, 3)]
    [0.5, 0.0625, 0.006102]
    """
    return min(side**order / _steepest_product(k, order, order, d) for order in range(1, k + 1))


def _steepest_product(k: int, left: int, largest: int, parts: int) -> float:
    """Return the largest product of `steepest` over partitions of `left` into at most `parts` orders <= `largest`."""
    if left == 0:
        return 1.0
    if parts == 0:
        return 0.0
    return max(
        steepest(k, first) * _steepest_product(k, left - first, first, parts - 1)
        for first in range(min(left, largest), 0, -1)
    )


def indistinguishable(epsilon: float, delta: float, changed: ArrayLike) -> Array:
    """Return 1 - v, v the paper's bound on the total variation between the outputs on tables with h changed records.

    v = tanh(εh/2)·(1 + 2δ/(e^ε - 1)) (Lemma 5); at least 0.

    >>> float(indistinguishable(1.0, 0.0, 1).round(4))
    0.5379
    """
    v = np.tanh(epsilon * np.asarray(changed, dtype=np.float64) / 2) * (1 + 2 * delta / math.expm1(epsilon))
    return np.maximum(0.0, 1 - v)


def lower_bound(n: int, epsilon: float, delta: float, *, k: int, d: int, family: str | None = None) -> LowerBound:
    """Return the largest lower bound on sup E d_k that the two families give (Ding, He and Zhu, Theorem 2).

    *cells*: Σ over the m^d cells of ½·(1 - v(h))·(h/n)·A, A the `bump_height` for the side 2/m, with m^d·h <= n;
    *two points*: ½·(1 - v(h))·(h/n)·2d. Both are maximised over m and h.

    Parameters
    ----------
    n : int
        Number of records, public.
    epsilon, delta : float
    k, d : int
        Smoothness and dimension, at least 1.
    family : {"cells", "two points"} or None
        None: the better one. Fewer than 2^d records make no cells.

    >>> lower_bound(10_000, 1.0, 1e-6, k=1, d=2)
    LowerBound(value=0.002689..., family='cells', m=100, moved=1)
    >>> lower_bound(10_000, 1.0, 1e-6, k=3, d=2).family
    'two points'
    """
    moved = np.arange(1, max(1, min(n, math.ceil(_MOVED / epsilon))) + 1)
    gain = indistinguishable(epsilon, delta, moved) * moved / (2 * n)
    found = []
    if family != "cells" or n < 2**d:
        best = int(gain.argmax())
        found.append(LowerBound(2 * d * float(gain[best]), "two points", 1, int(moved[best])))
    if family != "two points":
        running = np.maximum.accumulate(gain)
        for m in range(2, (math.floor(n ** (1 / d) * (1 + 1e-12)) if k < d else 2) + 1):  # k >= d: more cells only lose
            if m**d > n:
                break
            most = min(n // m**d, moved.size)
            h = int(np.searchsorted(running, running[most - 1])) + 1
            value = m**d * float(gain[h - 1]) * bump_height(2 / m, k, d)
            found.append(LowerBound(value, "cells", m, h))
    return max(found, key=lambda bound: bound.value)


def hard_records(n: int, m: int, moved: int, moves: Array) -> Array:
    """Return the records of Construction 1, shape (n, d): `moved` of those of a cell at its centre where `moves` is 1.

    The others lie in the middle of its left face, where the bump is 0. The paper has it the other way round: 0 at the
    centre and the top a little aside. `moves` has shape (m, …, m); the n records are spread evenly over the cells.

    >>> hard_records(4, 2, 1, np.array([0, 1])).ravel()
    array([-1. , -1. ,  0.5,  0. ])
    """
    centres = -1 + (2 * np.indices(moves.shape).reshape(moves.ndim, -1).T + 1.0) / m
    face = centres.copy()
    face[:, 0] -= 1 / m
    counts = np.full(len(centres), n // len(centres))
    counts[: n % len(centres)] += 1
    blocks = []
    for cell, (count, is_moved) in enumerate(zip(counts, moves.ravel(), strict=True)):
        h = moved if is_moved else 0
        blocks += [np.repeat(centres[cell : cell + 1], h, axis=0), np.repeat(face[cell : cell + 1], count - h, axis=0)]
    return np.concatenate(blocks)


def witness(q: GridMeasure, moves: Array, share: float, k: int) -> float:
    """Return Σ_t |∫ f_t d(p - q)| over the bumps f_t of all cells: what Lemma 7 bounds from below, itself at most d_k.

    p are the `hard_records` with these `moves`; `share` is the number of moved records of a cell over n.

    >>> q = GridMeasure((np.array([-1.0, -0.5, 0.5]),), np.array([1.0, 0.0, 0.0]))
    >>> round(witness(q, np.array([0, 1]), share=0.25, k=1), 6)  # a quarter of the records, a bump of height ½
    0.125
    """
    m, d = len(moves), moves.ndim
    centres = -1 + (2 * np.arange(m) + 1.0) / m
    answers = along(q.q, [spline((x[None] - centres[:, None]) * m / 2, k) for x in q.axes])
    return bump_height(2 / m, k, d) * float(np.abs(share * moves - answers).sum())
