"""How much noise the moments need: the paper's formula, its correction, and a provably nearly exact bound.

All squared sensitivities are of the vector (M_K / ‖K‖^(k/2))_K when one of n records is replaced, times n².
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.fft import dct

from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu
from marginalia.synthesis.chebyshev.moments import Degrees, along

LATTICE_POINTS = 4e6
LATTICE_PER_DEGREE = 24


def published_sensitivity(indices: Degrees) -> float:
    """The paper's n²Δ² = 4·(2/π)^d·S (Algorithm 1).

    Too small: |T̄_K| <= 2^(nnz/2) in the paper's own normalisation, without any π.

    >>> round(published_sensitivity(Degrees((4,), 2)), 4)
    3.6252
    """
    return 4 * (2 / math.pi) ** len(indices.degrees) * indices.total_weight


def corrected_sensitivity(indices: Degrees) -> float:
    """Return n²Δ² = 4·Σ 2^nnz(K) w_K: the paper's proof with the right bound on |T̄_K|.

    >>> round(corrected_sensitivity(Degrees((4,), 2)), 4)
    11.3889
    """
    return 4 * float((2**indices.support * indices.noise_weights).sum())


def attained_sensitivity(indices: Degrees) -> float:
    """Return the largest n²Δ² over pairs of corners of the cube; no pair that we searched exceeded it.

    At the corners x = (1..1), x' = cos φ the sensitivity is 2(h(0) - h(φ)), h as in `tight_sensitivity`.

    >>> round(attained_sensitivity(Degrees((4,), 2)), 4)
    8.8889
    """
    c = 2**indices.support * indices.noise_weights
    h = along(c, [np.stack([np.ones(m + 1), (-1.0) ** np.arange(m + 1)]) for m in indices.degrees])
    return 2 * float(c.sum() - h.min())


@lru_cache(maxsize=64)  # a release asks for it twice, and those of a sweep share it
def tight_sensitivity(indices: Degrees, binary: tuple[bool, ...] = ()) -> float:
    """Certified n²Δ²: 2(h(0) - min h + slack), within a few percent of the attained one at equal degrees.

    With h(φ) = Σ w_K 2^nnz(K) Π cos(K_i φ_i), the kernel of the features is an average of h over sign patterns, so
    n²Δ² <= 2(h(0) - min h). The minimum is taken over a lattice; h is even and periodic, so its gradient vanishes at
    the minimiser and a second-order Taylor term bounds what the lattice misses. Axes marked in `binary` (default: none)
    only take the values -1 and +1: φ in {0, π} is exact there.

    >>> round(tight_sensitivity(Degrees((4,), 2)), 4)
    8.891
    """
    c = 2**indices.support * indices.noise_weights
    limit = math.floor(LATTICE_POINTS ** (1 / max(1, len(indices.degrees) - sum(binary))))
    h, spread = c, np.zeros(c.shape)
    for i, m in enumerate(indices.degrees):
        if binary and binary[i]:
            cosines = np.stack([np.ones(m + 1), (-1.0) ** np.arange(m + 1)])
            h = np.moveaxis(np.tensordot(cosines, h, axes=(1, i)), 0, i)
            continue
        # DCT-I needs one point more than the degree; a finer lattice only lowers the slack.
        N = max(2, min(LATTICE_PER_DEGREE * m, limit), m + 1)
        spread += (math.pi / N * np.arange(m + 1)).reshape([-1 if j == i else 1 for j in range(c.ndim)])
        halved = np.moveaxis(h, i, -1) / 2
        halved[..., 0] *= 2
        padded = np.zeros((*halved.shape[:-1], N + 1))
        padded[..., : m + 1] = halved
        h = np.moveaxis(dct(padded, type=1, axis=-1), -1, i)
    slack = float((c * spread**2).sum()) / 8
    return 2 * (float(c.sum()) - float(h.min()) + slack)


def noise_scale(
    indices: Degrees, n: int, epsilon: float, delta: float, *, calibration: str, binary: tuple[bool, ...] = ()
) -> float:
    """Return σ: moment K of `n` records is released with noise of standard deviation σ·‖K‖^(k/2).

    ``published``: σ² = n²Δ²·log(1.25/δ)/(nε)² with the paper's Δ² (and without the factor 2 of its Lemma 1);
    ``corrected`` and ``tight``: Δ divided by the exact Gaussian-DP parameter.

    >>> round(noise_scale(Degrees((4,), 2), 1000, 1.0, 1e-6, calibration="tight"), 5)
    0.0126
    """
    if calibration == "published":
        return math.sqrt(published_sensitivity(indices) * math.log(1.25 / delta)) / (n * epsilon)
    squared = corrected_sensitivity(indices) if calibration == "corrected" else tight_sensitivity(indices, binary)
    return math.sqrt(squared) / (n * gdp_mu(epsilon, delta))


def default_degree(n: int, epsilon: float, delta: float, *, k: int, d: int, c: float = 1.6) -> int:
    """Return m = ⌈(εn/√log(1.25/δ))^(1/max(d,k)) / c⌉ (section 3; the paper leaves the constant c open).

    >>> default_degree(10_000, 1.0, 1e-6, k=2, d=2)
    33
    """
    c = checks.positive("the constant c", c)
    return max(1, math.ceil((epsilon * n / math.sqrt(math.log(1.25 / delta))) ** (1 / max(d, k)) / c))
