"""From raw values to codes by public bins and labels: nothing here looks at the data to decide where a bin ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data.catalogue.entry import Column, Entry
from marginalia.data.coding import codes_of
from marginalia.data.domain import Domain
from marginalia.data.table import Table
from marginalia.errors import InputError

Files = Mapping[str, Path]  # role in the entry -> checked local file


def column_codes(raw: pd.Series[Any], column: Column) -> NDArray[np.int64]:
    """Return the codes of one raw column.

    Missing values (NaN or empty) count as ``column.missing`` where the entry documents one, else they are refused.

    >>> column_codes(pd.Series([0, 3, None]), Column(name="children", top=2, missing=0))
    array([0, 2, 0])
    """
    if column.missing is not None:
        empty = raw.isna() | (raw.astype(str).str.strip() == "")
        raw = raw.astype(object).mask(empty, column.missing)
    codes, faults = codes_of(raw, column.coder())
    if faults:
        raise InputError(min(faults, key=lambda fault: int(fault.rows[0])).line())
    return codes if column.among is None else (codes < len(column.among)).astype(np.int64)


def discretize(frame: pd.DataFrame, entry: Entry) -> Table:
    """Code the raw columns that `entry.attributes` lists, in that order, by their public descriptions.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> discretize(pd.DataFrame({"sex": ["Male"]}), entry("adult"))
    Traceback (most recent call last):
    marginalia.errors.InputError: adult: column 'age' is missing; the file has sex
    """
    missing = [c.raw_name for c in entry.attributes if c.raw_name not in frame.columns]
    if missing:
        there = ", ".join(map(str, frame.columns))
        raise InputError(f"{entry.name}: column '{missing[0]}' is missing; the file has {there}")
    try:
        codes = np.stack([column_codes(frame[c.raw_name], c) for c in entry.attributes], axis=1)
    except InputError as error:
        raise InputError(f"{entry.name}: {error}") from None
    return Table(codes, Domain([c.attribute() for c in entry.attributes], source=entry.domain_source or "declared"))


def loader(read: Callable[[Entry, Files], pd.DataFrame]) -> Callable[[Entry, Files], Table]:
    """Make the `load` of a data source whose `read` returns raw rows: they are coded as the entry says.

    >>> from marginalia.data.catalogue.catalogue import entry
    >>> from marginalia.data.catalogue.bundled import read
    >>> loader(read)(entry("diabetes"), {}).n_rows
    442
    """
    return lambda entry, files: discretize(read(entry, files), entry)
