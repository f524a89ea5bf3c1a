"""Columns of declared regressions, scaled by the public domain, and the sums over all rows of products of two of them.

A *block* is a numeric column, shifted and scaled to [-1, 1] (a response: to [-1/2, 1/2]), or the dummies of one term.
A linear regression needs the sums over all rows of products of two blocks. The sums of one pair of blocks are released
together, as a *group*. The columns of every formula are linear in the blocks and a constant, so its normal equations
are linear in the groups (`Basis.coefficients`).

**Whole numbers.** A function in a group is rounded to the public unit 2^-30, code by code, and its sum is taken over
counts: exact in 64 bits. Its sensitivity is the largest change of the vector of the group between any two codes of its
attributes (add/remove: its largest length), computed from the rounded functions themselves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.encoding import clipped_sums
from marginalia.data.table import CountSource
from marginalia.errors import InputError
from marginalia.inference.estimates import Array, Clique
from marginalia.inference.formulas import Design, Feature
from marginalia.privacy.relation import Neighbours

UNIT = 2.0**-30
_NOTHING = 1e-9
_MOST_PAIRS = 4000  # different values of a group up to which all distances are computed
_MOST_CELLS = 1_000_000  # of a group
_MOST_FITTED = 20_000  # cells up to which a function is tested for being linear in others
_MANY_ROWS = 2**31  # sums over this many rows are below 2^62


@dataclass(frozen=True)
class FeatureBlock:
    """The columns of one term.

    Attributes
    ----------
    name : str
    clique : tuple of int
        Attributes.
    values : ndarray of shape (columns, sizes of the attributes)
    """

    name: str
    clique: Clique
    values: Array

    @property
    def size(self) -> int:
        """Number of columns."""
        return len(self.values)

    @property
    def counts_rows(self) -> bool:
        """Whether the block is 1 for some rows and 0 for others: for those with a value in some columns."""
        return self.size == 1 and set(np.unique(self.values)) == {0.0, 1.0}

    def spread(self, clique: Clique, domain: Domain) -> Array:
        """Return the values over the codes of a larger clique, which broadcast to its shape."""
        return self.values.reshape([self.size, *(domain.sizes[a] if a in self.clique else 1 for a in clique)])


CONSTANT = FeatureBlock("1", (), np.ones(1))


@dataclass(frozen=True)
class MeasuredSum:
    """A group of sums that are released together: of the products of the columns of two blocks.

    Attributes
    ----------
    first, second : int
        Blocks.
    clique : tuple of int
    pairs : list of (int, int)
        The two columns of the basis of each product, the lower first.
    whole : ndarray of int64, shape (functions, cells)
        In units of 2^-30.
    """

    first: int
    second: int
    clique: Clique
    pairs: list[tuple[int, int]]
    whole: NDArray[np.int64] = field(repr=False, compare=False)

    def sums(self, table: CountSource) -> NDArray[np.int64]:
        """Return the exact sums over all rows, in units of 2^-30: reads private rows, inside a mechanism."""
        counts = table.counts([table.domain.names[a] for a in self.clique]).ravel()
        if int(counts.sum()) > _MANY_ROWS:  # integers of 64 bits could overflow
            return clipped_sums(self.whole.astype(object) @ counts.astype(object))
        return np.asarray(self.whole @ counts)

    def sensitivity(self, neighbours: Neighbours) -> float:
        """Return the largest change of the vector of the group between neighbours, in the 2-norm."""
        largest, widest = self.reach
        return neighbours.sum_sensitivity(largest, widest)

    @cached_property
    def reach(self) -> tuple[float, float]:
        """The longest vector of a row, and the largest distance between the vectors of two."""
        points = np.unique(self.whole.T, axis=0).astype(np.float64) * UNIT
        largest = float(np.sqrt((points**2).sum(axis=1)).max())
        if len(points) <= _MOST_PAIRS:
            apart = max(float(((points[i:] - p) ** 2).sum(axis=1).max()) for i, p in enumerate(points))
            widest = math.sqrt(apart)
        else:
            centre = (points.max(axis=0) + points.min(axis=0)) / 2
            widest = min(2 * largest, 2 * float(np.sqrt(((points - centre) ** 2).sum(axis=1)).max()))
        return largest * (1 + 1e-12), widest * (1 + 1e-12)  # rounding of the roots


class Basis:
    """The blocks of some designs, and the groups of sums that their products need.

    Parameters
    ----------
    domain : Domain
    blocks : sequence of FeatureBlock
        The first is the constant: 1 for all rows, or (`of_features`) for those that count.

    Attributes
    ----------
    offsets : list of int
        The first column of each block.
    """

    def __init__(self, domain: Domain, blocks: Sequence[FeatureBlock]) -> None:
        self.domain, self.blocks = domain, list(blocks)
        self.offsets = list(itertools.accumulate((b.size for b in self.blocks), initial=0))

    @classmethod
    def of(cls, domain: Domain, designs: Iterable[Design]) -> Basis:
        """Return the blocks that some designs need, each once.

        >>> from marginalia.analyses.analyses import Analysis
        >>> domain = Domain.from_sizes({"a": 3, "b": 2, "y": 2})
        >>> of = Analysis(formula="y ~ b + C(a)").design(domain)
        >>> [b.name for b in Basis.of(domain, [of]).blocks]
        ['1', 'y', 'b[T.1]', 'C(a)[T.1]']
        """
        basis = cls(domain, [CONSTANT])
        for of in designs:
            if of.complete is not None and basis._coefficients(of.complete) is None:
                basis._append(_constant(domain, of))
            basis._add([of.y], of.complete, half=0.5)
            basis._add_features(of)
        return cls(domain, basis.blocks)

    @classmethod
    def of_features(cls, domain: Domain, of: Design) -> Basis:
        """Return the blocks of the features of one design; the constant is 1 for the rows that count, and 0 for others.

        >>> from marginalia.analyses.analyses import Analysis
        >>> domain = Domain.from_sizes({"a": 3, "y": 2})
        >>> [b.name for b in Basis.of_features(domain, Analysis(formula="y ~ a").design(domain)).blocks]
        ['1', 'a[T.1]']
        """
        basis = cls(domain, [_constant(domain, of)])
        basis._add_features(of)
        return cls(domain, basis.blocks)

    def _add_features(self, of: Design) -> None:
        for _, features in itertools.groupby(of.features, key=lambda f: f.clique):
            for group in _groups_of_dummies(list(features), of.complete):
                self._add(group, of.complete)

    def _add(self, group: list[Feature], complete: Feature | None, half: float = 1.0) -> None:
        if all(self._coefficients(f) is not None for f in group):
            return
        values = np.array([f.values for f in group], np.float64)
        if len(group) == 1:
            # Rows that do not count have 0, and the scale is that of the others.
            counted = 1.0 if complete is None else complete.spread(group[0].clique, self.domain)
            inside = values[np.broadcast_to(counted, values.shape) > 0]
            middle, reach = (inside.max() + inside.min()) / 2, np.ptp(inside) / 2
            values = (values - middle) / reach * half * counted
        else:
            values = values / np.sqrt((values**2).sum(axis=0)).max()
        self._append(FeatureBlock(group[0].name, group[0].clique, values))

    def _append(self, block: FeatureBlock) -> None:
        self.blocks.append(block)
        self.offsets.append(self.offsets[-1] + block.size)

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.offsets[-1]

    def block_of(self, column: int) -> int:
        """Return the block of a column."""
        return next(i for i in range(len(self.blocks)) if column < self.offsets[i + 1])

    def coefficients(self, feature: Feature) -> Array:
        """Return c with feature = sum of c over the columns, shape (size,); InputError if there is none."""
        weights = self._coefficients(feature)
        if weights is None:
            raise InputError(
                f"the term {feature.name} was not declared before the release: it holds {', '.join(self.names)}"
            )
        return weights

    @property
    def names(self) -> list[str]:
        """Names of the blocks but the constant."""
        return [b.name for b in self.blocks[1:]]

    def _coefficients(self, feature: Feature) -> Array | None:
        out = np.zeros(self.size)
        at = [
            i
            for i, b in enumerate(self.blocks)
            if b.clique in ((), feature.clique) or (b.counts_rows and set(b.clique) <= set(feature.clique))
        ]
        columns = [self.offsets[i] + k for i in at for k in range(self.blocks[i].size)]
        if not columns:
            return None
        cells = [
            np.broadcast_to(row, feature.values.shape).ravel()
            for i in at
            for row in self.blocks[i].spread(feature.clique, self.domain)
        ]
        X, target = np.array(cells).T, feature.values.ravel()
        weights = np.linalg.lstsq(X, target, rcond=None)[0]
        weights[np.abs(weights) <= _NOTHING * np.abs(weights).max(initial=0.0)] = 0.0
        if np.abs(X @ weights - target).max() > _NOTHING * max(np.abs(target).max(), 1e-300):
            return None
        out[columns] = weights
        return out

    def groups(
        self, pairs: Iterable[tuple[int, int]]
    ) -> tuple[list[MeasuredSum], dict[tuple[int, int], dict[int, float]]]:
        """Return the groups of pairs of blocks, and each product of two columns as a sum of released sums.

        Parameters
        ----------
        pairs : iterable of (int, int)
            Blocks, the lower first. Pairs with the constant are added before all others.

        Returns
        -------
        groups : list of MeasuredSum
            Without products that are linear in others, such as products of dummies or squares of columns of two values.
        products : dict of (column, column) to dict of int to float
            Numbers of functions in the order of the groups, from 1; 0 is the sum of the constant.
        """
        listed = list(pairs)
        wanted = list(dict.fromkeys([*((0, i) for i in sorted({i for q in listed for i in q if i})), *listed]))
        groups: list[MeasuredSum] = []
        products: dict[tuple[int, int], dict[int, float]] = {(0, 0): {0: 1.0}}
        known: list[tuple[int, Clique, Array]] = [(0, self.blocks[0].clique, np.asarray(self.blocks[0].values[0]))]
        for first, second in wanted:
            if (first, second) == (0, 0):
                continue
            a, b = self.blocks[first], self.blocks[second]
            clique = tuple(sorted({*a.clique, *b.clique}))
            shape = [self.domain.sizes[i] for i in clique]
            if math.prod(shape) > _MOST_CELLS:
                raise InputError(f"the product of {a.name} and {b.name} has more than {_MOST_CELLS:,} cells")
            under = [(t, self._over(q, f, clique)) for t, q, f in known if set(q) <= set(clique)]
            new_pairs: list[tuple[int, int]] = []
            functions: list[Array] = []
            count = sum(len(s.pairs) for s in groups)
            for j, k in itertools.product(range(a.size), range(b.size)):
                if first == second and k < j:
                    continue
                pair = (self.offsets[first] + j, self.offsets[second] + k)
                values = np.ravel(
                    np.broadcast_to(a.spread(clique, self.domain)[j] * b.spread(clique, self.domain)[k], shape)
                )
                follows = _follows(values, under)
                if follows is None:
                    new_pairs.append(pair)
                    functions.append(values)
                    follows = {count + len(new_pairs): 1.0}
                    under.append((count + len(new_pairs), values))
                products[pair] = follows
            if new_pairs:
                whole = np.rint(np.array(functions) / UNIT).astype(np.int64)
                groups.append(MeasuredSum(first, second, clique, new_pairs, whole))
                known += [(count + i + 1, clique, f.reshape(shape)) for i, f in enumerate(functions)]
        return groups, products

    def _over(self, part: Clique, function: Array, clique: Clique) -> Array:
        shape = [self.domain.sizes[a] if a in part else 1 for a in clique]
        return np.ravel(np.broadcast_to(function.reshape(shape), [self.domain.sizes[a] for a in clique]))

    def moments(self, columns: Sequence[int], laws: Sequence[Array]) -> Array:
        """Return the expected products of columns where attributes are independent with these laws."""
        out = np.zeros((len(columns),) * 2)
        for i, j in itertools.combinations_with_replacement(range(len(columns)), 2):
            p, q = (self.block_of(columns[k]) for k in (i, j))
            clique = tuple(sorted({*self.blocks[p].clique, *self.blocks[q].clique}))
            f = self.blocks[p].spread(clique, self.domain)[columns[i] - self.offsets[p]]
            g = self.blocks[q].spread(clique, self.domain)[columns[j] - self.offsets[q]]
            total = np.broadcast_to(f * g, [self.domain.sizes[a] for a in clique])
            for a in clique:
                total = np.tensordot(laws[a], total, axes=(0, 0))
            out[i, j] = out[j, i] = float(total)
        return out


def _constant(domain: Domain, of: Design) -> FeatureBlock:
    """Return the block that is 1 for the rows that count in a design."""
    if of.complete is None:
        return CONSTANT
    name = f"rows with a value of {' and '.join(of.gaps(domain))}"
    return FeatureBlock(name, of.complete.clique, of.complete.values[None])


def _groups_of_dummies(features: list[Feature], complete: Feature | None) -> list[list[Feature]]:
    """Return groups of features of the same columns: the dummies of one term together, others alone.

    Where rows do not count, features of several terms may be functions of the same columns.
    """
    if complete is None:
        return [features] if _exclusive(features) else [[feature] for feature in features]
    groups: list[list[Feature]] = []
    for feature in features:
        if groups and _exclusive([*groups[-1], feature]):
            groups[-1].append(feature)
        else:
            groups.append([feature])
    return groups


def _exclusive(group: list[Feature]) -> bool:
    """Return whether the columns are dummies: at most one is not 0 at each code."""
    return len(group) > 1 and bool((np.sum([f.values != 0 for f in group], axis=0) <= 1).all())


def _follows(values: Array, under: Sequence[tuple[int, Array]]) -> dict[int, float] | None:
    """Return the weights of a function that is a sum of others; None if it is none."""
    if not np.abs(values).max(initial=0.0) > _NOTHING:
        return {}
    if len(values) > _MOST_FITTED:
        return None
    X = np.array([f for _, f in under]).T
    weights = np.linalg.lstsq(X, values, rcond=None)[0]
    if np.abs(X @ weights - values).max() > _NOTHING:
        return None
    return {t: float(c) for (t, _), c in zip(under, weights, strict=True) if abs(c) > _NOTHING}
