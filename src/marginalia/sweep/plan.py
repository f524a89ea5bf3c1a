"""From a configuration to jobs: which cells run together, and which need another's fit first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.catalogue import uncoded
from marginalia.errors import InputError, unknown_name
from marginalia.methods.record import Arm, Method
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.peers.record import is_peer, records
from marginalia.sweep.cells import Cell
from marginalia.sweep.choices import (
    PRESENTATION,
    MethodChoice,
    check_ledger,
    check_parameters,
    method_from_file,
    own_method,
    select,
)
from marginalia.sweep.config import Block, Config, epsilon_text
from marginalia.sweep.metrics import METRICS
from marginalia.sweep.version import version_of_arm

ALL = "all"
FITS_A_JOB = 30  # of a slow method: more are jobs of its own, one for each epsilon
GROUPS = {"learner": "learners", "synthesizer": "synthesizers"}


@dataclass(frozen=True, slots=True)
class Job:
    """What one process of the sweep runs.

    Attributes
    ----------
    experiment : Block
    dataset : str
    group : str
        Most methods run together, since starting a process costs more than their fits: ``learners`` and
        ``synthesizers``. Its own group is a slow method with many fits, one of another library, one in a file of the
        user's, and one that chooses on test rows. What post-processes a synthesizer is in its group.
    batch : str
        ``all`` epsilons together; one of them where a method that is its own group has many fits.
    epsilons : tuple of float
        The privacy budgets of this job's private cells.
    arms : tuple of Arm
    sources : tuple of Arm
        The synthesizer arms whose fits the job's arms post-process.
    file : MethodChoice or None
        Where the method is, if it is in a file of the user's.
    """

    experiment: Block
    dataset: str
    group: str
    batch: str
    epsilons: tuple[float, ...]
    arms: tuple[Arm, ...]
    sources: tuple[Arm, ...] = ()
    file: MethodChoice | None = None

    @property
    def registry(self) -> Mapping[str, Method]:
        """The methods that the job's arms are of, and those of its sources."""
        own = {} if self.file is None else {self.file.id: own_method(self.file)}
        return {**BUILT_IN, **records((*self.arms, *self.sources)), **own}

    def settings(self) -> dict[str, Any]:
        """Return all that the job's cells depend on, JSON-able: an edit of it reruns the job."""
        elsewhere = {"datasets", "methods", "epsilons", "figures"}
        return _jobs().dump_python(self, mode="json", exclude={"experiment": elsewhere, "file": set(PRESENTATION)})

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Job:
        """Return the job that wrote `settings`."""
        return _jobs().validate_python(settings)

    def versions(self) -> list[str]:
        """Return the versions of the code behind the job's arms: an edit of it reruns the job."""
        registry = self.registry
        return sorted({version_of_arm(arm, registry) for arm in self.arms})

    def metrics(self, tasks: Sequence[Task]) -> set[str]:
        """Return the metrics that the job's cells measure."""
        return {m for arm in self.arms for task in _tasks_of(arm, tasks) for m in metrics_of(task, arm)}

    def cells(self, tasks: Sequence[Task], root_seed: int) -> list[Cell]:
        """Return the job's cells, synthesizer fits first."""
        block = self.experiment
        cells = []
        for arm in self.arms:
            budgets = [(e, block.delta) for e in self.epsilons] if arm.is_private else [(math.inf, 0.0)]
            for task in _tasks_of(arm, tasks):
                for epsilon, delta in budgets:
                    for trial in range(block.trials):
                        cells.append(
                            Cell(
                                experiment=block.name,
                                protocol=block.protocol,
                                dataset=self.dataset,
                                arm=arm,
                                task=task,
                                relation=block.relation,
                                epsilon=epsilon,
                                delta=delta,
                                trial=trial,
                                test_fraction=block.test_fraction,
                                root_seed=root_seed,
                            )
                        )
        return cells


@dataclass(frozen=True)
class Plan:
    """Every job of a configuration.

    Attributes
    ----------
    jobs : dict of (experiment, dataset, group, batch) to Job
    """

    jobs: dict[tuple[str, str, str, str], Job]


