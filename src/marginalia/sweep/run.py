"""One job of a sweep: each of its fits in a process of its own, and the rows that say how it ended."""

from __future__ import annotations

import importlib
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.files import for_the_owner
from marginalia.data.table import RawTable, Rows, Table
from marginalia.errors import InputError
from marginalia.methods.fit import Budget, fit
from marginalia.methods.record import Arm, Method
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.peers import exchange
from marginalia.peers.record import is_peer, runs_here
from marginalia.privacy.certificate import Certificate
from marginalia.privacy.ledger import Ledger
from marginalia.progress import say_when_compiling
from marginalia.sweep import metrics
from marginalia.sweep.cells import Cell
from marginalia.sweep.isolate import frozen, in_child
from marginalia.sweep.log import say
from marginalia.sweep.plan import Job, metrics_of, states_intervals
from marginalia.sweep.protocols import Prepared, split_rows
from marginalia.sweep.records import (
    ResultRecord,
    certificate,
    declaration,
    is_claimed,
    run_certificate,
    write_records,
)
from marginalia.sweep.version import version_of_arm
from marginalia.usage import Cost, Values, keep_values, measured, new_values, uncounted

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
    certificate : mapping or None
        Content of the certificate of a private fit.
    tuned : TunedOnTest or None
        What a search on test rows chose, for the other trials.
    shared : mapping
        What other fits need not compute again (`marginalia.usage.new_values`).
    """

    status: str = "ok"
    message: str = ""
    cost: Cost = field(default_factory=Cost)
    values: dict[str, float] = field(default_factory=dict)
    spent: float = math.nan
    certificate: Mapping[str, Any] | None = None
    tuned: TunedOnTest | None = None
    shared: Values = field(default_factory=dict)


class TunedOnTest(Protocol):
    """Settings that the `search` of a method's record chose on test rows; picklable."""

    @property
    def epsilon_charged(self) -> float:
        """Epsilon of all runs of the search together."""

    @property
    def message(self) -> str:
        """How results are to be labelled."""

    def fit(self, cell: Cell, train: Table, seed: int | None) -> Any:
        """Return the model with these settings, with the budget of a single run."""


