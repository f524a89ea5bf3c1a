"""Iterative Hessian mixing: least squares by Newton steps on Gaussian sketches of the rows.

A sketch S·X of the rows X, S standard normal, hides each row among all others, the better the longer the rows are in
every direction. So the smallest eigenvalue of X'X is released first, and noise makes up for what it lacks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from scipy.optimize import minimize_scalar

from marginalia.learning.base import LinearRegressor, parameters
from marginalia.learning.private import InterceptLearner
from marginalia.learning.rows import Integers, Rows
from marginalia.learning.solvers import Array
from marginalia.learning.statistics import ClippedResiduals, mirrored, smallest_eigenvalue
from marginalia.privacy import checks
from marginalia.privacy.calibration import gaussian_sigma, gdp_mu
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import Event, FailureEvent, GaussianEvent, GaussianSketchEvent
from marginalia.privacy.mechanisms.additive import actual_sigma
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session

_RHO = 0.1  # of delta: chance with which a sketch may distort squared lengths by a constant factor
_FAILURE = 0.1  # of delta: chance that the smallest eigenvalue is below its bound


@dataclass(frozen=True)
class Plan:
    """Sizes and noise of one fit, for rows of norm 1 and targets in [-1, 1].

    Attributes
    ----------
    size, rounds : int
        Number of normal vectors of a sketch, and number of sketches.
    ratio : float
        1/gamma: gamma is the least eigenvalue, with noise, that every sketch gets.
    eigenvalue : float
        Standard deviation of the noise of the smallest eigenvalue.
    tau : float
        The eigenvalue is taken to be lower than it was released by so many standard deviations.
    gradient : float
        Noise multiplier of a gradient; 0 where none is released.

    >>> round(Plan(60, 3, 0.01, 90.0, 5.0, 4.0).failure, 9)
    2.87e-07
    """

    size: int
    rounds: int
    ratio: float
    eigenvalue: float
    tau: float
    gradient: float

    @property
    def failure(self) -> float:
        """The probability that the smallest eigenvalue is below its bound."""
        return NormalDist().cdf(-self.tau)

    def events(self) -> tuple[Event, ...]:
        """Return what is charged, with sensitivities of 1.

        >>> [type(event).__name__ for event in Plan(60, 3, 0.01, 90.0, 5.0, 4.0).events()]
        ['GaussianEvent', 'FailureEvent', 'GaussianSketchEvent', 'GaussianEvent']
        """
        sketches = GaussianSketchEvent(self.size * self.rounds, self.ratio)
        first: tuple[Event, ...] = (GaussianEvent(1.0, self.eigenvalue), FailureEvent(self.failure), sketches)
        return (*first, GaussianEvent(math.sqrt(self.rounds), self.gradient)) if self.gradient else first


def sketch_size(n_features: int, rounds: int, delta: float) -> int:
    """Return how many normal vectors the authors' sketches have.

    >>> sketch_size(8, 1, 1e-6), sketch_size(8, 3, 1e-6)
    (42, 111)
    """
    factor, chance = (2.5, 2.0) if rounds == 1 else (6.0, 4.0 * rounds)
    return int(factor * max(n_features, math.log(chance / (_RHO * delta))))


@lru_cache(maxsize=256)
def tight_plan(epsilon: float, delta: float, size: int, rounds: int, relation: Relation, gradients: bool) -> Plan:
    """Return the plan with the least noise that is (epsilon, delta)-DP.

    The smallest eigenvalue costs as much as a sketch, and the gradients as much as all of these, in the Gaussian DP
    that they are near to: the shares of the paper.

    >>> plan = tight_plan(1.0, 1e-5, 60, 3, Relation.ADD_REMOVE, True)
    >>> round(plan.ratio, 4), composed_epsilon(plan.events(), Relation.ADD_REMOVE, 1e-5) <= 1.0
    (0.015, True)
    """
    tau = -NormalDist().inv_cdf(_FAILURE * delta)
    vectors = size * rounds

    def plan(ratio: float) -> Plan:
        squared_mu = ratio**2 * (size + relation.units * vectors / 2)
        noise = math.sqrt(rounds / squared_mu) if gradients else 0.0
        return Plan(size, rounds, ratio, 1 / (ratio * math.sqrt(size)), tau, noise)

    def is_private(ratio: float) -> bool:
        return composed_epsilon(plan(ratio).events(), relation, delta) <= epsilon

    upper = gdp_mu(epsilon, delta) / math.sqrt((1 + gradients) * (size + relation.units * vectors / 2))
    while is_private(upper):
        upper *= 1.25
    lower = upper / 1.25
    while not is_private(lower):
        lower, upper = lower / 1.25, lower
    while upper > lower * (1 + 1e-4):
        middle = math.sqrt(lower * upper)
        lower, upper = (middle, upper) if is_private(middle) else (lower, middle)
    return plan(lower)


def published_plan(
    epsilon: float, delta: float, size: int, rounds: int, *, gradients: bool, inflation: float = 1.0
) -> Plan:
    """Return the noise of the authors' code, for one record more or less.

    `inflation`: how many times longer, squared, the rows of linear mixing are with their targets. The noise of their
    eigenvalue is the root of it too small in the code for what it is charged.

    >>> round(published_plan(1.0, 1e-5, 60, 3, gradients=True).ratio, 4)
    0.006
    """
    sketches = (epsilon / 2, 3 * delta / 4) if gradients else (epsilon, delta)
    gamma = _published_gamma(*sketches, size, rounds, inflation)
    noise = gaussian_sigma(epsilon / 2, delta / 4) * math.sqrt(rounds) if gradients else 0.0
    part = 4 if gradients else 3  # of delta, which the code divides so
    tau = math.sqrt(2 * math.log(max(part / delta, (4 if gradients else 2) / (_RHO * delta))))
    return Plan(size, rounds, 1 / gamma, math.sqrt(inflation / size) * gamma, tau, noise)


@lru_cache(maxsize=256)
def _published_gamma(epsilon: float, delta: float, size: int, rounds: int, inflation: float) -> float:
    """Return gamma: Rényi divergences of the sketches, and the classical formula for the noise of the eigenvalue."""
    third = delta / 3

    def spent(gamma: float) -> float:
        def of_order(order: float) -> float:
            divergence = size * (order * math.log1p(-1 / gamma) - math.log1p(-order / gamma)) / (2 * (order - 1))
            conversion = (-math.log(third) + (order - 1) * math.log1p(-1 / order) - math.log(order)) / (order - 1)
            return rounds * divergence + conversion

        best = minimize_scalar(
            lambda log: of_order(1 + math.exp(log)), bounds=(-9.0, math.log(gamma - 1)), method="bounded"
        )
        return float(best.fun) + math.sqrt(2 * math.log(1.25 / third) * size) / (inflation * gamma)

    lower, upper = 1.0, 2.0
    while spent(upper) >= epsilon:
        lower, upper = upper, 2 * upper
    while upper > lower * (1 + 1e-9):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if spent(middle) >= epsilon else (lower, middle)
    return upper


class Mixing(InterceptLearner, LinearRegressor):
    """What this method and linear mixing share: a plan, the smallest eigenvalue, and sketches.

    >>> issubclass(HessianMixingRegressor, Mixing)
    True
    """

    def _plan(self, size: int, rounds: int, session: Session, *, gradients: bool, inflation: float = 1.0) -> Plan:
        epsilon, delta = session.ledger.remaining_budget()
        if self.calibration == "tight":
            return tight_plan(epsilon, delta, size, rounds, session.ledger.relation, gradients)
        return published_plan(epsilon, delta, size, rounds, gradients=gradients, inflation=inflation)

    def _sketches(self, gram: Integers, unit: float, bound: float, plan: Plan, rows: Rows, session: Session) -> Array:
        """Release the smallest eigenvalue, then the second moments of all sketches, shape (rounds, p, p).

        `gram` is in whole numbers of unit², and `bound` the norm of its rows.
        """
        least = smallest_eigenvalue(gram, unit, bound, rows, session)
        sigma = plan.eigenvalue * (least.sensitivity if self.calibration == "tight" else bound**2)
        noisy = session.gaussian(
            least.value, quantum=least.quantum, sensitivity=least.sensitivity, sigma=sigma, label="smallest eigenvalue"
        )
        drawn = actual_sigma(sigma, least.sensitivity, 1, quantum=least.quantum)
        lowest, gamma, ratio = float(noisy) - plan.tau * drawn, bound**2 / plan.ratio, plan.ratio
        if self.calibration == "tight":
            lowest -= least.sensitivity + least.quantum  # it holds for a neighbour, too, and whatever was rounded
        else:  # of one of two neighbours
            ratio = plan.ratio / (1 - plan.ratio)
        ridge = math.ceil(max(0.0, gamma - max(0.0, lowest)) / unit**2)
        p = len(gram)
        return session.gaussian_sketches(
            lambda: gram + ridge * np.eye(p, dtype=np.int64),
            n_features=p,
            ratio=ratio,
            size=plan.size,
            count=plan.rounds,
            failure=plan.failure,
            quantum=unit**2,
            label="sketches",
        )


@parameters
class HessianMixingRegressor(Mixing):
    """Iterative Hessian mixing (Lev, Shenfeld, Srinivasan, Ligett and Wilson 2026).

    Newton's method for least squares: in each round X'X is that of a fresh Gaussian sketch, and X'(y - X theta), its
    residuals clipped, is released with Gaussian noise.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, fit_intercept, one_hot, random_state
        As in `InterceptLearner`.
    target_bound : float, default 1.0
        Arrays only: public bound of |y|; y is clipped to it in `fit`, and residuals in each round.
    rounds : int, default 3
        Number of sketches and of gradients; 1 is Gaussian mixing with one round, with smaller sketches (the authors').

    Notes
    -----
    The smallest eigenvalue of X'X is released first; taken to be tau standard deviations lower, it is raised to gamma
    by noise on the sketches. A sketch has 6 max(p, ln(4 rounds/rho)) vectors, rho = delta/10, or with one round
    2.5 max(p, ln(2/rho)). "published" is the noise of the authors' code, for one record more or less; it takes the
    classical formula for the noise of the eigenvalue, a theorem for epsilon < 1 only, and adds up three epsilons and
    four deltas. "tight" charges the privacy profile of all sketches together, which have one covariance, composed with
    the Gaussian releases, and keeps the shares of the paper.

    Privacy: (epsilon, delta)-DP; a Gaussian event of sensitivity B² (eigenvalue), a failure of the bound on it (a tenth
    of delta), one event of all sketches, and a run of Gaussian events of sensitivity BY, or 2BY where a record is
    replaced. The normal vectors are computed in floating point.

    Examples
    --------
    >>> model = HessianMixingRegressor(random_state=0).fit([[0.5], [-0.5]] * 5000, [1.0, -1.0] * 5000)
    >>> model.coef_.round(1), model.ledger_.certified
    (array([2.]), True)
    """

    target_bound: float = 1.0
    rounds: int = 3

    def _solve(self, rows: Rows, session: Session) -> Array:
        p, B, Y = rows.n_features, rows.feature_bound, rows.target_bound
        size = sketch_size(p, self.rounds, session.ledger.remaining_budget()[1])
        plan = self._plan(size, self.rounds, session, gradients=True)
        residuals = ClippedResiduals.of(rows)
        gram, x_unit, _ = rows.whole_gram()
        moments = self._sketches(gram[:p, :p], x_unit, B, plan, rows, session)
        most = session.neighbours.sum_sensitivity(B * Y, 2 * B * Y)
        gradient = session.gaussian_run(
            residuals.products,
            quantum=residuals.quantum,
            sensitivity=most,
            sigma=plan.gradient * (most if self.calibration == "tight" else B * Y),
            steps=self.rounds,
            label="gradients",
        )
        theta = np.zeros(p)
        for moment in moments:
            theta = theta + np.linalg.solve(mirrored(moment), gradient(theta))
        return theta

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.count("rounds", self.rounds)
