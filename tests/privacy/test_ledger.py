"""What compositions cost: published certificates, and the properties every accountant must have."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import laplace as laplace_law
from tiers import others_slow

from marginalia.errors import InputError, PrivacyError
from marginalia.privacy import (
    CompositionEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    Ledger,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
    Relation,
)
from marginalia.privacy import ledger as ledger_module
from marginalia.privacy.calibration import (
    gaussian_sigma,
    gdp_epsilon,
    zcdp_epsilon,
    zcdp_rho,
)
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import Event
from marginalia.privacy.ledger import READ_OFF, PublicInput
from marginalia.privacy.objective_cost import objective_perturbation_epsilon
from marginalia.privacy.pld import poisson_gaussian_noise_multiplier
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session
from marginalia.privacy.stopping_cost import random_stopping_mu


def spent(*events: Event, delta: float = 1e-5, relation: str = "add_remove") -> float:
    ledger = Ledger(relation)
    for event in events:
        ledger.append(event)
    return ledger.epsilon(delta)


# -- published certificates ---------------------------------------------------------------------------------------

NOMINAL = (0.05, 0.1, 0.5, 1, 2)


def ada_ssp_multipliers(epsilon: float, delta: float, code: bool) -> list[float]:
    third = 3 * math.sqrt(math.log(6 / delta)) / epsilon
    if not code:
        return [third] * 3
    shares = (0.95 * 2 / 3, 0.05 * 2 / 3)
    return [third] + [math.sqrt(math.log(2 / (share * delta))) / (share * epsilon) for share in shares]


@pytest.mark.parametrize(
    ("code", "moved", "certified"),
    [
        (False, (1, 1, 1), (0.0210, 0.0453, 0.2640, 0.5619, 1.2008)),
        (True, (1, 1, 1), (0.0273, 0.0587, 0.3411, 0.7265, 1.5571)),
        (False, (1, math.sqrt(2), 2), (0.0336, 0.0722, 0.4189, 0.8930, 1.9201)),
        (True, (1, math.sqrt(2), 2), (0.0377, 0.0810, 0.4692, 1.0010, 2.1570)),
    ],
)
def test_ada_ssp(code: bool, moved: tuple[float, ...], certified: tuple[float, ...]) -> None:
    for epsilon, expected in zip(NOMINAL, certified, strict=True):
        events = [
            GaussianEvent(14 * sensitivity, 14 * multiplier)
            for sensitivity, multiplier in zip(moved, ada_ssp_multipliers(epsilon, 1e-5, code), strict=True)
        ]
        assert spent(*events) == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize(
    ("releases", "certified"),
    [(1, (0.0414, 0.0888, 0.5144, 1.0982, 2.3709)), (2, (0.0607, 0.1298, 0.7510, 1.6103, 3.5112))],
)
def test_plain_ssp_overspends(releases: int, certified: tuple[float, ...]) -> None:
    for epsilon, expected in zip(NOMINAL, certified, strict=True):
        ledger = Ledger("add_remove")
        for _ in range(releases):
            ledger.append(GaussianEvent(14, 14 * math.sqrt(math.log(1.25 / 1e-5)) / epsilon))
        assert ledger.epsilon(1e-5) == pytest.approx(expected, abs=6e-5)
        if expected > epsilon:
            tight = Ledger("add_remove", epsilon=epsilon, delta=1e-5)
            with pytest.raises(PrivacyError, match="would be spent"):
                tight.append(CompositionEvent(ledger.events))


def test_classical_gaussian_is_safe() -> None:
    for epsilon, expected in zip(NOMINAL, (0.0282, 0.0607, 0.3526, 0.7510, 1.6103), strict=True):
        sigma = gaussian_sigma(epsilon, 1e-5, method="classical")
        assert spent(GaussianEvent(1, sigma)) == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize(
    ("published", "attained", "certified"),
    [
        (8.609, 16.174, (0.758, 1.602, 3.436, 7.58)),
        (9.256, 37.799, (1.151, 2.450, 5.328, 12.06)),
        (7.590, 61.875, (1.674, 3.596, 7.954, 18.5)),
    ],
)
def test_chebyshev_published_noise(published: float, attained: float, certified: tuple[float, ...]) -> None:
    for epsilon, expected in zip((0.5, 1, 2, 4), certified, strict=True):
        sigma = math.sqrt(published * math.log(1.25e6)) / epsilon
        event = GaussianEvent(math.sqrt(attained), sigma)
        assert spent(event, delta=1e-6, relation="replace_one") == pytest.approx(expected, rel=4e-3)


@pytest.mark.parametrize(("marginals", "certified"), [(2, 1.138), (3, 1.418)])
def test_too_many_marginals_for_the_published_sensitivity(marginals: int, certified: float) -> None:
    sigma = 2 * math.sqrt(math.log(1.25e6))  # counts on at most one marginal
    event = CompositionEvent((GaussianEvent(math.sqrt(2), sigma),), marginals)
    assert spent(event, delta=1e-6, relation="replace_one") == pytest.approx(certified, abs=6e-4)


def test_aim_budget_read_as_replace_one() -> None:
    # Adult, ε = 1, δ = 1/n²: 5.6 % of ρ on one-way marginals, the rest 90/10 on measuring and selecting.
    delta, columns = 48842**-2.0, 14
    rho, rounds = zcdp_rho(1, delta), 16 * 14
    sigma, e = math.sqrt(rounds / (1.8 * rho)), math.sqrt(0.8 * rho / rounds)
    loop = (rho - columns / (2 * sigma**2)) / (1 / (2 * sigma**2) + e**2 / 8)

    def events(l2: float, factor: float) -> list[Event]:
        # the loop's number of rounds is not whole: spread it over 1000 equal rounds
        measured = CompositionEvent((GaussianEvent(l2 * math.sqrt(loop / 1000), sigma),), 1000)
        chosen = CompositionEvent((ExponentialEvent(factor * e * math.sqrt(loop / 1000)),), 1000)
        return [CompositionEvent((GaussianEvent(l2, sigma),), columns), measured, chosen]

    assert zcdp_epsilon(rho, delta) == pytest.approx(1, rel=1e-9)
    assert spent(*events(1, 1), delta=delta) == pytest.approx(0.97688, abs=1e-5)  # by Gaussian DP
    ledger = Ledger("replace_one")
    for event in events(math.sqrt(2), 2):
        ledger.append(event)
    assert ledger.rho() / rho == pytest.approx(2.189, abs=1e-3)
    assert ledger.epsilon(delta) == pytest.approx(1.5048, abs=1e-3)
    assert spent(*events(math.sqrt(2), 2)[:2], delta=delta, relation="replace_one") == pytest.approx(1.297, abs=1e-3)


@pytest.mark.parametrize(("queries", "pure_dp", "certified"), [(100, 0.717, 0.7148), (20, 0.690, 0.6829)])
def test_pate_vote_noise(queries: int, pure_dp: float, certified: float) -> None:
    # γ solves 4Tγ² + 2γ√(2T ln 1/δ) = 1; a changed teacher moves two counts by one each.
    log_inverse = math.log(1e5)
    b = 2 * math.sqrt(2 * queries * log_inverse)
    gamma = (-b + math.sqrt(b**2 + 16 * queries)) / (8 * queries)
    answer = spent(CompositionEvent((LaplaceEvent(2, 1 / gamma),), queries), relation="replace_one")
    assert answer == pytest.approx(certified, abs=2e-4)
    assert answer < pure_dp  # what 2γ-DP alone, without the shape of the noise, would give


@pytest.mark.parametrize(
    ("rows", "steps", "batch", "certified"),
    [
        (39073, 500, 1000, 0.292),
        (3859, 500, 100, 0.277),
        (5771, 500, 200, 0.279),
        (48336, 500, 3000, 0.291),
        (16638, 300, 500, 0.289),
        (242, 1000, 20, 0.240),
    ],
)
def test_published_dp_sgd_noise(rows: int, steps: int, batch: int, certified: float) -> None:
    sigma = math.sqrt(16 * steps * math.log(rows**2)) / rows  # on the mean gradient of a batch, clip 1
    event = PoissonGaussianEvent(batch / rows, sigma * batch, steps)
    assert spent(event, delta=rows**-2.0) == pytest.approx(certified, abs=1e-3)


@pytest.mark.parametrize(
    ("count", "sensitivity", "share"), [(211, 210, 0.498), (211, 220, 0.521)]
)  # p = 20, d = 2: monomials, parities
def test_reduced_space_published_noise(count: int, sensitivity: float, share: float) -> None:
    event = LaplaceEvent(sensitivity, 2 * count)  # ε = 1, in units of 1/n
    assert spent(event, delta=0) == pytest.approx(share, abs=6e-4)


@pytest.mark.parametrize(
    ("epsilon", "certified"), [(0.25, 0.085), (0.5, 0.179), (1, 0.376), (2, 0.790), (4, 1.67), (8, 3.59)]
)
def test_adaptive_margin_published_budget(epsilon: float, certified: float) -> None:
    mu, grid, steps = epsilon / (2 * math.sqrt(2 * math.log(1e6))), 11, 412
    mu_run = mu / math.sqrt(2 * grid)
    descent = CompositionEvent((GaussianEvent(48, 48 * math.sqrt(steps) / mu_run),), steps, label="descent")
    candidate = CompositionEvent((descent, GaussianEvent(1, 1 / mu_run, "score")))
    answer = spent(CompositionEvent((candidate,), grid), delta=1e-6, relation="replace_one")
    assert answer == pytest.approx(certified, rel=6e-3)
    assert answer == pytest.approx(gdp_epsilon(mu, 1e-6), rel=1e-12)


# -- which accountant answers -------------------------------------------------------------------------------------


def test_random_stopping_is_charged_exactly() -> None:
    mu = random_stopping_mu(1, 1e-6, r=1 / 64)
    run = CompositionEvent((GaussianEvent(1, math.sqrt(2) / mu), GaussianEvent(1, math.sqrt(2) / mu, "score")))
    assert spent(RandomStoppingEvent(run, r=1 / 64), delta=1e-6) == pytest.approx(1, rel=1e-9)
    with pytest.raises(PrivacyError, match="only for runs of Gaussian"):
        spent(RandomStoppingEvent(LaplaceEvent(1, 1), r=0.1))


@pytest.mark.slow
def test_tight_poisson_run_is_certified() -> None:
    multiplier = poisson_gaussian_noise_multiplier(1, 1e-5, 0.02, 900, Relation.REPLACE_ONE)
    ledger = Ledger("replace_one", epsilon=1, delta=1e-5, planned=True)
    ledger.append(PoissonGaussianEvent(0.02, multiplier, 900))
    ledger.close()
    assert ledger.certified


def test_replace_one_poisson_reference() -> None:
    event = PoissonGaussianEvent(1024 / 47842, 5, 934)
    assert spent(event, relation="replace_one") == pytest.approx(0.974, abs=1e-3)


def test_full_batches_are_exact() -> None:
    event = PoissonGaussianEvent(1, 10, 20)
    assert spent(event) == pytest.approx(gdp_epsilon(math.sqrt(20) / 10, 1e-5), rel=1e-12)
    assert spent(event, relation="replace_one") == pytest.approx(gdp_epsilon(math.sqrt(20) / 5, 1e-5), rel=1e-12)


@pytest.mark.slow
def test_objective_perturbation_composes_only_as_gaussian_dp() -> None:
    weak, strong = ObjectivePerturbationEvent(1, 5, 2), ObjectivePerturbationEvent(1, 5, 50)
    with pytest.raises(PrivacyError, match="ObjectivePerturbationEvent"):
        spent(CompositionEvent((weak,), 2))
    assert spent(strong, GaussianEvent(1, 5)) == pytest.approx(gdp_epsilon(math.sqrt(2) / 5, 1e-5))
    assert spent(strong, relation="replace_one") == pytest.approx(gdp_epsilon(2 / 5, 1e-5))
    # Beside Gaussian releases by basic composition, a thousandth of delta theirs.
    for relation in ("add_remove", "replace_one"):
        own = objective_perturbation_epsilon(0.999e-5, bound=1, sigma=5, regulariser=2, relation=Relation(relation))
        little = spent(weak, GaussianEvent(1, 2000), relation=relation)
        assert little == pytest.approx(own + gdp_epsilon(1 / 2000, 1e-8), rel=1e-12)
        # Where that is 1 % too large, by their joint loss.
        for theirs in [(GaussianEvent(2, 4),), (GaussianEvent(3, 10), GaussianEvent(2, 5))]:
            assert own < spent(*theirs, weak, relation=relation) < own + gdp_epsilon(0.5, 1e-8)
    ledger = Ledger("add_remove")
    ledger.append(weak)
    with pytest.raises(PrivacyError, match="zCDP"):
        ledger.rho()


@pytest.mark.parametrize(
    "mix",
    [
        (ObjectivePerturbationEvent(1, 5, 2), RandomStoppingEvent(GaussianEvent(1, 5), r=0.1)),
        (ObjectivePerturbationEvent(1, 5, 2), ObjectivePerturbationEvent(1, 6, 2), GaussianEvent(1, 5)),
        (RandomStoppingEvent(GaussianEvent(1, 5), r=0.1), RandomStoppingEvent(GaussianEvent(1, 5), r=0.1)),
    ],
)
def test_other_mixes_are_refused(mix: tuple[Event, ...]) -> None:
    with pytest.raises(PrivacyError, match="no accountant covers"):
        spent(*mix)


def test_unknown_events_are_refused() -> None:
    with pytest.raises(PrivacyError, match="does not know how to charge str"):
        Ledger("add_remove").append("gaussian")  # type: ignore[arg-type]


def test_pure_sum_where_it_is_smaller() -> None:
    assert spent(ExponentialEvent(0.3), LaplaceEvent(1, 5), delta=1e-12) == pytest.approx(0.5)
    assert spent(ExponentialEvent(0.3), LaplaceEvent(1, 5), delta=0) == pytest.approx(0.5)
    many = CompositionEvent((ExponentialEvent(0.01),), 10_000)
    assert spent(many) == pytest.approx(zcdp_epsilon(0.125, 1e-5))


def test_delta_zero_needs_pure_dp() -> None:
    assert spent(GaussianEvent(1, 1), delta=0) == math.inf
    assert spent(GaussianEvent(1, 1), ExponentialEvent(1), delta=0) == math.inf
    assert spent(ObjectivePerturbationEvent(1, 1, 1), delta=0) == math.inf
    assert spent(delta=0) == spent(delta=1e-5) == 0


def test_huge_losses_need_no_grid() -> None:
    assert spent(LaplaceEvent(1e6, 1)) == pytest.approx(1e6)
    assert spent(LaplaceEvent(1, 1), GaussianEvent(1e3, 1)) > 5e5


def test_laplace_with_gaussian_beats_zcdp() -> None:
    events = (LaplaceEvent(1, 10), GaussianEvent(1, 4))
    ledger = Ledger("add_remove")
    for event in events:
        ledger.append(event)
    zcdp = zcdp_epsilon(ledger.rho(), 1e-5)
    assert spent(GaussianEvent(1, 4)) < ledger.epsilon(1e-5) < zcdp


def test_laplace_zcdp_parameter() -> None:
    # ρ = e - 1 + exp(-e) bounds the Rényi divergence of every order a by a·ρ, and is the limit at a = 1.
    def renyi(order: float, e: float) -> float:  # Mironov 2017, Table II
        up, down = math.log(order / (2 * order - 1)), math.log((order - 1) / (2 * order - 1))
        return float(np.logaddexp(up + (order - 1) * e, down - order * e)) / (order - 1)

    x = np.linspace(-40, 40, 800_001)
    ratio = laplace_law.pdf(x) ** 2 / laplace_law.pdf(x, loc=1.0)
    assert renyi(2, 1.0) == pytest.approx(math.log(np.trapezoid(ratio, x)), rel=1e-6)
    for e in (0.05, 1.0, 6.0):
        ledger = Ledger("add_remove")
        ledger.append(LaplaceEvent(e, 1))
        assert ledger.rho() == pytest.approx(renyi(1 + 1e-7, e), rel=1e-5)
        for order in (1.01, 1.1, 2, 5, 30, 1000):
            assert renyi(order, e) <= order * ledger.rho()


def test_vector_laplace_is_dominated_by_a_scalar() -> None:
    # One vector with L1 sensitivity .3 + .7 costs no less than two scalars of .3 and .7.
    for delta in (1e-6, 1e-3, 0.1):
        assert spent(LaplaceEvent(0.3, 1), LaplaceEvent(0.7, 1), delta=delta) <= spent(LaplaceEvent(1, 1), delta=delta)


# -- properties ---------------------------------------------------------------------------------------------------

sigmas = st.floats(0.5, 50)
gaussians = sigmas.map(lambda sigma: GaussianEvent(1.0, sigma))
selections = st.floats(0.001, 1).map(ExponentialEvent)
small_deltas = st.sampled_from([1e-12, 1e-6, 1e-3, 0.3])


@pytest.mark.slow
@given(st.lists(st.one_of(gaussians, selections), min_size=1, max_size=8), small_deltas, st.randoms())
def test_order_does_not_matter(events: list[Event], delta: float, random: object) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    nested = [CompositionEvent(tuple(shuffled[:3])), *shuffled[3:]] if len(shuffled) > 3 else shuffled
    assert spent(*events, delta=delta) == pytest.approx(spent(*nested, delta=delta), rel=1e-12)


@pytest.mark.slow
@given(st.lists(st.one_of(gaussians, selections), min_size=1, max_size=8), sigmas, small_deltas)
def test_monotone(events: list[Event], sigma: float, delta: float) -> None:
    base = spent(*events, delta=delta)
    more = spent(*events, GaussianEvent(1.0, sigma), delta=delta)
    assert base <= more * (1 + 1e-12) or all(isinstance(e, ExponentialEvent) for e in events)
    assert spent(*events, GaussianEvent(1.0, 1.1 * sigma), delta=delta) <= more
    assert spent(*events, delta=min(2 * delta, 0.9)) <= base


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.floats(0.5, 20), st.floats(0.5, 20), small_deltas)
def test_loss_distributions_are_monotone(scale: float, sigma: float, delta: float) -> None:
    base = spent(LaplaceEvent(1, scale), GaussianEvent(1, sigma), delta=delta)
    assert base >= spent(GaussianEvent(1, sigma), delta=delta) * (1 - 1e-6)
    assert base >= spent(LaplaceEvent(1, 1.2 * scale), GaussianEvent(1, 1.2 * sigma), delta=delta) * 0.9999
    assert base == spent(GaussianEvent(1, sigma), LaplaceEvent(1, scale), delta=delta)


@given(gaussians, st.integers(1, 10_000), small_deltas)
def test_count_is_repetition(event: GaussianEvent, count: int, delta: float) -> None:
    once = GaussianEvent(math.sqrt(count), event.sigma)
    assert spent(CompositionEvent((event,), count), delta=delta) == pytest.approx(spent(once, delta=delta), rel=1e-9)


# -- certificates -------------------------------------------------------------------------------------------------


def test_within_budget() -> None:
    ledger = Ledger(Relation.ADD_REMOVE, epsilon=1, delta=1e-5)
    assert not ledger.certified
    ledger.append(GaussianEvent(1, gaussian_sigma(1, 1e-5)))
    assert ledger.certified
    assert ledger.message == ""
    assert ledger.epsilon_spent == pytest.approx(1, rel=1e-9)
    ledger.close()
    with pytest.raises(PrivacyError, match="the ledger is closed"):
        ledger.append(GaussianEvent(1, 1e9))
    assert ledger.certified


def test_a_release_beyond_the_budget_is_refused_before_it_is_recorded() -> None:
    ledger = Ledger("add_remove", epsilon=1, delta=1e-5)
    too_little = GaussianEvent(1, gaussian_sigma(1, 1e-5) * (1 - 1e-6), "counts")
    with pytest.raises(PrivacyError, match=r"with 'counts' epsilon 1.00000\d+ of 1 at delta 1e-05 \(add_remove\)"):
        ledger.append(too_little)
    assert ledger.events == ()
    assert ledger.rho() == 0
    ledger.append(GaussianEvent(1, gaussian_sigma(1, 1e-5)))
    with pytest.raises(PrivacyError, match="refused: with LaplaceEvent"):
        ledger.append(LaplaceEvent(1, 1e3))
    assert len(ledger.events) == 1
    assert ledger.certified


def test_the_mechanism_draws_no_noise_for_a_refused_release() -> None:
    ledger, asked = Ledger("add_remove", epsilon=1, delta=1e-5), []
    with pytest.raises(PrivacyError, match="refused"):
        Session(ledger, Randomness(0)).gaussian(
            lambda: asked.append(1),
            sensitivity=1,
            sigma=1,
        )
    assert not asked
    assert ledger.events == ()


def test_a_mix_that_no_accountant_covers_is_refused_too() -> None:
    ledger = Ledger("add_remove", epsilon=10, delta=1e-5, planned=True)
    two = (RandomStoppingEvent(GaussianEvent(1, 5), r=0.1), ObjectivePerturbationEvent(1, 5, 2))
    ledger.append(two[0])
    with pytest.raises(PrivacyError, match="no accountant covers"):
        ledger.append(two[1])
    assert len(ledger.events) == 1
    published = Ledger("add_remove", epsilon=10, delta=1e-5, calibration="published", planned=True)
    for event in two:
        published.append(event)
    assert not published.certified
    assert published.epsilon_spent == math.inf
    with pytest.raises(PrivacyError, match="no accountant covers"):
        published.close()


def test_a_published_calibration_is_run_as_it_stands() -> None:
    ledger = Ledger("add_remove", epsilon=1, delta=1e-5, calibration="published", planned=True)
    ledger.append(GaussianEvent(1, gaussian_sigma(1, 1e-5) * (1 - 1e-6)))
    ledger.close()
    assert not ledger.certified
    assert ledger.epsilon_spent > 1
    expected = "not certified: requested epsilon 1 at delta 1e-05 (add_remove), spent 1.00000"
    assert ledger.message.startswith(expected)


def test_pure_budget() -> None:
    ledger = Ledger("replace_one", epsilon=0.7, delta=0)
    with pytest.raises(PrivacyError, match=r"epsilon inf of 0\.7 at delta 0"):
        ledger.append(GaussianEvent(1, 1e6))
    ledger.append(LaplaceEvent(10, 10 / 0.7))
    assert ledger.certified


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"epsilon": 0, "delta": 1e-5}, "epsilon is 0"),
        ({"epsilon": 1, "delta": 1}, "delta is 1"),
        ({"epsilon": 1}, "give both, or neither"),
        ({"epsilon": 1, "delta": 0, "public_inputs": [("n", 3, "guessed")]}, "source of the public input 'n'"),
    ],
)
def test_bad_budgets(budget: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Ledger("add_remove", **budget)


def test_nothing_booked_certifies_nothing() -> None:
    ledger = Ledger("add_remove", epsilon=1, delta=1e-5)
    ledger.close()
    assert not ledger.certified
    assert ledger.message == "no release was recorded: nothing is certified"


def test_without_a_budget_nothing_is_certified() -> None:
    ledger = Ledger("add_remove")
    ledger.append(GaussianEvent(1, 4))
    ledger.close()
    assert not ledger.certified
    assert ledger.message == "not certified: no budget was set"
    assert ledger.epsilon_spent is None
    assert ledger.epsilon(1e-5) == pytest.approx(0.926, abs=1e-3)


@pytest.mark.parametrize("name", ["certified", "epsilon_spent", "message", "events", "budget"])
def test_the_verdict_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(Ledger("add_remove", epsilon=1, delta=1e-5), name, True)


def test_the_scope_qualifies_the_verdict() -> None:
    ledger = Ledger("replace_one", epsilon=1, delta=1e-5, scope="the teachers' rows")
    ledger.append(GaussianEvent(1, 10))
    assert ledger.certified
    assert ledger.message == "protects the teachers' rows"


def test_randomness_and_arithmetic() -> None:
    ledger = Ledger("add_remove")
    assert (ledger.randomness, ledger.arithmetic) == ("", "ideal")
    ledger.append(GaussianEvent(1, 10, arithmetic="exact"), "system")
    assert (ledger.randomness, ledger.arithmetic) == ("system", "exact")
    run = CompositionEvent((GaussianEvent(1, 10, arithmetic="exact"), LaplaceEvent(1, 9)))
    ledger.append(RandomStoppingEvent(run, r=0.5), "seeded")
    ledger.append(GaussianEvent(1, 10, arithmetic="exact"), "system")
    assert (ledger.randomness, ledger.arithmetic) == ("seeded", "ideal")
    unknown = Ledger("add_remove")
    for kind in ("system", "", "system"):
        unknown.append(GaussianEvent(1, 10), kind)
    assert unknown.randomness == ""  # one release that does not say leaves the whole unknown
    with pytest.raises(InputError, match="unknown randomness 'secret'"):
        ledger.append(GaussianEvent(1, 10), "secret")


def test_appending_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules are asked only for what no sum of costs decides: here the verdict, and at most the last release."""
    asked = []
    real = ledger_module.composed_epsilon

    def counted(events: tuple[Event, ...], relation: Relation, delta: float, k: int = 1) -> float:
        if delta > 0:
            asked.append(len(events))
        return real(events, relation, delta, k)

    monkeypatch.setattr(ledger_module, "composed_epsilon", counted)
    n, sigma = 200, gaussian_sigma(0.7311, 1e-5, releases=200)
    ledger = Ledger("add_remove", epsilon=0.7311, delta=1e-5, planned=True)
    for i in range(n):
        ledger.append(GaussianEvent(1, sigma, f"marginal {i}"))
    assert ledger.certified
    assert 0 < len(asked) <= 2
    assert set(asked) == {1}  # equal events count once, whatever their labels
    mixed = Ledger("add_remove", epsilon=0.7311, delta=1e-5, planned=True)
    rho = zcdp_rho(0.7311, 1e-5) / n
    asked.clear()
    for i in range(n):
        mixed.append(GaussianEvent(1, 1 / math.sqrt(rho), f"marginal {i}"))
        mixed.append(ExponentialEvent(2 * math.sqrt(rho) * (1 - 1e-12), f"pair {i}"))
    assert not asked
    assert mixed.certified
    assert asked == [2]


