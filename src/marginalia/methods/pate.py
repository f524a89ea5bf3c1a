"""Private aggregation of teacher ensembles: many models on disjoint rows vote, with noise, on the labels of a few."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import dposv

from marginalia.data.table import Table
from marginalia.data.units import keyed_hashes
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, parameters
from marginalia.learning.private import BudgetedLearner
from marginalia.learning.rows import Integers, Rows
from marginalia.learning.solvers import Array
from marginalia.privacy import checks
from marginalia.privacy.calibration import gaussian_sigma
from marginalia.privacy.events import CompositionEvent, Event, LaplaceEvent
from marginalia.privacy.ledger import PublicInput
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.privacy.withdrawn import UNIT_TEACHERS

MOST_TEACHERS = 500
ROWS_FOR_A_TEACHER = 75  # fewer make teachers that disagree by chance
PUBLIC_ROWS = 100


@parameters
class PATEClassifier(BudgetedLearner, LinearClassifier):
    """Train a student on public rows that an ensemble of teachers labels privately (Papernot et al. 2017, 2018).

    The private rows are split into parts; a logistic regression on each, the teacher, votes on every public row.
    The noisy majority labels the public rows, and a logistic regression on these is released. Where no `public` rows
    are given, T of the given rows are dealt out as public: **these are not protected at all**, their features enter
    the student as they are.

    Parameters
    ----------
    epsilon, delta, one_hot, random_state
        As in `BudgetedLearner`; the seed is that of the split too.
    calibration : {"tight", "published"}, default "tight"
        Gaussian noise on the votes (GNMax), calibrated exactly, or Laplace noise of scale 1/gamma by the moments bound
        of the 2017 paper, which spends about 70 % of epsilon.
    n_teachers : int, optional
        Default: one for every 75 private rows, at most 500.
    n_queries : int, optional
        Number of public rows T. Default: 100, or a fifth of the rows where that is less; with `public` at most 100.
    public : Table or array-like of shape (n_public, n_features), optional
        Rows that anybody may know, of which the first T are labelled (a table needs no target column). All rows given
        to `fit` then teach, and all of them are protected. Not written to a file.
    relation : {"replace_one"}
        The number of rows, or of units, is public: with one row fewer, all parts of the split could change.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        0 where all public rows got the same label: the student is then a constant.
    sigma_ : float
        Standard deviation of the Gaussian noise of each vote count, or scale of the Laplace noise.

    Notes
    -----
    Votes are counted in two entries, whether or not both classes got any: the published code drops a class without
    votes, which no noise can then choose (and which is not private). A record has one teacher, whose change of mind
    moves two counts by one for every public row.

    Rows without units are split into equal parts by a random permutation. A table's units are dealt out whole: all rows
    of one go to one teacher, however many they are. T, the default sizes and what is public refer to the number of
    units. Which teacher a unit has follows from a hash of its own key, with a secret key drawn from the fit's
    randomness; a position in a file or a rank among the keys would move other units, too. So parts are equal on average
    only; a teacher without units votes for the second class. Without `public`, the T units with the smallest hashes are
    public, each with one query, its first row; while the public units stay the same, no protected one changes them.

    Privacy: (epsilon, delta)-DP under replace-one for the rows that teach: all of them where `public` is given, else
    the n - T of n that are dealt to the teachers, as the scope of the certificate says; a row that is protected with
    some probability only is not protected. One Gaussian event of L2 sensitivity sqrt(2T), or T Laplace events of L1
    sensitivity 2. With units both are twice as large: the unit that replaces another may have another key, and with it
    another teacher, so that two teachers may change all their votes. On each public row they then move two counts by
    two each: 2 sqrt(2) in L2 norm, 4 in L1.

    Examples
    --------
    >>> known = [[1.5], [-0.5], [0.5], [-1.5], [2.5]]
    >>> model = PATEClassifier(n_teachers=40, public=known, random_state=0).fit([[1.0], [-1.0]] * 200, ["a", "b"] * 200)
    >>> model.predict([[2.0], [-2.0]]).shape, model.sigma_ > 0
    ((2,), True)
    """

    SQUARES, READS_ROWS, UNITS = False, True, True
    RELATIONS = ("replace_one",)

    n_teachers: int | None = None
    n_queries: int | None = None
    public: Table | ArrayLike | None = None

    def _release(self, rows: Rows, session: Session) -> Array:
        X, positive, of_units = rows.X, rows.y > 0, rows.keyed_units is not None
        given = self._public_features()
        T, K = self._sizes(rows.n_units, given, "units" if of_units else "rows")
        known, shards = _dealt(rows, T if given is None else 0, K, session.randomness)
        if of_units:
            protected = "protects the units dealt to the teachers; T units are not protected at all"
            session.ledger.scope = session.ledger.scope and protected
        public = X[known] if given is None else given[:T]

        def votes() -> Integers:
            counts = np.zeros((T, 2), dtype=np.int64)
            for shard in shards:
                label = _predict(_teacher(X[shard], positive[shard]), public)
                counts[np.arange(T), label.astype(int)] += 1
            return counts

        noisy = self._noisy_votes(votes, T, session, teachers=2 if of_units else 1)
        return _logistic_regression(public, noisy[:, 1] > noisy[:, 0])

    def _noisy_votes(self, votes: Callable[[], Integers], T: int, session: Session, *, teachers: int) -> Array:
        """Return the votes with noise for neighbours of which so many `teachers` differ."""
        if self.calibration == "tight":
            sensitivity = teachers * math.sqrt(2 * T)
            self.sigma_ = gaussian_sigma(*session.ledger.remaining_budget(), sensitivity=sensitivity)
            return session.gaussian(votes, sensitivity=sensitivity, sigma=self.sigma_, label="votes")

        def votes_at(epsilon: float, delta: float) -> list[Event]:
            event = LaplaceEvent(2.0 * teachers, teachers / _published_gamma(epsilon, delta, T))
            return [CompositionEvent((event,), T)]

        self.sigma_ = teachers / _published_gamma(*session.ledger.remaining_budget(votes_at), T)
        noise = partial(session.laplace, sensitivity=2.0 * teachers, scale=self.sigma_, label="votes")
        return np.array([noise(query) for query in votes()])

    def _public_features(self) -> Array | None:
        """Return the given public rows as features."""
        if not isinstance(self.public, Table):
            return None if self.public is None else np.asarray(self._validated(self.public), dtype=np.float64)
        if self.encoder_ is None:
            raise InputError("public is a Table, but the private rows are arrays; give both in the same form")
        return self.encoder_.transform(self.public)

    def _public_inputs(self, rows: Rows) -> list[PublicInput]:
        known, given = super()._public_inputs(rows), self._public_features()
        if rows.keyed_units is not None:
            known.append(PublicInput(UNIT_TEACHERS, "hash of its key", "declared"))
        return known if given is None else [*known, PublicInput("number of public rows", len(given), "declared")]

    def _scope(self) -> str:
        if self.public is not None:
            return ""
        return "protects the n - T rows dealt to the teachers; the T public rows are not protected at all"

    def _sizes(self, n: int, given: Array | None, what: str = "rows") -> tuple[int, int]:
        """Return the numbers of public rows and of teachers, T and K; n is the number of protected rows or units."""
        if given is None:
            T = min(PUBLIC_ROWS, max(1, n // 5)) if self.n_queries is None else self.n_queries
            teaching = n - T
        else:
            T = min(PUBLIC_ROWS, len(given)) if self.n_queries is None else self.n_queries
            teaching = n
            if len(given) < T:
                raise InputError(f"n_queries is {T}: more than the {len(given)} public rows; use at most {len(given)}")
        if teaching < 1:
            raise InputError(
                f"{n} {what} with n_queries {T} leave none for the teachers; give more rows or fewer queries"
            )
        K = max(1, min(MOST_TEACHERS, teaching // ROWS_FOR_A_TEACHER)) if self.n_teachers is None else self.n_teachers
        if teaching < K:
            raise InputError(f"n_teachers is {K}: more than the {teaching} private {what}; use at most {teaching}")
        return T, K

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_teachers", "n_queries"):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name))


def _dealt(rows: Rows, T: int, K: int, randomness: Randomness) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """Return the T rows that are public, and the rows of each of K teachers."""
    if rows.keyed_units is None:
        order = randomness.generator.permutation(rows.n_units)
        known, private = order[:T], order[T:]
        part = len(private) // K
        return known, [private[k * part : (k + 1) * part] for k in range(K)]
    by_unit, keys = rows.keyed_units
    dealt = keyed_hashes(keys, randomness.generator.bytes(16))
    order = np.argsort(dealt, kind="stable")
    known, private = order[:T], order[T:]
    teacher = dealt[private] % np.uint64(K)
    return by_unit.order[by_unit.starts[known]], [by_unit.rows(private[teacher == k]) for k in range(K)]


def _published_gamma(epsilon: float, delta: float, n_queries: int) -> float:
    """Return gamma of the published noise: 4 T gamma² + 2 gamma sqrt(2 T ln(1/delta)) = epsilon.

    Papernot et al. (2017), Theorem 3, as solved by the code of the excess-risk paper; 2 T gamma² would do.
    """
    T = n_queries
    half = math.sqrt(2 * T * -math.log(delta))
    return epsilon / (half + math.sqrt(half**2 + 4 * T * epsilon))


_TOLERANCE = 1e-4  # scikit-learn's default
_MOST_STEPS, _SHORTEST = 50, 1e-6
_ILL_CONDITIONED = 1e-6  # least ratio of pivots of a Cholesky factor


def _teacher(X: Array, positive: NDArray[np.bool_]) -> Array:
    """Return the result of `_logistic_regression`, up to rounding.

    On a few rows scikit-learn checks and converts its input for ten times as long as it fits. These are the same
    Newton steps with the same stopping rule. Irregular cases are left to scikit-learn.
    """
    if positive.all() or not positive.any():
        return _logistic_regression(X, positive)
    Z = np.column_stack([X, np.ones(len(X))])
    n, d = Z.shape
    y = positive.astype(np.float64)
    ridge = np.append(np.full(d - 1, 1 / n), 0.0)
    diagonal = np.arange(d)
    weights, scores, value = np.zeros(d), np.zeros(n), math.log(2)
    probability = np.full(n, 0.5)
    gradient = Z.T @ (probability - y) / n
    for _ in range(_MOST_STEPS):
        scaled = np.sqrt(probability * (1 - probability) / n)[:, None] * Z
        hessian = scaled.T @ scaled
        hessian[diagonal, diagonal] += ridge
        factor, step, failed = dposv(hessian, -gradient, lower=1)
        pivots = factor[diagonal, diagonal]
        if failed or pivots.min() < _ILL_CONDITIONED * pivots.max():
            break
        slope, change, length = float(gradient @ step), Z @ step, 1.0
        while length > _SHORTEST:
            trial = weights + length * step
            moved = scores + length * change
            tail = np.exp(-np.abs(moved))
            losses = np.log1p(tail) + np.maximum(moved, 0.0) - y * moved
            reached = float(losses.sum() + 0.5 * (trial[:-1] @ trial[:-1])) / n
            if reached - value <= length * slope / 2**11:
                break
            length /= 2
        else:
            break
        weights, scores, value = trial, moved, reached
        probability = np.where(moved >= 0, 1.0, tail) / (1 + tail)
        gradient = Z.T @ (probability - y) / n + ridge * weights
        if np.abs(gradient).max() <= _TOLERANCE and -slope / 2 <= _TOLERANCE:
            return weights
    return _logistic_regression(X, positive)


def _logistic_regression(X: Array, positive: NDArray[np.bool_]) -> Array:
    """Return weights and intercept of scikit-learn's default model; of a constant where there is one class only.

    Its objective is minimised by Newton's method: ten times faster than by L-BFGS on a few rows of unscaled codes.
    """
    from sklearn import config_context
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    if positive.all() or not positive.any():
        return np.append(np.zeros(X.shape[1]), 1.0 if positive.all() else -1.0)
    # Features are finite: to check it again costs as much as to fit a few rows.
    with warnings.catch_warnings(), config_context(assume_finite=True, skip_parameter_validation=True):
        warnings.simplefilter("ignore", ConvergenceWarning)  # on nearly separated rows it goes on with L-BFGS
        model = LogisticRegression(solver="newton-cholesky", max_iter=10_000).fit(X, positive)
    return np.append(model.coef_[0], model.intercept_[0])


def _predict(weights: Array, X: Array) -> NDArray[np.bool_]:
    return np.asarray(X @ weights[:-1] + weights[-1] > 0, dtype=np.bool_)
