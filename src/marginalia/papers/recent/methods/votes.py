"""The histogram of nearest neighbours: every private row has one vote, for the candidate that is nearest to it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from marginalia.data.domain import Domain
from marginalia.data.table import Table

Codes = NDArray[np.integer]
OTHER_CODE = 1 / 9  # squared weight of a categorical column, of which two codes differ in two of its indicators


def votes(batches: Iterable[Table], candidates: Codes, target: int = -1) -> NDArray[np.int64]:
    """Return how many private rows are nearest to each candidate; ties go to the first.

    The distance is Euclidean, over ordered columns scaled to [0, 1] and indicators of the other columns' codes times
    1/3. What a row votes for depends on that row and the candidates alone: a row more moves one count by 1.

    Parameters
    ----------
    batches : iterable of Table
        The private rows.
    candidates : integer array of shape (m, p)
        Codes.
    target : int, default -1
        A column whose code must be the same; a row without such a candidate does not vote. -1: none.

    Returns
    -------
    integer array of shape (m,)

    Examples
    --------
    >>> table = Table([[0, 0], [1, 2], [1, 1]], Domain.from_sizes({"a": 2, "b": 3}))
    >>> votes([table], np.array([[1, 2], [0, 1]])), votes([table], np.array([[1, 2], [0, 1]]), target=0)
    (array([2, 1]), array([2, 1]))
    """
    counts = np.zeros(len(candidates), np.int64)
    # A candidate that repeats an earlier one ties with it, and gets no vote.
    distinct = np.sort(_first_of_each(candidates))
    groups = candidates[distinct, target] if target >= 0 else np.zeros(distinct.size, np.int64)
    order = distinct[np.argsort(groups, kind="stable")]
    groups = np.sort(groups)
    sorted_candidates = candidates[order].astype(np.float32)  # codes below 2**24 are exact
    for batch in batches:
        step, other = scales(batch.domain)
        rows, among, of_row = batch.codes, sorted_candidates, np.zeros(batch.n_rows, np.int64)
        n_groups = batch.domain.sizes[target] if target >= 0 else 1
        starts = np.searchsorted(groups, np.arange(n_groups + 1))
        if target >= 0:
            step, other = np.delete(step, target), np.delete(other, target)
            of_row = rows[:, target].astype(np.int64)
            rows, among = np.delete(rows, target, axis=1), np.delete(among, target, axis=1)
        by_prefix = np.lexsort((*rows.T[::-1], of_row))
        counts[order] += _votes(rows[by_prefix].astype(np.float32), of_row[by_prefix], among, starts, step, other)
    return counts


def _first_of_each(codes: Codes) -> NDArray[np.intp]:
    """Return the places of the rows that repeat no earlier row."""
    order = np.lexsort(codes.T)  # stable
    differs = (codes[order[1:]] != codes[order[:-1]]).any(axis=1)
    return order[np.append(True, differs)] if len(order) else order


def scales(domain: Domain) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return, for each column, the squared distance of neighbouring codes (0: no order) and that of any two codes.

    >>> scales(Domain.from_sizes({"a": 2}))[1].round(3)
    array([0.222], dtype=float32)
    """
    is_ordered = [a.kind != "categorical" and a.size > 1 for a in domain]
    step = [1 / (a.size - 1) ** 2 if o else 0.0 for a, o in zip(domain, is_ordered, strict=True)]
    other = [0.0 if o else 2 * OTHER_CODE for o in is_ordered]
    return np.array(step, np.float32), np.array(other, np.float32)


_BLOCK = 64  # distances whose minimum is taken at once


@njit(cache=True)
def _votes(rows, of_row, candidates, starts, step, other):  # type: ignore[no-untyped-def]
    """Return the votes of rows that are sorted by group, then by their columns.

    A row shares the distances over its first columns with the row before it, as far as the two agree. A distance is
    the same sum, in the same order, for every row with the same codes.
    """
    m, n_columns = candidates.shape
    counts = np.zeros(m, np.int64)
    columns = candidates.T.copy()  # so that the inner loop runs along candidates, many at a time
    sums = np.zeros((n_columns + 1, m), np.float32)  # of the first columns' terms
    nothing = np.float32(0)
    winner = np.int64(0)
    for i in range(rows.shape[0]):
        low, high = starts[of_row[i]], starts[of_row[i] + 1]
        if low == high:
            continue
        same = 0
        if i > 0 and of_row[i] == of_row[i - 1]:
            while same < n_columns and rows[i, same] == rows[i - 1, same]:
                same += 1
        else:
            winner = low
        for j in range(same, n_columns):
            own, column, before, after = rows[i, j], columns[j], sums[j], sums[j + 1]
            if other[j] > 0:
                weight = other[j]
                for c in range(low, high):
                    after[c] = before[c] + (weight if column[c] != own else nothing)
            else:
                weight = step[j]
                for c in range(low, high):
                    gap = column[c] - own
                    after[c] = before[c] + weight * gap * gap
        if same < n_columns:
            winner = _first_smallest(sums[n_columns].view(np.int32), low, high)
        counts[winner] += 1
    return counts


@njit(cache=True)
def _first_smallest(bits, low, high):  # type: ignore[no-untyped-def]
    """Return the place of the first smallest number; numbers that are not negative have the order of their bits.

    The compiler takes a minimum of whole numbers many at a time, and one of floats one by one.
    """
    smallest, block = bits[low], low
    for start in range(low, high, _BLOCK):
        least = bits[start]
        for c in range(start, min(start + _BLOCK, high)):
            least = min(least, bits[c])
        if least < smallest:
            smallest, block = least, start
    while bits[block] != smallest:
        block += 1
    return block
