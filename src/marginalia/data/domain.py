"""The public domain of a table: which attributes it has and which values each can take."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from marginalia.data.files import write_text
from marginalia.errors import InputError, unknown_name

Kind = Literal["categorical", "ordinal", "numeric"]
Source = Literal["documented", "declared", "inferred"]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column: codes ``0 .. size-1`` and what they mean.

    Parameters
    ----------
    name : str
    size : int
        Number of codes, at least 1.
    kind : {"categorical", "ordinal", "numeric"}
        ``ordinal`` and ``numeric`` codes follow the order of the values.
    labels : tuple of str, optional
        The value behind each code; length `size`.
    edges : tuple of float, optional
        Public bin edges of a numeric attribute, ascending; length ``size + 1``.

    Examples
    --------
    >>> Attribute("age", 2, "numeric", edges=(0, 30, 65)).size
    2
    """

    name: str
    size: int
    kind: Kind = "categorical"
    labels: tuple[str, ...] | None = None
    edges: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"attribute name {self.name!r} is not a non-empty string")
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise InputError(f"attribute '{self.name}': size must be a positive integer, not {self.size!r}")
        if self.kind not in get_args(Kind):
            raise unknown_name(f"kind of attribute '{self.name}'", str(self.kind), get_args(Kind))
        if self.labels is not None and len(self.labels) != self.size:
            raise InputError(f"attribute '{self.name}': {len(self.labels)} labels for {self.size} codes")
        if self.edges is not None:
            if len(self.edges) != self.size + 1:
                raise InputError(
                    f"attribute '{self.name}': {len(self.edges)} edges for {self.size} bins, need one more"
                )
            if not all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False)):
                raise InputError(f"attribute '{self.name}': bin edges must be strictly ascending")


@dataclass(frozen=True, slots=True)
class StructuralZeros:
    """Cells of a marginal that no record can have, by public knowledge.

    Parameters
    ----------
    attributes : tuple of str
    cells : tuple of tuple of int
        Impossible code combinations, in the order of `attributes`.

    Examples
    --------
    >>> StructuralZeros(("age", "pensioner"), cells=((0, 1),)).attributes
    ('age', 'pensioner')
    """

    attributes: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]


class Domain:
    """Ordered attributes with their sizes: the public frame of a `Table`.

    Parameters
    ----------
    attributes : iterable of Attribute
        In column order; names are unique.
    source : {"documented", "declared", "inferred"}
        Where the domain comes from: published documentation, the user's declaration, or the
        private rows themselves (recorded with a warning: that costs privacy nobody accounted for).
    structural_zeros : iterable of StructuralZeros

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
    ) -> None:
        self.attributes = tuple(attributes)
        if source not in get_args(Source):
            raise unknown_name("domain source", str(source), get_args(Source))
        self.source: Source = source
        self._position = {a.name: i for i, a in enumerate(self.attributes)}
        if len(self._position) != len(self.attributes):
            twice, _ = Counter(a.name for a in self.attributes).most_common(1)[0]
            raise InputError(f"attribute '{twice}' stands twice in the domain; give it once")
        self.structural_zeros = tuple(structural_zeros)
        for zeros in self.structural_zeros:
            sizes = [self[name].size for name in zeros.attributes]
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
        inside = ", ".join(f"{a.name}={a.size}" for a in self.attributes)
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
        return Domain((self[n] for n in names), source=self.source, structural_zeros=kept)

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
            ``{"name": size, ...}``, or ``{"attributes": [{"name", "size", "kind", "labels", "edges"}, ...],
            "source": ..., "structural_zeros": [{"attributes": [...], "cells": [[...], ...]}]}``.
            An attribute may leave `size` out where its labels or edges determine it.
        where : str
            Named in error messages.
        """
        if not isinstance(content, Mapping) or not content:
            raise InputError(f"{where}: expected an object of attribute names and sizes")
        if not isinstance(content.get("attributes"), list):
            return cls.from_sizes(content)
        keys = ("attributes", "source", "structural_zeros")
        if unknown := set(content) - set(keys):
            raise unknown_name(f"key in {where}", min(unknown), keys)
        zeros = [_structural_zeros(item, where) for item in content.get("structural_zeros", ())]
        attributes = [_attribute(item, where) for item in content["attributes"]]
        return cls(attributes, source=content.get("source", "declared"), structural_zeros=zeros)

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Domain:
        """Read a domain from a JSON file of either form of `from_dict`."""
        text = _read(path)
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: not valid JSON ({error.msg}, line {error.lineno})") from None
        return cls.from_dict(content, where=str(path))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Domain:
        """Read a domain from a YAML file of either form of `from_dict` (JSON is YAML too)."""
        import yaml

        try:
            content = yaml.safe_load(_read(path))
        except yaml.YAMLError as error:
            raise InputError(f"{path}: not valid YAML ({str(error).splitlines()[0]})") from None
        return cls.from_dict(content, where=str(path))

    def to_dict(self) -> dict[str, Any]:
        """Return the full JSON form."""
        attributes = [{key: v for key, v in asdict(a).items() if v is not None} for a in self.attributes]
        content: dict[str, Any] = {"attributes": attributes, "source": self.source}
        if self.structural_zeros:
            content["structural_zeros"] = [asdict(zeros) for zeros in self.structural_zeros]
        return content

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the full JSON form, atomically."""
        write_text(path, json.dumps(self.to_dict(), indent=1) + "\n")


def _read(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read domain file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"domain file {path} is not UTF-8 text") from None


def _attribute(item: Any, where: str) -> Attribute:
    if not isinstance(item, Mapping) or "name" not in item:
        raise InputError(f"{where}: every entry of 'attributes' needs a name, got {item!r}")
    keys = ("size", "kind", "labels", "edges")
    if unknown := set(item) - {"name", *keys}:
        raise unknown_name(f"key of attribute '{item['name']}' in {where}", min(unknown), keys)
    labels = tuple(str(v) for v in item["labels"]) if item.get("labels") is not None else None
    edges = tuple(float(v) for v in item["edges"]) if item.get("edges") is not None else None
    size = item.get("size", len(labels) if labels else len(edges) - 1 if edges else None)
    if size is None:
        raise InputError(f"{where}: attribute '{item['name']}' needs a size, labels or edges")
    kind = item.get("kind", "numeric" if edges else "categorical")
    return Attribute(str(item["name"]), size, kind, labels, edges)


def _structural_zeros(item: Any, where: str) -> StructuralZeros:
    try:
        return StructuralZeros(tuple(item["attributes"]), tuple(map(tuple, item["cells"])))
    except (KeyError, TypeError):
        need = "needs 'attributes' (names) and 'cells' (lists of codes)"
        raise InputError(f"{where}: every entry of 'structural_zeros' {need}, got {item!r}") from None
