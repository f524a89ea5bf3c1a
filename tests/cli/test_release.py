"""`marginalia release`: what a user types, and what comes back."""

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
ANALYSES = """
analyses:
  - {formula: age ~ sex, effects: {"sex[T.M]": 2}, spread: 20}
  - {formula: ill ~ age + sex, family: binomial}
"""


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    rng = np.random.default_rng(0)
    age, sex = rng.uniform(0, 79, 6000).round(1), rng.choice(["F", "M"], 6000)
    ill = np.where(rng.random(6000) < 0.1 + 0.006 * age, "yes", "no")
    rows = "".join(f"{a},{s},{i}\n" for a, s, i in zip(age, sex, ill, strict=True))
    (folder / "t.csv").write_text("age,sex,ill\n" + rows)
    (folder / "d.yaml").write_text(DOMAIN)
    (folder / "a.yaml").write_text(ANALYSES)
    return folder


def common(folder):
    return ("--domain", folder / "d.yaml", "--analyses", folder / "a.yaml", "--epsilon", 2)


@pytest.mark.slow
def test_a_release_is_certified_and_infer_states_its_regressions(folder):
    out, book = folder / "r.npz", folder / "t.book"
    assert run("budget", "open", book, "--epsilon", 2.5, "--experiments").exit_code == 0
    made = run("release", folder / "t.csv", *common(folder), "--seed", 0, "--out", out, "--budget", book)
    assert made.exit_code == 0, made.output
    assert "declared: age ~ sex" in made.output
    assert (
        "certificate: (2, 1e-05)-DP, replace_one: the number of rows is public; seeded, for experiments only\n"
        in made.output
    )
    assert run("certify", out).exit_code == 0
    assert "spent: epsilon 2.01" in run("budget", "show", book).output
    found = json.loads(run("infer", out, "age ~ C(sex)", "--json").output)
    assert [c["name"] for c in found["coefficients"]] == ["Intercept", "C(sex)[T.M]"]
    assert 36 < found["coefficients"][0]["low"] < found["coefficients"][0]["high"] < 43
    logistic = run("infer", out, "ill ~ age + sex", "--family", "binomial")
    assert logistic.exit_code == 0
    assert "asymptotic" in logistic.output
    refused = run("release", folder / "t.csv", *common(folder), "--out", folder / "s.npz", "--budget", book)
    assert refused.exit_code != 0
    assert not (folder / "s.npz").exists()


@pytest.mark.slow
def test_a_formula_in_place_of_a_file_learns_what_its_columns_need_alone(folder):
    (folder / "open.yaml").write_text(
        "attributes:\n"
        "  - {name: age, type: number, edges: {private: adaptive, bins: 8}}\n"
        "  - {name: sex, type: string, labels: [F, M]}\n"
        "  - {name: ill, type: string, labels: private}\n"
    )
    asked = ("--domain", folder / "open.yaml", "--analyses", "age ~ sex", "--epsilon", 2, "--out", folder / "f.npz")
    made = run("release", folder / "t.csv", *asked, "--seed", 0)
    assert made.exit_code == 0, made.output
    learned = [line.split(":")[1] for line in made.output.splitlines() if line.startswith("learned privately")]
    assert learned == [" age"]
    found = json.loads(run("infer", folder / "f.npz", "age ~ sex", "--json").output)
    assert found["coefficients"][0]["low"] < 40 < found["coefficients"][0]["high"]


def test_a_plan_reads_no_row_and_widths_shrink_with_epsilon(folder):
    asked = ("--domain", folder / "d.yaml", "--analyses", folder / "a.yaml", "--plan", "--rows", 6000)
    halves = []
    for epsilon in (0.5, 2):
        result = run("release", *asked, "--epsilon", epsilon)
        assert result.exit_code == 0, result.output
        assert "no row was read" in result.output
        assert "ill ~ age + sex: logistic, not predicted" in result.output
        found = json.loads(run("release", *asked, "--epsilon", epsilon, "--json").output)
        halves.append(found["predicted"][1]["table"])
        assert found["predicted"][1]["effect"] == pytest.approx(2)
    assert halves[0] > 2 * halves[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--plan",), "give --rows N"),
        (("--plan", "--rows", 9, "--out", "r.npz"), "neither a table nor --out"),
        (("--out", "r.npz"), "name a table"),
        (("t.csv", "--out", "r.csv"), "the ending must be .npz"),
        (("t.csv", "--rows", 5, "--out", "r.npz"), "--plan and --rows N"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(folder, arguments, said):
    given = [folder / a if a in ("t.csv", "r.npz", "r.csv") else a for a in arguments]
    result = run("release", *given, *common(folder))
    assert isinstance(result.exception, InputError)
    assert said in str(result.exception)
