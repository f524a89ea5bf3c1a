"""Chebyshev moments on a product grid, by contractions along one axis at a time.

An axis has nodes and a degree, and says how a record is put on it. The basis is T̄_0 = 1,
T̄_a(x) = √2·cos(a·arccos x) and its products T̄_K, K in {0..m_1} x … x {0..m_d}: orthonormal for the arcsine measure,
|T̄_K| <= 2^(nnz(K)/2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Kind = Literal["gauss", "uniform", "midpoints", "binary"]
_WHOLE = 2.0**30  # a record, in the units in which it is split


@dataclass(frozen=True, eq=False)
class Axis:
    """Nodes of one coordinate in [-1, 1] and the highest degree measured on it.

    >>> Axis.midpoints(4, degree=2).points
    array([-0.75, -0.25,  0.25,  0.75])
    """

    points: Array  # strictly monotone, in either direction
    degree: int  # m_i
    kind: Kind

    @classmethod
    def gauss(cls, degree: int, k: int, *, n_points: int | None = None) -> Axis:
        """Chebyshev–Gauss nodes cos(π(j+½)/R), R = max(⌈2·m^max(1, k/2)⌉, m+1): enough for the paper's rate.

        Records are split between neighbouring nodes so that their mean stays, which errs by O(R⁻²) where rounding
        errs by O(R⁻¹): the paper's rate with the square root of its grid points on each axis.
        """
        R = n_points or max(math.ceil(2 * degree ** max(1.0, k / 2)), degree + 1)
        return cls(np.cos(np.pi * (np.arange(R) + 0.5) / R), degree, "gauss")

    @classmethod
    def uniform(cls, degree: int, k: int) -> Axis:
        """The paper's grid {-1, -1+2m⁻ᵏ, …, 1-2m⁻ᵏ}; records are rounded to it (ties to the lower node)."""
        r = degree**k
        return cls(-1 + 2.0 * np.arange(r) / r, degree, "uniform")

    @classmethod
    def midpoints(cls, size: int, degree: int) -> Axis:
        """The values (2c+1)/L - 1 of a column with L ordered codes: no rounding at all."""
        return cls(code_values(size), degree, "midpoints")

    @classmethod
    def binary(cls) -> Axis:
        """A two-valued column as -1 and +1."""
        return cls(np.array([-1.0, 1.0]), 1, "binary")

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(self.points.size)

    def place(self, x: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
        """Return for every value its two nodes and the mass on the second; values beyond the ends count as the ends.

        The mass is in [0, 1], and zero throughout where records are rounded.
        """
        order = np.argsort(self.points)
        nodes = self.points[order]
        x = np.clip(np.asarray(x, dtype=np.float64), nodes[0], nodes[-1])
        if self.kind == "uniform" or nodes.size == 1:
            nearest = order[np.searchsorted((nodes[1:] + nodes[:-1]) / 2, x, side="left")]
            return nearest, nearest, np.zeros(x.shape)
        j = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, nodes.size - 2)
        return order[j], order[j + 1], (x - nodes[j]) / (nodes[j + 1] - nodes[j])


def code_values(size: int) -> Array:
    """Return the values (2c+1)/L - 1 in (-1, 1) that the codes 0 … L-1 stand for; -1 and +1 when there are two.

    >>> code_values(4)
    array([-0.75, -0.25,  0.25,  0.75])
    """
    return np.array([-1.0, 1.0]) if size == 2 else (2 * np.arange(size) + 1.0) / size - 1


def histogram(axes: Sequence[Axis], points: Array, copies: NDArray[np.int64] | None = None) -> Array:
    """Return the share of the records (n x d) at every cell of the grid, each split over at most 2^d cells.

    Sum 1; private as long as `points` is. `copies`: how often each record stands there. A record is split in whole
    numbers of 2^-30, so that sums over up to 2^23 records, or 2^33 with `copies`, are exact.

    >>> histogram([Axis.midpoints(2, degree=1)], np.array([[-1.0], [-1.0], [1.0], [-1.0]]))
    array([0.75, 0.25])
    """
    shape = tuple(a.size for a in axes)
    corners = [(np.zeros(len(points), dtype=np.intp), np.full(len(points), _WHOLE))]
    for axis, x in zip(axes, points.T, strict=True):
        first, second, share = axis.place(x)
        split = []
        for cell, mass in corners:
            moved = np.rint(mass * share)
            split.append((cell * axis.size + first, mass - moved))
            if moved.any():
                split.append((cell * axis.size + second, moved))
        corners = split
    if copies is not None:
        whole = np.zeros(math.prod(shape), np.int64)
        for cell, mass in corners:
            np.add.at(whole, cell, mass.astype(np.int64) * copies)
        return whole.reshape(shape) / (_WHOLE * int(copies.sum()))
    total = np.zeros(math.prod(shape))
    for cell, mass in corners:
        total += np.bincount(cell, weights=mass, minlength=total.size)
    return total.reshape(shape) / (_WHOLE * len(points))


def polynomials(x: Array, degree: int) -> Array:
    """Return T̄_0 … T̄_degree at `x`, shape (degree + 1, len(x)).

    >>> polynomials(np.array([-1.0, 1.0]), 1).round(3)
    array([[ 1.   ,  1.   ],
           [-1.414,  1.414]])
    """
    values = np.cos(np.outer(np.arange(degree + 1), np.arccos(np.clip(x, -1, 1))))
    values[1:] *= np.sqrt(2)
    return values


