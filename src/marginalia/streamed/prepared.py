"""A streamed data set as the fits of a sweep read it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from marginalia.data.catalogue.entry import Entry
from marginalia.data.sources.arrow import ArrowSource
from marginalia.data.sources.counted import Counted, CountTables
from marginalia.data.sources.parts import Part
from marginalia.errors import InputError
from marginalia.methods.task import Task
from marginalia.streamed.rows import data_of, hash_split, opened
from marginalia.sweep.protocols import Prepared, tasks_of


@dataclass(frozen=True)
class CountedData:
    """A streamed data set as the jobs of a sweep read it: counts, and where the rows are.

    Attributes
    ----------
    entry : Entry
    tables : CountTables
    facts : dict
        For the report.
    """

    entry: Entry
    tables: CountTables
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the data set."""
        return self.entry.name

    @property
    def tasks(self) -> tuple[Task, ...]:
        """What can be learnt on it."""
        return tasks_of(self.entry)

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns."""
        return self.tables.domain.names

    @cached_property
    def digest(self) -> str:
        """Hash of the counts, the domain and the tasks: what cells of this data set depend on."""
        content = {
            "counts": hashlib.sha256(self.tables.flat.tobytes() + self.tables.rows.tobytes()).hexdigest(),
            "domain": self.tables.domain.to_dict(), "tasks": [asdict(t) for t in self.tasks],
            "n_public": self.entry.rows or self.entry.n_public, "by": data_of(self.entry).split_by,
        }  # fmt: skip
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

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

    def split(
        self, protocol: str, experiment: str, trial: int, test_fraction: float, root_seed: int
    ) -> tuple[Counted, Counted]:
        """Return the training and test rows of one trial; see `marginalia.sweep.protocols.split_rows`."""
        which = trial if protocol == "strict" else 0
        rule = hash_split(self.name, data_of(self.entry).split_by, which, test_fraction, root_seed)
        if rule not in self.tables.splits:
            raise InputError(f"data set '{self.name}' was counted for other trials or test shares; count it again")
        train, test = (
            self.tables.source(rule, test=side, rows=Part(self._rows, rule, test=side)) for side in (False, True)
        )
        return train, test

    @cached_property
    def _rows(self) -> ArrowSource:
        source = opened(self.entry)
        if self.tables.files not in ("", source.mark):
            raise InputError(f"data set '{self.name}': a file has changed since it was counted; count it again")
        return source

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> CountedData:
        """Read what `prepare_counts` wrote."""
        content = json.loads((Path(folder) / "dataset.json").read_text())
        tables = replace(CountTables.load(Path(folder) / "counts.npz"), files=content.get("files", ""))
        return cls(Entry.model_validate(content["streamed"]), tables, content["facts"])


def load_prepared(folder: str | os.PathLike[str]) -> Prepared | CountedData:
    """Read a data set as a job of the workflow has prepared it."""
    try:
        streamed = "streamed" in json.loads((Path(folder) / "dataset.json").read_text())
    except OSError as error:
        raise InputError(f"cannot read prepared data set {folder}: {error.strerror}") from None
    return CountedData.load(folder) if streamed else Prepared.load(folder)
