"""Persons instead of rows, from the entry of a data set to the certificates of a sweep."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalia.data.catalogue.entry import parse_entry
from marginalia.data.datasets import load
from marginalia.data.units import Unit, UnitOfLearnedRows, hashes_of
from marginalia.errors import InputError
from marginalia.reporting.provenance import datasets_info
from marginalia.sweep.prepare import prepare_dataset
from marginalia.sweep.protocols import Prepared, split_rows

ILL = {"name": "ill", "type": "boolean"}
AGE = {"name": "age", "type": "integer", "edges": [0, 20, 40, 60, 80]}
LEARNED = {"name": "age", "type": "integer", "edges": {"private": "quantile", "bins": 4}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"patient": rng.integers(0, 50, 400), "age": rng.integers(0, 80, 400), "ill": rng.random(400) < 0.5}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path


def _entry(folder: Path, **changes: object):
    content = {"files": {"table": "t.csv"}, "attributes": [AGE, ILL], "tasks": {"logistic": {"target": "ill"}}}
    content |= {"unit": "patient", "rows_per_unit": 3, "n_public": 50, **changes}
    return parse_entry("stays", {k: v for k, v in content.items() if v is not None}, folder=folder)


@pytest.mark.parametrize("age", [AGE, LEARNED], ids=["table", "raw"])
def test_a_prepared_data_set_keeps_its_units(folder: Path, age: dict) -> None:
    prepare_dataset(_entry(folder, attributes=[age, ILL]).model_dump(), folder / "data")
    data = Prepared.load(folder / "data")
    rows = data.rows
    assert (rows.unit, rows.n_units) == (Unit("patient", 3), 50)
    assert np.bincount(rows.units).max() == 3
    keys = hashes_of(np.array([str(name) for name in range(50)], dtype=object))
    assert set(rows.unit_keys) == set(keys)
    assert "patient" not in data.names
    for protocol in ("strict", "as_published"):
        train, test = split_rows(data, protocol, "sweep", 0, 0.3, 0)
        assert not set(train.units) & set(test.units)
        assert (train.n_units, test.n_units) == (35, 15)
        assert data.public_training_rows(protocol, 0.3) == 35
    described = [folder / "data" / "dataset.json"]
    (told,) = datasets_info(described, splits={"stays": "random"}, missing={}, stand_ins=False)
    assert told["protects"] == "one `patient`, at most 3 rows each"


def test_a_learned_number_of_rows_is_kept_to_be_learned(folder: Path) -> None:
    domain = {"attributes": [AGE, ILL], "unit": "patient", "rows_per_unit": {"private": 0.9, "most": 32}}
    entry = _entry(folder, domain=domain, attributes=None, unit=None, rows_per_unit=None)
    prepare_dataset(entry.model_dump(), folder / "data")
    data = Prepared.load(folder / "data")
    assert data.table.unit == UnitOfLearnedRows("patient", 32, 0.9)
    assert json.loads((folder / "data" / "dataset.json").read_text())["rows_per_unit"] == {"private": 0.9, "most": 32}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rows": 400, "n_public": None}, "n_public in place of rows"),
        ({"files": {"train": "t.csv", "test": "t.csv"}}, "it needs files: table"),
        ({"source": "adult"}, "rows of source 'adult' are single ones"),
    ],
)
def test_entries_that_cannot_have_units_are_refused(folder: Path, changes: dict, why: str) -> None:
    with pytest.raises(InputError, match=why):
        _entry(folder, **changes)


def test_two_files_have_no_units(folder: Path) -> None:
    """A person in both would be two."""
    domain = {"attributes": [AGE, ILL], "unit": "patient"}
    given = {"files": {"train": "t.csv", "test": "t.csv"}, "domain": domain, "attributes": None}
    entry = _entry(folder, unit=None, rows_per_unit=None, n_public=None, rows=400, **given)
    with pytest.raises(InputError, match="units of `patient` need files: table"):
        load(entry)


def test_an_entry_keeps_the_rules_of_its_domain(folder: Path) -> None:
    domain = {"attributes": [AGE, ILL], "rules": [{"never": {"age": ">= 60", "ill": True}}], "unit": "patient"}
    entry = _entry(folder, unit=None, rows_per_unit=None, domain=domain, attributes=None)
    assert load(entry).table.domain.rules
