"""Explain at once everything that keeps a file from being a table of a domain."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from marginalia.data.domain import Attribute, Domain
from marginalia.data.table import read_frame
from marginalia.errors import InputError

_MISSING = ("", "na", "nan", "null", "none")


def check(file: str | os.PathLike[str], domain: Domain | str | os.PathLike[str]) -> list[str]:
    """Return one line for every problem of `file` (CSV with a header line, or Parquet); none means that it loads.

    Problems are columns that are missing, unknown or stand twice; and per column how many rows hold no value, text, a
    fraction or a code outside the domain, with the first such row (rows count from 0, without the header).

    >>> check("no/such/file.csv", Domain.from_sizes({"age": 8}))
    ['cannot read no/such/file.csv: No such file or directory']
    """
    try:
        domain = domain if isinstance(domain, Domain) else Domain.from_yaml(domain)
        header, frame = _read(Path(file))
    except InputError as error:
        return [str(error)]
    problems = []
    for name in dict.fromkeys(header):
        if header.count(name) > 1:
            problems.append(f"column '{name}' stands {header.count(name)} times in the header; rename or remove copies")
        if name not in domain:
            problems.append(f"column '{name}' is not in the domain; declare it there or drop it from the file")
    problems += [f"column '{name}' of the domain is missing in the file" for name in domain.names if name not in header]
    if frame.empty:
        problems.append("the table has no rows")
    for position, name in enumerate(header):
        if name in domain:
            problems += _column_problems(frame.iloc[:, position], domain[name])
    return problems


def _read(path: Path) -> tuple[list[str], pd.DataFrame]:
    """Return the header as it stands (names may repeat) and the raw values below it."""
    if path.suffix == ".parquet":
        frame = read_frame(path, parquet=True)
        return [str(name) for name in frame.columns], frame
    frame = read_frame(path, header=None, dtype=str, keep_default_na=False, skipinitialspace=True)
    return frame.iloc[0].tolist(), frame.iloc[1:].reset_index(drop=True)


def _column_problems(values: pd.Series, attribute: Attribute) -> list[str]:
    text = values.map(str).str.strip()
    missing = (values.isna() | text.str.lower().isin(_MISSING)).to_numpy()
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    is_number = np.isfinite(numbers)
    whole = is_number & (numbers == np.floor(numbers))
    outside = whole & ((numbers < 0) | (numbers >= attribute.size))
    kinds = [
        (missing, "without a value", "give missing values a code of their own, or drop these rows"),
        (~missing & ~is_number, "not a number", "replace values by codes first"),
        (is_number & ~whole, "a fraction", "replace values by codes first"),
        (outside, f"outside the domain's codes 0..{attribute.size - 1}", "correct the file, or the domain"),
    ]
    return [
        f"column '{attribute.name}': {bad.sum()} of {len(values)} rows {what} "
        f"(first: {text.iloc[int(np.argmax(bad))]!r} in row {int(np.argmax(bad))}); {mend}"
        for bad, what, mend in kinds
        if bad.any()
    ]
