"""Who is one unit: the value of the key column by its declared type, from every source."""

import datetime
import json
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from marginalia.data import units
from marginalia.data.catalogue.entry import parse_entry
from marginalia.data.checking import check
from marginalia.data.domain import Domain
from marginalia.data.sources import bounded
from marginalia.data.sources.opening import Data
from marginalia.data.table import RawTable, Table
from marginalia.data.units import Unit, UnitOfLearnedRows, check_spellings, key_hashes, keys_of, unit_sizes
from marginalia.errors import InputError
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.certificate_page import certificate_page
from marginalia.privacy.conversion import check_same_unit
from marginalia.privacy.events import GaussianEvent
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.odometer import PrivacyOdometer
from marginalia.privacy.preprocessing.preprocess import coded_rows
from marginalia.privacy.relation import Neighbours, Relation
from marginalia.synthesis import Independent

AGE = {"name": "age", "type": "integer", "edges": [0, 10, 20, 30]}


def _domain(of_type: str | None = None, rows: int = 1, **changes) -> Domain:
    typed = {} if of_type is None else {"unit_type": of_type}
    return Domain.from_dict({"attributes": [AGE], "unit": "id", "rows_per_unit": rows, **typed, **changes})


def _rows(table: Table) -> list[list[int]]:
    """Return the kept codes of each unit, whatever the order of rows and units."""
    assert table.units is not None
    return sorted(sorted(table.codes[table.units == u, 0].tolist()) for u in np.unique(table.units))


def _streamed(place: str, domain: Domain) -> Table:
    assert domain.unit is not None
    return bounded.bound_contributions(Data.parse(place).stream(domain.project(domain.names)), domain.unit)


def _numbers(cells, of_type: str | None = None) -> list[int]:
    return key_hashes(pd.Series(cells, dtype=object), Unit("id", type=of_type))[1].tolist()


# --- two yearly exports of 200 persons ---


@pytest.fixture
def years(tmp_path: Path) -> Path:
    """Return a folder with a CSV and a Parquet file of each year; in the second year one id is missing."""
    first = pd.DataFrame({"id": np.arange(200), "age": np.arange(200) % 30})
    second = pd.DataFrame({"id": [*map(float, range(200)), np.nan], "age": np.arange(201) % 29})
    for kind in ("csv", "parquet"):
        (tmp_path / kind).mkdir()
    for name, frame in (("1", first), ("2", second)):
        frame.to_csv(tmp_path / "csv" / f"{name}.csv", index=False)
        frame.to_parquet(tmp_path / "parquet" / f"{name}.parquet")
    lines = [(tmp_path / "csv" / f"{name}.csv").read_text().splitlines() for name in "12"]
    (tmp_path / "both.csv").write_text("\n".join([*lines[0], *lines[1][1:]]) + "\n")
    return tmp_path


@pytest.mark.parametrize("of_type", ["integer", "number"])
def test_two_exports_of_200_persons_have_201_units_in_every_format(years: Path, of_type: str) -> None:
    domain = _domain(of_type)
    tables = [_streamed(f"{years}/{place}", domain) for place in ("csv", "parquet", "both.csv")]
    tables.append(Table.read(years / "both.csv", domain=domain))
    assert [table.n_units for table in tables] == [201] * 4
    assert all(_rows(table) == _rows(tables[0]) for table in tables)


def test_a_person_who_leaves_takes_no_more_than_k_rows(years: Path) -> None:
    text = (years / "both.csv").read_text()
    assert {"7,7", "7.0,7"} <= set(text.splitlines())
    (years / "without.csv").write_text("\n".join(x for x in text.splitlines() if x.split(",")[0] not in ("7", "7.0")))
    for read in (lambda path: Table.read(path, domain=_domain("integer")), lambda p: _streamed(p, _domain("integer"))):
        counts = [read(f"{years}/{name}.csv").counts(["age"]) for name in ("both", "without")]
        assert np.abs(counts[0] - counts[1]).sum() == 1