def plan(config: Config, datasets: Mapping[str, Mapping[str, Sequence[Task]]]) -> Plan:
    """Return the jobs of a configuration.

    Parameters
    ----------
    config : Config
    datasets : mapping of experiment name to mapping of data-set id to its tasks
        After ``auto`` is resolved.

    Raises
    ------
    InputError
        A method is unknown, has no proof for the relation, or nothing is left to run.
    """
    jobs: dict[tuple[str, str, str, str], Job] = {}
    for block in config.blocks():
        _check_arms(block, *select(block.methods))
        for choice in block.methods:
            if choice.file:
                check_ledger(choice, method_from_file(choice))
        files = _own_groups(block.methods)
        own_arms = {own_method(choice).arms[0]: group for group, choice in files.items()}
        for dataset, tasks in datasets[block.name].items():
            registry, arms = select([c for c in block.methods if c.datasets is None or dataset in c.datasets])
            check_parameters(registry, arms, (task.task for task in tasks))
            # Of several fits of a synthesizer the first one with exact calibration is post-processed.
            fits = sorted((a for a in arms if not a.tasks), key=lambda a: a.calibration != "tight")
            synthesizers = {a.method: a for a in reversed(fits)}
            many = block.trials * len(block.epsilons) > FITS_A_JOB
            groups: dict[str, list[Arm]] = {}
            for arm in arms:
                if list(_tasks_of(arm, tasks)):
                    first = synthesizers[arm.source] if arm.source else arm  # its fit is not made twice
                    group = own_arms.get(first) or _group(registry[first.method], first, many)
                    groups.setdefault(group, []).append(registry[arm.method].for_dataset(arm, uncoded(dataset)))
            for group, members in groups.items():
                sources = tuple(synthesizers[n] for n in dict.fromkeys(a.source for a in members if a.source))
                divided = group not in GROUPS.values() and (many or any(a.tuned_on_test for a in members))
                batches = {epsilon_text(e): (e,) for e in block.epsilons} if divided else {ALL: block.epsilons}
                for batch, epsilons in batches.items():
                    # What knows no epsilon runs once, in the first job.
                    here = tuple(a for a in members if a.is_private or batch == next(iter(batches)))
                    if here:
                        jobs[block.name, dataset, group, batch] = Job(
                            block, dataset, group, batch, epsilons, here, sources, files.get(group)
                        )
    if not jobs and not config.studies:
        raise InputError("nothing to run: no chosen method has a task on the chosen data sets")
    return Plan(jobs)


def _check_arms(block: Block, registry: Mapping[str, Method], arms: Iterable[Arm]) -> None:
    """Refuse what has no proof for the block's relation, and what its protocol never does; name unknown data sets."""
    for arm in arms:
        if arm.is_private and block.relation not in registry[arm.method].relations:
            raise InputError(
                f"experiment '{block.name}': method '{arm.method}' has no proof for {block.relation}; "
                f"it has for {', '.join(registry[arm.method].relations)}"
            )
        if arm.tuned_on_test and block.protocol == "strict":
            raise InputError(
                f"experiment '{block.name}': method '{arm.method}', variant '{arm.variant}' chooses on test rows, "
                "which protocol strict never does; use protocol as_published or leave it out"
            )
    own = [d["name"] for d in block.datasets if isinstance(d, Mapping)] if block.datasets != "auto" else []
    known = {*catalogue.names(), *own}
    for choice in block.methods:
        for name in choice.datasets or ():
            if name not in known:
                raise unknown_name(f"data set of method '{choice.id}'", name, known)


def _own_groups(choices: Iterable[MethodChoice]) -> dict[str, MethodChoice]:
    """Return the groups of methods in files of the user's: one each, as nothing ties what they do to their process."""
    groups: dict[str, MethodChoice] = {}
    for choice in choices:
        if choice.file:
            n = sum(other.id == choice.id for other in groups.values())
            groups[f"{choice.id}+{n + 1}" if n else choice.id] = choice
    return groups


def _group(method: Method, arm: Arm, many: bool) -> str:
    alone = (method.cost == "slow" and many) or is_peer(method.id) or arm.tuned_on_test
    return method.id.replace("/", "_") if alone else GROUPS[method.kind]


@cache
def _jobs() -> TypeAdapter[Job]:
    return TypeAdapter(Job)


def _tasks_of(arm: Arm, tasks: Iterable[Task]) -> Iterable[Task | None]:
    if not arm.tasks:
        return [None]
    return [t for t in tasks if t.task in arm.tasks]


def metrics_of(task: Task | None, arm: Arm) -> tuple[str, ...]:
    """Return what is measured of an arm on a task, or of a synthesizer (None)."""
    kind = "" if task is None else task.task
    scores_only = is_peer(arm.method) and not arm.source  # a peer's learner tells no probability
    found = (metric for metric in METRICS.values() if kind in metric.tasks)
    return tuple(
        metric.id
        for metric in found
        if not (scores_only and metric.of == "probability") and (states_intervals(arm) or not metric.of_intervals)
    )


def states_intervals(arm: Arm) -> bool:
    """Return whether the releases of an arm keep what intervals need; of a user's own methods that is not known."""
    return arm.method in BUILT_IN and BUILT_IN[arm.method].intervals != "none"
