"""Count all pairs of a million rows and 15 columns in databases: rows streamed, or counted by the engine.

python benchmarks/databases.py --postgresql postgresql://me@127.0.0.1/scratch --spark

In the database of --postgresql a table `marginalia_pairs` is made and dropped. CPU seconds are those of this process,
of its children (of Spark: its JVM) and, where it runs on this machine, of the server of PostgreSQL. Writes
benchmarks/results/databases.csv.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import ibis
import numpy as np
import pandas as pd
import psutil

from marginalia.data.domain import Domain
from marginalia.data.sources.database import count_in_database
from marginalia.data.sources.opening import Data
from marginalia.data.table import CountSource

RESULTS = Path(__file__).parent / "results" / "databases.csv"
SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 12, 16, 20, 40, 100)
ROWS = 10**6
DOMAIN = Domain.from_sizes({f"x{j}": size for j, size in enumerate(SIZES)})
PAIRS = list(itertools.combinations(DOMAIN.names, 2))


def cpu() -> float:
    """Return the processor seconds of this process and all below it, and of servers of PostgreSQL."""
    this = psutil.Process()
    servers = [process for process in psutil.process_iter() if process.name().startswith("postgres")]
    times = [process.cpu_times() for process in (this, *this.children(recursive=True), *servers)]
    ended = [process.cpu_times() for process in (this, *servers)]
    return sum(t.user + t.system for t in times) + sum(t.children_user + t.children_system for t in ended)


def measured(engine: str, way: str, opened: Callable[[], CountSource]) -> Iterator[dict[str, object]]:
    for run in range(-1, 3):  # the first compiles the kernel and starts the engine
        source = opened()
        source.expect(PAIRS)
        _ = source.n_rows
        wall, used = time.perf_counter(), cpu()
        source.counts(PAIRS[0])
        row = {"engine": engine, "way": way, "run": run, "cpu_seconds": cpu() - used}
        row["wall_seconds"] = time.perf_counter() - wall
        print(row, flush=True)
        if run >= 0:
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", help="URL of a database; a table is made and dropped in it.")
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {name: rng.integers(0, size, ROWS, np.int16) for name, size in zip(DOMAIN.names, SIZES, strict=True)}
    )
    with tempfile.TemporaryDirectory() as folder:
        table.to_parquet(Path(folder, "pairs.parquet"))
        run(given, table, Path(folder))


def run(given: argparse.Namespace, table: pd.DataFrame, folder: Path) -> None:
    file, path = folder / "pairs.parquet", folder / "pairs.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE pairs AS SELECT * FROM '{file}'")
    rows = list(measured("duckdb", "streamed", lambda: Data.parse(f"duckdb:///{path}?table=pairs").open(DOMAIN)))
    backend = ibis.duckdb.from_connection(duckdb.connect(str(path), read_only=True))
    rows += measured("duckdb", "counted", lambda: count_in_database(backend.table("pairs"), DOMAIN))
    if given.postgresql:
        import psycopg

        columns = ", ".join(f"{name} smallint" for name in DOMAIN.names)
        with psycopg.connect(given.postgresql, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE marginalia_pairs ({columns})")
            with connection.cursor().copy("COPY marginalia_pairs FROM STDIN (FORMAT csv)") as copy:
                copy.write(table.to_csv(index=False, header=False))
        url = f"{given.postgresql}?table=marginalia_pairs"
        rows += measured("postgresql", "counted", lambda: Data.parse(url).open(DOMAIN))
        with psycopg.connect(given.postgresql, autocommit=True) as connection:
            connection.execute("DROP TABLE marginalia_pairs")
    if given.spark:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        session.read.parquet(str(file)).createOrReplaceTempView("pairs")
        rows += measured("spark", "counted", lambda: Data.parse("spark://local[2]?table=pairs").open(DOMAIN))
    pd.DataFrame(rows).round(3).to_csv(RESULTS, index=False)


if __name__ == "__main__":
    main()
