"""Poisson samples of rows."""

import numpy as np
from numpy.typing import NDArray


def poisson_sample(n_rows: int, rate: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the indices, in no particular order, of rows that are each in the sample with probability `rate`.

    Drawn as a binomial number of rows and then which: the same law as a coin for each row, and ten times faster. At
    rate 1 nothing is drawn from `rng`.

    >>> poisson_sample(100, 0.03, np.random.default_rng(0))
    array([50, 26, 30])
    """
    if rate == 1:
        return np.arange(n_rows)
    size = rng.binomial(n_rows, rate)
    return np.asarray(rng.choice(n_rows, size, replace=False, shuffle=False), dtype=np.intp)
