"""PostgreSQL and Spark, run for real: ``pytest -m databases -n 0 tests/data/test_databases.py`` (minutes).

Needs PostgreSQL's programs; Java 17 and ``pip install 'marginalia[spark]'`` for Spark.
"""

import datetime
import gc
import itertools
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from table_of_types import attributes, expected, rows_of_the_table

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.sources.opening import Data
from marginalia.data.table import Table
from marginalia.errors import InputError

pytestmark = pytest.mark.databases

PASSWORD = "not-to-be-shown"
NAMES = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain "
    "capital_loss hours_per_week native_country income"
)
COLUMNS = NAMES.split()


def open_source(url, domain):
    return Data.parse(url).open(domain)


class Server:
    """A PostgreSQL server of its own: unprivileged, on this machine's loopback only."""

    def __init__(self, folder):
        found = shutil.which("initdb") or next(iter(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None)
        if found is None:
            pytest.skip("needs PostgreSQL's initdb and pg_ctl")
        self.programs, self.folder = Path(found).resolve().parent, folder
        self.user = "postgres" if os.geteuid() == 0 else None  # it does not start as root
        if self.user is not None:
            os.chown(folder, pwd.getpwnam(self.user).pw_uid, -1)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        options = ["-D", folder / "data", "-U", "tester", "-A", "scram-sha-256", f"--pwfile={password}", "--no-sync"]
        self._run("initdb", *options)
        self.start()

    def _run(self, program, *options):
        words = [self.programs / program, *options]
        subprocess.run(words, check=True, user=self.user, cwd=self.folder, stdout=subprocess.DEVNULL)

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        self._run("pg_ctl", "-D", self.folder / "data", "-o", options, "-l", self.folder / "log", "-w", "start")

    def stop(self):
        self._run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    @property
    def url(self):
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def execute(self, *statements):
        import psycopg

        gc.collect()  # sources of other tests that hold a snapshot
        options = "-c lock_timeout=10s"
        with psycopg.connect(self.url, password=PASSWORD, autocommit=True, options=options) as connection:
            for statement in statements:
                connection.execute(statement)

    def load(self, name, frame, types):
        import psycopg

        columns = ", ".join(f'"{column}" {kind}' for column, kind in types.items())
        self.execute(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns})")
        copying = f"COPY {name} FROM STDIN (FORMAT csv)"
        with psycopg.connect(self.url, password=PASSWORD) as connection, connection.cursor().copy(copying) as copy:
            copy.write(frame.to_csv(index=False, header=False))


