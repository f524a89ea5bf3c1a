"""One run of a published results folder done again, by its key, and held against the published one.

Keys: ``experiment/dataset/task/method/variant/calibration/epsilon/trial``, empty parts left out, of a run of a sweep;
``study/part`` of a part of a study. Cards are handed in: this floor knows no paper.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from scipy.stats import t

from marginalia.card import Card
from marginalia.errors import InputError
from marginalia.reporting.panels import rows_where
from marginalia.reporting.verification.planned import KEY, name_of, value_of
from marginalia.reporting.verification.rows_file import FILE, Rows, read
from marginalia.reporting.verification.verify import agree, configuration, folders
from marginalia.sweep.cells import Cell, CellStore
from marginalia.sweep.jobs import prepare_dataset
from marginalia.sweep.plan import Job
from marginalia.sweep.protocols import Prepared, tasks_of
from marginalia.sweep.resolve import Sweep, resolve
from marginalia.sweep.runner import Runner

TIMES = ("seconds", "peak_mb")
LEVEL = 0.01  # how often one number of a run that is alike falls outside its interval


@dataclass(frozen=True)
class Again:
    """One number of a run, published and done again.

    Attributes
    ----------
    name : str
    published, again : float
        Of a part of a study, the means of its column.
    low, high : float
        Where 99 % of such runs with other seeds fall, as far as the published trials can say (Student's t); NaN with a
        single trial.
    """

    name: str
    published: float
    again: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``same`` to six digits, ``same within the spread over seeds``, or ``different``."""
        both_missing = math.isnan(self.published) and math.isnan(self.again)
        if both_missing or agree(self.published, self.again):
            return "same"
        return "same within the spread over seeds" if self.low <= self.again <= self.high else "different"


def _again(name: str, published: float, again: float, trials: pd.Series, *, of_mean: bool = False) -> Again:
    """Hold a number against what trials of the same kind predict: for one more of them, or for their mean."""
    n = int(trials.count())
    scale = math.sqrt((2 / n) if of_mean else 1 + 1 / n) if n > 1 else math.nan
    half = float(t.isf(LEVEL / 2, n - 1)) * scale * float(trials.std()) if n > 1 else math.nan
    centre = float(trials.mean())
    return Again(name, published, again, centre - half, centre + half)


def rerun(root: Path, key: str, cards: Mapping[str, Card], *, seed: int | None = None) -> list[Again]:
    """Do one run again and return its numbers beside the published ones.

    Parameters
    ----------
    root : Path
        Results folder with ``rows.parquet`` and ``provenance.json``, or the folder above several.
    key : str
    cards : mapping of id to card
    seed : int, optional
        Another root seed than the published one: other splits and other noise.

    Raises
    ------
    InputError
        No run has this key.
    """
    known: list[str] = []
    for folder in folders(root):
        rows, config = read(folder / FILE), configuration(folder)
        if key in (here := keys(rows)):
            content = config.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            # Without asking for the data of all other runs: those of this one are fetched when it is prepared.
            sweep = resolve(content if seed is None else {**content, "seed": seed}, cards, probe=False)
            study, _, part = key.partition("/")
            return _part(rows, sweep, study, part) if study in sweep.studies else _cell(rows, sweep, key)
        known += here
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.3)
    raise InputError(f"no run has the key '{key}'; some that are like it: {'  '.join(near)}")


def keys(rows: Rows) -> list[str]:
    """Return the key of every run."""
    runs = rows.records[list(KEY)].drop_duplicates()
    parts = [f"{study}/{part}" for study, column in rows.parts.items() for part in column.unique()]
    return [*map(_key, runs.to_dict("records")), *parts]


def _key(run: Mapping[Any, Any]) -> str:
    return name_of(tuple(run[name] for name in KEY))


def _part(rows: Rows, sweep: Sweep, study: str, part: str) -> list[Again]:
    card, settings = sweep.studies[study]
    published = rows.studies[study].loc[rows.parts[study] == part]
    with TemporaryDirectory() as scratch:
        folders = {name: _prepared(sweep, name, Path(scratch)) for name in card.datasets}
        found = card.run(part, settings, sweep.config.seed, folders)
    numbers = [str(c) for c in found.select_dtypes("float") if c not in TIMES and c in published]
    return [_again(c, float(published[c].mean()), float(found[c].mean()), published[c], of_mean=True) for c in numbers]


def _cell(rows: Rows, sweep: Sweep, key: str) -> list[Again]:
    run = next(r for r in rows.records[list(KEY)].to_dict("records") if _key(r) == key)
    job, cell = _planned(sweep, run)
    with TemporaryDirectory() as scratch:
        data = Prepared.load(_prepared(sweep, cell.dataset, Path(scratch)))
        sources = {arm.method: arm for arm in job.sources}
        runner = Runner(data, job.registry, sources, CellStore(Path(scratch) / "cells"))
        found = {row.metric: row.value for row in runner.run(cell)}
    same_arm = rows_where(rows.records, **{name: run[name] for name in KEY[:-1]})
    trials = {name: rows.set_index("trial")["value"] for name, rows in same_arm.groupby("metric")}
    return [
        _again(name, float(trials[name][run["trial"]]), value, trials[name])
        for name, value in found.items()
        if name in trials
    ]


def _planned(sweep: Sweep, run: Mapping[Any, Any]) -> tuple[Job, Cell]:
    """Return the job and the cell of a run."""
    for job in sweep.plan.jobs.values():
        if (job.experiment.name, job.dataset) == (run["experiment"], run["dataset"]):
            for cell in job.cells(tasks_of(sweep.entries[job.dataset]), sweep.config.seed):
                if all(value_of(cell, name) == run[name] for name in KEY):
                    return job, cell
    raise InputError(f"the configuration of these results plans no run '{_key(run)}'")


def _prepared(sweep: Sweep, name: str, scratch: Path) -> Path:
    folder = scratch / name
    prepare_dataset(sweep.entries[name].model_dump(mode="json"), folder)
    return folder
