import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from marginalia.errors import InputError
from marginalia.methods.record import NON_PRIVATE
from marginalia.reporting import figures, tables
from marginalia.reporting.arms import LEADING, arms_of, leading, panels_of, plain_titles
from marginalia.reporting.html.page_tables import certificate_table, results_table

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def mse(records):
    return tables.aggregate(records, "mse")


def lines(axes, colour, marker):
    return [x for x in axes.lines if to_hex(x.get_color()) == colour.lower() and x.get_marker() == marker]


def notes(axes):
    return [text.get_text() for text in axes.texts]


@pytest.mark.slow
def test_a_panel_for_each_data_set_and_target(mse):
    figure = figures.metric_vs_epsilon(mse, "mse")
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["(a) ACS Income (regression)", "(b) Adult"]
    assert figure.get_figwidth() == 7.0
    assert figures.metric_vs_epsilon(mse, "mse", width="single").get_figwidth() == 3.4


@pytest.mark.slow
def test_the_first_panel_of_a_row_names_the_metric(mse):
    assert [axes.get_ylabel() for axes in figures.metric_vs_epsilon(mse, "mse").axes] == ["test MSE", ""]


@pytest.mark.slow
def test_the_epsilon_axis_is_logarithmic_with_the_epsilons_as_ticks(mse):
    for axes in figures.metric_vs_epsilon(mse, "mse").axes:
        assert axes.get_xscale() == "log"
        assert list(axes.get_xticks()) == [0.05, 0.1, 0.5, 1, 2]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["0.05", "0.1", "0.5", "1", "2"]


@pytest.mark.slow
def test_the_error_axis_is_logarithmic_only_where_it_spans_decades(mse):
    income, adult = figures.metric_vs_epsilon(mse, "mse").axes
    assert (income.get_yscale(), adult.get_yscale()) == ("linear", "log")


@pytest.mark.slow
def test_eight_arms_lead_and_the_others_are_thin_without_bands(mse):
    followed = leading(mse)
    assert len(followed) == LEADING < len(arms_of(mse.drop_duplicates([*tables.ARM])))
    figure = figures.metric_vs_epsilon(mse, "mse")
    for axes, panel in zip(figure.axes, panels_of(mse), strict=True):
        private = [arm for arm in arms_of(panel.rows, context=mse) if arm.is_private and not arm.is_tuned_on_test]
        curves = [line for line in axes.lines if len(line.get_xdata()) == 5]
        for arm in private:
            bold = arm.key in followed
            (curve,) = (
                x
                for x in curves
                if (to_hex(x.get_color()), x.get_marker(), x.get_fillstyle())
                == (arm.look.colour.lower(), arm.look.marker, arm.look.fill)
                and np.array_equal(x.get_ydata(), arm.rows["mean"], equal_nan=True)
            )
            assert (curve.get_linewidth() >= 1) == bold
        assert len(axes.collections) == sum(arm.key in followed for arm in private)
    in_legend = {x.get_label(): x.get_linewidth() for x in figure.legends[0].legend_handles}
    arms = [arm for panel in panels_of(mse) for arm in arms_of(panel.rows, context=mse) if arm.is_private]
    assert all((in_legend[arm.name] >= 1) == (arm.key in followed) for arm in arms)
    few = mse[mse["method"].isin(["ssp", "dp_sgd", "ols", "trivial"])]
    assert min(x.get_linewidth() for x in figures.metric_vs_epsilon(few, "mse").axes[1].lines) >= 0.9
    assert "without bands" in figures.caption(mse, "mse")
    assert "without bands" not in figures.caption(few, "mse")


@pytest.mark.slow
def test_no_arm_leads_that_is_first_less_often_than_one_that_does_not(mse):
    private = mse[mse["calibration"] != NON_PRIVATE]
    first = private.loc[private.groupby(["dataset", "target", "epsilon"])["mean"].idxmin()]
    often = first.value_counts([*tables.ARM]).to_dict()
    keys = {tuple(map(str, key)) for key in private[[*tables.ARM]].drop_duplicates().itertuples(index=False)}
    leads, rest = ([often.get(key, 0) for key in keys if (key in leading(mse)) == bold] for bold in (True, False))
    assert min(leads) >= max(rest)
    assert max(leads) > 0


