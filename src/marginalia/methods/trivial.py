"""Predict one number whatever the row: the level that any method must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from marginalia.data.domain import Public
from marginalia.learning.base import LinearClassifier, LinearLearner, LinearRegressor, poor_score
from marginalia.learning.rows import Rows, TableRows

if TYPE_CHECKING:
    from marginalia.learning.base import Given


class _Trivial(LinearLearner):
    SQUARES = False

    def fit(self, X: Given, y: object = None, *, domain: Public | None = None) -> Self:
        """Check the data, learn nothing from them but the mean of a number.

        Parameters
        ----------
        X : Table, DataFrame or array-like of shape (n, p)
        y : array-like of shape (n,) or str, optional
            As for `BudgetedLearner.fit`.
        domain : Domain, dict or path of a domain file, optional
            Deprecated: a parameter of the constructor.

        Returns
        -------
        self
        """
        rows = self._rows(*self._given(X, y, domain))
        self.coef_, self.intercept_ = np.zeros(rows.n_features), self._constant(rows)
        return self

    @staticmethod
    def _constant(rows: Rows) -> float:
        return 0.0

    def __sklearn_tags__(self) -> Any:
        return poor_score(super().__sklearn_tags__())


class TrivialRegressor(_Trivial, LinearRegressor):
    """Predict the mean of the training rows, without privacy.

    The zero of utility, as least squares without privacy is its one: neither depends on epsilon. A private mean would
    be a lower bar, by its noise.

    Parameters
    ----------
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.

    Examples
    --------
    >>> TrivialRegressor().fit([[1.0], [2.0]], [0.5, 0.7]).predict([[3.0]]).round(6)
    array([0.6])
    """

    @staticmethod
    def _constant(rows: Rows) -> float:
        if not isinstance(rows, TableRows):
            return float(rows.y.mean())
        counts = rows.table.counts([rows.encoder.target])
        return float(rows.encoder.matrices[rows.encoder.target][0] @ counts / rows.n_rows)


class TrivialClassifier(_Trivial, LinearClassifier):
    """Score every row 0: AUC 1/2, probability 1/2, class ``classes_[0]``.

    Parameters
    ----------
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.

    Examples
    --------
    >>> TrivialClassifier().fit([[1.0], [2.0]], ["a", "b"]).predict_proba([[3.0]])
    array([[0.5, 0.5]])
    """
