"""Explain at once everything that keeps a file from being a table of a domain."""

from __future__ import annotations

import os

import numpy as np

from marginalia.data.coding import check_not_ambiguous, codes_of, zero_faults
from marginalia.data.domain import Domain
from marginalia.data.reading import read_raw
from marginalia.errors import InputError


def check(file: str | os.PathLike[str], domain: Domain | str | os.PathLike[str]) -> list[str]:
    """Return one line for every problem of `file` (CSV with a header line, or Parquet); none means that it loads.

    Problems are columns that are missing or unknown; per column and reason the number of rows whose value has no code,
    with the first such row (rows count from 0, without the header); and rows that are structural zeros.

    >>> check("no/such/file.csv", Domain.from_sizes({"age": 8}))
    ['cannot read no/such/file.csv: No such file or directory']
    """
    try:
        domain = domain if isinstance(domain, Domain) else Domain.from_yaml(domain)
        frame = read_raw(file)
    except InputError as error:
        return [str(error)]
    problems = []
    for name in frame.columns:
        if name not in domain and name not in domain.ignored:
            problems.append(
                f"column '{name}' is not in the domain; declare it there, under attributes or ignored, or drop it from "
                "the file"
            )
    absent = [name for name in domain.names if name not in frame.columns]
    problems += [f"column '{name}' of the domain is missing in the file" for name in absent]
    if frame.empty:
        problems.append("the table has no rows")
    whole = domain.project([name for name in domain.names if name in frame.columns])
    codes = np.zeros((len(frame), len(whole)), dtype=np.int64)
    for j, attribute in enumerate(whole):
        try:
            check_not_ambiguous(attribute, str(file))
            codes[:, j], faults = codes_of(frame[attribute.name], attribute)
        except InputError as error:
            problems.append(str(error))
            continue
        problems += [fault.count_line(len(frame)) for fault in faults]
    return problems + [fault.count_line(len(frame)) for fault in zero_faults(codes, whole)]
