"""Sufficient-statistic perturbation: add noise to X'X and X'y, then solve."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from marginalia.learning.base import LinearClassifier, LinearRegressor, PrivateLearner, Seed
from marginalia.learning.chebyshev import logistic_scale
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import least_squares, solve
from marginalia.privacy import checks
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.additive import gaussian
from marginalia.privacy.relation import Relation


def joint_sensitivity(relation: Relation, B: float, Y: float, coordinate_bound: float) -> float:
    """Return the L2 sensitivity of (X'X with each off-diagonal entry once, X'y) taken together.

    One record x, y moves them by S^2 = (|x|^4 + sum_i x_i^4)/2 + y^2 |x|^2 <= (B^4 + c^2 B^2)/2 + B^2 Y^2, with
    |x| <= B, |x_i| <= c, |y| <= Y. Replacing x by x' adds at most -2<.,.> <= -t^2 + 2 Y^2 |t| <= Y^4 to twice that,
    t = x.x'.

    Parameters
    ----------
    relation : Relation
    B, Y, coordinate_bound : float
        Public bounds of the 2-norm of x, of |y| and of every |x_i|.
    """
    squared = (B**4 + coordinate_bound**2 * B**2) / 2 + B**2 * Y**2
    return math.sqrt(squared if relation is Relation.ADD_REMOVE else 2 * squared + Y**4)


@lru_cache(maxsize=64)
def noise_norm(p: int) -> float:
    """Return kappa, the typical spectral norm of a symmetric p x p matrix of unit noise (mean of five fixed draws)."""
    return float(np.mean([np.linalg.norm(_unit_noise(p, seed), 2) for seed in range(5)]))


def _unit_noise(p: int, seed: int) -> NDArray[np.float64]:
    return mirrored(np.random.default_rng(seed).standard_normal((p + 1, p + 1)))[:p, :p]


def mirrored(square: NDArray[np.float64]) -> NDArray[np.float64]:
    """Copy the upper triangle onto the lower."""
    return np.triu(square) + np.triu(square, 1).T


class _SSP(PrivateLearner):
    def _release(self, rows: Rows, ledger: Ledger, rng: np.random.Generator) -> NDArray[np.float64]:
        release = self._release_tight if self.calibration == "tight" else self._release_published
        return release(rows, ledger, rng)

    def _release_tight(self, rows: Rows, ledger: Ledger, rng: np.random.Generator) -> NDArray[np.float64]:
        p = rows.n_features
        S = joint_sensitivity(ledger.relation, rows.feature_bound, rows.target_bound, rows.coordinate_bound)
        sigma = gaussian_sigma(self.epsilon, self.delta, sensitivity=S)

        def statistics() -> NDArray[np.float64]:
            upper = np.triu(rows.gram)  # each entry once; the entries set to 0 tell nothing
            upper[p, p] = 0.0
            return upper

        noisy = mirrored(gaussian(statistics, sensitivity=S, sigma=sigma, ledger=ledger, rng=rng, label="X'X, X'y"))
        return least_squares(noisy[:p, :p], noisy[:p, p], ridge=noise_norm(p) * sigma)

    def _release_published(self, rows: Rows, ledger: Ledger, rng: np.random.Generator) -> NDArray[np.float64]:
        p, B, Y = rows.n_features, rows.feature_bound, rows.target_bound
        multiplier = math.sqrt(math.log(1.25 / self.delta)) / self.epsilon
        xx, xy = statistic_sensitivities(ledger.relation, B, Y)
        release = partial(gaussian, ledger=ledger, rng=rng)
        G = mirrored(release(lambda: rows.gram[:p, :p], sensitivity=xx, sigma=multiplier * B**2, label="X'X"))
        h = release(lambda: rows.gram[:p, p], sensitivity=xy, sigma=multiplier * B * Y, label="X'y")
        if np.linalg.eigvalsh(G)[0] <= 0:
            warnings.warn("the noisy X'X is indefinite: plain SSP has no minimum there", UserWarning, stacklevel=4)
        return solve(G, h)


def statistic_sensitivities(relation: Relation, B: float, Y: float) -> tuple[float, float]:
    """Return the L2 sensitivities of the full matrix X'X (Frobenius) and of X'y, released apart.

    B^2 and BY for one record more; sqrt(2) B^2 (two outer products have a non-negative inner product) and 2BY for
    one replaced.
    """
    return (B**2, B * Y) if relation is Relation.ADD_REMOVE else (math.sqrt(2) * B**2, 2 * B * Y)


class SSPRegressor(_SSP, LinearRegressor):
    """Least squares from noisy sufficient statistics.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, one_hot, random_state
        As in `PrivateLearner`.
    target_bound : float, default 1.0
        Arrays only: public bound of |y|; y is clipped to it in `fit`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    ledger_ : Ledger

    Notes
    -----
    ``calibration="tight"`` (ours): one Gaussian release of the upper triangle of X'X and of X'y together, at their
    joint sensitivity and the smallest noise that exact Gaussian DP allows; negative eigenvalues of the noisy X'X
    count as 0, and a ridge of the noise's typical spectral norm keeps the solution from following it.

    ``calibration="published"`` (Ferrando and Sheldon, section 2.2): two releases, each with the whole budget and
    without the classical factor sqrt(2), and no ridge. The two together overspend, which the ledger says.

    Privacy: (epsilon, delta)-DP; Gaussian events only.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        calibration: str = "tight",
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
        self.target_bound = target_bound

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.positive("target_bound", self.target_bound)


class SSPClassifier(_SSP, LinearClassifier):
    """Least squares on -1/+1 labels from noisy sufficient statistics; see `SSPRegressor`.

    The coefficients carry the factor that makes least squares the minimiser of the quadratic logistic loss of
    `DDSSPClassifier`, so `predict_proba` gives probabilities; ranking and classes do not depend on it.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, one_hot, random_state
        As in `PrivateLearner`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    classes_ : ndarray of shape (2,)
    ledger_ : Ledger
    """

    def _release(self, rows: Rows, ledger: Ledger, rng: np.random.Generator) -> NDArray[np.float64]:
        return logistic_scale() * super()._release(rows, ledger, rng)
