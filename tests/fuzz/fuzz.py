"""Feed damaged files and command lines to the command line, in this process, and hold it to its word.

    python tests/fuzz/fuzz.py --inputs 5000 --seed 7

Every input must end with exit code 0, 1 or 2, without a traceback, within `SECONDS`, with lines on stderr that begin
with ``marginalia:`` (one of them where it ends with 2), and with every file as it was: nothing half-written, and the
named output only where the code is 0. Prints counts by kind; exit code 1 if an input broke the rules, with the
command that repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import yaml

SECONDS = 30  # of processor time for one input
MOST_ROWS = 10**7  # that a command line may ask for: more are written in batches, which is long but no fault
MEMORY = 8 * 2**30  # of the process that runs this file
OUT = ("out.csv", "out.csv.certificate.json", "out.json", "out.yaml")
BUDGET = ["--epsilon", "1", "--seed", "1"]
FIT = ["fit", "--method", "ssp", "--data", "t.csv", "--domain", "d.json", "--target", "b", *BUDGET]
SYNTHESIZE = [
    "synthesize", "--method", "independent", "--data", "t.csv", "--domain", "d.json", *BUDGET, "--rows", "20",
    "--out", "out.csv",
]  # fmt: skip
CONFIG: dict[str, Any] = {
    "datasets": [
        {"name": "mine", "files": {"table": "t.csv", "domain": "d.json"}, "tasks": {"logistic": {"target": "y"}}}
    ],
    "epsilons": [0.5, 1], "delta": 1e-5, "trials": 2, "test_fraction": 0.2, "relation": "replace_one", "seed": 3,
    "methods": [
        "trivial", "logistic", {"id": "aim", "parameters": {"max_model_mb": 1}}, {"id": "ssp", "calibration": "tight"},
    ],
    "timeout_seconds": 60, "results_dir": "results", "figures": True,
    "experiments": {"one": {"trials": 1}, "two": {"methods": ["independent"]}},
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """An input that broke the rules."""

    index: int
    kind: str
    words: list[str]
    what: str


class Late(BaseException):
    """An input took too long; no handler of errors may take it for one of its own."""


class Valid:
    """Valid files of every kind in the working folder, and what they hold."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        columns = [rng.integers(0, m, 40) for m in (3, 4, 2)]
        self.domain = {
            "attributes": [
                {"name": "a", "size": 3, "labels": ["red", "green", "blue"], "type": "code"},
                {"name": "b", "size": 4, "kind": "numeric", "type": "code"},
                {"name": "y", "size": 2, "type": "code"},
            ],
            "source": "declared",
            "structural_zeros": [{"attributes": ["a", "y"], "cells": []}],
        }
        lines = ["a,b,y", *(",".join(map(str, row)) for row in zip(*columns, strict=True))]
        self.csv = "\n".join(lines) + "\n"
        Path("t.csv").write_text(self.csv)
        Path("d.json").write_text(json.dumps(self.domain))
        Path("d.yaml").write_text(yaml.safe_dump(self.domain))
        Path("c.yaml").write_text(yaml.safe_dump(CONFIG, sort_keys=False))
        _parquet(Path("t.parquet"), {"a": columns[0], "b": columns[1], "y": columns[2]})
        for words in ([*FIT, "--out", "m.json"], [*SYNTHESIZE[:-1], "s.csv"]):
            code, _, err = run(words)
            if code != 0:
                raise RuntimeError(f"a valid input is refused: {err}")
        self.model = json.loads(Path("m.json").read_text())
        self.certificate = json.loads(Path("s.csv.certificate.json").read_text())
        from marginalia.data.domain import Domain
        from marginalia.data.table import Table
        from marginalia.methods.independent import Independent

        table = Table.read("t.csv", domain=Domain.from_json("d.json"))
        Independent(random_state=0).fit(table).save("s.npz")


