"""What selections and Gaussian releases cost when both run: in zCDP, or in Gaussian DP.

Either cost adds up under adaptive composition, also where the parameters adapt to what was released (zCDP: Bun &
Steinke 2016; Gaussian DP: Smith & Thakurta 2022), so a mechanism that runs in rounds can keep its books in either
currency. zCDP charges a selection less, and loses where it is turned into (epsilon, delta); Gaussian DP the other way
(`privacy.accountants.gdp` proves what it charges).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from marginalia.privacy.accountants.gdp import bounded_range_mu
from marginalia.privacy.calibration import gdp_mu, root, zcdp_rho

Currency: TypeAlias = Literal["gdp", "zcdp"]
CURRENCIES: tuple[Currency, ...] = ("gdp", "zcdp")


@dataclass(frozen=True)
class Prices:
    """A budget and the additive costs of releases, in one currency.

    >>> zcdp = Prices.of(1.0, 1e-5, "zcdp")
    >>> round(zcdp.total, 6), zcdp.gaussian(0.1), zcdp.selection(0.1)
    (0.030557, 0.005000000000000001, 0.0012500000000000002)
    """

    currency: Currency
    total: float  # rho, or mu²

    @classmethod
    def of(cls, epsilon: float, delta: float, currency: Currency) -> Prices:
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


def cheapest(
    epsilon: float, delta: float, noise_ratio: Callable[[Prices], float], currencies: Sequence[Currency] = CURRENCIES
) -> Prices:
    """Return the currency in which the budget buys the larger sensitivity/sigma; it looks at public numbers alone.

    >>> for release in (Prices.gaussian, Prices.selection):
    ...     cheapest(1.0, 1e-5, lambda prices: prices.affordable(lambda x: release(prices, x), prices.total)).currency
    'gdp'
    'zcdp'
    """
    return max((Prices.of(epsilon, delta, currency) for currency in currencies), key=noise_ratio)
