"""Two kinds of probability measures on the cube: scattered atoms and weights on a product grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginalia.methods.chebyshev.moments import along

Array = NDArray[np.float64]
BLOCK = 4096  # atoms contracted at a time


@dataclass(frozen=True, eq=False)
class Measure:
    """A probability measure with finitely many atoms.

    >>> Measure.of([-0.5, 0.0, 0.5]).means(lambda x: np.stack([x, x**2])).round(3)
    array([0.   , 0.167])
    """

    atoms: Array  # shape (n, d)
    weights: Array  # shape (n,)

    @classmethod
    def of(cls, points: ArrayLike) -> Measure:
        """Return the empirical measure of the rows of `points` (n x d, or n numbers)."""
        x = np.asarray(points, dtype=np.float64)
        x = x[:, None] if x.ndim == 1 else x
        return cls(x, np.full(len(x), 1 / len(x)))

    @property
    def d(self) -> int:
        """Dimension."""
        return int(self.atoms.shape[1])

    def means(self, functions: Callable[[Array], NDArray[Any]]) -> NDArray[Any]:
        """Return E Π_i f_{a_i}(x_i) for all (a_1, …, a_d), shape (p, …, p).

        `functions` maps n numbers to a p x n array, row a holding f_a.
        """
        total: Any = 0.0
        for start in range(0, len(self.atoms), BLOCK):
            block = self.atoms[start : start + BLOCK]
            product = self.weights[None, start : start + BLOCK]
            for x in block.T[:-1]:
                product = (product[:, None, :] * functions(x)[None]).reshape(-1, len(x))
            total = total + product @ functions(block[:, -1]).T
        p = total.shape[1]
        return total.reshape((p,) * self.d)


@dataclass(frozen=True, eq=False)
class GridMeasure:
    """A probability measure on a product grid.

    >>> GridMeasure((np.array([-1.0, 0.0, 1.0]),), np.array([0.5, 0.0, 0.5])).scattered().atoms.ravel()
    array([-1.,  1.])
    """

    axes: tuple[Array, ...]  # nodes of each coordinate
    q: Array  # shape (R_1, …, R_d)

    @property
    def d(self) -> int:
        """Dimension."""
        return len(self.axes)

    def means(self, functions: Callable[[Array], NDArray[Any]]) -> NDArray[Any]:
        """As `Measure.means`."""
        return along(self.q, [functions(x) for x in self.axes])

    def scattered(self) -> Measure:
        """Return the same measure as atoms, empty cells left out."""
        kept = np.nonzero(self.q)
        return Measure(np.stack([x[i] for x, i in zip(self.axes, kept, strict=True)], axis=1), self.q[kept])


AnyMeasure = Measure | GridMeasure
