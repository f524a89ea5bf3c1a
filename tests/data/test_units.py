"""Bounding rows by unit: what one unit has changes nothing of another."""

import math
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

from marginalia.data.domain import Domain
from marginalia.data.sources.bounded import bound_contributions, sizes_of_units
from marginalia.data.sources.complete import complete
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.opening import Data
from marginalia.data.splits import random_split
from marginalia.data.table import CountSource, RawTable, Table
from marginalia.data.units import Unit, UnitOfLearnedRows, hashes_of
from marginalia.errors import InputError, PrivacyError
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.mechanisms import additive
from marginalia.privacy.preprocessing.preprocess import coded_rows
from marginalia.privacy.session import Session

CONTENT = {
    "attributes": [{"name": "age", "type": "integer", "edges": [0, 10, 20, 30]}, {"name": "ill", "type": "boolean"}],
    "unit": "patient",
    "rows_per_unit": 2,
}


def _frame(rng: np.random.Generator, n: int = 40) -> pd.DataFrame:
    patients = rng.integers(0, 12, n)
    return pd.DataFrame({"patient": patients, "age": rng.integers(0, 30, n), "ill": rng.integers(0, 2, n) > 0})


def _kept(table: Table, frame: pd.DataFrame, name: int) -> list[list[int]]:
    key = hashes_of(np.array([str(name)], dtype=object))
    return sorted(table.codes[table.unit_keys == key].tolist())


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_other_units_stay_whatever_one_unit_has(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame, domain = _frame(rng), Domain.from_dict(CONTENT)
    mine = frame["patient"] == frame["patient"].iloc[0]
    others = pd.DataFrame({"patient": 99, "age": rng.integers(0, 30, 5), "ill": True})
    changed = pd.concat([frame[~mine], others]).sample(frac=1, random_state=seed)
    before, after = (Table.from_frame(f, domain) for f in (frame, changed))
    for name in set(frame["patient"][~mine]):
        assert _kept(before, frame, name) == _kept(after, changed, name)


def test_at_most_k_rows_of_a_unit_are_kept_and_rows_without_a_key_are_one_unit() -> None:
    frame = pd.DataFrame({"patient": [1, 1, 1, None, None, None, 2], "age": range(7), "ill": [True] * 7})
    table = Table.from_frame(frame, Domain.from_dict(CONTENT))
    assert table.units is not None
    assert sorted(np.bincount(table.units).tolist()) == [1, 2, 2]
    assert (table.n_rows, table.n_units, table.unit) == (5, 3, Unit("patient", 2))


def test_the_same_rows_are_kept_from_every_way_of_writing_them() -> None:
    frame, domain = _frame(np.random.default_rng(1)), Domain.from_dict(CONTENT)
    texts = frame.astype(str).sample(frac=1, random_state=1)[["ill", "patient", "age"]]
    floats = frame.astype({"patient": float, "age": float})
    tables = [Table.from_frame(f, domain).project(["age", "ill"]) for f in (frame, texts, floats)]
    assert len({tuple(map(tuple, sorted(t.codes.tolist()))) for t in tables}) == 1


def test_a_raw_table_is_bounded_before_anything_is_learned() -> None:
    content = {**CONTENT, "attributes": [{"name": "age", "type": "integer", "edges": {"private": "quantile"}}]}
    frame = _frame(np.random.default_rng(2)).drop(columns="ill")
    raw = RawTable.of(frame, Domain.from_dict(content))
    assert raw.units is not None
    assert np.bincount(raw.units).max() == 2
    assert "patient" not in raw.names
    assert raw.n_rows == len(raw.units) < len(frame)


def test_the_column_of_the_unit_is_no_attribute_and_has_to_be_there() -> None:
    with pytest.raises(InputError, match="it is no column of the domain"):
        Domain.from_dict({**CONTENT, "unit": "age"})
    with pytest.raises(InputError, match="goes with 'unit'"):
        Domain.from_dict({"attributes": CONTENT["attributes"], "rows_per_unit": 2})
    with pytest.raises(InputError, match="column 'patient' of the domain is missing"):
        Table.from_frame(_frame(np.random.default_rng(0)).drop(columns="patient"), Domain.from_dict(CONTENT))


def test_parts_of_a_table_keep_their_units() -> None:
    table = Table.from_frame(_frame(np.random.default_rng(3)), Domain.from_dict(CONTENT))
    first, rest = table.take(slice(5)), table.take(slice(5, None))
    whole = first.append(rest).project(["ill"])
    assert whole.units is not None
    assert table.units is not None
    assert (whole.units == table.units).all()
    assert whole.unit == table.unit


def _duplicates(rng: np.random.Generator, n: int = 300) -> pd.DataFrame:
    """Rows of which a unit has many that are equal, some without a key."""
    patients = rng.integers(0, 40, n).astype(object)
    patients[rng.random(n) < 0.05] = None
    return pd.DataFrame({"patient": patients, "age": rng.integers(0, 3, n) * 10, "ill": rng.random(n) < 0.5})


def _units(table: Table) -> list[list[tuple[int, ...]]]:
    """Return the rows of each unit, whatever the order of rows, units and columns."""
    assert table.units is not None
    rows = table.project(["age", "ill"])
    return sorted(sorted(map(tuple, rows.codes[table.units == u].tolist())) for u in np.unique(table.units))


def _streamed(place: str, domain: Domain) -> Table:
    assert domain.unit is not None
    return bound_contributions(Data.parse(place).stream(domain.project(domain.names)), domain.unit)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """The same rows in every kind of place."""
    frame = _duplicates(np.random.default_rng(5)).astype({"patient": "Int64"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.astype({"patient": float}).to_parquet(tmp_path / "floats.parquet")
    texts = frame.astype({"patient": "string"}).assign(patient=lambda f: " " + f["patient"] + " ")
    texts.sample(frac=1, random_state=0).to_csv(tmp_path / "shuffled.csv", index=False, sep=";")
    for name, part in frame.groupby(frame["age"]):
        (tmp_path / "parts").mkdir(exist_ok=True)
        part.to_parquet(tmp_path / "parts" / f"{name}.parquet", row_group_size=7)
    for name, part in frame.groupby("patient", dropna=False):
        folder = tmp_path / "folders" / f"patient={'__HIVE_DEFAULT_PARTITION__' if pd.isna(name) else name}"
        folder.mkdir(parents=True)
        part.drop(columns="patient").to_csv(folder / "t.csv", index=False)
    with duckdb.connect(str(tmp_path / "t.db")) as base:
        base.register("frame", frame.sample(frac=1, random_state=1))
        base.execute("CREATE TABLE stays AS SELECT * FROM frame")
    where = {name: f"{tmp_path}/{name}" for name in ("t.csv", "floats.parquet", "shuffled.csv", "parts", "folders")}
    return where | {"duckdb": f"duckdb:///{tmp_path}/t.db?table=stays"}


def test_the_same_rows_are_kept_from_every_source(places: dict[str, str]) -> None:
    domain = Domain.from_dict(CONTENT)
    memory = Table.read(places["t.csv"], domain=domain)
    for place in places.values():
        rows = _streamed(place, domain)
        assert (rows.n_rows, rows.n_units, rows.unit) == (memory.n_rows, memory.n_units, memory.unit)
        assert _units(rows) == _units(memory)
        whole = rows.project(memory.names)
        np.testing.assert_array_equal(whole.codes, memory.codes)  # in one order, whatever that of the source
        np.testing.assert_array_equal(whole.units, memory.units)
        np.testing.assert_array_equal(whole.unit_keys, memory.unit_keys)


def test_every_step_from_raw_rows_to_codes_keeps_the_keys_of_units() -> None:
    columns = [{"name": "age", "type": "integer", "edges": {"private": "uniform", "bounds": [0, 30], "bins": 3}}]
    raw = RawTable.of(
        _frame(np.random.default_rng(4)).drop(columns="ill"), Domain.from_dict({**CONTENT, "attributes": columns})
    )
    ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, unit=raw.unit)
    coded = coded_rows(raw, ledger=ledger, random_state=0)
    assert isinstance(coded, Table)
    known = set(zip(raw.units, raw.unit_keys, strict=True))
    assert len(known) == raw.n_units
    same = {"age": np.arange(coded.domain["age"].size)}
    parts = raw.take(slice(5)).append(raw.take(slice(5, None)))
    for rows in (
        parts,
        coded,
        raw.coded(coded.domain),
        coded.project(["age"]),
        coded.take(slice(5)).append(coded.take(slice(5, None))),
        coded.recoded(same, coded.domain),
        coded.of_units(Unit("patient", 9), coded.units),
    ):
        assert set(zip(rows.units, rows.unit_keys, strict=True)) == known


def test_rows_without_a_target_leave_their_units_whole(places: dict[str, str]) -> None:
    age, ill = CONTENT["attributes"]
    domain = Domain.from_dict({**CONTENT, "attributes": [{**age, "missing": ["0"]}, ill]})
    sources = Table.read(places["t.csv"], domain=domain), _streamed(places["t.csv"], domain)
    memory, streamed = (complete(rows, "age") for rows in sources)
    assert isinstance(memory, Table)
    assert isinstance(streamed, CountSource)
    assert memory.units is not None
    assert (streamed.unit, _units(streamed.in_memory())) == (memory.unit, _units(memory))


def test_a_stream_that_was_not_opened_as_one_of_units_is_refused(places: dict[str, str]) -> None:
    with pytest.raises(InputError, match="which rows of each `patient` are kept is chosen where rows are opened"):
        stream_files(places["parts"], domain=Domain.from_dict(CONTENT))
    with pytest.raises(InputError, match="column 'clinic', the unit of the domain, is missing"):
        _streamed(places["t.csv"], Domain.from_dict({**CONTENT, "unit": "clinic", "ignored": ["patient"]}))


def test_rows_of_units_that_do_not_fit_in_memory_are_one_line(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marginalia.memory.free_bytes", lambda: 3e4)
    with pytest.raises(
        InputError, match=r"^to choose rows of each `patient` among .* needs 1 MB .*; let a query"
    ) as error:
        _streamed(places["parts"], Domain.from_dict(CONTENT))
    assert "\n" not in str(error.value)


def test_rows_per_unit_are_learned_privately_from_streamed_rows_as_from_a_table(places: dict[str, str]) -> None:
    domain = Domain.from_dict(LEARNED)
    memory, rows = Table.read(places["t.csv"], domain=domain), _streamed(places["folders"], domain)
    assert (rows.unit, rows.n_rows) == (memory.unit, memory.n_rows)
    np.testing.assert_array_equal(rows.project(memory.names).codes, memory.codes)  # by rank
    np.testing.assert_array_equal(rows.units, memory.units)
    source = Data.parse(places["folders"]).stream(domain.project(domain.names))
    assert sizes_of_units(source, rows.unit).sum() == source.n_rows == 300


def test_a_split_keeps_a_unit_on_one_side_and_counts_units() -> None:
    table = Table.from_frame(_duplicates(np.random.default_rng(6)), Domain.from_dict(CONTENT))
    for seed in range(10):
        split = random_split(table, seed=seed, test_fraction=0.3)
        assert split.train.units is not None
        assert split.test.units is not None
        assert not set(split.train.units) & set(split.test.units)
        assert (split.test.n_units, split.train.n_units + split.test.n_units) == (math.ceil(0.3 * table.n_units), 41)
        assert split.train.n_rows + split.test.n_rows == table.n_rows
    assert random_split(table, seed=0, test_fraction=0.3, train_limit=5).train.n_units == 5


@pytest.mark.parametrize("row", [0, 20, -1])
@pytest.mark.parametrize("what", ["remove", "add", "move"])
def test_the_rows_of_one_unit_move_no_other_one_across_a_split(row: int, what: str) -> None:
    frame = _frame(np.random.default_rng(9))
    frame.loc[[0, 20, 39], "patient"] = 99
    mine = frame.iloc[[row]]
    rest = frame.drop(index=mine.index)
    changed = {"remove": rest, "add": pd.concat([mine, frame]), "move": pd.concat([rest[30:], mine, rest[:30]])}[what]
    sides = []
    for each in (frame, changed):
        split = random_split(Table.from_frame(each, Domain.from_dict(CONTENT)), seed=5, test_fraction=0.4)
        sides.append([set(part.unit_keys) for part in (split.train, split.test)])
    assert sides[0] == sides[1]


def test_a_unit_that_leaves_moves_at_most_one_other_across_a_split() -> None:
    frame = pd.DataFrame({"patient": range(200), "age": 1, "ill": True})
    tables = [
        Table.from_frame(f, Domain.from_dict(CONTENT)) for f in (frame, *(frame.drop(index=i) for i in range(20)))
    ]
    tests = [set(random_split(table, seed=5, test_fraction=0.3).test.unit_keys) for table in tables]
    assert all(len(tests[0] ^ other) <= 2 for other in tests[1:])


LEARNED = {**CONTENT, "rows_per_unit": {"private": 0.9, "most": 16}}


@pytest.mark.parametrize("kind", ["table", "raw"])
@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 1.0), ("replace_one", math.sqrt(2))])
def test_learned_rows_are_those_of_the_number_that_was_learned(kind: str, relation: str, sensitivity: float) -> None:
    rng = np.random.default_rng(8)
    sizes = rng.integers(1, 7, 2000)
    patients = rng.permutation(np.repeat(np.arange(2000), sizes))
    ages = rng.integers(0, 30, len(patients))
    frame = pd.DataFrame({"patient": patients, "age": ages, "ill": rng.random(len(patients)) < 0.5})
    unit_of_4 = Table.from_frame(frame, Domain.from_dict({**LEARNED, "rows_per_unit": {"private": 0.5, "most": 4}}))
    schema = Domain.from_dict({**LEARNED, "rows_per_unit": {"private": 0.6, "most": 16}})
    if kind == "raw":
        age = {"name": "age", "type": "integer", "edges": {"private": "uniform", "bounds": [0, 30], "bins": 3}}
        schema = Domain.from_dict({**schema.to_dict(), "attributes": [age, CONTENT["attributes"][1]]})
    rows = Table.from_frame(frame, schema) if kind == "table" else RawTable.of(frame, schema)
    assert rows.unit == UnitOfLearnedRows("patient", 16, 0.6)
    ledger = Ledger(relation, epsilon=3.0, delta=1e-5, unit=rows.unit)
    coded = coded_rows(rows, ledger=ledger, random_state=0)
    assert coded.unit == ledger.neighbours.unit == Unit("patient", 4)  # two thirds of the units have 1 to 4 rows
    assert isinstance(coded, Table)
    assert coded.n_rows == np.minimum(sizes, 4).sum() == unit_of_4.n_rows
    if kind == "table":
        fixed = Table.from_frame(frame, Domain.from_dict({**CONTENT, "rows_per_unit": 4}))
        assert _units(coded) == _units(fixed)
    event = ledger.events[0]
    assert (event.sensitivity, event.label) == (sensitivity, "rows per `patient`")


