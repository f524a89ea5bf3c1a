"""Files with a domain file beside them: the papers' hold codes, the user's codes or raw values."""

from __future__ import annotations

from pathlib import Path

from marginalia.data.catalogue.entry import Entry
from marginalia.data.column import Kind
from marginalia.data.domain import Domain
from marginalia.data.reading import read_raw
from marginalia.data.table import RawTable, Rows, Table
from marginalia.errors import InputError, unknown_name


def load(entry: Entry, files: dict[str, Path]) -> Rows | tuple[Rows, Rows]:
    r"""Return the table, or (train, test) where the split is released; columns keep the file's order.

    >>> from tempfile import NamedTemporaryFile
    >>> from marginalia.data.catalogue.entry import parse_entry
    >>> own = {"files": {"table": "."}, "attributes": [{"name": "y", "size": 2}], "tasks": {"linear": {"target": "y"}}}
    >>> with NamedTemporaryFile("w") as file:
    ...     print("y", 0, 1, sep="\n", file=file, flush=True)
    ...     load(parse_entry("own", own), {"table": Path(file.name)}).column("y")
    array([0, 1], dtype=int16)
    """
    public = public_of(entry, files)

    def read(role: str) -> Rows:
        if entry.options.get("row_names"):  # a first column without a name, as R writes it
            import pandas as pd

            frame = pd.read_csv(files[role], index_col=0, dtype=str, keep_default_na=False)
        else:
            frame = read_raw(files[role], public)
        where = str(files[role])
        if public.is_open:
            return RawTable.of(frame, public, share=entry.preprocessing_share, where=where)
        return Table.from_frame(frame, public, where=where)

    if "table" in files:
        return read("table")
    if public.unit is not None:  # those of two files would be numbered apart, and a person in both would be two
        raise InputError(f"data set '{entry.name}': units of `{public.unit.column}` need files: table, not two files")
    train, test = read("train"), read("test")
    return train, test.project(train.names)


def public_of(entry: Entry, files: dict[str, Path]) -> Domain:
    """Return the domain from its file or from the entry, with the kinds and the unit that the entry names.

    Plain size files say nothing about kinds; the entry's word goes before the file's.

    >>> from marginalia.data.catalogue.entry import parse_entry
    >>> own = {"files": {"table": "."}, "attributes": [{"name": "y", "size": 2}], "tasks": {"linear": {"target": "y"}}}
    >>> public_of(parse_entry("own", own), {})
    Domain(y=2; declared)
    """
    domain = entry.declared or Domain.from_yaml(files["domain"])
    kinds: dict[str, Kind] = {name: kind for kind, group in entry.kinds.items() for name in group}
    for name in kinds:
        if name not in domain:
            raise unknown_name(f"column under 'kinds' of data set '{entry.name}'", name, domain.names)
    domain = domain.of_kinds(kinds).of_unit(entry.unit, entry.rows_per_unit, entry.unit_type)
    return domain if domain.is_open else domain.replace(source=entry.domain_source or domain.source)
