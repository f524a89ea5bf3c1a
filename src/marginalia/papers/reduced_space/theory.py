"""The accuracy that Theorems 2.2 and 2.3 of the paper promise before a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalia.errors import InputError
from marginalia.privacy import checks
from marginalia.privacy.relation import Relation

if TYPE_CHECKING:
    from marginalia.methods.reduced_space.families import Family


@dataclass(frozen=True)
class Guarantee:
    """What Theorem 2.3 asks and gives.

    >>> Guarantee(0.2, 1.6, 100, 5000, applies=True, vacuous=True).bound
    1.6
    """

    accuracy: float  # δ of the paper; the synthetic averages are within 8δ with probability 1 - 4γ
    bound: float  # 8δ
    n_synthetic: int  # k, the least number of synthetic rows
    n_points: int  # m, the least number of points of the reduced space; far more than practice needs
    applies: bool  # δ <= 1/2, without which the theorem says nothing
    vacuous: bool  # 8δ is no less than the trivial bound: 1 for {0,1}-valued functions, 2 for ±1-valued ones


def guarantee(
    family: Family,
    n: int,
    epsilon: float,
    *,
    gamma: float = 0.05,
    condition_number: float = 1.0,
    calibration: str = "published",
    strict: bool = False,
) -> Guarantee:
    """Solve Theorems 2.2 and 2.3 for the accuracy that n records allow.

    `gamma` lies in (0, 1/4); `condition_number` is K, a bound on κ(ν‖μ). `strict` uses the corrected sampling lemma for
    ±1-valued functions: √(2 ln(2|F|/γ)/n) in place of √(ln(|F|/γ)/n).

    >>> from marginalia.methods.reduced_space.families import Family
    >>> promised = guarantee(Family("monomials", (2,) * 10, 2), 39_073, 1.0)
    >>> round(promised.accuracy, 4), promised.vacuous
    (0.0201, False)
    """
    from marginalia.methods.reduced_space.noise import laplace_scale  # here: it imports SciPy

    n, epsilon = checks.count("n", n), checks.positive("epsilon", epsilon)
    if not 0 < gamma < 0.25:
        raise InputError(f"gamma is {gamma}: need a number strictly between 0 and 1/4")
    L = math.log(family.size / gamma)
    scale = laplace_scale(family, epsilon, relation=Relation.REPLACE_ONE, calibration=calibration)
    signed = family.kind == "parities"
    sampling = math.sqrt(2 * math.log(2 * family.size / gamma) / n) if strict and signed else math.sqrt(L / n)
    accuracy = max(scale * L / n, sampling)
    rows, points = math.ceil(L / accuracy**2), math.ceil(condition_number * family.size / (gamma * accuracy**2))
    trivial = 2.0 if signed else 1.0
    return Guarantee(accuracy, 8 * accuracy, rows, points, applies=accuracy <= 0.5, vacuous=8 * accuracy >= trivial)
