"""A junction tree, grown pair by pair, that holds the marginals on which a model without edges is worst."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scipy.cluster.hierarchy import DisjointSet

from marginalia.marginals.elimination import Clique, eliminate, maximal

PENALTIES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # in records a cell


class CliqueTree:
    """A forest of cliques in which the cliques that hold an attribute are connected, within a number of cells.

    >>> tree = CliqueTree([(0,), (1,), (2,)], (2, 3, 4), max_cells=18.0)
    >>> [tree.add(0, 1), tree.add(1, 2), tree.add(0, 2)], tree.cliques  # the three together have 24 cells
    ([True, True, False], [(0, 1), (1, 2)])
    """

    def __init__(self, cliques: Iterable[Clique], sizes: Sequence[int], *, max_cells: float) -> None:
        self._sizes = sizes
        self._max_cells = max_cells  # of all cliques together
        at_first = maximal([*eliminate(cliques, sizes).scopes, *((a,) for a in range(len(sizes)))])
        self._members = {i: set(c) for i, c in enumerate(at_first)}
        self._next: dict[int, set[int]] = {i: set() for i in self._members}
        self._holders: list[set[int]] = [{i for i, c in self._members.items() if a in c} for a in range(len(sizes))]
        self._parts = DisjointSet(range(len(sizes)))  # of attributes
        self.cells = float(sum(map(self._cells, self._members.values())))
        # The heaviest spanning forest by shared attributes is a junction tree of a triangulated graph.
        pairs = [(i, j) for i, j in itertools.combinations(self._members, 2) if self._members[i] & self._members[j]]
        joined = DisjointSet(self._members)
        for i, j in sorted(pairs, key=lambda e: -len(self._members[e[0]] & self._members[e[1]])):
            if joined.merge(i, j):
                self._link(i, j)
        for c in at_first:
            for a in c[1:]:
                self._parts.merge(c[0], a)

    @property
    def cliques(self) -> list[Clique]:
        """The cliques, none of them inside another one."""
        return sorted(tuple(sorted(c)) for c in self._members.values())

    @property
    def edges(self) -> list[tuple[Clique, Clique]]:
        """Neighbouring cliques."""
        named = {i: tuple(sorted(c)) for i, c in self._members.items()}
        return sorted((named[i], named[j]) for i, near in self._next.items() for j in near if i < j)

    def holds(self, clique: Clique) -> bool:
        """Return whether some clique holds all these attributes."""
        return bool(set.intersection(*(self._holders[a] for a in clique)))

    def add(self, a: int, b: int) -> bool:
        """Make some clique hold both attributes; return False, and change nothing, where none may.

        Attributes of two components are linked by a clique of their own. In one component a clique takes in an
        attribute of its neighbour, the cheapest clique where several can.
        """
        if self.holds((a, b)):
            return True
        if not self._parts.connected(a, b):
            return self._join(a, b)
        path = self._path(a, b)
        plans = [[(i, a) for i in path[1 : k + 1]] + [(i, b) for i in path[k:-1]] for k in range(len(path))]
        plan = min(plans, key=self._more)
        if self.cells + self._more(plan) > self._max_cells:
            return False
        self.cells += self._more(plan)
        for i, x in plan:
            self._members[i].add(x)
            self._holders[x].add(i)
        for i in path:
            if i in self._members:
                self._absorb(i)
        return True

    def _path(self, a: int, b: int) -> list[int]:
        """Return the cliques between those that hold a and those that hold b, with the last one of either."""
        came: dict[int, int] = {}
        now = sorted(self._holders[a])
        seen = set(now)
        while not (found := self._holders[b].intersection(now)):
            later = [(j, i) for i in now for j in self._next[i] if j not in seen]
            came.update(later)
            now = [j for j, _ in later]
            seen.update(now)
        (end,) = found
        path = [end]
        while path[-1] in came:
            path.append(came[path[-1]])
        return path[::-1]

    def _join(self, a: int, b: int) -> bool:
        lone = [x for x in (a, b) if any(len(self._members[i]) == 1 for i in self._holders[x])]
        more = self._sizes[a] * self._sizes[b] - sum(self._sizes[x] for x in lone)
        if self.cells + more > self._max_cells:
            return False
        new = 1 + max(self._members)
        ends = [min(self._holders[x]) for x in (a, b)]
        self._members[new], self._next[new] = {a, b}, set()
        self.cells += self._sizes[a] * self._sizes[b]
        for x, end in zip((a, b), ends, strict=True):
            self._holders[x].add(new)
            self._link(new, end)
        self._parts.merge(a, b)
        self._absorb(new)
        return True

    def _more(self, plan: Sequence[tuple[int, int]]) -> float:
        """Return how many cells more it takes to add attributes to cliques, before any clique is dropped."""
        wider = {i: math.prod(self._sizes[x] for k, x in plan if k == i) for i, _ in plan}
        return sum(self._cells(self._members[i]) * (times - 1) for i, times in wider.items())

    def _absorb(self, i: int) -> None:
        """Drop the neighbours that lie inside clique i; their other neighbours become its own."""
        for j in [j for j in self._next[i] if self._members[j] <= self._members[i]]:
            self.cells -= self._cells(self._members[j])
            for k in self._next.pop(j):
                self._next[k].remove(j)
                if k != i:
                    self._link(i, k)
            for a in self._members.pop(j):
                self._holders[a].remove(j)

    def _link(self, i: int, j: int) -> None:
        self._next[i].add(j)
        self._next[j].add(i)

    def _cells(self, clique: Iterable[int]) -> float:
        return math.prod(float(self._sizes[a]) for a in clique)


def grow_trees(
    errors: Mapping[Clique, float], sizes: Sequence[int], *, max_cells: float, start: Iterable[Clique] = ()
) -> Iterator[CliqueTree]:
    """Yield a tree for each of several penalties on cells.

    Parameters
    ----------
    errors : mapping of Clique to float
        Of every candidate; the pairs among them are tried, the largest error less penalty·cells first, until none can
        be added.
    sizes : sequence of int
        Numbers of codes of the attributes.
    max_cells : float
        Of all cliques together; those of `start` may exceed it.
    start : iterable of Clique
        Cliques that the tree holds in any case.

    Examples
    --------
    >>> next(grow_trees({(0, 1): 5.0, (1, 2): 9.0, (0, 2): 1.0}, (2, 3, 4), max_cells=18.0)).cliques
    [(0, 1), (1, 2)]
    """
    start = list(start)
    cells = {q: math.prod(sizes[a] for a in q) for q in errors if len(q) == 2}
    for penalty in PENALTIES:
        tree = CliqueTree(start, sizes, max_cells=max_cells)
        left = sorted(cells, key=lambda q, penalty=penalty: penalty * cells[q] - errors[q])  # type: ignore[misc]
        while left:
            before = len(left)
            left = [q for q in left if not tree.add(*q)]
            if len(left) == before:
                break
        yield tree
