"""Run the cells of a sweep: each becomes result rows, from the store or by a fit."""

from __future__ import annotations

import importlib
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from marginalia.data.table import RawTable, Rows, Table
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, fit
from marginalia.methods.record import Arm, Method
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.peers.record import is_peer, sources
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.ledger import Ledger
from marginalia.sweep import metrics
from marginalia.sweep.cells import Cell, CellStore, StoreError
from marginalia.sweep.protocols import Prepared, split_rows
from marginalia.sweep.records import RUN, ResultRecord, RunCertificate, certificate, declaration, is_claimed
from marginalia.sweep.version import version_of
from marginalia.usage import Cost, measured, uncounted

SEARCH = -1  # stands for the trial number in the cell of a search on test rows: its seed is that of no trial
LONGEST_MESSAGE = 1000  # characters of what an error says that are kept


@dataclass
class Outcome:
    """How a fit ended.

    Attributes
    ----------
    status, message : str
        As in `ResultRecord`.
    cost : Cost
    values : dict of metric to float
        Empty unless the status is ``ok``.
    spent : float
        Epsilon by the ledger; NaN unless the status is ``ok``.
    """

    status: str = "ok"
    message: str = ""
    cost: Cost = field(default_factory=Cost)
    values: dict[str, float] = field(default_factory=dict)
    spent: float = math.nan


class TunedOnTest(Protocol):
    """Settings that the `search` of a method's record chose on test rows."""

    @property
    def epsilon_charged(self) -> float:
        """Epsilon of all runs of the search together."""

    @property
    def message(self) -> str:
        """How results are to be labelled."""

    def fit(self, cell: Cell, train: Table, seed: int | None) -> Any:
        """Return the model with these settings, with the budget of a single run."""


class SourceFailedError(Exception):
    """The synthesizer that a cell post-processes could not be fitted."""


def version_of_arm(arm: Arm, registry: Mapping[str, Method]) -> str:
    """Return the version of all code that the numbers of an arm depend on: its methods, the split and the metrics.

    Data sets count by the digest of their rows, and this module not at all: it only manages files.
    """
    roots = {
        "marginalia.sweep.cells:Cell",
        "marginalia.methods.fit",
        "marginalia.sweep.metrics",
        "marginalia.sweep.protocols:split_rows",
        "marginalia.sweep.protocols:Prepared",
    }
    for name in filter(None, (arm.method, arm.source, arm.learner)):
        roots |= {path.rpartition(":")[0] for path in registry[name].classes.values()}
        if is_peer(name):
            roots |= sources(name)
    if arm.tuned_on_test:
        roots.add(registry[arm.method].search)
    return version_of(*roots)


