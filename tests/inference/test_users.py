"""What users of regressions know: files as releases, summaries, data frames, forest plots, and answers per person."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from marginalia.cli.app import app
from marginalia.data import Column, Domain, Table
from marginalia.data.units import Unit
from marginalia.errors import InputError
from marginalia.inference import Release, cells, error_bars, mean, plot, quantile, regression, shares
from marginalia.inference.persons import reweighted_mean
from marginalia.learning import SSPRegressor
from marginalia.synthesis import ResidualPlanner

COLUMNS = [
    Column("pay", 5, "numeric", edges=(0, 20, 40, 60, 80), type="integer", missing=()),
    Column("visits", 4, "numeric", edges=(1, 2, 3, 4, 9), type="integer"),
    Column("born", 3, "numeric", edges=(0, 9000, 12000, 16000), type="date"),
]


@pytest.fixture(scope="module")
def people():
    """Rows of 3,000 persons of 1 to 6 visits; pay grows with visits."""
    rng = np.random.default_rng(0)
    visits = rng.integers(1, 7, 3000)
    person = np.repeat(np.arange(3000), visits)
    pay = np.where(rng.random(len(person)) < 0.1, np.nan, rng.integers(0, 20, len(person)) + 9 * visits[person])
    born = np.datetime64("1970-01-01") + rng.integers(0, 16000, 3000)[person]
    return pd.DataFrame({"id": person, "pay": pay, "visits": visits[person], "born": born})


def fitted(people, rows=None, epsilon=20.0, **facts):
    domain = Domain(COLUMNS, **facts) if rows is None else Domain(COLUMNS).of_unit("id", rows)
    frame = people if rows else people.drop(columns="id")
    return ResidualPlanner(epsilon=epsilon, random_state=0).fit(Table.from_frame(frame, domain))


@pytest.fixture(scope="module")
def model(people, tmp_path_factory):
    folder = tmp_path_factory.mktemp("users")
    people.drop(columns="id").to_csv(folder / "t.csv", index=False)
    made = fitted(people)
    made.save(folder / "m.npz")
    return made, folder


def test_a_model_a_file_and_a_release_are_the_same_source(model):
    made, folder = model
    answers = [mean(source, "pay") for source in (made, folder / "m.npz", str(folder / "m.npz"), Release.of(made))]
    assert len(set(answers)) == 1
    assert regression(folder / "m.npz", "pay ~ visits").coefficients == regression(made, "pay ~ visits").coefficients
    with pytest.raises(InputError, match="a SSPRegressor is no release"):
        mean(SSPRegressor(), "pay")


def test_data_frames_of_answers(model):
    frame = pd.concat(one.to_frame() for one in shares(model[0], ["pay"]))
    assert frame["estimate"].sum() == pytest.approx(1.0, abs=0.05)
    assert frame.index[0] == "pay=0 to 20"
    assert (frame["without_value"] - 0.1).abs().max() < 0.05
    born = quantile(model[0], "born", 0.5).to_frame()
    assert isinstance(born["estimate"].iloc[0], pd.Timestamp)
    table = regression(model[0], "pay ~ visits").to_frame()
    assert list(table.columns) == ["coef", "std err", "p", "low", "high", "label"]
    assert list(table.index) == ["Intercept", "visits"]


def test_a_summary_has_the_head_the_table_and_the_notes(model):
    summary = regression(model[0], "pay ~ visits").summary()
    lines = str(summary).splitlines()
    assert "Dep. Variable:" in lines[2]
    assert any(line.startswith("visits ") and line.endswith(("exact", "asymptotic")) for line in lines)
    assert any(line.startswith("share of rows without a value of pay") for line in lines)
    assert "<td>pay</td>" in summary._repr_html_()


def test_a_forest_plot_shows_all_but_the_intercept(model):
    figure = regression(model[0], "pay ~ C(visits)").plot()
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == [f"C(visits)[T.{bin_}]" for bin_ in ("2 to 3", "3 to 4", "4 to 9")]


def test_a_release_is_drawn_as_its_counts_and_an_answer_as_its_set(model, monkeypatch):
    drawn = plot(model[0], "visits")
    labels = [text.get_text() for text in drawn.axes[0].get_yticklabels()]
    assert labels == [one.name for one in cells(model[0], ["visits"])]
    (label,) = mean(model[0], "born").plot().axes[0].get_yticklabels()
    assert label.get_text() == "mean of born"
    monkeypatch.setattr(error_bars, "MOST", 3)
    with pytest.raises(InputError, match="intervals do not fit on one figure; at most 3 do"):
        plot(model[0])


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.parametrize("question", [("--mean", "pay"), ("--quantile", "born,0.5"), ("--marginal", "pay", "--shares")])
def test_the_owner_sees_the_private_answer_below_the_released_one(model, people, question):
    folder = model[1]
    plain, both = (run("infer", folder / "m.npz", *question, *more) for more in ((), ("--compare", folder / "t.csv")))
    assert both.exit_code == 0, both.output
    assert both.output.startswith(plain.output)
    assert "for their owner, not for release" in both.output
    found = json.loads(run("infer", folder / "m.npz", *question, "--compare", folder / "t.csv", "--json").output)
    assert len(found["private"]["answers"]) == len(found["intervals"])
    if question[0] == "--mean":
        coded = pd.cut(people["pay"], [0, 20, 40, 60, 80], right=False, labels=[9.5, 29.5, 49.5, 69.5]).astype(float)
        assert found["private"]["answers"][0]["private"] == pytest.approx(coded.mean())


def test_the_private_coefficients_are_those_of_the_rows_with_a_value(model, people):
    found = run("infer", model[1] / "m.npz", "pay ~ visits", "--compare", model[1] / "t.csv", "--json")
    private = [one["private"] for one in json.loads(found.output)["private"]["answers"]]
    rows = people.dropna(subset=["pay"])
    pay = pd.cut(rows["pay"], [0, 20, 40, 60, 80], right=False, labels=[9.5, 29.5, 49.5, 69.5]).astype(float)
    visits = rows["visits"].clip(upper=4).map({1: 1, 2: 2, 3: 3, 4: 6})
    slope, intercept = np.polyfit(visits, pay, 1)
    assert private == pytest.approx([intercept, slope], rel=1e-6)


def coded(people, rows):
    """Kept rows of each person, in bins: any rows, since the mean of many is the same."""
    pay = pd.cut(people["pay"], [0, 20, 40, 60, 80], right=False, labels=[9.5, 29.5, 49.5, 69.5]).astype(float)
    return people.assign(pay=pay, kept=np.minimum(people["visits"], rows))


@pytest.mark.parametrize("rows", [2, 3])
def test_each_person_or_each_row_counts_once(people, rows):
    model, table = fitted(people, rows), coded(people, rows)
    by_person = table.groupby("id")["pay"].mean().mean()
    one = reweighted_mean(model, "pay", "visits", per="unit")
    assert one.label == "exact"
    assert one.estimand == "per id: each counts once, with a value of pay"
    assert one.estimate == pytest.approx(by_person, abs=0.8)
    all_rows = reweighted_mean(model, "pay", "visits", per="row")
    assert all_rows.label == "asymptotic"
    assert all_rows.estimate == pytest.approx(table["pay"].mean(), abs=0.8)
    assert by_person + 1 < mean(model, "pay").estimate < table["pay"].mean() - 1  # neither


def test_weights_by_hand_and_the_set_of_the_ratio():
    codes = np.array([[0, 0], [3, 1], [3, 1], [1, 2], [2, 2], [4, 3], [1, 3]] * 200)
    units = np.repeat(np.arange(200), 7) * 4 + np.tile([0, 1, 1, 2, 2, 3, 3], 200)
    table = Table(codes, Domain(COLUMNS[:2])).of_units(Unit("id", 2), units)
    release = Release.of(ResidualPlanner(epsilon=1e4, random_state=0).fit(table))
    weights = np.array([1, 1 / 2, 1 / 2, 1 / 2])[codes[:, 1]] * (codes[:, 0] < 4)
    pay = np.array([9.5, 29.5, 49.5, 69.5, 0])[codes[:, 0]]
    found = reweighted_mean(release, "pay", "visits")
    assert found.estimate == pytest.approx((weights * pay).sum() / weights.sum(), rel=1e-3)


def test_what_cannot_be_reweighted_is_refused(people, model):
    with pytest.raises(InputError, match="protects single rows"):
        reweighted_mean(model[0], "pay", "visits")
    with pytest.raises(InputError, match="each number below 6 in its own code"):
        reweighted_mean(fitted(people, 6), "pay", "visits")
    refused = run("infer", model[1] / "m.npz", "--mean", "pay", "--per", "person")
    assert "--per person: write unit or row" in str(refused.exception)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_a_mean_of_a_column_whose_bins_were_learned_is_that_of_the_clipped_values(tmp_path, relation):
    """The answer is about the table in the bins that the release learned, and says where they clip values."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"pay": rng.lognormal(7, 1, 4000).round(2), "ill": rng.choice(["n", "y"], 4000)})
    rows.loc[:399, "pay"] = np.nan
    rows.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "d.yaml").write_text(
        "attributes:\n"
        "  - {name: pay, type: number, edges: {private: adaptive, bins: 8}, missing: []}\n"
        "  - {name: ill, type: string, labels: [n, y]}\n"
    )
    made = run(
        *("synthesize", "--method", "residual_planner", "--data", tmp_path / "t.csv", "--domain", tmp_path / "d.yaml"),
        *(
            "--epsilon",
            4,
            "--relation",
            relation,
            "--seed",
            0,
            "--out",
            tmp_path / "s.csv",
            "--model",
            tmp_path / "m.npz",
        ),
    )
    assert made.exit_code == 0, made.output
    release = Release.of(tmp_path / "m.npz")
    column, codes = release.domain["pay"], Table.from_frame(rows, release.domain).column("pay")
    of_bins = (np.array(column.edges[:-1]) + np.array(column.edges[1:])) / 2
    truth = of_bins[codes[codes < len(of_bins)]].mean()
    content = json.loads(run("infer", tmp_path / "m.npz", "--mean", "pay", "--json").output)
    (one,) = content["intervals"]
    assert one["low"] <= truth <= one["high"]
    assert one["high"] - one["low"] < 0.2 * truth
    assert one["clipped"] == f"at {column.edges[0]:.10g} and {column.edges[-1]:.10g}"
    assert one["estimand"] == "over rows with a value of pay"
    assert one["without_value"]["estimate"] == pytest.approx(0.1, abs=0.01)
    assert "pay: the release learned its bins; this answer is about the table in these bins" in content["notes"]


