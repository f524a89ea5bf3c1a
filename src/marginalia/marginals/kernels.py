"""Compiled loops of the inference engine: an interpreter for integer programs over one flat float64 workspace.

A program (made by `plan`) is an int64 vector of records, whose fields lie where the constants below say. Tables are
stretches of the workspace; an element-wise record carries a loop shape and one stride per operand and axis, so
broadcasting, transposing and summing out are the same loop:

====== =================================================================================================
COPY   d = a
MUL    d = a * b
DOT    d = sum of a * b over the axes d lacks
SUM    d = sum of a over the axes d lacks
ADD    d += a (broadcast or summed)
GEMM   batched matrix product of contiguous blocks (BLAS)
SCALE  divide a message by its maximum, remember the factor
UNSCALE divide an adjoint by the factor of its message
ROOT   adjoint of a scalar message: 1 / message
====== =================================================================================================

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
def _row(code, w, d, a, b, n, sd, sa, sb):  # type: ignore[no-untyped-def]
    """Run the innermost loop of an element-wise record; unit and zero strides get loops that vectorise."""
    if sa == 0 and sb == 1 and code in (MUL, DOT):
        a, b, sa, sb = b, a, sb, sa
    if code == MUL:
        if sd == 1 and sa == 1 and sb == 1:
            for j in range(n):
                w[d + j] = w[a + j] * w[b + j]
        elif sd == 1 and sa == 1 and sb == 0:
            y = w[b]
            for j in range(n):
                w[d + j] = w[a + j] * y
        else:
            for j in range(n):
                w[d + j * sd] = w[a + j * sa] * w[b + j * sb]
    elif code == DOT:
        if sd == 0:
            total = 0.0
            if sa == 1 and sb == 0:
                for j in range(n):
                    total += w[a + j]
                total *= w[b]
            else:
                for j in range(n):
                    total += w[a + j * sa] * w[b + j * sb]
            w[d] += total
        elif sd == 1 and sa == 1 and sb == 1:
            for j in range(n):
                w[d + j] += w[a + j] * w[b + j]
        elif sd == 1 and sa == 1 and sb == 0:
            y = w[b]
            for j in range(n):
                w[d + j] += w[a + j] * y
        else:
            for j in range(n):
                w[d + j * sd] += w[a + j * sa] * w[b + j * sb]
    elif code == COPY:
        if sd == 1 and sa == 1:
            for j in range(n):
                w[d + j] = w[a + j]
        else:
            for j in range(n):
                w[d + j * sd] = w[a + j * sa]
    elif sd == 0:
        total = 0.0
        for j in range(n):
            total += w[a + j * sa]
        w[d] += total
    elif sd == 1 and sa == 1:
        for j in range(n):
            w[d + j] += w[a + j]
    else:
        for j in range(n):
            w[d + j * sd] += w[a + j * sa]


@njit(cache=True)
def _elementwise(code, w, p, i, counter):  # type: ignore[no-untyped-def]
    """Run one element-wise record: an odometer over the outer axes, two explicit inner loops."""
    nd, d, a, b = p[i + N_AXES], p[i + D], p[i + A], p[i + B]
    shape = i + SHAPE
    td, ta, tb = shape + nd, shape + 2 * nd, shape + 3 * nd
    if code in (DOT, SUM):
        w[d : d + p[i + D_CELLS]] = 0.0
    n1, n0 = p[shape + nd - 2], p[shape + nd - 1]
    d1, a1, b1 = p[td + nd - 2], p[ta + nd - 2], p[tb + nd - 2]
    d0, a0, b0 = p[td + nd - 1], p[ta + nd - 1], p[tb + nd - 1]
    outer = 1
    for k in range(nd - 2):
        counter[k] = 0
        outer *= p[shape + k]
    for _ in range(outer):
        for j in range(n1):
            _row(code, w, d + j * d1, a + j * a1, b + j * b1, n0, d0, a0, b0)
        k = nd - 3
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
    sr, sj = (1, m) if ta else (k, 1)
    for _ in range(nb):
        if small and not ta and tb:
            for r in range(m):
                for c in range(n):
                    total = 0.0
                    for j in range(k):
                        total += w[oa + r * k + j] * w[ob + c * k + j]
                    w[oc + r * n + c] = total
        elif small and not tb:
            for r in range(m):
                for c in range(n):
                    w[oc + r * n + c] = 0.0
                for j in range(k):
                    x = w[oa + r * sr + j * sj]
                    for c in range(n):
                        w[oc + r * n + c] += x * w[ob + j * n + c]
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
            top = 0.0
            for j in range(off, off + cells):
                if w[j] > top:
                    top = w[j]
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
