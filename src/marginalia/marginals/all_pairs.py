"""Every pair marginal of a calibrated model in one sweep over the junction tree, and one back.

Eliminating v makes a message on sep_v, and C_v = {v} + sep_v is a clique. Where it lies in that of a child, the two are
one: what is left are the nodes of a junction tree, each with a clique, its own attributes and the separator from its
parent. `PairPlan` is that tree and its cost, structure only; its rows are numbered in post-order, so that all rows at
or below a node are one slice.

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
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from marginalia.marginals.elimination import Clique
from marginalia.marginals.inference import Inference
from marginalia.marginals.interpreter import Node
from marginalia.marginals.plan import Plan

Rows = NDArray[np.intp]

# Measured on one 2.8 GHz server core.
_SECONDS_PER_STEP = 6e-6
_SECONDS_PER_OPERATION = 0.5e-9


@dataclass(eq=False, slots=True)
class Part:
    """A node of the junction tree.

    >>> Part(of=1, own=[1, 2], separator=(0,), children=[]).axes
    (0, 1, 2)
    """

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
    """Children with one separator: their rows stand side by side.

    >>> Group([], (0, 1), rows=np.arange(40), instead=np.arange(40, 46)).upward.size
    6
    """

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

    >>> pairs = PairPlan(Plan([(0, 1), (1, 2)], (2, 3, 4)))
    >>> pairs.n_rows, pairs.seconds < 1e-3
    (9, True)
    """

    def __init__(self, plan: Plan) -> None:
        self.sizes = plan.sizes
        self.rows: dict[int, Rows] = {}  # of an attribute's own values
        self.components: list[tuple[list[Part], slice]] = []  # children before parents; their rows
        self.n_rows = 0
        self.cells = 0  # of the stacks of rows that are held at one time, bounded
        self._operations, self._steps = 0.0, 0
        for root in self._roots(plan):
            first = self.n_rows
            order = self._in_order(root)
            for part in order:
                self._number(part)
                self._add_cost(part)
            self.components.append((order, slice(first, self.n_rows)))
        self._operations += self.n_rows**2
        self.seconds = self._steps * _SECONDS_PER_STEP + self._operations * _SECONDS_PER_OPERATION

    def _roots(self, plan: Plan) -> list[Part]:
        """Return the junction trees."""
        step = {v: i for i, v in enumerate(plan.order)}
        waiting: dict[int, list[Part]] = {}  # by the attribute whose elimination takes their message
        roots = []
        for v in plan.order:
            separator = tuple(sorted(plan.joined[v][2].axes))
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
        self._operations += 4.0 * clique * len(part.own) + own
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


Array = NDArray[np.float64]


class AllPairs:
    """The pair marginals of a calibrated `Inference`, as probabilities; they stay valid after its next pass.

    >>> from marginalia.marginals.plan import Plan
    >>> inference = Inference(Plan([(0, 1), (1, 2)], (2, 2, 4)))
    >>> _ = inference.calibrate()  # all potentials 0: uniform
    >>> AllPairs(inference, PairPlan(inference.plan)).pair(0, 2)[0]
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
    """A table and its sums, each made from another one by summing out one attribute.

    >>> _Sums(np.ones((2, 3, 4)), (5, 6, 7)).onto((7, 5))[0]
    array([3., 3.])
    """

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