def test_without_a_declared_type_one_number_in_two_texts_is_an_error(years: Path) -> None:
    message = "'0' and '0.0' are one number and two texts; declare `unit_type: integer`"
    with pytest.raises(InputError, match=message):
        Table.read(years / "both.csv", domain=_domain())
    for place in ("csv", "both.csv"):
        with pytest.raises(InputError, match=message):
            _streamed(f"{years}/{place}", _domain()).counts(["age"])
        assert _streamed(f"{years}/{place}", _domain("string")).n_units == 401  # as declared: 7 and 7.0 are two
    schema = {"attributes": [{"name": "age", "type": "integer", "edges": {"private": "quantile"}}], "unit": "id"}
    with pytest.raises(InputError, match=message):
        RawTable.read(years / "both.csv", Domain.from_dict(schema))
    assert _streamed(f"{years}/parquet", _domain()).n_units == 201  # a number has one text
    (years / "d.json").write_text(json.dumps(_domain().to_dict()))
    for place in ("both.csv", "csv"):
        (problem,) = check(f"{years}/{place}", years / "d.json")
        assert message in problem
        assert "\n" not in problem


# --- every type from every source ---

DAY, KYIV = datetime.date(2020, 1, 31), ZoneInfo("Europe/Kyiv")
NOON = datetime.datetime(2020, 1, 31, 12, 30, tzinfo=datetime.UTC)
NFC, NFD = "Jos\u00e9", "Jose\u0301"

# The values of units, and ways to write each in a CSV file.
SPELT = {
    "integer": (
        pa.array([7, -8, 2**53 + 1, 0]),
        [["7", "7.0", "007", "+7", "7e0"], ["-8", "-8.00"], ["9007199254740993"], ["0", "-0", "0.0"]],
    ),
    "number": (
        pa.array([0.1, 7.0, 2.5e-7]),
        [["0.1", ".1", "0.100", "1e-1"], ["7", "7.0", "07"], ["2.5e-07", "25E-8"]],
    ),
    "date": (
        pa.array([DAY, datetime.date(1969, 12, 1)]),
        [["2020-01-31", "20200131", "2020-W05-5", "2020-01-31 00:00:00"], ["1969-12-01", "19691201"]],
    ),
    "timestamp": (
        pa.array([NOON, NOON.replace(microsecond=1)], pa.timestamp("us", "Europe/Kyiv")),
        [
            [
                "2020-01-31 12:30:00+00:00",
                "2020-01-31T12:30Z",
                "2020-01-31 14:30+02:00",
                "2020-01-31 12:30:00.0000009Z",
            ],
            ["2020-01-31 12:30:00.000001+00:00", "2020-01-31T14:30:00,000001+02:00"],
        ],
    ),
    "string": (pa.array(["7", "7.0", "007", NFC, NFD, "a b", "a  b", "A b"]), None),
}


@pytest.mark.parametrize("of_type", SPELT)
def test_one_value_is_one_unit_and_keeps_the_same_rows_from_every_source(of_type: str, tmp_path: Path) -> None:
    values, spelt = SPELT[of_type]
    spelt = spelt or [[text] for text in values.to_pylist()]
    rng = np.random.default_rng(0)
    unit = np.r_[np.arange(len(values)), rng.integers(0, len(values), 60)]
    gaps = np.arange(len(unit)) % 10 == 9
    ages = rng.integers(0, 30, len(unit))
    ids = pa.array([None if gap else u for u, gap in zip(unit, gaps, strict=True)], pa.int64())
    table = pa.table({"id": values.take(ids), "age": ages})
    parquet.write_table(table, tmp_path / "t.parquet")
    written = ["" if gap else spelt[u][i % len(spelt[u])] for i, (u, gap) in enumerate(zip(unit, gaps, strict=True))]
    lines = [f'"{text}",{age}' for text, age in zip(written, ages, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["id,age", *lines]))
    (tmp_path / "parts").mkdir()
    for i in range(3):
        (tmp_path / "parts" / f"{i}.csv").write_text("\n".join(["id,age", *lines[i::3]]))
    with duckdb.connect(str(tmp_path / "t.db")) as base:
        base.register("t", table)
        base.execute("CREATE TABLE stays AS SELECT * FROM t")
    objects = pd.DataFrame({"id": pd.Series(table["id"].to_pylist(), dtype=object), "age": ages})
    texts = pd.DataFrame({"id": written, "age": ages})
    frames = [
        table,
        pl.from_arrow(table),
        table.to_pandas(integer_object_nulls=True),
        objects,
        texts,
        texts.astype({"id": "category"}),
    ]
    domain = _domain(of_type, rows=2)
    tables = [Table.from_frame(frame, domain) for frame in frames]
    tables += [Table.read(tmp_path / name, domain=domain) for name in ("t.csv", "t.parquet")]
    places = [f"{tmp_path}/{name}" for name in ("t.csv", "t.parquet", "parts")]
    places.append(f"duckdb:///{tmp_path}/t.db?table=stays")
    tables += [_streamed(place, domain) for place in places]
    for found in tables:
        assert found.n_units == len(values) + 1  # one of the rows without a key
        assert _rows(found) == _rows(tables[0])


