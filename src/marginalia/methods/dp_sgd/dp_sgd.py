"""Linear and logistic regression by differentially private stochastic gradient descent.

Its hyper-parameters follow from public numbers by one rule (see `rule`), are given, or can be chosen privately, by
random stopping (Liu and Talwar 2019). The charge of that needs runs that are Gaussian-DP, so there the batches hold all
rows.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from marginalia.data.domain import Domain, Public
from marginalia.data.encoding import Encoder, TaskName
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, LinearRegressor, parameters
from marginalia.learning.private import PublicNumber, check_unknown
from marginalia.learning.private_tuning import draw_runs, split_budget, tuning_rate
from marginalia.learning.rows import ByUnit, Integers, Rows, TableRows
from marginalia.learning.solvers import Array
from marginalia.methods.dp_sgd.descent import Batches, Directions, Run, descend, descend_without_noise
from marginalia.methods.dp_sgd.rule import STEPS as STEPS_OF_RULE
from marginalia.methods.dp_sgd.rule import run_by_rule
from marginalia.privacy import checks
from marginalia.privacy.events import (
    CompositionEvent,
    Event,
    GaussianEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.pld import poisson_gaussian_noise_multiplier
from marginalia.privacy.preprocessing.preprocess import PREPROCESSING_SHARE
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.privacy.stopping_cost import random_stopping_mu
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    from marginalia.learning.base import Given


BATCH_SIZE = 256
# What selection="rule" decides, and so must be left as it is.
BY_RULE = (
    "batch_size",
    "epochs",
    "steps",
    "learning_rate",
    "decay",
    "momentum",
    "average",
    "clip",
    "fit_intercept",
    "inputs",
)


@parameters
class _DPSGD(PublicNumber):
    """What both learners share; the parameters are described in `DPSGDClassifier`."""

    SQUARES, READS_ROWS, UNITS = False, True, True

    batch_size: int | None = None
    epochs: float = 20
    steps: int | None = None
    learning_rate: float = 1.0
    decay: float = 0.0
    momentum: float = 0.0
    average: bool = False
    clip: float = 0.2
    fit_intercept: bool = False
    inputs: Literal["scaled", "codes"] = "scaled"
    selection: Literal["rule", "fixed", "random_stopping"] = "rule"

    def fit(
        self,
        X: Given,
        y: object = None,
        *,
        domain: Public | None = None,
        preprocessing_share: float = PREPROCESSING_SHARE,
        **unknown: Any,
    ) -> Self:
        """Learn under (epsilon, delta)-differential privacy.

        With ``epsilon=math.inf`` there is no noise, no privacy, and no `ledger_`.

        Parameters
        ----------
        X, y, domain, preprocessing_share
            As in `BudgetedLearner.fit`.

        Returns
        -------
        self
        """
        if self.epsilon == math.inf:
            check_unknown(self, unknown)
            self._check_parameters()
            rows = self._rows(*self._given(X, y, domain))
            with one_blas_thread():
                self._keep(self._train_without_noise(rows, Randomness(self.random_state)))
        else:
            super().fit(X, y, domain=domain, preprocessing_share=preprocessing_share, **unknown)
        if self.encoder_ is not None and self.inputs == "codes":
            # code = (z + 1)(m - 1)/2 for the encoded feature z; an indicator of missing values is as it is
            shift, half = _to_codes(self.encoder_)
            self.intercept_ += float((half * shift) @ self.coef_)
            self.coef_ = half * self.coef_
        return self

    def _release(self, rows: Rows, session: Session) -> NDArray[np.float64]:
        X, n = self._design(rows), rows.n_units
        if self.selection == "random_stopping":
            budget = session.ledger.remaining_budget(planned_runs)
            public = self._public_number(rows)
            return best_of_random_runs(X, rows.y, self.task, *budget, n=public, session=session, by_unit=rows.by_unit)
        batches, steps = self._schedule(n)
        noise = self._noise_multiplier(batches, steps, n, session.ledger)
        run = self._run(rows, n, steps, noise, session.neighbours.contributions)
        (w,) = descend(X, rows.y, self.task, [run], batches, session=session, by_unit=rows.by_unit).T
        return np.ascontiguousarray(w)

    def _train_without_noise(self, rows: Rows, randomness: Randomness) -> NDArray[np.float64]:
        X, n = self._design(rows), len(rows.y)
        batches, steps = self._schedule(n)
        run = self._run(rows, n, steps, noise_multiplier=0.0, k=1)
        (w,) = descend_without_noise(X, rows.y, self.task, [run], batches, randomness).T
        return np.ascontiguousarray(w)

    def _run(self, rows: Rows, n: int, steps: int, noise_multiplier: float, k: int) -> Run:
        if self.selection == "rule":
            bound = math.sqrt(k) * self._length(rows)
            return run_by_rule(self.task, bound=bound, n=self.n_public or n, noise_multiplier=noise_multiplier)
        return Run(steps, self.learning_rate, self.clip, noise_multiplier, self.decay, self.momentum, self.average)

    def _schedule(self, n: int) -> tuple[Batches, int]:
        """Return batches and steps, from public numbers alone."""
        n = self.n_public or n
        if self.selection == "rule":
            return Batches(1.0, n), STEPS_OF_RULE
        size = min(BATCH_SIZE, n) if self.batch_size is None else self.batch_size
        if size > n:
            raise InputError(f"batch_size is {size}: more than the {n} rows; use at most {n}")
        return Batches(size / n, size), self.steps or max(1, math.floor(self.epochs * n / size))

    def _noise_multiplier(self, batches: Batches, steps: int, n: int, ledger: Ledger) -> float:
        def multiplier(epsilon: float, delta: float) -> float:
            if self.calibration == "published":
                of_mean = self.clip * math.sqrt(16 * steps * -math.log(delta)) / ((self.n_public or n) * epsilon)
                return of_mean * batches.size / self.clip
            return poisson_gaussian_noise_multiplier(epsilon, delta, batches.rate, steps, ledger.relation)

        def run(epsilon: float, delta: float) -> list[Event]:
            return [PoissonGaussianEvent(batches.rate, multiplier(epsilon, delta), steps)]

        return multiplier(*ledger.remaining_budget(run))

    @staticmethod
    def _length(rows: Rows) -> float:
        """Return a public 2-norm of a row and its constant: the bound of a table, or of features in [-1, 1]."""
        return math.hypot(rows.feature_bound, 1) if isinstance(rows, TableRows) else math.sqrt(rows.n_features + 1)

    def _design(self, rows: Rows) -> NDArray[np.float64]:
        X = rows.X
        if self.encoder_ is not None and self.inputs == "codes":
            shift, half = _to_codes(self.encoder_)
            X = (X + shift) * half
        constant = self.fit_intercept or self.selection == "rule"
        return np.column_stack([X, np.ones(len(X))]) if constant else X

    def _encoder(self, domain: Domain, target: str) -> Encoder:
        if self.inputs == "scaled":
            return super()._encoder(domain, target)
        super()._encoder(domain, target)  # refuses unknown names
        return Encoder(domain, target, one_hot=())

    def _check_budget(self) -> None:
        if self.epsilon == math.inf:
            checks.open_unit("delta", self.delta)
        else:
            super()._check_budget()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._choose("inputs", ("scaled", "codes"))
        self._choose("selection", ("rule", "fixed", "random_stopping"))
        for name in ("batch_size", "steps"):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name))
        checks.positive("epochs", self.epochs)
        checks.positive("learning_rate", self.learning_rate)
        checks.not_negative("decay", self.decay)
        if not 0 <= self.momentum < 1:
            raise InputError(f"momentum is {self.momentum}: need at least 0, and less than 1")
        if not (self.clip == math.inf and self.epsilon == math.inf):
            checks.positive("clip", self.clip)
        if self.selection == "random_stopping":
            self._check_selection()
        if self.selection == "rule":
            self._check_rule()

    def _check_rule(self) -> None:
        for name in BY_RULE:
            if getattr(self, name) != getattr(type(self), name):
                raise InputError(
                    f"{name} is {getattr(self, name)!r}, but selection='rule' decides on it; "
                    "give selection='fixed' besides, or leave it out"
                )
        if self.calibration == "published":
            raise InputError("selection='rule' goes with calibration='tight'; give selection='fixed' for 'published'")

    def _check_selection(self) -> None:
        if self.epsilon == math.inf:
            raise InputError("selection='random_stopping' needs a finite epsilon")
        if self.calibration == "published":
            raise InputError("selection='random_stopping' goes with calibration='tight' only")


class DPSGDClassifier(_DPSGD, LinearClassifier):
    """Logistic regression by DP-SGD (Abadi et al. 2016): clipped gradients of Poisson batches, with Gaussian noise.

    From w = 0, ``w <- w - learning_rate/(1 + decay t) (sum of clipped gradients + clip sigma N(0, I)) / batch_size``.
    By default a rule in public numbers decides on all of it: 80 steps on all rows with a constant, momentum .95, the
    mean of the last 40 iterates released; clip and learning rate follow from the length of rows, their number and the
    noise, and from no data (see `rule.run_by_rule`).

    Parameters
    ----------
    epsilon : float, default 1.0
        Infinity: plain SGD with the same batches, without privacy (`clip` still applies, and may then be infinite).
    delta, one_hot, random_state
        As in `BudgetedLearner`.
    relation : {"replace_one", "add_remove"}, default "replace_one"
        Neighbouring relation; ``add_remove`` needs `n_public`.
    calibration : {"tight", "published"}, default "tight"
        The smallest noise that the privacy loss distribution certifies, or that of Iyengar et al. (2019) on the mean
        gradient, sigma = clip sqrt(16 T ln(1/delta))/(n epsilon).
    batch_size : int, optional
        With ``selection="fixed"``, like all up to `inputs`; the defaults are then a setting of Ferrando and Sheldon's
        grid. Expected size of a Poisson batch. Default: 256, or the number of rows where that is less.
    epochs : float, default 20
        Number of steps T times `batch_size` over the number of rows, rounded down.
    steps : int, optional
        T, in place of `epochs`.
    learning_rate, decay, clip : float, default 1.0, 0.0 and 0.2
    momentum : float, default 0.0
        In [0, 1): a step goes on by so many times the one before.
    average : bool, default False
        Release the mean of the second half of the iterates, in place of the last one.
    fit_intercept : bool, default False
        Append a constant 1 to every row.
    inputs : {"scaled", "codes"}, default "scaled"
        Tables only: train on features scaled by the public domain, or on the bare integer codes of all attributes (no
        one-hot blocks). `coef_` and `intercept_` refer to `encoder_` in both.
    n_public : int, optional
        A documented number of rows, from which the sampling rate, T and the noise follow. Default: the number of rows
        in `fit`, which is public under ``replace_one`` (and not used for anything but plain SGD at infinite epsilon
        under ``add_remove``, where the number has to be given).
    selection : {"rule", "fixed", "random_stopping"}, default "rule"
        The setting by a public rule; the parameters above; or full-batch settings chosen privately: see
        `best_of_random_runs`, all parameters of the descent are then unused.

    Attributes
    ----------
    ledger_ : Ledger
        Absent after a fit without privacy.

    Notes
    -----
    Rows of arrays may have any length: their gradients are clipped. Scale features by *public* bounds all the same,
    best to [-1, 1]: the rule takes them to be so.

    Where a table's rows are of units, batches are samples of units, and `clip` bounds the summed gradient of one: the
    noise is that of single rows, whatever k is. All numbers of rows above are then numbers of units.

    Privacy: (epsilon, delta)-DP; one event of Poisson-sampled Gaussians, or one of random stopping.

    Examples
    --------
    >>> X, y = [[1.0], [-1.0]] * 500, ["yes", "no"] * 500
    >>> model = DPSGDClassifier(epsilon=2.0, random_state=0).fit(X, y)
    >>> model.predict([[0.5]]), model.ledger_.certified
    (array(['yes'], dtype='<U3'), True)
    """


class DPSGDRegressor(_DPSGD, LinearRegressor):
    """Linear regression by DP-SGD with the loss (y - x.w)².

    Parameters
    ----------
    epsilon, delta, calibration, relation, one_hot, random_state
        As in `DPSGDClassifier`.
    batch_size, epochs, steps, learning_rate, decay, clip, momentum, average
        As in `DPSGDClassifier`.
    fit_intercept, inputs, n_public, selection
        As in `DPSGDClassifier`.

    Examples
    --------
    >>> X, y = [[1.0], [-1.0]] * 500, [0.5, -0.5] * 500
    >>> model = DPSGDRegressor(epsilon=math.inf)
    >>> model.fit(X, y).coef_.round(2)
    array([0.5])
    """


def _to_codes(encoder: Encoder) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what to add to each feature, and to multiply it with then, to have the bare codes again."""
    shift, half = [], []
    for attribute in (encoder.domain[name] for name in encoder.features):
        indicators = attribute.size - attribute.n_values
        shift += [1.0, *[0.0] * indicators]
        half += [(attribute.n_values - 1) / 2, *[1.0] * indicators]
    return np.array(shift), np.array(half)


