"""Private rows, and what methods may ask of them: exact counts of a few columns, their number, the rows in batches.

In memory they are a `Table` of codes, or a `RawTable` of an open domain.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from marginalia.data.cells import cells_of
from marginalia.data.coding import ROWS, as_text, check_not_ambiguous
from marginalia.data.column import Column
from marginalia.data.domain import Domain, Public, public_domain
from marginalia.data.encode import Batch, check_columns, encode, zero_problems
from marginalia.data.files import atomic_path
from marginalia.data.parquet_files import whole_numbers
from marginalia.data.reading import (
    check_collected,
    csv_quoting,
    is_frame,
    kind_of,
    pandas_frame,
    read_raw,
    with_text_names,
    without_formulas,
)
from marginalia.data.rules.decoding import values_under_rules
from marginalia.data.rules.feasible import with_feasible_rows
from marginalia.data.units import (
    Hashes,
    Numbers,
    Unit,
    by_key,
    content_hashes,
    kept_rows,
    key_hashes,
    row_hashes,
)
from marginalia.data.values import text
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    Randomness = int | np.random.SeedSequence | np.random.Generator | None


Counts = NDArray[np.int64]


class PrivateRows(ABC):
    """Private rows that a fit takes: as codes, or in original values with labels or edges left to be learned.

    >>> sorted(PrivateRows.__abstractmethods__)
    ['n_rows']
    """

    domain: Domain  # what is public of them; open where labels or edges are to be learned before they have codes
    unit: Unit | None = None  # whose rows are protected together, at most `unit.rows` of each; None: each row alone

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of records."""

    @property
    def n_units(self) -> int:
        """Number of units; of records, where each is one."""
        return self.n_rows

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self.domain.names


class CountSource(PrivateRows):
    """Private rows of a public domain: a `Table` in memory, or a `Stream` of rows that stay where they are.

    A method that needs only counts runs on both, and the same seed gives the same release from each. A method calls
    these functions inside a mechanism, like everything that reads private rows; `expect` reads nothing.

    >>> source = Table([[0, 1], [1, 1]], Domain.from_sizes({"a": 2, "b": 2}))
    >>> isinstance(source, CountSource), source.counts(["b"])
    (True, array([0, 2]))
    """

    @abstractmethod
    def counts(self, names: Sequence[str]) -> Counts:
        """Return the marginal on `names` as counts, shape = the size of each name, in the order given."""

    @abstractmethod
    def expect(self, marginals: Iterable[Sequence[str]]) -> None:
        """Announce the marginals that will be needed, so that one pass over the rows can count many of them."""

    @abstractmethod
    def recoded(self, codes: Mapping[str, NDArray[np.integer]], domain: Domain) -> CountSource:
        """Return the same rows with every code c of column `name` replaced by ``codes[name][c]``, of `domain`."""

    @abstractmethod
    def batches(self) -> Iterator[Table]:
        """Yield the rows, in the order they lie in, as tables that fit in memory."""

    @abstractmethod
    def in_memory(self) -> Table:
        """Return all rows as one table; InputError where they do not fit in memory."""


