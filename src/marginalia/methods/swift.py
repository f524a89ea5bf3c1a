"""SWIFT, the one-shot relative of AIM, after the description and the open source of google/dpsynth (2026).

A junction tree is grown pair by pair, so that it holds the marginals on which a model without edges is worst; then all
that pays in it is measured at once, each marginal with its part of the budget.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from marginalia.data.domain import Domain
from marginalia.data.table import CountSource
from marginalia.marginals.elimination import Clique, eliminate, maximal
from marginalia.marginals.estimation import FitSettings, estimate, zero_cliques
from marginalia.marginals.model import GraphicalModel
from marginalia.marginals.workload import Workload, WorkloadLike
from marginalia.privacy import checks
from marginalia.privacy.costs import CompositionBudget
from marginalia.privacy.session import Session
from marginalia.synthesis.base import ModelSynthesizer, State, check_model_size
from marginalia.synthesis.measuring import measure_all, number_of_records

_SELECTION = 0.1  # share of the budget
_ONE_WAYS = 1 / 16  # the same, for all one-way marginals together: AIM's share at its 16 rounds an attribute
# A fit that is stopped so early errs up to 8 % less than a tight one, which follows the noise, and takes a tenth.
_FIT = FitSettings(t=10.0, gap=0.01, decrease=1e-3, passes=400)
_UNIT = 2.0**-16  # records: expected counts are rounded to it


@dataclass(eq=False, repr=False, kw_only=True)
class SWIFT(ModelSynthesizer):
    """Look at the errors of all candidates once, choose a tree of cliques, measure what pays in it, fit once.

    The one-way marginals are measured; the L1 distance of every larger candidate from their product is released with
    Gaussian noise; a junction tree is grown around the pairs of large errors (`grow_trees`); the candidates inside its
    cliques that reduce the expected error most are measured, each with the noise that serves all best, and one-way
    marginals again where much relies on them (`allocate`). Of several trees the one that is worth most is taken.

    Privacy: Gaussian releases alone, exact in Gaussian DP. The distances are sums of whole numbers: the model's counts,
    which are public, are rounded to a public unit, so that one record moves each by 1 (``add_remove``) or 2 at most.

    Parameters
    ----------
    epsilon : float, default 1.0
    delta : float, default 1e-5
    workload : int, iterable or mapping, default 2
        As for `AIM`.
    max_model_mb : float, default 80
        Largest junction tree, counted as for `AIM`.
    max_cells : float, default 1e6
        Larger marginals of a workload given by its order are left out; named ones are refused.
    relation : {"replace_one", "add_remove"}, default "replace_one"
    calibration : {"tight"}, default "tight"
    random_state : int, numpy.random.SeedSequence or None, default None

    Attributes
    ----------
    model_ : GraphicalModel
    tree_ : list of tuple of str
        Cliques of the junction tree.
    measured_ : dict of tuple of str to float
        Chosen marginals and the standard deviation of their noise.

    Notes
    -----
    Differences from google/dpsynth: the size of the whole junction tree is bounded, as AIM's is, and not that of each
    clique; and a pair of one component that no two neighbouring cliques hold widens all cliques between them. On a
    table of 40 columns (`benchmarks/wide.py`) that took the error from .0098 to .0058 (one seed).

    Examples
    --------
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 0, 1], [1, 2, 0], [1, 1, 0]] * 500, Domain.from_sizes({"a": 2, "b": 3, "c": 2}))
    >>> swift = SWIFT(epsilon=1.0, random_state=0).fit(table)
    >>> swift.ledger_.certified, swift.tree_, sorted(swift.measured_)
    (True, [('a', 'b', 'c')], [('a', 'b'), ('a', 'c'), ('b', 'c')])
    """

    UNITS: ClassVar[bool] = True
    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("tight",)

    workload: WorkloadLike = 2
    max_model_mb: float = 80
    max_cells: float = 1e6
    tree_: list[tuple[str, ...]] = field(init=False)
    measured_: dict[tuple[str, ...], float] = field(init=False)

    def _check_cost(self, domain: Domain) -> None:
        super()._check_cost(domain)
        if self.max_cells != math.inf:
            checks.positive("max_cells", self.max_cells)
        check_model_size("SWIFT", self.max_model_mb, domain)

    def _release(self, table: CountSource, session: Session) -> None:
        domain, names = table.domain, table.domain.names
        weights = Workload.parse(self.workload, domain, max_cells=self.max_cells).closure()
        larger = {q: tuple(names[a] for a in q) for q in weights if len(q) > 1}
        singles = [(names[q[0]],) for q in weights if len(q) == 1]
        budget = CompositionBudget.of(*session.ledger.remaining_budget(), "gdp").total
        sensitivity = session.neighbours.marginal_sensitivity_l2
        price = (_ONE_WAYS if larger else 1.0) * budget / len(singles)
        self.measurements_ = measured = measure_all(table, singles, sensitivity / math.sqrt(price), session)
        total = number_of_records(table, session.ledger, measured)
        self.tree_, self.measured_ = [(name,) for name in names], {}
        if larger:
            model = estimate(domain, measured, total=total)
            errors = _released_errors(table, model, larger, _SELECTION * budget, session)
            tree, parts = self._plan(domain, weights, errors, (1 - _SELECTION - _ONE_WAYS) * budget, price, sensitivity)
            self.tree_ = [tuple(names[a] for a in c) for c in tree.cliques]
            for q, part in parts.items():
                marginal, sigma = tuple(names[a] for a in q), sensitivity / math.sqrt(part)
                measured += measure_all(table, [marginal], sigma, session, round=1)
                self.measured_[marginal] = sigma
            total = number_of_records(table, session.ledger, measured)
        self.model_ = estimate(domain, measured, total=total, settings=_FIT)
        self.n_rows_ = table.n_rows if session.neighbours.n_rows_public else round(total)

    def _plan(
        self,
        domain: Domain,
        weights: Mapping[Clique, float],
        errors: Mapping[Clique, float],
        budget: float,
        paid: float,
        sensitivity: float,
    ) -> tuple[CliqueTree, dict[Clique, float]]:
        """Return the tree that is worth most, and what is measured in it; all of it follows from released numbers."""
        top = max(weights[q] for q in errors)  # weights of at most 1: penalties on cells are in records
        weights = {q: weight / top for q, weight in weights.items()}
        cells = {q: domain.n_cells([domain.names[a] for a in q]) for q in weights}
        unit = math.sqrt(2 / math.pi) * sensitivity
        best: tuple[CliqueTree, Allocation] | None = None
        gains = {q: weights[q] * error for q, error in errors.items()}
        for tree in grow_trees(gains, domain.sizes, max_cells=self.max_model_mb * 2**17, start=zero_cliques(domain)):
            held = {q: error for q, error in errors.items() if tree.holds(q)}
            allocated = allocate(held, weights, cells, budget=budget, paid=paid, unit=unit)
            if best is None or allocated.value > best[1].value:
                best = tree, allocated
        assert best is not None
        return best[0], best[1].parts

    def _state(self) -> State:
        chosen = {"tree": self.tree_, "measured": list(self.measured_.items())}
        return {**super()._state(), "chosen": np.frombuffer(json.dumps(chosen).encode(), np.uint8)}

    def _restore(self, state: State) -> None:
        super()._restore({k: v for k, v in state.items() if k != "chosen"})
        chosen = json.loads(state["chosen"].tobytes())
        self.tree_ = [tuple(c) for c in chosen["tree"]]
        self.measured_ = {tuple(q): sigma for q, sigma in chosen["measured"]}


def _released_errors(
    table: CountSource,
    model: GraphicalModel,
    marginals: Mapping[Clique, tuple[str, ...]],
    price: float,
    session: Session,
) -> dict[Clique, float]:
    """Release the L1 distances of `marginals` from the model, all at once."""
    model.expect(marginals)
    table.expect(marginals.values())

    def distances() -> NDArray[np.int64]:
        out = np.empty(len(marginals), np.int64)
        for i, (q, names) in enumerate(marginals.items()):
            expected = np.rint(model.probabilities(q) * (model.total / _UNIT)).astype(np.int64)
            out[i] = np.abs(round(1 / _UNIT) * np.asarray(table.counts(names), np.int64) - expected).sum()
        return out

    sensitivity = session.neighbours.marginal_sensitivity_l1 * math.sqrt(len(marginals))
    noisy = session.gaussian(
        distances,
        sensitivity=sensitivity,
        sigma=sensitivity / math.sqrt(price),
        quantum=_UNIT,
        label="errors of the one-way model",
    )
    return dict(zip(marginals, noisy.tolist(), strict=True))


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
        self._cells = {i: math.prod(sizes[a] for a in c) for i, c in self._members.items()}
        self._next: dict[int, set[int]] = {i: set() for i in self._members}
        self._holders: list[set[int]] = [{i for i, c in self._members.items() if a in c} for a in range(len(sizes))]
        self._parts = DisjointSet(range(len(sizes)))  # of attributes
        self._rooted: tuple[dict[int, int], dict[int, int]] | None = None  # of the cliques: parents, depths
        self.cells = sum(self._cells.values())
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
        place, more = self._cheapest(path, a, b)
        if self.cells + more > self._max_cells:
            return False
        for x, cliques in ((a, path[1 : place + 1]), (b, path[place:-1])):
            for i in cliques:
                self._widen(i, x)
        for i in path:
            if i in self._members:
                self._absorb(i)
        self._rooted = None
        return True

    def _path(self, a: int, b: int) -> list[int]:
        """Return the cliques between those that hold a and those that hold b, with the last one of either."""
        parent, depth = self._rooted = self._rooted or self._root()
        # The holders of an attribute are a subtree. From the tops of both, the lower side climbs until they meet.
        up, down = ([min(self._holders[x], key=depth.__getitem__)] for x in (a, b))
        while up[-1] != down[-1]:
            if depth[up[-1]] > depth[down[-1]]:
                up.append(parent[up[-1]])
                if up[-1] in self._holders[b]:
                    return up
            else:
                down.append(parent[down[-1]])
                if down[-1] in self._holders[a]:
                    return down[::-1]
        return up + down[-2::-1]

    def _root(self) -> tuple[dict[int, int], dict[int, int]]:
        parent: dict[int, int] = {}
        depth: dict[int, int] = {}
        for root in self._members:
            if root not in depth:
                depth[root], found = 0, [root]
                for i in found:
                    new = [j for j in self._next[i] if j not in depth]
                    parent.update(dict.fromkeys(new, i))
                    depth.update(dict.fromkeys(new, depth[i] + 1))
                    found += new
        return parent, depth

    def _cheapest(self, path: Sequence[int], a: int, b: int) -> tuple[int, int]:
        """Return the place on the path up to which cliques take in `a`, and from which they take in `b`, and the cost.

        The cost is in cells, before any clique is dropped. The first clique holds `a` already, and the last one `b`.
        """
        cells, last = [self._cells[i] for i in path], len(path) - 1
        more_a, more_b = self._sizes[a] - 1, self._sizes[b] - 1
        cost = more_b * sum(cells[:-1])  # all but the last take in b
        best = 0, cost
        for k in range(1, last + 1):
            cost += more_a * cells[k] - more_b * cells[k - 1]
            both = more_a * more_b * cells[k] if k < last else 0  # the clique in between is multiplied by both sizes
            if cost + both < best[1]:
                best = k, cost + both
        return best

    def _widen(self, i: int, x: int) -> None:
        self._members[i].add(x)
        self._holders[x].add(i)
        self.cells += self._cells[i] * (self._sizes[x] - 1)
        self._cells[i] *= self._sizes[x]

    def _join(self, a: int, b: int) -> bool:
        lone = [x for x in (a, b) if any(len(self._members[i]) == 1 for i in self._holders[x])]
        more = self._sizes[a] * self._sizes[b] - sum(self._sizes[x] for x in lone)
        if self.cells + more > self._max_cells:
            return False
        new = 1 + max(self._members)
        ends = [min(self._holders[x]) for x in (a, b)]
        self._members[new], self._next[new] = {a, b}, set()
        self._cells[new] = self._sizes[a] * self._sizes[b]
        self.cells += self._cells[new]
        for x, end in zip((a, b), ends, strict=True):
            self._holders[x].add(new)
            self._link(new, end)
        self._parts.merge(a, b)
        self._absorb(new)
        self._rooted = None
        return True

    def _absorb(self, i: int) -> None:
        """Drop the neighbours that lie inside clique i; their other neighbours become its own."""
        for j in [j for j in self._next[i] if self._members[j] <= self._members[i]]:
            self.cells -= self._cells.pop(j)
            for k in self._next.pop(j):
                self._next[k].remove(j)
                if k != i:
                    self._link(i, k)
            for a in self._members.pop(j):
                self._holders[a].remove(j)

    def _link(self, i: int, j: int) -> None:
        self._next[i].add(j)
        self._next[j].add(i)


def grow_trees(
    errors: Mapping[Clique, float], sizes: Sequence[int], *, max_cells: float, start: Iterable[Clique] = ()
) -> Iterator[CliqueTree]:
    """Yield a tree for each order in which several penalties on cells put the pairs.

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
    orders = (tuple(sorted(cells, key=lambda q: p * cells[q] - errors[q])) for p in PENALTIES)
    for order in dict.fromkeys(orders):
        tree, left = CliqueTree(start, sizes, max_cells=max_cells), list(order)
        while left:
            before = len(left)
            left = [q for q in left if not tree.add(*q)]
            if len(left) == before:
                break
        yield tree


