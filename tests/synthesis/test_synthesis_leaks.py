"""Whatever a synthesizer shows follows from its releases: replays on other rows, with the releases forced.

Releases are charged as they are made, and between neighbours exact values move no further than declared. Tables with
one row replaced or taken away, and unrelated ones: neighbours alone hide a number of rows that leaks.
"""

import itertools
import json

import numpy as np
import pytest
from replays import assert_booked, assert_moves, assert_same, record, replay, seen
from sklearn.exceptions import NotFittedError

from marginalia.data.domain import Column, Domain
from marginalia.data.table import Table
from marginalia.errors import PrivacyError
from marginalia.methods import aim, independent
from marginalia.methods.aim import AIM
from marginalia.methods.chebyshev.chebyshev import ChebyshevMomentMatching
from marginalia.methods.gaussian_marginals import GaussianMarginals
from marginalia.methods.independent import Independent
from marginalia.methods.mst import MST
from marginalia.methods.mwem_pgm import MWEM
from marginalia.methods.private_pgm import PrivatePGM
from marginalia.methods.privbayes import PrivBayes
from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP
from marginalia.methods.residual_planner import ResidualPlanner
from marginalia.methods.swift import SWIFT
from marginalia.papers.dd_ssp.methods.mixture import MixtureInference
from marginalia.papers.excess_risk.methods.exhaustive import Exhaustive
from marginalia.papers.recent.methods.aim_residual import ResidualAIM
from marginalia.papers.recent.methods.tab_pe import TabPE
from marginalia.privacy.randomness import Randomness

MIXED = Domain([Column("a", 2), Column("b", 4, "numeric"), Column("c", 6)])
BOOLEAN = Domain.from_sizes({"a": 2, "b": 2, "c": 2})
ORDERED = Domain([Column("a", 7, "numeric"), Column("b", 3, "numeric")])
SMALL = Domain.from_sizes({"a": 2, "b": 2})
WEIGHTS = {("a", "b"): 1.0, ("b", "c"): 3.0, ("a", "c"): 0.5}

MAKE = {
    "aim": (MIXED, lambda **given: AIM(rounds=12, workload=WEIGHTS, **given)),
    "aim_sharp": (MIXED, lambda **given: AIM(rounds=30, **{**given, "epsilon": 8.0})),
    "aim_published": (MIXED, lambda **given: AIM(rounds=6, calibration="published", **given)),
    "mixture": (MIXED, lambda **given: MixtureInference(rounds=4, components=3, workload=WEIGHTS, **given)),
    "mst": (MIXED, lambda **given: MST(**{**given, "epsilon": 20.0})),  # with less, all values are rare and merged
    "mst_published": (MIXED, lambda **given: MST(calibration="published", **given)),
    "independent": (MIXED, Independent),
    "gaussian_marginals": (MIXED, GaussianMarginals),
    "residual_planner": (MIXED, lambda **given: ResidualPlanner(workload=WEIGHTS, **given)),
    "residual_nonnegative": (MIXED, lambda **given: ResidualPlanner(estimate="nonnegative", **given)),
    "aim_residual": (MIXED, lambda **given: ResidualAIM(rounds=12, workload=WEIGHTS, **given)),
    "aim_residual_sharp": (MIXED, lambda **given: ResidualAIM(workload=3, **{**given, "epsilon": 8.0})),
    "swift": (MIXED, lambda **given: SWIFT(workload=WEIGHTS, **given)),
    "swift_threes": (MIXED, lambda **given: SWIFT(workload=3, **{**given, "epsilon": 8.0})),
    "mwem_pgm": (MIXED, lambda **given: MWEM(workload=WEIGHTS, **given)),
    "mwem_pgm_sharp": (MIXED, lambda **given: MWEM(workload=2, rounds=6, **{**given, "epsilon": 8.0})),
    "privbayes": (MIXED, PrivBayes),
    "privbayes_sharp": (MIXED, lambda **given: PrivBayes(usefulness=0.5, **{**given, "epsilon": 8.0})),
    "tab_pe": (MIXED, lambda **given: TabPE(rounds=7, n_points=10, **given)),
    "tab_pe_of_classes": (MIXED, lambda **given: TabPE(rounds=7, n_points=10, target="a", **given)),
    "private_pgm": (MIXED, lambda **given: PrivatePGM(workload=[("a", "b"), ("b", "c")], **given)),
    "reduced_space": (BOOLEAN, ReducedSpaceLP),
    "reduced_space_gaussian": (BOOLEAN, lambda **given: ReducedSpaceLP(noise="gaussian", delta=1e-5, **given)),
    "reduced_space_cells": (BOOLEAN, lambda **given: ReducedSpaceLP(family="cells", **given)),
    "chebyshev": (ORDERED, ChebyshevMomentMatching),
    "exhaustive": (SMALL, Exhaustive),
    "exhaustive_program": (SMALL, lambda **given: Exhaustive(search="program", **given)),
}
REPLACE_ONE_ONLY = ("chebyshev", "exhaustive")
SECOND_RELATION = {  # variants and slow ones, whose other relation is among the fast tests
    (name, "replace_one")
    for name in MAKE
    if name == "mixture" or name.endswith(("_sharp", "_published", "_threes", "_nonnegative", "_of_classes"))
}
CASES = [
    pytest.param(
        name, relation, id=f"{name}-{relation}", marks=[pytest.mark.slow] * ((name, relation) in SECOND_RELATION)
    )
    for name in MAKE
    for relation in ("add_remove", "replace_one")
    if relation == "replace_one" or not name.startswith(REPLACE_ONE_ONLY)
]
N = 42


