"""Figure 4 of the excess-risk paper: what it runs, that it repeats, and how it compares."""

import math

import numpy as np
import pandas as pd
import pytest

from marginalia.data import Domain, Table
from marginalia.errors import InputError
from marginalia.methods.task import Task
from marginalia.papers.excess_risk.excess_risk_f4 import FITS, pairs
from marginalia.papers.excess_risk.runs import fit_aim, splits
from marginalia.papers.registry import experiment as experiment_of
from marginalia.sweep.protocols import Prepared

F4 = experiment_of("excess_risk_f4")
SETTINGS = {
    **F4.defaults, "datasets": ("heart@dpml",), "trials": 2, "aim": {"workload": 2, "max_model_mb": 1}
}  # fmt: skip
PART = "heart@dpml,without_aim"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.integers(0, [40, 2, 4], (303, 3))
    y = (rng.random(303) < 1 / (1 + np.exp(2.0 - 0.1 * x[:, 0]))).astype(int)
    folder = tmp_path_factory.mktemp("prepared") / "heart@dpml"
    table = Table(np.column_stack([x, y]), Domain.from_sizes({"age": 40, "sex": 2, "cp": 4, "output": 2}))
    Prepared("heart@dpml", table, (Task("logistic", "output", one_hot=("cp",)),)).save(folder)
    return {"heart@dpml": folder}


@pytest.fixture(scope="module")
def rows(data):
    (part,) = F4.parts(SETTINGS)
    return F4.run(part, SETTINGS, 0, data)


@pytest.mark.slow
def test_every_method_runs_and_repeats(rows, data):
    without = rows[rows["method"] != "aim"]
    first = without[without["trial"] == 0].dropna(axis=1, how="all").reset_index(drop=True)
    pd.testing.assert_frame_equal(first, F4.run(PART, {**SETTINGS, "trials": 1}, 0, data)[list(first)])
    assert list(first[["method", "variant", "inputs", "n_teachers"]].itertuples(index=False, name=None)) == [
        ("trivial", "", "", 0),
        ("logistic", "", "codes", 0),
        ("logistic", "", "one_hot", 0),
        ("dp_sgd", "published", "codes", 0),
        ("dp_sgd", "published, no noise", "codes", 0),
        ("dp_sgd", "published, exact noise", "codes", 0),
        ("dp_sgd", "published", "one_hot", 0),
        ("dp_sgd", "published, no noise", "one_hot", 0),
        ("dp_sgd", "published, exact noise", "one_hot", 0),
        ("dp_sgd", "tight", "codes", 0),
        ("dp_sgd", "tight, no noise", "codes", 0),
        ("dp_sgd", "tight", "one_hot", 0),
        ("dp_sgd", "tight, no noise", "one_hot", 0),
        ("pate", "published", "codes", 10),
        ("pate", "published", "codes", 15),
        ("pate", "published", "codes", 20),
        ("pate", "tight", "codes", 20),
        ("pate", "published", "one_hot", 20),
        ("pate", "tight", "one_hot", 20),
    ]
    spent = first[first["epsilon"] == 1].groupby(["method", "variant"])["epsilon_spent"].max()
    assert spent["dp_sgd", "published"] == pytest.approx(0.240, abs=1e-3)  # n = 242, as the paper's Heart
    assert spent["pate", "published"] == pytest.approx(0.6829, abs=2e-4)
    for method in ("dp_sgd", "pate"):
        assert spent[method, "tight"] == pytest.approx(1, abs=1e-3)
    assert rows["accuracy"].between(0, 1).all()
    assert rows[rows["method"] == "logistic"]["roc_auc"].mean() > 0.7


@pytest.mark.slow
def test_one_change_at_a_time(data, monkeypatch):
    """AIM sees all rows, or the training rows alone; all steps of a trial share the test rows."""
    seen = []

    def spy(table, epsilon, **parameters):
        seen.append(table)
        return fit_aim(table, epsilon, **parameters)

    monkeypatch.setattr("marginalia.papers.excess_risk.excess_risk_f4.fit_aim", spy)
    found = {fit: F4.run(f"heart@dpml,{fit}", {**SETTINGS, "trials": 1}, 0, data) for fit in FITS}
    whole = Prepared.load(data["heart@dpml"]).table
    ((train, _),) = next(splits("heart@dpml", 0, 1, 0, whole.n_rows))
    assert [table.n_rows for table in seen] == [303, 242, 242]
    assert seen[0] == whole
    assert seen[1] == whole.take(train)
    assert seen[2].domain.names == ("sex", "cp", "output")  # age is a rank of private values
    assert [list(rows["variant"].unique()) for rows in found.values()] == [list(steps) for steps in FITS.values()]
    real = pd.concat(found.values()).query("inputs == 'codes' and variant != 'public_domain'")["real_accuracy"]
    assert real.nunique() == 1


