"""Whether a change of AIM's loop costs error: two versions on the same tables with the same seeds.

    python benchmarks/aim_gate.py run --base ../main/.venv/bin/python adult_eps1 --seeds 8
    python benchmarks/aim_gate.py report                    # the table, printed

`--base` is the interpreter of an environment with the older version. Each version has one process on one thread; they
take turns at every seed, so that other work on the machine slows both. A pair of fits is a line of
``results/aim_gate.csv``; a case that is run again goes on after its last seed. Runs of many seeds tell apart what few
cannot: on small tables the errors of one seed differ by a tenth as soon as one selection differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from aim_worker import load, tree_table
from harness import ONE_THREAD, RESULTS, Line, measured
from numpy.typing import NDArray
from scipy import stats
from wide import wide_table

from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.synthesis import AIM

RESULT_FILE = RESULTS / "aim_gate.csv"


class RepeatedRows(Table):
    """A table each of whose rows stands for `times` rows; every marginal is counted once."""

    def __init__(self, table: Table, times: int) -> None:
        super().__init__(table.codes, table.domain)
        marginals = [q for k in (1, 2) for q in itertools.combinations(table.domain.names, k)]
        self._times = times
        self._pairs: dict[tuple[str, ...], NDArray[np.int64]] = {q: table.counts(q) * times for q in marginals}

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return super().n_rows * getattr(self, "_times", 1)

    def counts(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return a marginal of one or two attributes in the order of the domain."""
        return self._pairs[tuple(names)]


def many_rows(largest: int, times: int) -> Table:
    """Return 500,000 rows of 15 columns with 2 to `largest` codes, `times` over.

    A column follows one of three uniform factors or, half of the time, an earlier column, as in `wide_table`.
    """
    rng = np.random.default_rng(largest)
    sizes = rng.integers(2, largest + 1, 15)
    factors = rng.random((500_000, 3))
    codes = np.empty((len(factors), 15), np.int64)
    for j, size in enumerate(sizes):
        source = factors[:, rng.integers(3)]
        if j and rng.random() < 0.5:
            k = int(rng.integers(j))
            source = (codes[:, k] + rng.random(len(codes))) / sizes[k]
        blurred = np.clip(source + rng.normal(scale=0.1, size=len(codes)), 0.0, np.nextafter(1.0, 0.0))
        follows = rng.random(len(codes)) < 0.6
        codes[:, j] = np.floor(size * np.where(follows, blurred, rng.random(len(codes))))
    domain = Domain.from_sizes({f"x{j}": int(m) for j, m in enumerate(sizes)})
    return RepeatedRows(Table(codes, domain), times)


def sampled(data: str) -> Table:
    """Return 2,200 rows of a table, drawn without replacement."""
    table = load(data)
    return table.take(np.random.default_rng(0).choice(len(table), 2200, replace=False))


@dataclass(frozen=True)
class Case:
    """A table, made from the number of the fit, and the parameters of AIM."""

    table: Callable[[int], Table]
    aim: dict[str, Any]

    def fit(self, seed: int) -> dict[str, float]:
        """Return what one fit costs and how good it is."""
        table = self.table(seed)
        aim = AIM(**{"epsilon": 1.0, **self.aim}, random_state=seed)
        run = measured(lambda: aim.fit(table))
        return {"seconds": run.cpu, "error": aim.workload_error(table), "rounds": aim.rounds_}


def _of(make: Callable[[], Table], **aim: Any) -> Case:
    made: list[Table] = []

    def table(_: int) -> Table:
        if not made:
            made.append(make())
        return made[0]

    return Case(table, aim)