def run_job(
    settings: Mapping[str, Any], *, data: str | os.PathLike[str], seed: int, out: str | os.PathLike[str]
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
    out : path-like
        Parquet file of records, with the certificates of the private ones.

    Raises
    ------
    InputError
        The data are damaged, or the disk is full. A fit that fails is a row that says so.
    """
    job, prepared = Job.from_settings(settings), Prepared.load(data)
    wanted = job.cells(prepared.tasks, seed)
    # Trial by trial, whose rows are kept; what others post-process first.
    steps = with_sources(sorted(wanted, key=lambda cell: (cell.trial, cell.task is not None)), job.sources)
    say_when_compiling()
    warm_up(job, prepared.name)
    outcomes: dict[Cell, Outcome] = {}
    models_folder = tempfile.TemporaryDirectory(prefix="marginalia-job-")
    with for_the_owner(not prepared.is_catalogued), models_folder as models, frozen():
        runner = Runner(prepared, job.registry, job.sources, models=models)
        for number, cell in enumerate(steps, 1):
            outcomes[cell] = _hopeless(cell, outcomes) or runner.run(
                cell, timeout_seconds=job.experiment.timeout_seconds, memory_mb=job.experiment.memory_mb
            )
            _log(f"[{number}/{len(steps)}]", cell, outcomes[cell])
        rows = {cell: runner.rows(cell, outcomes[cell]) for cell in wanted}
        proofs = (run_certificate(rows[cell][0], content) for cell in wanted if (content := outcomes[cell].certificate))
        write_records(out, chain.from_iterable(rows.values()), proofs)


def with_sources(cells: Iterable[Cell], sources: Sequence[Arm]) -> list[Cell]:
    """Return the cells, each after the fit that it post-processes."""
    arms = {arm.method: arm for arm in sources}
    ordered = ((cell.of_source(arms[cell.arm.source]), cell) if cell.arm.source else (cell,) for cell in cells)
    return list(dict.fromkeys(step for steps in ordered for step in steps))


def _hopeless(cell: Cell, outcomes: Mapping[Cell, Outcome]) -> Outcome | None:
    """Return why a fit of another library is not begun, if so: at that epsilon or a smaller one it took too long.

    One that hangs costs its time once, and not once for each trial.
    """
    for earlier, ended in outcomes.items():
        same = is_peer(cell.arm.method) and (earlier.arm, earlier.task) == (cell.arm, cell.task)
        if same and ended.status == "timeout" and earlier.epsilon <= cell.epsilon:
            what = f"epsilon={earlier.epsilon:g} trial={earlier.trial} {ended.message}"
            return Outcome("timeout", ended.message if ended.message.startswith("not run") else f"not run: {what}")
    return None


def _log(place: str, cell: Cell, outcome: Outcome) -> None:
    note = f"{outcome.cost.seconds:.2f} s" if outcome.status == "ok" else f"{outcome.status}: {outcome.message}"
    name = " ".join(filter(None, (cell.arm.method, cell.arm.variant, cell.arm.calibration)))
    say(f"{place} {name} epsilon={cell.epsilon:g} trial={cell.trial}: {note}")


class Runner:
    """Run the cells of one prepared data set.

    Parameters
    ----------
    data : Prepared
    registry : mapping of method id to Method
    sources : sequence of Arm
        The synthesizer arms whose fits other cells post-process.
    models : path-like, optional
        Folder for the models that others post-process.
    """

    def __init__(
        self,
        data: Prepared,
        registry: Mapping[str, Method],
        sources: Sequence[Arm] = (),
        *,
        models: str | os.PathLike[str] = "",
    ) -> None:
        self.data = data
        self.registry = registry
        self.sources = {arm.method: arm for arm in sources}
        self.models = Path(models)
        self._catalogued = data.is_catalogued  # now: what it imports is no part of the first fit's time
        self._rows: tuple[Any, dict[Any, tuple[Rows, Rows]]] | None = None
        self._failed: dict[Cell, Outcome] = {}  # fits that others post-process
        self._tuned: dict[Cell, TunedOnTest] = {}

    def run(self, cell: Cell, *, timeout_seconds: float | None = None, memory_mb: int = 4000) -> Outcome:
        """Return how a cell ended, which runs in a process of its own."""
        if cell.arm.source and (behind := self._failed.get(self._source(cell))):
            return Outcome("failed", f"source {cell.arm.source}: {behind.status}: {behind.message}"[:LONGEST_MESSAGE])
        try:
            self._prepare(cell)
        except Exception as error:
            return Outcome("failed", first_line(error, f"{type(error).__name__}: "))
        ended = in_child(partial(self.outcome, cell), timeout_seconds=timeout_seconds, memory_mb=memory_mb)
        exchange.sweep()  # rows that another library was given
        outcome: Outcome = ended.value or Outcome(ended.status, ended.message, Cost(ended.seconds, ended.peak_mb))
        if outcome.tuned is not None:
            self._tuned[replace(cell, trial=SEARCH)] = outcome.tuned
        if _is_library(cell):  # nothing that a user's code computes reaches another fit
            keep_values(outcome.shared)
        if outcome.status != "ok":
            self._failed[cell] = outcome
        return outcome

    def outcome(self, cell: Cell) -> Outcome:
        """Run a cell in this process; a failure is an outcome, never an exception."""
        outcome = Outcome()
        try:
            with measured() as outcome.cost, warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)  # overflow or 0/0 in a fit is a failed fit
                self._measure(cell, outcome)
        except MemoryError as error:
            return Outcome("memory", first_line(error, "") or "out of memory", outcome.cost)
        except BaseException as error:  # nor may `sys.exit` end a job of many fits
            return Outcome("failed", first_line(error, f"{type(error).__name__}: "), outcome.cost)
        outcome.shared = new_values()
        return outcome

    def rows(self, cell: Cell, outcome: Outcome) -> list[ResultRecord]:
        """Return the rows of a cell, one for each metric."""
        names = tuple(outcome.values) if outcome.status == "ok" else metrics_of(cell.task, cell.arm)
        behind = [self.registry[name] for name in (cell.arm.method, cell.arm.source) if name in self.registry]
        message = outcome.message
        if cell.arm.is_private and outcome.status == "ok" and is_claimed(message):
            message = declaration(*behind) or message
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
                message=message,
                code_version=version_of_arm(cell.arm, self.registry),
            )
            for name in names
        ]

    def _prepare(self, cell: Cell) -> None:
        """Do what the fits of a trial share, and is no part of any of them."""
        if cell.task is not None:
            self._split(cell, cell.task.columns(self.data.names))
            return
        train, _ = self._split(cell)
        if isinstance(train, Table):
            metrics.count_pairs(train)

    def _measure(self, cell: Cell, outcome: Outcome) -> None:
        """Fit, and fill in the metrics of a cell and what its ledger certifies."""
        task = cell.task
        if task is None:
            train, _ = self._split(cell)
            model = self._fit(cell, train)
            if hasattr(model, "save") and cell.arm in self.sources.values():
                model.save(self._model_path(cell))
            outcome.values = self._errors(cell, model, train)
            self._certify(cell, model, outcome)
            return
        train, test = self._split(cell, task.columns(self.data.names))
        if isinstance(train, RawTable) and not cell.arm.is_private:
            domain = metrics.reference_domain(train)
            train, test = train.coded(domain), test.coded(domain)  # type: ignore[union-attr]
        if cell.arm.tuned_on_test:
            if not (isinstance(train, Table) and isinstance(test, Table)):
                raise InputError(
                    "this variant chooses its settings on test rows, and does so by a public domain only; give the "
                    "labels and edges that are left to be learned, or take another variant"
                )
            outcome.tuned = self._tune(cell, task, train, test)
            model = outcome.tuned.fit(cell, train, self._seed(cell))
            outcome.spent, outcome.message = outcome.tuned.epsilon_charged, outcome.tuned.message
        else:
            source = self._load_source(cell) if cell.arm.source else None
            model = self._fit(cell, train, task, source)
            outcome.spent = math.inf
            if cell.arm.is_private:
                self._certify(cell, model, outcome, source)
        if isinstance(test, RawTable):
            test = test.coded(model.encoder_.domain)  # what this run has learned
        outcome.values = metrics.scores(model, test, target=task.target, task=task.task, one_hot=task.one_hot)

    def _errors(self, cell: Cell, model: Any, train: Rows) -> dict[str, float]:
        """Return the metrics of a synthesizer."""
        with uncounted():
            made = metrics.drawn(model, train)
        if isinstance(train, RawTable):  # each fit has bins of its own: rows are compared, and not marginals
            error = metrics.table_error(made, train)
            score = metrics.k_marginal_score(error)
        else:
            error = metrics.marginal_error(model, train)
            with uncounted():
                score = metrics.k_marginal(made, train)
        stated: dict[str, float] = {}
        if states_intervals(cell.arm):
            with uncounted():
                coded = train.coded(model.domain_) if isinstance(train, RawTable) else train
                stated = metrics.interval_metrics(model, made, coded)
        return {"marginal_error": error, "k_marginal": score, **stated}

    def _fit(self, cell: Cell, train: Rows, task: Task | None = None, source: Any = None) -> Any:
        return fit(cell.arm, self.registry, self._budget(cell), train, task, source)

    def _budget(self, cell: Cell) -> Budget:
        """Return what the cell may spend, with the documented number of its training rows."""
        n_public = self.data.public_training_rows(cell.protocol, cell.test_fraction)
        return Budget(cell.epsilon, cell.delta, cell.relation, self._seed(cell), n_public)

    def _certify(self, cell: Cell, model: Any, outcome: Outcome, source: Any = None) -> None:
        """Fill in what the certificate of a fit comes to: epsilon, and why it is not one, if so.

        Of what post-processes a `source` it is the certificate of that release, and names it.
        """
        outcome.spent, outcome.message = certificate(model, cell.delta, epsilon=cell.epsilon)
        if type(getattr(model, "ledger_", None)) is Ledger and cell.arm.is_private:
            content = Certificate.of(model).content
            if source is not None:
                behind = Certificate.of(source).content
                named = {"marginals": {"method": behind["method"], "parameters": behind["parameters"]}}
                content = {**content, "parameters": {**content["parameters"], **named}}
            outcome.certificate = content

    def _seed(self, cell: Cell) -> int | None:
        """Return the seed of the cell's noise; None for a user's own data, which only the system's noise protects."""
        return cell.seed if self._catalogued else None

    def _split(self, cell: Cell, columns: tuple[str, ...] | None = None) -> tuple[Rows, Rows]:
        """Return training and test rows of the cell's trial; the tables of the trial at hand are kept."""
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
        if key not in self._tuned:
            chosen = importlib.import_module(self.registry[cell.arm.method].search)
            self._tuned[key] = chosen.search(key, task, train, test, self._seed(key))
        return self._tuned[key]

    def _source(self, cell: Cell) -> Cell:
        """Return the cell of the synthesizer that a cell post-processes."""
        return cell.of_source(self.sources[cell.arm.source])

    def _load_source(self, cell: Cell) -> Any:
        source = self._source(cell)
        cls: Any = self.registry[source.arm.method].load()
        return cls.load(self._model_path(source))

    def _model_path(self, cell: Cell) -> Path:
        return self.models / f"{cell.arm.method.replace('/', '_')}-{cell.epsilon!r}-{cell.trial}.npz"


def _is_library(cell: Cell) -> bool:
    """Return whether no code of a user's, and no other environment, runs in the fit of a cell."""
    methods = {cell.arm.method, cell.arm.source or cell.arm.method}
    return methods <= BUILT_IN.keys() or runs_here(cell.arm.method)


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


def warm_up(job: Job, dataset: str) -> None:
    """Run a job's methods that are not the user's on a few made-up rows: what loads once is no part of a fit's time.

    Each fit is a process that begins with what is loaded here.
    """
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 2), Column("b", 2, "numeric"), Column("y", 2, "numeric")])
    n = 4000  # more than any published batch: a fit that samples loads what accounts for it
    rows = Table(rng.integers(0, 2, (n, 3)), domain)  # of two values each, which every method takes
    made = Prepared(dataset, rows, (Task("linear", "y"), Task("logistic", "y")), n_public=n)
    cells = {(cell.arm, cell.task): cell for cell in job.cells(made.tasks, 0)}
    chosen = [  # no code of the user's runs in the process of the job
        cell for cell in cells.values() if not cell.arm.tuned_on_test and _is_library(cell)
    ]
    with tempfile.TemporaryDirectory(prefix="marginalia-job-") as models:
        runner = Runner(made, job.registry, job.sources, models=models)
        for cell in with_sources(chosen, job.sources):
            runner.outcome(cell)
    if any(cell.task is None or cell.arm.source for cell in chosen):
        from marginalia.marginals.plan import Plan  # here: the job of learners loads no engine

        Plan([(0, 1), (0, 2), (0, 3)], (2, 2, 2, 2))  # loads compiled code that tables of so few columns do not run
