"""Any marginal of a calibrated model, with a bound on the memory of the computation.

After one inference pass every table times its adjoint is a marginal. For attributes q:

1. q inside one table: sum that product onto q (the smallest such table, or an answer already given).
2. otherwise take the smallest set of connected eliminations that covers q: their tables, the messages that enter
   from outside, and the adjoint of the root's message, which stands for everything beyond. Sum the rest out.
3. attributes in different connected components are independent.

Where a step would build a table beyond the bound, the sum is done in slices: one attribute fixed at a time.

Preparing a contraction costs more than running it when tables are small. Where many marginals are expected, step 2
therefore answers for q and further attributes at once, those that complete the most of the expected ones. Where only
pairs are expected, all of them are computed in one sweep (`all_pairs`) once contractions have cost as much, predicted,
as the sweep will.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.marginals import interpreter
from marginalia.marginals.all_pairs import AllPairs
from marginalia.marginals.elimination import Clique
from marginalia.marginals.inference import Inference
from marginalia.marginals.interpreter import Node, as_program, elementwise, strides
from marginalia.marginals.plan import Contraction

_MEMO_CELLS = 4_000_000
_WIDE_CELLS = 4096  # of an answer for several expected marginals ...
_WIDE_OPERATIONS = 1e6  # ... and weighted multiply-adds (of `Contraction`) spent on it
# Of a contraction; measured on one 2.8 GHz server core.
_SECONDS_PER_CONTRACTION = 2e-3
_SECONDS_PER_OPERATION = 0.5e-9


class CandidateMarginals:
    """Marginals of one calibrated model; valid until the next pass of its `Inference`.

    The `scratch_bytes` of the inference bound the memory of intermediate tables and of an answer.

    >>> from marginalia.marginals.plan import Plan
    >>> inference = Inference(Plan([(0, 1), (1, 2)], (2, 2, 4)))
    >>> _ = inference.calibrate()  # all potentials 0: uniform
    >>> CandidateMarginals(inference).marginal((0, 2))[0]
    array([0.125, 0.125, 0.125, 0.125])
    """

    def __init__(self, inference: Inference) -> None:
        self.inference = inference
        self.max_bytes = inference.scratch_bytes
        plan = inference.plan
        self._sizes = plan.sizes
        self._step = {v: i for i, v in enumerate(plan.order)}
        self._component = {v: i for i, (members, _, _) in enumerate(plan.components) for v in members}
        self._tables = [(frozenset(t.axes), t) for t in sorted(plan.nodes, key=lambda t: t.cells)]
        # The message of v is consumed when the first attribute of its axes goes.
        self._parent = {
            v: min(message.axes, key=self._step.__getitem__) if message.axes else None
            for v, (_, _, message) in plan.joined.items()
        }
        self._factor_of = {t.value: t for t in plan.factors}
        self._memo: dict[Clique, NDArray[np.float64]] = {}
        self._memo_masks: list[tuple[int, int, Clique]] = []  # cells, attributes as bits, key
        self._memo_cells = 0
        self._open = np.zeros((0, len(plan.sizes)), dtype=bool)  # expected marginals without an answer
        self._only_pairs = False
        self._pairs: AllPairs | None = None
        self._spent = 0.0  # predicted seconds of contractions

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Announce marginals, most of which will be asked for in any order."""
        cliques = list(cliques)
        self._only_pairs = max(map(len, cliques), default=0) == 2
        parts = list(dict.fromkeys(part for clique in cliques for part in self._by_component(clique)))
        self._open = np.zeros((len(parts), len(self._sizes)), dtype=bool)
        for row, part in zip(self._open, parts, strict=True):
            row[list(part)] = True

    def marginal(self, clique: Iterable[int]) -> NDArray[np.float64]:
        """Return the probabilities of the marginal on `clique`, axes in ascending attribute order."""
        q = tuple(sorted(clique))
        if len(q) == 2 and self._pairs is not None:
            return self._pairs.pair(*q)
        if q in self._memo:
            return self._memo[q]
        cells = math.prod(self._sizes[a] for a in q)
        if 8 * cells > self.max_bytes:
            raise InputError(f"a marginal of {cells} cells does not fit the {self.max_bytes >> 20} MB set for answers")
        parts = self._by_component(q)
        if len(parts) == 1:
            answer = self._connected(q)
        else:
            answer = np.ones([1] * len(q))
            for part in parts:
                answer = answer * self.marginal(part).reshape([self._sizes[a] if a in part else 1 for a in q])
        self._remember(q, answer)
        return answer

    def _by_component(self, clique: Iterable[int]) -> list[Clique]:
        parts: dict[int, list[int]] = {}
        for a in sorted(clique):
            parts.setdefault(self._component[a], []).append(a)
        return [tuple(part) for part in parts.values()]

    def _remember(self, q: Clique, answer: NDArray[np.float64]) -> None:
        if self._memo_cells + answer.size <= _MEMO_CELLS:
            self._memo[q] = answer
            self._memo_masks.append((answer.size, _bits(q), q))
            self._memo_cells += answer.size

    def _connected(self, q: Clique) -> NDArray[np.float64]:
        wanted = frozenset(q)
        table = next((t for axes, t in self._tables if wanted <= axes), None)
        mask = _bits(q)
        known = min((k for k in self._memo_masks if k[1] & mask == mask), default=None)
        if known is not None and (table is None or known[0] < table.cells):
            others = tuple(i for i, a in enumerate(known[2]) if a not in wanted)
            return np.asarray(self._memo[known[2]].sum(axis=others))
        if table is not None:
            return self._from_table(table, q)
        return self._from_subtree(q)

    def _from_table(self, table: Node, q: Clique) -> NDArray[np.float64]:
        plan = self.inference.plan
        if table.value in self._factor_of:
            start = table.adjoint  # clique marginals are finished, and linear in every domain
            full = self.inference.workspace[start : start + table.cells].reshape([self._sizes[a] for a in table.axes])
            answer = full.sum(axis=tuple(i for i, a in enumerate(table.axes) if a not in q))
            return answer / answer.sum()
        work = Contraction(self._sizes, self._step, plan.n_workspace, reverse=False)
        out = work.allocate(q)
        code = interpreter.MUL if len(q) == len(table.axes) else interpreter.DOT
        value, adjoint = (table.value, table.axes), (table.adjoint, table.axes)
        record = elementwise(code, self._sizes, table.axes, (out.value, q), value, adjoint)
        w = self.inference.memory[: work.end]
        self._execute(as_program([record]), w)
        return self._read(w, out)

    def _no_longer_expect(self, q: Clique) -> None:
        self._open = self._open[np.delete(self._open, q, axis=1).any(axis=1)]

    def _sweep_pays(self) -> bool:
        """Return whether contractions have cost as much as computing all pairs at once, in prediction."""
        plan = self.inference.plan.pairs
        return plan.seconds <= self._spent and 8 * plan.cells <= self.max_bytes

    def _from_subtree(self, q: Clique) -> NDArray[np.float64]:
        if self._only_pairs and len(q) == 2 and self._sweep_pays():
            self._pairs = AllPairs(self.inference)
            return self._pairs.pair(*q)
        self._no_longer_expect(q)
        wide = self._widen(q)
        if wide != q:
            work, _, out = self._contract(self._subtree_tables(wide), wide, ())
            peak = 8 * (work.end - self.inference.plan.n_workspace)
            if work.operations <= _WIDE_OPERATIONS and peak <= self.max_bytes:
                answer = self._run(work, out)
                self._remember(wide, answer)
                self._no_longer_expect(wide)
                return np.asarray(answer.sum(axis=tuple(i for i, a in enumerate(wide) if a not in q)))
        leaves = self._subtree_tables(q)
        slices: tuple[int, ...] = ()
        while True:
            work, heads, out = self._contract(leaves, q, slices)
            peak = 8 * (work.end - self.inference.plan.n_workspace)
            if peak <= self.max_bytes:
                break
            largest = max(work.nodes, key=lambda t: t.cells).axes
            open_axes = [a for a in largest if a not in slices and self._sizes[a] > 1]
            if not open_axes:
                raise InputError(
                    f"a marginal of {out.cells} cells needs more than the {self.max_bytes >> 20} MB set for candidates"
                )
            slices = (*slices, max(open_axes, key=lambda a: (a in q, self._sizes[a], -a)))
        return self._by_slices(work, heads, out, q, slices) if slices else self._run(work, out)

    def _widen(self, q: Clique) -> Clique:
        """Return q with further attributes of its component, by which the most expected marginals are answered too."""
        component = self._component[q[0]]
        inside = np.array([self._component[a] == component for a in range(len(self._sizes))])
        chosen = np.zeros(len(self._sizes), dtype=bool)
        chosen[list(q)] = True
        sizes = np.array(self._sizes)
        cells = math.prod(self._sizes[a] for a in q)
        expected = self._open[(self._open & inside).any(axis=1)]
        missing = (expected & ~chosen).sum(axis=1)
        while len(missing):
            fits = inside & ~chosen & (cells * sizes <= _WIDE_CELLS)
            if not fits.any():
                break
            # Completed at once; among equals, those that come nearest to completing many.
            gain = expected[missing == 1].sum(axis=0) + 1e-3 * expected[missing == 2].sum(axis=0)
            a = int(np.argmax(np.where(fits, gain / np.log2(sizes + 1), -1.0)))
            chosen[a] = True
            cells *= self._sizes[a]
            missing = missing - expected[:, a]
        return tuple(int(a) for a in np.flatnonzero(chosen))

    def _by_slices(
        self, work: Contraction, heads: list[tuple[Node, Node]], out: Node, q: Clique, slices: tuple[int, ...]
    ) -> NDArray[np.float64]:
        """Run the contraction once per value of the sliced attributes and put the pieces together."""
        w = self.inference.memory[: work.end]
        answer = np.zeros([self._sizes[a] for a in q])
        program = work.forward()
        pieces: list[tuple[tuple[slice | int, ...], NDArray[np.float64], float]] = []
        for values in np.ndindex(*(self._sizes[a] for a in slices)):
            fixed = dict(zip(slices, values, strict=True))
            copies = []
            for source, copy in heads:
                step = strides(source.axes, self._sizes)
                offset = source.value + sum(fixed[a] * step[a] for a in source.axes if a in fixed)
                target = (copy.value, copy.axes)
                copies.append(
                    elementwise(interpreter.COPY, work.sizes, copy.axes, target, (offset, ()), a_strides=step)
                )
            log_scale = self._execute(np.concatenate([as_program(copies), program]), w, work.n_scales)
            index = tuple(fixed.get(a, slice(None)) for a in q)
            piece = w[out.value : out.value + out.cells].reshape([work.sizes[a] for a in q])
            piece = piece[tuple(0 if a in fixed else slice(None) for a in q)]
            pieces.append((index, piece.copy(), log_scale))
        top = max(s + (p.max() if self._is_log else _log(p.max())) for _, p, s in pieces)
        for index, piece, log_scale in pieces:
            answer[index] += np.exp(piece + (log_scale - top)) if self._is_log else piece * math.exp(log_scale - top)
        return answer / answer.sum()

    def _run(self, work: Contraction, out: Node) -> NDArray[np.float64]:
        w = self.inference.memory[: work.end]
        self._execute(work.forward(), w, work.n_scales)
        return self._read(w, out)

    @property
    def _is_log(self) -> bool:
        return self.inference.domain == "log"

    def _execute(self, program: NDArray[np.int64], w: NDArray[np.float64], n_scales: int = 0) -> float:
        """Run a program in the pass's domain; return the log of the scale taken out of its result."""
        if self._is_log:
            interpreter.run_log(program, w)
            return 0.0
        scales = np.ones(n_scales)
        if not interpreter.run(program, w, scales):
            return -math.inf  # a slice without mass
        return float(np.log(scales).sum())

    def _read(self, w: NDArray[np.float64], out: Node) -> NDArray[np.float64]:
        table = w[out.value : out.value + out.cells].reshape([self._sizes[a] for a in out.axes])
        table = np.exp(table - table.max()) if self._is_log else table.copy()
        return np.asarray(table / table.sum())

    def _subtree_tables(self, q: Clique) -> list[tuple[Node, bool]]:
        """Return the tables (and whether to take the adjoint) whose product, summed onto q, is its marginal."""
        plan = self.inference.plan
        tree = self._spanning(q)
        inner = {id(plan.joined[v][2]): v for v in tree}
        tables: list[tuple[Node, bool]] = []

        def collect(t: Node) -> bool:
            """Append what `t` is made of, coarsely; return whether a message of the subtree is inside."""
            if id(t) in inner:
                for side in plan.joined[inner[id(t)]][:2]:
                    if side is not None:
                        collect(side)
                return True
            start = len(tables)
            holds_message = [collect(part) for part in t.inputs]
            if any(holds_message):
                return True
            tables[start:] = [(t, False)]
            return False

        message = plan.joined[max(tree, key=self._step.__getitem__)][2]
        collect(message)
        if message.axes:
            tables.append((message, True))
        return tables

    def _spanning(self, q: Clique) -> set[int]:
        """Return the eliminations of the smallest subtree whose tables cover q."""
        plan = self.inference.plan
        paths = [self._ancestors(a) for a in q]
        shared = set(paths[0]).intersection(*paths[1:])
        top = min(shared, key=self._step.__getitem__)
        tree = {v for path in paths for v in path[: path.index(top) + 1]}
        wanted = frozenset(q)
        scope = {v: {v, *plan.joined[v][2].axes} for v in tree}
        while len(tree) > 1:  # drop the root while a single child holds all it has of q
            root = max(tree, key=self._step.__getitem__)
            children = [v for v in tree if self._parent[v] == root]
            if len(children) != 1 or not wanted & scope[root] <= scope[children[0]] - {children[0]}:
                break
            tree.discard(root)
        return tree

    def _ancestors(self, a: int) -> list[int]:
        """Return the elimination of `a` and those its message goes through, up to the root."""
        path = [a]
        while (parent := self._parent[path[-1]]) is not None:
            path.append(parent)
        return path

    def _contract(
        self, leaves: list[tuple[Node, bool]], q: Clique, slices: Sequence[int]
    ) -> tuple[Contraction, list[tuple[Node, Node]], Node]:
        """Compile the sum of the leaves' product onto q; sliced attributes have size 1 and their tables are copied."""
        sizes = tuple(1 if a in slices else m for a, m in enumerate(self._sizes))
        work = Contraction(sizes, self._step, self.inference.plan.n_workspace, reverse=False)
        live, heads = [], []
        for t, adjoint in leaves:
            source = Node(t.axes, t.cells, t.adjoint if adjoint else t.value)
            if any(a in slices for a in t.axes):
                copy = work.allocate(t.axes)
                heads.append((source, copy))
                live.append(copy)
            else:
                live.append(source)

        def price(v: int) -> tuple[int, int, int]:
            scope = frozenset().union(*(t.axes for t in live if v in t.axes))
            cells = work.cells(tuple(scope))
            return cells // sizes[v], cells, v  # the smallest message first

        prices = {v: price(v) for v in {a for t in live for a in t.axes}.difference(q)}
        while prices:
            v = min(prices.values())[2]
            del prices[v]
            bucket = [t for t in live if v in t.axes]
            live = [t for t in live if v not in t.axes]
            message = work.sum_out(v, bucket)
            live.append(message)
            prices.update((a, price(a)) for a in message.axes if a in prices)
        self._spent += _SECONDS_PER_CONTRACTION + work.operations * _SECONDS_PER_OPERATION
        return work, heads, work.product(live, q)


def _bits(clique: Iterable[int]) -> int:
    return sum(1 << a for a in clique)


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf
