"""DD-SSP: regression from privately released marginals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginalia.data.domain import Column, Domain, Public
from marginalia.data.encoding import CentredEncoder, Encoder, ztz
from marginalia.data.reading import is_frame
from marginalia.data.table import CountSource, RawTable, Table
from marginalia.errors import InputError
from marginalia.learning.base import LinearClassifier, LinearLearner, LinearRegressor, Seed, parameters, poor_score
from marginalia.learning.private import check_unknown
from marginalia.learning.rows import ArrayRows, TableRows
from marginalia.learning.solvers import least_squares, nearest_semidefinite
from marginalia.learning.statistics import logistic_scale, one_against_rest
from marginalia.learning.surroundings import warn_of_surroundings
from marginalia.privacy import checks
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.preprocessing.preprocess import PREPROCESSING_SHARE
from marginalia.privacy.relation import Relation
from marginalia.threads import one_blas_thread

if TYPE_CHECKING:
    from marginalia.learning.base import Given

# Multiple of the noise's typical spectral norm, for tables that no single distribution has, with an intercept or
# without: at 1 the least that typically makes up for the noise; 1/2 was chosen on Adult, NIST Taxi, COMPAS and ACS
# Employment.
RIDGE = {True: 0.5, False: 1.0}


class MarginalSource(Protocol):
    """What DD-SSP needs of a synthesizer.

    >>> from marginalia.methods.independent import Independent
    >>> source: MarginalSource = Independent(epsilon=1.0)
    """

    domain_: Domain
    ledger_: Ledger

    def fit(self, table: Table) -> Self:
        """Release the table."""

    def marginal(self, attributes: Sequence[str]) -> NDArray[np.float64]:
        """Return a released marginal as counts."""


@parameters
class _DDSSP(LinearLearner):
    """Fit by X'X and X'y read off a source's two-way marginals."""

    marginals: MarginalSource | None = None
    feature_bound: float = 1.0
    n_bins: int = 16
    fit_intercept: bool = True
    random_state: Seed = None

    def fit(
        self,
        X: Given,
        y: object = None,
        *,
        domain: Public | None = None,
        preprocessing_share: float = PREPROCESSING_SHARE,
        **unknown: Any,
    ) -> Self:
        """Fit `marginals` unless it is fitted, and solve for the coefficients.

        Parameters
        ----------
        X : Table, DataFrame or array-like of shape (n, p)
            With fitted `marginals` only the domain of a table is used, never its rows; it may have fewer attributes
            than the source.
        y : array-like of shape (n,) or str, optional
            As for `BudgetedLearner.fit`.
        domain : Domain, dict or path of a domain file, optional
            Deprecated: a parameter of the constructor; default for a data frame with a target: that of fitted
            `marginals`. Labels and edges that a domain leaves open are learned in the ledger of `marginals`.
        preprocessing_share : float, default 0.1
            Share of the budget for what is learned so; see `preprocess`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            A parameter or the data are unusable, the source's domain is another one, or its tables belong to no
            distribution although it does not state their noise.
        """
        check_unknown(self, unknown)
        self._check_parameters()
        source: Any = None
        if not hasattr(self.marginals, "ledger_"):
            warn_of_surroundings(self)
        given, y = self._given(X, y, domain, default=getattr(self.marginals, "domain_", None))
        if isinstance(given, RawTable):
            source = self.marginals
            if not hasattr(source, "ledger_"):
                source = self._unfitted_source().fit(given, preprocessing_share=preprocessing_share)
            elif is_frame(X):
                raise InputError("the marginals are fitted already, and learn nothing from rows: leave out domain")
            given = given.coded(source.domain_.project(given.names))
        rows = self._rows(given, y)
        if isinstance(rows, TableRows):
            table, encoder, unit = rows.table, rows.encoder, 1.0
        else:
            table, unit = self._binned(rows), rows.target_bound / rows.feature_bound
            encoder = Encoder(table.domain, "y")
        self.marginals_ = source or self._fitted_source(table)
        self.ledger_ = self.marginals_.ledger_
        centred = CentredEncoder(encoder) if self.fit_intercept else None
        with one_blas_thread():
            found = self._solve(centred or encoder)
        weights = centred.in_features(found) if centred else np.append(found, np.zeros((*found.shape[:-1], 1)), axis=-1)
        self.coef_, intercept = unit * weights[..., :-1], rows.target_bound * weights[..., -1]
        self.intercept_ = float(intercept) if intercept.ndim == 0 else intercept
        return self

    def _solve(self, encoder: Encoder) -> NDArray[np.float64]:
        """Return the least-squares coefficients of the encoded target."""
        p = encoder.n_features
        many = self.task == "logistic" and encoder.domain[encoder.target].size > 2
        statistics = ztz(self.marginals_.marginal, encoder.class_matrices() if many else encoder.matrices)

        def solved(ridge: float = 0.0) -> NDArray[np.float64]:
            XX, XY = statistics[:p, :p], statistics[:p, p:]
            return one_against_rest(XX, XY, ridge=ridge) if many else least_squares(XX, XY[:, 0], ridge=ridge)

        sigma = getattr(self.marginals_, "noise_sigma_", None)
        if sigma is not None:
            statistics = nearest_semidefinite(statistics)
            kappa = _marginal_noise_norm(encoder.domain, encoder.target, encoder.one_hot, self.fit_intercept)
            return solved(RIDGE[self.fit_intercept] * kappa * sigma)
        smallest, trace = np.linalg.eigvalsh(statistics)[0], np.trace(statistics)
        if smallest < -1e-8 * abs(trace):
            raise InputError(
                f"the marginals of {type(self.marginals_).__name__} belong to no single distribution (Z'Z has the "
                f"eigenvalue {smallest:.3g}); a source of raw noisy tables must state their noise as noise_sigma_"
            )
        return solved()

    def __sklearn_tags__(self) -> Any:
        return poor_score(super().__sklearn_tags__())

    def _hides_rows(self) -> bool:
        return str(getattr(self.marginals, "relation", Relation.ADD_REMOVE)) == Relation.ADD_REMOVE

    def _unfitted_source(self) -> Any:
        source: Any = self.marginals
        if source is None:
            from marginalia.methods.gaussian_marginals import (
                GaussianMarginals,  # numba takes 0.2 s to load
            )

            source = GaussianMarginals(epsilon=1.0)
        source = clone(source, safe=False)  # scikit-learn's rule: fit never changes a parameter
        if self.random_state is not None:
            source.set_params(random_state=self.random_state)
        return source

    def _fitted_source(self, table: CountSource) -> Any:
        source: Any = self.marginals
        if not hasattr(source, "ledger_"):
            return self._unfitted_source().fit(table)
        for attribute in table.domain:
            known = source.domain_[attribute.name].size if attribute.name in source.domain_ else None
            if known != attribute.size:
                raise InputError(
                    f"column '{attribute.name}' with {attribute.size} codes is not in the domain that the marginals "
                    "were fitted on; fit them on this table, or pass them unfitted"
                )
        return source

    def _binned(self, rows: ArrayRows) -> Table:
        """Round columns, in units of their bounds, to public grids on [-1, 1]."""
        n_features = rows.n_features
        columns = [*rows.X.T / rows.feature_bound, rows.y / rows.target_bound]
        n_classes = len(self.classes_) if isinstance(self, LinearClassifier) else 0
        sizes = [*[self.n_bins] * n_features, n_classes or self.n_bins]
        names = [*(f"x{j}" for j in range(n_features)), "y"]
        domain = Domain(Column(name, size, "numeric") for name, size in zip(names, sizes, strict=True))
        unit = np.clip(np.column_stack(columns), -1, 1)
        codes = np.rint((unit + 1) / 2 * (np.array(sizes) - 1))
        if n_classes > 2:
            codes[:, -1] = rows.codes()
        return Table(codes, domain)

    def _check_parameters(self) -> None:
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept is {self.fit_intercept!r}: need True or False")
        checks.positive("feature_bound", self.feature_bound)
        checks.positive("target_bound", getattr(self, "target_bound", 1.0))  # a parameter of the regressor only
        source = self.marginals
        if isinstance(source, type) or not (source is None or (hasattr(source, "fit") and hasattr(source, "marginal"))):
            raise InputError(f"marginals is {source!r}: need a synthesizer, such as AIM(epsilon=1.0), fitted or not")
        if checks.count("n_bins", self.n_bins) < 2:
            raise InputError(f"n_bins is {self.n_bins}: need at least 2")


