"""DuckDB as a stream of rows: the same counts and releases as from memory; URLs and messages without secrets."""

import datetime
import itertools
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pytest
from tiers import others_slow

from marginalia.data.column import Column, StructuralZeros
from marginalia.data.domain import Domain
from marginalia.data.sources.opening import Data
from marginalia.data.sources.sql import Location
from marginalia.data.table import Table
from marginalia.errors import InputError

DOMAIN = Domain(
    [
        Column("ward", 4, type="string", labels=("A", "B"), other="other", missing=("?",)),
        Column("age", 3, type="integer", edges=(0, 30, 60, 90)),
        Column("paid", 4, type="number", edges=(0, 1.5, 2, 3), missing=()),
        Column("well", 2, type="boolean"),
        Column("since", 2, type="date", edges=(18262, 18628, 18993)),
        Column("kind", 3, type="code"),
    ],
    structural_zeros=[StructuralZeros(("ward", "kind"), ((0, 2),))],
    ignored=("note",),
)


def open_source(url, domain):
    return Data.parse(url).open(domain)


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
    source = open_source(url + rest, DOMAIN)
    assert source.domain == table.domain
    assert source.n_rows == len(table)
    for pair in itertools.combinations(table.names, 2):
        np.testing.assert_array_equal(source.counts(pair), table.counts(pair))
    ordered = table.take(np.lexsort(table.codes.T[::-1]))
    assert source.in_memory() == ordered  # whatever the order in the database


def test_files_are_queried_without_a_database(table, tmp_path):
    raw().to_parquet(tmp_path / "t.parquet")
    source = open_source(f"duckdb:///?query=SELECT * FROM '{tmp_path}/*.parquet'", DOMAIN)
    np.testing.assert_array_equal(source.counts(["ward", "age"]), table.counts(["ward", "age"]))


def coded(n=2000, seed=1):
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 4, "d": 2})
    return Table(np.random.default_rng(seed).integers(0, domain.sizes, (n, 4)), domain)


def shuffled(table, folder):
    """Return the URL of the rows of a table in another order."""
    frame = table.take(np.random.default_rng(2).permutation(len(table))).to_frame()
    return f"{database(folder / 'shuffled.db', frame, 't')}?table=t"


def releases():
    from marginalia.methods.aim import AIM
    from marginalia.methods.gaussian_marginals import GaussianMarginals
    from marginalia.methods.independent import Independent
    from marginalia.methods.mst import MST
    from marginalia.methods.reduced_space.reduced_space import ReducedSpaceLP

    return [
        AIM(epsilon=1.0, rounds=3, relation="add_remove"),
        MST(relation="add_remove"),
        Independent(relation="add_remove"),
        GaussianMarginals(epsilon=1.0, relation="add_remove"),
        ReducedSpaceLP(family="cells", n_points=50),
    ]


@pytest.mark.parametrize("model", releases(), ids=lambda model: type(model).__name__)
def test_the_order_of_rows_does_not_change_a_release(model, tmp_path):
    from sklearn.base import clone

    table = coded()
    source = open_source(shuffled(table, tmp_path), table.domain)
    one = clone(model).set_params(random_state=7).fit(table)
    two = clone(model).set_params(random_state=7).fit(source)
    assert {k: v.tobytes() for k, v in one._state().items()} == {k: v.tobytes() for k, v in two._state().items()}


@pytest.mark.parametrize(
    ("target", "learner"), [("a", "SSPClassifier"), ("c", "AdaSSPRegressor"), ("c", "DDSSPRegressor")]
)
def test_the_order_of_rows_does_not_change_a_model(target, learner, tmp_path):
    from marginalia.methods import ada_ssp, dd_ssp, ssp

    cls = next(getattr(module, learner) for module in (ssp, ada_ssp, dd_ssp) if hasattr(module, learner))
    table = coded()
    one = cls(random_state=3).fit(table, target)
    two = cls(random_state=3).fit(open_source(shuffled(table, tmp_path), table.domain), target)
    assert one.coef_.tobytes() == two.coef_.tobytes()


def test_a_table_that_changes_between_passes_is_refused(tmp_path):
    table = coded(100)
    path = tmp_path / "t.parquet"
    table.to_parquet(path)
    source = open_source(f"duckdb:///?query=FROM '{path}'", table.domain)
    source.counts(["a"])
    coded(101).to_parquet(path)
    with pytest.raises(InputError, match="first 100 rows, now 101: the table changes while it is read"):
        source.counts(["b"])


def test_a_database_is_opened_for_reading_only(url):
    with duckdb.connect(url.removeprefix("duckdb:///")) as connection:
        connection.execute("CREATE SEQUENCE s")
    with pytest.raises(InputError, match="read-only"):
        open_source(f"{url}?query=SELECT nextval('s') % 2 AS a", Domain.from_sizes({"a": 2})).counts(["a"])


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("?table=nope", "Table with name nope does not exist"),
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
        open_source(url + rest, DOMAIN).counts(["age", "ward"])
    assert str(caught.value).startswith(url)


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
    "url",
    [
        "postgresql://db:5433/clinic?table=w.stays",
        "postgresql://?table=stays",
        "postgresql:///clinic?query=SELECT '?', a+b FROM t",
        "postgresql://[::1]:5433/clinic?table=t",
        "spark://local[2]?table=db.t",
    ],
)
def test_urls_are_read_as_they_are(url):
    assert str(Location.parse(url)) == url


def test_the_user_is_not_shown():
    location = Location.parse("postgresql://ann@db/clinic?query=SELECT 1;")
    assert location.place == "ann@db/clinic"
    assert str(location) == "postgresql://db/clinic?query=SELECT 1"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://host/clinic", "names no table"),
        ("duckdb:///t.db?table=", "names no table"),
        ("duckdb:///t.db?table=a..b", "'a..b' is no name of a table"),
        ("duckdb://t.db?table=t", "write duckdb:///t.db"),
        ("postgres://host/d?table=t", "did you mean 'postgresql'"),
    ],
)
def test_urls_that_say_too_little_are_refused(url, message):
    with pytest.raises(InputError, match=message):
        open_source(url, DOMAIN)


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


def test_times_with_a_zone_are_shown_in_utc_on_every_machine():
    domain = Domain([Column("x", 2, type="string", labels=("UTC",), other="else")])
    assert open_source("duckdb:///?query=SELECT current_setting('TimeZone') AS x", domain).counts(["x"])[0] == 1


def test_nothing_is_installed_from_the_network_to_answer_a_query():
    query = "SELECT name, value FROM duckdb_settings() WHERE name LIKE 'auto%_known_extensions' AND value <> 'false'"
    domain = Domain.from_sizes({"name": 1, "value": 1})
    assert open_source(f"duckdb:///?query={query}", domain).n_rows == 0
    with pytest.raises(InputError, match="httpfs"):
        open_source("duckdb:///?query=SELECT * FROM 'https://127.0.0.1:1/t.parquet'", DOMAIN)


@pytest.mark.parametrize("end", [" -- all", " /* all */ ;", "\n-- all\n"])
def test_a_query_may_end_in_a_comment(url, table, end):
    assert open_source(f"{url}?query=SELECT * FROM stays{end}", DOMAIN).n_rows == len(table)


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