def test_summary_is_json() -> None:
    run = CompositionEvent((GaussianEvent(1, np.float64(9)), GaussianEvent(1, 9, "score")), 3, label="run")
    ledger = Ledger("add_remove")
    ledger.append(RandomStoppingEvent(run, r=0.1))
    summary = json.loads(json.dumps(ledger.summary()))
    assert summary["relation"] == "add_remove"
    assert summary["certified"] is False
    (event,) = summary["events"]
    assert event["type"] == "RandomStoppingEvent"
    assert event["event"]["count"] == 3
    assert event["event"]["events"][1] == {
        "type": "GaussianEvent",
        "sensitivity": 1,
        "sigma": 9,
        "label": "score",
        "arithmetic": "ideal",
    }


def charged(ledger: Ledger) -> Ledger:
    ledger.append(CompositionEvent((GaussianEvent(1, 9), ExponentialEvent(0.1, "pair", 2.0)), 3, "run"), "seeded")
    ledger.close()
    return ledger


def test_round_trip() -> None:
    inputs = [("domain", {"age": 3}, "documented"), ("number of rows", 10, "declared")]
    ledger = charged(Ledger("replace_one", epsilon=3, delta=1e-5, scope="adults", public_inputs=inputs))
    summary = json.loads(json.dumps(ledger.summary()))
    again = Ledger.from_summary(summary)
    assert again.summary() == ledger.summary() == summary
    assert again.certified
    assert again.budget == (3, 1e-5)
    assert again.events == ledger.events
    with pytest.raises(PrivacyError, match="closed"):
        again.append(GaussianEvent(1, 1e9))


