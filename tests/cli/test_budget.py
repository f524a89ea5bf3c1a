"""A budget file for a privacy unit, from `budget open --unit` to `budget show`."""

import json

import numpy as np
import pandas as pd
import pytest

COLUMNS = [
    {"name": "age", "type": "integer", "labels": [str(i) for i in range(8)], "kind": "numeric"},
    {"name": "ill", "type": "string", "labels": ["no", "yes"]},
]
UNIT = {"unit": "patient_id", "rows_per_unit": {"private": 0.9, "most": 8}}
FIT = ("synthesize", "--method", "gaussian_marginals", "--data", "t.csv", "--epsilon", 1, "--out", "s.csv")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(400), rng.integers(1, 5, 400))
    n = len(patient)
    rows = {"patient_id": patient, "age": rng.integers(0, 8, n), "ill": rng.choice(["no", "yes"], n)}
    pd.DataFrame(rows).to_csv("t.csv", index=False)
    for name, content in {"units.json": UNIT, "rows.json": {"ignored": ["patient_id"]}}.items():
        (tmp_path / name).write_text(json.dumps({"attributes": COLUMNS, **content}), encoding="utf-8")
    return tmp_path


def test_releases_of_a_domain_with_a_private_number_of_rows_per_unit(call, folder):
    code, out, _ = call("budget", "open", "t.budget", "--epsilon", 2, "--unit", "patient_id")
    assert (code, "protects one `patient_id`, nothing entered" in out) == (0, True)
    code, out, err = call(*FIT, "--domain", "units.json", "--budget", "t.budget", "--model", "m.npz")
    assert code == 0, err
    assert "rows_per_unit: at most" in out
    code, out, _ = call("infer", "m.npz", "--mean", "age")
    assert (code, "per patient_id" in out) == (0, True)
    code, out, _ = call("budget", "show", "t.budget")
    assert (code, out.splitlines()[0]) == (0, "protects: one `patient_id`")
    assert "gaussian_marginals on t.csv, epsilon 1: " in out
    found = json.loads(call("budget", "show", "t.budget", "--json")[1])
    proof = json.loads((folder / "s.csv.certificate.json").read_text(encoding="utf-8"))
    assert found["protects"] == "one `patient_id`"
    assert found["releases"] == [{"release": "gaussian_marginals on t.csv, epsilon 1", "events": len(proof["events"])}]
    assert 0.9 < found["spent"] < 1.1
    lines = [json.loads(line) for line in (folder / "t.budget").read_text(encoding="utf-8").splitlines()]
    assert lines[0]["unit"] == "patient_id"
    assert {line["unit"]["column"] for line in lines[1:]} == {"patient_id"}
    assert call(*FIT, "--domain", "units.json", "--budget", "t.budget")[0] == 0  # the second is added
    more = json.loads(call("budget", "show", "t.budget", "--json")[1])
    assert found["spent"] < more["spent"] < 2


def test_several_releases_that_learn_labels_need_a_reserve(call, folder):
    columns = [COLUMNS[0], {"name": "ill", "type": "string", "labels": "private"}]
    (folder / "open.json").write_text(json.dumps({"attributes": columns, **UNIT}), encoding="utf-8")
    for name, reserve in {"plain.budget": (), "more.budget": ("--reserve", 0.001)}.items():
        assert call("budget", "open", name, "--epsilon", 3, "--unit", "patient_id", *reserve)[0] == 0
        code, _, err = call(*FIT, "--domain", "open.json", "--budget", name)
        assert code == 0, err
        code, _, err = call(*FIT, "--domain", "open.json", "--budget", name)
        assert (code == 0) == bool(reserve), err
        if not reserve:
            assert "declare the labels in the domain, or plan several of these releases by `marginalia budget" in err


@pytest.mark.parametrize(
    ("option", "domain", "ends"),
    [
        (
            (),
            "units.json",
            "t.budget protects one row, this release protects one `patient_id`, and their costs do not add up: "
            "open another budget file by `marginalia budget open FILE --epsilon E --unit patient_id`",
        ),
        (
            ("--unit", "patient_id"),
            "rows.json",
            "t.budget protects one `patient_id`, this release protects one row, and their costs do not add up: name "
            "the unit in the domain (unit: patient_id), or open another budget file by `marginalia budget open FILE "
            "--epsilon E`",
        ),
        (
            ("--unit", "ward"),
            "units.json",
            "t.budget protects one `ward`, this release protects one `patient_id`, and their costs do not add up: "
            "open another budget file by `marginalia budget open FILE --epsilon E --unit patient_id`",
        ),
    ],
)
def test_a_release_that_protects_another_unit_is_one_line(call, folder, option, domain, ends):
    assert call("budget", "open", "t.budget", "--epsilon", 2, *option)[0] == 0
    before = (folder / "t.budget").read_bytes()
    code, out, err = call(*FIT, "--domain", domain, "--budget", "t.budget")
    assert (code, out, err) == (2, "", f"marginalia: {ends}\n")
    assert (folder / "t.budget").read_bytes() == before
    assert not (folder / "s.csv").exists()


def test_a_file_for_rows_is_as_it_was(call, folder):
    code, out, _ = call("budget", "open", "t.budget", "--epsilon", 2)
    assert (code, "protects one row, nothing entered" in out) == (0, True)
    assert call(*FIT, "--domain", "rows.json", "--budget", "t.budget")[0] == 0
    head, *entries = ([*json.loads(line)] for line in (folder / "t.budget").read_text(encoding="utf-8").splitlines())
    total = ["epsilon", "delta", "relation", "reserve", "experiments"]
    assert head == ["format", "version", "id", *total, "chain"]
    assert entries
    assert all(entry == ["release", "at", "relation", "randomness", "event", "chain"] for entry in entries)
    assert call("budget", "show", "t.budget")[1].startswith("protects: one row\n")


def test_a_unit_without_a_name_is_one_line(call, folder):
    code, out, err = call("budget", "open", "t.budget", "--epsilon", 2, "--unit", " ")
    assert (code, out, err.count("\n"), "name of a column" in err) == (2, "", 1, True)
    assert not (folder / "t.budget").exists()
