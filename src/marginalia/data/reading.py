"""Read CSV and Parquet files as they are: every cell of a CSV file is text; what cannot be meant is refused."""

from __future__ import annotations

import codecs
import csv
import errno
import gzip
import io
import os
import re
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from marginalia.data.coding import RawColumn
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Column = tuple[NDArray[np.integer[Any]], list[str]]  # each row's position among the distinct cells


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
    source: IO[bytes],
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
    source : binary file
        From the header on.
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

    kept = list(names if wanted is None else wanted)
    parsing = arrow.ParseOptions(delimiter=separator)
    converting = arrow.ConvertOptions(
        column_types=dict.fromkeys(kept, pa.string()), strings_can_be_null=False, include_columns=kept
    )
    header, rows = 1, 0
    for lines in _blocks_of_lines(path, source, block):
        # Arrow reads ahead on a thread of its own. One that is left inside Python's code as the interpreter ends, after
        # a refusal, hangs or aborts the process: so it is given memory of its own, and calls nothing of Python.
        memory = pa.allocate_buffer(len(lines))
        memoryview(memory).cast("B")[:] = lines
        reading = arrow.ReadOptions(
            use_threads=False, column_names=list(names), skip_rows_after_names=header, block_size=len(lines) + 1
        )
        try:
            table = arrow.read_csv(pa.BufferReader(memory), reading, parsing, converting)
        except pa.ArrowInvalid as error:
            if found := _UNEVEN.search(str(error)):
                raise _uneven(path, rows + int(found[1]) - 1 - header, int(found[2]), len(names)) from None
            raise InputError(f"{path}: not a CSV table ({str(error).splitlines()[0]})") from None
        header, rows = 0, rows + table.num_rows
        yield from table.to_batches()


_UNEVEN = re.compile(r"Row #(\d+): Expected \d+ columns, got (\d+)")  # Arrow's words


def _blocks_of_lines(path: str | os.PathLike[str], source: IO[bytes], block: int) -> Iterator[bytes]:
    """Yield whole lines, about so many bytes at once, each block with a line end at its end."""
    rest = b""
    while part := source.read(block):
        rest += part
        end = rest.rfind(b"\n") + 1 or rest.rfind(b"\r", 0, -1) + 1
        if len(rest) - end > block:
            raise InputError(f"{path}: not a CSV table (a line of more than {block:,} bytes)")
        if rest[:end].strip():
            yield rest[:end]
        rest = rest[end:]
    if rest.strip():
        yield rest + b"\n"


def _uneven(path: str | os.PathLike[str], row: int, cells: int, width: int) -> InputError:
    many = f"{cells} cell{'s' if cells > 1 else ''}, the header has {width} (rows count from 0, without the header)"
    mend = "remove lines above the header" if width == 1 else "quote cells that hold the separator"
    return InputError(f"{path}, row {row}: {many}; {mend}")


_UNCLEAR = re.compile(r"[;\t|\r\ufeff]")  # in the name of a column
_URL = re.compile(r"\w\w:/")  # as a path it has one slash of two
LARGEST = 2**32  # bytes that a packed file may unpack to


