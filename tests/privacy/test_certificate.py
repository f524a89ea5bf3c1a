"""Certificates: what they say, who checks them, and what a forged one comes to."""

import ast
import itertools
import json
import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy.stats import norm
from tiers import others_slow

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError, PrivacyError
from marginalia.learning import DDSSPClassifier, LogisticClassifier, SSPRegressor
from marginalia.methods.models import load_model, save_model
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
    recompute,
)
from marginalia.privacy import (
    verify as verify_module,
)
from marginalia.privacy.calibration import gdp_delta
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.privacy.costs import composed_epsilon
from marginalia.privacy.events import Event, flattened
from marginalia.privacy.recompute import _doubled, _objective_profile, _selection, recomputed_epsilon
from marginalia.privacy.verify import verify
from marginalia.synthesis import AIM, Independent
from marginalia.synthesis.base import Synthesizer

ADD_REMOVE, REPLACE_ONE = Relation


@pytest.fixture
def table() -> Table:
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("y", 2)], source="documented")
    return Table(np.column_stack([rng.integers(0, size, 200) for size in domain.sizes]), domain)


# -- the second accountant ------------------------------------------------------------------------------------------

EXACT: list[tuple[str, tuple[Event, ...]]] = [
    ("a Gaussian", (GaussianEvent(1, 4),)),
    ("little noise", (GaussianEvent(12, 1),)),
    ("much noise", (GaussianEvent(1, 500),)),
    ("many Gaussians", (CompositionEvent((GaussianEvent(1, 9),), 40), GaussianEvent(2, 30))),
    ("a Laplace", (LaplaceEvent(1, 2),)),
    ("many Laplaces", (CompositionEvent((LaplaceEvent(2, 200),), 300),)),
    ("Laplaces and Gaussians", (CompositionEvent((LaplaceEvent(1, 9),), 4), GaussianEvent(1, 4))),
    ("full batches", (PoissonGaussianEvent(1, 10, 20),)),
    ("Poisson samples", (PoissonGaussianEvent(0.02, 1.2, 900),)),
    ("Poisson samples and others", (PoissonGaussianEvent(0.02, 2, 300), GaussianEvent(1, 3), LaplaceEvent(1, 5))),
    ("objective perturbation", (ObjectivePerturbationEvent(3, 10, 0.5),)),
    ("objective perturbation, as Gaussian", (ObjectivePerturbationEvent(1, 4, 40), GaussianEvent(1, 5))),
    ("random stopping", (RandomStoppingEvent(CompositionEvent((GaussianEvent(1, 14),), 2), r=1 / 64),)),
    ("logarithmic stopping", (RandomStoppingEvent(GaussianEvent(1, 10), r=0.01, eta=0),)),
]


@pytest.mark.parametrize("relation", others_slow(Relation))
@pytest.mark.parametrize(
    ("name", "events"),
    others_slow(EXACT, *(case for case in EXACT if "Poisson" not in case[0])),
    ids=[name for name, _ in EXACT],
)
def test_both_accountants_agree(name: str, events: tuple[Event, ...], relation: Relation) -> None:
    """Within 0.1 %, and the second is below the first by no more than the width of a loss grid."""
    for delta in (1e-5, 1e-9):
        first, second = composed_epsilon(events, relation, delta), recomputed_epsilon(events, relation, delta)
        assert second == pytest.approx(first, rel=1e-3)
        assert second >= first * (1 - 2e-4)


@pytest.mark.parametrize(
    "events",
    [
        (ExponentialEvent(0.1),),
        (CompositionEvent((ExponentialEvent(0.05),), 100),),
        (GaussianEvent(1, 30), CompositionEvent((GaussianEvent(1, 60), ExponentialEvent(0.012)), 224)),
        (GaussianEvent(1, 4), LaplaceEvent(1, 9), ExponentialEvent(0.3)),
    ],
)
def test_selections_cost_no_more_than_by_the_first_accountant(events: tuple[Event, ...]) -> None:
    for delta in (1e-5, 1e-9):
        assert recomputed_epsilon(events, ADD_REMOVE, delta) <= composed_epsilon(events, ADD_REMOVE, delta) * (1 + 1e-3)


def test_doubling_composes_as_often_as_it_is_asked_to() -> None:
    one = _selection(0.3, 0.01)
    for n in (1, 2, 7, 40):
        doubled, composed = _doubled(one, n), one.self_compose(n)
        for delta in (1e-3, 1e-9):
            assert doubled.get_epsilon_for_delta(delta) == pytest.approx(composed.get_epsilon_for_delta(delta))


