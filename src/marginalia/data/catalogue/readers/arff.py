"""Raw ARFF files: Law school (18,692 rows) and Dutch census 2001 (60,420 rows)."""

from __future__ import annotations

import io

import pandas as pd

from marginalia.data.catalogue.discretize import Files, loader
from marginalia.data.catalogue.entry import Entry
from marginalia.errors import InputError


def read(entry: Entry, files: Files) -> pd.DataFrame:
    r"""Return the rows of an ARFF file with the attribute names of its header.

    Only names are taken from the header. Declared types and value lists are not enforced, because published files
    break them (the Law school file declares ``tier {0, 1}`` and holds 1 to 6); the catalogue's public domain is what
    values are checked against. Columns that are numbers throughout come as numbers.

    >>> from pathlib import Path
    >>> from tempfile import NamedTemporaryFile
    >>> from marginalia.data.catalogue.catalogue import entry
    >>> with NamedTemporaryFile("w") as file:
    ...     print("@attribute age numeric", "@data", 39, sep="\n", file=file, flush=True)
    ...     read(entry("law"), {"table": Path(file.name)})["age"].tolist()
    [39]
    """
    path = files["table"]
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if start is None:
        raise InputError(f"{path}: no @data line; not an ARFF file")
    header = [line.split(None, 2) for line in lines[:start]]
    names = [part[1].strip("'\"") for part in header if part and part[0].lower() == "@attribute"]
    rows = [line for line in lines[start + 1 :] if line.strip() and not line.startswith("%")]
    ragged = next((row for row in rows if row.count(",") != len(names) - 1), None)
    if ragged is not None:
        raise InputError(f"{path}: the header names {len(names)} attributes, but a row reads '{ragged[:60]}'")
    return pd.read_csv(io.StringIO("\n".join(rows)), header=None, names=names, na_filter=False, skipinitialspace=True)


load = loader(read)
