"""The parameter of random stopping."""

import pytest

from marginalia.errors import InputError
from marginalia.learning.private_tuning import tuning_rate


def test_tuning_rate():
    assert tuning_rate(17, 0.2) == pytest.approx(1 / 64)
    assert 1 / tuning_rate(17, 0.05) == pytest.approx(304)
    r, miss = tuning_rate(9, 0.3), 0.0
    for k in range(1, 2000):  # P(never drawn) summed over the number of runs
        miss += r * (1 - r) ** (k - 1) * (1 - 1 / 9) ** k
    assert miss == pytest.approx(0.3)
    with pytest.raises(InputError, match="two candidates"):
        tuning_rate(1, 0.2)
