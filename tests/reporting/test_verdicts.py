"""Verdicts on claims."""

import numpy as np
import pandas as pd
import pytest

from marginalia.reporting.pairwise import CLEAR
from marginalia.reporting.verdicts import BY_CHANCE, COLUMNS, chance, claim_row, verdict
from marginalia.reporting.verification.claims import summary


def test_a_claim_counts_its_cells():
    row = claim_row("c1", place="Section 5", claim="a", test="b", cells=np.array([[True, False], [True, True]]),
                    sets=["Adult", "COMPAS", "Adult"])  # fmt: skip
    assert tuple(row) == COLUMNS
    assert (row["held"], row["tested"], row["verdict"], row["sets"]) == (3, 4, "held in most cells", "Adult;COMPAS")
    assert claim_row("c2", place="", claim="", test="", cells=[], sets=[])["verdict"] == "not tested" == verdict(0, 0)


def test_a_missing_cell_neither_holds_nor_fails():
    row = claim_row("c", place="", claim="", test="", cells=[True, float("nan"), None, False], sets=["a"])
    assert (row["held"], row["tested"], row["verdict"]) == (1, 2, "held in some cells")


def test_cells_that_chance_would_let_pass_are_no_sign():
    assert chance(1, 12, 0.025) == pytest.approx(1 - 0.975**12)
    assert [verdict(n, 20, CLEAR) for n in (0, 1, 2, 3, 20)] == [
        "not held", BY_CHANCE, BY_CHANCE, "held in some cells", "held",
    ]  # fmt: skip
    assert verdict(1, 20) == "held in some cells"  # nothing in it is left to chance


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
