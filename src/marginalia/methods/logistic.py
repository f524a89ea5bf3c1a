"""Logistic regression, without privacy: the line that every private classifier is measured against."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from marginalia.learning.base import LinearClassifier, parameters
from marginalia.learning.public import PublicLearner
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import Array, minimise_logistic


@parameters
class LogisticClassifier(PublicLearner, LinearClassifier):
    """Logistic regression without penalty, converged.

    Newton's method to a gradient of 2-norm at most 1e-6 (sum over the rows). On separable data, where no minimum
    exists, it ends where the gradient has become that small, with finite coefficients. Equal rows of arrays are one row
    of their summed weight, so that neither their order nor their repetition moves a bit.

    Parameters
    ----------
    fit_intercept : bool, default True
        Add a constant column.
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
    >>> model = LogisticClassifier(fit_intercept=False).fit([[1.0], [1.0], [1.0]], ["yes", "yes", "no"])
    >>> model.predict_proba([[1.0]]).round(6)
    array([[0.333333, 0.666667]])
    """

    READS_ROWS = True

    fit_intercept: bool = True

    def _learn(self, rows: Rows, weights: Array | None) -> None:
        X, y = rows.X, rows.y
        if self.encoder_ is None:
            X, y, weights = _distinct(X, y, weights)
        if self.fit_intercept:
            X = np.column_stack([X, np.ones(len(y))])
        minimum = minimise_logistic(X, y, weights=weights, tolerance=1e-6)
        if minimum.gradient_norm > 1e-6:
            warnings.warn(
                f"logistic regression stopped at a gradient of norm {minimum.gradient_norm:.1e}; rescale the features",
                ConvergenceWarning,
                stacklevel=3,
            )
        theta = minimum.theta
        self.coef_, self.intercept_ = theta[: rows.n_features], float(theta[rows.n_features :].sum())
        self.gradient_norm_, self.n_iter_ = minimum.gradient_norm, minimum.n_steps


def _distinct(X: Array, y: Array, weights: Array | None) -> tuple[Array, Array, Array]:
    """Return the distinct rows of some weight, with their labels and summed weights."""
    rows, place = np.unique(np.column_stack([X, y]), axis=0, return_inverse=True)
    summed = np.bincount(place.ravel(), weights, minlength=len(rows)).astype(np.float64)
    kept = summed > 0
    return rows[kept, :-1], rows[kept, -1], summed[kept]
