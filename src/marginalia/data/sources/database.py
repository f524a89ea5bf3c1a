"""Tables that PostgreSQL, Spark or DuckDB count where they lie, by expressions of Ibis."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from marginalia.data.cells import cells_of
from marginalia.data.coding import Codes, codes_of
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.encode import zero_problems
from marginalia.data.sources.sql import Location, in_one_line, quiet
from marginalia.data.sources.stream import BATCH, Stream
from marginalia.data.table import Counts
from marginalia.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

# The function from text to its bytes: engines compare text by collations of their own.
_BYTES = {"postgres": ("convert_to", "UTF8"), "pyspark": ("encode", "UTF-8"), "duckdb": ("encode",)}
_MOST_BINS = 1000  # that one expression distinguishes
_FAR = 2.0**53  # numbers beyond are not replaced


def count_in_database(table: ir.Table, domain: Domain, *, name: str = "") -> Stream:
    """Return rows that a database groups and counts: only the cells of groups, and the numbers of their rows, leave it.

    Each marginal is one ``GROUP BY``, pairs are counted three at a time. The function that encodes the cells of a file
    encodes those of the groups, so the codes do not depend on the engine. The engine compares the bytes of a text, and
    replaces a number well inside a bin by one number of that bin, so that few groups leave it. Statements contain names
    of columns and public facts of the domain, and no cell of the table.

    Parameters
    ----------
    table : ibis.Table
        On a connection to PostgreSQL, Spark or DuckDB.
    domain : Domain
        Without a privacy unit.
    name : str, optional
        Of the table, for messages.

    Raises
    ------
    InputError
        The engine is another one, or the columns are not those of the domain. When rows are counted: a cell without a
        code, an error of the engine, or another number of rows than before. Whenever rows themselves are requested.

    >>> import duckdb, ibis
    >>> connection = duckdb.connect()
    >>> _ = connection.sql("CREATE TABLE t AS SELECT i % 2 AS a, i % 3 AS b FROM range(9) AS t(i)")
    >>> table = ibis.duckdb.from_connection(connection).table("t")
    >>> count_in_database(table, Domain.from_sizes({"a": 2, "b": 3})).counts(["a", "b"])
    array([[2, 1, 2],
           [1, 2, 1]])
    """
    engine = table.get_backend().name
    if engine not in _BYTES:
        raise InputError(f"{engine} is not supported, but {', '.join(_BYTES)} are; export the table to Parquet")
    groups = _Groups(table, domain, name or f"table of {engine}")
    return Stream(
        groups.refuse,
        domain,
        columns=list(table.columns),
        name=groups.name,
        n_rows=lambda: groups.n_rows,
        group=groups.count,
    )


class _Groups:
    """Groups of equal cells of a table, encoded and checked."""

    def __init__(self, table: ir.Table, domain: Domain, name: str) -> None:
        self.table, self.domain, self.name = table, domain, name

    def refuse(self, columns: Sequence[str]) -> NoReturn:
        raise InputError(
            f"{self.name}: rows stay in this database, which only counts them; for methods or units that need rows, "
            "export the table to Parquet or DuckDB"
        )

    @cached_property
    def n_rows(self) -> int:
        return sum(int(counts.sum()) for _, counts in self._groups([]))

    def count(self, names: Sequence[str]) -> Iterator[tuple[dict[str, Codes], Counts]]:
        """Yield groups of rows in batches: the codes of each column, and the numbers of rows."""
        n = 0
        for codes, counts in self._groups(names):
            n += int(counts.sum())
            yield codes, counts
        if n != self.n_rows:
            what = "the table changes while it is counted; take a copy"
            raise InputError(f"{self.name}: first {self.n_rows} rows, now {n}: {what}")
        self._check_zeros  # noqa: B018

    @cached_property
    def _check_zeros(self) -> None:
        for zeros in self.domain.declared_zeros:
            of = self.domain.project(zeros.attributes)
            for codes, _ in self._groups(of.names):
                for problem in zero_problems(np.stack([codes[n] for n in of.names]), of):
                    raise InputError(f"{self.name}: {problem.cell} {problem.reason}; {problem.fix}")

    def _groups(self, names: Sequence[str]) -> Iterator[tuple[dict[str, Codes], Counts]]:
        cells = [_cell(self.table[name], self.domain[name]).name(f"k{i}") for i, name in enumerate(names)]
        n = self.table.count().name("n")
        groups = self.table.group_by(cells).aggregate(n) if cells else self.table.aggregate(n)
        with in_one_line(self.name, f"{self.name} {' '.join(self.table.columns)}"):
            with quiet():
                batches = _batches(groups, self.table.get_backend())
            for batch in batches:
                codes = {}
                for name, column in zip(names, batch.columns, strict=False):
                    of = self.domain[name]
                    codes[name], problems = codes_of(cells_of(column, name, lenient=of.lenient), of)
                    for one in problems:
                        raise InputError(f"{self.name}: column '{name}': {one.cell} {one.reason}; {one.fix}")
                yield codes, batch.column("n").to_numpy().astype(np.int64)


def _cell(expression: ir.Column, column: Column) -> ir.Column:
    """Return the expression that the engine groups by: equal ones are the same cell here."""
    import ibis

    kind = expression.type()
    if kind.is_nested():
        raise InputError(f"column '{column.name}' holds values of type {kind}; give each cell one value")
    cell = expression
    if kind.is_decimal() and (kind.precision is None or kind.precision > 38):
        cell = expression.cast("string").nullif("NaN")  # Arrow has no number of any number of digits
    elif not (kind.is_primitive() or kind.is_decimal() or kind.is_temporal() or kind.is_string() or kind.is_binary()):
        cell = expression.cast("string")
    whole, exact = kind.is_integer(), column.type == "number" and (kind.is_floating() or kind.is_decimal())
    if column.edges is not None and (exact or (whole and column.type in ("integer", "number"))):
        parts = inner_parts(column, 0 if whole else getattr(kind, "scale", None))
        most = 10 ** (kind.precision - kind.scale) - 1 if cell.type().is_decimal() else _FAR
        lowest, highest = (kind.bounds.lower, kind.bounds.upper) if whole else (-most, most)
        parts = [part for part in parts if lowest <= part[2] <= highest]
        cell = _of_parts(expression.cast("float64"), cell, parts)
    if not cell.type().is_string():
        return cell
    name, *encoding = _BYTES[expression.get_backend().name]
    if not encoding:
        return ibis.udf.scalar.builtin(lambda text: None, name=name, signature=(("string",), "binary"))(cell)
    kinds = (("string", "string"), "binary")
    return ibis.udf.scalar.builtin(lambda text, encoding: None, name=name, signature=kinds)(cell, *encoding)


def inner_parts(column: Column, scale: int | None) -> list[tuple[float, float, Decimal]]:
    """Return intervals, ascending, and one number of each: all numbers inside, without the ends, have the same code.

    They keep a distance from edges and from marks of missing values which is larger than what rounding to `decimals`,
    single precision or a literal in SQL can change. The numbers have at most `scale` decimals.

    >>> inner_parts(Column("age", 2, edges=(8, 32, 64), type="integer"), 0)
    [(8.000064, 31.999936, Decimal('20')), (32.000064, 63.999936, Decimal('48'))]
    """
    assert column.edges is not None
    first, last = column.edges[0], column.edges[-1]
    low = min(first, -_FAR) if column.bottom else first
    high = max(last, _FAR) if column.top else last
    known = {*column.edges, *(mark for mark in column.mark_values if low < mark < high)}
    margin = max(1e-6 * max(map(abs, known)), 0 if column.decimals is None else 10.0**-column.decimals)
    parts = []
    for a, b in pairwise(sorted({low, *known, high})):
        middle = min(max((a + b) / 2, 2 * first - last), 2 * last - first)
        one = round(Decimal(middle), 9 if scale is None else scale)
        if a + margin < one < b - margin:
            parts.append((a + margin, b - margin, one))
    return parts[:_MOST_BINS]


def _of_parts(number: ir.Column, cell: ir.Column, parts: Sequence[tuple[float, float, Decimal]]) -> ir.Column:
    """Return `cell`, or the number of the part in which `number` lies."""
    import ibis

    if not parts:
        return cell
    if len(parts) > 1:
        half = len(parts) // 2
        return ibis.ifelse(
            number < parts[half][0], _of_parts(number, cell, parts[:half]), _of_parts(number, cell, parts[half:])
        )
    [(low, high, one)], kind = parts, cell.type()
    value = str(one) if kind.is_string() else int(one) if kind.is_integer() else one
    return ibis.ifelse((number > low) & (number < high), ibis.literal(value, type=kind), cell)


def _batches(groups: ir.Table, backend: Any) -> Iterable[Any]:
    """Return the result of an expression as record batches."""
    query = backend.compile(groups)
    if backend.name == "pyspark":  # Ibis would convert to pandas, which has no missing whole numbers
        return backend.raw_sql(query).toArrow().to_batches()
    if backend.name == "duckdb":  # Ibis 12 calls methods that DuckDB 2 does not have
        return backend.con.cursor().sql(query).to_arrow_reader(BATCH)
    return _of_postgresql(query, groups.schema(), backend.con)


def _of_postgresql(query: str, schema: Mapping[str, Any], connection: Any) -> Iterator[Any]:
    import pyarrow as pa

    expressions, fields = zip(*map(_field_of_postgresql, schema.keys(), schema.values()), strict=True)
    with connection.cursor() as cursor:
        records = cursor.stream(f"SELECT {', '.join(expressions)} FROM ({query}) AS q")
        while some := list(islice(records, BATCH)):
            yield pa.RecordBatch.from_struct_array(pa.array(some, type=pa.struct(fields)))


def _field_of_postgresql(name: str, kind: Any) -> tuple[str, Any]:
    """Return the expression for a column of groups, and its field in Arrow.

    The server counts days and microseconds, since psycopg has none before year 1, after 9999, nor infinity.
    """
    import pyarrow as pa

    if kind.is_decimal():
        return f"NULLIF({name}, 'NaN') AS {name}", pa.field(name, pa.decimal128(kind.precision, kind.scale or 0))
    if not (kind.is_date() or kind.is_timestamp()):
        return name, pa.field(name, kind.to_pyarrow())
    since, most = f"{name}::date - DATE 'epoch'", 2**31 - 1
    if kind.is_timestamp():
        since, most = f"(EXTRACT(EPOCH FROM {name}) * 1000000)::bigint", 2**63 - 1
    of = pa.date32() if kind.is_date() else pa.timestamp("us", kind.timezone and "UTC")
    ends = f"WHEN {name} > 'epoch' THEN {most} WHEN {name} < 'epoch' THEN -{most}"
    return f"CASE WHEN isfinite({name}) THEN {since} {ends} END AS {name}", pa.field(name, of)


def open_database(location: Location, domain: Domain) -> Stream:
    """Return a table of PostgreSQL or Spark on a new connection, which PostgreSQL allows only to read.

    >>> open_database(Location.parse("postgresql://127.0.0.1:1/clinic?table=stays"), Domain.from_sizes({"ward": 3}))
    Traceback (most recent call last):
    marginalia.errors.InputError: postgresql://127.0.0.1:1/clinic?table=stays: ...
    """
    if location.kind == "query":
        raise InputError(f"{location}: queries are for DuckDB; make a view of the query and give its name as ?table=")
    *schema, name = location.text.split(".")
    with in_one_line(str(location)), quiet():
        try:
            import ibis

            backend = (_postgresql if location.engine == "postgresql" else _spark)(location)
            table = backend.table(name, database=tuple(schema) or None)
        except ImportError as error:
            raise InputError(f"{error}; pip install 'marginalia[{location.engine}]'") from None
        except ibis.common.exceptions.TableNotFound:
            raise InputError(f"{location}: there is no such table, or no right to read it") from None
        return count_in_database(table, domain, name=str(location))


def _postgresql(location: Location) -> Any:
    import ibis
    import psycopg

    connection = psycopg.connect(f"postgresql://{location.place}", application_name="marginalia")
    connection.isolation_level, connection.read_only = psycopg.IsolationLevel.REPEATABLE_READ, True
    connection.execute("SELECT 1")  # begins the transaction; those of Ibis are savepoints in it
    backend = ibis.postgres.from_connection(connection)
    weakref.finalize(backend, connection.close)
    return backend


def _spark(location: Location) -> Any:
    import ibis
    from pyspark.sql import SparkSession

    master = location.place.rstrip("/")
    if master and not master.startswith("local"):
        master = f"spark://{master}"
    running = SparkSession.getActiveSession()
    if running is not None and master not in ("", running.sparkContext.master):
        raise InputError(f"{location}: this process runs Spark on {running.sparkContext.master}; one at a time")
    builder = SparkSession.builder.config("spark.ui.showConsoleProgress", "false")
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.ui.enabled", "false")
    session = running or (builder.master(master) if master else builder).getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # the error of a task may quote cells; it is raised, and reported
    logging.getLogger("SQLQueryContextLogger").disabled = True
    return ibis.pyspark.connect(session)
