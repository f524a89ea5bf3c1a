"""What one round says: unbiased, with the variance it states, as generalised least squares has it."""

import numpy as np
import pytest
from redrawn import Redrawn, about, pairs, table_of

from marginalia.data import Domain
from marginalia.inference.estimates import ResidualEstimates, part_functions
from marginalia.subsets import subsets
from marginalia.synthesis.noisy_marginals import NoisyMarginal, noisy_marginals_as_state, state_as_noisy_marginals


def linear_oracle(domain, cliques, function, sigma):
    """Variance of the best linear unbiased estimate of <function, histogram>, from all answers at once."""
    shape = tuple(domain.sizes)
    cells = int(np.prod(shape))
    rows = []
    for q in cliques:
        axes = tuple(i for i, name in enumerate(domain.names) if name not in q)
        for index in range(cells):
            unit = np.zeros(cells)
            unit[index] = 1.0
            rows.append(unit.reshape(shape).sum(axis=axes).ravel())
    # rows hold columns of each query matrix, one block a query
    blocks = [np.array(rows[i * cells : (i + 1) * cells]).T for i in range(len(cliques))]
    A = np.vstack(blocks) / sigma
    information = A.T @ A
    return float(function.ravel() @ np.linalg.pinv(information) @ function.ravel())


@pytest.mark.parametrize("function_of", [("a",), ("b", "c"), ("a", "c")])
def test_variances_are_those_of_weighted_least_squares(function_of):
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 2})
    cliques = [("a", "b"), ("b", "c"), ("a", "c")]
    rng = np.random.default_rng(1)
    known = ResidualEstimates(
        domain, [NoisyMarginal(q, np.zeros([domain[a].size for a in q]), 1.5, 1.5) for q in cliques]
    )
    clique = tuple(domain.index(name) for name in function_of)
    f = rng.normal(size=[domain.sizes[a] for a in clique])
    _, variance = known.sum_of(part_functions(clique, f))
    whole = np.zeros(tuple(domain.sizes)) + np.expand_dims(f, tuple(i for i in range(3) if i not in clique))
    assert variance == pytest.approx(linear_oracle(domain, cliques, whole, 1.5), rel=1e-9)


def test_counts_and_their_covariance_are_what_sums_say():
    table = table_of((3, 2, 4), 400)
    known = Redrawn(table, pairs("abc"), 2.0).draw(np.random.default_rng(0)).rounds[0]
    counts, covariance = known.counts((0, 2)).ravel(), known.covariance((0, 2))
    for cell in range(12):
        one = np.zeros((3, 4))
        one.ravel()[cell] = 1.0
        value, variance = known.sum_of(part_functions((0, 2), one))
        assert counts[cell] == pytest.approx(value, abs=1e-9)
        assert covariance[cell, cell] == pytest.approx(variance, rel=1e-9)
        assert known.cell_variance((0, 2)) == pytest.approx(variance, rel=1e-9)
    f = np.random.default_rng(3).normal(size=12)
    assert f @ covariance @ f == pytest.approx(known.sum_of(part_functions((0, 2), f.reshape(3, 4)))[1], rel=1e-9)


@pytest.mark.slow
def test_sums_are_unbiased_and_spread_as_stated():
    table = table_of((3, 2, 4), 400)
    drawn, rng = Redrawn(table, pairs("abc"), 2.0, n_public=False), np.random.default_rng(7)
    f = rng.normal(size=(3, 4))
    truth = float((f * table.counts(("a", "c"))).sum())
    inside = 0
    for _ in range(2000):
        value, variance = drawn.draw(rng).rounds[0].sum_of(part_functions((0, 2), f))
        inside += abs(value - truth) <= 1.959964 * variance**0.5
    assert about(inside, 2000, 0.95)


def test_a_public_number_of_rows_is_known_without_noise():
    table = table_of((3, 2), 50)
    known = Redrawn(table, [("a",)], 5.0).draw(np.random.default_rng(0)).rounds[0]
    assert known.sum_of(part_functions((0,), np.ones(3))) == (50.0, 0.0)


def test_an_answer_of_merged_codes_says_nothing_of_each():
    domain = Domain.from_sizes({"a": 3})
    merged = NoisyMarginal(("a",), np.array([5.0, 4.0]), 1.0, 1.0, codes={"a": np.array([0, 1, 1])})
    assert not ResidualEstimates(domain, [merged]).holds((0,))


def test_the_sigma_that_was_drawn_counts_and_not_the_planned_one():
    domain = Domain.from_sizes({"a": 2})
    known = ResidualEstimates(domain, [NoisyMarginal(("a",), np.array([5.0, 4.0]), sigma=1.0, drawn=3.0)])
    assert known.sum_of(part_functions((0,), np.array([1.0, 0.0])))[1] == pytest.approx(9.0)


def test_answers_come_back_from_a_file_as_they_were():
    domain = Domain.from_sizes({"a": 3, "b": 2})
    given = [
        NoisyMarginal(("b", "a"), np.arange(6.0).reshape(2, 3), 1.0, 1.1, 2),
        NoisyMarginal(("a",), np.array([1.5, -2.0]), 2.0, 2.0, 0, codes={"a": np.array([0, 1, 1])}),
        NoisyMarginal((), np.array(7.25), 3.0, 3.0, 1, residual=True),
    ]
    back = state_as_noisy_marginals(domain, noisy_marginals_as_state(given))
    assert [a.attributes for a in back] == [a.attributes for a in given]
    for new, old in zip(back, given, strict=True):
        np.testing.assert_array_equal(new.values, old.values)
        assert (new.sigma, new.drawn, new.round, new.residual) == (old.sigma, old.drawn, old.round, old.residual)
        assert {k: v.tolist() for k, v in new.codes.items()} == {k: v.tolist() for k, v in old.codes.items()}


def test_parts_add_up_to_the_function():
    f = np.random.default_rng(0).normal(size=(2, 3, 4))
    parts = part_functions((0, 1, 2), f)
    axes = {part: tuple(i for i in range(3) if i not in part) for part in parts}
    np.testing.assert_allclose(sum(np.expand_dims(w, axes[part]) for part, w in parts.items()), f, atol=1e-12)
    assert sorted(parts) == sorted(subsets((0, 1, 2)))
