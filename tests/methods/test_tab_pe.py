"""Tab-PE: votes against brute force, what a row moves, the price of a round, and its operators."""

import numpy as np
import pytest

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.papers.recent.methods.tab_pe import TabPE, random_rows, selected, varied
from marginalia.papers.recent.methods.votes import scales, votes
from marginalia.privacy.calibration import gdp_mu
from marginalia.privacy.relation import Neighbours, Relation

DOMAIN = Domain([Column("y", 2), Column("a", 5, "ordinal"), Column("b", 4), Column("c", 3, "ordinal")])


def drawn(n, seed):
    return np.random.default_rng(seed).integers(0, DOMAIN.sizes, (n, 4))


def by_brute_force(rows, candidates, target):
    """Embed as the paper does: ordered columns in [0, 1], indicators times a third; the first nearest one wins."""

    def embedded(codes):
        columns = []
        for j, attribute in enumerate(DOMAIN):
            if j == target:
                continue
            ordered = attribute.kind == "ordinal"
            columns.append(codes[:, [j]] / (attribute.size - 1) if ordered else np.eye(attribute.size)[codes[:, j]] / 3)
        return np.hstack(columns)

    distances = ((embedded(rows)[:, None] - embedded(candidates)[None]) ** 2).sum(axis=2).round(5)
    if target >= 0:
        distances[rows[:, [target]] != candidates[:, target]] = np.inf
    nearest = distances.argmin(axis=1)[np.isfinite(distances.min(axis=1))]
    return np.bincount(nearest, minlength=len(candidates))


@pytest.mark.parametrize("target", [-1, 0])
def test_votes_are_those_of_the_embedding(target):
    rows, candidates = drawn(400, 0), np.unique(drawn(12, 1), axis=0)
    got = votes([Table(rows[:150], DOMAIN), Table(rows[150:], DOMAIN)], candidates, target)
    # Distances that differ in their last bits only may tie otherwise: at most a few rows.
    assert got.sum() == 400
    assert np.abs(got - by_brute_force(rows, candidates, target)).sum() <= 12


def one_by_one(rows, candidates, domain, target):
    """Sum the terms of every column in single precision, row by row and candidate by candidate; the first wins."""
    step, other = scales(domain)
    counts = np.zeros(len(candidates), int)
    for row in rows:
        distances = np.zeros(len(candidates), np.float32)
        for j in range(len(domain)):
            gap = candidates[:, j].astype(np.float32) - np.float32(row[j])
            if j != target:
                distances += np.where(gap != 0, other[j], np.float32(0)) if other[j] > 0 else step[j] * gap * gap
        if target >= 0:
            distances[candidates[:, target] != row[target]] = np.inf
        if np.isfinite(distances).any():
            counts[distances.argmin()] += 1
    return counts


@pytest.mark.parametrize("target", [-1, 0, 2, 3])
@pytest.mark.parametrize("n_candidates", [1, 20, 150, 400])  # of 120 different ones
def test_votes_are_to_the_bit_those_of_one_row_after_the_other(target, n_candidates):
    rows, candidates = drawn(300, 8), drawn(n_candidates, 9)
    got = votes([Table(rows[:100], DOMAIN), Table(rows[100:], DOMAIN)], candidates, target)
    assert got.tolist() == one_by_one(rows, candidates, DOMAIN, target).tolist()


def test_votes_of_wide_rows_with_near_ties():
    rng = np.random.default_rng(10)
    sizes = [2, 7, 3, 11, 90, 5, 4, 13, 2]
    domain = Domain([Column(f"c{j}", size, "ordinal" if j % 3 else "categorical") for j, size in enumerate(sizes)])
    rows, candidates = (rng.integers(0, sizes, (n, 9)) for n in (200, 300))
    for target in (-1, 0, 8):
        assert (
            votes([Table(rows, domain)], candidates, target).tolist()
            == one_by_one(rows, candidates, domain, target).tolist()
        )


def test_rows_of_nothing_but_their_class_vote_for_its_first_candidate():
    domain = Domain([Column("y", 3)])
    assert votes([Table([[0], [2], [2]], domain)], np.array([[2], [0], [2]]), 0).tolist() == [2, 1, 0]