_WORTHWHILE = 1.1  # a one-way marginal is measured again if its part is so many times what it has had


@dataclass(frozen=True)
class Allocation:
    """What to measure.

    >>> Allocation(value=2.5, parts={(0, 1): 0.1}).parts[0, 1]
    0.1
    """

    value: float  # expected decrease of the weighted error, in records
    parts: dict[Clique, float]  # of the budget, for each marginal to measure


def allocate(
    errors: Mapping[Clique, float],
    weights: Mapping[Clique, float],
    cells: Mapping[Clique, int],
    *,
    budget: float,
    paid: float,
    unit: float,
) -> Allocation:
    """Choose the marginals to measure, and divide the budget among them and the one-way marginals.

    A marginal q with a part B_q errs by N_q/√B_q = unit·cells_q/√B_q. One that is not measured keeps its error under
    the one-way model, and that model's noise: N_a/√B_a for each attribute a in it. With weights w_q, a set S is worth

        Σ_S w_q error_q - Σ_S w_q N_q/√B_q - Σ_a W_a N_a/√B_a,

    W_a being the weight of all candidates outside S that hold a. For a given S the best parts are proportional to
    y = (weight·N)^(2/3), and S is worth Σ_S w_q error_q - (Σ y)^(3/2)/√B. Of the sets that take the largest
    w_q error_q/y_q first, the best is taken. What a chosen q tells of its attributes, B_q·cells_a/cells_q, comes off
    the parts of their one-way marginals; one whose part is then what it has had, or little more, is not measured again,
    and the others share the rest.

    Parameters
    ----------
    errors : mapping of Clique to float
        In records, of the candidates that may be measured.
    weights : mapping of Clique to float
        Of all candidates, one-way marginals included.
    cells : mapping of Clique to int
    budget : float
        What is left to spend.
    paid : float
        What each one-way marginal has had.
    unit : float
        Expected absolute noise of one count at a part of 1, in records.

    Examples
    --------
    >>> cells = {(0,): 2, (1,): 2, (2,): 40, (0, 1): 4}
    >>> allocated = allocate({(0, 1): 90.0}, dict.fromkeys(cells, 1.0), cells, budget=0.5, paid=0.1, unit=1.0)
    >>> {q: round(part, 3) for q, part in allocated.parts.items()}
    {(0, 1): 0.106, (2,): 0.394}
    """
    power = 2 / 3
    y = {q: (weights[q] * unit * cells[q]) ** power for q in errors}
    order = sorted(errors, key=lambda q: -weights[q] * errors[q] / y[q])
    lone = {q[0]: cells[q] for q in weights if len(q) == 1}
    relying = dict.fromkeys(lone, 0.0)  # W
    for q, weight in weights.items():
        for a in q:
            relying[a] += weight
    ones = {a: (relying[a] * unit * lone[a]) ** power for a in lone}
    whole = budget + paid * len(lone)
    gain, y_pairs, y_ones = 0.0, 0.0, math.fsum(ones.values())
    best, chosen, at_best = -(y_ones**1.5) / math.sqrt(whole), 0, ones.copy()
    for k, q in enumerate(order):
        gain += weights[q] * errors[q]
        y_pairs += y[q]
        for a in q:
            relying[a] -= weights[q]
            ones[a] = (max(relying[a], 0.0) * unit * lone[a]) ** power
        value = gain - (y_pairs + math.fsum(ones.values())) ** 1.5 / math.sqrt(whole)
        if value > best:
            best, chosen, at_best = value, k + 1, ones.copy()
    y = {q: y[q] for q in order[:chosen]}
    for q, part in y.items():
        for a in q:
            at_best[a] = max(0.0, at_best[a] - part * lone[a] / cells[q])
    return Allocation(best, _divide(y, at_best, budget, paid))


def _divide(y: Mapping[Clique, float], ones: Mapping[int, float], budget: float, paid: float) -> dict[Clique, float]:
    """Return parts in proportion to `y` and `ones`, less what one-way marginals have had."""
    again, pairs = dict(ones), math.fsum(y.values())
    while True:
        rate = (budget + paid * len(again)) / (pairs + math.fsum(again.values()))
        least = min(again, key=again.__getitem__, default=None)
        if least is None or rate * again[least] >= _WORTHWHILE * paid or (not y and len(again) == 1):
            break
        del again[least]
    return {**{q: rate * part for q, part in y.items()}, **{(a,): rate * part - paid for a, part in again.items()}}