def test_every_answer_about_learned_labels_says_so(tmp_path):
    """A rare label becomes `other`: the answer is about that table, in text and JSON, and its truth is in the sets."""
    rng = np.random.default_rng(0)
    ward = rng.choice(["A", "B", "Z9"], size=4000, p=[0.6, 0.3995, 0.0005])
    rows = pd.DataFrame({"ward": ward, "pay": rng.integers(0, 80, 4000) // 20 + (ward == "B")})
    domain = {
        "attributes": [
            {"name": "ward", "type": "string", "labels": "private", "other": "other"},
            {"name": "pay", "type": "integer", "labels": [0, 1, 2, 3, 4]},
        ]
    }
    made = ResidualPlanner(epsilon=20.0, relation="replace_one", random_state=0).fit(rows, domain=domain)
    made.save(tmp_path / "m.npz")
    assert made.domain_["ward"].texts[:3] == ("A", "B", "other")
    note = "ward: the release learned its labels; this answer is about the table in these labels, all others as `other`"
    for words in (["pay ~ ward"], ["--marginal", "ward"], ["--difference", "ward=A - ward=B"]):
        assert note in run("infer", tmp_path / "m.npz", *words).output.splitlines()
        assert note in json.loads(run("infer", tmp_path / "m.npz", *words, "--json").output)["notes"]
    assert note not in run("infer", tmp_path / "m.npz", "--mean", "pay").output.splitlines()
    coded = Table.from_frame(rows, made.domain_).column("ward")
    for code, one in enumerate(cells(made, ["ward"])[:3]):
        assert one.contains((coded == code).sum())
