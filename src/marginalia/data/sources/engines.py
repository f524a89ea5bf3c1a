"""Database engines behind Ibis: connect for reading only, and stream rows as Arrow batches in bounded memory."""

from __future__ import annotations

import logging
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from marginalia.data.sources.arrow import BATCH
from marginalia.data.sources.location import Location
from marginalia.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

# One snapshot for all passes, and no statement that writes.
_POSTGRESQL = r"-c default_transaction_isolation=repeatable\ read -c default_transaction_read_only=on"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep back what engines warn the authors of one another of: that a method or a version will go.

    >>> import warnings
    >>> with quiet():
    ...     warnings.warn("fetch_arrow_table() is deprecated", DeprecationWarning)
    """
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        yield


def opened(location: Location) -> ir.Table:
    """Return the table or query as an expression of Ibis, on a new connection that only reads.

    Raises
    ------
    InputError
        The engine's package is not installed, the server refuses, or there is no such table.

    >>> from marginalia.data.sources.location import Location
    >>> opened(Location.parse("duckdb:///no/such.db?table=t"))
    Traceback (most recent call last):
    marginalia.errors.InputError: ...no/such.db...
    """
    with quiet():
        return _opened(location)


def _opened(location: Location) -> ir.Table:
    try:
        import ibis

        backend = _CONNECT[location.engine](location)
    except ImportError as error:
        raise InputError(
            f"{location.engine} needs packages that are not installed ({said(error)}); "
            f"pip install 'marginalia[{location.engine}]'"
        ) from None
    except InputError:
        raise
    except Exception as error:  # each engine has its own kinds
        why = said(error)
        raise InputError(f"{location}: {why}{'; Spark needs Java 17' if 'JAVA_GATEWAY' in why else ''}") from None
    try:
        if location.kind == "query":
            return _query(backend, location.text)
        *schema, name = location.text.split(".")
        return backend.table(name, database=tuple(schema) or None)
    except Exception as error:
        close(backend)
        missing = isinstance(error, ibis.common.exceptions.TableNotFound)
        why = "there is no such table, or no right to read it" if missing else said(error)
        raise InputError(f"{location}: {why}") from None


def close(backend: Any) -> None:
    """Close a connection that `opened` made, which else holds a snapshot or a lock; Spark's session stays.

    >>> close(opened(Location.parse("duckdb:///?query=SELECT 1 AS ward")).get_backend())
    """
    if backend.name != "pyspark":
        backend.con.close()


def stream(table: ir.Table, columns: Sequence[str]) -> Iterator[Any]:
    """Yield the rows of some columns as record batches; no more than a few are in memory at once.

    >>> import inspect
    >>> inspect.isfunction(stream)
    True
    """
    import ibis

    rows = table.select(*columns) if columns else table.select(one=ibis.literal(1))
    backend = table.get_backend()
    of_engine = _STREAM.get(backend.name)
    return iter(rows.to_pyarrow_batches(chunk_size=BATCH) if of_engine is None else of_engine(backend, rows))


def said(error: BaseException) -> str:
    r"""Return the line of an engine's error that says what is wrong.

    >>> said(ValueError("no such column\nLINE 1: SELECT x"))
    'no such column'
    """
    cause = getattr(error, "java_exception", None)  # Spark's: what a task met stands at the end of the chain
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(error if cause is None else cause.getMessage())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else f"the connection broke ({type(error).__name__})"


def _duckdb(location: Location) -> Any:
    import ibis

    place = location.place
    if place and not place.startswith("/"):
        raise InputError(f"duckdb://{place}: write duckdb:///{place}, or four slashes before a path from the root")
    path = place[1:]
    # A name that is no table's is not looked up among the variables of this program.
    options = {"read_only": True} if path else {}
    return ibis.duckdb.connect(path or ":memory:", python_enable_replacements=False, **options)


def _postgresql(location: Location) -> Any:
    import ibis

    backend = ibis.postgres.connect(
        host=location.host or None, user=location.user or None, database=location.database or None,
        port=int(location.port or os.environ.get("PGPORT", "5432")), autocommit=False, options=_POSTGRESQL,
        application_name="marginalia",
    )  # fmt: skip
    backend.con.execute("SELECT 1")  # begins the transaction; those of Ibis are savepoints in it
    weakref.finalize(backend, backend.con.close)  # for whoever does not close it
    return backend


def _spark(location: Location) -> Any:
    import ibis
    from pyspark.sql import SparkSession

    master = location.place.rstrip("/")
    if master and not master.startswith("local"):
        master = f"spark://{master}"
    session = SparkSession.getActiveSession()
    if session is None:
        builder = SparkSession.builder.appName("marginalia").config("spark.ui.showConsoleProgress", "false")
        if master:
            builder = builder.master(master)
        if not master.startswith("spark://"):  # the workers may be on this machine
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.config("spark.ui.enabled", "false")
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")  # what fails is raised, and said in one line
        logging.getLogger("SQLQueryContextLogger").disabled = True
    elif master and session.sparkContext.master != master:
        raise InputError(f"{location}: this process runs Spark on {session.sparkContext.master}; one at a time")
    return ibis.pyspark.connect(session)


_CONNECT: dict[str, Callable[[Location], Any]] = {"duckdb": _duckdb, "postgresql": _postgresql, "spark": _spark}


def _query(backend: Any, query: str) -> ir.Table:
    """Return a query as a table; what is no query is refused before the engine sees it."""
    import sqlglot

    parsed = sqlglot.parse(query, dialect=backend.dialect)
    if len(parsed) != 1 or not isinstance(parsed[0], sqlglot.exp.Query):
        raise InputError("the query must be one SELECT")
    columns = _COLUMNS.get(backend.name)
    if columns is None:
        return backend.sql(query)
    read = backend.compiler.type_mapper.from_string
    return backend.sql(query, schema={name: read(kind) for name, kind in columns(backend, query)})


def _columns_of_duckdb(backend: Any, query: str) -> Iterator[tuple[str, str]]:
    # Ibis 12 calls methods that DuckDB 2 has no more, here and in `_of_duckdb`.
    found = backend.con.sql(query)
    yield from zip(found.columns, map(str, found.types), strict=True)


def _columns_of_postgresql(backend: Any, query: str) -> Iterator[tuple[str, str]]:
    # Ibis would make a view, and that is no reading.
    with backend.con.cursor() as cursor:
        cursor.execute(f"SELECT * FROM ({query}) AS q LIMIT 0")
        for column in list(cursor.description):
            yield column.name, cursor.execute("SELECT format_type(%s, NULL)", (column.type_code,)).fetchone()[0]


def _of_duckdb(backend: Any, rows: ir.Table) -> Iterator[Any]:
    with backend.con.cursor() as cursor:
        yield from cursor.sql(backend.compile(rows)).to_arrow_reader(BATCH)


def _of_postgresql(backend: Any, rows: ir.Table) -> Iterator[Any]:
    # As Ibis does it, but the cursor ends before its transaction: else an error, or an early end, breaks the session.
    import pyarrow as pa

    kinds = rows.schema().as_struct().to_pyarrow()
    with backend.con.transaction(), backend.con.cursor(name="marginalia") as cursor:
        cursor.execute(backend.compile(rows))
        while records := cursor.fetchmany(BATCH):
            yield pa.RecordBatch.from_struct_array(pa.array(records, type=kinds))


def _of_spark(backend: Any, rows: ir.Table) -> Iterator[Any]:
    """Yield what each partition packs on its worker; Ibis, as `toArrow`, would collect the whole table first."""
    import pyarrow as pa

    def packed(batches: Iterator[Any]) -> Iterator[Any]:  # travels by value: workers need PyArrow only
        import pyarrow as pa

        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["batch"])

    frame = backend.raw_sql(backend.compile(rows))
    for row in frame.mapInArrow(packed, "batch binary").toLocalIterator():
        yield from pa.ipc.open_stream(bytes(row[0]))


_COLUMNS: dict[str, Callable[[Any, str], Iterator[tuple[str, str]]]] = {
    "duckdb": _columns_of_duckdb,
    "postgres": _columns_of_postgresql,
}
_STREAM: dict[str, Callable[[Any, Any], Iterator[Any]]] = {
    "duckdb": _of_duckdb,
    "postgres": _of_postgresql,
    "pyspark": _of_spark,
}