class Table(CountSource):
    """Integer codes (n x d) and the `Domain` they live in; immutable.

    Parameters
    ----------
    codes : array-like of shape (n, d)
        Integers, or floats that are whole numbers; column j in ``0 .. domain.sizes[j]-1``.
    domain : Domain

    Attributes
    ----------
    codes : ndarray of shape (n, d), int16 or int32, read-only
    domain : Domain
    unit : Unit or None
    units : ndarray of shape (n,), int64, or None
        The number of the unit of each row; see `from_frame`.
    unit_keys : ndarray of shape (n,), uint64, or None
        A hash of the key of the unit of each row. What is decided for one unit must follow from it and not from the
        number, which depends on other units.

    Raises
    ------
    InputError
        Wrong shape, a fraction, NaN, or a code outside the domain; the message names the column and row. Or the domain
        names a unit, whose column codes do not have.

    Examples
    --------
    >>> table = Table([[0, 1], [1, 1], [1, 2]], Domain.from_sizes({"smoker": 2, "region": 3}))
    >>> table.counts(["smoker", "region"])
    array([[0, 1, 0],
           [0, 1, 1]])
    """

    units: Numbers | None = None
    unit_keys: Hashes | None = None

    def __init__(self, codes: ArrayLike, domain: Domain) -> None:
        if domain.unit is not None:
            raise _without_units(domain.unit, "Table.from_frame", "domain.project(domain.names)")
        array = np.asarray(codes)
        if array.ndim != 2 or array.shape[1] != len(domain):
            raise InputError(
                f"codes have shape {array.shape}, the domain has {len(domain)} columns: need (n, {len(domain)})"
            )
        # Column-major: every reader works column by column.
        out = np.empty(array.shape, dtype=_compact(domain), order="F")
        for j, column in enumerate(domain.columns):
            out[:, j] = _checked_column(array[:, j], column.name, column.size)
        out.flags.writeable = False
        self.codes: NDArray[np.integer] = out
        self.domain = domain

    @classmethod
    def _trusted(cls, codes: NDArray[np.integer], domain: Domain) -> Table:
        """Wrap codes that come from another `Table`, without checking them again."""
        table = cls.__new__(cls)
        codes = np.asfortranarray(codes)
        codes.flags.writeable = False
        table.codes = codes
        table.domain = domain
        return table

    def of_units(self, unit: Unit | None, units: Numbers | None, keys: Hashes | None = None) -> Self:
        """Return the rows with the number of the unit of each, of which none has more than `unit.rows`.

        `keys` are the hashes of their keys. Default: those that the rows have; of rows without, the numbers, which then
        must be names of the units, fixed before other units were known.
        """
        rows = copy(self)
        rows.unit, rows.units, rows.unit_keys = unit, units, _keys(self.unit_keys, units, keys)
        return rows

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return int(self.codes.shape[0])

    @property
    def n_units(self) -> int:
        """Number of units; of records, where each is one."""
        return self.n_rows if self.units is None else len(np.unique(self.units))

    def __len__(self) -> int:
        return self.n_rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        # Each look into a weak cache compares a table with itself.
        return self is other or (self.domain == other.domain and np.array_equal(self.codes, other.codes))

    __hash__ = object.__hash__  # identity: tables are keys of weak caches

    def __repr__(self) -> str:
        return f"Table({self.n_rows} rows, {self.domain!r})"

    def column(self, name: str) -> NDArray[np.integer]:
        """Return the codes of column `name`, shape (n,)."""
        return self.codes[:, self.domain.index(name)]

    def project(self, names: Sequence[str]) -> Table:
        """Return the columns `names`, in the order given."""
        rows = Table._trusted(self.codes[:, [self.domain.index(n) for n in names]], self.domain.project(names))
        return rows.of_units(self.unit, self.units, self.unit_keys)

    def drop(self, name: str) -> Table:
        """Return the table without column `name`."""
        self.domain.index(name)
        return self.project([n for n in self.domain.names if n != name])

    def take(self, rows: ArrayLike | slice) -> Table:
        """Return the rows of a slice, at the given positions, or where a boolean mask is true."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        units = None if self.units is None else self.units[chosen]
        keys = None if self.unit_keys is None else self.unit_keys[chosen]
        return Table._trusted(self.codes[chosen], self.domain).of_units(self.unit, units, keys)

    def append(self, other: Table) -> Table:
        """Return the rows of this table followed by those of `other`, which has the same domain.

        Both are parts of one table where they have units: what has the same number is one unit.
        """
        if other.domain != self.domain or other.unit != self.unit:
            raise InputError("tables of different domains or units cannot be joined")
        codes = np.concatenate([self.codes, other.codes])
        return Table._trusted(codes, self.domain).of_units(self.unit, *_units_of_both(self, other))

    def counts(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the marginal on `names` as counts.

        Returns
        -------
        ndarray of shape (size of each name, in the order given), int64
        """
        from marginalia.data.sources.kernel import Tally  # numba takes 0.2 s to load

        if not names:
            return np.array(self.n_rows)
        tally = Tally([tuple(map(self.domain.index, names))], self.domain.sizes)
        tally.add(self.codes.T)
        return tally.counts_of(0).reshape([self.domain[n].size for n in names])

    def expect(self, marginals: Iterable[Sequence[str]]) -> None:
        """Do nothing: counting a table in memory once more is cheap."""

    def recoded(self, codes: Mapping[str, NDArray[np.integer]], domain: Domain) -> Table:
        """Return the rows with every code c of column `name` replaced by ``codes[name][c]``, of `domain`."""
        rows = Table(np.column_stack([codes[n][self.column(n)] for n in domain.names]), domain)
        return rows.of_units(self.unit, self.units, self.unit_keys)

    def batches(self) -> Iterator[Table]:
        """Yield the table itself: it is in memory."""
        yield self

    def in_memory(self) -> Table:
        """Return the table itself."""
        return self

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, domain: Domain, *, original: bool = True, where: str = "table") -> Table:
        """Build a table from a data frame; columns are matched by name and keep the frame's order.

        Parameters
        ----------
        frame : DataFrame
            Of pandas, or one that hands out Arrow columns (Polars, PyArrow, Narwhals, DuckDB).
            Original values in the columns whose column has a `type`, codes in the others.
        domain : Domain
            Columns in any order; columns that it ignores may be there or not. If it names a unit, that column has
            to be there: at most `unit.rows` rows of each unit are kept.
        original : bool
            False: codes in every column, whatever the columns say.
        where : str
            Named in error messages.

        Raises
        ------
        InputError
            A column is missing, unknown or stands twice; a value has no code; codes and values could be confused
            because a column has edges, or numbers as labels, and no `type`; a row is a structural zero.
        """
        frame, unit = pandas_frame(frame), domain.unit
        columns = check_columns([str(c) for c in frame.columns], domain, where, "the file has")
        domain = domain.project(columns)
        for column in domain if original else ():
            check_not_ambiguous(column, where)
        [encoded] = encode([Batch(where, None, frame)], domain, original=original)
        rows = cls._trusted(encoded.codes.T.astype(_compact(domain)), domain)
        if unit is None:
            return rows
        keys, units = _units_of(frame, unit, where)
        return bounded(rows.of_units(unit, by_key(units, keys), keys))

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, domain: Domain, original: bool = True) -> Table:
        """Read a CSV or Parquet file (by the ending ``.parquet``); columns keep the file's order. See `from_frame`."""
        stored = None if original else cls._stored(Path(path), domain)
        return stored or cls.from_frame(read_raw(path, domain), domain, original=original, where=str(path))

    @classmethod
    def _stored(cls, path: Path, domain: Domain) -> Table | None:
        """Read codes as `to_parquet` writes them; None of any other file, for `from_frame` to say what is wrong.

        Without pandas, whose import takes longer than a small fit.
        """
        if domain.unit is not None:
            return None
        columns = whole_numbers(path) if path.suffix == ".parquet" and path.is_file() else {}
        if not columns or set(columns) != set(domain.names):
            return None
        domain = domain.project(tuple(columns))
        sizes = dict(zip(domain.names, domain.sizes, strict=True))
        if any(c.size and not 0 <= c.min() <= c.max() < sizes[name] for name, c in columns.items()):
            return None
        codes = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=_compact(domain), order="F")
        for j, column in enumerate(columns.values()):
            codes[:, j] = column
        return None if any(zero_problems(codes.T, domain)) else cls._trusted(codes, domain)

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str], *, domain: Domain) -> Table:
        """Read a CSV file; see `read`."""
        return cls.read(path, domain=domain)

    def to_frame(self, *, original: bool = False, random_state: Randomness = None) -> pd.DataFrame:
        """Return the codes as a data frame, or the original values where the column has a `type`.

        Parameters
        ----------
        original : bool
        random_state : int, SeedSequence, Generator or None
            For the values inside bins, see `marginalia.data.coding.original_values`; None: fresh entropy.
        """
        import pandas as pd

        if not original:
            return pd.DataFrame(self.codes, columns=list(self.domain.names))
        rng = np.random.default_rng(random_state)
        named = {a.name: a for a in self.domain}
        columns = values_under_rules(dict(zip(named, self.codes.T, strict=True)), named, self.domain.rules, rng)
        return pd.DataFrame(columns, index=range(self.n_rows))

    def obeying(self, rng: np.random.Generator, draw: Callable[[int], Table] | None = None) -> Table:
        """Return synthetic rows in which those that cannot obey the rules are replaced by rows that can.

        Parameters
        ----------
        rng : Generator
        draw : callable, optional
            Draws a number of rows, from which the new ones are taken. Default: they are taken from this table.

        >>> edges = {"type": "integer", "edges": [0, 10, 20]}
        >>> columns = [{"name": "a", **edges}, {"name": "b", **edges}]
        >>> domain = Domain.from_dict({"attributes": columns, "rules": ["a <= b"]})
        >>> Table([[1, 0], [1, 1]], domain).obeying(np.random.default_rng(0)).codes.tolist()
        [[1, 1], [1, 1]]
        """
        if not self.domain.rules.rules or not self.n_rows:
            return self
        more = None if draw is None else lambda n: draw(n).codes
        codes = with_feasible_rows(self.codes, self.domain.columns, self.domain.rules, rng, more)
        return self if codes is self.codes else Table._trusted(codes, self.domain)

    def to_csv(
        self,
        path: str | os.PathLike[str],
        *,
        original: bool = True,
        random_state: Randomness = None,
        csv_safe: bool = False,
    ) -> None:
        """Write a CSV file with a header, atomically; see `to_frame`.

        With `csv_safe` texts that a spreadsheet would compute (``=HYPERLINK(...)``) begin with an apostrophe.
        """
        frame = self.to_frame(original=original, random_state=random_state)
        for column in self.domain if original else ():
            frame[column.name] = as_text(frame[column.name], column)
        quoting = csv_quoting(frame.columns, _written(self.domain))
        frame = without_formulas(frame) if csv_safe else frame
        with atomic_path(path) as temporary:
            frame.to_csv(temporary, index=False, lineterminator="\n", quoting=quoting)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        original: bool = True,
        random_state: Randomness = None,
    ) -> None:
        """Write a Parquet file, atomically; see `to_frame`."""
        frame = self.to_frame(original=original, random_state=random_state)
        for column in self.domain if original else ():
            frame[column.name] = _one_kind(frame[column.name], column)
        with atomic_path(path) as temporary:
            frame.to_parquet(temporary, index=False)


