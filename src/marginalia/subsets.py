"""Subsets of a clique of attributes, and sets of attributes that have no common member."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)


class DisjointSets(Generic[H]):
    """Disjoint sets that can be merged, at first one for each member.

    `scipy.cluster.hierarchy.DisjointSet` does the same, but its import loads `scipy.spatial`: 0.2 CPU seconds in each
    job of a sweep.

    >>> sets = DisjointSets("abc")
    >>> sets.merge("a", "b"), sets.merge("b", "a"), sets.connected("a", "b"), sets.connected("a", "c")
    (True, False, True, False)
    """

    def __init__(self, members: Iterable[H]) -> None:
        self._above = {member: member for member in members}

    def __getitem__(self, member: H) -> H:
        """Return the representative of the set of a member."""
        above = self._above
        while above[member] != member:
            above[member] = member = above[above[member]]
        return member

    def connected(self, one: H, other: H) -> bool:
        """Return whether two members are in the same set."""
        return self[one] == self[other]

    def merge(self, one: H, other: H) -> bool:
        """Merge the sets of two members, and return whether they were different."""
        first, second = self[one], self[other]
        self._above[second] = first
        return first != second


def subsets(clique: Sequence[T], *, smallest: int = 0) -> Iterator[tuple[T, ...]]:
    """Yield every subset of a clique with at least `smallest` members, by size, the whole included.

    >>> list(subsets((0, 2)))
    [(), (0,), (2,), (0, 2)]
    """
    for size in range(smallest, len(clique) + 1):
        yield from itertools.combinations(clique, size)
