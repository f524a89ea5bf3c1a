"""The first sentences of the page."""

import re

import numpy as np
import pandas as pd
import pytest

from marginalia.reporting import tables
from marginalia.reporting.html.opening import publishing, sentences, worth
from marginalia.sweep.metrics import METRICS

VERDICTS = pd.DataFrame(
    {
        "sentence": ["a", "b", "b", "c", "d", "e", "f"],  # b in two parts
        "whose": ["paper", "paper", "paper", "paper", "paper", "repeat", "ours"],
        "held": [3, 2, 2, 0, 0, 0, 0],
        "tested": [3, 2, 2, 4, 0, 4, 4],
        "level": 0.025,
    }
)


def sentences_of(records, titles=(), **more):
    frames = {metric: tables.aggregate(records, metric) for metric in METRICS if (records["metric"] == metric).any()}
    frames["certificates"] = tables.certificates(records)
    frames |= more
    return [*sentences(frames, titles, [{"name": "adult", "status": "used"}]), worth(frames)]


@pytest.mark.slow
def test_a_sweep_says_what_ran_what_came_out_and_what_it_is_worth(records):
    what, came_out, is_worth = sentences_of(records, mine_verdicts=VERDICTS)
    assert re.fullmatch(r"\d+ private methods on \d data sets \(.+\), ε = 0.05–2\.", what)
    assert re.match(
        r"Best certified method most often: by test MSE, .+ \(\d+ of \d+ settings\); by test AUC, ", came_out
    )
    assert is_worth.endswith("; of 4 claims of the papers 2 held, 1 not held and 1 not tested.")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["one method", "none private", "only failures", "one epsilon", "peers"])
def test_any_sweep_has_three_sentences_that_are_true_of_it(records, what):
    private = records["calibration"] != "none"
    if what == "one method":
        first, second, third = sentences_of(records[records["method"] == "ssp"])
        assert first.startswith("1 private method on ")
        assert re.search(r"by test MSE, SSP( published)? \(\d+ of", second)
    elif what == "none private":
        first, second, third = sentences_of(records[~private])
        assert "private method " not in first.split(" without")[0]
        assert second == "No private method ran, so there is no ranking."
        assert "certified" not in third
    elif what == "only failures":
        lost = records.assign(status="failed", value=np.nan, epsilon_spent=np.nan)
        first, second, third = sentences_of(lost)
        assert "no method is named best" in second
        assert third.startswith("0 of ")
        assert "have no successful run" in third
        assert "values are missing" in third
    elif what == "one epsilon":
        first, second, third = sentences_of(records[(records["epsilon"] == 2) | ~private])
        assert first.endswith(", ε = 2.")
    else:
        rows = records[records["method"].isin(["ssp", "trivial"])]
        claim = rows[rows["method"] == "ssp"].assign(
            method="peer/other/thing", calibration="claimed", epsilon_spent=np.inf, message="declared by its author: x"
        )
        claim = claim.drop_duplicates([*tables.KEYS, "trial"])
        first, second, third = sentences_of(pd.concat([rows, claim]))
        assert first.startswith("2 private methods (1 of other libraries) on ")
        assert "other thing" not in second
        assert "have a claimed ε only" in third
    assert all(sentence.endswith(".") and ".." not in sentence for sentence in (first, second, third))


def test_a_page_of_studies_counts_the_claims():
    first, second = sentences({"mine_verdicts": VERDICTS}, ["One", "Two"], [])
    assert first == "2 experiments, each with its figure and table."
    assert second == "Of 4 claims of the papers 2 held, 1 not held and 1 not tested."
    more = VERDICTS.iloc[:1].assign(held=1, tested=20)
    _, second = sentences({"mine_verdicts": VERDICTS, "more_verdicts": more}, ["One"], [])
    assert second == "Of 5 claims of the papers 2 held, 1 no more than chance, 1 not held and 1 not tested."


def test_a_table_of_claims_as_1_0_wrote_it_is_counted_by_line():
    old = pd.DataFrame({"id": ["a", "b", "c"], "held": [2, 1, 0], "tested": 2, "verdict": ["held", "held", "not held"]})
    _, second = sentences({"old_verdicts": old}, ["One"], [])
    assert second == "Of 3 claims of the papers 2 held and 1 not held."


def test_a_page_of_nothing_says_so():
    assert sentences({}, [], []) == ["This run has no results."]
    assert worth({}) == ""


@pytest.mark.parametrize(
    ("dataset", "page", "model", "choice"),
    [("adult", "Yes", "Of public rows only", "Yes"), ("clinic", "No", "No", "No")],
)
def test_may_i_publish_is_answered_for_each_kind_of_result(records, dataset, page, model, choice):
    proofs = tables.certificates(records)
    info = [{"name": dataset, "status": "used"}, {"name": "elsewhere", "status": "missing"}]
    answers = {what: answer for what, answer, _ in publishing(info, [tables.aggregate(records, "mse")], proofs)}
    assert answers["This page, its tables and figures"] == page
    assert answers["A model without privacy"] == model
    assert answers["The choice of a method by this page"] == choice
    assert answers["A certified model or synthetic table"] == "Yes, with its certificate"
    for verdict, what in (
        ("no", "spends more"),
        ("declared", "stated by"),
        ("refuted", "refuted"),
        ("draft", "read off"),
        ("part", "some rows"),
    ):
        only = publishing(info, [], proofs.assign(certified=verdict))
        assert [answer for kind, answer, _ in only if what in kind]
        assert not [answer for kind, answer, _ in only if kind.startswith("A certified") or answer.startswith("Yes, ")]


def test_where_nothing_was_used_nothing_can_be_published():
    assert publishing([{"name": "adult", "status": "missing"}], [], pd.DataFrame()) == []
