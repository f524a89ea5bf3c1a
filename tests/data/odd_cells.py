"""Odd cells of every kind, and columns of the domain by which they are coded: for replays and for golden codes."""

import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa

from marginalia.data.column import Column

BERLIN, TOKYO = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Tokyo")


def at(text, zone=None):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=zone)


def day(text):
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


DAYS = Column("x", 3, edges=(day("2020-01-01"), day("2020-01-02"), day("2020-01-03"), day("2020-01-04")), type="date")
ATTRIBUTES = {
    "labels": Column("x", 7, labels=("1", "1.50", "True", "2020-01-01", "a", "b", "07"), type="string"),
    "labels, other": Column(
        "x", 9, labels=("1.0", "1.5", "yes", "no", "2020-01-01 00:00:00", "3", "a"), type="string", other="else",
        missing=("inf", "-99", "?"),
    ),
    "labels, lenient": Column(
        "x", 4, labels=("a", "2020-01-01"), type="string", other="else", missing=("-99",), lenient=True
    ),
    "numbers": Column(
        "x", 4, edges=(0, 1, 2, 1e9), type="number", bottom=True, top=True, missing=("inf", "-99", "?", "nan")
    ),
    "numbers, lenient": Column(
        "x", 3, edges=(0, 1, 2), type="number", bottom=True, top=True, missing=("inf", "-99"), lenient=True
    ),
    "integers": Column("x", 4, labels=("0", "1", "3"), type="integer", missing=("-99", "inf")),
    "days": Column(
        "x", 4, edges=DAYS.edges, type="date", bottom=True, top=True, missing=("1900-01-01", "infinity")
    ),
    "days, lenient": Column(
        "x", 2, edges=(0, day("2020-01-02")), type="date", bottom=True, top=True, missing=(), lenient=True
    ),
    "days, format": Column("x", 3, labels=("2020-01-01", "2020-01-02"), type="date", format="%d/%m/%Y", missing=()),
    "truths": Column("x", 3, labels=("no", "yes"), type="boolean", missing=("?", "-99")),
    "codes": Column("x", 4, type="code", missing=("-99",)),
}  # fmt: skip


def objects(values):
    return pd.Series(values, dtype=object)


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


def taken(pool, rows):
    if pa.types.is_string_view(pool.type):  # Arrow cannot take
        return pa.array([pool[int(i)].as_py() for i in rows], pool.type)
    return pool.take(pa.array(rows))
