"""Linear and logistic regression by private gradient descent on whitened rows.

A fifth of the budget measures X'X, which tells the directions in which rows are long. In coordinates in which they are
equally long in all, a few dozen clipped steps on all rows reach the optimum, and the noise of a step is spread as the
loss is curved. Clip, step length and number of steps follow from public numbers by one rule; no data chooses any.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from marginalia.data.domain import Domain
from marginalia.data.encoding import one_hot_blocks, ordered_columns
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, LinearRegressor, parameters
from marginalia.learning.private import PrivateLearner, PublicNumber
from marginalia.learning.rows import Rows, TableRows, exact_gram, exact_unit
from marginalia.learning.solvers import Array
from marginalia.learning.statistics import mirrored
from marginalia.methods.dp_sgd.descent import CLIP_BITS, UNIT, Directions
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.session import Session

if TYPE_CHECKING:
    from marginalia.learning.base import Given

SHARE = 0.2  # of the squared budget mu², for X'X
COSINES = 8  # at most, for each ordered column of a smooth model
FEATURES = 0.04  # largest number of features with cosines, in units of n mu / (how many rows differ)


@dataclass(frozen=True)
class Rule:
    """What follows from the noise of a step, q = (what a row may move)·d/(n mu) with d directions that matter.

    >>> Rule(0.14, 2.0, 4.0, 80).clip(1e-3)
    1.4
    """

    clip_scale: float
    horizon: float  # step length times number of steps, in units of 1/(clip q)
    longest: float  # step
    steps: int

    def clip(self, q: float) -> float:
        """Return the bound on a row's gradient, in units of the root of d: its bias and the noise balance."""
        return float(np.clip(self.clip_scale * q ** (-1 / 3), 0.1, 1.5))

    def step(self, q: float) -> float:
        """Return the length of a step."""
        return min(self.horizon / (self.clip(q) * q * self.steps), self.longest)


@dataclass(frozen=True)
class Design:
    """Rows in whole numbers of a public power of two, with a constant as the last column.

    Attributes
    ----------
    whole : ndarray of shape (n, p + 1), float64
    unit : float
    bound, largest : float
        Public: of the 2-norm of a row, and of one entry.

    >>> from marginalia.learning.rows import ArrayRows
    >>> Design.of(ArrayRows(np.array([[0.5]]), np.array([1.0]), 1.0, 1.0).with_constant()).whole.tolist()
    [[8192.0, 16384.0]]
    """

    whole: Array
    unit: float
    bound: float
    largest: float

    @classmethod
    def of(cls, rows: Rows) -> Design:
        """Return rows that have a constant (`with_constant`)."""
        unit = rows.unit
        if not isinstance(rows, TableRows):
            return cls(np.trunc(rows.X / unit), unit, rows.feature_bound, rows.coordinate_bound)
        whole = rows.encoder.whole_design(rows.table.in_memory(), unit).astype(np.float64)
        bound = math.sqrt(rows.encoder.whole_norm(unit)) * unit * (1 + 2.0**-50)
        return cls(whole, unit, bound, rows.coordinate_bound)


