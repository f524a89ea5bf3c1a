"""Columns that name the person or household of each row: which a draft proposes as the privacy unit."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml

from marginalia.data.domain import Domain
from marginalia.data.drafting import as_yaml, draft, questions
from marginalia.data.keys import UNPROTECTED, note_on_names, notes_on_keys

N = 1000
ILL = ["yes", "no"] * (N // 2)


def repeated(distinct: int, form: str = "{}") -> list[str]:
    return [form.format(k % distinct) for k in range(N)]


def unit_of(columns: dict) -> str | None:
    return draft(pd.DataFrame({**columns, "ill": ILL})).content().get("unit")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient_id", repeated(300)),
        ("PatientID", repeated(300, "P{:05d}")),
        ("Patienten-Nr.", repeated(300)),
        ("PatNr", repeated(300, "P1{:04d}")),
        ("patient", repeated(300)),
        ("patient_id", repeated(20)),  # few persons
        ("Subject", repeated(18)),
        ("SUBJID", repeated(40)),
        ("USUBJID", repeated(200, "ST-01-{:03d}")),
        ("userId", repeated(400)),
        ("customer_name", repeated(80, "Ann {}")),
        ("mrn", repeated(90, "{:07d}")),
        ("pid", repeated(90)),
        ("Versichertennummer", repeated(90, "A{:09d}")),
        ("id_paciente", repeated(90)),
        ("hospital_patient_id", repeated(90)),
        ("household", repeated(90)),
        ("hhid", repeated(90)),
        ("SERIAL", repeated(90)),
        ("id", repeated(90)),
        ("nr", repeated(90)),
        ("anon_uuid", repeated(90, "0000{:04d}-aaaa-4bbb-8ccc-0123456789ab")),
        ("stay_id", repeated(400)),
        ("col7", repeated(90, "P{:05d}")),  # by the form of the texts
        ("h", repeated(90, "{:016x}a")),
        ("patient_id", [*range(N - 10), *range(10)]),  # nearly all differ, but some persons have two rows
        ("birthday_id", repeated(60, "195001{:02d}")),  # whole numbers that could be days
    ],
)
def test_a_key_that_several_rows_share_is_the_unit(name, values):
    assert unit_of({name: values, "age": np.arange(N) % 70}) == name


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient_id", [str(k) for k in range(N)]),  # each row has its own
        ("age", repeated(90)),
        ("patient_age", repeated(90)),
        ("number_of_patients", repeated(90)),
        ("patient_type", repeated(3, "type {}")),
        ("subject", repeated(6, "subject {}")),  # taught at school
        ("customer_segment", repeated(60, "S{:03d}")),
        ("ward_id", repeated(90)),
        ("product_id", repeated(90)),
        ("postcode", repeated(90, "1{:04d}")),
        ("icd10_code", repeated(90, "I{:02d}")),
        ("respiration", repeated(60)),
        ("resp", repeated(60)),
        ("weight", [f"{k % 90}.5" for k in range(N)]),
        ("patient", [f"{k % 90}.5" for k in range(N)]),  # no key has decimals
        ("id", repeated(12)),
        ("case", repeated(90)),  # counts of cases
        ("day", [f"2024-{k % 12 + 1:02d}-{k % 28 + 1:02d}" for k in range(N)]),
    ],
)
def test_what_is_no_key_of_persons_is_no_unit(name, values):
    assert unit_of({name: values, "height": np.arange(N) % 70}) is None


@pytest.mark.parametrize(
    ("columns", "unit"),
    [
        (["ward_id", "stay_id", "patient_id"], "patient_id"),
        (["hh_id", "person_id"], "person_id"),
        (["id", "user"], "user"),
        (["order_id", "household_id"], "household_id"),
        (["movie_id", "user_id", "rating_id"], "user_id"),
    ],
)
def test_of_several_keys_the_one_of_persons_is_the_unit(columns, unit):
    table = {name: repeated(80 + 10 * j) for j, name in enumerate(columns)}
    found = draft(pd.DataFrame({**table, "ill": ILL}))
    assert found.content()["unit"] == unit
    assert [key for key in found.content().get("ignored", []) if key == unit] == []
    assert Domain.from_dict(found.content()).unit.column == unit


def test_of_equals_the_one_with_more_rows_to_a_key_is_the_unit():
    assert unit_of({"child_id": repeated(200), "mother_id": repeated(100)}) == "mother_id"


def test_one_line_says_how_many_rows_people_have_and_the_file_does_not():
    sizes = [38] + [1] * 600 + [2] * 181
    keys = np.repeat(np.arange(len(sizes)), sizes)
    found = draft(pd.DataFrame({"patient": keys, "ill": ILL}))
    line = next(questions(found))
    assert line.startswith("unit: patient (782 different `patient` in 1,000 rows, 1 to 38 rows each, half of them at ")
    text = as_yaml(found, "t.csv")
    assert yaml.safe_load(text)["rows_per_unit"] == {"private": 0.9, "most": 64}
    assert not {"782", "38"} & set(text.replace("`", " ").split())


def test_rows_without_a_key_are_named():
    keys = [None if k < 7 else k % 90 for k in range(N)]
    found = draft(pd.DataFrame({"patient": pd.Series(keys, dtype="Int64"), "ill": ILL}))
    assert "7 rows have none and are one unit together" in next(questions(found))


@pytest.mark.parametrize(("values", "kind"), [(repeated(90), "integer"), (repeated(90, "{:03d}"), "string")])
def test_the_type_of_the_keys(values, kind):
    assert draft(pd.DataFrame({"patient_id": values, "ill": ILL})).content()["unit_type"] == kind


# --- what verbs say where no unit is declared ---

FRAME = pd.DataFrame({"patient_id": repeated(90), "age": np.arange(N) % 2})


@pytest.mark.parametrize(
    "domain",
    [
        {"attributes": [{"name": "age", "size": 2}], "ignored": ["patient_id"]},
        {"attributes": [{"name": "age", "size": 2}, {"name": "patient_id", "size": 90}]},
    ],
)
def test_rows_that_share_a_key_are_named_where_no_unit_is_declared(domain):
    [note] = notes_on_keys(FRAME, Domain.from_dict(domain))
    assert note.startswith("units, off the private rows: 90 different `patient_id` in 1,000 rows, 11 to 12 rows each")
    assert UNPROTECTED in note
    assert note.endswith("write `unit: patient_id` in the domain")


def test_nothing_is_said_where_the_unit_is_declared_or_each_row_has_its_own_key():
    domain = Domain.from_dict({"attributes": [{"name": "age", "size": 2}], "unit": "patient_id"})
    assert notes_on_keys(FRAME, domain) == []
    own = FRAME.assign(patient_id=range(N))
    assert notes_on_keys(own, Domain.from_sizes({"age": 2}).replace(ignored=["patient_id"])) == []


def test_by_name_alone_persons_and_households_are_named():
    assert note_on_names(["ward_id", "id", "stay_id", "age"]) == []
    assert "`hh_id`" in note_on_names(["age", "hh_id"])[0]
    assert len(note_on_names(["hh_id", "person"])) == 1


@pytest.fixture
def stays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"patient": repeated(90), "age": [k * 7 % 80 for k in range(N)], "ill": ILL})
    frame.to_csv("t.csv", index=False)
    frame.iloc[:500].to_parquet("part-0.parquet")
    frame.iloc[500:].to_parquet("part-1.parquet")
    age = {"name": "age", "type": "integer", "edges": [0, 20, 40, 60, 80]}
    ill = {"name": "ill", "type": "string", "labels": ["no", "yes"]}
    domain = {"attributes": [age, ill], "ignored": ["patient"]}
    (tmp_path / "d.json").write_text(json.dumps(domain))
    (tmp_path / "a.yaml").write_text("analyses:\n  - {formula: age ~ ill}\n")
    return tmp_path


USED = ("--domain", "d.json")
FIT = (*USED, "--data", "t.csv", "--epsilon", 1)


@pytest.mark.parametrize(
    "verb",
    [
        ("synthesize", "--method", "independent", *FIT, "--out", "s.csv"),
        ("fit", "--method", "ssp", "--target", "ill", *FIT),
        ("release", "t.csv", *USED, "--epsilon", 1, "--analyses", "a.yaml", "--out", "r.npz"),
    ],
)
def test_each_verb_that_releases_says_what_is_not_protected(stays, call, verb):
    code, out, err = call(*verb)
    assert code == 0, err
    assert UNPROTECTED in err
    assert "90 different" not in out
    code, _, err = call(*verb, "--unit", "patient")
    assert code == 0, err
    assert UNPROTECTED not in err


def test_check_and_streamed_rows_say_what_is_not_protected(stays, call):
    code, out, err = call("datasets", "check", "t.csv", *USED)
    assert (code, err, UNPROTECTED in out) == (0, "", True)
    code, out, _ = call("datasets", "check", "part-*.parquet", *USED)
    assert (code, "by its name `patient` names persons" in out, "90" in out) == (0, True, False)
    made = ("--method", "independent", *USED, "--epsilon", 1, "--out", "s.csv")
    assert "by its name `patient`" in call("synthesize", "--data", "part-*.parquet", *made)[2]


def test_infer_says_what_a_release_of_rows_does_not_protect(stays, call):
    assert call("synthesize", "--method", "residual_planner", *FIT, "--out", "s.csv", "--model", "m.npz")[0] == 0
    for asked in (("--mean", "age"), ("age ~ ill",), ("--marginal", "ill")):
        code, out, err = call("infer", "m.npz", *asked)
        assert (code, UNPROTECTED in out) == (0, True), err
    assert UNPROTECTED in json.loads(call("infer", "m.npz", "--mean", "age", "--json")[1])["notes"][-1]
    assert call("fit", "--method", "ssp", *FIT, "--target", "ill", "--out", "m.json")[0] == 0
    code, out, err = call("infer", "m.json")
    assert (code, UNPROTECTED in out) == (0, True), err
