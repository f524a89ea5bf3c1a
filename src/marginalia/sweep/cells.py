"""One cell of a sweep: what is run, what it is stored under, and how it becomes result rows."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalia.data.files import write_text
from marginalia.data.table import Table
from marginalia.sweep import metrics
from marginalia.sweep.fits import scores
from marginalia.sweep.limits import measured, time_limit
from marginalia.sweep.methods import Arm, Method
from marginalia.sweep.protocols import Prepared, Task, split_rows
from marginalia.sweep.records import ResultRecord
from marginalia.sweep.seeds import seed_of
from marginalia.sweep.version import code_version

if TYPE_CHECKING:
    from marginalia.sweep.tuning_on_test import TunedOnTest


@dataclass(frozen=True, slots=True)
class Cell:
    """Everything that determines the rows of one fit.

    Attributes
    ----------
    experiment, protocol, dataset : str
    arm : Arm
    task : Task or None
        None for a synthesizer.
    relation : str
    epsilon, delta : float
        Infinity and 0 for methods without privacy.
    trial : int
    test_fraction : float
    root_seed : int
    """

    experiment: str
    protocol: str
    dataset: str
    arm: Arm
    task: Task | None
    relation: str
    epsilon: float
    delta: float
    trial: int
    test_fraction: float
    root_seed: int

    @property
    def seed(self) -> int:
        """Seed of the fit's noise; arms of a method share it, so that they are compared on the same noise."""
        return seed_of(self.root_seed, self.experiment, self.dataset, self.trial, self.arm.method, self.epsilon)

    def key(self, data_digest: str) -> str:
        """Return the name under which the result is stored: a hash of the cell, its data and the code."""
        content = {**asdict(self), "data": data_digest, "code": code_version()}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:24]

    def of_source(self, arm: Arm) -> Cell:
        """Return the cell of the synthesizer fit that this cell post-processes."""
        return replace(self, arm=arm, task=None)


