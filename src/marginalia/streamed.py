"""Data sets that stay where they are: counted in shards, split by a hash while they stream, fitted by counts.

Where their rows are, into which shards they are cut, and what fits get of them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from marginalia.data.catalogue.entry import Entry, Streamed
from marginalia.data.catalogue.readers.coded import public_of
from marginalia.data.domain import Domain
from marginalia.data.download import fetch
from marginalia.data.sources.arrow import ArrowSource
from marginalia.data.sources.counted import Counted, CountTables
from marginalia.data.sources.opening import FAR, files_of, stream
from marginalia.data.sources.parquet import ParquetSource
from marginalia.data.sources.parts import HashSplit, Part
from marginalia.errors import InputError, unknown_name
from marginalia.methods.task import Task

MOST_SHARDS = 64  # unless a data set asks for more


def open_rows(entry: Entry) -> ArrowSource:
    """Open the rows of a streamed data set; of files only the columns are read.

    Raises
    ------
    InputError
        There are no rows, or not those of the domain; or the domain leaves labels or edges to be bought.
    """
    data = data_of(entry)
    domain = public_of(entry, {role: fetch(file) for role, file in entry.files.items()})
    if not isinstance(domain, Domain):
        raise InputError(
            f"data set '{entry.name}': its domain leaves labels or edges to be bought, which takes rows in memory; "
            "give them, or files: table"
        )
    if domain.unit is not None:
        raise InputError(
            f"data set '{entry.name}': a sweep over streamed rows protects single rows; give files: table, whose rows "
            f"are read into memory, for {domain.unit}, or leave the unit out"
        )
    source = stream(data.path, domain)
    if data.split_by == "row" and FAR in data.path:
        raise InputError(
            f"data set '{entry.name}': the rows of a database have no numbers; name a key column with `split_by`"
        )
    if data.split_by not in ("row", *source.columns):
        raise unknown_name(f"column in `split_by` of data set '{entry.name}'", data.split_by, ("row", *source.columns))
    if data.shards is not None and not isinstance(source, ParquetSource):
        raise InputError(f"data set '{entry.name}': only Parquet files are cut into shards; leave out `shards`")
    for what, columns in {
        **{f"column in task '{task}'": (spec.target, *spec.drop) for task, spec in entry.tasks.items()},
        "one-hot attribute": entry.one_hot or (),
    }.items():
        for column in columns:
            if column not in source.domain:
                raise unknown_name(f"{what} of data set '{entry.name}'", column, source.domain.names)
    return source


def files_behind(entry: Entry) -> list[str]:
    """Return the files of a streamed data set, none where it lies on a server."""
    return list(map(str, files_of(data_of(entry).path)))


def shards_of(entry: Entry) -> list[str]:
    """Return the names of the shards of a streamed data set, ``3-of-8``."""
    files = sum(file.endswith(".parquet") for file in files_behind(entry))
    n = data_of(entry).shards or max(1, min(files, MOST_SHARDS))
    return [f"{i + 1}-of-{n}" for i in range(n)]


def data_of(entry: Entry) -> Streamed:
    """Return what the entry of a streamed data set says of its rows."""
    assert entry.data is not None
    return entry.data


@dataclass(frozen=True)
class CountedData:
    """A streamed data set as the jobs of a sweep read it: counts, and where the rows are.

    Attributes
    ----------
    entry : Entry
    tables : CountTables
    tasks : tuple of Task
        What can be learnt on it.
    facts : dict
        For the report.
    """

    entry: Entry
    tables: CountTables
    tasks: tuple[Task, ...]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.entry.name

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns."""
        return self.tables.domain.names

    @cached_property
    def digest(self) -> str:
        """Hash of the counts, the domain and the tasks: what cells of this data set depend on."""
        content = {
            "counts": hashlib.sha256(self.tables.flat.tobytes() + self.tables.rows.tobytes()).hexdigest(),
            "domain": self.tables.domain.to_dict(),
            "tasks": [asdict(t) for t in self.tasks],
            "n_public": self.entry.rows or self.entry.n_public,
            "by": data_of(self.entry).split_by,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def book(self) -> str | None:
        """Path of the budget file of the table, in which each private fit is entered."""
        return self.entry.book

    @property
    def is_catalogued(self) -> bool:
        """Never: the rows are the user's own."""
        return False

    def split_kind(self, protocol: str) -> str:
        """Return ``random``: a hash is a random split that needs no list of rows."""
        return "random"

    def public_training_rows(self, protocol: str, test_fraction: float) -> int | None:
        """Return about how many rows a trial trains on as far as documents tell, never from the rows; None: private."""
        n = self.entry.rows or self.entry.n_public
        return None if n is None else round(n * (1 - test_fraction))

    def split(self, rule: HashSplit) -> tuple[Counted, Counted]:
        """Return the training and test rows of one of the splits that were counted."""
        if rule not in self.tables.splits:
            raise InputError(f"data set '{self.name}' was counted for other trials or test shares; count it again")
        train, test = (
            self.tables.source(rule, test=side, rows=Part(self._rows, rule, test=side)) for side in (False, True)
        )
        return train, test

    @cached_property
    def _rows(self) -> ArrowSource:
        source = open_rows(self.entry)
        if self.tables.files not in ("", source.mark):
            raise InputError(f"data set '{self.name}': a file has changed since it was counted; count it again")
        return source
