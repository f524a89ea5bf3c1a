"""Files with a domain file beside them: the papers' hold codes, the user's codes or raw values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from marginalia.data.attribute import Kind
from marginalia.data.domain import Domain
from marginalia.data.schema import Entry
from marginalia.data.table import Table
from marginalia.errors import unknown_name


def load(entry: Entry, files: dict[str, Path]) -> Table | tuple[Table, Table]:
    r"""Return the table, or (train, test) where the split is released; columns keep the file's order.

    >>> from tempfile import NamedTemporaryFile
    >>> from marginalia.data.schema import parse_entry
    >>> own = {"files": {"table": "."}, "attributes": [{"name": "y", "size": 2}], "tasks": {"linear": {"target": "y"}}}
    >>> with NamedTemporaryFile("w") as file:
    ...     print("y", 0, 1, sep="\n", file=file, flush=True)
    ...     load(parse_entry("own", own), {"table": Path(file.name)}).column("y")
    array([0, 1], dtype=int16)
    """
    domain = _domain(entry, files)
    if "table" in files:
        return Table.read(files["table"], domain=domain)
    train, test = Table.read(files["train"], domain=domain), Table.read(files["test"], domain=domain)
    return train, test.project(train.domain.names)


def _domain(entry: Entry, files: dict[str, Path]) -> Domain:
    """Return the domain from its file or from the entry's attributes, with the kinds that the entry names.

    Plain size files say nothing about kinds; the entry's word goes before the file's.
    """
    if "domain" not in files:
        return Domain([c.attribute() for c in entry.attributes], source=entry.domain_source or "declared")
    domain = Domain.from_yaml(files["domain"])
    kinds: dict[str, Kind] = {name: kind for kind, group in entry.kinds.items() for name in group}
    for name in kinds:
        if name not in domain:
            raise unknown_name(f"attribute under 'kinds' of data set '{entry.name}'", name, domain.names)
    attributes = [replace(a, kind=kinds.get(a.name, a.kind)) for a in domain]
    source = entry.domain_source or domain.source
    return Domain(attributes, source=source, structural_zeros=domain.structural_zeros, ignored=domain.ignored)
