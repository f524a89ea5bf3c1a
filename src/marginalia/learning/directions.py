"""Rows as a direction in whole numbers and a length: what sums of clipped gradients are exact for.

A score is a whole number times a public unit, so it does not depend on which other rows are scored with it; and a sum
of whole multiples of directions is exact in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginalia.learning.rows import Integers
from marginalia.learning.solvers import Array

_BITS = 15  # of a coordinate of a direction
_CLIP_BITS = 20  # of a clipped derivative
_BLOCK = 2**18  # rows: so many products of both stay below 2^53
UNIT = 2.0 ** -(_BITS + _CLIP_BITS)  # of a gradient, in units of its clipping norm


@dataclass(frozen=True)
class Directions:
    """The rows of a matrix, of any length.

    >>> rows = Directions.of(np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> rows.scores(np.array([[1.0], [0.0]])).round(3).tolist(), rows.length.tolist()
    ([[3.0], [0.0]], [5.0, 0.0])
    """

    whole: Array  # (n, p): each row divided by its length, in whole numbers of 2^-15
    length: Array  # (n,)
    limit: Array  # (n,): the largest whole multiple of the row's direction whose norm is within the clipping norm

    @classmethod
    def of(cls, X: Array) -> Directions:
        """Return the directions of the rows of `X`, shape (n, p)."""
        length = np.sqrt(np.einsum("ij,ij->i", X, X))
        scale = np.divide(2.0**_BITS, length, out=np.zeros_like(length), where=length > 0)
        whole = np.rint(np.ascontiguousarray(X) * scale[:, None])
        # The squared norm is exact; the factor makes up for the rounding of its root and of the quotient.
        norm = np.sqrt(np.maximum(np.einsum("ij,ij->i", whole, whole), 1.0))
        return cls(whole, length, np.floor((1 - 2.0**-40) / UNIT / norm))

    def take(self, rows: NDArray[np.intp]) -> Directions:
        """Return the rows with these indices."""
        if rows.size == len(self.whole):
            return self
        return Directions(self.whole.take(rows, axis=0), self.length[rows], self.limit[rows])

    def scores(self, w: Array) -> Array:
        """Return X w of shape (n, m) for weights of shape (p, m), rounded to as many bits as keep the sums exact."""
        bits = 52 - _BITS - math.ceil(math.log2(len(w) + 1))
        unit = math.ldexp(1.0, math.frexp(float(np.abs(w).max(initial=0.0)) or 1.0)[1] - bits)
        return (self.whole @ np.rint(w / unit)) * unit * (self.length * 2.0**-_BITS)[:, None]

    def clipped_sum(self, derivative: Array, clip: Array) -> Integers:
        """Return the sum over the rows of derivative·x, each clipped to the norm `clip`.

        Shape (p, m) for derivatives of shape (n, m) and norms of shape (m,); in whole numbers of clip·`UNIT`.
        """
        multiple = derivative * (self.length[:, None] * 2.0**_CLIP_BITS / clip)
        np.clip(np.rint(multiple), -self.limit[:, None], self.limit[:, None], out=multiple)
        total = np.zeros((self.whole.shape[1], derivative.shape[1]), dtype=np.int64)
        for start in range(0, len(self.whole), _BLOCK):
            block = slice(start, start + _BLOCK)
            total += (self.whole[block].T @ multiple[block]).astype(np.int64)
        return total
