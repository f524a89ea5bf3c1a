"""The junction tree of an elimination, and the cost of all pair marginals on it (`all_pairs` computes them).

Eliminating v makes a message on sep_v, and C_v = {v} + sep_v is a clique. Where it lies in that of a child, the two are
one: what is left are the nodes of a junction tree, each with a clique, its own attributes and the separator from its
parent. Rows, one for each value of each attribute, are numbered in post-order, so that all rows at or below a node are
one slice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marginalia.marginals.elimination import Clique, Order
from marginalia.marginals.interpreter import Node, strides

Rows = NDArray[np.intp]

# Measured on one 2.8 GHz server core.
_SECONDS_PER_STEP = 1e-6
_SECONDS_PER_OPERATION = 0.5e-9  # a multiplication and addition
_PER_CLIQUE_CELL, _PER_STACK_CELL = 19.0, 6.0  # operations that take as long: these wait for memory


@dataclass(eq=False, slots=True)
class Part:
    """A node of the junction tree."""

    of: int  # the attribute whose elimination made the clique
    own: list[int]
    separator: Clique  # in the order of attributes
    children: list[Part]
    groups: list[Group] = field(default_factory=list)
    upward: Rows = field(default_factory=lambda: np.empty(0, np.intp))  # of U
    below: slice = field(default_factory=lambda: slice(0, 0))  # all rows at or below it

    @property
    def axes(self) -> Clique:
        """Attributes of the clique."""
        return (*self.separator, *self.own)


@dataclass(eq=False, slots=True)
class Group:
    """Children with one separator, whose rows are stored side by side."""

    members: list[Part]
    axes: Clique  # the separator
    rows: Rows
    instead: Rows | None  # what goes up in their place: nothing, or a row for each cell of the separator

    @property
    def upward(self) -> Rows:
        """Rows that go up."""
        return self.rows if self.instead is None else self.instead


class PairPlan:
    """The junction tree of a model, with the cost of answering all pairs on it; structure only.

    >>> from marginalia.marginals.elimination import orders
    >>> pairs = PairPlan(orders([(0, 1), (1, 2)], (2, 3, 4))[0], (2, 3, 4))
    >>> pairs.n_rows, pairs.seconds < 1e-3
    (9, True)
    """

    def __init__(self, elimination: Order, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.rows: dict[int, Rows] = {}  # of an attribute's own values
        self.components: list[tuple[list[Part], slice]] = []  # children before parents; their rows
        self.n_rows = 0
        self.cells = 0  # of the stacks of rows that are held at one time, bounded
        self.scratch = 0  # cells of all tables at one time, bounded but for those of several sums and moves
        self._waiting = 0  # cells of the stacks below the present node
        self._operations, self._steps = 0.0, 0
        for root in self._roots(elimination):
            first = self.n_rows
            order = self._in_order(root)
            for part in order:
                self._number(part)
                self._add_cost(part)
            self.components.append((order, slice(first, self.n_rows)))
        self._operations += self.n_rows**2
        self.seconds = self._steps * _SECONDS_PER_STEP + self._operations * _SECONDS_PER_OPERATION

    @cached_property
    def in_order(self) -> Rows:
        """Rows of the values of all attributes, in order of attributes."""
        return np.concatenate([self.rows[a] for a in range(len(self.rows))])

    def program(self, joined: Mapping[int, tuple[Node, Node | None, Node]]) -> NDArray[np.int64]:
        """Return the nodes as `all_pairs` reads them; `joined` are the tables that each elimination has joined.

        The program starts with the number of nodes. Each node follows, children first: first and last row of its
        component, whether it is the root; number of axes, their sizes, their positions, the largest first; number of
        tables, their offsets, the strides of each; separator as a mask over the axes, rows of U, number of groups,
        number of own attributes, their positions, their first rows. Its groups follow: number of members, separator,
        number of rows that go up, first of the rows that answer for the group (-1: its own go up), number of rows,
        first and last row below; number and rows of U of each member; rows.
        """
        parts = [(part, rows, order[-1]) for order, rows in self.components for part in order]
        number = {id(part): i for i, (part, _, _) in enumerate(parts)}
        out = [len(parts)]
        for part, component, root in parts:
            axes = sorted(part.axes)
            sizes, at = [self.sizes[a] for a in axes], {a: i for i, a in enumerate(axes)}
            left, right, message = joined[part.of]
            tables = [(left.value, left.axes), (message.adjoint, message.axes)]
            if right is not None:
                tables.append((right.value, right.axes))
            out += [component.start, component.stop, part is root, len(axes), *sizes]
            out += sorted(range(len(axes)), key=lambda i: -sizes[i])
            out += [len(tables), *(offset for offset, _ in tables)]
            for _, held in tables:
                steps = strides(held, self.sizes)
                out += [steps.get(a, 0) for a in axes]
            out += [_mask(part.separator, at), part.upward.size, len(part.groups), len(part.own)]
            out += [at[a] for a in part.own] + [int(self.rows[a][0]) for a in part.own]
            for g in part.groups:
                anchor = -1 if g.instead is None else int((g.instead if g.instead.size else self.rows[g.axes[0]])[0])
                below = g.members[0].below.start, g.members[-1].below.stop
                out += [len(g.members), _mask(g.axes, at), g.upward.size, anchor, g.rows.size, *below]
                for member in g.members:
                    out += [number[id(member)], member.upward.size]
                out += g.rows.tolist()
        return np.array(out, np.int64)

    def _roots(self, elimination: Order) -> list[Part]:
        """Return the junction trees."""
        step = {v: i for i, v in enumerate(elimination.order)}
        waiting: dict[int, list[Part]] = {}  # by the attribute whose elimination takes their message
        roots = []
        for v, separator in zip(elimination.order, elimination.separators, strict=True):
            children = sorted(waiting.pop(v, []), key=lambda c: (c.separator, c.of))
            same = next((c for c in children if len(c.separator) == len(separator) + 1), None)
            if same is None:
                part = Part(v, [v], separator, children)
            else:  # the clique of v is the separator of this child
                part = same
                part.own.append(v)
                part.separator = separator
                part.children = sorted(
                    [*part.children, *(c for c in children if c is not same)], key=lambda c: (c.separator, c.of)
                )
            if separator:
                waiting.setdefault(min(separator, key=step.__getitem__), []).append(part)
            else:
                roots.append(part)
        return roots

    def _in_order(self, root: Part) -> list[Part]:
        """Return the tree's nodes, those of a group side by side, children before parents."""
        out, stack = [], [root]
        while stack:
            part = stack.pop()
            out.append(part)
            stack.extend(part.children)
        return out[::-1]

    def _number(self, part: Part) -> None:
        first = part.children[0].below.start if part.children else self.n_rows
        for separator in dict.fromkeys(c.separator for c in part.children):
            members = [c for c in part.children if c.separator == separator]
            rows = np.concatenate([c.upward for c in members])
            cells = self._cells(separator)
            instead = None
            if len(separator) == 1:
                instead = self._take(0)
            elif cells < rows.size:
                instead = self._take(cells)
            part.groups.append(Group(members, separator, rows, instead))
        for a in part.own:
            self.rows[a] = self._take(self.sizes[a])
        part.upward = np.concatenate([*(g.upward for g in part.groups), *(self.rows[a] for a in part.own)])
        part.below = slice(first, self.n_rows)

    def _take(self, n: int) -> Rows:
        self.n_rows += n
        return np.arange(self.n_rows - n, self.n_rows)

    def _cells(self, axes: Clique) -> int:
        return math.prod(self.sizes[a] for a in axes)

    def _add_cost(self, part: Part) -> None:
        """Count the steps and the multiply-adds at a node, and the cells of its stacks."""
        clique, groups = self._cells(part.axes), part.groups
        own = self._cells(part.separator) * part.upward.size if part.separator else 0
        self.cells = max(self.cells, own + 3 * sum(self._cells(g.axes) * g.rows.size for g in groups))
        stacks = sum(self._cells(g.axes) * g.rows.size for g in groups)
        self.scratch = max(self.scratch, self._waiting + 4 * clique + 5 * stacks + 2 * own + 64)
        self._waiting += own - stacks
        self._operations += _PER_CLIQUE_CELL * clique + _PER_STACK_CELL * (own + stacks)
        self._steps += 4 + len(part.own) ** 2 + (4 + len(part.own)) * len(groups) + len(groups) ** 2
        for i, g in enumerate(groups):
            height, cells = g.upward.size, self._cells(g.axes)
            self._operations += height * ((clique if part.separator else 0) + 2.0 * cells)
            if len(g.members) > 1:
                self._operations += 0.2 * g.rows.size**2 * cells
            if g.instead is not None:
                self._operations += 0.2 * g.rows.size * cells * (self.n_rows + 1000)
            for h in groups[:i]:
                other, union = h.upward.size, self._cells(tuple({*g.axes, *h.axes}))
                self._operations += min(height, other) * union + 0.2 * height * other * min(cells, self._cells(h.axes))


def _mask(axes: Clique, at: Mapping[int, int]) -> int:
    return sum(1 << at[a] for a in axes)
