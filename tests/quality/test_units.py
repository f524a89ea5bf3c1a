"""Privacy units: errors compare rows, and halves of the real table have whole units; against brute force."""

import json
from collections import defaultdict

import duckdb
import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.data.units import Unit
from marginalia.errors import InputError
from marginalia.quality import raw
from marginalia.quality.quality import copies, measure
from marginalia.quality.raw_rows import Sample, random_half

ROWS_OF = (38, 35, 30, 28, 26, 25, 24, 24)  # of each person, in any order in the file; each has a tenth of all
COLUMNS = [
    {"name": name, "type": "string", "labels": [f"{name}{i}" for i in range(len(ROWS_OF))], "missing": []}
    for name in ("own", "same")
]
DOMAIN = {"attributes": COLUMNS, "unit": "person", "rows_per_unit": 2}


def persons(seed=0):
    """Return rows of which `own` says whose they are, and `same` is constant in the rows of one person, too."""
    owner = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(ROWS_OF)), ROWS_OF))
    return pd.DataFrame(
        {"person": [f"p{i}" for i in owner], "own": [f"own{i}" for i in owner], "same": [f"same{i % 4}" for i in owner]}
    )


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The persons as a file, a database and shuffled; a synthetic table without the column of units; the domain."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(raw, "_HALVES", 1)
    frame = persons()
    frame.to_csv("real.csv", index=False)
    frame.sample(frac=1, random_state=1).to_parquet("shuffled.parquet", index=False)
    frame.sample(frac=0.5, random_state=2).drop(columns="person").to_csv("made.csv", index=False)
    with duckdb.connect("real.db") as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM 'real.csv'")
    (tmp_path / "d.json").write_text(json.dumps(DOMAIN), encoding="utf-8")
    without = {"attributes": COLUMNS, "ignored": ["person"]}
    (tmp_path / "rows.json").write_text(json.dumps(without), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("larger", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_no_person_is_in_both_halves(seed, larger):
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(rng.permutation(100)[:31], rng.integers(1, 39, 31)))
    half = random_half(owner, seed=seed, larger=larger)
    first, second = set(owner[half]), set(owner[~half])
    assert not first & second
    assert (len(first), len(second)) == ((16, 15) if larger else (15, 16))
    rows = random_half(np.arange(len(owner)), seed=seed, larger=larger)
    assert set(owner[rows]) & set(owner[~rows])  # what halves of the rows would do


def test_halves_without_units_are_those_of_a_permutation_of_the_rows():
    for n in range(1, 12):
        order = np.random.default_rng(3).permutation(n)
        assert np.flatnonzero(random_half(np.arange(n), seed=3)).tolist() == sorted(order[: n // 2])
        assert np.flatnonzero(random_half(np.arange(n), seed=3, larger=True)).tolist() == sorted(order[: (n + 1) // 2])


@pytest.mark.parametrize("seed", range(5))
def test_copies_of_persons_are_those_of_a_search(seed):
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes({"a": 9, "b": 9})
    owner = rng.permutation(np.repeat(np.arange(12), rng.integers(1, 39, 12)))
    codes = np.stack([(owner + rng.integers(0, 3, len(owner))) % 9, rng.integers(0, 9, len(owner))], axis=1)
    real, made = Table(codes, domain), Table(rng.integers(0, 9, (40, 2)), domain)
    rows, others = ([tuple(row) for row in table.codes.tolist()] for table in (real, made))
    chosen = set(np.random.default_rng(7).permutation(12)[:6].tolist())
    first = [row for row, person in zip(rows, owner, strict=True) if person in chosen]
    second = [row for row, person in zip(rows, owner, strict=True) if person not in chosen]
    owners = defaultdict(set)
    for row, person in zip(rows, owner, strict=True):
        owners[row].add(person)
    alone = [row for row, of in owners.items() if len(of) == 1]
    found = copies(real, made, units=owner, seed=7)
    assert found.synthetic == pytest.approx(sum(row in first for row in others) / len(others))
    assert found.fresh == pytest.approx(sum(row in first for row in second) / len(second))
    assert (found.unique, found.unique_found) == (len(alone), sum(row in others for row in alone))
    assert found.unique > copies(real, made, seed=7).unique  # rows that a person has twice
    measured = measure(real.of_units(Unit("person", 38), owner), made, seed=7)
    assert (measured.copies, measured.n_units) == (found, 12)


def test_rows_of_one_person_are_no_copies_of_each_other(files, call):
    """All rows of a person are equal, and no two persons are: half of the persons have nothing of the other half."""
    found = json.loads(call("quality", "real.csv", "made.csv", "--domain", "d.json", "--json")[1])
    assert found["copies"]["fresh"] == 0
    assert 0.2 < found["copies"]["synthetic"] < 0.8
    assert found["copies"]["unique"] == found["copies"]["unique_found"] == len(ROWS_OF)
    assert found["raw"]["score_of_halves"] == pytest.approx(0)  # the two halves share no value of `own`
    of_rows = json.loads(call("quality", "real.csv", "made.csv", "--domain", "rows.json", "--json")[1])
    assert of_rows["copies"]["fresh"] == 1
    assert of_rows["raw"]["score_of_halves"] > 800
    for key in ("pairs", "columns", "marginal_error", "k_marginal_score"):
        assert found[key] == of_rows[key]
    assert found["raw"]["pairs"] == of_rows["raw"]["pairs"]


def test_the_halves_are_the_same_from_every_source_and_in_any_order(files, call):
    numbers = []
    for real in ("real.csv", "real*.csv", "shuffled.parquet", "duckdb:///real.db?table=t"):
        found = json.loads(call("quality", real, "made.csv", "--domain", "d.json", "--json")[1])
        numbers.append((found["copies"], found["raw"]["score_of_halves"], found["compared"], found["units"]))
    assert all(other == numbers[0] for other in numbers)


def test_text_json_and_page_state_that_rows_are_compared(files, call):
    code, out, _ = call("quality", "real.csv", "made.csv", "--domain", "d.json", "--out", "q.html")
    statement = "Errors compare rows, not privacy units: each of the 230 real rows counts once"
    assert code == 0
    assert f"compared         {statement}" in out
    assert "8 different `person`, 24 to 38 rows each; at most 2 of each are kept" in out
    page = (files / "q.html").read_text(encoding="utf-8")
    assert statement in page
    assert "halves of its 8 `person`" in page
    assert "Different real rows that one unit alone has" in page
    found = json.loads(call("quality", "real.csv", "made.csv", "--domain", "d.json", "--json")[1])
    assert found["compared"].startswith(statement)


def test_nothing_is_stated_without_a_unit(files, call):
    code, out, _ = call("quality", "real.csv", "made.csv", "--domain", "rows.json")
    assert (code, "compared  " in out) == (0, False)
    found = json.loads(call("quality", "real.csv", "made.csv", "--domain", "rows.json", "--json")[1])
    assert "compared" not in found
    assert "does not protect a person with several rows" in found["units"]


def test_a_real_table_without_the_column_of_units_is_halved_by_its_rows(files, call):
    persons().drop(columns="person").to_csv("plain.csv", index=False)
    found = json.loads(call("quality", "plain.csv", "made.csv", "--domain", "d.json", "--json")[1])
    assert "one `person` may have rows in both" in found["compared"]
    assert found["copies"]["fresh"] == 1


def test_one_unit_alone_has_no_halves(files, call):
    persons().assign(person="p").to_csv("one.csv", index=False)
    found = json.loads(call("quality", "one.csv", "made.csv", "--domain", "d.json", "--json")[1])
    assert found["raw"]["score_of_halves"] is None
    assert found["copies"]["synthetic"] == found["copies"]["fresh"] == 0


def test_keys_that_may_be_one_unit_are_one_line(files, call):
    frame = persons()
    frame.loc[:1, "person"] = ["7", "7.0"]
    frame.to_csv("keys.csv", index=False)
    code, out, err = call("quality", "keys.csv", "made.csv", "--domain", "d.json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'7' and '7.0' are one number and two texts" in err
    domain = Domain.from_dict(DOMAIN)
    with pytest.raises(InputError, match="one number and two texts"):
        Sample.read("keys.csv", domain.project(domain.names), unit=domain.unit)
