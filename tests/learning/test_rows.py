import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from marginalia.data.encoding import Encoder
from marginalia.learning.rows import ArrayRows, TableRows, within_bounds

numbers = st.floats(-100, 100)


@given(arrays(float, (6, 3), elements=numbers), arrays(float, 6, elements=numbers), st.floats(0.1, 50))
def test_rows_end_within_the_declared_bounds(X, y, bound):
    before = X.copy()
    rows = within_bounds(X, y, feature_bound=bound, target_bound=2.0)
    length = np.linalg.norm(X, axis=1)
    assert np.all(np.linalg.norm(rows.X, axis=1) <= bound * (1 + 1e-12))
    assert np.array_equal(rows.X[length <= bound], X[length <= bound])
    # Shrinking keeps the direction.
    assert np.allclose(rows.X * length[:, None], X * np.linalg.norm(rows.X, axis=1)[:, None], atol=1e-8)
    assert np.abs(rows.y).max() <= 2.0
    assert np.array_equal(X, before)


def test_statistics_of_both_kinds_of_rows_agree(table):
    encoder = Encoder(table.domain, "pay")
    of_table = TableRows(table, encoder, "linear")
    of_array = ArrayRows(of_table.X, of_table.y, of_table.feature_bound, 1.0)
    assert np.allclose(of_table.gram, of_array.gram, rtol=1e-12, atol=1e-9)
    assert of_table.n_features == of_array.n_features == 5
    assert of_table.feature_bound == 2.0  # four features
    assert np.linalg.norm(of_table.X, axis=1).max() <= of_table.feature_bound
    assert np.abs(of_table.X).max() <= of_table.coordinate_bound
