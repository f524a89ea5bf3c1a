"""SWIFT: the tree is a junction tree, the budget is divided as a numeric optimiser would, and errors follow noise."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalia.data.domain import Column, Domain, StructuralZeros
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.marginals.estimation import Measurement, estimate
from marginalia.methods.independent import Independent
from marginalia.methods.swift import _UNIT, SWIFT, CliqueTree, _released_errors, grow_trees
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session


@st.composite
def problems(draw):
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=2, max_size=8)))
    attributes = st.integers(0, len(sizes) - 1)
    start = draw(st.lists(st.sets(attributes, min_size=1, max_size=3).map(lambda c: tuple(sorted(c))), max_size=3))
    pairs = draw(st.permutations(list(itertools.combinations(range(len(sizes)), 2))))
    return sizes, start, pairs, draw(st.floats(1, 400))


def assert_junction_tree(tree, sizes):
    cliques, edges = tree.cliques, tree.edges
    assert {a for c in cliques for a in c} == set(range(len(sizes)))
    assert not any(set(c) <= set(other) for c, other in itertools.permutations(cliques, 2))
    assert tree.cells == sum(math.prod(sizes[a] for a in c) for c in cliques)
    for holders in ([c for c in cliques if a in c] for a in range(len(sizes))):  # each attribute: one subtree
        inside = [e for e in edges if e[0] in holders and e[1] in holders]
        assert len(inside) == len(holders) - 1
    parts = {c: {c} for c in cliques}
    for c, other in edges:  # no cycle
        assert parts[c] is not parts[other]
        parts[c] |= parts[other]
        for member in parts[other]:
            parts[member] = parts[c]
        assert set(c) & set(other)


@pytest.mark.slow
@given(problems())
@settings(deadline=None, max_examples=150)
def test_every_step_leaves_a_junction_tree_that_holds_the_pair(problem):
    sizes, start, pairs, max_cells = problem
    tree = CliqueTree(start, sizes, max_cells=max_cells)
    first = tree.cells
    assert_junction_tree(tree, sizes)
    held = [(a, b) for c in start for a, b in itertools.combinations(c, 2)]
    for pair in pairs:
        before = tree.cliques
        if tree.add(*pair):
            held.append(pair)
        else:
            assert tree.cliques == before
        assert_junction_tree(tree, sizes)
        assert all(any(set(p) <= set(c) for c in tree.cliques) and tree.holds(p) for p in held)
        assert tree.cells <= max(max_cells, first)


@given(problems())
@settings(deadline=None, max_examples=40)
def test_the_path_is_the_shortest_and_the_plan_the_cheapest(problem):
    """Against a search in breadth, and the cells of each plan counted."""
    sizes, start, pairs, max_cells = problem
    tree = CliqueTree(start, sizes, max_cells=max_cells)

    def cells_of(cliques):
        return sum(math.prod(sizes[x] for x in c) for c in cliques)

    for a, b in pairs:
        if not tree.holds((a, b)) and tree._parts.connected(a, b):
            paths = [[i] for i in sorted(tree._holders[a])]
            while not (found := [path for path in paths if b in tree._members[path[-1]]]):
                paths = [[*path, j] for path in paths for j in sorted(tree._next[path[-1]]) if j not in path]
            assert [tree._path(a, b)] == found

            on_path = [tree._members[i] for i in found[0]]
            added = []
            for k in range(len(on_path)):
                with_a = [c | {a} if 1 <= i <= k else c for i, c in enumerate(on_path)]
                both = [c | {b} if k <= i < len(on_path) - 1 else c for i, c in enumerate(with_a)]
                added.append(cells_of(both) - cells_of(on_path))
            assert tree._cheapest(found[0], a, b) == (added.index(min(added)), min(added))
        tree.add(a, b)


def test_with_room_every_pair_is_held():
    sizes = (2, 3, 2, 4, 2)
    errors = {pair: float(i) for i, pair in enumerate(itertools.combinations(range(5), 2))}
    assert all(tree.cliques == [(0, 1, 2, 3, 4)] for tree in grow_trees(errors, sizes, max_cells=1e6))


def test_a_penalty_on_cells_finds_the_many_small_ones():
    """One pair of wide columns fills the room by itself; three pairs of narrow ones hold more error together."""
    errors = {(0, 1): 10.0, (2, 3): 8.0, (3, 4): 8.0, (2, 4): 8.0}
    wide, narrow = next(grow_trees(errors, (10, 10, 2, 2, 2), max_cells=107)), [(2, 3), (3, 4), (2, 4)]
    assert wide.holds((0, 1))
    assert not all(wide.holds(q) for q in narrow)
    last = list(grow_trees(errors, (10, 10, 2, 2, 2), max_cells=107))[-1]
    assert not last.holds((0, 1))
    assert all(last.holds(q) for q in narrow)


def chained(n=20_000):
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 3, (2, n))
    keep = rng.random((2, n)) < 0.8
    b = np.where(keep[0], a, rng.integers(0, 3, n))
    d = np.where(keep[1], c, rng.integers(0, 3, n))
    return Table(np.column_stack([a, b, c, d]), Domain.from_sizes({"a": 3, "b": 3, "c": 3, "d": 3}))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_dependent_pairs_are_found_and_the_whole_budget_is_spent(relation):
    table = chained()
    model = SWIFT(epsilon=1.0, relation=relation, random_state=0).fit(table)
    assert {("a", "b"), ("c", "d")} <= set(model.measured_)
    spent = sum((e.sensitivity / e.sigma) ** 2 for e in model.ledger_.events)
    assert spent == pytest.approx(gdp_mu(1.0, 1e-5) ** 2, rel=1e-6)
    assert model.ledger_.certified
    plain = Independent(epsilon=1.0, relation=relation, random_state=0).fit(table)
    for pair in [("a", "b"), ("c", "d")]:
        counts = table.counts(pair)
        assert np.abs(model.marginal(pair) - counts).sum() < np.abs(plain.marginal(pair) - counts).sum() / 10


def test_a_saved_model_is_read_again(tmp_path):
    model = SWIFT(epsilon=1.0, random_state=0, relation="add_remove").fit(chained(500))
    model.save(tmp_path / "model.npz")
    again = SWIFT.load(tmp_path / "model.npz")
    assert (again.tree_, again.measured_) == (model.tree_, model.measured_)
    one, two = (read.sample(50) for read in (again, SWIFT.load(tmp_path / "model.npz")))
    assert one.n_rows == two.n_rows == 50
    assert np.array_equal(again.marginal(("a", "d")), model.marginal(("a", "d")))


def test_one_way_workloads_and_one_column_spend_all_on_one_way_marginals():
    table = chained(500)
    model = SWIFT(epsilon=1.0, workload=1, random_state=0, relation="add_remove").fit(table)
    assert model.measured_ == {}
    assert len(model.ledger_.events) == 4
    lone = Table(table.codes[:, :1], Domain.from_sizes({"a": 3}))
    assert SWIFT(epsilon=1.0, random_state=0, relation="add_remove").fit(lone).tree_ == [("a",)]


def test_impossible_cells_stay_empty():
    domain = Domain(
        [Column("a", 2), Column("b", 2), Column("c", 3)],
        structural_zeros=[StructuralZeros(("a", "b"), ((0, 1),))],
    )
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, 2, 400), np.zeros(400, int), rng.integers(0, 3, 400)])
    model = SWIFT(epsilon=1.0, random_state=0, relation="add_remove").fit(Table(codes, domain))
    assert model.marginal(("a", "b"))[0, 1] == 0
    assert any({"a", "b"} <= set(c) for c in model.tree_)


@pytest.mark.parametrize("given", [{"max_model_mb": 0}, {"max_cells": -1}, {"calibration": "published"}])
def test_bad_parameters_are_refused(given):
    with pytest.raises(InputError):
        SWIFT(epsilon=1.0, **given).fit(chained(50))


def test_errors_are_sums_of_whole_numbers():
    """Each expected count is rounded to the public unit before it is subtracted: no float sum is rounded at the end."""
    rng = np.random.default_rng(0)
    domain = Domain.from_sizes({"a": 7, "b": 5, "c": 3})
    table = Table(np.column_stack([rng.integers(0, size, 300) for size in domain.sizes]), domain)
    noisy = [Measurement((a,), table.counts([a]) + rng.normal(0, 5, domain[a].size), 5.0) for a in domain.names]
    model = estimate(domain, noisy, total=301.7)
    pairs = {(0, 1): ("a", "b"), (0, 2): ("a", "c"), (1, 2): ("b", "c")}
    seen = []

    def hook(asked, exact, draw):
        seen.append(exact().tolist())
        return draw()

    with intercepting(hook):
        _released_errors(table, model, pairs, 0.1, Session(Ledger("add_remove"), Randomness(0)))
    units = {q: np.rint(model.probabilities(q) * (model.total / _UNIT)) for q in pairs}
    assert seen == [[int(np.abs(table.counts(n) * 2.0**16 - units[q]).sum()) for q, n in pairs.items()]]
