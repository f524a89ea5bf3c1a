"""Columns that are made of raw columns: indicators to levels, counts top-coded, missing answers."""

import pandas as pd
import pytest

from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.readers.r_csv import prepare
from marginalia.papers.cross_paper.cross_paper_classes import TARGETS

_HEALTH = ("exhealth", "vghealth", "goodhealth", "fairhealth")
_PLACES = ("northeast", "midwest", "south", "outercity", "centcity")


@pytest.mark.parametrize(
    ("ones", "levels"),
    [
        ((), ["poor", "west", "other"]),
        (("exhealth", "south", "centcity"), ["excellent", "south", "central city"]),
        (("fairhealth", "northeast", "outercity"), ["fair", "northeast", "outer city"]),
    ],
)
def test_indicators_become_levels(ones, levels):
    raw = pd.DataFrame({name: ["1" if name in ones else "0"] for name in (*_HEALTH, *_PLACES)}).assign(famsize="9")
    row = prepare("alcohol", raw).iloc[0]
    assert row[["health", "region", "place"]].tolist() == levels
    assert row["famsize"] == "8+"


def test_missing_answers_are_levels_or_the_declared_value():
    asked = {"educ": None, "babies": None, "preteen": "5", "teens": "1", "attend": None, "happy": "very happy"}
    assert prepare("happiness", pd.DataFrame([asked])).iloc[0].to_dict() == {
        "educ": "12", "babies": "0", "preteen": "4+", "teens": "1", "attend": "unknown", "happy": "very happy",
    }  # fmt: skip
    row = prepare("chile", pd.DataFrame([dict.fromkeys(("education", "income", "age", "statusquo"))])).iloc[0]
    assert row.tolist() == ["unknown", "30000", "40", "0", False]
    assert prepare("cps91", pd.DataFrame({"husunion": [None, "1"]}))["husunion"].tolist() == ["unknown", "1"]


def test_pupils_without_a_known_graduation_are_left_out():
    assert prepare("catholic", pd.DataFrame({"hsgrad": [".", "1"]}))["hsgrad"].tolist() == ["1"]


def test_what_tells_the_target_is_no_column():
    told = {"pensions": "p401k", "alcohol": "inwf", "cps91": "hours", "labsup": "weeks", "happiness": "vhappy"}
    for name, column in told.items():
        assert column not in {a["name"] for a in catalogue.describe(name)["attributes"]}


def test_every_target_of_several_classes_is_a_label_of_its_data_set():
    sizes = {name: {a["name"]: a["size"] for a in catalogue.describe(name)["attributes"]} for name in TARGETS}
    assert [sizes[name][target] for name, target in TARGETS.items()] == [5, 4, 4, 3, 3, 4]
