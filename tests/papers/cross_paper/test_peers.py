"""Peers beside ours: releases, what is better, what failed, and the figure."""

import numpy as np
import pandas as pd
import pytest

from marginalia.papers.cross_paper.peers import better, caption, counts, failed, figure, pairs, releases


def as_peer(rows, method, **changes):
    variant = rows["variant"].where(rows["variant"].isin(["ols", "logistic"]), "")
    return rows.assign(method=method, variant=variant, calibration="claimed", epsilon_spent=np.inf, **changes)


@pytest.fixture(scope="module")
def records():
    """Made-up rows: dpmm's MST has ours' values and 100 times its seconds, smartnoise's hangs, a learner is better."""
    from made_records import make_records

    rows = make_records(trials=3, holes=False)
    errors = rows[rows["metric"] == "marginal_error"]
    rows = pd.concat([rows, errors.assign(metric="k_marginal", value=1000 * (1 - errors["value"]))])
    mst = rows[rows["method"] == "mst"]
    slow = as_peer(mst, "peer/dpmm/mst", seconds=100 * mst["seconds"])
    slow.loc[slow["metric"] == "k_marginal", "value"] += 5.0  # a little better than our MST
    hangs = as_peer(mst, "peer/smartnoise/mst", value=np.nan, status="timeout", message="took longer than 9 s")
    hangs.loc[hangs["task"] != "", "status"] = "failed"
    hangs.loc[hangs["task"] != "", "message"] = "SourceFailedError: source peer/smartnoise/mst: timeout"
    learner = rows[(rows["method"] == "objective_perturbation") & (rows["calibration"] == "tight")]
    good = as_peer(learner, "peer/diffprivlib/logistic", value=learner["value"].clip(upper=0.99) + 0.01)
    return pd.concat([rows, slow, hangs, good], ignore_index=True)


@pytest.mark.slow
def test_a_release_has_one_row_with_all_its_measures(records):
    table = releases(records)
    assert not table.duplicated(["experiment", "relation", "dataset", "epsilon", "name"]).any()
    here = table[(table["dataset"] == "compas") & (table["epsilon"] == 1)].set_index("name")
    peer, ours = here.loc["dpmm MST"], here.loc["MST"]
    assert (peer["peer"], ours["peer"], peer["k"], peer["n_trials"]) == ("yes", "no", 3, 3)
    assert peer["k_marginal"] == pytest.approx(ours["k_marginal"] + 5, abs=0.2)
    assert peer["auc"] == ours["auc"]  # of a learner on its rows
    assert peer["seconds"] == pytest.approx(100 * ours["seconds"], rel=0.01)
    assert "dpmm MST + logistic" not in here.index
    assert "AIM-Synth" not in here.index
    assert here.loc["AIM", "auc"] > 0.5
    lost = here.loc["smartnoise MST"]
    assert (lost["k"], lost["status"]) == (0, "timeout")
    assert np.isnan(lost["k_marginal"])


@pytest.mark.slow
def test_peers_are_compared_on_the_same_splits(records):
    table = pairs(records)
    row = table[
        (table["dataset"] == "adult")
        & (table["epsilon"] == 1)
        & (table["measure"] == "k_marginal")
        & (table["against"] == "its like")
    ]
    assert list(row["peer"]) == ["dpmm MST"]
    assert list(row["ours"]) == ["MST"]
    assert row["difference"].iloc[0] == pytest.approx(5)
    assert row["stderr"].iloc[0] == pytest.approx(0, abs=1e-9)
    assert row["verdict"].iloc[0] == "better"
    seconds = table[(table["measure"] == "seconds") & (table["peer"] == "dpmm MST")]
    assert set(seconds["verdict"]) == {"worse"}
    assert set(table["pairs"]) == {3}
    found = counts(records)
    cells = found[(found["peer"] == "dpmm MST") & (found["measure"] == "k_marginal") & (found["against"] == "its like")]
    assert cells["better"].iloc[0] == cells["cells"].iloc[0] == 4 * 5


@pytest.mark.slow
def test_what_a_peer_does_better_is_a_sentence(records):
    told = list(better(records)["better"])
    (line,) = [
        one for one in told if one.startswith("Adult, k-marginal score: dpmm MST is better than MST (ε = 0.05: ")
    ]
    assert line.count("ε = ") == 5
    assert any(one.startswith("COMPAS, AUC: diffprivlib logistic is better than ObjPert") for one in told)
    none = records[~records["method"].str.startswith("peer/dpmm") & ~records["method"].str.startswith("peer/diff")]
    assert list(better(none)["better"]) == ["Nothing beyond two standard errors, in 0 comparisons."]


def test_failures_are_told_once_with_their_message(records):
    table = failed(records)
    assert set(table["name"]) == {"smartnoise MST"}
    row = table[table["dataset"] == "compas"].iloc[0]
    assert (row["status"], row["message"], row["runs"]) == ("timeout", "took longer than 9 s", 5 * 3)
    assert row["epsilons"] == "0.05 0.1 0.5 1 2"


@pytest.mark.slow
def test_the_figure_has_a_row_of_panels_for_each_data_set_and_open_marks_for_peers(records):
    table = releases(records)
    drawn = figure(table)
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert len(titles) == 4 * 2
    assert titles.count("COMPAS") == titles.count("Adult") == 2
    assert [axes.texts[0].get_text() for axes in drawn.axes[:2]] == ["Rows", "Prediction"]
    marks = {
        text.get_text(): line
        for text, line in zip(drawn.legends[0].texts, drawn.legends[0].legend_handles, strict=True)
    }
    assert marks["dpmm MST"].get_fillstyle() == "none"
    assert marks["MST"].get_fillstyle() == "full"
    assert marks["dpmm MST"].get_marker() == marks["MST"].get_marker()
    assert "smartnoise MST" not in marks
    assert "COMPAS: smartnoise MST" in caption(table).partition("Not drawn where no run ended: ")[2]
    assert all(axes.get_xscale() == "log" for axes in drawn.axes)
