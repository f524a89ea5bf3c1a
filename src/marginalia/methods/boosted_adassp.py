"""Boosted AdaSSP: gradient boosting of AdaSSP, whose X'X is released once and whose X'r in each round."""

from __future__ import annotations

import math

import numpy as np

from marginalia.learning.base import LinearRegressor, parameters
from marginalia.learning.private import InterceptLearner
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import Array
from marginalia.learning.statistics import ClippedResiduals, mirrored, smallest_eigenvalue, statistic_sensitivities
from marginalia.privacy import checks
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.session import Session

_QUANTILE = 1.96  # standard deviations, by which the eigenvalue is taken to be lower, and the noise of X'X larger


@parameters
class BoostedAdaSSPRegressor(InterceptLearner, LinearRegressor):
    """Boosted AdaSSP (Tang, Aydore, Kearns, Rho, Roth, Wang, Wang and Wu 2024).

    Release the smallest eigenvalue of X'X and X'X with Gaussian noise, and add AdaSSP's ridge. In each round release
    X'r, r the residuals clipped to the target's bound, and add the solution of the noisy system to the coefficients.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, fit_intercept, one_hot, random_state
        As in `InterceptLearner`.
    target_bound : float, default 1.0
        Arrays only: public bound of |y|; y is clipped to it in `fit`, and residuals in each round.
    rounds : int, default 100
        Number of boosting rounds (the default of the authors' code).

    Attributes
    ----------
    ridge_ : float
        The ridge that was added; released.

    Notes
    -----
    All ``rounds + 2`` releases have one noise multiplier, by exact Gaussian DP, so X'X gets 1/(rounds + 2) of the
    squared budget. ``calibration="published"`` is the noise of the authors' code, right under ``add_remove`` only;
    "tight" takes the sensitivities of the relation. The ridge is that of the authors' code,
    ``max(0, 1.96 s sqrt(p) - max(0, l - 1.96 t))``, with s the standard deviation of the noise of X'X, and l and t the
    eigenvalue and its noise. Every round counts in full (their shrinkage "constant").

    Privacy: (epsilon, delta)-DP; Gaussian events of sensitivity B² (eigenvalue and X'X) and a run of sensitivity BY,
    times 1, sqrt(2) and 2 under ``replace_one``, and times k for units of up to k rows.

    Examples
    --------
    >>> model = BoostedAdaSSPRegressor(random_state=0).fit([[0.5], [-0.5]] * 5000, [1.0, -1.0] * 5000)
    >>> model.coef_.round(1), model.ledger_.certified
    (array([2.]), True)
    """

    UNITS = True

    target_bound: float = 1.0
    rounds: int = 100

    def _solve(self, rows: Rows, session: Session) -> Array:
        p, B, Y = rows.n_features, rows.feature_bound, rows.target_bound
        epsilon, delta = session.ledger.remaining_budget()
        residuals = ClippedResiduals.of(rows)
        gram, unit, _ = rows.whole_gram()
        gram = gram[:p, :p]
        least = smallest_eigenvalue(gram, unit, B, rows, session)
        xx, xy = statistic_sensitivities(session.neighbours, B, Y)
        multiplier = gaussian_sigma(epsilon, delta, releases=self.rounds + 2)
        bounds = (least.sensitivity, xx, xy) if self.calibration == "tight" else (B**2, B**2, B * Y)
        eig, noise_xx, noise_xy = (multiplier * bound for bound in bounds)

        noisy = session.gaussian(
            least.value, quantum=least.quantum, sensitivity=least.sensitivity, sigma=eig, label="smallest eigenvalue"
        )
        moment = mirrored(session.gaussian(gram, quantum=unit**2, sensitivity=xx, sigma=noise_xx, label="X'X"))
        lowest = float(noisy) - _QUANTILE * eig
        self.ridge_ = max(0.0, _QUANTILE * math.sqrt(p) * noise_xx - max(0.0, lowest))
        product = session.gaussian_run(
            residuals.products,
            quantum=residuals.quantum,
            sensitivity=xy,
            sigma=noise_xy,
            steps=self.rounds,
            label="X'r",
        )
        system, theta = moment + self.ridge_ * np.eye(p), np.zeros(p)
        for _ in range(self.rounds):
            theta = theta + np.linalg.solve(system, product(theta))
        return theta

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.count("rounds", self.rounds)
