"""The cells on which two tables are compared: the codes of a domain, or quantiles of the real raw values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.progress import bar
from marginalia.sweep.metrics import k_marginal_score

FINE, COARSE = 100, 10  # cells of one column, and of each side of a pair
_MOST_CELLS = 2**18  # of a marginal that is held as a whole; of a larger one only the cells that have rows are

Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Values:
    """One raw column: each cell a number, or a text that is none.

    Attributes
    ----------
    numbers : ndarray of shape (n,)
        NaN where the cell is a text; all NaN in a column of texts. Times are seconds.
    texts : ndarray of shape (n,)
        Place of the text in `known`, -1 where the cell is a number.
    known : tuple of str
        Distinct texts, sorted.
    """

    numbers: NDArray[np.float64]
    texts: NDArray[np.int64]
    known: tuple[str, ...]

    @classmethod
    def of(cls, texts: pd.Series[Any], *, numeric: bool) -> Values:
        """Read cells that are texts; in a numeric column those that are finite numbers count as such.

        >>> Values.of(pd.Series(["1.50", "", "<0.1", "1.5"]), numeric=True).numbers
        array([1.5, nan, nan, 1.5])
        """
        which, distinct = pd.factorize(texts, use_na_sentinel=False)
        read = pd.to_numeric(pd.Series(distinct, dtype=object), errors="coerce").to_numpy(float)
        return cls.of_distinct(which, distinct, read if numeric else np.full(len(distinct), np.nan))

    @classmethod
    def of_distinct(cls, which: NDArray[np.int64], distinct: Any, numbers: NDArray[np.float64]) -> Values:
        """Take distinct texts, the number that each is (NaN: none), and the place of each cell among them."""
        used, which = np.unique(which, return_inverse=True)
        distinct, numbers = np.asarray(distinct, dtype=object)[used], numbers[used]
        is_text = ~np.isfinite(numbers)
        known, places = np.unique(distinct[is_text].astype(str), return_inverse=True)
        place = np.full(len(distinct), -1, dtype=np.int64)
        place[is_text] = places
        return cls(np.where(is_text, np.nan, numbers)[which], place[which], tuple(map(str, known)))

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def finite(self) -> NDArray[np.float64]:
        """The cells that are numbers, sorted."""
        return np.sort(self.numbers[self.texts < 0])


@dataclass(frozen=True)
class Cells:
    """A partition of what a column can hold: values that many rows share alone, the rest at its quantiles.

    In this order: numbers alone, ranges of numbers, texts alone, ranges of texts, texts that no real row has.

    Attributes
    ----------
    alone, starts : ndarray
        Numbers that are a cell of their own; where the ranges of the others begin (the first also holds what is less).
    text_cells : ndarray of shape (len(known),)
        Cell of each real text.
    known : tuple of str
    size : int
    """

    alone: NDArray[np.float64]
    starts: NDArray[np.float64]
    text_cells: NDArray[np.int64]
    known: tuple[str, ...]
    size: int

    @classmethod
    def of(cls, real: Values, k: int) -> Cells:
        """Cut a real column into about `k` cells of equal counts; a value of n/k rows or more is alone.

        >>> cells = Cells.of(Values.of(pd.Series([0, 0, 0, 1.5, 2, 3, 9, "?"]), numeric=True), 4)
        >>> cells.alone, cells.starts
        (array([0.]), array([1.5, 3. ]))
        >>> cells.codes(Values.of(pd.Series([0, 0.1, 100, "?", "!"]), numeric=True))
        array([0, 1, 2, 3, 4])
        """
        numbers, counts = np.unique(real.finite, return_counts=True)
        shared, ranges = _cut(counts, k, len(real))
        begins = np.flatnonzero(np.diff(ranges, prepend=-1)) if ranges.size else ranges
        alone, starts = numbers[shared], numbers[~shared][begins]
        first = len(alone) + len(starts)
        counts = np.bincount(real.texts[real.texts >= 0], minlength=len(real.known))
        shared, ranges = _cut(counts, k, len(real))
        cells = np.empty(len(real.known), dtype=np.int64)
        cells[shared] = first + np.arange(shared.sum())
        cells[~shared] = first + shared.sum() + ranges
        size = 1 + max([first - 1, *cells.tolist()])
        return cls(alone, starts, cells, real.known, size + 1)

    def codes(self, column: Values) -> NDArray[np.int64]:
        """Return the cell of each row."""
        found = np.maximum(np.searchsorted(self.starts, column.numbers, side="right") - 1, 0) + len(self.alone)
        if len(self.alone):
            place = np.minimum(np.searchsorted(self.alone, column.numbers), len(self.alone) - 1)
            found = np.where(self.alone[place] == column.numbers, place, found)
            if not len(self.starts):  # every real number is alone
                found = np.where(self.alone[place] == column.numbers, place, self.size - 1)
        elif not len(self.starts):
            found = np.full(len(column), self.size - 1)
        if column.known:
            cell = dict(zip(self.known, self.text_cells.tolist(), strict=True))
            of_text = np.array([cell.get(text, self.size - 1) for text in column.known], dtype=np.int64)
            found = np.where(column.texts >= 0, of_text[column.texts], found)
        return found


def _cut(counts: NDArray[np.int64], k: int, n: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which values are alone (n/k rows or more), and for each of the others its range of about n/k rows."""
    shared = counts * k >= n
    rest = counts[~shared]
    if not rest.size:
        return shared, rest
    ranges = max(1, round(rest.sum() * k / n))
    middle = np.cumsum(rest) - rest / 2
    found = np.minimum((middle * ranges / rest.sum()).astype(np.int64), ranges - 1)
    return shared, np.unique(found, return_inverse=True)[1]  # without ranges that one value leaps over


