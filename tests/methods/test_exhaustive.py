"""Gen_{d,sigma}: the search against brute force, its guarantee, its budget."""

import itertools
import math

import numpy as np
import pytest

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.privacy.calibration import gdp_epsilon
from marginalia.synthesis import Exhaustive
from marginalia.synthesis.base import Synthesizer


def binary(n=10, k=3, seed=0):
    rng = np.random.default_rng(seed)
    return Table((rng.random((n, k)) < np.linspace(0.2, 0.7, k)).astype(int), Domain.from_sizes({f"x{j}": 2 for j in range(k)}))  # fmt: skip  # noqa: E501


def worst(model, counts):
    """The objective straight from its definition."""
    table = np.asarray(counts).reshape(model.domain_.sizes)
    values = []
    for m in model.measurements_:
        axes = tuple(i for i, name in enumerate(model.domain_.names) if name not in m.attributes)
        values.append(np.abs(np.asarray(m.values) - table.sum(axis=axes)).sum())
    return max(values)


@pytest.mark.parametrize("seed", range(3))
def test_enumeration_finds_the_best_data_set(seed):
    model = Exhaustive(epsilon=1.0, order=2, search="exhaustive", random_state=seed).fit(binary(n=4, k=2, seed=seed))
    every = [c for c in itertools.product(range(5), repeat=4) if sum(c) == 4]
    assert len(every) == math.comb(7, 4)
    values = [worst(model, c) for c in every]
    assert model.objective_ == pytest.approx(min(values))
    assert worst(model, model.counts_) == pytest.approx(model.objective_)
    assert model.counts_.sum() == 4


@pytest.mark.parametrize("seed", range(4))
def test_the_program_comes_close_to_enumeration(seed):
    table = binary(seed=seed)
    exact, program = (
        Exhaustive(epsilon=2.0, order=2, search=s, random_state=seed).fit(table) for s in ("exhaustive", "program")
    )
    assert exact.objective_ <= program.objective_ + 1e-9
    assert program.objective_ <= exact.objective_ + 2.0  # one record moved changes a marginal by 2
    assert program.counts_.sum() == table.n_rows
    assert program.counts_.min() >= 0


@pytest.mark.parametrize("search", ["exhaustive", "program"])
def test_marginals_are_as_close_as_both_objectives_say(search):
    table = binary(seed=5)
    model = Exhaustive(epsilon=1.0, order=3, search=search, random_state=1).fit(table)
    rows = model.sample()
    assert rows.n_rows == table.n_rows
    distances = [
        np.abs(rows.counts(q) - table.counts(q)).sum()
        for k in (1, 2, 3)
        for q in itertools.combinations(table.domain.names, k)
    ]
    assert max(distances) <= model.objective_ + model.objective(table) + 1e-9
    np.testing.assert_array_equal(model.marginal(("x2", "x0")), rows.counts(("x2", "x0")))


def test_every_marginal_is_measured_and_charged():
    model = Exhaustive(epsilon=0.8, delta=1e-6, order=2, random_state=0).fit(binary())
    assert len(model.measurements_) == 3 + 3
    assert len(model.ledger_.events) == 6
    assert model.ledger_.epsilon(1e-6) == pytest.approx(0.8, rel=1e-6)


def test_the_papers_noise_overspends_where_it_counts_too_few_marginals():
    # Spec F2, nominal (1, 1e-6) for m features: d = 1 counts m marginals of m + 1.
    for m, order, epsilon in ((1, 1, 1.138), (1, 2, 1.418), (2, 2, 0.975)):
        model = Exhaustive(epsilon=1.0, delta=1e-6, order=order, calibration="published", random_state=0)
        model.fit(binary(k=m + 1))
        sigma = 2 * m ** (order / 2) * math.sqrt(math.log(1.25 / 1e-6))
        assert model.measurements_[0].sigma == pytest.approx(sigma)
        assert model.ledger_.epsilon(1e-6) == pytest.approx(epsilon, abs=1e-3)
        assert model.ledger_.epsilon(1e-6) == pytest.approx(
            gdp_epsilon(math.sqrt(2 * len(model.measurements_)) / sigma, 1e-6), rel=1e-6
        )
        assert model.ledger_.certified == (epsilon < 1)


def test_files_and_repeats(tmp_path):
    model = Exhaustive(epsilon=1.0, random_state=3).fit(binary())
    model.save(tmp_path / "model.npz")
    again = Synthesizer.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.counts_, model.counts_)
    assert again.objective(binary()) == model.objective(binary())
    np.testing.assert_array_equal(
        Exhaustive(epsilon=1.0, random_state=3).fit(binary()).sample(7).codes, model.sample(7).codes
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"order": 0}, "order"), ({"search": "quick"}, "search"), ({"relation": "add_remove"}, "relation")],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        Exhaustive(**parameters).fit(binary())


def test_a_large_domain_is_refused():
    with pytest.raises(InputError, match="limit is 1024"):
        Exhaustive().fit(binary(k=11))
