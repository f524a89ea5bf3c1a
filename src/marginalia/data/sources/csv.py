"""CSV files of any size as a stream."""

from __future__ import annotations

from marginalia.data.csv_files import CSVFile
from marginalia.data.domain import Domain
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.folder import Paths
from marginalia.data.sources.stream import Stream

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt")


def open_csv(paths: Paths, *, domain: Domain) -> Stream:
    r"""Return the rows of CSV files with the same columns, in the order of the files; see `Table.read`.

    A file may be packed by gzip, or alone in a zip. It is read once when it is opened, for characters that are no text,
    and once a pass.

    Parameters
    ----------
    paths : path of a file or folder, pattern such as ``year=*/part-*.csv``, or iterable of paths
        See `stream_files`.
    domain : Domain

    Raises
    ------
    InputError
        As `marginalia.data.reading.read_raw`, and where the columns differ between files. When rows are read: a value
        without a code; a file has changed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.data.domain import Domain
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("smoker; region\n0; 1\n1; 1\n1; 2\n")
    ...     rows = open_csv(f"{folder}/*.csv", domain=Domain.from_sizes({"smoker": 2, "region": 3}))
    ...     rows.n_rows, rows.counts(["region", "smoker"]).tolist()
    (3, [[0, 0], [1, 1], [0, 1]])
    """
    return stream_files(paths, domain, suffixes=SUFFIXES, scan=CSVFile.scan)
