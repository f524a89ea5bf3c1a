"""From raw values to codes by public bins and labels: nothing here looks at the data to decide where a bin ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from marginalia.data.domain import Domain
from marginalia.data.schema import Column, Entry
from marginalia.data.table import Table
from marginalia.errors import InputError

Files = Mapping[str, Path]  # role in the entry -> checked local file


def bin_codes(
    values: ArrayLike, edges: Sequence[float], *, open_ended: bool = False, name: str = "values"
) -> NDArray[np.int64]:
    """Return the left-closed bin of each value, from 0 to ``len(edges) - 2``.

    Values beyond the outer edges are refused, with their row, or fall into the outer bins where these are `open_ended`.

    >>> bin_codes([18, 30, 64], [0, 30, 65])
    array([0, 1, 1])
    """
    values = np.asarray(values, dtype=np.float64)
    codes = np.searchsorted(edges, values, side="right") - 1
    last = len(edges) - 2
    outside = np.flatnonzero((codes < 0) | (codes > last) | np.isnan(values))
    if outside.size and (not open_ended or np.isnan(values[outside]).any()):
        row = int(outside[0])
        raise InputError(
            f"column '{name}', row {row}: {values[row]:g} is outside the public bins from {edges[0]:g} to {edges[-1]:g}"
        )
    return np.clip(codes, 0, last).astype(np.int64)


def label_codes(values: ArrayLike, labels: Sequence[str], *, name: str = "values") -> NDArray[np.int64]:
    """Return the position of each value in `labels`, compared as text (1.0 is "1"); any other value is refused.

    >>> label_codes(["no", "yes", "no"], ["yes", "no"])
    array([1, 0, 1])
    """
    values = np.asarray(values, dtype=object)
    which, distinct = pd.factorize(values, use_na_sentinel=False)
    position = {label: code for code, label in enumerate(labels)}
    codes = np.array([position.get(_text(value), -1) for value in distinct], dtype=np.int64)[which]
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        row = int(unknown[0])
        raise InputError(
            f"column '{name}', row {row}: {values[row]!r} is not among the public values "
            f"{', '.join(labels[:8])}{', ...' if len(labels) > 8 else ''}"
        )
    return codes


def column_codes(raw: pd.Series[Any], column: Column) -> NDArray[np.int64]:
    """Return the codes of one raw column.

    Missing values (NaN or empty) count as ``column.missing`` where the entry documents one, else they are refused.

    >>> column_codes(pd.Series([0, 3, None]), Column(name="children", top=2, missing=0))
    array([0, 2, 0])
    """
    empty = (raw.isna() | (raw.astype(str).str.strip() == "")).to_numpy()
    if empty.any():
        if column.missing is None:
            raise InputError(
                f"column '{column.name}', row {int(np.argmax(empty))}: value missing, and no rule for missing values"
            )
        raw = raw.astype(object).mask(empty, column.missing)
    edges = column.bin_edges
    if column.among is not None:
        which, distinct = pd.factorize(raw.to_numpy())
        return np.array([_text(value) in column.among for value in distinct], dtype=np.int64)[which]
    if column.labels is not None and edges is None:
        return label_codes(raw.to_numpy(), column.values or column.labels, name=column.name)
    numbers = pd.to_numeric(raw, errors="coerce").to_numpy(dtype=np.float64)
    if np.isnan(numbers).any():
        row = int(np.argmax(np.isnan(numbers)))
        raise InputError(f"column '{column.name}', row {row}: {raw.iloc[row]!r} is not a number")
    if column.threshold is not None:
        return (numbers >= column.threshold).astype(np.int64)
    if edges is not None:
        return bin_codes(numbers, edges, open_ended=column.open_ended, name=column.name)
    if column.top is not None:
        return bin_codes(np.minimum(numbers, column.top), range(column.top + 2), name=column.name)
    return numbers.astype(np.int64)


def discretize(frame: pd.DataFrame, entry: Entry) -> Table:
    """Code the raw columns that `entry.attributes` lists, in that order, by their public descriptions.

    >>> from marginalia.data.catalog import entry
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

    >>> from marginalia.data.catalog import entry
    >>> from marginalia.data.sources.bundled import read
    >>> loader(read)(entry("diabetes"), {}).n_rows
    442
    """
    return lambda entry, files: discretize(read(entry, files), entry)


def _text(value: Any) -> str:
    """Return a raw value as text, whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()
