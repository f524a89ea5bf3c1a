"""Every pair marginal of a calibrated model in one sweep over the junction tree, and one back.

The tree, its rows and its cost are a `PairPlan`: structure only.

Going up from its leaves, U[sep, rows] holds P(sep, a = i) with one row for each value i of
each attribute a at or below the node. U is pushed to the parent's separator for all rows at once. Two attributes then
meet in one of four places:

- both own attributes of a node: sum its clique;
- a below a node that owns b: push a's rows to b;
- a and b below different children of a node: the product of their rows over one child's separator (given the clique
  they are independent); children with the same separator share one product;
- different components: independent.

Rows need not go all the way: given the separator s they are independent of all that is not below it. Where s is one
attribute they go no further, and where it has fewer cells than there are rows, its cells go up in their place. Coming
back, P(a, b) = sum_s P(a | s) P(s, b) gives their pairs with all the rest.

The sweep is compiled. Tables are flat, their axes in the order of attributes, the last one contiguous; U has its rows
behind them. A set of axes is a mask over the positions in the clique.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from marginalia.marginals.inference import Inference
from marginalia.marginals.interpreter import flush_denormals, restore_denormals

Array = NDArray[np.float64]

_TINY = np.finfo(np.float64).tiny
_SMALL = 4096  # multiply-adds below which a BLAS call costs more than it saves


class Arena:
    """Memory for the tables of several sweeps: to touch fresh memory takes a third of the time of a large sweep.

    numpy takes memory in large pages. To touch the small pages of compiled code took more than half of the time.

    >>> arena = Arena()
    >>> arena.room(3).size, arena.room(2).size
    (3, 3)
    """

    def __init__(self) -> None:
        self._memory = np.empty(0)

    def room(self, cells: int) -> Array:
        """Return memory of at least `cells` numbers, whose content is arbitrary."""
        if self._memory.size < cells:
            self._memory = np.empty(0)  # free what is there before more is taken
            self._memory = np.empty(cells)
        return self._memory


class AllPairs:
    """The pair marginals of a calibrated `Inference`, as probabilities; they stay valid after its next pass.

    >>> from marginalia.marginals.plan import Plan
    >>> inference = Inference(Plan([(0, 1), (1, 2)], (2, 2, 4)))
    >>> _ = inference.calibrate()  # all potentials 0: uniform
    >>> AllPairs(inference).pair(0, 2)[0]
    array([0.125, 0.125, 0.125, 0.125])
    """

    def __init__(self, inference: Inference, arena: Arena | None = None) -> None:
        self._pairs = inference.plan.pairs
        self._joint = np.zeros((self._pairs.n_rows, self._pairs.n_rows))  # P(row, column); symmetric
        room = (arena or Arena()).room(self._pairs.scratch)
        _sweep(inference.plan.pair_program, inference.workspace, inference.domain == "log", self._joint, room)
        single = self._joint.diagonal().copy()  # 0 where a row stands for cells of a separator
        for _, rows in self._pairs.components[:-1]:
            later = slice(rows.stop, self._pairs.n_rows)
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
        return np.asarray(_chosen(self._joint, self._pairs.in_order))


@njit(cache=True)
def _chosen(matrix, at):  # type: ignore[no-untyped-def]
    """Return the entries of a square matrix at some of its rows and the same columns."""
    out = np.empty((at.size, at.size))
    for i in range(at.size):
        row = matrix[at[i]]
        for j in range(at.size):
            out[i, j] = row[at[j]]
    return out


# A record of a group of children, from its start; then come the number and the height of each member, and all rows.
MEMBERS, AXES, HEIGHT, ANCHOR, ROWS, FIRST, STOP, MEMBER = range(8)


@njit(cache=True)
def _sweep(program, w, is_log, joint, arena):  # type: ignore[no-untyped-def]
    """Fill in the pairs of all components; `PairPlan.program` writes the records."""
    saved = flush_denormals()
    top = np.zeros(1, np.int64)  # of the arena: below are the U that wait, then what the present node has made
    up = [np.empty(0) for _ in range(program[0])]  # U of each node until its parent takes it ...
    starts = np.zeros(program[0], np.int64)  # ... and where it starts in the arena
    back, back_at = [np.empty(0)], [np.int64(0)]  # P(rows | separator) of rows that went no further, and their group
    i, part = np.int64(1), np.int64(0)
    while i < program.size:
        first, stop, is_root = program[i], program[i + 1], program[i + 2]
        i = _visit(program, i + 3, w, is_log, joint, up, part, back, back_at, arena, top, starts)
        part += 1
        if is_root:
            while len(back) > 1:
                _answer_back(program, back_at.pop(), back.pop(), joint, first, stop)
    restore_denormals(saved)


@njit(cache=True)
def _take(arena, top, size):  # type: ignore[no-untyped-def]
    """Return room for a table: of the arena while it lasts."""
    start = top[0]
    if start + size > arena.size:
        return np.empty(size)
    top[0] = start + size
    return arena[start : start + size]


@njit(cache=True)
def _visit(p, i, w, is_log, joint, up, part, back, back_at, arena, top, starts):  # type: ignore[no-untyped-def]
    """Fill in the pairs that meet at a node, set its U, drop those of its children; return where the next starts."""
    bottom = top[0]  # the arena is free from here on once U is made
    k = p[i]
    sizes, by_size, i = p[i + 1 : i + 1 + k], p[i + 1 + k : i + 1 + 2 * k], i + 1 + 2 * k
    n = p[i]
    offsets, moves, i = p[i + 1 : i + 1 + n], p[i + 1 + n : i + 1 + n + n * k], i + 1 + n + n * k
    separator, height, n_groups, n = p[i], p[i + 1], p[i + 2], p[i + 3]
    own, first, i = p[i + 4 : i + 4 + n], p[i + 4 + n : i + 4 + 2 * n], i + 4 + 2 * n  # positions, first rows
    # Tables on the clique and on parts of it: of its own probabilities (owner -1), and of the rows of held groups.
    made = [_clique(w, offsets, moves, sizes, is_log, _take(arena, top, sizes.prod()))]
    axes, owners = [(np.int64(1) << k) - 1], [np.int64(-1)]
    for x in range(n):
        single = made[_onto(made, axes, owners, -1, 1, np.int64(1) << own[x], sizes, by_size, arena, top)]
        for r in range(single.size):
            joint[first[x] + r, first[x] + r] = single[r]
        for y in range(x):
            both = (np.int64(1) << own[x]) | (np.int64(1) << own[y])
            table = made[_onto(made, axes, owners, -1, 1, both, sizes, by_size, arena, top)]
            low, high = (x, y) if own[x] < own[y] else (y, x)
            n_high = sizes[own[high]]
            for r in range(sizes[own[low]]):
                for c in range(n_high):
                    joint[first[low] + r, first[high] + c] = table[r * n_high + c]
                    joint[first[high] + c, first[low] + r] = table[r * n_high + c]
    held = np.empty(n_groups, np.int64)  # the groups of which rows go up
    n_held = np.int64(0)
    for _ in range(n_groups):
        cells = _cells(p[i + AXES], sizes)
        bottom = min(bottom, starts[p[i + MEMBER]])
        stack = _side_by_side(p, i, up, cells, arena, top)
        if p[i + ANCHOR] >= 0 or p[i + MEMBERS] > 1:
            sums = made[_onto(made, axes, owners, -1, 1, p[i + AXES], sizes, by_size, arena, top)]
            _meet_within(p, i, joint, up, sums, arena, top)
            if p[i + ANCHOR] >= 0:
                back.append(_conditional(stack, sums, np.empty(stack.size)))
                back_at.append(i)
                stack = np.diag(sums).ravel()
        if p[i + HEIGHT]:
            made.append(stack)
            axes.append(p[i + AXES])
            owners.append(n_held)
            rows = _upward(p, i)
            for x in range(n):
                target = np.int64(1) << own[x]
                pushed = _push(made, axes, owners, n_held, rows.size, p[i + AXES], target, sizes, by_size, arena, top)
                own_rows = np.arange(first[x], first[x] + sizes[own[x]])
                _set(joint, own_rows, rows, pushed.reshape(own_rows.size, rows.size))
            held[n_held] = i
            n_held += 1
        i += MEMBER + 2 * p[i + MEMBERS] + p[i + ROWS]
    _meet(p, held[:n_held], joint, made, axes, owners, sizes, by_size, arena, top)
    if separator:
        cells = _cells(separator, sizes)
        out = _take(arena, top, cells * height).reshape(cells, height)
        column = 0
        for h in range(n_held):
            width, group = p[held[h] + HEIGHT], p[held[h] + AXES]
            pushed = _push(made, axes, owners, h, width, group, separator, sizes, by_size, arena, top)
            out[:, column : column + width] = pushed.reshape(cells, width)
            column += width
        for x in range(n):
            both, m = separator | (np.int64(1) << own[x]), sizes[own[x]]
            table = made[_onto(made, axes, owners, -1, 1, both, sizes, by_size, arena, top)]
            inner = _cells(separator >> own[x] << own[x], sizes)  # of the axes behind it
            table = table.reshape(cells // inner, m, inner)
            for s in range(cells):
                for r in range(m):
                    out[s, column + r] = table[s // inner, r, s % inner]
            column += m
        made.append(out.ravel())
    starts[part] = top[0] = bottom
    if separator:
        up[part] = _moved(made[-1], _take(arena, top, made[-1].size))
    return i


@njit(cache=True)
def _moved(table, out):  # type: ignore[no-untyped-def]
    for i in range(out.size):  # upwards: the two may overlap
        out[i] = table[i]
    return out


@njit(cache=True)
def _clique(w, offsets, moves, sizes, is_log, out):  # type: ignore[no-untyped-def]
    """Set `out` to P of a clique: the normalised product of two or three tables of the workspace, or of logarithms."""
    k, n = sizes.size, offsets.size
    at, counter = offsets.copy(), np.zeros(k, np.int64)
    length = np.uint64(sizes[k - 1])
    a_move, b_move = np.uint64(moves[k - 1]), np.uint64(moves[2 * k - 1])
    c_move = np.uint64(moves[3 * k - 1]) if n > 2 else np.uint64(0)
    for start in range(0, out.size, sizes[k - 1]):
        o, a, b = np.uint64(start), np.uint64(at[0]), np.uint64(at[1])
        if is_log:
            for j in range(length):
                out[o + j] = w[a + j * a_move] + w[b + j * b_move]
        else:
            for j in range(length):
                out[o + j] = w[a + j * a_move] * w[b + j * b_move]
        if n > 2:
            c = np.uint64(at[2])
            if is_log:
                for j in range(length):
                    out[o + j] += w[c + j * c_move]
            else:
                for j in range(length):
                    out[o + j] *= w[c + j * c_move]
        x = k - 2
        while x >= 0:
            counter[x] += 1
            for t in range(n):
                at[t] += moves[t * k + x]
            if counter[x] < sizes[x]:
                break
            for t in range(n):
                at[t] -= moves[t * k + x] * sizes[x]
            counter[x] = 0
            x -= 1
    if is_log:
        top = out.max()
        for j in range(out.size):
            out[j] = np.exp(out[j] - top)
    scale = 1.0 / out.sum()
    for j in range(out.size):
        out[j] *= scale
    return out


@njit(cache=True)
def _cells(mask, sizes):  # type: ignore[no-untyped-def]
    cells = np.int64(1)
    for a in range(sizes.size):
        if (mask >> a) & 1:
            cells *= sizes[a]
    return cells


@njit(cache=True)
def _onto(made, axes, owners, owner, width, target, sizes, by_size, arena, top):  # type: ignore[no-untyped-def]
    """Return the position in `made` of an owner's table summed onto `target`, along one axis after the other."""
    at = np.int64(0)
    while owners[at] != owner:
        at += 1
    for a in by_size:
        if not ((axes[at] & ~target) >> a) & 1:
            continue
        left = axes[at] & ~(np.int64(1) << a)
        found = np.int64(-1)
        for i in range(len(made)):
            if axes[i] == left and owners[i] == owner:
                found = np.int64(i)
        if found < 0:
            inner = width * _cells(left >> a << a, sizes)
            made.append(_without(made[at], sizes[a], inner, _take(arena, top, made[at].size // sizes[a])))
            axes.append(left)
            owners.append(np.int64(owner))
            found = np.int64(len(made) - 1)
        at = found
    return at


@njit(cache=True)
def _without(table, m, inner, out):  # type: ignore[no-untyped-def]
    """Return in `out` a table of shape (outer, m, inner) summed over its second axis."""
    out[:] = 0.0
    n, size, at = np.uint64(inner), np.uint64(m), np.uint64(0)
    for start in range(np.uint64(0), np.uint64(out.size), n):
        if inner == 1:
            total = 0.0
            for x in range(size):
                total += table[at + x]
            out[start] = total
            at += size
        else:
            for _ in range(size):
                for j in range(n):
                    out[start + j] += table[at + j]
                at += n
    return out


@njit(cache=True)
def _push(made, axes, owners, owner, width, group, target, sizes, by_size, arena, top):  # type: ignore[no-untyped-def]
    """Return P(target, rows) from P(group, rows), which are independent given the group; both are in the clique."""
    if not target & ~group:
        return made[_onto(made, axes, owners, owner, width, target, sizes, by_size, arena, top)]
    union = group | target
    table = made[_onto(made, axes, owners, -1, 1, union, sizes, by_size, arena, top)]
    given = _inverse(made[_onto(made, axes, owners, -1, 1, group, sizes, by_size, arena, top)])
    at = np.int64(0)
    while owners[at] != owner:
        at += 1
    stack = made[at]
    out = _take(arena, top, _cells(target, sizes) * width)
    out[:] = 0.0
    k = 0
    shape, group_moves, out_moves = np.empty_like(sizes), np.empty_like(sizes), np.empty_like(sizes)
    for a in range(sizes.size):
        if (union >> a) & 1:
            shape[k] = sizes[a]
            group_moves[k] = _cells(group >> a >> 1 << 1 << a, sizes) if (group >> a) & 1 else 0
            out_moves[k] = _cells(target >> a >> 1 << 1 << a, sizes) if (target >> a) & 1 else 0
            k += 1
    counter = np.zeros(k, np.int64)
    from_, to = np.int64(0), np.int64(0)
    n = np.uint64(width)
    for c in range(table.size):
        x = table[c] * given[from_]
        if x != 0.0:
            s, t = np.uint64(from_) * n, np.uint64(to) * n
            for r in range(n):
                out[t + r] += x * stack[s + r]
        axis = k - 1
        while axis >= 0:
            counter[axis] += 1
            from_ += group_moves[axis]
            to += out_moves[axis]
            if counter[axis] < shape[axis]:
                break
            from_ -= group_moves[axis] * shape[axis]
            to -= out_moves[axis] * shape[axis]
            counter[axis] = 0
            axis -= 1
    return out


@njit(cache=True)
def _inverse(table):  # type: ignore[no-untyped-def]
    """Return 1 / table, 0 where that is no number: at 0, and where a probability is too small to be told from it."""
    out = np.zeros(table.size)
    for i in range(table.size):
        if table[i] >= _TINY:
            out[i] = 1.0 / table[i]
    return out


@njit(cache=True)
def _conditional(stack, sums, out):  # type: ignore[no-untyped-def]
    """Return in `out` P(rows | separator) from P(separator, rows) and P(separator)."""
    inverse, width = _inverse(sums), stack.size // sums.size
    for s in range(sums.size):
        for r in range(s * width, (s + 1) * width):
            out[r] = stack[r] * inverse[s]
    return out


@njit(cache=True)
def _side_by_side(p, at, up, cells, arena, top):  # type: ignore[no-untyped-def]
    """Return U of a group of children, of which each cell of the separator has the rows of all."""
    members = p[at + MEMBER : at + MEMBER + 2 * p[at + MEMBERS]]
    if members.size == 2:
        return up[members[0]]
    joined = _take(arena, top, cells * p[at + ROWS]).reshape(cells, p[at + ROWS])
    column = 0
    for x in range(0, members.size, 2):
        joined[:, column : column + members[x + 1]] = up[members[x]].reshape(cells, members[x + 1])
        column += members[x + 1]
    return joined.ravel()


@njit(cache=True)
def _rows(p, at):  # type: ignore[no-untyped-def]
    """Return the rows of a group."""
    start = at + MEMBER + 2 * p[at + MEMBERS]
    return p[start : start + p[at + ROWS]]


@njit(cache=True)
def _upward(p, at):  # type: ignore[no-untyped-def]
    """Return the rows of a group that go up: its own, or those that stand for the cells of its separator."""
    return _rows(p, at) if p[at + ANCHOR] < 0 else np.arange(p[at + ANCHOR], p[at + ANCHOR] + p[at + HEIGHT])


@njit(cache=True)
def _meet_within(p, at, joint, up, sums, arena, top):  # type: ignore[no-untyped-def]
    """Fill in the pairs between members of a group."""
    rows, members = _rows(p, at), p[at + MEMBER : at + MEMBER + 2 * p[at + MEMBERS]]
    before = top[0]
    low = np.int64(0)
    for x in range(0, members.size - 2, 2):
        middle = low + members[x + 1]
        stack = up[members[x]]
        given = _conditional(stack, sums, _take(arena, top, stack.size)).reshape(sums.size, members[x + 1])
        high = middle
        for y in range(x + 2, members.size, 2):
            block = _product(given, up[members[y]].reshape(sums.size, members[y + 1]))
            _set(joint, rows[low:middle], rows[high : high + members[y + 1]], block)
            high += members[y + 1]
        low = middle
        top[0] = before


@njit(cache=True)
def _meet(p, held, joint, made, axes, owners, sizes, by_size, arena, top):  # type: ignore[no-untyped-def]
    """Fill in the pairs below different children of one node."""
    given = [np.empty(0) for _ in held]
    for i in range(held.size):
        for j in range(i):
            # Move the rows of one group to the other's separator, whichever is cheaper.
            g, h = p[held[i] + AXES], p[held[j] + AXES]
            union, products = _cells(g | h, sizes), p[held[i] + HEIGHT] * p[held[j] + HEIGHT]
            j_moves = p[held[j] + HEIGHT] * union + products * _cells(g, sizes)
            i_moves = p[held[i] + HEIGHT] * union + products * _cells(h, sizes)
            x, y = (j, i) if j_moves <= i_moves else (i, j)  # x moves to y
            target = p[held[y] + AXES]
            cells = _cells(target, sizes)
            if not given[y].size:
                first = np.int64(0)
                while owners[first] != y:
                    first += 1
                sums = made[_onto(made, axes, owners, -1, 1, target, sizes, by_size, arena, top)]
                given[y] = _conditional(made[first], sums, _take(arena, top, made[first].size))
            width = p[held[x] + HEIGHT]
            moved = _push(made, axes, owners, x, width, p[held[x] + AXES], target, sizes, by_size, arena, top)
            block = _product(moved.reshape(cells, width), given[y].reshape(cells, p[held[y] + HEIGHT]))
            _set(joint, _upward(p, held[x]), _upward(p, held[y]), block)


@njit(cache=True)
def _answer_back(p, at, given, joint, first, stop):  # type: ignore[no-untyped-def]
    """Fill in the pairs of rows that went no further with all rows of the component that are not below their node."""
    rows, cells = _rows(p, at), given.size // p[at + ROWS]
    rest = np.concatenate((np.arange(first, p[at + FIRST]), np.arange(p[at + STOP], stop)))
    anchors = np.empty((cells, rest.size))
    for s in range(cells):
        line = joint[p[at + ANCHOR] + s]
        for c in range(rest.size):
            anchors[s, c] = line[rest[c]]
    _set(joint, rows, rest, _product(given.reshape(cells, rows.size), anchors))


@njit(cache=True)
def _product(a, b):  # type: ignore[no-untyped-def]
    """Return the product of a transposed and b."""
    if a.size * b.shape[1] >= _SMALL:
        return np.dot(a.T, b)
    out = np.zeros((a.shape[1], b.shape[1]))
    for s in range(a.shape[0]):
        for r in range(a.shape[1]):
            x = a[s, r]
            for c in range(b.shape[1]):
                out[r, c] += x * b[s, c]
    return out


@njit(cache=True)
def _set(joint, rows, columns, block):  # type: ignore[no-untyped-def]
    for r in range(rows.size):
        line = joint[rows[r]]
        for c in range(columns.size):
            line[columns[c]] = block[r, c]
            joint[columns[c], rows[r]] = block[r, c]
