"""AdaSSP: sufficient-statistic perturbation with a ridge chosen from a private smallest eigenvalue."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marginalia.learning.base import LinearRegressor, PrivateLearner, Seed, choose
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import solve
from marginalia.learning.ssp import mirrored, statistic_sensitivities
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import gaussian

_RHO = 0.05  # probability with which the bounds on the noise may fail


class AdaSSPRegressor(PrivateLearner, LinearRegressor):
    """Adaptive sufficient-statistic perturbation (Wang 2018; Ferrando and Sheldon, Algorithm 5).

    Release the smallest eigenvalue of X'X, then X'X and X'y, each with Gaussian noise; add the smallest ridge that
    keeps the noisy system well posed with probability 1 - 0.05.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, one_hot, random_state
        As in `PrivateLearner`.
    target_bound : float, default 1.0
        Arrays only: public bound of |y|; y is clipped to it in `fit`.
    variant : {"code_constants", "paper_constants"}, default "code_constants"
        Which published constants, with ``calibration="published"``: a third of the budget for each release (the
        paper), or 95 % of the last two thirds for X'X and 5 % for X'y (the authors' code). Under "tight" the three
        releases get equal shares of exact Gaussian DP.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    ridge_ : float
        The ridge that was added; released.
    ledger_ : Ledger

    Notes
    -----
    Every column of the domain is kept; the authors' code drops those that are constant in the private rows, which
    costs privacy that nobody accounts for. The published constants are right under ``add_remove`` only.

    Privacy: (epsilon, delta)-DP; three Gaussian events of sensitivity B^2 (eigenvalue), B^2 (X'X) and BY (X'y), times
    1, sqrt(2) and 2 under ``replace_one``.
    """

    VARIANTS: ClassVar[tuple[str, ...]] = ("code_constants", "paper_constants")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        calibration: str = "tight",
        variant: str = "code_constants",
        relation: str = "add_remove",
        feature_bound: float = 1.0,
        target_bound: float = 1.0,
        one_hot: Iterable[str] | None = None,
        random_state: Seed = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            calibration=calibration,
            relation=relation,
            feature_bound=feature_bound,
            one_hot=one_hot,
            random_state=random_state,
        )
        self.variant = variant
        self.target_bound = target_bound

    def _release(self, rows: Rows, ledger: Ledger, rng: np.random.Generator) -> NDArray[np.float64]:
        d, B, Y = rows.n_features, rows.feature_bound, rows.target_bound
        sensitivities = (B**2, *statistic_sensitivities(ledger.relation, B, Y))
        if self.calibration == "tight":
            multiplier = math.sqrt(3) / gdp_mu(self.epsilon, self.delta)
            eig, xx, xy = (multiplier * s for s in sensitivities)
            shift = eig * math.sqrt(2 * math.log(1 / _RHO))
            ceiling = xx * math.sqrt(d * math.log(2 * d**2 / _RHO))
        else:
            eig, xx, xy = (s * unit for s, unit in zip(self._multipliers(), (B**2, B**2, B * Y), strict=True))
            L = math.log(6 / self.delta)
            shift = 3 * L * B**2 / self.epsilon
            ceiling = 3 * math.sqrt(d * L * math.log(2 * d**2 / _RHO)) * B**2 / self.epsilon

        def smallest_eigenvalue() -> float:
            return max(0.0, float(np.linalg.eigvalsh(rows.gram[:d, :d])[0]))

        release = partial(gaussian, ledger=ledger, rng=rng)
        s_eig, s_xx, s_xy = sensitivities
        noisy = release(smallest_eigenvalue, sensitivity=s_eig, sigma=eig, label="smallest eigenvalue")
        self.ridge_ = max(0.0, ceiling - max(0.0, float(noisy) - shift))
        G = mirrored(release(lambda: rows.gram[:d, :d], sensitivity=s_xx, sigma=xx, label="X'X"))
        h = release(lambda: rows.gram[:d, d], sensitivity=s_xy, sigma=xy, label="X'y")
        return solve(G + self.ridge_ * np.eye(d), h)

    def _multipliers(self) -> tuple[float, float, float]:
        """Return the published noise multipliers of the eigenvalue, of X'X and of X'y."""
        third = 3 * math.sqrt(math.log(6 / self.delta)) / self.epsilon
        if self.variant == "paper_constants":
            return third, third, third

        def of_share(share: float) -> float:  # sqrt(ln(2/delta_i))/epsilon_i
            return math.sqrt(math.log(2 / (share * self.delta))) / (share * self.epsilon)

        return third, of_share(0.95 * 2 / 3), of_share(0.05 * 2 / 3)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.positive("target_bound", self.target_bound)
        choose(self, "variant", self.VARIANTS)
