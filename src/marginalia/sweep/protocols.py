"""What a method may see: prepared data sets, and how each protocol splits them."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.data.catalogue import catalogue
from marginalia.data.catalogue.entry import Entry
from marginalia.data.cell_files import read_cells, write_cells
from marginalia.data.checksums import read_description, write_description
from marginalia.data.domain import Domain, parse_unit, unit_as_dict
from marginalia.data.files import atomic_path
from marginalia.data.splits import number_of_test_rows, random_split
from marginalia.data.table import RawTable, Rows, Table
from marginalia.methods.task import Task
from marginalia.sweep.seeds import seed_sequence

DESCRIPTION = "dataset.json"  # of a prepared data set, with the checksums of its other files


def tasks_of(entry: Entry) -> tuple[Task, ...]:
    """Return what can be learnt on a data set."""

    def one_hot_of(drop: tuple[str, ...]) -> tuple[str, ...] | None:
        return None if entry.one_hot is None else tuple(n for n in entry.one_hot if n not in drop)

    return tuple(Task(task, spec.target, spec.drop, one_hot_of(spec.drop)) for task, spec in entry.tasks.items())


@dataclass(frozen=True)
class Prepared:
    """A data set as the jobs of a sweep read it: a folder with the library's own files.

    Attributes
    ----------
    name : str
    table : Table
        All rows, or the training part of a released split.
    tasks : tuple of Task
    test : Table or None
        The test part of a released split.
    train_limit : int or None
        Most training rows that are used.
    facts : dict
        For the report: description, citation, domain source, file hashes.
    n_public : int or None
        Publicly documented number of rows of `table`, or of their units; None: it is private.
    n_public_test : int or None
        The same of `test`.
    raw, raw_test : RawTable or None
        Of data with labels or edges that each run learns: all columns of `table` and `test`, which have the others.
    """

    name: str
    table: Table
    tasks: tuple[Task, ...]
    test: Table | None = None
    train_limit: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    n_public: int | None = None
    n_public_test: int | None = None
    raw: RawTable | None = None
    raw_test: RawTable | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of all columns."""
        return self.rows.names

    @property
    def rows(self) -> Rows:
        """All rows, as fits get them."""
        return self.table if self.raw is None else self.raw

    @property
    def is_catalogued(self) -> bool:
        """Whether it is one of the catalogue's data sets, whose rows are public, and not the user's own."""
        return self.name in catalogue.names()

    def split_kind(self, protocol: str) -> str:
        """Return ``released`` or ``random``."""
        return "released" if protocol == "as_published" and self.test is not None else "random"

    def public_training_rows(self, protocol: str, test_fraction: float) -> int | None:
        """Return how many rows or units a trial trains on as far as documents tell, never by counts; None: unknown."""
        n = self.n_public
        if n is not None and self.split_kind(protocol) == "random":
            if self.test is not None:
                if self.n_public_test is None:
                    return None
                n += self.n_public_test
            n -= number_of_test_rows(n, test_fraction)
        return n if n is None or self.train_limit is None else min(n, self.train_limit)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write table, domain, tasks and facts into `folder`; the description last, as the sign that all is there."""
        root = Path(folder)
        files = [root / "domain.json", root / "table.parquet"]
        self.table.domain.to_json(files[0])
        self.table.to_parquet(files[1], original=False)
        if self.test is not None:
            files.append(root / "test.parquet")
            self.test.to_parquet(files[-1], original=False)
        for name, of_rows in (("units", self.table.units), ("unit_keys", self.table.unit_keys)):
            if of_rows is not None:
                files.append(root / f"{name}.npy")
                with atomic_path(files[-1]) as temporary, temporary.open("wb") as file:
                    np.save(file, of_rows, allow_pickle=False)
        content = {
            "name": self.name,
            "has_test": self.test is not None,
            "train_limit": self.train_limit,
            "tasks": [asdict(t) for t in self.tasks],
            "facts": self.facts,
            "n_public": self.n_public,
            "n_public_test": self.n_public_test,
            **unit_as_dict(self.table.unit),
        }
        if self.raw is not None:
            content |= {"schema": self.raw.domain.to_dict(), "preprocessing_share": self.raw.share}
            for name, part in (("raw", self.raw), ("raw_test", self.raw_test)):
                if part is not None:
                    files.append(root / f"{name}.parquet")
                    write_cells(part.frame, files[-1])
        write_description(root / DESCRIPTION, content, files)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Prepared:
        """Read what `save` wrote; `DamagedError` where it is not that any more."""
        root = Path(folder)
        content = read_description(root / DESCRIPTION)
        domain = Domain.from_json(root / "domain.json")
        tasks = tuple(
            Task(t["task"], t["target"], tuple(t["drop"]), None if t["one_hot"] is None else tuple(t["one_hot"]))
            for t in content["tasks"]
        )
        test = Table.read(root / "test.parquet", domain=domain, original=False) if content["has_test"] else None
        table = Table.read(root / "table.parquet", domain=domain, original=False)
        unit = parse_unit(content)
        units, keys = (
            None if unit is None else np.load(root / f"{name}.npy", allow_pickle=False)
            for name in ("units", "unit_keys")
        )
        table = table.of_units(unit, units, keys)
        public = content["n_public"], content["n_public_test"]
        raw: list[RawTable | None] = [None, None]
        if "schema" in content:
            open_domain, share = Domain.from_dict(content["schema"]), content["preprocessing_share"]
            for i, name in enumerate(["raw", *(["raw_test"] if content["has_test"] else [])]):
                raw[i] = RawTable(read_cells(root / f"{name}.parquet"), open_domain, share, unit, units, keys)
        described = content["name"], table, tasks, test, content["train_limit"], content["facts"]
        return cls(*described, *public, raw=raw[0], raw_test=raw[1])


def split_rows(
    data: Prepared, protocol: str, experiment: str, trial: int, test_fraction: float, root_seed: int
) -> tuple[Any, Any]:
    """Return the (training, test) rows of one trial: tables, or raw ones where each run learns their domain.

    ``strict``: a new random split each trial, made before anything private is run; a released split is
    joined first, so that the test rows vary too. ``as_published``: the papers' released split where there
    is one (trials differ by noise alone), else one random split for all trials.

    Parameters
    ----------
    data : Prepared
    protocol : {"strict", "as_published"}
    experiment : str
    trial : int
    test_fraction : float
        Share of rows held out in a random split.
    root_seed : int
    """
    if data.split_kind(protocol) == "released":
        test = data.test if data.raw is None else data.raw_test
        assert test is not None
        return data.rows.take(slice(data.train_limit)), test
    rows: Any = data.rows
    if data.test is not None:
        rows = rows.append(data.test if data.raw is None else data.raw_test)
    which = trial if protocol == "strict" else 0
    seed = seed_sequence(root_seed, experiment, data.name, which)
    split = random_split(rows, test_fraction=test_fraction, seed=seed, train_limit=data.train_limit)
    return split.train, split.test