@pytest.fixture(scope="module")
def postgresql():
    folder = Path(tempfile.mkdtemp())
    server = Server(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def spark():
    """Run a session on two threads."""
    session = pytest.importorskip("pyspark.sql").SparkSession
    if shutil.which("java") is None:
        pytest.skip("needs Java 17")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    active = session.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    active.sparkContext.setLogLevel("OFF")
    yield active
    active.stop()


@pytest.fixture(scope="module")
def adult(mirror, tmp_path_factory):
    """The published rows of Adult in original values: as files, and as a frame in another order."""
    folder = tmp_path_factory.mktemp("adult")
    options = {"names": COLUMNS, "skipinitialspace": True}
    parts = [
        pd.read_csv(mirror / "uci_adult" / "adult.data", **options),
        pd.read_csv(mirror / "uci_adult" / "adult.test", skiprows=1, **options),
    ]
    frame = pd.concat(parts, ignore_index=True)
    frame["income"] = frame["income"].str.rstrip(".")
    frame.to_csv(folder / "adult.csv", index=False)
    frame.to_parquet(folder / "adult.parquet")
    mixed = frame.sample(frac=1, random_state=0)
    mixed.to_parquet(folder / "mixed.parquet", index=False)
    for i in range(3):
        frame[i::3].to_parquet(folder / f"part-{i}.parquet")
        frame[i::3].to_csv(folder / f"part-{i}.csv", index=False)
    return folder, mixed


@pytest.fixture(scope="module")
def sources(adult, postgresql, spark):
    """The same rows in seven places, in different orders."""
    duckdb = pytest.importorskip("duckdb")
    folder, mixed = adult
    with duckdb.connect(str(folder / "adult.db")) as connection:
        connection.execute(f"CREATE TABLE adult AS SELECT * FROM '{folder}/mixed.parquet'")
    types = {c: "text" if mixed[c].dtype.kind not in "iu" else "integer" for c in COLUMNS}
    postgresql.execute("CREATE SCHEMA IF NOT EXISTS census")
    postgresql.load("census.adult", mixed, types)
    spark.read.parquet(f"{folder}/mixed.parquet").createOrReplaceTempView("adult")
    return [
        f"{folder}/adult.csv",
        f"{folder}/adult.parquet",
        f"{folder}/part-*.parquet",
        f"{folder}/part-*.csv",
        f"duckdb:///{folder}/adult.db?table=adult",
        f"{postgresql.url}?table=census.adult",
        "spark://local[2]?table=adult",
    ]


METHODS = {
    "aim": ["synthesize"],
    "mst": ["synthesize"],
    "gaussian_marginals": ["synthesize"],
    "residual_planner": ["synthesize"],
    "swift": ["synthesize"],
    "mwem_pgm": ["synthesize"],
    "privbayes": ["synthesize"],
    "aim_residual": ["synthesize"],
    "independent": ["synthesize"],
    "ssp": ["fit", "--target", "income"],
    "ada_ssp": ["fit", "--target", "hours_per_week"],
    "dd_ssp": ["fit", "--target", "income", "--source", "mst"],
}


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bytes_from_everywhere(adult, sources, call, tmp_path, method):
    domain, rows = adult[0] / "adult.domain.json", adult[1]
    declared = []
    for name in COLUMNS:
        if rows[name].dtype.kind in "iu":
            edges = np.unique(np.linspace(rows[name].min(), rows[name].max() + 1, 9).round())
            declared.append(Column(name, len(edges) - 1, "numeric", edges=tuple(edges.tolist()), type="integer"))
        else:
            labels = tuple(sorted(rows[name].unique()))
            declared.append(Column(name, len(labels), labels=labels, type="string"))
    Domain(declared).to_json(domain)
    made = {}
    for source in sources:
        out = tmp_path / ("out.csv" if METHODS[method][0] == "synthesize" else "out.json")
        code, printed, err = call(
            *METHODS[method], "--method", method, "--data", source, "--domain", domain, "--epsilon", 1,
            "--seed", 1, "--out", out, "--json",
        )  # fmt: skip
        assert code == 0, err
        written = {path.name: path.read_bytes() for path in sorted(tmp_path.iterdir())}
        said = printed + err + "".join(content.decode() for content in written.values())
        assert PASSWORD not in said
        assert "tester" not in said
        certificate = json.loads(printed)
        made[source] = written, {k: v for k, v in certificate.items() if k not in ("data", "private")}
    first, *others = made.values()
    assert all(other == first for other in others)


DOMAIN = Domain(
    [
        Column("ward", 4, type="string", labels=("A", "B"), other="other", missing=("?",)),
        Column("age", 3, type="integer", edges=(0, 30, 60, 90)),
        Column("paid", 4, type="number", edges=(0, 1.5, 2, 3), missing=()),
        Column("well", 2, type="boolean"),
        Column("since", 2, type="date", edges=(18262, 18628, 18993)),
        Column("kind", 3, type="code"),
    ]
)
TYPES = {
    "ward": "varchar(5)",
    "age": "smallint",
    "paid": "numeric",
    "well": "boolean",
    "since": "date",
    "kind": "bigint",
}


def stays(n=300):
    rng = np.random.default_rng(0)
    days = rng.integers(0, 731, n)
    return pd.DataFrame(
        {
            "ward": rng.choice(["B", " B", "?", None, "C"], n),
            "age": rng.integers(0, 90, n),
            "paid": rng.choice([Decimal("1.50"), Decimal("2.25"), None], n),
            "well": rng.integers(0, 2, n).astype(bool),
            "since": [datetime.date(2020, 1, 1) + datetime.timedelta(int(d)) for d in days],
            "kind": rng.integers(0, 3, n),
        }
    )


@pytest.fixture
def places(postgresql, spark, tmp_path):
    """Load a table, as ``stays``, into both engines: what makes a view of a query, and the URL of that view."""

    def load(frame):
        postgresql.execute("DROP VIEW IF EXISTS seen")
        postgresql.load("stays", frame, {name: TYPES.get(name, "integer") for name in frame.columns})
        frame.to_parquet(tmp_path / "stays.parquet")
        spark.read.parquet(f"{tmp_path}/stays.parquet").createOrReplaceTempView("stays")

    def view(engine, query):
        if engine == "postgresql":
            postgresql.execute("DROP VIEW IF EXISTS seen", f"CREATE VIEW seen AS {query}")
            return f"{postgresql.url}?table=seen"
        spark.sql(query).createOrReplaceTempView("seen")
        return "spark://local[2]?table=seen"

    load(stays())
    return view


def assert_same(source, table):
    for names in [*itertools.combinations(table.names, 2), table.names]:
        np.testing.assert_array_equal(source.counts(names), table.counts(names))
    assert source.n_rows == table.n_rows


@pytest.mark.parametrize("engine", ["postgresql", "spark"])
def test_original_values_are_coded_as_a_table_codes_them(places, engine):
    source = open_source(places(engine, "SELECT * FROM stays"), DOMAIN)
    assert_same(source, Table.from_frame(stays(), DOMAIN))


@pytest.mark.parametrize("engine", ["postgresql", "spark"])
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "there is no such table"),
        ("SELECT age, ward FROM stays", "column 'paid' of the domain is missing; there are age, ward"),
        ("SELECT *, 1 AS extra FROM stays", "column 'extra' is not in the domain"),
        ("SELECT ward, CAST(NULL AS int) AS age, paid, well, since, kind FROM stays", "column 'age': an empty cell"),
        ("SELECT ward, 1 / (kind - kind) AS age, paid, well, since, kind FROM stays", "(?i)division by zero"),
    ],
)
def test_faults_are_one_line_and_leave_nothing(places, call, tmp_path, engine, query, message):
    url = places(engine, query or "SELECT * FROM stays")
    DOMAIN.to_json(tmp_path / "d.json")
    code, out, err = call(
        "synthesize", "--method", "mst", "--data", url if query else f"{url}_not", "--domain", tmp_path / "d.json",
        "--epsilon", 1, "--out", tmp_path / "out.csv",
    )  # fmt: skip
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    with pytest.raises(InputError, match=message):
        raise InputError(err)
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("engine", ["postgresql", "spark"])
def test_all_columns_with_a_problem_are_named(places, call, tmp_path, engine):
    DOMAIN.to_json(tmp_path / "d.json")
    url = places(engine, "SELECT ward, age + 90 AS age, paid, well, since, kind + 7 AS kind FROM stays")
    code, out, err = call("datasets", "check", url, "--domain", tmp_path / "d.json")
    assert code == 2, out + err
    assert out == "codes of no value, such as 9999, are not looked for in rows that a database counts\n"
    assert "column 'age': " in err
    assert "column 'kind': " in err
    assert "column 'ward'" not in err
    url = places(engine, "SELECT * FROM stays")
    assert call("datasets", "check", url, "--domain", tmp_path / "d.json")[0] == 0


