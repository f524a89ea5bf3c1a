"""Load a data set by its name, and find out which sets can be had on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from marginalia.data import catalog
from marginalia.data.download import answers, fetch, find_local
from marginalia.data.schema import Entry, TaskSpec
from marginalia.data.table import Table
from marginalia.errors import InputError, unknown_name


@dataclass(frozen=True, slots=True)
class Dataset:
    """A coded table with its tasks.

    Attributes
    ----------
    name : str
    table : Table
        All rows; where the split is released, the rows of the training file (all of them).
    tasks : dict of str to TaskSpec
        ``linear`` and / or ``logistic``, each with target and columns to drop.
    released_test : Table or None
        The test rows that the authors published.
    entry : Entry
    """

    name: str
    table: Table
    tasks: dict[str, TaskSpec]
    released_test: Table | None
    entry: Entry

    def all_rows(self) -> Table:
        """Return every row: training rows, then the released test rows. What random re-splits start from."""
        if self.released_test is None:
            return self.table
        return self.table.append(self.released_test)

    def task_columns(self, task: str) -> tuple[str, ...]:
        """Return the columns that `task` may use, target included, in the table's order."""
        if task not in self.tasks:
            raise unknown_name(f"task of data set '{self.name}'", task, self.tasks)
        return tuple(name for name in self.table.domain.names if name not in self.tasks[task].drop)


@dataclass(frozen=True, slots=True)
class Resolution:
    """What ``datasets: auto`` became on this machine."""

    names: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)  # data set -> why it cannot be had
    stand_ins: bool = False  # none could be had; the embedded sets take their place


def load(
    name: str | Entry,
    *,
    cache_dir: Path | None = None,
    mirror: Path | None = None,
    progress: bool = True,
) -> Dataset:
    """Return a data set; its files come from the cache, the mirror or their URLs.

    Parameters
    ----------
    name : str or Entry
        An id of the catalogue, or the user's own entry (`schema.parse_entry`).
    cache_dir, mirror, progress
        See `download.fetch`.

    Raises
    ------
    InputError
        Unknown name; a file that cannot be had (names the three places tried) or is corrupt; a table without its
        targets; another number of rows than documented.
    """
    entry = catalog.entry(name) if isinstance(name, str) else name
    files = {
        role: fetch(file, cache_dir=cache_dir, mirror=mirror, progress=progress) for role, file in entry.files.items()
    }
    loaded = import_module(f"marginalia.data.sources.{entry.source}").load(entry, files)
    table, test = loaded if isinstance(loaded, tuple) else (loaded, None)
    if entry.columns is not None:
        table, test = table.project(entry.columns), None if test is None else test.project(entry.columns)
    _check_table(entry, table)
    return Dataset(entry.name, table, {str(task): spec for task, spec in entry.tasks.items()}, test, entry)


def reader_modules(entry: Entry) -> tuple[str, ...]:
    """Return the modules, found by name, that turn the files of an entry into codes."""
    return (f"marginalia.data.sources.{entry.source}",)


def unreachable_reason(name: str | Entry, *, cache_dir: Path | None = None, mirror: Path | None = None) -> str | None:
    """Return None if every file of the data set can be had, else one line that says which cannot and why.

    Asks the web server about files that are not here, but downloads nothing. A corrupt copy in the mirror raises.
    """
    entry = catalog.entry(name) if isinstance(name, str) else name
    for file in entry.files.values():
        if find_local(file, cache_dir=cache_dir, mirror=mirror) is not None:
            continue
        reasons = [(edition.url, answers(edition.url)) for edition in file.editions if edition.url]
        if not reasons or all(reason is not None for _, reason in reasons):
            tried = "; ".join(f"{url}: {reason}" for url, reason in reasons) or "no public URL"
            return f"{file.path} is neither in the cache nor in a mirror, and not online ({tried})"
    return None


def reachable(name: str | Entry, *, cache_dir: Path | None = None, mirror: Path | None = None) -> bool:
    """Say whether every file of the data set can be had on this machine."""
    return unreachable_reason(name, cache_dir=cache_dir, mirror=mirror) is None


def resolve_auto(
    wanted: Iterable[str] = catalog.AUTO, *, cache_dir: Path | None = None, mirror: Path | None = None
) -> Resolution:
    """Choose the data sets of the default sweep: those of `wanted` that can be had, else the embedded stand-ins."""
    reasons = {name: unreachable_reason(name, cache_dir=cache_dir, mirror=mirror) for name in wanted}
    missing = {name: reason for name, reason in reasons.items() if reason is not None}
    found = tuple(name for name in reasons if name not in missing)
    if found:
        return Resolution(found, missing)
    return Resolution(catalog.STAND_INS, missing, stand_ins=True)


def _check_table(entry: Entry, table: Table) -> None:
    if table.n_rows == 0:
        raise InputError(f"data set '{entry.name}' has no rows")
    if entry.rows is not None and table.n_rows != entry.rows:
        raise InputError(f"data set '{entry.name}': {table.n_rows} rows, its entry says {entry.rows}")
    for task, spec in entry.tasks.items():
        for column in (spec.target, *spec.drop):
            if column not in table.domain:
                raise unknown_name(f"column in task '{task}' of data set '{entry.name}'", column, table.domain.names)
        size = table.domain[spec.target].size
        if task == "logistic" and size != 2:
            raise InputError(
                f"data set '{entry.name}': target '{spec.target}' of the logistic task has {size} codes, needs 2"
            )
    for column in entry.one_hot or ():
        if column not in table.domain:
            raise unknown_name(f"one-hot attribute of data set '{entry.name}'", column, table.domain.names)
