"""The engine of inference: integer programs over one flat float64 workspace, and the compiled code that runs them.

A program (made by `plan`) is an int64 vector of records, whose fields lie where the constants below say. Tables are
stretches of the workspace; an element-wise record carries a loop shape and one stride per operand and axis, so
broadcasting, transposing and summing out are the same loop:

======= =================================================================================================
COPY    d = a
MUL     d = a * b
DOT     d = sum of a * b over the axes d lacks
SUM     d = sum of a over the axes d lacks
ADD     d += a (broadcast or summed)
GEMM    batched matrix product of contiguous blocks (BLAS)
SCALE   divide a message by its maximum, remember the factor
UNSCALE divide an adjoint by the factor of its message
ROOT    adjoint of a scalar message: 1 / message
======= =================================================================================================

`elementwise`, `gemm`, `scale` and `root` write records. `run` executes a program on probabilities. `run_log` executes
it on their logarithms, the slow path for models whose products leave the range of float64 (`inference` has examples).
Denormal numbers are flushed to zero while a program runs: they slow multiplication fivefold. Arithmetic is strict (no
`fastmath`): with it the order of a sum depends on what the compiler inlines, and a process that compiles gave other
bits than one that loads from the cache.
"""

from __future__ import annotations

import itertools
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

COPY, MUL, DOT, SUM, ADD, GEMM, SCALE, UNSCALE, ROOT = range(9)

# Positions of the fields in a record.
CODE, LENGTH = range(2)
# COPY .. ADD: number of axes, offsets of the tables d, a and b, cells of d; from SHAPE on the loop's shape, then the
# strides of d, of a and of b, one number for each axis.
N_AXES, D, A, B, D_CELLS, SHAPE = range(2, 8)
# GEMM: C (ROWS x COLUMNS) = op(A) (ROWS x INNER) op(B) (INNER x COLUMNS), BATCHES times; offsets of A, B and C.
BATCHES, ROWS, COLUMNS, INNER, LEFT, RIGHT, PRODUCT, TRANSPOSE_LEFT, TRANSPOSE_RIGHT = range(2, 11)
# SCALE, UNSCALE: offset and cells of the table, position in the vector of scales.
TABLE, CELLS, FACTOR = range(2, 5)
# ROOT: offsets of a scalar message and of its adjoint.
MESSAGE, ADJOINT = range(2, 4)


Axes = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Node:
    """A table in the workspace."""

    axes: Axes  # attributes in storage order, last one contiguous
    cells: int
    # Offsets in the workspace. After both passes the product of the two tables is proportional to the marginal.
    value: int
    adjoint: int = -1
    inputs: tuple[Node, ...] = ()  # tables a product or a transposed copy was made from; none for factors and messages


@lru_cache(maxsize=4096)
def strides(axes: Axes, sizes: tuple[int, ...]) -> Mapping[int, int]:
    """Return the stride of every axis of a contiguous table; treat it as read-only.

    >>> strides((2, 0), (3, 4, 5))
    {0: 1, 2: 3}
    """
    out, step = {}, 1
    for a in reversed(axes):
        out[a] = step
        step *= sizes[a]
    return out


