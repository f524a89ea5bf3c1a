"""What every private learner shares: its budget, and the ledger round its fit."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Public
from marginalia.data.table import PrivateRows
from marginalia.errors import InputError, unknown_name
from marginalia.learning.base import LinearClassifier, LinearLearner, Seed, parameters, poor_score
from marginalia.learning.rows import Rows, TableRows
from marginalia.learning.statistics import NoisySums
from marginalia.learning.surroundings import warn_of_surroundings
from marginalia.privacy import checks
from marginalia.privacy.ledger import Ledger, PublicInput, inputs_of_domain, number_of_units
from marginalia.privacy.odometer import current_recorder
from marginalia.privacy.preprocessing.preprocess import PREPROCESSING_SHARE, coded_rows
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session, check_release
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    from marginalia.learning.base import Given


@parameters
class BudgetedLearner(LinearLearner):
    """A learner that sees private rows only through mechanisms, each charged in `ledger_`.

    A subclass implements `_release`. Parameters are described once, here.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy parameter, positive and finite.
    delta : float, default 1e-5
        Privacy parameter, in (0, 1).
    calibration : {"tight", "published"}, default "tight"
        Noise as small as the accountant certifies, or the paper's formula. Where that formula spends more than
        (epsilon, delta) the fit completes with ``ledger_.certified == False`` and the true epsilon in its message.
    relation : {"replace_one", "add_remove"}, default "replace_one"
        Neighbouring relation; the number of rows is public under ``replace_one``, private under ``add_remove``.
    one_hot, domain, target
        As in `LinearLearner`.
    random_state : int, numpy.random.SeedSequence or None, default None
        Seed of the noise; None draws fresh entropy, which a real release must use.

    Attributes
    ----------
    ledger_ : Ledger
        What the fit spent.
    measurements_ : list of NoisySums
        The noisy sums of the fit as they were drawn; empty where a method releases none, or an older version wrote the
        file. They are part of the release, and what `marginalia.inference.coefficients` needs.

    Examples
    --------
    >>> from marginalia.learning import SSPRegressor
    >>> model = SSPRegressor(epsilon=1.0, random_state=0).fit([[0.5], [-0.5]], [1.0, -1.0])
    >>> model.ledger_.certified, round(model.ledger_.epsilon_spent, 6)
    (True, 1.0)

    A data frame with its public domain; predictions are in the units of the target:

    >>> import pandas as pd
    >>> domain = {"attributes": [
    ...     {"name": "age", "type": "integer", "edges": [0, 30, 60, 90]},
    ...     {"name": "smoker", "type": "string", "labels": ["no", "yes"]},
    ...     {"name": "pay", "type": "number", "edges": [0, 20, 40, 60]},
    ... ]}
    >>> frame = pd.DataFrame({"age": [20, 40, 70], "smoker": ["no", "yes", "no"], "pay": [10.0, 30.0, 50.0]})
    >>> frame = pd.concat([frame] * 2000)
    >>> model = SSPRegressor(epsilon=1.0, random_state=0, domain=domain, target="pay").fit(frame)
    >>> model.predict(frame[["age", "smoker"]].head(3)).round()
    array([10., 30., 50.])
    """

    RELATIONS: ClassVar[tuple[str, ...]] = tuple(Relation)  # those with a proof
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight", "published")
    VARIANTS: ClassVar[tuple[str, ...]] = ()  # values of its parameter `variant`; empty: it has no such parameter
    UNITS: ClassVar[bool] = False  # whether it charges for units of several rows
    PRIVATE_ROWS_PER_UNIT: ClassVar[bool] = True  # whether the number may be chosen privately

    epsilon: float = 1.0
    delta: float = 1e-5
    calibration: str = "tight"
    relation: str = "replace_one"
    random_state: Seed = None
    ledger_: Ledger = field(init=False)
    measurements_: list[NoisySums] = field(init=False)  # of SSP and AdaSSP

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_release(cls)

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

        Parameters
        ----------
        X : Table, DataFrame or array-like of shape (n, p)
        y : array-like of shape (n,) or str, optional
            Values of the target. With a table its name; it, and with a data frame that holds the target column `y`, can
            be left out where the parameter `target` names the target.
        domain : Domain, dict or path of a domain file, optional
            Deprecated: a parameter of the constructor. Labels and edges that a domain leaves open are learned in the
            ledger of this fit.
        preprocessing_share : float, default 0.1
            Share of the budget for what is learned so; see `preprocess`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter or the data are unusable; one line says what and where. An error about data is a release that no
            certificate covers: with arrays, that y holds one class only, or more than two, for a classifier, or that
            an entry is not finite. Tables are judged by their public domain alone; one without rows is refused under
            ``replace_one``, where their number is public.
        PrivacyError
            A release would spend more than (epsilon, delta); it is not made.
        """
        check_unknown(self, unknown)
        self._check_parameters()
        warn_of_surroundings(self)
        randomness = Randomness(self.random_state)
        given, y = self._given(X, y, domain)
        unit = given.unit if isinstance(given, PrivateRows) else None
        checks.unit(self, unit)
        ledger = Ledger(
            Relation(self.relation),
            epsilon=self.epsilon,
            delta=self.delta,
            calibration=self.calibration,
            scope=self._scope(),
            recorder=current_recorder(),
            unit=unit,
            planned=True,
        )
        if isinstance(given, PrivateRows):
            given = coded_rows(
                given, ledger=ledger, random_state=self.random_state, preprocessing_share=preprocessing_share
            )
        rows = self._rows(given, y)
        ledger.public_inputs = (*self._public_inputs(rows), *ledger.public_inputs)
        with one_blas_thread():
            weights = self._release(rows, Session(ledger, randomness))
        ledger.close()
        self._keep(weights)
        self.ledger_ = ledger
        return self

    @abstractmethod
    def _release(self, rows: Rows, session: Session) -> NDArray[np.float64]:
        """Return the coefficients, and the intercept after them if there is one; read rows through the session only."""

    def _scope(self) -> str:
        """Return whose rows are protected, where it is not every row; a release may also set ``ledger.scope``."""
        return ""

    def _public_inputs(self, rows: Rows) -> list[PublicInput]:
        """Return what the fit uses as known to everyone, and where it comes from."""
        inputs = []
        if isinstance(rows, TableRows):
            domain = rows.table.domain
            inputs += inputs_of_domain(domain)
            if "feature_bound" in self.get_params(deep=False):
                inputs.append(PublicInput("feature_bound", rows.feature_bound, domain.source))
        else:
            for name in ("feature_bound", "target_bound"):
                if name in self.get_params(deep=False):
                    inputs.append(PublicInput(name, float(getattr(self, name)), "declared"))
            inputs.append(PublicInput("number of features", rows.n_features, "declared"))
            if isinstance(self, LinearClassifier):
                inputs.append(PublicInput("classes", [str(c) for c in self.classes_], "inferred"))
        if (radius := getattr(self, "data_radius", None)) is not None:  # of adaptive margin
            inputs.append(PublicInput("data_radius", float(radius), "declared"))
        if self.relation == Relation.REPLACE_ONE:  # by the choice of this relation
            if isinstance(rows, TableRows):
                inputs.append(number_of_units(rows.table))
            else:
                inputs.append(PublicInput("number of rows", len(rows.y), "declared"))
        return inputs

    def _keep(self, weights: NDArray[np.float64]) -> None:
        p = self.n_features_in_ if self.encoder_ is None else self.encoder_.n_features
        if weights.ndim == 2:  # a model for each class
            self.coef_, self.intercept_ = weights[:, :p], weights[:, p] if weights.shape[1] > p else 0.0
            return
        self.coef_, self.intercept_ = weights[:p], float(weights[p]) if len(weights) > p else 0.0

    def _check_parameters(self) -> None:
        self._check_budget()
        self._choose("calibration", self.CALIBRATIONS)
        checks.relation(self)

    def _check_budget(self) -> None:
        checks.budget(self.epsilon, self.delta)

    def __sklearn_tags__(self) -> Any:
        # At the default bound and epsilon the noise swamps scikit-learn's test sets of a few dozen rows.
        return poor_score(super().__sklearn_tags__())

    def _choose(self, parameter: str, allowed: tuple[str, ...]) -> None:
        """Refuse a value of `parameter` that is not allowed, naming the nearest one that is."""
        value = getattr(self, parameter)
        if value not in allowed:
            raise unknown_name(f"{parameter} of {type(self).__name__}", str(value), allowed)


