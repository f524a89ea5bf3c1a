"""Training rows as real vectors, and what is publicly known about them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marginalia.data.encoding import CentredEncoder, Encoder, TaskName, whole_ztz
from marginalia.data.table import CountSource
from marginalia.data.units import Hashes, Numbers
from marginalia.learning.solvers import Array

Integers = NDArray[np.int64]

# Features and targets are rounded towards 0 to 15 bits and a sign, which keeps every norm bound; then sums of products
# over so many rows are whole numbers below 2^53, exact in any order of summation. Sums of more rows, and those of a
# table, which has counts, are added in 64 bits.
_BITS = 15
EXACT_ROWS = 2**23
CONSTANT = 2**14  # in units of a row: the entry that an intercept appends, 1 for a table


@dataclass(frozen=True)
class ByUnit:
    """Which rows each of m units has.

    >>> by_unit = ByUnit.of(np.array([7, 5, 7, 7]))
    >>> by_unit.sizes, by_unit.rows(np.array([1, 0]))
    (array([1, 3]), array([0, 2, 3, 1]))
    """

    order: NDArray[np.intp]  # the rows, those of a unit beside each other and in their own order
    starts: NDArray[np.intp]  # (m,): where each unit begins
    sizes: NDArray[np.intp]  # (m,)

    @classmethod
    def of(cls, units: Numbers) -> ByUnit:
        """Return it for the number of the unit of each row."""
        sizes = np.unique(units, return_counts=True)[1]
        return cls(np.argsort(units, kind="stable"), np.cumsum(sizes) - sizes, sizes)

    def rows(self, chosen: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows of some units, unit after unit."""
        sizes = self.sizes[chosen]
        begins = np.cumsum(sizes) - sizes
        return self.order[np.repeat(self.starts[chosen] - begins, sizes) + np.arange(sizes.sum())]


@dataclass(frozen=True)
class TableRows:
    """Rows of a `Table`, encoded from its public domain; nothing is computed before it is asked for.

    The design matrix and Z'Z are kept by the encoder as long as the table lives, so a sweep that fits dozens of
    models on one table computes them once.

    >>> from marginalia.data.domain import Column, Domain
    >>> from marginalia.data.table import Table
    >>> table = Table([[0, 1], [2, 0]], Domain([Column("age", 3, "numeric"), Column("rich", 2)]))
    >>> rows = TableRows(table, Encoder(table.domain, "rich"), "logistic")
    >>> rows.X, rows.y
    (array([[-1.],
           [ 1.]]), array([ 1., -1.]))
    """

    table: CountSource
    encoder: Encoder
    task: TaskName
    cosines: int | None = None  # of rows `with_constant`; see `CentredEncoder`

    # One-hot and numeric columns, and the scaled target, all lie in [-1, 1].
    coordinate_bound = 1.0
    target_bound = 1.0

    @property
    def feature_bound(self) -> float:
        """B, the largest 2-norm of a feature vector in the domain."""
        return self.encoder.norm_bound

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.encoder.n_features

    @property
    def n_rows(self) -> int:
        """Number of rows; private under ``add_remove``, and wherever a unit may have several."""
        return self.table.n_rows

    @property
    def n_units(self) -> int:
        """Number of units (of rows, where each is one); public under ``replace_one``."""
        return self.table.n_units

    @property
    def by_unit(self) -> ByUnit | None:
        """Which rows each unit has; None where each row is one."""
        table = self.table.in_memory()
        return None if table.units is None or table.unit is None or table.unit.rows == 1 else ByUnit.of(table.units)

    @property
    def keyed_units(self) -> tuple[ByUnit, Hashes] | None:
        """Which rows each unit has, also where it is one row, and a hash of each unit's key; None without units."""
        table = self.table.in_memory()
        if table.units is None or table.unit_keys is None:
            return None
        by_unit = ByUnit.of(table.units)
        return by_unit, table.unit_keys[by_unit.order[by_unit.starts]]

    @property
    def X(self) -> Array:  # noqa: N802
        """Design matrix of shape (n, p)."""
        return self.encoder.transform(self.table.in_memory())

    @property
    def y(self) -> Array:
        """Target of shape (n,): in [-1, 1], or -1 and +1 for a classifier."""
        return self.encoder.target_values(self.table.in_memory(), self.task)

    @property
    def gram(self) -> Array:
        """Z'Z of shape (p+1, p+1), Z = [X, y]."""
        return self.encoder.gram(self.table)

    def whole_gram(self, most_apart: float = math.inf) -> tuple[Integers, float, float]:
        """Return Z'Z of the rounded rows in whole numbers, and the units of X and y; see `ArrayRows.whole_gram`."""
        unit = public_unit(self.coordinate_bound)
        return self.encoder.gram(self.table, unit), unit, unit

    @property
    def unit(self) -> float:
        """A power of two of which features are less than 2^15; public."""
        return public_unit(self.coordinate_bound)

    @property
    def whole_square(self) -> Fraction:
        """Public bound on the squared norm of a row of `signed_rows`, exact; `feature_bound` is rounded."""
        return self.encoder.whole_norm(self.unit) * Fraction(self.unit) ** 2

    def signed_rows(self) -> NDArray[np.int16]:
        """Return y·x of every row, y = ±1, rounded towards 0 to whole numbers of `unit`, shape (n, p)."""
        return self.y.astype(np.int16)[:, None] * self.encoder.whole_design(self.table.in_memory(), self.unit)

    def with_constant(self) -> TableRows:
        """Return rows for models with an intercept: categories centred, a constant last; see `CentredEncoder`."""
        return replace(self, encoder=CentredEncoder(self.encoder, cosines=self.cosines))

    def in_features(self, theta: Array) -> Array:
        """Return coefficients of rows `with_constant` as those of the encoder's features, and an intercept."""
        return CentredEncoder(self.encoder, cosines=self.cosines).in_features(theta)

    def whole_class_gram(self, n_classes: int, most_apart: float = math.inf) -> tuple[Integers, float, float]:
        """Return Z'Z of [X, Y], Y the target one-hot, in whole numbers, and the units of X and Y; as `whole_gram`."""
        unit = public_unit(self.coordinate_bound)
        return whole_ztz(self.table, self.encoder.class_matrices(), unit), unit, unit

    def codes(self) -> NDArray[np.int64]:
        """Return the code of the target of every row, shape (n,)."""
        return self.table.in_memory().column(self.encoder.target).astype(np.int64)


