"""Contribution bounding of streamed rows: the same rows are kept as of a table in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from marginalia.data.cells import cells_of
from marginalia.data.sources.stream import Stream
from marginalia.data.table import Table
from marginalia.data.units import (
    Hashes,
    Numbers,
    Unit,
    by_key,
    check_spellings,
    hashes_of,
    kept_rows,
    keys_of,
    row_hashes,
)
from marginalia.errors import InputError
from marginalia.memory import check_cost

_BYTES_PER_ROW, _BYTES_PER_KEY = 100, 200  # while rows are ranked, beside their codes; of the text of a key


def bound_contributions(source: Stream, unit: Unit) -> Table:
    """Return at most `unit.rows` rows of each privacy unit, as `Table.from_frame` does; see `marginalia.data.units`.

    One pass holds the codes of all rows and the text of each key in memory, and 100 bytes per row to choose by.

    Parameters
    ----------
    source : Stream
        Its domain ignores the column of the unit.
    unit : Unit

    Raises
    ------
    InputError
        The column of the unit is missing, a key is no value of its type, or the rows do not fit in memory.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.sources.files import stream_files
    >>> with TemporaryDirectory() as folder:
    ...     pd.DataFrame({"id": [7, 7, 7, 8], "a": [0, 1, 1, 1]}).to_parquet(f"{folder}/t.parquet")
    ...     domain = Domain(Domain.from_sizes({"a": 2}), ignored=["id"])
    ...     rows = bound_contributions(stream_files(f"{folder}/t.parquet", domain=domain), Unit("id", 2))
    ...     rows.n_rows, rows.n_units
    (3, 2)
    """
    names = source.domain.names
    parts: list[NDArray[np.integer]] = [np.empty((len(names), 0), np.uint8)]
    units, keys, hashes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for number, key, codes in _keyed(source, unit, names):
        parts.append(codes)
        units.append(number)
        keys.append(key)
        hashes.append(row_hashes(key, [codes[names.index(name)] for name in sorted(names)]))
    number, key = np.concatenate(units), np.concatenate(keys)
    number = by_key(number, key)
    kept = kept_rows(number, np.concatenate(hashes), unit)
    chosen = [np.concatenate([part[j] for part in parts])[kept] for j in range(len(names))]
    return Table(np.stack(chosen, axis=1), source.domain).of_units(unit, number[kept], key[kept])


def sizes_of_units(source: Stream, unit: Unit) -> NDArray[np.int64]:
    """Return how many rows each privacy unit has: private, for the owner of the rows alone.

    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.sources.files import stream_files
    >>> with TemporaryDirectory() as folder:
    ...     pd.DataFrame({"id": [7, 7, 7, 8], "a": [0, 1, 1, 1]}).to_parquet(f"{folder}/t.parquet")
    ...     domain = Domain(Domain.from_sizes({"a": 2}), ignored=["id"])
    ...     sizes_of_units(stream_files(f"{folder}/t.parquet", domain=domain), Unit("id", 2))
    array([3, 1])
    """
    return np.bincount(np.concatenate([np.empty(0, np.int64), *(number for number, _, _ in _keyed(source, unit, []))]))


def _keyed(source: Stream, unit: Unit, names: Sequence[str]) -> Iterator[tuple[Numbers, Hashes, NDArray[np.integer]]]:
    """Yield of each batch the number of the unit of each row, the hash of its key, and the codes of some columns."""
    if unit.column not in source.columns:
        raise InputError(f"column '{unit.column}', the unit of the domain, is missing in {source.name}")
    # Units are distinguished by the whole text of their keys. A hash in its place could merge two units: where one of
    # these leaves, rows of the other would be kept instead, and the tables would be no neighbours under add/remove.
    known: dict[str, int] = {}
    n = 0
    for batch, codes in source._coded(names, [unit.column]):
        n += len(batch)
        check_cost(
            f"to choose rows of each `{unit.column}` among {n:,} rows that are streamed",
            (_BYTES_PER_ROW + len(names) * codes.itemsize) * n + _BYTES_PER_KEY * len(known),
            mend="let a query of the database choose them, by row_number() over (partition by the unit)",
        )
        try:
            texts, which = keys_of(cells_of(batch.column(unit.column), unit.column, lenient=True), unit)
        except InputError as error:
            raise InputError(f"{batch.where}, rows from {batch.first}: {error}") from None
        number = np.array([known.setdefault(text, len(known)) for text in texts.tolist()], np.int64)
        yield number[which], hashes_of(texts)[which], codes
    try:
        check_spellings(known, unit)
    except InputError as error:
        raise InputError(f"{source.name}: {error}") from None
