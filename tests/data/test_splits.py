import numpy as np
import pytest

from marginalia.data import Domain, Table
from marginalia.data.splits import random_split
from marginalia.errors import InputError


def numbered(n):
    return Table(np.arange(n)[:, None], Domain.from_sizes({"row": max(n, 1)}))


def rows(table):
    return table.column("row").tolist()


def test_random_split_is_the_published_permutation_rule():
    order = np.random.default_rng(5003).permutation(100)
    split = random_split(numbered(100), seed=5003, test_size=10, train_limit=60)
    assert rows(split.test) == order[-10:].tolist()
    assert rows(split.train) == order[:60].tolist()


def test_random_split_parts_every_row_once_and_follows_its_seed():
    seeds = np.random.SeedSequence(1).spawn(2)
    first, again, other = (random_split(numbered(50), seed=s, test_fraction=0.25) for s in (seeds[0], *seeds))
    assert sorted(rows(first.train) + rows(first.test)) == list(range(50))
    assert len(first.test) == 13
    assert rows(first.train) == rows(again.train)
    assert rows(first.train) != rows(other.train)


@pytest.mark.parametrize(
    "sizes", [{}, {"test_size": 1, "test_fraction": 0.5}, {"test_size": 0}, {"test_size": 10}, {"test_fraction": 1.0}]
)
def test_impossible_splits_are_refused(sizes):
    with pytest.raises(InputError):
        random_split(numbered(10), seed=0, **sizes)
