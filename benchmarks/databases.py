"""Count all pairs of a million rows and 15 columns in databases: rows streamed, and GROUP BY in the engine.

python benchmarks/databases.py --postgresql postgresql://me@127.0.0.1/scratch --spark

The first is DuckDB; in the database of --postgresql a table `marginalia_pairs` is made and dropped. CPU seconds are
those of this process and its children (of Spark: its JVM and workers), without the server of PostgreSQL, whose wall
seconds tell more. Writes benchmarks/results/databases.csv.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import psutil

from marginalia.data.domain import Domain
from marginalia.data.sources.sql import Location, SQLSource, connect

RESULTS = Path(__file__).parent / "results" / "databases.csv"
SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 12, 16, 20, 40, 100)
ROWS = 10**6
DOMAIN = Domain.from_sizes({f"x{j}": size for j, size in enumerate(SIZES)})
PAIRS = list(itertools.combinations(DOMAIN.names, 2))
GROUPED = 10  # pairs that are counted by GROUP BY; the cost of all is so many times that of these


def cpu() -> float:
    """Return the processor seconds of this process and all below it."""
    this = psutil.Process()
    times = [process.cpu_times() for process in (this, *this.children(recursive=True))]
    return sum(t.user + t.system for t in times) + this.cpu_times().children_user + this.cpu_times().children_system


def timed(work: Callable[[], object]) -> tuple[float, float]:
    wall, used = time.perf_counter(), cpu()
    work()
    return cpu() - used, time.perf_counter() - wall


def streamed(url: str) -> Callable[[], object]:
    source = SQLSource(url, domain=DOMAIN)
    source.expect(PAIRS)
    _ = source.n_rows
    return lambda: source.counts(PAIRS[0])


def grouped(url: str) -> Callable[[], object]:
    table = connect(Location.parse(url))
    return lambda: [table.group_by(pair).agg(n=table.count()).to_pyarrow() for pair in PAIRS[:GROUPED]]


def measured(engine: str, url: str) -> Iterator[dict[str, object]]:
    streamed(url)()  # the kernel is compiled, the engine warm
    for way, work, part in (("streamed", streamed, 1), ("group_by", grouped, len(PAIRS) / GROUPED)):
        for run in range(3):
            seconds, wall = timed(work(url))
            row = {"engine": engine, "way": way, "run": run, "cpu_seconds": seconds * part, "wall_seconds": wall * part}
            print(row, flush=True)
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
    rows = list(measured("duckdb", f"duckdb:///{path}?table=pairs"))
    if given.postgresql:
        import psycopg

        columns = ", ".join(f"{name} smallint" for name in DOMAIN.names)
        with psycopg.connect(given.postgresql, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE marginalia_pairs ({columns})")
            with connection.cursor().copy("COPY marginalia_pairs FROM STDIN (FORMAT csv)") as copy:
                copy.write(table.to_csv(index=False, header=False))
            rows += measured("postgresql", f"{given.postgresql}?table=marginalia_pairs")
    if given.spark:
        rows += measured("spark", f"spark://local[2]?query=SELECT * FROM parquet.`{file}`")
    if given.postgresql:
        import gc

        gc.collect()  # the sources, which hold a snapshot
        with psycopg.connect(given.postgresql, autocommit=True) as connection:
            connection.execute("DROP TABLE marginalia_pairs")
    pd.DataFrame(rows).round(3).to_csv(RESULTS, index=False)


if __name__ == "__main__":
    main()
