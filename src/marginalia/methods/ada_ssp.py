"""AdaSSP: sufficient-statistic perturbation with a ridge chosen from a private smallest eigenvalue."""

from __future__ import annotations

import math

import numpy as np

from marginalia.learning.base import LinearRegressor, parameters
from marginalia.learning.private import InterceptLearner
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import Array
from marginalia.learning.statistics import NoisySums, release_apart, smallest_eigenvalue, statistic_sensitivities
from marginalia.privacy.calibration import gaussian_sigma, gdp_mu
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.session import Session

_RHO = 0.05  # probability with which the bounds on the noise may fail


@parameters
class AdaSSPRegressor(InterceptLearner, LinearRegressor):
    """Adaptive sufficient-statistic perturbation (Wang 2018; Ferrando and Sheldon, Algorithm 5).

    Release the smallest eigenvalue of X'X, then X'X and X'y, each with Gaussian noise; add the smallest ridge that
    keeps the noisy system well posed with probability 1 - 0.05.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, fit_intercept, one_hot, random_state
        As in `InterceptLearner`.
    target_bound : float, default 1.0
        Arrays only: public bound of |y|; y is clipped to it in `fit`.
    variant : {"code_constants", "paper_constants", "exact_thirds"}, default "code_constants"
        Which published constants, with ``calibration="published"``: a third of the budget for each release (the
        paper), or 95 % of the last two thirds for X'X and 5 % for X'y (the authors' code). "exact_thirds" is the
        baseline of Lev et al. (2026): exact noise at (epsilon/3, delta/3) for each release, and the eigenvalue less
        the variance of its noise. Under "tight" the three releases get equal shares of exact Gaussian DP.

    Attributes
    ----------
    ridge_ : float
        The ridge that was added; released.

    Notes
    -----
    Every column of the domain is kept; the authors' code drops those that are constant in the private rows, which
    costs privacy that nobody accounts for. The published constants are right under ``add_remove`` only. Under
    ``add_remove`` the eigenvalue of more than 2^23 rows counts as 0, which makes the ridge larger.

    Privacy: (epsilon, delta)-DP; three Gaussian events of sensitivity B^2 (eigenvalue), B^2 (X'X) and BY (X'y), times
    1, sqrt(2) and 2 under ``replace_one``, and times k for units of up to k rows.

    Examples
    --------
    >>> model = AdaSSPRegressor(random_state=0).fit([[0.5], [-0.5]] * 5000, [1.0, -1.0] * 5000)
    >>> model.coef_.round(1), model.ridge_ > 0
    (array([2.]), False)
    """

    UNITS = True
    VARIANTS = ("code_constants", "paper_constants", "exact_thirds")

    target_bound: float = 1.0
    variant: str = "code_constants"

    def _solve(self, rows: Rows, session: Session) -> Array:
        d, B, Y = rows.n_features, rows.feature_bound, rows.target_bound
        epsilon, delta = session.ledger.remaining_budget()
        gram, x_unit, _ = whole = rows.whole_gram()
        least = smallest_eigenvalue(gram[:d, :d], x_unit, B, rows, session)
        if self.calibration == "tight":
            multiplier = math.sqrt(3) / gdp_mu(epsilon, delta)
            eig, xx, xy = (
                multiplier * s for s in (least.sensitivity, *statistic_sensitivities(session.neighbours, B, Y))
            )
            shift = eig * math.sqrt(2 * math.log(1 / _RHO))
            ceiling = xx * math.sqrt(d * math.log(2 * d**2 / _RHO))
        else:
            eig, xx, xy = (
                s * bound for s, bound in zip(self._multipliers(epsilon, delta), (B**2, B**2, B * Y), strict=True)
            )
            if self.variant == "exact_thirds":
                shift = eig**2 / B**2
                ceiling = eig * math.sqrt(d * math.log(20 * d**2 / delta))
            else:
                L = math.log(6 / delta)
                shift = 3 * L * B**2 / epsilon
                ceiling = 3 * math.sqrt(d * L * math.log(2 * d**2 / _RHO)) * B**2 / epsilon

        noisy = session.gaussian(
            least.value, quantum=least.quantum, sensitivity=least.sensitivity, sigma=eig, label="smallest eigenvalue"
        )
        self.ridge_ = max(0.0, ceiling - max(0.0, float(noisy) - shift))
        G, h, kept = release_apart(rows, whole, xx, xy, session=session)
        drawn = actual_sigma(eig, least.sensitivity, 1, quantum=least.quantum)
        self.measurements_ = [NoisySums("smallest eigenvalue", noisy, eig, drawn), *kept]
        return np.asarray(np.linalg.solve(G + self.ridge_ * np.eye(d), h), dtype=np.float64)

    def _multipliers(self, epsilon: float, delta: float) -> tuple[float, float, float]:
        """Return the published noise multipliers of the eigenvalue, of X'X and of X'y."""
        if self.variant == "exact_thirds":
            exact = gaussian_sigma(epsilon / 3, delta / 3)
            return exact, exact, exact
        third = 3 * math.sqrt(math.log(6 / delta)) / epsilon
        if self.variant == "paper_constants":
            return third, third, third

        def of_share(share: float) -> float:  # sqrt(ln(2/delta_i))/epsilon_i
            return math.sqrt(math.log(2 / (share * delta))) / (share * epsilon)

        return third, of_share(0.95 * 2 / 3), of_share(0.05 * 2 / 3)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._choose("variant", self.VARIANTS)
