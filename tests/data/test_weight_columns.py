"""Survey weights in domains, drafts and learners: declared with public bounds, proposed but never taken."""

import warnings

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from marginalia.analyses.declared_analyses import DeclaredAnalyses
from marginalia.cli.app import app
from marginalia.data import Domain, Table
from marginalia.data.drafting import as_yaml, draft, questions
from marginalia.data.weights import is_weight, likely_weights
from marginalia.errors import InputError
from marginalia.learning import OLSRegressor, SSPRegressor

WEIGHT = {"name": "w", "type": "integer", "edges": [0, 10, 50], "top": True}
AGE = {"name": "age", "type": "integer", "edges": [0, 40, 90]}
ILL = {"name": "ill", "type": "boolean"}


def domain_of(weight, **keys):
    return Domain.from_dict({"attributes": [AGE, ILL, weight], "weights": "w", **keys})


def test_weights_are_a_column_and_survive_what_keeps_it():
    domain = domain_of(WEIGHT)
    assert domain.weights == "w"
    assert "w" in domain
    assert Domain.from_dict(domain.to_dict()) == domain
    assert domain.to_dict()["weights"] == "w"
    assert domain != domain.replace(weights=None)
    assert "weights" not in domain.replace(weights=None).to_dict()
    assert domain.project(["w", "age"]).weights == "w"
    assert domain.project(["age", "ill"]).weights is None
    assert domain.drop("w").weights is None
    assert domain.with_column(domain["age"].replace(missing=("?",), size=3)).weights == "w"


def test_weights_whose_bins_are_learned_survive_learning():
    domain = domain_of({**WEIGHT, "top": None, "edges": {"private": "adaptive", "bins": 8, "bounds": [0, 500]}})
    assert domain.without_open().weights is None
    assert domain.placeholder().weights == "w"
    assert domain.closed({"w": domain["w"].closed(edges=(0, 20, 500))}).weights == "w"


WRONG = {
    "is of type string; weights are of type integer or number": {"name": "w", "type": "string", "labels": ["a", "b"]},
    "is of type date": {"name": "w", "type": "date", "edges": ["2024-01-01", "2025-01-01"]},
    "is of type code": {"name": "w", "type": "code", "size": 4},
    "needs public bounds from 0": {"name": "w", "type": "integer", "edges": {"private": "adaptive"}},
    "needs public bounds": {"name": "w", "type": "integer", "labels": "private"},
    "has bounds below 0": {"name": "w", "type": "number", "edges": [-9, 10, 20]},
    "bounds below 0; weights are at least 0": {
        "name": "w", "type": "number", "edges": {"private": "uniform", "bins": 4, "bounds": [-1, 9]}
    },
    "and some are above 0": {"name": "w", "type": "integer", "labels": [0]},
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_weights_is_one_line(message):
    with pytest.raises(InputError, match=f"^domain: weights: 'w' .*{message}") as error:
        domain_of(WRONG[message])
    assert "\n" not in str(error.value)


def test_weights_must_be_a_column():
    for keys, message in (
        ({}, "'w' is no column of the domain"),
        ({"ignored": ["w"]}, "'w' is ignored"),
        ({"unit": "w"}, "'w' names the unit"),
    ):
        with pytest.raises(InputError, match=f"weights: {message}; list it under 'attributes'"):
            Domain.from_dict({"attributes": [AGE], "weights": "w", **keys})
    with pytest.raises(InputError, match=r"'weights': .* is not a text"):
        Domain.from_dict({"attributes": [AGE], "weights": ["age"]})


def test_weights_beyond_public_bounds_are_clipped_or_an_error():
    frame = pd.DataFrame({"age": [5, 50], "ill": [True, False], "w": [7, 9000]})
    assert Table.from_frame(frame, domain_of(WEIGHT)).column("w").tolist() == [0, 1]
    with pytest.raises(InputError, match="'w'"):
        Table.from_frame(frame, domain_of({**WEIGHT, "top": False}))


@pytest.mark.parametrize(
    "name",
    [
        *("weight", "WEIGHTS", "wgt", "wt", "pweight", "PWGTP", "WGTP", "PERWT", "HHWT", "ASECWT", "ASECWTH", "WTFA_A"),
        *("WTFINL", "fnlwgt", "final_weight", "SAMPWEIGHT", "sample_weight", "Gewicht", "hochrechnungsfaktor", "poids"),
        *("WTINT2YR", "WTMEC2YR", "WTSSALL", "survey_wt", "PWGTP12", "weight_1"),
    ],
)
def test_names_of_weights(name):
    assert is_weight(name)


@pytest.mark.parametrize(
    "name",
    [
        "weight_kg",
        "birthweight",
        "BodyWeight",
        "wtkg",
        "net_weight",
        "towt",
        "growth",
        "newts",
        "watt",
        "height",
        "wtr",
    ],
)
def test_names_of_other_columns(name):
    assert not is_weight(name)


def survey(n=600):
    rng = np.random.default_rng(3)
    weights = rng.gamma(2.0, 300.0, n).round(2)
    weights[::50], weights[7::60] = -9, 0
    return pd.DataFrame({"AGE": rng.integers(18, 90, n), "PWGTP": weights, "PWGTP1": rng.integers(1, 400, n)})


def test_a_draft_proposes_weights_in_a_comment_and_takes_none():
    found = draft(survey())
    text = as_yaml(found, "survey.csv")
    assert "\n# weights: PWGTP\n" in text
    assert "bounds: [0, LARGEST]" in text
    drafted = Domain.from_dict(yaml.safe_load(text))
    assert drafted.weights is None
    assert drafted["PWGTP"].special == ("-9",)
    assert [line for line in questions(found) if line.startswith("weights: PWGTP (")]
    with pytest.raises(InputError, match="'PWGTP' needs public bounds"):
        Domain.from_dict(yaml.safe_load(text.replace("# weights:", "weights:")))
    bounded = text.replace("bins: 16}", "bins: 32, bounds: [0, 5000]}").replace("# weights:", "weights:")
    assert Domain.from_dict(yaml.safe_load(bounded)).weights == "PWGTP"


def test_a_draft_proposes_nothing_without_a_name_of_weights():
    found = draft(survey().rename(columns={"PWGTP": "pay", "PWGTP1": "hours"}))
    assert "weights:" not in as_yaml(found, "t.csv")
    assert not [line for line in questions(found) if line.startswith("weights")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["age", "weight"], "weight"),
        (["patient", "ward", "weight"], None),
        (["patient_id", "PERWT", "weight"], "PERWT"),
        (["award", "weight"], "weight"),
        (["BMI", "WTMEC2YR"], "WTMEC2YR"),
        (["PWGTP1", "PWGTP2", "PWGTP"], "PWGTP"),
        (["age"], None),
    ],
)
def test_the_likely_weights_follow_from_all_names(names, expected):
    assert likely_weights(names, names) == expected


