"""How much noise the moments need: the paper's formula, its correction, and a provably nearly exact bound.

All squared sensitivities are of the vector (M_K / ‖K‖^(k/2))_K when one of n records is replaced, times n².
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.fft import dct

from marginalia.methods.chebyshev.moments import Axis, Degrees, along, polynomials
from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu
from marginalia.usage import shared

LATTICE_POINTS = 4e6
LATTICE_PER_DEGREE = 24
PRINTED = ("published", "line_3")  # the paper's own noise, which is too small
EXACT_OPERATIONS = 2e9  # about a second: pairs of cells times the length of an axis of moments


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


@shared  # a release asks for it twice, and those of a sweep share it
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


def certified_sensitivity(indices: Degrees, axes: Sequence[Axis] = ()) -> float:
    """Return n²Δ² of records on the nodes of `axes`: exact where they are few, else `tight_sensitivity`.

    A record between nodes is split, a convex combination of cells, so no pair of records is further apart than some
    pair of cells. Without `axes`: of records anywhere in the cube.

    >>> round(certified_sensitivity(Degrees((4,), 2), [Axis.midpoints(5, degree=4)]), 4)
    5.2301
    """
    sizes = [a.size for a in axes]
    if axes and math.prod(sizes) ** 2 * (max(indices.degrees) + 1) <= EXACT_OPERATIONS:
        # Rounding of a sum of at most 20,000 terms that add up to less than the sum of all |c_K|.
        return largest_on_nodes(indices, tuple(a.points.tobytes() for a in axes)) * (1 + 1e-11)
    return tight_sensitivity(indices, tuple(a.kind == "binary" for a in axes))


@shared
def largest_on_nodes(indices: Degrees, nodes: tuple[bytes, ...]) -> float:
    """Return the largest n²Δ² over all pairs of cells of a grid, whose nodes come as the bytes of float64 arrays.

    It is k(x, x) + k(y, y) - 2 k(x, y) with the kernel k(x, y) = Σ w_K T̄_K(x) T̄_K(y), a contraction along one axis
    after the other; the pairs of nodes of the first axis are taken in blocks.

    >>> corners = np.array([-1.0, 1.0])
    >>> round(largest_on_nodes(Degrees((4,), 2), (corners.tobytes(),)), 4)  # 2 · 2² · (1 + 1/9)
    8.8889
    """
    rows = [polynomials(np.frombuffer(x), m) for x, m in zip(nodes, indices.degrees, strict=True)]
    diagonal = along(indices.noise_weights, [T.T**2 for T in rows])
    products = [np.einsum("ka,kb->abk", T, T).reshape(-1, len(T)) for T in rows]
    sizes = diagonal.shape
    block = max(1, int(LATTICE_POINTS / math.prod(n**2 for n in sizes[1:])))
    first, second = np.triu_indices(sizes[0])
    largest = 0.0
    for start in range(0, len(first), block):
        a, b = first[start : start + block], second[start : start + block]
        kernel = along(indices.noise_weights, [products[0][a * sizes[0] + b], *products[1:]])
        pairs = kernel.reshape(len(a), *(n for size in sizes[1:] for n in (size, size)))
        own = diagonal[a].reshape(len(a), *(n for size in sizes[1:] for n in (size, 1)))
        other = diagonal[b].reshape(len(a), *(n for size in sizes[1:] for n in (1, size)))
        largest = max(largest, float((own + other - 2 * pairs).max()))
    return largest


def noise_scale(
    indices: Degrees, n: int, epsilon: float, delta: float, *, calibration: str, axes: Sequence[Axis] = ()
) -> float:
    """Return σ: moment K of `n` records is released with noise of standard deviation σ·‖K‖^(k/2).

    ``published``: as the paper prescribes, from its Δ² (`published_sensitivity`): Algorithm 1's line 3 below ε = 1, and
    from ε = 1 on, where its theorem no longer covers that line, Lemma 1's σ for every ε. ``line_3``: Algorithm 1's line
    3 at any ε. ``corrected`` and ``tight``: Δ divided by the exact Gaussian-DP parameter; ``tight`` knows the nodes of
    `axes`.

    >>> round(noise_scale(Degrees((4,), 2), 1000, 1.0, 1e-6, calibration="tight"), 5)
    0.0126
    """
    if calibration in PRINTED:
        small = calibration == "line_3" or epsilon < 1
        factor = printed_factor(epsilon, delta) if small else lemma_factor(epsilon, delta)
        return math.sqrt(published_sensitivity(indices)) * factor / n
    squared = corrected_sensitivity(indices) if calibration == "corrected" else certified_sensitivity(indices, axes)
    return math.sqrt(squared) / (n * gdp_mu(epsilon, delta))


def printed_factor(epsilon: float, delta: float) -> float:
    """Return σ/Δ of Algorithm 1, line 3: √log(1.25/δ)/ε, stated for ε < 1 (Lemma 1 has √2 more there).

    >>> round(printed_factor(0.5, 1e-6), 4)
    7.4936
    """
    return math.sqrt(math.log(1.25 / delta)) / epsilon


def lemma_factor(epsilon: float, delta: float) -> float:
    """Return σ/Δ of the paper's Lemma 1 for every ε: √2·√(log(1/(4δ(1-δ))) + ε)/ε, δ < ½.

    >>> round(lemma_factor(2.0, 1e-6), 4)
    2.686
    """
    return math.sqrt(2 * (math.log(1 / (4 * delta * (1 - delta))) + epsilon)) / epsilon


def default_degree(n: int, epsilon: float, delta: float, *, k: int, d: int, c: float = 1.6) -> int:
    """Return m = ⌈(εn/√log(1.25/δ))^(1/max(d,k)) / c⌉ (section 3; the paper leaves the constant c open).

    >>> default_degree(10_000, 1.0, 1e-6, k=2, d=2)
    33
    """
    c = checks.positive("the constant c", c)
    return max(1, math.ceil((epsilon * n / math.sqrt(math.log(1.25 / delta))) ** (1 / max(d, k)) / c))
