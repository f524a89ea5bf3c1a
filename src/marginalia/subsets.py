"""Subsets of a clique of attributes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def subsets(clique: Sequence[T], *, smallest: int = 0) -> Iterator[tuple[T, ...]]:
    """Yield every subset of a clique with at least `smallest` members, by size, the whole included.

    >>> list(subsets((0, 2)))
    [(), (0,), (2,), (0, 2)]
    """
    for size in range(smallest, len(clique) + 1):
        yield from itertools.combinations(clique, size)
