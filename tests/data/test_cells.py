"""The code of a cell is a function of that cell and the public domain: whatever else stands in its column."""

import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from marginalia.data.attribute import Attribute
from marginalia.data.coding import RawColumn, codes_of
from marginalia.data.domain import Domain
from marginalia.data.reading import read_raw
from marginalia.data.sources.parquet import ParquetSource
from marginalia.data.table import Table

BERLIN, TOKYO = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo")


def at(text, zone=None):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zone)


def day(text):
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


DAYS = Attribute(
    "x", 3, edges=(day("2020-01-01"), day("2020-01-02"), day("2020-01-03"), day("2020-01-04")), type="date"
)
ATTRIBUTES = {
    "labels": Attribute("x", 7, labels=("1", "1.50", "True", "2020-01-01", "a", "b", "07"), type="string"),
    "labels, other": Attribute(
        "x", 9, labels=("1.0", "1.5", "yes", "no", "2020-01-01 00:00:00", "3", "a"), type="string", other="else",
        missing=("inf", "-99", "?"),
    ),
    "labels, lenient": Attribute(
        "x", 4, labels=("a", "2020-01-01"), type="string", other="else", missing=("-99",), lenient=True
    ),
    "numbers": Attribute(
        "x", 4, edges=(0, 1, 2, 1e9), type="number", bottom=True, top=True, missing=("inf", "-99", "?", "nan")
    ),
    "numbers, lenient": Attribute(
        "x", 3, edges=(0, 1, 2), type="number", bottom=True, top=True, missing=("inf", "-99"), lenient=True
    ),
    "integers": Attribute("x", 4, labels=("0", "1", "3"), type="integer", missing=("-99", "inf")),
    "days": Attribute(
        "x", 4, edges=DAYS.edges, type="date", bottom=True, top=True, missing=("1900-01-01", "infinity")
    ),
    "days, lenient": Attribute(
        "x", 2, edges=(0, day("2020-01-02")), type="date", bottom=True, top=True, missing=(), lenient=True
    ),
    "days, format": Attribute("x", 3, labels=("2020-01-01", "2020-01-02"), type="date", format="%d/%m/%Y", missing=()),
    "truths": Attribute("x", 3, labels=("no", "yes"), type="boolean", missing=("?", "-99")),
    "codes": Attribute("x", 4, type="code", missing=("-99",)),
}  # fmt: skip


def raw(column):
    return RawColumn.of_arrow(column) if isinstance(column, pa.Array | pa.ChunkedArray) else RawColumn.of(column)


def codes(column, attribute):
    return codes_of(raw(column), attribute)[0]


def objects(values):
    return pd.Series(values, dtype=object)


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
    for attribute in (Attribute("x", 4, labels=labels, type="string", other="else", missing=()), *ATTRIBUTES.values()):
        alone = codes(objects([rest]), attribute).tolist()
        assert codes(objects([one, rest, rest]), attribute)[1:].tolist() == 2 * alone
        assert codes(objects([rest, one, rest]), attribute)[[0, 2]].tolist() == 2 * alone


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
    domain = Domain([Attribute("x", 3, labels=("2020-01-01", "2020-01-02"), type="string", other="else")])
    days = [day("2020-01-01")] * 3 + [day("2020-01-02")] + [FAR[far]]
    pq.write_table(pa.table({"x": pa.array(days, pa.int32()).cast(pa.date32())}), tmp_path / "t.parquet")
    assert Table.read(tmp_path / "t.parquet", domain=domain).counts(["x"]).tolist() == [3, 1, 1]
    assert ParquetSource(tmp_path / "t.parquet", domain=domain).counts(["x"]).tolist() == [3, 1, 1]
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
    attribute = Attribute("x", 2 + ("other" in facts), type=kind, missing=marks, lenient=True, **facts)
    marked = [float("inf")] * 5
    missing = attribute.missing_code
    for column in (pd.Series(marked), objects(marked), objects(["inf"] * 5), objects([*marked, "a"]), pa.array(marked)):
        assert codes(column, attribute)[:5].tolist() == [missing] * 5


