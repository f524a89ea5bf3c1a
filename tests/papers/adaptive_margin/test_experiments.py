"""The adaptive-margin experiments at toy size: their rows, tables and figures, and the numbers that need no run."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from tiers import others_slow

from marginalia.data import Domain, Table
from marginalia.methods.task import Task
from marginalia.papers.adaptive_margin.adaptive_margin_x2 import PROTOTYPE, comparison, pairs
from marginalia.papers.adaptive_margin.adaptive_margin_x6 import FAR_OUTLIERS, label_of
from marginalia.papers.adaptive_margin.adaptive_margin_x7 import CLASS, WORST
from marginalia.papers.adaptive_margin.judges import VERDICTS
from marginalia.papers.adaptive_margin.runs import digits_features, prepared_rows, rows_of, synthetic
from marginalia.papers.registry import experiment as experiment_of
from marginalia.papers.registry import experiments
from marginalia.reporting.verdicts import COLUMNS
from marginalia.sweep.protocols import Prepared

IDS = [name for name, one in experiments().items() if one.rows and name.startswith("adaptive_margin")]
SMALL = {
    "adaptive_margin_f1": {"rows": 300},
    "adaptive_margin_x1": {"datasets": ["digits_3v8"], "C": [10.0], "max_share": 0.03},
    "adaptive_margin_x2": {"datasets": ["digits_0v1"], "epsilons": [1.0, 4.0], "digits_trials": 2},
    "adaptive_margin_x3": {"n": 300, "d": 5, "shares": [0.0, 0.1], "trials": 2},
    "adaptive_margin_x4": {"n": 300, "d": 5, "gammas": [0.1, 0.4], "rows": [250, 500], "trials": 2},
    "adaptive_margin_x5": {"candidates": [4, 17]},
    "adaptive_margin_x6": {"datasets": [FAR_OUTLIERS], "trials": 1},
    "adaptive_margin_x7": {"datasets": ["digits_3v8"], "small_share": 0.03, "margins": 5, "trials": 1},
    "adaptive_margin_x8": {"epsilons": {"digits_0v1": [1.0, 4.0]}, "other_trials": 2},
    "adaptive_margin_x9": {
        "projected_rows": 60,
        "projected_dimension": 30,
        "projected_margins": [0.6],
        "projections": 3,
        "descent_rows": 200,
        "descent_mu": [0.05, 0.1],
        "descents": 3,
        "outlier_mu": [0.05],
        "outlier_projections": 2,
        "outlier_descents": 2,
        "tuning_draws": 20_000,
        "choice_draws": 2000,
        "grid_rows": [100, 1000],
    },
}


_ran: dict[str, tuple] = {}  # several tests look at the same run: each is made once


def run_all(name: str, seed: int = 0, **overrides):
    key = f"{name} {seed} {sorted(overrides.items())}"
    if key not in _ran:
        experiment = experiment_of(name)
        settings = {**experiment.defaults, **SMALL[name], **overrides}
        rows = pd.concat(
            [experiment.run(part, settings, seed, {}) for part in experiment.part_names(settings)], ignore_index=True
        )
        _ran[key] = experiment, settings, rows, experiment.tables(rows, settings)
    return _ran[key]


def run_twice(name: str, seed: int, **overrides):
    first = run_all(name, seed, **overrides)
    _ran.clear()
    return first, run_all(name, seed, **overrides)


def test_every_experiment_is_registered():
    assert ["adaptive_margin_f1", *(f"adaptive_margin_x{k}" for k in range(1, 10))] == sorted(IDS)


@pytest.mark.parametrize("name", others_slow(sorted(SMALL), "adaptive_margin_x5"))
def test_parts_tables_and_figure(name):
    experiment, settings, _, tables = run_all(name)
    assert experiment.id == name
    assert name in tables
    assert len(tables[name])
    for table in tables.values():
        assert not {"seconds", "peak_mb"} & set(table.columns)
    assert isinstance(experiment.figure(tables, settings), Figure)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adaptive_margin_x3", "adaptive_margin_x2"])
def test_same_seed_same_tables(name):
    small = {"digits_trials": 1, "epsilons": [1.0]} if name.endswith("x2") else {"trials": 1}
    one, two, other = (ran[3][name] for ran in (*run_twice(name, 1, **small), run_all(name, 2, **small)))
    pd.testing.assert_frame_equal(one, two)
    assert not one.equals(other)


class TestRisk:
    @pytest.mark.slow
    def test_every_record_carries_what_was_spent(self):
        _, _, rows, _ = run_all("adaptive_margin_x2", digits_trials=1)
        private = rows[np.isfinite(rows["epsilon"])]
        tight = private[private["calibration"] == "tight"]
        assert (tight["epsilon_spent"] <= tight["epsilon"] * (1 + 1e-9)).all()
        published = private[(private["method"] == "adaptive_margin") & (private["calibration"] == "published")]
        assert (published["epsilon_spent"] < 0.5 * published["epsilon"]).all()
        assert set(private["relation"]) == {"replace_one"}

    def test_comparison_measures_in_standard_errors(self):
        summary = pd.DataFrame(
            {
                "dataset": ["adult@dpml", "adult@dpml", "acs_employment@dd_ssp"],
                "method": "adaptive_margin",
                "variant": "practical",
                "calibration": "tight",
                "epsilon": [1.0, 4.0, 1.0],
                "error": [0.165, 0.158, 0.3],
                "std": 0.004,
                "stderr": 0.004 / math.sqrt(5),
                "n_trials": 5,
            }
        )
        found = comparison(summary)
        assert len(found) == 1  # the prototype knew neither epsilon 4 nor the ACS set
        assert found["z"].iloc[0] == pytest.approx(0.005 / math.hypot(0.004 / math.sqrt(5), 0.003 / math.sqrt(3)))
        own = 0.005 / (0.004 * math.sqrt(1 / 5 + 1 / 3))
        assert found["z_own_spread"].iloc[0] == pytest.approx(own)

    def test_arms_are_compared_split_by_split(self):
        errors = {"fixed": [0.20, 0.30, 0.25], "practical": [0.24, 0.34, 0.291], "private_tuning": [0.21, 0.28, 0.25]}
        rows = pd.DataFrame(
            [
                {
                    "dataset": "d",
                    "method": "adaptive_margin",
                    "variant": variant,
                    "calibration": "tight",
                    "epsilon": 1.0,
                    "trial": trial,
                    "error": error,
                }
                for variant, values in errors.items()
                for trial, error in enumerate(values)
            ]
            + [
                {
                    "dataset": "d",
                    "method": "logistic",
                    "variant": "",
                    "calibration": "none",
                    "epsilon": math.inf,
                    "trial": trial,
                    "error": error,
                }
                for trial, error in enumerate([0.2399, 0.3401, 0.291])
            ]
        )
        found = pairs(rows).set_index(["first", "second"])
        assert found.loc[("practical", "fixed_c"), "difference"] == pytest.approx(0.0403333)
        assert found.loc[("practical", "fixed_c"), "better"] == "fixed_c"
        assert found.loc[("private_tuning", "fixed_c"), "better"] == "not told apart"
        same = found.loc[("practical", "logistic")]  # the reference without privacy stands beside every epsilon
        assert (same["epsilon"], same["better"]) == (1.0, "same within .01")
        assert same["bound"] < 0.001

    def test_cells_of_the_prototype(self):
        cells = pd.read_csv(PROTOTYPE, comment="#").set_index(["dataset", "variant", "calibration", "epsilon"])
        assert cells.index.is_unique
        first = cells.loc["adult@dpml", "practical", "tight", 0.25]
        assert (first["reported"], first["reported_trials"]) == (0.161, 3)
        assert cells["reported"].between(0, 0.55, inclusive="neither").all()
        assert (cells["reported_trials"] >= 3).all()


class TestRows:
    def test_rows_of_a_prepared_table(self, tmp_path):
        rng = np.random.default_rng(0)
        table = Table(rng.integers(0, (3, 5, 2), (40, 3)), Domain.from_sizes({"a": 3, "b": 5, "y": 2}))
        Prepared("mine", table.take(range(30)), (Task("logistic", "y"),), table.take(range(30, 40))).save(tmp_path)
        rows = prepared_rows(tmp_path)
        assert rows.X.shape == (40, 3)
        np.testing.assert_allclose(np.linalg.norm(rows.X, axis=1), 1)
        np.testing.assert_allclose(rows.X[:, 0] / rows.X[:, 2], table.column("a") - 1.0)
        np.testing.assert_array_equal(rows.y, 2 * table.column("y") - 1)

    def test_digits(self):
        assert rows_of("digits_parity", {}).X.shape == (1797, 65)
        assert rows_of("digits_3v8", {}).X.shape == (357, 65)

    def test_public_and_private_digits_are_disjoint_halves(self):
        assert len(digits_features("digits_parity", "raw", 0).y) == 898

    @pytest.mark.parametrize("kind", ["far", "flip"])
    def test_synthetic_rows(self, kind):
        train, test, is_outlier = synthetic(500, 6, 0.2, np.random.default_rng(0), n_test=300, outliers=50, kind=kind)
        assert is_outlier.sum() == 50
        w = np.linalg.lstsq(test.X, test.y, rcond=None)[0]
        # The edge's normal, found from the rows themselves: every clean row lies at distance .2 from it.
        for _ in range(50):
            w = np.linalg.lstsq(test.X, 0.2 * test.y, rcond=None)[0]
        np.testing.assert_allclose(test.y * (test.X @ w), 0.2, atol=1e-9)
        margins = train.y * (train.X @ w)
        np.testing.assert_allclose(margins[~is_outlier], 0.2, atol=1e-9)
        np.testing.assert_allclose(margins[is_outlier], -0.9 if kind == "far" else -0.2, atol=1e-9)


class TestBounds:
    @pytest.mark.slow
    def test_rows_of_the_tables(self):
        _, _, rows, tables = run_all(
            "adaptive_margin_x7", datasets=["separable"], rows=300, share=0.01, trials=1, margins=31
        )
        lines = tables["adaptive_margin_x7_rows"].set_index(["table", "source", "margin"])["bound"]
        # Separable with margin .2 and n = 10,000: 1/(n gamma²) = .0025, 1/(sqrt(n) gamma) = .05.
        assert lines[(1, "Theorem 4.1", "not needed")] == pytest.approx(0.0025, rel=1e-3)
        assert lines[(1, "Nguyen et al., Theorems 6 and 11", "known")] == pytest.approx(0.0025, rel=1e-3)
        assert lines[(1, "Bassily et al., Theorem 3.2", "fixed")] == pytest.approx(0.1)
        assert lines[(2, "Bassily et al., Theorem 3.2", "known")] > lines[(1, "Bassily et al., Theorem 3.2", "known")]
        assert (rows.loc[rows["kind"] == "loss", "ramp"] <= rows.loc[rows["kind"] == "loss", "hinge"]).all()

    def test_one_contradiction_takes_the_margin(self):
        _, _, _, tables = run_all("adaptive_margin_f1")
        table = tables["adaptive_margin_f1"]
        assert (table["before"] > 0.05).all()
        assert (table["replaced"] == 0).all()

    def test_an_outlier_term_that_no_row_number_mends(self):
        """Where S/(gamma n) is above 1 at every margin, the bound is above 1 for any n; the others are not hurt."""
        experiment = experiment_of("adaptive_margin_x7")
        at = {"set": "adult@dpml", "n": 10_000, "d": 9, "most_frequent": 0.4}
        rows = [{**at, "kind": WORST, "gamma": g, "share": s} for g, s in ((0.0, 0.0), (0.01, 0.2), (0.1, 0.4))]
        rows += [{**at, "kind": "loss", "gamma": g, "ramp": 0.2, "hinge": 0.3} for g in (0.01, 0.1, 1.0)]
        rows += [
            {**at, "kind": "error", "variant": v, "test_error": 0.25, "training_error": 0.24}
            for v in ("published", "practical")
        ]
        row = experiment.tables(pd.DataFrame(rows), experiment.defaults)["adaptive_margin_x7"].iloc[0]
        assert (row["more_rows_alone"], row["at_margin"], row["at_share"]) == (4.0, 0.1, 0.4)
        assert row["this_paper"] == pytest.approx(4.01)
        assert row["bassily_3_2_known"] == pytest.approx(0.31)  # at margin 1
        assert row["bassily_3_2_fixed"] == pytest.approx(0.4)
        # The theorem takes any subset: one class alone has a wide margin, and its bound is the smaller.
        rows.append({**at, "kind": CLASS, "gamma": 0.5, "share": 0.4})
        row = experiment.tables(pd.DataFrame(rows), experiment.defaults)["adaptive_margin_x7"].iloc[0]
        assert (row["this_paper"], row["more_rows_alone"]) == (pytest.approx(0.8004), 0.8)
        assert (row["left_out"], row["least_share"]) == (CLASS, 0.2)


class TestLiteralSteps:
    @pytest.mark.slow
    def test_steps_are_the_papers(self):
        _, _, rows, tables = run_all("adaptive_margin_x8")
        literal = rows[rows["steps"] == "literal"]
        n, G = 288, 10
        mu = literal["epsilon"] / (4 * np.sqrt(G * math.log(1e6)))
        assert literal["T"].tolist() == [math.ceil(n**2 * m**2) for m in mu]
        assert (literal["candidates"] == G).all()
        table = tables["adaptive_margin_x8"]
        np.testing.assert_allclose(table["difference"], table["literal"] - table["capped"])

    def test_the_longest_parts_come_first(self):
        experiment = experiment_of("adaptive_margin_x8")
        assert experiment.part_names(experiment.defaults)[0] == "adult@dpml,1.0"


class TestLemmas:
    @pytest.mark.slow
    def test_the_misprinted_ones_fail_and_the_others_hold(self):
        """Simulated shares have a slack of three standard errors: 48 of them, false alarm about 3 %, seed fixed."""
        _, _, _, tables = run_all("adaptive_margin_x9")
        table = tables["adaptive_margin_x9"].set_index(["lemma", "form"])
        assert table.loc[("7.2", "as printed"), "held"] == 0
        assert table.loc[("A.5", "as printed"), "held"] < table.loc[("A.5", "as printed"), "tested"]
        for lemma in (
            ("7.2", "as proved"),
            ("A.4", "as proved"),
            ("A.5", "with sigma"),
            ("6.4", ""),
            ("C.1", ""),
            ("D.1", ""),
            ("D.2", ""),
        ):
            assert table.loc[lemma, "held"] == table.loc[lemma, "tested"], lemma


@pytest.fixture(scope="module")
def tables():
    found = {}
    for name in ("f1", "x1", "x5", "x8", "x9"):
        found |= run_all(f"adaptive_margin_{name}")[3]
    return found


class TestVerdicts:
    @pytest.mark.slow
    def test_every_claim_is_judged_on_what_was_run(self, tables):
        table = VERDICTS.tables(pd.DataFrame(), tables).set_index("id")
        assert tuple(table.reset_index().columns) == COLUMNS
        assert table.index.is_unique
        assert table.loc["privacy", "verdict"] == "not tested"  # its experiment was not run here
        assert table.loc["runs_printed", "verdict"] == "not held"
        assert table.loc["one_point", "verdict"] == "held"
        assert table.loc["better_features", "sets"] == "digits 3 and 8"
        assert (table["held"] <= table["tested"]).all()

    def test_a_better_bound_elsewhere_is_counted(self):
        """Only sets with few outliers at the best margin are cells: the second has 200 of 10,000 rows."""
        bounds = pd.DataFrame(
            {
                "set": ["digits_3v8", "separable"],
                "n": [100, 10_000],
                "this_paper": [0.4, 0.1],
                "least_share": [0.0, 0.02],
                "bassily_3_2_known": [0.3, 0.2],
                "bassily_3_2_fixed": [0.5, 0.2],
                "bassily_3_1_known": [0.4, 0.2],
                "bassily_3_1_fixed": 0.5,
                "most_frequent": 0.5,
                "more_rows_alone": 0.0,
            }
        )
        table = VERDICTS.tables(pd.DataFrame(), {"adaptive_margin_x7": bounds}).set_index("id")
        assert table.loc["less_than_32", ["held", "tested", "sets"]].tolist() == [0, 1, "digits 3 and 8"]
        assert "no larger on 1 of 1" in table.loc["less_than_32", "note"]
        assert table.loc["less_than_31", ["held", "tested"]].tolist() == [1, 1]

    @pytest.mark.slow
    def test_one_long_run_is_judged_by_the_scatter_of_short_ones(self, tables):
        """Same within .01 at t(.95, 9) = 1.833 times sqrt(1.1): a run too noisy to tell from the others is not it."""
        runs = tables["adaptive_margin_x8"].assign(
            trials=1, literal=[0.1, 0.1], capped_again=0.1, capped_std=[0.0052, 0.0053], repeats=10, T=5000
        )
        row = VERDICTS.tables(pd.DataFrame(), {"adaptive_margin_x8": runs}).set_index("id").loc["steps"]
        assert (row["held"], row["tested"]) == (1, 2)
        assert "apart in 0 of 2" in row["note"]
        short = VERDICTS.tables(pd.DataFrame(), {"adaptive_margin_x8": runs.assign(T=1000, capped_T=1000)})
        assert short.set_index("id").loc["steps", "tested"] == 0  # both runs are the same one

    def test_projection_must_lower_the_error(self):
        """No difference is not a gain: only an error lower by two standard errors is."""
        rows = pd.DataFrame(
            {
                "set": "synthetic_wide",
                "change": "jl_factor",
                "value": ["0.0", "1.0", "2.0", "3.0"],
                "difference": [0.0, 0.001, -0.001, -0.003],
                "difference_stderr": [0.0, 0.001, 0.001, 0.001],
                "n_trials": 20,
            }
        )
        row = VERDICTS.tables(pd.DataFrame(), {"adaptive_margin_x6": rows}).set_index("id").loc["projection_helps"]
        assert (row["held"], row["tested"]) == (1, 3)

    def test_features_of_a_file_are_compared_with_each_other(self):
        """A set that has no stand-in features is no cell in which they lost."""
        rows = pd.DataFrame(
            {
                "set": ["digits_3v8"] * 2 + ["1 v 9"] * 2,
                "features": ["learned", "raw", "ViT-B/16", "resnet50"],
                "C": 1000.0,
                "margin_at_0": 0.0,
                "first_separable_share": 0.01,
                "margin_at_0.05": [0.2, 0.1, 0.1, 0.3],
            }
        )
        table = VERDICTS.tables(pd.DataFrame(), {"adaptive_margin_x1_summary": rows}).set_index("id")
        assert table.loc["better_features", ["held", "tested", "sets"]].tolist() == [1, 2, "digits 3 and 8;1 v 9"]
        assert table.loc["zero_margin", ["held", "tested"]].tolist() == [3, 3]

    def test_two_outputs_of_one_fit_are_one_cell(self):
        rows = pd.DataFrame(
            {
                "dataset": "digits_0v1",
                "epsilon": [1.0, 1.0, 2.0],
                "method": "adaptive_margin",
                "epsilon_spent": 0.4,
                "calibration": "published",
                "variant": ["published", "published_last", "published"],
            }
        )
        row = VERDICTS.tables(pd.DataFrame(), {"adaptive_margin_x2": rows}).set_index("id").loc["privacy"]
        assert (row["held"], row["tested"]) == (2, 2)


def test_labels_are_words():
    assert label_of("hinge_share", "0.3333333333333333") == "c = γ/3, as the paper"
    assert label_of("steps", "30") == "30 steps"
    assert label_of("grid_cut", "0.0") == "all margins, as the paper"
    assert label_of("ladder", "3 exact mu") == "+ exact budget"


class TestBudget:
    def test_table_of_the_budget(self):
        _, _, _, tables = run_all("adaptive_margin_x5")
        table = tables["adaptive_margin_x5"].set_index("epsilon")
        expected = {  # epsilon: mu published, by conversion, exact; noise ratio; really spent
            0.25: (0.0238, 0.0473, 0.0649, 2.73, 0.085),
            0.5: (0.0476, 0.0943, 0.1241, 2.61, 0.179),
            1: (0.0951, 0.1869, 0.2367, 2.49, 0.376),
            2: (0.1902, 0.3676, 0.4483, 2.36, 0.790),
            4: (0.3805, 0.7127, 0.8379, 2.20, 1.67),
            8: (0.7610, 1.349, 1.532, 2.01, 3.59),
        }
        columns = ["published", "conversion", "tight", "noise_ratio", "spent_at_published"]
        for epsilon, values in expected.items():
            assert table.loc[epsilon, columns].tolist() == pytest.approx(list(values), rel=6e-3)

    def test_one_candidate_of_seventeen(self):
        _, _, _, tables = run_all("adaptive_margin_x5")
        table = tables["adaptive_margin_x5_candidates"]
        mu = table[table["candidates"] == 17].set_index("rule")["mu"]
        expected = {
            "iter published": 0.0231,
            "iter tight": 0.0574,
            "private tuning published, published r": 0.0192,
            "private tuning tight, published r": 0.0476,
            "private tuning tight, miss 0.05": 0.0903,
            "private tuning tight, miss 0.2": 0.1024,
            "private tuning tight, miss 0.5": 0.1192,
        }
        for rule, value in expected.items():
            assert mu[rule] == pytest.approx(value, abs=6e-5)
