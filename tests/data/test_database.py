"""Counts that a database makes: those of the rows as a table, whatever the cells; no private cell in a statement.

Here DuckDB is the engine, by an expression of Ibis; PostgreSQL and Spark are in test_databases.py.
"""

import datetime
import itertools
import sys
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_sql import DOMAIN, coded, open_source, raw, releases

from marginalia.data.coding import codes_of
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.sources import database as module
from marginalia.data.sources.bounded import bound_contributions
from marginalia.data.sources.complete import complete
from marginalia.data.sources.database import count_in_database, inner_parts
from marginalia.data.table import Table
from marginalia.data.units import Unit
from marginalia.errors import InputError

ibis = pytest.importorskip("ibis")
pytestmark = pytest.mark.filterwarnings("ignore:fetch_:DeprecationWarning")


def table_of(frame, types=""):
    """Return a frame as a table of DuckDB, as an expression of Ibis."""
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute(f"CREATE TABLE t AS SELECT {types or '*'} FROM frame")
    return ibis.duckdb.from_connection(connection).table("t")


def assert_same(database, table):
    for names in [*itertools.combinations(table.names, 1), *itertools.combinations(table.names, 2), ()]:
        np.testing.assert_array_equal(database.counts(names), table.counts(names), err_msg=str(names))
    assert database.n_rows == table.n_rows


def test_original_values_are_coded_as_a_table_codes_them():
    assert_same(count_in_database(table_of(raw()), DOMAIN), Table.from_frame(raw(), DOMAIN))


def test_all_pairs_at_once_are_those_of_the_table():
    database, table = count_in_database(table_of(raw()), DOMAIN), Table.from_frame(raw(), DOMAIN)
    database.expect([*itertools.combinations(table.names, 2), table.names[:4]])
    assert_same(database, table)
    np.testing.assert_array_equal(database.counts(table.names[:4]), table.counts(table.names[:4]))
    assert database.passes == 1


@pytest.mark.parametrize("model", releases()[:4], ids=lambda model: type(model).__name__)
def test_the_same_seed_gives_the_same_release(model):
    from sklearn.base import clone

    table = coded()
    one = clone(model).set_params(random_state=7).fit(table)
    two = clone(model).set_params(random_state=7).fit(count_in_database(table_of(table.to_frame()), table.domain))
    assert {k: v.tobytes() for k, v in one._state().items()} == {k: v.tobytes() for k, v in two._state().items()}


def test_rows_with_a_target_are_those_of_the_table():
    table, database = Table.from_frame(raw(), DOMAIN), count_in_database(table_of(raw()), DOMAIN)
    assert_same(complete(database, "ward"), complete(table, "ward"))


