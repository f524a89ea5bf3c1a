"""Workloads: the marginals on which the error of a release is measured, with weights."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.marginals.elimination import Clique
from marginalia.memory import check_cost, short
from marginalia.subsets import subsets

WorkloadLike = int | Iterable[Sequence[str]] | Mapping[Sequence[str], float]

_BYTES_A_MARGINAL = 400  # its positions, their entry among the weights, its names
_LARGEST = 2.0**256  # weights from its inverse to it are taken as they are: what is computed from them stays finite
_LEAST = 2.0**-53  # of the largest weight: smaller weights vanish when floats are added


@dataclass(frozen=True)
class Workload:
    """Weighted marginals, as sorted attribute positions.

    Attributes
    ----------
    cliques : tuple of Clique
    weights : tuple of float
        Positive; see `parse`.

    Examples
    --------
    >>> from marginalia.data.domain import Column
    >>> domain = Domain(Column(name, 2) for name in "abc")
    >>> Workload.parse(2, domain).names(domain)
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """

    cliques: tuple[Clique, ...]
    weights: tuple[float, ...]

    @classmethod
    def parse(cls, workload: WorkloadLike, domain: Domain, *, max_cells: float | None = None) -> Workload:
        """Read a user's workload.

        Parameters
        ----------
        workload : int, iterable of attribute tuples, or mapping
            An order k (all marginals of k attributes; of all attributes, if there are fewer), marginals of weight 1,
            or ``{attributes: weight}``. An element may also be a pair ``(attributes, weight)``. A weight below 2^-53 of
            the largest counts as 2^-53 of it; where the largest is below 2^-256 or above 2^256, a power of two is taken
            out of all of them. Only their ratios matter.
        domain : Domain
        max_cells : float, optional
            Leave marginals with more cells out of the workload of an order; raise an error if they are named.

        Raises
        ------
        InputError
            Unknown attribute, bad weight, nothing left, or more marginals than can be listed in memory.
        """
        if isinstance(workload, bool) or (isinstance(workload, int | np.integer) and workload < 1):
            raise InputError(f"workload must be a positive order or a list of tuples of columns, not {workload!r}")
        by_order = isinstance(workload, int | np.integer)
        if isinstance(workload, int | np.integer):
            order = min(int(workload), len(domain))
            count = math.comb(len(domain), order)
            mend = "name the marginals that matter, or take a lower order"
            check_cost(f"a workload of {short(count)} marginals", _BYTES_A_MARGINAL * count, mend=mend)
            pairs = [(c, 1.0) for c in itertools.combinations(range(len(domain)), order)]
        else:
            pairs = _in_reach(_by_name(workload, domain))
        weights: dict[Clique, float] = {}
        for clique, weight in pairs:
            names = [domain.names[a] for a in clique]
            cells = domain.n_cells(names)
            if max_cells is None or cells <= max_cells:
                weights[clique] = weights.get(clique, 0.0) + weight
            elif not by_order:
                raise InputError(f"workload: {tuple(names)} has {cells} cells, max_cells is {max_cells:g}; raise it")
        if not weights:
            raise InputError("the workload is empty" if not pairs else "max_cells leaves no marginal; raise it")
        return cls(tuple(weights), tuple(weights.values()))

    def closure(self) -> dict[Clique, float]:
        """Return every non-empty subset of a member with its score weight w_q = sum_r weight_r |q ∩ r|.

        The order is by size, then by attributes, so that nothing depends on hashing.

        Raises
        ------
        InputError
            The subsets are too many to list in memory.
        """
        count = sum(2 ** len(c) for c in self.cliques)  # at most
        mend = "name smaller marginals, or fewer"
        check_cost(
            f"a workload with up to {short(count)} smaller marginals inside", _BYTES_A_MARGINAL * count, mend=mend
        )
        members_of = {q for c in self.cliques for q in subsets(c, smallest=1)}
        ordered = sorted(members_of, key=lambda q: (len(q), q))
        d = 1 + max(a for q in ordered for a in q)
        members = np.zeros((len(self.cliques), d))
        for i, c in enumerate(self.cliques):
            members[i, list(c)] = self.weights[i]
        # |q ∩ r| summed over r is the sum, over the attributes of q, of the weight of the members that hold them.
        held = members.sum(axis=0)
        return {q: float(held[list(q)].sum()) for q in ordered}

    def names(self, domain: Domain) -> list[tuple[str, ...]]:
        """Return the members by attribute name."""
        return [tuple(domain.names[a] for a in c) for c in self.cliques]


def marginal_errors(workload: Sequence[Sequence[str]], a: Table, b: Table) -> NDArray[np.float64]:
    """Return half the L1 distance between the normalised marginals of two tables, one per workload member.

    >>> from marginalia.data.domain import Column
    >>> domain = Domain([Column("a", 2)])
    >>> marginal_errors([("a",)], Table([[0], [1]], domain), Table([[0], [0]], domain))
    array([0.5])
    """
    return np.array(
        [0.5 * np.abs(a.counts(q) / max(1, a.n_rows) - b.counts(q) / max(1, b.n_rows)).sum() for q in workload]
    )


def _by_name(workload: object, domain: Domain) -> list[tuple[Clique, float]]:
    if isinstance(workload, str) or not isinstance(workload, Iterable):
        raise InputError(f"workload must be a positive order or a list of tuples of columns, not {workload!r}")
    items = list(workload.items()) if isinstance(workload, Mapping) else [_with_weight(item) for item in workload]
    pairs = []
    for names, weight in items:
        if isinstance(names, str):
            raise InputError(f"workload: write the marginal on '{names}' as a tuple, ('{names}',)")
        clique = tuple(sorted(domain.index(n) for n in names))
        if not clique or len(set(clique)) != len(clique):
            raise InputError(f"workload: {tuple(names)} must name at least one attribute, each once")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= sys.float_info.max:
            raise InputError(f"workload: the weight of {tuple(names)} must be positive and finite, not {weight!r}")
        pairs.append((clique, float(weight)))
    return pairs


def _in_reach(pairs: list[tuple[Clique, float]]) -> list[tuple[Clique, float]]:
    """Scale weights so that their sums, squares and ratios are finite floats."""
    top = max((weight for _, weight in pairs), default=1.0)
    shift = 0 if 1 / _LARGEST <= top <= _LARGEST else -math.frexp(top)[1]
    least = _LEAST * math.ldexp(top, shift)
    return [(clique, max(least, math.ldexp(weight, shift))) for clique, weight in pairs]


def _with_weight(item: object) -> tuple[Sequence[str], float]:
    if isinstance(item, Sequence) and len(item) == 2 and not isinstance(item, str) and not isinstance(item[0], str):
        return item[0], item[1]
    if not isinstance(item, Sequence):
        raise InputError(f"workload: {item!r} is not a tuple of column names")
    return item, 1.0