CASES = {
    **{f"adult_eps{e:g}": _of(lambda: load("adult"), epsilon=e) for e in (0.05, 0.3, 1.0, 2.0)},
    "adult_replace_one": _of(lambda: load("adult"), relation="replace_one"),
    "adult_eps2_200mb": _of(lambda: load("adult"), epsilon=2.0, max_model_mb=200),
    **{
        f"small_{name.split('/')[-1]}": _of(lambda name=name: sampled(name))
        for name in ("adult", "dpml/compas", "dpml/churn", "dpml/dutch", "dpml/law")
    },
    "small_wide20": _of(lambda: wide_table(20, 2200, seed=7)),
    "churn": _of(lambda: load("dpml/churn")),
    "churn_3way": _of(lambda: load("dpml/churn"), workload=3),
    "compas_3way": _of(lambda: load("dpml/compas"), workload=3, epsilon=2.0, max_model_mb=100),
    "compas_4way": _of(lambda: load("dpml/compas"), workload=4, epsilon=2.0, max_model_mb=100),
    "columns_40": Case(lambda seed: wide_table(40, seed=seed), {}),  # another table for each seed
    "columns_100": _of(lambda: wide_table(100)),
    "rows_5e6_2mb": _of(lambda: many_rows(30, 10), max_model_mb=2),
    "rows_5e6": _of(lambda: many_rows(30, 10)),
    "rows_3e6": _of(lambda: many_rows(100, 6)),
    "rows_1e8": _of(lambda: many_rows(30, 200)),
}


@dataclass(frozen=True)
class Pair(Line):
    """Two fits with one seed."""

    case: str
    seed: int
    base_error: float
    error: float
    base_seconds: float
    seconds: float
    base_rounds: int
    rounds: int


class Version:
    """A process that fits cases with one version of the code."""

    def __init__(self, python: Path) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **ONE_THREAD},
        )

    def __enter__(self) -> Version:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()

    def fit(self, case: str, seed: int) -> dict[str, float]:
        """Return what `Case.fit` returns there."""
        print(json.dumps([case, seed]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()  # type: ignore[union-attr]
        if not answer:
            raise SystemExit(f"the fit of {case}, seed {seed}, failed")
        return dict(json.loads(answer))


def serve() -> None:
    """Answer the fits that are asked for on standard input."""
    for table in (tree_table(4, 500), wide_table(34, 500)):  # compile
        AIM(epsilon=1.0, random_state=0).fit(table)
    for line in sys.stdin:
        case, seed = json.loads(line)
        print(json.dumps(CASES[case].fit(seed)), flush=True)


def run(names: Sequence[str], base: Path, seeds: int) -> None:
    """Fit pairs; each is stored as soon as it is made."""
    done = {(p.case, p.seed) for p in Pair.read_all(RESULT_FILE)}
    with ExitStack() as stack:
        old, new = (stack.enter_context(Version(python)) for python in (base, Path(sys.executable)))

        def pairs() -> Iterable[list[Pair]]:
            for name, seed in itertools.product(names, range(1, seeds + 1)):
                if (name, seed) not in done:
                    a, b = old.fit(name, seed), new.fit(name, seed)
                    costs = a["seconds"], b["seconds"], int(a["rounds"]), int(b["rounds"])
                    yield [Pair(name, seed, a["error"], b["error"], *costs)]

        Pair.append(RESULT_FILE, pairs())


def report() -> str:
    """Return a Markdown table: means of each case, and the upper 95 % t-limit of the paired difference of errors."""
    lines = [
        "| case | seeds | error before | after | difference | at most (95 %) | CPU-s before | after |",
        "|---|---|---|---|---|---|---|---|",
    ]
    found = Pair.read_all(RESULT_FILE)
    for case in CASES:
        pairs = [p for p in found if p.case == case]
        if not pairs:
            continue
        before, after, old, new = (
            np.array([getattr(p, k) for p in pairs]) for k in ("base_error", "error", "base_seconds", "seconds")
        )
        change = (after - before) / before.mean()
        limit = "–"
        if len(pairs) > 1:
            spread = stats.t.ppf(0.95, len(pairs) - 1) * change.std(ddof=1) / len(pairs) ** 0.5
            limit = f"{change.mean() + spread:+.1%}"
        lines.append(
            f"| {case} | {len(pairs)} | {before.mean():.4g} | {after.mean():.4g} | {change.mean():+.1%} | {limit} | "
            f"{old.mean():.2g} | {new.mean():.2g} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    go = verbs.add_parser("run", help="fit pairs")
    go.add_argument("case", nargs="+", choices=[*CASES])
    go.add_argument("--base", type=Path, required=True, help="interpreter of the older version")
    go.add_argument("--seeds", type=int, default=8)
    verbs.add_parser("report", help="print the table")
    verbs.add_parser("serve", help="what `run` starts")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "run":
        run(chosen.case, chosen.base, chosen.seeds)
    elif chosen.verb == "report":
        print(report())
    else:
        serve()


if __name__ == "__main__":
    main()
