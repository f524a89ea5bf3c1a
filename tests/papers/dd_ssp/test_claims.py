import numpy as np
import pandas as pd
import pytest

from marginalia.errors import InputError
from marginalia.papers.dd_ssp.baselines import base, splits
from marginalia.papers.dd_ssp.dd_ssp_cells import COLUMNS as CELL_COLUMNS
from marginalia.papers.dd_ssp.dd_ssp_cells import cells
from marginalia.papers.dd_ssp.dd_ssp_charges import advanced_composition, at, charges
from marginalia.papers.dd_ssp.dd_ssp_model_size import figure as draw_sizes
from marginalia.papers.dd_ssp.dd_ssp_model_size import model_size
from marginalia.papers.dd_ssp.figures import COST_CHARGED, COST_EXACT, draw, figure3, figure5, figure6
from marginalia.papers.dd_ssp.judges import smallest_certifiable_epsilon, verdicts
from marginalia.papers.dd_ssp.run_times import beside_reported, growth
from marginalia.papers.registry import experiments
from marginalia.reporting.verdicts import COLUMNS as VERDICT_COLUMNS
from marginalia.sweep.records import COLUMNS
from marginalia.sweep.resolve import resolve

# (experiment, dataset, task, method, variant, calibration, mean at epsilon .1 and 1)
SETTINGS = [
    ("dd_ssp", "adult@dd_ssp", "linear", "dd_ssp", "aim", "tight", (0.040, 0.010)),
    ("dd_ssp", "adult@dd_ssp", "linear", "aim_synth", "", "tight", (0.041, 0.020)),
    ("dd_ssp", "adult@dd_ssp", "linear", "ada_ssp", "code_constants", "published", (0.118, 0.058)),
    ("dd_ssp", "adult@dd_ssp", "linear", "ssp", "", "tight", (0.020, 0.020)),
    ("dd_ssp", "adult@dd_ssp", "linear", "dd_ssp", "mst", "tight", (0.030, 0.030)),
    ("dd_ssp", "adult@dd_ssp", "linear", "dd_ssp", "mixture", "tight", (0.040, 0.040)),
    ("dd_ssp", "adult@dd_ssp", "logistic", "dd_ssp", "aim", "tight", (0.87, 0.88)),
    ("dd_ssp", "adult@dd_ssp", "logistic", "aim_synth", "", "tight", (0.80, 0.88)),
    ("dd_ssp", "adult@dd_ssp", "logistic", "objective_perturbation", "", "published", (0.80, 0.885)),
    ("dd_ssp", "adult@dd_ssp", "logistic", "objective_perturbation", "", "tight", (0.88, 0.89)),
    ("dd_ssp", "adult@dd_ssp", "logistic", "ssp", "", "tight", (0.86, 0.87)),
    ("dd_ssp_100mb", "adult@dd_ssp", "linear", "dd_ssp", "aim", "tight", (0.040, 0.012)),
    ("dd_ssp", "adult@dd_ssp", "", "aim", "", "tight", (0.1, 0.05)),
    ("dd_ssp_100mb", "adult@dd_ssp", "", "aim", "", "tight", (0.1, 0.05)),
    ("dd_ssp", "adult@dd_ssp", "", "mixture", "", "tight", (0.09, 0.08)),
]


@pytest.fixture
def records():
    rows = []
    for experiment, dataset, task, method, variant, calibration, means in SETTINGS:
        for epsilon, mean in zip((0.1, 1.0), means, strict=True):
            for trial, noise in enumerate((-1e-4, 0.0, 1e-4)):
                row = dict.fromkeys(COLUMNS, "")
                row |= {"experiment": experiment, "dataset": dataset, "task": task, "method": method}
                row |= {"variant": variant, "calibration": calibration, "epsilon": epsilon, "delta": 1e-5}
                row |= {"trial": trial, "status": "ok", "value": mean + noise, "epsilon_spent": epsilon}
                row |= {"metric": {"linear": "mse", "logistic": "auc", "": "marginal_error"}[task]}
                row |= {"seconds": 1.0 if epsilon < 1 else 20.0, "peak_mb": 1.0, "seed": 0}
                rows.append(row)
    return pd.DataFrame(rows)


DD_SSP, AIM_SYNTH = "dd_ssp/aim/tight", "aim_synth/tight"


