"""The scale of the Laplace noise of a family's sums, and the quantile of the largest noise."""

from __future__ import annotations

import math

from scipy.stats import norm

from marginalia.methods.reduced_space.families import Family
from marginalia.privacy import checks
from marginalia.privacy.relation import Relation


def laplace_scale(family: Family, epsilon: float, *, relation: Relation, calibration: str) -> float:
    """Return the Laplace scale of every *sum*; divide by n for averages.

    ``published``: 2|F|/ε (Theorem 2.2), valid and about twice too large. ``tight``: D₁/ε.

    >>> family = Family("monomials", (2, 2), 1)
    >>> [laplace_scale(family, 1.0, relation=Relation.REPLACE_ONE, calibration=c) for c in ("tight", "published")]
    [2.0, 6.0]
    """
    return (2.0 * family.size if calibration == "published" else family.l1_sensitivity(relation)) / epsilon


def noise_quantile(scale: float, n_noises: int, gamma: float, *, noise: str = "laplace") -> float:
    """Return Λ_q: with probability 1 - gamma no noise of that scale (Gaussian: standard deviation) exceeds it.

    >>> round(noise_quantile(1.0, 100, 0.05), 2), round(noise_quantile(1.0, 100, 0.05, noise="gaussian"), 2)
    (7.58, 3.47)
    """
    gamma = checks.open_unit("gamma", gamma)
    one = -math.expm1(math.log1p(-gamma) / n_noises)  # allowed failure of a single noise
    return -scale * math.log(one) if noise == "laplace" else scale * float(norm.isf(one / 2))
