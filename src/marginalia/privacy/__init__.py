"""Mechanisms, their calibration, and the ledger that certifies what they spent together."""

from marginalia.privacy.events import (
    CompositionEvent,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    GaussianSketchEvent,
    GroupEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session

__all__ = [
    "CompositionEvent",
    "ExponentialEvent",
    "FailureEvent",
    "GaussianEvent",
    "GaussianSketchEvent",
    "GroupEvent",
    "LaplaceEvent",
    "Ledger",
    "ObjectivePerturbationEvent",
    "PoissonGaussianEvent",
    "RandomStoppingEvent",
    "Relation",
    "Session",
]