def _without_units(unit: Unit, reader: str, of_rows: str) -> InputError:
    """Return the error of rows whose units are lost: a fit of them would be certified for single rows."""
    return InputError(
        f"the domain protects {unit}, and column '{unit.column}' is missing: read rows that have it by {reader}, or "
        f"take {of_rows}, which protects single rows"
    )


def _units_of(frame: pd.DataFrame, unit: Unit, where: str) -> tuple[Hashes, Numbers]:
    """Return a hash of the key of each row of a data frame, and the number of its unit."""
    try:
        return key_hashes(frame.iloc[:, [*map(str, frame.columns)].index(unit.column)], unit)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _keys(own: Hashes | None, units: Numbers | None, keys: Hashes | None) -> Hashes | None:
    """Return the hashes of keys that rows get with the numbers of their units; see `Table.of_units`."""
    if units is None or keys is not None:
        return None if units is None else keys
    return own if own is not None and len(own) == len(units) else np.asarray(units).astype(np.uint64)


def bounded(rows: Table) -> Table:
    """Return of each unit the rows that are kept, at most `unit.rows`, in an order that no file decides.

    >>> rows = Table([[0], [1], [1]], Domain.from_sizes({"a": 2})).of_units(Unit("id", 1), np.array([1, 0, 1]))
    >>> bounded(rows).units
    array([0, 1])
    """
    if rows.unit is None or rows.units is None or rows.unit_keys is None:
        return rows
    contents = [rows.column(name) for name in sorted(rows.names)]  # in the same order from every source
    return rows.take(kept_rows(rows.units, row_hashes(rows.unit_keys, contents), rows.unit))