@pytest.mark.slow
def test_an_error_far_beyond_the_trivial_stands_on_the_upper_edge(mse):
    far = mse.copy()
    place = far.index[(far.dataset == "adult") & (far.method == "ssp") & (far.epsilon == 0.5)]
    trivial = far.loc[(far.dataset == "adult") & (far.method == "trivial"), "mean"].iloc[0]
    far.loc[place, "mean"] = 50 * trivial
    income, adult = figures.metric_vs_epsilon(far, "mse").axes
    within = far.loc[(far.dataset == "adult") & (far["mean"] <= 2 * trivial), "mean"].max()
    assert within < adult.get_ylim()[1] < 2 * within
    marks = [line for line in adult.lines if list(line.get_ydata()) == [1.0] and list(line.get_xdata()) == [0.5]]
    assert [to_hex(line.get_color()) for line in marks] == ["#d55e00"]
    (ssp,) = (line for line in lines(adult, "#D55E00", "s") if len(line.get_xdata()) == 5)
    assert np.isnan(ssp.get_ydata()).tolist() == [False, False, True, False, False]
    band = next(c for c in adult.collections if to_hex(c.get_facecolor()[0]) == "#d55e00")
    assert max(path.vertices[:, 1].max() for path in band.get_paths()) < 2 * trivial
    assert income.get_ylim() == figures.metric_vs_epsilon(mse, "mse").axes[0].get_ylim()
    assert "upper edge" in figures.caption(far, "mse")
    assert "upper edge" not in figures.caption(mse, "mse")


@pytest.mark.slow
def test_axes_of_auc_show_the_curves_and_not_the_trivial_predictor_far_below(records):
    auc = tables.aggregate(records, "auc")
    for axes, (_, rows) in zip(figures.metric_vs_epsilon(auc, "auc").axes, auc.groupby("dataset"), strict=True):
        curves = rows[rows["method"] != "trivial"]
        means, band = curves["mean"], curves["stderr"].where(curves["calibration"] != NON_PRIVATE).fillna(0.0)
        low, high = axes.get_ylim()
        assert low < means.min() < means.max() < high
        assert (means + band).max() - (means - band).min() > 0.8 * (high - low)
    assert "The trivial predictor (0.5) lies below the axes." in figures.caption(auc, "auc")
    near = auc.assign(mean=auc["mean"].mask(auc["method"] == "trivial", auc["mean"].min()))
    near.loc[(near["method"] == "ssp") & (near["epsilon"] == 0.05), "mean"] = 0.5
    assert all(axes.get_ylim()[0] < 0.5 for axes in figures.metric_vs_epsilon(near, "auc").axes)
    assert "below the axes" not in figures.caption(near, "auc")


def test_panels_that_share_a_title_say_more(mse):
    twice = mse[mse["dataset"] == "adult"]
    panels = panels_of(pd.concat([twice, twice.assign(target="age")]))
    assert plain_titles(panels) == ["Adult · age", "Adult · education-num"]
    panels = panels_of(pd.concat([twice, twice.assign(dataset="adult@dd_ssp")]))
    assert plain_titles(panels) == ["adult · education-num", "adult@dd_ssp · education-num"]


def test_lines_show_the_means_and_the_calibration(mse):
    adult = figures.metric_vs_epsilon(mse, "mse").axes[1]
    arms = lines(adult, "#E69F00", "^")
    assert len(arms) == 3
    assert sorted(line.get_fillstyle() for line in arms) == ["full", "none", "none"]
    tight = next(line for line in arms if line.get_fillstyle() == "full")
    means = mse[(mse.dataset == "adult") & (mse.method == "ada_ssp") & (mse.calibration == "tight")]["mean"]
    assert list(tight.get_ydata()) == list(means)