@contextmanager
def _in_one_line(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise an InputError for what Arrow raises for a Parquet file."""
    try:
        yield
    except OSError as error:  # Arrow's error of a file that is not there says its name only
        missing = os.strerror(errno.ENOENT) if isinstance(error, FileNotFoundError) else str(error).splitlines()[0]
        raise InputError(f"cannot read {path}: {error.strerror or missing}") from None
    except (ValueError, NotImplementedError, LookupError, TypeError) as error:  # Arrow's own errors are some of these
        raise InputError(f"{path}: not a Parquet file ({str(error).strip().splitlines()[0]})") from None


def read_raw(path: str | os.PathLike[str]) -> pd.DataFrame:
    r"""Read a raw table: Parquet by its ending, else CSV in UTF-8 with a header, cells apart by ``, ; tab`` or ``|``.

    A CSV file may be packed by gzip, or alone in a zip.

    Returns
    -------
    DataFrame
        Of CSV every column is a categorical of text, without outer spaces; empty cells are empty text. Rows without
        any character are skipped.

    Raises
    ------
    InputError
        The file cannot be read or is not UTF-8; it is empty, a column has no name or stands twice, a row has another
        number of cells than the header, or a quote is never closed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "t.csv").write_text("age; ward\n30; surgery\n")
    ...     read_raw(f"{folder}/t.csv")
      age     ward
    0  30  surgery
    """
    check_is_no_url(path)
    if Path(path).suffix == ".parquet":
        with _in_one_line(path):
            frame = _parquet_frame(path)
        frame.columns = [str(name) for name in frame.columns]
        check_header(list(frame.columns), str(path))
        return frame
    content = _decoded(path)
    try:
        return _table(path, content)
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV table ({error})") from None


def check_is_no_url(path: str | os.PathLike[str]) -> None:
    """Refuse the URL of a database where a file is read, without repeating it: it may hold a password.

    >>> check_is_no_url("postgresql://host/clinic?table=stays")
    Traceback (most recent call last):
    marginalia.errors.InputError: a file is needed here, not the URL of a database; ...
    """
    if _URL.search(text := os.fspath(path)):
        if "://" not in text:
            raise InputError("the URL of a database has two slashes after its colon at least, as in duckdb:///FILE")
        raise InputError(
            "a file is needed here, not the URL of a database; fit, synthesize and datasets check take one"
        )


def _parquet_frame(path: str | os.PathLike[str]) -> pd.DataFrame:
    from pyarrow import parquet

    table = parquet.read_table(path, coerce_int96_timestamp_unit="us")
    if os.path.isfile(path):
        table = with_instants(table, instants_of_spark(parquet.read_metadata(path)))
    return arrow_frame(table)


def whole_numbers(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the columns of a Parquet file that holds whole numbers and no gaps; none of any other file.

    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> with TemporaryDirectory() as folder:
    ...     parquet.write_table(pa.table({"a": [1, 0]}), f"{folder}/t.parquet")
    ...     whole_numbers(f"{folder}/t.parquet")
    {'a': array([1, 0])}
    """
    from pyarrow import ArrowException, parquet, types

    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
    except (ArrowException, OSError):
        return {}
    plain = len(set(table.column_names)) == table.num_columns and all(
        types.is_integer(column.type) and not column.null_count for column in table.columns
    )
    # By DLPack, as Arrow's own way to NumPy imports pandas.
    return (
        {
            name: np.from_dlpack(column.combine_chunks())
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        if plain
        else {}
    )


def instants_of_spark(metadata: Any) -> list[str]:
    """Return the columns of a Parquet file in which Spark wrote instants as INT96, a type that does not say so.

    >>> import io
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> file = io.BytesIO()
    >>> parquet.write_table(pa.table({"a": [1]}), file)
    >>> instants_of_spark(parquet.read_metadata(file))
    []
    """
    if b"org.apache.spark.version" not in (metadata.metadata or {}):
        return []
    columns = map(metadata.schema.column, range(metadata.num_columns))
    return [column.path for column in columns if column.physical_type == "INT96"]


def with_instants(table: Any, names: Iterable[str]) -> Any:
    """Return an Arrow table, or batch, in which times in some columns are instants in UTC.

    >>> import pyarrow as pa
    >>> with_instants(pa.table({"a": pa.array([0], pa.timestamp("us"))}), ["a"]).schema.field("a").type
    TimestampType(timestamp[us, tz=UTC])
    """
    import pyarrow as pa

    for name in set(names).intersection(table.schema.names):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(at).cast(pa.timestamp("us", "UTC")))
    return table


