"""The guarantee of several releases of one table, by this library and by dp-accounting alone."""

import json
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, fit_learner, fit_synthesizer
from marginalia.privacy import composed
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.composed import compose_certificates
from marginalia.privacy.conversion import convert_event
from marginalia.privacy.events import (
    CompositionEvent,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
    flattened,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.relation import Relation

DELTA = 1e-5


@pytest.fixture(scope="module")
def releases():
    """Three of AIM, two of SSP and one of DP-SGD, all of one table."""
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)])
    table = Table(np.column_stack([rng.integers(0, size, 2000) for size in domain.sizes]), domain)

    def budget(seed, epsilon):
        return Budget(epsilon, DELTA, "add_remove", seed, n_public=2000)

    fits = [fit_synthesizer("aim", table, budget(seed, 0.3)) for seed in range(3)]
    fits += [fit_learner("ssp", table, "y", budget(seed, 0.4)) for seed in range(2)]
    proofs = [Certificate.of(fit) for fit in [*fits, fit_learner("dp_sgd", table, "y", budget(0, 0.5))]]
    return [unseeded(proof) for proof in proofs]  # their noise is of a seed so that the test repeats


def unseeded(certificate):
    return Certificate({**certificate.content, "randomness": "system"})


def oracle(certificates, selections):
    """Compose by dp-accounting: a selection of range e as e-DP (an upper bound), or left out (a lower one)."""
    width, mu, total = 1e-4, 0.0, None
    for event, n in flattened(tuple(e for c in certificates for e in c.ledger.events)):
        match event:
            case GaussianEvent(sensitivity=moved, sigma=sigma):
                mu += n * (moved / sigma) ** 2
                continue
            case PoissonGaussianEvent(rate=rate, noise_multiplier=multiplier, steps=steps):
                one = pld.from_gaussian_mechanism(multiplier, value_discretization_interval=width, sampling_prob=rate)
                one = one.self_compose(n * steps)
            case ExponentialEvent(epsilon=e) if selections:
                one = pld.from_privacy_parameters(pld.common.DifferentialPrivacyParameters(e), width).self_compose(n)
            case ExponentialEvent():
                continue
        total = one if total is None else total.compose(one)
    gaussian = pld.from_gaussian_mechanism(1 / math.sqrt(mu), value_discretization_interval=width)
    return gaussian.compose(total).get_epsilon_for_delta(DELTA) if total else gaussian.get_epsilon_for_delta(DELTA)


@pytest.mark.slow
def test_three_of_aim_two_of_ssp_and_one_of_dp_sgd_against_dp_accounting(releases):
    found = compose_certificates(releases)
    assert found.problems == ()
    assert found.epsilon_by_second <= found.epsilon * 1.001
    assert oracle(releases, selections=False) * 0.999 <= found.epsilon <= oracle(releases, selections=True) * 1.001
    assert found.epsilon_by_second >= oracle(releases, selections=False) * 0.999
    assert found.epsilon < 0.6 * found.epsilon_added  # of 2.2
    assert found.epsilon_added == pytest.approx(2.2, rel=2e-3)
    assert found.delta_added == pytest.approx(6e-5)


def test_without_selections_it_is_what_dp_accounting_says(releases):
    some = releases[3:]
    assert compose_certificates(some).epsilon == pytest.approx(oracle(some, selections=False), rel=2e-3)


def certificate_of(event, relation="add_remove"):
    ledger = Ledger(relation, epsilon=2.0, delta=DELTA, planned=True)
    ledger.append(event, "system")
    return Certificate(ledger.summary())


def test_an_add_remove_release_under_replace_one_costs_that_of_two_rows():
    one = certificate_of(GaussianEvent(1.0, 8.0))
    other = certificate_of(GaussianEvent(2.0, 8.0), "replace_one")
    assert compose_certificates([one, other]).relation is Relation.REPLACE_ONE
    assert compose_certificates([one, other]).epsilon == pytest.approx(compose_certificates([other, other]).epsilon)
    assert compose_certificates([one, one]).relation is Relation.ADD_REMOVE


@pytest.mark.parametrize(
    ("event", "doubled"),
    [
        (LaplaceEvent(1.0, 2.0), LaplaceEvent(2.0, 2.0)),
        (ExponentialEvent(0.1, "", 3.0), ExponentialEvent(0.2, "", 6.0)),
        (CompositionEvent((GaussianEvent(1.0, 2.0),), 3), CompositionEvent((GaussianEvent(2.0, 2.0),), 3)),
        (
            RandomStoppingEvent(GaussianEvent(1.0, 2.0), 0.1, 0.0),
            RandomStoppingEvent(GaussianEvent(2.0, 2.0), 0.1, 0.0),
        ),
        (FailureEvent(1e-7), FailureEvent(1e-7)),
        (PoissonGaussianEvent(0.1, 2.0, 5), PoissonGaussianEvent(0.1, 2.0, 5)),
        (ObjectivePerturbationEvent(1.0, 4.0, 8.0), ObjectivePerturbationEvent(1.0, 4.0, 8.0)),
    ],
)
def test_events_under_the_other_relation(event, doubled):
    assert convert_event(event, Relation.ADD_REMOVE, Relation.REPLACE_ONE) == doubled
    assert convert_event(event, Relation.ADD_REMOVE, Relation.ADD_REMOVE) == event
    with pytest.raises(InputError, match="promises nothing under add_remove"):
        convert_event(event, Relation.REPLACE_ONE, Relation.ADD_REMOVE)