def test_what_cannot_be_learned_of_units_is_refused(places: dict[str, str]) -> None:
    with pytest.raises(InputError, match="rows_per_unit is a number, or"):
        Domain.from_dict({**CONTENT, "rows_per_unit": {"private": 0.5}})
    with pytest.raises(InputError, match="share of the units between 0 and 1"):
        Domain.from_dict({**CONTENT, "rows_per_unit": {"private": 95, "most": 9}})
    table = Table.read(places["t.csv"], domain=Domain.from_dict(LEARNED))
    with pytest.raises(PrivacyError, match="delta has to be above 0"):
        coded_rows(table, ledger=Ledger("add_remove", epsilon=1.0, delta=0.0, unit=table.unit), random_state=0)
    assert Domain.from_dict(LEARNED).to_dict()["rows_per_unit"] == {"private": 0.9, "most": 16}


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_unit_moves_one_count_of_the_histogram_that_learns_rows_per_unit(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exact histograms of neighbours, for every size of one unit; sizes beyond the largest are one."""
    exact: list[np.ndarray] = []

    def watched(session, value, **asked):
        exact.append(value())
        return additive.gaussian(session, value, **asked)

    monkeypatch.setattr(Session, "gaussian", watched)
    others = [3, 1, 8, 30]
    for size in range(40):
        patients = np.repeat(np.arange(1 + len(others)), [size, *others])
        frame = pd.DataFrame({"patient": patients, "age": 1, "ill": True})
        table = Table.from_frame(frame, Domain.from_dict(LEARNED))
        ledger = Ledger(relation, epsilon=1.0, delta=1e-5, unit=table.unit)
        coded_rows(table, ledger=ledger, random_state=0)
    assert all(np.abs(one - exact[0]).sum() == 1 for one in exact[1:])
    limit = 1.0 if relation == "add_remove" else math.sqrt(2)
    present = exact if relation == "add_remove" else exact[1:]
    assert max(np.linalg.norm(one - other) for one in present for other in present[:1]) <= limit
    assert ledger.events[0].sensitivity == limit
