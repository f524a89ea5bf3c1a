"""Predict 0 whatever the row: the level that any method must beat."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from marginalia.data import Table
from marginalia.learning.base import LinearClassifier, LinearLearner, LinearRegressor, poor_score


class _Trivial(LinearLearner):
    def __init__(self, *, one_hot: Iterable[str] | None = None) -> None:
        self.one_hot = one_hot

    def fit(self, X: Table | ArrayLike, y: object) -> Self:
        """Check the data, learn nothing from them.

        Parameters
        ----------
        X : Table or array-like of shape (n, p)
        y : str or array-like of shape (n,)

        Returns
        -------
        self
        """
        self._rows(X, y)
        self.coef_, self.intercept_ = np.zeros(self.n_features_in_), 0.0
        return self

    def __sklearn_tags__(self) -> Any:
        return poor_score(super().__sklearn_tags__())


class TrivialRegressor(_Trivial, LinearRegressor):
    """Predict 0, the middle of the target's public range.

    Parameters
    ----------
    one_hot : iterable of str, optional
        As for the other learners; without effect on the predictions.
    """


class TrivialClassifier(_Trivial, LinearClassifier):
    """Score every row 0: AUC 1/2, probability 1/2, class ``classes_[0]``.

    Parameters
    ----------
    one_hot : iterable of str, optional
        As for the other learners; without effect on the predictions.
    """
