"""Codes of the catalogue's data sets, of odd cells, of every type from every source, and of odd CSV files."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from marginalia.data import Domain, Table
from marginalia.data.catalogue import catalogue
from marginalia.data.datasets import load
from marginalia.data.download import UnreachableError, find_local
from marginalia.data.table import RawTable, Rows
from marginalia.errors import InputError
from tests.data.made_columns import in_arrow, in_int96, in_pandas
from tests.data.odd_cells import ATTRIBUTES, DUCKDB, OBJECTS, arrow_pools
from tests.data.table_of_types import attributes
from tests.golden.corpus import Part, digest
from tests.golden.csv_files import DOMAIN, FILES

TYPES = Path(__file__).with_name("types.yaml")


def codes_or_message(read: Any, hidden: str = "\0") -> str:
    """Return the codes of the table that `read()` returns, row by row, or its error message without a path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            rows = read().codes.tolist()
        except InputError as error:
            return f"error: {error}".replace(hidden, "FILE")
        except Exception as error:  # a defect, and part of what must not change unseen
            return f"{type(error).__name__}: {error}".splitlines()[0]
    return " ".join(",".join(map(str, row)) for row in rows)


# --- data sets of the catalogue ---------------------------------------------------------------------------------------


def _packaged() -> frozenset[str]:
    """Return the data sets whose files come from packages of the index only: to download them takes a minute."""
    files = {name: catalogue.entry(name).files.values() for name in catalogue.names()}
    return frozenset(n for n, some in files.items() if any(all(e.url is None for e in f.editions) for f in some))


def catalogue_values(group: str) -> dict[str, str]:
    """Return digests of the codes of a data set; none where a file of it cannot be had here."""
    files = catalogue.entry(group).files.values()
    if group not in _packaged() and any(find_local(file) is None for file in files):
        return {}
    try:
        loaded = load(group)
    except UnreachableError:
        return {}
    tables = {"rows": loaded.table, "test rows": loaded.released_test}
    return {
        name: f"{table.n_rows} {digest(content(table))} domain {digest(table.domain.to_dict())}"
        for name, table in tables.items()
        if table is not None
    }


def content(table: Rows) -> bytes:
    """Return the codes of a table, or the numbers of raw rows that a fit codes."""
    if isinstance(table, RawTable):
        return table.frame.to_numpy("<f8").tobytes()
    return table.codes.astype("<i8").tobytes()


# --- odd cells ----------------------------------------------------------------------------------------------------


FAST_CELLS = {"labels", "numbers", "integers", "days", "truths"}


def _frames_of_cells() -> Iterator[tuple[str, Any]]:
    """Yield odd cells, each as a frame with one row, with a name that tells source, kind and place."""
    for place, cell in enumerate(OBJECTS):
        yield f"object {place} {type(cell).__name__}", pd.DataFrame({"x": pd.Series([cell], dtype=object)})
    for number, pool in enumerate(arrow_pools()):
        for place in range(len(pool)):
            yield f"arrow {number} {pool.type} {place}", pa.table({"x": pool.slice(place, 1)})


def cells_values(group: str) -> dict[str, str]:
    """Return the code of each odd cell in one column of the domain, or its error message."""
    domain = Domain([ATTRIBUTES[group]])
    return {
        name: codes_or_message(lambda frame=frame: Table.from_frame(frame, domain))
        for name, frame in _frames_of_cells()
    }


# --- every type from every source -----------------------------------------------------------------------------------


Readers = Iterator[tuple[str, Callable[[], Table]]]  # type of the column, how to read it


