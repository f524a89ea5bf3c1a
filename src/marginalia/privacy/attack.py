"""What a privacy budget allows an attacker who asks whether one row is in the table.

The bounds are for an attacker who knows everything else, on the worst of all tables; a real one does worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu

FALSE_POSITIVES = 0.01  # at which the rate of true positives is told


@dataclass(frozen=True, slots=True)
class Attack:
    """The best that any membership attack can do, where member and not are equally likely before it.

    Attributes
    ----------
    success : float
        Greatest probability of a right answer where both answers are equally likely; 1/2 is a coin.
    true_positives : float
        Greatest share of the members who are found, where 1 % of those who are no members are accused.

    Examples
    --------
    >>> Attack(success=0.731, true_positives=0.027).words()[:57]
    'is right at most 73.1% of the time (a coin: 50%; both ans'
    """

    success: float
    true_positives: float

    def words(self) -> str:
        """Return both numbers as half a sentence."""
        return (
            f"is right at most {self.success:.1%} of the time (a coin: 50%; both answers equally likely before) and "
            f"finds at most {self.true_positives:.1%} of the members if it accuses {FALSE_POSITIVES:.0%} of the others"
        )


def of_budget(epsilon: float, delta: float) -> Attack:
    """Return what (epsilon, delta)-DP allows, whatever the mechanism.

    The success rate is (e^ε + δ)/(1 + e^ε) and the power at level α is min(e^ε α + δ, 1 - e^-ε (1 - δ - α)): Kairouz,
    Oh and Viswanath, "The composition theorem for differential privacy" (ICML 2015), theorem 2.1.

    >>> round(of_budget(1.0, 0.0).success, 3)
    0.731
    """
    checks.positive("epsilon", epsilon)
    grown = math.exp(min(epsilon, 700.0))  # beyond, a float overflows and both numbers are 1
    level = FALSE_POSITIVES
    power = min(grown * level + delta, 1 - (1 - delta - level) / grown)
    return Attack((grown + delta) / (1 + grown), power)


def of_gaussian(epsilon: float, delta: float) -> Attack:
    """Return what is left where all noise is Gaussian and calibrated exactly to (epsilon, delta).

    With mu from the exact trade-off the success rate is Φ(mu/2) and the power at level α is Φ(Φ⁻¹(α) + mu): Dong, Roth
    and Su, "Gaussian differential privacy" (JRSS B 2022), section 2.

    >>> round(of_gaussian(1.0, 1e-5).success, 3)
    0.553
    """
    from scipy.special import ndtr, ndtri

    mu = gdp_mu(epsilon, delta)
    return Attack(float(ndtr(mu / 2)), float(ndtr(ndtri(FALSE_POSITIVES) + mu)))
