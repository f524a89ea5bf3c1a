"""URLs of tables and queries in databases, shown without credentials; the rows of DuckDB as a stream."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb

from marginalia.data.domain import Domain
from marginalia.data.sources.stream import BATCH, Stream
from marginalia.errors import InputError, unknown_name, without_secrets

ENGINES = ("duckdb", "postgresql", "spark")
FORM = "duckdb:///FILE?table=NAME, postgresql://HOST/DATABASE?table=SCHEMA.NAME or spark://MASTER?table=NAME"
SHOW_VALUES = "MARGINALIA_SHOW_VALUES"
_PASSWORD = re.compile(r"(password|passwd|pwd)\s*=|://[^/?#\s'\"]*:[^/?#\s'\"]*@", re.IGNORECASE)
_PARTS = re.compile(r"(?P<engine>[a-z]+)://(?P<place>[^?]*)\?(?P<kind>table|query)=(?P<text>.+)", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|(?<![\w.])-?\d+(?:[.:-]\d+)*(?![\w.])")
# A name that is no table's is no variable of this program, and what DuckDB lacks is not fetched from the network.
_OPTIONS: dict[str, Any] = {
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


@dataclass(frozen=True)
class Location:
    """Where a table or the rows of a query lie.

    Attributes
    ----------
    engine : {"duckdb", "postgresql", "spark"}
    place : str
        The file, the server with its user and database, or Spark's master.
    kind : {"table", "query"}
    text : str
        The name of the table, which may follow that of its schema and a dot; or a SELECT.

    >>> Location.parse("postgresql://ann@db.example/clinic?table=ward.stays")
    Location(postgresql://db.example/clinic?table=ward.stays)
    """

    engine: str
    place: str
    kind: str
    text: str

    def __str__(self) -> str:
        return without_secrets(f"{self.engine}://{self.place.rpartition('@')[2]}?{self.kind}={self.text}")

    def __repr__(self) -> str:
        return f"Location({self})"

    @classmethod
    def parse(cls, url: str) -> Location:
        """Read a URL; the text after ``?table=`` or ``?query=`` has no escapes.

        Raises
        ------
        InputError
            It is no such URL, or it holds a password. The message never repeats the URL, which may hold a secret.
        """
        engine = url.partition("://")[0]
        if engine not in ENGINES:
            raise unknown_name("kind of database", engine if engine.isalnum() else "", ENGINES)
        place = re.split(r"\?(?:table|query)=", url.partition("://")[2], maxsplit=1)[0]
        if place.count("@") > 1 or ":" in place.rpartition("@")[0] or _PASSWORD.search(url):
            raise InputError(
                "a password inside a URL is refused, as lists of processes and logs show it; give it in the "
                "environment of the engine (PostgreSQL: PGPASSWORD, or a password file)"
            )
        parts = _PARTS.fullmatch(url)
        if parts is None:
            raise InputError(f"this {engine} URL names no table; write {FORM} (or ?query=SELECT ...)")
        found = cls(parts["engine"], parts["place"], parts["kind"], parts["text"].strip().rstrip(";"))
        if found.kind == "table" and not (all(found.text.split(".")) and found.text.count(".") <= 2):
            raise InputError(f"'{found.text}' is no name of a table; write NAME, SCHEMA.NAME or ?query=SELECT ...")
        return found


@contextmanager
def in_one_line(name: str, known: str | None = None) -> Iterator[None]:
    """Turn an error of an engine into one line that starts with `name`; see `reason_of`.

    >>> with in_one_line("t"):
    ...     raise ValueError("no such column")
    Traceback (most recent call last):
    marginalia.errors.InputError: t: no such column
    """
    try:
        yield
    except (MemoryError, InputError):
        raise
    except Exception as error:  # each engine has its own kinds
        raise InputError(f"{name}: {reason_of(error, known)}") from None


@contextmanager
def quiet() -> Iterator[None]:
    """Hide warnings that engines address to the authors of one another.

    >>> import warnings
    >>> with quiet():
    ...     warnings.warn("fetch_arrow_table() is deprecated", DeprecationWarning)
    """
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        yield


def reason_of(error: BaseException, known: str | None = None) -> str:
    r"""Return the line of an engine's error that names the cause.

    An error among the rows may quote cells. Of quoted texts and numbers only those that stand in `known`, the query or
    the name of the table, are shown, unless the environment asks for all (MARGINALIA_SHOW_VALUES=1).

    >>> reason_of(ValueError("no such column\nLINE 1: SELECT x"))
    'no such column'
    >>> reason_of(ValueError("column 'age': 'Jane Doe' is no number"), "SELECT age FROM t WHERE x = 'age'")
    "column 'age': '...' is no number (values are hidden; --show-values shows them)"
    """
    cause = getattr(error, "java_exception", None)  # Spark's: what a task met stands at the end of the chain
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    lines = str(error if cause is None else cause.getMessage()).strip().splitlines()
    if not lines:
        return f"the connection broke ({type(error).__name__})"
    if known is None or os.environ.get(SHOW_VALUES) == "1":
        return lines[0]

    def hidden(found: re.Match[str]) -> str:
        quote = found[0][0] if found[0][0] in "'\"" else ""
        inner = found[0].strip(quote or None)
        return found[0] if re.search(rf"(?<!\w){re.escape(inner)}(?!\w)", known) else f"{quote}...{quote}"

    shown = _QUOTED.sub(hidden, lines[0])
    return shown if shown == lines[0] else f"{shown} (values are hidden; --show-values shows them)"


def open_duckdb(location: Location, domain: Domain) -> Stream:
    """Return the rows of a table or query of DuckDB; nothing is written to its file.

    Parameters
    ----------
    location : Location
        With a file, which is locked against writers, or without one: a query that reads files.
    domain : Domain
        Without a privacy unit.

    Raises
    ------
    InputError
        DuckDB refuses; the columns are not those of the domain. When rows are read: a value without a code, or another
        number of rows than in the pass before.

    >>> location = Location.parse("duckdb:///?query=SELECT i % 3 AS ward FROM range(5) AS t(i)")
    >>> open_duckdb(location, Domain.from_sizes({"ward": 3})).counts(["ward"])
    array([2, 2, 1])
    """
    slash, path = location.place[:1], location.place[1:]
    if slash not in ("", "/"):
        place = location.place
        raise InputError(f"duckdb://{place}: write duckdb:///{place}, or four slashes before a path from the root")
    name = str(location)
    with in_one_line(name):
        connection = duckdb.connect(path or ":memory:", read_only=bool(path), config=_OPTIONS)
        connection.execute("SET GLOBAL TimeZone = 'UTC'")  # not that of this machine
        query = location.text
        if location.kind == "table":
            query = f"FROM {'.'.join(map(_quoted, query.split('.')))}"
        elif [one.type for one in duckdb.extract_statements(query)] != [duckdb.StatementType.SELECT]:
            raise InputError(f"{name}: the query must be one SELECT")
        columns = list(connection.sql(query).columns)

    def batches(selected: str) -> Iterator[Any]:
        with in_one_line(name, f"{location.text} {' '.join(columns)}"), connection.cursor() as cursor:
            # A comment at the end of the query does not hide the bracket after it.
            yield from cursor.sql(f"SELECT {selected} FROM ({query}\n) AS q").to_arrow_reader(BATCH)

    @cache
    def count() -> int:
        return sum(batch.column(0)[0].as_py() for batch in batches("count(*)"))

    def read(asked: Sequence[str]) -> Iterator[tuple[str, Any]]:
        row, n = 0, count()
        for batch in batches(", ".join(map(_quoted, asked)) or "1 AS one"):
            if row + batch.num_rows <= n:
                yield f"{name}, in the order read", batch
            row += batch.num_rows
        if row != n:
            raise InputError(f"{name}: first {n} rows, now {row}: the table changes while it is read; take a copy")

    # A database promises no order.
    return Stream(read, domain, columns=columns, name=name, n_rows=count, ordered=False)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
