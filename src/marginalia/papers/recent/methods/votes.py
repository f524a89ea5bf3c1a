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
    groups = candidates[:, target] if target >= 0 else np.zeros(len(candidates), np.int64)
    order = np.argsort(groups, kind="stable")
    sorted_candidates = candidates[order].astype(np.float32)  # codes below 2**24 are exact
    for batch in batches:
        step, other = scales(batch.domain)
        rows = batch.codes.astype(np.float32)
        n_groups = batch.domain.sizes[target] if target >= 0 else 1
        starts = np.searchsorted(groups[order], np.arange(n_groups + 1))
        if target >= 0:
            step, other = np.delete(step, target), np.delete(other, target)
            of_row = batch.codes[:, target].astype(np.int64)
            rows, among = np.delete(rows, target, axis=1), np.delete(sorted_candidates, target, axis=1)
        else:
            of_row, among = np.zeros(len(rows), np.int64), sorted_candidates
        counts[order] += _votes(rows, of_row, among, starts, step, other)
    return counts


def scales(domain: Domain) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return, for each column, the squared distance of neighbouring codes (0: no order) and that of any two codes.

    >>> scales(Domain.from_sizes({"a": 2}))[1].round(3)
    array([0.222], dtype=float32)
    """
    is_ordered = [a.kind != "categorical" and a.size > 1 for a in domain]
    step = [1 / (a.size - 1) ** 2 if o else 0.0 for a, o in zip(domain, is_ordered, strict=True)]
    other = [0.0 if o else 2 * OTHER_CODE for o in is_ordered]
    return np.array(step, np.float32), np.array(other, np.float32)


@njit(cache=True)
def _votes(rows, of_row, candidates, starts, step, other):  # type: ignore[no-untyped-def]
    counts = np.zeros(candidates.shape[0], np.int64)
    columns = candidates.T.copy()  # so that the inner loop runs along candidates, many at a time
    distances = np.empty(candidates.shape[0], np.float32)
    nothing = np.float32(0)
    for i in range(rows.shape[0]):
        low, high = starts[of_row[i]], starts[of_row[i] + 1]
        if low == high:
            continue
        distances[low:high] = nothing
        for j in range(rows.shape[1]):
            own, column = rows[i, j], columns[j]
            if other[j] > 0:
                weight = other[j]
                for c in range(low, high):
                    distances[c] += weight if column[c] != own else nothing
            else:
                weight = step[j]
                for c in range(low, high):
                    gap = column[c] - own
                    distances[c] += weight * gap * gap
        counts[low + np.argmin(distances[low:high])] += 1
    return counts
