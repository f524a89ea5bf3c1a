"""Models without privacy: the line that every private method is measured against."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight

from marginalia.data import Table
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, LinearRegressor
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import least_squares, minimise_logistic
from marginalia.threads import one_blas_thread


class OLSRegressor(LinearRegressor):
    """Ordinary least squares; of all minimisers, the one of least norm.

    Parameters
    ----------
    fit_intercept : bool, default False
        Add a constant column. The private methods have none, so neither does their reference.
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float

    Notes
    -----
    The reference (Ferrando and Sheldon) adds 1e-12 to the diagonal of X'X instead; the predictions agree to 1e-9.
    """

    def __init__(self, *, fit_intercept: bool = False, one_hot: Iterable[str] | None = None) -> None:
        self.fit_intercept = fit_intercept
        self.one_hot = one_hot

    def fit(self, X: Table | ArrayLike, y: object, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to a table and its target's name, or to arrays.

        Parameters
        ----------
        X : Table or array-like of shape (n, p)
        y : str or array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Non-negative.

        Returns
        -------
        self
        """
        rows = self._rows(X, y)
        weights = _weights(sample_weight, rows)
        with one_blas_thread():
            gram = self._gram(rows, weights)
            solution = least_squares(gram[:-1, :-1], gram[:-1, -1])
        self.coef_, self.intercept_ = solution[: rows.n_features], float(solution[rows.n_features :].sum())
        return self

    def _gram(self, rows: Rows, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return Z'WZ with the target last, and the constant column before it where there is one."""
        if weights is None and not self.fit_intercept:
            return rows.gram
        constant = [np.ones(len(rows.y))] if self.fit_intercept else []
        Z = np.column_stack([rows.X, *constant, rows.y])
        return Z.T @ Z if weights is None else (Z * weights[:, None]).T @ Z


class LogisticClassifier(LinearClassifier):
    """Logistic regression without penalty and without intercept, converged.

    Newton's method to a gradient of 2-norm at most 1e-6 (sum over the rows). On separable data, where no minimum
    exists, it ends where the gradient has become that small, with finite coefficients.

    Parameters
    ----------
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    classes_ : ndarray of shape (2,)
    gradient_norm_ : float
        2-norm of the gradient where the iteration stopped.
    n_iter_ : int
        Newton steps.
    """

    def __init__(self, *, one_hot: Iterable[str] | None = None) -> None:
        self.one_hot = one_hot

    def fit(self, X: Table | ArrayLike, y: object, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to a table and its target's name, or to arrays with labels of two classes.

        Parameters
        ----------
        X : Table or array-like of shape (n, p)
        y : str or array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Non-negative.

        Returns
        -------
        self
        """
        rows = self._rows(X, y)
        weights = _weights(sample_weight, rows)
        tolerance = 1e-6
        with one_blas_thread():
            minimum = minimise_logistic(rows.X, rows.y, weights=weights, tolerance=tolerance)
        if minimum.gradient_norm > tolerance:
            warnings.warn(
                f"logistic regression stopped at a gradient of norm {minimum.gradient_norm:.1e}; rescale the features",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.coef_, self.intercept_ = minimum.theta, 0.0
        self.gradient_norm_, self.n_iter_ = minimum.gradient_norm, minimum.n_steps
        return self


def _weights(sample_weight: ArrayLike | None, rows: Rows) -> NDArray[np.float64] | None:
    if sample_weight is None:
        return None
    try:
        return _check_sample_weight(sample_weight, rows.y[:, None], dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        raise InputError(str(error).splitlines()[0]) from None
