"""Every kind of event has an entry in the table of costs, or a rule, and a counterpart in the second accountant."""

import math
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from tiers import others_slow

from marginalia.privacy import events
from marginalia.privacy.costs import Cost, composed_epsilon, cost, has_profile
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
from marginalia.privacy.recompute import recomputed_epsilon
from marginalia.privacy.relation import Relation

ROOT = Path(__file__).parents[2]
OBJECTIVE = ObjectivePerturbationEvent(1.0, 30.0, 30.0)
ONE_OF_EACH = {
    GaussianEvent: GaussianEvent(1.0, 12.0),
    LaplaceEvent: LaplaceEvent(1.0, 20.0),
    ExponentialEvent: ExponentialEvent(0.05),
    PoissonGaussianEvent: PoissonGaussianEvent(0.01, 1.5, 100),
    ObjectivePerturbationEvent: OBJECTIVE,
    GroupEvent: GroupEvent(OBJECTIVE, 2),
    GaussianSketchEvent: GaussianSketchEvent(100, 0.01),
    FailureEvent: FailureEvent(1e-7),
    CompositionEvent: CompositionEvent((GaussianEvent(1.0, 30.0),), 3),
    RandomStoppingEvent: RandomStoppingEvent(GaussianEvent(1.0, 30.0), 1 / 16),
}
KINDS = get_args(events.Event)


@pytest.mark.parametrize("relation", Relation, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_both_accountants_know_every_kind_of_event(kind, relation):
    event = ONE_OF_EACH[kind]
    first, second = (price((event,), relation, 1e-5) for price in (composed_epsilon, recomputed_epsilon))
    assert 0 <= first < 3
    assert second <= first * (1 + 1e-3)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_has_one_kind_of_cost(kind):
    """A number that adds up, or a rule of its own: never both, so that nothing is charged by the wrong one."""
    event = ONE_OF_EACH[kind]
    adds_up = cost(event, Relation.ADD_REMOVE).mu_squared < math.inf
    by_rule = kind in (PoissonGaussianEvent, FailureEvent, CompositionEvent) or has_profile(event, Relation.ADD_REMOVE)
    assert adds_up is not by_rule


def test_the_page_of_proofs_names_files_that_exist():
    page = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:privacy|tests)/[\w/]+\.py)`", page)
    assert len(named) >= 5
    missing = [n for n in named if not (ROOT / n).is_file() and not (ROOT / "src" / "marginalia" / n).is_file()]
    assert missing == []


@pytest.mark.parametrize("relation", others_slow(Relation), ids=str)
def test_what_the_sums_let_pass_keeps_the_budget(relation):
    """Random lists near a budget: the quick test of the ledger never accepts what the full computation rejects."""
    rng = np.random.default_rng(0)
    accepted = 0
    for _ in range(100):
        events = tuple(
            GaussianEvent(1.0, s) if kind == 0 else LaplaceEvent(1.0, 2 * s) if kind == 1 else ExponentialEvent(1 / s)
            for kind, s in zip(rng.integers(0, 3, 4), rng.uniform(4, 14, 4), strict=True)
        )
        if Cost.of([(event, 1) for event in events], relation).is_within(1.0, 1e-5):
            accepted += 1
            assert composed_epsilon(events, relation, 1e-5) <= 1.0
    assert 10 < accepted < 95
