"""Descriptions of columns that users have for other programs, each in the form that this program writes."""

import json

import pandas as pd
import pytest
import yaml

from marginalia.data.domain import Domain
from marginalia.data.importing import read_description
from marginalia.data.table import RawTable, Table
from marginalia.errors import InputError

PRIVATE = {"private": "adaptive", "bins": 16}


def imported(folder, content, name="d.json", **more):
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text)
    found = read_description(folder / name, **more)
    domain = Domain.from_dict(found.content())
    assert not domain.inferred
    return found, {column["name"]: column for column in found.content()["attributes"]}


DPSYNTH = """
age:
  clip_to_range: true
  dtype: int
  max_value: 120.0
  min_value: 0.0
income: {type: NumericalAttribute, min_value: 0.0, max_value: 1000000.0, clip_to_range: false, sentinel: -1}
stay: {type: NumericalAttribute, min_value: 0, max_value: 10, dtype: int}
ward:
  type: CategoricalAttribute
  out_of_domain_index: 0
  possible_values: [Unknown, surgery, medicine]
sex:
  possible_values: [M, F]
  out_of_domain_index: 0
  description: as registered
code: {possible_values: [1, 2, 9]}
dead: {possible_values: [false, true]}
married: {possible_values: [None, 'yes', 'no']}
city: {type: OpenSetCategoricalAttribute, default_value: <OOD>}
plain: {}
notes: {type: FreeFormTextAttribute, max_tokens: 256}
"""


def test_dpsynth(tmp_path):
    found, columns = imported(tmp_path, DPSYNTH, "d.yaml")
    assert columns["age"] == {"name": "age", "type": "integer", "edges": {**PRIVATE, "bounds": [0, 121]}}
    assert columns["income"]["edges"] == {**PRIVATE, "bounds": [0, 1000000]}
    assert (columns["income"]["type"], columns["income"]["missing"]) == ("number", ["-1"])
    assert columns["stay"]["edges"] == list(range(12))
    assert (columns["stay"]["bottom"], columns["stay"]["top"], columns["stay"]["missing"]) == (True, True, [])
    assert columns["ward"] == {
        "name": "ward",
        "type": "string",
        "labels": ["surgery", "medicine"],
        "other": "Unknown",
        "missing": [],
    }
    assert columns["sex"]["labels"] == ["M", "F"]
    assert columns["code"] == {"name": "code", "type": "integer", "labels": [1, 2, 9]}
    assert columns["dead"] == {"name": "dead", "type": "boolean"}
    assert (columns["married"]["labels"], columns["married"]["missing"]) == (["yes", "no"], ["None"])
    assert columns["city"] == {"name": "city", "type": "string", "labels": "private", "other": "<OOD>"}
    assert columns["plain"]["labels"] == "private"
    assert found.content()["ignored"] == ["notes"]
    assert found.lines() == ["ignored: notes (free text)"]


def test_a_schema_of_dpsynth_with_constraints(tmp_path):
    schema = {
        "type": "Schema",
        "attributes": {
            "sex": {"type": "CategoricalAttribute", "possible_values": ["M", "F"]},
            "ill": {"type": "CategoricalAttribute", "possible_values": ["no", "pregnant"]},
            "area": {"type": "CategoricalAttribute", "possible_values": ["a1", "a2", "b1"]},
            "state": {"type": "CategoricalAttribute", "possible_values": ["a", "b"]},
            "age": {"type": "NumericalAttribute", "min_value": 0.0, "max_value": 100.0},
        },
        "constraints": [
            {"type": "Constraint", "attribute_names": ["sex", "ill"], "impossible_combinations": [["M", "pregnant"]]},
            {"attribute_names": ["area", "state"], "functional_dependency": {"a1": "a", "a2": "a", "b1": "b"}},
            {"attribute_names": ["state", "sex"], "possible_combinations": [["a", "M"], ["a", "F"], ["b", "F"]]},
            {"attribute_names": ["age", "sex"], "impossible_combinations": [[1, "M"]]},
        ],
    }
    for content in (schema, {"type": "TabularConfig", "schema": schema, "numerical_bins": 32}):
        found, columns = imported(tmp_path, yaml.safe_dump(content, sort_keys=False), "d.yaml")
        assert len(columns) == 5
        assert found.more["structural_zeros"] == [
            {"attributes": ["sex", "ill"], "cells": [[0, 1]]},
            {"attributes": ["area", "state"], "cells": [[0, 1], [1, 1], [2, 0]]},
            {"attributes": ["state", "sex"], "cells": [[1, 0]]},
        ]
        assert found.remarks == ["the constraint on age and sex is not taken over: it needs columns with labels"]


