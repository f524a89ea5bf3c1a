"""Pairwise tests: they agree with SciPy, keep their level, and prove nothing with too few trials."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from marginalia.reporting.pairwise import CLEAR, LEVEL, holm, p_value, pairwise, smallest_margin, welch


def trials(seed=0, n=6, sets=("b", "a"), **shifts):
    """Return a column for each method, with levels that all methods of a trial share."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([sets, [0.1, 1.0], range(n)], names=["dataset", "epsilon", "trial"])
    level = rng.normal(size=len(index))
    return pd.DataFrame({name: level + s + 0.3 * rng.normal(size=len(index)) for name, s in shifts.items()}, index)


def summary(values):
    values = np.asarray(values, dtype=float)
    with np.errstate(invalid="ignore"):
        stderr = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return values.mean() if len(values) else np.nan, stderr, len(values) - 1


@pytest.mark.parametrize("test", ["better", "not_worse", "same"])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_each_cell_is_the_t_test_of_scipy(test, paired, higher_is_better):
    values = trials(x=0.2, y=0.0)
    found = pairwise(
        values, "x", "y", by=["dataset", "epsilon"], test=test, margin=0.3, paired=paired,
        higher_is_better=higher_is_better,
    )  # fmt: skip
    assert found[["dataset", "epsilon"]].to_numpy().tolist() == [["b", 0.1], ["b", 1.0], ["a", 0.1], ["a", 1.0]]
    for row in found.itertuples():
        cell = values.loc[(row.dataset, row.epsilon)]
        x, y = (cell[name].to_numpy() * (1 if higher_is_better else -1) for name in ("x", "y"))
        t_test = stats.ttest_rel if paired else lambda *a, **k: stats.ttest_ind(*a, equal_var=False, **k)
        expected = {
            "better": t_test(x, y, alternative="greater").pvalue,
            "not_worse": t_test(x + 0.3, y, alternative="greater").pvalue,
            "same": max(
                t_test(x + 0.3, y, alternative="greater").pvalue, t_test(x - 0.3, y, alternative="less").pvalue
            ),
        }[test]
        assert row.p == pytest.approx(expected, rel=1e-9)
        assert (row.n_trials, row.baseline) == (6, pytest.approx(cell["y"].mean()))


def test_what_a_trial_shares_is_no_noise_of_a_paired_difference():
    values = trials(x=0.5, y=0.0)
    paired, independent = (pairwise(values, "x", "y", by=["dataset"], paired=p)["stderr"] for p in (True, False))
    assert (3 * paired < independent).all()


def test_trials_of_one_method_alone_do_not_count_and_a_method_that_was_not_run_has_no_cell():
    values = trials(x=0.5, y=0.0)
    values.loc[("a", 0.1, 0), "x"] = np.nan
    values.loc[("b", 1.0), "y"] = np.nan
    found = pairwise(values, "x", "y", by=["dataset", "epsilon"])
    cells = [("b", 0.1, 6), ("a", 0.1, 5), ("a", 1.0, 6)]
    assert list(found[["dataset", "epsilon", "n_trials"]].itertuples(index=False, name=None)) == cells
    assert pairwise(values, "x", "z", by=["dataset"]).empty


def test_a_relative_margin_is_a_share_of_the_mean_of_the_second():
    values = trials(x=10.1, y=10.0)
    found = pairwise(values, "x", "y", by=["dataset"], test="same", margin=0.05, relative=True)
    assert found["margin"].tolist() == pytest.approx((0.05 * found["baseline"]).tolist())
    assert (found["p"] <= LEVEL).all()


def test_two_standard_errors_of_five_splits_are_not_enough():
    gaps = np.array([-0.001, 0.0, 0.001, -0.0005, 0.0005])
    gaps = gaps + 2.5 * gaps.std(ddof=1) / np.sqrt(5)
    assert gaps.mean() > 2 * gaps.std(ddof=1) / np.sqrt(5)
    assert p_value(*summary(gaps)) > CLEAR


