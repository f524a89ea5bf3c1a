"""Compile the structure of a graphical model into the programs of one inference pass.

P(x) is proportional to exp(sum over cliques c of theta_c(x_c)). The forward program eliminates every attribute and
gives log Z; the backward program differentiates it, so that every table times its adjoint is the marginal on its
axes (Darwiche 2003, "A differential approach to inference in Bayesian networks").

`Contraction` emits such programs. To sum v out, all tables that contain it are split into a left and a right product;
one matrix product joins them over v. Both are smaller than the joint (junction-tree) table, which is never built. The
adjoint of a product is a product with the other side, so there is no division.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numba import njit
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.errors import InputError
from marginalia.marginals import interpreter
from marginalia.marginals.elimination import Clique, Order, eliminate, maximal, orders
from marginalia.marginals.interpreter import Axes, Node, as_program, elementwise, gemm, root, scale
from marginalia.marginals.pair_plan import PairPlan
from marginalia.memory import check_cost

_MAX_SPLIT = 11  # tables of a bucket whose 2^(k-1) splits are enumerated


class Contraction:
    """Programs that sum attributes out of a product of tables.

    `rank`, attribute -> position in the elimination order, decides storage orders only; `start` is the first free place
    of the workspace; `reverse` asks for the backward program too.
    """

    def __init__(self, sizes: tuple[int, ...], rank: Mapping[int, int], start: int, *, reverse: bool) -> None:
        self.sizes = sizes
        self.end = start  # of the workspace used
        self.nodes: list[Node] = []  # tables made so far
        # Column -> (left, right or None, message): the tables joined when it was summed out.
        self.joined: dict[int, tuple[Node, Node | None, Node]] = {}
        self.operations = 0.0  # weighted multiply-adds, for predicting time
        self.n_scales = 0
        self._rank = rank
        self._reverse = reverse
        self._forward: list[list[int]] = []
        self._backward: list[list[list[int]]] = []  # groups, to be run in reverse

    def forward(self) -> NDArray[np.int64]:
        """Return the forward program."""
        return as_program(self._forward)

    def backward(self) -> NDArray[np.int64]:
        """Return the backward program."""
        return as_program([record for group in reversed(self._backward) for record in group])

    def cells(self, axes: Axes) -> int:
        """Return the number of cells of a table on `axes`."""
        return math.prod(self.sizes[a] for a in axes)

    def allocate(self, axes: Axes, inputs: tuple[Node, ...] = ()) -> Node:
        """Place a new table (and its adjoint, when reversing)."""
        cells = self.cells(axes)
        node = Node(axes, cells, self.end, self.end + cells, inputs)
        self.end += (2 if self._reverse else 1) * cells
        if self.end > 2**40:
            raise InputError("the model does not fit in memory: measure smaller marginals or lower max_model_mb")
        self.nodes.append(node)
        return node

    def sum_out(self, v: int, bucket: list[Node]) -> Node:
        """Emit the steps that sum `v` out of the product of `bucket`; return the message."""
        while len(bucket) > _MAX_SPLIT:
            a, b = self._smallest_pair(bucket)
            bucket = [t for t in bucket if t is not a and t is not b] + [self._multiply(a, b)]
        chosen, others = _split([frozenset(t.axes) for t in bucket], v, self.sizes)
        left, right = [bucket[i] for i in chosen], [bucket[i] for i in others]
        message = self._join(v, left, right) if right else self._sum(v, self.product(left))
        self._forward.append(scale(interpreter.SCALE, message.value, message.cells, self.n_scales))
        if self._reverse:
            self._backward.append([scale(interpreter.UNSCALE, message.adjoint, message.cells, self.n_scales)])
            if not message.axes:
                self._backward.append([root(message.value, message.adjoint)])
        self.n_scales += 1
        return message

    def product(self, items: list[Node], axes: Axes | None = None) -> Node:
        """Multiply tables, the smallest joint scope first; the result is stored along `axes`, where given."""
        items = list(items)
        while len(items) > 1:
            a, b = self._smallest_pair(items)
            rest = [t for t in items if t is not a and t is not b]
            items = [*rest, self._multiply(a, b, None if rest else axes)]
        return items[0] if axes is None or items[0].axes == axes else self._transpose(items[0], axes)

    def _late_first(self, axes: frozenset[int]) -> Axes:
        """Order axes so that the next one to be eliminated is contiguous."""
        return tuple(sorted(axes, key=lambda a: -self._rank[a]))

    def _smallest_pair(self, items: list[Node]) -> tuple[Node, Node]:
        pairs = [(i, j) for i in range(len(items)) for j in range(i)]
        i, j = min(pairs, key=lambda p: (self.cells(tuple({*items[p[0]].axes, *items[p[1]].axes})), p))
        return (items[i], items[j]) if items[i].cells >= items[j].cells else (items[j], items[i])

    def _multiply(self, a: Node, b: Node, axes: Axes | None = None) -> Node:
        if axes is None:
            axes = a.axes if set(b.axes) <= set(a.axes) else self._late_first(frozenset(a.axes) | frozenset(b.axes))
        out = self.allocate(axes, (a, b))
        self._emit(interpreter.MUL, out.axes, _value(out), _value(a), _value(b))
        self._reverse_group(self._chain(a, out, b), self._chain(b, out, a))
        self.operations += 3.0 * out.cells
        return out

    def _chain(self, target: Node, out: Node, other: Node) -> list[int]:
        """Return the record: adjoint of `target` = adjoint of `out` times `other`, summed onto the target's axes."""
        code = interpreter.MUL if set(target.axes) >= set(out.axes) else interpreter.DOT
        return elementwise(code, self.sizes, out.axes, _adjoint(target), _adjoint(out), _value(other))

    def _transpose(self, a: Node, axes: Axes) -> Node:
        out = self.allocate(axes, (a,))
        self._emit(interpreter.COPY, axes, _value(out), _value(a))
        self._reverse_group(elementwise(interpreter.COPY, self.sizes, a.axes, _adjoint(a), _adjoint(out)))
        self.operations += 2.0 * out.cells
        return out

    def _sum(self, v: int, a: Node) -> Node:
        out = self.allocate(tuple(x for x in a.axes if x != v))
        self._emit(interpreter.SUM, a.axes, _value(out), _value(a))
        self._reverse_group(elementwise(interpreter.COPY, self.sizes, a.axes, _adjoint(a), _adjoint(out)))
        self.operations += 2.0 * a.cells
        self.joined[v] = (a, None, out)
        return out

    def _join(self, v: int, left: list[Node], right: list[Node]) -> Node:
        scope_l = frozenset().union(*(t.axes for t in left))
        scope_r = frozenset().union(*(t.axes for t in right))
        if scope_l <= scope_r:
            left, right, scope_l, scope_r = right, left, scope_r, scope_l
        batch = (scope_l & scope_r) - {v}
        rows, columns = scope_l - batch - {v}, scope_r - batch - {v}
        nb, m, n, k = (self.cells(tuple(s)) for s in (batch, rows, columns, {v}))
        self.operations += 3.0 * nb * m * n * k
        if not columns or m * n * k < 64:
            return self._join_elementwise(v, self.product(left), self.product(right))
        # The side that owns the next eliminated attribute gives the columns: its axis ends up contiguous.
        if min(self._rank[a] for a in rows) < min(self._rank[a] for a in columns):
            left, right, rows, columns, m, n = right, left, columns, rows, n, m
        sides = sorted((left, right), key=lambda items: -sum(t.cells for t in items))
        stored = [b for b in (_batch_of(items, batch, v) for items in sides) if b is not None]
        batch_axes = stored[0] if stored else self._late_first(batch)
        a, a_axes, ta = self._operand(left, batch_axes, rows, v)
        b, b_axes, tb = self._operand(right, batch_axes, columns, v)
        out = self.allocate((*batch_axes, *a_axes, *b_axes))
        self._forward.append(gemm(nb, m, n, k, a.value, b.value, out.value, transpose_a=ta, transpose_b=not tb))
        # out = A B^T blockwise (A is m x k, B is n x k), so A' = out' B and B' = out'^T A, where ' marks adjoints;
        # a table stored with v first is its transpose.
        if ta:
            grad_a = gemm(nb, k, m, n, b.value, out.adjoint, a.adjoint, transpose_a=not tb, transpose_b=True)
        else:
            grad_a = gemm(nb, m, k, n, out.adjoint, b.value, a.adjoint, transpose_b=tb)
        if tb:
            grad_b = gemm(nb, k, n, m, a.value, out.adjoint, b.adjoint, transpose_a=not ta)
        else:
            grad_b = gemm(nb, n, k, m, out.adjoint, a.value, b.adjoint, transpose_a=True, transpose_b=ta)
        self._reverse_group(grad_a, grad_b)
        self.joined[v] = (a, b, out)
        return out

    def _join_elementwise(self, v: int, a: Node, b: Node) -> Node:
        """Sum v out of a * b without a matrix product: any storage order will do."""
        covers = set(b.axes) <= set(a.axes)
        scope = (frozenset(a.axes) | frozenset(b.axes)) - {v}
        out = self.allocate(tuple(x for x in a.axes if x != v) if covers else self._late_first(scope))
        loop = a.axes if covers else (*out.axes, v)
        self._emit(interpreter.DOT, loop, _value(out), _value(a), _value(b))
        code = interpreter.MUL if covers else interpreter.DOT
        self._reverse_group(
            elementwise(code, self.sizes, loop, _adjoint(a), _adjoint(out), _value(b)),
            elementwise(interpreter.DOT, self.sizes, loop, _adjoint(b), _adjoint(out), _value(a)),
        )
        self.joined[v] = (a, b, out)
        return out

    def _operand(self, items: list[Node], batch: Axes, free: frozenset[int], v: int) -> tuple[Node, Axes, bool]:
        """Return a side's table stored (batch, free, v) or (batch, v, free), its free axes, and whether v is first."""
        if len(items) == 1 and items[0].axes[: len(batch)] == batch:
            rest = items[0].axes[len(batch) :]
            if rest[-1] == v:
                return items[0], rest[:-1], False
            if rest[0] == v:
                return items[0], rest[1:], True
        free_axes = self._late_first(free)
        return self.product(items, (*batch, *free_axes, v)), free_axes, False

    def _emit(self, code: int, loop: Axes, *tables: tuple[int, Axes]) -> None:
        self._forward.append(elementwise(code, self.sizes, loop, *tables))

    def _reverse_group(self, *records: list[int]) -> None:
        if self._reverse:
            self._backward.append(list(records))


