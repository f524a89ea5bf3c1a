"""Output perturbation: ridge regression whose coefficients are released with Gaussian noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginalia.learning.base import LinearRegressor, parameters
from marginalia.learning.private import PrivateLearner
from marginalia.learning.rows import Rows
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import gaussian


@parameters
class OutputPerturbationRegressor(LinearRegressor, PrivateLearner):
    """Ridge regression with noise on its coefficients (replace-one).

    >>> OutputPerturbationRegressor(epsilon=2.0).epsilon
    2.0
    """

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_replace_one()

    def _release(self, rows: Rows, ledger: Ledger, rng: np.random.Generator) -> NDArray[np.float64]:
        penalty = 0.1 * len(rows.y)
        gram = rows.gram
        theta = np.linalg.solve(gram[:-1, :-1] + penalty * np.eye(rows.n_features), gram[:-1, -1])
        # |theta| <= B Y n / penalty, and one record moves the gradient by at most 2 B (B |theta| + Y)
        norm = rows.feature_bound * rows.target_bound * len(rows.y) / penalty
        sensitivity = 2 * rows.feature_bound * (rows.feature_bound * norm + rows.target_bound) / penalty
        sigma = gaussian_sigma(self.epsilon, self.delta, sensitivity=sensitivity)
        return gaussian(theta, sensitivity=sensitivity, sigma=sigma, ledger=ledger, rng=rng, label="theta")