def test_whole_weights_that_all_differ_are_no_identifier():
    frame = pd.DataFrame({"PERWT": np.random.default_rng(0).permutation(500), "sex": ["f", "m"] * 250})
    assert draft(frame).weights == "PERWT"


@pytest.fixture
def table():
    codes = np.random.default_rng(0).integers(0, 2, (500, 3))
    return Table(codes, domain_of(WEIGHT))


LEARNERS = [SSPRegressor(epsilon=1.0, random_state=0), OLSRegressor()]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_a_learner_says_that_it_uses_no_weights(table, learner):
    with pytest.warns(
        UserWarning, match="does not use the survey weights `w`: each row counts once, and `w` is a feature"
    ):
        learner.fit(table, "age")
    with pytest.raises(InputError, match="target 'w' holds the survey weights of the domain"):
        learner.fit(table, "w")


def test_without_weights_a_learner_says_nothing(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SSPRegressor(epsilon=1.0, random_state=0).fit(Table(table.codes, table.domain.replace(weights=None)), "age")


def test_declared_analyses_say_that_they_use_no_weights(table):
    made = DeclaredAnalyses(analyses={"analyses": [{"formula": "age ~ ill"}]}, epsilon=1.0, random_state=0)
    with pytest.warns(UserWarning, match="declared analyses do not use the survey weights `w`: each row counts once"):
        made.fit(table)


@pytest.mark.parametrize("edges", [[0, 10, 50], {"private": "adaptive", "bins": 4, "bounds": [0, 50]}])
def test_the_comparison_with_synthetic_rows_says_that_it_is_unweighted(edges, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 90, 60), "ill": rng.random(60) < 0.5, "w": rng.integers(0, 50, 60)})
    for name in ("t.csv", "s.csv"):
        frame.to_csv(tmp_path / name, index=False)
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(domain_of({**WEIGHT, "edges": edges, "top": None}).to_dict()))
    result = CliRunner().invoke(
        app, ["quality", *(str(tmp_path / f) for f in ("t.csv", "s.csv")), "--domain", str(tmp_path / "d.yaml")]
    )
    assert "Each row counts once, whatever its survey weight in `w`." in result.output
