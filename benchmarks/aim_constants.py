"""What AIM's constants cost: the error of fits with others, on many tables at many budgets.

    python benchmarks/aim_constants.py screen    # every arm, few seeds: rows of results/aim_constants.csv
    python benchmarks/aim_constants.py confirm   # those that are good without one origin, more seeds
    python benchmarks/aim_constants.py held      # what is chosen without an origin and the paper's, there, fresh seeds
    python benchmarks/aim_constants.py outside   # what is chosen on all origins, on tables of none of them
    python benchmarks/aim_constants.py report    # docs/aim-constants.md and its figure

A task goes on where it was stopped: a row is written as soon as it is known, and no row is made twice. `screen`,
`confirm` and `held` use different seeds, so that no number that chose an arm also judges it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

from aim_arms import (
    ADDED,
    ARMS,
    DEAR,
    DROPPED,
    EPSILONS,
    LOOKED_AT,
    ORIGIN_OF,
    ORIGINS,
    OUTSIDE,
    PAPER,
    SEEDS,
    TOO_DEAR,
    Fit,
    table_of,
)
from aim_choice import chosen, shortlist
from harness import RESULTS

from marginalia.methods.aim import AIM, AdaptiveBudget, Constants
from marginalia.privacy.ledger import Ledger

RESULT_FILE = RESULTS / "aim_constants.csv"


def fit(task: str, table: str, epsilon: float, arm: str, seed: int) -> Fit:
    """Fit AIM with the constants of an arm."""
    rows = table_of(table)
    aim = aim_with(ARMS[arm], epsilon=epsilon, random_state=seed)
    start = time.process_time()
    aim.fit(rows)
    seconds = time.process_time() - start
    return Fit(
        task, table, epsilon, arm, seed, round(aim.workload_error(rows), 8), aim.rounds_, currency_of(aim),
        round(seconds, 3),
    )  # fmt: skip


def aim_with(constants: Constants, **parameters: Any) -> AIM:
    """Return an unfitted AIM with other constants than its own."""
    return type("StudiedAIM", (AIM,), {"_loop": constants})(**parameters)


def currency_of(aim: AIM) -> str:
    """Return the currency in which a fitted AIM kept its budget."""
    d = len(aim.domain_)
    ledger = Ledger(aim.relation, epsilon=aim.epsilon, delta=aim.delta, calibration=aim.calibration, planned=True)
    return AdaptiveBudget.start(aim, ledger, d, d).composition.measure


def planned(task: str, known: Sequence[Fit]) -> Iterator[tuple[str, float, str, int]]:
    """Yield what a task has to fit, of what can be known by now; most useful first."""
    studied = [table for tables in ORIGINS.values() for table in tables]
    tables = studied if task != "outside" else list(itertools.chain(*OUTSIDE.values()))
    if task == "screen":
        first = [arm for arm in ARMS if arm not in ADDED]
        rest = [arm for arm in first if arm not in DROPPED]
        arms = {(t, e): first if t in LOOKED_AT else rest for t, e in itertools.product(tables, EPSILONS)}
    elif task == "confirm":
        short = {PAPER}.union(*(shortlist(known, without=o) for o in ("", *ORIGINS)))
        arms = {cell: [arm for arm in ARMS if arm in short] for cell in itertools.product(tables, EPSILONS)}
    else:
        if task == "held":
            options = {origin: chosen(known, without=origin) for origin in ORIGINS}
        else:
            options = dict.fromkeys(OUTSIDE, chosen(known, without=""))
        arms = {
            cell: list(dict.fromkeys([PAPER, *(option.arm(cell) for option in options[ORIGIN_OF[cell[0]]])]))
            for cell in itertools.product(tables, EPSILONS)
        }
    for i, seed in enumerate(SEEDS[task]):
        for (table, epsilon), some in arms.items():
            if (table, epsilon) in TOO_DEAR:
                continue
            if table not in DEAR or task in ("held", "outside") or i < len(SEEDS[task]) / 2:
                yield from ((table, epsilon, arm, seed) for arm in some)


def missing(task: str, seconds: float) -> Iterator[list[Fit]]:
    """Make the fits of a task that are not there yet, within so many CPU seconds."""
    known = Fit.read_all(RESULT_FILE)
    done = {row.key for row in known}
    for key in planned(task, known):
        if key in done:
            continue
        if time.process_time() > seconds:
            raise SystemExit(f"stopped after {seconds:g} CPU seconds; the same command goes on")
        done.add(key)
        yield [fit(task, *key)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=(*SEEDS, "report"))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of CPU, at most")
    given = parser.parse_args(arguments)
    if given.task == "report":
        from aim_constants_report import write_report

        write_report(RESULT_FILE)
    else:
        Fit.append(RESULT_FILE, missing(given.task, given.seconds))


if __name__ == "__main__":
    main()