def elementwise(
    code: int,
    sizes: tuple[int, ...],
    loop: Axes,
    d: tuple[int, Axes],
    a: tuple[int, Axes],
    b: tuple[int, Axes] | None = None,
    *,
    a_strides: Mapping[int, int] | None = None,
) -> list[int]:
    """Return the record of an element-wise operation (COPY .. ADD) over the attributes `loop`, outermost first.

    The destination d and the operands a and b are (offset, axes); `a_strides` are those of `a` where it is a slice of a
    larger table.

    >>> record = elementwise(MUL, (2, 3), (0, 1), (12, (0, 1)), (0, (0, 1)), (6, (1,)))  # broadcast b
    >>> record[N_AXES], record[SHAPE :]  # shape, strides of d, of a, of b
    (2, [2, 3, 3, 1, 3, 1, 0, 1])
    """
    b = b if b is not None else a
    if a_strides is None:
        cells, loops = _shape(sizes, loop, d[1], a[1], b[1])
    else:
        cells, loops = _merged(sizes, loop, d[1], a_strides, b[1])
    # In the order of the fields.
    return [code, SHAPE + len(loops), len(loops) // 4, d[0], a[0], b[0], cells, *loops]


@lru_cache(maxsize=2**14)
def _shape(sizes: tuple[int, ...], loop: Axes, d: Axes, a: Axes, b: Axes) -> tuple[int, tuple[int, ...]]:
    """Return the cells of d, and the fields from SHAPE on. The plans and queries of a fit repeat most of them."""
    return _merged(sizes, loop, d, strides(a, sizes), b)


def _merged(
    sizes: tuple[int, ...], loop: Axes, d: Axes, a_move: Mapping[int, int], b: Axes
) -> tuple[int, tuple[int, ...]]:
    d_move, b_move = strides(d, sizes), strides(b, sizes)
    loops: list[tuple[int, int, int, int]] = []  # size, strides of d, a and b
    for axis in loop:
        n = sizes[axis]
        if n == 1:
            continue
        i, j, k = d_move.get(axis, 0), a_move.get(axis, 0), b_move.get(axis, 0)
        if loops and loops[-1][1:] == (i * n, j * n, k * n):  # every table moves as one along both axes: merge them
            loops[-1] = (loops[-1][0] * n, i, j, k)
        else:
            loops.append((n, i, j, k))
    loops = [(1, 0, 0, 0)] * (2 - len(loops)) + loops
    return math.prod(sizes[x] for x in d), tuple(itertools.chain.from_iterable(zip(*loops, strict=True)))


def gemm(
    nb: int, m: int, n: int, k: int, a: int, b: int, c: int, *, transpose_a: bool = False, transpose_b: bool = False
) -> list[int]:
    """Return the record of nb products C (m x n) = op(A) op(B), at offsets `a`, `b`, `c`."""
    record = _record(GEMM, TRANSPOSE_RIGHT + 1)
    record[BATCHES], record[ROWS], record[COLUMNS], record[INNER] = nb, m, n, k
    record[LEFT], record[RIGHT], record[PRODUCT] = a, b, c
    record[TRANSPOSE_LEFT], record[TRANSPOSE_RIGHT] = int(transpose_a), int(transpose_b)
    return record


def scale(code: int, table: int, cells: int, factor: int) -> list[int]:
    """Return the record that takes a factor out of a table (SCALE), or the same one out of an adjoint (UNSCALE)."""
    record = _record(code, FACTOR + 1)
    record[TABLE], record[CELLS], record[FACTOR] = table, cells, factor
    return record


def root(message: int, adjoint: int) -> list[int]:
    """Return the record that sets the adjoint of a scalar message."""
    record = _record(ROOT, ADJOINT + 1)
    record[MESSAGE], record[ADJOINT] = message, adjoint
    return record


def _record(code: int, length: int) -> list[int]:
    record = [0] * length
    record[CODE], record[LENGTH] = code, length
    return record


def as_program(records: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Join records into one program."""
    return np.array([x for r in records for x in r], np.int64)


# The innermost loops. They run `counts` turns, outermost first. A table is given by its offset and its moves (in cells)
# along each loop. Signed indices may be negative, which numba allows for: with unsigned ones the loops are up to eight
# times faster. The order of every sum is that of the loops.


# A loop of at most so many turns changes places with the loop around it, if that has at least `_LONG`; measured.
_SHORT, _SHORT_TO_MULTIPLY, _LONG = 6, 3, 16
_BLOCK = 128  # sums that `_many_inner_products` holds


@njit(cache=True)
def _turned(loops):  # type: ignore[no-untyped-def]
    return loops[0], loops[2], loops[1]


@njit(cache=True)
def _moves(start, move, n1):  # type: ignore[no-untyped-def]
    """Return a table's first cell and its moves, outermost first: that one goes back over the `n1` turns inside it."""
    one = np.uint64(move[1])
    # An unsigned difference may wrap, and comes out right.
    return np.uint64(start), np.uint64(move[0]) - n1 * one, one, np.uint64(move[2])


@njit(cache=True)
def multiply(w, counts, d, d_move, a, a_move, b, b_move):  # type: ignore[no-untyped-def]
    """Set d = a * b.

    >>> w = np.array([2.0, 3.0, 5.0, 7.0, 0.0, 0.0])
    >>> multiply(w, (1, 1, 2), 4, (0, 0, 1), 0, (0, 0, 1), 2, (0, 0, 1))
    >>> w[4:]
    array([10., 21.])
    """
    if counts[2] <= _SHORT_TO_MULTIPLY and counts[1] >= _LONG:
        counts, d_move, a_move, b_move = _turned(counts), _turned(d_move), _turned(a_move), _turned(b_move)
    n2, n1, n0 = np.uint64(counts[0]), np.uint64(counts[1]), np.uint64(counts[2])
    d, d2, d1, d0 = _moves(d, d_move, n1)
    a, a2, a1, a0 = _moves(a, a_move, n1)
    b, b2, b1, b0 = _moves(b, b_move, n1)
    for _ in range(n2):
        for _ in range(n1):
            if d0 == 1 and a0 == 1 and b0 == 1:
                for k in range(n0):
                    w[d + k] = w[a + k] * w[b + k]
            elif d0 == 1 and a0 == 1 and b0 == 0:
                y = w[b]
                for k in range(n0):
                    w[d + k] = w[a + k] * y
            elif d0 == 1 and a0 == 1:
                for k in range(n0):
                    w[d + k] = w[a + k] * w[b + k * b0]
            else:
                for k in range(n0):
                    w[d + k * d0] = w[a + k * a0] * w[b + k * b0]
            d += d1
            a += a1
            b += b1
        d += d2
        a += a2
        b += b2


@njit(cache=True)
def multiply_add(w, counts, d, d_move, a, a_move, b, b_move):  # type: ignore[no-untyped-def]
    """Set d += a * b, summed over the loops along which d stands still.

    >>> w = np.array([2.0, 3.0, 5.0, 7.0, 1.0])
    >>> multiply_add(w, (1, 1, 2), 4, (0, 0, 0), 0, (0, 0, 1), 2, (0, 0, 1))
    >>> float(w[4])
    32.0
    """
    if d_move[2] == 0 and not (a_move[2] == 1 and b_move[2] == 0):
        if counts[1] >= _LONG:
            _many_inner_products(w, counts, d, d_move, a, a_move, b, b_move)
        else:
            _inner_products(w, counts, d, d_move, a, a_move, b, b_move, False)
        return
    if d_move[2] != 0 and counts[2] <= _SHORT and (d_move[1] == 0 or counts[1] >= _LONG):
        # A loop of few turns costs more than its turns. No cell gets its terms in another order.
        counts, d_move, a_move, b_move = _turned(counts), _turned(d_move), _turned(a_move), _turned(b_move)
        if d_move[2] == 0:
            _inner_products(w, counts, d, d_move, a, a_move, b, b_move, True)
            return
    n2, n1, n0 = np.uint64(counts[0]), np.uint64(counts[1]), np.uint64(counts[2])
    d, d2, d1, d0 = _moves(d, d_move, n1)
    a, a2, a1, a0 = _moves(a, a_move, n1)
    b, b2, b1, b0 = _moves(b, b_move, n1)
    for _ in range(n2):
        for _ in range(n1):
            if d0 == 0:
                total = 0.0
                for k in range(n0):
                    total += w[a + k]
                w[d] += total * w[b]
            elif d0 == 1 and a0 == 1 and b0 == 1:
                for k in range(n0):
                    w[d + k] += w[a + k] * w[b + k]
            elif d0 == 1 and a0 == 1 and b0 == 0:
                y = w[b]
                for k in range(n0):
                    w[d + k] += w[a + k] * y
            elif d0 == 1 and a0 == 1:
                for k in range(n0):
                    w[d + k] += w[a + k] * w[b + k * b0]
            else:
                for k in range(n0):
                    w[d + k * d0] += w[a + k * a0] * w[b + k * b0]
            d += d1
            a += a1
            b += b1
        d += d2
        a += a2
        b += b2


@njit(cache=True)
def _inner_products(w, counts, d, d_move, a, a_move, b, b_move, from_d):  # type: ignore[no-untyped-def]
    """Add the sums of a * b over the innermost loop to d, four at a time: no step waits for the one before.

    A sum starts with d, or (not `from_d`) with 0 and is added to d.
    """
    n2, n1, n0 = np.uint64(counts[0]), np.uint64(counts[1]), np.uint64(counts[2])
    d, d2, d1, _ = _moves(d, d_move, n1)
    a, a2, a1, a0 = _moves(a, a_move, n1)
    b, b2, b1, b0 = _moves(b, b_move, n1)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for _ in range(n2):
        j = np.uint64(0)
        while j + four <= n1:
            s = t = u = v = 0.0
            if from_d:
                s, t, u, v = w[d], w[d + d1], w[d + two * d1], w[d + three * d1]
            x, y = a, b
            for _ in range(n0):
                s += w[x] * w[y]
                t += w[x + a1] * w[y + b1]
                u += w[x + two * a1] * w[y + two * b1]
                v += w[x + three * a1] * w[y + three * b1]
                x += a0
                y += b0
            if from_d:
                w[d], w[d + d1], w[d + two * d1], w[d + three * d1] = s, t, u, v
            else:
                w[d] += s
                w[d + d1] += t
                w[d + two * d1] += u
                w[d + three * d1] += v
            d += four * d1
            a += four * a1
            b += four * b1
            j += four
        while j < n1:
            s = w[d] if from_d else 0.0
            for k in range(n0):
                s += w[a + k * a0] * w[b + k * b0]
            w[d] = s if from_d else w[d] + s
            d += d1
            a += a1
            b += b1
            j += one
        d += d2
        a += a2
        b += b2


@njit(cache=True)
def _many_inner_products(w, counts, d, d_move, a, a_move, b, b_move):  # type: ignore[no-untyped-def]
    """Add the sums of a * b over the innermost loop to d: term after term for a block of sums that lie side by side."""
    n2, n1, n0 = np.uint64(counts[0]), np.uint64(counts[1]), np.uint64(counts[2])
    d, d2, d1, _ = _moves(d, d_move, n1)
    a, a2, a1, a0 = _moves(a, a_move, n1)
    b, b2, b1, b0 = _moves(b, b_move, n1)
    block = np.uint64(_BLOCK)
    sums = np.empty(_BLOCK)
    for _ in range(n2):
        j = np.uint64(0)
        while j < n1:
            m = min(block, n1 - j)
            for i in range(m):
                sums[i] = 0.0
            for k in range(n0):
                x, y = a + k * a0, b + k * b0
                if b1 == 0:
                    z = w[y]
                    for i in range(m):
                        sums[i] += w[x + i * a1] * z
                else:
                    for i in range(m):
                        sums[i] += w[x + i * a1] * w[y + i * b1]
            for i in range(m):
                w[d + i * d1] += sums[i]
            d += m * d1
            a += m * a1
            b += m * b1
            j += m
        d += d2
        a += a2
        b += b2


@njit(cache=True)
def copy(w, counts, d, d_move, a, a_move):  # type: ignore[no-untyped-def]
    """Set d = a.

    >>> w = np.array([2.0, 3.0, 5.0, 7.0, 0.0, 0.0, 0.0, 0.0])
    >>> copy(w, (1, 2, 2), 4, (0, 2, 1), 0, (0, 1, 2))  # transposed
    >>> w[4:]
    array([2., 5., 3., 7.])
    """
    n2, n1, n0 = np.uint64(counts[0]), np.uint64(counts[1]), np.uint64(counts[2])
    d, d2, d1, d0 = _moves(d, d_move, n1)
    a, a2, a1, a0 = _moves(a, a_move, n1)
    for _ in range(n2):
        for _ in range(n1):
            for k in range(n0):
                w[d + k * d0] = w[a + k * a0]
            d += d1
            a += a1
        d += d2
        a += a2


@njit(cache=True)
def add(w, counts, d, d_move, a, a_move):  # type: ignore[no-untyped-def]
    """Set d += a, summed over the loops along which d stands still.

    >>> w = np.array([2.0, 3.0, 5.0, 7.0, 0.0, 0.0])
    >>> add(w, (1, 2, 2), 4, (0, 0, 1), 0, (0, 2, 1))  # the columns' sums
    >>> w[4:]
    array([ 7., 10.])
    """
    n2, n1, n0 = np.uint64(counts[0]), np.uint64(counts[1]), np.uint64(counts[2])
    d, d2, d1, d0 = _moves(d, d_move, n1)
    a, a2, a1, a0 = _moves(a, a_move, n1)
    for _ in range(n2):
        for _ in range(n1):
            if d0 == 0:
                total = 0.0
                for k in range(n0):
                    total += w[a + k * a0]
                w[d] += total
            elif d0 == 1 and a0 == 1:
                for k in range(n0):
                    w[d + k] += w[a + k]
            else:
                for k in range(n0):
                    w[d + k * d0] += w[a + k * a0]
            d += d1
            a += a1
        d += d2
        a += a2


@njit(cache=True)
def small_gemm(w, m, n, k, oa, ob, oc, ta, tb):  # type: ignore[no-untyped-def]
    """Set C (m x n) = op(A) (m x k) op(B) (k x n), at offsets `oa`, `ob`, `oc`; not both are transposed.

    >>> w = np.array([1.0, 2.0, 3.0, 4.0, 0.0, 0.0])
    >>> small_gemm(w, 1, 2, 1, 0, 1, 4, False, False)
    >>> w[4:]
    array([2., 3.])
    """
    m, n, k, oa, ob, oc = np.uint64(m), np.uint64(n), np.uint64(k), np.uint64(oa), np.uint64(ob), np.uint64(oc)
    sr, sj = (np.uint64(1), m) if ta else (k, np.uint64(1))
    if tb:
        for r in range(m):
            for c in range(n):
                total = 0.0
                for j in range(k):
                    total += w[oa + r * k + j] * w[ob + c * k + j]
                w[oc + r * n + c] = total
        return
    for r in range(m):
        for c in range(n):
            w[oc + r * n + c] = 0.0
        for j in range(k):
            x = w[oa + r * sr + j * sj]
            for c in range(n):
                w[oc + r * n + c] += x * w[ob + j * n + c]


@njit(cache=True)
def largest(w, start, stop):  # type: ignore[no-untyped-def]
    """Return the largest cell, at least 0: four running maxima, so that no step waits for the one before."""
    i, stop = np.uint64(start), np.uint64(stop)
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    t = u = x = y = 0.0
    while i + four <= stop:
        t = w[i] if w[i] > t else t
        u = w[i + one] if w[i + one] > u else u
        x = w[i + two] if w[i + two] > x else x
        y = w[i + three] if w[i + three] > y else y
        i += four
    while i < stop:
        t = w[i] if w[i] > t else t
        i += one
    return max(max(t, u), max(x, y))


# The interpreters.

_SMALL = 4096  # multiply-adds below which a BLAS call costs more than it saves

_X86 = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic
def _read_mxcsr(typingctx):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        if not _X86:
            return ir.Constant(ir.IntType(32), 0)
        slot = cgutils.alloca_once(builder, ir.IntType(32))
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.stmxcsr")
        builder.call(function, [builder.bitcast(slot, ir.IntType(8).as_pointer())])
        return builder.load(slot)

    return types.uint32(), codegen


@intrinsic
def _write_mxcsr(typingctx, value):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        if _X86:
            slot = cgutils.alloca_once(builder, ir.IntType(32))
            builder.store(args[0], slot)
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer()])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.ldmxcsr")
            builder.call(function, [builder.bitcast(slot, ir.IntType(8).as_pointer())])
        return context.get_dummy_value()

    return types.void(types.uint32), codegen


