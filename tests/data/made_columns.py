"""Columns of pandas and Arrow of a named type, made of cells that are given as text."""

import datetime
import re
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

FAR = {"12000-01-01": 3_663_382}


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