def _value(t: Node) -> tuple[int, Axes]:
    return t.value, t.axes


def _adjoint(t: Node) -> tuple[int, Axes]:
    return t.adjoint, t.axes


def _batch_of(items: list[Node], batch: frozenset[int], v: int) -> Axes | None:
    """Return the order in which a lone table already stores the batch axes in front, if it does."""
    if len(items) != 1:
        return None
    axes = items[0].axes
    head, rest = axes[: len(batch)], axes[len(batch) :]
    return head if set(head) == batch and v in (rest[0], rest[-1]) else None


@njit(cache=True)
def _best_split(masks, sizes, v):  # type: ignore[no-untyped-def]
    """Return the subset of items (bit i = item i goes left, item 0 always) whose contraction over v is cheapest.

    Cost in elementary operations, measured weights: a matrix product of at least 8 rows and columns runs eight
    times faster per multiply-add than a scalar loop; forming the product table of a side costs about four per cell.
    """
    n = masks.size
    best = np.int64(1)
    least = np.inf
    for s in range(1 << (n - 1)):
        left = right = np.int64(0)
        count_l = count_r = 0
        for i in range(n):
            if i == 0 or (s >> (i - 1)) & 1:
                left |= masks[i]
                count_l += 1
            else:
                right |= masks[i]
                count_r += 1
        batch = rows = columns = 1.0
        for a in range(sizes.size):
            if a == v:
                continue
            in_l = (left >> a) & 1
            in_r = (right >> a) & 1
            if in_l and in_r:
                batch *= sizes[a]
            elif in_l:
                rows *= sizes[a]
            elif in_r:
                columns *= sizes[a]
        inner = sizes[v]
        macs = batch * rows * columns * inner
        per = rows * columns * inner
        fast = 1.0
        if rows > 1 and columns > 1 and per >= 4096:
            fast = 8.0 if min(rows, columns) >= 8 else 3.0 if max(rows, columns) >= 8 else 1.0
        cost = 3.0 * macs / fast + 20.0 * batch
        if count_l > 1:
            cost += 4.0 * batch * rows * inner * (count_l - 1)
        if count_r > 1:
            cost += 4.0 * batch * columns * inner * (count_r - 1)
        if cost < least:
            least = cost
            best = np.int64((s << 1) | 1)
    return best


