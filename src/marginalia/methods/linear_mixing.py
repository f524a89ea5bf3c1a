"""Linear mixing: least squares on one Gaussian sketch of the rows and their targets."""

from __future__ import annotations

import math

import numpy as np

from marginalia.learning.base import parameters
from marginalia.learning.rows import Rows
from marginalia.learning.solvers import Array
from marginalia.learning.statistics import mirrored
from marginalia.methods.hessian_mixing import Mixing, sketch_size
from marginalia.privacy.session import Session


@parameters
class LinearMixingRegressor(Mixing):
    """Linear mixing (Lev, Srinivasan, Shenfeld, Ligett, Sekhari and Wilson 2025): least squares on one Gaussian sketch.

    Parameters
    ----------
    epsilon, delta, calibration, relation, feature_bound, fit_intercept, one_hot, random_state, target_bound
        As in `HessianMixingRegressor`.

    Notes
    -----
    The sketch is one of [X, y], of 2.5 max(p, ln(2/rho)) vectors, and the smallest eigenvalue that of [X, y]'[X, y].

    Privacy: as for `HessianMixingRegressor`, without gradients; rows are of norm (B² + Y²)^(1/2).

    Examples
    --------
    >>> model = LinearMixingRegressor(random_state=0).fit([[0.5], [-0.5]] * 5000, [1.0, -0.9] * 5000)
    >>> model.coef_.round(1), model.ledger_.certified
    (array([1.9]), True)
    """

    target_bound: float = 1.0

    def _solve(self, rows: Rows, session: Session) -> Array:
        p = rows.n_features
        squared = rows.feature_bound**2 + rows.target_bound**2
        size = sketch_size(p, 1, session.ledger.remaining_budget()[1])
        plan = self._plan(size, 1, session, gradients=False, inflation=squared / rows.feature_bound**2)
        gram, x_unit, y_unit = rows.whole_gram(most_apart=2.0**9)
        unit = min(x_unit, y_unit)
        scale = np.full(p + 1, round(x_unit / unit))
        scale[p] = round(y_unit / unit)
        bound = math.sqrt(squared) * (1 + 2.0**-50)
        moment = mirrored(self._sketches(gram * np.outer(scale, scale), unit, bound, plan, rows, session)[0])
        return np.asarray(np.linalg.solve(moment[:p, :p], moment[:p, p]))
