"""Draw rows from a calibrated model with as little rounding noise as whole rows allow.

Attributes are drawn in reverse elimination order. The rows that agree on the parents of v (its neighbours in the
triangulated graph drawn before it) form a group of g rows; with conditional p, value t gets floor(g p_t) rows, and
the rows left over get distinct values, drawn one after the other without replacement, proportionally to the
fractions cut off; then the values are shuffled within the group (Private-PGM's column sampling, McKenna et al. 2019).
`sample_codes` does so for all rows at once.

`urns_of` and `draw` yield rows in blocks, by the same law in bounded memory: all counts first, then draws without
replacement. The counts of every attribute with its parents can be rounded before there is any row: the parents of one
stand together in the table of an earlier one, and how many rows each of their combinations has is a sum over that
table. To draw a group's values from its urn is to shuffle them within the group, and needs no other row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from marginalia.marginals.inference import Inference
from marginalia.marginals.interpreter import Node, strides
from marginalia.memory import check_cost

BLOCK = 2**18  # rows that are drawn together; fixed, for the stream of random numbers depends on it
_AT_ONCE = 2**20  # cells that are rounded together
_LEVEL = 16  # values of an urn that stands for a part of many atoms

Indices = NDArray[np.int64]


def sample_codes(inference: Inference, n_rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return `n_rows` rows, shape (n_rows, attributes), column-major.

    The uniforms come from `rng`, two per row and attribute, so the bytes do not depend on any other generator.

    >>> from marginalia.marginals.plan import Plan
    >>> inference = Inference(Plan([(0,)], (2,)))
    >>> _ = inference.calibrate()
    >>> sample_codes(inference, 4, np.random.default_rng(0)).sum()  # two of each
    np.int64(2)
    """
    plan = inference.plan
    codes = np.zeros((n_rows, len(plan.sizes)), np.int32, order="F")
    for v in reversed(plan.order):
        left, right, message = plan.joined[v]
        order, starts = _groups([codes[:, a] for a in message.axes], [plan.sizes[a] for a in message.axes], n_rows)
        first = order[starts[:-1]]
        lines = lines_of(left, right, v, {a: codes[first, a] for a in message.axes}, first.size, plan.sizes)
        w, is_log, size = inference.workspace, inference.domain == "log", plan.sizes[v]
        uniform, shuffle = rng.random(n_rows), rng.random(n_rows)
        _draw_column(w, is_log, size, *lines, order, starts, uniform, shuffle, codes[:, v])
    return codes


def _groups(columns: list[NDArray[np.int32]], sizes: list[int], n_rows: int) -> tuple[Indices, Indices]:
    """Return the rows sorted by their values in `columns` (stably), and where each group starts, plus the end."""
    if not columns or n_rows == 0:
        return np.arange(n_rows), np.array([0, n_rows] if n_rows else [0])
    key = np.zeros(n_rows, np.int64)
    cells = 1
    for column, size in zip(columns, sizes, strict=True):
        if cells * size >= 2**62:  # too many cells for one number: renumber the groups that occur
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            cells = n_rows
        key = key * size + column
        cells *= size
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    return order, np.append(starts, n_rows)


def lines_of(
    left: Node | None,
    right: Node | None,
    v: int,
    parents: Mapping[int, NDArray[np.integer]],
    n_groups: int,
    sizes: tuple[int, ...],
) -> list[tuple[Indices, int]]:
    """Return the start of each group's line along v (-1: no table) and its stride, in both tables of a conditional."""
    lines: list[tuple[Indices, int]] = []
    for table in (left, right):
        if table is None:
            lines.append((np.full(n_groups, -1), 0))
            continue
        step = strides(table.axes, sizes)
        at = np.full(n_groups, table.value, np.int64)
        for a in table.axes:
            if a != v:
                at += parents[a].astype(np.int64) * step[a]
        lines.append((at, step[v]))
    return lines


@njit(cache=True)
def conditional(w, is_log, left_at, left_step, right_at, right_step, p):  # type: ignore[no-untyped-def]
    """Write the conditional of one group into `p`, up to a factor; return its sum."""
    top = -np.inf
    for t in range(p.size):
        x = w[left_at + t * left_step]
        if right_at >= 0:
            y = w[right_at + t * right_step]
            x = x + y if is_log else x * y
        p[t] = x
        top = max(top, x)
    total = 0.0
    for t in range(p.size):
        if is_log:
            p[t] = np.exp(p[t] - top)
        total += p[t]
    return total


