"""Group privacy: what units of several records cost where the proof is for one."""

import math

import numpy as np
import pytest
from tiers import others_slow

from marginalia.data.units import Unit
from marginalia.errors import InputError, PrivacyError
from marginalia.methods.objective_perturbation import ObjectivePerturbationClassifier
from marginalia.privacy.calibration import gdp_delta, gdp_epsilon
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.composed import compose_certificates
from marginalia.privacy.conversion import convert_event
from marginalia.privacy.costs import composed_epsilon, composed_rho, cost
from marginalia.privacy.events import (
    CompositionEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    ObjectivePerturbationEvent,
    RandomStoppingEvent,
    arithmetics,
    count_events,
    describe,
    of_group,
    rebuild,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.objective_cost import (
    _group_delta,
    objective_perturbation_delta,
    objective_perturbation_epsilon,
)
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.recompute import AGREEMENT, _objective_profile, _of_chain, recomputed_epsilon
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.session import Session
from marginalia.privacy.verify import verify

RELATIONS = list(Relation)
EVENT = ObjectivePerturbationEvent(1.0, 8.0, 40.0)


@pytest.mark.parametrize(("mu", "steps"), others_slow([(0.5, 2), (0.1, 6), (0.3, 20)]))
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 4.0])
def test_gaussian_steps_add_up_exactly(mu, steps, epsilon):
    exact = gdp_delta(mu * steps, epsilon)
    assert _of_chain(lambda e: gdp_delta(mu, e), steps)(epsilon) == pytest.approx(exact, rel=1e-3)
    # The sum over the losses of one outcome, which is why the first accountant has the same.
    losses = epsilon / steps + mu**2 * (np.arange(1, steps + 1) - (steps + 1) / 2)
    before = np.cumsum(losses) - losses
    each = [gdp_delta(mu, x) if x >= 0 else 1 - math.exp(x) * (1 - gdp_delta(mu, -x)) for x in losses.tolist()]
    assert float(np.exp(before) @ each) == pytest.approx(exact, rel=1e-9)
    if losses[0] >= 0:
        assert _group_delta(epsilon, mu, mu**2 / 8, steps) == exact


def test_equal_losses_cost_more_than_the_best_ones():
    equal = gdp_delta(0.5, 0.5) * (1 + math.exp(0.5))
    assert 1.05 * gdp_delta(1.0, 1.0) < equal < 1.25 * gdp_delta(1.0, 1.0)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rows", [2, 3])
def test_a_strong_ridge_multiplies_mu(relation, rows):
    event = GroupEvent(ObjectivePerturbationEvent(1.0, 4.0, 32.0), rows)
    mu = rows * relation.units / 4
    assert cost(event, relation).mu_squared == pytest.approx(mu**2)
    assert composed_rho((event,), relation) == pytest.approx(mu**2 / 2)
    assert composed_epsilon((event,), relation, 1e-5) == pytest.approx(gdp_epsilon(mu, 1e-5))
    assert recomputed_epsilon((event,), relation, 1e-5) == pytest.approx(gdp_epsilon(mu, 1e-5), rel=2e-3)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("rows", "regulariser"), others_slow([(2, 1.0), (3, 0.5), (4, 0.3)]))
def test_a_weak_ridge_costs_more_and_both_accountants_agree(relation, rows, regulariser):
    event = GroupEvent(ObjectivePerturbationEvent(1.0, 12.0, regulariser), rows)
    first = composed_epsilon((event,), relation, 1e-5)
    second = recomputed_epsilon((event,), relation, 1e-5)
    assert first > gdp_epsilon(rows * relation.units / 12, 1e-5) * (1 + 1e-6)
    assert 0.95 * first < second <= first * (1 + AGREEMENT)
    # One record costs no more than several, and a bound on any chain is above that of a shorter one.
    assert composed_epsilon((event.event,), relation, 1e-5) < first


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("steps", others_slow([2, 4, 40]))
def test_the_bound_of_a_chain_is_never_below_the_best_one(epsilon, steps):
    tau, kappa = 1.2 / steps, 0.2
    best = _of_chain(_objective_profile(tau, kappa), steps)(epsilon)
    found = _group_delta(epsilon, tau, kappa, steps)
    assert found >= max(0.999 * best, gdp_delta(steps * tau, epsilon))


def test_what_is_certified_at_a_large_epsilon_is_found_upwards():
    given = {"bound": 1.0, "sigma": 2.0, "regulariser": 0.05, "rows": 8}
    for delta in (1e-2, 1e-5, 1e-12):
        epsilon = objective_perturbation_epsilon(delta, **given)
        assert objective_perturbation_delta(epsilon, **given) <= delta
        assert epsilon >= gdp_epsilon(4.0, delta)
    assert objective_perturbation_epsilon(1e-5, bound=1.0, sigma=1e-3, regulariser=1.0, rows=8) == math.inf


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("k", [2, 3, 30])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-5, 1e-2), (1e-3, 1e-6), (1.0, 1e-5), (10.0, 1e-2)])
def test_the_calibration_of_a_fit_spends_its_budget_and_no_more(relation, k, epsilon, delta):
    neighbours, model = Neighbours(relation, Unit("patient", k)), ObjectivePerturbationClassifier(relation="add_remove")
    scales = model._scales(2.0, 5, neighbours, epsilon, delta)
    spent = composed_epsilon(model._events(2.0, 5, k, *scales), relation, delta)
    assert (0 if delta > epsilon else 0.99 * epsilon) <= spent <= epsilon * (1 + 1e-9)


