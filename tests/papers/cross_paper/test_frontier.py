"""Utility against seconds."""

import numpy as np
import pandas as pd
import pytest

from marginalia.errors import InputError
from marginalia.papers.cross_paper.cross_paper_frontier import _OTHERS, _named, caption, figure, frontier, unbeaten
from marginalia.sweep.metrics import HEADLINES


def row(table, metric, name, epsilon=1.0):
    arm = table[(table["metric"] == metric) & (table["name"] == name) & (table["epsilon"] == epsilon)]
    assert len(arm) == 1
    return arm.iloc[0]


@pytest.fixture(scope="module")
def whole():
    from made_records import make_records

    return make_records(holes=False)


@pytest.fixture(scope="module")
def table(whole):
    return frontier(whole)


def mean(records, metric, method, dataset, epsilon=1.0, variant=""):
    rows = records[(records["metric"] == metric) & (records["method"] == method) & (records["dataset"] == dataset)]
    return rows[(rows["epsilon"] == epsilon) & (rows["variant"] == variant)]


@pytest.mark.slow
def test_utility_is_the_share_between_trivial_and_non_private(whole, table):
    shares = []
    for dataset in ("adult", "acs_income_lin@dd_ssp"):
        ours = mean(whole, "mse", "ssp", dataset)["value"].mean()
        low = mean(whole, "mse", "trivial", dataset, np.inf)["value"].mean()
        high = mean(whole, "mse", "ols", dataset, np.inf)["value"].mean()
        shares.append((low - ours) / (low - high))
    ssp = row(table, "mse", "SSP")
    assert ssp["utility"] == pytest.approx(np.mean(shares), rel=1e-3)
    assert (ssp["lowest"], ssp["highest"]) == (
        pytest.approx(min(shares), rel=1e-3),
        pytest.approx(max(shares), rel=1e-3),
    )


@pytest.mark.slow
def test_synthetic_data_have_one_minus_their_error(whole, table):
    error = whole[(whole["metric"] == "marginal_error") & (whole["method"] == "aim") & (whole["epsilon"] == 1)]
    assert row(table, "marginal_error", "AIM")["utility"] == pytest.approx(1 - error["value"].mean(), rel=1e-3)


@pytest.mark.slow
def test_seconds_of_post_processing_include_its_source(whole, table):
    def seconds(method, task, variant=""):
        rows = mean(whole, "marginal_error" if not task else "auc", method, "compas", variant=variant)
        return rows["seconds"].mean()

    alone = whole[whole["dataset"] == "compas"]
    arm = row(frontier(alone), "auc", "DD-SSP on MST")["seconds"]
    assert arm == pytest.approx(seconds("dd_ssp", "logistic", "mst") + seconds("mst", ""), rel=0.02)
    assert row(frontier(alone), "marginal_error", "MST")["seconds"] == pytest.approx(seconds("mst", ""), rel=0.02)


@pytest.mark.slow
def test_of_two_fits_of_a_source_the_tight_one_counts(whole):
    """A published fit beside it, which took an hour, is not what DD-SSP stands on."""
    fits = whole[(whole["method"] == "mst") & (whole["task"] == "")]
    both = pd.concat([whole, fits.assign(calibration="published", seconds=3600.0)], ignore_index=True)
    assert row(frontier(both), "auc", "DD-SSP on MST")["seconds"] < 3600


def test_the_frontier_by_hand():
    points = pd.DataFrame(
        {"seconds": [1, 2, 3, 4, 4], "utility": [0.5, 0.4, 0.8, 0.8, 0.9], "datasets": [2, 2, 2, 2, 1], "n_datasets": 2}
    )
    assert list(unbeaten(points)) == [True, False, True, False, False]


@pytest.mark.slow
def test_an_arm_without_a_value_somewhere_is_not_on_the_frontier(whole):
    best = whole[(whole["method"] == "dp_sgd") & (whole["metric"] == "mse") & (whole["dataset"] == "adult")]
    arm = row(frontier(whole.drop(best.index)), "mse", "DP-SGD")
    assert (arm["datasets"], arm["n_datasets"], arm["on_frontier"]) == (1, 2, "no")


def test_without_references_it_says_what_to_add(whole):
    with pytest.raises(InputError, match="add trivial and ols or logistic"):
        frontier(whole[whole["method"] != "trivial"])


@pytest.mark.slow
def test_the_figure_shows_two_budgets_of_each_metric(table):
    axes = figure(table).axes
    assert len(axes) == 2 * 3
    titles = [ax.get_title(loc="left") for ax in axes]
    assert (titles[0], titles[-1]) == ("default, ε = 0.1", "default, ε = 1")
    assert axes[0].get_ylabel() == "share kept of the gain in test MSE"
    assert axes[2].get_ylabel() == "1 − marginal error"
    assert "CPU seconds" in caption(table)


@pytest.mark.slow
def test_the_figure_names_few_methods_and_draws_every_point(table):
    drawn = figure(table)
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert len(names) <= 8
    assert names[-2:] == ["other methods", "best for its time"]
    for axes, (metric, epsilon) in zip(drawn.axes, [(m, e) for e in (0.1, 1) for m in HEADLINES], strict=True):
        here = table[(table["metric"] == metric) & (table["epsilon"] == epsilon)]
        points = [line for line in axes.lines if line.get_marker() not in ("None", None, "")]
        assert sorted(line.get_xdata()[0] for line in points) == sorted(here["seconds"])
        grey = {line.get_xdata()[0] for line in points if line.get_color() == _OTHERS["color"]}
        assert grey.isdisjoint(here.loc[here["name"].isin(names), "seconds"])


def test_the_methods_that_are_best_for_their_time_most_often_are_named():
    table = pd.DataFrame(
        [("one", e, m, method, "yes") for e in (0.1, 1.0) for m in ("auc", "mse") for method in ("ssp", "aim")]
        + [("one", 0.1, "auc", "mst", "yes"), ("one", 0.1, "auc", "mst", "yes"), ("one", 8.0, "auc", "swift", "yes")]
        + [("one", 1.0, "auc", "dp_sgd", "no")],
        columns=["experiment", "epsilon", "metric", "method", "on_frontier"],
    )
    assert _named(table, [("one", 0.1), ("one", 1.0)]) == ["ssp", "aim", "mst"]
