"""A configuration made ready to run: data sets resolved, jobs planned."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.entry import Entry, parse_entry
from marginalia.data.datasets import Resolution, load, resolve_auto, unreachable_reason
from marginalia.data.download import find_local
from marginalia.data.files import write_text
from marginalia.errors import InputError, unknown_name
from marginalia.experiment import Experiment, own_experiment
from marginalia.methods.task import Task
from marginalia.peers.record import problem_of
from marginalia.sweep.choices import NAME
from marginalia.sweep.config import Config, parse
from marginalia.sweep.metrics import HEADLINES, METRICS
from marginalia.sweep.plan import Job, Plan, plan
from marginalia.sweep.protocols import tasks_of
from marginalia.user_code import try_import

OTHER_TABLES = ("certificates", "failures", "timings")  # of a sweep, beside a table for each metric


class Chosen(NamedTuple):
    """An experiment that a configuration runs, with its settings, and the file of the user's that holds it."""

    experiment: Experiment
    settings: dict[str, Any]
    file: str = ""


@dataclass(frozen=True)
class Sweep:
    """What the workflow runs.

    Attributes
    ----------
    config : Config
    plan : Plan
    entries : dict of data-set id to Entry
        Every data set that some experiment uses.
    resolution : Resolution
        What ``datasets: auto`` became: names, what is missing and why, whether embedded tables stand in.
    experiments : dict of id to Chosen
        Those with runs of their own, and those on the records of the sweep.
    left_out : tuple of str
        One line for each method that was taken out of `config` because its packages are not installed.
    """

    config: Config
    plan: Plan
    entries: dict[str, Entry]
    resolution: Resolution
    experiments: dict[str, Chosen]
    left_out: tuple[str, ...] = ()

    @property
    def studies(self) -> dict[str, Chosen]:
        """The experiments with runs of their own."""
        return {name: one for name, one in self.experiments.items() if one.experiment.rows}

    @property
    def own(self) -> tuple[str, ...]:
        """The data sets whose rows are the user's own: what is made of them is for their owner alone."""
        return tuple(name for name in self.entries if name not in catalogue.names())

    def metrics(self, jobs: Iterable[Job] | None = None) -> set[str]:
        """Return what some jobs measure (default: all)."""
        jobs = self.plan.jobs.values() if jobs is None else jobs
        return {metric for job in jobs for metric in job.metrics(tasks_of(self.entries[job.dataset]))}

    def figures(self) -> dict[str, tuple[str, str]]:
        """Return every figure's name with its experiment and table.

        An experiment that wants figures has one for each headline metric that some of its jobs measure, and one of its
        certificates.
        """
        shown: dict[str, tuple[str, str]] = {}
        for block in (block for block in self.config.blocks() if block.figures):
            jobs = [job for job in self.plan.jobs.values() if job.experiment.name == block.name]
            measured = self.metrics(jobs)
            tables = [metric for metric in HEADLINES if metric in measured]
            if any(arm.is_private for job in jobs for arm in job.arms):
                tables.append("certificates")
            for table in tables:
                shown[self.config.figure_name(block.name, table)] = (block.name, table)
        return shown


def prepare(content: Mapping[str, Any], known: Mapping[str, Experiment], *, probe: bool = True) -> Sweep:
    """Validate a configuration, find its data sets, plan its jobs, and note what ``auto`` became.

    Parameters and errors are those of `resolve`.
    """
    ready = resolve(content, known, probe=probe)
    note = _note(ready.config)
    text = json.dumps(asdict(ready.resolution), indent=1) + "\n"
    automatic = any(block.datasets == "auto" for block in ready.config.blocks())
    if automatic and not (note.exists() and note.read_text() == text):
        write_text(note, text)
    return ready


def resolve(content: Mapping[str, Any], known: Mapping[str, Experiment], *, probe: bool = True) -> Sweep:
    """Validate a configuration, find its data sets, and plan its jobs; nothing is written.

    Parameters
    ----------
    content : mapping
        The parsed configuration.
    known : mapping of id to Experiment
        Those of the papers, which a lower layer does not import.
    probe : bool
        Look (cache, mirror, then the network) for the data sets of ``auto``; False reads what an earlier
        call with True found, so that the many processes of a cluster run agree and do not ask again.

    Raises
    ------
    InputError
        One line: the configuration is wrong, or a data set asked for by name cannot be had.
    """
    config, left_out = installed(content)
    blocks = config.blocks()
    automatic = any(block.datasets == "auto" for block in blocks)
    resolution = _resolution(_note(config), probe=probe) if automatic else Resolution(())
    entries: dict[str, Entry] = {}
    chosen: dict[str, dict[str, tuple[Task, ...]]] = {}
    checked: set[str] = set()
    for block in blocks:
        wanted = resolution.names if block.datasets == "auto" else block.datasets
        chosen[block.name] = {}
        for entry in map(_entry, wanted):
            if entries.setdefault(entry.name, entry) != entry:
                raise InputError(f"data set '{entry.name}' is declared twice with different contents")
            if block.datasets != "auto" and probe and (reason := unreachable_reason(entry)):
                raise InputError(f"data set '{entry.name}': {reason}")
            if probe and entry.name not in checked and entry.name not in catalogue.names():
                check_entry(entry)
                checked.add(entry.name)
            chosen[block.name][entry.name] = tasks_of(entry)
    experiments = chosen_experiments(config, known)
    for study, *_ in experiments.values():
        for name in study.datasets:
            entry = entries.setdefault(name, catalogue.entry(name))
            if probe and (reason := unreachable_reason(entry)):
                raise InputError(f"study '{study.id}' needs data set '{name}': {reason}")
    return Sweep(config, plan(config, chosen), entries, resolution, experiments, left_out)


