import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.sweep import metrics

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
    assert metrics.k_marginal(Model(), real) == pytest.approx((2 - l1) * 500)
    assert metrics.k_marginal_score(0.0) == 1000


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


def test_one_attribute_has_no_pairs():
    with pytest.raises(InputError, match="two attributes"):
        metrics.marginal_error(TABLE.project(["a"]), TABLE.project(["a"]))
