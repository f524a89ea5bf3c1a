"""Certificates that somebody else wrote: every one ends in a verdict or in one line, and none confirms too little."""

import json
import math
import random
import zipfile

import numpy as np
import pytest
from scipy.stats import norm
from tiers import others_slow

from marginalia.errors import InputError
from marginalia.privacy import certificate as module
from marginalia.privacy import recompute
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.privacy.events import (
    CompositionEvent,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PoissonGaussianEvent,
    RandomStoppingEvent,
    describe,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.verify import verify

GAUSSIAN = GaussianEvent(1.0, 12.0, "a", arithmetic="exact")
BASES = {
    "gaussian": (GAUSSIAN, CompositionEvent((GaussianEvent(2.0, 40.0, "b", "exact"),), 5, "all")),
    "aim": (GAUSSIAN, ExponentialEvent(0.05, "select", 4.0, "exact"), GaussianEvent(1.0, 9.0, "a,b", "exact")),
    "laplace": (LaplaceEvent(1.0, 20.0, "a"), ExponentialEvent(0.1, "select"), FailureEvent(1e-7, "city")),
    "dp_sgd": (PoissonGaussianEvent(0.01, 1.5, 100, "steps"),),
    "objective": (ObjectivePerturbationEvent(1.0, 8.0, 8.0, "loss"),),
    "group": (GroupEvent(ObjectivePerturbationEvent(1.0, 24.0, 24.0), 3, "loss"),),
    "stopping": (RandomStoppingEvent(GaussianEvent(1.0, 30.0, "run", "exact"), 1 / 16, 1.0, "best"),),
}


def content_of(events, relation="add_remove", epsilon=1.0, delta=1e-5):
    ledger = Ledger(
        relation, epsilon=epsilon, delta=delta, public_inputs=[("domain", {"a": 3}, "declared")], planned=True
    )
    for event in events:
        ledger.append(event, "system")
    budget = {"epsilon": epsilon, "delta": delta, "relation": relation}
    source = {"method": "AIM", "parameters": {**budget, "max_cells": 1e6}}
    head = {"format": module.FORMAT, "version": 1, "software": "marginalia 1.0.0", "method": "DDSSPClassifier"}
    return {**head, "parameters": {"calibration": "tight", "one_hot": True, "marginals": source}, **ledger.summary()}


def with_event(**fields):
    return {**content_of((GAUSSIAN,)), "events": [fields]}


def verdict(path, content):
    """Return what `certify` finds of a file that holds `content`, and None where the file is refused in one line."""
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    try:
        certificate = Certificate.read(path)
    except InputError:  # which is one line
        return None
    found = verify(certificate)
    assert certificate_page(certificate, found)
    return found


def leaf(kind, **fields):
    return with_event(type=kind, label="", arithmetic="exact", **fields)


@pytest.mark.parametrize(
    "content",
    [
        {**content_of((GAUSSIAN,)), "parameters": {"marginals": {"parameters": {}}}},
        {**content_of((GAUSSIAN,)), "parameters": {"marginals": {"method": "AIM", "parameters": []}}},
        {**content_of((GAUSSIAN,)), "parameters": [1]},
        leaf("ExponentialEvent", epsilon=1e-320, sensitivity=1.0),
        with_event(
            type="CompositionEvent",
            events=[{"type": "GaussianEvent", "sensitivity": 1e-200, "sigma": 1.0, "label": "", "arithmetic": "exact"}],
            count=10**9,
            label="",
        ),
        leaf("GaussianEvent", sensitivity=1.0, sigma=1e308),
        leaf("GaussianEvent", sensitivity=1.0, sigma=True),
        leaf("LaplaceEvent", sensitivity=1.0, scale=1e300),
        leaf("PoissonGaussianEvent", rate=0.1, noise_multiplier=1e300, steps=10),
        leaf("ObjectivePerturbationEvent", bound=1e150, sigma=1.0, regulariser=1.0),
        leaf("ObjectivePerturbationEvent", bound=1.0, sigma=1.0, regulariser=1e-150),
        with_event(type="RandomStoppingEvent", event=None, r=0.1, eta=1.0, label=""),
        with_event(type="GroupEvent", event=None, rows=2, label=""),
        with_event(type="GroupEvent", event=describe(ObjectivePerturbationEvent(1.0, 9.0, 9.0)), rows=10**7, label=""),
        with_event(type="GroupEvent", event=describe(ObjectivePerturbationEvent(1.0, 9.0, 9.0)), rows="2", label=""),
        with_event(type="GroupEvent", event=describe(GAUSSIAN), rows=2, label=""),
        with_event(type="CompositionEvent", events=[None], count=1, label=""),
        json.dumps(content_of((GAUSSIAN,))).replace('"delta": 1e-05', '"delta": 1' + 400 * "0"),
        {**content_of((GAUSSIAN,)), "certified": "no"},
        {**content_of((GAUSSIAN,)), "scope": ["some"]},
        {**content_of((GAUSSIAN,)), "method": {}},
    ],
)
def test_what_no_fit_wrote_is_refused_in_one_line(tmp_path, content):
    assert verdict(tmp_path / "c.json", content) is None


@pytest.mark.parametrize(
    "events",
    [
        (GaussianEvent(1e-30, 1e30),),
        (GaussianEvent(1e30, 1e-30),),
        (LaplaceEvent(1e-30, 1e30),),
        (CompositionEvent((LaplaceEvent(1e-20, 1.0),), 10**15),),
        (ExponentialEvent(1e30),),
        (PoissonGaussianEvent(0.1, 1e30, 10),),
        (PoissonGaussianEvent(0.999, 1e3, 1), CompositionEvent((ExponentialEvent(1e3),), 10**9)),
        (CompositionEvent((ObjectivePerturbationEvent(3.0, 1e-4, 0.1),), 10**9),),
        (GroupEvent(ObjectivePerturbationEvent(3.0, 1e-4, 0.1), 10**6),),
        (GroupEvent(ObjectivePerturbationEvent(1.0, 30.0, 1e-9), 900), GaussianEvent(1.0, 50.0)),
        pytest.param(
            (GroupEvent(ObjectivePerturbationEvent(1e-9, 1e9, 1e-30), 2), ExponentialEvent(1e-20)),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            (ObjectivePerturbationEvent(1e20, 1e9, 0.1), ExponentialEvent(1e-20), LaplaceEvent(1e-9, 1e9)),
            marks=pytest.mark.slow,
        ),
        (RandomStoppingEvent(GaussianEvent(1e-20, 1e-4), 0.01, 1e-300), GaussianEvent(1e-30, 1e-20)),
        (RandomStoppingEvent(GaussianEvent(1e20, 1e-30), 1 - 1e-9, 5.0),),
    ],
)
@pytest.mark.parametrize("relation", others_slow(["add_remove", "replace_one"]))
def test_numbers_at_the_edge_of_floats_get_a_verdict(events, relation):
    ledger = Ledger(relation, epsilon=1.0, delta=1e-5, calibration="published", planned=True)
    for event in events:
        ledger.append(event, "system")
    with np.errstate(all="raise"):
        found = verify(Certificate(ledger.summary()))
    assert not (found.confirmed and lower_bound(ledger.summary()["events"], 1e-5) > 1.001)


def test_an_accountant_that_says_nan_certifies_nothing(monkeypatch):
    monkeypatch.setattr("marginalia.privacy.costs.gdp_epsilon", lambda *_: math.nan)
    ledger = Ledger("add_remove", epsilon=1.0, delta=1.1e-5, calibration="published", planned=True)
    ledger.append(GaussianEvent(1.0, 4.03125), "system")
    assert ledger.epsilon(1.1e-5) > 0.9
    assert not ledger.epsilon_spent < 0.9


def test_a_composition_of_nothing_certifies_nothing():
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, planned=True)
    ledger.append(CompositionEvent(()))
    assert verify(Certificate(ledger.summary())).problems == ("no release was recorded: nothing is certified",)


