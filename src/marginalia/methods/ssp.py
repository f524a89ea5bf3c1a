"""Sufficient-statistic perturbation: add noise to X'X and X'y, then solve."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import ClassVar

import numpy as np

from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, LinearRegressor, parameters
from marginalia.learning.private import InterceptLearner
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import Array, least_squares
from marginalia.learning.statistics import NoisySums, logistic_scale, mirrored, one_against_rest, release_apart
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.relation import Neighbours
from marginalia.privacy.session import Session

_MOST_APART = 2.0**9  # the units of X and y: sums below 2^53 then stay below 2^63 in a common unit


def _joint_sensitivity(neighbours: Neighbours, B: float, Y: float, coordinate_bound: float) -> float:
    """Return the L2 sensitivity of (X'X with each off-diagonal entry once, X'y) taken together.

    One record x, y moves them by S^2 = (|x|^4 + sum_i x_i^4)/2 + y^2 |x|^2 <= (B^4 + c^2 B^2)/2 + B^2 Y^2, with
    |x| <= B, |x_i| <= c, |y| <= Y. Replacing x by x' adds at most -2<.,.> <= -t^2 + 2 Y^2 |t| to twice that,
    t = x.x', |t| <= B^2: at most Y^4, at |t| = Y^2, and less where Y > B puts that out of reach. Units of k records
    move them k times as far.
    """
    squared = (B**4 + coordinate_bound**2 * B**2) / 2 + B**2 * Y**2
    t = min(Y, B) ** 2
    return neighbours.sum_sensitivity(math.sqrt(squared), math.sqrt(2 * squared + 2 * Y**2 * t - t**2))


@lru_cache(maxsize=64)
def _noise_norm(p: int) -> float:
    """Return kappa, the typical spectral norm of a symmetric p x p matrix of unit noise (mean of five fixed draws).

    A ridge of kappa sigma is the least that typically makes up for the noise: X'X, noise and ridge together are then at
    least X'X. It follows from the noise alone (kappa is about 2 sqrt(p)); AdaSSP takes an upper bound (Wang 2018).
    """
    return float(np.mean([np.linalg.norm(_unit_noise(p, seed), 2) for seed in range(5)]))


def _unit_noise(p: int, seed: int) -> Array:
    return mirrored(np.random.default_rng(seed).standard_normal((p + 1, p + 1)))[:p, :p]


class _SSP(InterceptLearner):
    UNITS = True
    RIDGE: ClassVar[float] = 0.75  # of "tight", in the typical spectral norm of the noise

    def _solve(self, rows: Rows, session: Session) -> Array:
        release = self._release_tight if self.calibration == "tight" else self._release_published
        return release(rows, session)

    def _ridge(self, p: int, sigma: float) -> float:
        return (self.RIDGE if self.has_intercept else 1.0) * _noise_norm(p) * sigma

    def _release_tight(self, rows: Rows, session: Session) -> Array:
        p = rows.n_features
        S = _joint_sensitivity(session.neighbours, rows.feature_bound, rows.target_bound, rows.coordinate_bound)
        sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=S)

        gram, x_unit, y_unit = rows.whole_gram(most_apart=_MOST_APART)
        unit = min(x_unit, y_unit)
        upper = np.triu(gram)  # each entry once; the entries set to 0 tell nothing
        upper[:p, :p] *= round(x_unit / unit)
        upper[:p, p] *= round(y_unit / unit)
        upper[p, p] = 0
        noisy = session.gaussian(
            upper,
            quantum=x_unit * unit,
            sensitivity=S,
            sigma=sigma,
            label="X'X, X'y",
        )
        drawn = actual_sigma(sigma, S, noisy.size, quantum=x_unit * unit)
        self.measurements_ = [NoisySums("X'X, X'y", np.triu(noisy)[:p], sigma, drawn)]
        noisy = mirrored(noisy)
        return least_squares(noisy[:p, :p], noisy[:p, p], ridge=self._ridge(p, sigma))

    def _release_published(self, rows: Rows, session: Session) -> Array:
        B, Y = rows.feature_bound, rows.target_bound
        epsilon, delta = session.ledger.remaining_budget()
        multiplier = math.sqrt(math.log(1.25 / delta)) / epsilon
        G, h, self.measurements_ = release_apart(
            rows, rows.whole_gram(), multiplier * B**2, multiplier * B * Y, session=session
        )
        if np.linalg.eigvalsh(G)[0] <= 0:
            warnings.warn("the noisy X'X is indefinite: plain SSP has no minimum there", UserWarning, stacklevel=4)
        return np.asarray(np.linalg.solve(G, h), dtype=np.float64)


@parameters
class SSPRegressor(_SSP, LinearRegressor):
    """Least squares from noisy sufficient statistics.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, fit_intercept, one_hot, random_state
        As in `InterceptLearner`.
    target_bound : float, default 1.0
        Arrays only: public bound of |y|; y is clipped to it in `fit`.

    Notes
    -----
    ``calibration="tight"`` (ours): one Gaussian release of the upper triangle of X'X and of X'y together, at their
    joint sensitivity and the smallest noise that exact Gaussian DP allows; negative eigenvalues of the noisy X'X
    count as 0, and a ridge keeps the solution from following it: 3/4 of the noise's typical spectral norm, chosen on
    Adult, NIST Taxi, COMPAS and ACS Employment, and the same for every table and epsilon. Without an intercept it is
    the norm itself, by which the DD-SSP paper's arms were compared.

    ``calibration="published"`` (Ferrando and Sheldon, section 2.2): two releases, each with the whole budget and
    without the classical factor sqrt(2), and no ridge. The two together overspend, which the ledger says.

    Privacy: (epsilon, delta)-DP; Gaussian events only. Units of up to k rows move the sums, and so the noise, k times
    as far as one row does; no number of rows is read.

    Examples
    --------
    >>> X = [[0.5], [-0.5]] * 5000
    >>> SSPRegressor(epsilon=1.0, random_state=0).fit(X, [1.0, -1.0] * 5000).coef_.round(1)
    array([2.])
    """

    target_bound: float = 1.0


class SSPClassifier(_SSP, LinearClassifier):
    """Least squares on -1/+1 labels from noisy sufficient statistics; see `SSPRegressor`.

    Of k > 2 classes (``calibration="tight"``) one release of X'X and X'Y gives the models of all, each against
    the rest: Y is one-hot, so a record adds x to one column of X'Y, which then moves as far as the X'y of two classes
    does, and the noise is that of two. X'y of a class against the rest, with labels -1 and +1, is twice its column less
    the sum of all columns.

    The coefficients carry the factor that makes least squares the minimiser of the quadratic logistic loss of
    `DDSSPClassifier`, so `predict_proba` gives probabilities; ranking and classes do not depend on it.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, fit_intercept, one_hot, random_state
        As in `InterceptLearner`.

    Examples
    --------
    >>> model = SSPClassifier(random_state=0).fit([[0.5], [-0.5]] * 5000, ["yes", "no"] * 5000)
    >>> model.predict([[0.1]])
    array(['yes'], dtype='<U3')
    """

    MULTI_CLASS = True

    def _solve(self, rows: Rows, session: Session) -> Array:
        if len(self.classes_) > 2:
            if self.calibration != "tight":
                raise InputError(f"calibration '{self.calibration}' is for two classes, here are {len(self.classes_)}")
            return logistic_scale() * self._release_classes(rows, session)
        return logistic_scale() * super()._solve(rows, session)

    def _release_classes(self, rows: Rows, session: Session) -> Array:
        """Return the least-squares coefficients of each class against the rest, shape (k, p)."""
        p, B = rows.n_features, rows.feature_bound
        # With y one-hot, y.y' is 0 or 1, as |y| = 1: the bound for one target in [-1, 1] holds.
        S = _joint_sensitivity(session.neighbours, B, 1.0, rows.coordinate_bound)
        sigma = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=S)
        gram, x_unit, y_unit = rows.whole_class_gram(len(self.classes_), most_apart=_MOST_APART)
        unit = min(x_unit, y_unit)
        upper = np.triu(gram)[:p]  # each entry once; the entries set to 0 tell nothing
        upper[:, :p] *= round(x_unit / unit)
        upper[:, p:] *= round(y_unit / unit)
        noisy = session.gaussian(upper, quantum=x_unit * unit, sensitivity=S, sigma=sigma, label="X'X, X'Y")
        drawn = actual_sigma(sigma, S, noisy.size, quantum=x_unit * unit)
        self.measurements_ = [
            NoisySums("X'X, X'Y", np.column_stack([np.triu(noisy[:, :p]), noisy[:, p:]]), sigma, drawn)
        ]
        XX, XY = mirrored(noisy[:, :p]), noisy[:, p:]
        return one_against_rest(XX, XY, ridge=self._ridge(p, sigma))