def types_values(group: str) -> dict[str, str]:
    """Return the codes of the cells of each row of the table of types from one kind of source."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in yaml.safe_load(TYPES.read_text(encoding="utf-8")):
            for attribute in attributes(row["types"], row["cells"]):
                of = f"{attribute.type}{' labels' if attribute.labels else ''}: {' '.join(row['cells'])}"
                for name, read in SOURCES[group](row, Domain([attribute]), Path(folder)):
                    found[f"{of} as {name}"] = codes_or_message(read, folder)
    return found


def _from_csv(row: Any, domain: Domain, folder: Path) -> Readers:
    path, domain = folder / "t.csv", Domain([*domain], ignored=["y"])  # a file of one column has no empty cell
    path.write_text("x,y\n" + "".join(f"{cell},0\n" for cell in [*row["cells"], ""]))
    yield "text", lambda: Table.read(path, domain=domain)
    yield "streamed text", lambda: streamed(path, domain)


def _from_pandas(row: Any, domain: Domain, folder: Path) -> Readers:
    for name in row["pandas"]:
        frame = pd.DataFrame({"x": in_pandas(row["cells"], name)})
        yield name, lambda frame=frame: Table.from_frame(frame, domain)


def _arrow_tables(row: Any) -> Iterator[tuple[str, pa.Table]]:
    for name in row["arrow"]:
        if not name.startswith("INT96"):  # a type of Parquet files alone
            yield name, pa.table({"x": in_arrow(row["cells"], name)})


def _from_arrow(row: Any, domain: Domain, folder: Path) -> Readers:
    for name, table in _arrow_tables(row):
        yield name, lambda table=table: Table.from_frame(table, domain)


def _from_polars(row: Any, domain: Domain, folder: Path) -> Readers:
    import polars

    for name, table in _arrow_tables(row):
        if not name.startswith(("decimal32", "decimal256")):  # which Polars lacks
            frame = polars.from_arrow(table)
            yield name, lambda frame=frame: Table.from_frame(frame, domain)


def _from_parquet(row: Any, domain: Domain, folder: Path) -> Readers:
    path = folder / "t.parquet"
    for name in row["arrow"]:
        if name.startswith("INT96"):
            in_int96(row["cells"], path, spark="Spark" in name)
        else:
            pq.write_table(pa.table({"x": in_arrow(row["cells"], name)}), path)
        yield name, lambda: Table.read(path, domain=domain)
        yield f"streamed {name}", lambda: streamed(path, domain)


def _from_duckdb(row: Any, domain: Domain, folder: Path) -> Readers:
    for name in row["duckdb"]:
        cells = ", ".join(f"('{cell}'::{name})" for cell in row["cells"])
        query = f"SELECT x::{name} AS x FROM (VALUES {cells}, (NULL)) AS t(x)"
        yield name, lambda query=query: in_duckdb(query, domain)


SOURCES = {
    "csv": _from_csv,
    "pandas": _from_pandas,
    "arrow": _from_arrow,
    "polars": _from_polars,
    "parquet": _from_parquet,
    "duckdb": _from_duckdb,
}


def streamed(path: Path, domain: Domain) -> Table:
    """Return the rows of a file read as a stream."""
    from marginalia.data.sources.opening import Data

    return Data.parse(path).stream(domain).in_memory()


def in_duckdb(query: str, domain: Domain) -> Table:
    """Return the rows of a query of DuckDB, in the order of their codes: a database has no order of rows."""
    from marginalia.data.sources.opening import Data

    table = Data.parse(f"duckdb:///?query={query}").open(domain).in_memory()
    return table.take(np.lexsort(table.codes.T[::-1]))


def duckdb_cells_values(group: str) -> dict[str, str]:
    """Return the code of each odd cell of DuckDB in one column of the domain, or its error message."""
    found = {}
    for kind, written in DUCKDB.items():
        for cell in ["NULL", *(f"'{one}'" for one in written.split(" | "))]:
            query = f"SELECT x FROM (VALUES (({cell})::{kind})) AS t(x)"
            found[f"{kind} {cell}"] = codes_or_message(
                lambda query=query: in_duckdb(query, Domain([ATTRIBUTES[group]]))
            )
    return found


# --- odd CSV files --------------------------------------------------------------------------------------------------


def files_values(group: str) -> dict[str, str]:
    """Return the codes or the message of an odd CSV file, read whole, as a stream, and as raw text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(FILES[group])
        return {
            "whole": codes_or_message(lambda: Table.read(path, domain=DOMAIN), folder),
            "streamed": codes_or_message(lambda: streamed(path, DOMAIN), folder),
            "text": _text(path, folder),
        }


def _text(path: Path, folder: str) -> str:
    from marginalia.data.reading import read_raw

    try:
        frame = read_raw(path)
    except InputError as error:
        return f"error: {error}".replace(folder, "FILE")
    return repr([list(frame.columns), *frame.astype(object).to_numpy().tolist()])


PARTS = [
    Part(
        "catalogue", lambda: list(catalogue.names()), catalogue_values, slow=_packaged(), mirror=True, incomplete=True
    ),
    Part("cells", lambda: list(ATTRIBUTES), cells_values, slow=frozenset(ATTRIBUTES) - FAST_CELLS),
    Part("cells_of_duckdb", lambda: list(ATTRIBUTES), duckdb_cells_values, slow=frozenset(ATTRIBUTES)),
    Part("types", lambda: list(SOURCES), types_values, slow=frozenset({"duckdb"})),
    Part("csv_files", lambda: list(FILES), files_values),
]