def test_one_of_several_tables(tmp_path):
    tables = {
        "households": {"income": {"min_value": 0, "max_value": 9}},
        "persons": {"age": {"min_value": 0, "max_value": 9}},
    }
    text = yaml.safe_dump({"tables": tables, "foreign_keys": []})
    assert list(imported(tmp_path, text, "d.yaml", table="persons")[1]) == ["age"]
    with pytest.raises(InputError, match=r"2 tables \(households, persons\); name one by --table"):
        imported(tmp_path, text, "d.yaml")
    with pytest.raises(InputError, match="unknown table 'person'; did you mean 'persons'"):
        imported(tmp_path, text, "d.yaml", table="person")


@pytest.mark.parametrize(
    "content",
    [
        {"age": 85, "workclass": 9},
        {"attributes": ["age", "workclass"], "shape": [85, 9]},
        {"attributes": ["age", "workclass"], "shape": [85, 9], "labels": None},
    ],
)
def test_mbi(tmp_path, content):
    found, columns = imported(tmp_path, content)
    assert (found.format, columns["age"]) == ("mbi", {"name": "age", "type": "code", "size": 85})
    assert Domain.from_dict(found.content()).sizes == (85, 9)


def test_mbi_with_labels(tmp_path):
    content = {"attributes": ["sex", "age"], "shape": [2, 3], "labels": [["m", "f"], None]}
    assert imported(tmp_path, content)[1]["sex"]["labels"] == ["m", "f"]


SDV = {
    "METADATA_SPEC_VERSION": "V1",
    "tables": {
        "hotels": {
            "primary_key": "hotel_id",
            "columns": {"hotel_id": {"sdtype": "id"}, "city": {"sdtype": "categorical"}},
        },
        "guests": {
            "primary_key": "guest_email",
            "columns": {
                "guest_email": {"sdtype": "email", "pii": True},
                "hotel_id": {"sdtype": "id", "regex_format": "HID_[0-9]{3}"},
                "has_rewards": {"sdtype": "boolean"},
                "room_type": {"sdtype": "categorical", "order": ["basic", "deluxe", "suite"]},
                "purpose": {"sdtype": "categorical"},
                "amenities_fee": {"sdtype": "numerical", "computer_representation": "Float"},
                "nights": {"sdtype": "numerical", "computer_representation": "Int64"},
                "checkin_date": {"sdtype": "datetime", "datetime_format": "%d %b %Y"},
                "booked": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d %H:%M:%S"},
                "month": {"sdtype": "datetime", "datetime_format": "%m/%Y"},
                "card": {"sdtype": "credit_card_number", "pii": True},
                "postcode": {"sdtype": "postcode", "pii": False},
            },
        },
    },
    "relationships": [
        {
            "parent_table_name": "hotels",
            "parent_primary_key": "hotel_id",
            "child_table_name": "guests",
            "child_foreign_key": "hotel_id",
        }
    ],
}


def test_sdv(tmp_path):
    found, columns = imported(tmp_path, SDV, table="guests")
    assert columns["has_rewards"] == {"name": "has_rewards", "type": "boolean", "missing": []}
    assert columns["room_type"]["labels"] == ["basic", "deluxe", "suite"]
    assert columns["room_type"]["kind"] == "ordinal"
    assert columns["purpose"]["labels"] == "private"
    assert (columns["amenities_fee"]["type"], columns["nights"]["type"]) == ("number", "integer")
    assert columns["checkin_date"] == {"name": "checkin_date", "type": "date", "format": "%d %b %Y", "edges": PRIVATE}
    assert (columns["booked"]["type"], columns["booked"]["unit"]) == ("timestamp", "second")
    assert "format" not in columns["booked"]
    assert columns["postcode"]["labels"] == "private"
    assert set(found.content()["ignored"]) == {"guest_email", "hotel_id", "card", "month"}
    lines = found.lines()
    assert "not in the file: bounds of amenities_fee, nights, checkin_date and 1 more" in lines
    assert "not in the file: labels of purpose, postcode" in lines
    assert "hotel_id names a row of hotels: if these are persons, say `unit: hotel_id`" in lines
    assert any(line.startswith("ignored: month (format '%m/%Y' gives no") for line in lines)


