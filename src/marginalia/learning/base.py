"""What every linear learner shares: its parameters, its inputs, what a fit will take, and its predictions."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, validate_data

from marginalia.data.column import Column
from marginalia.data.domain import Domain, Public, public_domain
from marginalia.data.encoding import Encoder, TaskName, widths
from marginalia.data.reading import check_collected, is_frame, kind_of, with_text_names
from marginalia.data.table import CountSource, PrivateRows, Table, rows_of
from marginalia.errors import InputError, level_of_caller, not_fitted
from marginalia.learning.frames import check_labels, target_name, target_numbers, with_target
from marginalia.learning.rows import ArrayRows, Rows, TableRows, within_bounds
from marginalia.learning.surroundings import join_family
from marginalia.learning.units import class_labels, features_of, in_units
from marginalia.memory import check_cost, short
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

    Given = PrivateRows | pd.DataFrame | ArrayLike

FAR = 2.0  # times its bound: the length of the median row from which a fit on arrays warns
Seed = int | np.random.SeedSequence | None
_C = TypeVar("_C")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def parameters(cls: type[_C]) -> type[_C]:
    """Make the annotated attributes of an estimator the keyword parameters of its constructor, as scikit-learn asks.

    >>> @parameters
    ... class Constant(LinearRegressor):
    ...     value: float = 0.5
    ...     def fit(self, X, y):
    ...         self.coef_, self.intercept_ = np.zeros(len(X[0])), self.value
    ...         return self
    >>> Constant(value=2.0).fit([[1.0]], [3.0]).get_params()
    {'domain': None, 'one_hot': None, 'target': None, 'value': 2.0}
    """
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


@parameters
class LinearLearner(BaseEstimator, ABC):
    """A model whose score of a row is ``x . coef_ + intercept_``.

    Rows come as a `Table` (encoded from its public domain), as a raw data frame, or as an array. A model fitted on a
    table accepts tables for prediction and arrays already encoded by `encoder_`; one fitted on a data frame accepts raw
    data frames besides, with or without the target column, and predicts for these in the target's own units; one
    fitted on arrays accepts arrays.

    Parameters
    ----------
    one_hot : iterable of str, optional
        Tables and data frames: attributes encoded as one-hot blocks; see `Encoder`.
    domain : Domain, dict or path of a domain file, optional
        Public domain of raw data frames.
    target : str, optional
        Name of the target column of a table or of a raw data frame. In `fit` and `score` `y` can then be left out, or
        holds the values of this column.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_classes, n_features)
        One for each column of the design matrix, which `get_feature_names_out` names. Of more than two classes one row
        for each code of the target, or after a fit on arrays for each of `classes_`.
    intercept_ : float, or ndarray of shape (n_classes,)
        0 unless the learner fits one.
    encoder_ : Encoder or None
        How tables become features; None after a fit on arrays.
    n_features_in_ : int
        Columns of the design matrix; after a fit on a data frame, its feature columns.
    feature_names_in_ : ndarray of str
        Of the feature columns after a fit on a data frame.
    from_frame_ : bool
        Whether it was fitted on a raw data frame.

    Examples
    --------
    >>> from marginalia.learning import OLSRegressor
    >>> OLSRegressor().fit([[0.0], [1.0], [-1.0]], [0.0, 0.5, -0.5]).predict([[0.5]]).round(6)
    array([0.25])
    """

    task: ClassVar[TaskName]
    SQUARES: ClassVar[bool] = True  # whether a fit makes matrices of the square of the number of features
    READS_ROWS: ClassVar[bool] = False  # whether it makes the design matrix of a table
    one_hot: Iterable[str] | None = None
    domain: Public | None = None
    target: str | None = None
    coef_: NDArray[np.float64] = field(init=False)
    intercept_: float | NDArray[np.float64] = field(init=False)
    encoder_: Encoder | None = field(init=False)
    n_features_in_: int = field(init=False)
    from_frame_: bool = field(init=False, default=False)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        said = super().__repr__(N_CHAR_MAX)
        if not hasattr(self, "coef_"):
            return said
        rows = f"arrays, {self.n_features_in_} features" if self.encoder_ is None else repr(self.encoder_)
        return f"{said}\n  fitted on {rows}\n  {getattr(self, 'ledger_', 'not private')}"

    def __sklearn_clone__(self) -> Self:
        copy: Self = super().__sklearn_clone__()
        join_family(self, copy)
        return copy

    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Return the names of the columns of the design matrix, one for each coefficient, shape (n_features,).

        Parameters
        ----------
        input_features : None
            There for scikit-learn.
        """
        if not hasattr(self, "coef_"):
            raise not_fitted(self, "fit")
        if self.encoder_ is not None:
            names = list(self.encoder_.feature_names)
        else:
            names = list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)]))
        return np.array(names, dtype=object)

    def _given(
        self, X: Given, y: object, domain: Public | None, default: Domain | None = None
    ) -> tuple[PrivateRows | ArrayLike, object]:
        """Return a table, or a data frame with a domain, as rows and the name of the target; arrays as they are."""
        self._forget()
        check_collected(X)
        frame = is_frame(X)
        if domain is not None or (frame and isinstance(y, str)):
            name = type(self).__name__
            warnings.warn(
                f"domain and the name of the target in fit are deprecated: {name}(domain=..., target=...).fit(frame)",
                DeprecationWarning,
                stacklevel=level_of_caller(),
            )
        public = self.domain if domain is None else domain
        if isinstance(X, PrivateRows):
            return self._checked_rows(rows_of(X, public, fit=""), self.target if y is None else y)
        if frame and (public is not None or isinstance(y, str) or self.target is not None):
            public = default if public is None else public_domain(public)
            target = target_name(y, self.target, public or Domain(()), learner=type(self).__name__)
            if y is not None and not isinstance(y, str):
                if public is not None and target in public:
                    check_labels(y, public[target])
                X = with_target(X, target, y)
            given = self._checked_rows(rows_of(X, public, fit=""), target)
            self.from_frame_ = True
            return given
        if public is not None or self.target is not None:
            raise InputError(
                f"domain and target describe a data frame, and this is {kind_of(X)}; after another step of a Pipeline "
                "the rows stay a data frame with pipeline.set_output(transform='pandas')"
            )
        return X, y

    def _checked_rows(self, rows: PrivateRows, target: object) -> tuple[PrivateRows, object]:
        if (weights := rows.domain.weights) is not None:
            if weights == target:
                raise InputError(f"target '{target}' holds the survey weights of the domain: name another column")
            what = f"does not use the survey weights `{weights}`: each row counts once, and `{weights}` is a feature"
            warnings.warn(f"{type(self).__name__} {what}", stacklevel=4)
        if rows.domain.is_open:
            self._check_target_is_public(rows, target)
        return rows, target

    def _check_target_is_public(self, rows: PrivateRows, target: object) -> None:
        """Raise, before anything is learned privately, if the target is open or cannot be predicted."""
        if not isinstance(target, str):
            raise InputError("with a RawTable, y is the name of the target column: fit(table, 'target')")
        for column in rows.domain.open_columns:
            if column.name == target:
                raise InputError(
                    f"target '{target}': its {column.open_fact} are to be learned, but what a model predicts must be "
                    "public; give them in the domain"
                )
        self._check_classes(self._encoder(rows.domain.placeholder(), target))

    def _forget(self) -> None:
        """Drop the last fit: a failed refit must not pass for a fitted model."""
        for fitted in ("coef_", "ledger_", "from_frame_", "feature_names_in_"):
            self.__dict__.pop(fitted, None)

    def _table_rows(self, table: CountSource, target: object) -> TableRows:
        """Encode a table, after checking that it can be learnt from."""
        if not isinstance(target, str):
            raise InputError("with a Table, y is the name of the target column: fit(table, 'target')")
        # The number of rows may be private; but who streams them must know what memory they take.
        relation = getattr(self, "relation", None)
        public = relation is None or Neighbours(Relation(relation), table.unit).n_rows_public
        told = self.READS_ROWS and (public or not isinstance(table, Table))
        n, name = table.n_rows if told else 0, type(self).__name__
        check_fit(name, table.domain, target, self._one_hot(table.domain), n_rows=n, squares=self.SQUARES)
        encoder = self._encoder(table.domain, target)
        table.expect([] if self.READS_ROWS else combinations(table.domain.names, 2))
        if not (table.n_rows or self._hides_rows()):
            raise InputError("the table has no rows; nothing can be learnt from it")
        self._check_classes(encoder)
        rows = TableRows(table.in_memory() if self.READS_ROWS else table, encoder, self.task)
        self._remember(encoder)
        return rows

    def _remember(self, encoder: Encoder) -> None:
        """Set what a fit on a table or on a data frame knows of its features."""
        self.encoder_, self.n_features_in_ = encoder, encoder.n_features
        if self.from_frame_:
            self.feature_names_in_ = np.array(encoder.features, dtype=object)
            self.n_features_in_ = len(encoder.features)

    def _hides_rows(self) -> bool:
        """Whether the number of rows is private, so that a fit of none must look like any other."""
        return getattr(self, "relation", None) == Relation.ADD_REMOVE and getattr(self, "epsilon", math.inf) < math.inf

    def _encoder(self, domain: Domain, target: str) -> Encoder:
        """Return how tables of `domain` become features."""
        return Encoder(domain, target, one_hot=self._one_hot(domain))

    def _one_hot(self, domain: Domain) -> Iterable[str] | None:
        """Return the columns that are one-hot blocks of the features; None: those of an `Encoder` by default."""
        return self.one_hot

    def _array_rows(self, X: ArrayLike, y: object) -> ArrayRows:
        """Check arrays and apply the public bounds."""
        bounds = {name: float(getattr(self, name, math.inf)) for name in ("feature_bound", "target_bound")}
        if isinstance(y, str):
            raise InputError("a target name needs a Table; with arrays, y holds one value for every row")
        features, values = self._validated(X, y)
        self.encoder_ = None
        target = self._array_target(values)
        _warn_of_long_rows(features, bounds["feature_bound"])
        rows = within_bounds(features, target, **bounds)
        several = self.task == "logistic" and len(getattr(self, "classes_", ())) > 2
        return replace(rows, y=target) if several else rows  # the codes of classes, which are no numbers to clip

    def _rows(self, given: PrivateRows | ArrayLike, y: object) -> Rows:
        """Return rows that have codes, or arrays, as design rows."""
        if isinstance(given, CountSource):
            return self._table_rows(given, y)
        if isinstance(given, PrivateRows):
            column = given.domain.open_columns[0]
            fact = f"the {column.open_fact} of '{column.name}'"
            raise InputError(f"{fact} are to be learned, and this fit has no ledger for that; give them in the domain")
        return self._array_rows(given, y)

    def _is_raw(self, X: object) -> bool:
        return self.from_frame_ and is_frame(X)

    def _features(self, X: Given) -> NDArray[np.float64]:
        """Return the design matrix to predict from."""
        if not hasattr(self, "coef_"):
            raise not_fitted(self, "fit")
        check_collected(X)
        if self._is_raw(X):
            assert self.encoder_ is not None
            X = features_of(X, self.encoder_)
        if not isinstance(X, PrivateRows):
            return self._validated(X)
        if not isinstance(X, CountSource):
            raise InputError("predict from a Table: raw.coded(model.encoder_.domain)")
        if self.encoder_ is None:
            raise InputError(f"this {type(self).__name__} was fitted on arrays; predict from an array")
        return self.encoder_.transform(X.in_memory())

    @property
    def _target(self) -> str:
        assert self.encoder_ is not None
        return self.encoder_.target

    def _with_true(self, X: Given, y: object) -> Any:
        """Return what `score` compares predictions with: a table or a data frame with its target column, or `y`."""
        if not hasattr(self, "coef_"):
            raise not_fitted(self, "fit")
        check_collected(X)
        if y is None or isinstance(y, str):
            if self.encoder_ is None or not (isinstance(X, CountSource) or self._is_raw(X)):
                raise InputError("score needs y, the true values, unless it gets a table or data frame as the fit did")
            if y not in (None, self._target):
                raise InputError(f"the model predicts '{self._target}', not '{y}'")
            if isinstance(X, CountSource):
                return X.in_memory()
            frame = with_text_names(X)
            if self._target not in frame.columns:
                raise InputError(f"data frame: the target column '{self._target}' is missing; give it, or y")
            return frame
        return with_target(X, self._target, y) if self._is_raw(X) else y

    def _scores(self, X: Given) -> NDArray[np.float64]:
        features = self._features(X)
        with one_blas_thread():
            return np.asarray(features @ self.coef_.T + self.intercept_, dtype=np.float64)

    def _validated(self, X: ArrayLike, y: object = "no_validation") -> Any:
        """Run scikit-learn's array checks, with one-line messages."""
        fitting = not isinstance(y, str)
        options = {"y_numeric": self.task == "linear"} if fitting else {}
        try:
            if not fitting and self.from_frame_ and self.encoder_ is not None:
                rows = check_array(X, dtype=np.float64, estimator=self)
                if rows.shape[1] != (p := self.encoder_.n_features):
                    raise InputError(f"predict from a data frame, or from rows that encoder_ made, of {p} features")
                return rows
            return validate_data(self, X, y, reset=fitting, dtype=np.float64, **options)
        except ValueError as error:
            message = str(error)
            if "feature names" in message:  # lists the names, one on each line
                raise
            # The advice that follows on missing values takes a paragraph; other messages are short.
            one_line = message.splitlines()[0] if message.startswith("Input ") else " ".join(message.split())
            raise InputError(one_line) from None

    @abstractmethod
    def _array_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Turn the checked `y` of an array fit into numbers."""

    def _check_classes(self, encoder: Encoder) -> None:
        """Refuse a target column that the task cannot use."""


class LinearRegressor(RegressorMixin, LinearLearner):
    """A linear learner that predicts a number.

    >>> from marginalia.learning import OLSRegressor
    >>> OLSRegressor().fit([[1.0], [2.0]], [2.0, 4.0]).predict([[3.0]]).round(6)
    array([6.])
    """

    task = "linear"

    def predict(self, X: Given) -> NDArray[Any]:
        """Return predictions, shape (n,).

        For arrays and tables these are in the scaled units of the target, where its codes span [-1, 1]; a target column
        in `X` is ignored. For a raw data frame, after a fit on one, in the target's own units: labels that are numbers,
        or the middle of bins; between codes by linear interpolation, beyond the outer ones their values (dates to the
        day). Where labels are no numbers it is the code.
        """
        scores = self._scores(X)
        if not self._is_raw(X):
            return scores
        assert self.encoder_ is not None
        return in_units(scores, self.encoder_.domain[self.encoder_.target])

    def score(self, X: Given, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return R², as scikit-learn defines it, of the predictions.

        Parameters
        ----------
        X : Table, DataFrame or array-like of shape (n, p)
        y : array-like of shape (n,) or str, optional
            True values; their column of a table or of a data frame where `y` is left out or is the name of the target.
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score

        true, found = self._with_true(X, y), self.predict(X)
        if isinstance(true, Table):
            assert self.encoder_ is not None
            true = self.encoder_.target_values(true)
        elif self._is_raw(X):
            name = self._target
            true, found = target_numbers(true[name], name), target_numbers(found, name)
        return float(r2_score(true, found, sample_weight=sample_weight))

    def _array_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return y.astype(np.float64)


class LinearClassifier(ClassifierMixin, LinearLearner):
    """A linear learner of two classes, or of more where the method gets all from one release (one against the rest).

    Of k > 2 classes `coef_` has shape (k, n_features): the model of each class against the others, and the class with
    the largest score is predicted.

    >>> from marginalia.learning import LogisticClassifier
    >>> model = LogisticClassifier().fit([[1.0], [2.0], [-1.0]], ["yes", "yes", "no"])
    >>> model.predict([[3.0], [-3.0]])
    array(['yes', 'no'], dtype='<U3')
    """

    task = "logistic"
    MULTI_CLASS: ClassVar[bool] = False  # whether one release serves the models of more than two classes
    target_bound = 1.0  # labels are -1 and +1
    # After a fit on a table the codes; after one on a data frame the labels of the domain, in the order that
    # scikit-learn's metrics take for granted, which need not be that of the codes: the domain decides. After a fit on
    # arrays the sorted labels that occur, a public input of the certificate: a y of one class, or of more than the
    # method learns, is refused, which tells that it is so.
    classes_: NDArray[Any]

    def decision_function(self, X: Given) -> NDArray[np.float64]:
        """Return scores, shape (n,); positive means ``classes_[1]``. Of k > 2 classes: one each, shape (n, k)."""
        scores = self._scores(X)
        if not self.from_frame_:
            return scores
        codes = self._codes()
        return scores[:, codes] if scores.ndim == 2 else scores * (codes[1] - codes[0])

    def predict_proba(self, X: Given) -> NDArray[np.float64]:
        """Return the logistic function of the scores for both classes, shape (n, 2).

        Of k > 2 classes: that of each class's own score, divided by their sum, shape (n, k).
        """
        scores = self.decision_function(X)
        if scores.ndim == 2:
            shares = np.maximum(expit(scores), np.finfo(np.float64).tiny)
            return np.asarray(shares / shares.sum(axis=1, keepdims=True), dtype=np.float64)
        return np.column_stack([expit(-scores), expit(scores)])

    def predict(self, X: Given) -> NDArray[Any]:
        """Return the predicted class of every row, shape (n,)."""
        scores = self._scores(X)
        return self._labels()[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)]

    def score(self, X: Given, y: object = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of the predicted classes; the parameters are those of `LinearRegressor.score`."""
        from sklearn.metrics import accuracy_score

        true = self._with_true(X, y)
        if self._is_raw(X):
            assert self.encoder_ is not None
            column = self.encoder_.domain.project([self._target])
            true = Table.from_frame(true[[self._target]], column, where="data frame")
        if isinstance(true, Table):
            true = self._labels()[true.column(self._target)]
        return float(accuracy_score(true, self.predict(X), sample_weight=sample_weight))

    def _labels(self) -> NDArray[Any]:
        """Return the class of each code."""
        if not self.from_frame_:
            return self.classes_
        assert self.encoder_ is not None
        return class_labels(self.encoder_.domain[self.encoder_.target])

    def _codes(self) -> NDArray[np.intp]:
        """Return the code of each of `classes_`."""
        return np.argsort(self._labels(), kind="stable")

    def _array_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if classes.size > 2 and not self.MULTI_CLASS:
            raise InputError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}, "
                f"with {classes.size} classes; {self._for_many()}"
            )
        if classes.size < 2:
            raise InputError(f"y holds one class only ({classes[0]!r}); a classifier needs rows of two classes")
        self.classes_ = classes
        if classes.size > 2:
            return codes.astype(np.float64)
        return np.where(codes == 1, 1.0, -1.0)

    def _check_classes(self, encoder: Encoder) -> None:
        target = encoder.domain[encoder.target]
        if target.size > 2 and not self.MULTI_CLASS:
            raise InputError(
                f"target '{target.name}' has {target.size} codes; {type(self).__name__} learns exactly 2 classes; "
                f"{self._for_many()}"
            )
        self._set_classes(target)

    def _set_classes(self, target: Column) -> None:
        self.classes_ = np.sort(class_labels(target)) if self.from_frame_ else np.arange(target.size)

    def _for_many(self) -> str:
        """Return which learners have several classes."""
        if hasattr(self, "epsilon"):
            return "SSPClassifier, DDSSPClassifier and PreconditionedGDClassifier learn more, all from one release"
        return "for more, sklearn.multiclass.OneVsRestClassifier takes one of these for each class"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.MULTI_CLASS
        return tags