def test_a_limit_to_what_is_recomputed(tmp_path, monkeypatch):
    """Before: 20,000 distinct events took 42 s, and a file of 300 MB 1.5 GB."""
    made = []
    one = recompute._gaussian
    monkeypatch.setattr(recompute, "_gaussian", lambda *given: made.append(given) or one(*given))
    many = [GaussianEvent(1.0, 1e5 + i) for i in range(5000)]
    assert verdict(tmp_path / "c.json", content_of(many)).confirmed
    assert len(made) == 1  # of Gaussian releases squares add up
    base = content_of((GAUSSIAN,))
    for events in (
        [{"type": "LaplaceEvent", "sensitivity": 1.0, "scale": 1e4 + i} for i in range(101)],
        [{"type": "GaussianEvent", "sensitivity": 1.0, "sigma": 1e5}] * 100_001,
        [{"type": "CompositionEvent", "events": [{}] * 100_001}],
    ):
        assert verdict(tmp_path / "c.json", {**base, "events": events}) is None
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="MB of JSON; no more than"):
        Certificate.read(tmp_path / "c.json")
    with zipfile.ZipFile(tmp_path / "s.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", b" " * 100_000)  # some hundred bytes in the file
    with pytest.raises(InputError, match="MB of JSON; no more than"):
        Certificate.read(tmp_path / "s.npz")


