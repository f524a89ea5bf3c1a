"""Pure DP: epsilons add up, under adaptive composition too, at every delta."""

from __future__ import annotations

from dataclasses import dataclass

from marginalia.privacy.accountants.accountant import Parts, total
from marginalia.privacy.events import Event, ExponentialEvent, LaplaceEvent


@dataclass(frozen=True)
class PureDP:
    """The sum of the epsilons of Laplace releases and selections.

    >>> PureDP().epsilon([(LaplaceEvent(1.0, 2.0), 3), (ExponentialEvent(0.1), 1)], delta=0.0)
    1.6
    """

    def covers(self, parts: Parts) -> bool:
        """Whether every event has a pure epsilon."""
        return total(parts, _pure) is not None

    def epsilon(self, parts: Parts, delta: float) -> float:
        """Return the sum, whatever `delta` is, which may be 0."""
        pure = total(parts, _pure)
        assert pure is not None
        return pure


def _pure(event: Event) -> float | None:
    match event:
        case LaplaceEvent():
            return event.sensitivity / event.scale
        case ExponentialEvent():
            return event.epsilon
    return None