def _warn_of_long_rows(features: NDArray[np.float64], bound: float) -> None:
    """Warn where the median row, which no single row moves far, is far beyond its bound; without a number."""
    if bound == math.inf:
        return
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(features, axis=1)
    if np.median(lengths) > FAR * bound:
        warnings.warn(
            f"feature_bound is {bound:g} and most rows are more than {FAR:g} times as long: they are shrunk to it, "
            "which may leave little to learn from; scale the features by public bounds, or raise feature_bound to a "
            "public one (this is a fact of the private rows: keep it to yourself)",
            UserWarning,
            stacklevel=level_of_caller(),
        )


def poor_score(tags: Any) -> Any:
    """Mark a learner that need not predict scikit-learn's small test sets well.

    >>> from marginalia.learning import TrivialRegressor
    >>> TrivialRegressor().__sklearn_tags__().regressor_tags.poor_score
    True
    """
    for task_tags in (tags.regressor_tags, tags.classifier_tags):
        if task_tags is not None:
            task_tags.poor_score = True
    return tags


_SQUARES = 8  # matrices of the size of Z'Z that a learner holds at once
_FACTORISATIONS = 100  # floating-point operations of its eigenvalues and norms, over p³ (measured: 86 to 108)
_OPERATIONS_A_SECOND = 1e10  # of one core