def test_not_worse_needs_evidence():
    wiggle = np.array([-0.001, 0.0, 0.001, -0.0005, 0.0005])
    assert p_value(*summary(wiggle), "not_worse", 0.01) <= CLEAR
    assert p_value(*summary(wiggle - 0.011), "not_worse", 0.01) > LEVEL  # worse by a thousandth more than the margin
    assert p_value(*summary(100 * wiggle), "not_worse", 0.01) > LEVEL
    assert p_value(*summary(wiggle[:1]), "not_worse", 0.01) > LEVEL


def test_the_bound_is_the_smallest_margin_that_passes():
    found = summary(np.random.default_rng(1).normal(-0.2, 0.5, size=7))
    for test in ("same", "not_worse"):
        bound = smallest_margin(*found, test)
        assert p_value(*found, test, bound * 1.0001) <= LEVEL < p_value(*found, test, bound * 0.9999)
    assert np.isnan(smallest_margin(*found, "better"))
    assert smallest_margin(0.1, np.nan, 0) == np.inf


@pytest.mark.slow
def test_noise_does_not_make_two_methods_the_same():
    """At the edge of the margin the test passes in 5 % of the cases: of 4,000 no more than 6.4 % (false alarm 1e-4)."""
    values = np.random.default_rng(2).normal(1.0, 1.0, size=(4000, 40))
    stderr = values.std(axis=1, ddof=1) / np.sqrt(40)
    passed = (p_value(values.mean(axis=1), stderr, 39, "same", 1.0) <= LEVEL).sum()
    assert 0.037 * 4000 <= passed <= 0.064 * 4000


@pytest.mark.parametrize("values", [[], [0.0], [np.nan, 0.0, 0.0]])
@pytest.mark.parametrize("test", ["better", "same", "not_worse"])
def test_too_few_trials_prove_nothing(values, test):
    assert p_value(*summary(values), test, 10.0) == 1


def test_trials_that_agree_to_the_bit_are_judged_by_their_mean():
    assert p_value([0.5, 0.5, 0.1], 0.0, 4, "same", [0.6, 0.4, 0.1]).tolist() == [0, 1, 0]
    assert p_value([1.0, -1.0, 0.0], 0.0, 4).tolist() == [0, 1, 1]


def test_five_trials_without_a_difference_pass_as_seldom_as_they_say():
    """2.5 % of 20,000: between 1.9 and 3.1 % (false alarm below 1e-6); two standard errors would pass 5.8 %."""
    values = np.random.default_rng(1).normal(size=(20_000, 5))
    mean, stderr = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(5)
    assert 0.019 <= (p_value(mean, stderr, 4) <= CLEAR).mean() <= 0.031
    assert (mean > 2 * stderr).mean() > 0.05


def test_independent_means_are_compared_as_welch_does():
    rng = np.random.default_rng(2)
    a, b = rng.normal(0.5, 1, 5), rng.normal(0, 3, 9)
    stderr, df = welch(stats.sem(a), 5, stats.sem(b), 9)
    expected = stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue
    assert p_value(a.mean() - b.mean(), stderr, df) == pytest.approx(expected, rel=1e-9)
    assert welch(0.0, 3, 0.0, 4)[1] == 5


def test_holm_steps_down_and_stops_at_the_first_that_fails():
    # .004 <= .05/4, .011 <= .05/3, .03 > .05/2, and so .04 does not count either
    assert holm([0.04, 0.004, 0.011, 0.03]) == pytest.approx([0.06, 0.016, 0.033, 0.06])
    assert holm([]).tolist() == []
    rng = np.random.default_rng(3)
    wrong = np.mean([(holm(rng.random(30)) <= 0.05).any() for _ in range(4000)])
    assert wrong <= 0.066  # 5 % of 4,000: false alarm below 1e-5
