"""The text of CSV files, in parts or as a whole: separator, header, rows; what cannot be meant is refused."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.errors import InputError

if TYPE_CHECKING:
    from pyarrow import csv as arrow

SEPARATORS = (",", ";", "\t", "|")
SEPARATOR_LINE = re.compile(r"\Asep=[,;\t|]\r?\n")  # for Excel; the separator is found without it
WORKBOOK = "an Excel workbook; save the sheet as CSV in UTF-8"
_CHUNK = 65536  # rows
_SAMPLE = 200  # rows to find the separator with


def check_header(names: list[str], where: str) -> None:
    """Raise for a column without a name or one that stands twice.

    >>> check_header(["a", "b", "a"], "t.csv")
    Traceback (most recent call last):
    marginalia.errors.InputError: t.csv: column 'a' stands twice in the header; rename or remove one
    """
    if "" in names:
        place = f"column {names.index('') + 1} of {len(names)}"
        raise InputError(f"{where}: {place} has no name in the header; name it (a row index is best left out)")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{where}: column '{twice[0]}' stands twice in the header; rename or remove one")


def checked_text(path: str | os.PathLike[str], parts: Iterable[bytes]) -> Iterator[str]:
    r"""Yield the text of a file that comes in parts, without a byte-order mark; InputError where it is no UTF-8.

    >>> "".join(checked_text("t.csv", [b"\xef\xbb\xbfage\n", b"30\n"]))
    'age\n30\n'
    >>> list(checked_text("t.csv", [b"age\n", b"\xe9\n"]))
    Traceback (most recent call last):
    marginalia.errors.InputError: t.csv, line 2: byte 0xe9 is not UTF-8 (Latin-1: 'é'); save the file as UTF-8
    """
    decoder, lines = codecs.getincrementaldecoder("utf-8-sig")(), 1
    for i, part in enumerate(parts):
        if i == 0 and part.startswith(b"\xd0\xcf\x11\xe0"):
            raise InputError(f"{path}: {WORKBOOK}")
        if i == 0 and part.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(f"{path}: the file is UTF-16; save it as UTF-8")
        if (at := part.find(b"\0")) >= 0:
            line = part.count(b"\n", 0, at) + lines
            raise InputError(f"{path}, line {line}: a NUL byte; this is no text file in UTF-8")
        yield _text(path, decoder, part, lines)
        lines += part.count(b"\n")
    yield _text(path, decoder, b"", lines, final=True)


def _text(
    path: str | os.PathLike[str], decoder: codecs.IncrementalDecoder, part: bytes, lines: int, *, final: bool = False
) -> str:
    try:
        return decoder.decode(part, final)
    except UnicodeDecodeError as error:
        line, byte = error.object.count(b"\n", 0, error.start) + lines, error.object[error.start]
        raise InputError(
            f"{path}, line {line}: byte 0x{byte:02x} is not UTF-8 (Latin-1: {chr(byte)!r}); save the file as UTF-8"
        ) from None


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


def header_of(path: str | os.PathLike[str], content: str, separator: str) -> list[str]:
    r"""Return the names of the columns of a CSV file; see `check_header`.

    >>> header_of("t.csv", "\nage, ward\n30,surgery\n", ",")
    ['age', 'ward']
    """
    rows = csv_rows(io.StringIO(content, newline=""), separator)
    names = [name.strip() for name in next((row for row in rows if row), [])]
    check_header(names, str(path))
    return names


def chunks_of_rows(
    path: str | os.PathLike[str], lines: Iterable[str], separator: str, width: int
) -> Iterator[list[list[str]]]:
    r"""Yield the rows below the header, some at a time; InputError where one has another number of cells than `width`.

    >>> list(chunks_of_rows("t.csv", ["age,ward\n", "30,\"surgery, day\"\n"], ",", 2))
    [[['30', 'surgery, day']]]
    """
    reader = csv_rows(lines, separator)
    next(row for row in reader if row)
    n = 0
    while chunk := list(islice(reader, _CHUNK)):
        rows = chunk if all(chunk) else [row for row in chunk if row]
        if set(map(len, rows)) - {width}:
            at = next(i for i, row in enumerate(rows) if len(row) != width)
            raise _uneven(path, n + at, len(rows[at]), width)
        n += len(rows)
        yield rows


def quotes_are_plain(content: bytes, separator: str) -> bool:
    r"""Whether every quote opens or closes a whole cell of one line without further quotes: Arrow reads these right.

    >>> quotes_are_plain(b'age,ward\n30,"surgery, day"\n', ",")
    True
    >>> quotes_are_plain(b'age,ward\n30, "surgery"\n31,"the ""old"" one"\n', ",")
    False
    """
    text = np.frombuffer(b"\n" + content + b"\n", np.uint8)
    at = np.flatnonzero(text == ord('"'))
    if at.size % 2:
        return False
    opening, closing = at[::2], at[1::2]
    ends = np.array([ord(separator), ord("\n"), ord("\r")], np.uint8)
    if not (np.isin(text[opening - 1], ends).all() and np.isin(text[closing + 1], ends).all()):
        return False
    if (closing - opening).max(initial=0) > csv.field_size_limit():
        return False  # Python refuses what is longer
    lines = np.flatnonzero((text == ord("\n")) | (text == ord("\r")))
    return bool((np.searchsorted(lines, opening) == np.searchsorted(lines, closing)).all())


def plain_batches(
    path: str | os.PathLike[str],
    source: Any,
    separator: str,
    names: Sequence[str],
    wanted: Sequence[str] | None = None,
    *,
    block: int = 2**24,
) -> Iterator[Any]:
    r"""Yield the rows of a CSV file without quotes, or with plain ones, as Arrow batches of text.

    Arrow reads ten times as fast as Python; but it takes a quote that is never closed, or stands after a space, for
    text: see `quotes_are_plain`.

    Parameters
    ----------
    path : path
        For messages.
    source : binary file, or one of Arrow's
        From the header on, with a line end at its end.
    separator : str
    names : sequence of str
        Of the columns.
    wanted : sequence of str, optional
        Columns to yield; default: all.
    block : int, default 2**24
        Bytes of a batch.

    Raises
    ------
    InputError
        A row has another number of cells than the header.

    Examples
    --------
    >>> batch, = plain_batches("t.csv", io.BytesIO(b"age,ward\n30,A\n"), ",", ["age", "ward"])
    >>> batch.to_pydict()
    {'age': ['30'], 'ward': ['A']}
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    refused: list[tuple[int, int]] = []

    def refuse(row: arrow.InvalidRow) -> str:
        refused.append((row.number - 2, row.actual_columns))  # counted from 1, with the header
        return "error"

    kept = list(names if wanted is None else wanted)
    try:
        with arrow.open_csv(
            source,
            read_options=arrow.ReadOptions(
                use_threads=False, column_names=list(names), skip_rows_after_names=1, block_size=block
            ),
            parse_options=arrow.ParseOptions(delimiter=separator, invalid_row_handler=refuse),
            convert_options=arrow.ConvertOptions(
                column_types=dict.fromkeys(kept, pa.string()), strings_can_be_null=False, include_columns=kept
            ),
        ) as reader:
            yield from reader
    except pa.ArrowInvalid as error:
        if refused:
            raise _uneven(path, *refused[0], len(names)) from None
        raise InputError(f"{path}: not a CSV table ({str(error).splitlines()[0]})") from None


def _uneven(path: str | os.PathLike[str], row: int, cells: int, width: int) -> InputError:
    many = f"{cells} cell{'s' if cells > 1 else ''}, the header has {width} (rows count from 0, without the header)"
    mend = "remove lines above the header" if width == 1 else "quote cells that hold the separator"
    return InputError(f"{path}, row {row}: {many}; {mend}")