def _units_of_both(one: Rows, other: Rows) -> tuple[Numbers | None, Hashes | None]:
    """Return the numbers and the keys of the units of the rows of two parts of one table."""
    if one.units is None or other.units is None or one.unit_keys is None or other.unit_keys is None:
        return None, None
    return np.concatenate([one.units, other.units]), np.concatenate([one.unit_keys, other.unit_keys])


def _compact(domain: Domain) -> type[np.integer[Any]]:
    return np.int16 if max(domain.sizes, default=1) <= 2**15 else np.int32


def _checked_column(values: NDArray[Any], name: str, size: int) -> NDArray[Any]:
    if values.dtype == object:
        for row, value in enumerate(values):
            try:
                float(value)
            except (TypeError, ValueError):
                raise InputError(f"column '{name}', row {row}: {value!r} is not an integer code {ROWS}") from None
        values = values.astype(np.float64)
    if values.dtype.kind not in "iufb":
        raise InputError(f"column '{name}': values of type {values.dtype} are not integer codes")
    if values.dtype.kind == "f":
        bad_rows = np.flatnonzero(~np.isfinite(values) | (values != np.floor(values)))
        if bad_rows.size:
            row = int(bad_rows[0])
            value = "NaN" if np.isnan(values[row]) else f"{values[row]:g}"
            raise InputError(f"column '{name}', row {row}: {value} is not an integer code {ROWS}")
    bad_rows = np.flatnonzero((values < 0) | (values >= size))
    if bad_rows.size:
        row = int(bad_rows[0])
        raise InputError(f"column '{name}', row {row}: code {int(values[row])} is outside 0..{size - 1} {ROWS}")
    return values


