"""Attack on the reader: one odd cell in one row changes the code of no other row, whatever the type and the source."""

import csv
import datetime
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odd_cells import ATTRIBUTES, OBJECTS

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.encode import Batch, encode
from marginalia.data.reading import pandas_frame, read_raw
from marginalia.data.sources.opening import Data

pytestmark = pytest.mark.slow

COLUMNS = ATTRIBUTES | {
    "hours": Column(
        "x", 4, edges=(0, 18262 * 24, 18263 * 24), type="timestamp", unit="hour", zone="Europe/Berlin", bottom=True,
        top=True, missing=("1900-01-01",), special=("?",), lenient=True,
    ),
    "cents": Column(
        "x", 3, edges=(0, 1, 2), type="number", decimals=2, bottom=True, top=True, missing=(), lenient=True
    ),
}  # fmt: skip

# Plain cells, among which one is changed.
PLAIN = ["1", "2.5", "a", "2020-01-01", "true", "07", "-99", "2020-01-01 10:30:00", "2020-01-01T23:00Z", "3", "b", "?"]
_WHOLE = sorted({sign * (2**k + d) for k in range(63) for d in (-1, 0, 1) for sign in (1, -1)})
ODD_WHOLE = [*_WHOLE[::3], 2**63 - 1, -(2**63), None]
ODD_NUMBERS = [
    *(float(x) * f for x in _WHOLE[::6] for f in (1, 0.1)),
    5e-324,
    1e300,
    np.nan,
    np.inf,
    -np.inf,
    -0.0,
    None,
]
ODD_TEXTS = list(
    dict.fromkeys(
        [
            *(v for v in OBJECTS if type(v) is str and v.strip()),
            *map(repr, ODD_NUMBERS[::3]),
            *(f"{year}-{rest}" for year in ("0001", "1900", "9999", "10000") for rest in ("01-01", "02-30", "W01-1")),
            *(f"2020-01-01{t}" for t in ("T24:00", " 10:60", "T10:30+25:00", " 10:30:00.1234567", "Z", "T10")),
            "TRUE", "False", "f", "off", "NULL", "NaN", "N/A", "#REF!", "=1+1", "+1", "1e3", "0x10", "1,234.5",
            "1.234,5",
            "١", "½", "１", "−1", "∞", "é", "e\u0301", "\u200b", "\u00a01", "a\u2028b", "😀", "\ufeff1",
            "a\nb", "a\r\nb",
            'say "a"', '"', "a;b", "a,b", "a\tb", "'", "\\", "a" * 9999, "1" * 400, "0" * 50 + "1", "1e400", "-1e-400",
            "January 1, 2020", "1 Jan 2020", "20200101", "1/1/20", "10:30", "inf", "infinity", "__import__('os')",
        ]
    )
)  # fmt: skip


def stored() -> Iterator[tuple[str, pa.DataType, list, list]]:
    """Yield column types, plain cells and odd ones: at least 100, or all that the type has."""
    whole, counts = [0, 1, 3, 7, 100, 2, -99, 5], [0, 1_577_836_800, 1_577_923_200, 86_400]
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        yield str(kind), kind, PLAIN, [*ODD_TEXTS, None, " "]
    yield "binary", pa.binary(), [p.encode() for p in PLAIN], [*(t.encode() for t in ODD_TEXTS), b"\xff", b"", None]
    yield "bool", pa.bool_(), [True, False, True], [True, False, None]
    yield "int8", pa.int8(), whole, [*range(-128, 128, 2), None]
    yield "int64", pa.int64(), whole, ODD_WHOLE
    yield (
        "uint64",
        pa.uint64(),
        [abs(x) for x in whole],
        [abs(x) for x in ODD_WHOLE if x is not None] + [2**64 - 1, None],
    )
    for kind in (pa.float64(), pa.float32()):
        yield str(kind), kind, [0.5, 1.0, 3.0, 0.1, -99.0, 1.5, 2.0], ODD_NUMBERS
    yield "decimal", pa.decimal128(38, 2), list(map(Decimal, ("1.00", "1.50", "-99", "3"))), [
        None if x is None else Decimal(x) / 100 for x in ODD_WHOLE
    ]  # fmt: skip
    yield (
        "date32",
        pa.date32(),
        [0, 18262, 18263],
        [None if x is None else x for x in ODD_WHOLE if x is None or abs(x) < 2**31],
    )
    for unit, scale in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        for zone in (None, "Europe/Berlin"):
            odd = [x for x in ODD_WHOLE if x != -(2**63)]
            yield f"timestamp {unit} {zone}", pa.timestamp(unit, zone), [c * scale for c in counts], odd