def _split(scopes: Sequence[frozenset[int]], v: int, sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return which of at most `_MAX_SPLIT` items go left and right when `v` is summed out of their product."""
    if len(scopes) <= 2:
        return [0], list(range(1, len(scopes)))  # the product of two tables is never cheaper than joining them
    local = {a: i for i, a in enumerate(sorted(frozenset().union(*scopes)))}
    masks = np.array([sum(1 << local[a] for a in s) for s in scopes], np.int64)
    chosen = int(_best_split(masks, np.array([sizes[a] for a in local], np.float64), local[v]))
    left = [i for i in range(len(scopes)) if chosen >> i & 1]
    return left, [i for i in range(len(scopes)) if not chosen >> i & 1]


# Not attributes of a plan, which a fitted model shows: whether its pairs were computed may depend on private rows.
_pairs: WeakKeyDictionary[Plan, PairPlan] = WeakKeyDictionary()
_pair_programs: WeakKeyDictionary[Plan, NDArray[np.int64]] = WeakKeyDictionary()


class Plan:
    """The programs and the memory layout of inference on one set of cliques.

    Blocks (measured marginals) are sorted tuples of attribute positions, each with its vector of dual variables; nested
    ones are added into the smallest maximal one that contains them. `sizes` are the numbers of values of attributes,
    `extra` cliques that the model must have besides (structural zeros).

    >>> plan = Plan([(0, 1), (1, 2), (1,)], (2, 3, 4, 5))
    >>> plan.cliques, len(plan.components)
    ([(0, 1), (1, 2), (3,)], 2)
    """

    def __init__(self, blocks: Sequence[Clique], sizes: Sequence[int], extra: Sequence[Clique] = ()) -> None:
        self.sizes = tuple(int(m) for m in sizes)
        self.blocks = [tuple(b) for b in blocks]
        self.extra = [tuple(c) for c in extra]
        covered = {v for c in (*self.blocks, *self.extra) for v in c}
        lonely = [(v,) for v in range(len(self.sizes)) if v not in covered]
        self.cliques = maximal([*self.blocks, *self.extra, *lonely])  # an attribute in no block has its own
        self.elimination = _cheapest(orders(self.cliques, self.sizes), self.sizes)
        self.order = self.elimination.order
        self.theta_at = _starts(self.cliques, self.sizes)
        self.block_at = _starts(self.blocks, self.sizes)
        # Workspace: potentials, factors, marginals (= adjoints of the factors), duals, block marginals, the rest.
        n, m = self.theta_at[-1], self.block_at[-1]
        self.theta, self.values, self.mu = slice(0, n), slice(n, 2 * n), slice(2 * n, 3 * n)
        self.dual, self.block_mu = slice(3 * n, 3 * n + m), slice(3 * n + m, 3 * n + 2 * m)
        self._compile_pass()
        self._compile_blocks()

    @property
    def bytes(self) -> int:
        """Memory of the workspace."""
        return 8 * self.n_workspace

    @property
    def pairs(self) -> PairPlan:
        """The junction tree on which all pairs are computed, and its cost."""
        if self not in _pairs:
            _pairs[self] = PairPlan(self.elimination, self.sizes)
        return _pairs[self]

    @property
    def pair_program(self) -> NDArray[np.int64]:
        """What `all_pairs` runs on a workspace."""
        if self not in _pair_programs:
            _pair_programs[self] = self.pairs.program(self.joined)
        return _pair_programs[self]

    def embed(self, plan: Plan, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the potentials of a plan whose cliques lie in this one's as potentials on this one."""
        out = np.zeros(self.theta_at[-1])
        for i, clique in enumerate(plan.cliques):
            host = self._host(clique)
            if host is None:
                raise InputError("the warm start has a clique that the new model lacks; keep its measurements")
            axes = self.cliques[host]
            target = out[self.theta_at[host] : self.theta_at[host + 1]].reshape([self.sizes[a] for a in axes])
            source = theta[plan.theta_at[i] : plan.theta_at[i + 1]]
            target += source.reshape([self.sizes[a] if a in clique else 1 for a in axes])
        return out

    def _host(self, clique: Clique) -> int | None:
        """Return the position of the smallest of the model's cliques that contains `clique`, if one does."""
        few = min((self._holding[a] for a in clique), key=len)
        return next((i for i in few if self._members[i].issuperset(clique)), None)

    def _compile_pass(self) -> None:
        n = self.theta_at[-1]
        self.factors = [
            Node(c, math.prod(self.sizes[a] for a in c), n + at, 2 * n + at)
            for c, at in zip(self.cliques, self.theta_at, strict=False)
        ]
        self._members = [frozenset(c) for c in self.cliques]
        self._holding: list[list[int]] = [[] for _ in self.sizes]  # of each attribute: its cliques, smallest first
        for i in sorted(range(len(self.factors)), key=lambda i: (self.factors[i].cells, i)):
            for a in self.cliques[i]:
                self._holding[a].append(i)
        work = Contraction(self.sizes, {v: i for i, v in enumerate(self.order)}, start=self.block_mu.stop, reverse=True)
        live = list(self.factors)
        # What each live table contains: positions of cliques, attributes.
        reach = {id(t): ({i}, set(t.axes)) for i, t in enumerate(self.factors)}
        # Attributes, positions in `cliques`, and the scalar root message of each connected component.
        self.components: list[tuple[tuple[int, ...], list[int], Node]] = []
        for v in self.order:
            bucket = [t for t in live if v in t.axes]
            live = [t for t in live if v not in t.axes]
            message = work.sum_out(v, bucket)
            inside = set().union(*(reach[id(t)][0] for t in bucket)), set().union(*(reach[id(t)][1] for t in bucket))
            reach[id(message)] = inside
            if message.axes:
                live.append(message)
            else:
                self.components.append((tuple(sorted(inside[1])), sorted(inside[0]), message))
        # The adjoint of a factor times the factor is its marginal: finish in place.
        finish = elementwise(interpreter.MUL, (n,), (0,), (2 * n, (0,)), (2 * n, (0,)), (n, (0,)))
        self.forward = work.forward()
        self.backward = np.concatenate([work.backward(), as_program([finish])])
        self.nodes = [*self.factors, *work.nodes]  # every table of the pass
        self.joined, self.n_scales = work.joined, work.n_scales
        self.n_workspace = work.end  # length in float64

    def _compile_blocks(self) -> None:
        """Compile duals -> potentials (broadcast-add into the host) and marginals -> block marginals."""
        expand, project = [], []
        for b, at in zip(self.blocks, self.block_at, strict=False):
            i = self._host(b)
            assert i is not None
            clique, host = self.cliques[i], self.theta_at[i]
            expand.append(elementwise(interpreter.ADD, self.sizes, clique, (host, clique), (self.dual.start + at, b)))
            target = (self.block_mu.start + at, b)
            project.append(elementwise(interpreter.SUM, self.sizes, clique, target, (self.mu.start + host, clique)))
        # For balancing: per attribute, every factor that holds it as (offset, outer cells, size, inner cells).
        lines: list[list[tuple[int, int, int, int]]] = [[] for _ in self.sizes]
        for clique, at in zip(self.cliques, self.theta_at, strict=False):
            for i, a in enumerate(clique):
                outer, inner = (math.prod(self.sizes[x] for x in part) for part in (clique[:i], clique[i + 1 :]))
                lines[a].append((at, outer, self.sizes[a], inner))
        self.lines = np.array([line for held in lines for line in held], np.int64)
        self.holders = np.cumsum([0, *(len(held) for held in lines)])
        self.expand = as_program(expand)
        self.project = as_program(project)


def _cheapest(found: Sequence[Order], sizes: tuple[int, ...]) -> Order:
    """Return the order with the smallest messages: a pass is as quick as they are small.

    Where there are many pairs to score, their sweep (which needs small cliques) is weighed against a round's passes.
    """
    smallest = min(found, key=lambda o: o.cells)
    if len(sizes) < _MANY_ATTRIBUTES or smallest.cells < _MANY_CELLS:
        return smallest
    per_cell = _PASSES_A_ROUND * _PLACES_A_CELL * _SECONDS_PER_PLACE
    return min(found, key=lambda o: per_cell * o.cells + PairPlan(o, sizes).seconds)


def _starts(tables: Sequence[Clique], sizes: Sequence[int]) -> list[int]:
    cells = [math.prod(sizes[a] for a in t) for t in tables]
    return [0, *np.cumsum(np.array(cells, np.int64)).tolist()]


# Measured on one 2.8 GHz server core. A pass waits for memory: its operations take no time beside that.
_SECONDS_PER_PASS = 3e-5
_SECONDS_PER_TABLE = 0.9e-6
_SECONDS_PER_PLACE = 2.6e-9  # of the workspace
_PLACES_A_CELL = 4.2  # of the workspace, for each cell of a message
_PASSES_A_ROUND = 25
_MANY_ATTRIBUTES, _MANY_CELLS = 32, 3e4  # from which on it pays to weigh the sweep over all pairs


@dataclass(frozen=True)
class Cost:
    """Predicted cost of inference on a set of cliques.

    >>> Cost(cells=2.0**20, megabytes=8.0, bytes=10**7, seconds_per_pass=0.01).megabytes
    8.0
    """

    cells: float  # of the junction tree's tables: what the MAX-SIZE rule counts; never built
    megabytes: float  # the same in float64 MB
    bytes: int  # memory really used for the tables of a pass
    seconds_per_pass: float  # CPU time of one inference pass, within a factor of about two


def predict_cost(domain: Domain, cliques: Iterable[Sequence[str]]) -> Cost:
    """Return the cost of a model with these cliques, without building it.

    >>> from marginalia.data.domain import Column
    >>> domain = Domain(Column(name, 10) for name in "abc")
    >>> predict_cost(domain, [("a", "b"), ("b", "c")]).cells
    200.0
    """
    blocks = sorted({tuple(sorted(domain.index(a) for a in c)) for c in cliques})
    elimination = eliminate(blocks, domain.sizes)
    plan = Plan(blocks, domain.sizes)
    return Cost(elimination.cells, elimination.megabytes, plan.bytes, seconds_per_pass(plan))


def seconds_per_pass(plan: Plan) -> float:
    """Return the predicted CPU seconds of one pass (structure only, so the prediction is public)."""
    return _SECONDS_PER_PASS + len(plan.nodes) * _SECONDS_PER_TABLE + plan.n_workspace * _SECONDS_PER_PLACE


def check_memory(plan: Plan) -> None:
    """Raise an InputError if a model does not fit in free memory."""
    check_cost("the model", plan.bytes, mend="measure smaller marginals or lower max_model_mb")
