"""Explain at once everything that keeps a file from being a table of a domain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data import values
from marginalia.data.attribute import Attribute, PrivateBins
from marginalia.data.cells import cells_of
from marginalia.data.coding import Codes, Fault, check_not_ambiguous, codes_of
from marginalia.data.domain import Domain
from marginalia.data.folding import folds_of, known_labels
from marginalia.data.reading import read_raw
from marginalia.data.rules.raw_rows import line, obeyed
from marginalia.data.sources.bounded import sizes_of_units
from marginalia.data.sources.opening import Data
from marginalia.data.sources.stream import Stream
from marginalia.data.table import zero_faults
from marginalia.data.units import Unit, kept_line, unit_sizes
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


def check(
    file: str | os.PathLike[str], domain: Domain | str | os.PathLike[str], *, notes: list[str] | None = None
) -> list[str]:
    """Return one line for every problem of `file`; none means that it loads.

    `file` is what `Data.parse` takes. Of a table that is streamed all values are checked too, but of columns that are
    missing or unknown only the first is told, before any value; and columns that are to be learned are not taken.

    Of a domain file with facts that are to be learned the rest is checked: what stands in these columns is no problem.
    To `notes` is added what will be bought, which of its cells cannot be read and so count as missing, what of a folder
    is not read, what of the cells is folded (see `marginalia.data.folding`), and how many rows are left out of units.
    Problems are columns that are missing or unknown; per column and reason the number of rows whose value has no code,
    with the first such row (rows count from 0, without the header); and rows that are structural zeros. A row that
    breaks a rule is no problem; the share of rows that obey each rule and derived column is added to `notes`.

    >>> check("no/such/file.csv", Domain.from_sizes({"age": 8}))
    ['cannot read no/such/file.csv: No such file or directory']
    """
    notes = [] if notes is None else notes
    try:
        public = domain if isinstance(domain, Domain) else Domain.from_yaml(domain)
        notes += [f"to be learned with part of epsilon: {_open_line(column)}" for column in public.open_columns]
        domain, columns, may_fold = public.placeholder(), public.attributes, known_labels(public)
        data = Data.parse(file)
        if data.skipped:
            notes.append(data.skipped)
        if data.is_streamed:
            if domain.rules:
                notes.append("rules and derived columns are not checked on rows that are streamed")
            return _of_source(data.stream(domain.project(domain.names)), domain.unit, notes)
        frame = read_raw(file)
    except InputError as error:
        return [str(error)]
    problems = []
    unit = [] if domain.unit is None else [domain.unit.column]
    for name in frame.columns:
        if name not in (*domain.names, *domain.ignored, *unit):
            problems.append(
                f"column '{name}' is not in the domain; declare it there, under attributes or ignored, or drop it from "
                "the file"
            )
    absent = [name for name in (*domain.names, *unit) if name not in frame.columns]
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
        if attribute.lenient:
            notes += _unread(frame[attribute.name], attribute, codes[:, j])
    if domain.unit is not None and domain.unit.column not in absent:
        try:
            notes.append(kept_line(domain.unit, unit_sizes(frame[domain.unit.column], domain.unit)))
        except InputError as error:
            problems.append(str(error))
    notes += folds_of(frame, may_fold.project([name for name in may_fold.names if name in frame.columns]))
    if len(frame):
        notes += [f"rule, off the private rows: {line(*found)}" for found in obeyed(frame, columns, domain.rules)]
    return problems + [fault.count_line(len(frame)) for fault in zero_faults(codes, whole)]


def _open_line(column: Attribute) -> str:
    private = column.private
    if not isinstance(private, PrivateBins):
        return f"the labels of '{column.name}'"
    ends = "bounds too" if private.bounds is None else "inside public bounds"
    return f"the edges of '{column.name}' ({private.rule}, at most {private.bins} bins, {ends})"


def _of_source(source: Stream, unit: Unit | None, notes: list[str]) -> list[str]:
    """Return the problems of rows that are streamed; those of one column and reason are one line."""
    found: dict[tuple[str, str, str], tuple[str, Fault, int]] = {}
    if source.only_counts:
        return _of_counts(source)
    try:
        for where, fault in source.faults():
            key = fault.column, fault.what, fault.mend
            place, first, many = found.get(key, (where, fault, 0))
            found[key] = place, first, many + fault.rows.size
        n = source.n_rows
        if unit is not None:
            notes.append(kept_line(unit, sizes_of_units(source, unit)))
        notes += source.folded()
    except InputError as error:
        return [str(error)]
    if not n:
        return ["the table has no rows"]
    return [
        f"column '{f.column}': {many} of {n} rows: {f.value} in row {f.rows[0]} of {where} {f.what}; {f.mend}"
        for where, f, many in found.values()
    ]


def _of_counts(rows: Stream) -> list[str]:
    """Return one problem of each column of a table that a database counts."""
    problems = [] if rows.n_rows else ["the table has no rows"]
    for name in rows.names:
        try:
            rows.counts([name])
        except InputError as error:
            problems.append(str(error))
    return list(dict.fromkeys(problems))


def _unread(raw: pd.Series[Any], attribute: Attribute, codes: Codes) -> Iterator[str]:
    """Yield which values of a column that is to be learned count as missing because they cannot be read."""
    column = cells_of(raw, attribute.name, lenient=True)
    if attribute.format is not None:  # it cannot write all times of the placeholder, and needs not
        attribute = replace(attribute, edges=(0.0, 9999.0))
    _, faults = codes_of(column, replace(attribute, lenient=False))
    for fault in faults:
        rows = fault.rows[codes[fault.rows] == attribute.missing_code]
        if rows.size:
            value = values.shown(column.listed[column.which[rows[0]]])
            yield replace(fault, mend="it counts as missing", value=value, rows=rows).count_line(codes.size)
