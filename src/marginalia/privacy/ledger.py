"""The ledger: what touched the private rows, and what all of it costs together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import checks, events
from marginalia.privacy.accounting import composed_epsilon, composed_rho
from marginalia.privacy.events import Event
from marginalia.privacy.relation import Relation

# Relative excess over the requested epsilon that `certify` puts down to rounding.
TOLERANCE = 1e-9


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

    Examples
    --------
    >>> from marginalia.privacy.events import GaussianEvent
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
        """Record `event`, one of `marginalia.privacy.events`; a certificate given before is void."""
        if not isinstance(event, Event):
            raise PrivacyError(f"the ledger does not know how to charge {type(event).__name__}")
        self._events.append(event)
        self.certified, self.epsilon_spent, self.message = False, None, ""

    def epsilon(self, delta: float) -> float:
        """Smallest certified epsilon at `delta` (in [0, 1); at 0 the pure one, or infinity); uncovered mixes raise."""
        if delta != 0:
            delta = checks.open_unit("delta", delta)
        return composed_epsilon(self.events, self.relation, delta)

    def rho(self) -> float:
        """Parameter of zero-concentrated DP of all events together; `PrivacyError` where an event has none."""
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
        self.epsilon_spent = spent = self.epsilon(delta)
        self.certified = spent <= epsilon * (1 + TOLERANCE)
        self.message = ""
        if self.certified:
            return
        budget = f"epsilon {epsilon:g} at delta {delta:g} ({self.relation})"
        self.message = f"not certified: requested {budget}, spent {spent:.8g}"
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
        """Rebuild a ledger from `summary`, also after it was serialised as JSON; its verdict is the one it had."""
        ledger = cls(summary["relation"])
        for described in summary["events"]:
            ledger.append(_rebuild(described))
        ledger.certified, ledger.message = summary["certified"], summary["message"]
        ledger.epsilon_spent = math.inf if summary["epsilon_spent"] is None else summary["epsilon_spent"]
        return ledger


def _describe(value: Any) -> Any:
    """Turn an event, or a value in one, into plain JSON types."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: _describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, tuple):
        return [_describe(inner) for inner in value]
    return value if isinstance(value, str | int) else float(value)


def _rebuild(described: Any) -> Any:
    """Undo `_describe`."""
    if isinstance(described, Mapping):
        fields = {name: _rebuild(value) for name, value in described.items() if name != "type"}
        return getattr(events, described["type"])(**fields)
    return tuple(map(_rebuild, described)) if isinstance(described, list) else described
