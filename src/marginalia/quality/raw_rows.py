"""Read the raw cells of the tables that are compared, as numbers, seconds and texts, whatever the domain's bins are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.cells import Cell, cells_of
from marginalia.data.column import NUMBERS, Column, PrivateBins
from marginalia.data.domain import Domain
from marginalia.data.number_formats import read_number
from marginalia.data.sources.opening import Data
from marginalia.data.table import Table
from marginalia.data.units import Numbers, Unit, check_spellings, keys_of
from marginalia.errors import InputError
from marginalia.progress import bar
from marginalia.quality.cells import Values

MOST_ROWS = 100_000  # of each table that are compared
_TIMES = ("date", "timestamp")


def sampled(n: int, *, seed: int, most: int = MOST_ROWS) -> NDArray[np.int64]:
    """Return the numbers of the rows that are compared, ascending: all, or `most` of them drawn at random by `seed`.

    >>> sampled(3, seed=0), len(sampled(10, seed=0, most=4))
    (array([0, 1, 2]), 4)
    """
    if n <= most:
        return np.arange(n)
    return np.sort(np.argpartition(np.random.default_rng(seed).random(n), most)[:most])


def random_half(units: Numbers, *, seed: int, larger: bool = False) -> NDArray[np.bool_]:
    """Return which rows lie in a random half of the units: all rows of a unit, or none.

    Parameters
    ----------
    units : ndarray of shape (n,)
        The number of the unit of each row; without privacy units, each row is one.
    seed : int
    larger : bool
        Of an odd number of units, the larger half.

    >>> random_half(np.array([7, 9, 7, 7]), seed=0)
    array([ True, False,  True,  True])
    """
    distinct, number = np.unique(units, return_inverse=True)
    chosen = np.zeros(len(distinct), dtype=bool)
    chosen[np.random.default_rng(seed).permutation(len(distinct))[: (len(distinct) + larger) // 2]] = True
    return chosen[number]


def kind_of(attribute: Column) -> str:
    """Return whether cells of a column are compared as numbers, as times or as texts.

    >>> kind_of(Column("age", 1, edges=(0, 9), type="integer")), kind_of(Column("ill", 2, type="boolean"))
    ('number', 'text')
    """
    if attribute.type in _TIMES:
        return "time"
    return "text" if attribute.type in ("string", "boolean") else "number"


@dataclass(frozen=True)
class Sample:
    """The rows of a table that are compared.

    Attributes
    ----------
    frame : DataFrame
        Raw cells of the columns of the domain, and of those that it derives from them.
    n_rows : int
        Of the whole table.
    unit : Unit or None
        The privacy unit of the domain.
    units : ndarray of shape (n,) or None
        The number of the unit of each row; None without a unit, or where the table lacks its column.
    """

    frame: pd.DataFrame
    n_rows: int
    unit: Unit | None = None
    units: Numbers | None = None

    @classmethod
    def read(
        cls,
        data: str | os.PathLike[str],
        domain: Domain,
        *,
        unit: Unit | None = None,
        seed: int = 0,
        verbose: bool = False,
    ) -> Sample:
        """Read `sampled` rows of a file, of files of a pattern, or of a database; see `Data`.

        All rows count, also those that a fit leaves out of its units; the domain names none, `unit` does.
        The rows are counted first, so that memory holds the sampled rows and a batch only.
        """
        named = Data.parse(data)
        source = named.stream(domain.placeholder())
        n_rows, first = source.n_rows, 0
        if not n_rows:
            raise InputError(f"{named.name}: the table has no rows")
        rows, parts, keys = sampled(n_rows, seed=seed), [], []
        known = unit if unit is not None and unit.column in source.columns else None
        with bar(f"rows of {named.name}", n_rows, verbose=verbose) as advance:

            def among_next(n: int) -> NDArray[np.int64]:
                nonlocal first
                ends = np.searchsorted(rows, [first, first + n])
                found = rows[slice(*ends)] - first
                first += n
                advance(n)
                return found

            also = [*dict(source.domain.rules.derived), *([] if known is None else [known.column])]
            for batch in source.raw(among_next, also):
                if known is not None:
                    texts, which = keys_of(batch.pop(known.column), known)
                    keys.append(texts[which])
                parts.append(pd.DataFrame({name: column.rows() for name, column in batch.items()}, dtype=object))
        frame, units = pd.concat(parts, ignore_index=True), None
        if known is not None:
            distinct, units = np.unique(np.concatenate(keys), return_inverse=True)
            check_spellings(distinct.tolist(), known)
        return cls(frame, n_rows, unit, units)

    def coded(self, domain: Domain, where: str) -> Table:
        """Return the codes of these rows."""
        return Table.from_frame(self.frame[list(domain.names)], domain, where=where)

    def values(self, compared: Mapping[str, Column]) -> dict[str, Values]:
        """Return the raw columns of these attributes that the table has."""
        return {name: values_of(self.frame[name], a) for name, a in compared.items() if name in self.frame.columns}


def attributes_of(domain: Domain) -> dict[str, Column]:
    """Return the attributes of a domain, and a placeholder for each column that it derives from them.

    >>> content = {"attributes": [{"name": "a", "type": "integer", "edges": [0, 9]}], "derived": {"b": "2 * a"}}
    >>> [a.type for a in attributes_of(Domain.from_dict(content)).values()]
    ['integer', 'integer']
    """
    found = {attribute.name: attribute for attribute in domain}
    bins = PrivateBins("adaptive")
    for name, compiled in domain.rules.compiled(domain.columns).items():
        of_type: Any = compiled.type
        if of_type == "boolean":
            found[name] = Column(name, 2, type="boolean")
        elif of_type == "string":
            found[name] = Column(name, type="string", private="labels").placeholder()
        elif of_type in NUMBERS and of_type != "timestamp":
            found[name] = Column(name, type=of_type, private=bins).placeholder()
        else:
            found[name] = Column(name, type="timestamp", unit="second", private=bins).placeholder()
    return found


def values_of(cells: pd.Series[Any], attribute: Column) -> Values:
    """Return a raw column as what it is compared as; a cell without a value is the empty text."""
    column = cells_of(cells, attribute.name, lenient=True)
    distinct = [*column.listed, Cell("text", "")]
    texts = np.array([attribute.merged(cell.text) for cell in distinct], dtype=object)
    kind, numbers = kind_of(attribute), np.full(len(distinct), np.nan)
    if kind == "number":
        numbers = pd.to_numeric(pd.Series(texts), errors="coerce").to_numpy(float)
        if attribute.format is not None:
            numbers = _numbers(distinct, attribute.format)
    elif kind == "time":
        numbers = _seconds(distinct, attribute.format, attribute.zone, attribute.pivot)
    return Values.of_distinct(np.where(column.which < 0, len(distinct) - 1, column.which), texts, numbers)


def _numbers(distinct: Sequence[Cell], format: str) -> NDArray[np.float64]:
    """Return the numbers that cells are by a format; NaN where a cell is none."""
    found = np.full(len(distinct), np.nan)
    for i, cell in enumerate(distinct):
        with suppress(ValueError):
            found[i] = read_number(cell, format)
    return found


def _seconds(
    distinct: Sequence[Cell | str], format: str | None, zone: str | None, pivot: int | None = None
) -> NDArray[np.float64]:
    """Return seconds since 1970 of dates and times, instants on the clocks of `zone` (UTC); NaN where a cell is none.

    >>> _seconds(["1970-01-02", "1970-01-01T01:00:00+01:00", "?"], None, None)
    array([86400.,     0.,    nan])
    """
    found = np.full(len(distinct), np.nan)
    for i, cell in enumerate(distinct):
        try:
            found[i] = values.moment(cell, "second", format, zone=zone, pivot=pivot)
        except ValueError:
            continue
    return found
