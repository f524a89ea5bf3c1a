"""Logistic regression by perturbing its objective."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, parameters
from marginalia.learning.private import PrivateLearner
from marginalia.learning.rows import CONSTANT, Rows
from marginalia.learning.solvers import Array, least_squares, minimise_logistic
from marginalia.learning.statistics import log_sigmoid_coefficients
from marginalia.privacy.calibration import gdp_mu, halved_budget
from marginalia.privacy.events import Event, GaussianEvent, ObjectivePerturbationEvent, of_group
from marginalia.privacy.mechanisms.objective import bound_of, output_sensitivity
from marginalia.privacy.objective_cost import split_for_output
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session


@parameters
class ObjectivePerturbationClassifier(PrivateLearner, LinearClassifier):
    """Minimise the logistic loss plus a random linear term and a ridge (Kifer, Smith and Thakurta 2012, Algorithm 1).

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, one_hot, random_state
        As in `PrivateLearner`.
    fit_intercept : bool, default False
        Append a constant to every row: 1 for a table, whose B² grows by 1; for arrays the largest power of two up to
        `feature_bound`. The ridge weighs on the intercept too.
    margin : float, default 0.0
        c of the loss ln(1 + e^(c - y·score)), whose slope and curvature have the bounds of the logistic one (c = 0), so
        that the certificate is the same; c = 2 ranks better where the ridge is strong. In [0, 32], a multiple of 2^-20.
        Probabilities are then those of a model with another loss.

    Notes
    -----
    ``calibration="published"`` (Ferrando and Sheldon, Algorithm 6): ridge B^2/(2 epsilon) and
    sigma = B sqrt(8 ln(2/delta) + 4 epsilon)/epsilon. ``"tight"`` (ours): sigma = B/mu, mu the Gaussian-DP parameter
    of (epsilon, delta), and ridge B^2/epsilon, the least from which on the certificate does not depend on the ridge:
    it follows from the proof, and from no data.

    The proof is about the exact minimiser and a real random term. What is computed is a point whose gradient, in whole
    numbers, is at most 2^-30 (B + sigma), with a term rounded to sigma/2^52; Gaussian noise on the coefficients, for
    which a thousandth of epsilon and delta is set aside (``published`` pays it on top), hides what is left of the gap:
    the certificate holds to the last bit, and every table is fitted (see `privacy.mechanisms.objective`).

    The proof covers ``add_remove``. Under ``replace_one`` both run at (epsilon/2, delta/(1 + e^(epsilon/2))), which
    is (epsilon, delta)-DP by group privacy; sigma is then 1.002 times what any proof could do with at epsilon 1, and
    1.08 times at epsilon 10 (see `privacy.objective_cost`).

    Units of up to k rows are k rows apart (2k under ``replace_one``), by group privacy: sigma is that many times as
    large, and so, about, is the ridge. The noise on the minimiser hides the gap between two points and not between two
    tables: it stays as it is.

    Privacy: (epsilon, delta)-DP; one objective-perturbation event and one Gaussian.

    Examples
    --------
    >>> X, y = [[0.5], [-0.5]] * 5000, ["yes", "no"] * 5000
    >>> ObjectivePerturbationClassifier(random_state=0).fit(X, y).predict([[0.1]])
    array(['yes'], dtype='<U3')
    """

    READS_ROWS, UNITS = True, True
    PRIVATE_ROWS_PER_UNIT = False  # the event is a group of so many rows, so its kind would follow from a release
    RIDGE: ClassVar[float] = (
        1.0  # of "tight", in B^2/epsilon: the least for which the certificate does not depend on it
    )

    fit_intercept: bool = False
    margin: float = 0.0

    def _release(self, rows: Rows, session: Session) -> Array:
        unit, square = rows.unit, rows.whole_square
        p = rows.n_features
        if self.fit_intercept:
            p, square = p + 1, square + (CONSTANT * Fraction(unit)) ** 2
        B = bound_of(square)

        def scales(epsilon: float, delta: float) -> tuple[float, float, float]:
            return self._scales(B, p, session.neighbours, epsilon, delta)

        def plan(epsilon: float, delta: float) -> tuple[Event, ...]:
            return self._events(B, p, session.neighbours.contributions, *scales(epsilon, delta))

        both = session.ledger.remaining_budget(plan)
        sigma, regulariser, output_sigma = scales(*both)
        theta = session.objective_perturbation(
            lambda: self._signed(rows),
            n_features=p,
            quantum=unit,
            bound=B,
            sigma=sigma,
            regulariser=regulariser,
            output_sigma=output_sigma,
            margin=self.margin,
            start=partial(self._guess, rows, regulariser),
        )
        if self.fit_intercept:
            theta[-1] *= CONSTANT * unit
        return theta

    def _signed(self, rows: Rows) -> NDArray[np.int16]:
        signed = rows.signed_rows()
        if not self.fit_intercept:
            return signed
        return np.column_stack([signed, (CONSTANT * rows.y).astype(np.int16)])

    def _scales(
        self, B: float, p: int, neighbours: Neighbours, epsilon: float, delta: float
    ) -> tuple[float, float, float]:
        """Return sigma, the ridge, and the noise on the minimiser."""
        given = epsilon, delta
        (epsilon, delta), output = split_for_output(*given)
        if self.calibration == "published":
            epsilon, delta = given
        steps = neighbours.contributions * int(neighbours.relation.units)  # between two neighbours
        if neighbours.contributions == 1 and neighbours.relation is Relation.REPLACE_ONE:
            epsilon, delta = halved_budget(epsilon, delta)
        if neighbours.contributions > 1:
            tau = gdp_mu(epsilon, delta) / steps
            sigma = B / tau
            # The least from which on the certificate, of Gaussian laws then, does not depend on it, and room to round.
            widest = max(epsilon / steps - (steps - 2) / 2 * tau**2, tau**2 / 2)
            regulariser = self.RIDGE * B**2 / widest * (1 + 1e-9)
        elif self.calibration == "tight":
            sigma, regulariser = B / gdp_mu(epsilon, delta), self.RIDGE * B**2 / epsilon
        else:
            sigma = B * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
            regulariser = B**2 / (2 * epsilon)
        gap = output_sensitivity(p, bound=B, sigma=sigma, regulariser=regulariser)
        return sigma, regulariser, gap / gdp_mu(*output)

    @staticmethod
    def _events(B: float, p: int, k: int, sigma: float, regulariser: float, output_sigma: float) -> tuple[Event, ...]:
        gap = output_sensitivity(p, bound=B, sigma=sigma, regulariser=regulariser)
        return of_group(ObjectivePerturbationEvent(B, sigma, regulariser), k), GaussianEvent(gap, output_sigma)

    def _guess(self, rows: Rows, regulariser: float, Z: Array, b: Array, tolerance: float) -> Array:
        """Minimise in floats, from the optimum of DD-SSP's quadratic loss: a sweep computes its statistics once."""
        p, u = rows.n_features, rows.unit
        _, b1, b2 = log_sigmoid_coefficients()
        start = least_squares(-2 * b2 * rows.gram[:p, :p], b1 * rows.gram[:p, p] - b[:p], ridge=regulariser)
        found = minimise_logistic(
            Z,
            np.ones(len(Z)),
            regulariser=regulariser / u**2,
            linear=b / u,
            start=np.append(start, np.zeros(len(b) - p)) * u,
            tolerance=tolerance / u,
            margin=self.margin,
        )
        return found.theta / u

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept is {self.fit_intercept!r}: need True or False")
