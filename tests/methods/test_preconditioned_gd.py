"""Preconditioned private gradient descent: its sensitivities by brute force, its limit without noise, its encoding."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit, softmax

from marginalia.data import Domain, Table
from marginalia.data.column import Column
from marginalia.data.encoding import CentredEncoder, Encoder
from marginalia.data.units import Unit
from marginalia.errors import InputError
from marginalia.learning import LogisticClassifier, OLSRegressor
from marginalia.learning.rows import TableRows
from marginalia.methods import preconditioned_gd as pgd
from marginalia.methods.dp_sgd.descent import UNIT, Directions
from marginalia.methods.models import load_model, save_model
from marginalia.methods.preconditioned_gd import (
    Design,
    PreconditionedGDClassifier,
    PreconditionedGDRegressor,
)
from marginalia.privacy.mechanisms.hooks import intercepting

DOMAIN = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("c", 2), Column("y", 2)])


def _table(n: int = 3000, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, s, n) for s in (3, 4, 2)])
    score = 0.8 * (X[:, 0] == 2) + 0.5 * X[:, 1] - 0.7 * X[:, 2] - 0.6
    return Table(np.column_stack([X, rng.random(n) < 1 / (1 + np.exp(-score))]), DOMAIN)


def _design(table: Table, *, smooth: bool = False) -> Design:
    if not smooth:
        return Design.of(TableRows(table, Encoder(DOMAIN, "y"), "logistic").with_constant())
    encoder = Encoder(DOMAIN, "y", one_hot=["a", "b"])
    return Design.of(TableRows(table, encoder, "logistic", cosines=8).with_constant())


def _events(model):
    first, run = model.ledger_.events
    return first, run


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_x_x_moves_by_no_more_than_declared_over_all_pairs_of_rows(relation, smooth):
    n = 10**5 if smooth else 100  # so many that there are cosines
    model = PreconditionedGDClassifier(relation=relation, n_public=n, smooth=smooth, random_state=0)
    model.fit(_table(100), "y")
    every = Table(list(itertools.product(*(range(s) for s in DOMAIN.sizes))), DOMAIN)
    design = _design(every, smooth=smooth)
    assert np.abs(design.whole).max() * design.unit <= design.largest
    upper = np.triu_indices(design.whole.shape[1])
    moves = np.array([np.outer(x, x)[upper] for x in design.whole]) * design.unit**2
    apart = max(np.linalg.norm(u - v) for u, v in itertools.combinations(moves, 2))
    alone = np.linalg.norm(moves, axis=1).max()
    declared = _events(model)[0].sensitivity
    assert (alone if relation == "add_remove" else apart) <= declared
    assert declared <= 1.5 * (alone if relation == "add_remove" else apart)
    assert np.linalg.norm(design.whole * design.unit, axis=1).max() <= design.bound


@pytest.mark.parametrize("k", [1, 3])
def test_no_row_adds_more_than_the_clip(k):
    rng = np.random.default_rng(k)
    X = rng.standard_normal((400, 7)) * 10.0 ** rng.uniform(-3, 3, (400, 1))
    derivative = rng.standard_normal((400, k)) * 10.0 ** rng.uniform(-3, 3, (400, 1))
    derivative[0], X[1] = 0.0, 0.0
    for x, r in zip(X, derivative, strict=True):
        rows = Directions.of(x[None, :])
        gradient = pgd.clipped_sum(rows, r[None, :], 0.7) * UNIT
        assert np.linalg.norm(gradient) <= 1.0
        if np.linalg.norm(x) * np.linalg.norm(r) < 0.69:
            np.testing.assert_allclose(gradient * 0.7, np.outer(x, r), atol=2e-4)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("cls", [PreconditionedGDClassifier, PreconditionedGDRegressor])
def test_what_is_charged_is_the_budget(cls, relation):
    model = cls(epsilon=0.7, relation=relation, n_public=3000, random_state=1).fit(_table(), "y")
    assert model.ledger_.certified
    assert model.ledger_.arithmetic == "exact"
    assert model.ledger_.epsilon_spent == pytest.approx(0.7, rel=1e-6)


@pytest.mark.parametrize(
    ("cls", "limit"), [(PreconditionedGDClassifier, LogisticClassifier), (PreconditionedGDRegressor, OLSRegressor)]
)
def test_with_a_large_budget_it_comes_near_the_optimum(cls, limit):
    table = _table(20_000)
    model = cls(epsilon=500.0, random_state=0).fit(table, "y")
    X, y = Encoder(DOMAIN, "y").transform(table), Encoder(DOMAIN, "y").target_values(table)
    best = limit().fit(X, y)
    scores, optimum = X @ model.coef_ + model.intercept_, X @ best.coef_ + best.intercept_
    assert np.abs(scores - optimum).max() < 0.05


def test_more_than_two_classes_share_one_run():
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 5, "numeric"), Column("y", 3)])
    X = np.column_stack([rng.integers(0, s, 20_000) for s in (3, 5)])
    p = softmax(np.column_stack([1.0 * (X[:, 0] == 1), 0.4 * X[:, 1], 1.2 * (X[:, 0] == 2)]), axis=1)
    y = (rng.random(len(X))[:, None] > p.cumsum(axis=1)).sum(axis=1)
    table = Table(np.column_stack([X, y]), domain)
    model = PreconditionedGDClassifier(epsilon=4.0, random_state=0).fit(table, "y")
    assert model.coef_.shape == (3, 3)
    np.testing.assert_allclose(model.predict_proba(table)[:200], p[:200], atol=0.05)
    assert np.mean(model.predict(table) == y) > 0.99 * np.mean(p.argmax(axis=1) == y)
    assert len(model.ledger_.events) == 2


def test_coefficients_of_centred_categories_give_the_same_scores_in_the_encoder_s_features():
    encoder = Encoder(DOMAIN, "y")
    table = Table(list(itertools.product(*(range(s) for s in DOMAIN.sizes))), DOMAIN)
    design = _design(table)
    theta = np.random.default_rng(0).standard_normal((2, design.whole.shape[1]))
    mapped = CentredEncoder(encoder).in_features(theta)
    scores = encoder.transform(table) @ mapped[:, :-1].T + mapped[:, -1]
    np.testing.assert_allclose(scores, design.whole * design.unit @ theta.T, atol=1e-3)


def _wave(n: int, seed: int = 0) -> Table:
    """Rows whose target depends on an ordered column with a missing value, up and down, and on nothing else."""
    rng = np.random.default_rng(seed)
    hours = Column("t", 13, "numeric", labels=[str(hour) for hour in range(12)], type="string", missing=("?",))
    domain = Domain([hours, Column("c", 3), Column("y", 2)])
    t = rng.integers(0, 13, n)
    score = np.where(t == 12, 1.0, 2 * np.cos(np.pi * (t + 0.5) / 6))
    return Table(np.column_stack([t, rng.integers(0, 3, n), rng.random(n) < expit(score)]), domain)


@pytest.mark.parametrize("cls", [PreconditionedGDClassifier, PreconditionedGDRegressor])
def test_a_smooth_model_follows_a_wave_that_no_line_does(cls):
    table = _wave(20_000)
    fits = {smooth: cls(epsilon=2.0, smooth=smooth, random_state=0).fit(table, "y") for smooth in (False, True)}
    t, y = table.column("t"), table.column("y")
    rate = np.array([y[t == code].mean() for code in range(13)])
    worst = {}
    for smooth, model in fits.items():
        scores = expit(model.decision_function(table)) if cls is PreconditionedGDClassifier else model.predict(table)
        shown = np.array([scores[t == code].mean() for code in range(13)])
        worst[smooth] = np.abs((shown if cls is PreconditionedGDClassifier else (shown + 1) / 2) - rate).max()
    assert worst[True] < (0.08 if cls is PreconditionedGDClassifier else 0.2)  # its clip makes the error Huber's
    assert worst[False] > 0.3
    assert fits[True].coef_.shape == (14,)  # a number for each value but the first, and two categories


def test_where_the_noise_is_large_a_smooth_model_is_that_of_lines():
    table = _wave(2000)
    line, smooth = (
        PreconditionedGDClassifier(epsilon=0.1, smooth=smooth, random_state=0).fit(table, "y")
        for smooth in (False, True)
    )
    assert smooth.ledger_.events == line.ledger_.events
    np.testing.assert_allclose(smooth.decision_function(table), line.decision_function(table), atol=1e-12)


def test_a_smooth_model_is_saved_and_needs_a_list_of_blocks(tmp_path):
    table = _wave(2000)
    model = PreconditionedGDClassifier(epsilon=8.0, smooth=True, one_hot=["c"], random_state=0).fit(table, "y")
    save_model(model, tmp_path / "model.npz")
    scores = load_model(tmp_path / "model.npz").decision_function(table)
    np.testing.assert_array_equal(scores, model.decision_function(table))
    with pytest.raises(InputError, match="one_hot as a list"):
        PreconditionedGDClassifier(smooth=True, one_hot=iter(["c"])).fit(table, "y")


def test_arrays_have_no_ordered_columns():
    X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    with pytest.raises(InputError, match="smooth needs a table or a data frame"):
        PreconditionedGDClassifier(smooth=True, feature_bound=2.0).fit(X, X[:, 0] > 0)


def test_a_row_s_whitened_form_does_not_depend_on_the_rows_beside_it():
    design = _design(_table(777))
    M = np.random.default_rng(0).standard_normal((design.whole.shape[1],) * 2)
    alone = np.vstack([pgd._times(row[None, :], M) for row in design.whole[:50]])
    assert (pgd._times(design.whole, M)[:50] == alone).all()


def test_the_noise_of_the_steps_is_that_of_the_rule():
    asked = []

    def hook(question, exact, draw):
        asked.append(question)
        return draw()

    with intercepting(hook):
        PreconditionedGDRegressor(relation="add_remove", n_public=500, random_state=0).fit(_table(500), "y")
    first, *steps = asked
    assert len(steps) == PreconditionedGDRegressor.RULE.steps
    mu_1, mu_2 = (1 / s.scale * s.sensitivity for s in (first, steps[0]))
    assert mu_1**2 / (mu_1**2 + len(steps) * mu_2**2) == pytest.approx(pgd.SHARE)
    assert math.isclose(steps[0].sensitivity, 1.0)


@pytest.mark.parametrize("smooth", [False, True])  # the true numbers are on either side of the bound for cosines
def test_add_remove_never_reads_the_number_of_rows(smooth):
    few, many = _table(500), _table(900, seed=3)
    given = {"relation": "add_remove", "n_public": 700, "smooth": smooth, "random_state": 0}
    models = [PreconditionedGDClassifier(**given).fit(t, "y") for t in (few, many)]
    one, two = ([str(p) for p in m.ledger_.public_inputs] for m in models)
    assert one == two
    assert models[0].ledger_.events == models[1].ledger_.events


UNIT_OF_ROWS = Unit("person", 3)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_units_move_x_x_by_no_more_than_declared(relation):
    """Every unit of three rows of the domain (those of one kind move farthest), against every other one."""
    every = Table(list(itertools.product(*(range(s) for s in DOMAIN.sizes))), DOMAIN)
    design = _design(every)
    upper = np.triu_indices(design.whole.shape[1])
    moves = 3 * np.array([np.outer(x, x)[upper] for x in design.whole]) * design.unit**2
    mixed = moves / 3
    trios = np.array([mixed[list(t)].sum(axis=0) for t in itertools.combinations_with_replacement(range(0, 48, 5), 3)])
    for sums in (moves, trios):
        apart = max(np.linalg.norm(u - v) for u, v in itertools.combinations(sums, 2))
        alone = np.linalg.norm(sums, axis=1).max()
        table = every.of_units(UNIT_OF_ROWS, np.arange(48) // 3)
        model = PreconditionedGDClassifier(relation=relation, n_public=16, random_state=0).fit(table, "y")
        assert (alone if relation == "add_remove" else apart) <= _events(model)[0].sensitivity
        assert _events(model)[1].events[0].sensitivity == (1.0 if relation == "add_remove" else 2.0)


@pytest.mark.parametrize("k", [1, 3])
def test_no_unit_adds_more_than_the_clip(k):
    rng = np.random.default_rng(k)
    X = rng.standard_normal((300, 7)) * 10.0 ** rng.uniform(-2, 2, (300, 1))
    derivative = rng.standard_normal((300, k)) * 10.0 ** rng.uniform(-2, 2, (300, 1))
    for start in range(0, 300, 3):
        x, r = X[start : start + 3], derivative[start : start + 3]
        gradient = pgd.clipped_sum(Directions.of(x), r, 0.7, np.array([3])) * UNIT
        assert np.linalg.norm(gradient) <= 1.0
        if sum(np.linalg.norm(a) * np.linalg.norm(b) for a, b in zip(x, r, strict=True)) < 0.69:
            np.testing.assert_allclose(gradient * 0.7, x.T @ r, atol=6e-4)
    both = pgd.clipped_sum(Directions.of(X), derivative, 0.7, np.full(100, 3))
    parts = [
        pgd.clipped_sum(Directions.of(X[s : s + 3]), derivative[s : s + 3], 0.7, np.array([3]))
        for s in range(0, 300, 3)
    ]
    assert (both == sum(parts)).all()


@pytest.mark.parametrize("cls", [PreconditionedGDClassifier, PreconditionedGDRegressor])
def test_whitening_clip_and_step_follow_from_releases_alone(cls):
    """With all releases forced, unrelated rows give the same requests and coefficients, in units of rows too."""

    def fit(seed, sizes):
        rng, units, asked_for = np.random.default_rng(seed), np.repeat(np.arange(60), sizes), []
        codes = rng.integers(0, [[3, 4, 2]], (units.size, 3)) // (1 + seed)
        table = Table(codes, Domain.from_sizes({"a": 3, "b": 4, "y": 2}))
        table = table.of_units(Unit("id", 3), units) if max(sizes) > 1 else table

        def hook(asked, exact, draw):
            asked_for.append(asked)
            return np.random.default_rng(len(asked_for)).integers(-9, 9, asked.shape) * 2**20

        with intercepting(hook):
            model = cls(epsilon=1.0, random_state=0).fit(table, "y")
        return asked_for, model.coef_, model.intercept_

    several = [[1 + i % k for i in range(60)] for k in (2, 3)]
    for one, other in (([1] * 60, [1] * 60), several):
        first, second = fit(0, one), fit(1, other)
        assert first[0] == second[0]
        assert len(first[0]) > 50
        np.testing.assert_array_equal(first[1], second[1])
        np.testing.assert_array_equal(first[2], second[2])
