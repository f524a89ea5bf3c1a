"""What answers are about: where k rows of each unit were kept, the kept rows, and every answer states it."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from marginalia.analyses.declared_analyses import DeclaredAnalyses
from marginalia.cli.app import app
from marginalia.data import Domain, Table
from marginalia.data.units import Unit
from marginalia.inference import marginals, regression
from marginalia.inference.learners import coefficients
from marginalia.inference.release import ALL_ROWS, Release, estimand_of
from marginalia.learning import SSPRegressor
from marginalia.synthesis import ResidualPlanner

UNIT = Unit("id", 1)
KEPT = "over at most 1 row per id"
NOTE = "of each id at most 1 row was kept: this is an answer per id, each counts once; it estimates the kept rows, not"


@pytest.fixture(scope="module")
def table():
    codes = np.random.default_rng(0).integers(0, 2, (400, 2))
    return Table(codes, Domain.from_sizes({"a": 2, "y": 2}))


def of_units(table):
    return table.of_units(UNIT, np.arange(len(table)))


def answers(release):
    yield from marginals.cells(release, ["a", "y"])
    yield from marginals.cells(release, ["a"], simultaneous=True)
    yield from marginals.shares(release, ["a", "y"])
    yield marginals.mean(release, "y")
    yield marginals.quantile(release, "y", 0.5)
    yield marginals.odds_ratio(release, "a", "y")
    yield marginals.difference(release, ["a"], [0], [1])


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_every_answer_states_the_rows_that_it_is_about(table, relation):
    for rows, estimand in ((table, ALL_ROWS), (of_units(table), KEPT)):
        model = ResidualPlanner(epsilon=50.0, relation=relation, random_state=0).fit(rows)
        found = list(answers(Release.of(model)))
        assert {one.estimand for one in found} == {estimand}
        assert all((f", {KEPT}: " in str(one)) == (estimand == KEPT) for one in found)
        fitted = regression(model, "y ~ a")
        assert fitted.estimand == estimand
        assert (f"coefficients of the private table, {KEPT};" in str(fitted)) == (estimand == KEPT)
        assert (NOTE in str(fitted)) == (estimand == KEPT)


def test_coefficients_of_a_learner_state_them_too(table):
    for rows, estimand in ((table, ALL_ROWS), (of_units(table), KEPT)):
        found = coefficients(SSPRegressor(epsilon=50.0, random_state=0).fit(rows, "y"))
        assert found.estimand == estimand
        assert (NOTE in str(found)) == (estimand == KEPT)


def test_declared_analyses_state_them_too(table):
    settings = {"analyses": {"analyses": [{"formula": "y ~ a"}]}, "epsilon": 50.0, "random_state": 0}
    for rows, estimand in ((table, ALL_ROWS), (of_units(table), KEPT)):
        model = DeclaredAnalyses(**settings).fit(rows)
        assert {one.estimand for one in (regression(model, "y ~ a"), regression(model.declared_, "y ~ a"))} == {
            estimand
        }


def test_several_rows_and_a_learned_number_are_named():
    assert estimand_of(Unit("patient", 3)) == "over at most 3 rows per patient"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Persons with many rows have larger values, so that the mean over persons is not the mean over rows."""
    folder = tmp_path_factory.mktemp("units")
    rows = [(person, 1 + 2 * (person % 2), person % 2) for person in range(1000) for _ in range(1 + 3 * (person % 2))]
    pd.DataFrame(rows, columns=["id", "y", "a"]).to_csv(folder / "t.csv", index=False)
    columns = [{"name": "y", "type": "integer", "labels": ["1", "3"], "kind": "numeric"}, {"name": "a", "size": 2}]
    (folder / "d.json").write_text(json.dumps({"attributes": columns, "unit": "id", "rows_per_unit": 1}))
    data = ["--data", folder / "t.csv", "--domain", folder / "d.json", "--epsilon", 5]
    run(
        "synthesize",
        "--method",
        "residual_planner",
        *data,
        "--seed",
        0,
        "--out",
        folder / "s.csv",
        "--model",
        folder / "m.npz",
    )
    return folder


def run(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_infer_prints_them_in_text_and_json(folder):
    """The mean over all rows is 2.6, that over persons 2.0."""
    lines = run("infer", folder / "m.npz", "--mean", "y").splitlines()
    assert lines[0].startswith(f"mean of y, {KEPT}: ")
    assert lines[1].startswith(NOTE)
    content = json.loads(run("infer", folder / "m.npz", "--mean", "y", "--json"))
    (mean,) = content["intervals"]
    assert mean["estimand"] == KEPT
    assert 1.9 < mean["low"] < 2.0 < mean["high"] < 2.1
    assert content["notes"][0].startswith(NOTE)
    for question in (["--marginal", "y"], ["--marginal", "y", "--shares"], ["--quantile", "y,0.5"]):
        found = json.loads(run("infer", folder / "m.npz", *question, "--json"))["intervals"]
        assert {one["estimand"] for one in found} == {KEPT}


@pytest.mark.slow
def test_the_page_on_persons_shows_what_its_code_prints(capsys):
    page = (Path(__file__).parents[2] / "docs/persons.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    exec(code, {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert [line for line in lines if line not in page.splitlines()] == []
