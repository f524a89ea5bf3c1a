"""Open what a command line calls data: a file, a pattern of files, or a table of a database."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from marginalia.data.domain import Domain
from marginalia.data.encode import known_labels, losses_of
from marginalia.data.keys import note_on_names, notes_on_keys
from marginalia.data.parquet_files import ParquetFile
from marginalia.data.reading import check_is_no_url, is_read_whole, read_raw
from marginalia.data.sources.bounded import bound_contributions
from marginalia.data.sources.database import open_database
from marginalia.data.sources.files import SUFFIXES, stream_files
from marginalia.data.sources.folder import DataFiles, data_files
from marginalia.data.sources.sql import Location, open_duckdb
from marginalia.data.sources.stream import Stream
from marginalia.data.table import CountSource, RawTable, Table
from marginalia.data.units import kept_line, unit_sizes
from marginalia.data.workbooks import sheet_of
from marginalia.errors import InputError

# Above these a single file is streamed: in memory it would take about 1 GB while it is read.
LARGEST_TEXT = 2**28  # bytes
LARGEST_PARQUET = 2**27  # cells
_FAR = "://"


@dataclass(frozen=True)
class Data:
    r"""What a command line calls data: a file, all files of a pattern or folder, or a table or query of a database.

    A single file is read into memory, unless it is large: CSV of more than 256 MB, Parquet of more than 2^27 cells.
    Files of Excel, Stata, SPSS and SAS always are. A large one, several files and databases are streamed: memory holds
    counts only, or the codes of the rows where the domain names a privacy unit. The same seed gives the same release
    either way.

    Attributes
    ----------
    text : str
        ``t.csv``, ``t.parquet``, ``survey.sav``, ``stays.xlsx?sheet=2024``, ``year=*/part-*.parquet``,
        ``duckdb:///clinic.db?table=stays`` (four slashes before a path from the root; none: files named in the query),
        ``postgresql://host/clinic?table=ward.stays``, ``spark://local[2]?table=stays`` (``spark://host:7077``: that
        master; ``spark://``: as Spark is configured). Of DuckDB there may be ``query=SELECT ...`` in place of
        ``table=NAME``.
    location : Location or None
        Of the table or query in a database.

    Examples
    --------
    >>> Data.parse("t.csv").is_streamed, Data.parse("part-*.parquet").is_streamed
    (False, True)
    >>> Data.parse("postgresql://ann@db.example/clinic?table=stays").name
    'postgresql://db.example/clinic?table=stays'
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("ward\n0\n2\n")
    ...     Data.parse(f"{folder}/t.csv").open(Domain.from_sizes({"ward": 3})).counts(["ward"])
    array([1, 0, 1])
    """

    text: str
    location: Location | None

    @classmethod
    def parse(cls, text: str | os.PathLike[str]) -> Data:
        """Read what `text` names; files need not be there.

        Raises
        ------
        InputError
            It is the URL of a database, but names no table, holds a password, or has one slash of two.
        """
        text = os.fspath(text)
        if _FAR in text:
            return cls(text, Location.parse(text))
        check_is_no_url(text)
        return cls(text, None)

    @property
    def name(self) -> str:
        """The name of the data as it may be shown: without credentials."""
        return self.text if self.location is None else str(self.location)

    @cached_property
    def is_streamed(self) -> bool:
        """Whether the rows are left where they are, and not read into memory."""
        if self.location is not None or os.path.isdir(self.text):
            return True
        if self._is_read_whole:
            return False
        if glob.has_magic(self.text) and not os.path.exists(self.text):
            return True
        if not self.text.endswith(".parquet"):
            return os.path.isfile(self.text) and os.path.getsize(self.text) > LARGEST_TEXT
        try:
            file = ParquetFile.scan(self.text)
        except InputError:  # comes again when it is read
            return False
        return file.n_rows * len(file.names) > LARGEST_PARQUET

    @cached_property
    def _found(self) -> DataFiles:
        if self.location is not None:
            place = self.location.place[1:] if self.location.engine == "duckdb" else ""
            return DataFiles((place,) if place else (), {})
        workbook = sheet_of(self.text)
        return data_files(self.text if workbook is None else workbook[0], SUFFIXES)

    @property
    def _is_read_whole(self) -> bool:
        """Whether this is one file that is read at once: of Excel, Stata, SPSS or SAS."""
        is_pattern = glob.has_magic(self.text.partition("?sheet=")[0]) and not os.path.exists(self.text)
        return self.location is None and is_read_whole(self.text) and not is_pattern

    @property
    def files(self) -> list[Path]:
        """The files, each once, none of a server; they may not be there. See `data_files`.

        >>> Data.parse("t.csv").files, Data.parse("postgresql://host/clinic?table=stays").files
        ([PosixPath('t.csv')], [])
        """
        pattern = self.location is None and not self._found.paths and not os.path.isdir(self.text)
        return [Path(path) for path in self._found.paths] or [Path(self.text)] * pattern

    @property
    def skipped(self) -> str:
        """One line on what of a folder or pattern is not read; empty for all else."""
        return self._found.line()

    def fingerprint(self) -> Mapping[str, str | int]:
        """Return what tells the data again: their name without credentials and, of files, the SHA-256.

        Of several files it is that of their hashes, one after the other. It depends on private rows and tells whoever
        has another copy of them that it is one: it is for the owner's records, not for release.

        >>> Data.parse("postgresql://ann@db.example/clinic?table=stays").fingerprint()
        {'name': 'postgresql://db.example/clinic?table=stays'}
        """
        hashes = []
        for path in self.files:
            try:
                with path.open("rb") as file:
                    hashes.append(hashlib.file_digest(file, "sha256"))
            except OSError as error:
                raise InputError(f"cannot read {path}: {error.strerror}") from None
        if not hashes:
            return {"name": self.name}
        if len(hashes) == 1:
            return {"name": self.name, "sha256": hashes[0].hexdigest()}
        whole = hashlib.sha256(b"".join(one.digest() for one in hashes))
        return {"name": self.name, "files": len(hashes), "sha256": whole.hexdigest()}

    def open(
        self, domain: Domain, *, share: float | None = None, where: str = "domain", notes: list[str] | None = None
    ) -> CountSource | RawTable:
        r"""Return the rows, in memory or streamed; of an open domain those of one file in memory.

        Parameters
        ----------
        domain : Domain
        share : float, optional
            Of the budget, for what is learned privately; see `RawTable`.
        where : str
            The domain file, for error messages.
        notes : list of str, optional
            What cells lose is added, see `marginalia.data.encode`, how many rows are left out of their units, and a key
            of persons that is not declared as the unit; of rows in memory only: others would need a pass.

        Raises
        ------
        InputError
            See `Table.from_frame`, `stream_files`, `open_duckdb` and `count_in_database`.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "t.csv").write_text("ward\nA\nB\n")
        ...     domain = Domain.from_dict({"attributes": [{"name": "ward", "type": "string", "labels": "private"}]})
        ...     Data.parse(f"{folder}/t.csv").open(domain)
        RawTable(2 rows, 1 of 1 columns to be learned)
        """
        if self.is_streamed:
            if domain.is_open:
                raise InputError(
                    f"{where}: private preprocessing needs the rows in one file that fits into memory, not streamed "
                    f"ones; declare the labels and edges of '{domain.open_columns[0].name}' there"
                )
            streamed = self.stream(domain.project(domain.names))
            if notes is not None and domain.unit is None:
                notes += note_on_names(streamed.columns)
            return streamed if domain.unit is None else bound_contributions(streamed, domain.unit)
        frame = read_raw(self.text, domain)
        rows: Table | RawTable
        if domain.is_open:
            rows = RawTable.of(frame, domain, share=share, where=self.text)
        else:
            rows = Table.from_frame(frame, domain, where=self.text)
        if notes is not None:
            if domain.unit is not None:
                notes.append(kept_line(domain.unit, unit_sizes(frame[domain.unit.column], domain.unit)))
            notes += notes_on_keys(frame, domain)
            notes += losses_of(frame, known_labels(domain))
        return rows

    def stream(self, domain: Domain) -> Stream:
        r"""Return the rows as `open` does, but never read into memory.

        The domain names no privacy unit: see `marginalia.data.sources.bounded`.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "t.csv").write_text("ward\n0\n2\n")
        ...     Data.parse(f"{folder}/t.csv").stream(Domain.from_sizes({"ward": 3})).counts(["ward"])
        array([1, 0, 1])
        """
        if self.location is not None:
            open_rows = open_duckdb if self.location.engine == "duckdb" else open_database
            return open_rows(self.location, domain)
        if self._is_read_whole:
            frame = read_raw(self.text, domain)
            rows = partial(_whole, frame, self.text)
            return Stream(rows, domain, columns=list(frame.columns), name=self.text, n_rows=lambda: len(frame))
        return stream_files([self.text] if os.path.isfile(self.text) else self.text, domain=domain)


def _whole(frame: Any, name: str, asked: Sequence[str]) -> Iterator[tuple[str, Any]]:
    yield name, frame[list(asked)]
