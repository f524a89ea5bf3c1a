"""Logistic regression by perturbing its objective."""

from __future__ import annotations

import math
from typing import ClassVar

from marginalia.errors import PrivacyError
from marginalia.learning.base import LinearClassifier
from marginalia.learning.private import PrivateLearner
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import Array, Minimum, least_squares, minimise_logistic
from marginalia.learning.statistics import log_sigmoid_coefficients
from marginalia.privacy.accountants.objective import split_for_output
from marginalia.privacy.calibration import gdp_mu, halved_budget
from marginalia.privacy.events import Event, GaussianEvent, ObjectivePerturbationEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.objective import objective_perturbation
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation

TOLERANCE = 1e-11  # gradient norm of the computed minimiser, over B + sigma


class ObjectivePerturbationClassifier(PrivateLearner, LinearClassifier):
    """Minimise the logistic loss plus a random linear term and a ridge (Kifer, Smith and Thakurta 2012, Algorithm 1).

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, one_hot, random_state
        As in `PrivateLearner`.

    Notes
    -----
    ``calibration="published"`` (Ferrando and Sheldon, Algorithm 6): ridge B^2/(2 epsilon) and
    sigma = B sqrt(8 ln(2/delta) + 4 epsilon)/epsilon. ``"tight"`` (ours): sigma = B/mu, mu the Gaussian-DP parameter
    of (epsilon, delta), and ridge B^2/epsilon, the least from which on the certificate does not depend on the ridge:
    it follows from the proof, and from no data.

    The proof is about the exact minimiser. Newton's method stops at a gradient of 2-norm at most 1e-11 (B + sigma), and
    Gaussian noise on the coefficients, for which a thousandth of epsilon and delta is set aside (``published`` pays
    it on top), hides what is left of the gap. A fit that does not get there is refused; the message says nothing else.

    The proof covers ``add_remove``. Under ``replace_one`` both run at (epsilon/2, delta/(1 + e^(epsilon/2))), which
    is (epsilon, delta)-DP by group privacy; sigma is then 1.002 times what any proof could do with at epsilon 1, and
    1.08 times at epsilon 10 (see `privacy.accountants.objective`).

    Privacy: (epsilon, delta)-DP; one objective-perturbation event and one Gaussian.

    Examples
    --------
    >>> X, y = [[0.5], [-0.5]] * 5000, ["yes", "no"] * 5000
    >>> ObjectivePerturbationClassifier(random_state=0).fit(X, y).predict([[0.1]])
    array(['yes'], dtype='<U3')
    """

    READS_ROWS = True
    RIDGE: ClassVar[float] = (
        1.0  # of "tight", in B^2/epsilon: the least for which the certificate does not depend on it
    )

    def _release(self, rows: Rows, ledger: Ledger, randomness: Randomness) -> Array:
        p, B = rows.n_features, rows.feature_bound
        both = ledger.left(lambda epsilon, delta: self._events(*self._scales(B, ledger.relation, epsilon, delta), B))
        sigma, regulariser, tolerance, gap, output_sigma = self._scales(B, ledger.relation, *both)

        def minimise(b: Array, regulariser: float) -> Array:
            minimum = _minimum(rows, b, regulariser, tolerance)
            if minimum.gradient_norm > tolerance:  # how far it came is private
                raise PrivacyError("the perturbed objective was not minimised closely enough for its certificate")
            return minimum.theta

        return objective_perturbation(
            minimise,
            n_features=p,
            bound=B,
            sigma=sigma,
            regulariser=regulariser,
            output_sensitivity=gap,
            output_sigma=output_sigma,
            ledger=ledger,
            randomness=randomness,
        )

    def _scales(
        self, B: float, relation: Relation, epsilon: float, delta: float
    ) -> tuple[float, float, float, float, float]:
        """Return sigma, the ridge, the gradient norm to reach, the gap that this leaves, and the noise on it."""
        given = epsilon, delta
        (epsilon, delta), output = split_for_output(*given)
        if self.calibration == "published":
            epsilon, delta = given
        if relation is Relation.REPLACE_ONE:
            epsilon, delta = halved_budget(epsilon, delta)
        if self.calibration == "tight":
            sigma, regulariser = B / gdp_mu(epsilon, delta), self.RIDGE * B**2 / epsilon
        else:
            sigma = B * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
            regulariser = B**2 / (2 * epsilon)
        tolerance = TOLERANCE * (B + sigma)
        gap = 2 * tolerance / regulariser  # between the computed minimisers of two tables with the same exact one
        return sigma, regulariser, tolerance, gap, gap / gdp_mu(*output)

    @staticmethod
    def _events(
        sigma: float, regulariser: float, _: float, gap: float, output_sigma: float, B: float
    ) -> tuple[Event, ...]:
        return ObjectivePerturbationEvent(B, sigma, regulariser), GaussianEvent(gap, output_sigma)


def _minimum(rows: Rows, b: Array, regulariser: float, tolerance: float) -> Minimum:
    """Minimise from the optimum of the quadratic loss of DD-SSP, whose statistics a sweep computes once for a table."""
    p = rows.n_features
    _, b1, b2 = log_sigmoid_coefficients()
    start = least_squares(-2 * b2 * rows.gram[:p, :p], b1 * rows.gram[:p, p] - b, ridge=regulariser)
    return minimise_logistic(rows.X, rows.y, regulariser=regulariser, linear=b, start=start, tolerance=tolerance)
