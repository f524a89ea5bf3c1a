"""How a ledger could be fooled: prices below the true divergence, releases that leave no trace, forged verdicts."""

import json
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import ledger as ledger_module
from marginalia.privacy.calibration import gaussian_sigma, gdp_epsilon
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import (
    CompositionEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.objective_cost import objective_perturbation_epsilon
from marginalia.privacy.recompute import recomputed_epsilon
from marginalia.privacy.relation import Relation
from marginalia.privacy.verify import verify


def ledger_of(*events: Event, relation: str = "add_remove", **given) -> Ledger:
    ledger = Ledger(relation, planned=True, **given)
    for event in events:
        ledger.append(event)
    return ledger


def epsilon_of(delta_at, delta):
    """The true epsilon: where the profile of the worst pair falls to delta."""
    low, high = 0.0, 200.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def two_point(loss: float, count: int):
    """Profile of `count` repetitions of the pair whose losses are +loss and -loss: of the worst selections."""
    p = 1 / (1 + math.exp(-loss))
    k = np.arange(count + 1)
    total = loss * (2 * k - count)
    mass = binom.pmf(k, count, p)
    return lambda epsilon: float((mass * np.maximum(0, -np.expm1(epsilon - total))).sum())


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize(("epsilon", "count"), [(0.05, 400), (0.5, 20), (0.5, 100), (3.0, 5)])
def test_prices_against_the_divergence_of_the_mechanisms(epsilon, count, delta):
    """A certificate below the true epsilon of one pair is wrong, whoever computed it."""
    selections = ledger_of(CompositionEvent((ExponentialEvent(epsilon),), count)).epsilon(delta)
    assert selections >= epsilon_of(two_point(epsilon / 2, count), delta) - 1e-9
    laplace = ledger_of(LaplaceEvent(1.0, 1 / epsilon))
    assert laplace.epsilon(0) == pytest.approx(epsilon)
    assert laplace.epsilon(delta) >= epsilon + 2 * math.log1p(-delta) - 1e-9  # its profile: 1 - exp((e - epsilon)/2)
    mu = epsilon * math.sqrt(count)

    def gaussian(e):
        return norm.cdf(mu / 2 - e / mu) - math.exp(min(e + norm.logcdf(-mu / 2 - e / mu), 0.0))

    certified = ledger_of(CompositionEvent((GaussianEvent(epsilon, 1.0),), count)).epsilon(delta)
    assert certified == pytest.approx(epsilon_of(gaussian, delta), rel=1e-5)


@pytest.mark.parametrize("excess", [1e-6, 0.1, 0.3])
def test_a_millionth_over_the_budget_is_refused(excess):
    """And a billionth below is not: by whatever way the ledger gets there."""
    delta = 1e-5
    for epsilon in (0.3, 1.0, 4.0):
        sigma = gaussian_sigma(epsilon * (1 + excess), delta)
        with pytest.raises(PrivacyError, match="refused"):
            ledger_of(GaussianEvent(1.0, sigma), epsilon=epsilon, delta=delta)
        with pytest.raises(PrivacyError, match="refused"):
            ledger_of(LaplaceEvent(1 + excess, 1 / epsilon), epsilon=epsilon, delta=0)
        assert ledger_of(GaussianEvent(1.0, gaussian_sigma(epsilon, delta)), epsilon=epsilon, delta=delta).certified
        published = ledger_of(GaussianEvent(1.0, sigma), epsilon=epsilon, delta=delta, calibration="published")
        assert not published.certified


def test_a_refused_release_leaves_no_trace():
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    ledger.append(GaussianEvent(1.0, 8.0), "system")
    before = ledger.events, ledger.epsilon_spent, ledger.randomness, ledger.summary()
    with pytest.raises(PrivacyError):
        ledger.append(GaussianEvent(1.0, 1.0), "seeded")
    assert (ledger.events, ledger.epsilon_spent, ledger.randomness, ledger.summary()) == before
    ledger.append(GaussianEvent(1.0, 8.0), "system")
    assert ledger.epsilon_spent == pytest.approx(gdp_epsilon(math.sqrt(2) / 8, 1e-5))
    assert ledger.randomness == "system"


def test_a_closed_ledger_charges_nothing():
    ledger = ledger_of(GaussianEvent(1.0, 8.0), epsilon=1.0, delta=1e-5)
    ledger.close()
    with pytest.raises(PrivacyError, match="closed"):
        ledger.append(GaussianEvent(1.0, 1e6))
    assert len(ledger.events) == 1


def test_repeated_releases_add_up():
    """One by one, in one composition, in compositions of compositions; whatever their labels."""
    delta = 1e-5
    ways = [
        [GaussianEvent(1.0, 9.0, label) for label in "aaabbb"],
        [CompositionEvent((GaussianEvent(1.0, 9.0),), 6)],
        [CompositionEvent((CompositionEvent((GaussianEvent(1.0, 9.0, "x"),), 3, "y"),), 2, "z")],
        [CompositionEvent(tuple(GaussianEvent(1.0, 9.0) for _ in range(3)), 2)],
        [PoissonGaussianEvent(1.0, 9.0, 6)],
    ]
    for events in ways:
        ledger = ledger_of(*events, epsilon=9.0, delta=delta)
        assert ledger.epsilon_spent == pytest.approx(gdp_epsilon(math.sqrt(6) / 9, delta), rel=1e-12)
        assert ledger.rho() == pytest.approx(6 / 9**2 / 2)
    for selections in ([ExponentialEvent(0.1)] * 7, [CompositionEvent((ExponentialEvent(0.1),), 7)]):
        assert ledger_of(*selections).epsilon(0) == pytest.approx(0.7)
        assert ledger_of(*selections).rho() == pytest.approx(7 * 0.01 / 8)


def test_replacing_a_record_costs_twice_an_added_one():
    """A Poisson event states the norm of one record: replacing it moves the sum by two."""
    event, delta = PoissonGaussianEvent(1.0, 20.0, 9), 1e-5
    assert ledger_of(event).epsilon(delta) == pytest.approx(gdp_epsilon(3 / 20, delta))
    assert ledger_of(event, relation="replace_one").epsilon(delta) == pytest.approx(gdp_epsilon(6 / 20, delta))
    sampled = PoissonGaussianEvent(0.05, 1.0, 50)
    one, two = ledger_of(sampled).epsilon(delta), ledger_of(sampled, relation="replace_one").epsilon(delta)
    assert two > 1.2 * one


@pytest.mark.parametrize(
    "event",
    [
        RandomStoppingEvent(GaussianEvent(1.0, 10.0), r=0.1),
        ObjectivePerturbationEvent(bound=1.0, sigma=4.0, regulariser=8.0),
    ],
)
def test_certificates_of_one_release_do_not_compose(event):
    assert ledger_of(event).epsilon(1e-5) > 0
    for events in ([event, event], [CompositionEvent((event,), 2)]):
        with pytest.raises(PrivacyError, match="no accountant covers"):
            ledger_of(*events).epsilon(1e-5)


def test_delta_is_split_between_the_minimiser_and_its_noise():
    objective, output, delta = ObjectivePerturbationEvent(1.0, 4.0, 8.0), GaussianEvent(1.0, 900.0), 1e-5
    own = objective_perturbation_epsilon(0.999 * delta, bound=1.0, sigma=4.0, regulariser=8.0)
    got = composed_epsilon((objective, output), Relation.ADD_REMOVE, delta)
    assert got == pytest.approx(own + gdp_epsilon(1 / 900, 1e-3 * delta), rel=1e-12)


def test_one_ideal_release_makes_the_ledger_ideal():
    exact, ideal = GaussianEvent(1.0, 9.0, arithmetic="exact"), GaussianEvent(1.0, 9.0)
    assert ledger_of(exact, exact).arithmetic == "exact"
    for events in ([exact, ideal], [ideal, exact], [CompositionEvent((exact, ideal))]):
        assert ledger_of(*events).arithmetic == "ideal"
    hidden = RandomStoppingEvent(CompositionEvent((exact, ideal)), r=0.5)
    assert ledger_of(exact, hidden).arithmetic == "ideal"


# --- certificates -----------------------------------------------------------------------------------------------------


class Foreign(Ledger):
    """Looks like a ledger, and says that nothing was spent."""

    def epsilon(self, delta):
        return 0.0


class Model:
    """A fitted model with a ledger."""

    def __init__(self, ledger):
        self.ledger_ = ledger

    def get_params(self, deep=False):
        return {"epsilon": 1.0, "random_state": 987654321, "inner": [1, 2]}


def test_a_foreign_ledger_has_no_certificate():
    for foreign in (Foreign("add_remove", epsilon=1.0, delta=1e-5), object(), None):
        with pytest.raises(InputError, match=r"no ledger of marginalia's"):
            Certificate.of(Model(foreign))


def test_no_certificate_holds_a_seed():
    own = ledger_of(GaussianEvent(1.0, 8.0), epsilon=1.0, delta=1e-5)
    text = json.dumps(Certificate.of(Model(own)).content)
    assert "987654321" not in text
    assert "random_state" not in text


def test_a_forged_certificate_is_not_confirmed():
    """The events of a spent budget under a smaller one, or under a verdict of the forger's own."""
    spent = ledger_of(GaussianEvent(1.0, 1.0), epsilon=9.0, delta=1e-5)
    honest = Certificate.of(Model(spent)).content | {"parameters": {}}
    assert verify(Certificate(honest)).confirmed
    for forged in (
        {"epsilon": 1.0},
        {"epsilon": 1.0, "epsilon_spent": 0.9},
        {"delta": 1e-12},
        {"events": []},
        {"epsilon_spent": 0.1},
        {"certified": False},
    ):
        assert not verify(Certificate({**honest, **forged})).confirmed, forged


def test_the_second_accountant_is_another_one(monkeypatch):
    """It finds what the first one charges too little."""
    own = ledger_of(GaussianEvent(1.0, 1.0), epsilon=9.0, delta=1e-5)
    certificate = Certificate(own.summary())
    monkeypatch.setattr(ledger_module, "composed_epsilon", lambda *given: 0.5)
    monkeypatch.setattr(ledger_module, "_epsilon", lambda *given: 0.5)
    cheated = Certificate({**own.summary(), "epsilon": 1.0})
    assert cheated.ledger.certified
    assert not verify(cheated).confirmed
    assert verify(certificate).recomputed_by_second == pytest.approx(gdp_epsilon(1.0, 1e-5), rel=1e-3)


@pytest.mark.parametrize("delta", [1e-6, 1e-2])
@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 20), (3.0, 5)])
def test_the_second_accountant_is_never_below_the_true_divergence(epsilon, count, delta):
    events = (CompositionEvent((ExponentialEvent(epsilon),), count),)
    truth = epsilon_of(two_point(epsilon / 2, count), delta)
    assert recomputed_epsilon(events, Relation.ADD_REMOVE, delta) >= truth - 1e-9
    assert recomputed_epsilon((LaplaceEvent(1.0, 1 / epsilon),), Relation.ADD_REMOVE, 0.0) == pytest.approx(epsilon)
    mu = gdp_epsilon(epsilon, delta)
    assert recomputed_epsilon((GaussianEvent(epsilon, 1.0),), Relation.ADD_REMOVE, delta) == pytest.approx(mu, rel=1e-3)


def test_the_second_accountant_knows_the_relation():
    for event in (PoissonGaussianEvent(0.1, 1.0, 40), PoissonGaussianEvent(1.0, 20.0, 9)):
        one, two = (recomputed_epsilon((event,), relation, 1e-5) for relation in Relation)
        assert two > 1.2 * one
        for relation, got in zip(Relation, (one, two), strict=True):
            assert got == pytest.approx(ledger_of(event, relation=relation).epsilon(1e-5), rel=2e-3)


def test_the_page_says_whose_rows_are_protected():
    scope = "protects the n - T rows dealt to the teachers"
    own = ledger_of(GaussianEvent(1.0, 8.0), epsilon=1.0, delta=1e-5, scope=scope)
    (verdict,) = [line for line in certificate_page(Certificate(own.summary())) if line.startswith("verdict")]
    assert "n - T rows" in verdict
