"""SSP with a hundred times its ridge."""

from __future__ import annotations

from marginalia.methods.ssp.ssp import SSPRegressor


class HeavyRidgeRegressor(SSPRegressor):
    """As `SSPRegressor`, shrunk.

    >>> HeavyRidgeRegressor(random_state=0).fit([[0.5], [-0.5]] * 5000, [1.0, -1.0] * 5000).coef_.shape
    (1,)
    """

    RIDGE = 100 * SSPRegressor.RIDGE