def arrow_frame(table: Any) -> pd.DataFrame:
    """Return an Arrow table as a data frame with the same cells; days and times of day are objects.

    >>> import pyarrow as pa
    >>> far = pa.chunked_array([pa.array([0, 3_700_000], pa.int32()).cast(pa.date32())])
    >>> arrow_frame(pa.table({"a": [2**60, None], "b": far})).to_dict("list")
    {'a': [1152921504606846976, None], 'b': [datetime.date(1970, 1, 1), '12100-04-04']}
    """
    import pandas as pd
    import pyarrow as pa

    def own(kind: Any) -> Any:
        of = kind.value_type if pa.types.is_dictionary(kind) else kind
        apart = pa.types.is_dictionary(kind) and not (pa.types.is_string(of) or pa.types.is_large_string(of))
        return pd.ArrowDtype(kind) if apart or pa.types.is_date(of) or pa.types.is_time(of) else None

    # A gap does not make large whole numbers doubles, which would round them.
    frame: pd.DataFrame = table.to_pandas(types_mapper=own, integer_object_nulls=True)
    for name, kind in frame.dtypes.items():
        if isinstance(kind, pd.ArrowDtype) and own(kind.pyarrow_dtype) is not None:
            column = RawColumn.of(frame[name])
            distinct: NDArray[Any] = np.array([*column.distinct, None], dtype=object)
            frame[name] = distinct[column.which]
    return frame


def is_frame(given: object) -> bool:
    """Whether this is a data frame: of pandas, or one that hands out Arrow columns (Polars, PyArrow, Narwhals, DuckDB).

    >>> import pyarrow as pa
    >>> is_frame(pa.table({"a": [1]})), is_frame([[1, 2]])
    (True, False)
    """
    pandas = sys.modules.get("pandas")  # whoever has a frame of it has imported it
    if pandas is not None and isinstance(given, pandas.DataFrame):
        return True
    return hasattr(given, "__arrow_c_stream__") and hasattr(given, "columns")


def pandas_frame(given: Any) -> pd.DataFrame:
    """Return a data frame as one of pandas, with the same cells; see `is_frame`.

    Raises
    ------
    InputError
        A column has a type that Arrow has not.

    >>> import pyarrow as pa
    >>> pandas_frame(pa.table({"a": [True, None]}))["a"].tolist()
    [True, None]
    """
    import pandas as pd

    if isinstance(given, pd.DataFrame):
        return given
    import pyarrow as pa

    try:
        return arrow_frame(pa.table(given))
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"{kind_of(given)}: a column cannot be read through Arrow ({error}); cast it") from None


def kind_of(given: object) -> str:
    """Return what a message calls a thing that is no data frame.

    >>> import numpy as np
    >>> kind_of([]), kind_of(np.array([1]))
    ('list', 'numpy ndarray')
    """
    cls = type(given)
    package = cls.__module__.partition(".")[0]
    return cls.__name__ if package == "builtins" else f"{package} {cls.__name__}"


def with_text_names(given: Any) -> pd.DataFrame:
    """Return a data frame as one of pandas whose column names are text; duplicate names are refused.

    >>> import pandas as pd
    >>> with_text_names(pd.DataFrame({0: [1], "a": [2]})).columns.tolist()
    ['0', 'a']
    """
    frame = pandas_frame(given)
    names = [str(name) for name in frame.columns]
    check_header(names, "data frame")
    return frame.set_axis(names, axis=1)


def csv_quoting(names: Iterable[str], texts: Iterable[str]) -> Literal[0, 2]:
    r"""Return how a CSV file quotes, for pandas, so that `read_raw` finds its separator and the ends of its rows.

    Python's csv module leaves a lone carriage return without quotes.

    >>> csv_quoting(["a"], ["b c"]) == csv.QUOTE_MINIMAL, csv_quoting(["a"], ["b\rc"]) == csv.QUOTE_NONNUMERIC
    (True, True)
    """
    unclear = _UNCLEAR.search("\n".join(names)) or any("\r" in text for text in texts)
    return csv.QUOTE_NONNUMERIC if unclear else csv.QUOTE_MINIMAL


