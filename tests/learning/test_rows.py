import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from learning_helpers import make_table

from marginalia.data import Column, Domain, Table
from marginalia.data.encoding import Encoder
from marginalia.learning.rows import EXACT_ROWS, ArrayRows, TableRows, within_bounds
from marginalia.learning.statistics import statistic_sensitivities
from marginalia.methods.ada_ssp import AdaSSPRegressor
from marginalia.methods.ols import OLSRegressor
from marginalia.methods.ssp import SSPRegressor, _joint_sensitivity
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.relation import Neighbours, Relation

numbers = st.floats(-100, 100)


@pytest.mark.slow
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


def whole(X, y, x_unit, y_unit):
    """Z'Z of the rows rounded towards 0 to whole numbers of the units, in Python's integers."""
    # Quotients by a power of two are exact.
    rows = [[int(v / x_unit) for v in x] + [int(t / y_unit)] for x, t in zip(X.tolist(), y.tolist(), strict=True)]
    k = X.shape[1] + 1
    return [[sum(row[i] * row[j] for row in rows) for j in range(k)] for i in range(k)]


BOUNDS = st.one_of(st.floats(1e-3, 1e3), st.sampled_from([0.5, 1.0, 2.0, math.sqrt(14), np.nextafter(1.0, 0)]))


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 5), BOUNDS, BOUNDS)
@settings(max_examples=60)
def test_the_whole_gram_of_arrays_is_exact(seed, n, p, B, Y):
    rng = np.random.default_rng(seed)
    X = B * rng.standard_normal((n, p)) * 10 ** rng.uniform(-3, 2, (n, 1))
    rows = within_bounds(X, 2 * Y * rng.standard_normal(n), feature_bound=B, target_bound=Y)
    gram, x_unit, y_unit = rows.whole_gram()
    assert B / 2**15 < x_unit <= B / 2**14
    assert Y / 2**15 < y_unit <= Y / 2**14
    assert gram.dtype == np.int64
    assert gram.tolist() == whole(rows.X, rows.y, x_unit, y_unit)
    units = np.append(np.full(p, x_unit), y_unit)
    np.testing.assert_allclose(gram * np.outer(units, units), rows.gram, atol=n * max(B, Y) ** 2 / 2**13)
    together, x_near, y_near = rows.whole_gram(most_apart=4.0)
    assert max(x_near, y_near) <= 4 * min(x_near, y_near)
    assert max(x_near, y_near) == max(x_unit, y_unit)
    assert together.tolist() == whole(rows.X, rows.y, x_near, y_near)
    order = rng.permutation(n)
    assert ArrayRows(rows.X[order], rows.y[order], B, Y).whole_gram()[0].tolist() == gram.tolist()


@pytest.mark.parametrize("layout", ["C", "F"])
def test_sums_of_many_of_the_largest_rows_are_exact(layout):
    """300,000 rows at the bound, all of the same sign: entries near 2^48."""
    n = 300_000
    X = np.full((n, 3), np.nextafter(2.0, 0), order=layout)
    X[:, 1] *= -1
    X[::7, 2] = 1 / 3
    rows = ArrayRows(X, np.full(n, 1.0), feature_bound=2.0, target_bound=1.0)
    gram, x_unit, y_unit = rows.whole_gram()
    Z = np.trunc(np.column_stack([X / x_unit, rows.y / y_unit])).astype(np.int64)
    np.testing.assert_array_equal(gram, Z.T @ Z)


def test_the_whole_gram_of_a_table_is_exact(table):
    encoder = Encoder(table.domain, "pay", one_hot=["colour", "age"])
    rows = TableRows(table, encoder, "linear")
    gram, *units = rows.whole_gram()
    assert units == [2.0**-14] * 2
    assert gram.tolist() == whole(rows.X, rows.y, *units)


def test_both_kinds_of_rows_have_the_same_whole_gram(table):
    of_table = TableRows(table, Encoder(table.domain, "pay"), "linear")
    of_array = ArrayRows(of_table.X, of_table.y, 1.0, 1.0)  # the unit follows from the bound
    np.testing.assert_array_equal(of_table.whole_gram()[0], of_array.whole_gram()[0])


