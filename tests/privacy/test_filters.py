"""Releases that are chosen after a look at earlier ones keep the budget: true divergences of adaptive strategies."""

import json
import math

import numpy as np
import pytest

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.privacy.composed import compose_certificates
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import (
    CompositionEvent,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
)
from marginalia.privacy.filters import Filter, OneOf
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.odometer import PrivacyOdometer, RefusedError, charging
from marginalia.privacy.recompute import recomputed_filter
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.privacy.verify import verify
from marginalia.synthesis import MST

ADD = Relation.ADD_REMOVE
NODES = np.linspace(-9, 9, 1801)
WEIGHTS = np.exp(-(NODES**2) / 2)
WEIGHTS /= WEIGHTS.sum()


def gaussian_profile(mu, epsilon):
    """The hockey-stick divergence of N(mu, 1) and N(0, 1) at any epsilon, also below 0."""
    losses = mu * mu / 2 + mu * NODES
    return np.maximum(0, 1 - np.exp(np.subtract.outer(epsilon, losses))) @ WEIGHTS


def laplace_profile(e, epsilon):
    above = np.maximum(0, -np.expm1((epsilon - e) / 2))
    below = 1 - np.exp(epsilon) * (1 - np.maximum(0, -np.expm1((-epsilon - e) / 2)))
    return np.where(epsilon >= 0, above, np.where(epsilon > -e, below, -np.expm1(epsilon)))


def largest(accepted):
    """The largest number that is accepted, to six digits."""
    lower, upper = 0.0, 1e-3
    while accepted(upper):
        lower, upper = upper, 2 * upper
    for _ in range(24):
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if accepted(middle) else (lower, middle)
    return lower


def accepts(ledger, event):
    try:
        ledger.append(event)
    except PrivacyError:
        return False
    return True


def true_delta_of_two_branches(opened, first=0.13):
    """After a Gaussian release, whatever the ledger accepts at most: another one, or Laplace noise, by the answer."""

    def after(event):
        ledger = opened()
        ledger.append(GaussianEvent(first, 1.0))
        return accepts(ledger, event)

    mu = largest(lambda mu: after(GaussianEvent(mu, 1.0)))
    e = largest(lambda e: after(LaplaceEvent(e, 1.0)))
    left = 1.0 - (first**2 / 2 + first * NODES)
    branches = [gaussian_profile(mu, left), laplace_profile(e, left)]
    single = max(float(branch @ WEIGHTS) for branch in branches)
    return single, float(np.maximum(*branches) @ WEIGHTS)


@pytest.mark.parametrize("reserve", [(0.0, 0.0), (0.0, 1e-6), (0.4, 0.0), (0.5, 5e-6)])
def test_two_branches_keep_the_budget(reserve):
    single, whole = true_delta_of_two_branches(lambda: Ledger(ADD, epsilon=1.0, delta=1e-5, reserve=reserve))
    assert single <= whole <= 1e-5 * (1 + 1e-6)


def test_two_branches_of_a_list_that_was_not_planned():
    """The smallest of several bounds accepts each branch at delta 1e-5, and the whole has almost twice as much."""
    single, whole = true_delta_of_two_branches(lambda: Ledger(ADD, epsilon=1.0, delta=1e-5, planned=True))
    assert single <= 1e-5 * (1 + 1e-3)
    assert whole > 1.8e-5


def test_two_branches_in_a_budget_file(tmp_path):
    book = PrivacyOdometer.create(tmp_path / "t.book", ADD, epsilon=1.0, delta=1e-5)
    rows = Neighbours(ADD)
    book.record(GaussianEvent(0.13, 1.0), rows, "system", "first")
    with pytest.raises(RefusedError, match="LaplaceEvent"):  # the smallest of all bounds accepts it
        book.record(LaplaceEvent(0.5, 1.0), rows, "system", "second")
    rest = math.sqrt(gdp_mu(1.0, 9e-6) ** 2 - 0.13**2)
    book.record(GaussianEvent(rest * (1 - 1e-9), 1.0), rows, "system", "second")
    with pytest.raises(RefusedError, match="is left"):
        book.check_room(1e-3, 1e-6)


