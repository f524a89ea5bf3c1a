"""Read CSV files as they are: every cell is text, and nothing is inferred from other cells.

Arrow reads the rows, but it misreads a quote in the middle of a cell, after a space, or never closed. So the scan that
opens a file also checks that every quote opens or closes a cell, or is doubled inside one. Files with other quotes are
read by Python's csv module, five times as slow, which writes them for Arrow with all cells quoted.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, Any

import numpy as np

from marginalia.errors import InputError

SEPARATORS = (",", ";", "\t", "|")
_SEPARATOR_LINE = re.compile(r"\Asep=[,;\t|]\r?\n")  # for Excel; the separator is found without it
# What a file is that does not begin as text, and what to do with it.
_OTHER_FILES = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook of the old kind; save it as .xlsx, or the sheet as CSV in UTF-8",
    b"PK\x03\x04": "a packed file inside a packed one; unpack it first",
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"<stata_dta>": "a Stata file; let its name end in .dta",
    b"$FL2": "an SPSS file; let its name end in .sav",
    b"$FL3": "an SPSS file; let its name end in .zsav",
    bytes(12) + b"\xc2\xea\x81\x60": "a SAS file; let its name end in .sas7bdat",
    b"HEADER RECORD*******LIBRARY": "a SAS transport file; let its name end in .xpt",
    b"RDX": "a file of R; write the table by write.csv(row.names = FALSE)",
    b"X\n\0": "a file of R; write the table by write.csv(row.names = FALSE)",
    b"ARROW1": "an Arrow file; write the table as Parquet",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
    codecs.BOM_UTF16_LE: "the file is UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "the file is UTF-16; save it as UTF-8",
}
_WORKBOOK = "an Excel workbook; let its name end in .xlsx"
_COMMENTS = ("#", "//", "%", "--")  # how a line begins that is for people
_SAMPLE = 200  # rows to find the separator with
_PART = 2**22  # bytes that are read at once; the first part holds the header
_LONGEST = 2**24  # bytes of a row
_ROWS = 65536  # that the csv module reads at once
_UNREAD = re.compile(r"/$|(^|/)(__MACOSX/|\.)")  # in a zip: folders, and what macOS adds
_UNEVEN = re.compile(r"Row #(\d+): Expected \d+ columns, got (\d+)")  # Arrow's words


@dataclass(frozen=True)
class CSVFile:
    r"""A CSV file in UTF-8 with a header line; cells are separated by ``, ; tab`` or ``|``.

    The file may be packed by gzip, or alone in a zip.

    Attributes
    ----------
    path : str
    names : tuple of str
        Columns, as the header names them; see `marginalia.data.reading.check_header`.
    separator : str
    start : int
        Bytes before the header.
    plain : bool
        Whether Arrow reads the quotes right.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text('age; ward\n30; "surgery; day"\n')
    ...     file = CSVFile.scan(f"{folder}/t.csv")
    ...     [batch.to_pylist() for batch in file.batches(["ward"])]
    [[{'ward': 'surgery; day'}]]
    """

    path: str
    names: tuple[str, ...]
    separator: str
    start: int
    plain: bool

    @classmethod
    def scan(cls, path: str | os.PathLike[str], *, largest: int | None = None) -> CSVFile:
        """Read a whole file once: its header, and whether it is text.

        Parameters
        ----------
        path : path
        largest : int, optional
            Bytes that a packed file may unpack to; default: any number.

        Raises
        ------
        InputError
            The file cannot be read, is empty, is not UTF-8, or is a workbook.
        """
        path = os.fspath(path)
        with _reading(path), _opened(path) as file:
            packed = not isinstance(file, io.BufferedReader)
            parts = _checked(path, iter(lambda: file.read(_PART), b""), largest if packed else None)
            first = next(parts)
            separator, names, start = _header(path, first)
            plain = quotes_are_plain(chain([first[start:]], parts), separator)
        return cls(path, tuple(names), separator, start, plain)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows of these columns as Arrow batches of text, without outer spaces.

        Default: all columns; of an empty list: the first. They are encoded by their distinct cells. Rows without any
        character are skipped.

        Raises
        ------
        InputError
            A row has another number of cells than the header, or a quote is never closed.
        """
        import pyarrow as pa
        from pyarrow import compute
        from pyarrow import csv as arrow

        wanted = list(self.names if columns is None else columns or self.names[:1])
        parsing = arrow.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        converting = arrow.ConvertOptions(
            column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=False, include_columns=wanted
        )
        header, rows = 1, 0
        with _reading(self.path), _opened(self.path) as file:
            file.read(self.start)
            for block in _blocks_of_rows(self.path, file) if self.plain else _all_quoted(file, self.separator):
                # Arrow reads ahead on a thread of its own. One that is left inside Python's code as the interpreter
                # ends, after an error, hangs or aborts the process: so it is given memory of its own, and calls nothing
                # of Python.
                memory = pa.allocate_buffer(len(block))
                memoryview(memory).cast("B")[:] = block
                reading = arrow.ReadOptions(
                    use_threads=False,
                    column_names=self.names,
                    skip_rows_after_names=header,
                    block_size=len(block) + 1,
                )
                try:
                    table = arrow.read_csv(pa.BufferReader(memory), reading, parsing, converting)
                except pa.ArrowInvalid as error:
                    if found := _UNEVEN.search(str(error)):
                        raise self._uneven(rows + int(found[1]) - 1 - header, int(found[2])) from None
                    raise InputError(f"{self.path}: not a CSV table ({str(error).splitlines()[0]})") from None
                header, rows = 0, rows + table.num_rows
                for batch in table.to_batches():
                    cells = [compute.utf8_trim_whitespace(column).dictionary_encode() for column in batch.columns]
                    yield pa.record_batch(cells, names=batch.schema.names)

    def _uneven(self, row: int, cells: int) -> InputError:
        width = len(self.names)
        many = f"{cells} cell{'s' if cells > 1 else ''}, the header has {width} (rows count from 0, without the header)"
        fix = "quote cells that hold the separator"
        if not row:  # then it may be the header that is wrong
            fix = f"remove lines above the header, give each column a name in it, or {fix}"
        return InputError(f"{self.path}, row {row}: {many}; {fix}")


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise an InputError for a file that cannot be read."""
    try:
        yield
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV table ({error})") from None
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        raise InputError(f"{path}: the packed file is damaged or protected; unpack it first") from None


def _opened(path: str) -> IO[bytes]:
    """Open a file, what a gzip file holds, or the one file in a zip."""
    with open(path, "rb") as file:
        magic = file.read(4)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.open(path)  # type: ignore[return-value]
    if not magic.startswith(b"PK"):
        return open(path, "rb")
    with zipfile.ZipFile(path) as archive:
        if "xl/workbook.xml" in archive.namelist():
            raise InputError(f"{path}: {_WORKBOOK}")
        files = [file for file in archive.infolist() if not _UNREAD.search(file.filename)]
        if len(files) != 1:
            some = f" ({', '.join(file.filename for file in files[:3])}{', ...' * (len(files) > 3)})" if files else ""
            raise InputError(f"{path}: a zip with {len(files)} files{some}; unpack it and name the table")
        if files[0].flag_bits & 1:
            raise NotImplementedError("encrypted")
        return archive.open(files[0])


def _checked(path: str, parts: Iterable[bytes], largest: int | None) -> Iterator[bytes]:
    """Yield the parts of a file, one at least; InputError where they are not text in UTF-8."""
    decoder, lines, size = codecs.getincrementaldecoder("utf-8")(), 1, 0
    for part in chain(parts, [b""]):
        if not size and (other := next((what for magic, what in _OTHER_FILES.items() if part.startswith(magic)), "")):
            raise InputError(f"{path}: {other}")
        if not size and 0 in part[:2] and part[:40].count(0) * 2 == len(part[:40]):
            raise InputError(f"{path}: the file is UTF-16; save it as UTF-8")
        if (at := part.find(b"\0")) >= 0:
            line = part.count(b"\n", 0, at) + lines
            raise InputError(f"{path}, line {line}: a NUL byte; this is no text file in UTF-8")
        try:
            decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            line, byte = error.object.count(b"\n", 0, error.start) + lines, error.object[error.start]
            where = f"{path}, line {line}: byte 0x{byte:02x} is not UTF-8"
            raise InputError(f"{where} (Latin-1: {chr(byte)!r}); save the file as UTF-8") from None
        size += len(part)
        if largest is not None and size > largest:
            what = f"unpacks to more than {largest >> 30} GB"
            raise InputError(f"{path}: {what}; unpack it first, or write it as Parquet")
        lines += part.count(b"\n")
        yield part


def _header(path: str, first: bytes) -> tuple[str, list[str], int]:
    """Return the separator, the names of the columns, and the bytes before them, by the first part of a file."""
    text = first.decode("utf-8", "ignore")  # the part may end inside a character
    if len(first) == _PART:  # or inside a row
        text = text[: text.rfind("\n") + 1] or text
    content = _SEPARATOR_LINE.sub("", text.removeprefix("\ufeff"), count=1)
    if not content.strip():
        raise InputError(f"{path}: the file is empty; a table needs a header line")
    _check_no_comment(path, content)
    separator = found_separator(content)
    names = _first_row(content, separator)
    return separator, [name.strip() for name in names], len(text.encode()) - len(content.lstrip().encode())


def _first_row(content: str, separator: str) -> list[str]:
    return next(row for row in csv_rows(io.StringIO(content, newline=""), separator) if row)


def _check_no_comment(path: str, content: str) -> None:
    """Raise where lines above the header are comments: they have another number of cells."""
    if not content.lstrip().startswith(_COMMENTS):
        return
    lines = [line for line in io.StringIO(content) if line.strip()]
    above = next((i for i, line in enumerate(lines) if not line.startswith(_COMMENTS)), 0)
    if not above:
        return
    below = "".join(lines[above:])
    width = len(_first_row(below, separator := found_separator(below)))
    if any(len(_first_row(line, separator)) != width for line in lines[:above]):
        many = "line 1 is a comment; remove it" if above == 1 else f"lines 1 to {above} are comments; remove them"
        raise InputError(f"{path}: {many}, so that the first line names the columns")


def csv_rows(lines: Iterable[str], separator: str) -> Any:
    """Return a reader of the rows of a CSV file, each a list of text.

    >>> list(csv_rows(["a; b"], ";"))
    [['a', 'b']]
    """
    return csv.reader(lines, delimiter=separator, skipinitialspace=separator != "\t", strict=True)


def found_separator(content: str) -> str:
    r"""Return the separator that cuts the first rows into as many cells as the header, and into most of them.

    >>> found_separator("age;ward\n30;surgery, day\n")
    ';'
    """
    best, most = ",", (0.0, 1)
    for separator in SEPARATORS:
        try:
            lines = io.StringIO(content, newline="")
            rows = [row for row in islice(csv_rows(lines, separator), _SAMPLE) if row]
        except csv.Error:
            continue
        width = len(rows[0]) if rows else 0
        share = sum(len(row) == width for row in rows) / max(1, len(rows))
        if width > 1 and (share, width) > most:
            best, most = separator, (share, width)
    return best


def quotes_are_plain(parts: Iterable[bytes], separator: str) -> bool:
    r"""Whether every quote of a file that comes in parts opens or closes a cell, or is doubled inside one.

    >>> quotes_are_plain([b'age,ward\n30,"the ""old', b'"" one,\nday"\n'], ",")
    True
    >>> quotes_are_plain([b'age,ward\n30, "surgery"\n'], ","), quotes_are_plain([b'age,ward\n30,5"\n'], ",")
    (False, False)
    """
    neighbours = np.frombuffer(f'{separator}\n\r"'.encode(), np.uint8)
    plain, inside, window = True, 0, b"\n"
    for part in chain(parts, [b"\n"]):
        window += part
        text = np.frombuffer(window, np.uint8)
        at = np.flatnonzero(text[1:-1] == ord('"')) + 1  # the last byte waits for the next part
        before, after = text[at[inside::2] - 1], text[at[1 - inside :: 2] + 1]
        plain = plain and bool(np.isin(before, neighbours).all() and np.isin(after, neighbours).all())
        inside = (inside + at.size) % 2
        window = window[-2:]
    return plain and not inside


def _blocks_of_rows(path: str, file: IO[bytes]) -> Iterator[bytes]:
    """Yield whole rows of a file with plain quotes, about `_PART` bytes at once."""
    rest = b""
    while part := file.read(_PART):
        rest += part
        end = _end_of_rows(rest)
        if len(rest) - end > _LONGEST:
            raise InputError(f"{path}: not a CSV table (a line of more than {_LONGEST:,} bytes)")
        if rest[:end].strip(b"\r\n"):
            yield rest[:end]
        rest = rest[end:]
    if rest.strip(b"\r\n"):
        yield rest + b"\n"


def _end_of_rows(content: bytes) -> int:
    """Return where the last whole row ends: after a line end that no quotes hold."""
    for mark, most in ((b"\n", len(content)), (b"\r", len(content) - 1)):  # the last \r may belong to a \n
        end = content.rfind(mark, 0, most) + 1
        inside = content.count(b'"', 0, end) % 2
        while end and inside:
            before = content.rfind(mark, 0, end - 1) + 1
            inside ^= content.count(b'"', before, end) % 2
            end = before
        if end:
            return end
    return 0


def _all_quoted(file: IO[bytes], separator: str) -> Iterator[bytes]:
    """Yield whole rows of a file with other quotes, as the csv module reads them, with all cells quoted."""
    rows = csv_rows(io.TextIOWrapper(file, encoding="utf-8", newline=""), separator)  # line ends in cells stay
    while some := list(islice(rows, _ROWS)):
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(filter(None, some))
        if text.tell():
            yield text.getvalue().encode()
