"""SWIFT on tables and workloads at the edge of what is allowed."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_limits
from tiers import others_slow

from marginalia.data.domain import Column, Domain, StructuralZeros
from marginalia.data.sources.files import stream_files
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.swift import SWIFT
from marginalia.privacy.calibration import gdp_mu


def table_of(sizes, n, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n) for size in sizes]) if n else np.zeros((0, len(sizes)), int)
    return Table(codes, Domain.from_sizes({f"c{i}": size for i, size in enumerate(sizes)}))


def spent(model):
    return sum((e.sensitivity / e.sigma) ** 2 for e in model.ledger_.events)


CASES = {
    "one column": ((3,), 100),
    "two columns": ((3, 4), 100),
    "one value": ((1, 4, 1), 100),
    "only one value": ((1, 1), 50),
    "no rows": ((3, 2, 2), 0),
    "one row": ((3, 2, 2), 1),
    "wide cells": ((900, 500, 2), 500),
}


# With one record replaced, the number of rows is public, and must be positive.
RELATIONS = [
    (case, relation)
    for case, (_, n) in CASES.items()
    for relation in ("add_remove", "replace_one")
    if n or relation == "add_remove"
]


@pytest.mark.parametrize("epsilon", others_slow([1e-3, 1.0, 100.0], 1.0))
@pytest.mark.parametrize(("case", "relation"), RELATIONS)
def test_every_table_is_fitted_with_the_whole_budget_and_no_more(case, epsilon, relation):
    sizes, n = CASES[case]
    model = SWIFT(epsilon=epsilon, relation=relation, random_state=1).fit(table_of(sizes, n))
    assert model.ledger_.certified
    assert spent(model) == pytest.approx(gdp_mu(epsilon, 1e-5) ** 2, rel=1e-6)
    for pair in itertools.combinations(model.domain_.names, 2):
        counts = model.marginal(pair)
        assert np.isfinite(counts).all()
        assert (counts >= 0).all()
    assert model.sample(20).n_rows == 20


def test_marginals_above_the_limit_are_left_out_and_those_of_order_three_measured():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 30_000))
    codes = np.column_stack([a, b, a ^ b, rng.integers(0, 2, 30_000)])  # no pair depends
    table = Table(codes, Domain.from_sizes(dict.fromkeys("abcd", 2)))
    model = SWIFT(epsilon=1.0, workload=3, random_state=0, relation="add_remove").fit(table)
    assert ("a", "b", "c") in model.measured_
    assert np.abs(model.marginal(("a", "b", "c")) - table.counts(("a", "b", "c"))).sum() < 300
    small = SWIFT(epsilon=1.0, workload=3, max_cells=4, random_state=0, relation="add_remove")
    with pytest.raises(InputError, match="max_cells"):
        small.fit(table)


def test_weights_draw_the_budget_and_the_order_of_a_workload_does_not_matter():
    table = table_of((3, 3, 3, 3), 5000)
    named = {("c0", "c1"): 8.0, ("c1", "c2"): 1.0, ("c2", "c3"): 1.0, ("c0",): 0.5}
    one, other = (
        SWIFT(epsilon=1.0, workload=w, random_state=3, relation="add_remove").fit(table)
        for w in (named, dict(reversed([*((q[::-1], weight) for q, weight in named.items())])))
    )
    assert one.measured_ == other.measured_
    assert np.array_equal(one.model_.theta, other.model_.theta)
    assert set(one.measured_) <= {("c0", "c1"), ("c1", "c2"), ("c2", "c3"), *((f"c{i}",) for i in range(4))}


def test_threads_of_the_linear_algebra_do_not_change_a_bit():
    table, found = table_of((30, 40, 30, 6), 4000), []
    for threads in (1, 4):
        with threadpool_limits(threads):
            found.append(SWIFT(epsilon=10.0, random_state=3, relation="add_remove").fit(table))
    assert found[0].measured_ == found[1].measured_
    assert np.array_equal(found[0].model_.theta, found[1].model_.theta)


def test_a_streamed_file_gives_the_bytes_of_the_table(tmp_path):
    table = table_of((5, 4, 3), 3000)
    table.to_parquet(tmp_path / "rows.parquet")
    streamed = stream_files(tmp_path / "rows.parquet", domain=table.domain)
    one, other = (SWIFT(epsilon=1.0, random_state=5, relation="add_remove").fit(source) for source in (table, streamed))
    assert one.measured_ == other.measured_
    assert np.array_equal(one.model_.theta, other.model_.theta)


def test_a_fit_that_is_killed_leaves_nothing_that_answers(monkeypatch):
    table, asked = table_of((3, 3, 3), 500), []

    def killed(names):
        asked.append(names)
        if len(asked) > 6:
            raise KeyboardInterrupt
        return Table.counts(table, names)

    monkeypatch.setattr(table, "counts", killed, raising=False)
    model = SWIFT(epsilon=1.0, random_state=0, relation="add_remove")
    with pytest.raises(KeyboardInterrupt):
        model.fit(table)
    with pytest.raises(NotFittedError, match="not fitted"):
        model.marginal(("c0", "c1"))


def test_impossible_cells_wider_than_the_limit_stay_empty():
    domain = Domain(
        [Column("a", 50), Column("b", 50), Column("c", 2)],
        structural_zeros=[StructuralZeros(("a", "b"), ((0, 0), (3, 4)))],
    )
    codes = np.column_stack([np.arange(900) % 49 + 1, np.arange(900) % 7, np.arange(900) % 2])
    model = SWIFT(epsilon=1.0, max_model_mb=0.01, random_state=0, relation="add_remove").fit(Table(codes, domain))
    assert model.marginal(("a", "b"))[0, 0] == 0.0
