"""Sums over the cells of a joint marginal of functions of few attributes each, and the covariance of their noise.

The counts have noise of covariance K, a sum over subsets A of the axes of mu_A (identity on A ⊗ ones elsewhere). So
the covariance of the sums of X_j w and of X_k w is a sum over A of mu_A times the product of their marginals on A.
Where X_j is a function of the axes q, its marginal needs that of w on A and q alone. All these are in one array: the
weights w with their sum behind the last code of each axis.
"""

from __future__ import annotations

import functools
import itertools
import math
import string
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginalia.subsets import subsets

Array = NDArray[np.float64]
Axes = tuple[int, ...]
_WHOLE = 20_000  # entries of the matrix of functions, up to which whole matrices are faster than marginals
_MOST_AXES = 6  # up to which marginals are: they have 2^axes subsets
_NOTHING = 1e-13  # of the largest: a weight that is 0 except for rounding


class _Group(NamedTuple):
    """Functions of the same axes: their places in the order of groups, and their values, shape (functions, *sizes)."""

    axes: Axes
    places: slice
    values: Array
    rows: Array  # the same, shape (functions, cells of these axes)


class _Pair(NamedTuple):
    """Two groups, the axes of either, and those of both."""

    one: _Group
    other: _Group
    axes: Axes
    shared: Axes


class _Factor(NamedTuple):
    """Where a marginal lies in the weights with their sums, the order of its axes, and its shape as matrices."""

    at: tuple[slice | int, ...]
    order: tuple[int, ...]
    shape: tuple[int, int, int]  # codes of the subset, codes of the group that are not in it, and all that is summed

    def of(self, summed: Array) -> Array:
        found = np.transpose(summed[(slice(None), *self.at)], self.order)
        return found.reshape(len(summed), *self.shape)


class _Term(NamedTuple):
    """Subsets of the axes with the same members in the axes of two groups: where both factors lie, and their mu.

    The axes that both groups have and that are in these subsets are `tied`: both factors have the same code there.
    """

    tied: Axes
    first: _Factor
    second: _Factor
    mu: Array
    shape: tuple[int, ...]  # of their product: codes of the subset, and those of either group that are not in it
    order: tuple[int, ...]  # of its axes, that makes those of the first group come first


