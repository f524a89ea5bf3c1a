"""Error bars on the coefficients of a private learner: of one that releases noisy sums, and of no other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from marginalia.data.encoding import CentredEncoder, Encoder
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.inference.regressions import Regression
from marginalia.inference.release import estimand_of, notes_on_unit
from marginalia.inference.sets import Linear, coefficient
from marginalia.learning.base import LinearLearner
from marginalia.learning.statistics import mirrored
from marginalia.privacy import checks
from marginalia.threads import one_blas_thread

_MOST = 60  # features
_INSTEAD = (
    "; release the pairs of its columns and run `marginalia infer RELEASE FORMULA`, or fit SSP (`fit --method ssp`)"
)
_WHY = {
    "AdaSSPRegressor": "its ridge follows a noisy eigenvalue, so its target is another with each release",
    "DPSGDRegressor": "noise enters at every step of a path that depends on it",
    "DPSGDClassifier": "noise enters at every step of a path that depends on it",
    "ObjectivePerturbationClassifier": "the noise is in the loss, whose curvature at the minimum is not released",
    "OLSRegressor": "no noise of known law was added; of synthetic rows it counts each as a person",
    "LogisticClassifier": "no noise of known law was added; of synthetic rows it counts each as a person",
}


def coefficients(
    model: LinearLearner, *, confidence: float = 0.95, ridge: float = 0.0, guaranteed: bool = False
) -> Regression:
    """Return the least-squares coefficients of a learner's encoded rows with confidence sets, from its noisy sums.

    The target is b with (X'X + ridge I) b = X'y of the private rows as the learner encodes them: features, an intercept
    where it fits one, and a numeric target in [-1, 1], cut to 15 bits; of a classifier labels -1 and +1. It is not the
    learner's own `coef_`, which a ridge of its own keeps small (and of a classifier a factor stretches).

    Parameters
    ----------
    model : fitted learner
        That keeps X'X and X'y: `SSPRegressor`, and `SSPClassifier` of two classes.
    confidence : float, default 0.95
    ridge : float, default 0.0
        Public.
    guaranteed : bool, default False
        As of `regression`.

    Raises
    ------
    InputError
        Nothing is known of how far its coefficients are from the table's: one line says why, and what to do.

    Examples
    --------
    >>> from marginalia.data import Domain, Table
    >>> from marginalia.learning import SSPRegressor
    >>> table = Table([[0, 0], [1, 1]] * 2000, Domain.from_sizes({"a": 2, "y": 2}))
    >>> found = coefficients(SSPRegressor(epsilon=1.0, random_state=0).fit(table, "y"))
    >>> [(c.name, c.low < 1.0 < c.high, c.label) for c in found.coefficients]
    [('a', True, 'asymptotic'), ('Intercept', False, 'asymptotic')]
    """
    checks.open_unit("confidence", confidence)
    if not (0 <= ridge < math.inf):
        raise InputError(f"ridge must be a number from 0 on, not {ridge!r}")
    kind = type(model).__name__
    kept = {m.label: m for m in getattr(model, "measurements_", [])}
    if kind in _WHY:
        raise InputError(f"{kind} states no intervals: {_WHY[kind]}{_INSTEAD}")
    if not kept:
        raise InputError(
            f"no measurements kept: this {kind} releases no noisy sums, or an older version wrote its file{_INSTEAD}"
        )
    if (encoder := model.encoder_) is None:
        raise InputError(f"{kind}: intervals are for fits on tables, whose columns have public names")
    if both := kept.get("X'X, X'y"):
        upper, h, sd_G, sd_h = both.values[:, :-1], both.values[:, -1], both.drawn, both.drawn
    elif {"X'X", "X'y"} <= set(kept):
        upper, h, sd_G, sd_h = kept["X'X"].values, kept["X'y"].values, kept["X'X"].drawn, kept["X'y"].drawn
    else:
        raise InputError(f"{kind} of more than two classes states no intervals{_INSTEAD}")
    G, p = mirrored(upper), len(upper)
    if p > _MOST:
        raise InputError(f"{p} features: intervals are for up to {_MOST}")
    entry = np.column_stack([np.arange(p), p + _upper_places(p)]).ravel()  # which released number stands in H
    sd = np.where(np.arange(entry.max() + 1) < p, sd_h, sd_G)
    K = np.where(entry[:, None] == entry[None, :], (sd**2)[entry][:, None], 0.0)
    H, names = np.column_stack([h, G + ridge * np.eye(p)]), list(encoder.feature_names)
    if len(names) < p:  # categories are centred beside a constant: b is that of the features and an intercept
        A = _centred_of(CentredEncoder(encoder), encoder)
        B = np.block([[np.ones((1, 1)), np.zeros((1, A.shape[1]))], [np.zeros((p, 1)), A]])
        both_sides = np.kron(A.T, B.T)
        H, K, names = A.T @ H @ B, both_sides @ K @ both_sides.T, [*names, "Intercept"]
        p = len(names)
    equations = Linear(H, K)
    with one_blas_thread():
        solution, kappa = equations.solve(), equations.kappa()
        if solution is None:
            raise InputError("the noisy X'X is singular: take a ridge")
        found = [
            coefficient(equations, name, solution, j, confidence=confidence, guaranteed=guaranteed, kappa=kappa)
            for j, name in enumerate(names)
        ]
    q = float(stats.chi2.ppf(confidence, p if guaranteed else 1))
    target, unit = encoder.target, model.ledger_.neighbours.unit
    return Regression(
        *(f"{target}, least squares of {kind}", "gaussian", "table", confidence, found, kappa, q, None, equations),
        notes=notes_on_unit(unit),
        estimand=estimand_of(unit),
    )


def _centred_of(centred: CentredEncoder, plain: Encoder) -> Array:
    """Return A with [X, 1] = X_c A, X of the plain encoder and X_c of the centred one: shape (q, p + 1)."""
    A = np.zeros((centred.n_features, plain.n_features + 1))
    row = column = 0
    for name in plain.features:
        inner, outer = centred.matrices[name], plain.matrices[name]
        with_one = np.vstack([inner, np.ones(inner.shape[1])])
        part = np.linalg.lstsq(with_one.T, outer.T, rcond=None)[0]
        if inner.shape == outer.shape:  # the same columns, not centred
            part = np.vstack([np.eye(len(inner)), np.zeros(len(inner))])
        A[row : row + len(inner), column : column + len(outer)] = part[:-1]
        A[-1, column : column + len(outer)] = part[-1]
        row, column = row + len(inner), column + len(outer)
    A[-1, -1] = 1.0
    return A


def _upper_places(p: int) -> NDArray[np.intp]:
    """Return for each entry of a symmetric matrix the number of its twin on or above the diagonal."""
    j, k = np.indices((p, p))
    return np.minimum(j, k) * p + np.maximum(j, k)