@njit(cache=True)
def flush_denormals():  # type: ignore[no-untyped-def]
    """Flush denormal numbers to zero from now on; return what `restore_denormals` takes."""
    saved = _read_mxcsr()
    _write_mxcsr(np.uint32(saved | np.uint32(0x8040)))
    return saved


@njit(cache=True)
def restore_denormals(saved):  # type: ignore[no-untyped-def]
    """Treat denormal numbers as before `flush_denormals`."""
    _write_mxcsr(saved)


@njit(cache=True)
def _elementwise(code, w, p, i, counter):  # type: ignore[no-untyped-def]
    """Run one element-wise record: an odometer over the outer axes, three explicit inner loops."""
    nd, d, a, b = p[i + N_AXES], p[i + D], p[i + A], p[i + B]
    shape = i + SHAPE
    td, ta, tb = shape + nd, shape + 2 * nd, shape + 3 * nd
    if code in (DOT, SUM):
        w[d : d + p[i + D_CELLS]] = 0.0
    if p[ta + nd - 1] == 0 and p[tb + nd - 1] == 1:  # the loops want the operand that stands still to be b
        ta, tb, a, b = tb, ta, b, a
    counts = p[shape + nd - 3] if nd > 2 else 1, p[shape + nd - 2], p[shape + nd - 1]
    d_move = p[td + nd - 3] if nd > 2 else 0, p[td + nd - 2], p[td + nd - 1]
    a_move = p[ta + nd - 3] if nd > 2 else 0, p[ta + nd - 2], p[ta + nd - 1]
    b_move = p[tb + nd - 3] if nd > 2 else 0, p[tb + nd - 2], p[tb + nd - 1]
    outer = 1
    for k in range(nd - 3):
        counter[k] = 0
        outer *= p[shape + k]
    for _ in range(outer):
        if code == MUL:
            multiply(w, counts, d, d_move, a, a_move, b, b_move)
        elif code == DOT:
            multiply_add(w, counts, d, d_move, a, a_move, b, b_move)
        elif code == COPY:
            copy(w, counts, d, d_move, a, a_move)
        else:
            add(w, counts, d, d_move, a, a_move)
        k = nd - 4
        while k >= 0:
            counter[k] += 1
            d += p[td + k]
            a += p[ta + k]
            b += p[tb + k]
            if counter[k] < p[shape + k]:
                break
            d -= p[td + k] * p[shape + k]
            a -= p[ta + k] * p[shape + k]
            b -= p[tb + k] * p[shape + k]
            counter[k] = 0
            k -= 1


