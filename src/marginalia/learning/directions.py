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
_LONGEST = 500  # rows of more than 2^500 count as that long, so that no score is 0 times infinity
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
        # Rows are brought to a length near 1 first, so that no square overflows or vanishes.
        exponent = np.clip(np.frexp(np.maximum(X.max(axis=1), -X.min(axis=1)))[1], -1000, 1000)
        scaled = np.ascontiguousarray(X) * np.ldexp(1.0, -exponent)[:, None]
        near = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        scaled *= np.divide(2.0**_BITS, near, out=np.zeros_like(near), where=near > 0)[:, None]
        whole = np.rint(scaled, out=scaled)
        length = np.ldexp(near, np.minimum(exponent, _LONGEST))
        # The squared norm is exact; the factor makes up for the rounding of its root and of the quotient.
        norm = np.sqrt(np.maximum(np.einsum("ij,ij->i", whole, whole), 1.0))
        return cls(whole, length, np.floor((1 - 2.0**-40) / UNIT / norm))

    def take(self, rows: NDArray[np.intp]) -> Directions:
        """Return the rows with these indices."""
        return Directions(self.whole.take(rows, axis=0), self.length[rows], self.limit[rows])

    def scores(self, w: Array) -> Array:
        """Return X w of shape (n, m) for weights of shape (p, m), rounded to as many bits as keep the sums exact."""
        bits = 52 - _BITS - math.ceil(math.log2(len(w) + 1))
        unit = math.ldexp(1.0, math.frexp(float(np.abs(w).max(initial=0.0)) or 1.0)[1] - bits)
        with np.errstate(over="ignore"):
            return (self.whole @ np.rint(w / unit)) * unit * (self.length * 2.0**-_BITS)[:, None]

    def clipped_sum(self, derivative: Array, clip: Array) -> Integers:
        """Return the sum over the rows of derivative·x, each clipped to the norm `clip`.

        Shape (p, m) for derivatives of shape (n, m) and norms of shape (m,); in whole numbers of clip·`UNIT`.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of a long row
            multiple = np.rint(derivative * (self.length[:, None] * 2.0**_CLIP_BITS / clip))
        # Not `clip`, which lets NaN pass (0 times infinity): one record would move the sum by any amount.
        np.fmax(multiple, -self.limit[:, None], out=multiple)
        np.fmin(multiple, self.limit[:, None], out=multiple)
        total = np.zeros((self.whole.shape[1], derivative.shape[1]), dtype=np.int64)
        for start in range(0, len(self.whole), _BLOCK):
            block = slice(start, start + _BLOCK)
            total += (self.whole[block].T @ multiple[block]).astype(np.int64)
        return total