def test_bands_are_one_standard_error(mse):
    income = figures.metric_vs_epsilon(mse, "mse").axes[0]
    rows = mse[mse.dataset.str.startswith("acs") & (mse.method == "ssp")]
    corners = {tuple(np.round(v, 12)) for path in income.collections for v in path.get_paths()[0].vertices}
    for row in rows.itertuples():
        assert tuple(np.round((row.epsilon, row.mean + row.stderr), 12)) in corners
        assert tuple(np.round((row.epsilon, row.mean - row.stderr), 12)) in corners


def test_references_are_horizontal_lines(mse):
    adult = figures.metric_vs_epsilon(mse, "mse").axes[1]
    heights = {tuple(line.get_ydata()) for line in adult.lines if len(set(line.get_ydata())) == 1}
    for method in ("ols", "trivial"):
        mean = mse[(mse.dataset == "adult") & (mse.method == method)]["mean"].item()
        assert (mean, mean) in heights


@pytest.mark.slow
def test_missing_runs_are_marked(records, mse):
    income, adult = figures.metric_vs_epsilon(mse, "mse").axes
    assert notes(income) == ["0/5"]
    assert notes(adult) == []
    employment = figures.metric_vs_epsilon(tables.aggregate(records, "auc"), "auc").axes[0]
    assert notes(employment) == ["3/5"]


@pytest.mark.slow
def test_notes_of_an_arm_without_any_success_do_not_meet(records):
    """Levels .5 and 1, 1 and 2 are close on the axis; the last one has no room at its right."""
    auc = tables.aggregate(records, "auc").query("dataset == 'compas'")
    auc.loc[auc["method"] == "dp_sgd", ["k", "mean", "stderr"]] = [0, np.nan, np.nan]
    figure = figures.metric_vs_epsilon(pd.concat([auc, auc.assign(target="other")]), "auc")
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [text.get_window_extent() for text in axes.texts]
        assert notes(axes) == ["0/5"] * 2  # at .05 and .1; at .5, 1 and 2
        assert not boxes[0].overlaps(boxes[1])
        assert all(box.x0 >= 0 and box.x1 <= figure.bbox.width for box in boxes)
        missing = [line for line in axes.lines if list(line.get_ydata()) == [0.0] * 5]
        assert [list(line.get_xdata()) for line in missing] == [[0.05, 0.1, 0.5, 1, 2]]  # each has its sign


@pytest.mark.slow
def test_an_error_beyond_that_of_nothing_kept_does_not_squash_its_panel(records):
    error = tables.aggregate(records, "marginal_error").query("dataset == 'adult'")
    usual = figures.metric_vs_epsilon(error, "marginal_error").axes[0].get_ylim()
    where = (error["method"] == "gaussian_marginals") & (error["epsilon"] == 0.05)
    assert where.sum() == 1
    far = error.assign(mean=error["mean"].mask(where, 27.0))
    axes = figures.metric_vs_epsilon(far, "marginal_error").axes[0]
    assert axes.get_ylim()[1] < 1.2 * usual[1]
    (edge,) = (line for line in axes.lines if list(line.get_ydata()) == [1.0])
    assert list(edge.get_xdata()) == [0.05]
    assert edge.get_transform() == axes.get_xaxis_transform()
    assert "beyond 1, where nothing is kept, stand on the upper edge" in figures.caption(far, "marginal_error")
    assert "beyond" not in figures.caption(error, "marginal_error")


def test_uncertified_points_are_crossed(mse):
    adult = figures.metric_vs_epsilon(mse, "mse").axes[1]
    crossed = [line for line in adult.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crossed) == 1
    assert list(crossed[0].get_xdata()) == [0.05, 0.1, 0.5, 1, 2]


@pytest.mark.slow
def test_the_legend_names_every_arm_once(mse):
    names = [t.get_text() for t in figures.metric_vs_epsilon(mse, "mse").legends[0].get_texts()]
    assert len(names) == len(set(names)) == 14
    assert names[:4] == [
        "SSP",
        "AdaSSP published, code’s constants",
        "AdaSSP published, paper’s constants",
        "AdaSSP tight",
    ]
    assert names[-3:] == ["OLS (no privacy)", "Trivial", "spends more than ε"]