def worst_delta(epsilon, reserve, steps):
    """The largest divergence that any strategy reaches: dynamic programming over the loss so far and what is left.

    The first part has `steps` Gaussian releases of equal size, the reserve two purely private ones and two failures.
    """
    losses = np.linspace(-8, 8, 6401)
    filter_ = Filter(ADD, epsilon, 0.01, reserve)
    mu = math.sqrt(filter_.mu_squared_budget / steps)
    e, failing = reserve[0] / 2, reserve[1] / 2
    up = math.exp(e) / (1 + math.exp(e))
    known = {}

    def value(gaussians, pures, failures):
        key = (gaussians, pures, failures)
        if key in known:
            return known[key]
        best = np.maximum(0, -np.expm1(epsilon - losses))

        def at(values, x):
            return np.interp(x, losses, values)

        if gaussians:
            later, moved = value(gaussians - 1, pures, failures), np.zeros_like(losses)
            for node, weight in zip(NODES[::6], WEIGHTS[::6] / WEIGHTS[::6].sum(), strict=True):
                moved += weight * at(later, losses + mu * mu / 2 + mu * node)
            best = np.maximum(best, moved)
        if pures:
            later = value(gaussians, pures - 1, failures)
            best = np.maximum(best, up * at(later, losses + e) + (1 - up) * at(later, losses - e))
        if failures:
            best = np.maximum(best, failing + (1 - failing) * value(gaussians, pures, failures - 1))
        known[key] = best
        return best

    return float(np.interp(0.0, losses, value(steps, 2, 2)))


@pytest.mark.parametrize("reserve", [(0.0, 0.0), (0.3, 0.002), (0.5, 0.005), (0.9, 0.001)])
@pytest.mark.parametrize("steps", [1, 3])
def test_no_strategy_exceeds_the_budget(reserve, steps):
    worst = worst_delta(1.0, reserve, steps)
    assert 0.2 * 0.01 < worst <= 0.01 * (1 + 2e-3)  # of the grid of losses


def test_a_release_of_each_kind_is_charged_to_its_part():
    opened = Filter(ADD, epsilon=4.0, delta=1e-4, reserve=(3.0, 4e-5))
    spent = opened.charge([GaussianEvent(1.0, 10.0), ExponentialEvent(1e-3)])
    assert spent.epsilon_reserve_spent == 0
    assert spent.mu_squared == pytest.approx(0.01 + 3.93e-7)
    large = CompositionEvent((LaplaceEvent(1.0, 3.0),), 3)  # in Gaussian DP it would take more than all
    assert spent.charge([large]).epsilon_reserve_spent == pytest.approx(spent.epsilon_reserve_spent + 1.0)
    run = ObjectivePerturbationEvent(1.0, 4.0, 1.0)  # with a profile, and no parameter
    twice = spent.charge([run, run])
    assert twice.delta_reserve_spent == pytest.approx(3e-5)  # half of it, and half of what was left
    assert twice.epsilon_reserve_spent - spent.epsilon_reserve_spent == pytest.approx(
        composed_epsilon((run,), ADD, 2e-5) + composed_epsilon((run,), ADD, 1e-5)
    )
    failed = spent.charge([CompositionEvent((FailureEvent(1e-6), GaussianEvent(1.0, 10.0)), 2)])
    assert failed.delta_reserve_spent == pytest.approx(2e-6)
    assert failed.mu_squared - spent.mu_squared == pytest.approx(0.02)
    assert "delta 5e-05 of 4e-05" in spent.charge([FailureEvent(5e-5)]).overspent
    assert spent.charge([ObjectivePerturbationEvent(1.0, 40.0, 3200.0)]).delta_reserve_spent == 0  # it is Gaussian DP


