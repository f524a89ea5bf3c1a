"""Tables in databases: the same counts and releases as from memory, and nothing said that must not be."""

import datetime
import itertools
import socket
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from tiers import others_slow

from marginalia.data.attribute import Attribute, StructuralZeros
from marginalia.data.domain import Domain
from marginalia.data.sources.opening import Data
from marginalia.data.sources.sql import Location, SQLSource, connect
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.waiting import longest

duckdb = pytest.importorskip("duckdb")
ibis = pytest.importorskip("ibis")

DOMAIN = Domain(
    [
        Attribute("ward", 4, type="string", labels=("A", "B"), other="other", missing=("?",)),
        Attribute("age", 3, type="integer", edges=(0, 30, 60, 90)),
        Attribute("paid", 4, type="number", edges=(0, 1.5, 2, 3), missing=()),
        Attribute("well", 2, type="boolean"),
        Attribute("since", 2, type="date", edges=(18262, 18628, 18993)),
        Attribute("kind", 3, type="code"),
    ],
    structural_zeros=[StructuralZeros(("ward", "kind"), ((0, 2),))],
    ignored=("note",),
)


def raw(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "note": ["x"] * n,
            "ward": rng.choice(["B", " B", "?", None, "C"], n),
            "age": rng.integers(0, 90, n),
            "paid": rng.choice([Decimal("1.50"), Decimal("2.25"), None], n),
            "well": rng.integers(0, 2, n).astype(bool),
            "since": [datetime.date(2020, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 731, n)],
            "kind": rng.integers(0, 3, n),
        }
    )
    return frame


@pytest.fixture(scope="module")
def table():
    return Table.from_frame(raw(), DOMAIN)


def database(path, frame, name="stays"):
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", frame)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
    return f"duckdb:///{path}"


@pytest.fixture
def url(tmp_path):
    return database(tmp_path / "clinic.db", raw())


@pytest.mark.slow
@pytest.mark.parametrize("rest", ["?table=stays", "?table=main.stays", "?query=SELECT * FROM stays ORDER BY age;"])
def test_original_values_are_coded_as_a_table_codes_them(table, url, rest):
    source = SQLSource(url + rest, domain=DOMAIN)
    assert source.domain == table.domain
    assert source.n_rows == len(table)
    for pair in itertools.combinations(table.names, 2):
        np.testing.assert_array_equal(source.counts(pair), table.counts(pair))
    ordered = table.take(np.lexsort(table.codes.T[::-1]))
    assert source.in_memory() == ordered  # whatever the order in the database


def test_files_are_queried_without_a_database(table, tmp_path):
    raw().to_parquet(tmp_path / "t.parquet")
    source = SQLSource(f"duckdb:///?query=SELECT * FROM '{tmp_path}/*.parquet'", domain=DOMAIN)
    np.testing.assert_array_equal(source.counts(["ward", "age"]), table.counts(["ward", "age"]))


def coded(n=2000, seed=1):
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 4, "d": 2})
    return Table(np.random.default_rng(seed).integers(0, domain.sizes, (n, 4)), domain)


def shuffled(table):
    """Return the rows of a table in another order, as a table of a database of the user's own."""
    frame = table.take(np.random.default_rng(2).permutation(len(table))).to_frame()
    connection = duckdb.connect()
    connection.register("frame", frame)
    connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    return ibis.duckdb.from_connection(connection).table("t")


def releases():
    from marginalia.methods.aim import AIM
    from marginalia.methods.gaussian_marginals import GaussianMarginals
    from marginalia.methods.independent import Independent
    from marginalia.methods.mst import MST
    from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP

    return [
        AIM(epsilon=1.0, rounds=3),
        MST(),
        Independent(),
        GaussianMarginals(epsilon=1.0),
        ReducedSpaceLP(family="cells", n_points=50),
    ]


@pytest.mark.parametrize("model", releases(), ids=lambda model: type(model).__name__)
def test_the_order_of_rows_does_not_change_a_release(model):
    from sklearn.base import clone

    table = coded()
    source = SQLSource(shuffled(table), domain=table.domain)
    one = clone(model).set_params(random_state=7).fit(table)
    two = clone(model).set_params(random_state=7).fit(source)
    assert {k: v.tobytes() for k, v in one._state().items()} == {k: v.tobytes() for k, v in two._state().items()}