# Odd cells of every kind, and plain ones that equal some of them.
OBJECTS = [
    None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), Decimal("NaN"), Decimal("sNaN"), "", "  ",
    True, False, np.True_, np.False_, 0, 1, 3, -99, 7, np.int8(1), np.uint64(2**64 - 1), 2**53 + 1, 2**53, 10**400, -1,
    0.0, -0.0, 1.0, 1.5, -99.0, np.inf, -np.inf, 1e300, float(2**53), np.float64(1.5), 0.1, 1e-5,
    np.float32(1), np.float32(1.5), np.float32(0.1), np.float16(0.1), np.float16(1), np.longdouble(1),
    np.longdouble("0.1"),
    Decimal(1), Decimal("1.0"), Decimal("1.50"), Decimal("1E+2"), Decimal("Infinity"), Decimal("-99.00"),
    Decimal("1E+999999"),
    "1", "1.0", "1.50", "01", "07", " a ", "a", "b", "True", "true", "yes", "No", "inf", "-inf", "Infinity", "nan",
    "-99",
    "?", "1,5", "1_000", "x\u00e9", "\u0661", np.str_("a"), b"a", b"\xff", "12000-01-01", "infinity", "01/01/2020",
    datetime.date(2020, 1, 1), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1900, 1, 1),
    at("2020-01-01T00:00"), at("2020-01-01T23:59:59.999999"), at("1900-01-01T00:00"), pd.Timestamp("2020-01-01"),
    pd.Timestamp("2020-01-01 00:00:00.000000001"), np.datetime64("2020-01-01"), np.datetime64("2020-01-01T00", "h"),
    np.datetime64("12000-01-01"), np.datetime64("-0043-03-15"), pd.Timestamp(np.datetime64("12000-01-01", "s")),
    at("2020-01-01T23:00", datetime.UTC), at("2020-01-02T08:00", TOKYO), at("2020-01-02T00:00", BERLIN),
    at("2020-10-25T02:30", BERLIN), at("2020-10-25T02:30", BERLIN).replace(fold=1), at("0001-01-01T00:00", TOKYO),
    pd.Timestamp("2020-01-01T23:00Z"), pd.Timestamp("2020-01-02", tz="Europe/Berlin"), "2020-01-01T23:00Z",
    "2020-01-02T00:00+01:00", "2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00", "1/2/2020", "31.12.2019",
    datetime.time(3), pd.Timedelta(1, "D"), datetime.timedelta(1), np.timedelta64(1, "D"), (1,), (True,), 1j, 1 + 0j,
    pd.Period("2020-01"), frozenset([1]), float("1e309"),
]  # fmt: skip


def arrow_pools():
    whole = [0, 1, 3, 7, 100, None]
    far = [0, 18262, 18263, -25567, 2_932_896, 2_932_897, -719_162, -719_163, 2**31 - 1, -(2**31) + 1, -(2**31), None]
    seconds = [0, 1577836800, 1577923140, 1577919600, 253402300799, 253402300800, -62135596801, 2**45, -(2**45), None]
    for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32()):
        yield pa.array(whole, kind)
    yield pa.array([*whole, -99, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)], pa.int64())
    yield pa.array([*whole, 2**64 - 1, 2**53 + 1], pa.uint64())
    for kind in (np.float16, np.float32, np.float64):
        some = [0, -0.0, 1, 1.5, 0.1, -99, np.nan, np.inf, -np.inf, 3]
        yield pa.concat_arrays([pa.array(np.array(some, kind)), pa.nulls(1, pa.from_numpy_dtype(kind))])
    yield pa.array([float(2**53), 1e300, 5e-324, None, 1.0])
    for kind in (pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(38, 2), pa.decimal256(60, 2)):
        yield pa.array([Decimal("1.00"), Decimal("1.50"), Decimal("-99.00"), Decimal("3.00"), None], kind)
    yield pa.array([Decimal(1), Decimal(10**30), None], pa.decimal128(38, 0))
    yield pa.array([True, False, None])
    yield pa.array(far, pa.int32()).cast(pa.date32())
    yield pa.array([None if f is None else f * 86_400_000 for f in far], pa.int64()).cast(pa.date64())
    for zone in (None, "UTC", "Europe/Berlin"):
        yield pa.array(seconds, pa.int64()).cast(pa.timestamp("s", zone))
        for unit, many in (("ms", 10**3), ("us", 10**6)):
            fine = [None if s is None or abs(s) > 2**43 else s * many + 1 for s in seconds]
            yield pa.array([*fine, 1577836800 * many, 2**63 - 1, -(2**63) + 1], pa.int64()).cast(
                pa.timestamp(unit, zone)
            )
        nanos = [0, 1577836800 * 10**9, 1577836800 * 10**9 + 1, 2**63 - 1, -(2**63) + 1, None]
        yield pa.array(nanos, pa.int64()).cast(pa.timestamp("ns", zone))
    texts = [v for v in OBJECTS if type(v) is str] + [None]
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield pa.array(texts, kind)
    yield pa.array([b"a", b"\xff", b" 1 ", b"", None])
    yield pa.array([1, 2, None], pa.time64("ns"))
    yield pa.array([1, 86399, None], pa.time32("s"))
    yield pa.array([1, -1, None], pa.duration("us"))
    yield pa.nulls(3)
    yield pa.array(["a", "1", None, "a"]).dictionary_encode()
    days = pa.array([18262, 2**31 - 1, None, 5], pa.int32()).cast(pa.date32())
    yield pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None]), days)
    yield pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), pa.array([1.0, np.nan, None, 1.5]))


