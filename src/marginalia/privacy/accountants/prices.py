"""What selections and Gaussian releases cost when both run: in zCDP, or in Gaussian DP.

Either cost adds up under adaptive composition, also where the parameters adapt to what was released (zCDP: Bun &
Steinke 2016; Gaussian DP: Smith & Thakurta 2022), so a mechanism that runs in rounds can keep its books in either
currency. zCDP charges a selection less, and loses where it is turned into (epsilon, delta); Gaussian DP the other way.

The exponential mechanism with parameter e has e-bounded range: the privacy losses of its outcomes, for one pair of
neighbours, lie in an interval [t - e, t]. **Proof that it is mu(e)-GDP**, mu(e) = 2 Φ⁻¹(F(e/2)), F(x) = 1/(1 + e^-x):

1. Among all pairs of laws with losses in [t - e, t], every hockey-stick divergence is largest for the pair with the two
   losses t and t - e alone, since it averages a convex function of the likelihood ratio, whose mean is fixed. With
   E = e^e the loss t has probability q = (E e^-t - 1)/(E - 1) under the second law, and t - e has
   p = (e^t - 1)/(E - 1) under the first (Dong, Durfee & Rogers 2020). The trade-off function of this pair is linear on
   both sides of the one kink (q, p).
2. A convex function lies below a line between two of its points, so the pair is mu-GDP if and only if the kink lies on
   or above the Gaussian trade-off function: Φ(Φ⁻¹(1 - q) - mu) <= p.
3. As t runs from 0 to e the kinks trace (1 + q(E - 1))(1 + p(E - 1)) = E, that is, p = F(F⁻¹(1 - q) - e): the trade-off
   function of logistic laws e apart. With r = Φ⁻¹∘F and x = F⁻¹(1 - q), step 2 reads r(x) - r(x - e) <= mu.
4. r is odd, and r' falls on x > 0 (van Zwet 1964: the logistic law has the heavier tails). Indeed r' = ΦΦ̄/φ at
   z = r(x), Φ̄ = 1 - Φ, which falls where D(z) = φ(2Φ - 1) - zΦΦ̄ >= 0. Now D(0) = D(∞) = 0 and D' = 2φ² - ΦΦ̄ is positive
   at 0 and changes sign at most once, as ΦΦ̄/φ² rises: its logarithm has slope 2z + λ(-z) - λ(z), λ = φ/Φ̄, and
   0 < λ' < 1 gives λ(z) <= λ(0) + z and λ(-z) + z >= λ(0).
5. So r(x) - r(x - e) is largest in the middle, x = e/2: mu(e) = 2 r(e/2), attained by the pair with t = e/2. ∎
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from marginalia.privacy import checks
from marginalia.privacy.calibration import gdp_mu, zcdp_rho
from marginalia.privacy.roots import root

# Outside these, bounds that are never less: the tangent r'(0) e/2 to r, the same to nine digits below 1e-4; and 2√e, by
# Chernoff's Φ̄(z) <= exp(-z²/2)/2, within half a percent above 1000.
_SMALL, _LARGE = 1e-4, 1000.0


def bounded_range_mu(epsilon: float) -> float:
    """Gaussian-DP parameter of a selection of e-bounded range, as the exponential mechanism of that epsilon.

    >>> round(bounded_range_mu(1.0), 6)
    0.623893
    """
    epsilon = checks.not_negative("epsilon", epsilon)
    if epsilon < _SMALL:
        return epsilon * math.sqrt(2 * math.pi) / 4
    if epsilon > _LARGE:
        return 2 * math.sqrt(epsilon)
    from scipy.special import expit, ndtri  # here, since scipy is slow to load

    return -2 * float(ndtri(expit(-epsilon / 2)))


@dataclass(frozen=True)
class Prices:
    """A budget and the additive costs of releases, in one currency.

    >>> zcdp = Prices.of(1.0, 1e-5, "zcdp")
    >>> round(zcdp.total, 6), zcdp.gaussian(0.1), zcdp.selection(0.1)
    (0.030557, 0.005000000000000001, 0.0012500000000000002)
    """

    currency: Literal["zcdp", "gdp"]
    total: float  # rho, or mu²

    @classmethod
    def of(cls, epsilon: float, delta: float, currency: Literal["zcdp", "gdp"]) -> Prices:
        """Return the largest budget that implies (epsilon, delta)-DP, less what rounding may take."""
        total = zcdp_rho(epsilon, delta) if currency == "zcdp" else gdp_mu(epsilon, delta) ** 2
        return cls(currency, total * (1 - 1e-12))

    def gaussian(self, ratio: float) -> float:
        """Price of a Gaussian release of sensitivity/sigma = `ratio`."""
        return ratio**2 / 2 if self.currency == "zcdp" else ratio**2

    def selection(self, epsilon: float) -> float:
        """Price of an exponential mechanism (Cesar & Rogers 2021 for zCDP)."""
        return epsilon**2 / 8 if self.currency == "zcdp" else bounded_range_mu(epsilon) ** 2

    def affordable(self, price: Callable[[float], float], budget: float) -> float:
        """Return the largest x with ``price(x) <= budget``; a price rises from 0 without bound.

        >>> round(Prices("gdp", 1.0).affordable(lambda x: 4 * x**2, 1.0), 9)
        0.5
        """
        upper = 1.0
        while price(upper) <= budget:
            upper *= 2
        while price(upper / 2) > budget:
            upper /= 2
        x = root(lambda x: price(x) - budget, upper / 2, upper)
        while price(x) > budget:  # only by rounding
            x *= 1 - 1e-15
        return x


def cheapest(epsilon: float, delta: float, noise_ratio: Callable[[Prices], float]) -> Prices:
    """Return the currency in which the budget buys the larger sensitivity/sigma; it looks at public numbers alone.

    >>> for release in (Prices.gaussian, Prices.selection):
    ...     cheapest(1.0, 1e-5, lambda prices: prices.affordable(lambda x: release(prices, x), prices.total)).currency
    'gdp'
    'zcdp'
    """
    return max((Prices.of(epsilon, delta, "gdp"), Prices.of(epsilon, delta, "zcdp")), key=noise_ratio)
