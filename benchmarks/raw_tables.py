"""Whole tables, from raw cells to raw cells: ours and two peers at the same epsilon and public knowledge.

    python benchmarks/raw_tables.py make FOLDER [TABLE ...]         # CSV and domain files (NAME.yaml, NAME-full.yaml)
    python benchmarks/raw_tables.py run [TABLE ...] --folder FOLDER --seeds 1
    python benchmarks/raw_tables.py run retail --folder FOLDER --by dpmm --python /somewhere/dpmm/bin/python
    python benchmarks/raw_tables.py run --folder FOLDER --python /older/bin/python --label 1.0
    python benchmarks/raw_tables.py score TABLE SYNTHETIC.csv --folder FOLDER
    python benchmarks/raw_tables.py report

`run` appends to ``results/raw_tables.csv``, `report` writes the Markdown table beside it. Everything is judged on **raw
values**, as texts and numbers in the CSV, not on a domain's bins:

`column error`  total variation on 100 quantile cells of each raw column, values that 1 % of the rows share alone;
                missing spellings count as texts; a time also has its time of day
`pair error`    half the L1 distance over pairs of columns, each cut into 10 cells in the same way; mean of all pairs
`rules`         share of rows that obey all rules of several columns, and of the worst rule
`lines`         what a user writes: lines of the domain file and of the command, or of Python for a peer

`real halves` is the error of one random half of the real rows against the other: what sampling alone costs.
Public knowledge is the same for all: types, bounds, labels, marks of missing values. Total epsilon is 1, delta 1e-5,
add/remove; a tenth goes to bins (in our currency mu squared, in theirs epsilon: what their documentation recommends).
"""

from __future__ import annotations

import argparse
import inspect
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import raw_table_peers
import yaml
from harness import ONE_THREAD, RESULTS, Line
from raw_table_makers import TABLES, Raw, make

from marginalia.quality.cells import COARSE, FINE, Partition, Values

EPSILON, DELTA, SHARE = 1.0, 1e-5, 0.1
PATH = RESULTS / "raw_tables.csv"
ZONES = {"order_time": "Europe/Berlin", "time_hour": "America/New_York"}  # in which the judge reads instants


@dataclass(frozen=True)
class Result(Line):
    """One synthetic table: a line of the CSV."""

    table: str
    by: str
    epsilon: float
    seed: int
    column_error: float
    worst_column: str
    worst_error: float
    pair_error: float
    rules: float
    worst_rule: str
    worst_rule_share: float
    cpu_seconds: float
    wall_seconds: float
    peak_mb: float
    lines: int
    note: str


# -- the judge ------------------------------------------------------------------------------------------------------


def seconds_of(texts: pd.Series[Any], zone: str) -> pd.Series[float]:
    """Return seconds since 1970 on the wall clock of `zone`; texts without an offset stay as they are."""
    has_offset = texts.str.contains(r"\d(?:Z|[+-]\d\d:?\d\d)$", regex=True)
    naive = pd.to_datetime(texts.where(~has_offset), errors="coerce", format="ISO8601")
    aware = pd.to_datetime(texts.where(has_offset), errors="coerce", format="ISO8601", utc=True)
    wall = naive.fillna(aware.dt.tz_convert(zone).dt.tz_localize(None))
    return pd.Series(((wall - pd.Timestamp(0)) / pd.Timedelta(seconds=1)).to_numpy(float), index=texts.index)


def values_of(raw: Raw, frame: pd.DataFrame) -> dict[str, Values]:
    """Return the raw columns of a table, and the time of day of those that have one."""
    found = {}
    for name, keys in raw.known.items():
        texts = frame[name].astype(str)
        if keys["type"] in ("date", "timestamp"):
            wall = seconds_of(texts, ZONES.get(name, "UTC"))
            whole = pd.Series(np.where(wall.isna(), texts, wall), index=texts.index, dtype=object)
            found[name] = Values.of(whole, numeric=True)
            if name in ZONES:
                found[f"{name} (time of day)"] = Values.of(
                    (wall % 86400).astype(object).where(wall.notna(), ""), numeric=True
                )
        else:
            found[name] = Values.of(texts, numeric=keys["type"] in ("integer", "number"))
    return found