@pytest.mark.slow
def test_the_settings_follow_documented_numbers_alone(data, tmp_path):
    """Under add/remove a row less changes neither what is asked for nor what it costs; it once changed both."""
    folder = tmp_path / "heart@dpml"
    whole = Prepared.load(data["heart@dpml"])
    Prepared(whole.name, whole.table.take(slice(280)), whole.tasks).save(folder)
    rows = F4.run(PART, {**SETTINGS, "trials": 1}, 0, {"heart@dpml": folder}).query("method == 'dp_sgd'")
    spent = rows[rows["inputs"] == "codes"].set_index("variant")["epsilon_spent"]
    assert spent["published"] == pytest.approx(0.240, abs=1e-3)
    assert spent["tight"] == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_aim_in_the_table_is_ours_beside_what_the_paper_prints(rows):
    table = F4.tables(rows, SETTINGS)["excess_risk_f4"].set_index(["method", "variant", "inputs", "n_teachers"])
    own = rows[(rows["method"] == "aim") & (rows["variant"] == "as_published") & (rows["inputs"] == "codes")]
    line = table.loc["aim", "as_published", "codes", 0]
    assert line["mean"] == pytest.approx(own["accuracy"].mean(), rel=1e-5)
    assert line["stderr"] == pytest.approx(own["accuracy"].std() / math.sqrt(2), rel=1e-5)
    assert (line["reported"], line["n_trials"]) == (0.719, 2)
    assert table.loc["logistic", "", "codes", 0]["reported"] == 0.802
    assert table["reported"].notna().sum() == 2  # the paper prints no other bar of the figure


def made_up(aim, other, n=10):
    scatter = np.random.default_rng(0).normal(0, 0.05, n)  # of the splits, which both arms share
    arms = (("aim", "all_rows", aim), ("dp_sgd", "tight", other))
    return pd.concat(
        pd.DataFrame(
            {
                "dataset": "heart",
                "trial": range(n),
                "method": method,
                "variant": variant,
                "inputs": "one_hot",
                "n_teachers": 0,
                "accuracy": mean + scatter + 0.001 * (-1.0) ** np.arange(n),
                "roc_auc": mean + scatter,
            }
        )
        for method, variant, mean in arms
    )


@pytest.mark.parametrize(
    ("aim", "other", "verdict"),
    [(0.8, 0.7, (True, False, True)), (0.795, 0.8, (False, True, True)), (0.7, 0.8, (False, True, False))],
)
def test_pairs_are_compared_on_the_same_splits(aim, other, verdict):
    (line,) = pairs(made_up(aim, other)).to_dict("records")
    assert line["difference"] == pytest.approx(aim - other, abs=1e-6)
    assert line["stderr"] < 1e-3  # the spread of the splits is not in it
    assert (line["better"], line["worse"], line["as_well"]) == verdict


@pytest.mark.slow
def test_the_steps_are_paired(rows):
    table = F4.tables(rows, SETTINGS)["excess_risk_ladder"].query("metric == 'empirical_risk'").set_index("step")
    own = rows[(rows["method"] == "aim") & (rows["inputs"] == "codes")].set_index(["variant", "trial"])
    lost = own["empirical_risk"] - own["real_empirical_risk"]
    change = lost["held_out"] - lost["as_published"]
    assert table.loc["held_out", "change"] == pytest.approx(change.mean(), rel=1e-4)
    assert table.loc["held_out", "change_stderr"] == pytest.approx(change.sem(), rel=1e-4)
    assert math.isnan(table.loc["as_published", "change"])


@pytest.mark.slow
def test_the_figure_has_six_bars_of_the_paper_and_four_of_ours(rows):
    figure = F4.figure(F4.tables(rows, SETTINGS), SETTINGS)
    (axes,) = figure.axes
    assert len(axes.patches) == 10
    assert axes.get_ylim()[0] == 0


@pytest.mark.slow
def test_a_run_without_one_of_aims_fits_shows_the_others(rows):
    part = rows[~rows["variant"].isin(["held_out", "all_rows"])]
    tables = F4.tables(part, SETTINGS)
    assert set(tables["excess_risk_f4_pairs"]["aim"]) == {"as_published"}
    assert len(F4.figure(tables, SETTINGS).axes[0].patches) == 9


def test_an_unknown_set_is_one_line(data):
    with pytest.raises(InputError, match="did you mean") as caught:
        F4.run("hart@dpml,without_aim", SETTINGS, 0, data)
    assert "\n" not in str(caught.value)
