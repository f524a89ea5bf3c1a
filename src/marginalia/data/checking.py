"""Explain at once everything that keeps a file from being a table of a domain."""

from __future__ import annotations

import os

import numpy as np

from marginalia.data.column import Column, PrivateBins
from marginalia.data.domain import Domain
from marginalia.data.encode import Batch, encode, known_labels, loss_lines, match_columns
from marginalia.data.files import read_content
from marginalia.data.keys import note_on_names, notes_on_keys
from marginalia.data.reading import read_raw
from marginalia.data.review import accepted_lines, overlooked_codes, overlooked_in_batches
from marginalia.data.rules.raw_rows import line, obeyed
from marginalia.data.sources.bounded import sizes_of_units
from marginalia.data.sources.opening import Data
from marginalia.data.sources.stream import Stream
from marginalia.data.units import kept_line, unit_sizes
from marginalia.errors import InputError


def check(
    file: str | os.PathLike[str], domain: Domain | str | os.PathLike[str], *, notes: list[str] | None = None
) -> list[str]:
    """Return one line for every problem of `file`; none means that it loads.

    `file` is what `Data.parse` takes. Of a table that is streamed all values are checked too, but of columns that are
    missing or unknown only the first is told, before any value; and columns that are to be learned are not taken.

    Of a domain file with facts that are to be learned the rest is checked: what stands in these columns is no problem.
    To `notes` is added what `reviewed: true` accepts and which codes of no value count as values (see
    `marginalia.data.review`; not of rows that a database counts), what each fit will learn, which of its cells cannot
    be read and so count as missing, what of a folder is not read, what cells lose (see `marginalia.data.encode`), how
    many rows are left out of units, and a key of persons that is not declared as the unit.
    Problems are columns that are missing or unknown; per column and reason the number of rows whose value has no code,
    with the first such row (rows count from 0, without the header); and rows that are structural zeros. A row that
    breaks a rule is no problem; the share of rows that obey each rule and derived column is added to `notes`.

    >>> check("no/such/file.csv", Domain.from_sizes({"age": 8}))
    ['cannot read no/such/file.csv: No such file or directory']
    """
    notes = [] if notes is None else notes
    try:
        content = None if isinstance(domain, Domain) else read_content(domain, "domain file")
        public = domain if isinstance(domain, Domain) else Domain.from_dict(content, where=str(domain))
        notes += [f"to be learned with part of epsilon: {_open_line(column)}" for column in public.open_columns]
        domain, columns, known = public.placeholder(), public.columns, known_labels(public).names
        data = Data.parse(file)
        if data.skipped:
            notes.append(data.skipped)
        if data.is_streamed:
            notes += accepted_lines(content, public, None)
            if domain.rules:
                notes.append("rules and derived columns are not checked on rows that are streamed")
            source = data.stream(domain.project(domain.names))
            if domain.unit is None:
                notes += note_on_names(source.columns)
            return _of_source(source, public, notes)
        frame = read_raw(file, public)
    except InputError as error:
        return [str(error)]
    absent, unknown = match_columns(list(frame.columns), domain)
    problems = [*unknown.values(), *(f"column '{name}' of the domain is missing in the file" for name in absent)]
    if frame.empty:
        problems.append("the table has no rows")
    there = domain.project([name for name in domain.names if name in frame.columns])
    [encoded] = encode([Batch(str(file), None, frame)], there, on_error="collect")
    problems += [one.count_line(len(frame)) for one in encoded.problems if one.severity == "error"]
    notes += [one.count_line(len(frame)) for one in encoded.problems if one.severity == "warning"]
    if domain.unit is not None and domain.unit.column not in absent:
        try:
            notes.append(kept_line(domain.unit, unit_sizes(frame[domain.unit.column], domain.unit)))
        except InputError as error:
            problems.append(str(error))
    notes += notes_on_keys(frame, public)
    notes += loss_lines((one for one in encoded.problems if one.column in known), len(frame))
    notes += accepted_lines(content, public, frame)
    notes += overlooked_codes(public, frame)
    if len(frame):
        notes += [f"rule, off the private rows: {line(*found)}" for found in obeyed(frame, columns, domain.rules)]
    return problems


def _open_line(column: Column) -> str:
    private = column.private
    if not isinstance(private, PrivateBins):
        return f"the labels of '{column.name}'"
    ends = "bounds too" if private.bounds is None else "inside public bounds"
    return f"the edges of '{column.name}' ({private.rule}, at most {private.bins} bins, {ends})"


def _of_source(source: Stream, domain: Domain, notes: list[str]) -> list[str]:
    """Return the problems of rows that are streamed; those of one column and reason are one line."""
    if source.only_counts:
        notes.append("codes of no value, such as 9999, are not looked for in rows that a database counts")
        return _of_counts(source)
    try:
        problems, n = source.problems(), source.n_rows
        if domain.unit is not None:
            notes.append(kept_line(domain.unit, sizes_of_units(source, domain.unit)))
        notes += overlooked_in_batches(domain, source.raw(lambda size: np.arange(size)))
    except InputError as error:
        return [str(error)]
    notes += loss_lines(problems, n)
    if not n:
        return ["the table has no rows"]
    return [one.count_line(n, where=one.where) for one in problems if one.severity == "error"]


def _of_counts(rows: Stream) -> list[str]:
    """Return one problem of each column of a table that a database counts."""
    problems = [] if rows.n_rows else ["the table has no rows"]
    for name in rows.names:
        try:
            rows.counts([name])
        except InputError as error:
            problems.append(str(error))
    return list(dict.fromkeys(problems))