def test_selections_cost_no_less_than_they_can() -> None:
    """Against the exact composition of the pairs with two losses, for all ways to choose them."""
    for e, n in ((0.2, 6), (1.0, 4), (3.0, 2)):
        shifts = np.linspace(0.02, 0.98, 5) * e
        for delta in (1e-3, 0.02):
            bound = recomputed_epsilon((CompositionEvent((ExponentialEvent(e),), n),), ADD_REMOVE, delta)
            for ts in itertools.combinations_with_replacement(shifts, n):
                first = [(math.exp(e) - math.exp(t)) / math.expm1(e) for t in ts]
                attained = 0.0
                for high in itertools.product((True, False), repeat=n):
                    p = math.prod(f if h else 1 - f for f, h in zip(first, high, strict=True))
                    loss = sum(t if h else t - e for t, h in zip(ts, high, strict=True))
                    attained += p * max(0.0, -math.expm1(bound - loss))
                assert attained <= delta * (1 + 1e-9)


def test_selections_beside_gaussians_cost_no_less_than_they_can() -> None:
    """Against the integral over a Gaussian loss of what the pair with losses e/2 and -e/2 adds to it."""
    e, mu, delta = 0.8, 0.5, 1e-4
    bound = recomputed_epsilon((ExponentialEvent(e), GaussianEvent(mu, 1)), ADD_REMOVE, delta)
    p = 1 / (1 + math.exp(-e / 2))
    attained = p * gdp_delta(mu, bound - e / 2) + (1 - p) * gdp_delta(mu, bound + e / 2)
    assert 0.2 * delta < attained <= delta


@pytest.mark.parametrize("e", [0.01, 0.3, 1.0, 4.0])
def test_the_proof_for_selections(e: float) -> None:
    """The curve f lies below every polygon, and Gaussian DP with mu(e) below the curve, touching it in the middle."""
    from scipy.stats import norm

    c, a = 1 / math.expm1(e), np.linspace(0, 1, 2001)
    curve = c * (1 + c) / (a + c) - c
    for t in np.linspace(0.01, 0.99, 25) * e:
        corner = (math.expm1(t) / math.expm1(e), math.expm1(e - t) / math.expm1(e))
        polygon = np.interp(a, [0, corner[0], 1], [1, corner[1], 0])
        assert (polygon >= curve - 1e-12).all()
    mu = 2 * norm.ppf(math.exp(e / 2) / (1 + math.exp(e / 2)))
    assert (norm.cdf(norm.isf(a) - mu) <= curve + 1e-12).all()
    middle = 1 / (1 + math.exp(e / 2))
    assert norm.cdf(norm.isf(middle) - mu) == pytest.approx(c * (1 + c) / (middle + c) - c, rel=1e-9)


def test_pure_and_empty() -> None:
    assert recomputed_epsilon((LaplaceEvent(1, 5), ExponentialEvent(0.3)), ADD_REMOVE, 0) == pytest.approx(0.5)
    assert recomputed_epsilon((GaussianEvent(1, 5),), ADD_REMOVE, 0) == math.inf
    assert recomputed_epsilon((), ADD_REMOVE, 1e-5) == 0
    assert recomputed_epsilon((GaussianEvent(100, 1),), ADD_REMOVE, 1e-5) == pytest.approx(5425, rel=0.02)


@pytest.mark.parametrize(
    "events",
    [
        (RandomStoppingEvent(GaussianEvent(1, 5), r=0.1), ObjectivePerturbationEvent(1, 5, 2)),
        (RandomStoppingEvent(LaplaceEvent(1, 5), r=0.1),),
        (CompositionEvent((ObjectivePerturbationEvent(1, 5, 2),), 2),),
    ],
)
def test_what_the_second_accountant_does_not_cover(events: tuple[Event, ...]) -> None:
    with pytest.raises(PrivacyError, match="not independently recomputed"):
        recomputed_epsilon(events, ADD_REMOVE, 1e-5)


# -- what a certificate says ----------------------------------------------------------------------------------------


