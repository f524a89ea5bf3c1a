"""The jobs of a sweep, what they will cost, and how long they will take on some cores."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marginalia.papers import registry
from marginalia.planning.costs import FACTORS, Costs, Estimate
from marginalia.sweep.plan import Job
from marginalia.sweep.protocols import tasks_of
from marginalia.sweep.resolve import Sweep

START_SECONDS = 8.0  # of Snakemake itself


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job of the workflow.

    Attributes
    ----------
    rule, name : str
    parts : tuple of Estimate
        What its cost is the sum of; its memory is the largest.
    needs : tuple of str
        Names of the jobs that must have finished.
    """

    rule: str
    name: str
    parts: tuple[Estimate, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Predicted CPU seconds, which are its wall seconds on a core of its own."""
        return sum(p.seconds for p in self.parts)


@dataclass(frozen=True)
class Forecast:
    """What a sweep will cost, if nothing of it has been run yet.

    Attributes
    ----------
    jobs : tuple of PlannedJob
    """

    jobs: tuple[PlannedJob, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of jobs of each rule."""
        return dict(Counter(job.rule for job in self.jobs))

    def seconds(self) -> tuple[float, float, float]:
        """Return (low, expected, high) CPU seconds: every estimate at its bound together."""
        parts = [part for job in self.jobs for part in job.parts]
        low, high = (sum(part.range[side] for part in parts) for side in (0, 1))
        return low, sum(part.seconds for part in parts), high

    def shares(self) -> dict[str, float]:
        """Return which share of the expected seconds stands on what."""
        of = dict.fromkeys(FACTORS, 0.0)
        for job in self.jobs:
            for part in job.parts:
                of[part.basis] += part.seconds
        total = sum(of.values()) or 1.0
        return {basis: seconds / total for basis, seconds in of.items()}

    def peak_mb(self) -> float:
        """Return the memory of the largest job."""
        return max((part.peak_mb for job in self.jobs for part in job.parts), default=0.0)

    def wall_seconds(self, cores: int) -> float:
        """Return the time on `cores` idle cores: each job starts when its inputs are there and a core is free."""
        left = {job.name: set(job.needs) for job in self.jobs}
        waiting: dict[str, list[str]] = {}
        for job in self.jobs:
            for need in job.needs:
                waiting.setdefault(need, []).append(job.name)
        seconds = {job.name: job.seconds for job in self.jobs}
        ready = [(-seconds[name], name) for name, needs in left.items() if not needs]
        heapq.heapify(ready)
        running: list[tuple[float, str]] = []
        now = START_SECONDS
        while ready or running:
            while ready and len(running) < cores:
                _, name = heapq.heappop(ready)
                heapq.heappush(running, (now + seconds[name], name))
            now, done = heapq.heappop(running)
            for name in waiting.get(done, ()):
                left[name].discard(done)
                if not left[name]:
                    heapq.heappush(ready, (-seconds[name], name))
        return now

    def summary(self, cores: int) -> dict[str, Any]:
        """Return the forecast, JSON-able."""
        low, expected, high = self.seconds()
        return {
            "jobs": {**self.counts(), "total": len(self.jobs)},
            "cpu_hours": round(expected / 3600, 4),
            "cpu_hours_low": round(low / 3600, 4),
            "cpu_hours_high": round(high / 3600, 4),
            "cores": cores,
            "wall_hours": round(self.wall_seconds(cores) / 3600, 4),
            "peak_mb_of_a_job": round(self.peak_mb()),
            "peak_mb": round(self.peak_mb() * min(cores, len(self.jobs))),
            "share_of_cpu": {basis: round(share, 3) for basis, share in self.shares().items()},
        }


def forecast(sweeps: Iterable[Sweep], costs: Costs | None = None) -> Forecast:
    """Return the jobs of one or several sweeps that are run together, as Snakemake lists them, with their costs.

    Parameters
    ----------
    sweeps : iterable of Sweep
    costs : Costs, optional
        Default: the measurements that come with the library.
    """
    known = costs or Costs.load()
    several = list(sweeps)
    jobs = [job for sweep in several for job in _jobs_of(sweep, known)]
    pages = tuple(job.name for job in jobs if job.rule == "report_page")
    return Forecast((*jobs, PlannedJob("all", "all", needs=pages)))


def _jobs_of(sweep: Sweep, costs: Costs) -> list[PlannedJob]:
    root = sweep.config.results_dir

    def named(*parts: str) -> str:
        return "/".join((root, *parts))

    def job(rule: str, name: str, needs: Sequence[str] = (), work: Sequence[Estimate] = ()) -> PlannedJob:
        return PlannedJob(rule, name, (costs.rule(rule), *work), tuple(needs))

    data = {name: named("data", name) for name in sweep.entries}
    jobs = [job("dataset", name) for name in data.values()]
    places = {id(j): named("methods", *key) for key, j in sweep.plan.jobs.items()}
    for planned in sweep.plan.jobs.values():
        needs = [data[planned.dataset], *(places[id(other)] for other in sweep.plan.needed_by(planned))]
        jobs.append(job("methods", places[id(planned)], needs, _fits(planned, sweep, costs)))
    done = list(places.values())
    for name, (study, settings) in sweep.studies.items():
        as_measured = dict(study.defaults) == dict(settings)
        parts = {part: named("studies", name, part) for part in study.parts(settings)}
        needs = [data[d] for d in study.datasets]
        part_cost = costs.part(name, as_measured=as_measured)
        jobs += [PlannedJob("study_part", place, (part_cost,), tuple(needs)) for place in parts.values()]
        jobs.append(job("study", named("study", name), list(parts.values())))
    shown = [named("study", name) for name in sweep.studies] + list(data.values())
    jobs.append(job("tables", tables := named("tables"), done))
    shown.append(tables)
    compared = registry.comparisons(sweep.config.comparisons).values()
    if compared:
        studies = [named("study", name) for name in registry.cards_needed(compared, sweep.studies).values()]
        jobs.append(job("comparisons", comparisons := named("comparisons"), [*done, *studies]))
        shown.append(comparisons)
    if sweep.figures():
        jobs.append(job("figures", figures := named("figures"), [tables]))
        shown.append(figures)
    if any(c.figure for c in compared):
        jobs.append(job("comparison_figures", drawn := named("comparison_figures"), [named("comparisons")]))
        shown.append(drawn)
    for name in sweep.config.notebooks:
        jobs.append(job("notebook", place := named("notebook", name), shown[:]))
        shown.append(place)
    return [*jobs, job("report_page", named("report"), shown)]


def _fits(job: Job, sweep: Sweep, costs: Costs) -> list[Estimate]:
    cells = job.cells(tasks_of(sweep.entries[job.dataset]), sweep.config.seed)
    counted: Mapping[tuple[Any, ...], int] = Counter(
        (c.arm.method, c.arm.variant, c.arm.calibration, c.task.task if c.task else "", c.epsilon) for c in cells
    )
    estimates = []
    for (method, variant, calibration, task, epsilon), n in counted.items():
        one = costs.fit(
            method, variant=variant, calibration=calibration, task=task, dataset=job.dataset, epsilon=epsilon
        )
        estimates.append(Estimate(one.seconds * n, one.peak_mb, one.basis))
    return estimates