def assert_moves_by_no_more(parts, B, Y, c):
    """Of whole Z'Z of single records: one more, or one for another, moves what is released by what is declared."""
    p = len(parts[0]) - 1
    i, j = np.triu_indices(p)
    xx = np.array([part[:p, :p].ravel() for part in parts])
    xy = np.array([part[:p, p] for part in parts])
    joint = np.array([np.concatenate([part[i, j], part[:p, p]]) for part in parts])
    for relation in Relation:
        apart = statistic_sensitivities(Neighbours(relation), B, Y)
        for released, bound in (
            (xx, apart[0]),
            (xy, apart[1]),
            (joint, _joint_sensitivity(Neighbours(relation), B, Y, c)),
        ):
            replaced = released[:, None] - released[None]
            moved = np.linalg.norm(released if relation is Relation.ADD_REMOVE else replaced, axis=-1).max()
            assert moved <= bound * (1 + 1e-14)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), BOUNDS, BOUNDS)
@settings(max_examples=60)
def test_a_record_of_an_array_moves_the_whole_gram_by_no_more_than_is_declared(seed, p, B, Y):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, p)) * 3 * B
    X[:p] = 2 * B * np.eye(p)
    y = np.where(rng.random(40) < 0.7, np.sign(rng.standard_normal(40)) * 2 * Y, Y * rng.uniform(-1, 1, 40))
    rows, parts = within_bounds(X, y, feature_bound=B, target_bound=Y), []
    for k in range(40):
        gram, x_unit, y_unit = ArrayRows(rows.X[k : k + 1], rows.y[k : k + 1], B, Y).whole_gram()
        units = np.append(np.full(p, x_unit), y_unit)
        parts.append(gram * np.outer(units, units))
    assert_moves_by_no_more(parts, B, Y, B)


def test_a_record_of_a_table_moves_the_whole_gram_by_no_more_than_is_declared():
    """Every record of a small domain."""
    domain = Domain([Column("a", 3), Column("b", 5, "numeric"), Column("c", 2), Column("y", 6, "numeric")])
    codes = np.stack([axis.ravel() for axis in np.indices(domain.sizes)], axis=1)
    encoder, parts = Encoder(domain, "y"), []
    for row in codes:
        gram, unit, _ = TableRows(Table(row[None], domain), encoder, "linear").whole_gram()
        parts.append(gram * unit**2)
    assert_moves_by_no_more(parts, encoder.norm_bound, 1.0, 1.0)


class Many(Table):
    """A table of which every row stands `times` times."""

    @classmethod
    def of(cls, table, times):
        many = cls._trusted(table.codes, table.domain)
        many.table, many.times = table, times
        return many

    @property
    def n_rows(self):
        return self.table.n_rows * self.times

    def counts(self, names):
        return self.table.counts(names) * self.times


@pytest.mark.parametrize("target", ["pay", "rich"])
def test_sums_over_more_rows_than_memory_holds_are_exact(target):
    """6e9 rows: beyond what doubles hold, below what 64 bits do; times is odd, so that every bit counts."""
    table, times = make_table(2000), 3_000_001
    encoder = Encoder(table.domain, target)
    one, many = (TableRows(t, encoder, "linear") for t in (table, Many.of(table, times)))
    assert int(np.abs(many.whole_gram()[0]).max()) > 2**53
    np.testing.assert_array_equal(many.whole_gram()[0], times * one.whole_gram()[0])
    classes = table.domain[target].size
    np.testing.assert_array_equal(many.whole_class_gram(classes)[0], times * one.whole_class_gram(classes)[0])
    # A private number of rows ends in no error: entries beyond 2^62 are clipped, which moves no two further apart.
    found = TableRows(Many.of(table, 2**40), encoder, "linear").whole_gram()[0]
    exact = one.whole_gram()[0].astype(object) * 2**40
    assert int(exact.max()) > 2**63
    np.testing.assert_array_equal(found, np.clip(exact, -(2**62), 2**62).astype(np.int64))


