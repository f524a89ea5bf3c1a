"""Compiled loops of the inference engine: an interpreter for integer programs over one flat float64 workspace.

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

`run` executes it on probabilities, `log_kernels.run_log` on their logarithms. Denormal numbers are flushed to zero
while a program runs: they slow multiplication fivefold. Arithmetic is strict (no `fastmath`): with it the order of a
sum depends on what the compiler inlines, and a process that compiles gave other bits than one that loads from the
cache.
"""

from __future__ import annotations

import platform

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from marginalia.marginals import loops

COPY, MUL, DOT, SUM, ADD, GEMM, SCALE, UNSCALE, ROOT = range(9)

# Positions of the fields in a record. `records` writes by them, both interpreters read by them.
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
            loops.multiply(w, counts, d, d_move, a, a_move, b, b_move)
        elif code == DOT:
            loops.multiply_add(w, counts, d, d_move, a, a_move, b, b_move)
        elif code == COPY:
            loops.copy(w, counts, d, d_move, a, a_move)
        else:
            loops.add(w, counts, d, d_move, a, a_move)
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
            loops.small_gemm(w, m, n, k, oa, ob, oc, ta, tb)
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

    >>> from marginalia.marginals.records import as_program, elementwise
    >>> w = np.array([1.0, 2.0, 3.0, 0.0])
    >>> total = elementwise(SUM, (3,), (0,), (3, ()), (0, (0,)))  # cell 3 = sum of the table at 0
    >>> run(as_program([total]), w, np.ones(0)), float(w[3])
    (True, 6.0)
    """
    counter = np.empty(64, np.int64)
    saved = _read_mxcsr()
    _write_mxcsr(np.uint32(saved | np.uint32(0x8040)))
    ok = True
    p = program
    i = 0
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
            top = loops.top(w, off, off + cells)
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
    _write_mxcsr(saved)
    return ok
