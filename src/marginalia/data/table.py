"""A discrete table: integer codes with their public domain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalia.data.domain import Domain
from marginalia.data.files import atomic_path
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray


class Table:
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

    Raises
    ------
    InputError
        Wrong shape, a fraction, NaN, or a code outside the domain; the message names the column and row.

    Examples
    --------
    >>> table = Table([[0, 1], [1, 1], [1, 2]], Domain.from_sizes({"smoker": 2, "region": 3}))
    >>> table.counts(["smoker", "region"])
    array([[0, 1, 0],
           [0, 1, 1]])
    """

    def __init__(self, codes: ArrayLike, domain: Domain) -> None:
        array = np.asarray(codes)
        if array.ndim != 2 or array.shape[1] != len(domain):
            raise InputError(
                f"codes have shape {array.shape}, the domain has {len(domain)} attributes: need (n, {len(domain)})"
            )
        compact = np.int16 if max(domain.sizes, default=1) <= 2**15 else np.int32
        # Column-major: every reader works column by column.
        out = np.empty(array.shape, dtype=compact, order="F")
        for j, attribute in enumerate(domain.attributes):
            out[:, j] = _checked_column(array[:, j], attribute.name, attribute.size)
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

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return int(self.codes.shape[0])

    def __len__(self) -> int:
        return self.n_rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.domain == other.domain and np.array_equal(self.codes, other.codes)

    __hash__ = object.__hash__  # identity: tables are keys of weak caches

    def __repr__(self) -> str:
        return f"Table({self.n_rows} rows, {self.domain!r})"

    def column(self, name: str) -> NDArray[np.integer]:
        """Return the codes of attribute `name`, shape (n,)."""
        return self.codes[:, self.domain.index(name)]

    def project(self, names: Sequence[str]) -> Table:
        """Return the columns `names`, in the order given."""
        return Table._trusted(self.codes[:, [self.domain.index(n) for n in names]], self.domain.project(names))

    def drop(self, name: str) -> Table:
        """Return the table without column `name`."""
        self.domain.index(name)
        return self.project([n for n in self.domain.names if n != name])

    def take(self, rows: ArrayLike | slice) -> Table:
        """Return the rows of a slice, at the given positions, or where a boolean mask is true."""
        return Table._trusted(self.codes[rows if isinstance(rows, slice) else np.asarray(rows)], self.domain)

    def append(self, other: Table) -> Table:
        """Return the rows of this table followed by those of `other`, which has the same domain."""
        if other.domain != self.domain:
            raise InputError("tables of different domains cannot be joined")
        return Table._trusted(np.concatenate([self.codes, other.codes]), self.domain)

    def counts(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the marginal on `names` as counts.

        Returns
        -------
        ndarray of shape (size of each name, in the order given), int64
        """
        shape = tuple(self.domain[n].size for n in names)
        flat = np.zeros(self.n_rows, dtype=np.int64)
        for name, size in zip(names, shape, strict=True):
            flat *= size
            flat += self.column(name)
        cells = int(np.prod(shape, dtype=object)) if shape else 1
        return np.bincount(flat, minlength=cells).reshape(shape).astype(np.int64, copy=False)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, domain: Domain, *, where: str = "table") -> Table:
        """Build a table from a data frame of codes; columns are matched by name and keep the frame's order.

        Parameters
        ----------
        frame : DataFrame
        domain : Domain
            Attributes in any order.
        where : str
            Named in error messages.
        """
        columns = [str(c) for c in frame.columns]
        if len(set(columns)) != len(columns):
            twice = next(c for c in columns if columns.count(c) > 1)
            raise InputError(f"{where}: column '{twice}' stands twice in the header; rename or remove one")
        missing = [n for n in domain.names if n not in columns]
        if missing:
            raise InputError(
                f"{where}: column '{missing[0]}' of the domain is missing; the file has {', '.join(columns)}"
            )
        extra = [c for c in columns if c not in domain]
        if extra:
            raise InputError(
                f"{where}: column '{extra[0]}' is not in the domain; declare it there or drop it from the file"
            )
        try:
            return cls(frame.to_numpy(), domain.project(columns))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str], *, domain: Domain) -> Table:
        """Read integer codes from a CSV file with a header; columns keep the file's order."""
        return cls.from_frame(read_frame(path, skipinitialspace=True), domain, where=str(path))

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str], *, domain: Domain) -> Table:
        """Read integer codes from a Parquet file; columns keep the file's order."""
        return cls.from_frame(read_frame(path, parquet=True), domain, where=str(path))

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, domain: Domain) -> Table:
        """Read ``.parquet`` or ``.csv`` by the file's ending."""
        reader = cls.from_parquet if Path(path).suffix == ".parquet" else cls.from_csv
        return reader(path, domain=domain)

    def to_frame(self) -> pd.DataFrame:
        """Return the codes as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.codes, columns=list(self.domain.names))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the codes as CSV with a header, atomically."""
        with atomic_path(path) as temporary:
            self.to_frame().to_csv(temporary, index=False, lineterminator="\n")

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the codes as Parquet, atomically."""
        with atomic_path(path) as temporary:
            self.to_frame().to_parquet(temporary, index=False)


def read_frame(path: str | os.PathLike[str], *, parquet: bool = False, **options: Any) -> pd.DataFrame:
    """Read a CSV or Parquet file by pandas, with its `options`; what fails is said in one line.

    >>> read_frame("no/such/file.csv")
    Traceback (most recent call last):
    marginalia.errors.InputError: cannot read no/such/file.csv: No such file or directory
    """
    import pandas as pd

    try:
        return (pd.read_parquet if parquet else pd.read_csv)(path, **options)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        kind = "Parquet file" if parquet else "CSV table with a header line"
        raise InputError(f"{path}: not a {kind} ({str(error).strip().splitlines()[0]})") from None


def _checked_column(values: NDArray[Any], name: str, size: int) -> NDArray[Any]:
    if values.dtype == object:
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            bad = next(v for v in values if not isinstance(v, int | float | np.number))
            raise InputError(f"column '{name}': {bad!r} is not an integer code; discretise the column first") from None
    if values.dtype.kind not in "iufb":
        raise InputError(
            f"column '{name}': values of type {values.dtype} are not integer codes; discretise the column first"
        )
    if values.dtype.kind == "f":
        bad_rows = np.flatnonzero(~np.isfinite(values) | (values != np.floor(values)))
        if bad_rows.size:
            row = int(bad_rows[0])
            value = "NaN" if np.isnan(values[row]) else f"{values[row]:g}"
            raise InputError(f"column '{name}', row {row}: {value} is not an integer code (rows count from 0)")
    bad_rows = np.flatnonzero((values < 0) | (values >= size))
    if bad_rows.size:
        row = int(bad_rows[0])
        raise InputError(
            f"column '{name}', row {row}: code {int(values[row])} is outside 0..{size - 1} (rows count from 0)"
        )
    return values
