"""The reduced space: the points that may carry mass, and products with the matrix of test functions on them."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marginalia.errors import InputError
from marginalia.methods.reduced_space.families import Array, Family

Indices = NDArray[np.intp]
SpaceName = Literal["auto", "sampled", "cube"]
FitName = Literal["maxent", "lp", "l1"]

BLOCK = 8192
# A transform of the whole cube beats a product with the pool's matrix when the matrix has this many times its entries.
WORTH_A_TRANSFORM = 16
KERNEL_BITS = 7  # a transform over p bits is one product with a small matrix for every 7 of them

AUTO_CUBE_CELLS = 2**16
CUBE_CELLS = 2**22
CUBE_MAXENT_CELLS = 2**16
PARITY_ROWS, OTHER_ROWS = 600, 1500
WARNED_ROWS = 400
MATRIX_BYTES = 500_000_000


class Space(ABC):
    """Points z_1 … z_m with the matrix A = [f(z_i)], |F| - 1 rows, never stored in floating point.

    >>> family = Family("parities", (2, 2), 1)
    >>> spaces = Cube(family), Pool(family, np.array([[0, 1], [1, 1]]))
    >>> [(space.size, space.columns(np.array([0, 1])).shape) for space in spaces]
    [(4, (2, 2)), (2, (2, 2))]
    """

    family: Family
    size: int  # m, duplicates merged
    base: Array  # share of the draws that fell on each point; the centre of the maximum-entropy fit

    @abstractmethod
    def price(self, y: Array) -> Array:
        """Return Aᵀy, shape (m,)."""

    @abstractmethod
    def means(self, h: Array) -> Array:
        """Return A h, shape (|F| - 1,)."""

    @abstractmethod
    def points(self, indices: Indices) -> NDArray[np.int16]:
        """Return the codes of some points."""

    def columns(self, indices: Indices) -> NDArray[np.int8]:
        """Return some columns of A."""
        return self.family.values(self.points(indices))


class Pool(Space):
    """Points drawn from a sampling measure; repeated draws, shape (m, p), are merged.

    >>> pool = Pool(Family("parities", (2, 2), 1), np.array([[0, 1], [1, 1], [0, 1]]))
    >>> pool.base.round(3), pool.means(pool.base).round(3)
    (array([0.667, 0.333]), array([ 0.333, -1.   ]))
    """

    def __init__(self, family: Family, draws: NDArray[np.integer]) -> None:
        self.family = family
        cells = math.prod(family.sizes)
        # Sorting cell numbers is faster than sorting rows, where such a number fits.
        rows = np.ravel_multi_index(tuple(draws.T), family.sizes) if cells < 2**62 else draws
        _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
        self._codes = np.ascontiguousarray(draws[first], dtype=np.int16)
        self._matrix = family.values(self._codes)
        self.size = len(first)
        self.base = counts / counts.sum()
        self._cube = None
        if family.kind != "cells" and WORTH_A_TRANSFORM * cells <= self._matrix.size:
            self._cube, self._cells = Cube(family), np.ravel_multi_index(tuple(self._codes.T), family.sizes)

    def price(self, y: Array) -> Array:
        """Return Aᵀy."""
        if self._cube is not None:
            return self._cube.price(y)[self._cells]
        return np.concatenate([y @ block for block in self._blocks()])

    def means(self, h: Array) -> Array:
        """Return A h."""
        if self._cube is not None:
            spread = np.zeros(self._cube.size)
            spread[self._cells] = h
            return self._cube.means(spread)
        return np.sum([block @ h[i * BLOCK : (i + 1) * BLOCK] for i, block in enumerate(self._blocks())], axis=0)

    def points(self, indices: Indices) -> NDArray[np.int16]:
        """Return the codes of some points."""
        return self._codes[indices]

    def columns(self, indices: Indices) -> NDArray[np.int8]:
        """Return some columns of A."""
        return self._matrix[:, indices]

    def _blocks(self) -> list[Array]:
        return [self._matrix[:, i : i + BLOCK].astype(np.float64) for i in range(0, self.size, BLOCK)]


class Cube(Space):
    """Every point of the domain, in C order: products with A by fast transforms.

    Parities by Walsh–Hadamard, monomials by subset sums, cells by sums along axes.

    >>> Cube(Family("parities", (2, 2), 1)).price(np.array([1.0, 0.5]))
    array([ 1.5,  0.5, -0.5, -1.5])
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self.size = math.prod(family.sizes)
        self.base = np.full(self.size, 1 / self.size)
        p = len(family.sizes)
        self._masks = np.array([sum(1 << (p - 1 - j) for j in s) for s in family.sets], dtype=np.intp)

    def price(self, y: Array) -> Array:
        """Return Aᵀy."""
        if self.family.kind != "cells":
            coefficients = np.zeros(self.size)
            coefficients[self._masks] = y
            return self._transform(coefficients, transpose=False)
        total: Array = np.zeros(self.family.sizes)
        for s, rows in self.family.blocks.items():
            total += y[rows].reshape([size if j in s else 1 for j, size in enumerate(self.family.sizes)])
        return total.ravel()

    def means(self, h: Array) -> Array:
        """Return A h."""
        if self.family.kind != "cells":
            return self._transform(h, transpose=True)[self._masks]
        tensor = h.reshape(self.family.sizes)
        axes = range(tensor.ndim)
        return np.concatenate([tensor.sum(axis=tuple(j for j in axes if j not in s)).ravel() for s in self.family.sets])

    def points(self, indices: Indices) -> NDArray[np.int16]:
        """Return the codes of some points."""
        return np.stack(np.unravel_index(indices, self.family.sizes), axis=1).astype(np.int16)

    def _transform(self, vector: Array, *, transpose: bool) -> Array:
        p = len(self.family.sizes)
        groups = [KERNEL_BITS] * (p // KERNEL_BITS) + [p % KERNEL_BITS] * (p % KERNEL_BITS > 0)
        tensor = vector.reshape([1 << g for g in groups])
        for g in groups:  # the leading axis is consumed and reappears last
            kernel = _kernel(self.family.kind, g)
            tensor = np.tensordot(tensor, kernel.T if transpose else kernel, axes=(0, 1))
        return tensor.ravel()


def choose_space(family: Family, space: SpaceName, solution: FitName, n_points: int) -> Literal["sampled", "cube"]:
    """Return the space to use; refuse what is too large, in one line with size and limit.

    ``auto`` stands for the whole domain up to 65,536 cells, and for `n_points` draws beyond. Warns of more than 400
    functions, which take minutes.

    >>> [choose_space(Family("parities", (2,) * p, 2), "auto", "maxent", 10_000) for p in (10, 20)]
    ['cube', 'sampled']
    """
    cells = math.prod(family.sizes)
    rows, limit = family.n_rows, PARITY_ROWS if family.kind == "parities" else OTHER_ROWS
    if rows > limit:
        raise InputError(
            f"reduced_space: {rows} {family.kind} (order {family.order} on {len(family.sizes)} columns) exceed the "
            f"limit of {limit}; lower the order or take fewer columns"
        )
    if space == "cube" and cells > CUBE_CELLS:
        raise InputError(
            f"reduced_space: the whole domain has {cells} cells, the limit of space='cube' is {CUBE_CELLS}; "
            "use space='sampled'"
        )
    if space == "cube" and solution == "maxent" and cells > CUBE_MAXENT_CELLS:
        raise InputError(
            f"reduced_space: solution='maxent' on the whole domain of {cells} cells exceeds the limit of "
            f"{CUBE_MAXENT_CELLS}; use solution='lp' or space='sampled'"
        )
    whole = space == "cube" or (space == "auto" and cells <= AUTO_CUBE_CELLS)
    if not whole and rows * n_points > MATRIX_BYTES:
        raise InputError(
            f"reduced_space: {rows} functions on {n_points} points take {rows * n_points} bytes, the limit is "
            f"{MATRIX_BYTES}; lower n_points"
        )
    if rows > WARNED_ROWS:
        warnings.warn(f"reduced_space: {rows} functions; the linear program may take minutes", stacklevel=4)
    return "cube" if whole else "sampled"


def _kernel(kind: str, bits: int) -> Array:
    """Value at x (rows) of the function on the set S (columns), both as bit masks."""
    small = np.array([[1.0, 1.0], [1.0, -1.0]] if kind == "parities" else [[1.0, 0.0], [1.0, 1.0]])
    kernel = np.ones((1, 1))
    for _ in range(bits):
        kernel = np.kron(kernel, small)
    return kernel
