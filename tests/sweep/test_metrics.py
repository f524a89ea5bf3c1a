import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import roc_auc_score

from marginalia.data import Domain, Table, encoding
from marginalia.errors import InputError
from marginalia.sweep import metrics
from marginalia.synthesis import AIM, ResidualPlanner

TABLE = Table([[0, 0, 1], [1, 2, 0], [1, 1, 1], [0, 2, 0]], Domain.from_sizes({"a": 2, "b": 3, "c": 2}))


def test_the_k_marginal_score_is_of_rows_and_that_of_sdnist():
    """By hand: (2 - mean L1) * 500 over all pairs of columns, on as many rows as there are."""
    domain = Domain.from_sizes({"a": 2, "b": 2, "c": 2})
    real = Table(np.array([[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]]), domain)
    made = Table(np.array([[0, 0, 0], [0, 0, 0], [1, 1, 1], [1, 1, 1]]), domain)

    class Model:
        def sample(self, n_rows):
            assert n_rows == 4
            return made

    l1 = (1.0 + 0.0 + 1.0) / 3  # of (a, b): half of the rows lie in other cells; (a, c): none; (b, c): half
    assert metrics.k_marginal(metrics.drawn(Model(), real), real) == pytest.approx((2 - l1) * 500)
    assert metrics.k_marginal_score(0.0) == 1000


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.integers(-3, 3)), min_size=2, max_size=30))
def test_auc_is_the_share_of_ordered_pairs(rows):
    y = np.array([1 if label else -1 for label, _ in rows])
    s = np.array([score for _, score in rows], float)
    if np.unique(y).size < 2:
        with pytest.raises(InputError, match="both classes"):
            metrics.roc_auc(y, s)
        return
    ahead = s[y > 0][:, None] - s[y < 0][None, :]
    assert metrics.roc_auc(y, s) == pytest.approx(((ahead > 0) + 0.5 * (ahead == 0)).mean(), abs=1e-12)


def test_auc_is_that_of_scikit_learn_to_the_last_bit():
    rng = np.random.default_rng(0)
    for n in (2, 3, 5, 40, 1000):
        for levels in (1, 2, 3, 17, 10**6):  # few levels: many ties
            y, score = rng.permutation(np.arange(n) % 2), rng.integers(0, levels, n) / 7 - 0.3
            assert metrics.roc_auc(y, score) == roc_auc_score(y, score)
            assert metrics.roc_auc(2 * y - 1, y + score) == roc_auc_score(y, y + score)


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_auc_of_a_score_that_is_not_finite_is_an_error(score):
    with pytest.raises(InputError, match="score holds NaN or infinity"):
        metrics.roc_auc([0, 1, 1], [0.0, score, 1.0])


def test_log_loss_and_accuracy():
    y = np.array([1, -1, 1])
    assert metrics.log_loss(y, np.full(3, 0.5)) == pytest.approx(np.log(2))
    assert metrics.log_loss(y, np.array([1.0, 0.0, 0.0])) == pytest.approx(-np.log(1e-16) / 3)
    assert metrics.accuracy_of_margin(y, np.array([2.0, 0.0, -1.0])) == pytest.approx(2 / 3)


@given(arrays(float, 4, elements=st.floats(0, 10)), arrays(float, 4, elements=st.floats(0, 10)))
def test_total_variation_is_a_bounded_distance(p, q):
    d = metrics.total_variation(p, q)
    assert 0 <= d <= 1 + 1e-12
    assert d == pytest.approx(metrics.total_variation(q, p))
    assert metrics.total_variation(p, 3 * p) == pytest.approx(0, abs=1e-12)


def test_marginal_error_of_a_table_with_itself_is_zero():
    assert metrics.marginal_error(TABLE, TABLE) == 0


def test_marginal_error_is_the_mean_over_all_pairs():
    other = Table(TABLE.codes[[0, 0, 1, 2]], TABLE.domain)
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    expected = np.mean([0.5 * np.abs(other.counts(p) / 4 - TABLE.counts(p) / 4).sum() for p in pairs])
    assert metrics.marginal_error(other, TABLE) == pytest.approx(expected)
    assert metrics.marginal_error(other, TABLE, [("a", "b", "c")]) >= expected - 1e-12


def test_counts_are_remembered_and_stay_those_of_their_table(monkeypatch):
    """What is remembered is what would be counted now, of each order of the names, and goes with its table."""
    tables = [Table(TABLE.codes[rows], TABLE.domain) for rows in ([0, 1, 2, 3], [3, 3, 1, 0], [2])]
    for _ in range(2):
        for table in tables:
            for names in (("a",), ("a", "b"), ("b", "a"), ("a", "b", "c")):
                np.testing.assert_array_equal(metrics.counted(table, names), table.counts(names))
    monkeypatch.setattr(np, "array_equal", None)  # a second look does not compare rows
    assert metrics.counted(tables[0], ("a",)) is metrics.counted(tables[0], ("a",))
    known = len(encoding._memory)
    del tables, table
    assert len(encoding._memory) == known - 3


def test_a_large_marginal_is_not_remembered(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_REMEMBERED", 5)
    table = Table(TABLE.codes, TABLE.domain)
    assert metrics.counted(table, ("a", "c")) is metrics.counted(table, ("a", "c"))
    assert metrics.counted(table, ("a", "b")) is not metrics.counted(table, ("a", "b"))


def test_one_attribute_has_no_pairs():
    with pytest.raises(InputError, match="two columns"):
        metrics.marginal_error(TABLE.project(["a"]), TABLE.project(["a"]))


@pytest.mark.slow
def test_stated_intervals_hold_and_naive_ones_are_measured_on_the_same_cells():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=(4000, 3))
    table = Table(codes, Domain.from_sizes({"a": 3, "b": 3, "c": 3}))
    stated, naive = [], []
    for seed in range(6):
        for kind in (ResidualPlanner, AIM):
            model = kind(epsilon=0.1, random_state=seed).fit(table)
            found = metrics.interval_metrics(model, metrics.drawn(model, table), table)
            assert set(found) == {m.id for m in metrics.METRICS.values() if m.of_intervals}
            stated.append(found["coverage"])
            naive.append(found["naive_coverage"])
            assert 0 < found["width"] < 1
    assert np.mean(stated) > 0.92
    assert np.mean(naive) < 0.9  # at epsilon 0.1 the noise is far above the sampling error that they state


def test_only_arms_that_keep_measurements_are_asked_for_coverage():
    from marginalia.methods.record import Arm
    from marginalia.sweep.run import metrics_of

    assert {"coverage", "width", "naive_coverage"} <= set(metrics_of(None, Arm("aim")))
    assert metrics_of(None, Arm("mixture")) == ("marginal_error", "k_marginal")
