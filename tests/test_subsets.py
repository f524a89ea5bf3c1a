"""Disjoint sets against those of SciPy."""

import random

import pytest
from scipy.cluster.hierarchy import DisjointSet

from marginalia.subsets import DisjointSets


@pytest.mark.parametrize("seed", range(5))
def test_disjoint_sets_are_those_of_scipy(seed):
    draw, members = random.Random(seed), [*range(20), "a", ("b", 1)]
    ours, theirs = DisjointSets(members), DisjointSet(members)
    for _ in range(40):
        one, other = draw.choices(members, k=2)
        if draw.random() < 0.5:
            assert ours.merge(one, other) == theirs.merge(one, other)
        assert ours.connected(one, other) == theirs.connected(one, other)
    together = {frozenset(m for m in members if ours[m] == root) for root in map(ours.__getitem__, members)}
    assert together == set(map(frozenset, theirs.subsets()))


def test_a_member_must_be_known():
    with pytest.raises(KeyError):
        DisjointSets("ab").merge("a", "c")
