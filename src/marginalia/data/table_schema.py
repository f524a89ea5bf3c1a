"""A domain of which some labels or edges are still to be bought from the private rows; and such rows."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from marginalia.data.attribute import Attribute, Kind, Purchase
from marginalia.data.domain import Domain, Source
from marginalia.data.domain_file import Content, as_dict, parse, purchase_as_dict
from marginalia.data.files import read_content
from marginalia.data.reading import is_frame, kind_of, named, read_raw
from marginalia.data.sources.source import PrivateRows
from marginalia.data.table import Table
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike


class Schema:
    """What is publicly known of a raw table, and what is to be bought.

    Parameters
    ----------
    content : Content
        Of a domain file.

    Attributes
    ----------
    columns : tuple of Attribute or Purchase
        In the order of the file.
    purchases : tuple of Purchase
        The columns whose labels or edges are to be bought; none: the file is a whole domain.
    ignored : tuple of str
        Columns of the table that are not read.

    Examples
    --------
    >>> age = {"name": "age", "type": "integer", "edges": {"private": "adaptive", "bins": 4}}
    >>> schema = Schema.from_dict({"attributes": [age, {"name": "ill", "type": "boolean"}]})
    >>> [column.name for column in schema.purchases]
    ['age']
    >>> schema.domain({"age": schema.purchases[0].attribute(edges=(0, 18, 65, 120))})
    Domain(age=4, ill=2; released)
    """

    def __init__(self, content: Content) -> None:
        bought = {c.name for c in content.columns if isinstance(c, Purchase)}
        for zeros in content.structural_zeros:
            if both := bought & set(zeros.attributes):
                raise InputError(f"structural zeros cannot name '{min(both)}': its codes are known after the purchase")
        self.columns = content.columns
        self.purchases = tuple(c for c in content.columns if isinstance(c, Purchase))
        self.ignored = content.ignored
        self._content = content

    @classmethod
    def from_dict(cls, content: Any, *, where: str = "domain") -> Schema:
        """Build a schema from the content of a domain file; see `Domain.from_dict`."""
        try:
            schema = cls(parse(content, where=where))
            schema.stand_in()  # refuses what no domain can hold
            return schema
        except InputError as error:
            raise InputError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema from a YAML or JSON file."""
        return cls.from_dict(read_content(path, "domain file"), where=str(path))

    def domain(self, bought: Mapping[str, Attribute] | None = None) -> Domain:
        """Return the domain with the attributes that were bought, by name, in place of the purchases.

        Its source is ``released`` where anything was bought, else that of the file; ``inferred`` stays.

        Raises
        ------
        InputError
            A purchase has not been made.
        """
        bought = bought or {}
        if open_ := [c.name for c in self.purchases if c.name not in bought]:
            raise InputError(f"attribute '{open_[0]}' is not bought yet")
        source: Source = self._content.source
        if source != "inferred" and not all(c.free for c in self.purchases):  # what was read off the rows stays so
            source = "released"
        attributes = [bought[c.name] if isinstance(c, Purchase) else c for c in self.columns]
        zeros_ = self._content.structural_zeros
        return Domain(attributes, source=source, structural_zeros=zeros_, ignored=self.ignored)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def stand_in(self) -> Domain:
        """Return the domain with a stand-in for each column that is to be bought: any value has a code in it."""
        return self.domain({purchase.name: purchase.stand_in() for purchase in self.purchases})

    def check(self, frame: pd.DataFrame, where: str = "table") -> None:
        """Hold a raw table against all that is public: columns, values of those that are not bought, structural zeros.

        Raises
        ------
        InputError
            See `Table.from_frame`. Whatever stands in a column that is to be bought is no error.
        """
        bought = {purchase.name for purchase in self.purchases}
        if absent := [name for name in self.names if name in bought and name not in frame.columns]:
            raise InputError(f"{where}: column '{absent[0]}' of the domain is missing")
        Table.from_frame(frame, self._without(bought), where=where)

    def _without(self, bought: Iterable[str]) -> Domain:
        """Return the domain of the columns that are known, by which tables with the others can be read."""
        known = [column for column in self.columns if isinstance(column, Attribute)]
        return Domain(
            known, structural_zeros=self._content.structural_zeros, ignored=(*self.ignored, *bought),
        )  # fmt: skip

    def project(self, names: Iterable[str]) -> Schema:
        """Return the schema of some columns, in its own order, with the structural zeros that fit inside."""
        kept = set(names)
        zeros = tuple(z for z in self._content.structural_zeros if set(z.attributes) <= kept)
        columns = tuple(column for column in self.columns if column.name in kept)
        return Schema(replace(self._content, columns=columns, structural_zeros=zeros))

    def of_kinds(self, kinds: Mapping[str, Kind]) -> Schema:
        """Return the schema with other kinds for some columns."""
        columns = tuple(replace(column, kind=kinds.get(column.name, column.kind)) for column in self.columns)
        return Schema(replace(self._content, columns=columns))

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a domain file that says the same."""
        content: dict[str, Any] = {
            "attributes": [purchase_as_dict(c) if isinstance(c, Purchase) else as_dict(c) for c in self.columns],
            "source": self._content.source,
        }
        if self._content.structural_zeros:
            content["structural_zeros"] = [asdict(zeros) for zeros in self._content.structural_zeros]
        if self.ignored:
            content["ignored"] = list(self.ignored)
        return content


@dataclass(frozen=True, eq=False)
class RawTable(PrivateRows):
    """Rows in original values, with a `Schema` that leaves labels or edges to be bought; immutable.

    A fit takes it in place of a `Table`, buys what is open in its own ledger, and goes on with codes.

    Parameters
    ----------
    frame : DataFrame
        The columns of the schema and no others; see `of`.
    schema : Schema
    share : float, optional
        Of the budget, for the purchases; default: see `marginalia.privacy.preprocessing.purchase.preprocess`.

    Examples
    --------
    >>> import pandas as pd
    >>> schema = Schema.from_dict({"attributes": [{"name": "ward", "type": "string", "labels": "private"}]})
    >>> raw = RawTable.of(pd.DataFrame({"ward": ["a", "b"]}), schema)
    >>> raw.take([1, 1]).n_rows, raw.names
    (2, ('ward',))
    """

    frame: pd.DataFrame
    schema: Schema
    share: float | None = None

    @classmethod
    def of(cls, frame: pd.DataFrame, schema: Schema, *, share: float | None = None, where: str = "table") -> Self:
        """Return the rows of a data frame, after holding them against all that is public; see `Schema.check`."""
        schema.check(frame, where)
        kept = [str(name) in schema.names for name in frame.columns]
        return cls(frame.loc[:, kept].reset_index(drop=True), schema, share)

    @classmethod
    def read(cls, path: str | os.PathLike[str], schema: Schema, *, share: float | None = None) -> Self:
        """Read a CSV or Parquet file; see `of`."""
        return cls.of(read_raw(path), schema, share=share, where=str(path))

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.frame)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"RawTable({self.n_rows} rows, {len(self.purchases)} of {len(self.names)} columns to be bought)"

    @cached_property
    def domain(self) -> Domain:  # type: ignore[override]
        """The domain with a stand-in for each column that is to be bought."""
        return self.schema.stand_in()

    @property
    def purchases(self) -> tuple[Purchase, ...]:  # type: ignore[override]
        """The columns whose labels or edges are to be bought."""
        return self.schema.purchases

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the rows."""
        return tuple(map(str, self.frame.columns))

    def take(self, rows: ArrayLike | slice) -> RawTable:
        """Return the rows of a slice, or at the given positions."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        return RawTable(self.frame.iloc[chosen].reset_index(drop=True), self.schema, self.share)

    def append(self, other: RawTable) -> RawTable:
        """Return the rows of this table followed by those of `other`, which has the same schema."""
        import pandas as pd

        def plain(frame: pd.DataFrame) -> pd.DataFrame:  # categories of two files are not the same
            return frame.astype({name: object for name, of in frame.dtypes.items() if str(of) == "category"})

        both = pd.concat([plain(self.frame), plain(other.frame)[list(self.frame.columns)]], ignore_index=True)
        return RawTable(both, self.schema, self.share)

    def project(self, names: Iterable[str]) -> Rows:
        """Return some columns, in the order given; as a `Table` where nothing of them is to be bought."""
        names = list(names)
        schema = self.schema.project(names)
        chosen = self.frame[names]
        return RawTable(chosen, schema, self.share) if schema.purchases else Table.from_frame(chosen, schema.domain())

    @property
    def known(self) -> Table:
        """The columns that are not to be bought."""
        bought = {purchase.name for purchase in self.purchases}
        rest = self.project([name for name in self.names if name not in bought])
        assert isinstance(rest, Table)
        return rest

    def coded(self, domain: Domain) -> Table:
        """Return the rows as codes of a domain that has been bought, for these rows or others."""
        return Table.from_frame(self.frame, domain)

    @cached_property
    def digest(self) -> str:
        """Hash of the rows, and of what is publicly known of them."""
        public = json.dumps([self.schema.to_dict(), self.share], sort_keys=True)
        return hashlib.sha256(f"{public}\0{self.frame.to_csv(index=False)}".encode()).hexdigest()


Rows = Table | RawTable
"""Rows in memory, which can be split."""


Public = Domain | Schema | Mapping[str, Any] | str | os.PathLike[str]
"""What a fit takes as the domain of a data frame."""


def public_domain(given: Public | None) -> Domain | Schema:
    """Return the domain of a data frame, or a schema if some of its facts are left to be bought.

    Parameters
    ----------
    given : Domain, Schema, dict or path
        A dict holds what a domain file holds; see `Domain.from_dict`.

    Raises
    ------
    InputError
        It is none of these, or the file is wrong.

    Examples
    --------
    >>> public_domain({"age": 8})
    Domain(age=8; declared)
    """
    if given is None:
        raise InputError("a data frame needs its public domain: fit(..., domain=...), a Domain or a domain file")
    if isinstance(given, Domain):
        return given
    if isinstance(given, Mapping):
        schema = Schema.from_dict(given)
    elif isinstance(given, str | os.PathLike):
        schema = Schema.read(given)
    elif isinstance(given, Schema):
        schema = given
    else:
        raise InputError(
            f"domain is a Domain, a Schema, a dict or the path of a domain file, not a {kind_of(given)} object"
        )
    return schema if schema.purchases else schema.domain()


def rows_of(given: object, domain: Public | None, *, fit: str) -> PrivateRows:
    """Return what a fit was given as rows: a table of either kind as it is, a data frame by its public domain.

    Parameters
    ----------
    given : PrivateRows or DataFrame
    domain : Domain, Schema, dict or path of a domain file, optional
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
            own = "RawTable has its schema" if given.purchases else "Table has its domain"
            raise InputError(f"a {own}: domain is that of a data frame; leave it out")
        return given
    if not is_frame(given):
        raise InputError(f"{fit} needs a marginalia.data.Table or a pandas DataFrame, not {kind_of(given)}")
    public, frame = public_domain(domain), named(given)
    if isinstance(public, Domain):
        return Table.from_frame(frame, public, where="data frame")
    return RawTable(frame.loc[:, [name not in public.ignored for name in frame.columns]], public)
