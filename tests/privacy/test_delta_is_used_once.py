"""What both accountants take off delta, and how they split it: each part of delta is spent once."""

import math

import pytest

from marginalia.privacy.costs import DELTA_SHARES, composed_epsilon, cost
from marginalia.privacy.events import (
    CompositionEvent,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    GroupEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.recompute import AGREEMENT, _is_special, recomputed_epsilon
from marginalia.privacy.relation import Relation

ADD = Relation.ADD_REMOVE
NOISE = GaussianEvent(1.0, 8.0)
BOTH = pytest.mark.parametrize("accountant", [composed_epsilon, recomputed_epsilon])


@BOTH
def test_equal_failures_add_up(accountant):
    """Each is a set of tables of its own that gives a row away, so three of 4e-6 are more than a delta of 1e-5."""
    failure = FailureEvent(4e-6)
    for two in ((failure, failure), (CompositionEvent((failure,), 2),)):
        assert accountant((NOISE, *two), ADD, 1e-5) == pytest.approx(accountant((NOISE,), ADD, 2e-6), rel=1e-9)
    assert accountant((NOISE, failure, failure, failure), ADD, 1e-5) == math.inf


def test_equal_failures_come_off_what_is_left():
    ledger = Ledger(ADD, epsilon=1.0, delta=1e-5, planned=True)
    for _ in range(2):
        ledger.append(FailureEvent(4e-6))
    assert ledger.remaining_budget() == (1.0, pytest.approx(2e-6))


def test_two_groups_share_delta():
    """No sum of bounds is taken in which the two groups have more than delta together."""
    first, rest = ObjectivePerturbationEvent(1.0, 30.0, 100.0), PoissonGaussianEvent(0.05, 2.0, 20)
    bounds = [
        composed_epsilon((first,), ADD, share * 1e-5) + composed_epsilon((rest,), ADD, (1 - share) * 1e-5)
        for share in DELTA_SHARES
    ]
    assert composed_epsilon((first, rest), ADD, 1e-5) == min(bounds)


def test_what_is_left_beside_a_sampled_run_has_the_rest_of_delta():
    run = PoissonGaussianEvent(0.05, 4.0, 50)
    ledger = Ledger(ADD, epsilon=1.0, delta=1e-5, planned=True)
    ledger.append(run)
    epsilon, delta = ledger.remaining_budget()
    cost = {(1 - share) * 1e-5: composed_epsilon((run,), ADD, share * 1e-5) for share in DELTA_SHARES}
    assert delta in cost
    assert epsilon + cost[delta] <= 1.0


def test_two_groups_share_delta_in_the_second_accountant():
    """Beside so many selections that no loss distribution holds them."""
    first, rest = ObjectivePerturbationEvent(1.0, 30.0, 100.0), CompositionEvent((ExponentialEvent(1.0),), 4000)
    bounds = [
        recomputed_epsilon((first,), ADD, (1 - share) * 1e-5) + recomputed_epsilon((rest,), ADD, share * 1e-5)
        for share in (1e-4, 1e-3, 1e-2, 0.1, 0.5, 0.9)
    ]
    assert recomputed_epsilon((first, rest), ADD, 1e-5) == pytest.approx(min(bounds), rel=1e-12)


@BOTH
def test_a_small_release_beside_a_large_one_costs_no_less_than_the_large_one(accountant):
    """The loss of the large one exceeds epsilon at times: there the profile of the small one is that below 0."""
    small, large = ObjectivePerturbationEvent(1.0, 300.0, 1e3), GaussianEvent(1.0, 2.0)
    assert accountant((small, large), ADD, 1e-5) >= accountant((large,), ADD, 1e-5) * (1 - AGREEMENT)


def test_both_accountants_agree_where_both_releases_matter():
    """They compose the profile and the Gaussian loss in two ways: half a profile would be 8 % less here."""
    events = ObjectivePerturbationEvent(1.0, 4.0, 8.0), GaussianEvent(1.0, 2.0)
    first, second = composed_epsilon(events, ADD, 1e-5), recomputed_epsilon(events, ADD, 1e-5)
    assert 0.99 * first <= second <= first * (1 + AGREEMENT)


def test_a_chain_of_rows_is_gaussian_from_the_limit_of_the_ridge_on():
    """The proof needs a regulariser of at least 2 sigma²; a little below, both accountants ask the envelope."""
    for share, gaussian in ((1.0, True), (1 - 1e-6, False)):
        event = ObjectivePerturbationEvent(1.0, 30.0, share * 2 * 30.0**2)
        for one in (event, GroupEvent(event, 3)):
            assert cost(one, ADD).is_gaussian is gaussian
            assert _is_special(one) is not gaussian
    mu = math.sqrt(cost(GroupEvent(ObjectivePerturbationEvent(1.0, 30.0, 2 * 30.0**2), 3), ADD).mu_squared)
    assert mu == pytest.approx(3 / 30)
    of_one = cost(ObjectivePerturbationEvent(1.0, 30.0, 1800.0), Relation.REPLACE_ONE).mu_squared
    assert of_one == pytest.approx((2 / 30) ** 2)
