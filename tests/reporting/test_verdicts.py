"""Verdicts on claims; equivalence is a test that noise alone never passes."""

import numpy as np
import pytest
from scipy import stats

from marginalia.reporting.verdicts import COLUMNS, claim_row, equivalence, equivalence_of, verdict


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