@njit(cache=True)
def left_over(fractions, target):  # type: ignore[no-untyped-def]
    """Return the value that a draw in proportion to `fractions` gives, `target` being below their sum; -1 if none.

    >>> left_over(np.array([0.5, 0.0, 0.25]), 0.6)
    2
    """
    chosen = -1
    for t in range(fractions.size):
        if fractions[t] > 0.0:
            chosen = t
            target -= fractions[t]
            if target < 0.0:
                break
    return chosen


@njit(cache=True)
def _draw_column(w, is_log, size, left, right, order, starts, uniform, shuffle, out):  # type: ignore[no-untyped-def]
    """Fill one column: conditional, floors, remainder without replacement, Fisher-Yates, group by group."""
    (left_at, left_step), (right_at, right_step) = left, right
    p = np.empty(size)
    for g in range(starts.size - 1):
        begin, end = starts[g], starts[g + 1]
        count = end - begin
        total = conditional(w, is_log, left_at[g], left_step, right_at[g], right_step, p)
        filled = begin
        fractions = 0.0
        for t in range(size):
            # A parent configuration without mass cannot occur in rows drawn from the same model, except by rounding.
            expected = count * p[t] / total if total > 0.0 else count / size
            whole = int(np.floor(expected))
            p[t] = expected - whole
            fractions += p[t]
            for _ in range(min(whole, end - filled)):
                out[order[filled]] = t
                filled += 1
        while filled < end:
            # One draw proportional to the fractions left; a value once drawn is out.
            chosen = left_over(p, uniform[filled] * fractions)
            if chosen < 0:  # fractions used up by rounding: repeat the last value
                out[order[filled]] = out[order[filled - 1]] if filled > begin else 0
            else:
                out[order[filled]] = chosen
                fractions -= p[chosen]
                p[chosen] = 0.0
            filled += 1
        for i in range(end - 1, begin, -1):
            j = begin + int(shuffle[i] * (i - begin + 1))
            held = out[order[i]]
            out[order[i]] = out[order[j]]
            out[order[j]] = held


@dataclass(frozen=True)
class Urn:
    """Counts from which one column is drawn: the values that are left, for each combination of its parents."""

    column: int
    parents: tuple[int, ...]  # columns drawn before
    left: NDArray[np.int64]  # shape (sizes of the parents, size of the column), C-contiguous


def draw(urns: Sequence[Urn], n_rows: int, rng: np.random.Generator) -> Iterator[NDArray[np.int32]]:
    """Yield the rows in blocks of shape (`BLOCK` or, at the end, fewer; columns), column-major; empties the urns.

    Parameters
    ----------
    urns : sequence of Urn
        Parents before children. The counts of one with parents add up to those of the parents.
    n_rows : int
        That each urn without parents holds.
    rng : numpy.random.Generator
        One number in [0, 1) is read for each value.

    >>> urns = [Urn(0, (), np.array([3, 1])), Urn(1, (0,), np.array([[0, 3], [1, 0]]))]
    >>> block, = draw(urns, 4, np.random.default_rng(0))
    >>> sorted(map(tuple, block.tolist()))
    [(0, 1), (0, 1), (0, 1), (1, 0)]
    """
    totals = [urn.left.sum(axis=-1).ravel() for urn in urns]
    columns = 1 + max((urn.column for urn in urns), default=-1)
    for begin in range(0, n_rows, BLOCK):
        codes = np.empty((min(BLOCK, n_rows - begin), columns), np.int32, order="F")
        for urn, total in zip(urns, totals, strict=True):
            group = np.zeros(len(codes), np.int64)
            for parent, size in zip(urn.parents, urn.left.shape, strict=False):
                group *= size
                group += codes[:, parent]
            left = urn.left.reshape(-1, urn.left.shape[-1])
            _take(left, total, group, rng.random(len(codes)), codes[:, urn.column])
        yield codes


