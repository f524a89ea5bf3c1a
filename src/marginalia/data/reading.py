"""Read CSV and Parquet files as they are: every cell of a CSV file is text; what cannot be meant is refused."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalia.data.cells import cells_of
from marginalia.data.csv_files import CSVFile
from marginalia.data.headers import value_in_header
from marginalia.data.labelled_files import Labels, program_of, read_labelled, with_labels
from marginalia.data.parquet_files import ParquetFile, reading_parquet
from marginalia.data.workbooks import read_sheet, sheet_of
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data.domain import Domain


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
        fix = "rename or remove one" + (", or add a header line" if value_in_header(names) else "")
        raise InputError(f"{where}: column '{twice[0]}' stands twice in the header; {fix}")


_UNCLEAR = re.compile(r"[;\t|\r\ufeff]")  # in the name of a column
_URL = re.compile(r"\w\w:/")  # as a path it has one slash of two
LARGEST = 2**32  # bytes that a packed file may unpack to


def read_raw(path: str | os.PathLike[str], domain: Domain | None = None) -> pd.DataFrame:
    r"""Read a raw table: CSV in UTF-8 with a header, cells apart by ``, ; tab`` or ``|``; other kinds by the ending.

    These are Parquet, sheets of Excel workbooks (``stays.xlsx?sheet=2024`` where there are several), and files of
    Stata, SPSS and SAS, whose codes are read as their labels where the domain names labels; see `with_labels`. A CSV
    file may be packed by gzip, or alone in a zip.

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
    frame, labels = read_declared(path)
    return with_labels(frame, labels, domain) if labels else frame


def is_read_whole(path: str | os.PathLike[str]) -> bool:
    """Whether a file is of a kind that is read into memory, whatever its size: of Excel, Stata, SPSS or SAS.

    >>> is_read_whole("survey.sav"), is_read_whole("stays.xlsx?sheet=2024"), is_read_whole("stays.parquet")
    (True, True, False)
    """
    return sheet_of(path) is not None or bool(program_of(path))


def read_declared(path: str | os.PathLike[str]) -> tuple[pd.DataFrame, Labels]:
    """Return a raw table with the codes of its columns, and the value labels that the file declares; see `read_raw`.

    >>> read_declared("no/such/file.dta")
    Traceback (most recent call last):
    marginalia.errors.InputError: cannot read no/such/file.dta: No such file
    """
    if not is_read_whole(path):
        return _of_text_or_parquet(path), {}
    labels: Labels = {}
    if named := sheet_of(path):
        frame = read_sheet(*named)
    else:
        frame, labels = read_labelled(path)
    check_header(list(frame.columns), str(path))
    return frame, labels


def _of_text_or_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    check_is_no_url(path)
    if Path(path).suffix == ".parquet":
        with reading_parquet(os.fspath(path)):
            frame = arrow_frame(_parquet_table(path))
        frame.columns = [str(name) for name in frame.columns]
        check_header(list(frame.columns), str(path))
        return frame
    file = CSVFile.scan(path, largest=LARGEST)
    check_header(list(file.names), str(path))
    return _text_frame(file)


def _text_frame(file: CSVFile) -> pd.DataFrame:
    """Return the rows of a CSV file, each column as a categorical of text."""
    import pandas as pd
    import pyarrow as pa

    schema = pa.schema([(name, pa.dictionary(pa.int32(), pa.string())) for name in file.names])
    table = pa.Table.from_batches(file.batches(), schema).unify_dictionaries().combine_chunks()
    columns = {}
    for name, column in zip(file.names, table.columns, strict=True):
        cells = column.combine_chunks()
        distinct = pd.Index(cells.dictionary.to_pylist(), dtype=object)
        columns[name] = pd.Categorical.from_codes(cells.indices.to_numpy(), categories=distinct)
    return pd.DataFrame(columns)


def _parquet_table(path: str | os.PathLike[str]) -> Any:
    if not os.path.isdir(path):
        return ParquetFile.scan(path).read()
    from pyarrow import parquet

    return parquet.read_table(path, coerce_int96_timestamp_unit="us")


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


def arrow_frame(table: Any) -> pd.DataFrame:
    """Return an Arrow table as a data frame with the same cells; days and times of day are objects of `Cell`.

    >>> import pyarrow as pa
    >>> far = pa.chunked_array([pa.array([0, 3_700_000], pa.int32()).cast(pa.date32())])
    >>> frame = arrow_frame(pa.table({"a": [2**60, None], "b": far}))
    >>> frame["a"].tolist(), frame["b"].tolist()[1]
    ([1152921504606846976, None], Cell(kind='text', text='12100-04-04'))
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
            frame[name] = cells_of(frame[name]).rows()
    return frame


def is_frame(given: object) -> bool:
    """Whether this is a data frame, one that hands out Arrow columns: of pandas, Polars, PyArrow, Narwhals or DuckDB.

    >>> import pyarrow as pa
    >>> is_frame(pa.table({"a": [1]})), is_frame([[1, 2]])
    (True, False)
    """
    return hasattr(given, "__arrow_c_stream__") and hasattr(given, "columns")


def is_polars(given: object) -> bool:
    """Whether this is a data frame of Polars.

    >>> is_polars([[1, 2]])
    False
    """
    polars = sys.modules.get("polars")  # whoever has a frame of it has imported it
    return polars is not None and isinstance(given, polars.DataFrame)


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


def check_collected(given: object) -> None:
    """Raise for a lazy frame of Polars, which holds a query and no rows.

    >>> LazyFrame = type("LazyFrame", (), {"__module__": "polars.lazyframe.frame"})
    >>> check_collected(LazyFrame())
    Traceback (most recent call last):
    marginalia.errors.InputError: rows are needed, not polars LazyFrame: call .collect() first
    """
    if type(given).__name__ == "LazyFrame":
        raise InputError(f"rows are needed, not {kind_of(given)}: call .collect() first")


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