def test_a_forged_summary_is_exposed() -> None:
    ledger = Ledger("add_remove", epsilon=0.1, delta=1e-5, calibration="published", planned=True)
    ledger.append(GaussianEvent(100, 1))
    forged = ledger.summary() | {"certified": True, "epsilon_spent": 0.1, "message": "", "calibration": "tight"}
    read = Ledger.from_summary(forged)
    assert not read.certified
    assert read.epsilon_spent > 5000
    assert "the file says epsilon 0.1 was spent, its events cost 5" in read.message
    assert "requested epsilon 0.1" in read.message


def test_a_summary_that_claims_less_than_was_spent_certifies_nothing() -> None:
    summary = charged(Ledger("add_remove", epsilon=3, delta=1e-5)).summary()
    assert Ledger.from_summary(summary | {"epsilon_spent": summary["epsilon_spent"] * 2}).certified
    read = Ledger.from_summary(summary | {"epsilon_spent": summary["epsilon_spent"] / 2})
    assert not read.certified
    assert read.message.startswith("not certified: the file says epsilon")


def test_a_bad_summary_is_one_line() -> None:
    summary = charged(Ledger("add_remove", epsilon=3, delta=1e-5)).summary()
    for wrong in (
        {"events": [{"type": "Path"}]},
        {"events": [{"type": "GaussianEvent", "sensitivity": 1}]},
        {"relation": "swap"},
        {"events": [{"type": "GaussianEvent", "sensitivity": 1, "sigma": math.inf}]},
        {"randomness": "none"},
        {"public_inputs": [{}]},
        {"epsilon": -1},
    ):
        with pytest.raises(InputError) as error:
            print(wrong, Ledger.from_summary(summary | wrong))  # shown where it is not refused
        assert "\n" not in str(error.value), wrong


