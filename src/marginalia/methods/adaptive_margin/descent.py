"""Noisy full-batch subgradient descent on hinge losses, all candidates as columns of one matrix.

Wang, Zhu and Wang, Algorithm 5 (after Bassily, Smith and Thakurta 2014), rows scaled to a data radius of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from marginalia.learning.rows import Integers
from marginalia.learning.solvers import Array
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.runs import gaussian_run
from marginalia.privacy.randomness import Randomness

Output = Literal["average", "last"]

# Coordinates of rows are whole numbers of at most 2^13 units, so that sums of 2^11 of them are exact in single
# precision, in any order; sums of blocks are added in double precision.
_BITS = 13
_BLOCK = 2**11


@dataclass(frozen=True)
class Descent:
    """One run's public settings.

    >>> Descent(radius=1.0, mu=0.5, steps=30).output
    'average'
    """

    radius: float  # R, bound of the norm of every row
    mu: float  # Gaussian-DP budget of each candidate's run
    steps: int  # T
    output: Output = "average"  # the mean of w_0 .. w_{T-1}, or the last iterate w_T
    log_factor: float = 1.0  # Lg, weight of the noise in the step size: ln(1/beta') for the last iterate
    step_scale: float = 1.0  # factor of the step size
    progress: bool = False  # show a progress bar


def _noise_scale(sensitivity: float, mu: float, steps: int) -> float:
    """Return sigma = Delta sqrt(T)/mu, the noise of each of T steps that together are mu-GDP."""
    return sensitivity * math.sqrt(steps) / mu


def _step_size(n: int, sensitivity: float, dimension: int, sigma: float, steps: int, log_factor: float = 1.0) -> float:
    """Return eta = 1/sqrt(T (n² Delta² + k sigma² Lg)), for a reference vector at distance 1 from the start."""
    return 1 / math.sqrt(steps * ((n * sensitivity) ** 2 + dimension * sigma**2 * log_factor))


def noisy_descent(
    signed_rows: Array, hinge_c: Array, settings: Descent, *, ledger: Ledger, randomness: Randomness, label: str = ""
) -> Array:
    """Minimise the sum over the rows of max(0, 1 - y<w, z>/c) for every c, with Gaussian noise on every gradient.

    The gradient times c has the sensitivity 2R whatever c, and eta/c does not depend on c either. So the columns
    differ only in the threshold c below which a row counts, and all advance by the same step and noise.

    The signed rows y_i z_i of shape (n, k) have norms of at most `settings.radius`; the models have shape (k, G). The
    ledger gets one Gaussian event for the G gradients of a step, T times: G runs of `settings.mu`-GDP each.

    >>> settings = Descent(radius=1.0, mu=1e6, steps=20)
    >>> given = {"ledger": Ledger("replace_one"), "randomness": Randomness(0)}
    >>> w = noisy_descent(np.eye(2), np.array([0.5]), settings, **given)
    >>> bool((w > 0).all())
    True
    """
    n, k = signed_rows.shape
    T, n_candidates = settings.steps, hinge_c.size
    sensitivity = 2 * settings.radius  # of the gradient times c
    sigma = _noise_scale(sensitivity, settings.mu, T)
    eta = settings.step_scale * _step_size(n, sensitivity, k, sigma, T, settings.log_factor)
    rows, unit = _whole_rows(signed_rows, settings.radius)
    noisy_gradient = gaussian_run(
        _summed_gradient(rows, hinge_c, unit),
        unit=unit,
        sensitivity=sensitivity * math.sqrt(n_candidates),
        sigma=sigma,
        steps=T,
        ledger=ledger,
        randomness=randomness,
        label=label,
    )
    w = np.zeros((k, n_candidates))
    total = np.zeros_like(w)
    for _ in tqdm(range(T), desc="noisy gradient descent", unit="step", disable=not settings.progress):
        total += w
        w = w - eta * noisy_gradient(w)
    return w if settings.output == "last" else total / T


def _summed_gradient(rows: NDArray[np.float32], hinge_c: Array, unit: float) -> Callable[[Array], Integers]:
    """Return c times the summed subgradients as a function: minus the sum of the signed rows with y<w, z> < c."""
    starts = range(0, len(rows), _BLOCK)
    # Candidates down, rows across: BLAS is fastest this way for a dozen columns.
    blocks = [(np.ascontiguousarray(rows[i : i + _BLOCK].T), rows[i : i + _BLOCK]) for i in starts]
    thresholds = (hinge_c / unit).astype(np.float32)[:, None]

    def gradient(w: Array) -> Integers:
        transposed = np.ascontiguousarray(w.T, dtype=np.float32)
        total = np.zeros(w.shape[::-1])
        for across, down in blocks:
            counted = (transposed @ across < thresholds).astype(np.float32)
            total -= counted @ down
        return total.T.astype(np.int64)

    return gradient


def _whole_rows(signed_rows: Array, radius: float) -> tuple[NDArray[np.float32], float]:
    """Return the rows in whole numbers of a unit, none longer than `radius`, and the unit."""
    unit = math.ldexp(1.0, math.frexp(math.nextafter(radius, 0.0))[1] - _BITS)  # radius/unit is at most 2^_BITS
    room = math.sqrt(signed_rows.shape[1]) / 2 * unit  # by which rounding may lengthen a row
    shrink = (1 - 2.0**-40) * max(0.0, 1 - room / radius)
    return np.rint(signed_rows * (shrink / unit)).astype(np.float32), unit
