"""Which runs a configuration plans, held against those whose rows are there: what was left out, or put in, is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from marginalia.data.catalogue import catalogue
from marginalia.experiment import Experiment
from marginalia.reporting.formats import epsilon_name
from marginalia.reporting.verification.rows_file import FILE, Rows
from marginalia.sweep.cells import Cell
from marginalia.sweep.config import Config
from marginalia.sweep.metrics import METRICS
from marginalia.sweep.plan import metrics_of, plan
from marginalia.sweep.protocols import tasks_of
from marginalia.sweep.resolve import chosen_experiments

KEY = ("experiment", "dataset", "task", "method", "variant", "calibration", "epsilon", "trial")
Run = tuple[Any, ...]  # values of KEY, and of a row its metric


def differences(rows: Rows, config: Config, known: Mapping[str, Experiment]) -> Iterator[str]:
    """Say which runs and parts are missing, which are not planned, and which have another seed.

    A run's seed depends on all that its configuration says of it: parameters, budget, split, seed of the sweep. Sweeps
    over a user's own tables or methods, which may be elsewhere, are passed over.
    """
    yield from _studies(rows, config, known)
    if any(not isinstance(name, str) for block in config.blocks() for name in block.datasets):
        return
    if any(choice.file for block in config.blocks() for choice in block.methods):
        return
    planned, there = _planned(rows, config), _there(rows)
    for runs, said in (
        ([run for run in planned if run not in there], "planned by the configuration, not there"),
        ([run for run in there if run not in planned], "not planned by the configuration"),
        ([run for run in planned if there.get(run, planned[run]) != planned[run]], "of another seed than the plan's"),
    ):
        if runs:
            yield f"{FILE}: {len(runs)} values {said}, first {_name_of(runs[0])} {runs[0][-1]}"


def _name_of(run: Run) -> str:
    """Return the key of a run as text, empty parts left out."""
    parts = zip(KEY, run, strict=False)
    return "/".join(epsilon_name(value) if name == "epsilon" else str(value) for name, value in parts if str(value))


def _value_of(cell: Cell, name: str) -> Any:
    """Return what a run of `cell` has in a column of `KEY`."""
    if name == "task":
        return cell.task.task if cell.task else ""
    return getattr(cell.arm if name in ("method", "variant", "calibration") else cell, name)


def _studies(rows: Rows, config: Config, known: Mapping[str, Experiment]) -> Iterator[str]:
    chosen = chosen_experiments(config, known)
    for study in sorted(rows.studies.keys() - chosen.keys()):
        yield f"{FILE}: the configuration has no study {study}"
    for study, (experiment, settings, _) in sorted((name, one) for name, one in chosen.items() if one.experiment.rows):
        planned = experiment.part_names(settings)
        there = set(rows.parts[study]) if study in rows.parts else set()
        if missing := [part for part in planned if part not in there]:
            yield f"{FILE}: no rows of {len(missing)} parts of {study}, first {missing[0]}"
        if more := sorted(there - set(planned)):
            yield f"{FILE}: {len(more)} parts of {study} are not planned, first {more[0]}"


def _planned(rows: Rows, config: Config) -> dict[Run, int]:
    ran = rows.records.groupby("experiment")["dataset"].unique().to_dict()
    chosen = {  # which sets there were is not asked again: what `auto` became stands in the rows
        block.name: {
            name: tasks_of(catalogue.entry(name))
            for name in (ran.get(block.name, ()) if block.datasets == "auto" else map(str, block.datasets))
        }
        for block in config.blocks()
    }
    missing = {metric.id for metric in METRICS.values() if metric.optional} - set(rows.records["metric"])
    return {
        (*key, metric): seed
        for job in plan(config, chosen).jobs.values()
        for cell in job.cells(list(chosen[job.experiment.name][job.dataset]), config.seed)
        for key, seed in [(tuple(_value_of(cell, name) for name in KEY), cell.seed)]
        for metric in metrics_of(cell.task, cell.arm)
        if metric not in missing
    }


def _there(rows: Rows) -> dict[Run, int]:
    columns = rows.records[[*KEY, "metric", "seed"]].itertuples(index=False, name=None)
    return {run[:-1]: int(run[-1]) for run in columns}
