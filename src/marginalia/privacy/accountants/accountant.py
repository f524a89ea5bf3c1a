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

    >>> from marginalia.privacy.accountants.pure import PureDP
    >>> accountant: Accountant = PureDP()
    >>> accountant.covers([])
    True
    """

    def covers(self, parts: Parts) -> bool:
        """Whether it has a bound that may be the smallest; where another's never is larger it need not be asked."""

    def epsilon(self, parts: Parts, delta: float) -> float:
        """Return its epsilon at `delta` in (0, 1) of a composition that it covers; infinity where it certifies none."""


class SingleReleaseAccountant(Accountant, Protocol):
    """An accountant of releases with a certificate of their own, for one epsilon at a time, which does not add up.

    >>> from marginalia.privacy import GaussianEvent, Relation
    >>> from marginalia.privacy.accountants.stopping import RandomStopping
    >>> RandomStopping(Relation.ADD_REMOVE).certifies(GaussianEvent(1.0, 4.0))
    False
    """

    def __hash__(self) -> int:
        """What it says is remembered."""

    def certifies(self, event: Event) -> bool:
        """Whether an event is such a release."""

    def delta(self, event: Event, epsilon: float) -> float:
        """Return the delta that it certifies at `epsilon`, at least 0: the profile of the release."""


def total(parts: Parts, cost: Callable[[Event], float | None]) -> float | None:
    """Sum of an additive cost over all parts; None if one has no such cost.

    >>> from marginalia.privacy import LaplaceEvent
    >>> total([(LaplaceEvent(1.0, 2.0), 3)], lambda event: 0.5)
    1.5
    """
    costs = [cost(event) for event, _ in parts]
    if None in costs:
        return None
    return math.fsum(count * one for (_, count), one in zip(parts, costs, strict=True) if one is not None)


def kinds(parts: Parts) -> str:
    """Name the types of the events.

    >>> from marginalia.privacy import LaplaceEvent
    >>> kinds([(LaplaceEvent(1.0, 2.0), 3)])
    'LaplaceEvent'
    """
    return ", ".join(sorted({type(event).__name__ for event, _ in parts}))


def uncovered(parts: Parts) -> PrivacyError:
    """Return the refusal of a mix.

    >>> from marginalia.privacy import LaplaceEvent
    >>> str(uncovered([(LaplaceEvent(1.0, 2.0), 3)]))
    'no accountant covers the composition of LaplaceEvent: such a mix is not certified'
    """
    return PrivacyError(f"no accountant covers the composition of {kinds(parts)}: such a mix is not certified")