@pytest.mark.parametrize("sampled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_second_accountant_agrees(relation, sampled):
    rng = np.random.default_rng(0)
    for _ in range(4 if sampled else 20):
        kinds = [
            GaussianEvent(1.0, float(rng.uniform(5, 50))),
            ExponentialEvent(float(rng.uniform(0.01, 1.0))),
            LaplaceEvent(1.0, float(rng.uniform(2, 50))),
            PoissonGaussianEvent(0.01 if sampled else 1, float(rng.uniform(10, 40)), 20),
            FailureEvent(float(rng.uniform(1e-9, 1e-7))),
            CompositionEvent((GaussianEvent(1.0, 30.0), ExponentialEvent(0.05), FailureEvent(1e-8)), 4),
        ]
        events = tuple(kinds[i] for i in rng.integers(0, len(kinds), 5))
        reserve = (float(rng.choice([0.0, 1.0, 4.0])), float(rng.choice([1e-6, 5e-6])))
        own = Filter(relation, 5.0, 1e-5, reserve).charge(events)
        first, epsilon, delta = recomputed_filter(events, relation, (5.0, 1e-5), reserve)
        assert first + epsilon == pytest.approx(own.epsilon_spent, rel=2e-3)
        assert delta == pytest.approx(own.delta_reserve_spent)


def test_a_certificate_holds_the_reserve():
    ledger = Ledger(ADD, epsilon=2.0, delta=1e-5, reserve=(1.0, 1e-6))
    ledger.append(GaussianEvent(1.0, 5.0), "system")
    ledger.append(LaplaceEvent(1.0, 2.0), "system")
    ledger.append(FailureEvent(1e-7), "system")
    read = Ledger.from_summary(json.loads(json.dumps(ledger.summary())))
    assert read.certified
    assert read.summary() == ledger.summary()
    certificate = Certificate(ledger.summary())
    assert verify(certificate).confirmed
    assert any("one measure, reserve (1, 1e-06)" in line for line in certificate_page(certificate))
    assert "chosen one by one" in compose_certificates([certificate, certificate]).problems[0]
    smaller = ledger.summary() | {"reserve": [0.4, 1e-6]}  # the Laplace noise takes more than it
    found = verify(Certificate(smaller))
    assert not found.confirmed
    assert any("second accountant" in problem for problem in found.problems)
    for wrong in ([3.0, 1e-6], [0.1, 1e-5], [-1, 0], [math.nan, 0.0], 5, ["a", "b"], [0.1]):
        with pytest.raises(InputError):
            Ledger.from_summary(ledger.summary() | {"reserve": wrong})
    with pytest.raises(InputError, match="at delta 1e-05 alone"):
        ledger.epsilon(1e-6)
    with pytest.raises(InputError, match="planned=True"):
        ledger.remaining_budget(lambda epsilon, delta: [])


def test_a_certificate_for_fewer_rows_than_the_unit_has_is_not_certified():
    ledger = Ledger(ADD, epsilon=2.0, delta=1e-5, reserve=(1.9, 5e-6))
    ledger.append(ObjectivePerturbationEvent(1.0, 4.0, 8.0), "system")
    assert ledger.certified
    of_three = Ledger.from_summary(ledger.summary() | {"unit": {"column": "patient", "rows": 3}})
    assert not of_three.certified
    assert "at most 1 row" in of_three.message


def test_numbers_that_no_float_holds_are_no_error():
    for event in (GaussianEvent(1e30, 1e-30), LaplaceEvent(1e30, 1e-30), PoissonGaussianEvent(0.5, 1e-30, 10**9)):
        spent = Filter(ADD, 1.0, 1e-5, (0.5, 1e-6)).charge([event, event])
        assert spent.overspent
        assert not spent.has_room(1e-9, 0.0)
        assert max(recomputed_filter((event,), ADD, (1.0, 1e-5), (0.5, 1e-6))) > 1


def test_without_delta_pure_epsilons_add_up():
    ledger = Ledger(ADD, epsilon=1.0, delta=0)
    ledger.append(LaplaceEvent(1.0, 2.0), "system")
    assert ledger.remaining_budget() == (0.5, 0.0)
    for event in (GaussianEvent(1.0, 1e6), FailureEvent(1e-12), LaplaceEvent(1.0, 1.9)):
        with pytest.raises(PrivacyError, match="refused"):
            ledger.append(event)
    assert ledger.epsilon_spent == 0.5


def test_there_is_room_for_what_is_left():
    """What `left` says is what a release of that cost finds room for, and 1 % more is refused."""
    spent = Filter(ADD, 1.0, 1e-5, (0.0, 1e-6)).charge([GaussianEvent(1.0, 8.0)])
    for delta in (1e-5, 1e-7):
        left = spent.remaining_epsilon(delta)
        assert spent.has_room(left, delta)
        assert not spent.has_room(left * 1.01, delta)
        assert not spent.charge([GaussianEvent(gdp_mu(left, delta) * (1 - 1e-9), 1.0)]).overspent
    pure = spent.remaining_epsilon(0.0)
    assert not spent.charge([LaplaceEvent(pure * (1 - 1e-9), 1.0)]).overspent
    assert spent.charge([LaplaceEvent(pure * 1.001, 1.0)]).overspent


def old_file(path, *events):
    head = {"format": "marginalia-book", "version": 1, "id": "1", "epsilon": 1.0, "delta": 1e-5, "relation": ADD}
    entry = {"release": "x", "at": "2026-11-27T06:08:25+00:00", "relation": ADD, "randomness": "system"}
    ledger = Ledger(ADD, planned=True)
    for event in events:
        ledger.append(event)
    lines = [head, *({**entry, "event": event} for event in ledger.summary()["events"])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return PrivacyOdometer(path)


def test_a_file_of_an_earlier_version_is_priced_by_two_measures(tmp_path, call):
    few = old_file(tmp_path / "few.book", GaussianEvent(1.0, 8.0))
    assert 0 < few.epsilon_spent < 1
    assert few.remaining_budget()[0] < Ledger(ADD, epsilon=1.0, delta=1e-5).remaining_budget()[0]
    assert "fixed no measure: priced by two measures, each at delta 5e-06" in call("budget", "show", few.path)[1]
    mixed = old_file(tmp_path / "mixed.book", GaussianEvent(1.0, 20.0), LaplaceEvent(1.0, 3.0))
    assert 0.33 < mixed.epsilon_spent < 1
    full = old_file(tmp_path / "full.book", GaussianEvent(1.0, 3.8))  # within epsilon 1 at the whole delta
    assert full.epsilon_spent > 1
    with pytest.raises(PrivacyError, match="nothing is left"):
        full.remaining_budget()


def test_two_branches_in_a_file_of_an_earlier_version(tmp_path):
    def opened():
        ledger = Ledger(ADD, epsilon=1.0, delta=1e-5)
        ledger.filter = OneOf.of_earlier_versions(ADD, epsilon=1.0, delta=1e-5)
        return ledger

    single, whole = true_delta_of_two_branches(opened)
    assert single <= whole <= 1e-5 * (1 + 1e-6)


def test_a_fit_keeps_its_books_in_the_measure_of_the_file(tmp_path):
    """In zCDP, where the selections of MST cost less, it would be refused half-way."""
    rng = np.random.default_rng(0)
    table = Table(rng.integers(0, 2, (300, 4)), Domain([Column(name, 2) for name in "abcd"]))
    book = PrivacyOdometer.create(tmp_path / "t.book", ADD, epsilon=1.0, delta=1e-9)
    left = book.remaining_budget()[0]
    book.check_room(left, 1e-9)
    with charging(book, "mst"):
        model = MST(epsilon=left, delta=1e-9, random_state=None, relation="add_remove").fit(table)
    assert model.ledger_.certified
    assert PrivacyOdometer(book.path).ledger.certified
    assert PrivacyOdometer(book.path).epsilon_spent > 0.9