def test_the_certificate_of_a_synthesizer(table: Table) -> None:
    aim = AIM(epsilon=0.7, delta=1e-6, workload=[("a", "y")], relation="replace_one", random_state=17).fit(table)
    content = Certificate.of(aim).content
    assert content["method"] == "AIM"
    assert content["software"].startswith("marginalia ")
    assert content["parameters"]["workload"] == [["a", "y"]]
    assert (content["epsilon"], content["delta"], content["relation"]) == (0.7, 1e-6, "replace_one")
    assert content["certified"]
    assert 0.3 < content["epsilon_spent"] <= 0.7 * (1 + 1e-9)
    assert content["public_inputs"] == [
        {"name": "domain", "value": {"a": 3, "b": 4, "y": 2}, "source": "documented"},
        {"name": "number of rows", "value": 200, "source": "declared"},
    ]
    kinds = {event["type"] for event in content["events"]}
    assert kinds == {"GaussianEvent", "ExponentialEvent"}
    assert all(event["sensitivity"] > 0 for event in content["events"])
    assert content["randomness"] == "seeded"
    text = json.dumps(content)
    assert "random_state" not in text
    assert "17" not in [str(v) for v in content["parameters"].values()]
    assert verify(Certificate.of(aim)).confirmed


def test_the_certificate_of_arrays_and_of_post_processing(table: Table) -> None:
    model = SSPRegressor(feature_bound=2.0, random_state=0, relation="add_remove").fit([[0.5], [-0.5]], [1.0, -1.0])
    assert Certificate.of(model).content["public_inputs"] == [
        {"name": "feature_bound", "value": 2.0, "source": "declared"},
        {"name": "target_bound", "value": 1.0, "source": "declared"},
        {"name": "number of features", "value": 1, "source": "declared"},
    ]
    model = DDSSPClassifier(marginals=Independent(epsilon=0.5, random_state=3, relation="add_remove")).fit(table, "y")
    source = Certificate.of(model).content["parameters"]["marginals"]
    assert source["method"] == "Independent"
    assert source["parameters"]["epsilon"] == 0.5
    assert "random_state" not in source["parameters"]


def test_only_our_own_ledger_has_a_certificate(table: Table) -> None:
    class Free(Ledger):
        def epsilon(self, delta: float) -> float:
            return 0.0

    model = LogisticClassifier().fit(table, "y")
    with pytest.raises(InputError, match="no ledger of marginalia's"):
        Certificate.of(model)
    model.ledger_ = Free("add_remove")  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="no ledger of marginalia's"):
        Certificate.of(model)


def test_one_page(table: Table) -> None:
    lines = certificate_page(Certificate.of(Independent(epsilon=1.0, random_state=0, relation="add_remove").fit(table)))
    assert lines[-1] == "verdict       certified: (1, 1e-05)-DP"
    text = "\n".join(lines)
    for told in ("Independent", "every row", "requested 1", "seeded: for experiments", "a 3, b 4, y 2 (documented)"):
        assert told in text
    assert len(lines) < 40
    ledger = Ledger("replace_one", epsilon=1, delta=1e-5, scope="the teachers' rows", planned=True)
    for i in range(50):
        ledger.append(GaussianEvent(1, 100 + i, f"number {i}"))
    lines = certificate_page(Certificate(ledger.summary()))
    assert lines[-1] == "verdict       certified: (1, 1e-05)-DP; protects the teachers' rows"
    assert "and 31 other kinds" in "\n".join(lines)


# -- files, honest and forged ---------------------------------------------------------------------------------------


def forge_npz(path: object, change: object) -> None:
    with np.load(path) as archive:  # type: ignore[arg-type]
        content = {name: archive[name] for name in archive.files}
    header = json.loads(content.pop("header").tobytes())
    change(header["certificate"])  # type: ignore[operator]
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **content)  # type: ignore[arg-type]


def test_files_are_read_back(table: Table, tmp_path) -> None:
    synthesizer = Independent(epsilon=1.0, random_state=0, relation="add_remove").fit(table)
    synthesizer.save(tmp_path / "s.npz")
    learner = SSPRegressor(epsilon=2.0, random_state=0, relation="add_remove").fit(table, "b")
    save_model(learner, tmp_path / "m.json")
    Certificate.of(learner).write(tmp_path / "c.json")
    for file, model in (("s.npz", synthesizer), ("m.json", learner), ("c.json", learner)):
        certificate = Certificate.read(tmp_path / file)
        assert certificate.content == json.loads(json.dumps(Certificate.of(model).content))
        assert verify(certificate).confirmed
    for loaded, model in (
        (Synthesizer.load(tmp_path / "s.npz"), synthesizer),
        (load_model(tmp_path / "m.json"), learner),
    ):
        assert loaded.ledger_.summary() == model.ledger_.summary()
        assert loaded.ledger_.certified