class Runner:
    """Run the cells of one prepared data set.

    Parameters
    ----------
    data : Prepared
    registry : mapping of method id to Method
    sources : mapping of synthesizer id to Arm
        The arm whose fit downstream cells post-process.
    store : CellStore
    """

    def __init__(
        self,
        data: Prepared,
        registry: Mapping[str, Method],
        sources: Mapping[str, Arm],
        store: CellStore,
    ) -> None:
        self.data = data
        self.registry = registry
        self.sources = sources
        self.store = store
        self._catalogued = data.is_catalogued  # now: what it imports is no part of the first fit's time
        self.store.private = not self._catalogued
        self._rows: tuple[Any, dict[Any, tuple[Rows, Rows]]] | None = None
        self._searches: dict[Cell, TunedOnTest] = {}
        self._settled: set[Cell] = set()
        self._process = os.getpid()

    def run(self, cell: Cell) -> list[ResultRecord]:
        """Return the rows of one cell; a failure becomes rows that say so, never an exception.

        What failed in an earlier run is tried again, what failed in this one is not.

        Raises
        ------
        StoreError
            The rows, or what belongs to them, cannot be stored.
        """
        known = self.store.rows(self._key(cell))
        if known is None or not (cell in self._settled or all(r.status == "ok" for r in known)):
            if known is None:
                self.store.remove(self._key(cell))  # what is damaged or half there must not pass for the new fit's
            known = self._run(cell)
            self._settle(cell, known)
        return self._declare(cell, known)

    def fail(self, cell: Cell, outcome: Outcome, *, final: bool = True) -> None:
        """Store how a cell ended that could not say so itself; it is run again if that is not `final`.

        A process that dies after the rows were stored takes nothing from them.
        """
        known = self.store.rows(self._key(cell))
        if not (known and all(r.status == "ok" for r in known)):
            self.store.put(self._key(cell), self._rows_of(cell, outcome))
        if final:
            self.settle(cell)

    def settle(self, cell: Cell) -> None:
        """Take the stored rows of a cell as they are, failed ones too."""
        self._settled.add(cell)

    def has_model(self, cell: Cell) -> bool:
        """Return whether the synthesizer of a cell has been fitted and stored."""
        return self.store.has_model(self._key(cell))

    def _settle(self, cell: Cell, rows: list[ResultRecord]) -> None:
        self.store.put(self._key(cell), rows)
        self._settled.add(cell)

    def certificates(self, cell: Cell, rows: Sequence[ResultRecord]) -> list[RunCertificate]:
        """Return the certificate of the run behind `rows`, as `run` gave them for `cell`; none where it has none."""
        if not cell.arm.is_private or any(r.status != "ok" for r in rows):
            return []
        content = self.store.certificate(self._key(cell))
        return [] if content is None else [RunCertificate(tuple(getattr(rows[0], name) for name in RUN), content)]

    def _key(self, cell: Cell) -> str:
        return cell.key(self._edition, version_of_arm(cell.arm, self.registry))

    @cached_property
    def _edition(self) -> str:
        """What names of stored cells say of the data: the hash of public rows, a seal of own ones."""
        if self._catalogued:
            return self.data.digest
        return self.store.sealed(self.data.digest)

    def _run(self, cell: Cell) -> list[ResultRecord]:
        outcome = Outcome()
        with _as_before(), measured() as cost:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)  # overflow or 0/0 in a fit is a failed fit
                    outcome.values, (outcome.spent, outcome.message) = self._values(cell)
            except (KeyboardInterrupt, StoreError):
                raise
            except MemoryError as error:
                outcome.status, outcome.message = "memory", first_line(error, "") or "out of memory"
            except BaseException as error:  # one broken cell must not stop a sweep of thousands, nor may `sys.exit`
                outcome.status, outcome.message = "failed", first_line(error, f"{type(error).__name__}: ")
        self._end_copy()
        outcome.cost = cost
        return self._rows_of(cell, outcome)

    def _rows_of(self, cell: Cell, outcome: Outcome) -> list[ResultRecord]:
        names = tuple(outcome.values) if outcome.status == "ok" else metrics_of(cell.task, cell.arm)
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
                epsilon_spent=outcome.spent,
                trial=cell.trial,
                split=self.data.split_kind(cell.protocol),
                metric=name,
                value=float(outcome.values.get(name, math.nan)),
                seconds=outcome.cost.seconds,
                peak_mb=outcome.cost.peak_mb,
                seed=self._seed(cell) or 0,
                status=outcome.status,
                message=outcome.message,
                code_version=version_of_arm(cell.arm, self.registry),
            )
            for name in names
        ]

    def _values(self, cell: Cell) -> tuple[dict[str, float], tuple[float, str]]:
        """Return the metrics of a cell, and its certificate."""
        task = cell.task
        if task is None:
            train, _ = self._split(cell)
            model = self._fit_synthesizer(cell, train)
            with uncounted():
                made = metrics.drawn(model, train)
            if isinstance(train, RawTable):  # each fit has bins of its own: rows are compared, and not marginals
                error = metrics.table_error(made, train)
                score = metrics.k_marginal_score(error)
            else:
                with uncounted():
                    metrics.count_pairs(train)
                error = metrics.marginal_error(model, train)
                with uncounted():
                    score = metrics.k_marginal(made, train)
            stated: dict[str, float] = {}
            if states_intervals(cell.arm):
                with uncounted():
                    coded = train.coded(model.domain_) if isinstance(train, RawTable) else train
                    stated = metrics.interval_metrics(model, made, coded)
            return {"marginal_error": error, "k_marginal": score, **stated}, self._certify(cell, model)
        train, test = self._split(cell, task.columns(self.data.names))
        if isinstance(train, RawTable) and not cell.arm.is_private:
            domain = metrics.reference_domain(train)
            train, test = train.coded(domain), test.coded(domain)  # type: ignore[union-attr]
        if cell.arm.tuned_on_test:
            if isinstance(train, RawTable):
                raise InputError(
                    "this variant chooses its settings on test rows, and does so by a public domain only; give the "
                    "labels and edges that are left to be learned, or take another variant"
                )
            if not (isinstance(train, Table) and isinstance(test, Table)):
                raise InputError("this variant chooses its settings on rows in memory, and these are streamed")
            tuned = self._tune(cell, task, train, test)
            model, proof = tuned.fit(cell, train, self._seed(cell)), (tuned.epsilon_charged, tuned.message)
        else:
            source = self._source(cell) if cell.arm.source else None
            model = self._fit(cell, train, task, source)
            proof = self._certify(cell, model, source) if cell.arm.is_private else (math.inf, "")
        if isinstance(test, RawTable):
            test = test.coded(model.encoder_.domain)  # what this run has learned
        return metrics.scores(model, test, target=task.target, task=task.task, one_hot=task.one_hot), proof

    def _fit(self, cell: Cell, train: Rows, task: Task | None = None, source: Any = None) -> Any:
        model = fit(cell.arm, self.registry, self._budget(cell), train, task, source)
        self._end_copy()
        return model

    def _end_copy(self) -> None:
        """End this process if the fit forked, and this is the copy: one of the two goes on."""
        if os.getpid() != self._process:
            os._exit(0)

    def _certify(self, cell: Cell, model: Any, source: Any = None) -> tuple[float, str]:
        """Store the certificate of a fit and return what it comes to: epsilon, and why it is not one, if so.

        Of what post-processes a `source` it is the certificate of that release, and names it.
        """
        spent, message = certificate(model, cell.delta, epsilon=cell.epsilon)
        if type(getattr(model, "ledger_", None)) is Ledger:
            proof = Certificate.of(model)
            if source is not None:
                behind = Certificate.of(source).content
                named = {"marginals": {"method": behind["method"], "parameters": behind["parameters"]}}
                proof = Certificate({**proof.content, "parameters": {**proof.content["parameters"], **named}})
            with self.store.writing():
                proof.write(self.store.certificate_path(self._key(cell)))
        return spent, message

    def _declare(self, cell: Cell, rows: list[ResultRecord]) -> list[ResultRecord]:
        """Return rows as they read today: of an own method that an audit has not passed, as its author's word.

        What is stored does not say: an audit changes no number, so nothing is run again for it.
        """
        behind = [self.registry[name] for name in (cell.arm.method, cell.arm.source) if name in self.registry]
        word = declaration(*behind) if cell.arm.is_private else ""
        if not word:
            return rows
        return [replace(r, message=word) if r.status == "ok" and is_claimed(r.message) else r for r in rows]

    def _budget(self, cell: Cell) -> Budget:
        """Return what the cell may spend, with the documented number of its training rows."""
        n_public = self.data.public_training_rows(cell.protocol, cell.test_fraction)
        return Budget(cell.epsilon, cell.delta, cell.relation, self._seed(cell), n_public)

    def _seed(self, cell: Cell) -> int | None:
        """Return the seed of the cell's noise; None for a user's own data, which only the system's noise protects."""
        return cell.seed if self._catalogued else None

    def _split(self, cell: Cell, columns: tuple[str, ...] | None = None) -> tuple[Rows, Rows]:
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

    def _tune(self, cell: Cell, task: Task, train: Table, test: Table) -> TunedOnTest:
        """Return the search that all trials of a cell share: one for each task and epsilon, as published."""
        key = replace(cell, trial=SEARCH)
        if key not in self._searches:
            chosen = importlib.import_module(self.registry[cell.arm.method].search)
            self._searches[key] = chosen.search(key, task, train, test, self._seed(key))
        return self._searches[key]

    def _fit_synthesizer(self, cell: Cell, train: Rows) -> Any:
        model = self._fit(cell, train)
        if hasattr(model, "save"):
            with self.store.writing():
                model.save(self.store.model_path(self._key(cell)))
        return model

    def _source(self, cell: Cell) -> Any:
        """Return the fitted synthesizer a downstream cell needs: from the store, or fitted now."""
        source = cell.of_source(self.sources[cell.arm.source])
        if not self.has_model(source):  # a job fits its sources beforehand: here only where a single cell is run
            failed = [r for r in self.run(source) if r.status != "ok"]
            if failed:
                raise SourceFailedError(f"source {source.arm.method}: {failed[0].status}: {failed[0].message}")
        cls: Any = self.registry[source.arm.method].load()
        return cls.load(self.store.model_path(self._key(source)))


