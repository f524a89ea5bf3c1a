"""Axes of errors where a line or a point is far from all others."""

import numpy as np
import pytest

from marginalia.reporting import figures, tables
from marginalia.reporting.arms import panels_of


@pytest.fixture(scope="module")
def adult(records):
    mse = tables.aggregate(records, "mse")
    return mse[mse.dataset == "adult"]


def decades(axes):
    low, high = axes.get_ylim()
    return np.log10(high / low)


@pytest.mark.parametrize(("error", "shown"), [(5e-28, "5e-28"), (0.0, "0"), (1e-7, "1e-07")])
def test_a_reference_far_below_is_a_note_and_no_axis_of_thirty_decades(adult, error, shown):
    frame = adult.assign(mean=adult["mean"].mask(adult.method == "ols", error))
    (axes,) = figures.metric_vs_epsilon(frame, "mse").axes
    assert axes.get_yscale() == "log"
    assert decades(axes) < 2
    assert [text.get_text() for text in axes.texts] == [f"↓ OLS: {shown}"]
    assert "named at its edge" in figures.caption(frame, "mse")


def test_a_reference_far_above_is_a_note_too(adult):
    frame = adult.assign(mean=adult["mean"].mask(adult.method == "trivial", 3e9))
    (axes,) = figures.metric_vs_epsilon(frame, "mse").axes
    assert [text.get_text() for text in axes.texts] == ["↑ Trivial: 3e+09"]
    assert axes.get_ylim()[1] < 1


def test_a_reference_within_three_decades_is_a_line(adult):
    least = adult.loc[adult.calibration != "none", "mean"].min()
    frame = adult.assign(mean=adult["mean"].mask(adult.method == "ols", least / 900))
    (axes,) = figures.metric_vs_epsilon(frame, "mse").axes
    assert list(axes.texts) == []
    assert axes.get_ylim()[0] < least / 900
    assert "named at its edge" not in figures.caption(frame, "mse")


def test_private_errors_far_from_all_others_stand_on_the_edges(adult):
    frame = adult[adult.method != "trivial"].copy()
    frame.loc[(frame.method == "ssp") & (frame.epsilon == 2), "mean"] = 3e-20
    frame.loc[(frame.method == "dp_sgd") & (frame.epsilon == 0.05), "mean"] = 1e15
    (axes,) = figures.metric_vs_epsilon(frame, "mse").axes
    assert decades(axes) < 4
    edges = [(list(x.get_xdata()), list(x.get_ydata())) for x in axes.lines if len(x.get_xdata()) == 1]
    assert sorted(edges) == [([0.05], [1.0]), ([2.0], [0.0])]
    caption = figures.caption(frame, "mse")
    assert "beyond a million times the median error stand on the upper edge" in caption
    assert "stand on the lower edge" in caption


def test_a_panel_of_failed_runs_or_of_references_alone_is_drawn(adult):
    failed = adult.copy()
    failed.loc[failed.calibration != "none", ["mean", "stderr", "k"]] = [np.nan, np.nan, 0]
    references = adult[adult.calibration == "none"]
    for frame in (failed, references):
        assert [len(panel.rows) for panel in panels_of(frame)] == [len(frame)]
        (axes,) = figures.metric_vs_epsilon(frame, "mse").axes
        assert all("↓" not in text.get_text() for text in axes.texts)
