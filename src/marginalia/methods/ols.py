"""Ordinary least squares, without privacy: the line that every private regression is measured against."""

from __future__ import annotations

import numpy as np

from marginalia.learning.base import LinearRegressor, parameters
from marginalia.learning.public import PublicLearner
from marginalia.learning.rows import Rows, TableRows
from marginalia.learning.solvers import Array, least_squares


@parameters
class OLSRegressor(PublicLearner, LinearRegressor):
    """Ordinary least squares; of all minimisers, the one of least norm.

    Parameters
    ----------
    fit_intercept : bool, default True
        Add a constant column.
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.

    Notes
    -----
    The reference (Ferrando and Sheldon) adds 1e-12 to the diagonal of X'X instead; the predictions agree to 1e-9.

    Examples
    --------
    >>> model = OLSRegressor().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    fit_intercept: bool = True

    def _learn(self, rows: Rows, weights: Array | None) -> None:
        gram = self._gram(rows, weights)
        solution = least_squares(gram[:-1, :-1], gram[:-1, -1])
        self.coef_, self.intercept_ = solution[: rows.n_features], float(solution[rows.n_features :].sum())

    def _gram(self, rows: Rows, weights: Array | None) -> Array:
        """Return Z'WZ with the target last, and the constant column before it where there is one."""
        if weights is None and not self.fit_intercept:
            return rows.gram
        if weights is None and isinstance(rows, TableRows):
            return rows.encoder.gram_with_constant(rows.table)
        constant = [np.ones(len(rows.y))] if self.fit_intercept else []
        Z = np.column_stack([rows.X, *constant, rows.y])
        return Z.T @ Z if weights is None else (Z * weights[:, None]).T @ Z
