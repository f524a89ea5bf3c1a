"""What every accountant is: it says which compositions it covers, and what these cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeAlias

from marginalia.errors import PrivacyError
from marginalia.privacy.events import Event

Parts: TypeAlias = list[tuple[Event, int]]  # a composition: events that compose no others, and how often each ran


class Accountant(Protocol):
    """A sound bound for some compositions, whatever their order.

    The relation, where the bound depends on it, is a field.
    """

    def covers(self, parts: Parts) -> bool:
        """Whether it has a bound that may be the smallest; where another's never is larger it need not be asked."""

    def epsilon(self, parts: Parts, delta: float) -> float:
        """Return its epsilon at `delta` in (0, 1) of a composition that it covers; infinity where it certifies none."""


class SingleReleaseAccountant(Accountant, Protocol):
    """An accountant of releases with a certificate of their own, for one epsilon at a time, which does not add up."""

    def __hash__(self) -> int:
        """What it says is remembered."""

    def certifies(self, event: Event) -> bool:
        """Whether an event is such a release."""

    def delta(self, event: Event, epsilon: float) -> float:
        """Return the delta that it certifies at `epsilon`, at least 0: the profile of the release."""


def total(parts: Parts, cost: Callable[[Event], float | None]) -> float | None:
    """Sum of an additive cost over all parts; None if one has no such cost."""
    costs = [cost(event) for event, _ in parts]
    if None in costs:
        return None
    return math.fsum(count * one for (_, count), one in zip(parts, costs, strict=True) if one is not None)


def kinds(parts: Parts) -> str:
    """Name the types of the events."""
    return ", ".join(sorted({type(event).__name__ for event, _ in parts}))


def uncovered(parts: Parts) -> PrivacyError:
    """Return the refusal of a mix."""
    return PrivacyError(f"no accountant covers the composition of {kinds(parts)}: such a mix is not certified")
