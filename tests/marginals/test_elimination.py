import math

import numpy as np
import pytest
from tiers import others_slow

from marginalia.marginals.elimination import eliminate, maximal, megabytes_with, orders


def reference(cliques, sizes):
    """The size rule by sets: greedy triangulation, maximal cliques, 8 bytes a cell."""
    left, live, made, order = set(range(len(sizes))), [frozenset(c) for c in cliques], [], []
    while left:
        scopes = {v: frozenset({v}).union(*(c for c in live if v in c)) for v in sorted(left)}
        v = min(sorted(left), key=lambda v: (math.prod(sizes[a] for a in scopes[v]), v))
        live = [c for c in live if v not in c] + [scopes[v] - {v}]
        made.append(scopes[v])
        order.append(v)
        left.discard(v)
    top = {c for c in made if not any(c < other for other in made)}
    return order, sum(math.prod(sizes[a] for a in c) for c in top) * 8 / 2**20


@pytest.mark.parametrize("d", others_slow([1, 4, 9, 25, 70, 130], 1, 4, 9, 25))
def test_order_and_size_equal_the_set_version(d):
    rng = np.random.default_rng(d)
    for _ in range(20):
        sizes = rng.integers(1, 30, d).tolist()
        cliques = [
            tuple(sorted(rng.choice(d, int(rng.integers(1, min(4, d) + 1)), replace=False).tolist()))
            for _ in range(int(rng.integers(0, 2 * d)))
        ]
        order, megabytes = reference(cliques, sizes)
        made = eliminate(cliques, sizes)
        assert made.megabytes == pytest.approx(megabytes, rel=1e-12)
        assert list(made.order) == order


def test_candidates_are_sized_one_at_a_time():
    sizes = [4, 5, 6, 7]
    base = [(0, 1), (2, 3)]
    candidates = [(0,), (1, 2), (0, 3), (0, 1, 2, 3)]
    got = megabytes_with(base, candidates, sizes)
    expected = [reference([*base, q], sizes)[1] for q in candidates]
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("d", others_slow([5, 12, 80], 5, 12))
def test_sizes_of_candidates_on_random_graphs_equal_the_set_version(d):
    rng = np.random.default_rng(d)
    for _ in range(6):  # from many components to one, with attributes of one value
        sizes = rng.integers(1, 8, d).tolist()
        draws = [
            rng.choice(d, int(rng.integers(1, 4)), replace=False).tolist() for _ in range(int(rng.integers(0, d)) + 8)
        ]
        base, candidates = ([tuple(sorted(q)) for q in part] for part in (draws[8:], draws[:8]))
        expected = [reference([*base, q], sizes)[1] for q in candidates]
        np.testing.assert_allclose(megabytes_with(base, candidates, sizes), expected, rtol=1e-12)


def test_known_size():
    # A cycle of four: triangulated into two cliques of three binary attributes.
    assert eliminate([(0, 1), (1, 2), (2, 3), (0, 3)], [2] * 4).megabytes == 16 * 8 / 2**20


def test_maximal_drops_nested_and_repeated_cliques():
    assert maximal([(0,), (0, 1), (1, 0), (2,), (1, 2, 3)]) == [(0, 1), (1, 2, 3)]


def greedy(cliques, sizes, price):
    """An order by sets, with its messages' axes and their cells; `price` is of an attribute and a graph."""
    near = {v: {v}.union(*(c for c in cliques if v in c)) for v in range(len(sizes))}
    order, separators = [], []
    while near:
        v = min(near, key=lambda v: (price(v, near, sizes), v))
        message = near.pop(v) - {v}
        for u in message:
            near[u] = (near[u] | message) - {v}
        order.append(v)
        separators.append(tuple(sorted(message)))
    return tuple(order), tuple(separators), sum(math.prod(sizes[a] for a in s) for s in separators)


PRICES = [
    lambda v, near, sizes: math.prod(sizes[a] for a in near[v] - {v}),
    lambda v, near, sizes: math.prod(sizes[a] for a in near[v]),
    lambda v, near, sizes: sum(sizes[a] * sizes[b] for a in near[v] - {v} for b in near[v] - near[a]),
]


@pytest.mark.parametrize("d", [1, 4, 9, 25, 70])
def test_orders_equal_the_set_version(d):
    rng = np.random.default_rng(d)
    for _ in range(8):
        sizes = rng.integers(1, 6, d).tolist()
        cliques = [tuple(sorted(rng.choice(d, min(d, 3), replace=False).tolist())) for _ in range(rng.integers(0, d))]
        for made, price in zip(orders(cliques, sizes), PRICES, strict=True):
            order, separators, cells = greedy(cliques, sizes, price)
            assert (made.order, made.separators) == (order, separators)
            assert made.cells == pytest.approx(cells, rel=1e-12)


def test_maximal_cliques_are_those_in_no_other():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sets = [frozenset(rng.choice(8, rng.integers(0, 5), replace=False).tolist()) for _ in range(12)]
        expected = sorted(tuple(sorted(s)) for s in {s for s in sets if not any(s < t for t in sets)})
        assert maximal([tuple(s) for s in sets]) == expected