@pytest.mark.parametrize("target", [-1, 0])
def test_a_row_moves_one_count_by_one(target):
    rows, candidates = drawn(40, 2), drawn(30, 3)
    whole = votes([Table(rows, DOMAIN)], candidates, target)
    for i in range(len(rows)):
        less = votes([Table(np.delete(rows, i, axis=0), DOMAIN)], candidates, target)
        assert sorted(whole - less)[-1] == 1
        assert np.abs(whole - less).sum() == 1


def test_a_row_without_a_candidate_of_its_class_does_not_vote():
    candidates = np.array([[1, 0, 0, 0]])
    assert votes([Table([[0, 0, 0, 0], [1, 4, 3, 2]], DOMAIN)], candidates, 0).tolist() == [1]


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("target", [None, "y"])
def test_every_histogram_costs_the_same_and_all_is_spent(relation, target):
    model = TabPE(rounds=6, n_points=20, target=target, relation=relation, random_state=0).fit(
        Table(drawn(90, 4), DOMAIN)
    )
    events = model.ledger_.events
    assert len(events) == 6 + (target is not None or relation == "add_remove")
    assert {e.sensitivity for e in events} == {Neighbours(relation).marginal_sensitivity_l2}
    assert sum((e.sensitivity / e.sigma) ** 2 for e in events) == pytest.approx(gdp_mu(1.0, 1e-5) ** 2)
    assert model.ledger_.certified


def test_a_parity_that_no_pair_shows_survives():
    """On columns of many codes; where few rows are distinct, ties leave most candidates without a vote."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 64, (2, 4000))
    columns = [Column("y", 2), Column("a", 64, "ordinal"), Column("b", 64, "ordinal")]
    table = Table(np.c_[(a >= 32) ^ (b >= 32), a, b], Domain(columns))
    made = TabPE(epsilon=20.0, n_points=200, target="y", random_state=0, relation="add_remove").fit(table).points_
    assert (made[:, 0] == ((made[:, 1] >= 32) ^ (made[:, 2] >= 32))).mean() > 0.9


def test_operators_keep_to_the_domain_and_to_the_class():
    rng = np.random.default_rng(6)
    rows = random_rows(DOMAIN, np.array([10, 30]), 0, rng)
    assert np.bincount(rows[:, 0]).tolist() == [10, 30]
    for rate in (0.5, 0.01):
        moved = varied(rows, DOMAIN, rate, 0, rng)
        assert (moved[:, 0] == rows[:, 0]).all()
        Table(moved, DOMAIN)  # or it raises
        assert np.abs(moved[:, 1] - rows[:, 1]).max() <= round(4 * rate)


def test_selection_is_by_class():
    noisy, classes = np.array([5.0, 1.0, -1.0, 7.0, 2.0]), np.array([0, 0, 1, 1, 1])
    assert selected(noisy, classes, np.array([1, 2]), None).tolist() == [0, 3, 4]
    by_chance = selected(noisy, classes, np.array([50, 50]), np.random.default_rng(0))
    assert set(by_chance[:50]) == {0, 1}
    assert set(by_chance[50:]) == {3, 4}


def test_rows_are_the_points_all_as_often_and_few_rows_have_every_class():
    model = TabPE(rounds=2, n_points=100, target="y", random_state=0, relation="add_remove").fit(
        Table(drawn(200, 7), DOMAIN)
    )
    points = Table(model.points_, DOMAIN)
    for made in (model.sample(300), *model.sample_batches(300)):
        assert (np.unique(made.codes, axis=0) == np.unique(model.points_, axis=0)).all()
        assert (made.counts(["y"]) == 3 * points.counts(["y"])).all()
    for seed in range(5):  # points are sorted by class
        assert (model.set_params(random_state=seed).sample(20).counts(["y"]) > 2).all()


def test_an_unknown_target_is_named():
    with pytest.raises(InputError, match="unknown column 'z'"):
        TabPE(target="z", relation="add_remove").fit(Table(drawn(9, 0), DOMAIN))