def along(tensor: Array, matrices: Sequence[Array]) -> Array:
    """Contract axis i of `tensor` with the rows of ``matrices[i]``: shape (p_1, …, p_d) from matrices p_i x n_i.

    >>> along(np.array([[1.0, 2.0], [3.0, 4.0]]), [np.ones((1, 2)), np.eye(2)])
    array([[4., 6.]])
    """
    for matrix in matrices:  # the leading axis is consumed and reappears last: after d steps the order is restored
        rest = tensor.shape[1:]
        # Two transposed views in one product: np.tensordot would copy the tensor.
        tensor = (tensor.reshape(len(tensor), -1).T @ matrix.T).reshape(*rest, len(matrix))
    return tensor


@dataclass(frozen=True)
class Degrees:
    """The multi-indices {0..m_1} x … x {0..m_d} and what the method weighs them by for smoothness `k`.

    >>> Degrees((2, 1), k=2).noise_weights
    array([[0.  , 1.  ],
           [1.  , 0.5 ],
           [0.25, 0.2 ]])
    """

    degrees: tuple[int, ...]
    k: int

    @property
    def shape(self) -> tuple[int, ...]:
        """(m_1 + 1, …, m_d + 1)."""
        return tuple(m + 1 for m in self.degrees)

    @cached_property
    def support(self) -> Array:
        """nnz(K), the number of non-zero entries."""
        axes = np.meshgrid(*(np.arange(m + 1) for m in self.degrees), indexing="ij", sparse=True)
        return reduce(np.add, [(a > 0).astype(np.float64) for a in axes])

    def power(self, exponent: float) -> Array:
        """‖K‖^exponent in the 2-norm, with 0 at K = 0."""
        axes = np.meshgrid(*(np.arange(m + 1.0) for m in self.degrees), indexing="ij", sparse=True)
        norms = np.sqrt(reduce(np.add, [a**2 for a in axes]))
        norms.flat[0] = 1.0
        result = norms**exponent
        result.flat[0] = 0.0
        return result

    @cached_property
    def noise_weights(self) -> Array:
        """w_K = ‖K‖^(-k): one over the relative noise variance of moment K."""
        return self.power(-self.k)

    @cached_property
    def fit_weights(self) -> Array:
        """ω_K = ‖K‖^(-2k): how much the error of moment K counts in the fit."""
        return self.power(-2 * self.k)

    @property
    def total_weight(self) -> float:
        """S, the sum of w_K."""
        return float(self.noise_weights.sum())


class MomentMap:
    """A: tensors over the grid to their moments, without ever building the matrix.

    >>> MomentMap([Axis.midpoints(3, degree=2)]).apply(np.array([0.5, 0.0, 0.5])).round(3)
    array([ 1.   ,  0.   , -0.157])
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self._rows = [polynomials(a.points, a.degree) for a in self.axes]
        self._columns = [np.ascontiguousarray(c.T) for c in self._rows]
        self.shape = tuple(a.size for a in self.axes)

    @property
    def is_orthogonal(self) -> bool:
        """Whether A Aᵀ is a multiple of the identity: on Gauss nodes with R > m."""
        return all(a.kind == "gauss" for a in self.axes)

    @property
    def n_cells(self) -> int:
        """Number of cells of the grid."""
        return int(np.prod(self.shape, dtype=object))

    def apply(self, z: Array) -> Array:
        """Return the moments Σ_J z_J T̄_K(g_J), shape (m_i + 1)."""
        return along(z, self._rows)

    def adjoint(self, v: Array) -> Array:
        """Return Σ_K v_K T̄_K(g_J), shape (R_i)."""
        return along(v, self._columns)

    @cached_property
    def _cosines(self) -> list[Array]:
        return [np.cos(np.outer(np.arange(2 * a.degree + 1), np.arccos(a.points))) for a in self.axes]

    def gram(self, weights: Array) -> Array:
        """Return A·diag(weights)·Aᵀ, M x M, from the cosine moments up to twice the degree.

        Since T̄_a T̄_b = ½ n_a n_b (cos (a+b)θ + cos |a-b|θ), n_0 = 1 and n_a = √2, every entry is a sum of 2^d entries
        of one table: O(2^d M²) operations instead of O(M² R^d).
        """
        t = along(weights, self._cosines)
        for axis in self.axes:
            a = np.arange(axis.degree + 1)
            n = np.where(a > 0, np.sqrt(2), 1.0)
            shape = (a.size, a.size) + (1,) * (t.ndim - 1)
            # Axis i of the table becomes the pair (a_i, b_i), moved to the end.
            pair = t[np.add.outer(a, a)] + t[np.abs(np.subtract.outer(a, a))]
            pair *= (0.5 * np.outer(n, n)).reshape(shape)
            t = np.moveaxis(pair, (0, 1), (-2, -1)) if t.ndim > 1 else pair
        d = len(self.axes)
        M = int(np.prod([a.degree + 1 for a in self.axes]))
        return t.transpose(*range(0, 2 * d, 2), *range(1, 2 * d, 2)).reshape(M, M)
