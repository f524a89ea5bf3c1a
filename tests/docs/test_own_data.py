"""The page about own data: its commands run in its order, and print what stands there."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from printed import commands, same

from marginalia.data.catalogue.entry import Entry, parse_entry
from marginalia.data.datasets import load
from marginalia.reporting.formats import read_csv, wide
from marginalia.sweep import config

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "own-data.md"
OWN_METHOD = ROOT / "docs" / "own-method.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
WORKED = [pair for kind, text in BLOCKS if kind == "console" and "examples/" in text for pair in commands(text)]
(SWEEP,) = (text.strip() for language, text in BLOCKS if language == "sh")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_page_runs_as_it_is_printed(folder, call):
    domain = folder / "clinic.domain.yaml"
    yaml_blocks = iter([text for language, text in BLOCKS if language == "yaml"])
    for language, text in BLOCKS:
        if language == "text":
            (folder / "hospital.csv").write_text(text, encoding="latin-1")
        elif language == "python":
            exec(compile(text, PAGE.name, "exec"), {})
        elif language == "console" and "examples/" not in text:
            command, _, printed = text.partition("\n")
            code, out, err = call(*shlex.split(command.removeprefix("$ marginalia ")))
            assert (out + err if code else out) == printed
            if code:  # the page says: without its last two lines
                domain.write_text("".join(domain.read_text().splitlines(keepends=True)[:-2]))
        elif language == "yaml":
            block = next(yaml_blocks)
            if block.startswith("source:"):
                domain.write_text(block)
            elif block.startswith("datasets:"):
                (folder / "config.yaml").write_text(block)
            elif block.startswith("# stays.yaml"):
                (folder / "stays.yaml").write_text(block)
            elif block.startswith("    book:"):  # of the entry
                assert "book" in Entry.model_fields
            else:
                assert block in domain.read_text()
        elif language == "":
            assert (folder / "synthetic.csv").read_text() == text
    (entry,) = config.read("config.yaml").datasets
    dataset = load(parse_entry(entry.pop("name"), entry, folder=folder))
    assert dataset.table.n_rows == 400
    (entry,) = config.read("stays.yaml").datasets
    stays = load(parse_entry(entry.pop("name"), entry, folder=folder)).table
    assert stays.codes[:, 1:].tolist() == [
        [1, 4, 2, 3, 0],
        [0, 4, 5, 6, 0],
        [0, 3, 3, 3, 1],
        [2, 0, 6, 1, 0],
        [1, 1, 1, 5, 0],
    ]


def check_release(examples):
    """Hold what the commands wrote against the domain and the real table, as a user reads them.

    The noise has no seed. The number of rows has a deviation of 9, and the correlation one of .009 about .62 (without
    privacy it is .67): each bound is ten deviations away.
    """
    from marginalia.data.checking import check

    real = pd.read_csv(examples / "clinic.csv", keep_default_na=False)
    assert real.shape == (10_000, 12)
    synthetic = pd.read_csv(examples / "synthetic.csv", keep_default_na=False)
    assert list(synthetic.columns) == list(real.columns[1:])
    assert check(examples / "synthetic.csv", examples / "clinic.yaml") == []
    assert abs(len(synthetic) - len(real)) < 100
    assert {"?", "m", "f"} == set(synthetic["sex"])
    predicted = pd.read_csv(examples / "predictions.csv")["length_of_stay"]
    assert predicted.corr(real["length_of_stay"]) > 0.53  # in days
    assert predicted.between(1, 30).all()


@pytest.mark.slow
def test_the_worked_case_runs_as_it_is_printed(repository, follow, call):
    """All but the sweep, of which this is the plan; a slow test runs that too."""
    for command, printed in WORKED:
        follow(command, printed)
    check_release(repository / "examples")
    code, out, _ = call("plan", *shlex.split(SWEEP.removeprefix("snakemake ")), "--json")
    assert code == 0
    assert '"run_methods"' in out


@pytest.mark.slow
def test_the_worked_case_runs_in_a_shell(repository):
    """With the sweep; within ten minutes on two cores."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "\n".join(["set -e", *(command for command, _ in WORKED), SWEEP])
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check_release(repository / "examples")
    results = repository / "results" / "clinic"
    assert (results / "report.html").stat().st_size > 50_000
    assert pd.read_csv(results / "tables" / "failures.csv").empty
    aucs = pd.read_csv(results / "tables" / "auc.csv")
    assert "naive_bayes" in set(aucs["method"])
    (shown,) = re.findall(r"^\$ python -c .*auc.csv.*\n(.*?)^```$", OWN_METHOD.read_text(), flags=re.M | re.S)
    table = wide(read_csv(results / "tables" / "auc.csv")).to_string(index=False).splitlines()
    assert set(map(same, shown.splitlines())) <= set(map(same, table))


def test_the_page_of_domain_files_names_every_key():
    from marginalia.data.column import _FILE_KEYS
    from marginalia.data.domain import _KEYS

    named = set(re.findall(r"`([a-z_]+)`", PAGE.with_name("domain-files.md").read_text(encoding="utf-8")))
    assert {*_FILE_KEYS, *_KEYS} <= named
