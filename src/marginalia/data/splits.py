"""Seeded splits into training and test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from marginalia.data.table import Table
from marginalia.errors import InputError

if TYPE_CHECKING:
    from marginalia.data.datasets import Dataset


@dataclass(frozen=True, slots=True)
class Split:
    """Training and test rows of one table."""

    train: Table
    test: Table


def random_split(
    table: Table,
    *,
    seed: int | np.random.SeedSequence,
    test_size: int | None = None,
    test_fraction: float | None = None,
    train_limit: int | None = None,
) -> Split:
    """Split uniformly at random: the last rows of a seeded permutation are the test rows.

    Parameters
    ----------
    table : Table
    seed : int or SeedSequence
        The split is a function of it and of the number of rows alone.
    test_size, test_fraction : int or float
        Exactly one: a number of rows, or a share in (0, 1) that is rounded up.
    train_limit : int, optional
        Keep at most this many training rows, the first of the permutation.

    Raises
    ------
    InputError
        A part would be empty.
    """
    n = table.n_rows
    if (test_size is None) == (test_fraction is None):
        raise InputError("give either test_size or test_fraction, and not both")
    if test_size is None:
        assert test_fraction is not None
        if not 0 < test_fraction < 1:
            raise InputError(f"test_fraction must lie between 0 and 1, not {test_fraction}")
        test_size = int(np.ceil(test_fraction * n))
    if not 0 < test_size < n:
        raise InputError(f"cannot take {test_size} test rows out of {n}: both parts need at least one row")
    order = np.random.default_rng(seed).permutation(n)
    return Split(train=table.take(order[: n - test_size][:train_limit]), test=table.take(order[n - test_size :]))


def released_split(dataset: Dataset) -> Split:
    """Return the split that the data set's authors published; of the training file the first `train_limit` rows.

    Raises
    ------
    InputError
        The data set has no released split.
    """
    if dataset.released_test is None:
        raise InputError(f"data set '{dataset.name}' has no released split; use a random one")
    limit = dataset.entry.train_limit
    train = dataset.table if limit is None else dataset.table.take(np.arange(min(limit, dataset.table.n_rows)))
    return Split(train=train, test=dataset.released_test)