def test_recoded_counts_are_those_of_the_table():
    table = complete(Table.from_frame(raw(), DOMAIN), "ward")
    database = complete(count_in_database(table_of(raw()), DOMAIN), "ward")
    codes = {name: np.arange(table.domain[name].size) // 2 for name in table.names}
    domain = Domain.from_sizes({name: -(-table.domain[name].size // 2) for name in table.names})
    again = {name: np.zeros(size, int) for name, size in zip(domain.names, domain.sizes, strict=True)}
    assert_same(database.recoded(codes, domain), table.recoded(codes, domain))
    ones = Domain.from_sizes(dict.fromkeys(table.names, 1))
    assert_same(database.recoded(codes, domain).recoded(again, ones), table.recoded(codes, domain).recoded(again, ones))


ODD = [
    "a", "A", "ä", "Ä", "ß", "SS", "ss", " a", "a ", "a\t", "\N{NO-BREAK SPACE}a", "ﬁ", "fi", "İ", "i̇", "I", "ı", "é",
    "e\u0301",
    "'", "''", '"', "\\", "\\x41", "%", "NULL", "null", "NaN", "nan", "", None, "0", "-0", "0.0", "1e3", "a\nb", "{1}",
]  # fmt: skip


@pytest.mark.parametrize("collation", ["", "COLLATE NOCASE", "COLLATE NOACCENT"])
def test_text_is_compared_byte_by_byte(collation):
    frame = pd.DataFrame({"x": ODD * 2, "y": [*ODD[1:], *ODD, "a"]}, dtype=object)
    labels = tuple(dict.fromkeys(cell.strip() for cell in ODD if cell and cell.strip()))
    facts = {"type": "string", "labels": labels[:-1], "other": "other", "missing": ()}
    domain = Domain([Column(name, len(labels) + 1, **facts) for name in "xy"])
    database = count_in_database(table_of(frame, f"x::VARCHAR {collation} AS x, y::VARCHAR {collation} AS y"), domain)
    assert_same(database, Table.from_frame(frame, domain))


@pytest.mark.parametrize("name", ['a"b', "n", "k0", "count", "select", "a b", "ä", "x.y", "{0}", "%s", "t0", "A;--"])
def test_a_column_may_have_any_name(name):
    frame = pd.DataFrame({name: [0, 1, 1], "other column": [1, 1, 0]})
    domain = Domain.from_sizes({name: 2, "other column": 2})
    assert_same(count_in_database(table_of(frame), domain), Table.from_frame(frame, domain))


NUMBERS = [
    0.0,
    -0.0,
    float("nan"),
    0.1 + 0.2,
    0.3,
    1e-320,
    -1e-320,
    1e300,
    float("inf"),
    -float("inf"),
    1.0,
    2.0**53,
    None,
]


KINDS = [
    "DOUBLE",
    "FLOAT",
    "DECIMAL(9, 2)",
    "DECIMAL(3, 2)",
    "DECIMAL(38, 2)",
    "BIGINT",
    "UBIGINT",
    "SMALLINT",
    "HUGEINT",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decimals", [None, 1])
def test_numbers_have_the_codes_of_the_table(kind, decimals, tmp_path):
    edges = (-3, 0.3, 1, 2.5, 100)
    facts = {"type": "number", "edges": edges, "bottom": True, "top": True, "missing": ("2", "-9"), "lenient": True}
    domain = Domain([Column("x", 5, decimals=decimals, **facts), Column("y", 5, special=(), **facts)])
    query = f"SELECT TRY_CAST(x AS {kind}) AS x, TRY_CAST(101 - x AS {kind}) AS y FROM cells"
    rng = np.random.default_rng(0)
    cells = [*NUMBERS, *edges, *rng.normal(0, 60, 300).round(2), 0.25, 0.35, 2.45, 2.5 - 1e-9, -9, 2]
    connection = duckdb.connect()
    connection.register("cells", pd.DataFrame({"x": pd.Series(cells, dtype=float)}))
    connection.execute(f"CREATE TABLE t AS {query}")
    connection.execute(f"COPY t TO '{tmp_path}/t.parquet'")
    database = count_in_database(ibis.duckdb.from_connection(connection).table("t"), domain)
    assert_same(database, Table.read(tmp_path / "t.parquet", domain=domain))


@settings(max_examples=60)
@given(st.data())
def test_numbers_between_the_ends_of_a_part_have_the_code_of_its_number(data):
    finite = st.floats(-1e12, 1e12, allow_nan=False)
    edges = sorted(data.draw(st.lists(finite, min_size=2, max_size=6, unique=True)))
    kind = data.draw(st.sampled_from(["integer", "number"]))
    if kind == "integer":
        edges = sorted({float(np.floor(edge)) for edge in edges})
    decimals = data.draw(st.sampled_from([None, 0, 2])) if kind == "number" else None
    facts = {name: data.draw(st.booleans()) for name in ("bottom", "top")}
    marks = data.draw(
        st.lists(st.sampled_from([*map(str, edges[:1]), "-9", "0", "17.5", "x"]), max_size=2, unique=True)
    )
    try:
        column = Column("x", len(edges), edges=tuple(edges), type=kind, decimals=decimals, missing=marks, **facts)
    except InputError:
        return
    scale = data.draw(st.sampled_from([0, 2, None])) if kind == "number" else 0
    for low, high, one in inner_parts(column, scale):
        inside = [float(one), *(data.draw(st.floats(low, high)) for _ in range(3))]
        if kind == "integer":
            inside = [x for x in map(np.round, inside) if low < x < high]
        inside = [np.clip(x, np.nextafter(low, high), np.nextafter(high, low)) for x in inside]
        codes, faults = codes_of(pd.Series(inside, dtype=float), column)
        assert not faults
        assert len(set(codes.tolist())) == 1


def test_few_groups_leave_the_database_where_a_column_has_many_numbers(monkeypatch):
    n = 10**5
    frame = pd.DataFrame({"x": np.random.default_rng(0).permutation(n) / 7.0, "y": np.arange(n)})
    facts = {"edges": tuple(range(0, 15_000, 1_000)), "top": True}
    domain = Domain([Column("x", 14, type="number", **facts), Column("y", 14, type="integer", **facts)])
    database, groups = count_in_database(table_of(frame), domain), []
    inner = module._Groups._groups

    def counted(self, names):
        for codes, counts in inner(self, names):
            groups.append(len(counts))
            yield codes, counts

    monkeypatch.setattr(module._Groups, "_groups", counted)
    assert_same(database, Table.from_frame(frame, domain))
    assert max(groups) < 1000


def test_many_distinct_texts_are_counted_in_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 10_000)
    n = 30_000
    frame = pd.DataFrame({"x": [f"name {i}" for i in range(n)], "y": np.arange(n) % 3})
    ward = Column("x", 2, type="string", labels=("name 7",), other="else")
    domain = Domain([ward, Column("y", 3)])
    assert count_in_database(table_of(frame), domain).counts(["x", "y"]).tolist() == [
        [0, 1, 0],
        [n // 3, n // 3 - 1, n // 3],
    ]


def test_no_cell_of_the_table_stands_in_a_statement(monkeypatch):
    table, statements = table_of(raw()), []
    database, kind = count_in_database(table, DOMAIN), type(table.get_backend())
    compile_ = kind.compile
    monkeypatch.setattr(kind, "compile", lambda *args: statements.append(compile_(*args)) or statements[-1])
    database.expect(itertools.combinations(DOMAIN.names, 2))
    before = database.counts(["ward", "age"])
    first = list(statements)
    other = raw(seed=1).assign(ward="Jane Doe", age=17)
    database = count_in_database(table_of(other), DOMAIN)
    database.expect(itertools.combinations(DOMAIN.names, 2))
    assert database.counts(["ward", "age"]).tolist() != before.tolist()
    assert statements[len(first) :] == first  # whatever the cells


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": 99}, "column 'age': '99' is outside the bins"),
        ({"age": None}, "column 'age': an empty cell has no code"),
        ({"ward": "A", "kind": 2}, "ward=A with kind=2 is a structural zero of the domain"),
    ],
)
def test_cells_without_a_code_are_refused_in_one_line(change, message):
    database = count_in_database(table_of(raw().assign(**change)), DOMAIN, name="clinic")
    with pytest.raises(InputError, match=f"^clinic: {message}"):
        database.counts(["age", "well"])


def test_a_table_that_changes_between_two_counts_is_refused():
    rows = table_of(coded(100).to_frame())
    database = count_in_database(rows, coded(100).domain)
    database.counts(["a"])
    rows.get_backend().con.execute("INSERT INTO t VALUES (0, 0, 0, 0)")
    with pytest.raises(InputError, match="first 100 rows, now 101: the table changes while it is counted"):
        database.counts(["b"])


def test_what_needs_rows_is_refused():
    database = count_in_database(table_of(coded(9).to_frame()), coded(9).domain)
    for asked in (database.batches, database.problems, lambda: iter([database.in_memory()])):
        with pytest.raises(InputError, match=r"rows stay in this database, .* export the table to Parquet or DuckDB"):
            list(asked())
    for url in ("postgresql://host/clinic?query=SELECT 1 AS a", "spark://local[2]?query=SELECT 1 AS a"):
        with pytest.raises(InputError, match=r"make a view of the query and give its name as \?table="):
            open_source(url, DOMAIN)


def test_rows_of_units_are_refused():
    domain = Domain(coded(9).domain.columns[1:])
    database = count_in_database(table_of(coded(9).to_frame()), Domain(domain, ignored=["a"]))
    with pytest.raises(InputError, match="for methods or units that need rows"):
        bound_contributions(database, Unit("a", 2))


@pytest.mark.parametrize("kind", ["INT[]", "STRUCT(a INT)"])
def test_a_column_of_several_values_is_refused(kind):
    rows = table_of(pd.DataFrame({"x": [None]}), f"x::{kind} AS x")
    with pytest.raises(InputError, match=r"column 'x' holds values of type .*; give each cell one value"):
        count_in_database(rows, Domain.from_sizes({"x": 2})).counts(["x"])


def test_an_engine_that_was_not_tested_is_refused(tmp_path):
    rows = ibis.sqlite.connect(tmp_path / "t.db")
    rows.con.execute("CREATE TABLE t (a INT)")
    with pytest.raises(InputError, match="sqlite is not supported, but postgres, pyspark, duckdb are"):
        count_in_database(rows.table("t"), Domain.from_sizes({"a": 2}))


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ibis", None)
    with pytest.raises(InputError, match=r"pip install 'marginalia\[postgresql\]'"):
        open_source("postgresql://host/clinic?table=stays", DOMAIN)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_days_and_times_have_the_codes_of_the_table(zone, tmp_path):
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    times = ["2020-01-01 23:59:59.999999", "2020-01-02", "0001-01-01", "9999-12-31", "12000-01-01", "infinity"]
    values = ", ".join(f"(CAST('{time}' AS TIMESTAMP))" for time in times)
    query = f"SELECT t AS n, t::TIMESTAMPTZ AS z, t::DATE AS d FROM (VALUES {values}, (NULL)) AS v(t)"
    connection.execute(f"CREATE TABLE t AS {query}")
    connection.execute(f"COPY t TO '{tmp_path}/t.parquet'")
    day = (datetime.date(2020, 1, 2) - datetime.date(1970, 1, 1)).days
    facts = {"bottom": True, "top": True, "lenient": True, "missing": ()}
    zoned = {"unit": "hour", "zone": "Europe/Berlin"}
    domain = Domain(
        [
            Column("n", 3, type="timestamp", edges=(0, 24 * day, 24 * day + 1), unit="hour", **facts),
            Column("z", 3, type="timestamp", edges=(0, 24 * day, 24 * day + 1), **zoned, **facts),
            Column("d", 3, type="date", edges=(0, day, day + 1), **facts),
        ]
    )
    database = count_in_database(ibis.duckdb.from_connection(connection).table("t"), domain)
    assert_same(database, Table.read(tmp_path / "t.parquet", domain=domain))


def test_decimals_of_one_scale_are_labels_as_in_a_table(tmp_path):
    frame = pd.DataFrame({"x": [Decimal("1.50"), Decimal("2.25"), Decimal("1.50")]})
    domain = Domain([Column("x", 3, type="string", labels=("1.5", "2.25"), other="else")])
    assert_same(count_in_database(table_of(frame, "x::DECIMAL(5, 2) AS x"), domain), Table.from_frame(frame, domain))
