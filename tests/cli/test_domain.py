"""From a raw CSV file to a checked domain, a synthetic table in original values and a model."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError


@pytest.fixture
def clinic(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "patient": np.arange(n),
            "age": rng.integers(0, 99, n),
            "ward": rng.choice(["surgery", "medicine", "?"], n),
            "born": pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), "D"),
            "ill": rng.choice(["yes", "no"], n),
        }
    )
    frame.loc[::20, "age"] = None
    frame.to_csv(tmp_path / "clinic.csv", index=False, sep=";")
    return tmp_path / "clinic.csv"


@pytest.mark.slow
def test_from_a_raw_file_to_a_certified_synthetic_one(clinic, call):
    """As a new user goes: draft, review, check, recommend, fit, certify, quality."""
    code, out, err = call("domain", "init", clinic, "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert [a["type"] for a in facts["attributes"]] == ["integer", "string", "date", "boolean"]
    assert list(facts["ignored"]) == ["patient"]
    domain = facts["out"]
    assert domain.endswith("clinic.domain.yaml")
    used = ("--data", clinic, "--domain", domain)
    made = clinic.with_name("made.csv")
    arguments = ("synthesize", "--method", "independent", *used, "--epsilon", 1, "--seed", 4, "--rows", 40)
    code, out, err = call(*arguments, "--out", made)
    assert code == 0, err
    assert "type of 'age'" in err
    said = "not certified: 1 column's marks of missing values and 3 columns' types were read off the rows"
    assert f"certificate: {said} (ward, age, born, 1 more); say `reviewed: true` of what is public" in out
    code, out, _ = call("certify", f"{made}.certificate.json")
    assert (code, "NOT CERTIFIED: 1 column's marks" in out) == (1, True)

    text = Path(domain).read_text()
    assert text.count("# defaults: {reviewed: true}") == 1
    Path(domain).write_text(text.replace("# defaults:", "defaults:"))
    code, out, err = call("datasets", "check", clinic, "--domain", domain)
    assert (code, err) == (0, "")
    assert out.count("to be learned with part of epsilon") == 3
    code, out, err = call("recommend", clinic, "--domain", domain, "--epsilon", 1, "--target", "ill")
    assert (code, err) == (0, "")
    assert "! each fit learns the bins or labels of 3 columns (age, ward, born) privately" in out
    code, out, err = call(*arguments, "--out", made)
    assert code == 0
    assert err.startswith("marginalia: private note: `reviewed: true` accepts what was read off the rows for 4 columns")
    assert "-DP, replace_one: the number of rows is public; seeded, for experiments only\n" in out
    assert call("certify", f"{made}.certificate.json")[0] == 0
    frame = pd.read_csv(made)
    assert set(frame["ward"]) <= {"surgery", "medicine", "?", "other"}
    assert frame["age"].dropna().between(0, 128).all()
    assert set(frame["ill"]) <= {"yes", "no"}
    assert pd.to_datetime(frame["born"]).dt.year.between(1900, 2100).all()
    code, out, _ = call("quality", clinic, made, "--domain", domain, "--out", clinic.with_name("q.html"))
    assert (code, "-DP, recomputed" in out) == (0, True), out

    again = clinic.with_name("again.csv")
    assert call(*arguments, "--out", again)[0] == 0
    assert again.read_bytes() == made.read_bytes()
    fit = ("fit", "--method", "ada_ssp", *used, "--epsilon", 1, "--out", clinic.with_name("m.json"))
    code, out, err = call(*fit, "--target", "ill")
    assert code == 0, err
    assert "age=missing" in out
    assert "-DP, replace_one: the number of rows is public" in out
    code, _, err = call("fit", "--method", "ssp", *used, "--epsilon", 1, "--target", "ward")
    assert (code, err.count("\n")) == (2, 1)
    assert "public" in err


def test_nothing_of_the_users_is_overwritten(clinic, call):
    target = clinic.with_name("mine.yaml")
    target.write_text("mine")
    code, _, err = call("domain", "init", clinic, "--out", target)
    assert (code, target.read_text()) == (2, "mine")
    assert "is there already" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("a,b\n", "the table has no rows"),
        ("a,a\n1,2\n", "column 'a' stands twice"),
        ("a\n?\n", "no column can be used (a: no values)"),
    ],
)
def test_a_file_that_cannot_be_drafted_is_one_line(tmp_path, call, text, said):
    (tmp_path / "t.csv").write_text(text)
    code, out, err = call("domain", "init", tmp_path / "t.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_a_file_without_a_header_line_is_noticed(tmp_path, call):
    (tmp_path / "t.csv").write_text("34,yes\n" * 30)
    code, out, _ = call("domain", "init", tmp_path / "t.csv")
    assert code == 0
    assert "look at: the header ('34' is a number" in out


def test_help_has_an_example(call):
    code, out, _ = call("domain", "init", "--help")
    assert code == 0
    assert "Example: marginalia domain init clinic.csv" in " ".join(out.split())


def test_names_and_values_of_a_file_break_no_line(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, value = "odd\n\x1b[31mname\u202e", "v\r\x07" + "x" * 5000
    frame = pd.DataFrame({name: ["a", "b"] * 50, "z" * 5000: [value, "c"] * 50})
    frame.to_csv("t.csv", index=False, quoting=csv.QUOTE_ALL)
    facts = [{"name": n, "type": "string", "labels": ["a", "c"], "inferred": ["labels"]} for n in frame]
    Path("d.json").write_text(json.dumps({"attributes": facts}))
    fit = ("fit", "--method", "ssp", "--data", "t.csv", "--domain", "d.json", "--target", name, "--epsilon", 1)
    for arguments, lines in (
        (("domain", "init", "t.csv"), 3),
        (("datasets", "check", "t.csv", "--domain", "d.json"), 2),
        (("datasets", "check", "t.csv", "--domain", "d.json", "--json"), None),
        (fit, 2),
    ):
        _, out, err = call(*arguments)
        said = (out + err).splitlines()
        assert lines in (None, len(said)), said
        assert all(line.isprintable() and (len(line) < 1100 or lines is None) for line in said)
    with pytest.raises(InputError) as caught:
        Table.read("t.csv", domain=Domain.from_json("d.json"))
    assert str(caught.value).isprintable()


@pytest.mark.slow
def test_a_survey_is_asked_about_in_a_few_lines(tmp_path, call):
    """114 near-identical lines of 120 columns hid the one that mattered."""
    rng = np.random.default_rng(0)
    n = 300
    answers, shares = ["1", "2", "3", "4", "5", "", "don't know"], [0.19] * 5 + [0.02, 0.03]
    frame = {f"q{k}": [*rng.choice(answers, n - 1, p=shares), "don't know"] for k in range(110)}
    frame |= {f"text_{k}": [f"t {v}" for v in rng.permutation(10**6)[:n]] for k in range(9)}
    pd.DataFrame(frame | {"income": np.exp(rng.normal(10, 1.5, n)).round()}).to_csv(tmp_path / "s.csv", index=False)
    code, out, _ = call("domain", "init", tmp_path / "s.csv", "--out", tmp_path / "asked.yaml")
    assert (code, len(out.splitlines())) == (0, 5), out
    assert "look at: q0, q1, q2 and 107 more (some cells are no integer" in out
    code, out, _ = call("domain", "init", tmp_path / "s.csv", "--missing", "don't know")
    assert (code, "don't know" in out, len(out.splitlines())) == (0, False, 5)
    assert "look at: q0, q1, q2 and 107 more (few whole numbers; if they are codes" in out
    facts = yaml.safe_load((tmp_path / "s.domain.yaml").read_text())
    assert facts["defaults"] == {"missing": ["don't know"]}
    assert {tuple(column["inferred"]) for column in facts["attributes"]} == {("type",)}
    assert call("datasets", "check", tmp_path / "s.csv", "--domain", tmp_path / "s.domain.yaml")[0] == 0
