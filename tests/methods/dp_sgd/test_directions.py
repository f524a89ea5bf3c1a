"""Sums of clipped gradients in whole numbers: exact, of bounded sensitivity, and a row's part is its own."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import expit

from marginalia.learning import DPSGDClassifier
from marginalia.methods.dp_sgd import descent
from marginalia.methods.dp_sgd.descent import (
    _BITS,
    _BLOCK,
    CLIP_BITS,
    UNIT,
    Batches,
    Directions,
    Run,
    _residual,
    descend,
)
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

SHAPES = st.tuples(st.integers(1, 40), st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**32 - 1))


def drawn(n, p, m, seed, spread=8.0):
    """Rows, derivatives and clipping norms of many sizes, with rows and derivatives of 0."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * 10 ** rng.uniform(-spread, spread, (n, 1))
    X[rng.random((n, p)) < 0.2] = 0
    derivative = rng.standard_normal((n, m)) * 10 ** rng.uniform(-3, 3, (n, 1))
    derivative[rng.random((n, m)) < 0.1] = 0
    return X, derivative, 10 ** rng.uniform(-2, 2, m)


def parts(X, derivative, clip):
    """What each row adds to the sum, in Python's integers, shape (n, p, m)."""
    return [Directions.of(X[i : i + 1]).clipped_sum(derivative[i : i + 1], clip).astype(object) for i in range(len(X))]


@pytest.mark.slow
@given(SHAPES)
@settings(max_examples=60)
def test_the_sum_is_the_sum_of_the_rows_parts_in_any_order(shape):
    X, derivative, clip = drawn(*shape)
    total = Directions.of(X).clipped_sum(derivative, clip)
    assert total.dtype == np.int64
    assert (total.astype(object) == sum(parts(X, derivative, clip))).all()
    order = np.random.default_rng(0).permutation(len(X))
    turned = Directions.of(X).take(order).clipped_sum(derivative[order], clip)
    np.testing.assert_array_equal(turned, total)


@pytest.mark.slow
@given(SHAPES)
@settings(max_examples=60)
def test_no_record_is_longer_than_the_clipping_norm(shape):
    """In exact integers: the norm of a row's part is at most 1/UNIT, and it is near that where clipping acts."""
    X, derivative, clip = drawn(*shape)
    limit = int(1 / UNIT) ** 2
    for part, x, r in zip(parts(X, derivative, clip), X, derivative, strict=True):
        squared = (part * part).sum(axis=0)
        assert (squared <= limit).all()
        cut = (np.abs(r) * np.linalg.norm(x) > 1.01 * clip) & x.any()
        assert (squared[cut] > 0.9999 * limit).all()


@pytest.mark.slow
@given(SHAPES)
@settings(max_examples=60)
def test_a_part_is_the_clipped_gradient(shape):
    """Against fractions of the floats given: within the rounding of 15 bits of direction and 20 of length."""
    X, derivative, clip = drawn(*shape, spread=2.0)
    unit = Fraction(UNIT)
    for part, x, r in zip(parts(X, derivative, clip), X, derivative, strict=True):
        length = math.sqrt(sum(Fraction(v) ** 2 for v in x))
        for j, c in enumerate(clip):
            factor = min(1.0, c / (abs(r[j]) * length)) if r[j] and length else 1.0
            for got, v in zip(part[:, j], x, strict=True):
                expected = float(Fraction(v) * Fraction(r[j])) * factor / c
                assert float(got * unit) == pytest.approx(expected, abs=2.0**-14 + 2.0**-CLIP_BITS)