class CellStore:
    """Finished cells on disk: rows as JSON, fitted synthesizers beside them.

    Snakemake removes a job's outputs before it reruns the job; what is kept here lets a killed or a
    widened job (one more epsilon) start where it stopped.

    Parameters
    ----------
    folder : path-like
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def rows(self, key: str) -> list[ResultRecord] | None:
        """Return the rows stored under `key`, or None."""
        path = self._path(key, "json")
        if not path.exists():
            return None
        return [ResultRecord(**row) for row in json.loads(path.read_text())]

    def put(self, key: str, rows: Iterable[ResultRecord]) -> None:
        """Store rows under `key`."""
        write_text(self._path(key, "json"), json.dumps([asdict(r) for r in rows]))

    def model_path(self, key: str) -> Path:
        """Return where the synthesizer fitted for `key` is stored."""
        return self._path(key, "npz")

    def _path(self, key: str, ending: str) -> Path:
        return self.folder / key[:2] / f"{key}.{ending}"


class SourceFailedError(Exception):
    """The synthesizer that a cell post-processes could not be fitted."""


class Runner:
    """Run the cells of one prepared data set.

    Parameters
    ----------
    data : Prepared
    registry : mapping of method id to Method
    sources : mapping of synthesizer id to Arm
        The arm whose fit downstream cells post-process.
    store : CellStore
    timeout_seconds : float or None
    """

    def __init__(
        self,
        data: Prepared,
        registry: Mapping[str, Method],
        sources: Mapping[str, Arm],
        store: CellStore,
        timeout_seconds: float | None = None,
    ) -> None:
        self.data = data
        self.registry = registry
        self.sources = sources
        self.store = store
        self.timeout_seconds = timeout_seconds
        self._rows: tuple[Any, dict[Any, tuple[Table, Table]]] | None = None
        self._searches: dict[Cell, TunedOnTest] = {}

    def run(self, cell: Cell) -> list[ResultRecord]:
        """Return the rows of one cell; a failure becomes rows that say so, never an exception."""
        key = cell.key(self.data.digest)
        known = self.store.rows(key)
        if known is not None and all(r.status == "ok" for r in known):
            return known
        rows = self._run(cell, key)
        self.store.put(key, rows)
        return rows

    def _run(self, cell: Cell, key: str) -> list[ResultRecord]:
        status, message, spent = "ok", "", math.nan
        values: dict[str, float] = {}
        with measured() as cost:
            try:
                with time_limit(self.timeout_seconds), warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)  # overflow or 0/0 in a fit is a failed fit
                    values, spent, message = self._values(cell, key)
            except TimeoutError as error:
                status, message = "timeout", str(error)
            except MemoryError as error:
                status, message = "memory", str(error) or "out of memory"
            except Exception as error:  # one broken cell must not stop a sweep of thousands
                status, message = "failed", f"{type(error).__name__}: {error}".splitlines()[0]
        names = tuple(values) if status == "ok" else metrics_of(cell.task)
        return [
            ResultRecord(
                experiment=cell.experiment,
                protocol=cell.protocol,
                dataset=cell.dataset,
                task=cell.task.task if cell.task else "",
                target=cell.task.target if cell.task else "",
                method=cell.arm.method,
                variant=cell.arm.variant,
                calibration=cell.arm.calibration,
                relation=cell.relation,
                epsilon=cell.epsilon,
                delta=cell.delta,
                epsilon_spent=spent,
                trial=cell.trial,
                split=self.data.split_kind(cell.protocol),
                metric=name,
                value=float(values.get(name, math.nan)),
                seconds=cost.seconds,
                peak_mb=cost.peak_mb,
                seed=cell.seed,
                status=status,
                message=message,
                code_version=code_version(),
            )
            for name in names
        ]

    def _values(self, cell: Cell, key: str) -> tuple[dict[str, float], float, str]:
        if cell.task is None:
            train, _ = self._split(cell)
            model = self._fit_synthesizer(cell, train, key)
            return {"marginal_error": metrics.marginal_error(model, train)}, *_certificate(model, cell)
        task = cell.task
        columns = tuple(n for n in self.data.table.domain.names if n not in task.drop)
        train, test = self._split(cell, columns)
        if cell.arm.source:
            source = self._source(cell)
            if cell.arm.learner:
                rows = source.set_params(random_state=cell.seed).sample().project(columns)
                public: Any = self.registry[cell.arm.learner].load(task.task)
                model = public(one_hot=task.one_hot).fit(rows, task.target)
            else:
                cls: Any = self.registry[cell.arm.method].load(task.task)
                model = cls(marginals=source, one_hot=task.one_hot).fit(train, task.target)
            certificate = _certificate(source, cell)
        elif cell.arm.tuned_on_test:
            tuned = self._tuned(cell, task, train, test)
            model = tuned.fit(cell, train)
            certificate = tuned.epsilon_charged, tuned.message
        else:
            model = self._build(cell).fit(train, task.target)
            certificate = _certificate(model, cell)
        return scores(model, test, target=task.target, task=task.task, one_hot=task.one_hot), *certificate

    def _split(self, cell: Cell, columns: tuple[str, ...] | None = None) -> tuple[Table, Table]:
        """Return training and test rows of the cell's trial.

        The tables of the trial at hand are kept: what learners compute from a table once, its encoding and
        Z'Z, lives as long as the table.
        """
        key = (cell.experiment, cell.protocol, cell.trial, cell.test_fraction, cell.root_seed)
        if self._rows is None or self._rows[0] != key:
            whole = split_rows(
                self.data, cell.protocol, cell.experiment, cell.trial, cell.test_fraction, cell.root_seed
            )
            self._rows = key, {None: whole}
        kept = self._rows[1]
        if columns not in kept:
            train, test = kept[None]
            assert columns is not None
            kept[columns] = train.project(columns), test.project(columns)
        return kept[columns]

    def _tuned(self, cell: Cell, task: Task, train: Table, test: Table) -> TunedOnTest:
        """Return the search that all trials of a cell share: one for each task and epsilon, as published."""
        from marginalia.sweep.tuning_on_test import SEARCH, search  # loads scikit-learn, which most jobs need not

        key = replace(cell, trial=SEARCH)
        if key not in self._searches:
            self._searches[key] = search(key, task, train, test)
        return self._searches[key]

    def _build(self, cell: Cell) -> Any:
        cls = self.registry[cell.arm.method].load(cell.task.task if cell.task else "")
        offered: dict[str, Any] = {"random_state": cell.seed}
        if cell.arm.is_private:
            offered |= {"epsilon": cell.epsilon, "delta": cell.delta, "relation": cell.relation}
            offered |= {"calibration": cell.arm.calibration, "variant": cell.arm.variant}
        if cell.task is not None:
            offered["one_hot"] = cell.task.one_hot
        taken = inspect.signature(cls).parameters
        own = dict(cell.arm.parameters)
        return cls(**{k: v for k, v in offered.items() if k in taken and not (k == "variant" and not v)}, **own)

    def _fit_synthesizer(self, cell: Cell, train: Table, key: str) -> Any:
        model = self._build(cell).fit(train)
        if hasattr(model, "save"):
            model.save(self.store.model_path(key))
        return model

    def _source(self, cell: Cell) -> Any:
        """Return the fitted synthesizer a downstream cell needs: from the store, or fitted now."""
        source = cell.of_source(self.sources[cell.arm.source])
        key = source.key(self.data.digest)
        path = self.store.model_path(key)
        if not path.exists():
            failed = [r for r in self.run(source) if r.status != "ok"]
            if failed:
                raise SourceFailedError(f"source {source.arm.method}: {failed[0].status}: {failed[0].message}")
        cls: Any = self.registry[source.arm.method].load()
        return cls.load(path)


def metrics_of(task: Task | None) -> tuple[str, ...]:
    """Return what is measured on a task, or of a synthesizer (None)."""
    if task is None:
        return ("marginal_error",)
    return ("mse",) if task.task == "linear" else ("auc", "accuracy", "risk")


def _certificate(model: Any, cell: Cell) -> tuple[float, str]:
    """Return (epsilon spent at the cell's delta, what the ledger has to say about it)."""
    if not cell.arm.is_private:
        return math.inf, ""
    ledger = model.ledger_
    return float(ledger.epsilon(cell.delta)), "" if ledger.certified else str(ledger.message)