DUCKDB = {
    "DATE": "2020-01-01 | infinity | 12000-01-01 | 44-03-15 (BC) | 1900-01-01",
    "TIMESTAMP": "2020-01-01 | 2020-01-01 23:59:59.9 | -infinity | 12000-01-01",
    "TIMESTAMPTZ": "2020-01-02 00:00+01 | 2020-01-01 23:00+00 | infinity",
    "TIMESTAMP_NS": "2020-01-01 | 2020-01-01 00:00:00.000000001",
    "BOOLEAN": "true | false",
    "DECIMAL(9,2)": "1 | 1.5 | -99",
    "HUGEINT": "1 | -99 | 99999999999999999999999999999",
    "UBIGINT": "1 | 18446744073709551615",
    "DOUBLE": "1 | inf | nan | -99 | 1.5 | -0.0",
    "FLOAT": "1 | 0.1 | inf | -99 | 1.5",
    "VARCHAR": "a |  a  | inf | -99 | 2020-01-01 | ",
    "ENUM('a', 'yes', '1')": "a | yes | 1",
    "BLOB": r"a | \xFF",
    "TIME": "10:00:00",
    "INTERVAL": "1 day | 24 hours",
    "UUID": "6b3a6b8e-0000-4000-8000-000000000000",
}


def fired(pool, take, rng, pairs):
    """Return the random neighbours in which a row that both have has another code.

    `take` makes a column of the cells of the pool at some positions. A code is held against that of the cell alone.
    """
    columns = [raw(take([i])) for i in range(len(pool))]
    alone = {n: np.array([codes_of(one, a)[0][0] for one in columns]) for n, a in ATTRIBUTES.items()}
    found = []
    for pair in range(pairs):
        name = list(ATTRIBUTES)[pair % len(ATTRIBUTES)]
        rows = rng.integers(len(pool), size=rng.integers(2, 9))
        for neighbour in (rows, np.delete(rows, rng.integers(len(rows)))):
            if codes(take(neighbour), ATTRIBUTES[name]).tolist() != alone[name][neighbour].tolist():
                found.append((name, [pool[i] for i in neighbour]))
    return found


def taken(pool, rows):
    if pa.types.is_string_view(pool.type):  # Arrow cannot take
        return pa.array([pool[int(i)].as_py() for i in rows], pool.type)
    return pool.take(pa.array(rows))


def test_replay_of_columns_of_objects():
    rng = np.random.default_rng(0)
    assert fired(OBJECTS, lambda rows: objects([OBJECTS[i] for i in rows]), rng, 5000) == []


def test_replay_of_arrow_columns():
    rng, pools = np.random.default_rng(2), list(arrow_pools())
    for pool in pools:
        assert fired(pool, lambda rows, pool=pool: taken(pool, rows), rng, 4000 // len(pools)) == []


def test_replay_of_arrow_columns_in_pandas():
    """As pandas holds them in Arrow's types."""
    rng = np.random.default_rng(3)
    for pool in arrow_pools():

        def take(rows, pool=pool):
            return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([taken(pool, rows)])))

        assert fired(pool, take, rng, 10) == []


def test_replay_of_text_of_csv_files(tmp_path):
    rng, pool = np.random.default_rng(4), [v.replace(",", ".") for v in OBJECTS if type(v) is str]

    def take(rows):
        (tmp_path / "t.csv").write_text("x;y\n" + "".join(f"{pool[i]};0\n" for i in rows))
        return read_raw(tmp_path / "t.csv")["x"]

    assert fired(pool, take, rng, 400) == []


def test_replay_of_parquet_files(tmp_path):
    rng = np.random.default_rng(5)
    for pool in arrow_pools():

        def take(rows, pool=pool):
            pq.write_table(pa.table({"x": taken(pool, rows)}), tmp_path / "t.parquet")
            return read_raw(tmp_path / "t.parquet")["x"]

        if not (pa.types.is_dictionary(pool.type) and pool.dictionary.null_count):  # Arrow cannot write it
            assert fired(pool, take, rng, 10) == []


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
