"""Workloads whose pairs with the target weigh more: what regression from AIM's marginals and rows gains.

    python benchmarks/aim_target.py run          # rows of results/aim_target.csv; goes on where it was stopped
    python benchmarks/aim_constants.py report    # the page

Beside them the method that releases no marginals: objective perturbation for classes, AdaSSP for numbers, calibrated
exactly. Splits and noise follow the seed, so that all methods meet the same rows.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from harness import RESULTS, Line

from marginalia.data.datasets import load
from marginalia.data.splits import Split, random_split
from marginalia.data.table import Table
from marginalia.errors import InputError
from marginalia.methods.aim import AIM
from marginalia.methods.fit import Budget
from marginalia.methods.fit import fit as fit_arm
from marginalia.methods.record import Arm
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.sweep.metrics import scores
from marginalia.sweep.protocols import tasks_of

RESULT_FILE = RESULTS / "aim_target.csv"

ORIGINS = {
    "compas": ("compas",),
    "law": ("law",),
    "taxi": ("nist_taxi@dd_ssp",),
    "acs": ("acs_mobility@dd_ssp", "acs_income_lin@dd_ssp", "acs_employment@dd_ssp"),
    "adult": ("adult",),
}
EPSILONS = (0.1, 0.5, 2.0)
SEEDS = (1, 2, 3)
FACTORS = (1, 2, 8, 32)
TEST, MOST_ROWS = 0.2, 50_000
DIRECT = {"linear": "ada_ssp", "logistic": "objective_perturbation"}


@dataclass(frozen=True)
class Score(Line):
    """One line of the CSV.

    Attributes
    ----------
    table, task : str
    epsilon : float
    seed : int
    factor : int
        Weight of a pair with the target beside other pairs; 0: the method that releases no marginals.
    method : str
    metric : str
        ``mse`` or ``auc``, on the test rows.
    value, cpu_seconds : float
        The seconds are those of AIM and of all that is made from it.
    """

    table: str
    task: str
    epsilon: float
    seed: int
    factor: int
    method: str
    metric: str
    value: float
    cpu_seconds: float


def target_workload(names: Sequence[str], target: str, factor: float) -> dict[tuple[str, ...], float]:
    """Return all pairs, those with the target `factor` times as heavy.

    >>> target_workload(["a", "b", "y"], "y", 4)
    {('a', 'b'): 1.0, ('a', 'y'): 4.0, ('b', 'y'): 4.0}
    """
    return {pair: float(factor) if target in pair else 1.0 for pair in itertools.combinations(names, 2)}


@cache
def _split(name: str, drop: tuple[str, ...], seed: int) -> Split[Table]:
    data = load(name)
    if not isinstance(data.table, Table):
        raise InputError(f"{name} is not coded")
    rows = data.table.project([n for n in data.table.domain.names if n not in drop])
    return random_split(rows, seed=seed, test_fraction=TEST, train_limit=MOST_ROWS)


def run_one(name: str, task: Task, epsilon: float, seed: int, factor: int) -> Iterator[Score]:
    """Yield the scores of a fit: of AIM's marginals and rows, or of the direct method."""
    split = _split(name, task.drop, seed)
    budget, start = Budget(epsilon, 1e-5, "add_remove", seed), time.process_time()
    models: dict[str, Any] = {}
    if factor == 0:
        direct = DIRECT[task.task]
        models[direct] = fit_arm(Arm(direct, "tight", "", (task.task,)), BUILT_IN, budget, split.train, task)
    else:
        workload = target_workload(split.train.domain.names, task.target, factor)
        aim = AIM(epsilon=epsilon, workload=workload, random_state=seed).fit(split.train)
        for method in ("dd_ssp", "aim_synth"):
            arm = next(a for a in BUILT_IN[method].arms if a.source == "aim" and task.task in a.tasks)
            models[method] = fit_arm(arm, BUILT_IN, budget, split.train, task, aim)
    seconds, metric = time.process_time() - start, {"linear": "mse", "logistic": "auc"}[task.task]
    for method, model in models.items():
        found = scores(model, split.test, target=task.target, task=task.task, one_hot=task.one_hot)
        yield Score(
            name, task.task, epsilon, seed, factor, method, metric, round(found[metric], 8), round(seconds, 3)
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("run",))
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="1 to this one")
    Score.append(RESULT_FILE, missing(SEEDS[: parser.parse_args(arguments).seeds]))


def missing(seeds: Sequence[int]) -> Iterator[Iterator[Score]]:
    """Make the scores that are not there yet."""
    done = {(row.table, row.task, row.epsilon, row.seed, row.factor) for row in Score.read_all(RESULT_FILE)}
    tables = [table for tables in ORIGINS.values() for table in tables]
    for name, seed in itertools.product(tables, seeds):
        for task, epsilon, factor in itertools.product(tasks_of(load(name).entry), EPSILONS, (0, *FACTORS)):
            if (name, task.task, epsilon, seed, factor) not in done:
                yield run_one(name, task, epsilon, seed, factor)


if __name__ == "__main__":
    main()
