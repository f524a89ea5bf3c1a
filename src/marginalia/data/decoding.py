"""Turn codes back into original values; inside a bin a value is drawn, uniformly and from a seeded stream."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.attribute import BOOLEANS, Attribute
from marginalia.data.files import atomic_path
from marginalia.data.reading import csv_quoting

if TYPE_CHECKING:
    import pandas as pd

    from marginalia.data.domain import Domain
    from marginalia.data.table import Randomness, Table


def original_values(codes: NDArray[np.integer], attribute: Attribute, rng: np.random.Generator) -> pd.Series[Any]:
    """Return the values behind the codes of one attribute.

    A value of a bin is drawn uniformly inside it: whole numbers for integers, days for dates, and numbers rounded to
    three significant digits of the bin's width. An open outer bin counts as it stands, from edge to edge.

    Returns
    -------
    Series
        Codes as they are where the attribute holds codes; text, integers as int64 or (with missing values)
        Int64, numbers as float64, Booleans as bool or boolean, dates as datetime64. A missing value is the first mark
        where that is a value of the type, else pandas' own.

    Examples
    --------
    >>> age = Attribute("age", 3, edges=(0, 18, 65), type="integer", missing=())
    >>> original_values(np.array([0, 1, 2]), age, np.random.default_rng(0)).tolist()
    [15, 47, <NA>]
    """
    import pandas as pd

    if attribute.holds_codes:
        return pd.Series(codes)
    codes = np.asarray(codes)
    gone = codes == attribute.size - 1 if attribute.missing is not None else np.zeros(codes.shape, dtype=bool)
    mark = next(iter(attribute.missing or ()), None)
    if attribute.type == "string":
        known = [*(attribute.labels or ()), *(() if attribute.other is None else (attribute.other,)), mark]
        return pd.Series(known).take(codes).reset_index(drop=True)
    if attribute.type == "boolean":
        truth = pd.Series(codes == 1)
        return truth.astype("boolean").mask(gone) if gone.any() else truth
    here = np.where(gone, 0, codes)
    if attribute.edges is None:
        numbers = np.array(attribute.label_values, dtype=np.float64)[here]
    else:
        numbers = _inside_bins(here, attribute, rng)
    if attribute.mark_value is not None:
        numbers[gone] = attribute.mark_value
        gone = np.zeros_like(gone)
    if attribute.type == "number":
        return pd.Series(np.where(gone, np.nan, numbers))
    whole = pd.Series(numbers.astype(np.int64))
    if attribute.type == "integer":
        return whole.astype("Int64").mask(gone) if gone.any() else whole
    days = numbers.astype(np.int64).astype("datetime64[D]")
    days[gone] = np.datetime64("NaT", "D")
    return pd.Series(days.astype("datetime64[s]"))


def as_text(column: pd.Series[Any], attribute: Attribute) -> pd.Series[Any]:
    """Return original values as a CSV file holds them: ISO dates, Booleans by their labels, missing ones by their mark.

    >>> import pandas as pd
    >>> ill = Attribute("ill", 3, labels=("no", "yes"), type="boolean", missing=("?",))
    >>> as_text(pd.Series([True, None], dtype="boolean"), ill).tolist()
    ['yes', '?']
    """
    import pandas as pd

    if attribute.holds_codes or attribute.type == "string":
        return column
    gone = column.isna()
    if attribute.type == "date":
        if attribute.format is not None:
            column = column.dt.strftime(attribute.format).astype(object)
        else:
            column = pd.Series(np.datetime_as_string(column.to_numpy().astype("datetime64[D]")), dtype=object)
    elif attribute.type == "boolean":
        labels = np.array(attribute.labels or BOOLEANS, dtype=object)
        column = pd.Series(labels[column.fillna(False).to_numpy(dtype=bool).astype(int)], dtype=object)
    mark = next(iter(attribute.missing or ()), None)
    return column.astype(object).mask(gone, mark) if gone.any() else column


def write_batches(
    batches: Iterable[Table], domain: Domain, path: str | os.PathLike[str], *, random_state: Randomness = None
) -> None:
    r"""Write tables of a domain, one after the other, as original values to one CSV or Parquet file, atomically.

    Memory holds one of them. A table alone gives the file of its `to_csv` or `to_parquet`.

    >>> from tempfile import TemporaryDirectory
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.table import Table
    >>> rows = Table([[0], [1]], Domain.from_sizes({"a": 2}))
    >>> with TemporaryDirectory() as folder:
    ...     write_batches([rows, rows], rows.domain, f"{folder}/t.csv")
    ...     open(f"{folder}/t.csv").read()
    'a\n0\n1\n0\n1\n'
    """
    stream = np.random.default_rng(random_state)
    waiting = iter(batches)
    some = list(islice(waiting, 2))
    parquet = os.fspath(path).endswith(".parquet")
    if len(some) == 1:
        (some[0].to_parquet if parquet else some[0].to_csv)(path, random_state=stream)
        return
    frames = (batch.to_frame(original=True, random_state=stream) for batch in chain(some, waiting))
    with atomic_path(path) as temporary:
        (_parquet if parquet else _csv)(frames, domain, temporary)


def _parquet(frames: Iterator[pd.DataFrame], domain: Domain, path: Path) -> None:
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    # The types of the columns are those of a table that has every code.
    every = np.arange(max(domain.sizes, default=1))[:, None]
    codes = np.minimum(every, np.array(domain.sizes) - 1).astype(np.int32 if len(every) > 2**15 else np.int16)
    pairs = zip(domain, codes.T, strict=True)
    columns = {a.name: original_values(column, a, np.random.default_rng(0)) for a, column in pairs}
    schema = pa.Schema.from_pandas(pd.DataFrame(columns), preserve_index=False)
    with parquet.ParquetWriter(path, schema) as writer:
        for frame in frames:
            writer.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))


def _csv(frames: Iterator[pd.DataFrame], domain: Domain, path: Path) -> None:
    quoting = csv_quoting(domain.names, chain.from_iterable(a.written for a in domain))
    header = True
    with path.open("w", encoding="utf-8", newline="") as file:
        for frame in frames:
            for attribute in domain:
                frame[attribute.name] = as_text(frame[attribute.name], attribute)
            frame.to_csv(file, index=False, header=header, lineterminator="\n", quoting=quoting)
            header = False


def _inside_bins(codes: NDArray[np.integer], attribute: Attribute, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a value inside the bin of each code that is no mark of a missing value."""
    edges = np.array(attribute.edges, dtype=np.float64)
    draw = _numbers_between if attribute.type == "number" else _whole_numbers_between
    numbers = draw(edges[codes], edges[codes + 1], rng)
    marks = list(attribute.mark_values)
    while marks and (again := np.flatnonzero(np.isin(numbers, marks))).size:
        numbers[again] = draw(edges[codes[again]], edges[codes[again] + 1], rng)
    return numbers


def _whole_numbers_between(
    low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = rng.integers(np.ceil(low).astype(np.int64), np.ceil(high).astype(np.int64))
    return drawn.astype(np.float64)


def _numbers_between(
    low: NDArray[np.float64], high: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    drawn = low + rng.random(low.shape) * (high - low)
    digits = (2 - np.floor(np.log10(high - low))).astype(int)
    wide = high - low > 100 * np.spacing(np.maximum(abs(low), abs(high)))  # of fewer doubles none is round
    rounded = drawn.copy()
    for d in np.unique(digits[wide]):
        if -300 < d < 23:  # beyond, rounding itself over- or underflows
            rounded[wide & (digits == d)] = np.round(drawn[wide & (digits == d)], d)
    # Rounding can leave the bin at its ends: to the end that belongs to it. No -0.0.
    return np.where((rounded < low) | (rounded >= high), low, rounded) + 0.0