@dataclass(frozen=True)
class ArrayRows:
    """Rows of plain arrays that obey declared bounds (see `within_bounds`).

    >>> ArrayRows(np.array([[0.5], [1.0]]), np.array([0.0, 1.0]), 1.0, 1.0).gram
    array([[1.25, 1.  ],
           [1.  , 1.  ]])
    """

    X: Array
    y: Array  # of more than two classes their codes
    feature_bound: float  # B, public bound of the 2-norm of every row of X; infinite where no bound is needed
    target_bound: float  # Y, public bound of every |y|
    largest: float = math.inf  # public bound of every entry of X, where it is less than B

    by_unit = keyed_units = None  # each row is one

    @property
    def coordinate_bound(self) -> float:
        """Largest absolute value of one feature."""
        return min(self.feature_bound, self.largest)

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.X.shape[1]

    @property
    def n_rows(self) -> int:
        """Number of rows; private under ``add_remove``."""
        return len(self.X)

    @property
    def n_units(self) -> int:
        """Number of rows: each is a unit."""
        return len(self.X)

    @cached_property
    def gram(self) -> Array:
        """Z'Z of shape (p+1, p+1), Z = [X, y]."""
        Z = np.column_stack([self.X, self.y])
        return Z.T @ Z

    def whole_gram(self, most_apart: float = math.inf) -> tuple[Integers, float, float]:
        """Return Z'Z of the rounded rows in whole numbers, and the units of X and y.

        X'X is in units of the square of the first, X'y of the product. `most_apart`, a power of two: how many times
        the smaller unit the larger one may be; the smaller is raised where it would be more.
        """
        return self._whole_gram(self.y[:, None], most_apart)

    def whole_class_gram(self, n_classes: int, most_apart: float = math.inf) -> tuple[Integers, float, float]:
        """Return Z'Z of [X, Y], Y the classes one-hot, in whole numbers, and the units of X and Y; as `whole_gram`."""
        return self._whole_gram(np.eye(n_classes)[self.codes()], most_apart)

    def _whole_gram(self, Y: Array, most_apart: float) -> tuple[Integers, float, float]:
        x, y = (public_unit(bound) for bound in (self.coordinate_bound, self.target_bound))
        x, y = max(x, y / most_apart), max(y, x / most_apart)
        Z = np.trunc(np.column_stack([self.X / x, Y / y]))
        return exact_gram(Z), x, y

    def codes(self) -> NDArray[np.int64]:
        """Return the code of the class of every row, of more than two classes, shape (n,)."""
        return self.y.astype(np.int64)

    @property
    def unit(self) -> float:
        """A power of two of which features are less than 2^15; public."""
        return public_unit(self.coordinate_bound)

    def with_constant(self) -> ArrayRows:
        """Return the rows with a constant last: the largest power of two up to B."""
        constant = CONSTANT * self.unit
        X = np.column_stack([self.X, np.full(len(self.X), constant)])
        B = math.hypot(self.feature_bound, constant) * (1 + 2.0**-50)
        return replace(self, X=X, feature_bound=B, largest=self.feature_bound)

    def in_features(self, theta: Array) -> Array:
        """Return coefficients of rows `with_constant` as those of the features, and an intercept; of classes, too."""
        return np.concatenate([theta[..., :-1], theta[..., -1:] * CONSTANT * self.unit], axis=-1)

    @property
    def whole_square(self) -> Fraction:
        """Public bound on the squared norm of a row."""
        return Fraction(self.feature_bound) ** 2

    def signed_rows(self) -> NDArray[np.int16]:
        """Return y·x of every row, y = ±1, rounded towards 0 to whole numbers of `unit`, shape (n, p)."""
        return np.trunc(self.X * (self.y / self.unit)[:, None]).astype(np.int16)


