"""The test functions whose averages are released: monomials, parities, or cells of marginals.

Every family holds the constant 1 too; it is never noised or fitted when the number of records is public, and has no
row in the matrices here, but it counts in |F|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, compress, product
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError, unknown_name
from marginalia.privacy.relation import Relation

Array = NDArray[np.float64]
Kind = Literal["parities", "monomials", "cells"]
BLOCK = 8192  # rows of a table turned into function values at a time


def _n_subsets(p: int, d: int) -> int:
    """N(p, d): number of subsets of at most d out of p, the empty one included."""
    return sum(math.comb(p, s) for s in range(d + 1))


def _most_flips(p: int, d: int) -> int:
    """O(p, d): largest number of parities of order 1 … d that change sign when one point moves.

    It is the maximum over t flipped bits of the number of sets with an odd overlap.
    """
    return max(
        sum(math.comb(t, j) * math.comb(p - t, s - j) for s in range(1, d + 1) for j in range(1, s + 1, 2))
        for t in range(p + 1)
    )


@dataclass(frozen=True)
class Family:
    """All functions of one kind up to an order, on sets S of attributes, 1 <= |S| <= order.

    Parities Π_S (1-2x_j); monomials Π_S x_j; or the indicators of every cell of S.

    >>> family = Family("parities", (2, 2), 2)
    >>> family.sets, family.size
    (((0,), (1,), (0, 1)), 4)
    >>> family.sums(np.array([[0, 0], [1, 1], [0, 1]]))
    array([ 1, -1,  1])
    """

    kind: Kind
    sizes: tuple[int, ...]  # codes of each attribute; all 2 for parities and monomials
    order: int

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise unknown_name("family", str(self.kind), get_args(Kind))
        whole = isinstance(self.order, int) and not isinstance(self.order, bool)
        if not whole or not 1 <= self.order <= len(self.sizes):
            raise InputError(
                f"reduced_space: order is {self.order!r}; need a whole number from 1 to {len(self.sizes)} (the columns)"
            )
        if self.kind != "cells" and any(size != 2 for size in self.sizes):
            raise InputError(
                f"reduced_space: family '{self.kind}' needs Boolean columns, one has {max(self.sizes)} codes; "
                "use a Boolean coding of the table, or family='cells'"
            )

    @cached_property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The sets S by size, then lexicographically."""
        return tuple(s for order in range(1, self.order + 1) for s in combinations(range(len(self.sizes)), order))

    @cached_property
    def blocks(self) -> dict[tuple[int, ...], slice]:
        """Rows that belong to each set: one, or its cells in C order."""
        stops = np.cumsum([self._width(s) for s in self.sets]).tolist()
        return {s: slice(stop - self._width(s), stop) for s, stop in zip(self.sets, stops, strict=True)}

    @property
    def n_rows(self) -> int:
        """|F| - 1: functions without the constant."""
        return sum(self._width(s) for s in self.sets)

    @property
    def size(self) -> int:
        """|F|, the constant included."""
        return self.n_rows + 1

    def values(self, points: NDArray[np.integer]) -> NDArray[np.int8]:
        """Return f(x), shape (|F| - 1, m), for every function and point; `points` has shape (m, p)."""
        if self.kind == "cells":
            base = [
                (x == np.arange(size)[:, None]).astype(np.int8) for x, size in zip(points.T, self.sizes, strict=True)
            ]
        else:
            base = [(x if self.kind == "monomials" else 1 - 2 * x).astype(np.int8)[None] for x in points.T]
        values = np.empty((self.n_rows, len(points)), dtype=np.int8)
        for s, rows in self.blocks.items():
            if len(s) == 1:
                values[rows] = base[s[0]]
            else:
                first = values[self.blocks[s[:-1]]]
                values[rows] = (first[:, None, :] * base[s[-1]][None]).reshape(-1, len(points))
        return values

    def sums(self, codes: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return Σ_i f(x_i) over the rows of a table, shape (|F| - 1,)."""
        total = np.zeros(self.n_rows, dtype=np.int64)
        for start in range(0, len(codes), BLOCK):
            total += self.values(codes[start : start + BLOCK]).sum(axis=1, dtype=np.int64)
        return total

    def l1_sensitivity(self, relation: Relation) -> float:
        """D₁: how much all sums together change when one record is replaced (or added, the total included)."""
        groups = _n_subsets(len(self.sizes), self.order)
        if relation is Relation.ADD_REMOVE:
            return float(groups)
        if self.kind == "parities":
            return 2.0 * _most_flips(len(self.sizes), self.order)
        return (1.0 if self.kind == "monomials" else 2.0) * (groups - 1)

    def l2_sensitivity(self, relation: Relation) -> float:
        """D₂, as `l1_sensitivity` in the 2-norm."""
        squared = self.l1_sensitivity(relation)
        if relation is Relation.REPLACE_ONE and self.kind == "parities":
            squared *= 2  # every sign that flips moves a sum by 2
        return math.sqrt(squared)

    def marginals(self, averages: Array, s: Sequence[int]) -> Array:
        """Return the table of probabilities that the (noisy) averages imply on the attributes `s`.

        `s` ascends and has at most `order` members; entries of the table may be negative.
        """
        if self.kind == "cells":
            return averages[self.blocks[tuple(s)]].reshape([self.sizes[j] for j in s])
        table: Array = np.ones((2,) * len(s))
        for cell in product((0, 1), repeat=len(s)):
            total = 0.0
            for inside in product((0, 1), repeat=len(s)):
                subset = tuple(compress(s, inside))
                value = averages[self.blocks[subset].start] if subset else 1.0
                total += value * self._coefficient(cell, inside)
            table[cell] = total
        return table

    def _coefficient(self, cell: tuple[int, ...], inside: tuple[int, ...]) -> float:
        """Weight of the function on the subset `inside` in the indicator of `cell`."""
        if self.kind == "parities":
            return (-1) ** sum(a * b for a, b in zip(cell, inside, strict=True)) / 2 ** len(cell)
        if any(a and not b for a, b in zip(cell, inside, strict=True)):
            return 0.0
        return float((-1) ** (sum(inside) - sum(cell)))

    def _width(self, s: tuple[int, ...]) -> int:
        return math.prod(self.sizes[j] for j in s) if self.kind == "cells" else 1
