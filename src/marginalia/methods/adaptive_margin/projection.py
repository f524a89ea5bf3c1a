"""Johnson-Lindenstrauss projection of the rows (Wang, Zhu and Wang, Algorithm 1)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy import checks


def failure_probability(n: int) -> float:
    """Return beta = 1/n², the paper's probability that the projection distorts too much.

    >>> failure_probability(1000)
    1e-06
    """
    return float(n) ** -2


def jl_dimension(gamma: float, n: int, n_margins: int, *, factor: float = 2.0) -> int:
    """Return k = ceil(C (1/gamma)² ln(|Gamma| (n+2)(n+1)/beta)), beta = 1/n².

    It exceeds any usual number of features for small margins, about n² ln n at gamma = 1/n (in units of the data
    radius). The paper leaves the factor C open. At 2, and not at 1/4, the projected rows kept a third of their margin
    in every trial we made; a union bound needs 36.

    >>> jl_dimension(0.5, 1000, 11)
    241
    """
    # In floats: the product overflows integers at a million rows.
    log = math.log(n_margins * (n + 2.0) * (n + 1.0) / failure_probability(n))
    return math.ceil(factor / checks.positive("gamma", gamma) ** 2 * log)


def draw_projection(k: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return Phi of shape (k, d), entries +-1/sqrt(k) at random: public, drawn without looking at the data.

    >>> abs(draw_projection(4, 2, np.random.default_rng(0))).tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    """
    return rng.choice(np.array([-1.0, 1.0]), size=(k, d)) / math.sqrt(k)