def cell(frame, claim, epsilon, left=None):
    rows = frame[(frame["id"] == claim) & (frame["epsilon"] == epsilon)]
    return rows[rows["left"] == left].squeeze() if left else rows.squeeze()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "epsilon", "left", "held"),
    [
        ("c01", 0.1, DD_SSP, True),  # .040 against .041: within 5 %
        ("c01", 1.0, DD_SSP, False),
        ("c02", 1.0, DD_SSP, True),
        ("c02", 1.0, AIM_SYNTH, True),
        ("c04", 0.1, DD_SSP, False),
        ("c04", 1.0, DD_SSP, True),
        ("c05", 0.1, DD_SSP, True),
        ("c06", 1.0, DD_SSP, True),  # .005 behind
        ("c10a", 0.1, "dd_ssp/mst/tight", True),  # MST ahead at .1, AIM at 1
        ("c10b", 1.0, DD_SSP, True),
        ("c11a", 0.1, DD_SSP, False),
        ("c11a", 1.0, DD_SSP, True),
        ("c11c", 0.1, DD_SSP, True),  # equal in the mean
        ("c13b", 0.1, "dd_ssp/aim/tight 100 MB", True),
        ("c13b", 1.0, "dd_ssp/aim/tight 100 MB", False),  # .012 against .010
        ("c15", 0.1, "aim/tight", False),
        ("c15", 1.0, "aim/tight", True),
    ],
)
def test_a_claim_follows_its_definition(records, claim, epsilon, left, held):
    assert bool(cell(cells(records), claim, epsilon, left)["held"]) == held


@pytest.mark.slow
def test_noise_too_large_for_a_margin_does_not_make_two_arms_the_same(records):
    """A difference of 0 with a standard error of the margin's size is no rejection, and no equivalence."""
    arms = (
        records["variant"].isin(["aim", ""])
        & (records["task"] == "logistic")
        & records["method"].isin(["dd_ssp", "aim_synth"])
    )
    noisy = records["trial"].map({0: -0.02, 1: 0.0, 2: 0.02}) * (records["method"] == "dd_ssp")
    wide = records.assign(value=records["value"].mask(arms, 0.85 + noisy))
    row = cell(cells(wide), "c04", 1.0)
    assert row["difference"] == pytest.approx(0, abs=1e-12)
    assert not row["held"]
    assert row["bound"] > row["margin"] == 0.01


@pytest.mark.slow
def test_a_shared_fit_is_compared_trial_by_trial(records):
    """What moves both arms of a trial by the same amount does not count as noise of their difference."""
    shift = records["trial"] * 0.05 * (records["task"] == "linear")
    moved = records.assign(value=records["value"] + shift)
    same, other = (cell(cells(frame), "c01", 0.1) for frame in (records, moved))
    assert same["stderr"] == other["stderr"] == pytest.approx(0, abs=1e-12)
    assert cell(cells(moved), "c02", 0.1, DD_SSP)["stderr"] > 0.03


@pytest.mark.slow
def test_a_claim_is_tested_where_it_speaks(records):
    frame = cells(records)
    assert tuple(frame.columns) == CELL_COLUMNS
    assert "c03" not in set(frame["id"])  # no income data
    assert frame[frame["id"] == "c05"]["epsilon"].tolist() == [0.1]
    assert frame[frame["id"] == "c10b"]["epsilon"].tolist() == [1.0]
    income = records.assign(dataset="acs_income_lin@dd_ssp")
    assert set(cells(income)["id"]) >= {"c03"}
    assert not {"c02", "c02p"} & set(cells(income)["id"])


@pytest.mark.slow
def test_random_splits_are_claims_of_their_own(records):
    splits = records[records["experiment"] == "dd_ssp"].assign(experiment="dd_ssp_splits")
    frame = cells(pd.concat([records, splits]))
    assert bool(cell(frame, "c05s", 0.1)["held"])
    assert cell(frame, "c05s", 0.1)["df"] == 2  # paired by split


@pytest.mark.slow
def test_gain_is_positive_where_the_left_arm_is_better(records):
    frame = cells(records)
    row = cell(frame, "c02", 1.0, DD_SSP)
    assert row["difference"] == pytest.approx(0.048)
    assert row["stderr"] == pytest.approx(np.hypot(1e-4, 1e-4) / np.sqrt(3), rel=1e-5)
    assert cell(frame, "c05", 0.1)["difference"] == pytest.approx(0.07)


