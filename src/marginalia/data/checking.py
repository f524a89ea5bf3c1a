"""Explain at once everything that keeps a file from being a table of a domain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data import values
from marginalia.data.attribute import Attribute
from marginalia.data.coding import Codes, Fault, RawColumn, check_not_ambiguous, codes_of
from marginalia.data.domain import Domain, Schema
from marginalia.data.drafting import folded, time_and_zone
from marginalia.data.reading import read_raw
from marginalia.data.sources.arrow import ArrowSource
from marginalia.data.sources.opening import is_streamed, open_source, skipped_of
from marginalia.data.table import CountSource, zero_faults
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def check(
    file: str | os.PathLike[str], domain: Domain | str | os.PathLike[str], *, notes: list[str] | None = None
) -> list[str]:
    """Return one line for every problem of `file`; none means that it loads.

    `file` is what `open_source` takes. Of a table that is streamed all values are checked too, but of columns that are
    missing or unknown only the first is told, before any value; and columns that are to be bought are not taken.

    Of a domain file with facts that are to be bought the rest is checked: what stands in these columns is no problem.
    To `notes` is added what will be bought, which of its cells cannot be read and so count as missing, what of a folder
    is not read, and what of a file's cells their codes do not tell, with the share of the rows: for the owner's eyes.
    Problems are columns that are missing or unknown; per column and reason the number of rows whose value has no code,
    with the first such row (rows count from 0, without the header); and rows that are structural zeros.

    >>> check("no/such/file.csv", Domain.from_sizes({"age": 8}))
    ['cannot read no/such/file.csv: No such file or directory']
    """
    notes = [] if notes is None else notes
    try:
        if not isinstance(domain, Domain):
            schema = Schema.read(domain)
            domain = schema.stand_in()
            notes += [f"to be bought with part of epsilon: {purchase}" for purchase in schema.purchases]
        if skipped := skipped_of(file):
            notes.append(skipped)
        if is_streamed(file):
            return _of_source(open_source(file, domain))
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
    folds: dict[str, dict[str, float]] = {}
    for j, attribute in enumerate(whole):
        try:
            check_not_ambiguous(attribute, str(file))
            codes[:, j], faults = codes_of(frame[attribute.name], attribute)
        except InputError as error:
            problems.append(str(error))
            continue
        problems += [fault.count_line(len(frame)) for fault in faults]
        folds[attribute.name] = _folds(frame[attribute.name], attribute, codes[:, j])
        if attribute.lenient:
            notes += _unread(frame[attribute.name], attribute, codes[:, j])
    notes += folded(folds)
    return problems + [fault.count_line(len(frame)) for fault in zero_faults(codes, whole)]


def _folds(raw: pd.Series[Any], attribute: Attribute, codes: Codes) -> dict[str, float]:
    """Return what of the cells their codes do not tell, and the share of the rows in which it is so."""
    found = {}
    if attribute.other is not None and not attribute.lenient and (others := codes == attribute.other_code).any():
        found[f"values that are no label become `{attribute.other}`"] = float(others.mean())
    if attribute.type == "date":
        column = RawColumn.of(raw, attribute.name, lenient=attribute.lenient)
        weights = np.bincount(column.which[column.which >= 0], minlength=len(column.distinct))
        texts = [values.text(value) for value in column.distinct.tolist()]
        found |= time_and_zone(texts, weights) if weights.any() else {}
    return found


def _of_source(source: CountSource) -> list[str]:
    """Return the problems of rows that are streamed; those of one column and reason are one line."""
    assert isinstance(source, ArrowSource)
    found: dict[tuple[str, str, str], tuple[str, Fault, int]] = {}
    try:
        for where, fault in source.faults():
            key = fault.column, fault.what, fault.mend
            place, first, many = found.get(key, (where, fault, 0))
            found[key] = place, first, many + fault.rows.size
        n = source.n_rows
    except InputError as error:
        return [str(error)]
    if not n:
        return ["the table has no rows"]
    return [
        f"column '{f.column}': {many} of {n} rows: {f.value} in row {f.rows[0]} of {where} {f.what}; {f.mend}"
        for where, f, many in found.values()
    ]


def _unread(raw: pd.Series[Any], attribute: Attribute, codes: Codes) -> Iterator[str]:
    """Yield which values of a column that is to be bought count as missing because they cannot be read."""
    _, faults = codes_of(raw, replace(attribute, lenient=False))
    for fault in faults:
        rows = fault.rows[codes[fault.rows] == attribute.missing_code]
        if rows.size:
            value = values.shown(raw.iloc[int(rows[0])])
            yield replace(fault, mend="it counts as missing", value=value, rows=rows).count_line(codes.size)