def test_sdv_of_sequences_names_the_privacy_unit(tmp_path):
    columns = {"patient": {"sdtype": "id"}, "pulse": {"sdtype": "numerical"}}
    content = {"METADATA_SPEC_VERSION": "SINGLE_TABLE_V1", "columns": columns, "sequence_key": "patient"}
    found, columns = imported(tmp_path, content)
    assert list(columns) == ["pulse"]
    assert Domain.from_dict(found.content()).unit.column == "patient"
    assert "ignored" not in found.content()


NIST = {
    "schema": {
        "PUMA": {"dtype": "object", "values": ["25-00503", "25-00703"]},
        "AGEP": {"dtype": "int64", "min": 0, "max": 94},
        "SEX": {"dtype": "int64", "values": [1, 2]},
        "MSP": {"has_null": True, "null_value": "N", "dtype": "object", "values": ["N", "1", "2"]},
        "DENSITY": {"dtype": "float64", "min": 1457, "max": 3683},
        "PINCP": {"has_null": True, "null_value": "N", "dtype": "object", "min": -4600, "max": 1341000},
        "HHWT": {"dtype": "float"},
        "FOUNDED1": {"null_value": "", "has_null": True, "values": [0, 1, 2], "dtype": "float64"},
        "TABWGT": {"values": {"min": 0, "max": 999.999, "step size": 0.001}, "dtype": "float64"},
    }
}


@pytest.mark.parametrize("content", [NIST, NIST["schema"], NIST | {"runs": [{"max_records_per_individual": 7}]}])
def test_nist_schemas(tmp_path, content):
    found, columns = imported(tmp_path, content)
    assert columns["PUMA"]["labels"] == ["25-00503", "25-00703"]
    assert columns["AGEP"] == {"name": "AGEP", "type": "integer", "edges": {**PRIVATE, "bounds": [0, 95]}}
    assert columns["SEX"] == {"name": "SEX", "type": "integer", "labels": [1, 2]}
    assert columns["MSP"] == {"name": "MSP", "type": "string", "labels": ["1", "2"], "missing": ["N"]}
    assert (columns["DENSITY"]["type"], columns["DENSITY"]["edges"]["bounds"]) == ("number", [1457, 3683])
    assert (columns["PINCP"]["type"], columns["PINCP"]["missing"]) == ("integer", ["N"])
    assert columns["PINCP"]["edges"]["bounds"] == [-4600, 1341001]
    assert columns["FOUNDED1"] == {"name": "FOUNDED1", "type": "integer", "labels": [0, 1, 2], "missing": []}
    assert (columns["TABWGT"]["decimals"], columns["TABWGT"]["edges"]["bounds"]) == (3, [0, 999.999])
    assert found.lines()[0] == "not in the file: bounds of HHWT"
    assert ("rows_per_unit: 7" in "".join(found.lines())) == ("runs" in content)