@pytest.mark.slow
def test_mixed_relations_are_told_in_legend_and_caption(mse):
    mixed = mse.copy()
    mixed.loc[mixed.method == "chebyshev", "relation"] = "replace_one"
    names = [t.get_text() for t in figures.metric_vs_epsilon(mixed, "mse").legends[0].get_texts()]
    assert "Chebyshev + OLS published [replace-one]" in names
    assert "SSP" in names
    assert "marked in the legend" in figures.caption(mixed, "mse")
    assert "marked in the legend" not in figures.caption(mse, "mse")


@pytest.mark.slow
def test_text_stays_inside_the_figure(records):
    for metric in ("mse", "auc", "marginal_error"):
        for width in ("double", "single"):
            figure = figures.metric_vs_epsilon(tables.aggregate(records, metric), metric, width=width)
            figure.canvas.draw()
            page = figure.bbox
            legend = figure.legends[0].get_window_extent()
            assert legend.x0 >= page.x0
            assert legend.x1 <= page.x1
            boxes = [axes.get_tightbbox() for axes in figure.axes]
            assert min(b.x0 for b in boxes) >= page.x0
            assert max(b.y1 for b in boxes) <= page.y1
            assert legend.y1 <= min(b.y0 for b in boxes), "the legend must not cover an axis label"


@pytest.mark.slow
def test_figures_without_any_success_can_be_drawn(records, tmp_path):
    failed = records.assign(status="failed", value=np.nan, epsilon_spent=np.nan)
    frame = tables.aggregate(failed, "auc")
    figures.save_figure(figures.metric_vs_epsilon(frame, "auc"), tmp_path / "auc")
    figure = figures.certified_epsilon(tables.certificates(failed))
    assert set(notes(figure.axes[0])) == {"no run succeeded ", "certified  ", "  not certified"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "label"),
    [("declared by its author: x", "declared by its author"), ("protects some rows only", "protects some rows only")],
)
def test_points_without_a_certificate_for_every_row_are_crossed(records, message, label):
    rows = records.assign(message=records["message"].where(records["method"] != "dp_sgd", message))
    frame = tables.aggregate(rows, "auc")
    figure = figures.metric_vs_epsilon(frame, "auc")
    assert label in [text.get_text() for text in figure.legends[0].get_texts()]
    crosses = [
        line for axes in figure.axes for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())
    ]
    assert crosses
    assert "Crossed: methods" in figures.caption(frame, "auc")


@pytest.mark.slow
def test_an_unknown_cost_is_said_and_not_drawn(records):
    table = tables.certificates(records)
    own = table["method"] == "dp_sgd"
    table.loc[own, ["ratio", "epsilon_spent"]] = np.inf
    assert own.any()
    axes = figures.certified_epsilon(table).axes[0]
    assert "nothing certified " in notes(axes)
    assert np.isfinite(axes.get_xlim()).all()
    cells = [cell for row in certificate_table(table).groups[0][1] for cell in row]
    assert "unknown" in cells
    assert not any("inf" in text for text in cells)


def test_certified_epsilon_shows_every_arm_and_its_shares(records):
    table = tables.certificates(records)
    published = (table.method == "ada_ssp") & (table.variant == "code_constants")
    measured = {0.05: 0.546, 0.1: 0.587, 0.5: 0.68, 1: 0.73, 2: 0.73}
    table.loc[published, "ratio"] = table.loc[published, "epsilon"].map(measured)
    axes = figures.certified_epsilon(table).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]

    def shares(name):
        return sorted(line.get_xdata()[0] for line in axes.lines if list(line.get_ydata()) == [names.index(name)])

    assert len(names) == 19
    assert shares("AdaSSP published, code’s constants") == [0.546, 0.587, 0.68, 0.73]
    assert shares("ObjPert published") == pytest.approx([0.5869], rel=1e-4)
    assert shares("Chebyshev + OLS published") == pytest.approx([1.602], rel=1e-4)
    assert "1 arm here" in figures.certificate_caption(table)