@njit(cache=True)
def _gemm(w, shape, offsets, ta, tb):  # type: ignore[no-untyped-def]
    """C_i (m x n) = op(A_i) (m x k) op(B_i) (k x n) for nb contiguous blocks."""
    nb, m, n, k = shape
    oa, ob, oc = offsets
    small = m * n * k < _SMALL
    for _ in range(nb):
        if small and not (ta and tb):
            small_gemm(w, m, n, k, oa, ob, oc, ta, tb)
        else:
            a, b, product = w[oa : oa + m * k], w[ob : ob + n * k], w[oc : oc + m * n].reshape((m, n))
            if ta and tb:
                np.dot(a.reshape((k, m)).T, b.reshape((n, k)).T, product)
            elif ta:
                np.dot(a.reshape((k, m)).T, b.reshape((k, n)), product)
            elif tb:
                np.dot(a.reshape((m, k)), b.reshape((n, k)).T, product)
            else:
                np.dot(a.reshape((m, k)), b.reshape((k, n)), product)
        oa += m * k
        ob += n * k
        oc += m * n


@njit(cache=True)
def run(program, w, scales):  # type: ignore[no-untyped-def]
    """Execute a program on the workspace `w`; return False where a message lost all its mass.

    >>> w = np.array([1.0, 2.0, 3.0, 0.0])
    >>> total = elementwise(SUM, (3,), (0,), (3, ()), (0, (0,)))  # cell 3 = sum of the table at 0
    >>> run(as_program([total]), w, np.ones(0)), float(w[3])
    (True, 6.0)
    """
    counter = np.empty(64, np.int64)
    saved = flush_denormals()
    ok = True
    p = program
    i = np.int64(0)  # of a literal 0 numba compiles another version of what gets it
    while i < p.size:
        code = p[i + CODE]
        if code <= ADD:
            _elementwise(code, w, p, i, counter)
        elif code == GEMM:
            shape = p[i + BATCHES], p[i + ROWS], p[i + COLUMNS], p[i + INNER]
            offsets = p[i + LEFT], p[i + RIGHT], p[i + PRODUCT]
            _gemm(w, shape, offsets, p[i + TRANSPOSE_LEFT], p[i + TRANSPOSE_RIGHT])
        elif code == SCALE:
            off, cells = p[i + TABLE], p[i + CELLS]
            top = largest(w, off, off + cells)
            if not (top > 0.0 and top < np.inf):
                ok = False
                break
            scales[p[i + FACTOR]] = top
            # Inside this range nothing is lost by leaving the table alone, and a pass over it is saved.
            if top < 1e-10 or top > 1e10 or cells == 1:
                inverse = 1.0 / top
                for j in range(off, off + cells):
                    w[j] *= inverse
            else:
                scales[p[i + FACTOR]] = 1.0
        elif code == UNSCALE:
            s = scales[p[i + FACTOR]]
            if s != 1.0:
                inverse = 1.0 / s
                for j in range(p[i + TABLE], p[i + TABLE] + p[i + CELLS]):
                    w[j] *= inverse
        else:
            w[p[i + ADJOINT]] = 1.0 / w[p[i + MESSAGE]]
        i += p[i + LENGTH]
    restore_denormals(saved)
    return ok