def test_a_double_that_cannot_tell_whole_numbers_apart_is_no_integer_key() -> None:
    with pytest.raises(InputError, match=r"column 'id', row 1: .* beyond 2\^53, .* \(unit_type: integer\)"):
        _numbers([1.0, 2.0**53 + 2], "integer")
    assert _numbers([2.0**53, 2**53, 2**53 + 1, "9007199254740993"], "integer") == [0, 0, 1, 1]


def test_clock_times_are_read_in_utc_and_seconds_to_the_microsecond() -> None:
    there = datetime.datetime(2020, 1, 31, 14, 30, tzinfo=KYIV)
    cells = [NOON, there, "2020-01-31 12:30", np.datetime64("2020-01-31T12:30:00.000000999"), pd.Timestamp(NOON)]
    assert _numbers(cells, "timestamp") == [0] * 5
    hours = [datetime.datetime(2020, 10, 25, 3, 30, tzinfo=KYIV, fold=fold) for fold in (0, 1)]
    assert _numbers(hours, "timestamp") == [0, 1]  # the clock shows this time twice
    assert _numbers(["2020-01-31", pd.Timestamp("2020-01-31"), NOON], "timestamp") == [0, 0, 1]


@pytest.mark.parametrize(
    ("of_type", "cell", "why"),
    [
        ("integer", "7.5", "'7.5' is not a whole number"),
        ("integer", "x7", "'x7' is not a number"),
        ("integer", True, "'True' is not a number"),
        ("integer", "1,5", "'1,5' has a comma"),
        ("number", "1_0", "'1_0' is not a number"),
        ("number", float("inf"), "'inf' is not a number"),
        ("date", "2020-01-31 10:30", "has a time of day"),
        ("date", "3/4/2020", "'3/4/2020' is not a date in ISO form"),
        ("timestamp", "31.13.2020", "is not a date"),
        ("timestamp", "12000-01-01", "is a date outside the years 1 to 9999"),
        ("string", 7.5, "'7.5' is no text"),
        ("string", NOON, "is no text"),
    ],
)
def test_a_key_that_is_no_value_of_its_type_is_one_line_with_its_row(of_type: str, cell, why: str) -> None:
    frame = pd.DataFrame({"id": pd.Series([None, cell], dtype=object), "age": [1, 2]})
    with pytest.raises(InputError) as raised:
        Table.from_frame(frame, _domain(of_type))
    assert str(raised.value).startswith("table: column 'id', row 1: ")
    assert why in str(raised.value)
    assert f"(unit_type: {of_type})" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_bad_key_in_a_stream_is_told_with_its_file(years: Path) -> None:
    with (years / "csv" / "2.csv").open("a") as file:
        file.write("x,3\n")
    with pytest.raises(InputError, match=r"2.csv, rows from 0: column 'id', row 201: 'x' is not a number"):
        _streamed(f"{years}/csv", _domain("integer")).counts(["age"])


def test_a_category_that_no_row_has_is_no_error() -> None:
    ids = pd.Series(pd.Categorical(["7", "7.0"], categories=["x", "7", "7.0"]))
    assert key_hashes(ids, Unit("id", type="integer"))[1].tolist() == [0, 0]
    one = pd.Series(pd.Categorical(["7", "7"], categories=["7.0", "7"]))
    assert key_hashes(one, Unit("id"))[1].tolist() == [0, 0]