@lru_cache(maxsize=64)
def _marginal_noise_norm(domain: Domain, target: str, one_hot: frozenset[str], constant: bool) -> float:
    """Return kappa, the typical spectral norm of the X'X read off pair tables of unit noise (five fixed draws)."""
    encoder = Encoder(domain, target, one_hot=one_hot)
    encoder = CentredEncoder(encoder) if constant else encoder
    p = encoder.n_features

    def norm(seed: int) -> float:
        rng = np.random.default_rng(seed)
        noise = ztz(lambda pair: rng.standard_normal([domain[name].size for name in pair]), encoder.matrices)
        return float(np.linalg.norm(noise[:p, :p], 2))

    return float(np.mean([norm(seed) for seed in range(5)]))


@parameters
class DDSSPRegressor(_DDSSP, LinearRegressor):
    """Least squares from the two-way marginals of a private release (Ferrando and Sheldon, Algorithm 1).

    X'X and X'y are linear maps of the two-way marginals, so any source of these will do, and nothing is spent beyond
    what the source spends.

    Parameters
    ----------
    marginals : Synthesizer, optional
        Source of the marginals. Unfitted: a copy is fitted to the table, all columns and the target included.
        Fitted: it is used as it is, so one release serves any number of targets and models (a clone of the learner
        holds an unfitted clone of it, and spends again).
        Default: ``GaussianMarginals(epsilon=1.0)``.
    feature_bound, target_bound : float, default 1.0
        Arrays only: public bounds of the rows' 2-norm and of |y|. Longer rows are shrunk, y is clipped.
    n_bins : int, default 16
        Arrays only: every column is rounded to this many points between minus and plus its bound.
    fit_intercept : bool, default True
        Fit an intercept, with one-hot blocks centred (`CentredEncoder`): all of it is read off the same marginals. The
        paper has none.
    one_hot : iterable of str, optional
        Tables only: attributes encoded as one-hot blocks; see `Encoder`.
    random_state : int, numpy.random.SeedSequence or None, default None
        Replaces the seed of unfitted `marginals`; without effect on fitted ones.

    Attributes
    ----------
    marginals_ : Synthesizer
        The fitted source.
    ledger_ : Ledger
        The source's.

    Notes
    -----
    Marginals of one distribution (any graphical model, any table) make Z'Z positive semidefinite; levels that the
    source gives no weight get coefficient 0, where the authors' code adds a ridge of 1e-12. Raw noisy tables belong
    to no distribution: a source of those says so by an attribute ``noise_sigma_`` (standard deviation of each cell).
    Then negative eigenvalues of Z'Z are set to 0 and a ridge of the typical spectral norm of the noise in
    X'X is added (ours).

    Privacy: post-processing of `marginals`.

    Examples
    --------
    >>> model = DDSSPRegressor(n_bins=3, random_state=0).fit([[1.0], [-1.0]] * 5000, [1.0, -1.0] * 5000)
    >>> model.coef_.round(1), round(model.ledger_.epsilon(1e-5), 3)
    (array([1.]), 1.0)
    """

    target_bound: float = 1.0


