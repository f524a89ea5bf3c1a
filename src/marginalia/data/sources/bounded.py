"""The rows of a stream that are kept of their units: the same as of the whole table in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.coding import Fault, RawColumn
from marginalia.data.sources import arrow
from marginalia.data.sources.arrow import ArrowSource, without_views
from marginalia.data.units import (
    BoughtUnit,
    Hashes,
    Numbers,
    Unit,
    check_spellings,
    hashes_of,
    kept_rows,
    keys_of,
    place_in_run,
    row_hashes,
)
from marginalia.errors import InputError
from marginalia.memory import check_cost

_BYTES_A_ROW, _BYTES_A_UNIT = 100, 200  # while they are ranked; for the text of its key


class Bounded(ArrowSource):
    """The rows of a source that are kept of their units, at most `unit.rows` of each; see `data.units`.

    The first pass reads every row's key and codes, and chooses; each later one reads them again, since a database
    promises no order, and lets through the rows that were chosen. Keys are told apart by their whole text: a hash in
    its place could merge two units, and where one of these leaves, rows of the other would come in, which is no
    neighbour under add/remove. Memory holds the text of each key and, while the first pass lasts, 100 bytes a row; what
    does not fit is refused.

    Parameters
    ----------
    source : ArrowSource
        Its domain ignores the column of the unit.
    unit : Unit

    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> from marginalia.data.domain import Domain
    >>> from marginalia.data.sources.parquet import ParquetSource
    >>> with TemporaryDirectory() as folder:
    ...     pd.DataFrame({"id": [7, 7, 7, 8], "a": [0, 1, 1, 1]}).to_parquet(f"{folder}/t.parquet")
    ...     domain = Domain(Domain.from_sizes({"a": 2}), ignored=["id"])
    ...     rows = Bounded(ParquetSource(f"{folder}/t.parquet", domain=domain), Unit("id", 2))
    ...     rows.n_rows, rows.n_units
    (3, 2)
    """

    unit: Unit

    def __init__(self, source: ArrowSource, unit: Unit) -> None:
        if isinstance(unit, BoughtUnit):
            raise InputError(
                "how many rows of each unit are kept is bought from rows in one file that fits into memory, not from "
                "streamed ones; say a number in rows_per_unit"
            )
        if unit.column not in source.columns:
            raise InputError(f"column '{unit.column}', the unit of the domain, is missing in {source!r}")
        self._source, self.unit = source, unit
        super().__init__(source.domain.names, source.domain, "rows")
        self.columns = source.columns
        self._done = source._done  # its passes are passes over the rows of that

    def __repr__(self) -> str:
        return f"Bounded({self._source!r}, {self.unit!r})"

    @property
    def n_rows(self) -> int:
        """Number of records that are kept."""
        return int(self._chosen.copies.sum())

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self._chosen.sizes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many rows each unit has in the source: for the eyes of their owner."""
        return self._chosen.sizes

    def units_of(self, keys: Any) -> tuple[Numbers, Hashes]:
        """See `ArrowSource.units_of`; numbers count as they are met."""
        hashes, numbers = self._numbered(keys)
        return numbers, hashes

    def faults(self) -> Iterator[tuple[str, Fault]]:
        """See `ArrowSource.faults`: of all rows."""
        return self._source.faults()

    def folded(self) -> list[str]:
        """See `ArrowSource.folded`: of all rows."""
        return self._source.folded()

    @cached_property
    def _names(self) -> dict[str, int]:
        return {}

    @cached_property
    def _chosen(self) -> _Chosen:
        """Read every row once."""
        units, hashes, n = [], [], 0
        for number, hashed, _, _ in self._hashed([]):
            n += len(number)
            check_cost(
                f"to choose rows of each `{self.unit.column}` among {n:,} rows that are streamed",
                _BYTES_A_ROW * n + _BYTES_A_UNIT * len(self._names),
                mend="let a query of the database choose them, by row_number() over (partition by the unit)",
            )
            units.append(number)
            hashes.append(hashed)
        try:
            check_spellings(self._names, self.unit)
        except InputError as error:
            raise InputError(f"{self._source!r}: {error}") from None
        if not n:
            return _Chosen.of(np.empty(0, np.int64), np.empty(0, np.uint64), self.unit)
        return _Chosen.of(np.concatenate(units), np.concatenate(hashes), self.unit)

    def _numbered(self, keys: Any) -> tuple[Hashes, Numbers]:
        texts, which = keys_of(RawColumn.of_arrow(keys, self.unit.column, lenient=True), self.unit)
        numbers = np.array([self._names.setdefault(text, len(self._names)) for text in texts.tolist()], np.int64)
        return hashes_of(texts)[which], numbers[which]

    def _hashed(self, columns: Sequence[str]) -> Iterator[tuple[Numbers, Hashes, str, Any]]:
        """Yield of each batch the units and the hashes of its rows, where they are from, and the batch."""
        of = self._source._given
        also = [name for name in (*columns, self.unit.column) if name not in of.names]
        for where, first, batch in self._source._arrow([*of.names, *dict.fromkeys(also)]):
            try:
                keys, number = self._numbered(batch.column(self.unit.column))
            except InputError as error:
                raise InputError(f"{where}, rows from {first}: {error}") from None
            codes = [arrow._coded(batch.column(name), of[name], where, first) for name in sorted(of.names)]
            yield number, row_hashes(keys, codes), where, batch

    def _arrow(self, columns: Sequence[str]) -> Iterator[tuple[str, int, Any]]:
        import pyarrow as pa

        chosen, n_units, row = self._chosen, self.n_units, 0
        seen = np.zeros_like(chosen.copies)
        for number, hashed, where, batch in self._hashed(columns):
            keep = chosen.among(number, hashed, seen)
            mine = without_views(batch.select(list(columns))).filter(pa.array(keep))
            yield f"{where}, rows kept of their units", row, mine
            row += int(keep.sum())
        if len(self._names) != n_units or not np.array_equal(seen, chosen.copies):
            raise InputError(
                f"{self._source!r}: the rows have changed since some of each unit were chosen; begin again"
            )


@dataclass(frozen=True)
class _Chosen:
    """How many copies of which row of which unit are kept."""

    hashes: Hashes  # of rows that are kept, ascending
    pairs: NDArray[np.int64]  # of a unit and the place of its row in `hashes`, as one number; ascending
    copies: NDArray[np.int64]  # that are kept of each pair
    sizes: NDArray[np.int64]  # how many rows each unit has, kept or not

    @classmethod
    def of(cls, units: Numbers, hashes: Hashes, unit: Unit) -> _Chosen:
        kept = kept_rows(units, hashes, unit)
        distinct, which = np.unique(hashes[kept], return_inverse=True)
        pairs, copies = np.unique(units[kept] * len(distinct) + which, return_counts=True)
        return cls(distinct, pairs, copies, np.bincount(units))

    def among(self, units: Numbers, hashes: Hashes, seen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some rows are kept, after as many of each pair as were `seen`, to which they are added."""
        keep = np.zeros(len(units), bool)
        if not len(self.pairs):
            return keep
        which = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        pair = units * len(self.hashes) + which
        at = np.minimum(np.searchsorted(self.pairs, pair), len(self.pairs) - 1)
        rows = np.flatnonzero((self.hashes[which] == hashes) & (self.pairs[at] == pair))
        rows = rows[np.argsort(at[rows], kind="stable")]
        at = at[rows]
        rows, at = (of[seen[at] + place_in_run(at) < self.copies[at]] for of in (rows, at))
        np.add.at(seen, at, 1)
        keep[rows] = True
        return keep