def test_unknown_relation() -> None:
    with pytest.raises(InputError, match="unknown relation 'swap'"):
        Ledger("swap")


def test_bad_events() -> None:
    for make, message in (
        (lambda: GaussianEvent(1, 0), "sigma is 0"),
        (lambda: GaussianEvent(math.nan, 1), "sensitivity is nan"),
        (lambda: LaplaceEvent(1, math.inf), "scale is inf"),
        (lambda: ExponentialEvent(-1), "epsilon is -1"),
        (lambda: PoissonGaussianEvent(1.5, 1, 1), "rate is 1.5"),
        (lambda: PoissonGaussianEvent(0.5, 1, 0), "steps is 0"),
        (lambda: ObjectivePerturbationEvent(1, 1, 0), "regulariser is 0"),
        (lambda: CompositionEvent((), -1), "count is -1"),
        (lambda: RandomStoppingEvent(GaussianEvent(1, 1), r=1), "r is 1"),
        (lambda: RandomStoppingEvent(GaussianEvent(1, 1), r=0.5, eta=-1), "eta is -1"),
    ):
        with pytest.raises(InputError, match=message):  # the message says which
            make()


def test_gaussian_selection_mix_is_the_zcdp_sum() -> None:
    events = (GaussianEvent(1, 10), ExponentialEvent(0.2))
    rho = 1 / 200 + 0.04 / 8
    best = minimize_scalar(
        lambda a: a * rho + math.log1p(-1 / a) + (math.log(1e5) - math.log(a)) / (a - 1),
        bounds=(1.001, 500),
        method="bounded",
        options={"xatol": 1e-9},
    ).fun
    assert spent(*events) == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("rate", "multiplier", "steps"), others_slow([(0.5, 0.5, 1), (0.9, 1.0, 20), (0.05, 2.0, 300)])
)
def test_what_has_no_grid_costs_what_it_would_unsampled(monkeypatch, relation, rate, multiplier, steps) -> None:
    """An upper bound: tested where the loss distribution is known, since it serves where that is out of reach."""
    event = PoissonGaussianEvent(rate, multiplier, steps)
    exact = composed_epsilon((event,), Relation(relation), 1e-5)
    monkeypatch.setattr("marginalia.privacy.pld.grid_is_feasible", lambda *_: False)
    bound = composed_epsilon((event,), Relation(relation), 1e-5)
    mu = math.sqrt(steps) * Relation(relation).units / multiplier
    assert bound == gdp_epsilon(mu, 1e-5)
    assert exact <= bound