def test_a_data_dictionary_of_nist(tmp_path):
    content = {
        "SEX": {"description": "Person's gender", "values": {"1": "Male", "2": "Female"}},
        "AGEP": {"description": "Person's age", "values": {"min": 0, "max": 99}},
        "POVPIP": {"description": "Income to poverty", "values": {"N": "N/A", "min": 0, "max": 500, "501": "above"}},
        "NOC": {
            "description": "Children",
            "values": {"N": "N/A (vacant)", "0": "No own children", "min": 1, "max": 12},
        },
        "PINCP": {"description": "Income", "N": "N/A (less than 15 years old)", "min": -9000, "max": 1341000},
        "INDP": {"description": "Industry codes", "link": "https://census.example"},
        "DECILE": {"description": "Income in decile bins", "N": "N/A", "1": "10th", "0": "0th"},
    }
    found, columns = imported(tmp_path, content)
    assert found.format == "nist"
    assert columns["SEX"] == {"name": "SEX", "type": "string", "labels": ["1", "2"]}
    assert columns["AGEP"]["edges"]["bounds"] == [0, 100]
    assert (columns["POVPIP"]["edges"]["bounds"], columns["POVPIP"]["special"]) == ([0, 502], ["N"])
    assert columns["NOC"]["edges"] == list(range(14))
    assert columns["PINCP"]["special"] == ["N"]
    assert columns["INDP"]["labels"] == "private"
    assert columns["DECILE"]["labels"] == ["N", "1", "0"]
    assert found.lines() == ["not in the file: labels of INDP"]


FRICTIONLESS = {
    "fields": [
        {"name": "id", "type": "integer"},
        {"name": "mail", "type": "string", "format": "email"},
        {"name": "ward", "type": "string", "constraints": {"enum": ["A", "B"], "required": True}},
        {
            "name": "fruit",
            "type": "integer",
            "categories": [{"value": 0, "label": "apple"}, {"value": 1, "label": "pear"}],
        },
        {
            "name": "agree",
            "type": "integer",
            "categories": [1, 2, 3],
            "categoriesOrdered": True,
            "missingValues": ["-"],
        },
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "weight", "type": "number", "constraints": {"minimum": 0}},
        {"name": "pain", "type": "integer", "missingValues": [{"value": "-99", "label": "refused"}, {"value": ""}]},
        {"name": "city", "type": "string"},
        {"name": "ill", "type": "boolean", "trueValues": ["J"], "falseValues": ["N"]},
        {"name": "dead", "type": "boolean", "constraints": {"required": True}},
        {
            "name": "born",
            "type": "date",
            "format": "%d.%m.%Y",
            "constraints": {"minimum": "01.01.1900", "maximum": "31.12.2020"},
        },
        {"name": "seen", "type": "datetime"},
        {"name": "year", "type": "year", "constraints": {"minimum": 1990, "maximum": 2030}},
        {"name": "place", "type": "geopoint"},
        {"name": "what"},
    ],
    "missingValues": ["", "NA"],
    "primaryKey": "id",
    "foreignKeys": [{"fields": "ward", "reference": {"resource": "wards", "fields": "code"}}],
}


@pytest.mark.parametrize(
    ("said", "form"),
    [
        ({"type": "number", "decimalChar": ",", "groupChar": "."}, "#.##0,#"),
        ({"type": "number", "decimalChar": ","}, "0,#"),
        ({"type": "integer", "groupChar": ","}, "#,##0"),
        ({"type": "number", "decimalChar": "."}, None),
    ],
)
def test_frictionless_says_how_numbers_are_written(tmp_path, said, form):
    assert imported(tmp_path, {"fields": [{"name": "a", **said}]})[1]["a"].get("format") == form
    for more, reason in (({"bareNumber": False}, "signs beside them"), ({"groupChar": "_"}, "is no format of numbers")):
        found, _ = imported(tmp_path, {"fields": [{"name": "a", **said, **more}, {"name": "b", "type": "integer"}]})
        assert found.content()["ignored"] == ["a"]
        assert reason in found.lines()[0]