@pytest.mark.slow
def test_every_stated_claim_has_a_verdict_on_the_sets_that_were_run(records):
    frame = verdicts(records, {})
    assert tuple(frame.columns) == VERDICT_COLUMNS
    assert len(frame) == 37
    frame = frame.set_index("id")
    assert frame.loc["c02", ["verdict", "sets"]].tolist() == ["held", "Adult"]
    assert frame.loc["c01", ["held", "tested", "verdict"]].tolist() == [1, 2, "no more than chance"]
    assert "median |difference|" in frame.loc["c01", "note"]
    assert "ahead in 4 of 4 means" in frame.loc["c02", "note"]
    for missing in ("c03", "c07", "c08", "c09", "c16"):
        assert frame.loc[missing, ["tested", "verdict"]].tolist() == [0, "not tested"]
    assert (frame["held"] <= frame["tested"]).all()


@pytest.mark.slow
def test_claims_about_products_and_norms_and_run_times_and_the_accountant(records):
    products = pd.DataFrame(
        {
            "dataset": "adult@dd_ssp",
            "method": ["ridge", *["objective_perturbation"] * 3],
            "outside": [0.5, 0.05, 0.1, 0.11],
        }
    )
    norms = pd.DataFrame(
        {"dataset": "adult@dd_ssp", "largest_norm_squared": [9.5, 8.0, 10.5], "norm_bound_squared": 10}
    )
    frame = verdicts(records, {"dd_ssp_f4": products, "dd_ssp_t1": norms}).set_index("id")
    assert frame.loc["c09", ["held", "tested", "verdict"]].tolist() == [2, 3, "held in most cells"]
    assert frame.loc["c16", ["held", "tested"]].tolist() == [1, 3]
    # All seconds grow from 1 to 20 here: as claimed for AIM, against the claim for the two others.
    assert frame.loc["c12a", ["held", "tested"]].tolist() == [1, 1]
    assert frame.loc["c12b", ["held", "tested"]].tolist() == [0, 2]
    assert frame.loc["c12d", ["held", "tested"]].tolist() == [0, 2]
    assert frame.loc["c13a", "verdict"] == "not held"  # 100 MB took as long
    assert frame.loc["c14", ["held", "tested"]].tolist() == [0, 2]
    assert "0.103" in frame.loc["c14", "note"]
    assert smallest_certifiable_epsilon(1e-5, range(2, 201)) == pytest.approx(0.026, abs=5e-4)
    assert smallest_certifiable_epsilon(1e-5, range(2, 801)) < 0.006


@pytest.mark.slow
@pytest.mark.parametrize("knows", [True, False])
def test_another_source_of_marginals_must_beat_a_constant(records, knows):
    others = records[
        (records["method"] == "dd_ssp") & (records["experiment"] == "dd_ssp") & (records["variant"] != "aim")
    ]
    n = len(others.groupby(["metric", "dataset", "epsilon", "variant"]))
    ends = np.where(others["metric"] == "auc", *((0.0, 1e3) if knows else (1.0, 0.0)))
    constant = others.assign(method="trivial", variant="", calibration="none", epsilon=np.inf, value=ends)
    found = verdicts(pd.concat([records, constant]), {}).set_index("id").loc["c17"]
    assert n > 0
    assert found[["held", "tested"]].tolist() == [n * knows, n]


def test_the_race_is_against_the_best_calibrated_baseline(records):
    frame = base(records).set_index(["task", "epsilon"])
    assert frame.loc[("linear", 0.1), "dd_ssp"] == "worse"
    assert frame.loc[("linear", 1.0), "dd_ssp"] == "better"
    assert frame.loc[("logistic", 0.1), "best_calibrated"] == "ObjPert"
    assert frame.loc[("logistic", 0.1), "gain"] == pytest.approx(-0.01)


def test_the_race_is_over_the_trials_that_every_arm_has(records):
    """An arm that lost a trial does not move against the others, whose means are over the same trials."""
    lost = (records["method"] == "aim_synth") & (records["trial"] == 2)
    frame = base(records[~lost]).set_index(["task", "epsilon"])
    assert set(frame["n_trials"]) == {2}
    assert frame.loc[("linear", 0.1), "dd_ssp_on_aim"] == pytest.approx(0.040 - 0.5e-4)
    assert frame.loc[("linear", 0.1), "aim_synth"] == pytest.approx(0.041 - 0.5e-4)


def test_run_times_grow_with_epsilon(records):
    frame = growth(records).set_index("method")
    assert set(frame.index) == {"AIM", "AIM, 100 MB", "AIM with mixture inference", "AdaSSP", "ObjPert"}
    columns = ["epsilon_from", "epsilon_to", "seconds_from", "seconds_to", "ratio"]
    assert frame.loc["AIM", columns].tolist() == [0.1, 1.0, 1.0, 20.0, 20.0]