def check_unknown(learner: LinearLearner, unknown: Mapping[str, Any]) -> None:
    """Raise for keyword arguments that a private `fit` does not take, `sample_weight` among them.

    >>> from marginalia.learning import SSPClassifier
    >>> check_unknown(SSPClassifier(), {"sample_weight": [1.0, 2.0]})
    Traceback (most recent call last):
    marginalia.errors.InputError: SSPClassifier takes no sample_weight: its noise is for rows of equal weight; leave ...
    """
    name = type(learner).__name__
    if "sample_weight" in unknown:
        raise InputError(f"{name} takes no sample_weight: its noise is for rows of equal weight; leave it out")
    for argument in unknown:
        raise TypeError(f"{name}.fit() got an unexpected keyword argument '{argument}'")


@parameters
class PublicNumber(BudgetedLearner):
    """A private learner whose steps and noise follow from a public number of rows, or of units of rows.

    Parameters
    ----------
    epsilon, delta, calibration, one_hot, random_state
        As in `BudgetedLearner`.
    relation : {"replace_one", "add_remove"}, default "replace_one"
        Neighbouring relation; ``add_remove`` needs `n_public`.
    n_public : int, optional
        A documented number of rows. Default: the number in `fit`, which is public under ``replace_one``.

    Examples
    --------
    >>> from marginalia.learning import DPSGDClassifier
    >>> DPSGDClassifier(relation="add_remove").fit([[1.0], [-1.0]], ["yes", "no"])
    Traceback (most recent call last):
    marginalia.errors.InputError: relation add_remove needs n_public, a public number of rows: ...
    """

    n_public: int | None = None

    def _public_number(self, rows: Rows) -> int:
        return self.n_public or rows.n_units

    def _public_inputs(self, rows: Rows) -> list[PublicInput]:
        known = super()._public_inputs(rows)
        return known if self.n_public is None else [*known, PublicInput("n_public", int(self.n_public), "declared")]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_public is not None:
            checks.count("n_public", self.n_public)
        elif self.relation == Relation.ADD_REMOVE and self.epsilon != math.inf:
            raise InputError(
                "relation add_remove needs n_public, a public number of rows: steps and noise follow from it, and the "
                "true one is private; give a documented number (--n-public N), or use relation replace_one"
            )