@pytest.mark.slow
def test_caption_says_what_bands_and_signs_mean(records, mse):
    text = figures.caption(mse, "mse")
    for fact in ("lower is better", "5 trials", "± 1 standard error", "δ = 1e-05", "Crossed points", "1 of 110"):
        assert fact in text
    assert "Crossed" not in figures.caption(tables.aggregate(records, "auc"), "auc")


@pytest.mark.slow
def test_coverage_has_no_winner_and_a_line_at_what_intervals_say(records):
    table = tables.aggregate(records.assign(metric="coverage")[records["metric"] == "auc"], "coverage")
    for axes in figures.metric_vs_epsilon(table, "coverage").axes:
        assert [line.get_linestyle() for line in axes.lines if set(line.get_ydata()) == {0.95}] == [":"]
    assert "more is not better" in figures.caption(table, "coverage")
    plain, marked = (
        results_table(rows, name, "") for rows, name in ((table, "coverage"), (tables.aggregate(records, "auc"), "auc"))
    )
    best = [sum("<b>" in c for _, rows in of.groups for row in rows for c in row) for of in (plain, marked)]
    assert best[0] == 0 < best[1]


def test_rows_of_two_splits_are_refused(mse):
    both = pd.concat([mse, mse.assign(split="other")])
    with pytest.raises(InputError, match="two rows for ols on acs_income_lin@dd_ssp"):
        figures.metric_vs_epsilon(both, "mse")
    with pytest.raises(InputError, match="no rows of metric 'auc'"):
        figures.metric_vs_epsilon(mse, "auc")


@pytest.mark.slow
def test_files_repeat_byte_for_byte_across_processes(records, tmp_path):
    frame = tables.aggregate(records, "marginal_error")
    figures.save_figure(figures.metric_vs_epsilon(frame, "marginal_error"), tmp_path / "here")
    code = (
        f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"
        "from made_records import make_records\n"
        "from marginalia.reporting import figures, tables\n"
        "frame = tables.aggregate(make_records(), 'marginal_error')\n"
        f"figures.save_figure(figures.metric_vs_epsilon(frame, 'marginal_error'), {str(tmp_path / 'there')!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONHASHSEED": "5"})
    for kind in ("png", "svg", "pdf"):
        assert (tmp_path / f"here.{kind}").read_bytes() == (tmp_path / f"there.{kind}").read_bytes(), kind


def test_a_grid_tuned_on_test_is_two_curves_with_a_region_between(records):
    """One run's epsilon without a marker, what all runs cost with stars; no cross, since the legend says it all."""
    own = records[(records["method"] == "dp_sgd") & (records["dataset"] == "compas")]
    tuned = own.assign(variant="grid_on_test", calibration="published", epsilon_spent=13 * own["epsilon"])
    auc = tables.aggregate(pd.concat([own, tuned]), "auc")
    means = auc[auc["variant"] == "grid_on_test"]
    figure = figures.metric_vs_epsilon(auc, "auc")
    (axes,) = figure.axes
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    assert list(star.get_xdata()) == list(means["epsilon_spent"])
    assert list(star.get_ydata()) == list(means["mean"])
    (plain,) = [x for x in axes.lines if x.get_marker() == "None" and list(x.get_xdata()) == list(means["epsilon"])]
    assert list(plain.get_ydata()) == list(means["mean"])
    assert not [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [label.split(": ")[1] for label in labels if ": " in label] == [
        "cost ignored, not private",
        "all runs charged",
    ]
    region = max(axes.collections, key=lambda c: len(c.get_paths()[0].vertices)).get_paths()[0].vertices
    assert region[:, 0].min() == pytest.approx(means["epsilon_spent"].min())
    assert region[:, 0].max() == pytest.approx(means["epsilon"].max())
    assert axes.get_xlim()[1] < 3
    said = figures.caption(auc, "auc")
    assert "not private" in said
    assert "Crossed points" not in said