def test_a_forged_file_is_exposed(table: Table, tmp_path) -> None:
    """It says (0.1, certified); its events cost thousands."""

    def claim(certificate: dict[str, object]) -> None:
        certificate |= {"certified": True, "epsilon_spent": 0.1, "message": ""}
        certificate["events"] = [{"type": "GaussianEvent", "sensitivity": 100.0, "sigma": 1.0, "label": ""}]

    Independent(epsilon=0.1, random_state=0, relation="add_remove").fit(table).save(tmp_path / "s.npz")
    forge_npz(tmp_path / "s.npz", claim)
    save_model(SSPRegressor(epsilon=0.1, random_state=0, relation="add_remove").fit(table, "b"), tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    claim(content["certificate"])
    (tmp_path / "m.json").write_text(json.dumps(content))
    for model, file in (
        (Synthesizer.load(tmp_path / "s.npz"), "s.npz"),
        (load_model(tmp_path / "m.json"), "m.json"),
    ):
        assert not model.ledger_.certified
        assert model.ledger_.epsilon_spent > 5000
        found = verify(Certificate.read(tmp_path / file))
        assert not found.confirmed
        assert found.stored == 0.1
        assert min(found.recomputed, found.recomputed_by_second) > 5000
        assert "the file says epsilon 0.1 was spent" in found.problems[0]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"epsilon": 50.0}, "the parameters say epsilon 1.0, the ledger 50.0"),
        ({"delta": 1e-3}, "the parameters say delta 1e-05, the ledger 0.001"),
        ({"relation": "replace_one"}, "the parameters say relation add_remove, the ledger replace_one"),
        ({"arithmetic": "perfect"}, "the file says perfect arithmetic"),
        ({"certified": False}, "the file itself says that it is not certified"),
        ({"events": []}, "no release was recorded"),
        ({"epsilon_spent": 0.5}, "the file says epsilon 0.5 was spent"),
    ],
)
def test_a_file_that_contradicts_itself_is_not_confirmed(table: Table, change: dict[str, object], problem: str) -> None:
    content = {
        **Certificate.of(Independent(epsilon=1.0, random_state=0, relation="add_remove").fit(table)).content,
        **change,
    }
    found = verify(Certificate(content))
    assert any(problem in told for told in found.problems)


def test_the_two_accountants_must_agree(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = Certificate.of(Independent(epsilon=1.0, random_state=0, relation="add_remove").fit(table))
    for price, problem in ((1.0005, None), (1.01, "the second accountant finds epsilon 1.01, more than 1")):
        monkeypatch.setattr(verify_module, "_recomputed", lambda *_, price=price: price)
        assert verify(certificate).problems == (() if problem is None else (problem,))

    def uncovered(*_: object) -> float:
        raise PrivacyError("the second accountant does not cover it")

    monkeypatch.setattr(verify_module, "_recomputed", uncovered)
    assert verify(certificate).problems == ("the second accountant does not cover it",)


def test_ideal_arithmetic_is_not_told_as_exact() -> None:
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    ledger.append(GaussianEvent(1.0, 8.0, arithmetic="ideal"), "system")
    content = dict(Certificate(ledger.summary()).content)
    assert verify(Certificate(content)).confirmed
    found = verify(Certificate({**content, "arithmetic": "exact"}))
    assert found.problems == ("the file says exact arithmetic, its events are ideal",)


def test_the_second_accountant_counts_equal_releases_as_often_as_they_ran() -> None:
    ledger = Ledger("add_remove", epsilon=2.0, delta=1e-5, planned=True)
    for _ in range(30):
        ledger.append(GaussianEvent(1.0, 16.0), "system")
    found = verify(Certificate(ledger.summary()))
    assert found.recomputed_by_second == pytest.approx(found.recomputed, rel=1e-3)


def test_parameters_of_a_model_file_are_held_against_its_certificate(table: Table, tmp_path) -> None:
    save_model(SSPRegressor(epsilon=0.1, random_state=0, relation="add_remove").fit(table, "b"), tmp_path / "m.json")
    assert verify(Certificate.read(tmp_path / "m.json")).confirmed
    content = json.loads((tmp_path / "m.json").read_text())
    content["params"]["epsilon"] = 0.01
    (tmp_path / "m.json").write_text(json.dumps(content))
    found = verify(Certificate.read(tmp_path / "m.json"))
    assert found.problems == ("the parameters say epsilon 0.01, the ledger 0.1",)


def test_unreadable_files_are_one_line(table: Table, tmp_path) -> None:
    save_model(LogisticClassifier().fit(table, "y"), tmp_path / "public.json")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "old.json").write_text('{"format": "marginalia-certificate", "version": 0}')
    np.savez(tmp_path / "other.npz", a=np.ones(2))
    for name, problem in (
        ("nowhere.json", "cannot read"),
        ("table.csv", "is no certificate"),
        ("list.json", "is no certificate"),
        ("old.json", "is no certificate"),
        ("other.npz", "is no certificate"),
        ("public.json", "without privacy"),
    ):
        with pytest.raises(InputError, match=problem) as error:
            Certificate.read(tmp_path / name)
        assert "\n" not in str(error.value)


