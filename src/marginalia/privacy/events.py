"""What ran: the events a ledger records, apart from how they are charged.

Every sensitivity is the one of the ledger's neighbouring relation; an event does not know the relation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from marginalia.errors import InputError
from marginalia.privacy import checks


@dataclass(frozen=True)
class GaussianEvent:
    """A vector of L2 sensitivity `sensitivity` released with N(0, sigma² I)."""

    sensitivity: float
    sigma: float
    label: str = ""

    def __post_init__(self) -> None:
        checks.positive("sensitivity", self.sensitivity)
        checks.positive("sigma", self.sigma)


@dataclass(frozen=True)
class LaplaceEvent:
    """A vector of L1 sensitivity `sensitivity` released with independent Laplace(`scale`) noise."""

    sensitivity: float
    scale: float
    label: str = ""

    def __post_init__(self) -> None:
        checks.positive("sensitivity", self.sensitivity)
        checks.positive("scale", self.scale)


@dataclass(frozen=True)
class ExponentialEvent:
    """One draw of the exponential mechanism, P ∝ exp(epsilon·score/(2·sensitivity)): `epsilon`-bounded range."""

    epsilon: float
    label: str = ""

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)


@dataclass(frozen=True)
class PoissonGaussianEvent:
    """`steps` Gaussian releases, each on a fresh Poisson sample of the records.

    `noise_multiplier` = sigma / C, where C bounds the norm of ONE record's contribution under either relation: the
    accountant itself knows that replacing a record moves the sum by up to 2C.
    """

    rate: float
    noise_multiplier: float
    steps: int
    label: str = ""

    def __post_init__(self) -> None:
        if checks.positive("rate", self.rate) > 1:
            raise InputError(f"rate is {self.rate}: need a sampling probability in (0, 1]")
        checks.positive("noise_multiplier", self.noise_multiplier)
        checks.count("steps", self.steps)


@dataclass(frozen=True)
class ObjectivePerturbationEvent:
    """The exact minimiser of Σ logistic losses + regulariser/2·‖θ‖² + b·θ, b ~ N(0, sigma² I), rows ‖x‖ ≤ bound."""

    bound: float
    sigma: float
    regulariser: float
    label: str = ""

    def __post_init__(self) -> None:
        checks.positive("bound", self.bound)
        checks.positive("sigma", self.sigma)
        checks.positive("regulariser", self.regulariser)


@dataclass(frozen=True)
class CompositionEvent:
    """All of `events`, `count` times."""

    events: tuple[Event, ...]
    count: int = 1
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        checks.count("count", self.count)


@dataclass(frozen=True)
class RandomStoppingEvent:
    """`event` run K times, K ~ truncated negative binomial(eta, r); only the run with the best score is released.

    `event` must hold the whole of one run, its noisy (continuous) score included. ``eta = 1`` is the geometric law
    P(K = k) = r(1-r)^(k-1); ``eta = 0`` the logarithmic one. K and the run time must stay secret.
    """

    event: Event
    r: float
    eta: float = 1.0
    label: str = ""

    def __post_init__(self) -> None:
        checks.open_unit("r", self.r)
        if checks.not_negative("eta + 1", self.eta + 1) == 0:
            raise InputError(f"eta is {self.eta}: need a number above -1")


Event: TypeAlias = (
    GaussianEvent
    | LaplaceEvent
    | ExponentialEvent
    | PoissonGaussianEvent
    | ObjectivePerturbationEvent
    | CompositionEvent
    | RandomStoppingEvent
)


def leaves(events: tuple[Event, ...], count: int = 1) -> list[tuple[Event, int]]:
    """Flatten compositions: every other event with the number of times it ran, in order."""
    flat: list[tuple[Event, int]] = []
    for event in events:
        if isinstance(event, CompositionEvent):
            flat.extend(leaves(event.events, count * event.count))
        else:
            flat.append((event, count))
    return flat