STEPS = 20
# The published grid (learning rates up to 1, clips up to 0.2) hardly moves in 20 full batches.
CANDIDATES = tuple(product((1.0, 3.0, 10.0), (0.2, 1.0)))  # learning rate, clip
MISS = 0.2  # probability that a given candidate is never tried
_UNIT = 2.0**-30  # of a loss
MODEL_SHARE = 0.95  # of the squared budget mu² of a run; the score has the rest


def best_of_random_runs(
    X: Array,
    y: Array,
    task: TaskName,
    epsilon: float,
    delta: float,
    *,
    n: int,
    session: Session,
    by_unit: ByUnit | None = None,
) -> Array:
    """Train random candidates a random number of times on full batches and return the weights of the best run.

    Each run is scored by its noisy sum of squared errors on the training rows: (P(y = 1) - y)² for a classifier, and
    (y - x.w)²/4 with y and the scores cut to [-1, 1] for a regressor, both in [0, 1]. The number of runs is geometric;
    it, the time it takes and the runs that did not win stay secret. Sums of gradients are divided by n, a public number
    of rows, or of units. One random-stopping event is charged, which spends exactly (epsilon, delta); units of k rows
    move the score by k, which is paid inside a run.

    >>> X, y = np.array([[1.0], [-1.0]] * 50), np.array([1.0, -1.0] * 50)
    >>> session = Session(Ledger("replace_one"), Randomness(0))
    >>> best_of_random_runs(X, y, "logistic", 1.0, 1e-5, n=100, session=session).shape
    (1,)
    >>> round(session.ledger.epsilon(1e-5), 6)
    1.0
    """
    r = tuning_rate(len(CANDIDATES), MISS)
    mu_model, mu_score = split_budget(random_stopping_mu(epsilon, delta, r=r), MODEL_SHARE)
    noise, k = session.ledger.relation.units * math.sqrt(STEPS) / mu_model, session.neighbours.contributions
    gradients = PoissonGaussianEvent(1.0, noise, STEPS, "gradients", arithmetic="exact")
    loss = GaussianEvent(float(k), k / mu_score, "loss", arithmetic="exact")
    one_run = CompositionEvent((gradients, loss), label="one run")
    picks, secret = draw_runs(one_run, r, len(CANDIDATES), session=session)
    runs = [Run(STEPS, rate, clip, noise) for rate, clip in (CANDIDATES[pick] for pick in picks)]
    w = descend(X, y, task, runs, Batches(1.0, n), by_unit=by_unit, session=secret)
    losses = secret.gaussian(
        lambda: _losses(Directions.of(X).scores(w), y, task),
        quantum=_UNIT,
        sensitivity=k * math.sqrt(picks.size),
        sigma=k / mu_score,
    )
    return np.array(w[:, int(np.argmin(losses))], dtype=np.float64)  # a view would keep all runs


def planned_runs(epsilon: float, delta: float) -> list[Event]:
    """Return what `best_of_random_runs` charges, but for the parts of a run.

    >>> round(planned_runs(1.0, 1e-5)[0].r, 3)
    0.05
    """
    r = tuning_rate(len(CANDIDATES), MISS)
    return [RandomStoppingEvent(GaussianEvent(1.0, 1 / random_stopping_mu(epsilon, delta, r=r)), r)]


def _losses(scores: Array, y: Array, task: TaskName) -> Integers:
    """Sum of each column's losses in [0, 1], in whole numbers: one record changes it by at most 1."""
    if task == "logistic":
        losses = np.square(expit(scores) - (y[:, None] + 1) / 2)
    else:
        losses = np.square(np.clip(scores, -1, 1) - np.clip(y, -1, 1)[:, None]) / 4
    return np.rint(losses / _UNIT).astype(np.int64).sum(axis=0)
