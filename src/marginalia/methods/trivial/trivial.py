"""Predict 0 whatever the row: the level that any method must beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from marginalia.data.domain import Public
from marginalia.learning.base import LinearClassifier, LinearLearner, LinearRegressor, poor_score

if TYPE_CHECKING:
    from marginalia.learning.base import Given


class _Trivial(LinearLearner):
    SQUARES = False

    def fit(self, X: Given, y: object, *, domain: Public | None = None) -> Self:
        """Check the data, learn nothing from them."""
        self._rows(self._given(X, y, domain), y)
        self.coef_, self.intercept_ = np.zeros(self.n_features_in_), 0.0
        return self

    def __sklearn_tags__(self) -> Any:
        return poor_score(super().__sklearn_tags__())


class TrivialRegressor(_Trivial, LinearRegressor):
    """Predict 0, the middle of the target's public range.

    >>> TrivialRegressor().fit([[1.0], [2.0]], [0.5, 0.7]).predict([[3.0]])
    array([0.])
    """


class TrivialClassifier(_Trivial, LinearClassifier):
    """Score every row 0: AUC 1/2, probability 1/2, class ``classes_[0]``.

    >>> TrivialClassifier().fit([[1.0], [2.0]], ["a", "b"]).predict_proba([[3.0]])
    array([[0.5, 0.5]])
    """