@njit(cache=True)
def _log_elementwise(code, w, p, i, counter):  # type: ignore[no-untyped-def]
    """Run one element-wise record on logarithms: products are sums, sums are log-sum-exp."""
    nd = p[i + N_AXES]
    d0, a0, b0 = p[i + D], p[i + A], p[i + B]
    cells = p[i + D_CELLS]
    shape = i + SHAPE
    td, ta, tb = shape + nd, shape + 2 * nd, shape + 3 * nd
    total = p[shape : shape + nd].prod()
    reduces = code in (DOT, SUM)
    top = np.full(cells if reduces else 1, -np.inf)
    sums = np.zeros(cells if reduces else 1)
    for phase in range(2 if reduces else 1):
        d, a, b = d0, a0, b0
        counter[:nd] = 0
        for _ in range(total):
            x = w[a]
            if code in (MUL, DOT):
                x += w[b]
            if code in (COPY, MUL):
                w[d] = x
            elif code == ADD:
                w[d] += x
            elif phase == 0:
                if x > top[d - d0]:
                    top[d - d0] = x
            elif top[d - d0] > -np.inf:
                sums[d - d0] += np.exp(x - top[d - d0])
            k = nd - 1
            while k >= 0:
                counter[k] += 1
                d += p[td + k]
                a += p[ta + k]
                b += p[tb + k]
                if counter[k] < p[shape + k]:
                    break
                d -= p[td + k] * p[shape + k]
                a -= p[ta + k] * p[shape + k]
                b -= p[tb + k] * p[shape + k]
                counter[k] = 0
                k -= 1
    if reduces:
        for j in range(cells):
            w[d0 + j] = top[j] + np.log(sums[j]) if sums[j] > 0.0 else -np.inf


