"""A domain of which some labels or edges are still to be bought from the private rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from marginalia.data.attribute import Attribute
from marginalia.data.domain import Domain, Source
from marginalia.data.domain_file import Content, Purchase, parse
from marginalia.data.files import read_content
from marginalia.data.reading import kind_of
from marginalia.errors import InputError


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
    Domain(age=3, ill=2; released)
    """

    def __init__(self, content: Content) -> None:
        self.columns = content.columns
        self.purchases = tuple(c for c in content.columns if isinstance(c, Purchase))
        self.ignored = content.ignored
        self._content = content

    @classmethod
    def from_dict(cls, content: Any, *, where: str = "domain") -> Schema:
        """Build a schema from the content of a domain file; see `Domain.from_dict`."""
        return cls(parse(content, where=where))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a schema from a YAML or JSON file."""
        return cls.from_dict(read_content(path, "domain file"), where=str(path))

    def domain(self, bought: Mapping[str, Attribute] | None = None) -> Domain:
        """Return the domain with the attributes that were bought, by name, in place of the purchases.

        Its source is ``released`` where anything was bought, else that of the file.

        Raises
        ------
        InputError
            A purchase has not been made; or structural zeros name one: its codes were not known.
        """
        bought = bought or {}
        if open_ := [c.name for c in self.purchases if c.name not in bought]:
            raise InputError(f"attribute '{open_[0]}' is not bought yet")
        names = {c.name for c in self.purchases}
        for zeros in self._content.structural_zeros:
            if both := names & set(zeros.attributes):
                raise InputError(f"structural zeros cannot name '{min(both)}': its codes are known after the purchase")
        source: Source = "released" if bought else self._content.source
        attributes = [bought[c.name] if isinstance(c, Purchase) else c for c in self.columns]
        zeros_ = self._content.structural_zeros
        return Domain(attributes, source=source, structural_zeros=zeros_, ignored=self.ignored)


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