@pytest.mark.parametrize(
    ("target", "learner"), [("a", "SSPClassifier"), ("c", "AdaSSPRegressor"), ("c", "DDSSPRegressor")]
)
def test_the_order_of_rows_does_not_change_a_model(target, learner):
    from marginalia.methods import ada_ssp, dd_ssp, ssp

    cls = next(getattr(module, learner) for module in (ssp, ada_ssp, dd_ssp) if hasattr(module, learner))
    table = coded()
    one = cls(random_state=3).fit(table, target)
    two = cls(random_state=3).fit(SQLSource(shuffled(table), domain=table.domain), target)
    assert one.coef_.tobytes() == two.coef_.tobytes()


def test_a_table_that_changes_between_passes_is_refused():
    table = coded(100)
    rows = shuffled(table)
    source = SQLSource(rows, domain=table.domain)
    source.counts(["a"])
    rows.get_backend().con.execute("INSERT INTO t VALUES (0, 0, 0, 0)")
    with pytest.raises(InputError, match="first 100 rows, now 101: the table changes while it is read"):
        source.counts(["b"])


def test_a_database_is_opened_for_reading_only(url):
    source = SQLSource(f"{url}?table=stays", domain=DOMAIN)
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        source._selected.get_backend().con.execute("DROP TABLE stays")


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("?table=nope", "there is no such table"),
        ("?query=SELECT * FROM columns", "Table with name columns does not exist"),  # no variable of Python's
        ("?query=SELECT nope FROM stays", 'column "nope" not found'),
        ("?query=DROP TABLE stays", "the query must be one SELECT"),
        ("?query=SELECT 1; DROP TABLE stays", "the query must be one SELECT"),
        ("?query=SELECT age FROM stays", "column 'ward' of the domain is missing; there are age"),
        ("?query=SELECT *, 1 AS extra FROM stays", "column 'extra' is not in the domain"),
        (
            "?query=SELECT * REPLACE (NULL AS age) FROM stays",
            r"order read: column 'age', row 0: an empty cell has no code",
        ),
        ("?query=SELECT * REPLACE (99 AS age) FROM stays", "column 'age', row 0: '99'"),
        ("?query=SELECT * REPLACE ('A' AS ward, 2 AS kind) FROM stays", "structural zero"),
        ("?query=SELECT * REPLACE (error('gone') AS age) FROM stays", "gone"),
    ],
)
def test_faults_are_one_line_that_names_the_source(url, rest, message):
    with pytest.raises(InputError, match=message) as caught:
        SQLSource(url + rest, domain=DOMAIN).counts(["age", "ward"])
    assert str(caught.value).startswith(url)


def test_what_is_not_installed_is_said(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "ibis", None)
    with pytest.raises(InputError, match=r"pip install 'marginalia\[duckdb\]'"):
        SQLSource(f"{url}?table=stays", domain=DOMAIN)


SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}/x@host/clinic",
        f"postgresql://host/clinic?password={SECRET}&table=stays",
        *others_slow(
            [
                f"spark://ann:{SECRET}@host:7077?table=stays",
                f"postgresql://ann:{SECRET}@host/clinic?table=stays",
                f"postgresql://ann:{SECRET}?x@host/clinic?table=stays",
                f"postgresql://ann:{SECRET}@host/clinic?table=part.parquet",
                f"postgresql://host/clinic?table=stays&password={SECRET}",
                f"duckdb:///?query=SELECT * FROM postgres_scan('password={SECRET}', 'public', 'stays')",
                f"postgres://ann:{SECRET}@host/clinic?table=stays",
                f"duckdb:///?query=SELECT * FROM 'https://ann:{SECRET}@host/t.parquet'",
                f"ann:{SECRET}@host://clinic?table=stays",
                f"postgresql://ann@{SECRET}@host/clinic?table=stays",
            ]
        ),
    ],
)
def test_a_password_in_a_url_is_refused_and_never_repeated(url, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        Data.parse(url).open(DOMAIN)
    assert SECRET not in str(caught.value)
    DOMAIN.to_json("d.json")
    rest = ["--domain", "d.json", "--epsilon", "1"]
    for words in (
        ["fit", "--method", "ssp", "--data", url, "--target", "age", *rest],
        ["synthesize", "--method", "mst", "--data", url, "--out", "s.csv", *rest],
        ["datasets", "check", url, "--domain", "d.json"],
        ["quality", url, "s.csv", "--domain", "d.json"],
        ["domain", "init", url, "--out", "n.yaml"],
        ["predict", "--model", "d.json", "--data", url],
        ["recommend", url, *rest, "--target", "age"],
    ):
        code, out, err = call(*words)
        assert code == 2
        assert SECRET not in out + err, words
        assert len(err.splitlines()) == 1, err
    assert [path.name for path in tmp_path.iterdir()] == ["d.json"]


@pytest.mark.parametrize(
    ("url", "rest"),
    [
        ("postgresql://db:5433/clinic?table=w.stays", ("", "db", "5433", "clinic")),
        ("postgresql://?table=stays", ("", "", "", "")),
        ("postgresql:///clinic?query=SELECT '?', a+b FROM t", ("", "", "", "clinic")),
        ("postgresql://[::1]:5433/clinic?table=t", ("", "::1", "5433", "clinic")),
        ("spark://local[2]?table=db.t", ("", "", "", "")),
    ],
)
def test_urls_are_read_as_they_are(url, rest):
    location = Location.parse(url)
    assert str(location) == url
    assert (location.user, location.host, location.port, location.database) == rest


def test_the_user_is_not_shown():
    location = Location.parse("postgresql://ann@db/clinic?query=SELECT 1;")
    assert location.user == "ann"
    assert str(location) == "postgresql://db/clinic?query=SELECT 1"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://host/clinic", "names no table"),
        ("duckdb:///t.db?table=", "names no table"),
        ("duckdb:///t.db?table=a..b", "'a..b' is no name of a table"),
        ("postgresql://host:port/clinic?table=t", "names no server"),
        ("duckdb://t.db?table=t", "write duckdb:///t.db"),
        ("postgres://host/d?table=t", "did you mean 'postgresql'"),
    ],
)
def test_urls_that_say_too_little_are_refused(url, message):
    with pytest.raises(InputError, match=message):
        SQLSource(url, domain=DOMAIN)


