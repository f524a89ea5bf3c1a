"""What every linear learner shares: its inputs, its predictions, and the ledger round a private fit."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from marginalia.data import Domain, Table
from marginalia.data.encoding import Encoder, Task
from marginalia.errors import InputError, unknown_name
from marginalia.learning.rows import ArrayRows, Rows, TableRows, within_bounds
from marginalia.privacy import checks
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Relation
from marginalia.threads import one_blas_thread

Seed = int | np.random.SeedSequence | None


class LinearLearner(BaseEstimator, ABC):
    """A model whose score of a row is ``x . coef_ + intercept_``.

    Rows come as a `Table` (encoded from its public domain) or as an array. A model fitted on a table accepts tables
    for prediction and arrays already encoded by `encoder_`; one fitted on arrays accepts arrays.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        0 unless the learner fits one.
    encoder_ : Encoder or None
        How tables become features; None after a fit on arrays.
    n_features_in_ : int
        Columns of the encoded design matrix.
    """

    task: ClassVar[Task]
    one_hot: Iterable[str] | None
    coef_: NDArray[np.float64]
    intercept_: float
    encoder_: Encoder | None
    n_features_in_: int

    def _table_rows(self, table: Table, target: object) -> TableRows:
        """Encode a table, after checking that it can be learnt from."""
        if not isinstance(target, str):
            raise InputError("with a Table, y is the name of the target column: fit(table, 'target')")
        encoder = self._encoder(table.domain, target)
        if not table.n_rows:
            raise InputError("the table has no rows; nothing can be learnt from it")
        rows = TableRows(table, encoder, self.task)
        self._check_target(rows)
        self._forget("feature_names_in_")  # of an earlier fit on arrays
        self.encoder_ = encoder
        self.n_features_in_ = encoder.n_features
        return rows

    def _encoder(self, domain: Domain, target: str) -> Encoder:
        """Return how tables of `domain` become features."""
        return Encoder(domain, target, one_hot=self.one_hot)

    def _array_rows(self, X: ArrayLike, y: object) -> ArrayRows:
        """Check arrays and apply the public bounds."""
        bounds = {name: float(getattr(self, name, math.inf)) for name in ("feature_bound", "target_bound")}
        if isinstance(y, str):
            raise InputError("a target name needs a Table; with arrays, y holds one value for every row")
        features, values = self._validated(X, y)
        target = self._array_target(values)
        self.encoder_ = None
        return within_bounds(features, target, **bounds)

    def _rows(self, X: Table | ArrayLike, y: object) -> Rows:
        self._forget("coef_", "ledger_")  # a failed refit must not pass for a fitted model
        return self._table_rows(X, y) if isinstance(X, Table) else self._array_rows(X, y)

    def _features(self, X: Table | ArrayLike) -> NDArray[np.float64]:
        """Return the design matrix to predict from."""
        if not hasattr(self, "coef_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit first")
        if not isinstance(X, Table):
            return self._validated(X)
        if self.encoder_ is None:
            raise InputError(f"this {type(self).__name__} was fitted on arrays; predict from an array")
        return self.encoder_.transform(X)

    def _scores(self, X: Table | ArrayLike) -> NDArray[np.float64]:
        features = self._features(X)
        with one_blas_thread():
            return np.asarray(features @ self.coef_ + self.intercept_, dtype=np.float64)

    def _validated(self, X: ArrayLike, y: object = "no_validation") -> Any:
        """Run scikit-learn's array checks, with one-line messages."""
        fitting = not isinstance(y, str)
        options = {"y_numeric": self.task == "linear"} if fitting else {}
        try:
            return validate_data(self, X, y, reset=fitting, dtype=np.float64, **options)
        except ValueError as error:
            message = str(error)
            if "feature names" in message:  # lists the names, one on each line
                raise
            # The advice that follows on missing values takes a paragraph; other messages are short.
            one_line = message.splitlines()[0] if message.startswith("Input ") else " ".join(message.split())
            raise InputError(one_line) from None

    def _forget(self, *attributes: str) -> None:
        for name in attributes:
            if hasattr(self, name):
                delattr(self, name)

    @abstractmethod
    def _array_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Turn the checked `y` of an array fit into numbers."""

    def _check_target(self, rows: TableRows) -> None:
        """Refuse a target column that the task cannot use."""


class LinearRegressor(RegressorMixin, LinearLearner):
    """A linear learner that predicts a number."""

    task = "linear"

    def predict(self, X: Table | ArrayLike) -> NDArray[np.float64]:
        """Return predictions, shape (n,).

        After a fit on a table these are in the scaled units of the target, where its codes span [-1, 1]; a target
        column in `X` is ignored.
        """
        return self._scores(X)

    def _array_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return y.astype(np.float64)


class LinearClassifier(ClassifierMixin, LinearLearner):
    """A linear learner of two classes.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The codes 0 and 1 after a fit on a table; else the sorted labels, which are taken to be public.
    """

    task = "logistic"
    target_bound = 1.0  # labels are -1 and +1
    classes_: NDArray[Any]

    def decision_function(self, X: Table | ArrayLike) -> NDArray[np.float64]:
        """Return scores, shape (n,); positive means ``classes_[1]``."""
        return self._scores(X)

    def predict_proba(self, X: Table | ArrayLike) -> NDArray[np.float64]:
        """Return the logistic function of the scores for both classes, shape (n, 2)."""
        scores = self._scores(X)
        return np.column_stack([expit(-scores), expit(scores)])

    def predict(self, X: Table | ArrayLike) -> NDArray[Any]:
        """Return the predicted class of every row, shape (n,)."""
        positive = self._scores(X) > 0
        return self.classes_[positive.astype(int)]

    def _array_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if classes.size > 2:
            raise InputError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}, "
                f"with {classes.size} classes."
            )
        if classes.size < 2:
            raise InputError(f"y holds one class only ({classes[0]!r}); a classifier needs rows of two classes")
        self.classes_ = classes
        return np.where(codes == 1, 1.0, -1.0)

    def _check_target(self, rows: TableRows) -> None:
        _ = rows.y  # refuses a target that has not exactly two codes
        self.classes_ = np.arange(2)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class PrivateLearner(LinearLearner):
    """A learner that sees private rows only through mechanisms, each booked in `ledger_`.

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
    relation : {"add_remove", "replace_one"}, default "add_remove"
        Neighbouring relation.
    feature_bound : float, default 1.0
        Arrays only: public bound of every row's 2-norm; longer rows are shrunk to it in `fit`. A table's bound
        follows from its domain and nothing is ever clipped.
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.
    random_state : int, numpy.random.SeedSequence or None, default None
        Seed of the noise; None draws fresh entropy, which a real release must use.

    Attributes
    ----------
    ledger_ : Ledger
        What the fit spent.
    """

    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight", "published")

    ledger_: Ledger

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        calibration: str = "tight",
        relation: str = "add_remove",
        feature_bound: float = 1.0,
        one_hot: Iterable[str] | None = None,
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.calibration = calibration
        self.relation = relation
        self.feature_bound = feature_bound
        self.one_hot = one_hot
        self.random_state = random_state

    def fit(self, X: Table | ArrayLike, y: object) -> Self:
        """Learn under (epsilon, delta)-differential privacy.

        Parameters
        ----------
        X : Table or array-like of shape (n, p)
        y : str or array-like of shape (n,)
            The target's name with a table, its values with an array.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter or the data are unusable; one line says what and where.
        PrivacyError
            The fit would spend more than (epsilon, delta).
        """
        self._check_parameters()
        rng = generator(self.random_state)
        rows = self._rows(X, y)
        ledger = Ledger(Relation(self.relation))
        with one_blas_thread():
            coef = self._release(rows, ledger, rng)
        ledger.certify(self.epsilon, self.delta, calibration=self.calibration)
        self.coef_ = coef
        self.intercept_ = 0.0
        self.ledger_ = ledger
        return self

    @abstractmethod
    def _release(self, rows: Rows, ledger: Ledger, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the coefficients; read private rows through mechanisms only."""

    def _check_parameters(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.open_unit("delta", self.delta)
        checks.positive("feature_bound", self.feature_bound)
        choose(self, "calibration", self.CALIBRATIONS)
        choose(self, "relation", tuple(Relation))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # At the default bound and epsilon the noise swamps scikit-learn's test sets of a few dozen rows.
        return poor_score(tags)


def choose(learner: LinearLearner, parameter: str, allowed: tuple[str, ...]) -> None:
    """Raise an `InputError` with the nearest valid value unless `parameter` of `learner` is one of `allowed`."""
    value = getattr(learner, parameter)
    if value not in allowed:
        raise unknown_name(f"{parameter} of {type(learner).__name__}", str(value), allowed)


def poor_score(tags: Any) -> Any:
    """Mark a learner that need not predict scikit-learn's small test sets well."""
    for task_tags in (tags.regressor_tags, tags.classifier_tags):
        if task_tags is not None:
            task_tags.poor_score = True
    return tags


def generator(seed: Seed) -> np.random.Generator:
    """Return ``numpy.random.default_rng(seed)``, refusing what is no seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InputError(f"random_state must be a non-negative integer, a SeedSequence or None, not {seed!r}") from None