@pytest.mark.parametrize("engine", ["postgresql", "spark"])
@pytest.mark.parametrize(
    "words",
    [
        ["fit", "--method", "dp_sgd", "--target", "well", "--n-public", 300],
        ["quality"],
        ["synthesize", "--unit", "note"],
    ],
)
def test_what_needs_rows_is_refused_in_one_line(places, call, tmp_path, engine, words):
    DOMAIN.to_json(tmp_path / "d.json")
    url = places(engine, f"SELECT *{', age AS note' * ('note' in words)} FROM stays")
    if words == ["quality"]:
        stays().to_csv(tmp_path / "s.csv", index=False)
        code, out, err = call("quality", url, tmp_path / "s.csv", "--domain", tmp_path / "d.json")
    else:
        more = ["--method", "mst", "--out", tmp_path / "o.csv"] if words[0] == "synthesize" else []
        code, out, err = call(*words, *more, "--data", url, "--domain", tmp_path / "d.json", "--epsilon", 1)
    assert (code, out, len(err.splitlines())) == (2, "", 1), out + err
    assert "rows stay in this database" in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"PGPASSWORD": "wrong"}, "password authentication failed"),
        ({"PGUSER": "reader"}, "no right to read|permission denied"),
        ({"PGPORT": "1"}, "Connection refused"),
        ({"PGDATABASE": "nowhere"}, 'database "nowhere" does not exist'),
    ],
)
def test_a_server_that_refuses_is_said_without_secrets(postgresql, places, monkeypatch, change, message):
    postgresql.execute("DROP ROLE IF EXISTS reader", f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    known = {"PGHOST": "127.0.0.1", "PGPORT": str(postgresql.port), "PGUSER": "tester", "PGDATABASE": "postgres"}
    for name, value in {**known, **change}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=message) as caught:
        open_source("postgresql://?table=stays", DOMAIN).counts(["age"])
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (
            "SELECT nextval('numbers')::int % 2 AS a",
            r"cannot execute nextval\(\) in a read-only transaction",
        ),
        ("SELECT noted() AS a", "cannot execute INSERT in a read-only transaction"),
        ("SELECT n::int AS a FROM (VALUES ('patient Jane Doe')) AS t(n)", r"type integer: \"...\" \(values are hidden"),
    ],
)
def test_what_a_view_does_is_said(postgresql, definition, message):
    postgresql.execute(
        "CREATE SEQUENCE IF NOT EXISTS numbers",
        "CREATE TABLE IF NOT EXISTS notes (a int)",
        "CREATE OR REPLACE FUNCTION noted() RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO notes VALUES (1); RETURN 1; END $$",
        "DROP VIEW IF EXISTS doing",
        f"CREATE VIEW doing AS {definition}",
    )
    with pytest.raises(InputError, match=message):
        open_source(f"{postgresql.url}?table=doing", Domain.from_sizes({"a": 2})).counts(["a"])


