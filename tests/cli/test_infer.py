"""`marginalia infer`: what a user types, and what comes back."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from marginalia.cli.app import app
from marginalia.errors import InputError

DOMAIN = """
attributes:
  - {name: age, edges: [0, 20, 40, 60, 80], type: number, kind: numeric}
  - {name: sex, labels: [F, M], type: string}
  - {name: ill, labels: ["no", "yes"], type: string}
"""


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("infer")
    rng = np.random.default_rng(0)
    age, sex = rng.uniform(0, 79, 4000).round(1), rng.choice(["F", "M"], 4000)
    ill = np.where(rng.random(4000) < 0.1 + 0.006 * age, "yes", "no")
    rows = "".join(f"{a},{s},{i}\n" for a, s, i in zip(age, sex, ill, strict=True))
    (folder / "t.csv").write_text("age,sex,ill\n" + rows)
    (folder / "d.yaml").write_text(DOMAIN)
    made = run(
        *("synthesize", "--method", "residual_planner", "--data", folder / "t.csv", "--domain", folder / "d.yaml"),
        *("--epsilon", 2, "--seed", 0, "--out", folder / "s.csv", "--model", folder / "m.npz"),
    )
    assert made.exit_code == 0, made.output
    assert f"model: {folder / 'm.npz'}" in made.output
    return folder


@pytest.mark.slow
def test_a_regression_is_printed_as_statisticians_know_it(release):
    result = run("infer", release / "m.npz", "age ~ C(sex)")
    assert result.exit_code == 0
    assert "C(sex)[T.M]" in result.output
    assert "kappa" in result.output
    assert "4,000 rows" in result.output


@pytest.mark.slow
def test_columns_in_bins_are_named_where_they_count_as_numbers(release):
    note = "age: a row counts as the middle of its bin, at most 10 from its value"
    for question in (("--mean", "age"), ("--quantile", "age,0.5"), ("age ~ sex",)):
        assert note in run("infer", release / "m.npz", *question).output.splitlines(), question
    assert json.loads(run("infer", release / "m.npz", "--mean", "age", "--json").output)["notes"] == [note]
    assert json.loads(run("infer", release / "m.npz", "age ~ sex", "--json").output)["notes"] == [note]
    assert note not in run("infer", release / "m.npz", "--marginal", "age,sex").output


def test_as_json_infinite_ends_are_null(release):
    found = json.loads(run("infer", release / "m.npz", "age ~ C(sex)", "--json").output)
    assert [c["name"] for c in found["coefficients"]] == ["Intercept", "C(sex)[T.M]"]
    assert 38 < found["coefficients"][0]["low"] < found["coefficients"][0]["high"] < 42
    assert found["n_rows"] == 4000


@pytest.mark.parametrize(
    ("question", "count"),
    [
        (("--marginal", "sex,ill"), 4),
        (("--marginal", "sex,ill", "--shares", "--simultaneous"), 4),
        (("--mean", "age"), 1),
        (("--quantile", "age,0.5"), 1),
        (("--odds-ratio", "sex,ill"), 1),
        (("--difference", "sex=F,ill=yes - ill=yes,sex=M"), 1),
    ],
)
def test_other_questions(release, question, count):
    assert run("infer", release / "m.npz", *question).output.count("[") == count
    assert len(json.loads(run("infer", release / "m.npz", *question, "--json").output)["intervals"]) == count


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ((), "ask one thing"),
        (("age ~ sex", "--mean", "age"), "ask one thing"),
        (("age ~ nobody",), "nobody"),
        (("ill ~ age:sex", "--family", "gaussian"), "stand for no numbers"),
        (("ill ~ age", "--family", "binomial", "--ridge", "1"), "ridge is for family gaussian"),
        (("age ~ sex", "--family", "gamma"), "gamma"),
        (("age ~ sex", "--target", "world"), "world"),
        (("age ~ sex", "--confidence", "95"), "confidence"),
        (("--quantile", "age"), "a comma and a share"),
        (("--odds-ratio", "sex"), "two columns"),
        (("--mean", "sex"), "sex"),
        (("--marginal", "age,age"), "each once"),
        (("--difference", "sex=F - ill=yes"), "two cells of the same columns"),
        (("--difference", "sex=F - sex=X"), "no code 'X'; it has F, M"),
        (("--mean", "age", "--wald"), "--wald is for a formula"),
        (("--mean", "age", "--figure", "x.txt"), "must be .png or .svg or .pdf"),
    ],
)
def test_questions_that_cannot_be_answered_are_refused_in_a_line(release, question, said):
    error = run("infer", release / "m.npz", *question).exception
    assert isinstance(error, InputError)
    assert said in str(error)
    assert "\n" not in str(error)


def test_files_that_are_no_release_are_refused(release):
    for file in ("s.csv", "none.npz"):
        assert isinstance(run("infer", release / file, "--mean", "age").exception, InputError)


@pytest.mark.slow
@pytest.mark.parametrize(
    "question", [("age ~ C(sex)",), ("age ~ C(sex)", "--wald"), ("--marginal", "sex,ill", "--shares")]
)
def test_a_figure_is_drawn_the_same_each_time(release, question, tmp_path):
    for name in ("one.svg", "two.svg"):
        assert run("infer", release / "m.npz", *question, "--figure", tmp_path / name).exit_code == 0
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert b"<svg" in (tmp_path / "one.svg").read_bytes()


def test_a_difference_is_the_difference_of_the_cells(release):
    cells = json.loads(run("infer", release / "m.npz", "--marginal", "sex", "--json").output)["intervals"]
    one = json.loads(run("infer", release / "m.npz", "--difference", "sex=M - sex=F", "--json").output)["intervals"][0]
    assert one["estimate"] == pytest.approx(cells[1]["estimate"] - cells[0]["estimate"], abs=1)  # whole numbers
