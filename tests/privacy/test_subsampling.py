"""Poisson samples: every row alone with the rate, and rows independent of each other."""

import numpy as np
import pytest

from marginalia.privacy.subsampling import poisson_sample


@pytest.mark.parametrize(("n", "rate"), [(40, 0.3), (20_000, 0.002), (20_000, 0.05)])
def test_law(n, rate):
    """Over 4,000 samples: sizes, the first rows alone and in pairs; 5 standard errors, false alarms below 1e-5."""
    rng = np.random.default_rng(0)
    drawn = np.zeros((4000, 12), dtype=bool)
    sizes = np.empty(4000)
    for i, row in enumerate(drawn):
        sample = poisson_sample(n, rate, rng)
        assert len(np.unique(sample)) == len(sample)
        assert sample.size == 0 or (sample.min() >= 0 and sample.max() < n)
        row[sample[sample < 12]] = True
        sizes[i] = sample.size
    variance = n * rate * (1 - rate)
    assert abs(sizes.mean() - n * rate) < 5 * np.sqrt(variance / 4000)
    assert sizes.var() == pytest.approx(variance, rel=5 * np.sqrt(2 / 4000))
    assert abs(drawn.mean() - rate) < 5 * np.sqrt(rate * (1 - rate) / drawn.size)
    pairs = (drawn[:, :, None] & drawn[:, None, :])[:, *np.triu_indices(12, 1)]
    # 66 pairs that share rows: the variance of their mean is at most that of one pair.
    assert abs(pairs.mean() - rate**2) < 5 * np.sqrt(rate**2 / 4000)


def test_rate_one_is_all_rows():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert np.array_equal(poisson_sample(7, 1, rng), np.arange(7))
    assert rng.bit_generator.state == before
