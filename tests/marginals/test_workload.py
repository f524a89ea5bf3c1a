import itertools

import numpy as np
import pytest

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.marginals import Workload, marginal_errors

DOMAIN = Domain.from_sizes({"a": 3, "b": 4, "c": 5, "d": 200})


def test_order_lists_and_weights():
    assert Workload.parse(2, DOMAIN).cliques == tuple(itertools.combinations(range(4), 2))
    assert Workload.parse(9, DOMAIN).cliques == ((0, 1, 2, 3),)
    assert Workload.parse(2, DOMAIN, max_cells=100).cliques == ((0, 1), (0, 2), (1, 2))
    weighted = Workload.parse([("c", "a"), (("b",), 2.5), ("a", "c")], DOMAIN)
    assert weighted.cliques == ((0, 2), (1,))
    assert weighted.weights == (2.0, 2.5)
    assert Workload.parse({("a", "b"): 3.0}, DOMAIN).weights == (3.0,)


def test_closure_weights_are_overlaps_with_the_workload():
    closure = Workload.parse([("a", "b"), (("b", "c"), 2.0)], DOMAIN).closure()
    # w_q = sum over members r of weight_r * |q ∩ r|
    assert closure == {(0,): 1.0, (1,): 3.0, (2,): 2.0, (0, 1): 4.0, (1, 2): 5.0}


def test_pairs_of_k_attributes_have_the_papers_weights():
    closure = Workload.parse(2, Domain.from_sizes({f"x{i}": 2 for i in range(15)})).closure()
    assert {w for q, w in closure.items() if len(q) == 1} == {14.0}
    assert {w for q, w in closure.items() if len(q) == 2} == {28.0}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (0, "positive order"),
        (True, "positive order"),
        ("ab", "positive order"),
        ([("a", "nope")], "unknown column 'nope'"),
        ([("a", "a")], "each once"),
        ([("a",), ()], "at least one attribute"),
        ([(("a", "b"), -1.0)], "weight"),
        ([(("a", "b"), 10**400)], "weight"),
        ([], "empty"),
        ([("a",), ("d", "c", "b")], "has 4000 cells, max_cells is 3000"),
    ],
)
def test_bad_workloads_are_refused(bad, message):
    with pytest.raises(InputError, match=message):
        Workload.parse(bad, DOMAIN, max_cells=3000)


def test_marginal_errors_are_half_l1_of_frequencies():
    one = Table([[0, 0, 0, 0], [1, 0, 0, 0]], DOMAIN)
    two = Table([[0, 0, 0, 0]] * 3, DOMAIN)
    np.testing.assert_allclose(marginal_errors([("a",), ("b", "c")], one, two), [0.5, 0.0])


def test_more_marginals_than_fit_in_memory_are_refused_before_they_are_listed():
    domain = Domain.from_sizes({f"x{j}": 2 for j in range(2000)})
    with pytest.raises(InputError, match=r"a workload of 664,668,499,500 marginals needs .* MB of memory"):
        Workload.parse(4, domain)
    with pytest.raises(InputError, match=r"smaller marginals inside needs .* MB of memory"):
        Workload.parse([domain.names[:60]], domain).closure()