# --- texts ---

APART = ["a b", "A b", "a  b", "ab", "a\u00a0b", NFC, NFD, "stra\u00dfe", "strasse"]
APART += ["\ufb01", "fi", "\u0660", "x\u200by", "xy"]


@pytest.mark.parametrize("of_type", [None, "string"])
@pytest.mark.parametrize("collide", [False, True], ids=["apart", "colliding"])
def test_texts_that_differ_in_case_spaces_or_unicode_form_are_different_units(
    of_type: str | None, collide: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if collide:
        for module in (units, bounded):
            monkeypatch.setattr(module, "hashes_of", lambda texts: np.zeros(len(texts), np.uint64))
    frame = pd.DataFrame({"id": APART * 3, "age": np.arange(3 * len(APART)) % 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    domain = _domain(of_type)
    tables = [Table.from_frame(frame, domain), Table.read(tmp_path / "t.csv", domain=domain)]
    tables += [_streamed(f"{tmp_path}/{name}", domain) for name in ("t.csv", "t.parquet")]
    assert [table.n_units for table in tables] == [len(APART)] * 4
    assert [table.n_rows for table in tables] == [len(APART)] * 4
    assert all(_rows(table) == _rows(tables[0]) for table in tables)


def test_half_a_surrogate_pair_is_a_key_and_changes_no_other() -> None:
    texts = np.array(["7", NFC, "b"], dtype=object)
    with_half = np.append(texts, "\ud800")
    np.testing.assert_array_equal(units.hashes_of(with_half)[:3], units.hashes_of(texts))
    assert _numbers(["\ud800", "\ud801", "\ud800"]) == [0, 1, 0]


def test_keys_of_numbers_and_texts_have_the_hashes_that_they_had() -> None:
    """Rows that were kept before keys had types are kept still."""
    before = units.hashes_of(np.array(["7", "2020-01-31", "P07"], dtype=object))
    cells = ("integer", 7, 0), (None, 7.0, 0), ("date", DAY, 1), (None, DAY, 1), ("string", "P07", 2)
    for of_type, cell, known in cells:
        assert key_hashes(pd.Series([cell], dtype=object), Unit("id", type=of_type))[0] == before[known]


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (["7", "007"], "number"),
        (["-0", "0"], "number"),
        (["1e3", "x", "1000"], "number"),
        (["2.50", "2.5"], "number"),
        (["9007199254740993.0", "9007199254740993"], "number"),
        (["2020-01-31", "2020-01-31 00:00:00"], "time"),
        ([DAY, datetime.datetime(2020, 1, 31)], "time"),
        (["2020-01-31T12:30Z", "2020-01-31 14:30:00+02:00"], "time"),
        (["2020-01-31", "20200131"], "time"),
    ],
)
def test_two_texts_of_one_value_need_a_declared_type(cells: list, what: str) -> None:
    message = f"unit `id`: .* are one {what} and two texts; declare `unit_type: .*string`"
    for order in (cells, cells[::-1]):
        with pytest.raises(InputError, match=message):
            _numbers(order)
        with pytest.raises(InputError):
            unit_sizes(pd.Series(order, dtype=object), Unit("id"))


@pytest.mark.parametrize("key", ["31.01.2020", "3/4/2020", "Jan 31, 2020", "2020/1/31", "31.1.2020 10:00+02:00"])
def test_a_date_that_is_not_in_iso_form_needs_a_declared_type(key: str) -> None:
    """As texts, 31.01.2020 and 2020-01-31 would be two units, and one person would count twice."""
    with pytest.raises(InputError, match=r"looks like a date that is not in ISO form; .*`unit_type: string`"):
        unit_sizes(pd.Series([key, "P7"], dtype=object), Unit("id"))
    with pytest.raises(InputError, match=r"is not a date.*unit_type: string"):
        keys_of(pd.Series([key], dtype=object), Unit("id", type="date"))
    assert unit_sizes(pd.Series([key, "P7"], dtype=object), Unit("id", type="string")).tolist() == [1, 1]


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "008", "0070"],
        ["7.0", "8.0"],
        ["-7.0", "7"],
        ["P7", "P07", "p7", "7P"],
        ["550e8400-e29b-41d4-a716-446655440000", "5508400e-e29b-41d4-a716-446655440000"],
        ["2020-10-25 03:30+03:00", "2020-10-25 03:30+02:00"],
        ["1.2.3", "1.2.30", "1/2", "2/1"],
        ["9" * 400, "1" + "0" * 400, "1e999x"],
    ],
)
def test_keys_that_are_written_in_one_way_need_no_type(cells: list[str]) -> None:
    assert _numbers(cells) == list(range(len(cells)))
    check_spellings(cells, Unit("id"))