def urns_of(inference: Inference, n_rows: int, rng: np.random.Generator) -> list[Urn]:
    """Return the urns of `n_rows` rows of a calibrated model, rounded as `sample_codes` rounds.

    Raises
    ------
    InputError
        The counts do not fit in memory.

    >>> from marginalia.marginals.plan import Plan
    >>> inference = Inference(Plan([(0, 1)], (2, 2)))
    >>> _ = inference.calibrate()
    >>> [urn.left.tolist() for urn in urns_of(inference, 8, np.random.default_rng(0))]
    [[4, 4], [[2, 2], [2, 2]]]
    """
    plan = inference.plan
    sizes = plan.sizes
    shapes = {v: [sizes[a] for a in (*plan.joined[v][2].axes, v)] for v in plan.order}
    cells = sum(map(math.prod, shapes.values()))
    check_cost(f"to draw rows of a model with {cells:,} cells", 8 * cells, mend="fit a smaller model")
    urns: list[Urn] = []
    for v in reversed(plan.order):
        left, right, message = plan.joined[v]
        groups = _rows_of(message.axes, urns, n_rows)
        counts = np.zeros((groups.size, sizes[v]), np.int64)
        occupied = np.flatnonzero(groups)
        step = max(1, _AT_ONCE // sizes[v])
        for begin in range(0, occupied.size, step):
            some = occupied[begin : begin + step]
            at = np.unravel_index(some, groups.shape) if message.axes else ()
            lines = lines_of(left, right, v, dict(zip(message.axes, at, strict=True)), some.size, sizes)
            uniform = rng.random((some.size, sizes[v]))
            w, is_log = inference.workspace, inference.domain == "log"
            _round(w, is_log, *lines, some, groups.ravel(), uniform, counts)
        urns.append(Urn(v, message.axes, counts.reshape(shapes[v])))
    return urns


def atoms(counts: NDArray[np.int64], rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield the positions in `counts`, each as often as it says, in random order, in blocks of `BLOCK`.

    >>> [block.tolist() for block in atoms(np.array([0, 2, 1]), np.random.default_rng(0))]
    [[1, 1, 2]]
    """
    n = int(counts.sum())
    shape = [_LEVEL] * max(1, math.ceil(math.log(max(2, counts.size), _LEVEL) - 1e-9))
    padded = np.zeros(math.prod(shape), np.int64)
    padded[: counts.size] = counts
    tree = padded.reshape(shape)
    levels = range(len(shape))
    urns = [Urn(k, tuple(range(k)), np.ascontiguousarray(tree.sum(axis=tuple(levels[k + 1 :])))) for k in levels]
    for digits in draw(urns, n, rng):
        yield np.ravel_multi_index(tuple(digits.T), shape)


def _rows_of(axes: tuple[int, ...], urns: Sequence[Urn], n_rows: int) -> NDArray[np.int64]:
    """Return how many rows have each combination of values of `axes`, which stand together in one of the urns."""
    if not axes:
        return np.array([n_rows])
    holding = [urn for urn in urns if set(axes) <= {*urn.parents, urn.column}]
    urn = min(holding, key=lambda urn: urn.left.size)
    held = (*urn.parents, urn.column)
    table = urn.left.sum(axis=tuple(i for i, a in enumerate(held) if a not in axes))
    kept = [a for a in held if a in axes]
    return np.ascontiguousarray(np.transpose(table, [kept.index(a) for a in axes]))


@njit(cache=True)
def _round(w, is_log, left, right, groups, rows, uniform, counts):  # type: ignore[no-untyped-def]
    """Fill the counts of some groups: floors of the expected ones; what is left goes to distinct values."""
    (left_at, left_step), (right_at, right_step) = left, right
    size = counts.shape[1]
    p = np.empty(size)
    for i in range(groups.size):
        count, out = rows[groups[i]], counts[groups[i]]
        total = conditional(w, is_log, left_at[i], left_step, right_at[i], right_step, p)
        missing, fractions, last = count, 0.0, 0
        for t in range(size):
            # A parent configuration without mass cannot have rows of the same model, except by rounding.
            expected = count * p[t] / total if total > 0.0 else count / size
            whole = min(int(np.floor(expected)), missing)
            p[t] = expected - np.floor(expected)
            fractions += p[t]
            out[t] = whole
            missing -= whole
            if whole > 0:
                last = t
        for k in range(missing):
            chosen = left_over(p, uniform[i, k % size] * fractions)
            if chosen >= 0:  # else the fractions are used up by rounding: the last value again
                fractions -= p[chosen]
                p[chosen] = 0.0
                last = chosen
            out[last] += 1


@njit(cache=True)
def _take(left, total, group, uniform, out):  # type: ignore[no-untyped-def]
    """Draw a value of each row from its group's urn, without replacement."""
    for r in range(group.size):
        g = group[r]
        target = min(np.int64(uniform[r] * total[g]), total[g] - 1)
        values = left[g]
        t = 0
        while target >= values[t]:
            target -= values[t]
            t += 1
        values[t] -= 1
        total[g] -= 1
        out[r] = t