@dataclass(frozen=True, eq=False)
class RawTable(PrivateRows):
    """Rows in original values, of a domain that leaves labels or edges to be learned; immutable.

    A fit takes it in place of a `Table`, learns what is open in its own ledger, and goes on with codes.

    Parameters
    ----------
    frame : DataFrame
        The columns of the domain and no others; see `of`.
    domain : Domain
        An open one.
    share : float, optional
        Of the budget, for what is learned; default: see `marginalia.privacy.preprocessing.preprocess.preprocess`.

    Examples
    --------
    >>> import pandas as pd
    >>> domain = Domain.from_dict({"attributes": [{"name": "ward", "type": "string", "labels": "private"}]})
    >>> raw = RawTable.of(pd.DataFrame({"ward": ["a", "b"]}), domain)
    >>> raw.take([1, 1]).n_rows, raw.names
    (2, ('ward',))
    """

    frame: pd.DataFrame
    domain: Domain
    share: float | None = None
    unit: Unit | None = None
    units: Numbers | None = None
    unit_keys: Hashes | None = None

    def __post_init__(self) -> None:
        if self.domain.unit is not None:
            raise _without_units(self.domain.unit, "RawTable.of", "domain.project(domain.names)")

    @classmethod
    def of(cls, frame: pd.DataFrame, domain: Domain, *, share: float | None = None, where: str = "table") -> Self:
        """Return the rows of a data frame, after holding them against all that is public; see `check_known`.

        Where the domain names a unit, at most `unit.rows` rows of each are kept.
        """
        frame = pandas_frame(frame)
        check_known(frame, domain, where)
        wanted = [str(name) in domain for name in frame.columns]
        inside = frame.loc[:, wanted].reset_index(drop=True)
        if (unit := domain.unit) is None:
            return cls(inside, domain, share)
        rows = cls(inside, domain.project(domain.names), share)
        keys, units = _units_of(frame, unit, where)
        contents = [
            content_hashes(rows.frame.iloc[:, rows.names.index(name)], domain[name].placeholder())
            for name in sorted(rows.names)
        ]
        units = by_key(units, keys)
        kept = kept_rows(units, row_hashes(keys, contents), unit)
        return rows.of_units(unit, units, keys).take(kept)

    @classmethod
    def read(cls, path: str | os.PathLike[str], domain: Domain, *, share: float | None = None) -> Self:
        """Read a CSV or Parquet file; see `of`."""
        return cls.of(read_raw(path, domain), domain, share=share, where=str(path))

    def of_units(self, unit: Unit | None, units: Numbers | None, keys: Hashes | None = None) -> Self:
        """Return the rows with the number of the unit of each, and its key; see `Table.of_units`."""
        return replace(self, unit=unit, units=units, unit_keys=_keys(self.unit_keys, units, keys))

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.frame)

    @property
    def n_units(self) -> int:
        """Number of units; of records, where each is one."""
        return self.n_rows if self.units is None else len(np.unique(self.units))

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return (
            f"RawTable({self.n_rows} rows, {len(self.domain.open_columns)} of {len(self.names)} columns to be learned)"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the rows."""
        return tuple(map(str, self.frame.columns))

    def take(self, rows: ArrayLike | slice) -> Self:
        """Return the rows of a slice, or at the given positions."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        units = None if self.units is None else self.units[chosen]
        keys = None if self.unit_keys is None else self.unit_keys[chosen]
        return replace(self, frame=self.frame.iloc[chosen].reset_index(drop=True), units=units, unit_keys=keys)

    def append(self, other: RawTable) -> RawTable:
        """Return the rows of this table followed by those of `other`, which has the same domain."""
        import pandas as pd

        def cells(name: Any) -> NDArray[Any]:  # a common type of two columns would change the cells of one of them
            parts = (cells_of(part.frame[name], str(name), lenient=True).rows() for part in (self, other))
            return np.concatenate(list(parts))

        both = pd.DataFrame({name: cells(name) for name in self.frame.columns}, dtype=object)
        units, keys = _units_of_both(self, other)
        return replace(self, frame=both, units=units, unit_keys=keys)

    def project(self, names: Iterable[str]) -> Rows:
        """Return some columns, in the order given; as a `Table` where nothing of them is to be learned."""
        names = list(names)
        domain = self.domain.project([name for name in self.domain.names if name in names])
        chosen = self.frame[names]
        if domain.is_open:
            return replace(self, frame=chosen, domain=domain)
        return Table.from_frame(chosen, domain).of_units(self.unit, self.units, self.unit_keys)

    @property
    def known(self) -> Table:
        """The columns that are not open."""
        rest = self.project([name for name in self.names if not self.domain[name].is_open])
        assert isinstance(rest, Table)
        return rest

    def coded(self, domain: Domain) -> Table:
        """Return the rows as codes of a domain that was learned, for these rows or others."""
        return Table.from_frame(self.frame, domain).of_units(self.unit, self.units, self.unit_keys)


def check_known(frame: pd.DataFrame, domain: Domain, where: str = "table") -> None:
    """Check a raw table against all that is public: columns, values of those that are not open, structural zeros.

    Raises
    ------
    InputError
        See `Table.from_frame`. Whatever stands in a column that is to be learned is no error.

    >>> import pandas as pd
    >>> domain = Domain.from_dict({"attributes": [{"name": "ward", "type": "string", "labels": "private"}]})
    >>> check_known(pd.DataFrame({"age": [3]}), domain)
    Traceback (most recent call last):
    marginalia.errors.InputError: table: column 'ward' of the domain is missing
    """
    if absent := [column.name for column in domain.open_columns if column.name not in frame.columns]:
        raise InputError(f"{where}: column '{absent[0]}' of the domain is missing")
    Table.from_frame(frame, domain.without_open(), where=where)


Rows = Table | RawTable
"""Rows in memory, which can be split."""


def rows_of(given: object, domain: Public | None, *, fit: str) -> PrivateRows:
    """Return what a fit was given as rows: a table of either kind as it is, a data frame by its public domain.

    Parameters
    ----------
    given : PrivateRows or DataFrame
        Of pandas, or one that hands out Arrow columns (Polars, PyArrow, Narwhals, DuckDB).
    domain : Domain, dict or path of a domain file, optional
        Of a data frame; a table has its own.
    fit : str
        Named where this is neither.

    Raises
    ------
    InputError
        It is neither, or has a domain too many or too few; a value of the data frame has no code.

    Examples
    --------
    >>> import pandas as pd
    >>> rows_of(pd.DataFrame({"ward": [0, 2]}), {"ward": 3}, fit="AIM.fit").n_rows
    2
    """
    if isinstance(given, PrivateRows):
        if domain is not None:
            own = type(given).__name__
            raise InputError(f"a {own} has its domain: domain is that of a data frame; leave it out")
        return given
    check_collected(given)
    if not is_frame(given):
        raise InputError(f"{fit} needs a marginalia.data.Table or a data frame, not {kind_of(given)}")
    public, frame = public_domain(domain), with_text_names(given)
    if not public.is_open:
        return Table.from_frame(frame, public, where="data frame")
    read = frame.loc[:, [name not in public.ignored for name in frame.columns]]
    return RawTable(read, public) if public.unit is None else RawTable.of(read, public)


def write_batches(
    batches: Iterable[Table],
    domain: Domain,
    path: str | os.PathLike[str],
    *,
    random_state: Randomness = None,
    csv_safe: bool = False,
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
        if parquet:
            some[0].to_parquet(path, random_state=stream)
        else:
            some[0].to_csv(path, random_state=stream, csv_safe=csv_safe)
        return
    frames = (batch.to_frame(original=True, random_state=stream) for batch in chain(some, waiting))
    with atomic_path(path) as temporary:
        if parquet:
            _parquet(frames, domain, temporary)
        else:
            _csv(frames, domain, temporary, csv_safe=csv_safe)


def _parquet(frames: Iterator[pd.DataFrame], domain: Domain, path: Path) -> None:
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    # The types of the columns are those of a table that has every code.
    every = np.arange(max(domain.sizes, default=1))[:, None]
    codes = np.minimum(every, np.array(domain.sizes) - 1).astype(np.int32 if len(every) > 2**15 else np.int16)
    named = {a.name: a for a in domain}
    coded = dict(zip(named, codes.T, strict=True))
    columns = values_under_rules(coded, named, domain.rules, np.random.default_rng(0))
    columns |= {name: _one_kind(columns[name], column) for name, column in named.items()}
    schema = pa.Schema.from_pandas(pd.DataFrame(columns), preserve_index=False)
    with parquet.ParquetWriter(path, schema) as writer:
        for frame in frames:
            for column in domain:
                frame[column.name] = _one_kind(frame[column.name], column)
            writer.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False))


def _one_kind(series: pd.Series[Any], column: Column) -> pd.Series[Any]:
    """Return a column as a Parquet file holds it: of one type, or as text where values stand beside special texts."""
    if series.dtype != object or column.type == "string":
        return series
    return as_text(series, column).map(text, na_action="ignore").astype(object)


def _csv(frames: Iterator[pd.DataFrame], domain: Domain, path: Path, *, csv_safe: bool) -> None:
    quoting = csv_quoting((*domain.names, *dict(domain.rules.derived)), _written(domain))
    header = True
    with path.open("w", encoding="utf-8", newline="") as file:
        for frame in frames:
            for column in domain:
                frame[column.name] = as_text(frame[column.name], column)
            frame = without_formulas(frame) if csv_safe else frame
            frame.to_csv(file, index=False, header=header, lineterminator="\n", quoting=quoting)
            header = False


def _written(domain: Domain) -> Iterator[str]:
    """Yield the texts that a file of a domain may hold."""
    yield from chain.from_iterable(a.written for a in domain)
    yield from domain.rules.texts
