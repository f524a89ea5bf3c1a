"""Counts of pairs of columns in DuckDB, Spark and PostgreSQL, from 10⁶ to 10⁹ rows.

    python benchmarks/counting.py make --folder FOLDER --parts 1
    python benchmarks/databases.py run --folder FOLDER [--postgresql URL] [CASE ...]
    python benchmarks/databases.py report                      # the table of docs/large-tables.md

The rows are the ten million of `counting.py`, one Parquet file of 70 MB with 15 columns. For more rows the engine reads
that file 10 or 100 times in one scan. PostgreSQL gets the first million rows in a table `marginalia_pairs`, which is
made and dropped. Way `rows`: the engine sends rows, which are counted here. Way `groups`: the engine groups and counts,
and sends the groups, in one query for each of 35 triples of columns, which hold all 105 pairs. Cases of three columns
need one query. Each case is a process of its own. CPU seconds are those of this process, its children (Spark's JVM) and
the server of PostgreSQL, after the engine has started. Memory is that of this process and of its children. Each case
compares its counts with those of the file, and stops at a difference.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil
from counting import CASES as FILES
from counting import DOMAIN, NAMES, PAGE, PART, path_of
from harness import RESULTS, Row, in_own_process, peak_mb, store
from pyarrow import parquet

from marginalia.data.files import write_text
from marginalia.data.sources.database import count_in_database
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.opening import Data
from marginalia.data.table import CountSource

MILLION, FAR = 10**6, 10**11
PAIRS = len(NAMES) * (len(NAMES) - 1) // 2
SPARK = "local[2]"


@dataclass(frozen=True)
class Case:
    """An engine, the way in which its rows are counted, how often it reads the file, and of which columns.

    If `times` is 0, it reads the first million rows. Without `columns` it counts all pairs of the 15 columns.
    """

    engine: str
    way: str
    times: int
    columns: tuple[str, ...] = tuple(NAMES)

    @property
    def rows(self) -> int:
        return self.times * PART or MILLION

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return list(itertools.combinations(self.columns, 2))


THREE = ("x2", "x8", "x13")  # 4, 9 and 40 codes: one of the 35 triples that cover all pairs costs as much
CASES = {
    "duckdb_rows_1e7": Case("duckdb", "rows", 1),
    "duckdb_rows_1e8": Case("duckdb", "rows", 10),
    "duckdb_rows_1e9": Case("duckdb", "rows", 100),
    "duckdb_groups_1e7": Case("duckdb", "groups", 1),
    "duckdb_groups_1e8": Case("duckdb", "groups", 10),
    "duckdb_groups_1e9_3_columns": Case("duckdb", "groups", 100, THREE),
    "spark_groups_1e7": Case("spark", "groups", 1),
    "spark_groups_1e7_3_columns": Case("spark", "groups", 1, THREE),
    "spark_groups_1e8_3_columns": Case("spark", "groups", 10, THREE),
    "postgresql_groups_1e6": Case("postgresql", "groups", 0),
}


@contextmanager
def opened(case: Case, file: Path, url: str) -> Iterator[CountSource]:
    """Yield the rows as a table of the engine, which has started."""
    if case.engine == "duckdb":
        files = ", ".join([f"'{file}'"] * case.times)
        query = f"SELECT * FROM read_parquet([{files}])"
        if case.way == "rows":
            yield Data.parse(f"duckdb:///?query={query}").open(DOMAIN)
            return
        import duckdb
        import ibis

        connection = duckdb.connect()
        connection.execute(f"CREATE VIEW pairs AS {query}")
        yield count_in_database(ibis.duckdb.from_connection(connection).table("pairs"), DOMAIN)
    elif case.engine == "spark":
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(SPARK).config("spark.ui.enabled", "false")
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        session.read.parquet(*[str(file)] * case.times).createOrReplaceTempView("pairs")
        yield Data.parse(f"spark://{SPARK}?table=pairs").open(DOMAIN)
        session.stop()
    else:
        import psycopg

        columns = ", ".join(f"{name} smallint" for name in NAMES)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE marginalia_pairs ({columns})")
            try:
                with connection.cursor().copy("COPY marginalia_pairs FROM STDIN (FORMAT csv)") as copy:
                    copy.write(first_million(file).to_pandas().to_csv(index=False, header=False))
                yield Data.parse(f"{url}?table=marginalia_pairs").open(DOMAIN)
            finally:
                connection.execute("DROP TABLE marginalia_pairs")


def first_million(file: Path) -> Any:
    return parquet.ParquetFile(file).read_row_group(0).slice(0, MILLION)


def processes(engine: str) -> list[psutil.Process]:
    """Return this process, all below it, and the servers of PostgreSQL if they count."""
    this = psutil.Process()
    servers = [p for p in psutil.process_iter() if p.name().startswith("postgres")] if engine == "postgresql" else []
    return [this, *this.children(recursive=True), *servers]


def cpu(engine: str) -> float:
    """Return the processor seconds of the processes that count, and of those of them that have ended."""
    times = [process.cpu_times() for process in processes(engine)]
    return sum(t.user + t.system + t.children_user + t.children_system for t in times)


def peak_of_children() -> float:
    """Return the largest resident memory of each process below this one, together, in MB."""
    peaks = 0
    for child in psutil.Process().children(recursive=True):
        status = Path(f"/proc/{child.pid}/status").read_text(encoding="utf-8").splitlines()
        peaks += next((int(line.split()[1]) for line in status if line.startswith("VmHWM")), 0)
    return peaks / 1024


def compile_kernels(file: Path) -> None:
    """Compile, or load, what counts rows, on a thousand of them."""
    with TemporaryDirectory() as folder:
        parquet.write_table(first_million(file).slice(0, 1000), f"{folder}/t.parquet")
        count(stream_files(f"{folder}/t.parquet", domain=DOMAIN), list(itertools.combinations(NAMES, 2)))


def count(source: CountSource, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
    source.expect(pairs)
    return [source.counts(pair) for pair in pairs]


def work(case: Case, folder: Path, url: str) -> dict[str, Any]:
    file = path_of(folder, 0)
    compile_kernels(file)
    with opened(case, file, url) as source:
        assert source.n_rows == case.rows, source.n_rows
        used, wall = cpu(case.engine), time.perf_counter()
        counts = count(source, case.pairs)
        used, wall = cpu(case.engine) - used, time.perf_counter() - wall
        peaks = peak_mb(), peak_of_children()
    with TemporaryDirectory() as scratch:
        if not case.times:
            parquet.write_table(first_million(file), file := Path(scratch, "t.parquet"))
        expected = count(stream_files(file, domain=DOMAIN), case.pairs)
    for pair, found, once in zip(case.pairs, counts, expected, strict=True):
        assert np.array_equal(found, once * max(case.times, 1)), f"counts of {pair} are not those of the file"
    note = f"{peaks[0]:.0f} MB here" + (f", {peaks[1]:.0f} MB in the engine" if peaks[1] else "")
    return {"cpu": used, "wall": wall, "peak_mb": sum(peaks), "note": note}


HEADS = ("rows", "engine", "counted", "pairs", "CPU s", "CPU s per 10⁶ rows", "CPU hours for 10¹¹ rows", "peak MB", "")
ENGINES = {"duckdb": "DuckDB", "spark": f"Spark, `{SPARK}`", "postgresql": "PostgreSQL"}


def report(page: str, rows: Sequence[Row], files: Sequence[Row]) -> str:
    """Return the page with the table of the rows, and of those of Parquet files in `counting.py`, between its marks."""
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    cases = {name: (case.parts * case.times * PART, "none: Parquet", "here, from rows", PAIRS)
             for name, case in FILES.items() if (case.task, case.files) == ("pairs", "parquet")}  # fmt: skip
    for name, case in CASES.items():
        way = "here, from rows" if case.way == "rows" else "in the engine"
        cases[name] = case.rows, ENGINES[case.engine], way, len(case.pairs)
    for row in [row for row in (*files, *rows) if row.case in cases]:
        n, engine, way, pairs = cases[row.case]
        each = row.cpu_seconds / n * MILLION
        far = f"{each * FAR / MILLION / 3600:.1f}"
        numbers = (f"{row.cpu_seconds:.3g}", f"{each:.2g}", far, f"{row.peak_mb:.0f}")
        note = row.note if "in the engine" in row.note else ""
        lines.append(f"| {' | '.join((f'{n:.0e}'.replace('e+0', 'e'), engine, way, str(pairs), *numbers, note))} |")
    begin, end = "<!-- databases: begin -->\n", "<!-- databases: end -->"
    head, rest = page.split(begin)
    return "".join([head, begin, "\n".join(lines), f"\n\nOn {rows[0].machine}.\n", end, rest.split(end)[1]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="count")
    running.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; default: all that have an engine")
    running.add_argument("--folder", type=Path, required=True)
    running.add_argument("--postgresql", default="", help="URL of a database; a table is made and dropped in it")
    running.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    commands.add_parser("report", help="write the results into the documentation")
    given = parser.parse_args()
    if given.command == "report":
        page = PAGE.read_text(encoding="utf-8")
        files = Row.read_all(RESULTS / "counting.csv")
        write_text(PAGE, report(page, Row.read_all(RESULTS / "databases.csv"), files))
        return
    if unknown := [name for name in given.cases if name not in CASES]:
        parser.error(f"unknown case '{unknown[0]}'; known: {', '.join(CASES)}")
    if given.worker:
        print(json.dumps(work(CASES[given.cases[0]], given.folder, given.postgresql)))
        return
    for name in given.cases or [name for name in CASES if given.postgresql or CASES[name].engine != "postgresql"]:
        command = [sys.executable, __file__, "run", name, "--folder", given.folder, "--worker"]
        found = in_own_process([*command, "--postgresql", given.postgresql])
        each = found["cpu"] / CASES[name].rows * MILLION
        print(f"{name:<22} {found['cpu']:7.2f} CPU s ({found['wall']:.1f} s), {found['note']}", flush=True)
        row = Row(name, "marginalia", found["cpu"], found["wall"], found["peak_mb"], each,
                  "CPU seconds per 10⁶ rows", found["note"])  # fmt: skip
        store(RESULTS / "databases.csv", [row], list(CASES))


if __name__ == "__main__":
    main()