def test_a_model_of_more_rows_than_memory_holds_is_that_of_the_rows():
    table = make_table(2000)
    many = Many.of(table, 3_000_001)
    fitted = SSPRegressor(epsilon=1.0, random_state=0, relation="add_remove").fit(many, "pay").coef_
    np.testing.assert_allclose(fitted, OLSRegressor().fit(table, "pay").coef_, atol=1e-4)
    for relation in ("add_remove", "replace_one"):
        fitted = AdaSSPRegressor(relation=relation, random_state=0).fit(many, "pay").coef_
        np.testing.assert_allclose(fitted, OLSRegressor().fit(table, "pay").coef_, atol=1e-4)


def test_the_eigenvalue_of_more_rows_than_it_has_room_for_falls_to_nothing():
    """Neighbours stay neighbours where the room ends: an error there would tell how many rows there are."""
    table, exact = make_table(400), []

    def hook(asked, value, draw):
        if asked.label == "smallest eigenvalue":
            exact.append(int(value()) * asked.quantum / asked.sensitivity)
        return draw()

    class Said(Many):
        @property
        def n_rows(self):
            return self.said

    for n in range(EXACT_ROWS - 40_000, EXACT_ROWS + 15_000, 5000):
        many = Said.of(table, EXACT_ROWS // 400)
        many.said = n
        with intercepting(hook):
            AdaSSPRegressor(fit_intercept=False, random_state=0, relation="add_remove").fit(many, "pay")
    assert exact[0] > 10_000
    assert exact[-3:] == [0.0, 0.0, 0.0]
    assert np.abs(np.diff(exact)).max() <= 5000


def test_sums_of_products_are_exact_for_any_number_of_rows_of_an_array(monkeypatch):
    rng = np.random.default_rng(0)
    rows = within_bounds(rng.uniform(-1, 1, (101, 3)), rng.uniform(-1, 1, 101), feature_bound=1.0, target_bound=1.0)
    whole = rows.whole_gram()[0]
    monkeypatch.setattr("marginalia.learning.rows.EXACT_ROWS", 10)
    np.testing.assert_array_equal(rows.whole_gram()[0], whole)


@pytest.mark.slow
def test_more_rows_of_an_array_than_one_product_is_exact_for():
    n = EXACT_ROWS + 1
    rows = ArrayRows(np.broadcast_to(1.0 - 2.0**-14, (n, 1)), np.broadcast_to(1.0, n), 1.0, 1.0)
    gram, x, y = rows.whole_gram()
    assert gram[0].tolist() == [n * (2**14 - 1) ** 2, n * (2**14 - 1) * 2**14]
    assert (x, y) == (2.0**-14, 2.0**-14)


def test_a_table_keeps_one_gram_for_each_unit():
    table = make_table(50)
    encoder = Encoder(table.domain, "pay")
    exact = encoder.gram(table)
    TableRows(table, encoder, "linear").whole_gram()
    assert encoder.gram(table) is exact
    assert encoder.gram(table, 2.0**-14) is encoder.gram(table, 2.0**-14)
    assert not np.array_equal(exact, encoder.gram(table, 2.0**-14) * 2.0**-28)


@pytest.mark.parametrize("learner", [SSPRegressor, AdaSSPRegressor])
@pytest.mark.parametrize(("B", "Y"), [(1.0, 1.0), (1.0, 300.0), (300.0, 1.0), (1.0, 1e5), (1e5, 1.0)])
def test_bounds_of_other_sizes_round_neither_rows_nor_targets_away(learner, B, Y):
    """Units follow from each bound; in one release they may be 2^9 apart: beyond, noise drowns the smaller anyway."""
    rng = np.random.default_rng(0)
    X = B * rng.uniform(-0.5, 0.5, (2000, 3))
    y = Y * (X / B @ [1.0, -0.5, 0.25])
    given = {"epsilon": 1e9, "relation": "add_remove", "feature_bound": B, "target_bound": Y, "random_state": 0}
    fitted = learner(**given).fit(X, y).coef_ * B / Y
    joint = learner is SSPRegressor and max(B, Y) / min(B, Y) > 2**9
    np.testing.assert_allclose(fitted, [1.0, -0.5, 0.25], atol=0.03 if joint else 1e-3)
