"""Prepare a data set for the jobs of a sweep."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from marginalia.data.catalogue.catalogue import describe
from marginalia.data.catalogue.entry import Entry
from marginalia.data.datasets import load
from marginalia.data.files import for_the_owner
from marginalia.data.table import RawTable, Rows, Table
from marginalia.sweep.protocols import Prepared, tasks_of


def prepare_dataset(content: Mapping[str, Any], out: str | os.PathLike[str]) -> None:
    """Get a data set's files, turn them into codes, and store them in a folder of the library's own format.

    Parameters
    ----------
    content : mapping
        The data set's entry, as `marginalia.data.catalogue.entry.Entry.model_dump` gives it.
    out : path-like
        Folder to write.
    """
    entry = Entry.model_validate(content)
    loaded = load(entry)
    facts = {k: v for k, v in describe(entry).items() if k not in ("name", "tasks", "attributes")}
    table, raw = _parts(loaded.table)
    test, raw_test = (None, None) if loaded.released_test is None else _parts(loaded.released_test)
    facts |= {"rows": table.n_rows, "domain_source": table.domain.source if raw is None else "released"}
    public = entry.rows or entry.n_public, entry.test_rows
    prepared = Prepared(entry.name, table, tasks_of(entry), test, entry.train_limit, facts, *public, raw, raw_test)
    with for_the_owner(not prepared.is_catalogued):
        prepared.save(out)


def _parts(rows: Rows) -> tuple[Table, RawTable | None]:
    """Return the columns with a public domain, and raw rows if there are others."""
    return (rows.known, rows) if isinstance(rows, RawTable) else (rows, None)
