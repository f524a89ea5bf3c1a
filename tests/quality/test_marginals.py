"""Marginal errors and NIST's score, against hand computations and brute force."""

from collections import Counter
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.quality import cells as module
from marginalia.quality.cells import Partition
from marginalia.quality.quality import columns


def random_table(n, seed, sizes=(3, 4, 2, 5)):
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes({f"c{i}": m for i, m in enumerate(sizes)})
    return Table(np.column_stack([rng.integers(0, rng.integers(1, m + 1), n) for m in sizes]), domain)


def test_a_pair_by_hand():
    domain = Domain.from_sizes({"a": 2, "b": 2})
    real = Table([[0, 0], [0, 1], [1, 0], [1, 1]], domain)  # a quarter in each cell
    made = Table([[0, 0], [1, 1]], domain)  # a half in two of them
    found = Partition.of_codes(real, made).marginals()
    assert found.errors == {("a", "b"): 0.5}
    assert found.score == 500
    assert [one.error for one in columns(Partition.of_codes(real, made))] == [0, 0]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_errors_are_those_of_brute_force(k):
    real, made = random_table(200, 0), random_table(90, 1)
    partition = Partition.of_codes(real, made)
    for names in combinations(real.domain.names, k):
        places = [real.domain.index(name) for name in names]
        ours, theirs = (Counter(tuple(row[places]) for row in t.codes) for t in (real, made))
        cells = set(ours) | set(theirs)
        distance = sum(abs(ours[cell] / 200 - theirs[cell] / 90) for cell in cells)
        assert partition.error(names) == pytest.approx(distance / 2)


def test_all_pairs_are_there_the_worst_first():
    partition = Partition.of_codes(random_table(200, 0), random_table(90, 1))
    found = partition.marginals()
    assert found.errors == {pair: partition.error(pair) for pair in combinations(partition.sizes, 2)}
    assert list(found.errors.values()) == sorted(found.errors.values(), reverse=True)


def test_the_score_is_that_of_sdnist():
    """As its KMarginal has it: densities of all pairs by group sizes, (2 - mean L1 distance) * 500."""
    real, made = random_table(300, 2), random_table(120, 3)
    frames = [pd.DataFrame(t.codes, columns=list(t.domain.names)) for t in (real, made)]
    pairs = [list(pair) for pair in combinations(sorted(frames[0].columns), 2)]
    total = 0.0
    for pair in pairs:
        left, right = (frame.groupby(pair).size() / len(frame) for frame in frames)
        total += left.subtract(right, fill_value=0).abs().sum()
    assert Partition.of_codes(real, made).marginals().score == pytest.approx((2 - total / len(pairs)) * 500)


def test_large_marginals_are_counted_on_the_cells_with_rows(monkeypatch):
    real, made = random_table(150, 4), random_table(70, 5)
    whole = Partition.of_codes(real, made).marginals()
    monkeypatch.setattr(module, "_MOST_CELLS", 1)
    assert Partition.of_codes(real, made).marginals().errors == pytest.approx(whole.errors)


def test_two_columns_of_many_codes_take_no_table_of_all_cells():
    domain = Domain.from_sizes({"a": 1_000_000, "b": 1_000_000})
    real, made = Table([[5, 7], [999_999, 999_999]], domain), Table([[5, 7], [5, 7]], domain)
    assert Partition.of_codes(real, made).marginals().errors == {("a", "b"): 0.5}


def test_values_lost_and_made_up():
    domain = Domain.from_sizes({"a": 4, "b": 2})
    real, made = Table([[0, 0], [0, 0], [1, 1], [2, 1]], domain), Table([[0, 0], [3, 1]], domain)
    a, b = columns(Partition.of_codes(real, made))
    assert (a.lost.tolist(), a.made_up.tolist(), a.lost_share) == ([1, 2], [3], 0.5)
    assert (b.lost.tolist(), b.made_up.tolist(), b.lost_share) == ([], [], 0.0)


def test_what_has_no_marginals_is_refused():
    one = Table([[0]], Domain.from_sizes({"a": 2}))
    with pytest.raises(InputError, match="need a table with as many; it has 1"):
        Partition.of_codes(one, one).marginals()
    two = random_table(3, 9)
    with pytest.raises(InputError, match="without rows"):
        Partition.of_codes(two, two.take(slice(0))).marginals()
