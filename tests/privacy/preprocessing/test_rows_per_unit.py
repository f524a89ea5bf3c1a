"""How many rows of each unit are kept, where a fit chooses the number privately."""

import numpy as np
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.data.units import UnitOfLearnedRows
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms.hooks import intercepting
from marginalia.privacy.preprocessing.preprocess import learn_rows_per_unit
from marginalia.privacy.randomness import Randomness
from marginalia.privacy.session import Session

UNIT = UnitOfLearnedRows("id", 8, 0.9)  # of bins that end at 1, 2, .., 8


def chosen(sizes, released):
    """Return the number of rows per unit where units have `sizes` rows and the histogram `released` is forced."""
    units = np.repeat(np.arange(len(sizes)), sizes)
    table = Table(np.zeros((units.size, 1), int), Domain.from_sizes({"a": 2})).of_units(UNIT, units)
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5)
    with intercepting(lambda asked, exact, draw: np.array(released)):
        return learn_rows_per_unit(table, UNIT, session=Session(ledger, Randomness(0))).unit.rows


@pytest.mark.parametrize(
    ("released", "k"),
    [
        ([89, 0, 2, 9, 0, 0, 0, 0], 3),  # the least end up to which 90 of 100 lie
        ([90, 0, 1, 9, 0, 0, 0, 0], 1),
        ([-5, 3, 0, 0, 60, 0, 0, 42], 8),
        ([1, 0, 0, 0, 0, 0, 0, 0], 1),
        ([0, 0, 0, 0, 0, 0, 5000, 0], 7),
    ],
)
def test_it_follows_from_the_noisy_histogram_alone(released, k):
    for sizes in ([1] * 1000, [8] * 10, [1, 2, 3], [5] * 100 + [1]):
        assert chosen(sizes, released) == k