STOPPING = """
import os, sys
from marginalia import cli
from marginalia.data.sources.stream import Stream
grouped = Stream._grouped
def count_and_stop(self, *given):
    counts = grouped(self, *given)
    if stop := os.environ.pop("STOP", ""):
        if stop == "java":
            from pyspark import SparkContext
            SparkContext._gateway.proc.kill()
        else:
            open(stop, "w").close()
            while os.path.exists(stop):
                pass
    return counts
Stream._grouped = count_and_stop
if rows := os.environ.get("ROWS"):
    from pyspark.sql import SparkSession
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    session.read.parquet(rows).createOrReplaceTempView("stays")
sys.argv[0] = "marginalia"
cli.main()
"""


@pytest.mark.parametrize("engine", ["postgresql", "spark"])
def test_a_server_that_goes_between_two_counts_leaves_nothing(postgresql, places, tmp_path, engine):
    DOMAIN.to_json(tmp_path / "d.json")
    flag = tmp_path / "flag"
    url = "spark://local[2]" if engine == "spark" else postgresql.url
    fit = subprocess.Popen(
        [
            sys.executable, "-c", STOPPING, "synthesize", "--method", "mst", "--data", f"{url}?table=stays",
            "--domain", str(tmp_path / "d.json"), "--epsilon", "1", "--out", str(tmp_path / "out.csv"),
        ],
        env={
            **os.environ, "STOP": "java" if engine == "spark" else str(flag),
            **({"ROWS": f"{tmp_path}/stays.parquet"} if engine == "spark" else {}),
        },
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if engine == "postgresql":
        while not flag.exists():
            assert fit.poll() is None, fit.communicate()
            time.sleep(0.1)
        postgresql.stop()
        flag.unlink()
    out, err = fit.communicate(timeout=300)
    if engine == "postgresql":
        postgresql.start()
    assert (fit.returncode, out) == (2, "")
    lines = [line for line in err.splitlines() if "compiling for this machine" not in line]
    said = [line for line in lines if line.startswith("marginalia: ")]
    assert len(said) == 1, err
    assert said[0].startswith(f"marginalia: {engine}://")
    assert engine == "spark" or lines == said  # of Spark, threads of its own complain as well
    assert not list(tmp_path.glob("*out*"))


def test_all_counts_of_postgresql_see_one_snapshot_and_none_writes(postgresql, places):
    import psycopg

    source = open_source(f"{postgresql.url}?table=stays", DOMAIN)
    before = source.counts(["age"])
    postgresql.execute("INSERT INTO stays SELECT * FROM stays", "UPDATE stays SET kind = 0")
    assert source.counts(["kind"]).sum() == before.sum() == 300
    assert (source.counts(["kind"])[1:] > 0).all()
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        source._group.__self__.table.get_backend().con.execute("DELETE FROM stays")


def test_another_master_than_the_one_that_runs_is_refused(spark):
    with pytest.raises(InputError, match=r"runs Spark on local\[2\]; one at a time"):
        open_source("spark://127.0.0.1:1?table=stays", DOMAIN)


@pytest.mark.parametrize(
    ("types", "cells", "names"),
    list(rows_of_the_table()),
    ids=str,
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_postgresql_gives_the_codes_of_the_text(postgresql, types, cells, names, zone, tmp_path, monkeypatch):
    """The table of types in docs/domain-files.md, in whatever zone the session is."""
    monkeypatch.setenv("PGTZ", zone)
    for column in attributes(types, cells):
        codes = expected(cells, column, tmp_path)
        for name in names[3]:
            values = ", ".join(f"('{cell}'::{name})" for cell in cells)
            query = f"SELECT x::{name} AS x FROM (VALUES {values}, (NULL)) AS t(x)"
            postgresql.execute("DROP VIEW IF EXISTS typed", f"CREATE VIEW typed AS {query}")
            source = open_source(f"{postgresql.url}?table=typed", Domain([column]))
            assert source.counts(["x"]).tolist() == np.bincount(codes, minlength=column.size).tolist(), name
            del source  # its snapshot locks the view


@pytest.mark.parametrize("odd", ["date 'infinity'", "date '12000-01-01'", "date '0044-03-15 BC'", "'-infinity'"])
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_a_day_of_postgresql_that_python_cannot_hold_breaks_no_batch(postgresql, kind, odd):
    facts = {"bottom": True, "top": True, "lenient": True}
    column = Column("x", 2, edges=(18262, 18263), type="date", missing=(), **facts)
    rows = f"(VALUES (CAST({odd} AS {kind})), (CAST('2020-01-01 10:00' AS {kind})), (NULL)) AS t(x)"
    postgresql.execute("DROP VIEW IF EXISTS days", f"CREATE VIEW days AS SELECT x FROM {rows}")
    source = open_source(f"{postgresql.url}?table=days", Domain([column]))
    assert source.counts(["x"]).tolist() == [1, 2]  # it cannot be read, so it counts as missing


def test_decimals_of_postgresql_are_read_each_by_its_own(postgresql):
    numbers = "(VALUES (1.5::numeric), ('NaN'), (12345678901234567890123456789012345678901234567890.12)) AS t(x)"
    column = Column("x", 3, labels=("1.5",), type="string", other="else", missing=())
    postgresql.execute("DROP VIEW IF EXISTS numbers_of", f"CREATE VIEW numbers_of AS SELECT x FROM {numbers}")
    source = open_source(f"{postgresql.url}?table=numbers_of", Domain([column]))
    assert source.counts(["x"]).tolist() == [1, 1, 1]


def test_files_of_spark_give_the_codes_of_the_text(spark, tmp_path):
    """Spark writes times as INT96, and every file beside a mark of its own."""
    kinds = {
        "boolean": "BOOLEAN", "bigint": "BIGINT", "integer": "INT", "smallint": "SMALLINT", "real": "FLOAT",
        "double precision": "DOUBLE", "numeric(9, 2)": "DECIMAL(9, 2)", "date": "DATE", "text": "STRING",
        "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP", "bytea": "BINARY",
    }  # fmt: skip
    for zone in ("UTC", "Asia/Tokyo"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        for n, (types, cells, names) in enumerate(rows_of_the_table()):
            for name in (name for name in names[3] if name in kinds and cells != ["12000-01-01"]):
                values = ", ".join(f"('{cell}')" for cell in cells)
                query = f"SELECT CAST(x AS {kinds[name]}) AS x FROM VALUES {values}, (NULL) AS t(x)"
                folder = tmp_path / f"{zone[:3]}{n}{kinds[name]}"
                spark.sql(query).coalesce(1).write.parquet(str(folder))
                for column in attributes(types, cells):
                    codes, domain = expected(cells, column, tmp_path), Domain([column])
                    for file in folder.glob("*.parquet"):
                        assert Table.read(file, domain=domain).codes[:, 0].tolist() == codes, (zone, name)
                    spark.sql(query).createOrReplaceTempView("typed")
                    counts = open_source("spark://local[2]?table=typed", domain).counts(["x"])
                    assert counts.tolist() == np.bincount(codes, minlength=column.size).tolist(), (zone, name)
