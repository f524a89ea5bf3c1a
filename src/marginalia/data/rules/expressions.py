"""Derived columns: SQL expressions over the columns of one row, evaluated by DuckDB.

DuckDB parses an expression. Each node of the parse tree must be of a kind that depends on its own row alone: a
constant, a column, a comparison, `CASE`, a cast or one of `FUNCTIONS`. Subqueries, files, aggregates, windows, random
numbers and the clock are therefore rejected before any row is read, and DuckDB may read no file in any case.

A value is an array of rows: numbers, dates (days, see `marginalia.data.column`), times (whole units) and truth
values are doubles, NaN where they are missing; texts are objects, None where they are missing.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.errors import InputError, unknown_name

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

Array = NDArray[Any]
Rows = Mapping[str, Array]  # values of columns, by name

LONGEST = 1000  # characters
WHOLE = 2.0**53  # doubles do not distinguish larger integers
DAYS = (values.day("0001-01-01"), values.day("9999-12-31"))
FUNCTIONS = {
    "numbers": "abs ceil exp floor greatest least ln power round round_even sign sqrt trunc".split(),  # noqa: SIM905
    "dates and times": "date_diff date_part date_trunc day dayofweek hour isodow last_day make_date minute".split()  # noqa: SIM905
    + "month quarter second to_days to_hours to_minutes to_months to_seconds to_years week year".split(),  # noqa: SIM905
    "texts": "concat contains ends_with left length lower replace right starts_with substring trim upper".split(),  # noqa: SIM905
    "missing values": ["coalesce", "if", "nullif"],
}
_SIGNS = {"+", "-", "*", "/", "//", "%", "||", "~~", "!~~"}  # the last two: LIKE and NOT LIKE
_CALLS = _SIGNS.union(*FUNCTIONS.values())
_KINDS = {"BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "TYPE"}
_OPERATORS = {
    *("OPERATOR_COALESCE", "OPERATOR_IS_NOT_NULL", "OPERATOR_IS_NULL", "OPERATOR_NOT"),
    *("COMPARE_IN", "COMPARE_NOT_IN"),
}
_SELECT = "SELECT "
_INTEGERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?")
_NUMBERS = re.compile(r"DOUBLE|FLOAT|DECIMAL\(.*\)")
_PYTHON = re.compile(r"\bif\b.*\belse\b", re.DOTALL)


@dataclass(frozen=True)
class Compiled:
    """The type of an expression, and the function from columns to its values.

    >>> Compiled("number", lambda rows: rows["a"] * 2).of({"a": np.ones(1)})
    array([2.])
    """

    type: str
    of: Callable[[Rows], Array]


@dataclass(frozen=True)
class Expression:
    """The SQL expression of a derived column.

    Parameters
    ----------
    text : str
        Column names that are not a word of letters, digits and ``_`` are in double quotes.

    Raises
    ------
    InputError
        DuckDB cannot parse it, or a part of it is not allowed.

    Examples
    --------
    >>> total = Expression('round_even("unit price" * quantity, 2)')
    >>> total.names
    ('unit price', 'quantity')
    >>> compiled = total.compiled({"unit price": "number", "quantity": "integer"})
    >>> compiled.type, compiled.of({"unit price": np.array([1.111, np.nan]), "quantity": np.array([2.0, 3.0])})
    ('number', array([2.22,  nan]))
    >>> Expression("read_text('/etc/passwd')")
    Traceback (most recent call last):
    marginalia.errors.InputError: `read_text('/etc/passwd')`, character 1: function 'read_text' is not allowed here
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError(f"an expression is a text such as 'a + b', not {values.shown(self.text)}")
        if len(self.text) > LONGEST:
            raise InputError(f"an expression has at most {LONGEST} characters, not {len(self.text)}")
        assert self.tree is not None  # parsed now, so that an error comes when the domain is read

    @cached_property
    def tree(self) -> dict[str, Any]:
        """DuckDB's parse tree of the statement ``SELECT text``, with allowed nodes only."""
        try:
            (found,) = _connection().execute("SELECT json_serialize_sql(?)", [_SELECT + self.text]).fetchall()
        except _errors() as error:
            raise self._unreadable(error) from None
        tree: dict[str, Any] = json.loads(found[0])
        if tree["error"]:
            raise self._unreadable(tree["error_message"])
        select = tree["statements"][0]["node"] if len(tree["statements"]) == 1 else {}
        clauses = ("where_clause", "group_expressions", "having", "qualify", "sample", "modifiers")
        if (
            select.get("type") != "SELECT_NODE"
            or len(select["select_list"]) != 1
            or select["from_table"]["type"] != "EMPTY"
            or select["cte_map"]["map"]
            or any(select[clause] for clause in clauses)
        ):
            raise InputError(f"`{self._shown}` is not one expression such as a + b")
        for node in _nodes(select["select_list"]):
            self._check(node)
        return tree

    @property
    def _shown(self) -> str:
        return " ".join((self.text if len(self.text) <= 100 else f"{self.text[:100]}...").split())

    def _unreadable(self, error: object) -> InputError:
        hint = "; write CASE WHEN condition THEN a ELSE b END for a if condition else b"
        reason = _line(error) + (hint if _PYTHON.search(self.text) else "")
        return InputError(f"`{self._shown}` is not an expression such as a + b: {reason}")

    def _check(self, node: Mapping[str, Any]) -> None:
        kind, text = node["class"], self._shown
        where = f"`{text}`, character {node['query_location'] - len(_SELECT) + 1}"
        if kind == "FUNCTION":
            name = node["function_name"]
            if name not in _CALLS or node["schema"] or node["catalog"]:
                hint = {"min": "; least takes several values", "max": "; greatest takes several values"}.get(name, "")
                raise InputError(f"{where}: function '{name}' is not allowed here{hint}")
            if node["distinct"] or node["filter"] or node["order_bys"]["orders"]:
                raise InputError(f"{where}: '{name}' takes values only")
        elif kind not in _KINDS and not (kind == "OPERATOR" and node["type"] in _OPERATORS):
            name = (node["type"] if kind == "OPERATOR" else kind).replace("_", " ").lower()
            raise InputError(f"{where}: {name} is not allowed; an expression depends on one row alone")
        elif kind == "COLUMN_REF" and len(node["column_names"]) != 1:
            raise InputError(f"{where}: put a column name with a point in double quotes")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns in the expression, in the order of the text."""
        nodes = [node for node in _nodes(self.tree) if node["class"] == "COLUMN_REF"]
        nodes.sort(key=lambda node: node["query_location"])
        return tuple(dict.fromkeys(node["column_names"][0] for node in nodes))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The text constants; no function adds a line break to them or to labels (`reading.csv_quoting`)."""
        literals = [node["literal"] for node in _nodes(self.tree) if node["class"] == "CONSTANT"]
        return tuple(one["text"] for one in literals if one["kind"] == "STRING")

    def compiled(self, types: Mapping[str, str]) -> Compiled:
        """Return the expression over columns of these types (integer, number, date, string, boolean, timestamp)."""
        for name in self.names:
            if name not in types:
                raise InputError(f"`{self._shown}`: {unknown_name('column', name, types)}")
        self._check_dates({name for name, kind in types.items() if kind == "date" or kind.startswith("timestamp")})
        short = {name: f"c{i}" for i, name in enumerate(self.names)}  # DuckDB takes Age and age for one name
        sql = f"TRY({self._with_names(short)})"
        try:
            integers, kind = "BIGINT", self._bound(sql, short, types, "BIGINT")
        except _errors() as error:
            try:  # a date plus an integer
                integers, kind = "INTEGER", self._bound(sql, short, types, "INTEGER")
            except _errors():
                raise InputError(f"`{self._shown}`: {_line(error)}") from None
        result = _result_type(kind)
        if not result:
            hint = "; count the time between two times with date_diff('hour', a, b)" if kind == "INTERVAL" else ""
            raise InputError(f"`{self._shown}`: values of type {kind} cannot be stored in a column{hint}")
        whole = "BETWEEN -9007199254740991 AND 9007199254740991"
        sql = {
            "integer": f"CASE WHEN {sql} {whole} THEN {sql} END::DOUBLE",
            "number": f"{sql}::DOUBLE",
            "boolean": f"{sql}::INTEGER::DOUBLE",
            "date": f"date_diff('day', DATE '1970-01-01', {sql})::DOUBLE",
            "timestamp in seconds": f"TRY(floor(epoch({sql})))",
        }.get(result, sql)

        def of(rows: Rows) -> Array:
            found = _evaluated(sql, {short[n]: _arrow(rows[n], types[n], integers) for n in self.names})
            if result == "string":
                return np.array([*found.to_pylist(), None], dtype=object)[:-1]
            numbers = found.to_numpy(zero_copy_only=False).astype(np.float64)
            fine = np.isfinite(numbers)
            if result == "date":
                fine &= (numbers >= DAYS[0]) & (numbers <= DAYS[1])
            return np.where(fine, numbers, np.nan)

        return Compiled(result, of)

    def _check_dates(self, times: set[str]) -> None:
        """Check that texts next to a date or time are dates: DuckDB would call the result missing in every row."""
        for node in _nodes(self.tree):
            compared = [node.get(part) for part in ("left", "right", "input", "lower", "upper")]
            sides = [side for side in (*compared, *node.get("children", ())) if side]
            if times.isdisjoint(name for side in sides for name in side.get("column_names", ())):
                continue
            for literal in (side["literal"] for side in sides if side["class"] == "CONSTANT"):
                if literal["kind"] == "STRING" and not _is_time(literal["text"]):
                    shown = values.shown(literal["text"])
                    raise InputError(f"`{self._shown}`: {shown} is not a date such as '2024-01-31'")

    def _with_names(self, short: Mapping[str, str]) -> str:
        tree = json.loads(json.dumps(self.tree))
        for node in _nodes(tree):
            if node["class"] == "COLUMN_REF":
                node["column_names"] = [short[node["column_names"][0]]]
        (found,) = _connection().execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()
        return str(found[0]).removeprefix(_SELECT)

    def _bound(self, sql: str, short: Mapping[str, str], types: Mapping[str, str], integers: str) -> str:
        """Return DuckDB's type of the expression; DuckDB raises an error where the types do not fit."""
        columns = ", ".join(f"NULL::{_duckdb_type(types[name], integers)} AS {of}" for name, of in short.items())
        described = _connection().execute(f"DESCRIBE SELECT {sql} FROM (SELECT {columns or '1'})").fetchall()
        return str(described[0][1])


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all nodes of a parse tree."""
    if isinstance(tree, dict):
        if "class" in tree:
            yield tree
        for part in tree.values():
            yield from _nodes(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return a database in memory that can read no file, load no extension, and knows no time zone of the machine."""
    import duckdb

    off = ("enable_external_access", "autoinstall_known_extensions", "autoload_known_extensions")
    connection = duckdb.connect(config={"threads": 1, **dict.fromkeys(off, "false")})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # a cast to timestamptz would take that of the machine
    connection.execute("SET lock_configuration = true")
    return connection