def table_of(domain, n=N, seed=0, peaked=2.0):
    """Rows of which every attribute has a law of its own."""
    rng = np.random.default_rng(seed)
    return Table(
        np.column_stack([rng.choice(a.size, n, p=rng.dirichlet(np.full(a.size, peaked))) for a in domain]), domain
    )


def neighbours(table, relation):
    """Tables that differ in one row: each two of the first group are neighbours, or each of it and the second."""
    sizes = np.array(table.domain.sizes)
    last = len(table) - 1
    if relation == "add_remove":
        return [table], [table.take(slice(last))]
    replaced = []
    for row in (np.zeros(len(sizes), int), sizes - 1, np.arange(len(sizes)) % sizes, (sizes - 1) * (sizes > 3)):
        codes = table.codes.copy()
        codes[0] = row
        replaced.append(Table(codes, table.domain))
    return [table, *replaced], []


def unrelated(table, relation):
    """Other tables; of another number of rows where that is private."""
    for seed, peaked in ((1, 0.2), (2, 2.0), (3, 20.0)):
        n = N if relation == "replace_one" else (20, 90, 400)[seed - 1]
        yield table_of(table.domain, n, seed, peaked)
    n = N if relation == "replace_one" else 70
    yield Table(np.zeros((n, len(table.domain)), int), table.domain)
    for i, j in itertools.combinations(range(len(table.domain)), 2):  # two attributes that tell all of each other
        codes = table_of(table.domain, n, 4, 20.0).codes.copy()
        codes[:, i] = codes[:, j] % table.domain.sizes[i]
        yield Table(codes, table.domain)


@pytest.mark.parametrize(("name", "relation"), CASES)
def test_only_releases_show(name, relation):
    domain, make = MAKE[name]
    table = table_of(domain)

    def fit(rows):
        return lambda: make(**{"epsilon": 1.0, "relation": relation, "random_state": 3}).fit(rows)

    first = record(fit(table))
    assert_booked(first)
    if not name.endswith("published"):
        assert first.model.ledger_.certified
    star, center = ([replay(fit(t), first) for t in group] for group in neighbours(table, relation))
    for i, one in enumerate(star):
        for two in (*center, *star[i + 1 :]):
            assert_moves(one, two)
    assert_same(first, *star, *center, *(replay(fit(t), first, evaluate=False) for t in unrelated(table, relation)))


@pytest.mark.parametrize("name", [name for name in MAKE if not name.endswith("published")])
def test_without_a_seed_the_noise_is_the_systems(name, monkeypatch):
    """Asked of the stream itself: a seed of 0 in place of None would repeat, and say that it is seeded."""
    domain, make = MAKE[name]
    one, two = (record(lambda: make(epsilon=1.0, relation="replace_one").fit(table_of(domain))) for _ in range(2))
    assert one.model.ledger_.randomness == "system"
    noisy = [next(r for r in run.releases if r.call.mechanism != "exponential") for run in (one, two)]
    assert not np.array_equal(noisy[0].value, noisy[1].value)  # a selection may well come out the same


@pytest.mark.parametrize("seed", [np.random.SeedSequence(987654321), 987654321])
def test_no_file_holds_the_seed(seed, tmp_path):
    model = Independent(epsilon=1.0, random_state=seed, relation="add_remove").fit(table_of(MIXED))
    if isinstance(seed, int):
        model.save(tmp_path / "model.npz")
        with np.load(tmp_path / "model.npz") as archive:
            header = archive["header"].tobytes().decode()
        assert "987654321" not in header
        assert "random_state" not in json.dumps(json.loads(header)["params"])
        assert Independent.load(tmp_path / "model.npz").random_state is None
    places = [place for place, content in seen(model).items() if "987654321" in content]
    assert places
    assert all(place.startswith("attribute random_state") for place in places)


@pytest.mark.parametrize("source", ["documented", "declared", "inferred"])
def test_public_inputs_say_where_they_come_from(source):
    domain = Domain(list(MIXED), source=source)
    for relation in ("add_remove", "replace_one"):
        ledger = Independent(epsilon=1.0, relation=relation, random_state=0).fit(table_of(domain)).ledger_
        known = {p.name: (p.value, p.source) for p in ledger.public_inputs}
        assert known["domain"] == ({"a": 2, "b": 4, "c": 6}, source)
        assert ("number of rows" in known) == (relation == "replace_one")


def test_a_failed_refit_is_no_fitted_model(monkeypatch):
    model = Independent(epsilon=1.0, random_state=0, relation="add_remove").fit(table_of(MIXED))

    def refuse(*given):
        raise PrivacyError("refused")

    monkeypatch.setattr(independent, "measure_all", refuse)
    with pytest.raises(PrivacyError):
        model.fit(table_of(MIXED, seed=1))
    assert not hasattr(model, "ledger_")
    with pytest.raises(NotFittedError, match="not fitted"):
        model.sample(3)


def test_rows_are_drawn_from_another_stream_than_the_noise(monkeypatch):
    """Who sees the rows, and what they were drawn with, learns nothing of the noise of the fit."""
    asked = []
    monkeypatch.setattr(aim.AIM, "_sample", lambda self, n, rng: asked.append(rng) or table_of(MIXED))
    model = AIM(epsilon=1.0, rounds=2, random_state=3, relation="add_remove").fit(table_of(MIXED))
    model.sample(3)
    (rng,) = asked
    drawn = set(rng.integers(2**62, size=2000).tolist())
    fit = Randomness(3, "fit")
    for stream in (
        fit.noise.below(2**62, 2000),
        fit.secret.below(2**62, 2000),
        fit.generator.integers(2**62, size=2000),
    ):
        assert not drawn & set(stream.tolist())