def _draft(facts):
    return PublicInput(READ_OFF, facts, "inferred")


def test_what_was_read_off_the_rows_is_named_first_and_nothing_is_certified():
    """Labels of a draft are out without any budget, however small the releases are."""
    columns = {"labels": ["ward", "city", "icd"], "edges": ["age"]}
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, public_inputs=[_draft(columns)])
    ledger.append(GaussianEvent(sensitivity=1.0, sigma=4.0, label="sum"))
    ledger.close()  # the budget is kept: the fit is not refused
    assert not ledger.certified
    assert ledger.message.startswith("not certified: 3 columns' labels and 1 column's edges were read off the rows")
    again = Ledger.from_summary(json.loads(json.dumps(ledger.summary())))
    assert (again.certified, again.message) == (False, ledger.message)


def test_a_draft_that_overspends_says_both():
    draft = _draft({"type": ["age"]})
    ledger = Ledger("add_remove", epsilon=0.1, delta=1e-5, calibration="published", public_inputs=[draft], planned=True)
    ledger.append(GaussianEvent(sensitivity=1.0, sigma=4.0, label="sum"))
    assert ledger.message.startswith("not certified: 1 column's types were read off the rows (age)")
    assert "requested epsilon 0.1 at delta 1e-05" in ledger.message


@pytest.mark.parametrize("facts", ["labels", 3, None, {"labels": "ward"}, {"else": []}, {}])
def test_a_list_of_facts_in_any_shape_certifies_nothing(facts):
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, public_inputs=[_draft(facts)])
    ledger.append(GaussianEvent(sensitivity=1.0, sigma=4.0, label="sum"))
    assert not ledger.certified
    assert "were read off the rows" in ledger.message
