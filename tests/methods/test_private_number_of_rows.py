"""A private number of rows shows in no error: tables of none, one and very many rows are fitted alike."""

import numpy as np
import pytest
from test_contract import PRIVATE, SIZES, fitted, table

from marginalia.analyses.basis import MeasuredSum
from marginalia.data import Domain
from marginalia.methods import preconditioned_gd
from marginalia.methods.dp_sgd import descent
from marginalia.methods.dp_sgd.descent import Directions

HIDING = [case for case in PRIVATE if "add_remove" in case.values[0].relations]


@pytest.mark.parametrize(("method", "arm", "task"), HIDING)
def test_a_table_without_rows_is_fitted(method, arm, task):
    of_none, of_one = (
        fitted(method, arm, task, table(method, 4).take(slice(0, n)), relation="add_remove") for n in (0, 1)
    )
    assert of_none.ledger_.certified == of_one.ledger_.certified
    assert len(of_none.ledger_.events) > 0


def test_whitened_gradient_descent_takes_any_number_of_rows(monkeypatch):
    rows = table(n=200)

    def fit():
        model = preconditioned_gd.PreconditionedGDClassifier(relation="add_remove", n_public=200, random_state=0)
        return model.fit(rows, "y").coef_.tolist()

    expected = fit()
    monkeypatch.setattr("marginalia.learning.rows.EXACT_ROWS", 50)
    monkeypatch.setattr(preconditioned_gd, "MOST_ROWS", 50, raising=False)  # what was refused
    assert fit() == expected


def test_sums_of_many_directions_are_clipped(monkeypatch):
    rows = Directions.of(np.eye(3)[[0, 1, 2, 2]])
    multiple = np.array([1.0, -2.0, 2.0**20, 3.0])
    expected = rows.times(multiple)
    for name, few in (("_MANY", 2), ("_BLOCK", 3)):
        monkeypatch.setattr(descent, name, few)
        np.testing.assert_array_equal(rows.times(multiple), expected)
    monkeypatch.setattr("marginalia.data.encoding._LARGEST_SUM", 2**30)
    assert rows.times(multiple).tolist() == [2**15, -(2**16), 2**30]


def test_sums_of_declared_analyses_are_of_any_number_of_rows():
    class Many:
        domain = Domain.from_sizes({name: size for name, size, _ in SIZES})
        times = 1

        def counts(self, names):
            return np.array([1, 0, 2]) * self.times

    rows, group = Many(), MeasuredSum(0, 0, (0,), [(0, 0)], np.array([[2**30, 0, -(2**29)], [2**30, 2**30, 2**30]]))
    assert group.sums(rows).tolist() == [0, 3 * 2**30]
    rows.times = 2**32  # 3/2 of what 63 bits hold
    assert group.sums(rows).tolist() == [0, 2**62]