def array(cells: list, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array(cells, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(cells, pa.int64()).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(cells, kind.value_type).dictionary_encode()
    return pa.array(cells, kind)


def changed(plain: list, odd: list) -> list[list]:
    """Return the plain cells, and copies in each of which one odd cell stands in one row."""
    return [plain, *([*plain[: i % len(plain)], cell, *plain[i % len(plain) + 1 :]] for i, cell in enumerate(odd))]


def encoded(batches, column: Column, names: list[str]) -> np.ndarray:
    domain = Domain([column.replace(name=name) for name in names])
    return np.concatenate([found.codes for found in encode(batches, domain, on_error="collect")], axis=1)


def fired(codes: np.ndarray, odd: list) -> list:
    """Return the odd cells that changed the code of another row; the first line of codes is that of the plain cells."""
    n = codes.shape[1]
    others = np.array(
        [np.delete(codes[0], i % n).tolist() == np.delete(line, i % n).tolist() for i, line in enumerate(codes[1:])]
    )
    return [odd[i] for i in np.flatnonzero(~others)]


def of_arrow(table: pa.Table, folder):
    return [Batch("t", None, pandas_frame(table))]


def of_batches(table: pa.Table, folder):
    return [Batch("t", 0, table.combine_chunks().to_batches()[0])]


def of_pandas(table: pa.Table, folder):
    return [Batch("t", None, table.to_pandas(types_mapper=pd.ArrowDtype))]


def of_polars(table: pa.Table, folder):
    return [Batch("t", None, pandas_frame(pl.from_arrow(table)))]


def of_parquet(table: pa.Table, folder):
    pq.write_table(table, folder / "t.parquet")
    return [Batch("t", None, read_raw(folder / "t.parquet"))]


def of_parquet_stream(table: pa.Table, folder):
    pq.write_table(table, folder / "t.parquet")
    names = table.column_names
    return list(Data.parse(folder / "t.parquet").stream(Domain.from_sizes(dict.fromkeys(names, 2)))._batches(names))


def of_duckdb(table: pa.Table, folder):
    path = folder / "t.db"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as base:
        base.register("t", table)
        base.execute("CREATE TABLE rows AS SELECT * FROM t")
    names = table.column_names
    source = Data.parse(f"duckdb:///{path}?table=rows").stream(Domain.from_sizes(dict.fromkeys(names, 2)))
    return list(source._batches(names))


SOURCES = [of_arrow, of_batches, of_pandas, of_polars, of_parquet, of_parquet_stream, of_duckdb]


@pytest.mark.parametrize("source", SOURCES)
def test_an_odd_cell_of_a_typed_column_changes_no_other_row(source, tmp_path, record_property):
    tried, moved = 0, []
    for name, kind, plain, odd in stored():
        columns = [array(cells, kind) for cells in changed(plain, odd)]
        names = [f"x{i}" for i in range(len(columns))]
        try:
            batches = source(pa.table(dict(zip(names, columns, strict=True))), tmp_path)
        except (duckdb.Error, pa.ArrowInvalid, OverflowError):
            assert name.startswith("timestamp"), name  # times that the other side cannot hold
            print(source.__name__, "holds no", name)
            continue
        for of, column in COLUMNS.items():
            moved += [(name, of, cell) for cell in fired(encoded(batches, column, names), odd)]
            tried += len(odd)
    record_property("tried", tried)
    print(source.__name__, tried)
    assert moved == []


def test_an_odd_object_changes_no_other_row_of_a_data_frame():
    """Python objects of any kind, in columns of objects, and of the type that pandas gives the column."""
    plain = [1, 2.5, "a", datetime.date(2020, 1, 1), True, None, Decimal("1.50"), datetime.datetime(2020, 1, 1, 10, 30)]
    odd = [*OBJECTS, *ODD_WHOLE[::4], *ODD_NUMBERS[::4], 10**5000, [1], {"a": 1}, {1}, np.array([1, 2]), object, print]
    tried, refused, moved = 0, 0, []
    for base, kind in (
        (plain, object),
        ([1, 2, 3, 5], None),
        ([0.5, 1.0, 3.0], None),
        (["a", "1", "b"], None),
        (["a", "1"], "category"),
    ):
        for cell in odd:
            columns = changed(base, [cell])
            try:
                frame = pd.DataFrame({f"x{i}": pd.Series(cells, dtype=kind) for i, cells in enumerate(columns)})
            except (TypeError, ValueError, InvalidOperation):
                assert kind == "category", cell  # lists, and signalling NaN, are no categories of pandas
                continue
            if frame["x1"].dtype.kind == "c":  # pandas has made complex numbers of the other rows, before any reader
                continue
            for of, column in COLUMNS.items():
                tried += 1
                domain = Domain([column.replace(name=name) for name in frame.columns])
                [found] = encode([Batch("t", None, frame)], domain, on_error="collect")
                if any(p.severity == "error" and not p.rows for p in found.problems):
                    assert isinstance(cell, list | dict | set | np.ndarray), cell  # no cell: the table is refused
                    assert not column.lenient
                    refused += 1
                    continue
                moved += [(of, odd_cell) for odd_cell in fired(found.codes, [cell])]
    print("objects", tried, "refused", refused)
    assert moved == []


@pytest.mark.parametrize("separator", [",", ";"])
def test_an_odd_text_of_a_csv_file_changes_no_other_row(separator, tmp_path):
    """Each in a file of its own: a quote or a line break in one cell changes how the whole file is read."""
    names, tried, moved = list(COLUMNS), 0, []
    domain = Domain([column.replace(name=name) for name, column in COLUMNS.items()])

    def codes(cells: list[str], *, whole: bool) -> np.ndarray:
        with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=separator).writerows([names, *([cell] * len(names) for cell in cells)])
        if whole:
            batches = [Batch("t", None, read_raw(tmp_path / "t.csv"))]
        else:
            batches = Data.parse(tmp_path / "t.csv").stream(domain)._batches(names)
        return np.concatenate([found.codes for found in encode(batches, domain, on_error="collect")], axis=1)

    for whole in (True, False):
        plain, *others = changed(PLAIN, ODD_TEXTS)
        base = codes(plain, whole=whole)
        for i, cells in enumerate(others):
            row = i % len(PLAIN)
            tried += len(names)
            if (np.delete(codes(cells, whole=whole), row, axis=1) != np.delete(base, row, axis=1)).any():
                moved.append((whole, ODD_TEXTS[i]))
    print("csv", tried)
    assert moved == []
