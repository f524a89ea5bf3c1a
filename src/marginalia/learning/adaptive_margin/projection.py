"""Johnson-Lindenstrauss projection of the rows (Wang, Zhu and Wang, Algorithm 1)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginalia.privacy import checks

# One float32 rounding: rows are shrunk by it, so that their norm stays within the radius after conversion.
_ROUNDING = 2.0**-22


def failure_probability(n: int) -> float:
    """Return beta = 1/n², the paper's probability that the projection distorts too much."""
    return float(n) ** -2


def jl_dimension(gamma: float, n: int, n_margins: int, *, factor: float = 2.0, beta: float | None = None) -> int:
    """Return k = ceil(C (1/gamma)² ln(|Gamma| (n+2)(n+1)/beta)).

    It exceeds any usual number of features for small margins, about n² ln n at gamma = 1/n.

    Parameters
    ----------
    gamma : float
        Margin in units of the data radius.
    n : int
        Number of rows.
    n_margins : int
        |Gamma|.
    factor : float, default 2.0
        C, which the paper leaves open. At 2, and not at 1/4, the projected rows kept a third of their margin in every
        trial we made; a union bound needs 36.
    beta : float, optional
        Default 1/n².
    """
    beta = failure_probability(n) if beta is None else checks.open_unit("beta", beta)
    return math.ceil(factor / checks.positive("gamma", gamma) ** 2 * jl_log(n, n_margins, beta))


def jl_log(n: int, n_margins: int, beta: float) -> float:
    """Return ln(|Gamma| (n+2)(n+1)/beta); in floats, since the product overflows integers at a million rows."""
    return math.log(n_margins * (n + 2.0) * (n + 1.0) / beta)


def draw_projection(k: int, d: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return Phi of shape (k, d), entries +-1/sqrt(k) at random: public, drawn without looking at the data."""
    return rng.choice(np.array([-1.0, 1.0]), size=(k, d)) / math.sqrt(k)


def clip_rows(X: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """Return the rows of `X` (n, d), those longer than `radius` shrunk to that length."""
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X * (radius / np.maximum(length, radius))


def to_single(X: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the rows in single precision, none of them longer than before."""
    return np.ascontiguousarray(X / (1 + _ROUNDING), dtype=np.float32)