@njit(cache=True)
def _log_matmul(a, b):  # type: ignore[no-untyped-def]
    """Return log(exp(a) @ exp(b)) without overflow or loss, a (m x k), b (k x n).

    Rows of `a` and columns of `b` are shifted by their maxima; entries whose scaled sum comes near the bottom of
    float64 are recomputed with their own maximum.
    """
    m, k = a.shape
    n = b.shape[1]
    row, column = np.empty(m), np.empty(n)
    ea, eb = np.zeros((m, k)), np.zeros((k, n))
    for r in range(m):
        row[r] = a[r].max()
        if row[r] > -np.inf:
            ea[r] = np.exp(a[r] - row[r])
    for c in range(n):
        column[c] = b[:, c].max()
        if column[c] > -np.inf:
            eb[:, c] = np.exp(b[:, c] - column[c])
    out = np.dot(ea, eb)
    for r in range(m):
        for c in range(n):
            if out[r, c] >= 1e-280:
                out[r, c] = np.log(out[r, c]) + row[r] + column[c]
                continue
            terms = a[r] + b[:, c]
            top = terms.max()
            out[r, c] = top + np.log(np.exp(terms - top).sum()) if top > -np.inf else -np.inf
    return out


@njit(cache=True)
def run_log(program, w):  # type: ignore[no-untyped-def]
    """Execute a program whose tables hold logarithms (adjoints too); messages need no scaling.

    >>> w = np.log([1.0, 2.0, 3.0, 1.0])
    >>> run_log(as_program([elementwise(SUM, (3,), (0,), (3, ()), (0, (0,)))]), w)
    >>> float(np.exp(w[3]).round(9))
    6.0
    """
    counter = np.empty(64, np.int64)
    p = program
    i = np.int64(0)
    while i < p.size:
        code = p[i + CODE]
        if code <= ADD:
            _log_elementwise(code, w, p, i, counter)
        elif code == GEMM:
            m, n, k = p[i + ROWS], p[i + COLUMNS], p[i + INNER]
            oa, ob, oc = p[i + LEFT], p[i + RIGHT], p[i + PRODUCT]
            ta, tb = p[i + TRANSPOSE_LEFT], p[i + TRANSPOSE_RIGHT]
            for _ in range(p[i + BATCHES]):
                a, b = w[oa : oa + m * k], w[ob : ob + k * n]
                left = np.ascontiguousarray(a.reshape((k, m)).T) if ta else a.reshape((m, k))
                right = np.ascontiguousarray(b.reshape((n, k)).T) if tb else b.reshape((k, n))
                w[oc : oc + m * n] = _log_matmul(left, right).ravel()
                oa += m * k
                ob += n * k
                oc += m * n
        elif code == ROOT:
            w[p[i + ADJOINT]] = -w[p[i + MESSAGE]]
        i += p[i + LENGTH]
