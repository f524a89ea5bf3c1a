"""Zero-concentrated DP: what each release costs adds up, also where the parameters adapt to what was released."""

from __future__ import annotations

import math
from dataclasses import dataclass

from marginalia.errors import PrivacyError
from marginalia.privacy.accountants.accountant import Parts, kinds, total
from marginalia.privacy.accountants.gdp import exact_squared_mu
from marginalia.privacy.calibration import zcdp_epsilon
from marginalia.privacy.events import Event, ExponentialEvent, LaplaceEvent, leaves
from marginalia.privacy.relation import Relation


@dataclass(frozen=True)
class ZeroConcentratedDP:
    """The sum of the zCDP parameters of Gaussian and Laplace releases and selections (Bun & Steinke 2016).

    >>> from marginalia.privacy.events import GaussianEvent
    >>> parts = [(GaussianEvent(1.0, 4.0), 1), (ExponentialEvent(0.1), 1)]
    >>> round(ZeroConcentratedDP(Relation.ADD_REMOVE).epsilon(parts, 1e-5), 3)
    1.034
    """

    relation: Relation

    def covers(self, parts: Parts) -> bool:
        """Whether every event has a parameter; of Gaussian releases alone Gaussian DP is exact, and smaller."""
        rho = total(parts, lambda event: zcdp_parameter(event, self.relation))
        return rho is not None and total(parts, lambda event: exact_squared_mu(event, self.relation)) is None

    def epsilon(self, parts: Parts, delta: float) -> float:
        """Return the conversion of the sum."""
        return zcdp_epsilon(_composed(parts, self.relation), delta)


def zcdp_parameter(event: Event, relation: Relation) -> float | None:
    """Return the zCDP parameter of an event, or None; it adds up where the parameters adapt too.

    >>> zcdp_parameter(ExponentialEvent(0.2), Relation.ADD_REMOVE)
    0.005000000000000001
    """
    match event:
        case LaplaceEvent():
            # The Rényi divergence of order a, over a, of two Laplace laws a distance e apart falls with a, so its
            # limit at a = 1 bounds it; it is convex in e, so spreading e over coordinates never costs more.
            e = event.sensitivity / event.scale
            return e + math.expm1(-e)
        case ExponentialEvent():
            return event.epsilon**2 / 8  # bounded range (Cesar & Rogers 2021)
    mu_squared = exact_squared_mu(event, relation)
    return None if mu_squared is None else mu_squared / 2


def composed_rho(events: tuple[Event, ...], relation: Relation) -> float:
    """Return the zCDP parameter of the composition of `events`; `PrivacyError` where an event has none.

    >>> from marginalia.privacy.events import GaussianEvent
    >>> composed_rho((GaussianEvent(1.0, 4.0), ExponentialEvent(0.1)), Relation.ADD_REMOVE)
    0.0325
    """
    return _composed(leaves(events), relation)


def _composed(parts: Parts, relation: Relation) -> float:
    rho = total(parts, lambda event: zcdp_parameter(event, relation))
    if rho is None:
        without = [part for part in parts if zcdp_parameter(part[0], relation) is None]
        raise PrivacyError(f"no zCDP parameter is known for {kinds(without)}")
    return rho