@pytest.mark.slow
@given(SHAPES, st.floats(1e-6, 1e6))
@settings(max_examples=60)
def test_scores_are_a_rows_own_to_the_last_bit(shape, size):
    """Alone, in a subset, in another order, and beside one row more of any length."""
    n, p, m, seed = shape
    X, _, _ = drawn(n, p, m, seed)
    w = size * np.random.default_rng(seed).standard_normal((p, m))
    rows = Directions.of(X)
    scores = rows.scores(w)
    order = np.random.default_rng(seed + 1).permutation(n)
    some = np.sort(order[: max(1, n // 3)])
    for chosen in (order, some, order[:1]):
        assert rows.take(chosen).scores(w).tobytes() == np.ascontiguousarray(scores[chosen]).tobytes()
        assert Directions.of(X[chosen]).scores(w).tobytes() == np.ascontiguousarray(scores[chosen]).tobytes()
    for more in (1e300, 1e-300, 1.0):
        longer = Directions.of(np.vstack([X, np.full((1, p), more)]))
        assert longer.scores(w)[:n].tobytes() == scores.tobytes()
    np.testing.assert_allclose(
        scores, X @ w, atol=2.0 ** -(_BITS - 3) * float(np.abs(w).max() * np.abs(X).sum(1).max())
    )


@pytest.mark.slow
@given(SHAPES, st.sampled_from([1e-6, 1.0, 1e6, np.inf, np.nan]))
@settings(max_examples=60)
def test_rows_without_their_zeros_are_the_same_rows(shape, size):
    """To the last bit, in scores and sums, of all rows and of some, whatever weights and derivatives are."""
    n, p, m, seed = shape
    X, derivative, clip = drawn(n, 9 * p, m, seed)
    rng = np.random.default_rng(seed)
    X[rng.random(X.shape) < 0.9] = 0
    w = rng.standard_normal((9 * p, m))
    w[rng.integers(9 * p), rng.integers(m)] *= size
    full = Directions.of(X)
    short = Directions(csr_array(full.whole), full.length, full.limit)
    chosen = np.sort(rng.permutation(n)[: max(1, n // 2)])
    for a, b, at in ((full, short, np.arange(n)), (full.take(chosen), short.take(chosen), chosen)):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(b.scores(w), a.scores(w))
        np.testing.assert_array_equal(b.clipped_sum(derivative[at], clip), a.clipped_sum(derivative[at], clip))


@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_a_run_on_one_hot_columns_is_that_on_dense_rows(task, rate, monkeypatch):
    """The zeros of 12 of 13 columns are left out, and no bit of the weights changes."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.eye(12)[rng.integers(12, size=400)], np.zeros((400, 6)), np.ones(400)])
    y = rng.choice([-1.0, 1.0], 400)
    runs = [Run(30, 0.5, clip, 1.0, momentum=0.9, average=True) for clip in (0.2, 1.0)]
    found = []
    for share in (1 / 8, 0.0):
        monkeypatch.setattr(descent, "_SPARSE", share)
        assert isinstance(Directions.of(X).compressed().whole, csr_array) == (share > 0)
        session = Session(Ledger("add_remove"), Randomness(1))
        found.append(descend(X, y, task, runs, Batches(rate, 400 * rate), session=session))
    assert found[0].tobytes() == found[1].tobytes()


def test_sparse_rows_of_several_blocks_stay_exact(monkeypatch):
    monkeypatch.setattr(descent, "_BLOCK", 7)
    X, derivative, clip = drawn(40, 3, 2, 0)
    full = Directions.of(X)
    short = Directions(csr_array(full.whole), full.length, full.limit)
    np.testing.assert_array_equal(short.clipped_sum(derivative, clip), full.clipped_sum(derivative, clip))


def test_blocks_of_rows_at_the_limit_stay_exact():
    """Two blocks and a row, each at the clipping norm in one coordinate: 2^35 a row, 2^53 a block."""
    n = 2 * _BLOCK + 1
    rows = Directions.of(np.full((n, 1), -3.7))
    total = rows.clipped_sum(np.full((n, 1), 1e9), np.array([0.1]))
    each = int(rows.whole[0, 0]) * int(rows.limit[0])
    assert total.tolist() == [[n * each]]
    assert abs(each) <= 2 ** (_BITS + CLIP_BITS)


@pytest.mark.parametrize("value", [1e155, 1e200, 1e308, 1e-155, 1e-162, 3e-308, 5e-324])
@pytest.mark.parametrize("p", [1, 3])
def test_extreme_rows_stay_within_the_clipping_norm(value, p):
    """Squares of these overflow or vanish; a row must neither turn into NaN nor move the others."""
    X = np.full((3, p), value)
    X[1] = 0.5
    X[2] *= -1
    rows = Directions.of(X)
    for w in (np.zeros((p, 1)), np.ones((p, 1)), np.full((p, 1), 1e3)):
        scores = rows.scores(w)
        assert not np.isnan(scores).any()
        for derivative in (_residual(scores, np.ones((3, 1)), "linear"), expit(scores) - 1, np.zeros((3, 1))):
            for part in parts(X, derivative, np.array([0.2])):
                assert int((part * part).sum()) <= int(1 / UNIT) ** 2


@pytest.mark.parametrize("target", [1.0, 1e308])
@pytest.mark.parametrize("value", [0.0, 1e155, 1e200, 1e308])
def test_a_record_of_extreme_length_moves_a_fit_by_no_more_than_its_sensitivity(value, target):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 2)), np.sign(rng.standard_normal(50))
    far, labels = X.copy(), y.copy()
    far[7], labels[7] = (value, -value), target
    run, exact = Run(steps=5, learning_rate=1.0, clip=0.2, noise_multiplier=1.0), {}

    def recorded(name):
        exact[name] = []

        def hook(asked, value, draw):
            exact[name].append((asked, value()))
            return np.full(asked.shape, 0.3)

        return hook

    for name, points, values in (("near", X, y), ("far", far, labels)):
        with intercepting(recorded(name)):
            descend(
                points, values, "linear", [run], Batches(1.0, 50), session=Session(Ledger("replace_one"), Randomness(0))
            )
    for (asked, one), (_, other) in zip(exact["near"], exact["far"], strict=True):
        change = one.astype(object) - other.astype(object)
        assert math.sqrt((change**2).sum()) * asked.quantum <= asked.sensitivity


def test_an_extreme_row_does_not_spoil_a_fit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 2))
    y = X[:, 0] > 0
    X[7] = 1e200
    model = DPSGDClassifier(relation="replace_one", random_state=0).fit(X, y)
    assert np.isfinite(model.coef_).all()