def judge(raw: Raw, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, Any]:
    """Return the errors of a synthetic table, from its raw cells."""
    ours, theirs = values_of(raw, real), values_of(raw, made)
    fine = Partition.of_values(ours, theirs, FINE)
    errors = {name: fine.error([name]) for name in ours}
    worst = max(errors, key=errors.__getitem__)
    obeyed = {rule: holds(made).to_numpy(bool) for rule, holds in raw.holds.items()}
    means = {rule: float(rows.mean()) for rule, rows in obeyed.items()}
    broken = min(means, key=means.__getitem__, default="")
    return {
        "column_error": float(np.mean(list(errors.values()))),
        "worst_column": worst,
        "worst_error": errors[worst],
        "pair_error": Partition.of_values(ours, theirs, COARSE).marginals().error,
        "rules": float(np.all(list(obeyed.values()), axis=0).mean()) if obeyed else 1.0,
        "worst_rule": broken,
        "worst_rule_share": means.get(broken, 1.0),
        "columns": errors,
        "rule_shares": means,
    }


# -- one run --------------------------------------------------------------------------------------------------------


def write_inputs(name: str, folder: Path) -> Raw:
    """Write the CSV and the domain files of a table."""
    raw = make(name, folder / "packages")
    folder.mkdir(parents=True, exist_ok=True)
    raw.frame.to_csv(folder / f"{name}.csv", index=False)
    for full, ending in ((False, ""), (True, "-full")):
        text = yaml.safe_dump(raw.domain(full=full), sort_keys=False, allow_unicode=True, width=10**6)
        (folder / f"{name}{ending}.yaml").write_text(text, encoding="utf-8")
    return raw


def in_own_process(command: list[str], limit: float) -> tuple[float, float, float]:
    """Run a command; return CPU and wall seconds and the peak memory in MB, of it and its children."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        command, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, _resident(process.pid))
        if time.perf_counter() - wall > limit:
            process.kill()
        time.sleep(0.2)
    output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"ended with {process.returncode} after {time.perf_counter() - wall:.0f} s: {output[-600:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - wall, peak


def _resident(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    line = next((line for line in text.splitlines() if line.startswith("VmHWM")), "")
    return int(line.split()[1]) / 1024 if line else 0.0


def run_one(name: str, by: str, args: argparse.Namespace, seed: int) -> Result:
    """Make one synthetic table, and judge it."""
    folder = Path(args.folder)
    raw = write_inputs(name, folder)
    data, made = folder / f"{name}.csv", folder / f"{name}-{args.label or by}-{seed}.csv"
    full = "-full" if args.full else ""
    if by == "real halves":
        order = np.random.default_rng(seed).permutation(len(raw.frame))
        real, made_frame = (raw.frame.iloc[part] for part in np.array_split(order, 2))
        found = judge(raw, real, made_frame)
        return _result(name, by, seed, found, (0, 0, 0), 0, "")
    if by == "marginalia":
        domain = folder / f"{name}{full}.yaml"
        command = [
            str(Path(args.python).with_name("marginalia")),
            "synthesize",
            "--method",
            args.method,
            "--data",
            str(data),
            "--domain",
            str(domain),
        ]
        command += ["--epsilon", str(EPSILON), "--delta", str(DELTA), "--seed", str(seed), "--out", str(made)]
        command += ["--preprocessing-share", str(SHARE), "--rows", str(len(raw.frame))]
        lines, note = len(_written(domain)) + 1, f"{args.method}, {full.strip('-') or 'plain'} domain"
    else:
        facts = folder / f"{name}-facts.json"
        task = {
            "known": raw.known,
            "ignored": raw.ignored,
            "epsilon": EPSILON,
            "delta": DELTA,
            "share": SHARE,
            "seed": seed,
        }
        facts.write_text(json.dumps(task), encoding="utf-8")
        worker = Path(__file__).with_name("raw_table_peers.py")
        command = [args.python, str(worker), by, str(data), str(made), str(facts)]
        lines = _lines_of_peer(by) + len(raw.known)
        note = "mst"
    cpu_wall_peak = in_own_process(command, args.limit)
    synthetic = pd.read_csv(made, dtype=str, keep_default_na=False)
    return _result(name, args.label or by, seed, judge(raw, raw.frame, synthetic), cpu_wall_peak, lines, note)


def _result(
    name: str, by: str, seed: int, found: dict[str, Any], seconds: tuple[float, float, float], lines: int, note: str
) -> Result:
    print(
        json.dumps({"table": name, "by": by, "columns": found["columns"], "rules": found["rule_shares"]}),
        file=sys.stderr,
    )
    own = {key: value for key, value in found.items() if key not in ("columns", "rule_shares")}
    cpu, wall, peak = seconds
    return Result(
        table=name,
        by=by,
        epsilon=EPSILON,
        seed=seed,
        cpu_seconds=cpu,
        wall_seconds=wall,
        peak_mb=peak,
        lines=lines,
        note=note,
        **own,
    )


def _written(domain: Path) -> list[str]:
    """Return the lines that a user writes by hand: an attribute is a line, however long its code book."""
    content = yaml.safe_load(domain.read_text(encoding="utf-8"))
    return [
        "attributes:",
        *content["attributes"],
        *(line for key in ("derived", "rules", "ignored") for line in content.get(key, [])),
    ]


def _lines_of_peer(by: str) -> int:
    """Return the lines of Python that the peer takes: what it shares with the other, and its own."""
    parts = (raw_table_peers.PEERS[by], raw_table_peers.prepared, raw_table_peers.written)
    source = "\n".join(inspect.getsource(part) for part in parts)
    return sum(bool(line.strip()) and not line.strip().startswith(("#", '"""')) for line in source.splitlines())