def tuned(records, charged):
    """Rows of the grid at a tenth of the test score of ObjPert, the first trial with the seconds of the search."""
    rows = records[(records["method"] == "objective_perturbation") & (records["calibration"] == "published")]
    rows = rows.assign(method="dp_sgd", variant="grid_on_test", epsilon_spent=charged * rows["epsilon"])
    return rows.assign(seconds=rows["trial"].map({0: 50.0, 1: 2.0, 2: 2.0}))


def test_reported_run_times_have_a_place_and_stand_beside_ours(records):
    """A fit is the synthesizer's and what follows; the search of the grid is apart from its final runs."""
    frame = beside_reported(pd.concat([records, tuned(records, 10)]))
    assert frame["place"].str.startswith("Appendix G.").all()
    ours = frame.set_index(["task", "method", "phase", "epsilon"])["our_seconds"]
    assert ours["linear", "AIM", "fit", "smallest"] == 2.0  # one for AIM, one for the regression on it
    assert ours["linear", "AIM", "fit", "largest"] == 40.0
    assert ours["", "DP-SGD", "search", "all"].tolist() == [48.0, 48.0]
    elsewhere = frame[~frame["dataset"].isin(["", "adult@dd_ssp"])]
    assert len(elsewhere)
    assert elsewhere["our_seconds"].isna().all()  # sets that were not run


@pytest.mark.slow
def test_half_the_model_size_is_compared_in_seconds_and_accuracy(records):
    faster = records["seconds"].mask((records["experiment"] == "dd_ssp_100mb") & (records["task"] == ""), 0.5)
    table = model_size(records.assign(seconds=faster)).set_index("epsilon")
    assert table.loc[0.1, ["seconds_200mb", "seconds_100mb", "saved"]].tolist() == [1.0, 0.5, 0.5]
    assert table["same"].tolist() == [True, False]
    titles = [ax.get_title() for ax in draw_sizes(table.reset_index()).axes]
    assert titles == ["Time of AIM", "MSE, regression"]
    assert verdicts(records.assign(seconds=faster), {}).set_index("id").loc["c13a", "verdict"] == "held"


@pytest.mark.parametrize(("papers", "said"), [(["ddssp"], "did you mean 'dd_ssp'?"), ("dd_ssp", "comparisons")])
def test_a_bad_name_of_a_paper_is_one_line(papers, said):
    with pytest.raises(InputError) as error:
        resolve({"methods": [], "datasets": [], "comparisons": papers}, experiments())
    assert said in str(error.value)


@pytest.mark.slow
def test_a_gap_is_read_against_the_spread_of_splits(records):
    """DD-SSP leads AdaSSP by .078 at .1; on random splits by .078 give or take more than that."""
    arms = records.query("experiment == 'dd_ssp' and method in ['dd_ssp', 'ada_ssp'] and variant != 'mst'")
    random = pd.concat(
        [
            arms.assign(experiment="dd_ssp_splits"),
            arms.query("trial < 2").assign(experiment="dd_ssp_splits", trial=lambda frame: frame["trial"] + 3),
        ]
    )
    wide = random["trial"] * 0.1 * (random["method"] == "ada_ssp")
    frame = splits(pd.concat([records, random.assign(value=random["value"] + wide)]))
    row = frame.query("epsilon == .1 and right == 'ada_ssp/code_constants/published'").squeeze()
    assert row["released_gap"] == pytest.approx(0.078)
    assert row["random_gap"] == pytest.approx(0.078 + 0.2)
    assert row["split_std"] == pytest.approx(0.1 * np.std(range(5), ddof=1), rel=1e-4)
    assert row["n_splits"] == 5
    assert not row["beyond_split"]
    narrow = splits(pd.concat([records, random])).query("right == 'ada_ssp/code_constants/published'")
    assert narrow["beyond_split"].all()


def test_advanced_composition_is_theorem_22():
    """k = 108 runs of (.05, 1e-5): worked out by hand to 2.06 at a delta of .00216."""
    epsilon, delta = advanced_composition(0.05, 1e-5)
    assert epsilon == pytest.approx(108 * 0.05**2 / 2 + 0.05 * np.sqrt(2 * 108 * np.log(1 / 1.08e-3)), rel=1e-12)
    assert (round(epsilon, 2), delta) == (2.06, pytest.approx(0.00216))
    assert advanced_composition(2.0, 1e-5)[0] == 216  # no more than the sum