NUMBERS = [0, -1, 1, 2, 0.5, 1e-5, 1e-320, 1e-200, 1e-150, 1e150, 1e300, 1e308, 10**9, 10**30, 10**400, math.inf]
OTHERS = [None, True, False, "", "1", "exact", "ideal", "replace_one", "published", [], {}, [1], {"method": "x"}, "\n"]


def leaves_of(content, way=()):
    """Yield the way to every leaf: the keys and positions that lead there."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in inner:
        yield (*way, key)
        yield from leaves_of(value, (*way, key))


def mutated(content, way, value, *, drop):
    content = json.loads(json.dumps(content))
    parent = content
    for key in way[:-1]:
        parent = parent[key]
    if drop:
        del parent[way[-1]]
    else:
        parent[way[-1]] = value
    return content


def number_beside(rng, value):
    """Return a number some way from `value`."""
    return value * rng.choice([0.5, 0.9, 1.1, 2, 10, 1e-3, 1e5]) if type(value) in (int, float) else value


def lower_bound(events, delta):
    """Return an epsilon that these events cost at least: their Gaussian releases alone, by the exact formula."""
    squares = math.fsum(gaussian_squares(event) for event in events)
    mu = math.sqrt(squares) if squares < 1e200 else 1e100
    if mu == 0:
        return 0.0
    low, high = 0.0, mu * mu / 2 + 40 * mu
    for _ in range(100):
        middle = (low + high) / 2
        tail = norm.cdf(mu / 2 - middle / mu) - math.exp(min(middle + norm.logcdf(-mu / 2 - middle / mu), 0))
        low, high = (middle, high) if tail > delta else (low, middle)
    return low


def gaussian_squares(event):
    if event["type"] == "GaussianEvent":
        return (event["sensitivity"] / event["sigma"]) ** 2
    if event["type"] == "CompositionEvent":
        return event["count"] * math.fsum(map(gaussian_squares, event["events"]))
    return 0.0


def claims(content):
    """Return every epsilon that a certificate claims to be enough."""
    parameters = content["parameters"]
    source = parameters.get("marginals") or {}
    source = source.get("parameters", {}) if isinstance(source, dict) else {}
    said = (content["epsilon"], content["epsilon_spent"], parameters.get("epsilon"), source.get("epsilon"))
    return [one for one in said if one is not None]


def test_the_bound_of_the_fuzz_test_is_exact_for_gaussian_releases():
    content = content_of(BASES["gaussian"])
    assert lower_bound(content["events"], 1e-5) == pytest.approx(content["epsilon_spent"], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, pytest.param(2000, marks=pytest.mark.slow)])  # 2,000 take 90 s
def test_damaged_certificates_end_in_a_verdict_that_claims_enough(tmp_path, n):
    """A leaf changed: no traceback, and what is confirmed spends no more than any number in the file says."""
    rng = random.Random(0)
    bases = [content_of(events, relation) for events in BASES.values() for relation in ("add_remove", "replace_one")]
    assert all(verify(Certificate(base)).confirmed for base in bases)
    ways = [list(leaves_of(base)) for base in bases]
    path, seen = tmp_path / "c.json", {"confirmed": 0, "not confirmed": 0, "refused": 0}
    for _ in range(n):
        i = rng.randrange(len(bases))
        way = rng.choice(ways[i])
        old = bases[i]
        for key in way:
            old = old[key]
        value = rng.choice([rng.choice(NUMBERS), rng.choice(OTHERS), number_beside(rng, old)])
        content = mutated(bases[i], way, value, drop=rng.random() < 0.1)
        found = verdict(path, content)
        seen["refused" if found is None else "confirmed" if found.confirmed else "not confirmed"] += 1
        if found is not None and found.confirmed:
            least = min(claims(content))
            assert type(least) in (int, float), (way, value)
            assert lower_bound(content["events"], content["delta"]) <= least * 1.001, (way, value)
            assert found.recomputed_by_second <= found.requested * 1.001
            assert found.recomputed <= least * (1 + 1e-6), (way, value)
    assert min(seen.values()) > n // 20, seen