# -- tables ---------------------------------------------------------------------------------------------------------


def report(results: list[Result]) -> Iterator[str]:
    """Yield the Markdown table: means over seeds."""
    head = [
        "table",
        "by",
        "seeds",
        "column error",
        "worst column",
        "pair error",
        "rows that obey all rules",
        "worst rule",
    ]
    head += ["CPU s", "peak MB", "lines"]
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    frame = pd.DataFrame([vars(result) for result in results])
    for table in [name for name in TABLES if name in set(frame["table"])]:
        for by, runs in frame[frame["table"] == table].groupby("by", sort=False):
            mean, last = runs.mean(numeric_only=True), runs.iloc[-1]
            line = [table, by, len(runs), f"{mean['column_error']:.4f}"]
            line += [f"{last['worst_column']} {last['worst_error']:.3f}", f"{mean['pair_error']:.4f}"]
            line += [f"{mean['rules']:.1%}", f"{last['worst_rule']} {last['worst_rule_share']:.1%}"]
            line += [f"{mean['cpu_seconds']:.1f}", f"{mean['peak_mb']:.0f}", last["lines"]]
            yield f"| {' | '.join(map(str, line))} |"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("make")
    verb.add_argument("folder", type=Path)
    verb.add_argument("tables", nargs="*", choices=[*TABLES, []])
    verb = verbs.add_parser("run")
    verb.add_argument("tables", nargs="*", choices=[*TABLES, []])
    verb.add_argument("--folder", required=True)
    verb.add_argument("--by", choices=("marginalia", "real halves", *raw_table_peers.PEERS), default="marginalia")
    verb.add_argument("--python", default=sys.executable, help="interpreter that has the library or the peer")
    verb.add_argument("--label", default="", help="how the results are called")
    verb.add_argument("--method", default="aim")
    verb.add_argument(
        "--full", action="store_true", help="times, decimals, derived columns and rules in the domain file"
    )
    verb.add_argument("--seeds", type=int, default=1)
    verb.add_argument("--limit", type=float, default=3600, help="seconds of one run")
    verb.add_argument("--out", type=Path, default=PATH)
    verb = verbs.add_parser("score")
    verb.add_argument("table", choices=TABLES)
    verb.add_argument("synthetic", type=Path)
    verb.add_argument("--folder", required=True)
    verb = verbs.add_parser("report")
    verb.add_argument("--out", type=Path, default=PATH)
    args = parser.parse_args(argv)
    if args.verb == "make":
        for name in args.tables or TABLES:
            write_inputs(name, args.folder)
            print(args.folder / f"{name}.csv")
    elif args.verb == "run":
        for seed, name in itertools.product(range(args.seeds), args.tables or TABLES):
            try:
                Result.append(args.out, [[run_one(name, args.by, args, seed)]])
            except RuntimeError as error:
                print(f"{name}, {args.by}, seed {seed}: {error}", file=sys.stderr)
    elif args.verb == "score":
        raw = write_inputs(args.table, Path(args.folder))
        print(
            json.dumps(judge(raw, raw.frame, pd.read_csv(args.synthetic, dtype=str, keep_default_na=False)), indent=1)
        )
    else:
        text = "\n".join(report(Result.read_all(args.out))) + "\n"
        args.out.with_suffix(".md").write_text(text, encoding="utf-8")
        print(text, end="")


if __name__ == "__main__":
    main()
