"""Every pair marginal of a calibrated model in one sweep over the junction tree, and one back.

The tree, its rows and its cost are a `PairPlan`: structure only.

Going up from its leaves, U[sep, rows] holds P(sep, a = i) with one row for each value i of
each attribute a at or below the node. Pushing U to the parent's separator is one matrix product, batched over what the
two separators share, for all rows at once. Two attributes then meet in one of four places:

- both own attributes of a node: sum its clique;
- a below a node that owns b: push a's rows to b;
- a and b below different children of a node: the product of their rows over one child's separator (given the clique
  they are independent); children with the same separator share one product;
- different components: independent.

Rows need not go all the way: given the separator s they are independent of all that is not below it. Where s is one
attribute they go no further, and where it has fewer cells than there are rows, its cells go up in their place. Coming
back, P(a, b) = sum_s P(a | s) P(s, b) gives their pairs with all the rest.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginalia.marginals.elimination import Clique
from marginalia.marginals.inference import Inference
from marginalia.marginals.interpreter import Node
from marginalia.marginals.pair_plan import Group, PairPlan, Part, Rows

Array = NDArray[np.float64]


class AllPairs:
    """The pair marginals of a calibrated `Inference`, as probabilities; they stay valid after its next pass.

    >>> from marginalia.marginals.plan import Plan
    >>> inference = Inference(Plan([(0, 1), (1, 2)], (2, 2, 4)))
    >>> _ = inference.calibrate()  # all potentials 0: uniform
    >>> AllPairs(inference, PairPlan(inference.plan.elimination, inference.plan.sizes)).pair(0, 2)[0]
    array([0.125, 0.125, 0.125, 0.125])
    """

    def __init__(self, inference: Inference, pairs: PairPlan) -> None:
        self._inference, self._pairs = inference, pairs
        self._is_log = inference.domain == "log"
        self._joint = np.zeros((pairs.n_rows, pairs.n_rows))  # P(row, column); symmetric
        self._back: list[tuple[Group, Rows, Array]] = []  # rows that went no further, their separator, P(row | it)
        for order, rows in pairs.components:
            self._sweep(order, rows)
        single = self._joint.diagonal().copy()  # 0 where a row stands for cells of a separator
        for _, rows in pairs.components[:-1]:
            later = slice(rows.stop, pairs.n_rows)
            self._joint[rows, later] = np.multiply.outer(single[rows], single[later])
            self._joint[later, rows] = self._joint[rows, later].T

    def pair(self, a: int, b: int) -> Array:
        """Return P(a, b), an array of shape (size of a, size of b)."""
        if a > b:
            return self.pair(b, a).T
        table = self._joint[np.ix_(self._pairs.rows[a], self._pairs.rows[b])]
        return np.asarray(table / table.sum())

    def matrix(self) -> Array:
        """Return all of them, with a row and a column for each value of each attribute, in order of attributes.

        On the diagonal stand the probabilities of single values; the rest of an attribute's block is 0.
        """
        order = np.concatenate([self._pairs.rows[a] for a in range(len(self._pairs.rows))])
        return np.asarray(self._joint[np.ix_(order, order)])

    def _sweep(self, order: list[Part], rows: slice) -> None:
        """Fill in the pairs of a connected component."""
        up: dict[int, Array] = {}
        for part in order:
            up[part.of] = self._visit(part, up)
        for group, cells, given in reversed(self._back):
            first, last = group.members[0].below.start, group.members[-1].below.stop
            for rest in (slice(rows.start, first), slice(last, rows.stop)):
                self._set(group.rows, np.arange(rest.start, rest.stop), given.T @ self._joint[cells, rest])
        self._back.clear()

    def _set(self, rows: Rows, columns: Rows, block: Array) -> None:
        self._joint[np.ix_(rows, columns)] = block
        self._joint[np.ix_(columns, rows)] = block.T

    def _visit(self, part: Part, up: dict[int, Array]) -> Array:
        """Fill in the pairs that meet at a node; return its U and drop those of its children."""
        rows = self._pairs.rows
        clique = _Sums(self._clique(part), part.axes)
        for i, a in enumerate(part.own):
            self._joint[rows[a], rows[a]] = clique.onto((a,))
            for b in part.own[:i]:
                self._set(rows[a], rows[b], clique.onto((a, b)))
        held: list[tuple[Group, Array]] = []
        for g in part.groups:
            tables = [up.pop(c.of) for c in g.members]
            stack = np.concatenate(tables, axis=-1) if len(tables) > 1 else tables[0]
            del tables
            if g.instead is not None or len(g.members) > 1:
                stack = self._close(g, stack, clique.onto(g.axes))
            if g.upward.size:
                held.append((g, stack))
                for a in part.own:
                    self._set(rows[a], g.upward, _push(stack, g.axes, clique, (a,)))
        self._meet(held, clique)
        if not part.separator:
            return np.empty(0)
        pieces = [_push(stack, g.axes, clique, part.separator) for g, stack in held]
        return np.concatenate([*pieces, *(clique.onto((*part.separator, a)) for a in part.own)], axis=-1)

    def _close(self, g: Group, stack: Array, separator: Array) -> Array:
        """Fill in the pairs between members of a group; return what goes up: its rows, or what stands for them."""
        given = (stack * _inverse(separator)[..., None]).reshape(-1, g.rows.size)
        flat = stack.reshape(-1, g.rows.size)
        at = 0
        for member in g.members[:-1]:
            here = slice(at, at + member.upward.size)
            at = here.stop
            self._set(member.upward, g.rows[at:], flat[:, here].T @ given[:, at:])
        if g.instead is None:
            return stack
        self._back.append((g, g.instead if g.instead.size else self._pairs.rows[g.axes[0]], given))
        return np.diag(separator.reshape(-1)).reshape(*separator.shape, -1) if g.instead.size else stack

    def _meet(self, held: list[tuple[Group, Array]], clique: _Sums) -> None:
        """Fill in the pairs below different children of one node."""
        given = [stack * _inverse(clique.onto(g.axes))[..., None] for g, stack in held if len(held) > 1]
        for i, (g, stack) in enumerate(held):
            height = g.upward.size
            for j, (h, other) in enumerate(held[:i]):
                if other.shape[-1] * stack[..., 0].size <= height * other[..., 0].size:
                    moved = _push(other, h.axes, clique, g.axes).reshape(-1, other.shape[-1])
                    self._set(h.upward, g.upward, moved.T @ given[i].reshape(-1, height))
                else:
                    moved = _push(stack, g.axes, clique, h.axes).reshape(-1, height)
                    self._set(h.upward, g.upward, given[j].reshape(-1, other.shape[-1]).T @ moved)

    def _clique(self, part: Part) -> Array:
        """Return P of the clique, along its axes."""
        left, right, message = self._inference.plan.joined[part.of]
        parts = [self._table(left, left.value, part.axes), self._table(message, message.adjoint, part.axes)]
        if right is not None:
            parts.append(self._table(right, right.value, part.axes))
        if self._is_log:
            total = sum(parts[1:], parts[0])
            table = np.exp(total - total.max())
        else:
            table = math.prod(parts[1:], start=parts[0])
        return np.asarray(table / table.sum())

    def _table(self, t: Node, start: int, axes: Clique) -> Array:
        table = self._inference.workspace[start : start + t.cells].reshape([self._pairs.sizes[a] for a in t.axes])
        return _along(table, t.axes, axes)


class _Sums:
    """A table and its sums, each made from another one by summing out one attribute."""

    def __init__(self, table: Array, axes: Clique) -> None:
        self.size = dict(zip(axes, table.shape, strict=True))
        self._made = {axes: table}
        self._axes = axes
        self._largest_first = sorted(axes, key=lambda a: -self.size[a])

    def onto(self, axes: Clique) -> Array:
        """Return the sum onto `axes`, in that order."""
        held = self._axes
        for a in self._largest_first:
            if a not in axes:
                table, at = self._made[held], held.index(a)
                held = held[:at] + held[at + 1 :]
                if held not in self._made:
                    self._made[held] = table.sum(axis=at)
        return self._made[held].transpose([held.index(a) for a in axes])


def _along(table: Array, held: Clique, axes: Clique) -> Array:
    """Return a view of a table on `held` along `axes`, of size 1 where it has none."""
    table = table.transpose([held.index(a) for a in axes if a in held])
    return table[tuple(slice(None) if a in held else None for a in axes)]


def _onto(table: Array, held: Clique, axes: Clique) -> Array:
    """Sum a table (with rows behind its axes, or without) onto `axes`, in that order."""
    table = table.sum(axis=tuple(i for i, a in enumerate(held) if a not in axes))
    left = [a for a in held if a in axes]
    order = [left.index(a) for a in axes]
    return table.transpose([*order, *range(len(order), table.ndim)])


def _inverse(table: Array) -> Array:
    """Return 1 / table, 0 where that is no number: at 0, and where a probability is too small to be told from it."""
    return np.divide(1.0, table, out=np.zeros_like(table), where=table >= np.finfo(np.float64).tiny)


def _push(stack: Array, held: Clique, clique: _Sums, target: Clique) -> Array:
    """Return P(target, rows) from P(held, rows), independent given held; both are in the clique."""
    new = tuple(a for a in target if a not in held)
    if not new:
        return _onto(stack, held, target)
    shared = tuple(a for a in held if a in target)
    gone = tuple(a for a in held if a not in target)
    nb, m, k = (math.prod(clique.size[a] for a in part) for part in (shared, new, gone))
    given = _inverse(clique.onto((*shared, *gone))).reshape(nb, 1, k)
    conditional = clique.onto((*shared, *new, *gone)).reshape(nb, m, k) * given
    right = stack.transpose([*(held.index(a) for a in (*shared, *gone)), len(held)]).reshape(nb, k, stack.shape[-1])
    made = (*shared, *new)
    out = np.matmul(conditional, right).reshape([*(clique.size[a] for a in made), stack.shape[-1]])
    return out.transpose([*(made.index(a) for a in target), len(made)])