@pytest.mark.slow
def test_dd_ssp_is_held_against_the_grid_with_all_runs_charged(records):
    """c07x: points of the exactly charged curve lie at what the grid cost, and are joined in ln epsilon."""
    rows = tuned(records, 10)
    frame = cells(pd.concat([records, rows]))
    c07 = frame[frame["id"] == "c07x"]
    assert list(c07["epsilon"]) == [1.0]  # at 0.1 the curve has not begun
    assert c07["difference"].iloc[0] == pytest.approx(0.88 - 0.80)
    assert bool(c07["held"].iloc[0])
    worse = rows.assign(epsilon_spent=3 * rows["epsilon"])
    row = cells(pd.concat([records, worse]).replace({"value": {0.88: 0.81}})).query("id == 'c07x'").iloc[0]
    middle = 0.80 + 0.085 * np.log(1 / 0.3) / np.log(10)
    assert row["difference"] == pytest.approx(np.mean([0.8799, 0.81, 0.8801]) - middle, abs=1e-6)


@pytest.mark.slow
def test_the_papers_own_charge_needs_the_small_budgets(records):
    """c07: .02 a run comes to .79 by advanced composition, so the curve reaches DD-SSP at 1 with .05 a run."""
    assert "c07" not in set(cells(pd.concat([records, tuned(records, 10)]))["id"])
    small = tuned(records, 10).assign(experiment="dd_ssp_grid")
    small = small.assign(epsilon=small["epsilon"].map({0.1: 0.02, 1.0: 0.05}))
    both = pd.concat([records, small])
    charged = charges(both)["charged_by_advanced_composition"]
    assert charged.round(2).tolist() == [0.79, 2.06]
    row = cell(cells(both), "c07", 1.0)
    assert row["difference"] == pytest.approx(0.88 - at(charges(both), charged.name, 1.0)[0], abs=1e-6)


@pytest.mark.slow
def test_private_selection_is_asked_whether_it_lies_between_the_ends(records):
    small = tuned(records, 10).assign(experiment="dd_ssp_grid")
    small = small.assign(epsilon=small["epsilon"].map({0.1: 0.02, 1.0: 0.05}), value=0.82)
    base_rows = tuned(records, 10).assign(value=0.88)
    between = small[small["epsilon"] == 0.05].assign(
        experiment="dd_ssp", epsilon=1.0, variant="private_selection", calibration="tight", value=0.85
    )
    for value, held in ((0.85, 1), (0.80, 0), (0.90, 0)):
        rows = pd.concat([records, small, base_rows, between.assign(value=value)])
        row = verdicts(rows, {}).set_index("id").loc["c08"]
        assert row[["held", "tested"]].tolist() == [held, 1]


@pytest.mark.slow
def test_figures_3_5_and_6_hold_the_papers_curves(records):
    ols = records[(records["method"] == "ssp") & (records["task"] == "linear") & (records["epsilon"] == 1)]
    ols = ols.assign(method="ols", calibration="none", epsilon=np.inf, value=0.0005)
    rows = pd.concat([records, ols, tuned(records, 10)])
    three = figure3(rows)
    assert {"DD-SSP (AIM)", "AIM-Synth", "ObjPert", "no privacy", COST_CHARGED, COST_EXACT} <= set(three["curve"])
    assert set(figure5(rows)["curve"]) == {"DD-SSP (AIM)", "DD-SSP (MST)", "no privacy"}
    six = figure6(rows)
    assert set(six["curve"]) == {"DD-SSP (AIM)", "DD-SSP (AIM, mixture inference)", "no privacy"}
    assert six["mean"].notna().all()
    figure = draw(three)
    assert [ax.get_title() for ax in figure.axes if ax.axison] == ["Adult", "Adult"]
    assert [ax.get_ylabel() for ax in figure.axes if ax.axison] == ["test MSE", "test AUC"]
    assert {"DD-SSP (AIM)", COST_CHARGED} <= {text.get_text() for text in figure.legends[0].get_texts()}


def test_the_race_takes_in_fixed_dp_sgd_where_it_was_run(records):
    assert base(records)["dp_sgd_fixed"].isna().all()
    ssp = records[(records["method"] == "ssp") & (records["task"] == "logistic")]
    fixed = ssp.assign(method="dp_sgd", value=ssp["value"] + 0.05)
    frame = base(pd.concat([records, fixed])).query("task == 'logistic'")
    assert list(frame["best_calibrated"].unique()) == ["DP-SGD, fixed setting"]
    assert list(frame["dp_sgd_fixed"]) == pytest.approx([0.91, 0.92])