def _connection() -> duckdb.DuckDBPyConnection:
    return _database().cursor()  # a connection serves one thread at a time


def _errors() -> type[Exception]:
    import duckdb

    return duckdb.Error


def _is_time(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _line(error: object) -> str:
    return re.sub(r"^[\w ]+ Error: ", "", str(error).strip().splitlines()[0])


def _duckdb_type(kind: str, integers: str) -> str:
    known = {"integer": integers, "number": "DOUBLE", "date": "DATE", "string": "VARCHAR", "boolean": "BOOLEAN"}
    return known.get(kind, "TIMESTAMP")


def _result_type(kind: str) -> str:
    """Return the type of a column that holds values of a type of DuckDB; empty where none does."""
    known = {"BOOLEAN": "boolean", "VARCHAR": "string", "DATE": "date", "TIMESTAMP": "timestamp in seconds"}
    if _INTEGERS.fullmatch(kind):
        return "integer"
    return "number" if _NUMBERS.fullmatch(kind) else known.get(kind, "")


def seconds_of_type(kind: str) -> int:
    """Return the seconds of one step of a type of dates or times.

    >>> seconds_of_type("date"), seconds_of_type("timestamp in hours")
    (86400, 3600)
    """
    unit = "day" if kind == "date" else kind.removeprefix("timestamp in ").removesuffix("s")
    return values.SECONDS[unit]  # type: ignore[index]


def _arrow(column: Array, kind: str, integers: str) -> pa.Array:
    """Return values as an Arrow array of the column's type; the type follows from no value."""
    import pyarrow as pa

    if kind == "string":
        return pa.array(column.tolist(), pa.string())
    gone = np.isnan(column)
    numbers = np.where(gone, 0.0, column)
    if kind == "number":
        return pa.array(numbers, pa.float64(), mask=gone)
    if kind == "boolean":
        return pa.array(numbers == 1, pa.bool_(), mask=gone)
    if kind == "integer" and integers == "INTEGER":
        gone = gone | (np.abs(numbers) >= 2.0**31)
        return pa.array(np.where(gone, 0, numbers).astype(np.int32), pa.int32(), mask=gone)
    if kind == "date":
        return pa.array(numbers.astype(np.int32), pa.int32(), mask=gone).cast(pa.date32())
    if kind != "integer":
        return pa.array((numbers * seconds_of_type(kind)).astype(np.int64), pa.int64(), mask=gone).cast(
            pa.timestamp("s")
        )
    return pa.array(numbers.astype(np.int64), pa.int64(), mask=gone)


def _evaluated(sql: str, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Return the value of an expression in each row; in one row where it has no columns."""
    import duckdb
    import pyarrow as pa

    table = pa.table(dict(columns) or {"c": [0]})
    found = _connection().from_arrow(table).select(duckdb.SQLExpression(sql).alias("v")).to_arrow_table()
    return found.column("v").combine_chunks()
