"""Ranks, their tests, and what is left out."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from marginalia.data.catalogue import catalogue
from marginalia.papers.cross_paper.ranking import (
    APART,
    RANKED,
    caption,
    figure,
    pairs,
    ranking,
    shown,
)

DATASETS = [f"d{i}" for i in range(6)]


@pytest.fixture(scope="module")
def ranked(module_records):
    return ranking(module_records)


@pytest.fixture(scope="module")
def module_records():
    """Three learners by AUC on six sets and two budgets: a beats b in all blocks but two, both beat c."""
    rng = np.random.default_rng(3)
    lines = []
    for place, dataset in enumerate(DATASETS):
        for epsilon in (0.1, 1.0):
            level = {"ssp": 0.80, "dp_sgd": 0.78 if place else 0.82, "pate": 0.70}
            for trial in range(5):
                split = rng.normal(0, 0.02)  # common to all methods
                for method, mean in level.items():
                    lines.append(
                        {
                            "experiment": "full",
                            "protocol": "strict",
                            "dataset": dataset,
                            "task": "logistic",
                            "target": "y",
                            "method": method,
                            "variant": "",
                            "calibration": "tight",
                            "relation": "replace_one",
                            "epsilon": epsilon,
                            "delta": 1e-5,
                            "epsilon_spent": epsilon,
                            "trial": trial,
                            "split": "random",
                            "metric": "auc",
                            "value": mean + split + rng.normal(0, 0.001),
                            "seconds": 1.0,
                            "peak_mb": 1.0,
                            "seed": 0,
                            "status": "ok",
                            "message": "",
                            "code_version": "1",
                        }
                    )
    return pd.DataFrame(lines)


@pytest.mark.slow
def test_mean_ranks_by_hand(ranked):
    by = ranked.set_index("method")["mean_rank"]
    assert by["ssp"] == pytest.approx((5 * 1 + 1 * 2) / 6, abs=1e-3)
    assert by["dp_sgd"] == pytest.approx((5 * 2 + 1 * 1) / 6, abs=1e-3)
    assert by["pate"] == 3
    assert list(ranked["method"]) == ["ssp", "dp_sgd", "pate"]
    assert (ranked["n_datasets"] == 6).all()
    assert (ranked["blocks"] == 12).all()


@pytest.mark.slow
def test_friedman_and_like_best(ranked):
    ranks = np.array([[1, 2, 3]] * 5 + [[2, 1, 3]])
    assert ranked["friedman_p"].iloc[0] == pytest.approx(stats.friedmanchisquare(*ranks.T).pvalue, rel=1e-3)
    assert list(ranked["like_best"]) == ["yes", "yes", "no"]


@pytest.mark.slow
def test_a_block_that_lacks_a_ranked_arm_does_not_count(module_records):
    failed = (
        (module_records["method"] == "pate") & (module_records["dataset"] == "d1") & (module_records["epsilon"] == 1)
    )
    records = module_records.assign(value=module_records["value"].mask(failed & (module_records["trial"] == 0)))
    table = ranking(records)
    assert (table["blocks"] == 11).all()
    assert (table["n_blocks"] == 12).all()
    assert (table["n_datasets"] == 6).all()


@pytest.mark.slow
def test_an_arm_that_lacks_many_blocks_is_listed_without_a_rank(module_records):
    missing = (module_records["method"] == "pate") & module_records["dataset"].isin(DATASETS[:4])
    table = ranking(module_records[~missing]).set_index("method")
    assert np.isnan(table.loc["pate", "mean_rank"])
    assert table.loc["pate", "blocks"] == 4
    assert table.loc["ssp", "blocks"] == 12


@pytest.mark.slow
def test_an_arm_without_a_certificate_takes_no_part(module_records):
    message = module_records["message"].where(module_records["method"] != "ssp", "spends 99 of 1")
    assert set(ranking(module_records.assign(message=message))["method"]) == {"dp_sgd", "pate"}


@pytest.mark.slow
def test_an_arm_that_protects_some_rows_is_listed_without_a_rank(module_records):
    message = module_records["message"].where(module_records["method"] != "pate", "protects the private rows only")
    table = ranking(module_records.assign(message=message))
    by = table.set_index("method")
    assert list(table["method"]) == ["ssp", "dp_sgd", "pate"]
    assert np.isnan(by.loc["pate", "mean_rank"])
    assert (by.loc["pate", "protects"], by.loc["ssp", "protects"]) == ("some rows", "every row")
    assert by.loc["pate", "blocks"] == 12
    assert by["mean_rank"].dropna().sum() == 3  # the others are ranked as if it were not there
    assert "Not ranked since it leaves some rows unprotected: PATE" in caption(table)
    assert "want of values" not in caption(table)


@pytest.mark.slow
def test_two_data_sets_make_no_test(module_records):
    table = ranking(module_records[module_records["dataset"].isin(DATASETS[1:3])])
    assert table["friedman_p"].isna().all()
    assert table["wilcoxon_p"].isna().all()
    assert (table["like_best"] == "").all()
    assert list(table["mean_rank"]) == [1, 2, 3]


@pytest.mark.slow
def test_pairs_are_compared_on_the_same_splits(module_records):
    table = pairs(module_records).set_index(["first", "second"])
    # Splits vary by .02, paired differences by .001: without pairing .02 of AUC would not show in five trials.
    assert tuple(table.loc[("SSP", "DP-SGD"), ["first_better", "second_better"]]) == (10, 2)
    assert tuple(table.loc[("SSP", "PATE"), ["first_better", "second_better"]]) == (12, 0)
    assert table.loc[("SSP", "PATE"), "p_holm"] < 0.05
    assert (table["p_holm"] >= table["p"]).all()


@pytest.mark.slow
def test_errors_of_different_scale_are_compared_by_their_ratio():
    """SSP is a fifth better on all sets but the one of the largest scale, where it is 2 % worse."""
    base = {
        "experiment": "full",
        "protocol": "strict",
        "task": "linear",
        "target": "y",
        "variant": "",
        "epsilon": 1.0,
        "calibration": "tight",
        "relation": "replace_one",
        "delta": 1e-5,
        "epsilon_spent": 1.0,
        "split": "random",
        "metric": "mse",
        "seconds": 1.0,
        "peak_mb": 1.0,
        "seed": 0,
        "status": "ok",
        "message": "",
        "code_version": "1",
    }
    ratios = {dataset: 0.8 + 0.001 * place for place, dataset in enumerate(DATASETS)} | {DATASETS[-1]: 1.02}
    records = pd.DataFrame(
        [
            {**base, "dataset": dataset, "trial": trial, "method": method, "value": scale * ratio}
            for scale, (dataset, share) in zip(10.0 ** np.arange(6), ratios.items(), strict=True)
            for method, ratio in {"ssp": share, "dp_sgd": 1.0}.items()
            for trial in range(2)
        ]
    )
    table = pairs(records)
    log_ratios = np.log(list(ratios.values()))
    raw = 10.0 ** np.arange(6) * (np.array(list(ratios.values())) - 1)
    by_ratio, by_raw = (stats.wilcoxon(gaps, method="approx").pvalue for gaps in (log_ratios, raw))
    assert by_ratio < 0.05 < by_raw
    assert table["p"].item() == pytest.approx(by_ratio, rel=1e-3)


@pytest.mark.slow
def test_purely_epsilon_dp_arms_are_marked(module_records):
    records = module_records.assign(method=module_records["method"].replace("pate", "reduced_space"))
    table = ranking(records).set_index("method")
    assert table.loc["reduced_space", "pure_epsilon"] == "yes"
    assert table.loc["ssp", "pure_epsilon"] == "no"
    assert "purely ε-DP" in caption(table.reset_index())


@pytest.mark.slow
def test_the_figure_has_a_panel_for_each_metric_and_experiment(records):
    table = ranking(records)
    axes = figure(table).axes
    assert len(axes) == len(table[["experiment", "metric"]].drop_duplicates())
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    here = table[(table["metric"] == "mse") & (table["tables"] == "ranked")]
    assert labels == list(here.sort_values("mean_rank")["name"])
    assert "Friedman" in caption(table)


@pytest.mark.slow
def test_tables_that_a_default_was_chosen_on_are_ranked_apart(module_records):
    """On Adult and COMPAS the third is best: that moves no rank of the others, no test and no pair."""
    names = {"d0": "adult", "d1": "compas"}
    records = module_records.assign(dataset=module_records["dataset"].replace(names))
    best = (records["method"] == "pate") & records["dataset"].isin(names.values())
    records = records.assign(value=records["value"] + 0.5 * best)
    table = ranking(records)
    without = ranking(records[~records["dataset"].isin(names.values())])
    pd.testing.assert_frame_equal(table[table["tables"] == RANKED].reset_index(drop=True), without)
    apart = table[table["tables"] == APART].set_index("method")
    assert apart.loc["pate", "mean_rank"] == 1
    assert (apart["n_datasets"] == 2).all()
    both = pairs(records)
    assert dict(both.groupby("tables")["blocks"].first()) == {RANKED: 8, APART: 4}
    assert len(figure(table).axes) == 1
    assert set(shown(table)["tables"]) == {RANKED}
    assert "ranked apart (whole tables, test AUC: 2)" in caption(table)
    assert "†" not in caption(table)


@pytest.mark.slow
def test_a_panel_of_developed_tables_alone_says_so(module_records):
    names = {"d0": "adult", "d1": "compas", "d2": "acs_employment@dd_ssp"}
    records = module_records[module_records["dataset"].isin(names)]
    table = ranking(records.assign(dataset=records["dataset"].replace(names)))
    assert set(table["tables"]) == {APART}
    assert figure(table).axes[0].get_title(loc="right").endswith("(3 sets) †")
    assert "† holds only such data sets" in caption(table)


def test_regression_may_be_untouched_where_classification_is_not():
    assert catalogue.developed_on("compas", "logistic")
    assert not catalogue.developed_on("compas", "linear")
    assert not catalogue.developed_on("adult", "")  # marginal error: no task


@pytest.mark.slow
def test_bootstrap_intervals_against_all_ways_to_draw_the_tables(module_records):
    """Of six tables with ranks 1, but 2 on one of them: the mean over a draw is 1 + B/6, B binomial(6, 1/6)."""
    found = ranking(module_records).set_index("name")[["rank_low", "rank_high"]]
    drawn = stats.binom(6, 1 / 6)
    low, high = drawn.ppf(0.025) / 6, drawn.ppf(0.975) / 6
    assert tuple(found.loc["SSP"]) == pytest.approx((1 + low, 1 + high), rel=1e-3)
    assert tuple(found.loc["DP-SGD"]) == pytest.approx((2 - high, 2 - low), rel=1e-3)
    assert tuple(found.loc["PATE"]) == (3, 3)
    pd.testing.assert_frame_equal(found, ranking(module_records).set_index("name")[["rank_low", "rank_high"]])


@pytest.mark.slow
def test_no_interval_over_two_tables(module_records):
    table = ranking(module_records[module_records["dataset"].isin(DATASETS[:2])])
    assert table[["rank_low", "rank_high"]].isna().all(axis=None)
    assert len(figure(table).axes) == 1


@pytest.mark.slow
def test_long_names_leave_room_for_their_panel(records):
    table = ranking(records)
    table = table.assign(name=table["name"] + ", with the settings of another paper's authors")
    drawn = figure(table)
    drawn.draw_without_rendering()
    for axes in drawn.axes:
        assert axes.get_position().width > 0.08
        labels = [label.get_window_extent() for label in axes.get_yticklabels()]
        assert min(label.x0 for label in labels) >= -2  # pixels
