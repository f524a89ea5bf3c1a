"""The code of a cell is a function of that cell and the public domain: whatever else stands in its column."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odd_cells import ATTRIBUTES, BERLIN, DAYS, DUCKDB, OBJECTS, TOKYO, arrow_pools, at, day, objects, taken

from marginalia.data.cells import Cells, cells_of
from marginalia.data.coding import Coder, codes_of
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.reading import pandas_frame, read_raw
from marginalia.data.sources.files import stream_files
from marginalia.data.table import Table


def codes(column, attribute):
    return codes_of(cells_of(column), attribute)[0]


@pytest.mark.parametrize(
    ("one", "rest"),
    [
        # The same instant in two zones is on two days there.
        (at("2020-01-02T08:00", TOKYO), at("2020-01-01T23:00", datetime.UTC)),
        (at("2020-01-01T23:00", datetime.UTC), at("2020-01-02T08:00", TOKYO)),
        # Half past two twice, one hour apart; Python takes them as equal.
        (at("2020-10-25T02:30", BERLIN), at("2020-10-25T02:30", BERLIN).replace(fold=1)),
        (np.float32(1), 1),
        (np.float16(1), 1),
        (np.longdouble(1), 1),
        (np.float32(1.5), 1.5),
        (Decimal("1.0"), Decimal("1")),
        (True, 1),
        (np.True_, 1.0),
        (Decimal("-99.0"), -99),
        (float("inf"), Decimal("1.5")),
    ],
)
@pytest.mark.parametrize(
    "labels", [("1", "1.50"), ("1.0", "1.5"), ("2020-10-25 00:30:00+00:00", "2020-10-25 01:30:00+00:00")]
)
def test_an_equal_cell_of_another_kind_does_not_speak_for_the_rest(one, rest, labels):
    for column in (Column("x", 4, labels=labels, type="string", other="else", missing=()), *ATTRIBUTES.values()):
        alone = codes(objects([rest]), column).tolist()
        assert codes(objects([one, rest, rest]), column)[1:].tolist() == 2 * alone
        assert codes(objects([rest, one, rest]), column)[[0, 2]].tolist() == 2 * alone


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([True, "True", False, "False", "yes"], [0, 4, 1, 4, 0]),
        ([1.5, "1.5", Decimal("1.500"), "1.50"], [2, 4, 2, 2]),
        ([at("2020-01-01T00:30", datetime.UTC), at("2020-01-01T00:30"), "2020-01-01 00:30:00+00:00"], [3, 4, 4]),
    ],
)
def test_a_kind_is_part_of_a_cell(cells, expected):
    """A label stands for cells of a kind, and not for each text that another kind would be written as."""
    labels = ("yes", "no", "1.50", "2020-01-01T00:30:00Z")
    attribute = Column("x", 6, labels=labels, type="string", other="else", missing=())
    assert codes(objects(cells), attribute).tolist() == expected


def test_one_instant_is_one_day_whatever_its_zone():
    cells = [at("2020-01-02T08:00", TOKYO), at("2020-01-01T23:00", datetime.UTC), "2020-01-02T00:00+01:00"]
    assert codes(objects(cells), DAYS).tolist() == [0, 0, 0]


FAR = {
    "12000-01-01": 3_663_382,
    "44 BC": -735_160,
    "infinity": 2**31 - 1,
    "-infinity": -(2**31) + 1,
}


@pytest.mark.parametrize("far", FAR)
def test_a_day_that_python_cannot_hold_changes_no_other(tmp_path, far):
    """It renamed "2020-01-01" to "2020-01-01 00:00:00" for all."""
    domain = Domain([Column("x", 3, labels=("2020-01-01", "2020-01-02"), type="string", other="else")])
    days = [day("2020-01-01")] * 3 + [day("2020-01-02")] + [FAR[far]]
    pq.write_table(pa.table({"x": pa.array(days, pa.int32()).cast(pa.date32())}), tmp_path / "t.parquet")
    assert Table.read(tmp_path / "t.parquet", domain=domain).counts(["x"]).tolist() == [3, 1, 1]
    assert stream_files(tmp_path / "t.parquet", domain=domain).counts(["x"]).tolist() == [3, 1, 1]
    duckdb = pytest.importorskip("duckdb")
    if far != "44 BC":
        duckdb.sql(f"SELECT * FROM (VALUES (DATE '2020-01-01'), (DATE '{far}')) AS t(x)").write_parquet(
            str(tmp_path / "d.parquet")
        )
        assert Table.read(tmp_path / "d.parquet", domain=domain).counts(["x"]).tolist() == [1, 0, 1]


@pytest.mark.parametrize("marks", [("inf",), ("inf", "-99"), ("-99", "inf")])
@pytest.mark.parametrize("kind", ["number", "integer", "string"])
def test_a_mark_means_the_same_in_columns_of_all_types(marks, kind):
    """Beside a numeric mark, "inf" was compared in columns of objects only."""
    facts = {"labels": ("a",), "other": "else"} if kind == "string" else {"edges": (0, 9), "bottom": True, "top": True}
    attribute = Column("x", 2 + ("other" in facts), type=kind, missing=marks, lenient=True, **facts)
    marked = [float("inf")] * 5
    missing = attribute.missing_code
    for column in (pd.Series(marked), objects(marked), objects(["inf"] * 5), objects([*marked, "a"]), pa.array(marked)):
        assert codes(column, attribute)[:5].tolist() == [missing] * 5


def fired(pool, take, rng, pairs):
    """Return the random neighbours in which a row that both have has another code.

    `take` makes a column of the cells of the pool at some positions. A code is held against that of the cell alone.
    """
    columns = [cells_of(take([i])) for i in range(len(pool))]
    alone = {n: np.array([codes_of(one, a)[0][0] for one in columns]) for n, a in ATTRIBUTES.items()}
    found = []
    for pair in range(pairs):
        name = list(ATTRIBUTES)[pair % len(ATTRIBUTES)]
        rows = rng.integers(len(pool), size=rng.integers(2, 9))
        for neighbour in (rows, np.delete(rows, rng.integers(len(rows)))):
            if codes(take(neighbour), ATTRIBUTES[name]).tolist() != alone[name][neighbour].tolist():
                found.append((name, [pool[i] for i in neighbour]))
    return found


def test_replay_of_columns_of_objects():
    rng = np.random.default_rng(0)
    assert fired(OBJECTS, lambda rows: objects([OBJECTS[i] for i in rows]), rng, 800) == []


def test_replay_of_arrow_columns():
    rng, pools = np.random.default_rng(2), list(arrow_pools())
    for pool in pools:
        assert fired(pool, lambda rows, pool=pool: taken(pool, rows), rng, 800 // len(pools)) == []


@pytest.mark.slow
def test_replay_of_arrow_columns_in_pandas():
    """As pandas holds them in Arrow's types."""
    rng = np.random.default_rng(3)
    for pool in arrow_pools():

        def take(rows, pool=pool):
            return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([taken(pool, rows)])))

        assert fired(pool, take, rng, 10) == []


