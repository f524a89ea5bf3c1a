"""The rows that have a target: those without one are left out before a fit sees them."""

from __future__ import annotations

from dataclasses import replace

from marginalia.data.coding import codes_of
from marginalia.data.column import Column
from marginalia.data.domain import Domain
from marginalia.data.sources.stream import Stream
from marginalia.data.table import PrivateRows, RawTable, Table


def complete(rows: PrivateRows, target: str) -> PrivateRows:
    """Return the rows whose target is not missing, of a domain in which it cannot be.

    Whether a row stays depends on that row and the public domain alone: tables that differ by one row give tables that
    differ by one row at most. So a release of these rows that protects one row more or less protects one row of all
    rows as well. Their number is another matter: where a row is replaced it may change, so it is never public.

    Parameters
    ----------
    rows : Table, RawTable or Stream
    target : str

    Examples
    --------
    >>> ill = Column("ill", 3, labels=("no", "yes"), type="string", missing=())
    >>> table = Table([[0], [2], [1], [2]], Domain([ill]))
    >>> complete(table, "ill").counts(["ill"])
    array([1, 1])
    """
    column = next((a for a in rows.domain if a.name == target), None)
    if column is None or column.is_open or column.missing is None:
        return rows  # nothing can be missing, or it is said elsewhere why there is nothing to learn
    if isinstance(rows, RawTable):
        codes, _ = codes_of(rows.frame[target], column)
        domain = rows.domain.with_column(_never_missing(column))
        return replace(rows.take(codes != column.missing_code), domain=domain)
    if isinstance(rows, Table):
        kept = rows.take(rows.column(target) != column.missing_code)
        return Table(kept.codes, _domain(rows.domain, column)).of_units(kept.unit, kept.units, kept.unit_keys)
    assert isinstance(rows, Stream)
    return rows.complete(target, _domain(rows.domain, column))


def _never_missing(column: Column) -> Column:
    """Return the column without a code of missing values; its marks decide which rows are left, and stay inferred."""
    return column.replace(size=column.size - 1, missing=None)


def _domain(domain: Domain, column: Column) -> Domain:
    """Return the domain without the code of a missing target, and without the structural zeros that name it."""
    zeros = []
    for zero in domain.structural_zeros:
        at = zero.attributes.index(column.name) if column.name in zero.attributes else None
        cells = tuple(cell for cell in zero.cells if at is None or cell[at] != column.missing_code)
        zeros += [replace(zero, cells=cells)] if cells else []
    columns = [_never_missing(a) if a.name == column.name else a for a in domain]
    source, ignored, weights = domain.source, domain.ignored, domain.weights
    return Domain(columns, source=source, structural_zeros=zeros, ignored=ignored, weights=weights)
