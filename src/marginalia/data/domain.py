"""The public domain of a table: which attributes it has and which values each can take."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, get_args

from marginalia.data.attribute import Attribute, Purchase, StructuralZeros
from marginalia.data.domain_file import as_dict, parse
from marginalia.data.files import read_content, write_text
from marginalia.errors import InputError, unknown_name

_SHOWN = 20  # attributes in the short form
Source = Literal["documented", "declared", "released", "inferred"]


class Domain:
    """Ordered attributes with their sizes: the public frame of a `Table`.

    Parameters
    ----------
    attributes : iterable of Attribute
        In column order; names are unique.
    source : {"documented", "declared", "released", "inferred"}
        Where the domain comes from: published documentation, the user's declaration, a differentially private
        release, or the private rows themselves (recorded with a warning: that costs privacy nobody accounted for).
        A domain with an inferred fact is inferred, whatever is said here.
    structural_zeros : iterable of StructuralZeros
    ignored : iterable of str
        Columns of files and data frames that are not read.

    Raises
    ------
    InputError
        Duplicate names, or structural zeros outside the domain.

    Examples
    --------
    >>> domain = Domain.from_sizes({"age": 8, "sex": 2, "region": 5})
    >>> domain.project(["region", "sex"]).n_cells()
    10
    """

    def __init__(
        self,
        attributes: Iterable[Attribute],
        *,
        source: Source = "declared",
        structural_zeros: Iterable[StructuralZeros] = (),
        ignored: Iterable[str] = (),
    ) -> None:
        self.attributes = tuple(attributes)
        if source not in get_args(Source):
            raise unknown_name("domain source", str(source), get_args(Source))
        self.source: Source = "inferred" if any(a.inferred for a in self.attributes) else source
        self.ignored = tuple(ignored)
        self._position = {a.name: i for i, a in enumerate(self.attributes)}
        if len(self._position) != len(self.attributes):
            twice, _ = Counter(a.name for a in self.attributes).most_common(1)[0]
            raise InputError(f"attribute '{twice}' stands twice in the domain; give it once")
        self.structural_zeros = tuple(structural_zeros)
        for zeros in self.structural_zeros:
            sizes = [self[name].size for name in zeros.attributes]
            if len(set(zeros.attributes)) != len(sizes) or not sizes:
                raise InputError(f"structural zeros need different attributes, not {list(zeros.attributes)}")
            for cell in zeros.cells:
                if len(cell) != len(sizes) or not all(c in range(m) for c, m in zip(cell, sizes, strict=True)):
                    raise InputError(f"structural zero {list(cell)} lies outside {list(zeros.attributes)} = {sizes}")

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names in column order."""
        return tuple(self._position)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute, in column order."""
        return tuple(a.size for a in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self.attributes == other.attributes and self.structural_zeros == other.structural_zeros

    def __hash__(self) -> int:
        return hash((self.attributes, self.structural_zeros))

    def __repr__(self) -> str:
        inside = ", ".join(f"{a.name}={a.size}" for a in self.attributes[:_SHOWN])
        if len(self) > _SHOWN:
            inside += f", ... {len(self)} attributes in all"
        return f"Domain({inside}; {self.source})"

    def index(self, name: str) -> int:
        """Return the column number of `name`; raise `InputError` with the nearest name otherwise."""
        try:
            return self._position[name]
        except KeyError:
            raise unknown_name("attribute", str(name), self._position) from None

    def n_cells(self, names: Sequence[str] | None = None) -> int:
        """Return the exact number of cells of the marginal on `names` (default: the whole domain)."""
        return math.prod(self.sizes if names is None else (self[n].size for n in names))

    def project(self, names: Sequence[str]) -> Domain:
        """Return the domain of `names`, in the order given, with the structural zeros that fit inside."""
        kept = [z for z in self.structural_zeros if set(z.attributes) <= set(names)]
        attributes = [self[n] for n in names]
        return Domain(attributes, source=self.source, structural_zeros=kept, ignored=self.ignored)

    def drop(self, name: str) -> Domain:
        """Return the domain without attribute `name`."""
        self.index(name)
        return self.project([n for n in self.names if n != name])

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int], *, source: Source = "declared") -> Domain:
        """Build a domain of categorical attributes from ``{name: size}``."""
        return cls((Attribute(str(n), m) for n, m in sizes.items()), source=source)

    @classmethod
    def from_dict(cls, content: Any, *, where: str = "domain") -> Domain:
        """Build a domain from either file form.

        Parameters
        ----------
        content : dict
            ``{"name": size, ...}``, or ``{"attributes": [{"name": ..., ...}, ...], "source": ...,
            "structural_zeros": [{"attributes": [...], "cells": [[...], ...]}], "ignored": [...]}``. The keys of an
            attribute are those of `Attribute`; it may leave `size` out where its labels or edges determine it.
            `other` may be true, which means the text "other"; edges of dates are ISO dates.
        where : str
            Named in error messages.

        Raises
        ------
        InputError
            The first thing that is wrong; or labels or edges are left to be bought: that is a `Schema`.
        """
        said = parse(content, where=where)
        attributes = [a for a in said.columns if isinstance(a, Attribute)]
        if bought := [c for c in said.columns if isinstance(c, Purchase)]:
            fact = f"the {bought[0].fact} of '{bought[0].name}'"
            raise InputError(f"{where}: {fact} are left to be bought from the private rows; give them here instead")
        try:
            return cls(attributes, source=said.source, structural_zeros=said.structural_zeros, ignored=said.ignored)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Domain:
        """Read a domain from a JSON file of either form of `from_dict`."""
        return cls.from_dict(read_content(path, "domain file", as_json=True), where=str(path))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Domain:
        """Read a domain from a YAML file, or JSON by its ending, of either form of `from_dict`."""
        return cls.from_dict(read_content(path, "domain file"), where=str(path))

    def to_dict(self) -> dict[str, Any]:
        """Return the full JSON form."""
        content: dict[str, Any] = {"attributes": [as_dict(a) for a in self.attributes], "source": self.source}
        if self.structural_zeros:
            content["structural_zeros"] = [asdict(zeros) for zeros in self.structural_zeros]
        if self.ignored:
            content["ignored"] = list(self.ignored)
        return content

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the full JSON form, atomically."""
        write_text(path, json.dumps(self.to_dict(), indent=1) + "\n")
