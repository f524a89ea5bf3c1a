"""Rows from a probability vector: apportioned, or drawn independently."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SAMPLING = ("apportion", "iid")


def copies(q: NDArray[np.float64], n_rows: int, sampling: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many of `n_rows` rows each atom of a probability vector gets.

    ``apportion``: ⌊n q⌋ copies, the rest to the largest remainders (ties by index); every count is within 1 of n·q.
    ``iid``: multinomial.

    >>> copies(np.array([0.5, 0.3, 0.2]), 4, "apportion", np.random.default_rng(0))
    array([2, 1, 1])
    """
    if sampling == "iid":
        return rng.multinomial(n_rows, q / q.sum())
    expected = n_rows * (q / q.sum())
    counts = np.floor(expected).astype(np.int64)
    missing = n_rows - int(counts.sum())
    if missing > 0:
        counts[np.argsort(counts - expected, kind="stable")[:missing]] += 1
    return counts