@parameters
class _PreconditionedGD(PublicNumber, PrivateLearner):
    """What both learners share; the parameters are described in `PreconditionedGDClassifier`."""

    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)
    SQUARES, READS_ROWS, UNITS = True, True, True
    RULE: ClassVar[Rule]

    smooth: bool = False

    def _one_hot(self, domain: Domain) -> Iterable[str] | None:
        if not self.smooth:
            return self.one_hot
        if isinstance(self.one_hot, Iterator):  # which could be read once, and is asked for twice
            raise InputError("smooth needs the columns of one_hot as a list, and not as an iterator")
        return ordered_columns(domain).union(one_hot_blocks(domain) if self.one_hot is None else self.one_hot)

    def _release(self, rows: Rows, session: Session) -> Array:
        n, mu = self._public_number(rows), gdp_mu(*session.ledger.remaining_budget())
        if self.smooth:
            if not isinstance(rows, TableRows):
                raise InputError("smooth needs a table or a data frame, whose domain says which columns are ordered")
            rows = _smooth(rows, FEATURES * n * mu / session.ledger.relation.units)
        design = Design.of(rows.with_constant())
        whitening, directions = self._whitening(design, n, math.sqrt(SHARE) * mu, session)
        rest = math.sqrt(1 - SHARE) * mu
        found = self._descend(rows, design, whitening, directions, n, rest, session)
        theta = (whitening @ found).T * rows.target_bound
        return rows.in_features(theta if len(theta) > 1 else theta[0])

    def _targets(self, rows: Rows) -> Array:
        """Return what scores are compared with, shape (n, k): one column, or one of each of k > 2 classes."""
        return rows.y[:, None] / rows.target_bound

    def _whitening(self, design: Design, n: int, mu: float, session: Session) -> tuple[Array, float]:
        """Return M, for which rows times M are about equally long in all directions, and how many of these matter."""
        B, c, p = design.bound, design.largest, design.whole.shape[1]
        # A row has (|x|⁴ + sum x_i⁴)/2 <= (B⁴ + c² B²)/2, each entry of the upper triangle once; and two rows never
        # point apart, as their inner product is half of (x.x')² + sum (x_i x'_i)² >= 0.
        one = math.sqrt((B**4 + c**2 * B**2) / 2) * (1 + 2.0**-40)
        S = session.neighbours.sum_sensitivity(one, math.sqrt(2) * one)  # k times as far for units of k rows
        upper = session.gaussian(
            lambda: np.triu(exact_gram(design.whole)),
            quantum=design.unit**2,
            sensitivity=S,
            sigma=S / mu,
            label="X'X",
        )
        values, vectors = np.linalg.eigh(mirrored(upper) / n)
        values = np.maximum(values, 0.0)
        floor = math.sqrt(p) * S / mu / n  # of the noise in X'X/n
        return vectors / np.sqrt(values + floor), max(1.0, float((values / (values + floor)).sum()))

    def _descend(
        self, rows: Rows, design: Design, whitening: Array, directions: float, n: int, mu: float, session: Session
    ) -> Array:
        """Return the mean of the second half of the iterates, in whitened coordinates."""
        whitened, y = Directions.of(_times(design.whole, whitening) * design.unit), self._targets(rows)
        by_unit = rows.by_unit
        sizes = None if by_unit is None else by_unit.sizes
        if by_unit is not None:
            whitened, y = whitened.take(by_unit.order), y[by_unit.order]
        moved = session.ledger.relation.units  # a unit's gradients are clipped as one sum, whatever k is
        q = moved * directions / (n * mu)
        clip = self.RULE.clip(q) * math.sqrt(directions)
        steps, step = self.RULE.steps, self.RULE.step(q)
        gradient = session.gaussian_run(
            lambda w: clipped_sum(whitened, self._derivative(whitened.scores(w), y), clip, sizes),
            quantum=UNIT,
            sensitivity=moved,
            sigma=moved * math.sqrt(steps) / mu,
            steps=steps,
            label="gradients",
        )
        w = mean = np.zeros((design.whole.shape[1], y.shape[1]))
        for t in range(steps):
            w = w - step * clip / n * gradient(w)
            if t >= steps // 2:
                mean = mean + w / (steps - steps // 2)
        return mean

    @staticmethod
    @abstractmethod
    def _derivative(scores: Array, y: Array) -> Array:
        """Return the derivative of the loss by the scores, shape (n, k)."""


def _smooth(rows: TableRows, most: float) -> TableRows:
    """Return rows whose ordered columns have cosines, or none if the features would then be more than `most`.

    The number of features is public: it follows from the domain.
    """
    curves = replace(rows, cosines=COSINES)
    return curves if curves.with_constant().n_features <= most else replace(rows, cosines=0)


def clipped_sum(
    rows: Directions, derivative: Array, clip: float, sizes: NDArray[np.intp] | None = None
) -> NDArray[np.int64]:
    """Return the sum over the rows of x derivative', each a matrix of 2-norm (Frobenius) at most `clip`.

    Shape (p, k) for derivatives of shape (n, k); in whole numbers of clip·`UNIT`. With `sizes`, of units whose rows
    stand beside each other, what is at most `clip` is the sum over the rows of a unit.

    >>> rows = Directions.of(np.array([[3.0, 4.0]]))
    >>> (clipped_sum(rows, np.array([[3.0, 4.0]]), 1.0) * UNIT).round(3)
    array([[0.36, 0.48],
           [0.48, 0.64]])
    """
    if sizes is not None:
        return rows.clipped_sum_of_units(derivative, np.array([clip]), sizes, together=True)
    if derivative.shape[1] == 1:
        return rows.clipped_sum(derivative, np.array([clip]))
    length = np.linalg.norm(derivative, axis=1)
    shares = np.divide(derivative, length[:, None], out=np.zeros_like(derivative), where=length[:, None] > 0)
    multiple = np.fmin(np.rint(length * (rows.length * 2.0**CLIP_BITS / clip)), rows.limit)
    # Rounded towards 0, and by a little less than a share: the norm of a row's multiples is at most its limit.
    multiples = np.trunc(multiple[:, None] * shares * (1 - 2.0**-40))
    return np.stack([rows.times(column) for column in multiples.T], axis=1)


def _times(whole: Array, matrix: NDArray[np.float64]) -> Array:
    """Return rows of whole numbers times a matrix, which is rounded to as many bits as keep every sum exact.

    So a row's result does not depend on the rows beside it, which the order of floating-point sums could make it do.
    """
    unit = exact_unit(float(np.abs(matrix).max()), len(matrix), bits=15)
    return np.asarray(whole @ np.rint(matrix / unit) * unit)


@parameters
class PreconditionedGDClassifier(_PreconditionedGD, LinearClassifier):
    """Logistic regression by private gradient descent on whitened rows.

    Parameters
    ----------
    epsilon, delta, one_hot, feature_bound, random_state
        As in `PrivateLearner`.
    calibration : {"tight"}
    relation : {"replace_one", "add_remove"}, default "replace_one"
        Neighbouring relation; ``add_remove`` needs `n_public`.
    n_public : int, optional
        A documented number of rows, from which clip, step length and noise follow. Default: the number of rows in
        `fit`, which is public under ``replace_one``. Where rows are of units, the number of units.
    smooth : bool, default False
        For tables and data frames: fit a smooth function of each ordered column of more than two values in place of a
        line, if the public number of rows is large enough for the noise; see Notes. `coef_` then has one coefficient
        for each value of these columns except the first.

    Notes
    -----
    Ours. A row has a constant, numbers in [-1, 1], and its categories as one-hot columns less their mean. The upper
    triangle of X'X is released with a fifth of the squared budget; with its eigenvectors V and eigenvalues L (those
    below 0 are 0), rows are whitened by V (L/n + rho)^(-1/2), rho the noise of X'X/n. From w = 0 go 80 steps on all
    rows, gradients clipped to c sqrt(d), d = sum L/(L + n rho) the number of directions that are not lost in noise; the
    mean of the last 40 is released. c is in proportion to q^(-1/3), q = 2d/(n mu), where clipping costs as much as
    noise; the horizon, step length times steps, is in proportion to 1/(c q). The three constants were chosen on Adult,
    COMPAS and ACS Employment, and are the same for every table, epsilon and n.

    Of k > 2 classes (tables) the loss is that of softmax, and a row's gradient, a matrix, is clipped as a whole: the
    noise is that of two classes.

    Where a table's rows are of units of up to k rows, X'X moves k times as far, and what is clipped is the sum of the
    gradients of a unit's rows: the noise of a step does not depend on k.

    A smooth function of an ordered column is its number in [-1, 1] and at most eight cosines of it, the k-th with
    amplitude 1/k, so that fast variation is lost in the noise of X'X first. The fit has cosines if the number of
    features is at most 0.04 n mu (0.02 n mu under ``replace_one``), and else it is the fit of lines: both numbers are
    public. The number and the amplitudes of the cosines were chosen on Adult, COMPAS and ACS Employment, the bound on
    ten other tables (docs/peers.md).

    Privacy: (epsilon, delta)-DP; one Gaussian event for X'X and a run of 80. A row moves X'X by no more than
    sqrt((B⁴ + B²)/2), or sqrt(2) as far where it is replaced, and a sum of clipped gradients by once or twice the clip,
    whatever X'X and the earlier steps were: adaptive composition of Gaussians.

    Examples
    --------
    >>> X, y = [[0.5], [-0.5]] * 2000, ["yes", "no"] * 2000
    >>> model = PreconditionedGDClassifier(epsilon=1.0, random_state=0).fit(X, y)
    >>> model.predict([[0.1]]), model.ledger_.certified
    (array(['yes'], dtype='<U3'), True)
    """

    RULE = Rule(0.14, 2.0, 4.0, 80)
    MULTI_CLASS = True

    def predict_proba(self, X: Given) -> Array:
        """Return the probability of each class, shape (n, k)."""
        scores = self.decision_function(X)
        return np.asarray(softmax(scores, axis=1)) if scores.ndim == 2 else super().predict_proba(X)

    def _targets(self, rows: Rows) -> Array:
        k = len(self.classes_)
        return super()._targets(rows) if k == 2 else np.eye(k)[rows.codes()]

    @staticmethod
    def _derivative(scores: Array, y: Array) -> Array:
        if y.shape[1] > 1:
            return np.asarray(softmax(scores, axis=1) - y)
        return np.asarray(expit(scores) - (y + 1) / 2)


@parameters
class PreconditionedGDRegressor(_PreconditionedGD, LinearRegressor):
    """Least squares by private gradient descent on whitened rows; see `PreconditionedGDClassifier`.

    Parameters
    ----------
    epsilon, delta, calibration, relation, n_public, one_hot, smooth, feature_bound, random_state
        As in `PreconditionedGDClassifier`.
    target_bound : float, default 1.0
        Arrays only: public bound of |y|; y is clipped to it in `fit`.

    Notes
    -----
    Clipping the gradient of a squared error makes it a Huber loss: large errors count in proportion to their size.

    Examples
    --------
    >>> X = [[0.5], [-0.5]] * 5000
    >>> model = PreconditionedGDRegressor(epsilon=1.0, random_state=0).fit(X, [0.8, -0.8] * 5000)
    >>> model.coef_.round(1)
    array([1.6])
    """

    RULE = Rule(0.07, 0.5, 0.7, 60)

    target_bound: float = 1.0

    @staticmethod
    def _derivative(scores: Array, y: Array) -> Array:
        return scores - y