def installed(content: Mapping[str, Any]) -> tuple[Config, tuple[str, ...]]:
    """Return a configuration without the methods whose packages are missing here, and a line for each of them."""
    config = parse(content)
    problems = {choice.id: problem_of(choice.id) for block in config.blocks() for choice in block.methods}
    problems = {name: problem for name, problem in problems.items() if problem}
    if not problems:
        return config, ()

    def without(block: Mapping[str, Any] | None) -> dict[str, Any]:
        block = dict(block or {})
        if isinstance(block.get("methods"), list | tuple):
            ids = [(entry, entry["id"] if isinstance(entry, Mapping) else entry) for entry in block["methods"]]
            block["methods"] = [entry for entry, name in ids if name not in problems]
        return block

    experiments = {name: without(block) for name, block in (content.get("experiments") or {}).items()}
    return (
        parse({**without(content), "experiments": experiments}),
        tuple(f"method '{name}' is left out: {problem}" for name, problem in problems.items()),
    )


def _note(config: Config) -> Path:
    return Path(config.results_dir) / "data" / "auto.json"


def chosen_experiments(config: Config, known: Mapping[str, Experiment]) -> dict[str, Chosen]:
    """Return the experiments under ``comparisons`` and ``studies`` by id.

    Raises
    ------
    InputError
        There is no such experiment, it has no such setting, or a file of the user's holds none.
    """
    papers = list(dict.fromkeys(one.paper for one in known.values() if one.paper))
    for paper in config.comparisons:
        if paper not in papers:
            raise unknown_name("comparison", paper, papers)
    chosen = {
        name: Chosen(one, {}) for paper in config.comparisons for name, one in known.items() if one.paper == paper
    }
    with_runs = [name for name, one in known.items() if one.rows]
    for choice in config.studies:
        if choice.file:
            try_import(Path(choice.file))
            one = own_experiment(choice.file, {*known, *METRICS, *OTHER_TABLES})
        elif choice.id in with_runs:
            one = known[choice.id]
        else:
            raise unknown_name("study", str(choice.id), with_runs)
        if one.id in chosen:
            raise InputError(f"studies: '{one.id}' is chosen twice; take one out")
        if "sets" in choice.settings and "sets" not in one.defaults:
            raise InputError(f"study '{one.id}': the setting 'sets' is called 'datasets' in 3.0; rename it")
        if "feature_files" in choice.settings:
            raise InputError(
                f"study '{one.id}': feature_files was removed in 3.0; call removal_curve(Sample(X, y), C=..., "
                "max_share=...) of marginalia.papers.adaptive_margin.runs with your own features"
            )
        chosen[one.id] = Chosen(one, one.settings(choice.settings), choice.file or "")
    return chosen


def _resolution(note: Path, *, probe: bool) -> Resolution:
    """Look which default sets can be had, or read what an earlier look found."""
    if probe or not note.exists():
        return resolve_auto()
    before = json.loads(note.read_text())
    return Resolution(tuple(before["names"]), before["missing"], before["stand_ins"])


def own_entries(config: Config) -> dict[str, Entry]:
    """Return the data sets that a configuration itself describes, by name; their files need not be there.

    >>> from marginalia.sweep.config import parse
    >>> own = {"name": "mine", "files": {"table": "t.csv", "domain": "d.json"}, "tasks": {"linear": {"target": "y"}}}
    >>> list(own_entries(parse({"datasets": [own, "adult"]})))
    ['mine']
    """
    chosen = [item for block in config.blocks() if block.datasets != "auto" for item in block.datasets]
    return {entry.name: entry for entry in (_entry(item) for item in chosen if not isinstance(item, str))}


def _entry(item: str | Mapping[str, Any]) -> Entry:
    if isinstance(item, str):
        return catalogue.entry(item)
    if not isinstance(item.get("name"), str):
        raise InputError(f"datasets: an entry of your own needs a name, got keys {', '.join(map(str, item))}")
    if not re.fullmatch(NAME, item["name"]):
        raise InputError(f"data set '{item['name']}': a name has letters, digits and _ . @ - only, no folders")
    if item["name"] in catalogue.names():
        raise InputError(f"data set '{item['name']}': the name is taken by the catalogue; choose another")
    content = {k: v for k, v in item.items() if k != "name"}
    return parse_entry(item["name"], content, folder=Path.cwd())


def check_entry(entry: Entry) -> None:
    """Refuse an entry whose task cannot be learnt, or, of the user's own files, a table that is not of its domain.

    Own files are here, so they are read whole: every value is held against the domain.

    Raises
    ------
    InputError
        One line: the file, row and column, or the key of the entry.
    """
    for task, spec in entry.tasks.items():
        if spec.target in spec.drop:
            raise InputError(
                f"data set '{entry.name}': the {task} task drops its own target '{spec.target}'; take it out of 'drop'"
            )
    if all(find_local(file) is not None for file in entry.files.values()):  # a planned run downloads nothing
        load(entry)