_FORMULA = re.compile(r"[=@\t\r]|[+-](?![0-9.]+([eE][+-]?[0-9]+)?$)")  # how a cell begins that a spreadsheet computes


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose texts, column names too, no spreadsheet takes for a formula: such begin with an apostrophe.

    >>> import pandas as pd
    >>> without_formulas(pd.DataFrame({"=a": ["=1+1", "-2.5", "-x"], "b": [-1, 0, 1]})).to_dict("list")
    {"'=a": ["'=1+1", '-2.5', "'-x"], 'b': [-1, 0, 1]}
    """

    def safe(cell: Any) -> Any:
        return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell

    # Numbers and times have types of their own; text is an object or a string.
    texts = frame.columns[[str(kind) in ("object", "str", "string", "category") for kind in frame.dtypes]]
    return frame.assign(**{name: frame[name].map(safe) for name in texts}).rename(columns=safe)


def _decoded(path: str | os.PathLike[str]) -> str:
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if not raw.strip():
        raise InputError(f"{path}: the file is empty; a table needs a header line")
    raw = _unpacked(path, raw)
    return SEPARATOR_LINE.sub("", "".join(checked_text(path, [raw])), count=1)


def _unpacked(path: str | os.PathLike[str], raw: bytes) -> bytes:
    """Return the content of a gzip file, or of the one file in a zip; other content as it is."""
    try:
        if raw.startswith(b"\x1f\x8b"):
            with gzip.open(io.BytesIO(raw)) as file:
                content = file.read(LARGEST + 1)
        elif raw.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                if "xl/workbook.xml" in (names := archive.namelist()):
                    raise InputError(f"{path}: {WORKBOOK}")
                if len(names) != 1:
                    raise InputError(f"{path}: a zip with {len(names)} files; unpack it and name the table")
                with archive.open(names[0]) as file:
                    content = file.read(LARGEST + 1)
        else:
            return raw
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        raise InputError(f"{path}: the packed file is damaged or protected; unpack it first") from None
    if len(content) > LARGEST:
        raise InputError(f"{path}: unpacks to more than {LARGEST >> 30} GB; unpack it first, or write it as Parquet")
    return content


def _table(path: str | os.PathLike[str], content: str) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    separator = found_separator(content)
    names = header_of(path, content, separator)
    plain = '"' not in content or quotes_are_plain(content.encode(), separator)
    read = _plain_columns if plain else _quoted_columns
    columns = {}
    for name, (which, cells) in zip(names, read(path, content, separator, len(names)), strict=True):
        trimmed = [cell.strip() for cell in cells]
        again = dict.fromkeys(trimmed)
        if len(again) < len(trimmed):
            positions = {cell: i for i, cell in enumerate(again)}
            which = np.array([positions[cell] for cell in trimmed], np.int32)[which]
        columns[name] = pd.Categorical.from_codes(which, categories=pd.Index(again, dtype=object))
    return pd.DataFrame(columns)


def _plain_columns(path: str | os.PathLike[str], content: str, separator: str, width: int) -> Iterator[Column]:
    """Yield, for each column of a file with plain quotes at most, which of its distinct cells each row has."""
    import numpy as np
    import pyarrow as pa

    names = [str(j) for j in range(width)]
    batches = list(plain_batches(path, io.BytesIO(content.lstrip().encode()), separator, names))
    for j in range(width):
        if not batches:
            yield np.empty(0, np.int32), []
            continue
        coded = pa.chunked_array([batch.column(j) for batch in batches]).dictionary_encode().combine_chunks()
        yield coded.indices.to_numpy(), coded.dictionary.to_pylist()


def _quoted_columns(path: str | os.PathLike[str], content: str, separator: str, width: int) -> Iterator[Column]:
    """Yield the same of a file with any quotes."""
    import numpy as np

    seen: list[dict[str, int]] = [{} for _ in range(width)]
    parts: list[list[Any]] = [[] for _ in range(width)]
    # newline="": the csv module finds the ends of rows itself, quoted line breaks stay in their cells.
    for rows in chunks_of_rows(path, io.StringIO(content, newline=""), separator, width):
        for ids, part, cells in zip(seen, parts, zip(*rows, strict=True), strict=False):
            part.append(np.fromiter((ids.setdefault(cell, len(ids)) for cell in cells), np.int32, len(rows)))
    for ids, part in zip(seen, parts, strict=True):
        yield np.concatenate([np.empty(0, np.int32), *part]), list(ids)
