"""Persons instead of rows, on the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from marginalia.cli.app import app
from marginalia.synthesis.base import Synthesizer

AGE = {"name": "age", "type": "integer", "edges": [0, 20, 40, 60, 80]}
ILL = {"name": "ill", "type": "string", "labels": ["no", "yes"]}


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    patient = rng.integers(0, 100, 600)
    frame = pd.DataFrame({"patient": patient, "age": rng.integers(0, 80, 600), "ill": rng.choice(["no", "yes"], 600)})
    frame.to_csv(tmp_path / "stays.csv", index=False)
    (tmp_path / "d.json").write_text(json.dumps({"attributes": [AGE, ILL], "ignored": ["patient"]}))
    (tmp_path / "units.json").write_text(json.dumps({"attributes": [AGE, ILL], "unit": "patient", "rows_per_unit": 2}))
    return tmp_path


@pytest.fixture
def run(stays: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(stays)
    monkeypatch.setattr(Synthesizer, "UNITS", True)

    def run(command: str, *, code: int = 0):
        done = CliRunner().invoke(app, command.split())
        assert done.exit_code == code, done.output
        return done

    return run


SYNTHESIZE = "synthesize --method gaussian_marginals --data stays.csv --epsilon 1 --out s.csv --seed 0"


def test_options_say_what_the_domain_file_may_say(run) -> None:
    said = run(f"{SYNTHESIZE} --domain d.json --unit patient --rows-per-unit 3")
    assert "protects one `patient`, at most 3 rows each" in said.stdout
    assert "100 different `patient`" not in said.stdout  # what is read off the rows is for stderr alone
    assert "100 different `patient`" in said.stderr
    assert "patient" not in Path("s.csv").read_text()
    certificate = json.loads(Path("s.csv.certificate.json").read_text())
    assert "'column': 'patient'" in str(certificate)
    assert "off the private rows" not in str(certificate)
    assert "at most 2 rows each" in run(f"{SYNTHESIZE} --domain units.json").stdout
    assert "at most 5 rows each" in run(f"{SYNTHESIZE} --domain units.json --rows-per-unit 5").stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--domain units.json --unit ward", "the unit is 'patient' in the domain and 'ward' here"),
        ("--domain d.json --unit age", "it is no column of the domain"),
        ("--domain d.json --rows-per-unit 3", "'rows_per_unit' goes with 'unit'"),
        ("--domain d.json --unit clinic", "column 'clinic' of the domain is missing"),
    ],
)
def test_what_cannot_be_a_unit_is_one_line(run, options: str, why: str) -> None:
    said = CliRunner().invoke(app, f"{SYNTHESIZE} {options}".split())
    assert said.exit_code != 0
    assert why in str(said.exception) + said.stderr


def test_the_owner_is_told_how_many_rows_are_left_out(run) -> None:
    told = "100 different `patient`, 1 to"
    assert told in run("datasets check stays.csv --domain units.json").stdout
    run(f"{SYNTHESIZE} --domain units.json")
    assert told in run("quality stays.csv s.csv --domain units.json").stdout
    assert told not in Path("s.csv.certificate.json").read_text()


def test_what_comes_after_a_fit_needs_no_column_of_units(run, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalia.methods.ssp import SSPClassifier

    monkeypatch.setattr(SSPClassifier, "UNITS", True)
    run("fit --method ssp --data stays.csv --domain units.json --target ill --epsilon 1 --seed 0 --out m.json")
    pd.read_csv("stays.csv").drop(columns=["patient", "ill"]).to_csv("new.csv", index=False)
    assert len(run("predict --model m.json --data new.csv").stdout.splitlines()) == 601
    assert len(run("predict --model m.json --data stays.csv").stdout.splitlines()) == 601
