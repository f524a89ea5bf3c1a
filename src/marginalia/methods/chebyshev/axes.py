"""The grid of a density, axis by axis: nodes, degree, and how a record is put on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
