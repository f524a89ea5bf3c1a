"""CSV files of any size as a stream."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import IO, Any

from marginalia.data.domain import Domain
from marginalia.data.reading import (
    SEPARATOR_LINE,
    checked_text,
    chunks_of_rows,
    found_separator,
    header_of,
    plain_batches,
    quotes_are_plain,
)
from marginalia.data.sources.files import stream_files
from marginalia.data.sources.folder import Paths
from marginalia.data.sources.stream import Stream
from marginalia.errors import InputError

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".txt")

_PART = 2**22  # bytes that are read at once; in the first, the separator and the header are looked for
_LONGEST = 2**26  # bytes of a line with quotes


def open_csv(paths: Paths, *, domain: Domain) -> Stream:
    r"""Return the rows of CSV files with the same columns, in the order of the files; see `Table.read`.

    A file may be packed by gzip. It is read once when it is opened, for characters that are no text, and once a pass;
    files with quotes inside cells, or around line ends, are read by Python and not by Arrow: ten times as long.

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
    form = cache(_Form.of)
    return stream_files(
        paths,
        domain,
        suffixes=SUFFIXES,
        columns_of=lambda path: form(path).names,
        batches_of=lambda path, columns: _batches(path, form(path), columns),
    )


def _batches(path: str, form: _Form, columns: Sequence[str]) -> Iterator[Any]:
    wanted = list(columns) or [form.names[0]]
    with _reading(path), _opened(path) as file:
        file.read(form.start)
        if form.quoted:
            yield from _quoted(path, file, form, wanted)
        else:
            for batch in plain_batches(path, file, form.separator, form.names, wanted, block=_PART):
                yield _trimmed(batch)


@dataclass(frozen=True)
class _Form:
    """What must be known of a CSV file before its rows are read."""

    separator: str
    names: tuple[str, ...]
    quoted: bool  # in a way that Arrow does not read
    start: int  # bytes before the header

    @classmethod
    def of(cls, path: str) -> _Form:
        head, any_quote, cut = "", False, False
        with _reading(path), _opened(path) as file:
            for i, text in enumerate(checked_text(path, _parts(file))):
                any_quote = any_quote or '"' in text
                head, cut = head if i else text, cut or bool(i and text)
        if not head.strip():
            raise InputError(f"{path}: the file is empty; a table needs a header line")
        if cut:  # between two rows
            head = head[: head.rfind("\n") + 1] or head
        content = SEPARATOR_LINE.sub("", head, count=1)
        separator = found_separator(content)
        with _reading(path), _opened(path) as file:
            names = header_of(path, content, separator)
            mark = 3 if file.read(3) == b"\xef\xbb\xbf" else 0
        start = mark + len(head.encode()) - len(content.lstrip().encode())
        form = cls(separator, tuple(names), False, start)
        return replace(form, quoted=True) if any_quote and not form._plain(path) else form

    def _plain(self, path: str) -> bool:
        """Whether Arrow reads the quotes right."""
        rest = b""
        with _reading(path), _opened(path) as file:
            file.read(self.start)
            for part in _parts(file):
                lines, _, rest = (rest + part).rpartition(b"\n")
                if not quotes_are_plain(lines, self.separator) or len(rest) > _LONGEST:
                    return False
        return quotes_are_plain(rest, self.separator)


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(_PART), b"")


def _quoted(path: str, file: IO[bytes], form: _Form, wanted: Sequence[str]) -> Iterator[Any]:
    import pyarrow as pa

    # newline="": quoted line breaks stay in their cells.
    lines = io.TextIOWrapper(file, encoding="utf-8", newline="")
    at = [form.names.index(name) for name in wanted]
    for rows in chunks_of_rows(path, lines, form.separator, len(form.names)):
        columns = list(zip(*rows, strict=True))
        yield _trimmed(pa.record_batch([pa.array(columns[j], pa.string()) for j in at], names=list(wanted)))


def _trimmed(batch: Any) -> Any:
    """Return a batch of text by its distinct values, without outer spaces."""
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        encoded = column.dictionary_encode()
        texts = pa.array([text.strip() for text in encoded.dictionary.to_pylist()], pa.string())
        columns.append(pa.DictionaryArray.from_arrays(encoded.indices, texts))
    return pa.record_batch(columns, names=batch.schema.names)


def _opened(path: str) -> IO[bytes]:
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic.startswith(b"PK"):
        raise InputError(f"{path}: a zip cannot be streamed; unpack it first")
    return gzip.open(path) if magic.startswith(b"\x1f\x8b") else open(path, "rb")  # type: ignore[return-value]


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Say in one line why a file cannot be read."""
    try:
        yield
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV table ({error})") from None
    except OSError as error:
        why = f"cannot read {path}: {error.strerror}" if error.strerror else f"{path}: the packed file is damaged"
        raise InputError(why) from None
    except (EOFError, zlib.error):
        raise InputError(f"{path}: the packed file is damaged") from None
