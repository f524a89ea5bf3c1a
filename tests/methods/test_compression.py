import numpy as np
import pytest

from marginalia.data import Column, Domain, StructuralZeros, Table
from marginalia.methods.mst import Compression

DOMAIN = Domain.from_sizes({"a": 5, "b": 2, "c": 3})
ONE_WAYS = {
    "a": np.array([50.0, 1.0, 40.0, -3.0, 2.0]),  # values 1, 3, 4 are rare
    "b": np.array([90.0, 0.0]),  # one rare value: nothing to merge it with
    "c": np.array([1.0, 2.0, 3.0]),  # all rare
}


@pytest.fixture
def compression():
    return Compression.of_rare_values(ONE_WAYS, threshold=10.0, domain=DOMAIN)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return Table(np.column_stack([rng.integers(m, size=400) for m in DOMAIN.sizes]), DOMAIN)


def test_rare_values_share_the_last_code(compression):
    assert compression.codes["a"].tolist() == [0, 2, 1, 2, 2]
    assert compression.codes["b"].tolist() == [0, 1]
    assert compression.codes["c"].tolist() == [0, 0, 0]
    assert compression.compressed_domain.sizes == (3, 2, 1)


def test_counts_of_the_compressed_table_are_sums(compression, table):
    small = compression.compress(table)
    full = table.counts(("a", "b"))
    expected = np.stack([full[0], full[2], full[1] + full[3] + full[4]])
    np.testing.assert_array_equal(small.counts(("a", "b")), expected)
    np.testing.assert_allclose(compression.compress_one_way("a", ONE_WAYS["a"]), [50, 40, 0])


def test_expanded_marginal_keeps_sums_and_spreads_merged_values_evenly(compression):
    mu = np.arange(6.0).reshape(3, 2)
    full = compression.expand_marginal(("a", "b"), mu)
    np.testing.assert_allclose(full[[0, 2]], mu[:2])
    np.testing.assert_allclose(full[[1, 3, 4]], np.tile(mu[2] / 3, (3, 1)))
    np.testing.assert_allclose(compression.expand_marginal(("b", "a"), mu.T), full.T)
    assert compression.expand_marginal((), np.array(7.0)) == 7.0


def test_expanding_undoes_compressing_for_frequent_values(compression, table):
    back = compression.expand(compression.compress(table), np.random.default_rng(1))
    frequent = np.isin(table.column("a"), [0, 2])
    np.testing.assert_array_equal(back.column("a")[frequent], table.column("a")[frequent])
    np.testing.assert_array_equal(back.column("b"), table.column("b"))
    assert set(back.column("a")[~frequent]) == {1, 3, 4}


def test_merged_values_are_drawn_uniformly():
    # 30,000 draws of 3 values: a share is within 0.012 of 1/3 (4.4 standard deviations; false alarm 3e-5).
    domain = Domain.from_sizes({"c": 3})
    compression = Compression.of_rare_values({"c": np.zeros(3)}, threshold=1.0, domain=domain)
    rows = compression.compress(Table(np.zeros((30_000, 1), int), domain))
    drawn = compression.expand(rows, np.random.default_rng(0))
    assert np.abs(drawn.counts(("c",)) / 30_000 - 1 / 3).max() < 0.012


def test_attributes_with_structural_zeros_are_left_whole():
    zeros = StructuralZeros(("a", "b"), ((0, 0),))
    domain = Domain([Column("a", 5), Column("b", 2), Column("c", 3)], structural_zeros=[zeros])
    compression = Compression.of_rare_values(ONE_WAYS, threshold=10.0, domain=domain)
    assert compression.compressed_domain.sizes == (5, 2, 1)
    assert compression.compressed_domain.structural_zeros == (zeros,)


def test_an_empty_table_stays_empty(compression):
    empty = Table(np.empty((0, 3), int), DOMAIN)
    assert len(compression.expand(compression.compress(empty), np.random.default_rng(0))) == 0
