"""Read the raw cells of the tables that are compared, as numbers, seconds and texts, whatever the domain's bins are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.attribute import Attribute
from marginalia.data.coding import RawColumn
from marginalia.data.domain import Domain
from marginalia.data.reading import read_raw
from marginalia.data.sources.opening import stream
from marginalia.quality.cells import Values

MOST_ROWS = 200_000  # of each table that are compared
_TIMES = ("date", "timestamp")


def sampled(n: int, *, seed: int, most: int = MOST_ROWS) -> NDArray[np.int64]:
    """Return the numbers of the rows that are compared, ascending: all, or `most` of them drawn at random by `seed`.

    >>> sampled(3, seed=0), len(sampled(10, seed=0, most=4))
    (array([0, 1, 2]), 4)
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, n]).choice(n, most, replace=False, shuffle=False))


def kind_of(attribute: Attribute) -> str:
    """Return whether cells of a column are compared as numbers, as times or as texts.

    >>> kind_of(Attribute("age", 1, edges=(0, 9), type="integer")), kind_of(Attribute("ill", 2, type="boolean"))
    ('number', 'text')
    """
    if attribute.type in _TIMES:
        return "time"
    return "text" if attribute.type in ("string", "boolean") else "number"


def read_values(data: str | os.PathLike[str], domain: Domain, rows: NDArray[np.int64]) -> dict[str, Values]:
    """Return the raw columns of some rows of a source; `rows` are their numbers, ascending."""
    parts: dict[str, list[RawColumn]] = {name: [] for name in domain.names}
    for batch in _batches(data, domain, rows):
        for name, column in batch.items():
            parts[name].append(column)
    return {name: _values(parts.pop(name), domain[name]) for name in domain.names}


def _batches(
    data: str | os.PathLike[str], domain: Domain, rows: NDArray[np.int64]
) -> Iterator[Mapping[str, RawColumn]]:
    if str(data).endswith(".zip"):
        frame = read_raw(data).iloc[rows]
        yield {name: RawColumn.of(frame[name], name, lenient=True) for name in domain.names}
    else:
        yield from stream(data, domain).raw(rows)


def _values(batches: list[RawColumn], attribute: Attribute) -> Values:
    """Join the batches of a column; a cell without a value is the empty text."""
    kind, zone = kind_of(attribute), getattr(attribute, "zone", None) or "UTC"
    which, texts, numbers, n = [], [], [], 0
    for column in batches:
        distinct = np.append(np.asarray(column.distinct, dtype=object), "")
        texts.append(np.array([values.text(value) for value in distinct], dtype=object))
        if kind == "number":
            numbers.append(pd.to_numeric(pd.Series(texts[-1]), errors="coerce").to_numpy(float))
        elif kind == "time":
            numbers.append(_seconds(distinct, attribute.format, zone))
        else:
            numbers.append(np.full(len(distinct), np.nan))
        which.append(np.where(column.which < 0, len(distinct) - 1, column.which) + n)
        n += len(distinct)
    if not batches:
        return Values(np.empty(0), np.empty(0, np.int64), ())
    return Values.of_distinct(np.concatenate(which), np.concatenate(texts), np.concatenate(numbers))


def _seconds(distinct: NDArray[Any], format: str | None, zone: str) -> NDArray[np.float64]:
    """Return seconds since 1970 of dates and times, instants on the clocks of `zone`; NaN where a cell is none.

    >>> _seconds(np.array(["1970-01-02", "1970-01-01T01:00:00+01:00", "?"], dtype=object), None, "UTC")
    array([86400.,     0.,    nan])
    """
    cells = pd.Series(distinct, dtype=object)
    is_text = np.array([isinstance(cell, str) for cell in cells], dtype=bool)
    found = np.full(len(cells), np.nan)
    texts = cells[is_text].astype(str)
    offset = texts.str.contains(r"\d\d:\d\d.*(?:Z|[+-]\d\d(?::?\d\d)?)$", regex=True)
    naive = pd.to_datetime(texts.where(~offset), errors="coerce", format=format or "ISO8601")
    aware = pd.to_datetime(texts.where(offset), errors="coerce", format="ISO8601", utc=True)
    wall = naive.fillna(aware.dt.tz_convert(zone).dt.tz_localize(None))
    found[is_text] = ((wall - pd.Timestamp(0)) / pd.Timedelta(seconds=1)).to_numpy(float)
    for i in np.flatnonzero(np.isnan(found)):  # dates of other kinds, and dates written in other ways
        cell = cells.iloc[i]
        if isinstance(cell, datetime) and not pd.isna(cell):
            moment = pd.Timestamp(cell)
            moment = moment if moment.tzinfo is None else moment.tz_convert(zone).tz_localize(None)
            found[i] = (moment - pd.Timestamp(0)).total_seconds()
        else:
            try:
                found[i] = 86400.0 * values.day(cell, format)
            except ValueError:
                continue
    return found