def test_which_rows_a_raw_table_keeps_follows_the_values_of_its_columns(tmp_path: Path) -> None:
    when = [datetime.datetime(2020, 1, day, hour) for day in range(1, 11) for hour in (0, 12)]
    frame = pd.DataFrame({"id": np.arange(20) % 4, "pay": np.arange(20) / 2, "when": when})
    frame.to_parquet(tmp_path / "t.parquet")
    pays, times = [f"{pay:.3f}" for pay in frame["pay"]], [time.isoformat("T", "minutes") for time in when]
    frame.assign(pay=pays, when=times).to_csv(tmp_path / "t.csv", index=False)
    edges = {"private": "quantile", "bins": 4}
    columns = [{"name": "pay", "type": "number"}, {"name": "when", "type": "timestamp", "unit": "hour"}]
    content = {"attributes": [{**column, "edges": edges} for column in columns], "unit": "id", "unit_type": "integer"}
    raw = [RawTable.read(tmp_path / name, Domain.from_dict(content)) for name in ("t.csv", "t.parquet")]
    kept = [sorted(map(float, rows.frame["pay"])) for rows in raw]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 4


# --- the declaration ---


def test_a_domain_file_declares_the_type_of_its_unit(tmp_path: Path) -> None:
    domain = _domain("integer", rows=3)
    assert domain.unit == Unit("id", 3, type="integer") != Unit("id", 3)
    domain.to_json(tmp_path / "d.json")
    assert Domain.from_json(tmp_path / "d.json") == domain
    assert "unit_type" not in _domain().to_dict()
    assert Domain.from_dict(domain.to_dict()).of_unit(None, 5).unit == Unit("id", 5, type="integer")
    learned = _domain("date", rows_per_unit={"private": 0.9, "most": 8})
    assert learned.unit == UnitOfLearnedRows("id", 8, 0.9, type="date")
    assert Domain.from_dict(learned.to_dict()) == learned
    with pytest.raises(InputError, match="unknown unit_type 'int'"):
        _domain("int")
    with pytest.raises(InputError, match="'unit_type' goes with 'unit'"):
        Domain.from_dict({"attributes": [AGE], "unit_type": "integer"})


def test_an_entry_of_a_sweep_declares_it_too(tmp_path: Path) -> None:
    entry = {"files": {"table": "t.csv"}, "attributes": [AGE, {"name": "ill", "type": "boolean"}], "n_public": 9}
    entry |= {"tasks": {"logistic": {"target": "ill"}}, "unit": "id"}
    assert parse_entry("stays", {**entry, "unit_type": "integer"}, folder=tmp_path).unit_type == "integer"
    assert parse_entry("stays", entry, folder=tmp_path).unit_type is None
    with pytest.raises(InputError, match="unit_type"):
        parse_entry("stays", {**entry, "unit_type": "int"}, folder=tmp_path)
    schema = Domain.from_dict({"attributes": [AGE], "unit": "id", "unit_type": "string"})
    with pytest.raises(InputError, match="unit_type is 'string' in the domain and 'integer' here"):
        schema.of_unit(None, None, "integer")


