"""Tables in a workspace, and the records of a program on them (see `kernels` for what each does)."""

from __future__ import annotations

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

    Attributes
    ----------
    axes : tuple of int
        Attributes in storage order, last one contiguous.
    cells : int
    value, adjoint : int
        Offsets in the workspace. After both passes their product, cell by cell, is proportional to the marginal on
        `axes`.
    inputs : tuple of Node
        Tables a product or a transposed copy was made from; empty for factors and messages.
    """

    axes: Axes
    cells: int
    value: int
    adjoint: int = -1
    inputs: tuple[Node, ...] = ()


@lru_cache(maxsize=4096)
def strides(axes: Axes, sizes: tuple[int, ...]) -> Mapping[int, int]:
    """Return the stride of every axis of a contiguous table; treat it as read-only."""
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
    """Return the record of an element-wise operation.

    Parameters
    ----------
    code : int
        COPY, MUL, DOT, SUM or ADD of `kernels`.
    sizes : tuple of int
        Size of every attribute.
    loop : tuple of int
        All attributes to loop over, outermost first.
    d, a, b : (offset, axes)
        Destination and operands.
    a_strides : dict, optional
        Strides of `a` where it is a slice of a larger table.
    """
    b = b if b is not None else a
    d_move, a_move, b_move = strides(d[1], sizes), a_strides or strides(a[1], sizes), strides(b[1], sizes)
    # Merge neighbouring axes along which every table moves as one.
    shape: list[int] = []
    ds: list[int] = []
    as_: list[int] = []
    bs: list[int] = []
    for axis in loop:
        n = sizes[axis]
        if n == 1:
            continue
        i, j, k = d_move.get(axis, 0), a_move.get(axis, 0), b_move.get(axis, 0)
        if shape and ds[-1] == i * n and as_[-1] == j * n and bs[-1] == k * n:
            shape[-1] *= n
            ds[-1], as_[-1], bs[-1] = i, j, k
        else:
            shape.append(n)
            ds.append(i)
            as_.append(j)
            bs.append(k)
    pad = [0] * (2 - len(shape))
    record = [code, 0, max(2, len(shape)), d[0], a[0], b[0], math.prod(sizes[x] for x in d[1])]
    record += [1] * len(pad) + shape + pad + ds + pad + as_ + pad + bs
    record[1] = len(record)
    return record


def gemm(
    nb: int, m: int, n: int, k: int, a: int, b: int, c: int, *, transpose_a: bool = False, transpose_b: bool = False
) -> list[int]:
    """Return the record of nb products C (m x n) = op(A) op(B), at offsets `a`, `b`, `c`."""
    return [kernels.GEMM, 11, nb, m, n, k, a, b, c, int(transpose_a), int(transpose_b)]


def as_program(records: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Join records into one program."""
    return np.array([x for r in records for x in r], np.int64)
