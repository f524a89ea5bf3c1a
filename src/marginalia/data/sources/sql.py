"""Tables and queries of databases: their URLs, read strictly and shown without credentials; their engines, by Ibis."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from marginalia.data.domain import Domain
from marginalia.data.sources.stream import BATCH, Stream
from marginalia.errors import InputError, unknown_name, without_secrets
from marginalia.waiting import CONNECT_SECONDS, limited

if TYPE_CHECKING:
    import ibis.expr.types as ir


ENGINES = ("duckdb", "postgresql", "spark")
FORM = "duckdb:///FILE?table=NAME, postgresql://HOST/DATABASE?table=SCHEMA.NAME or spark://MASTER?table=NAME"
_PASSWORD = re.compile(r"(password|passwd|pwd)\s*=|://[^/?#\s'\"]*:[^/?#\s'\"]*@", re.IGNORECASE)
_PARTS = re.compile(r"(?P<engine>[a-z][a-z0-9+.-]*)://(?P<place>[^?]*)\?(?P<kind>table|query)=(?P<text>.+)", re.DOTALL)
_SERVER = re.compile(
    r"((?P<user>[^@/:]+)@)?(?P<host>\[[0-9a-fA-F:]+\]|[^@/:\[\]]*)(:(?P<port>\d{1,5}))?(/(?P<name>[^/]+))?/?"
)


@dataclass(frozen=True)
class Location:
    """Where a table or the rows of a query lie.

    Attributes
    ----------
    engine : {"duckdb", "postgresql", "spark"}
    place : str
        The file, the server and its database, or Spark's master; "" as the engine's own environment says.
    kind : {"table", "query"}
    text : str
        The name of the table, which may follow that of its schema and a dot; or a SELECT.
    user : str
    host, port, database : str
        Of PostgreSQL; "" where its environment (PGUSER, PGHOST, PGPORT, PGDATABASE) says.

    >>> Location.parse("postgresql://ann@db.example/clinic?table=ward.stays")
    Location(postgresql://db.example/clinic?table=ward.stays)
    """

    engine: str
    place: str
    kind: Literal["table", "query"]
    text: str
    user: str = ""
    host: str = ""
    port: str = ""
    database: str = ""

    def __str__(self) -> str:
        return without_secrets(f"{self.engine}://{self.place}?{self.kind}={self.text}")

    def __repr__(self) -> str:
        return f"Location({self})"

    @classmethod
    def parse(cls, url: str) -> Location:
        """Read a URL; what stands after ``?table=`` or ``?query=`` is taken as it is, without escapes.

        Raises
        ------
        InputError
            It is no such URL, or it holds a password. The message never repeats the URL, which may hold a secret.
        """
        engine = url.partition("://")[0]
        if engine not in ENGINES:
            raise unknown_name("kind of database", engine if engine.isalnum() else "", ENGINES)
        place = re.split(r"\?(?:table|query)=", url.partition("://")[2], maxsplit=1)[0]
        if ":" in place.rpartition("@")[0] or _PASSWORD.search(url):
            raise InputError(
                "a password inside a URL is refused, as lists of processes and logs show it; give it in the "
                "environment of the engine (PostgreSQL: PGPASSWORD, or a password file)"
            )
        parts = _PARTS.fullmatch(url)
        if parts is None:
            raise InputError(f"this {engine} URL names no table; write {FORM} (or ?query=SELECT ...)")
        place, kind, text = parts["place"], parts["kind"], parts["text"].strip().rstrip(";")
        if kind == "table" and not (all(text.split(".")) and text.count(".") <= 2):
            raise InputError(f"'{text}' is no name of a table; write NAME, SCHEMA.NAME or ?query=SELECT ...")
        if engine != "postgresql":
            return cls(engine, place, kind, text)  # type: ignore[arg-type]
        server = _SERVER.fullmatch(place)
        if server is None:
            raise InputError("this postgresql URL names no server; write postgresql://HOST:PORT/DATABASE?table=NAME")
        user, host, port, name = (server[part] or "" for part in ("user", "host", "port", "name"))
        shown = host + (f":{port}" if port else "") + (f"/{name}" if name else "")
        return cls(engine, shown, kind, text, user, host.strip("[]"), port, name)  # type: ignore[arg-type]


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


def connect(location: Location) -> ir.Table:
    """Return the table or query as an expression of Ibis, on a new connection that only reads.

    Raises
    ------
    InputError
        The engine's package is not installed, the server refuses, or there is no such table.

    >>> from marginalia.data.sources.sql import Location
    >>> connect(Location.parse("duckdb:///no/such.db?table=t"))
    Traceback (most recent call last):
    marginalia.errors.InputError: ...no/such.db...
    """
    with quiet():
        return _connect(location)


def _connect(location: Location) -> ir.Table:
    try:
        import ibis

        backend = _CONNECT[location.engine](location)
    except ImportError as error:
        raise InputError(
            f"{location.engine} needs packages that are not installed ({reason_of(error)}); "
            f"pip install 'marginalia[{location.engine}]'"
        ) from None
    except InputError:
        raise
    except Exception as error:  # each engine has its own kinds
        why = reason_of(error)
        raise InputError(f"{location}: {why}{'; Spark needs Java 17' if 'JAVA_GATEWAY' in why else ''}") from None
    try:
        with limited(partial(_stop, backend)):
            if location.kind == "query":
                return _query(backend, location.text)
            *schema, name = location.text.split(".")
            return backend.table(name, database=tuple(schema) or None)
    except Exception as error:
        close(backend)
        missing = isinstance(error, ibis.common.exceptions.TableNotFound)
        why = "there is no such table, or no right to read it" if missing else reason_of(error)
        raise InputError(f"{location}: {why}") from None


def close(backend: Any) -> None:
    """Close a connection that `opened` made, which else holds a snapshot or a lock; Spark's session stays.

    >>> close(connect(Location.parse("duckdb:///?query=SELECT 1 AS ward")).get_backend())
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


SHOW_VALUES = "MARGINALIA_SHOW_VALUES"
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|(?<![\w.])-?\d+(?:[.:-]\d+)*(?![\w.])")


# Of PostgreSQL: what follows an error (no such cursor; the transaction has failed); a statement that would write.
_AFTERWARDS, _WRITES = ("34000", "25P02"), "25006"


def reason_of(error: BaseException, known: str | None = None) -> str:
    r"""Return the line of an engine's error that says what is wrong.

    Of an error among the rows, what is quoted and what is a number may be cells: only those that stand in `known`, the
    query or the name of the table, are shown, unless the environment asks for all (MARGINALIA_SHOW_VALUES=1).

    >>> reason_of(ValueError("no such column\nLINE 1: SELECT x"))
    'no such column'
    >>> reason_of(ValueError("column 'age': 'Jane Doe' is no number"), "SELECT age FROM t WHERE x = 'age'")
    "column 'age': '...' is no number (values are hidden; --show-values shows them)"
    """
    while getattr(error, "sqlstate", None) in _AFTERWARDS and error.__context__ is not None:
        error = error.__context__
    if getattr(error, "sqlstate", None) == _WRITES:
        return f"{str(error).splitlines()[0]}: it writes, and here is only read; copy its rows into a table"
    cause = getattr(error, "java_exception", None)  # Spark's: what a task met stands at the end of the chain
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(error if cause is None else cause.getMessage())
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return f"the connection broke ({type(error).__name__})"
    if known is None or os.environ.get(SHOW_VALUES) == "1":
        return lines[0]

    def hidden(found: re.Match[str]) -> str:
        text = found[0]
        inner = text[1:-1] if text[0] in "'\"" else text
        if re.search(rf"(?<!\w){re.escape(inner)}(?!\w)", known):
            return text
        return f"{text[0]}...{text[0]}" if text[0] in "'\"" else "..."

    shown = _QUOTED.sub(hidden, lines[0])
    return shown if shown == lines[0] else f"{shown} (values are hidden; --show-values shows them)"


def _duckdb(location: Location) -> Any:
    import ibis

    place = location.place
    if place and not place.startswith("/"):
        raise InputError(f"duckdb://{place}: write duckdb:///{place}, or four slashes before a path from the root")
    path = place[1:]
    # A name that is no table's is no variable of this program, and what DuckDB lacks is not fetched from the network.
    options = {
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    return ibis.duckdb.connect(path or ":memory:", read_only=bool(path), **options)


def _postgresql(location: Location) -> Any:
    import ibis
    import psycopg

    connection = psycopg.connect(
        host=location.host or None,
        user=location.user or None,
        dbname=location.database or None,
        port=int(location.port or os.environ.get("PGPORT", "5432")),
        connect_timeout=os.environ.get("PGCONNECT_TIMEOUT", f"{CONNECT_SECONDS:.0f}"),
        options=_POSTGRESQL,
        application_name="marginalia",
    )
    try:
        with limited(partial(_cut, connection)):
            backend = ibis.postgres.from_connection(connection)
            connection.execute("SELECT 1")  # begins the transaction; those of Ibis are savepoints in it
    except BaseException:
        connection.close()
        raise
    weakref.finalize(backend, connection.close)  # for whoever does not close it
    return backend


def _cut(connection: Any) -> None:
    """End what PostgreSQL is at, and the connection with it: a server that does not answer does not hear either."""
    with suppress(Exception):
        connection.cancel_safe(timeout=2.0)
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


def _stop(backend: Any) -> None:
    """End what a connection of ours is at; Spark has limits of its own."""
    if backend.name == "postgres":
        _cut(backend.con)
    elif backend.name == "duckdb":
        backend.con.interrupt()


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
    rest = [one for one in parsed[1:] if one is not None and not isinstance(one, sqlglot.exp.Semicolon)]
    if rest or not isinstance(parsed[0], sqlglot.exp.Query):
        raise InputError("the query must be one SELECT")
    # It will stand in brackets: a comment at its end would hide the closing one.
    tokens = sqlglot.tokenize(query, dialect=backend.dialect)
    while tokens[-1].text == ";":
        tokens.pop()
    query = query[: tokens[-1].end + 1]
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
            kind = cursor.execute("SELECT format_type(%s, NULL)", (column.type_code,)).fetchone()[0]
            declared = kind == "numeric" and column.precision is not None
            yield column.name, f"numeric({column.precision}, {column.scale})" if declared else kind


def _of_duckdb(backend: Any, rows: ir.Table) -> Iterator[Any]:
    with backend.con.cursor() as cursor:
        with limited(cursor.interrupt):
            batches = cursor.sql(backend.compile(rows)).to_arrow_reader(BATCH)
        while True:
            with limited(cursor.interrupt):
                batch = next(batches, None)
            if batch is None:
                break
            yield batch


def _of_postgresql(backend: Any, rows: ir.Table) -> Iterator[Any]:
    # As Ibis does it, but the cursor ends before its transaction: else an error, or an early end, breaks the session.
    import pyarrow as pa

    asked, kinds = zip(*map(_asked_of_postgresql, rows.schema().items()), strict=True)
    query = f"SELECT {', '.join(asked)} FROM ({backend.compile(rows)}) AS q"
    with backend.con.transaction(), backend.con.cursor(name="marginalia") as cursor:
        cursor.execute(query)
        while records := cursor.fetchmany(BATCH):
            yield pa.RecordBatch.from_struct_array(pa.array(records, type=pa.struct(kinds)))


def _asked_of_postgresql(column: tuple[str, Any]) -> tuple[str, Any]:
    """Return the expression for a column, and its field in Arrow.

    Days and times are counted by the server: psycopg has none before year 1, after 9999, nor infinity, and one of these
    would break the batch. So would NaN among decimals; Arrow has none of any number of digits.
    """
    import pyarrow as pa

    name, kind = column
    quoted = '"' + name.replace('"', '""') + '"'
    ends = f"WHEN {quoted} > 'epoch' THEN {{1}} WHEN {quoted} < 'epoch' THEN -{{1}}"
    counted = f"CASE WHEN isfinite({quoted}) THEN {{0}} {ends} END AS {quoted}"
    if kind.is_date():
        return counted.format(f"{quoted}::date - DATE 'epoch'", "2147483647"), pa.field(name, pa.date32())
    if kind.is_timestamp():
        count = f"(EXTRACT(EPOCH FROM {quoted}) * 1000000)::bigint"
        zone = None if kind.timezone is None else "UTC"
        return counted.format(count, "9223372036854775807"), pa.field(name, pa.timestamp("us", zone))
    if kind.is_decimal():
        some = f"NULLIF({quoted}, 'NaN')"
        if kind.precision is None or kind.precision > 38:
            return f"{some}::text AS {quoted}", pa.field(name, pa.string())
        return f"{some} AS {quoted}", pa.field(name, pa.decimal128(kind.precision, kind.scale or 0))
    if kind.is_uuid():
        return f"{quoted}::text AS {quoted}", pa.field(name, pa.string())
    return quoted, pa.field(name, kind.to_pyarrow())


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


class SQLSource(Stream):
    """The rows of a table or query in a database, asked anew for each pass; nothing is written there.

    Ibis speaks to the engine, which only reads and sends columns: they stream through the kernel that counts files. For
    all 105 pairs of 10^6 rows x 15 columns that took .05 s of CPU from DuckDB (.6 by ``GROUP BY``), .8 from PostgreSQL
    by a cursor of the server (.4 more there, against about 10 by ``GROUP BY``) and 1.6 from Spark on two threads (34).

    Parameters
    ----------
    table : str or ibis.Table
        A URL as `marginalia.data.sources.opening.Data` takes, or an expression of Ibis on a connection of your own.
    domain : Domain

    Raises
    ------
    InputError
        The engine is not installed or refuses; the columns are not those of the domain. When rows are read: a value
        without a code, a connection that breaks, or another number of rows than in the pass before.

    Notes
    -----
    Credentials come from the environment of the engine alone (PGPASSWORD and its like). All passes over PostgreSQL see
    one snapshot, and a DuckDB file is locked against writers, until `close`.

    >>> SQLSource("postgresql://ann:secret@db.example/clinic?table=stays", domain=Domain.from_sizes({"ward": 3}))
    Traceback (most recent call last):
    marginalia.errors.InputError: a password inside a URL is refused, ...
    """

    def __init__(self, table: str | ir.Table, *, domain: Domain) -> None:
        if isinstance(table, str):
            location = Location.parse(table)
            name, self._selected = str(location), connect(location)
            self._ours, self._known = True, location.text
        else:
            self._selected, self._ours, self._known = table, False, ""
            name = f"table of {table.get_backend().name}"
        try:
            super().__init__(
                self._rows,
                domain,
                columns=list(self._selected.columns),
                name=name,
                n_rows=self._counted,
                ordered=False,  # a database promises no order
            )
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if it came from a URL, and with it the snapshot; it closes with this object at last."""
        if self._ours:
            close(self._selected.get_backend())

    def __repr__(self) -> str:
        return f"SQLSource({self.name!r}, {self.domain!r})"

    def _counted(self) -> int:
        with self._in_one_line():
            return int(self._selected.count().to_pyarrow().as_py())

    def _rows(self, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
        row, n = 0, self.n_rows
        with self._in_one_line():
            batches = stream(self._selected, columns)
        while True:
            with self._in_one_line():
                batch = next(batches, None)
            if batch is None:
                break
            if row + batch.num_rows <= n:
                yield f"{self.name}, in the order read", batch
            row += batch.num_rows
        if row != n:
            raise InputError(f"{self.name}: first {n} rows, now {row}: the table changes while it is read; take a copy")

    @contextmanager
    def _in_one_line(self) -> Iterator[None]:
        backend = self._selected.get_backend()
        try:
            with quiet(), limited(partial(_stop, backend)) if self._ours else nullcontext():
                yield
        except MemoryError:
            raise
        except Exception as error:  # each engine has its own kinds
            known = None if isinstance(error, InputError) else f"{self._known} {' '.join(self._selected.columns)}"
            raise InputError(f"{self.name}: {reason_of(error, known)}") from None
