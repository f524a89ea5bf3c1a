"""What a job of the sweep does: prepare a data set, or run the cells of one method."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from marginalia.data.catalog import describe
from marginalia.data.datasets import load
from marginalia.data.schema import Entry
from marginalia.errors import InputError
from marginalia.sweep.cells import CellStore
from marginalia.sweep.method import Arm, Method
from marginalia.sweep.plan import Job
from marginalia.sweep.protocols import Prepared, tasks_of
from marginalia.sweep.records import write_records
from marginalia.sweep.runner import Runner


@contextmanager
def logged(path: str | os.PathLike[str]) -> Iterator[None]:
    """Send what the body prints to a log file; an error ends the process after it was written there."""
    with open(path, "w", buffering=1) as log, redirect_stdout(log), redirect_stderr(log):
        try:
            yield
        except InputError as error:
            print(f"marginalia: {error}")
            print(f"marginalia: {error}", file=sys.__stderr__)
            sys.exit(2)
        except Exception:
            traceback.print_exc()
            sys.exit(1)


def prepare_dataset(content: Mapping[str, Any], out: str | os.PathLike[str]) -> None:
    """Get a data set's files, turn them into codes, and store them in a folder of the library's own format.

    Parameters
    ----------
    content : mapping
        The data set's entry, as `marginalia.data.schema.Entry.model_dump` gives it.
    out : path-like
        Folder to write.
    """
    entry = Entry.model_validate(content)
    loaded = load(entry)
    facts = {k: v for k, v in describe(entry).items() if k not in ("name", "tasks", "attributes")}
    facts |= {"rows": loaded.table.n_rows, "domain_source": loaded.table.domain.source}
    public = entry.rows or entry.n_public, entry.test_rows
    prepared = Prepared(
        entry.name, loaded.table, tasks_of(entry), loaded.released_test, entry.train_limit, facts, *public
    )
    prepared.save(out)


def run_method(
    settings: Mapping[str, Any],
    *,
    data: str | os.PathLike[str],
    seed: int,
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
) -> None:
    """Run the cells of one job and write their records.

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
    """
    job = Job.from_settings(settings)
    prepared = Prepared.load(data)
    registry = job.registry
    sources = {arm.method: arm for arm in job.sources}
    load_libraries(registry, job.arms)
    runner = Runner(prepared, registry, sources, CellStore(store), job.experiment.timeout_seconds)
    # Trial by trial: what is computed once for the training rows of a trial is shared by its cells. Fits of
    # synthesizers come before the arms that post-process them.
    cells = sorted(job.cells(prepared.tasks, seed), key=lambda cell: (cell.trial, cell.task is not None))
    records, certificates = [], []
    for number, cell in enumerate(cells, start=1):
        rows = runner.run(cell)
        bad = next((r for r in rows if r.status != "ok"), None)
        note = f"{bad.status}: {bad.message}" if bad else f"{rows[0].seconds:.2f} s"
        name = " ".join(filter(None, (cell.arm.method, cell.arm.variant, cell.arm.calibration)))
        print(f"[{number}/{len(cells)}] {name} epsilon={cell.epsilon:g} trial={cell.trial}: {note}")
        records.extend(rows)
        certificates.extend(runner.certificates(cell, rows))
    write_records(out, records, certificates)


def load_libraries(registry: Mapping[str, Method], arms: Iterable[Arm]) -> None:
    """Import what the arms need beforehand: loading a library is not part of the first fit's time."""
    for arm in arms:
        if arm.tasks:
            import sklearn.metrics  # noqa: F401
        for task in arm.tasks or ("",):
            if task in registry[arm.method].classes:
                registry[arm.method].load(task)
