"""The table of types in docs/domain-files.md, cell for cell: the same codes from every source."""

import datetime
import re
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_of_types import attributes, expected, rows_of_the_table

from marginalia.data.domain import Domain
from marginalia.data.sources.parquet import ParquetSource
from marginalia.data.sources.sql import SQLSource
from marginalia.data.table import Table

FAR = {"12000-01-01": 3_663_382}
ROWS = list(rows_of_the_table())
by_row = pytest.mark.parametrize(("types", "cells", "names"), ROWS, ids=[" ".join(row[1]) for row in ROWS])


def true(cell):
    return cell in ("true", "yes", "1")


def in_pandas(cells, name):
    if name == "instant":
        return pd.Series([*map(pd.Timestamp, cells), None], dtype=object)
    if name.startswith("datetime64"):
        return pd.Series(np.array([*cells, "NaT"], dtype=name))
    if name == "date":
        days = [cell if cell in FAR else datetime.date.fromisoformat(cell) for cell in cells]
        return pd.Series([*days, None], dtype=object)
    one = {"bool": true, "boolean": true, "decimal": Decimal, "bytes": str.encode, "uuid": uuid.UUID}.get(name)
    if name == "object":
        one = true if {*cells} <= {"true", "false", "yes", "no"} else int if cells[0].lstrip("-").isdigit() else str
    if one is not None:
        dtype = "boolean" if name == "boolean" else object
        return pd.Series([*map(one, cells), None], dtype=dtype)
    if name in ("str", "category"):
        return pd.Series([*cells, None], dtype=name)
    if name[0] in "IF":
        return pd.array([*map(float if name[0] == "F" else int, cells), None], dtype=name)
    if "int" in name:  # has no missing value
        return pd.Series(list(map(int, cells)), dtype=name)
    return pd.Series([*map(float, cells), np.nan]).astype(name)


def in_arrow(cells, name):
    if name in ("date32", "date64") and set(cells) & set(FAR):
        days = pa.array([*(FAR[cell] for cell in cells), None], pa.int32()).cast(pa.date32())
        return days if name == "date32" else pa.array([FAR[c] * 86_400_000 for c in cells] + [None]).cast(pa.date64())
    made = re.fullmatch(r"(\w+)[(\[](.*)[)\]]", name)
    texts = pa.array([*cells, None], pa.string())
    if name == "bool":
        return pa.array([*map(true, cells), None])
    if name == "dictionary":
        return texts.dictionary_encode()
    if made is None or made[1] not in ("timestamp", "decimal32", "decimal128", "decimal256"):
        if name.startswith(("int", "uint")):
            return pa.array([*map(int, cells), None], name)
        return texts.cast({"date32": pa.date32(), "date64": pa.date64()}.get(name, name))
    if made[1] != "timestamp":
        return pa.array([*map(Decimal, cells), None], getattr(pa, made[1])(*map(int, made[2].split(", "))))
    unit, _, zone = made[2].partition(", ")
    return texts.cast(pa.timestamp(unit, "UTC" if zone else None)).cast(pa.timestamp(unit, zone or None))


def in_int96(cells, path, *, spark):
    """Write times as Spark and Hive do, and say so if it was Spark."""
    times = pa.array([*cells, None], pa.string()).cast(pa.timestamp("ns", "UTC" if spark else None))
    table = pa.table({"x": times.cast(pa.timestamp("ns"))})
    table = table.replace_schema_metadata({"org.apache.spark.version": "4.0.0"} if spark else None)
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False)
    assert pq.read_metadata(path).schema.column(0).physical_type == "INT96"


def framed(made):
    """Return frames of other libraries with an Arrow column: those that are here."""
    table = pa.table({"x": made})
    yield table
    for library in ("polars", "narwhals"):
        try:
            module = __import__(library)
        except ImportError:
            continue
        if library == "narwhals" or ("decimal32" not in str(made.type) and "decimal256" not in str(made.type)):
            yield module.from_arrow(table) if library == "polars" else module.from_native(table)


@by_row
def test_pandas_gives_the_codes_of_the_text(types, cells, names, tmp_path):
    for attribute in attributes(types, cells):
        codes = expected(cells, attribute, tmp_path)
        for name in names[0]:
            made = in_pandas(cells, name)
            frame = pd.DataFrame({"x": made})
            assert Table.from_frame(frame, Domain([attribute])).codes[:, 0].tolist() == codes[: len(made)], name
            if not (name == "float16" or (isinstance(made.dtype, object) and name in ("uuid",))):
                again = pd.DataFrame({"x": made.astype("category")})
                assert Table.from_frame(again, Domain([attribute])).codes[:, 0].tolist() == codes[: len(made)], name


@by_row
def test_arrow_and_parquet_give_the_codes_of_the_text(types, cells, names, tmp_path):
    path = tmp_path / "t.parquet"
    for attribute in attributes(types, cells):
        codes, domain = expected(cells, attribute, tmp_path), Domain([attribute])
        for name in names[1]:
            if name.startswith("INT96"):
                in_int96(cells, path, spark="Spark" in name)
            else:
                made = in_arrow(cells, name)
                for frame in framed(made):
                    assert Table.from_frame(frame, domain).codes[:, 0].tolist() == codes, (name, type(frame))
                pq.write_table(pa.table({"x": made}), path)
            assert Table.read(path, domain=domain).codes[:, 0].tolist() == codes, name
            assert ParquetSource(path, domain=domain).in_memory().codes[:, 0].tolist() == codes, name


@by_row
def test_duckdb_gives_the_codes_of_the_text(types, cells, names, tmp_path):
    pytest.importorskip("duckdb")
    pytest.importorskip("ibis")
    for attribute in attributes(types, cells):
        codes = expected(cells, attribute, tmp_path)
        for name in names[2]:
            values = ", ".join(f"('{cell}'::{name})" for cell in cells)
            query = f"SELECT x::{name} AS x FROM (VALUES {values}, (NULL)) AS t(x)"
            source = SQLSource(f"duckdb:///?query={query}", domain=Domain([attribute]))
            assert source.in_memory().codes[:, 0].tolist() == sorted(codes), name


@pytest.mark.parametrize("types", [["boolean", "string"]])
@pytest.mark.parametrize("cells", [["yes", "no"], ["true", "false"]])
def test_what_duckdb_takes_for_truth_values_in_a_file_keeps_its_code(types, cells, tmp_path):
    """DuckDB makes Booleans of yes and no, which then were not among the labels."""
    pytest.importorskip("ibis")
    for attribute in attributes(types, cells):
        codes = expected(cells, attribute, tmp_path)
        query = f"SELECT x FROM read_csv('{tmp_path}/t.csv', header=true)"
        source = SQLSource(f"duckdb:///?query={query}", domain=Domain([attribute]))
        assert source.in_memory().codes[:, 0].tolist() == sorted(codes)