@pytest.mark.slow
def test_replay_of_text_of_csv_files(tmp_path):
    rng, pool = np.random.default_rng(4), [v.replace(",", ".") for v in OBJECTS if type(v) is str]

    def take(rows):
        (tmp_path / "t.csv").write_text("x;y\n" + "".join(f"{pool[i]};0\n" for i in rows))
        return read_raw(tmp_path / "t.csv")["x"]

    assert fired(pool, take, rng, 400) == []


@pytest.mark.slow
def test_replay_of_parquet_files(tmp_path):
    rng = np.random.default_rng(5)
    for pool in arrow_pools():

        def take(rows, pool=pool):
            pq.write_table(pa.table({"x": taken(pool, rows)}), tmp_path / "t.parquet")
            return read_raw(tmp_path / "t.parquet")["x"]

        if not (pa.types.is_dictionary(pool.type) and pool.dictionary.null_count):  # Arrow cannot write it
            assert fired(pool, take, rng, 10) == []


@pytest.mark.slow
def test_replay_of_types_of_duckdb():
    duckdb = pytest.importorskip("duckdb")
    rng = np.random.default_rng(6)
    with duckdb.connect() as connection:
        for kind, written in DUCKDB.items():
            pool = ["NULL", *(f"'{cell}'" for cell in written.split(" | "))]

            def take(rows, kind=kind, pool=pool):
                cells = ", ".join(f"(({pool[i]})::{kind})" for i in rows)
                return connection.sql(f"SELECT x FROM (VALUES {cells}) AS t(x)").to_arrow_table().column("x")

            assert fired(pool, take, rng, 600 // len(DUCKDB)) == []


@pytest.mark.parametrize("last", [2.0, float("nan")])
def test_a_dictionary_may_hold_any_double(last):
    """A data frame of pandas takes no NaN among categories: one cell would decide whether a table is read."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array([1.0, last]))
    assert pandas_frame(pa.table({"a": column}))["a"].tolist()[0].text == "1"


@pytest.mark.parametrize("kind", ["date32", "date64", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_an_array_of_times_has_the_numbers_of_its_texts(kind, zone):
    rng = np.random.default_rng(0)
    seconds = np.concatenate([[-62_135_596_800, -1, 0, 1, 253_402_300_799], rng.integers(-(10**9), 10**10, 300)])
    if kind.startswith("date"):
        column = pa.array(seconds // 86_400, pa.int32()).cast(pa.date32()).cast(getattr(pa, kind)())
    else:
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind]
        seconds = seconds[np.abs(seconds) < 9e18 / per_second]
        counts = seconds * per_second + rng.integers(per_second, size=seconds.size)
        column = pa.array(counts, pa.timestamp(kind, zone))
    cells = cells_of(column)
    assert isinstance(cells.distinct, np.ndarray)
    listed = Cells(cells.which, cells.listed)
    assert {cell.kind for cell in cells.listed} == {"time" if zone is None or "date" in kind else "instant"}
    for unit in (None, "hour", "minute", "second"):
        more = {"type": "date"} if unit is None else {"type": "timestamp", "unit": unit}
        for clocks in (None, "Europe/Berlin") if unit else (None,):
            attribute = Column("x", 2, edges=(0, 1, 2), bottom=True, top=True, zone=clocks, **more)
            read = [Coder(attribute).numbers(some) for some in (cells, listed)]
            np.testing.assert_array_equal(read[0][0], read[1][0])
            assert read[0][1] == read[1][1]
