"""Seeded splits into training and test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from marginalia.data.table import RawTable, Table
from marginalia.data.units import keyed_hashes
from marginalia.errors import InputError

R = TypeVar("R", Table, RawTable)


@dataclass(frozen=True)
class Split(Generic[R]):
    """Training and test rows of one table; what `random_split` returns.

    >>> from marginalia.data.domain import Domain
    >>> rows = Table([[0], [1], [1]], Domain.from_sizes({"a": 2}))
    >>> Split(train=rows.take(slice(2)), test=rows.take(slice(2, None))).test.n_rows
    1
    """

    train: R
    test: R


def number_of_test_rows(n: int, test_fraction: float) -> int:
    """Return a share in (0, 1) of `n` rows, rounded up.

    >>> number_of_test_rows(5, 0.3)
    2
    """
    if not 0 < test_fraction < 1:
        raise InputError(f"test_fraction must lie between 0 and 1, not {test_fraction}")
    return int(np.ceil(test_fraction * n))


def random_split(
    table: R,
    *,
    seed: int | np.random.SeedSequence,
    test_size: int | None = None,
    test_fraction: float | None = None,
    train_limit: int | None = None,
) -> Split[R]:
    """Split uniformly at random, as `seed` and the number of rows decide: the last rows of a permutation are for tests.

    Give either `test_size`, a number of rows, or `test_fraction`, a share in (0, 1) that is rounded up. At most
    `train_limit` training rows are kept, the first of the permutation. Where rows have units these are what is split
    and counted: all rows of one are on the same side. They are ordered by a keyed hash of their own keys, so that the
    rows of one unit move no other unit. The sizes of both parts are exact, since they may be public: a unit that is
    added, or leaves, can move one other unit to the other side.

    >>> from marginalia.data.domain import Domain
    >>> rows = Table([[c] for c in range(5)], Domain.from_sizes({"a": 5}))
    >>> random_split(rows, seed=0, test_fraction=0.3).test.column("a")
    array([0, 1], dtype=int16)
    """
    n = table.n_units
    if (test_size is None) == (test_fraction is None):
        raise InputError("give either test_size or test_fraction, and not both")
    if test_size is None:
        assert test_fraction is not None
        test_size = number_of_test_rows(n, test_fraction)
    if not 0 < test_size < n:
        each = "row" if table.unit is None else f"`{table.unit.column}`"
        raise InputError(f"cannot take {test_size} of {n} {each}s for tests: both parts need at least one")
    rng = np.random.default_rng(seed)
    if table.units is None or table.unit_keys is None:
        order = rng.permutation(n)
    else:
        first = np.unique(table.units, return_index=True)[1]
        order = np.argsort(keyed_hashes(table.unit_keys[first], rng.bytes(16)), kind="stable")
    train, test = order[: n - test_size][:train_limit], order[n - test_size :]
    if table.units is not None:
        number = np.unique(table.units, return_inverse=True)[1]
        train, test = (np.flatnonzero(np.isin(number, chosen)) for chosen in (train, test))
    return Split(train=table.take(train), test=table.take(test))