@pytest.mark.parametrize("package", [False, True])
def test_frictionless(tmp_path, package):
    content = {"name": "p", "resources": [{"name": "stays", "schema": FRICTIONLESS}]} if package else FRICTIONLESS
    found, columns = imported(tmp_path, content)
    assert columns["ward"] == {"name": "ward", "type": "string", "labels": ["A", "B"], "missing": ["NA"]}
    assert (columns["fruit"]["type"], columns["fruit"]["labels"]) == ("integer", [0, 1])
    assert (columns["agree"]["kind"], columns["agree"]["missing"]) == ("ordinal", ["-"])
    assert columns["age"]["edges"]["bounds"] == [0, 121]
    assert columns["weight"]["edges"] == PRIVATE
    assert columns["pain"]["special"] == ["-99"]
    assert columns["city"]["labels"] == columns["what"]["labels"] == "private"
    assert columns["ill"]["labels"] == ["N", "J"]
    assert columns["dead"]["type"] == "boolean"
    assert columns["born"]["edges"]["bounds"] == ["1900-01-01", "2021-01-01"]
    assert (columns["seen"]["type"], columns["seen"]["unit"]) == ("timestamp", "second")
    assert columns["year"]["edges"]["bounds"] == [1990, 2031]
    assert found.content()["ignored"] == ["id", "mail", "place"]
    assert "not in the file: bounds of weight, pain, seen" in found.lines()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"attributes": [{"name": "a", "size": 2}]}, "this is a domain file already"),
        ({"a": "b"}, "not a description of columns that is known; name its format by --format: dpsynth, mbi"),
        ([1], "expected names of columns with what they hold"),
        ({"fields": [{"type": "string"}]}, r"not the form of frictionless \(KeyError: 'name'\)"),
        ({"fields": [{"name": "a", "type": "list"}]}, r"no column can be used; ignored: a \(values of type list\)"),
        ({"a": {"possible_values": []}}, "not the form of dpsynth"),
        ({"resources": []}, "the file describes no table"),
        ({"METADATA_SPEC_VERSION": "V1", "tables": {}}, "the file describes no table"),
        ({"a": {"min_value": 5, "max_value": 1}}, "no column can be used; ignored: a .bounds are two numbers"),
        ("{", "not valid JSON"),
    ],
)
def test_what_is_no_description_is_one_line(tmp_path, content, line):
    with pytest.raises(InputError, match=rf"d\.json: .*{line}") as error:
        imported(tmp_path, content)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="unknown format 'sdf'; did you mean 'sdv'"):
        imported(tmp_path, {"a": 2}, format="sdf")


def test_rows_are_coded_by_what_was_imported(tmp_path):
    found, _ = imported(tmp_path, {"fields": FRICTIONLESS["fields"][2:4], "missingValues": ["NA"]})
    frame = pd.DataFrame({"ward": ["A", "NA", "B"], "fruit": ["1", "0", ""]})
    assert Table.from_frame(frame, Domain.from_dict(found.content())).codes.tolist() == [[0, 1], [2, 0], [1, 2]]
    found, _ = imported(tmp_path, DPSYNTH, "d.yaml")
    domain = Domain.from_dict(found.content())
    rows = {column.name: [str((column.labels or ["1"])[0])] * 2 for column in domain} | {"notes": ["a text", "b"]}
    assert RawTable.of(pd.DataFrame(rows), domain).n_rows == 2


@pytest.mark.parametrize("values", [["x", None, "y"], ["x", "y", float("nan")]])
def test_no_value_among_values_is_a_gap(tmp_path, values):
    for content in ({"dtype": "object", "values": values}, {"possible_values": values}):
        column = imported(tmp_path, {"a": content})[1]["a"]
        assert (column["labels"], column["missing"]) == (["x", "y"], [])


def test_the_command_writes_a_domain_file_and_says_what_is_missing(tmp_path, call):
    (tmp_path / "metadata.json").write_text(json.dumps(SDV))
    code, out, err = call("domain", "import", tmp_path / "metadata.json", "--table", "guests")
    assert code == 0, err
    target = tmp_path / "metadata.domain.yaml"
    assert "metadata.domain.yaml: 8 columns of sdv; each fit learns labels or bins of 6" in out
    assert "not in the file: bounds of amenities_fee, nights, checkin_date and 1 more" in out
    assert "make sure that" in out
    assert Domain.from_yaml(target) == Domain.from_dict(
        read_description(tmp_path / "metadata.json", table="guests").content()
    )
    assert "hotel_id  # an identifier" in target.read_text()
    code, _, err = call("domain", "import", tmp_path / "metadata.json", "--table", "guests")
    assert (code, err.count("\n")) == (2, 1)
    assert "is there already" in err
    code, out, _ = call(
        "domain", "import", tmp_path / "metadata.json", "--table", "hotels", "--out", tmp_path / "h.yaml", "--json"
    )
    assert (code, json.loads(out)["format"]) == (0, "sdv")
