"""Prepared rows of a sweep: what becomes of a cell depends on that cell and on the public domain alone."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from tiers import others_slow

from marginalia.data.catalogue.entry import parse_entry
from marginalia.data.cell_files import cell_texts, read_cells, write_cells
from marginalia.data.cells import cells_of, of_object
from marginalia.data.coding import category_counts
from marginalia.data.table import RawTable
from marginalia.errors import InputError
from marginalia.sweep.prepare import prepare_dataset
from marginalia.sweep.protocols import Prepared

N = 6
DAYS, SECONDS = list(range(18_000, 18_000 + N)), [1_600_000_000 + 3600 * i for i in range(N)]
TIMES = {"type": "timestamp", "unit": "second"}
PRIVATE = {"private": "adaptive", "bins": 3}

# Column of the domain; Arrow type of the file; cells; cells that replace the last one.
COLUMNS = {
    "integers above 2^53": ("labels", pa.int64(), [2**53 + i for i in range(N)], [1, 2**63 - 1]),
    "integers above 2^63": ("labels", pa.uint64(), list(range(N)), [2**63, 2**64 - 1]),
    "small integers": ("labels", pa.int8(), list(range(N)), [-128]),
    "integer edges": ({"type": "integer", "edges": PRIVATE}, pa.int64(), [2**52 + i for i in range(N)], [0, -(2**63)]),
    "doubles": ({"type": "number", "edges": PRIVATE}, pa.float64(), [0.1 * i for i in range(N)], [1e300, float("nan")]),
    "whole doubles": ("labels", pa.float64(), [float(i) for i in range(N)], [0.5, float("inf"), 2.0**70]),
    "singles": ("labels", pa.float32(), [0.1 * i for i in range(N)], [1e30]),
    "decimals": ("labels", pa.decimal128(38, 2), [Decimal(f"{i}.50") for i in range(N)], [Decimal(10**30)]),
    "text": ("labels", pa.string(), ["1", "1.0", "a", "?", "inf", "2020-01-01"], ["0", "true", "-"]),
    "text in a dictionary": ("labels", pa.dictionary(pa.int32(), pa.string()), ["1", "a"] * 3, ["1.0"]),
    "doubles in a dictionary": ("labels", pa.dictionary(pa.int32(), pa.float64()), [0.5, 1.0] * 3, [float("nan")]),
    "booleans": ("labels", pa.bool_(), [True, False] * 3, [True]),
    "bytes": ("labels", pa.binary(), [b"a", b"b"] * 3, [b"\xff"]),
    "days": ({"type": "date", "edges": PRIVATE}, pa.date32(), DAYS, [0, 3_700_000, -800_000, 2**31 - 1]),
    "days as labels": ("labels", pa.date32(), DAYS, [3_700_000]),
    "days in milliseconds": ({"type": "date", "edges": PRIVATE}, pa.date64(), [d * 86_400_000 for d in DAYS], [0]),
    "seconds": ({**TIMES, "edges": PRIVATE}, pa.timestamp("s"), SECONDS, [0, 10**12, -(10**12)]),
    "microseconds": ({**TIMES, "edges": PRIVATE}, pa.timestamp("us"), [s * 10**6 + 1 for s in SECONDS], [10**18]),
    "nanoseconds": ({**TIMES, "edges": PRIVATE}, pa.timestamp("ns"), [s * 10**9 for s in SECONDS], [1]),
    "instants": (
        {**TIMES, "edges": PRIVATE},
        pa.timestamp("ms", "Europe/Berlin"),
        [s * 1000 for s in SECONDS],
        [10**15],
    ),
    "times of day": ("labels", pa.time64("us"), [i * 10**9 for i in range(N)], [1]),
    "durations": ("labels", pa.duration("s"), list(range(N)), [10**6]),
}
EDGES = {  # a bin for each of the cells above, and for the others together
    "integer": [-(2**52), *(2**52 + i for i in range(N + 1))],
    "number": [-1.0, *(0.1 * i for i in range(N + 1))],
    "date": [0, *(DAYS[0] + i for i in range(N + 1))],
    "timestamp": [0, *(SECONDS[0] + 3600 * i for i in range(N + 1))],
}
CASES = [(name, i) for name, (_, _, _, others) in COLUMNS.items() for i in range(len(others) + 1)]


def texts_of(raw):
    """Return the cells of raw rows as text, by column."""
    return {name: cell_texts(cells_of(raw.frame[name], name, lenient=True)).tolist() for name in raw.frame}


def entry(folder, files, of):
    column = {"name": "x", "type": "string", "labels": "private"} if of == "labels" else {"name": "x", **of}
    content = {
        "files": files,
        "attributes": [column, {"name": "y", "type": "boolean"}],
        "tasks": {"logistic": {"target": "y"}},
    }
    return parse_entry("own", content, folder=folder)


def prepared(folder, column, of, other=None):
    """Return a data set as a sweep stores it; `other` is the column of a released test part."""
    folder.mkdir()
    files = {"table": "t.parquet"} if other is None else {"train": "t.parquet", "test": "test.parquet"}
    for values, file in zip((column, other), files.values(), strict=False):
        parquet.write_table(pa.table({"x": values, "y": [i % 2 == 0 for i in range(len(values))]}), folder / file)
    own = entry(folder, files, of)
    prepare_dataset(own.model_dump(mode="json"), folder / "data")
    return Prepared.load(folder / "data")


def arrow(values, kind):
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def fate(raw):
    """Return the cell of each row, with its kind, and the code that a domain with many bins or labels gives it."""
    column = cells_of(raw.frame["x"], lenient=True)
    x = raw.domain["x"]
    if x.private == "labels":
        learned = x.closed(labels=list(category_counts(raw.frame["x"])))
        codes = [learned.texts[code] for code in raw.coded(raw.domain.closed({"x": learned})).column("x")]
    else:
        learned = x.closed(edges=EDGES[x.type])
        codes = raw.coded(raw.domain.closed({"x": learned})).column("x").tolist()
    return column.rows().tolist(), codes


FAST = [
    ("integers above 2^53", 0),
    ("integers above 2^63", 1),
    ("days", 2),
    ("decimals", 1),
    ("doubles in a dictionary", 1),
]


@pytest.mark.parametrize(("name", "which"), others_slow(CASES, *FAST))
def test_a_cell_changes_no_other_row(tmp_path, name, which):
    of, kind, values, others = COLUMNS[name]
    new = [None, *others][which]
    before = prepared(tmp_path / "before", arrow(values, kind), of)
    after = prepared(tmp_path / "after", arrow([*values[:-1], new], kind), of)
    for one, two in zip(fate(before.raw), fate(after.raw), strict=True):
        assert one[:-1] == two[:-1]
    assert texts_of(before.raw) != texts_of(after.raw)


@pytest.mark.parametrize("new", [None, 2**60, float("nan")])
def test_a_cell_of_the_test_part_changes_no_training_row(tmp_path, new):
    values = [2**53 + i for i in range(N)]
    kind = pa.float64() if isinstance(new, float) else pa.int64()
    one = prepared(tmp_path / "one", pa.array(values), "labels", pa.array([1, 2]))
    two = prepared(tmp_path / "two", pa.array(values), "labels", pa.array([1, new], kind))
    whole = [data.raw.append(data.raw_test) for data in (one, two)]
    for before, after in zip(*map(fate, whole), strict=True):
        assert before[:N] == after[:N]


def test_cells_of_text_keep_their_kind_in_a_file(tmp_path):
    cells = ["7", 7, 2**70, 2.0**70, 0.1, float("-inf"), True, Decimal("1.50"), None, dt.date(1, 1, 1), "12100-04-04"]
    cells += [dt.datetime(2020, 1, 1, 1, 2, 3, 4), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "a\0b", "é"]
    write_cells(pd.DataFrame({"a": cells, "b": None}, dtype=object), tmp_path / "t.parquet")
    frame = read_cells(tmp_path / "t.parquet")
    assert frame["a"].tolist() == [of_object(cell) for cell in cells]
    assert frame["b"].tolist() == [None] * len(cells)
    assert {str(kind) for kind in parquet.read_schema(tmp_path / "t.parquet").types} == {
        "dictionary<values=string, indices=int32, ordered=0>"
    }


def test_files_of_another_version_are_refused_in_one_line(tmp_path):
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="was prepared by another version of marginalia; prepare the data set again"):
        read_cells(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="cannot read"):
        read_cells(tmp_path / "none.parquet")


def test_appended_rows_keep_single_precision():
    from marginalia.data.domain import Domain

    schema = Domain.from_dict({"attributes": [{"name": "x", "type": "string", "labels": "private"}]})
    parts = [RawTable(pd.DataFrame({"x": np.array([0.1, 0.2], kind)}), schema) for kind in (np.float32, np.float64)]
    assert [cell.text for cell in parts[0].append(parts[1]).frame["x"]] == ["0.1", "0.2", "0.1", "0.2"]
