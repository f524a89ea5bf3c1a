"""From raw values to codes by public bins and labels: nothing here looks at the data to decide where a bin ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data.attribute import Derived
from marginalia.data.catalogue.entry import Entry
from marginalia.data.coding import codes_of
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError

Files = Mapping[str, Path]  # role in the entry -> checked local file


def column_codes(raw: pd.Series[Any], derived: Derived) -> NDArray[np.int64]:
    """Return the codes of one raw column.

    >>> from marginalia.data.domain import parse_derived
    >>> [children] = parse_derived([{"name": "children", "top": 2, "empty": 0}])
    >>> column_codes(pd.Series([0, 3, None]), children)
    array([0, 2, 0])
    """
    if derived.empty is not None:
        empty = raw.isna() | (raw.astype(str).str.strip() == "")
        raw = raw.astype(object).mask(empty, derived.empty)
    codes, faults = codes_of(raw, derived.reads)
    if faults:
        raise InputError(min(faults, key=lambda fault: int(fault.rows[0])).line())
    return (codes != derived.reads.other_code).astype(np.int64) if derived.merged else codes


def discretize(frame: pd.DataFrame, entry: Entry) -> Table:
    """Code the raw columns that `entry.attributes` lists, in that order, by their public descriptions.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> discretize(pd.DataFrame({"sex": ["Male"]}), entry("adult"))
    Traceback (most recent call last):
    marginalia.errors.InputError: adult: column 'age' is missing; the file has sex
    """
    missing = [d.column for d in entry.derived if d.column not in frame.columns]
    if missing:
        there = ", ".join(map(str, frame.columns))
        raise InputError(f"{entry.name}: column '{missing[0]}' is missing; the file has {there}")
    try:
        codes = np.stack([column_codes(frame[d.column], d) for d in entry.derived], axis=1)
    except InputError as error:
        raise InputError(f"{entry.name}: {error}") from None
    return Table(codes, Domain([d.attribute for d in entry.derived], source=entry.domain_source or "declared"))


def loader(read: Callable[[Entry, Files], pd.DataFrame]) -> Callable[[Entry, Files], Table]:
    """Make the `load` of a data source whose `read` returns raw rows: they are coded as the entry says.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> from marginalia.data.catalogue.readers.bundled import read
    >>> loader(read)(entry("diabetes"), {}).n_rows
    442
    """
    return lambda entry, files: discretize(read(entry, files), entry)
