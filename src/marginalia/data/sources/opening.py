"""Open what a command line calls data: a file, a pattern of files, or a table of a database."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from marginalia.data.domain import Domain
from marginalia.data.folding import folds_of, known_labels
from marginalia.data.reading import check_is_no_url, read_raw
from marginalia.data.sources import csv, parquet
from marginalia.data.sources.bounded import bound_contributions
from marginalia.data.sources.folder import data_files
from marginalia.data.sources.sql import Location, SQLSource
from marginalia.data.sources.stream import Stream
from marginalia.data.table import CountSource, RawTable, Table
from marginalia.data.units import kept_line, unit_sizes
from marginalia.errors import InputError

# Above these a single file is streamed: in memory it would take about 1 GB while it is read.
LARGEST_TEXT = 2**28  # bytes
LARGEST_PARQUET = 2**27  # cells
FAR = "://"
_TABLES = (*parquet.SUFFIXES, *csv.SUFFIXES)


def open_rows(
    data: str | os.PathLike[str],
    domain: Domain,
    *,
    share: float | None = None,
    where: str = "domain",
    notes: list[str] | None = None,
) -> CountSource | RawTable:
    r"""Return the rows of `open_source`; of an open domain those of one file in memory.

    Parameters
    ----------
    data : str or path
    domain : Domain
    share : float, optional
        Of the budget, for what is bought; see `RawTable`.
    where : str
        The domain file, for error messages.
    notes : list of str, optional
        What is folded is added, see `marginalia.data.folding`, and how many rows are left out of their units; of rows
        in memory only: others would need a pass.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("ward\nA\nB\n")
    ...     domain = Domain.from_dict({"attributes": [{"name": "ward", "type": "string", "labels": "private"}]})
    ...     open_rows(f"{folder}/t.csv", domain)
    RawTable(2 rows, 1 of 1 columns to be bought)
    """
    if not is_streamed(data):
        frame, where = read_raw(data), str(data)
        rows: Table | RawTable
        if domain.is_open:
            rows = RawTable.of(frame, domain, share=share, where=where)
        else:
            rows = Table.from_frame(frame, domain, where=where)
        if notes is not None:
            if domain.unit is not None:
                notes.append(kept_line(domain.unit, unit_sizes(frame[domain.unit.column], domain.unit)))
            notes += folds_of(frame, known_labels(domain))
        return rows
    if domain.is_open:
        raise InputError(
            f"{where}: what is bought needs the rows in one file that fits into memory, not streamed ones; declare "
            f"the labels and edges of '{domain.open_columns[0].name}' there"
        )
    return open_source(data, domain)


def open_source(data: str | os.PathLike[str], domain: Domain) -> CountSource:
    r"""Return the rows of a file, of all files of a pattern or folder, or of a table or query in a database.

    A single file is read into memory, unless it is large: CSV of more than 256 MB, Parquet of more than 2^27 cells.
    That one, several files and databases are streamed: memory holds counts only, or the codes of the rows where the
    domain names a privacy unit. The same seed gives the same release either way.

    Parameters
    ----------
    data : str or path
        ``t.csv``, ``t.parquet``, ``year=*/part-*.parquet``, ``duckdb:///clinic.db?table=stays`` (four slashes before a
        path from the root; none: files named in the query), ``postgresql://host/clinic?table=ward.stays``,
        ``spark://local[2]?table=stays`` (``spark://host:7077``: that master; ``spark://``: as Spark is configured). In
        place of ``table=NAME`` there may be ``query=SELECT ...``.
    domain : Domain

    Raises
    ------
    InputError
        See `Table.read`, `open_parquet`, `open_csv` and `SQLSource`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("ward\n0\n2\n")
    ...     open_source(f"{folder}/t.csv", Domain.from_sizes({"ward": 3})).counts(["ward"])
    array([1, 0, 1])
    """
    text = os.fspath(data)
    if not is_streamed(text):
        return Table.read(text, domain=domain)
    rows = stream(text, domain.project(domain.names))
    return rows if domain.unit is None else bound_contributions(rows, domain.unit)


def stream(data: str | os.PathLike[str], domain: Domain) -> Stream:
    r"""Return the rows of files or of a database as `open_source` does, but never read into memory.

    The domain names no privacy unit: see `marginalia.data.sources.bounded`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("ward\n0\n2\n")
    ...     stream(f"{folder}/t.csv", Domain.from_sizes({"ward": 3})).counts(["ward"])
    array([1, 0, 1])
    """
    text = os.fspath(data)
    if FAR in text:
        return SQLSource(text, domain=domain)
    check_is_no_url(text)
    files = files_of(text)
    if not files:
        raise InputError(
            f"{text}: this folder holds neither CSV nor Parquet files; {skipped_of(text) or 'it is empty'}"
        )
    kinds = {path.name.endswith(parquet.SUFFIXES): path for path in reversed(files)}  # the first file of each
    if len(kinds) > 1:
        raise InputError(
            f"{text}: {kinds[True].name} is Parquet and {kinds[False].name} is not; they may hold the same rows twice: "
            "give a pattern that matches files of one kind"
        )
    open_files = parquet.open_parquet if True in kinds else csv.open_csv
    return open_files([text] if os.path.isfile(text) else text, domain=domain)


def is_streamed(data: str | os.PathLike[str]) -> bool:
    """Whether `open_source` leaves the rows where they are.

    >>> is_streamed("t.csv"), is_streamed("part-*.parquet"), is_streamed("duckdb:///clinic.db?table=stays")
    (False, True, True)
    """
    text = os.fspath(data)
    if FAR in text:
        return True
    check_is_no_url(text)
    if glob.has_magic(text) and not os.path.exists(text):
        return True
    if os.path.isdir(text):
        return True
    if not text.endswith(".parquet"):
        return os.path.isfile(text) and os.path.getsize(text) > LARGEST_TEXT
    import pyarrow as pa
    from pyarrow.parquet import read_metadata

    try:
        found = read_metadata(text)
    except (OSError, pa.ArrowException):  # said when it is read
        return False
    return found.num_rows * found.num_columns > LARGEST_PARQUET


def files_of(data: str | os.PathLike[str]) -> list[Path]:
    """Return the files behind `data`, each once, none for a server; they may not be there. See `data_files`.

    >>> files_of("t.csv"), files_of("postgresql://host/clinic?table=stays")
    ([PosixPath('t.csv')], [])
    """
    text = os.fspath(data)
    if FAR in text:
        location = Location.parse(text)
        return [Path(location.place[1:])] if location.engine == "duckdb" and location.place[1:] else []
    return [Path(found) for found in data_files(text, _TABLES).paths] or [Path(text)] * (not os.path.isdir(text))


def skipped_of(data: str | os.PathLike[str]) -> str:
    """Return one line on what of a folder or pattern is not read; empty for all else.

    >>> skipped_of("t.csv")
    ''
    """
    text = os.fspath(data)
    return "" if FAR in text else data_files(text, _TABLES).line()


def name_of(data: str | os.PathLike[str]) -> str:
    """Return the name of the data as it may be shown: without credentials.

    >>> name_of("postgresql://ann@db.example/clinic?table=stays")
    'postgresql://db.example/clinic?table=stays'
    """
    text = os.fspath(data)
    return str(Location.parse(text)) if FAR in text else text


def fingerprint(data: str | os.PathLike[str]) -> Mapping[str, str | int]:
    """Return what tells the data again: their name without credentials and, of files, the SHA-256.

    Of several files it is that of their hashes, one after the other. It depends on private rows and tells whoever has
    another copy of them that it is one: it is for the owner's records, not for release.

    >>> fingerprint("postgresql://ann@db.example/clinic?table=stays")
    {'name': 'postgresql://db.example/clinic?table=stays'}
    """
    name, hashes = name_of(data), []
    for path in files_of(data):
        try:
            with path.open("rb") as file:
                hashes.append(hashlib.file_digest(file, "sha256"))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
    if not hashes:
        return {"name": name}
    if len(hashes) == 1:
        return {"name": name, "sha256": hashes[0].hexdigest()}
    whole = hashlib.sha256(b"".join(one.digest() for one in hashes))
    return {"name": name, "files": len(hashes), "sha256": whole.hexdigest()}