def test_a_certificate_and_a_learned_number_of_rows_keep_the_type() -> None:
    frame = pd.DataFrame({"id": np.arange(3000) % 1000, "age": 1})
    table = Table.from_frame(frame, _domain("integer", rows_per_unit={"private": 0.9, "most": 8}))
    ledger = Ledger("add_remove", epsilon=3.0, delta=1e-5, unit=table.unit)
    assert coded_rows(table, ledger=ledger, random_state=0).unit == Unit("id", 3, type="integer")
    summary = json.loads(json.dumps(ledger.summary()))
    assert summary["unit"] == {"column": "id", "rows": 3, "type": "integer"}
    assert Ledger.from_summary(summary).neighbours.unit == Unit("id", 3, type="integer")
    assert Ledger("add_remove", unit=Unit("id", 3)).summary()["unit"] == {"column": "id", "rows": 3}


def test_the_page_of_a_certificate_says_how_keys_were_read() -> None:
    for of_type, line in (
        (None, "`id` has no declared type: version 2.0 did not check"),
        ("date", "were read as: date"),
    ):
        ledger = Ledger("add_remove", epsilon=1.0, delta=1e-5, unit=Unit("id", 3, type=of_type))
        assert line in "\n".join(certificate_page(Certificate(ledger.summary())))


def test_releases_that_read_keys_by_different_types_do_not_add_up(tmp_path: Path) -> None:
    check_same_unit(Unit("id"), Unit("id", type="integer"))
    with pytest.raises(InputError, match="`id` was read as integer and as string"):
        check_same_unit(Unit("id", type="integer"), Unit("id", type="string"))
    book = PrivacyOdometer.create(tmp_path / "t.book", "add_remove", epsilon=9.0, delta=1e-5, unit="id")

    def enter(book: PrivacyOdometer, of_type: str | None) -> None:
        book.record(
            GaussianEvent(1.0, 4.0), Neighbours(Relation.ADD_REMOVE, Unit("id", type=of_type)), "system", "ages"
        )

    for of_type in (None, "integer", None, "integer"):
        enter(book, of_type)
    for opened in (book, PrivacyOdometer(tmp_path / "t.book")):
        with pytest.raises(InputError, match="was read as integer and as string"):
            enter(opened, "string")


# --- a unit that is lost ---


def test_codes_of_a_domain_that_names_a_unit_are_no_table(tmp_path: Path) -> None:
    domain = _domain("integer", rows=2)
    message = r"the domain protects one `id`, at most 2 rows each, and column 'id' is missing"
    with pytest.raises(InputError, match=message) as raised:
        Table([[0], [1]], domain)
    assert "\n" not in str(raised.value)
    rows = Table([[0], [1]], domain.project(domain.names))
    assert rows.unit is None
    for name in ("t.parquet", "t.csv"):
        getattr(rows, f"to_{name[2:]}")(tmp_path / name, original=False)
        with pytest.raises(InputError, match="column 'id' of the domain is missing"):
            Table.read(tmp_path / name, domain=domain, original=False)
    schema = Domain.from_dict({**domain.to_dict(), "attributes": [{**AGE, "edges": {"private": "quantile"}}]})
    with pytest.raises(InputError, match=message):
        RawTable(pd.DataFrame({"age": [1]}), schema)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_a_file_of_codes_with_the_column_of_the_unit_has_units(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"id": [7, 7, 7, 8], "age": [0, 1, 2, 0]})
    getattr(frame, f"to_{name[2:]}")(tmp_path / name, index=False)
    table = Table.read(tmp_path / name, domain=_domain("integer", rows=2), original=False)
    assert (table.n_rows, table.n_units, table.unit) == (3, 2, Unit("id", 2, type="integer"))


def test_a_sample_has_no_units_and_its_certificate_says_what_was_protected() -> None:
    frame = pd.DataFrame({"id": np.arange(60) % 20, "age": np.arange(60) % 30})
    domain = _domain("integer", rows=2)
    model = Independent(epsilon=1.0, random_state=0, relation="add_remove").fit(Table.from_frame(frame, domain))
    sample = model.sample(10)
    assert (sample.unit, sample.domain.unit) == (None, None)
    assert sample.domain == domain.project(domain.names)
    assert model.ledger_.neighbours.unit == Unit("id", 2, type="integer")
