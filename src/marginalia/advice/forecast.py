"""The jobs of a sweep, what they will cost, and how long they will take on some cores."""

from __future__ import annotations

import heapq
import io
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from marginalia.advice.costs import BASES, Costs, Estimate
from marginalia.errors import InputError
from marginalia.sweep.plan import Job
from marginalia.sweep.protocols import tasks_of
from marginalia.sweep.resolve import Sweep

START_SECONDS = 8.0  # of Snakemake itself


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job of the workflow."""

    rule: str
    name: str
    parts: tuple[Estimate, ...] = ()  # its cost is their sum, its memory the largest
    needs: tuple[str, ...] = ()  # names of the jobs that must have finished

    @property
    def seconds(self) -> float:
        """Predicted CPU seconds, which are its wall seconds on a core of its own."""
        return sum(p.seconds for p in self.parts)


@dataclass(frozen=True)
class Forecast:
    """What a sweep will cost, if nothing of it has been run yet."""

    jobs: tuple[PlannedJob, ...]

    @property
    def parts(self) -> list[Estimate]:
        """What the cost of all jobs is the sum of."""
        return [part for job in self.jobs for part in job.parts]

    @property
    def seconds(self) -> float:
        """CPU seconds of all jobs."""
        return sum(part.seconds for part in self.parts)

    def shares(self) -> dict[str, float]:
        """Return the share of the CPU seconds that was measured, is that of other data, or is a guess."""
        total = self.seconds or 1.0
        return {basis: sum(part.seconds for part in self.parts if part.basis == basis) / total for basis in BASES}

    def wall_seconds(self, cores: int) -> float:
        """Return the time on `cores` idle cores: each job starts when its inputs are there and a core is free."""
        graph = TopologicalSorter({job.name: job.needs for job in self.jobs})
        graph.prepare()
        seconds = {job.name: job.seconds for job in self.jobs}
        ready: list[tuple[float, str]] = []  # the longest first
        running: list[tuple[float, str]] = []  # the one that ends next first
        now = START_SECONDS
        while graph.is_active():
            for name in graph.get_ready():
                heapq.heappush(ready, (-seconds[name], name))
            while ready and len(running) < cores:
                _, name = heapq.heappop(ready)
                heapq.heappush(running, (now + seconds[name], name))
            now, done = heapq.heappop(running)
            graph.done(done)
        return now

    def rules(self) -> dict[str, dict[str, float]]:
        """Return of each rule the number of jobs, and of its largest job the CPU seconds and the peak memory in MB."""
        largest: dict[str, dict[str, float]] = {}
        for job in (job for job in self.jobs if job.parts):
            seen = largest.setdefault(job.rule, {"jobs": 0, "seconds": 0.0, "peak_mb": 0.0})
            seen["jobs"] += 1
            seen["seconds"] = max(seen["seconds"], round(job.seconds, 1))
            seen["peak_mb"] = max(seen["peak_mb"], round(max(part.peak_mb for part in job.parts)))
        return largest

    def summary(self, cores: int) -> dict[str, Any]:
        """Return the forecast, JSON-able."""
        largest = max((part.peak_mb for part in self.parts), default=0.0)
        return {
            "jobs": {**Counter(job.rule for job in self.jobs), "total": len(self.jobs)},
            "cpu_hours": round(self.seconds / 3600, 4),
            "cores": cores,
            "wall_hours": round(self.wall_seconds(cores) / 3600, 4),
            "peak_mb_of_a_job": round(largest),
            "peak_mb": round(largest * min(cores, len(self.jobs))),
            "rules": self.rules(),
            "share_of_cpu": {basis: round(share, 3) for basis, share in self.shares().items()},
        }


def forecast(sweeps: Iterable[Sweep], costs: Costs | None = None) -> Forecast:
    """Return the jobs of one or several sweeps that are run together, with their costs.

    Snakemake itself says which jobs there are and which wait for which, from the ``Snakefile`` of the current folder:
    with all results still to be made, and without making any.
    """
    if not Path("Snakefile").is_file():
        raise InputError("there is no Snakefile here; call this in the root folder of the repository")
    known = costs or Costs()
    jobs = []
    for sweep in sweeps:
        for place, needs in _graph(sweep):
            name, *waits = ("/".join((sweep.config.results_dir, *p)) for p in (place, *needs))
            jobs.append(PlannedJob(place[0], name, _parts(sweep, place, known), tuple(waits)))
    pages = tuple(job.name for job in jobs if job.rule == "write_report")
    return Forecast((*jobs, PlannedJob("all", "all", needs=pages)))


@contextmanager
def _environment_of_now() -> Iterator[None]:
    """Undo what the body does to the environment of this process."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _graph(sweep: Sweep) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return every job as (rule, value of each wildcard, ...), with those that it waits for."""
    from snakemake.api import SnakemakeApi
    from snakemake.settings.types import ConfigSettings, DAGSettings, OutputSettings, Quietness, ResourceSettings

    def place(job: Any) -> tuple[str, ...]:
        return (job.rule.name, *job.wildcards)

    # In a results folder and an environment that are thrown away: nothing is there yet, and what the workflow notes and
    # sets while it is read does not stay.
    silent = OutputSettings(quiet={Quietness.ALL})
    with TemporaryDirectory() as folder, _environment_of_now(), SnakemakeApi(silent) as api:
        content = {**sweep.config.model_dump(mode="json", by_alias=True), "results_dir": folder}
        workflow = api.workflow(ResourceSettings(cores=1), ConfigSettings(config=content), snakefile=Path("Snakefile"))
        with redirect_stdout(io.StringIO()):
            workflow.dag(DAGSettings(forceall=True)).printd3dag()  # public, but prints; the graph itself is not public
        graph = workflow._workflow.dag
        waits_for = {place(job): sorted(map(place, needs)) for job, needs in graph.dependencies.items()}
        levels = (sorted(map(place, level)) for level in graph.toposorted())
        return [(name, waits_for[name]) for level in levels for name in level if name[0] != "all"]


def _parts(sweep: Sweep, place: tuple[str, ...], costs: Costs) -> tuple[Estimate, ...]:
    """Return what the cost of a job is the sum of."""
    match place:
        case ("run_part", study, _):
            experiment, settings, _ = sweep.studies[study]
            return (costs.job("study", study, "measured" if dict(experiment.defaults) == settings else "other data"),)
        case ("run_methods", experiment, dataset, group, batch):
            job = sweep.plan.jobs[experiment, dataset, group, batch]
            return (costs.job("rule", "run_methods"), *_fits(job, sweep, costs))
        case ("tabulate_without_figure", _):
            return (costs.job("rule", "tabulate_experiment"),)
    return (costs.job("rule", place[0]),)


def _fits(job: Job, sweep: Sweep, costs: Costs) -> list[Estimate]:
    cells = job.cells(tasks_of(sweep.entries[job.dataset]), sweep.config.seed)
    alike = Counter((cell.arm, cell.task.task if cell.task else "") for cell in cells)
    estimates = []
    for (arm, task), n in alike.items():
        one = costs.fit(arm, task=task, dataset=job.dataset)
        limit = job.experiment.timeout_seconds or math.inf  # then it is ended
        estimates.append(replace(one, seconds=min(one.seconds, limit) * n))
    return estimates
