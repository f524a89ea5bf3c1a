"""Counts of tables that outgrow memory: all pairs of Parquet and CSV files, and AIM on them, end to end.

    python benchmarks/counting.py make --folder FOLDER --parts 10     # 7 MB for each million rows; prints the hash
    python benchmarks/counting.py run --folder FOLDER [CASE ...]
    python benchmarks/counting.py report                              # the table of docs/large-tables.md

The table has 15 columns of 2 to 100 codes that follow one another; a part has ten million rows, and part p is made from
seed p, the same on every machine: `make` prints the SHA-256 of its codes. `pairs_*` counts all 105 pairs: the CPU
seconds of the pass, and in `quality` those of reading without counting. For 10⁹ rows the same ten files stand ten
times in the list, as hard links. `aim_*` is a whole fit at epsilon 1, delta 1e-9; `quality` is the CPU seconds of its
counting.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from harness import RESULTS, Row, in_own_process, measured, peak_mb, store
from pyarrow import csv, parquet

from marginalia.data.domain import Domain
from marginalia.data.files import write_text
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.stream import Stream
from marginalia.methods.aim import AIM

SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 12, 16, 20, 40, 100)
NAMES = [f"x{j}" for j in range(len(SIZES))]
PAGE = Path(__file__).parents[1] / "docs" / "large-tables.md"
PART, GROUP = 10**7, 10**6  # rows of a file, and of its row groups
DOMAIN = Domain.from_sizes(dict(zip(NAMES, SIZES, strict=True)))


@dataclass(frozen=True)
class Case:
    """Parts of the table, how often each stands in the list, what is done, and from which files."""

    parts: int
    times: int = 1
    task: str = "pairs"
    files: str = "parquet"
    rounds: int | None = None  # of AIM; None: its default, 16 an attribute


CASES = {
    "pairs_1e7": Case(1),
    "pairs_1e7_csv": Case(1, files="csv"),
    "pairs_1e8": Case(10),
    "pairs_1e9": Case(10, times=10),
    "aim_1e7": Case(1, task="aim"),
    "aim_1e8": Case(10, task="aim"),
    "aim_1e8_15_rounds": Case(10, task="aim", rounds=15),
    "aim_1e8_60_rounds": Case(10, task="aim", rounds=60),
}


def path_of(folder: Path, part: int) -> Path:
    return folder / f"part-{part:02}.parquet"


def make(folder: Path, parts: int) -> None:
    """Write the parts that are missing, a row group at a time; print the hash of each one's codes."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(name, pa.uint8()) for name in NAMES])
    for part in range(parts):
        rng, digest = np.random.default_rng(part), hashlib.sha256()
        unfinished = path_of(folder, part).with_suffix(".part")
        with parquet.ParquetWriter(unfinished, schema) as writer:
            for _ in range(PART // GROUP):
                common = rng.random(GROUP)
                columns = []
                for size in SIZES:
                    own = np.where(rng.random(GROUP) < 0.6, common, rng.random(GROUP))
                    columns.append((own * own * size).astype(np.uint8))
                    digest.update(columns[-1])
                writer.write_table(pa.table([pa.array(c) for c in columns], schema=schema))
        unfinished.replace(path_of(folder, part))
        print(f"{path_of(folder, part)}: {path_of(folder, part).stat().st_size / 1e6:.0f} MB, {digest.hexdigest()}")


def as_csv(folder: Path, part: int) -> Path:
    path = folder / f"part-{part:02}.csv"
    if not path.exists():
        file = parquet.ParquetFile(path_of(folder, part))
        with csv.CSVWriter(path, file.schema_arrow) as writer:
            for batch in file.iter_batches():
                writer.write_batch(batch)
    return path


def source_of(case: Case, folder: Path, links: Path) -> Stream:
    if case.files == "csv":
        return stream_files([as_csv(folder, p) for p in range(case.parts)], domain=DOMAIN)
    paths = [path_of(folder, p) for p in range(case.parts)]
    for time_, part in itertools.product(range(1, case.times), range(case.parts)):
        paths.append(links / f"{time_}-{part}.parquet")
        os.link(path_of(folder, part), paths[-1])
    return stream_files(paths, domain=DOMAIN)


class Watch:
    """CPU seconds of the passes of a source."""

    def __init__(self, source: Any) -> None:
        self.cpu, self._count = 0.0, source._count
        source._count = self

    def __call__(self, marginals: Sequence[tuple[str, ...]]) -> Any:
        start = time.process_time()
        found = self._count(marginals)
        self.cpu += time.process_time() - start
        return found


def compile_all(folder: Path) -> None:
    """Compile, or load, what is compiled, on a table of nothing."""
    with TemporaryDirectory() as small:
        parquet.write_table(
            parquet.ParquetFile(path_of(folder, 0)).read_row_group(0).slice(0, 1000), f"{small}/t.parquet"
        )
        source = stream_files(f"{small}/t.parquet", domain=DOMAIN)
        AIM(epsilon=1.0, rounds=2, random_state=0).fit(source)


def work(case: Case, folder: Path) -> dict[str, Any]:
    compile_all(folder)
    with TemporaryDirectory(dir=folder) as links:
        source = source_of(case, folder, Path(links))
        watch = Watch(source)
        if case.task == "aim":
            model = AIM(epsilon=1.0, delta=1e-9, relation="add_remove", rounds=case.rounds, random_state=0)
            timed = measured(lambda: model.fit(source))
            error = model.workload_error(source)
            note = f"{model.rounds_} rounds, error {error:.2g}, largest model {model.max_model_mb:g} MB"
            quality = watch.cpu
        else:
            pairs = list(itertools.combinations(NAMES, 2))
            source.expect(pairs)
            timed = measured(lambda: [source.counts(pair) for pair in pairs])
            assert all(counts.sum() == case.parts * case.times * PART for counts in timed.value)
            start = time.process_time()
            for _ in source._coded(NAMES):
                pass
            quality, note = time.process_time() - start, f"{len(pairs)} pairs"
        n_files = case.times * case.parts
        note += f"; {source.passes} pass{'es' * (source.passes > 1)} over {n_files} file{'s' * (n_files > 1)}"
    return {"cpu": timed.cpu, "wall": timed.wall, "peak_mb": peak_mb(), "quality": quality, "note": note}


def report(page: str, rows: Sequence[Row]) -> str:
    """Return the page with the table of the rows between its marks."""
    lines = ["| rows | task | files | CPU s | of which counting | peak MB | |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        case = CASES[row.case]
        counting = row.quality if case.task == "aim" else row.cpu_seconds
        what = "all pairs" if case.task == "pairs" else f"AIM, ε = 1, {case.rounds or 240} rounds at most"
        n = f"{case.parts * case.times * PART:.0e}".replace("e+0", "e")
        cells = (n, what, case.files, f"{row.cpu_seconds:.3g}", f"{counting:.3g}", f"{row.peak_mb:.0f}", row.note)
        lines.append(f"| {' | '.join(cells)} |")
    begin, end = "<!-- measured: begin -->\n", "<!-- measured: end -->"
    head, rest = page.split(begin)
    return "".join([head, begin, "\n".join(lines), f"\n\nOn {rows[0].machine}.\n", end, rest.split(end)[1]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write the table")
    making.add_argument("--parts", type=int, default=10)
    running = commands.add_parser("run", help="count it")
    running.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; default: all")
    running.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    for command in (making, running):
        command.add_argument("--folder", type=Path, required=True)
    commands.add_parser("report", help="write the results into the documentation")
    given = parser.parse_args()
    if given.command == "report":
        page = PAGE.read_text(encoding="utf-8")
        write_text(PAGE, report(page, Row.read_all(RESULTS / "counting.csv")))
        return
    if given.command == "make":
        make(given.folder, given.parts)
        return
    names = given.cases or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"unknown case '{unknown[0]}'; known: {', '.join(CASES)}")
    if given.worker:
        print(json.dumps(work(CASES[names[0]], given.folder)))
        return
    for name in names:
        found = in_own_process([sys.executable, __file__, "run", name, "--folder", given.folder, "--worker"])
        what = "counting" if CASES[name].task == "aim" else "reading alone"
        print(f"{name:<14} {found['cpu']:7.2f} CPU s ({found['wall']:.1f} s), {what} {found['quality']:.2f}, "
              f"{found['peak_mb']:.0f} MB: {found['note']}", flush=True)  # fmt: skip
        row = Row(name, "marginalia", found["cpu"], found["wall"], found["peak_mb"], found["quality"],
                  f"CPU seconds of {what}", found["note"])  # fmt: skip
        store(RESULTS / "counting.csv", [row], list(CASES))


if __name__ == "__main__":
    main()
