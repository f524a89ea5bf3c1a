"""What is left after some releases: enough for every method to go on, never too much, and how little is lost."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiers import others_slow

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError, PrivacyError
from marginalia.methods.ada_ssp import AdaSSPRegressor
from marginalia.methods.adaptive_margin import AdaptiveMarginClassifier
from marginalia.methods.aim import AIM
from marginalia.methods.chebyshev.chebyshev import ChebyshevMomentMatching
from marginalia.methods.dp_sgd.dp_sgd import DPSGDClassifier
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.methods.independent import Independent
from marginalia.methods.mst import MST
from marginalia.methods.mwem_pgm import MWEM
from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier
from marginalia.methods.pate import PATEClassifier
from marginalia.methods.private_pgm import PrivatePGM
from marginalia.methods.privbayes import PrivBayes
from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP
from marginalia.methods.residual_planner import ResidualPlanner
from marginalia.methods.ssp import SSPRegressor
from marginalia.methods.swift import SWIFT
from marginalia.papers.dd_ssp.methods.mixture import MixtureInference
from marginalia.papers.excess_risk.methods.exhaustive import Exhaustive
from marginalia.papers.recent.methods.aim_residual import ResidualAIM
from marginalia.privacy import joint
from marginalia.privacy.calibration import gdp_epsilon, gdp_mu
from marginalia.privacy.costs import CompositionBudget, composed_epsilon
from marginalia.privacy.events import (
    CompositionEvent,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.recompute import AGREEMENT, recomputed_epsilon
from marginalia.privacy.relation import Relation
from marginalia.privacy.session import Session
from marginalia.synthesis.base import Synthesizer

DELTA = 1e-5


def ledger_after(*events, relation="add_remove", epsilon=1.0, delta=DELTA):
    ledger = Ledger(relation, epsilon=epsilon, delta=delta, planned=True)
    for event in events:
        ledger.append(event)
    return ledger


# -- without events nothing changes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 1.0, 7.7])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5])
def test_without_events_the_budget_is_left_bit_for_bit(epsilon, delta):
    ledger = Ledger("replace_one", epsilon=epsilon, delta=delta, planned=True)

    def never(epsilon, delta):
        raise AssertionError("nothing has to be planned")

    assert ledger.remaining_budget() == (epsilon, delta) == ledger.remaining_budget(never)


def test_no_budget_nothing_left():
    with pytest.raises(InputError, match="has no budget"):
        Ledger("add_remove").remaining_budget()


@pytest.mark.parametrize(
    "events",
    [(GaussianEvent(1, 1 / gdp_mu(1, DELTA)),), (FailureEvent(DELTA),), (FailureEvent(DELTA / 2),) * 2],
)
def test_nothing_is_left_of_a_budget_that_is_spent(events):
    ledger = Ledger("add_remove", epsilon=1.0, delta=DELTA, calibration="published", planned=True)
    for event in events:
        ledger.append(event)
    with pytest.raises(PrivacyError, match="nothing is left"):
        ledger.remaining_budget()


# -- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(Relation))
def test_failures_come_off_delta_in_both_accountants(relation):
    rest = (GaussianEvent(1, 5), ExponentialEvent(0.1))
    for accountant in (composed_epsilon, recomputed_epsilon):
        failing = accountant((*rest, CompositionEvent((FailureEvent(1e-6),), 3)), relation, DELTA)
        assert failing == pytest.approx(accountant(rest, relation, DELTA - 3e-6), rel=1e-9)
        assert accountant((FailureEvent(1e-6),), relation, DELTA) == 0
        for delta in (1e-6, 1e-7, 0.0):
            assert accountant((*rest, FailureEvent(1e-6)), relation, delta) == math.inf
            assert accountant((FailureEvent(1e-6),), relation, delta) == math.inf


def test_a_ledger_refuses_more_failures_than_delta_holds():
    ledger = ledger_after(FailureEvent(6e-6))
    with pytest.raises(PrivacyError, match="refused"):
        ledger.append(FailureEvent(6e-6))
    again = Ledger.from_summary(ledger.summary())
    assert again.certified
    assert again.events == ledger.events


# -- one release with a certificate of its own beside others --------------------------------------------------------

OBJECTIVE = ObjectivePerturbationEvent(1.0, 4.0, 8.0)
STOPPING = RandomStoppingEvent(GaussianEvent(1.0, 11.0), r=1 / 24)
TWO = (GaussianEvent(1, 30), GaussianEvent(1, 40))


@pytest.mark.parametrize("relation", others_slow(Relation))
@pytest.mark.parametrize("own", others_slow([OBJECTIVE, STOPPING]))
@pytest.mark.parametrize("others", [TWO, (*TWO, ExponentialEvent(0.05)), (LaplaceEvent(1, 40), TWO[0])])
def test_a_certificate_of_its_own_composes(own, others, relation):
    """Both accountants: no less than either part, no more than their sum, the second confirms the first."""
    alone, rest = composed_epsilon((own,), relation, DELTA), composed_epsilon(others, relation, DELTA)
    together = composed_epsilon((own, *others), relation, DELTA)
    assert max(alone, rest) < together < alone + composed_epsilon(others, relation, DELTA / 10)
    second = recomputed_epsilon((own, *others), relation, DELTA)
    assert second <= together * (1 + AGREEMENT)
    assert second >= 0.98 * together


@pytest.mark.slow
def test_one_run_of_random_stopping_composes_as_the_gaussian_that_it_is():
    once = RandomStoppingEvent(GaussianEvent(1.0, 5.0), r=1 - 1e-9)
    for accountant in (composed_epsilon, recomputed_epsilon):
        got = accountant((once, *TWO), Relation.ADD_REMOVE, DELTA)
        exact = gdp_epsilon(math.sqrt(1 / 25 + 1 / 900 + 1 / 1600), DELTA)
        assert exact * (1 - 1e-6) <= got <= exact * 1.001


# -- what is left is enough, and not too much -----------------------------------------------------------------------

small = st.one_of(
    st.floats(12, 80).map(lambda sigma: GaussianEvent(1.0, sigma)),
    st.floats(0.001, 0.15).map(ExponentialEvent),
    st.floats(15, 80).map(lambda scale: LaplaceEvent(1.0, scale)),
    st.floats(1e-9, 1e-6).map(FailureEvent),
)


@given(st.lists(small, min_size=1, max_size=6), st.sampled_from(["gdp", "zcdp"]), st.booleans())
@settings(deadline=None, max_examples=25)
@pytest.mark.slow
def test_either_currency_may_come_next(events, currency, selecting):
    ledger = ledger_after(*events)
    try:
        left = ledger.remaining_budget()
    except PrivacyError:
        return
    prices = CompositionBudget.of(*left, currency)
    if selecting:
        price = prices.total / 4
        ledger.append(CompositionEvent((ExponentialEvent(prices.largest(prices.selection, price)),), 2))
        ledger.append(CompositionEvent((GaussianEvent(1.0, 1 / prices.largest(prices.gaussian, price)),), 2))
    else:
        ledger.append(GaussianEvent(1.0, 1 / prices.largest(prices.gaussian, prices.total)))
    ledger.close()
    assert ledger.certified


@pytest.mark.parametrize(
    "first",
    others_slow(
        [PoissonGaussianEvent(0.2, 4.0, 50), OBJECTIVE, STOPPING, RandomStoppingEvent(GaussianEvent(1, 40), 0.5)],
        OBJECTIVE,
    ),
)
@pytest.mark.parametrize("currency", others_slow(["zcdp", "gdp"]))
def test_what_does_not_add_up_may_come_first(first, currency):
    ledger = ledger_after(first, GaussianEvent(1, 60), FailureEvent(1e-6), epsilon=3.0)
    prices = CompositionBudget.of(*ledger.remaining_budget(), currency)
    half = prices.total / 2
    ledger.append(GaussianEvent(1.0, 1 / prices.largest(prices.gaussian, half)))
    ledger.append(ExponentialEvent(prices.largest(prices.selection, half)))
    ledger.close()
    assert ledger.certified


def test_pure_budgets_subtract():
    ledger = ledger_after(LaplaceEvent(1, 4), ExponentialEvent(0.1), delta=0.0)
    assert ledger.remaining_budget() == (pytest.approx(0.65), 0.0)


RNG = np.random.default_rng(0)
MIXED = Domain([Column("a", 3, "ordinal"), Column("b", 4, "numeric"), Column("y", 2)])
TABLE = Table(np.column_stack([RNG.integers(0, size, 400) for size in MIXED.sizes]), MIXED)
BITS = Table(np.minimum(TABLE.codes, 1), Domain.from_sizes({"a": 2, "b": 2, "y": 2}))
CHAIN = [("a", "b"), ("b", "y")]

METHODS = {
    "aim": (AIM, {"rounds": 5}),
    "mst": (MST, {}),
    "mixture": (MixtureInference, {"rounds": 3}),
    "independent": (Independent, {}),
    "gaussian_marginals": (GaussianMarginals, {}),
    "residual_planner": (ResidualPlanner, {}),
    "aim_residual": (ResidualAIM, {"rounds": 5}),
    "swift": (SWIFT, {}),
    "mwem_pgm": (MWEM, {}),
    "privbayes": (PrivBayes, {}),
    "private_pgm": (PrivatePGM, {"workload": CHAIN}),
    "exhaustive": (Exhaustive, {"relation": "replace_one"}),
    "chebyshev": (ChebyshevMomentMatching, {"relation": "replace_one"}),
    "reduced_space": (ReducedSpaceLP, {}),
    "reduced_space gaussian": (ReducedSpaceLP, {"noise": "gaussian"}),
    "ssp": (SSPRegressor, {}),
    "ada_ssp": (AdaSSPRegressor, {"relation": "replace_one"}),
    "objective": (ObjectivePerturbationClassifier, {}),
    "objective replace": (ObjectivePerturbationClassifier, {"relation": "replace_one"}),
    "pate": (PATEClassifier, {"relation": "replace_one"}),
    "dp_sgd": (DPSGDClassifier, {"selection": "fixed", "steps": 20, "batch_size": 200}),
    "dp_sgd by rule": (DPSGDClassifier, {}),
    "dp_sgd selected": (DPSGDClassifier, {"selection": "random_stopping"}),
    "adaptive_margin": (AdaptiveMarginClassifier, {"max_steps": 10, "selection": "iter"}),
    "adaptive_margin tuned": (AdaptiveMarginClassifier, {"max_steps": 10, "selection": "private_tuning"}),
}
PREPROCESSING = (CompositionEvent((GaussianEvent(1.0, 25.0),), 5), FailureEvent(2e-7), GaussianEvent(1.0, 31.0))


def fit_after(name, events, **changes):
    """Fit a method in a ledger that holds other events; return the ledger."""
    kind, settings_ = METHODS[name]
    model = kind(epsilon=1.0, delta=DELTA, random_state=0, **{**settings_, **changes})
    ledger = ledger_after(*events, relation=model.relation)
    if isinstance(model, Synthesizer):
        table = BITS if name.startswith("reduced_space") else TABLE
        model.domain_ = table.domain
        model._release(table, Session(ledger, Randomness(0)))
    else:
        model._release(model._rows(TABLE, "y"), Session(ledger, Randomness(0)))
    ledger.close()
    return ledger


def releases(events):
    """Return the single releases of some events, without their labels and arithmetic."""
    found = []
    for event in events:
        if isinstance(event, CompositionEvent):
            found += releases(event.events) * event.count
        else:
            facts = {name: value for name, value in asdict(event).items() if name not in ("label", "arithmetic")}
            found.append((type(event).__name__, *facts.values()))
    return found


@pytest.mark.parametrize(("name", "changes"), [("objective", {}), ("pate", {"calibration": "published"})])
def test_a_plan_lists_the_releases_that_are_charged(name, changes, monkeypatch):
    """The noise follows from the plan: one that leaves out or halves a release gives a fit that overspends."""
    plans, remaining_budget = [], Ledger.remaining_budget

    def planned(ledger, plan=None):
        found = remaining_budget(ledger, plan)
        plans.append(releases(plan(*found)))
        return found

    monkeypatch.setattr(Ledger, "remaining_budget", planned)
    charged = releases(fit_after(name, (), **changes).events)
    [listed] = plans
    assert [one[0] for one in listed] == [one[0] for one in charged]
    assert [one[1:] for one in listed] == [pytest.approx(one[1:]) for one in charged]


@pytest.mark.parametrize("name", others_slow(METHODS, *(name for name in METHODS if not name.startswith("objective"))))
def test_every_method_spends_what_is_left(name):
    """A fit after private preprocessing is certified by both accountants, and gives away less than 3 % of epsilon."""
    ledger = fit_after(name, PREPROCESSING)
    assert ledger.certified
    assert 0.97 < ledger.epsilon_spent <= 1 + 1e-9
    assert recomputed_epsilon(ledger.events, ledger.relation, DELTA) <= 1 + AGREEMENT
    assert ledger.events[: len(PREPROCESSING)] == PREPROCESSING


@pytest.mark.parametrize("name", others_slow(["ssp", "mst", "adaptive_margin tuned", "reduced_space", "objective"]))
@given(events=st.lists(small, min_size=1, max_size=5))
@example(events=[ExponentialEvent(0.138671875), LaplaceEvent(1.0, 38.0)])  # a bound that falls by an event
@settings(deadline=None, max_examples=3)
def test_whatever_came_first_nothing_is_refused(name, events):
    try:
        ledger_after(*events).remaining_budget()
    except PrivacyError:
        return
    assert fit_after(name, events).certified


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("sigma", "regulariser", "mu"), [(4.0, 8.0, 0.1), (10.0, 50.0, 0.1), (1.0, 0.5, 0.5)])
def test_a_profile_at_few_points_costs_next_to_nothing_more(relation, sigma, regulariser, mu, monkeypatch):
    """Never less than with a point at every step of the grid, and at most one step of 1/3000 more."""
    events = (ObjectivePerturbationEvent(1.0, sigma, regulariser), GaussianEvent(mu, 1.0))
    few = composed_epsilon(events, relation, 1e-5)
    monkeypatch.setattr(joint, "_KNOTS", 10**6)
    joint._profile_on_grid.cache_clear()
    every = composed_epsilon(events, relation, 1e-5)
    joint._profile_on_grid.cache_clear()
    assert every <= few <= every * (1 + 1e-3)


def test_the_name_of_earlier_versions_still_works():
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    with pytest.warns(DeprecationWarning, match="remaining_budget"):
        assert ledger.left() == ledger.remaining_budget()
