"""Verdicts on claims; equivalence is a test that noise alone never passes."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from marginalia.reporting.verdicts import (
    BY_CHANCE,
    CLEAR,
    COLUMNS,
    ahead,
    chance,
    claim_row,
    equivalence,
    equivalence_of,
    holm,
    p_ahead,
    verdict,
    welch,
)
from marginalia.reporting.verification.claims import summary


def test_equivalence_agrees_with_two_one_sided_t_tests():
    values = np.random.default_rng(0).normal(0.3, 1.0, size=12)
    found = equivalence(values, 1.0)
    above = stats.ttest_1samp(values, -1.0, alternative="greater").pvalue
    below = stats.ttest_1samp(values, 1.0, alternative="less").pvalue
    assert found.p == pytest.approx(max(above, below), rel=1e-9)
    assert found.equivalent == (found.p <= 0.05)


def test_the_bound_is_the_smallest_margin_that_passes():
    values = np.random.default_rng(1).normal(-0.2, 0.5, size=7)
    bound = equivalence(values, 1.0).bound
    assert equivalence(values, bound * 1.0001).equivalent
    assert not equivalence(values, bound * 0.9999).equivalent


@pytest.mark.slow
def test_noise_does_not_make_two_arms_equivalent():
    """At the edge of the margin the test passes in 5 % of the cases: of 4,000 no more than 6.4 % (false alarm 1e-4)."""
    rng = np.random.default_rng(2)
    passed = sum(equivalence(rng.normal(1.0, 1.0, size=40), 1.0).equivalent for _ in range(4000))
    assert passed <= 0.064 * 4000
    assert passed >= 0.037 * 4000


@pytest.mark.parametrize("values", [[], [0.0], [np.nan, 0.0, 0.0]])
def test_too_few_trials_prove_nothing(values):
    assert not equivalence(values, 10.0).equivalent


def test_trials_that_agree_to_the_bit_are_judged_by_their_mean():
    assert equivalence([0.5, 0.5], 0.6).equivalent
    assert not equivalence([0.5, 0.5], 0.4).equivalent
    assert equivalence_of(0.1, 0.0, 4, 0.1).equivalent


def test_a_claim_counts_its_cells():
    row = claim_row("c1", place="Section 5", claim="a", test="b", cells=np.array([[True, False], [True, True]]),
                    sets=["Adult", "COMPAS", "Adult"])  # fmt: skip
    assert tuple(row) == COLUMNS
    assert (row["held"], row["tested"], row["verdict"], row["sets"]) == (3, 4, "held in most cells", "Adult;COMPAS")
    assert claim_row("c2", place="", claim="", test="", cells=[], sets=[])["verdict"] == "not tested" == verdict(0, 0)


def test_a_missing_cell_neither_holds_nor_fails():
    row = claim_row("c", place="", claim="", test="", cells=[True, float("nan"), None, False], sets=["a"])
    assert (row["held"], row["tested"], row["verdict"]) == (1, 2, "held in some cells")


def test_a_difference_is_judged_by_students_quantile():
    values = np.random.default_rng(0).normal(0.5, 1.0, size=5)
    found = p_ahead(values.mean(), values.std(ddof=1) / np.sqrt(5), 4)
    assert found == pytest.approx(stats.ttest_1samp(values, 0, alternative="greater").pvalue, rel=1e-9)
    assert ahead([2.7, 2.8, np.nan, 1.0, -1.0], [1, 1, 1, 0, 0], [4, 4, 4, 4, 4]).tolist() == [
        False, True, False, True, False,
    ]  # fmt: skip
    assert not ahead(1.0, np.nan, 0)


def test_five_trials_without_a_difference_pass_as_seldom_as_they_say():
    """2.5 % of 20,000: between 1.9 and 3.1 % (false alarm below 1e-6); two standard errors would pass 5.8 %."""
    values = np.random.default_rng(1).normal(size=(20_000, 5))
    mean, stderr = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(5)
    assert 0.019 <= ahead(mean, stderr, 4).mean() <= 0.031
    assert (mean > 2 * stderr).mean() > 0.05


def test_independent_means_are_compared_as_welch_does():
    rng = np.random.default_rng(2)
    a, b = rng.normal(0.5, 1, 5), rng.normal(0, 3, 9)
    stderr, df = welch(stats.sem(a), 5, stats.sem(b), 9)
    expected = stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue
    assert p_ahead(a.mean() - b.mean(), stderr, df) == pytest.approx(expected, rel=1e-9)
    assert welch(0.0, 3, 0.0, 4)[1] == 5


def test_cells_that_chance_would_let_pass_are_no_sign():
    assert chance(1, 12, 0.025) == pytest.approx(1 - 0.975**12)
    assert [verdict(n, 20, CLEAR) for n in (0, 1, 2, 3, 20)] == [
        "not held", BY_CHANCE, BY_CHANCE, "held in some cells", "held",
    ]  # fmt: skip
    assert verdict(1, 20) == "held in some cells"  # nothing in it is left to chance


def test_holm_steps_down_and_stops_at_the_first_that_fails():
    p = [0.04, 0.004, 0.011, 0.03]
    assert holm(p, 0.05) == 2  # .004 <= .05/4, .011 <= .05/3, .03 > .05/2, and so .04 does not count either
    assert holm([], 0.05) == 0
    rng = np.random.default_rng(3)
    wrong = np.mean([holm(rng.random(30), 0.05) > 0 for _ in range(4000)])
    assert wrong <= 0.066  # 5 % of 4,000: false alarm below 1e-5


def test_a_sentence_has_one_verdict_by_the_cells_of_its_parts():
    lines = [
        claim_row("a1", sentence="a", place="", claim="", test="", p=[0.001, 0.2], level=0.05, sets=[]),
        claim_row("a2", sentence="a", place="", claim="", test="", p=[0.001, 0.001], level=0.05, sets=[]),
        claim_row("a3", sentence="a", whose="repeat", place="", claim="", test="", cells=[False] * 9, sets=[]),
        claim_row("b", whose="ours", place="", claim="", test="", cells=[True], sets=[]),
        claim_row("c", place="", claim="", test="", cells=[], sets=[]),
    ]
    table = summary({"toy": pd.DataFrame(lines)}).set_index(["block", "whose"])
    paper = table.loc[("toy", "paper")]
    assert paper[["sentences", "parts", "held_in_most_cells", "not_tested"]].tolist() == [2, 3, 1, 1]
    assert table.loc[("all", "ours"), ["sentences", "held"]].tolist() == [1, 1]
