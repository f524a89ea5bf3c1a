"""The cost of Gaussian sketches: normal vectors whose covariance is a private matrix.

m vectors are drawn from N(0, Σ), where Σ = A'A + η²I and one record raises Σ in every direction by at most a share r.
For a record more, Σ' = Σ + vv': apart from the direction Σ^(-1/2)v both laws are one, and there the variances are 1 and
1 + v'Σ^(-1)v ≤ a = 1 + r. For a record replaced, Σ' = Σ + ww' - vv' and both Σ' ≤ aΣ and Σ ≤ aΣ'; relative to Σ, the
eigenvalues of Σ' are 1 but for at most one in [1, a] and at most one in [1/a, 1]. The channel x → √c·x + √(1-c)·N(0, 1)
leaves N(0, 1) as it is and turns N(0, s) into N(0, 1 + c(s - 1)), so the extremes dominate: with χ²(m) laws X and Y,

    one more, one less:  c - hX and haX - c,        replaced:  h(aY - X),        h = r/(2a), c = (m/2) ln a,

are the losses. (Lev, Srinivasan, Shenfeld, Ligett, Sekhari and Wilson 2025 bound their Rényi divergences.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy.relation import Relation

_CELLS = 8000  # of the grid of each of the two losses of a replaced record
_TAIL = 1e-30  # mass that a grid leaves out on either side; it counts as lost


def sketch_delta(epsilon: float, *, vectors: int, ratio: float, relation: Relation) -> float:
    """Return the delta at which `vectors` normal vectors are (epsilon, delta)-DP, epsilon ≥ 0.

    Parameters
    ----------
    epsilon : float
    vectors : int
        m, how many vectors have the same covariance.
    ratio : float
        r, by which share of itself one record can raise the variance in any direction.
    relation : Relation

    Notes
    -----
    For a record more or less it is exact; for one replaced an upper bound, as losses are rounded up to a grid.

    Examples
    --------
    >>> f"{sketch_delta(1.0, vectors=200, ratio=0.02, relation=Relation.ADD_REMOVE):.2e}"
    '4.43e-07'
    """
    if relation is Relation.REPLACE_ONE:
        return _profile_of_replaced(vectors, ratio)(epsilon)
    from scipy.special import gammainc, gammaincc  # here, since scipy is slow to load

    a, h, c = _constants(vectors, ratio)
    shape, x = vectors / 2, (c + epsilon) / h
    less = gammaincc(shape, x / a / 2) - math.exp(epsilon) * gammaincc(shape, x / 2)
    x = max(0.0, (c - epsilon) / h)
    more = gammainc(shape, x / 2) - math.exp(epsilon) * gammainc(shape, x / a / 2)
    return max(float(less), float(more), 0.0)


def sketch_epsilon(delta: float, *, vectors: int, ratio: float, relation: Relation) -> float:
    """Return the smallest epsilon at which `vectors` normal vectors are (epsilon, `delta`)-DP; see `sketch_delta`.

    >>> round(sketch_epsilon(1e-5, vectors=200, ratio=0.02, relation=Relation.ADD_REMOVE), 3)
    0.816
    """

    def certified(epsilon: float) -> bool:
        return sketch_delta(epsilon, vectors=vectors, ratio=ratio, relation=relation) <= delta

    if certified(0.0):
        return 0.0
    lower, upper = 0.0, 1.0
    while not certified(upper):
        lower, upper = upper, 2 * upper
        if upper > 700.0:
            return math.inf
    while upper - lower > 1e-13 * upper:
        middle = (lower + upper) / 2
        lower, upper = (lower, middle) if certified(middle) else (middle, upper)
    return upper


def _constants(vectors: int, ratio: float) -> tuple[float, float, float]:
    a = 1 + ratio
    return a, ratio / (2 * a), vectors / 2 * math.log1p(ratio)


@lru_cache(maxsize=64)
def _profile_of_replaced(vectors: int, ratio: float) -> Callable[[float], float]:
    """Return the profile of h(aY - X), from the laws of both terms on one grid, each loss rounded up."""
    from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv

    a, h, _ = _constants(vectors, ratio)
    shape = vectors / 2
    lowest, highest = 2 * gammaincinv(shape, _TAIL), 2 * gammainccinv(shape, _TAIL)
    step = h * a * (highest - lowest) / _CELLS
    ends = np.arange(_CELLS + 1) * step  # above the smallest loss of each term
    rising = ends / (h * a) + lowest  # of Y at these losses
    falling = highest - ends / h  # of X
    up = np.diff(gammainc(shape, rising / 2), prepend=0.0)
    down = np.diff(gammaincc(shape, np.maximum(falling, 0.0) / 2), prepend=0.0)
    lost = 2 * _TAIL
    mass = np.convolve(up, down)
    loss = h * (a * lowest - highest) + np.arange(mass.size) * step
    # Beyond point i: the mass, and its sum with e^(loss_i - loss).
    beyond, tilted = np.cumsum(mass[::-1])[::-1], _suffix_sums(mass, math.exp(-step))

    def profile(epsilon: float) -> float:
        i = int(np.searchsorted(loss, epsilon, side="right"))
        if i == loss.size:
            return lost
        return lost + max(float(beyond[i] - math.exp(epsilon - loss[i]) * tilted[i]), 0.0)

    return profile


def _suffix_sums(mass: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
    """Return s with s_i = mass_i + factor·s_(i+1)."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], [1.0, -factor], mass[::-1])[::-1])