@parameters
class DDSSPClassifier(_DDSSP, LinearClassifier):
    """Logistic regression from the two-way marginals of a private release (Ferrando and Sheldon, section 3.2).

    The log-likelihood is replaced by the quadratic through it at three Chebyshev nodes on [-6, 6], whose maximiser is
    a positive multiple of least squares on -1/+1 labels, whatever the interval: the interval matters for
    probabilities, not for ranking or classes. Solved in closed form (the authors run L-BFGS, which stops early).
    Of k > 2 classes each gets a model against the rest: all are post-processing of the one release.

    Parameters
    ----------
    marginals, feature_bound, n_bins, fit_intercept, one_hot, random_state
        As in `DDSSPRegressor`.
    code_scale : bool, default False
        Reproduce the authors' code, which takes Chebyshev-basis coefficients for monomial ones: coefficients a third
        of the right size.

    Attributes
    ----------
    marginals_ : Synthesizer

    Notes
    -----
    Privacy: post-processing of `marginals`.

    Examples
    --------
    >>> model = DDSSPClassifier(n_bins=3, random_state=0).fit([[1.0], [-1.0]] * 5000, ["yes", "no"] * 5000)
    >>> model.predict([[0.1]])
    array(['yes'], dtype='<U3')
    """

    MULTI_CLASS = True

    code_scale: bool = False

    def _solve(self, encoder: Encoder) -> NDArray[np.float64]:
        return logistic_scale(code_scale=self.code_scale) * super()._solve(encoder)