def check_fit(
    name: str, domain: Domain, target: str, one_hot: Iterable[str] | None, *, n_rows: int = 0, squares: bool = True
) -> None:
    """Refuse a fit that does not fit in memory: one-hot columns make matrices of the square of their number.

    Parameters
    ----------
    name : str
        Of the learner, for the message.
    domain : Domain
    target : str
    one_hot : iterable of str or None
        As for `marginalia.data.encoding.Encoder`.
    n_rows : int, default 0
        Rows of the design matrix, where the learner makes one and their number may be told.
    squares : bool, default True
        Whether the learner makes Z'Z, or a Hessian.

    Raises
    ------
    InputError
        It needs more memory than is free.

    Examples
    --------
    >>> check_fit("SSPRegressor", Domain.from_sizes({"town": 30, "pay": 10}), "pay", None)
    >>> check_fit("SSPRegressor", Domain.from_sizes({"town": 10**6, "pay": 10}), "pay", None)
    Traceback (most recent call last):
    marginalia.errors.InputError: SSPRegressor with 999,999 features needs ... MB of memory and about ... hours, ...
    """
    # An iterator is left to the encoder, which reads it once.
    made = widths(domain, one_hot if isinstance(one_hot, Collection) else None)
    columns = {name: width for name, width in made.items() if name != target}
    p = sum(columns.values())
    encoder = sum(width * domain[name].size for name, width in columns.items())
    largest, second, *_ = [*sorted(domain.sizes, reverse=True), 1, 1]
    numbers, operations = encoder + n_rows * p, 0
    mend = "give columns with many codes fewer of them, or encode them as numbers (kind: ordinal)"
    if n_rows * p > encoder + _SQUARES * p**2:
        mend = "take fewer rows, or a learner that needs their counts only: SSP, AdaSSP, DD-SSP"
    if squares:
        numbers += 2 * encoder + 3 * largest * second + _SQUARES * p**2
        operations = _FACTORISATIONS * p**3 + 4 * sum(w**2 * domain[name].size for name, w in columns.items())
    rows = f" of {n_rows:,} rows" if n_rows else ""
    check_cost(
        f"{name} with {short(p)} features{rows}",
        8 * numbers,
        operations / _OPERATIONS_A_SECOND,
        mend=mend,
    )
