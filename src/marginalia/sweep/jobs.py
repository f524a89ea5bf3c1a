"""What a job of the sweep does: prepare a data set, or run the cells of one method."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from marginalia.data.catalogue.catalogue import describe
from marginalia.data.catalogue.entry import Entry
from marginalia.data.datasets import load
from marginalia.data.files import for_the_owner
from marginalia.data.table import RawTable, Rows, Table
from marginalia.errors import InputError
from marginalia.methods.record import Arm, Method
from marginalia.peers.record import is_peer
from marginalia.progress import say_when_compiling
from marginalia.sweep.cells import Cell, CellStore
from marginalia.sweep.isolation.log import say
from marginalia.sweep.plan import Job
from marginalia.sweep.protocols import Prepared, tasks_of
from marginalia.sweep.records import ResultRecord, write_records
from marginalia.sweep.runner import Outcome, Runner, version_of_arm


@dataclass(frozen=True)
class Follower:
    """Who follows the steps of a job in order to end one that hangs or dies, and what became of earlier attempts.

    Attributes
    ----------
    tell : callable(phase, step)
        Called when a step, by its place in the order, begins to ``load`` or to ``fit``, and when the job begins to
        ``write``.
    settled : int
        How many steps earlier attempts at this job have been through.
    verdict : Outcome or None
        How the step after those ended, if it ended the attempt.
    again : bool
        Whether that step is tried once more.
    """

    tell: Callable[[str, int], None] = lambda phase, step: None
    settled: int = 0
    verdict: Outcome | None = None
    again: bool = False


def prepare_dataset(content: Mapping[str, Any], out: str | os.PathLike[str]) -> None:
    """Get a data set's files, turn them into codes, and store them in a folder of the library's own format.

    Parameters
    ----------
    content : mapping
        The data set's entry, as `marginalia.data.catalogue.entry.Entry.model_dump` gives it.
    out : path-like
        Folder to write.
    """
    entry = Entry.model_validate(content)
    loaded = load(entry)
    facts = {k: v for k, v in describe(entry).items() if k not in ("name", "tasks", "attributes")}
    table, raw = _parts(loaded.table)
    test, raw_test = (None, None) if loaded.released_test is None else _parts(loaded.released_test)
    facts |= {"rows": table.n_rows, "domain_source": table.domain.source if raw is None else "released"}
    public = entry.rows or entry.n_public, entry.test_rows
    prepared = Prepared(entry.name, table, tasks_of(entry), test, entry.train_limit, facts, *public, raw, raw_test)
    with for_the_owner(not prepared.is_catalogued):
        prepared.save(out)


def _parts(rows: Rows) -> tuple[Table, RawTable | None]:
    """Return the columns with a public domain, and raw rows if there are others."""
    return (rows.known, rows) if isinstance(rows, RawTable) else (rows, None)


def run_method(
    settings: Mapping[str, Any],
    *,
    data: str | os.PathLike[str],
    seed: int,
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    follower: Follower | None = None,
) -> None:
    """Run the cells of one job in this process and write their records.

    Parameters
    ----------
    settings : mapping
        `marginalia.sweep.plan.Job.settings`.
    data : path-like
        Folder of the prepared data set.
    seed : int
        Root seed.
    store : path-like
        Folder of the cell store.
    out : path-like
        Parquet file of records, with the certificates of the private ones.
    follower : Follower, optional
    """
    follower = follower or Follower()
    job = Job.from_settings(settings)
    prepared = Prepared.load(data)
    sources = {arm.method: arm for arm in job.sources}
    runner = Runner(prepared, job.registry, sources, CellStore(store))
    # Trial by trial: what is computed once for the training rows of a trial is shared by its cells. Fits of
    # synthesizers come before the arms that post-process them.
    cells = sorted(job.cells(prepared.tasks, seed), key=lambda cell: (cell.trial, cell.task is not None))
    steps = _steps(cells, sources)
    for step in steps[: follower.settled]:
        runner.settle(step)
    if follower.verdict:
        runner.fail(steps[follower.settled], follower.verdict, final=not follower.again)
    begun = follower.settled + (follower.verdict is not None and not follower.again)
    if begun < len(steps):
        follower.tell("load", begun)
        load_libraries(job.registry, job.arms, {task.task for task in prepared.tasks})
        say_when_compiling()
        for arm in (*job.arms, *job.sources):
            version_of_arm(arm, job.registry)  # now: to read all code takes longer than a small fit
    wanted = set(cells)
    records, certificates = [], []
    too_slow: list[tuple[Cell, str]] = []
    for number, step in enumerate(steps):
        if step not in wanted and runner.has_model(step):
            continue
        if number >= begun:
            follower.tell("fit", number)
            if why := _hopeless(step, too_slow):
                runner.fail(step, Outcome("timeout", why))
        rows = runner.run(step)
        if rows[0].status == "timeout":
            too_slow.append((step, rows[0].message))
        if number >= follower.settled:
            _log(f"[{number + 1}/{len(steps)}]", step, rows)
        if step in wanted:
            records.extend(rows)
            certificates.extend(runner.certificates(step, rows))
    follower.tell("write", len(steps))
    with for_the_owner(not prepared.is_catalogued):
        write_records(out, records, certificates)


def _steps(cells: Sequence[Cell], sources: Mapping[str, Arm]) -> list[Cell]:
    """Return the cells, each after the fit that it post-processes."""
    behind = [[cell.of_source(sources[cell.arm.source])] if cell.arm.source else [] for cell in cells]
    return list(dict.fromkeys(step for cell, first in zip(cells, behind, strict=True) for step in (*first, cell)))


def _hopeless(step: Cell, too_slow: Iterable[tuple[Cell, str]]) -> str:
    """Return why a fit of a peer is not begun, if so: at that epsilon or a smaller one it has taken too long before.

    A peer that hangs costs its time once, and not once for each trial.
    """
    for earlier, message in too_slow:
        same = is_peer(step.arm.method) and (earlier.arm, earlier.task) == (step.arm, step.task)
        if same and earlier.epsilon <= step.epsilon and earlier != step:
            return f"not run: epsilon={earlier.epsilon:g} trial={earlier.trial} {message}"
    return ""


def _log(place: str, step: Cell, rows: Sequence[ResultRecord]) -> None:
    bad = next((r for r in rows if r.status != "ok"), None)
    note = f"{bad.status}: {bad.message}" if bad else f"{rows[0].seconds:.2f} s"
    name = " ".join(filter(None, (step.arm.method, step.arm.variant, step.arm.calibration)))
    say(f"{place} {name} epsilon={step.epsilon:g} trial={step.trial}: {note}")


def load_libraries(registry: Mapping[str, Method], arms: Iterable[Arm], tasks: Collection[str]) -> None:
    """Import what the arms need beforehand: loading a library is not part of the first fit's time.

    A user's file that cannot be imported is the matter of the fits that need it.
    """
    for arm in arms:
        if "logistic" in tasks and "logistic" in arm.tasks:
            import sklearn.metrics  # noqa: F401  (of the AUC)
        for task in arm.tasks or ("",):
            if task in registry[arm.method].classes:
                with suppress(InputError, SystemExit):
                    registry[arm.method].load(task)