def csv(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a CSV table."""
    Path("x.csv").write_bytes(mutations.csv_text(valid.csv, rng))
    return _on_table("x.csv", rng)


def parquet(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a Parquet table, or give its columns other types."""
    if rng.random() < 0.4:
        Path("x.parquet").write_bytes(mutations.bytes_of(Path("t.parquet").read_bytes(), rng))
        return _on_table("x.parquet", rng)
    n = rng.choice((0, 1, 40))
    odd = [rng.choice(mutations.ODD) for _ in range(3)]
    makers: tuple[Callable[[], Any], ...] = (
        lambda: np.zeros(n), lambda: np.full(n, np.nan), lambda: np.full(n, np.inf), lambda: np.ones(n, bool),
        lambda: ["x"] * n, lambda: [None] * n, lambda: np.full(n, 2**62), lambda: np.full(n, -1), lambda: [[1, 2]] * n,
        lambda: np.full(n, "2020-01-01", "datetime64[ns]"), lambda: [b"\xff"] * n, lambda: [{"k": 1}] * n,
        lambda: [str(odd[i % 3]) for i in range(n)], lambda: np.ones(n, np.uint8), lambda: np.full(n, 0.5, np.float16),
    )  # fmt: skip
    names = rng.choice((("a", "b", "y"), ("a", "b"), ("a", "b", "y", "z"), ("A", "b", "y"), ()))
    columns = {name: np.arange(n) % 2 if rng.random() < 0.5 else rng.choice(makers)() for name in names}
    _parquet(Path("x.parquet"), columns)
    return _on_table("x.parquet", rng)


def domain_json(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a domain in JSON."""
    Path("x.json").write_bytes(mutations.json_text(valid.domain, rng))
    return _on_domain("x.json", rng)


def domain_yaml(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a domain in YAML."""
    Path("x.yaml").write_bytes(mutations.yaml_text(valid.domain, rng))
    return _on_domain("x.yaml", rng)


def model(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a model file."""
    Path("x.json").write_bytes(mutations.json_text(valid.model, rng))
    predict = ["predict", "--model", "x.json", "--data", "t.csv"]
    return ["certify", "x.json"] if rng.random() < 0.3 else predict


def certificate(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a certificate."""
    Path("x.json").write_bytes(mutations.json_text(valid.certificate, rng))
    return ["certify", "x.json", *(["--json"] if rng.random() < 0.2 else [])]


def synthesizer(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a fitted synthesizer."""
    Path("x.npz").write_bytes(mutations.bytes_of(Path("s.npz").read_bytes(), rng))
    return ["certify", "x.npz"]


def config(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a configuration."""
    Path("x.yaml").write_bytes(mutations.yaml_text(CONFIG, rng))
    return ["plan", "--configfile", "x.yaml"]


def words(valid: Valid, rng: random.Random) -> list[str]:
    """Damage a command line."""
    good = [
        [*FIT, "--out", "out.json"], SYNTHESIZE, ["datasets", "list", "adult"], ["datasets", "fetch", "diabetes"],
        ["datasets", "check", "t.csv", "--domain", "d.json"], ["certify", "s.csv.certificate.json"],
        ["quality", "t.csv", "s.csv", "--domain", "d.json"], ["methods", "list"],
        ["predict", "--model", "m.json", "--data", "t.csv"],
        ["plan", "--configfile", "c.yaml", "--cores", "2"], ["audit", "m.py:Mine"], ["verify", "nowhere"],
    ]  # fmt: skip
    while _asks_for_hours(line := mutations.arguments(rng.choice(good), rng)):
        pass
    return line


def _asks_for_hours(line: list[str]) -> bool:
    """Whether some word after ``--rows`` is a number of rows that takes hours; more than 2^40 are refused at once."""
    for option, value in itertools.pairwise(line):
        with contextlib.suppress(ValueError):
            if option == "--rows" and MOST_ROWS < float(value) <= 2**40:
                return True
    return False


KINDS: dict[str, tuple[Callable[[Valid, random.Random], list[str]], int]] = {
    "csv": (csv, 20), "parquet": (parquet, 14), "domain, json": (domain_json, 16), "domain, yaml": (domain_yaml, 16),
    "model": (model, 10), "certificate": (certificate, 8), "synthesizer": (synthesizer, 4), "config": (config, 6),
    "arguments": (words, 14),
}  # fmt: skip


def _on_table(name: str, rng: random.Random) -> list[str]:
    fit, made = ([name if word == "t.csv" else word for word in good] for good in (FIT, SYNTHESIZE))
    compare = ["quality", "t.csv", name, "--domain", "d.json"]
    draft = ["domain", "init", name, "--out", "out.yaml"]
    return rng.choice((fit, made, compare, draft, ["datasets", "check", name, "--domain", "d.json"]))


def _on_domain(name: str, rng: random.Random) -> list[str]:
    fit, made = ([name if word == "d.json" else word for word in good] for good in (FIT, SYNTHESIZE))
    return rng.choice((fit, made, ["datasets", "check", "t.csv", "--domain", name]))


def _parquet(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), path)


def run(words: list[str]) -> tuple[Any, str, str]:
    """Run one command line; return its exit code, or the exception that it ended with, and what it printed."""
    from marginalia import cli

    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["marginalia", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings(), _alarm():
            cli.main()
    except SystemExit as end:
        return end.code, out.getvalue(), err.getvalue()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return error, out.getvalue(), err.getvalue()
    finally:
        sys.argv = before
    return None, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def late(*_: object) -> None:
        raise Late(f"took longer than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, late)  # of processor time: a shared machine is slow at times
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def broken_rule(words: list[str]) -> str:
    """Run one command line; return which rule it broke, or nothing. Its outputs are removed."""
    before = _files()
    code, _, err = run(words)
    after = _files()
    lines = err.splitlines()
    errors = [line for line in lines if not line.startswith("marginalia: warning: ")]
    new = set(after) - set(before)
    for name in new:
        if name in OUT:
            Path(name).unlink()
    if isinstance(code, BaseException):
        at = [
            f
            for f in traceback.extract_tb(code.__traceback__)
            if "marginalia" in f.filename and "fuzz" not in f.filename
        ]
        where = f" at {Path(at[-1].filename).name}:{at[-1].lineno} {at[-1].name}" if at else ""
        return f"{type(code).__name__}{where}: {' '.join(str(code).split())[:200]}"
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if err.startswith("Usage: "):
        return ""
    if any(not line.startswith("marginalia: ") for line in lines):
        return f"a line on stderr that is not ours: {next(x for x in lines if not x.startswith('marginalia: '))[:200]}"
    if code == 2 and (not errors or (len(errors) > 1 and words[:2] != ["datasets", "check"])):
        return f"{len(errors)} lines on stderr"
    if changed := [name for name in before if after.get(name) != before[name]]:
        return f"changed {changed}"
    if left := new - (set(OUT) if code == 0 else set()):
        return f"left behind {sorted(left)} with exit code {code}"
    return ""


def _files() -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path().rglob("*")) if path.is_file()
    }


def fuzz(n_inputs: int, seed: int, *, first: int = 0) -> tuple[Counter[str], list[Finding]]:
    """Try inputs number `first` to `first + n_inputs` of a seed; return how many of each kind, and what was found."""
    counts: Counter[str] = Counter()
    found: list[Finding] = []
    home = Path.cwd()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        os.chdir(folder)
        valid = Valid()
        names, weights = list(KINDS), [weight for _, weight in KINDS.values()]
        for index in range(first, first + n_inputs):
            rng = random.Random(f"{seed}:{index}")
            kind = rng.choices(names, weights)[0]
            line = KINDS[kind][0](valid, rng)
            counts[kind] += 1
            if what := broken_rule(line):
                found.append(Finding(index, kind, line, what))
            for path in folder.glob("x.*"):
                path.unlink()
    finally:
        os.chdir(home)
        shutil.rmtree(folder)
    return counts, found


def main() -> None:
    """Fuzz as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    print(f"seed {options.seed}", flush=True)
    start = time.monotonic()
    counts, found = fuzz(options.inputs, options.seed, first=options.first)
    for finding in found:
        print(f"{finding.kind} {finding.index}: {finding.what}\n    marginalia {' '.join(finding.words)[:300]}")
        print(f"    again: python {sys.argv[0]} --seed {options.seed} --first {finding.index} --inputs 1")
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    print(f"{counts.total()} inputs, {len(found)} findings, {time.monotonic() - start:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
