"""Tables in a workspace, and the records of a program on them (see `kernels` for what each does)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marginalia.marginals import kernels

Axes = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Node:
    """A table in the workspace.

    >>> Node(axes=(0, 2), cells=6, value=0, adjoint=6).inputs
    ()
    """

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

    >>> record = elementwise(kernels.MUL, (2, 3), (0, 1), (12, (0, 1)), (0, (0, 1)), (6, (1,)))  # broadcast b
    >>> record[kernels.N_AXES], record[kernels.SHAPE :]  # shape, strides of d, of a, of b
    (2, [2, 3, 3, 1, 3, 1, 0, 1])
    """
    b = b if b is not None else a
    d_move, a_move, b_move = strides(d[1], sizes), a_strides or strides(a[1], sizes), strides(b[1], sizes)
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
    record = _record(code, kernels.SHAPE + 4 * len(loops))
    record[kernels.N_AXES], record[kernels.D], record[kernels.A], record[kernels.B] = len(loops), d[0], a[0], b[0]
    record[kernels.D_CELLS] = math.prod(sizes[x] for x in d[1])
    record[kernels.SHAPE :] = itertools.chain.from_iterable(zip(*loops, strict=True))
    return record


def gemm(
    nb: int, m: int, n: int, k: int, a: int, b: int, c: int, *, transpose_a: bool = False, transpose_b: bool = False
) -> list[int]:
    """Return the record of nb products C (m x n) = op(A) op(B), at offsets `a`, `b`, `c`.

    >>> gemm(1, 2, 3, 4, 0, 8, 20)
    [5, 11, 1, 2, 3, 4, 0, 8, 20, 0, 0]
    """
    record = _record(kernels.GEMM, kernels.TRANSPOSE_RIGHT + 1)
    record[kernels.BATCHES], record[kernels.ROWS], record[kernels.COLUMNS], record[kernels.INNER] = nb, m, n, k
    record[kernels.LEFT], record[kernels.RIGHT], record[kernels.PRODUCT] = a, b, c
    record[kernels.TRANSPOSE_LEFT], record[kernels.TRANSPOSE_RIGHT] = int(transpose_a), int(transpose_b)
    return record


def scale(code: int, table: int, cells: int, factor: int) -> list[int]:
    """Return the record that takes a factor out of a table (SCALE), or the same one out of an adjoint (UNSCALE).

    >>> scale(kernels.SCALE, table=40, cells=6, factor=0)
    [6, 5, 40, 6, 0]
    """
    record = _record(code, kernels.FACTOR + 1)
    record[kernels.TABLE], record[kernels.CELLS], record[kernels.FACTOR] = table, cells, factor
    return record


def root(message: int, adjoint: int) -> list[int]:
    """Return the record that sets the adjoint of a scalar message.

    >>> root(message=40, adjoint=41)
    [8, 4, 40, 41]
    """
    record = _record(kernels.ROOT, kernels.ADJOINT + 1)
    record[kernels.MESSAGE], record[kernels.ADJOINT] = message, adjoint
    return record


def _record(code: int, length: int) -> list[int]:
    record = [0] * length
    record[kernels.CODE], record[kernels.LENGTH] = code, length
    return record


def as_program(records: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Join records into one program.

    >>> as_program([root(4, 5), root(6, 7)])
    array([8, 4, 4, 5, 8, 4, 6, 7])
    """
    return np.array([x for r in records for x in r], np.int64)