def test_the_second_accountant_prices_equal_mechanisms_once(monkeypatch):
    asked = []
    monkeypatch.setattr(verify_module, "recomputed_epsilon", lambda events, *rest: asked.append(events) or 0.5)
    verify_module._recomputed.cache_clear()
    a, b = GaussianEvent(1.0, 7.0, "a"), GaussianEvent(1.0, 9.0, "b")

    def examined(*events, epsilon=2.0):
        ledger = Ledger("add_remove", epsilon=epsilon, delta=1e-5, planned=True)
        for event in events:
            ledger.append(event)
        return verify(Certificate(ledger.summary()))

    for events in ((a, b), (b, a), (CompositionEvent((b, a)),), (GaussianEvent(1.0, 7.0, "c"), b)):
        assert examined(*events).recomputed_by_second == 0.5
    assert len(asked) == 1
    examined(a, b, b)
    examined(a)
    assert len(asked) == 3
    verify_module._recomputed.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(("tau", "kappa"), [(0.01, 1e-3), (0.3, 0.1), (1.0, 10.0), (10.0, 1e3)])
def test_the_second_profile_of_objective_perturbation_is_its_sum(tau, kappa):
    """Summed over the end of a grid, against every point of it."""
    a, y = np.linspace(0.0, 1.0, 1001), np.linspace(-3.0, 14.0, 17_001)
    loss = np.array([np.max(a * at * tau + (a * tau) ** 2 / 2 + np.log1p(4 * a * (1 - a) * kappa)) for at in y])
    weight = norm.pdf(y) * (y[1] - y[0])
    weight[0] += norm.cdf(-3.0)
    profile = _objective_profile(tau, kappa)
    for eps in (0.0, 0.01, 0.5, 3.0, 40.0, 1e6):
        whole = weight @ np.maximum(-np.expm1(np.minimum(eps - loss, 0.0)), 0.0)
        assert profile(eps) == pytest.approx(whole, rel=1e-9, abs=1e-16)


@pytest.mark.parametrize("mu", others_slow([1e-6, 1e-4, 1e-3], 1e-4))
@pytest.mark.parametrize("relation", list(Relation))
def test_a_release_that_costs_next_to_nothing_does_so_beside_objective_perturbation(mu, relation):
    """On a grid that is as fine as the loss of the two has a use for, not as that of the small one alone has."""
    objective, small = ObjectivePerturbationEvent(3.0, 42.0, 36.0), GaussianEvent(1.0, 1 / mu)
    alone = recomputed_epsilon((objective,), relation, 1e-6)
    both = recomputed_epsilon((objective, small), relation, 1e-6)
    assert alone * (1 - 1e-6) <= both <= alone * (1 + 1e-4) + 100 * mu**2


def test_the_second_accountant_takes_nothing_but_kinds_of_events_from_the_first():
    """What both take from one place is wrong in both."""
    source = Path(recompute.__file__).read_text()
    taken = {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("marginalia")
        for alias in node.names
    }
    kinds = {("marginalia.privacy.events", kind.__name__) for kind in get_args(Event)}
    shared = {("marginalia.errors", "PrivacyError"), ("marginalia.privacy", "checks")}
    assert taken - kinds == shared | {
        ("marginalia.privacy.events", "Event"),
        ("marginalia.privacy.relation", "Relation"),
    }


def test_both_accountants_flatten_compositions_alike():
    inner = CompositionEvent((GaussianEvent(1.0, 9.0), CompositionEvent((LaplaceEvent(1.0, 8.0),), 3)), 2)
    events = (inner, ExponentialEvent(0.1), CompositionEvent((), 5), CompositionEvent((inner, inner), 7))
    assert recompute._flattened(events) == flattened(events)
    assert [count for _, count in recompute._flattened((inner,))] == [2, 6]
