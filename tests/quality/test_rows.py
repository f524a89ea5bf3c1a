"""Copies of real rows, and rows that cannot be."""

import numpy as np

from marginalia.data.domain import Domain, StructuralZeros
from marginalia.data.table import Table
from marginalia.quality.quality import copies, impossible


def test_copies_are_those_of_a_search():
    rng = np.random.default_rng(0)
    domain = Domain.from_sizes({"a": 3, "b": 3, "c": 3})
    real, made = (Table(rng.integers(0, 3, (n, 3)), domain) for n in (21, 15))
    rows, others = ([tuple(row) for row in t.codes.tolist()] for t in (real, made))
    order = np.random.default_rng(5).permutation(21)
    half, rest = [rows[i] for i in order[:10]], [rows[i] for i in order[10:]]
    found = copies(real, made, seed=5)
    assert found.synthetic == sum(row in half for row in others) / 15
    assert found.fresh == sum(row in half for row in rest) / 11
    alone = [row for row in rows if rows.count(row) == 1]
    assert (found.unique, found.unique_found) == (len(alone), sum(row in others for row in alone))
    assert 0 < found.unique_found < found.unique


def test_columns_are_matched_by_name():
    real = Table([[0, 1], [0, 2]], Domain.from_sizes({"a": 3, "b": 3}))
    made = Table([[1, 0], [2, 0]], Domain.from_sizes({"b": 3, "a": 3}))
    assert copies(real, made).unique_found == 2


def test_impossible_rows_are_counted_once():
    zeros = (StructuralZeros(("a", "b"), ((0, 1), (2, 2))), StructuralZeros(("b",), ((1,),)))
    domain = Domain(Domain.from_sizes({"b": 3, "a": 3}), structural_zeros=zeros)
    assert impossible(Table([[1, 0], [2, 2], [1, 1], [0, 0], [2, 0]], domain)) == 3
