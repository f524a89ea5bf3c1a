"""Cells of the number line that are known before any row is read, and how they are divided further."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FAN_OUT = 16  # parts of a divided cell
_WHOLE = 53  # whole numbers up to 2^53 are told apart
_SMALLEST, _LARGEST = -128, 128  # exponents of other numbers
_RANGE = 20  # binary digits below the largest number that are kept apart from 0


def number_line(whole: bool, limits: tuple[float, float] | None = None) -> Array:
    """Return edges that follow powers of two, the same on both sides of 0; the outer cells are open.

    A grid that is public whatever the rows hold: 0, ±1, ±2, ±4, .. ±2^53 for whole numbers, else 0 and ±2^k for k
    from -128 to 128; inside `limits` where a type has some.

    >>> number_line(whole=True)[53:58], number_line(whole=True, limits=(-3, 3))
    (array([-1., 0., 1., 2., 4.]), array([-3., -2., -1., 0., 1., 2., 3.]))
    """
    powers = 2.0 ** np.arange(0 if whole else _SMALLEST, (_WHOLE if whole else _LARGEST) + 1)
    edges = np.concatenate([-powers[::-1], [0.0], powers])
    return edges if limits is None else np.unique(np.clip(edges, *limits))


def divided(left: float, right: float, whole: bool) -> Array:
    """Return the edges of the equal parts of one cell, its own included; a cell too narrow to divide keeps its two.

    >>> divided(64.0, 128.0, whole=True)[:3], divided(2.0, 4.0, whole=True), divided(0.0, 1.0, whole=True)
    (array([64., 68., 72.]), array([2., 3., 4.]), array([0., 1.]))
    """
    edges = np.linspace(left, right, FAN_OUT + 1)
    if whole:
        return np.unique(np.rint(edges))
    return edges if (np.diff(edges) > 2.0**-40 * max(abs(left), abs(right))).all() else edges[[0, -1]]


def without_dust(edges: Array, counts: Array) -> tuple[Array, Array]:
    """Merge the cells nearest to 0 that are too small, beside the outermost ones, to matter.

    >>> without_dust(np.array([0.0, 2.0**-30, 1.0, 2.0]), np.array([3.0, 1.0, 9.0]))
    (array([0., 1., 2.]), array([4., 9.]))
    """
    kept = (edges == 0) | (np.abs(edges) >= np.abs(edges).max() * 2.0**-_RANGE)
    kept[[0, -1]] = True
    return edges[kept], np.add.reduceat(counts, np.flatnonzero(kept)[:-1])


def histogram(values: Array, edges: Array) -> NDArray[np.int64]:
    """Count values in left-closed cells, the outer ones open at their ends; NaN is in none.

    >>> histogram(np.array([-9.0, 0.0, 1.0, 5.0, np.nan, np.inf]), np.array([0.0, 1.0, 2.0]))
    array([2, 3])
    """
    cells = np.searchsorted(edges[1:-1], values[~np.isnan(values)], side="right")
    return np.bincount(cells, minlength=edges.size - 1).astype(np.int64)
