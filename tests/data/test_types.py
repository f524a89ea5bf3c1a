"""The table of types in docs/domain-files.md, cell for cell: the same codes from every source."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_columns import framed, in_arrow, in_int96, in_pandas
from table_of_types import attributes, expected, rows_of_the_table
from tiers import others_slow

from marginalia.data.domain import Domain
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.opening import Data
from marginalia.data.table import Table

ROWS = list(rows_of_the_table())
NAMES, IDS = ("types", "cells", "names"), [" ".join(cells) for _, cells, _ in ROWS]
by_row = pytest.mark.parametrize(NAMES, ROWS, ids=IDS)


@by_row
def test_pandas_gives_the_codes_of_the_text(types, cells, names, tmp_path):
    for column in attributes(types, cells):
        codes = expected(cells, column, tmp_path)
        for name in names[0]:
            made = in_pandas(cells, name)
            frame = pd.DataFrame({"x": made})
            assert Table.from_frame(frame, Domain([column])).codes[:, 0].tolist() == codes[: len(made)], name
            if not (name == "float16" or (isinstance(made.dtype, object) and name in ("uuid",))):
                again = pd.DataFrame({"x": made.astype("category")})
                assert Table.from_frame(again, Domain([column])).codes[:, 0].tolist() == codes[: len(made)], name


@by_row
def test_arrow_and_parquet_give_the_codes_of_the_text(types, cells, names, tmp_path):
    path = tmp_path / "t.parquet"
    for column in attributes(types, cells):
        codes, domain = expected(cells, column, tmp_path), Domain([column])
        for name in names[1]:
            if name.startswith("INT96"):
                in_int96(cells, path, spark="Spark" in name)
            else:
                made = in_arrow(cells, name)
                for frame in framed(made):
                    assert Table.from_frame(frame, domain).codes[:, 0].tolist() == codes, (name, type(frame))
                pq.write_table(pa.table({"x": made}), path)
            assert Table.read(path, domain=domain).codes[:, 0].tolist() == codes, name
            assert stream_files(path, domain=domain).in_memory().codes[:, 0].tolist() == codes, name


@pytest.mark.parametrize(NAMES, others_slow(ROWS, *ROWS[::4]), ids=IDS)
@pytest.mark.slow
def test_duckdb_gives_the_codes_of_the_text(types, cells, names, tmp_path):
    for column in attributes(types, cells):
        codes = expected(cells, column, tmp_path)
        for name in names[2]:
            values = ", ".join(f"('{cell}'::{name})" for cell in cells)
            query = f"SELECT x::{name} AS x FROM (VALUES {values}, (NULL)) AS t(x)"
            source = Data.parse(f"duckdb:///?query={query}").open(Domain([column]))
            assert source.in_memory().codes[:, 0].tolist() == sorted(codes), name


@pytest.mark.parametrize("types", [["boolean", "string"]])
@pytest.mark.parametrize("cells", [["yes", "no"], ["true", "false"]])
def test_what_duckdb_takes_for_truth_values_in_a_file_keeps_its_code(types, cells, tmp_path):
    """DuckDB makes Booleans of yes and no, which then were not among the labels."""
    for column in attributes(types, cells):
        codes = expected(cells, column, tmp_path)
        query = f"SELECT x FROM read_csv('{tmp_path}/t.csv', header=true)"
        source = Data.parse(f"duckdb:///?query={query}").open(Domain([column]))
        assert source.in_memory().codes[:, 0].tolist() == sorted(codes)
