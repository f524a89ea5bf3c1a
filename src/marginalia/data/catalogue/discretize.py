"""From the columns that a reader prepares to a table of codes, by the public columns that the entry declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from marginalia.data.catalogue.entry import Entry
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.table import RawTable, Table

Files = Mapping[str, Path]  # role in the entry -> checked local file
Read = Callable[[Entry, Files], pd.DataFrame]
Prepare = Callable[[str, pd.DataFrame], pd.DataFrame]  # data-set id and raw columns -> the columns of the entry


def discretize(frame: pd.DataFrame, entry: Entry) -> Table | RawTable:
    """Return the table of codes of the columns that `entry` declares, in its order; raw rows where some are learned.

    The domain of the table keeps names, kinds, labels and edges. It does not say how the raw file writes a value: the
    rows of the table are codes.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> discretize(pd.DataFrame({"sex": ["Male"]}), entry("adult"))
    Traceback (most recent call last):
    marginalia.errors.InputError: adult: column 'age' of the domain is missing; the file has sex
    """
    assert entry.declared is not None  # of every entry whose source has a reader of its own
    raw = entry.declared
    if raw.is_open:
        return RawTable.of(frame.filter(items=raw.names), raw, share=entry.preprocessing_share, where=entry.name)
    table = Table.from_frame(frame.filter(items=raw.names), raw, where=entry.name)
    columns = [Column(a.name, a.size, a.kind, a.labels, a.edges) for a in raw]
    return Table(table.codes, Domain(columns, source=entry.domain_source or "declared"))


def loader(read: Read, prepare: Prepare = lambda _, raw: raw) -> Callable[[Entry, Files], Table | RawTable]:
    """Return the `load` of a data source: `read` returns the raw rows, `prepare` the columns of one data set.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> from marginalia.data.catalogue.readers.bundled import prepare, read
    >>> loader(read, prepare)(entry("diabetes"), {}).n_rows
    442
    """
    return lambda entry, files: discretize(prepare(entry.name, read(entry, files)), entry)


def top_coded(raw: pd.DataFrame, **last: int) -> pd.DataFrame:
    """Return `raw` with the counts of some columns top-coded: "4+" stands for all from 4 on.

    >>> top_coded(pd.DataFrame({"children": ["0", "3", "9"]}), children=4)["children"].tolist()
    ['0', '3', '4+']
    """
    counts = {name: raw[name].mask(raw[name].astype(float) >= most, f"{most}+") for name, most in last.items()}
    return raw.assign(**counts)
