"""Seconds and memory of a fit on a table of the user's own, from what was measured on others."""

import pytest

from marginalia.advice.benchmarks import shapes
from marginalia.advice.costs import Costs, Measured
from marginalia.advice.recommend import cost_on_table
from marginalia.methods.record import Arm


def fit(dataset, seconds):
    return Measured("fit", "aim", "", "tight", "", dataset, 1.0, seconds, 500.0, "test")


def test_a_table_of_some_shape_is_on_the_line_of_the_known_ones():
    """Seconds that are proportional to rows times columns are found to be; far beyond it is a guess."""
    known = Costs(fit(name, 1e-6 * rows * columns) for name, (rows, columns) in shapes().items())
    near = cost_on_table(known, Arm("aim"), epsilon=1.0, shape=(20_000, 10))
    assert near.seconds == pytest.approx(0.2, rel=0.2)
    assert near.basis == "other data"
    wide = cost_on_table(known, Arm("aim"), epsilon=1.0, shape=(20_000, 300))
    assert wide.seconds == pytest.approx(6, rel=0.6)
    assert wide.basis == "guess"
