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
Whole = NDArray[np.intp]
_SPARSE = 4  # pairs of entries for each entry of a matrix, up to which products are made pair by pair


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
        self.terms = sparse.csr_array((0, d * d)) if terms is None else sparse.csr_array(terms)
        of = self.terms.tocoo()
        row, column = np.divmod(of.col.astype(np.intp), d)
        self._place, self._term, self._weight = of.col.astype(np.intp), of.row.astype(np.intp), of.data
        shape = self.terms.shape[0], d
        self._by_rows = _Factor(self._term, row, column, of.data, *shape)
        self._by_columns = _Factor(self._term, column, row, of.data, *shape)
        self._columns = sparse.csr_array(self.terms.T)
        chosen = np.flatnonzero(left.any(axis=0))
        self._chosen: Whole | slice | None = None  # entries of a vector that A chooses
        if left.shape[0] == len(chosen) and np.array_equal(left[:, chosen], np.eye(len(chosen))):
            together = bool(len(chosen)) and chosen[-1] - chosen[0] == len(chosen) - 1
            self._chosen = slice(int(chosen[0]), int(chosen[-1]) + 1) if together else chosen

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
        V = self._of_left(self._square(w, self._by_rows))
        V = self._of_left(V.transpose(0, 2, 1))
        return np.asarray(V.reshape(*c.shape[:-1], len(self.left), len(self.left)))

    def _square(self, w: Array, factor: _Factor) -> Array:
        """Return the covariance of (S + Σ e T) w, shape (n, d, d), for n of w; of the transposed, by another factor."""
        V = (w[:, :, None] * w[:, None, :]) * self.pairs
        _diagonal(V)[:] = (w * w) @ self.pairs
        F = factor.times(w)
        V += factor.products(F, factor, F)
        return V

    def _of_left(self, M: Array) -> Array:
        return self.left @ M if self._chosen is None else M[..., self._chosen, :]

    def covariance(self, x: Array, c: Array) -> Array:
        """Return the covariance of x' noise c and each entry: shape (n, p, q), for n of x (n, p) and c (n, q)."""
        y, w = x @ self.left, c @ self.right.T
        both = y[:, :, None] * w[:, None, :]
        M = self.pairs * (both + both.transpose(0, 2, 1))
        _diagonal(M)[:] /= 2
        along = self._by_rows.along(self._by_rows.times(w), y)
        M += (self._columns @ along.T).T.reshape(M.shape)
        return np.asarray(self._of_left(M) @ self.right)

    def second(self, x: Array, c: Array) -> tuple[Array, Array, Array]:
        """Return what derivatives of x' V(c)⁻¹ x need: three covariances with the row x' noise.

        Parameters
        ----------
        x : ndarray of shape (p,)
        c : ndarray of shape (q,)

        Returns
        -------
        of_entries : ndarray of shape (q,)
            Of x' noise c and each entry of x' noise.
        of_rows : ndarray of shape (p, q)
            That of x' noise c and each entry of the noise (`covariance`), and that of each entry of noise c and each
            entry of x' noise; their sum.
        of_columns : ndarray of shape (q, q)
            Of the entries of x' noise.
        """
        y, w, d = x @ self.left, self.right @ c, len(self.right)
        F, T = self._by_rows.times(w[None]), self._by_columns.times(y[None])
        K = self.pairs * np.multiply.outer(y, w)
        M = K + K.T
        _diagonal(M)[:] /= 2
        _diagonal(K)[:] = self.pairs @ (y * w)
        along = self._by_rows.along(F, y[None])[0]
        M += np.bincount(self._place, self._weight * along[self._term], minlength=d * d).reshape(d, d)
        K += self._by_rows.products(F, self._by_columns, T)[0]
        of_columns = self.right.T @ self._square(y[None], self._by_columns)[0] @ self.right
        return (y @ M) @ self.right, self._of_left(M + K) @ self.right, of_columns


def _diagonal(M: Array) -> Array:
    """Return a view of the diagonals of matrices, shape (..., d)."""
    d = M.shape[-1]
    return M.reshape(*M.shape[:-2], d * d)[..., :: d + 1]


class _Factor:
    """Products T_t w of sparse matrices with vectors: their entries that can differ from 0."""

    def __init__(self, term: Whole, row: Whole, column: Whole, value: Array, terms: int, d: int) -> None:
        order = np.lexsort((row, term))
        place = (term.astype(np.intp) * d + row)[order]
        self._column, self._value, self._terms, self._d = column[order], value[order], terms, d
        self._first = np.flatnonzero(np.diff(place, prepend=-1))
        self.term, self.row = np.divmod(place[self._first], d)
        self._whole: Array | None = None
        if 2 * len(place) > terms * d * d:  # few entries are 0
            self._whole = np.zeros((terms * d, d))
            self._whole[place, self._column] = self._value
            self.term, self.row = np.divmod(np.arange(terms * d), d)
        self._pairs: dict[int, tuple[Whole, Whole, Whole] | None] = {}

    def times(self, w: Array) -> Array:
        """Return the entries for each of n vectors, shape (n, entries)."""
        if self._whole is not None:
            return w @ self._whole.T
        if not len(self._first):
            return np.zeros((len(w), 0))
        return np.add.reduceat(self._value * w[:, self._column], self._first, axis=1)

    def along(self, F: Array, y: Array) -> Array:
        """Return y' T_t w for each of n vectors, shape (n, terms); F: from `times`."""
        parts = F * y[:, self.row]
        sums = [np.bincount(self.term, part, minlength=self._terms) for part in parts]
        return np.array(sums, np.float64).reshape(len(y), self._terms)

    def products(self, F: Array, other: _Factor, G: Array) -> Array:
        """Return the sum over terms of (T_t w) (U_t y)', shape (n, d, d); F and G: from `times`."""
        n, d = len(F), self._d
        pairs = self._pairs_with(other)
        if pairs is None:
            return np.asarray(self._dense(F).transpose(0, 2, 1) @ other._dense(G))
        i, j, place = pairs
        parts = F[:, i] * G[:, j]
        if n == 1:
            return np.asarray(np.bincount(place, parts[0], minlength=d * d), np.float64).reshape(1, d, d)
        sums = [np.bincount(place, part, minlength=d * d) for part in parts]
        return np.array(sums, np.float64).reshape(n, d, d)

    def _dense(self, F: Array) -> Array:
        if self._whole is not None:
            return F.reshape(len(F), self._terms, self._d)
        out = np.zeros((len(F), self._terms, self._d))
        out[:, self.term, self.row] = F
        return out

    def _pairs_with(self, other: _Factor) -> tuple[Whole, Whole, Whole] | None:
        """Return the pairs of entries of the same term, and their places in (d, d); None if there are too many."""
        if id(other) not in self._pairs:
            mine, theirs = (np.bincount(f.term, minlength=self._terms) for f in (self, other))
            found = None
            if mine @ theirs <= _SPARSE * self._d**2:
                first = np.cumsum(theirs) - theirs
                count = theirs[self.term]
                i = np.repeat(np.arange(len(self.term)), count)
                start = np.cumsum(count) - count
                j = np.arange(len(i)) - np.repeat(start, count) + np.repeat(first[self.term], count)
                found = i, j, self.row[i] * self._d + other.row[j]
            self._pairs[id(other)] = found
        return self._pairs[id(other)]


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
