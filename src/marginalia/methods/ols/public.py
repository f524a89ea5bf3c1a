"""Models without privacy: the line that every private method is measured against."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight

from marginalia.data.domain import Public
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, LinearLearner, LinearRegressor, parameters
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import Array, least_squares, minimise_logistic
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    from marginalia.learning.base import Given


class _Public(LinearLearner, ABC):
    def fit(
        self,
        X: Given,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        domain: Public | None = None,
    ) -> Self:
        """Fit to a table or data frame and its target's name, or to arrays (of two classes for a classifier).

        Parameters
        ----------
        X : Table, DataFrame or array-like of shape (n, p)
        y : str or array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Non-negative.
        domain : Domain, dict or path of a domain file, optional
            Of a raw data frame.

        Returns
        -------
        self
        """
        rows = self._rows(self._given(X, y, domain), y)
        weights = None if sample_weight is None else _checked_weights(sample_weight, rows)
        with one_blas_thread():
            self._learn(rows, weights)
        return self

    @abstractmethod
    def _learn(self, rows: Rows, weights: Array | None) -> None:
        """Set the fitted attributes."""


@parameters
class OLSRegressor(_Public, LinearRegressor):
    """Ordinary least squares; of all minimisers, the one of least norm.

    Parameters
    ----------
    fit_intercept : bool, default False
        Add a constant column. The private methods have none, so neither does their reference.
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.

    Notes
    -----
    The reference (Ferrando and Sheldon) adds 1e-12 to the diagonal of X'X instead; the predictions agree to 1e-9.

    Examples
    --------
    >>> model = OLSRegressor(fit_intercept=True).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.coef_.round(6), round(model.intercept_, 6)
    (array([2.]), 1.0)
    """

    fit_intercept: bool = False

    def _learn(self, rows: Rows, weights: Array | None) -> None:
        gram = self._gram(rows, weights)
        solution = least_squares(gram[:-1, :-1], gram[:-1, -1])
        self.coef_, self.intercept_ = solution[: rows.n_features], float(solution[rows.n_features :].sum())

    def _gram(self, rows: Rows, weights: Array | None) -> Array:
        """Return Z'WZ with the target last, and the constant column before it where there is one."""
        if weights is None and not self.fit_intercept:
            return rows.gram
        constant = [np.ones(len(rows.y))] if self.fit_intercept else []
        Z = np.column_stack([rows.X, *constant, rows.y])
        return Z.T @ Z if weights is None else (Z * weights[:, None]).T @ Z


class LogisticClassifier(_Public, LinearClassifier):
    """Logistic regression without penalty and without intercept, converged.

    Newton's method to a gradient of 2-norm at most 1e-6 (sum over the rows). On separable data, where no minimum
    exists, it ends where the gradient has become that small, with finite coefficients.

    Parameters
    ----------
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.

    Attributes
    ----------
    gradient_norm_ : float
        2-norm of the gradient where the iteration stopped.
    n_iter_ : int
        Newton steps.

    Examples
    --------
    >>> model = LogisticClassifier().fit([[1.0], [1.0], [1.0]], ["yes", "yes", "no"])
    >>> model.predict_proba([[1.0]]).round(6)
    array([[0.333333, 0.666667]])
    """

    READS_ROWS = True

    def _learn(self, rows: Rows, weights: Array | None) -> None:
        minimum = minimise_logistic(rows.X, rows.y, weights=weights, tolerance=1e-6)
        if minimum.gradient_norm > 1e-6:
            warnings.warn(
                f"logistic regression stopped at a gradient of norm {minimum.gradient_norm:.1e}; rescale the features",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.coef_, self.intercept_ = minimum.theta, 0.0
        self.gradient_norm_, self.n_iter_ = minimum.gradient_norm, minimum.n_steps


def _checked_weights(sample_weight: ArrayLike, rows: Rows) -> Array:
    try:
        return _check_sample_weight(sample_weight, rows.y[:, None], dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        raise InputError(str(error).splitlines()[0]) from None