Rows = TableRows | ArrayRows


def public_unit(bound: float) -> float:
    """Return the power of two of which numbers up to `bound` are less than 2^15.

    >>> public_unit(1.0) == 2.0**-14
    True
    """
    return math.ldexp(1.0, math.frexp(bound)[1] - _BITS)


def exact_gram(whole: Array) -> Integers:
    """Return the sums of products of columns of whole numbers of at most 2^15, exact for any number of rows.

    >>> exact_gram(np.array([[1.0, 2.0], [3.0, 0.0]]))
    array([[10,  2],
           [ 2,  4]])
    """
    total = np.zeros((whole.shape[1],) * 2, np.int64)
    for start in range(0, len(whole), EXACT_ROWS):
        block = whole[start : start + EXACT_ROWS]
        total += (block.T @ block).astype(np.int64)
    return total


def exact_unit(bound: float, terms: int, bits: int) -> float:
    """Return the power of two to which numbers up to `bound` are rounded, so that sums of products with them are exact.

    A sum of `terms` products, each with a whole number of at most 2^`bits`, then stays below 2^53 of the unit, in any
    order of summation. Decisions about single rows need that: the last bits of other matrix products depend on the
    place of a row, the number of rows and the number of threads.

    >>> rows, w = np.array([[3.0, -1.0]]), np.array([0.25, 0.5])
    >>> unit = exact_unit(0.5, terms=2, bits=2)
    >>> rows @ np.rint(w / unit) * unit
    array([0.25])
    """
    return math.ldexp(1.0, math.frexp(bound)[1] - 52 + bits + math.ceil(math.log2(terms + 1)))


def within_bounds(X: Array, y: Array, *, feature_bound: float, target_bound: float) -> ArrayRows:
    """Shrink rows longer than `feature_bound` to that length and clip `y` to ``[-target_bound, target_bound]``.

    A record's image depends on that record and the public bounds alone, so this costs no privacy; it biases the fit
    where the bounds are too small for the data.

    >>> within_bounds(np.array([[3.0]]), np.array([-2.0]), feature_bound=1.0, target_bound=0.5).y
    array([-0.5])
    """
    if feature_bound < math.inf:
        X = shrink_rows(X, feature_bound)
    return ArrayRows(X, np.clip(y, -target_bound, target_bound), feature_bound, target_bound)


def shrink_rows(X: Array, bound: float) -> Array:
    """Return the rows of `X`, those longer than `bound` shrunk to that length.

    >>> shrink_rows(np.array([[0.0, 2.0], [0.5, 0.0]]), 1.0)
    array([[0. , 1. ],
           [0.5, 0. ]])
    """
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X * (bound / np.maximum(length, bound))
