"""Confidence sets for the coefficients of a private learner that releases noisy sums."""

from __future__ import annotations

import math

import numpy as np

from marginalia.data.encoding import CentredEncoder, Encoder
from marginalia.errors import InputError
from marginalia.inference.estimates import Array
from marginalia.inference.noise import Noise
from marginalia.inference.regressions import Regression
from marginalia.inference.release import estimand_of, notes_on_unit, notes_on_weights
from marginalia.inference.sets import Linear
from marginalia.inference.sets import coefficients as sets_of
from marginalia.learning.base import LinearLearner
from marginalia.learning.statistics import mirrored
from marginalia.privacy import checks
from marginalia.threads import one_blas_thread

_MOST = 60  # features
_ADVICE = (
    "; release the pairs of its columns and run `marginalia infer RELEASE FORMULA`, or fit SSP (`fit --method ssp`)"
)
_NO_INTERVALS = {
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
    if it fits one, and a numeric target in [-1, 1], rounded to 15 bits; for a classifier the labels -1 and +1. It is
    not the learner's `coef_`, which the learner's ridge shrinks (and, for a classifier, a factor scales).

    Parameters
    ----------
    model : fitted learner
        A learner that stores X'X and X'y: `SSPRegressor`, and `SSPClassifier` of two classes.
    confidence : float, default 0.95
    ridge : float, default 0.0
        Public.
    guaranteed : bool, default False
        As of `regression`.

    Raises
    ------
    InputError
        The error of the learner's coefficients has no known distribution; the message gives the reason and a fix.

    Examples
    --------
    >>> from marginalia.data import Domain, Table
    >>> from marginalia.learning import SSPRegressor
    >>> table = Table([[0, 0], [1, 1]] * 2000, Domain.from_sizes({"a": 2, "y": 2}))
    >>> fitted = coefficients(SSPRegressor(epsilon=1.0, random_state=0).fit(table, "y"))
    >>> [(c.name, c.low < 1.0 < c.high, c.label) for c in fitted.coefficients]
    [('a', True, 'asymptotic'), ('Intercept', False, 'asymptotic')]
    """
    checks.open_unit("confidence", confidence)
    if not (0 <= ridge < math.inf):
        raise InputError(f"ridge must be a number from 0 on, not {ridge!r}")
    kind = type(model).__name__
    measurements = {m.label: m for m in getattr(model, "measurements_", [])}
    if kind in _NO_INTERVALS:
        raise InputError(f"{kind} states no intervals: {_NO_INTERVALS[kind]}{_ADVICE}")
    if not measurements:
        raise InputError(
            f"no measurements kept: this {kind} releases no noisy sums, or an older version wrote its file{_ADVICE}"
        )
    if (encoder := model.encoder_) is None:
        raise InputError(f"{kind}: intervals are for fits on tables, whose columns have public names")
    if both := measurements.get("X'X, X'y"):
        upper, h, sd_G, sd_h = both.values[:, :-1], both.values[:, -1], both.drawn, both.drawn
    elif {"X'X", "X'y"} <= set(measurements):
        of_G, of_h = measurements["X'X"], measurements["X'y"]
        upper, h, sd_G, sd_h = of_G.values, of_h.values, of_G.drawn, of_h.drawn
    else:
        raise InputError(f"{kind} of more than two classes states no intervals{_ADVICE}")
    G, p = mirrored(upper), len(upper)
    if p > _MOST:
        raise InputError(f"{p} features: intervals are for up to {_MOST}")
    # Coordinates: the target, then the features. X'X is symmetric, so an entry and its mirror image share their noise.
    variances = np.full((p + 1, p + 1), sd_G**2)
    variances[0, :] = variances[:, 0] = sd_h**2
    left, right = np.eye(p + 1)[1:], np.eye(p + 1)
    H, names = np.column_stack([h, G + ridge * np.eye(p)]), list(encoder.feature_names)
    if len(names) < p:  # the learner centred the categories: transform to the features and an intercept
        A = _centred_of(CentredEncoder(encoder), encoder)
        right = np.block([[np.ones((1, 1)), np.zeros((1, A.shape[1]))], [np.zeros((p, 1)), A]])
        H, left, names = A.T @ H @ right, A.T @ left, [*names, "Intercept"]
    equations = Linear(H, Noise(left, right, variances))
    with one_blas_thread():
        solution = equations.solve()
        if solution is None:
            raise InputError("the noisy X'X is singular: take a ridge")
        sets, at_infinity, q = sets_of(equations, names, solution, confidence=confidence, guaranteed=guaranteed)
    target, unit = encoder.target, model.ledger_.neighbours.unit
    return Regression(
        *(f"{target}, least squares of {kind}", "gaussian", "table", confidence, sets, at_infinity, q, None, equations),
        notes=(*notes_on_unit(unit), *notes_on_weights(encoder.domain)),
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