@parameters
class PrivateLearner(BudgetedLearner):
    """A private learner whose noise follows from public bounds of the rows.

    Parameters
    ----------
    epsilon, delta, calibration, relation, one_hot, random_state
        As in `BudgetedLearner`.
    feature_bound : float, default 1.0
        Arrays only: public bound of every row's 2-norm; longer rows are shrunk to it in `fit`. A table's bound
        follows from its domain and nothing is ever clipped. Where more than half of the rows are more than twice as
        long a fit warns: that is a fact of the private rows, for their owner, and no part of the release.

    Examples
    --------
    >>> from marginalia.learning import SSPClassifier
    >>> SSPClassifier(feature_bound=2.0).fit([[3.0], [-1.0]], ["a", "b"]).ledger_.certified
    True
    """

    feature_bound: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.positive("feature_bound", self.feature_bound)
        checks.positive("target_bound", getattr(self, "target_bound", 1.0))  # a parameter of regressors only


@parameters
class InterceptLearner(PrivateLearner):
    """A private learner of least squares, with an intercept or without.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, one_hot, random_state
        As in `PrivateLearner`.
    fit_intercept : bool, default True
        Append a constant to every row (1 for a table, whose B² grows by 1; for arrays the largest power of two up to
        `feature_bound`) and, for a table, centre its one-hot blocks; see `CentredEncoder`. With the calibration
        ``published`` there is none.

    Examples
    --------
    >>> from marginalia.learning import SSPRegressor
    >>> model = SSPRegressor(random_state=0).fit([[0.5], [-0.5]] * 5000, [1.0, 0.0] * 5000)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([1.]), 0.5)
    """

    fit_intercept: bool = True

    @property
    def has_intercept(self) -> bool:
        """Whether rows get a constant: no paper's method has one."""
        return bool(self.fit_intercept) and self.calibration != "published"

    def _release(self, rows: Rows, session: Session) -> NDArray[np.float64]:
        if not self.has_intercept:
            return self._solve(rows, session)
        return rows.in_features(self._solve(rows.with_constant(), session))

    @abstractmethod
    def _solve(self, rows: Rows, session: Session) -> NDArray[np.float64]:
        """Return least-squares coefficients of the rows' features, shape (p,), or (k, p) of k > 2 classes."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept is {self.fit_intercept!r}: need True or False")