class CellSums:
    """Functions X_j of the cells of a table, each of few axes, and the noise of the counts of the cells.

    Parameters
    ----------
    sizes : sequence of int
        Of the axes.
    functions : sequence of (Axes, ndarray)
        Axes, ascending, and values of the shape of their sizes.
    variances : mapping of Axes to float
        Variance of the noise of each residual of the counts, before its projection.

    Examples
    --------
    The noise of two counts that is independent, with variances 4:

    >>> sums = CellSums([2], [((), np.ones(())), ((0,), np.array([0.0, 1.0]))], {(): 8.0, (0,): 4.0})
    >>> sums.of(np.array([10.0, 30.0])).tolist()
    [40.0, 30.0]
    >>> sums.covariance(np.ones(2)).round(9).tolist()
    [[8.0, 4.0], [4.0, 4.0]]
    """

    def __init__(
        self, sizes: Sequence[int], functions: Sequence[tuple[Axes, Array]], variances: Mapping[Axes, float]
    ) -> None:
        axes = [a for a, size in enumerate(sizes) if size > 1]
        self._sizes = tuple(sizes[a] for a in axes)
        self.cells, self.count = math.prod(sizes), len(functions)
        position = {a: i for i, a in enumerate(axes)}
        members: dict[Axes, list[tuple[int, Array]]] = {}
        cliques = [tuple(position[a] for a in of if a in position) for of, _ in functions]
        largest = sorted(set(cliques), key=lambda q: (-len(q), q))
        whole = {q: next(r for r in largest if set(q) <= set(r)) for q in cliques}
        for j, (q, (_, values)) in enumerate(zip(cliques, functions, strict=True)):
            # A function of fewer axes is one of more: fewer groups make fewer pairs.
            shape = [self._sizes[a] if a in q else 1 for a in whole[q]]
            spread = np.broadcast_to(np.reshape(values, shape), [self._sizes[a] for a in whole[q]])
            members.setdefault(whole[q], []).append((j, spread))
        ends = [0, *itertools.accumulate(len(group) for group in members.values())]
        self._groups = []
        for (q, group), first, end in zip(members.items(), ends, ends[1:], strict=False):
            stacked = np.array([values for _, values in group])
            self._groups.append(_Group(q, slice(first, end), stacked, stacked.reshape(len(group), -1)))
        self._order = np.array([j for group in members.values() for j, _ in group], np.intp)
        self._place = np.argsort(self._order)
        self._variances = {tuple(position[a] for a in part if a in position): v for part, v in variances.items()}
        self._by_marginals = self.count * self.cells > _WHOLE and len(self._sizes) <= _MOST_AXES

    def of(self, values: Array) -> Array:
        """Return the sums of X times one value of each cell: shapes (..., cells) and (..., functions)."""
        if not self._by_marginals:
            return values @ self._matrix.T
        on = self._marginals(values)
        sums = [on[group.axes].reshape(-1, group.rows.shape[1]) @ group.rows.T for group in self._groups]
        return np.concatenate(sums, axis=1)[:, self._place].reshape(*values.shape[:-1], self.count)

    def combined(self, weights: Array) -> Array:
        """Return the weighted sum of all functions in each cell: shapes (..., functions) and (..., cells)."""
        if not self._by_marginals:
            return weights @ self._matrix
        ordered = weights.reshape(-1, self.count)[:, self._order]
        out = np.zeros((len(ordered), *self._sizes))
        for group in self._groups:
            out += (ordered[:, group.places] @ group.rows).reshape(-1, *self._broadcast(group, self._all))
        return out.reshape(*weights.shape[:-1], self.cells)

    def products(self, values: Array) -> Array:
        """Return the sums of X_j X_k times one value of each cell: (..., cells) and (..., functions, functions)."""
        if not self._by_marginals:
            return np.asarray((self._matrix * values[..., None, :]) @ self._matrix.T)
        on = self._marginals(values)
        found = self._pairwise(lambda pair: self._tied(pair, on[pair.axes]), len(on[self._all]))
        return found.reshape(*values.shape[:-1], self.count, self.count)

    def covariance(self, weights: Array) -> Array:
        """Return the covariance of the noise of the sums of X w, shape (..., functions, functions); w (..., cells)."""
        if not self._by_marginals:
            turned = self._turned((self._matrix * weights[..., None, :]).reshape(-1, self.cells))
            turned = turned.reshape(*weights.shape[:-1], self.count, self.cells)
            return np.asarray((turned * self._spectrum) @ np.swapaxes(turned, -1, -2))
        summed = weights.reshape(-1, *self._sizes)
        for axis in self._all:
            summed = np.concatenate([summed, summed.sum(axis=1 + axis, keepdims=True)], axis=1 + axis)

        def block(pair: _Pair) -> Array:
            sums: dict[Axes, Array] = {}
            for term in self._terms[pair.one.axes, pair.other.axes]:
                found = (term.first.of(summed) * term.mu) @ np.swapaxes(term.second.of(summed), -1, -2)
                found = np.transpose(found.reshape(len(summed), *term.shape), term.order)
                sums[term.tied] = sums[term.tied] + found if term.tied in sums else found
            return functools.reduce(np.add, [self._block(pair, tied, on) for tied, on in sums.items()])

        return self._pairwise(block, len(summed)).reshape(*weights.shape[:-1], self.count, self.count)

    def explained(self, values: Array) -> Array:
        """Return the covariance of the noise of the counts times one value of each cell, both of shape (..., cells)."""
        turned = self._turned(values.reshape(-1, self.cells)) * self._spectrum
        return self._turned(turned, back=True).reshape(values.shape)

    def largest(self) -> Array:
        """Return the largest absolute value of each function."""
        return np.concatenate([np.abs(group.rows).max(axis=1) for group in self._groups])[self._place]

    def at(self, cells: NDArray[np.intp]) -> Array:
        """Return the functions in some cells, shape (functions, cells)."""
        where = np.unravel_index(cells, self._sizes) if self._sizes else ()
        out = np.zeros((self.count, len(cells)))
        for group in self._groups:
            shape = [self._sizes[a] for a in group.axes]
            index = np.ravel_multi_index([where[a] for a in group.axes], shape) if shape else 0
            out[group.places] = group.rows[:, index] if shape else group.rows
        return out[self._place]

    def occupied(self) -> NDArray[np.bool_]:
        """Return the cells in which some function is not 0."""
        out = np.zeros(self._sizes, bool)
        for group in self._groups:
            out |= self._spread(group, self._all).any(axis=0)
        return out.ravel()

    @property
    def _all(self) -> Axes:
        return tuple(range(len(self._sizes)))

    def _marginals(self, values: Array) -> dict[Axes, Array]:
        """Return the marginals of values of each cell that products of two functions need, shapes (n, *sizes)."""
        known = {self._all: values.reshape(-1, *self._sizes)}
        for axes, start in self._needed:
            known[axes] = known[start].sum(axis=tuple(1 + i for i, a in enumerate(start) if a not in axes))
        return known

    @cached_property
    def _needed(self) -> list[tuple[Axes, Axes]]:
        """Axes of marginals, the largest first, each with those of the smallest marginal that it is a sum of."""
        wanted = {pair.axes for pair in self._pairs} | {group.axes for group in self._groups}
        found, known = [], [self._all]
        for axes in sorted(wanted - {self._all}, key=lambda q: (-len(q), q)):
            size = {q: math.prod(self._sizes[a] for a in q) for q in known if set(axes) < set(q)}
            found.append((axes, min(size, key=size.__getitem__)))
            known.append(axes)
        return found

    @cached_property
    def _pairs(self) -> list[_Pair]:
        pairs = []
        for one, other in itertools.combinations_with_replacement(self._groups, 2):
            axes = tuple(sorted({*one.axes, *other.axes}))
            shared = tuple(a for a in one.axes if a in other.axes)
            pairs.append(_Pair(one, other, axes, shared))
        return pairs

    def _pairwise(self, block: Callable[[_Pair], Array], count: int) -> Array:
        """Return symmetric matrices from the blocks of pairs of groups, shape (count, functions, functions)."""
        out = np.empty((count, self.count, self.count))
        for pair in self._pairs:
            found = block(pair)
            out[:, pair.one.places, pair.other.places] = found
            if pair.one is not pair.other:
                out[:, pair.other.places, pair.one.places] = np.swapaxes(found, 1, 2)
        return out[:, self._place[:, None], self._place]

    def _block(self, pair: _Pair, tied: Axes, on: Array) -> Array:
        """Return sums over codes of both groups times `on`, shape (n, *sizes of one, *sizes of other but the tied)."""
        one, other = pair.one, pair.other
        if not tied:
            return np.asarray(one.rows @ on.reshape(len(on), one.rows.shape[1], -1) @ other.rows.T)
        if tied == pair.shared:
            axes = [*one.axes, *(a for a in other.axes if a not in tied)]
            return self._tied(pair, np.transpose(on, [0, *(1 + axes.index(a) for a in pair.axes)]))
        first, second = _letters(one.axes, one.axes, tied), _letters(other.axes, one.axes, tied, second=True)
        rest = first + "".join(x for x in second if x not in first)
        return np.asarray(np.einsum(f"Y{first},X{second},Z{rest}->ZYX", one.values, other.values, on, optimize=True))

    def _tied(self, pair: _Pair, on: Array) -> Array:
        """Return sums over cells of the products of both groups times `on`, shape (n, *sizes of axes)."""
        one, other = pair.one, pair.other
        if not pair.shared:
            on = np.transpose(on, [0, *(1 + pair.axes.index(a) for a in (*one.axes, *other.axes))])
            return np.asarray(one.rows @ on.reshape(len(on), one.rows.shape[1], -1) @ other.rows.T)
        first, second = self._spread(one, pair.axes), self._spread(other, pair.axes)
        weighted = (first * on[:, None]).reshape(len(on), len(first), -1)
        whole = np.broadcast_to(second, (len(second), *on.shape[1:])).reshape(len(second), -1)
        return np.asarray(weighted @ whole.T)

    def _broadcast(self, group: _Group, axes: Axes) -> list[int]:
        return [self._sizes[a] if a in group.axes else 1 for a in axes]

    def _spread(self, group: _Group, axes: Axes) -> Array:
        """Return the values of a group, in a shape that broadcasts over more axes."""
        return group.values.reshape(-1, *self._broadcast(group, axes))

    @cached_property
    def _terms(self) -> dict[tuple[Axes, Axes], list[_Term]]:
        pairs = [(pair.one.axes, pair.other.axes) for pair in self._pairs]
        return {(one, other): self._terms_of(one, other) for one, other in pairs}

    def _terms_of(self, one: Axes, other: Axes) -> list[_Term]:
        either, terms = {*one, *other}, []
        away = [a for a in self._all if a not in either]
        for inside in subsets(tuple(sorted(either))):
            mu = self._mu[tuple(slice(None) if a in away else int(a in inside) for a in self._all)]
            if not mu.any():
                continue
            for i, a in enumerate(away):  # one weight for each code, and one for the sum
                mu = np.concatenate([np.repeat(mu.take([1], i), self._sizes[a], i), mu.take([0], i)], axis=i)
            tied = tuple(a for a in one if a in other and a in inside)
            left, right = (tuple(a for a in q if a not in inside) for q in (one, other))
            first, second = (self._factor(inside, codes, away) for codes in (left, right))
            has = [*((a, a in one) for a in inside), *((a, True) for a in left), *((a, False) for a in right)]
            wanted = [*((a, True) for a in one), *((a, False) for a in other if a not in tied)]
            order = (0, *(1 + has.index(code) for code in wanted))
            terms.append(_Term(tied, first, second, mu.ravel(), tuple(self._sizes[a] for a, _ in has), order))
        return terms

    def _factor(self, inside: Axes, codes: Axes, away: Sequence[int]) -> _Factor:
        """Return where the marginal on some axes lies; on the axes `away` all marginals, elsewhere the sum."""
        kept = {*inside, *codes}
        at = tuple(slice(None) if a in away else slice(-1) if a in kept else -1 for a in self._all)
        there = [a for a in self._all if a in away or a in kept]
        of_inside, of_codes = (math.prod(self._sizes[a] for a in q) for q in (inside, codes))
        return _Factor(at, (0, *(1 + there.index(a) for a in (*inside, *codes, *away))), (of_inside, of_codes, -1))

    @cached_property
    def _mu(self) -> Array:
        """mu_A for each subset A of the axes, shape (2, ..., 2): index 1 where an axis is in A."""
        out = np.zeros((2,) * len(self._sizes))
        for part, variance in self._variances.items():
            out[tuple(int(a in part) for a in self._all)] = variance
        for axis, n in enumerate(self._sizes):  # a residual has I - 11'/n on its axes, and 11'/n² on the others
            rule = np.array([[1 / n**2, -1 / n], [0.0, 1.0]])
            out = np.moveaxis(np.tensordot(rule, out, (1, axis)), 0, axis)
        length = np.ones((1,) * len(self._sizes))
        for axis, n in enumerate(self._sizes):
            length = np.concatenate([length * n, length], axis=axis)
        return np.where(np.abs(out) * length > _NOTHING * self._spectrum.max(initial=0.0), out, 0.0)

    @cached_property
    def _matrix(self) -> Array:
        """All functions in all cells, shape (functions, cells)."""
        out = np.empty((self.count, *self._sizes))
        for group in self._groups:
            out[group.places] = self._spread(group, self._all)
        return out.reshape(self.count, -1)[self._place]

    def _turned(self, F: Array, *, back: bool = False) -> Array:
        """Return rows of functions of cells in the bases in which the noise is independent."""
        turned = F.reshape([len(F), *self._sizes])
        for axis, basis in enumerate(self._bases):
            turned = np.moveaxis(np.tensordot(turned, basis, axes=(axis + 1, 1 if back else 0)), -1, axis + 1)
        return turned.reshape(len(F), -1)

    @cached_property
    def _bases(self) -> list[Array]:
        """Orthonormal bases of each axis whose first vector is constant: in them the noise is independent."""
        return [np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, : n - 1]]))[0] for n in self._sizes]

    @cached_property
    def _spectrum(self) -> Array:
        """Variance of the noise of the counts in these bases, cells in C order."""
        out = np.zeros(self._sizes)
        for part, variance in self._variances.items():
            index = tuple(slice(1, None) if a in part else slice(0, 1) for a in self._all)
            out[index] = variance / math.prod(n for a, n in enumerate(self._sizes) if a not in part)
        return out.ravel()


def _letters(axes: Sequence[int], one: Axes, inside: Axes, *, second: bool = False) -> str:
    """Return a letter for each axis; in the second factor another one on axes of the first group that are not inside.

    >>> _letters([0, 1, 2], (0, 1), (1,)), _letters([1, 2], (0, 1), (), second=True)
    ('abc', 'Bc')
    """
    return "".join(
        string.ascii_uppercase[a] if second and a in one and a not in inside else string.ascii_lowercase[a]
        for a in axes
    )