@pytest.mark.parametrize(
    "text", ["https://ann:hunt/er2@host/t.csv", "https://host/t.csv?token=hunt/er2", "s3://er2@b/t"]
)
def test_secrets_in_a_query_are_not_repeated(text, tmp_path, monkeypatch, call):
    url = f"duckdb:///?query=SELECT * FROM '{text}'"
    assert "er2" not in Data.parse(url).name + str(Data.parse(url).fingerprint()) + repr(Location.parse(url))
    monkeypatch.chdir(tmp_path)
    DOMAIN.to_json("d.json")
    _, out, err = call("datasets", "check", url, "--domain", "d.json", "--json")
    assert "er2" not in out + err


def test_nothing_is_installed_from_the_network_to_answer_a_query():
    query = "SELECT name, value FROM duckdb_settings() WHERE name LIKE 'auto%_known_extensions' AND value <> 'false'"
    assert connect(Location.parse(f"duckdb:///?query={query}")).count().to_pyarrow().as_py() == 0
    with pytest.raises(InputError, match="httpfs"):
        SQLSource("duckdb:///?query=SELECT * FROM 'https://127.0.0.1:1/t.parquet'", domain=DOMAIN)


@pytest.mark.parametrize("end", [" -- all", "; -- all", " /* all */ ;", "\n-- all\n"])
def test_a_query_may_end_in_a_comment(url, table, end):
    assert SQLSource(f"{url}?query=SELECT * FROM stays{end}", domain=DOMAIN).n_rows == len(table)


def test_cells_in_the_error_of_an_engine_are_shown_on_request_only(url, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    DOMAIN.to_json("d.json")
    query = f"{url}?query=SELECT * REPLACE (CAST('patient ' || note || ' 4711' AS int) AS age) FROM stays"
    monkeypatch.setenv("MARGINALIA_SHOW_VALUES", "")
    code, out, err = call("datasets", "check", query, "--domain", "d.json")
    assert code == 2
    assert "4711" not in (out + err).replace(query, "")
    assert "Could not convert string '...' to INT32" in err
    code, out, err = call("--show-values", "datasets", "check", query, "--domain", "d.json")
    assert "'patient x 4711'" in err


def test_a_query_without_end_is_stopped(monkeypatch):
    monkeypatch.setenv("MARGINALIA_WAIT_SECONDS", "0.2")
    query = "SELECT (count(*) % 2)::int AS a FROM range(10000000) x, range(10000000) y WHERE x.range * y.range % 7 = 3"
    with pytest.raises(InputError, match=r"no end within 0.2 seconds; MARGINALIA_WAIT_SECONDS allows more"):
        SQLSource(f"duckdb:///?query={query}", domain=Domain.from_sizes({"a": 2})).counts(["a"])


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("MARGINALIA_WAIT_SECONDS", text)
    with pytest.raises(InputError, match=f"MARGINALIA_WAIT_SECONDS is '{text}'; give a number of seconds above 0"):
        longest()


@pytest.mark.slow
def test_a_server_that_accepts_and_never_answers_is_given_up(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")  # the least that PostgreSQL's library takes
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(InputError, match=f"postgresql://127.0.0.1:{port}/c.*timeout"):
            SQLSource(f"postgresql://127.0.0.1:{port}/c?table=t", domain=DOMAIN)
