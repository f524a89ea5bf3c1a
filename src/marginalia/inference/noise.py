"""Covariance of the entries of a noisy matrix, held in factors.

The covariance of the p (p + 1) entries of [X'y, X'X] has p² (p + 1)² numbers. It is never built: each entry is a sum of
a few independent numbers, and all that `sets` needs follows from these sums.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Pair = tuple[int, int]


class Noise:
    """Noise A (S + Σ_t e_t T_t) B of a matrix; S is symmetric, and its entries and all e_t are independent and normal.

    Parameters
    ----------
    left : ndarray of shape (p, d)
        A.
    right : ndarray of shape (d, q)
        B.
    pairs : ndarray of shape (d, d)
        Variances of the entries of S.
    terms : sparse array of shape (terms, d d)
        T_t in C order, each times the standard deviation of e_t.

    Examples
    --------
    The noise of X'X with the same variance on and above the diagonal, as `learning.statistics` draws it:

    >>> noise = Noise(np.eye(2), np.eye(2), np.full((2, 2), 9.0))
    >>> noise.variance(np.array([0.5, 2.0])).tolist()
    [[38.25, 9.0], [9.0, 38.25]]
    """

    def __init__(self, left: Array, right: Array, pairs: Array, terms: sparse.csr_array | None = None) -> None:
        d = len(right)
        self.left, self.right, self.pairs = left, right, pairs
        self._flat = sparse.csr_array((0, d * d)) if terms is None else sparse.csr_array(terms)
        self._rows = sparse.csr_array(self._flat.reshape((self._flat.shape[0] * d, d)))
        self._columns = sparse.csr_array(self._flat.T)

    @classmethod
    def of_sums(cls, left: Array, right: Array, sums: Mapping[Pair, Mapping[int, float]], deviations: Array) -> Noise:
        """Return the noise of a symmetric matrix whose entries are combinations of independent noisy sums.

        Parameters
        ----------
        left, right : ndarray
        sums : mapping of (row, column) to mapping of int to float
            Weight of each sum in an entry on or above the diagonal.
        deviations : ndarray
            Standard deviation of each sum.

        Examples
        --------
        >>> shared = {(0, 0): {0: 1.0}, (0, 1): {1: 2.0}, (1, 1): {1: 1.0}}
        >>> Noise.of_sums(np.eye(2), np.eye(2), shared, np.array([3.0, 1.0])).variance(np.array([1.0, 0.0])).tolist()
        [[9.0, 0.0], [0.0, 4.0]]
        """
        d = len(right)
        uses = np.bincount([t for weights in sums.values() for t in weights], minlength=len(deviations))
        pairs, terms = np.zeros((d, d)), Terms(d)
        for (i, j), weights in sums.items():
            own = sum((weight * deviations[t]) ** 2 for t, weight in weights.items() if uses[t] == 1)
            pairs[i, j] = pairs[j, i] = own
            for t, weight in weights.items():
                if uses[t] > 1:
                    terms.add(t, np.array([i]), np.array([j]), np.array([weight * deviations[t]]))
        return cls(left, right, pairs, terms.array(len(deviations)))

    def variance(self, c: Array) -> Array:
        """Return the covariance of the noise times c, shape (..., p, p), for c of shape (..., q)."""
        w = c.reshape(-1, c.shape[-1]) @ self.right.T
        V = self.pairs * (w[:, :, None] * w[:, None, :])
        diagonal = np.arange(w.shape[1])
        V[:, diagonal, diagonal] = (w * w) @ self.pairs
        F = self._times(w)
        V += F.transpose(0, 2, 1) @ F
        return np.asarray((self.left @ V @ self.left.T).reshape(*c.shape[:-1], len(self.left), len(self.left)))

    def covariance(self, x: Array, c: Array) -> Array:
        """Return the covariance of x' noise c and each entry: shape (n, p, q), for n of x (n, p) and c (n, q)."""
        y, w = x @ self.left, c @ self.right.T
        both = y[:, :, None] * w[:, None, :]
        M = self.pairs * (both + both.transpose(0, 2, 1))
        diagonal = np.arange(w.shape[1])
        M[:, diagonal, diagonal] /= 2
        along = (self._times(w) @ y[:, :, None])[:, :, 0]
        M += (self._columns @ (along[0] if len(along) == 1 else along.T)).T.reshape(M.shape)
        return np.asarray(self.left @ M @ self.right)

    def _times(self, w: Array) -> Array:
        """Return T_t w for each of n vectors, shape (n, terms, d)."""
        n, d = w.shape
        product = self._rows @ w[0] if n == 1 else (self._rows @ w.T).T
        return np.asarray(product).reshape(n, self._flat.shape[0], d)


class Terms:
    """Entries of symmetric sparse matrices, as they are collected."""

    def __init__(self, d: int) -> None:
        self._d = d
        self._parts: list[tuple[Array, Array, Array]] = []

    def add(self, term: int, rows: NDArray[np.intp], columns: NDArray[np.intp], values: Array) -> None:
        """Add values to a term at (row, column) and, off the diagonal, at (column, row)."""
        off = rows != columns
        places = np.concatenate([rows * self._d + columns, (columns * self._d + rows)[off]])
        self._parts.append((np.full(len(places), term), places, np.concatenate([values, values[off]])))

    def array(self, count: int) -> sparse.csr_array:
        """Return the first `count` terms as rows; terms without entries are left out."""
        if not self._parts:
            return sparse.csr_array((0, self._d**2))
        term, place, value = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        out = sparse.csr_array((value, (term, place)), shape=(count, self._d**2))
        return out[np.unique(term)]
