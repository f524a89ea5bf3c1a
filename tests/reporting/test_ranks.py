"""Ranks of methods over data sets against numbers made by hand and by other ways."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from marginalia.reporting.ranks import bootstrap_interval, critical_difference, rank_table


@pytest.fixture(scope="module")
def errors():
    """Of six data sets: a is first on five of them, b on one, c always last."""
    index = pd.MultiIndex.from_product([range(6), ["y"], [0.1, 1.0]], names=["dataset", "target", "epsilon"])
    b = np.where(index.get_level_values("dataset") == 0, 0.5, 2.0)
    return pd.DataFrame({"c": 8.0, "b": b, "a": 1.0}, index)


def test_ranks_effects_and_tests_by_hand(errors):
    table = rank_table(errors, higher_is_better=False, seed=("test",))
    assert list(table.index) == ["a", "b", "c"]
    assert list(table["mean_rank"]) == pytest.approx([7 / 6, 11 / 6, 3])
    assert list(table["effect"]) == pytest.approx([1, 2 ** (4 / 6), 8])  # geometric mean of five 2 and one 1/2
    assert (table["n_datasets"] == 6).all()
    assert (table["blocks"] == 12).all()
    by_hand = np.array([[1, 2, 3]] * 5 + [[2, 1, 3]])
    assert table["friedman_p"].iloc[0] == pytest.approx(stats.friedmanchisquare(*by_hand.T).pvalue)
    # Demšar 2006, table 5: q = 2.343 for three classifiers at the 5 % level
    assert table["critical_difference"].iloc[0] == pytest.approx(2.343 * np.sqrt(3 * 4 / 36), rel=1e-3)
    assert list(table["like_best"]) == ["yes", "yes", "no"]
    assert np.isnan(table["wilcoxon_p"].iloc[0])
    assert table["effect_low"]["b"] <= table["effect"]["b"] <= table["effect_high"]["b"]
    assert critical_difference(10, 14) == pytest.approx(3.164 * np.sqrt(10 * 11 / 84), rel=1e-3)


def test_effects_of_errors_do_not_depend_on_the_scale_of_a_data_set(errors):
    scales = np.repeat([1e-6, 1.0, 1e6, 3.0, 7.0, 2.0], 2)
    errors = errors * np.random.default_rng(5).uniform(0.9, 1.1, errors.shape)  # no ties for Wilcoxon's test
    scaled = rank_table(errors.mul(scales, axis=0), higher_is_better=False, seed=("test",))
    pd.testing.assert_frame_equal(scaled, rank_table(errors, higher_is_better=False, seed=("test",)))


def test_gains_are_compared_by_differences(errors):
    table = rank_table(1 - errors / 10, higher_is_better=True, seed=("test",))
    assert list(table.index) == ["a", "b", "c"]
    assert list(table["effect"]) == pytest.approx([0, (5 * 0.1 - 0.05) / 6, 0.7])


def test_the_interval_against_all_ways_to_draw_the_data_sets():
    column = pd.DataFrame({"a": [1.0, 2.0, 4.0]})
    low, high = bootstrap_interval(column, ("test",))
    means = np.sort([np.mean(draw) for draw in product(column["a"], repeat=3)])
    assert (low[0], high[0]) == (means[0], means[-1])  # 1 and 4 have a chance of 1/27 each, above 2.5 %


def test_two_data_sets_are_not_tested(errors):
    table = rank_table(errors.loc[:1], higher_is_better=False, seed=("test",))
    untested = ["rank_low", "rank_high", "effect_low", "effect_high", "friedman_p", "critical_difference", "wilcoxon_p"]
    assert table[untested].isna().all().all()
    assert set(table["like_best"]) == {""}