def test_a_mix_that_no_accountant_covers_is_added_up():
    fit = certificate_of(ObjectivePerturbationEvent(1.0, 4.0, 8.0))
    found = compose_certificates([fit, fit])
    assert any("no accountant covers" in one for one in found.problems)
    assert found.epsilon_added == pytest.approx(2 * fit.ledger.epsilon_spent)


def test_two_releases_of_one_seed_show_the_row_that_was_added():
    """Each is private for whoever does not know the seed; their difference is the row, without noise."""
    domain = Domain([Column("a", 3)])
    rows = np.zeros((50, 1), dtype=int)
    before, after = (
        fit_synthesizer("independent", Table(codes, domain), Budget(1.0, DELTA, "add_remove", 7))
        for codes in (rows, np.vstack([rows, [[2]]]))
    )
    one, two = (np.asarray(fit.measurements_[0].values) for fit in (before, after))
    assert (two - one).round(9).tolist() == [0.0, 0.0, 1.0]
    found = compose_certificates([Certificate.of(before), Certificate.of(after)])
    assert (found.epsilon, found.epsilon_by_second, found.epsilon_added) == (math.inf, math.inf, math.inf)
    assert len(found.problems) == 1
    assert found.problems[0].startswith("2 of the releases are seeded: if two have the same noise")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("system", "system"), ""),
        (("seeded",), ""),
        (("seeded", "system", "system"), ""),  # the noise of the system is independent of any seed
        (("", "system"), ""),
        (("seeded", "system", "seeded"), "2 of the releases are seeded"),
        (("seeded", ""), "1 of the releases are seeded and 1 of the releases do not say where their noise comes from"),
        (("", ""), "2 of the releases do not say where their noise comes from"),
    ],
)
def test_at_most_one_release_may_be_seeded(kinds, said):
    one = certificate_of(GaussianEvent(1.0, 8.0))
    found = compose_certificates([Certificate({**one.content, "randomness": kind}) for kind in kinds])
    assert math.isfinite(found.epsilon) == (found.problems == ()) == (not said)
    assert all(problem.startswith(said) for problem in found.problems)


def test_whose_rows_alone_are_protected_is_told():
    one = certificate_of(GaussianEvent(1.0, 8.0))
    other = Certificate({**one.content, "scope": "protects every row but the queries"})
    assert compose_certificates([one, one]).scopes == ()
    assert any("every row but the queries alone" in line for line in compose_certificates([one, other]).lines())


@pytest.mark.parametrize(
    ("accountant", "said"),
    [("recomputed_epsilon", "the second accountant finds"), ("composed_epsilon", "no epsilon is known at delta")],
)
def test_both_accountants_are_asked(monkeypatch, accountant, said):
    one = certificate_of(GaussianEvent(1.0, 8.0))
    assert compose_certificates([one, one]).problems == ()
    monkeypatch.setattr(composed, accountant, lambda *_: math.inf)
    assert any(said in problem for problem in compose_certificates([one, one]).problems)


def test_the_verb(call, tmp_path, releases):
    files = [tmp_path / f"{i}.json" for i in range(len(releases))]
    for file, release in zip(files, releases, strict=True):
        release.write(file)
    code, out, err = call("certify", *files, "--together")
    assert (code, err) == (0, ""), out
    assert "DP, if all are of one table; add_remove: the number of rows is private" in out
    found = json.loads(call("certify", *files, "--together", "--json")[1])
    assert found["epsilon"] == pytest.approx(compose_certificates(releases).epsilon)
    files[2].write_text(json.dumps({**releases[2].content, "epsilon_spent": 0.01}))
    code, out, _ = call("certify", *files, "--together")
    assert (code, "NOT CERTIFIED: " in out, f"{files[2]}: not certified: the file says" in out) == (1, True, True)
    releases[2].write(files[2])
    for file in files[:2]:
        file.write_text(json.dumps({**json.loads(file.read_text()), "randomness": "seeded"}))
    code, out, _ = call("certify", *files, "--together")
    assert (code, "NOT CERTIFIED: 2 of the releases are seeded" in out, out.count(", seeded\n")) == (1, True, 2)
    assert json.loads(call("certify", *files, "--together", "--json")[1])["epsilon"] is None
    code, _, err = call("certify", *files)
    assert (code, err.count("\n"), "add --together" in err) == (2, 1, True)
