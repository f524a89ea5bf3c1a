"""What learners without privacy share: they read the rows as they are, weighted if the user says so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight

from marginalia.data.domain import Public
from marginalia.errors import InputError
from marginalia.learning.base import LinearLearner
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import Array
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    from marginalia.learning.base import Given


class PublicLearner(LinearLearner, ABC):
    """A linear model that is fitted to rows, not to a release of them.

    >>> from marginalia.learning import OLSRegressor
    >>> OLSRegressor().fit([[0.0], [0.5], [1.0]], [0.0, 0.5, 1.0]).coef_.round(6)
    array([1.])
    """

    def fit(
        self,
        X: Given,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        domain: Public | None = None,
    ) -> Self:
        """Fit to a table or data frame and its target's name, or to arrays (of two classes for a classifier).

        Parameters
        ----------
        X : Table, DataFrame or array-like of shape (n, p)
        y : array-like of shape (n,) or str, optional
            As for `BudgetedLearner.fit`.
        sample_weight : array-like of shape (n,), optional
            Non-negative.
        domain : Domain, dict or path of a domain file, optional
            Deprecated: a parameter of the constructor.

        Returns
        -------
        self
        """
        rows = self._rows(*self._given(X, y, domain))
        weights = None if sample_weight is None else _checked_weights(sample_weight, rows)
        with one_blas_thread():
            self._learn(rows, weights)
        return self

    @abstractmethod
    def _learn(self, rows: Rows, weights: Array | None) -> None:
        """Set the fitted attributes."""


def _checked_weights(sample_weight: ArrayLike, rows: Rows) -> Array:
    try:
        return _check_sample_weight(sample_weight, rows.y[:, None], dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        raise InputError(str(error).splitlines()[0]) from None