def metrics_of(task: Task | None, arm: Arm) -> tuple[str, ...]:
    """Return what is measured of an arm on a task, or of a synthesizer (None)."""
    kind = "" if task is None else task.task
    scores_only = is_peer(arm.method) and not arm.source  # a peer's learner tells no probability
    found = (metric for metric in metrics.METRICS.values() if kind in metric.tasks)
    return tuple(
        metric.id
        for metric in found
        if not (scores_only and metric.of == "probability") and (states_intervals(arm) or not metric.of_intervals)
    )


def states_intervals(arm: Arm) -> bool:
    """Return whether the releases of an arm keep what intervals need; of a user's own methods that is not known."""
    return arm.method in BUILT_IN and BUILT_IN[arm.method].intervals != "none"


def first_line(error: BaseException, before: str) -> str:
    """Return the first line of what an error says, which may be anything, as text that a file can hold."""
    try:
        text = str(error)
    except BaseException as another:  # its own code runs here
        text = f"(its text raises {type(another).__name__})"
    line = next(iter(f"{before}{text}"[: 2 * LONGEST_MESSAGE].splitlines()), "")
    line = line[:LONGEST_MESSAGE].encode("utf-8", "backslashreplace").decode()
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)  # no escape sequence reaches a terminal
    return line[:LONGEST_MESSAGE]


@contextmanager
def _as_before() -> Iterator[None]:
    """Undo what a fit did to its process and the next one would meet."""
    folder, environment, streams = os.getcwd(), dict(os.environ), (sys.stdout, sys.stderr)
    try:
        with np.errstate():
            yield
    finally:
        os.chdir(folder)
        if os.environ != environment:
            os.environ.clear()
            os.environ.update(environment)
        sys.stdout, sys.stderr = streams
