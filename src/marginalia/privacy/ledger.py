"""The ledger: what touched the private rows, and what all of it costs together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import checks, events
from marginalia.privacy.accounting import composed_epsilon, composed_rho
from marginalia.privacy.events import (
    CompositionEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
)
from marginalia.privacy.relation import Relation

__all__ = [
    "CompositionEvent",
    "Event",
    "ExponentialEvent",
    "GaussianEvent",
    "LaplaceEvent",
    "Ledger",
    "ObjectivePerturbationEvent",
    "PoissonGaussianEvent",
    "RandomStoppingEvent",
]

# Relative excess over the requested epsilon that `certify` puts down to rounding.
TOLERANCE = 1e-9

_EVENTS = (
    CompositionEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
)


class Ledger:
    """Events in the order they ran, under one neighbouring relation.

    Accountants, the smallest of those that apply: Gaussian releases by exact Gaussian DP (adaptive composition
    included); Gaussian, Laplace and Poisson-sampled Gaussian releases whose parameters were fixed in advance by their
    privacy loss distribution; anything with an exponential mechanism by zCDP, and by adding up pure epsilons where all
    is pure; objective perturbation and random stopping, each alone, by certificates of their own. Other mixes are
    refused.

    Parameters
    ----------
    relation : Relation or str
        ``add_remove`` or ``replace_one``; the sensitivities of all events refer to it.

    Attributes
    ----------
    relation : Relation
    events : tuple of Event
    certified : bool
        Set by `certify`; False before.
    epsilon_spent : float or None
        Set by `certify`.
    message : str
        Set by `certify`: empty, or what a published calibration really costs.

    Raises
    ------
    InputError
        Unknown relation.

    Examples
    --------
    >>> ledger = Ledger("add_remove")
    >>> ledger.append(GaussianEvent(sensitivity=1.0, sigma=4.0, label="age"))
    >>> round(ledger.epsilon(1e-5), 3)
    0.926
    """

    def __init__(self, relation: Relation | str) -> None:
        try:
            self.relation = Relation(relation)
        except ValueError:
            raise InputError(f"unknown relation '{relation}'; use 'add_remove' or 'replace_one'") from None
        self._events: list[Event] = []
        self.certified = False
        self.epsilon_spent: float | None = None
        self.message = ""

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything recorded so far."""
        return tuple(self._events)

    def append(self, event: Event) -> None:
        """Record `event`; a certificate given before is void.

        Raises
        ------
        PrivacyError
            Not one of the known events.
        """
        if not isinstance(event, _EVENTS):
            raise PrivacyError(f"the ledger does not know how to charge {type(event).__name__}")
        self._events.append(event)
        self.certified, self.epsilon_spent, self.message = False, None, ""

    def epsilon(self, delta: float) -> float:
        """Smallest certified epsilon at `delta` (in [0, 1); at 0 the pure epsilon, or infinity).

        Raises
        ------
        InputError
            `delta` is out of range.
        PrivacyError
            No accountant covers the events.
        """
        if delta != 0:
            delta = checks.open_unit("delta", delta)
        return composed_epsilon(self.events, self.relation, delta)

    def rho(self) -> float:
        """Parameter of zero-concentrated DP of all events together.

        Raises
        ------
        PrivacyError
            An event has none.
        """
        return composed_rho(self.events, self.relation)

    def certify(self, epsilon: float, delta: float, *, calibration: str) -> None:
        """Check that no more than (epsilon, delta) was spent, up to a relative rounding error of 1e-9 in epsilon.

        Parameters
        ----------
        epsilon, delta : float
            The budget; `delta` may be 0.
        calibration : str
            With ``"published"`` an overspend is recorded (`certified` False, `message` with the true epsilon) instead
            of raised: a paper's own constants are run as they stand.

        Raises
        ------
        PrivacyError
            More was spent, or no accountant covers the events.
        """
        epsilon = checks.positive("epsilon", epsilon)
        spent = self.epsilon(delta)
        self.epsilon_spent = spent
        self.certified = spent <= epsilon * (1 + TOLERANCE)
        self.message = ""
        if self.certified:
            return
        self.message = (
            f"not certified: requested epsilon {epsilon:g} at delta {delta:g} ({self.relation}), spent {spent:.8g}"
        )
        if calibration != "published":
            raise PrivacyError(self.message)

    def summary(self) -> dict[str, Any]:
        """Describe the ledger in plain JSON types: relation, verdict and the tree of events."""
        return {
            "relation": str(self.relation),
            "certified": self.certified,
            "epsilon_spent": self.epsilon_spent if math.isfinite(self.epsilon_spent or 0.0) else None,
            "message": self.message,
            "events": [_describe(event) for event in self._events],
        }

    @classmethod
    def from_summary(cls, summary: Mapping[str, Any]) -> Self:
        """Rebuild a ledger from `summary`, after a way through JSON; its verdict is the one it had."""
        ledger = cls(summary["relation"])
        for described in summary["events"]:
            ledger.append(_event(described))
        ledger.certified, ledger.message = summary["certified"], summary["message"]
        ledger.epsilon_spent = math.inf if summary["epsilon_spent"] is None else summary["epsilon_spent"]
        return ledger


def _event(described: Mapping[str, Any]) -> Any:
    fields = {k: _event(v) if isinstance(v, dict) else v for k, v in described.items() if k != "type"}
    if "events" in fields:
        fields["events"] = tuple(_event(e) for e in fields["events"])
    return getattr(events, described["type"])(**fields)


def _describe(event: Event) -> dict[str, Any]:
    described: dict[str, Any] = {"type": type(event).__name__}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if field.name == "events":
            described["events"] = [_describe(inner) for inner in value]
        elif dataclasses.is_dataclass(value):
            described[field.name] = _describe(value)  # type: ignore[arg-type]
        else:
            described[field.name] = value if isinstance(value, str | int) else float(value)
    return described
