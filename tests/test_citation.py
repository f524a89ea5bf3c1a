"""What a citation, a deposit and the package say about the project: the same."""

import json
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
DEPOSIT = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_is_of_this_package():
    assert CITATION["title"].partition(":")[0] == PROJECT["name"]
    assert str(CITATION["version"]) == PROJECT["version"]
    assert CITATION["license"] == PROJECT["license"]
    assert [author["name"] for author in CITATION["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_the_deposit_is_of_what_is_cited():
    """Without a version, which a deposit takes from the release, and without a DOI, which it is given."""
    assert DEPOSIT["title"] == CITATION["title"]
    assert DEPOSIT["license"] == CITATION["license"]
    assert DEPOSIT["creators"] == CITATION["authors"]
    assert DEPOSIT["keywords"] == PROJECT["keywords"]
    assert DEPOSIT["upload_type"] == CITATION["type"]
    assert not {"version", "doi"} & set(DEPOSIT)


@pytest.mark.parametrize("reference", CITATION["references"], ids=lambda one: one["title"])
def test_authors_of_a_reference_are_told_apart(reference):
    """The schema of citation files refuses a list with two that are the same."""
    authors = [tuple(sorted(author.items())) for author in reference["authors"]]
    assert len(set(authors)) == len(authors)