def shares(codes: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return the share of rows in each cell."""
    return np.bincount(codes, minlength=size) / max(len(codes), 1)


def distance(left: NDArray[np.float64], right: NDArray[np.float64]) -> float:
    """Return the total variation distance: half the L1 distance."""
    return float(np.abs(left - right).sum() / 2)


@dataclass(frozen=True)
class Partition:
    """Both tables on one partition of each column: the cell of every row.

    The cells are the codes of a domain (`of_codes`), or values and quantiles of the real rows (`of_values`).

    Attributes
    ----------
    sizes : dict of str to int
        Number of cells of each column.
    real, synthetic : dict of str to ndarray of shape (n,)
        Cell of each row, from 0 on.
    """

    sizes: dict[str, int]
    real: dict[str, Codes]
    synthetic: dict[str, Codes]

    @classmethod
    def of_codes(cls, real: Table, synthetic: Table) -> Partition:
        """Take the bins and labels of the domain of two tables."""
        sizes = {attribute.name: attribute.size for attribute in real.domain}
        return cls(sizes, *({name: table.column(name) for name in sizes} for table in (real, synthetic)))

    @classmethod
    def of_values(cls, real: Mapping[str, Values], synthetic: Mapping[str, Values], k: int) -> Partition:
        """Cut each raw column that both tables have into about `k` cells of equal counts of real rows.

        >>> real, made = ({"x": Values.of(pd.Series(list(text)), numeric=False)} for text in ("aabb", "abbb"))
        >>> Partition.of_values(real, made, 10).error(["x"])
        0.25
        """
        found = cls({}, {}, {})
        for name in real:
            if name in synthetic:
                cells = Cells.of(real[name], k)
                found.sizes[name] = cells.size
                found.real[name] = cells.codes(real[name]).astype(np.int32)
                found.synthetic[name] = cells.codes(synthetic[name]).astype(np.int32)
        return found

    def halved(self, halves: NDArray[np.bool_]) -> Partition:
        """Return the real rows alone, one half in place of the synthetic rows; `halves` names the rows of the first."""
        first, second = ({name: codes[part] for name, codes in self.real.items()} for part in (halves, ~halves))
        return Partition(self.sizes, first, second)

    def counts(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of real and of synthetic rows in each cell of one column."""
        real, synthetic = (
            np.bincount(table[name], minlength=self.sizes[name]) for table in (self.real, self.synthetic)
        )
        return real, synthetic

    def error(self, names: Sequence[str]) -> float:
        """Return the total variation distance of the shares of both tables in the cells of some columns."""
        cells, indexes = prod(self.sizes[name] for name in names), []
        for table in (self.real, self.synthetic):
            index = np.zeros(len(table[names[0]]), dtype=np.int64)
            for name in names:
                index = index * self.sizes[name] + table[name]
            indexes.append(index)
        if cells > _MOST_CELLS:
            distinct, inverse = np.unique(np.concatenate(indexes), return_inverse=True)
            indexes, cells = np.split(inverse, [len(indexes[0])]), len(distinct)
        return distance(*(shares(index, cells) for index in indexes))

    def marginals(self, *, verbose: bool = False) -> Marginals:
        """Return the errors of all pairs of columns.

        Raises
        ------
        InputError
            A single column, or a table without rows.
        """
        if len(self.sizes) < 2:
            raise InputError(f"marginals of 2 columns need a table with as many; it has {len(self.sizes)}")
        if not all(len(codes) for table in (self.real, self.synthetic) for codes in table.values()):
            raise InputError("a table without rows has no marginals")
        errors, pairs = {}, list(combinations(self.sizes, 2))
        with bar("pairs", len(pairs), verbose=verbose) as advance:
            for pair in pairs:
                errors[pair] = self.error(pair)
                advance(1)
        return Marginals(dict(sorted(errors.items(), key=lambda item: -item[1])))


@dataclass(frozen=True, slots=True)
class Marginals:
    """Errors of all pairs of columns.

    Attributes
    ----------
    errors : dict of (str, str) to float
        Half the L1 distance of the shares of each pair, from 0 to 1; the worst first.
    """

    errors: dict[tuple[str, str], float]

    @property
    def error(self) -> float:
        """The mean over all pairs."""
        return fmean(self.errors.values())

    @property
    def score(self) -> float:
        """The k-marginal score of NIST, from 0 (no overlap) to 1000 (the same)."""
        return k_marginal_score(self.error)