def test_the_mechanism_charges_the_group_and_the_same_output_noise():
    given = {"n_features": 2, "quantum": 2.0**-14, "bound": 1, "sigma": 9, "regulariser": 99, "output_sigma": 1e-3}
    one, several = Ledger("add_remove"), Ledger("add_remove", unit=Unit("patient", 3))
    for ledger in (one, several):
        Session(ledger, Randomness(0)).objective_perturbation(lambda: np.zeros((0, 2), np.int16), **given, label="loss")
    assert several.events[0] == of_group(one.events[0], 3)
    assert several.events[0].rows == 3
    assert several.events[1] == one.events[1]
    assert several.arithmetic == "exact"


def test_a_group_is_written_and_read():
    event = of_group(ObjectivePerturbationEvent(1.0, 8.0, 40.0, "loss", "exact"), 3)
    assert rebuild(describe(event)) == event
    assert arithmetics(event) == {"exact"}
    assert count_events(event) == {GroupEvent(ObjectivePerturbationEvent(1.0, 8.0, 40.0, "", "exact"), 3): 1}
    assert convert_event(event, Relation.ADD_REMOVE, Relation.REPLACE_ONE) == event  # its accountant knows the relation
    assert of_group(EVENT, 1) is EVENT


def test_groups_of_anything_else_are_refused():
    with pytest.raises(InputError, match="groups are for"):
        GroupEvent(GaussianEvent(1.0, 4.0), 3)  # type: ignore[arg-type]
    for rows in (0, 10**6 + 1, 1.5, True):
        with pytest.raises(InputError, match="rows is"):
            GroupEvent(EVENT, rows)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="groups of more than"):
        recomputed_epsilon((GroupEvent(ObjectivePerturbationEvent(1.0, 8.0, 1.0), 10**6),), Relation.ADD_REMOVE, 1e-5)


def test_what_floats_do_not_hold_is_never_nothing():
    # At losses far beyond the deviation one step has a delta below every float, and e^epsilon is beyond every float.
    for epsilon in (500.0, 900.0, 3000.0):
        assert _group_delta(epsilon, 0.1, 1e3, 8) > 0


def too_few_rows(ridge: float) -> list[Event]:
    """Return events whose cost is stated for fewer than 3 rows; `ridge` is strong (Gaussian) or weak."""
    one = ObjectivePerturbationEvent(1.0, 8.0, ridge, "loss")
    events: list[Event] = [one, GroupEvent(one, 2, "pairs"), CompositionEvent((GaussianEvent(1.0, 99.0), one))]
    return [*events, RandomStoppingEvent(CompositionEvent((GroupEvent(one, 2),)), 0.5)]


@pytest.mark.parametrize("ridge", [40.0, 4000.0])
@pytest.mark.parametrize("i", range(4))
def test_an_event_of_fewer_rows_than_the_unit_has_is_charged_nowhere(i, ridge):
    event, unit = too_few_rows(ridge)[i], Unit("patient", 3)
    for calibration in ("tight", "published"):
        ledger = Ledger("add_remove", epsilon=100.0, delta=1e-5, unit=unit, calibration=calibration, planned=True)
        with pytest.raises(PrivacyError, match=r"stated for units of at most .* up to 3: record GroupEvent") as error:
            ledger.append(event)
        assert "\n" not in str(error.value)
        assert ledger.events == ()
    with pytest.raises(PrivacyError, match="stated for units of at most"):
        Ledger("add_remove", unit=unit).append(event)  # one without a budget records what it may
    for accountant in (composed_epsilon, recomputed_epsilon):
        with pytest.raises(PrivacyError, match="unit"):
            accountant((event,), Relation.ADD_REMOVE, 1e-5, 3)
        with pytest.raises(PrivacyError, match="unit"):
            accountant((event,), Relation.ADD_REMOVE, 0.0, 3)
    enough = GroupEvent(ObjectivePerturbationEvent(1.0, 8.0, ridge, "loss"), 4)  # more than a unit has
    Ledger("add_remove", epsilon=100.0, delta=1e-5, unit=unit, planned=True).append(enough)
    if ridge >= 2 * 8.0**2:  # Gaussian; a weak ridge takes a second
        assert recomputed_epsilon((enough,), Relation.ADD_REMOVE, 1e-5, 3) > 0


def test_a_certificate_with_events_of_fewer_rows_than_the_unit_has_is_not_confirmed():
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    ledger.append(ObjectivePerturbationEvent(1.0, 8.0, 400.0), "system")
    good = {"format": "marginalia-certificate", "version": 1, "method": "Mine", "parameters": {}, **ledger.summary()}
    assert verify(Certificate(good)).confirmed
    found = Certificate({**good, "unit": {"column": "patient", "rows": 3}})
    assert found.ledger.epsilon_spent == math.inf
    assert not found.ledger.certified
    verdict = verify(found)
    assert (verdict.confirmed, verdict.recomputed, verdict.recomputed_by_second) == (False, math.inf, math.inf)
    assert "stated for units of at most 1 row, but the unit has up to 3" in verdict.problems[0]
    assert "not independently recomputed" in verdict.problems[1]
    with pytest.raises(PrivacyError, match="stated for"):
        found.ledger.rho()
    with pytest.raises(PrivacyError, match="stated for"):
        found.ledger.remaining_budget()
    both = compose_certificates([found, found])
    assert (both.epsilon, both.epsilon_by_second, both.epsilon_added) == (math.inf, math.inf, math.inf)
    assert "stated for" in both.problems[0]
    fits = Certificate({**good, "unit": {"column": "patient", "rows": 1}})
    assert verify(fits).confirmed
    assert not compose_certificates([fits, found]).epsilon < math.inf
