"""The public domain of a table: which columns it has, which values each can take, and how that is written down.

A domain file is read strictly. Where it leaves labels or edges to be learned from the private rows, the domain is open.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from marginalia.data import values
from marginalia.data.column import Column, Kind, StructuralZeros, text_of
from marginalia.data.files import read_content, write_text
from marginalia.data.reading import check_collected, is_frame, kind_of, with_text_names
from marginalia.data.rules.feasible import feasible_row, zeros_of_rules
from marginalia.data.rules.rules import Rules
from marginalia.data.units import KeyType, Unit, UnitOfLearnedRows
from marginalia.errors import InputError, unknown_name

_KEYS = ("attributes", "source", "structural_zeros", "ignored", "derived", "rules", "defaults", "weights")
_UNIT_KEYS = ("unit", "rows_per_unit", "unit_type")
_DEFAULTS = ("missing", "reviewed")
_ZEROS_NEED = "'structural_zeros' needs 'attributes' (names) and 'cells' (lists of codes)"


def _domain(content: Any) -> Domain:
    """Return the domain of the content of a file of either form; see `Domain.from_dict`."""
    if not isinstance(content, Mapping) or not content:
        raise InputError("expected an object of column names and sizes")
    if not isinstance(content.get("attributes"), list):
        if "attributes" in content and not isinstance(content["attributes"], int):
            raise InputError("'attributes' must be a list, with a name for every entry")
        return Domain(Column(str(n), m) for n, m in content.items())
    if unknown := set(content) - {*_KEYS, *_UNIT_KEYS}:
        raise unknown_name("key", min(map(str, unknown)), (*_KEYS, *_UNIT_KEYS))
    zeros = content.get("structural_zeros") or ()
    if not isinstance(zeros, list | tuple):
        raise InputError(f"'structural_zeros' must be a list; every entry of {_ZEROS_NEED}")
    ignored = _texts(content.get("ignored") or (), "'ignored'")
    defaults = _defaults(content.get("defaults") or {})
    columns = [Column.from_dict(_with_defaults(item, defaults)) for item in content["attributes"]]
    if both := set(ignored) & {c.name for c in columns}:
        raise InputError(f"column '{min(both)}' stands under 'attributes' and under 'ignored'")
    return Domain(
        columns,
        source=content.get("source", "declared"),
        structural_zeros=map(_zeros, zeros),
        ignored=ignored,
        rules=Rules.parse(content.get("rules") or (), content.get("derived") or {}),
        unit=parse_unit(content),
        weights=None if content.get("weights") is None else _text(content["weights"], "'weights'"),
    )


def parse_unit(content: Mapping[str, Any]) -> Unit | None:
    """Return the unit that a domain file or a configuration names, with `rows_per_unit` (1 if it says nothing).

    >>> print(parse_unit({"unit": "patient", "rows_per_unit": 3, "unit_type": "integer"}))
    one `patient`, at most 3 rows each
    """
    if content.get("unit") is None:
        if alone := [key for key in _UNIT_KEYS if content.get(key) is not None]:
            raise InputError(f"'{alone[0]}' goes with 'unit', the column that names the person or household")
        return None
    column, rows = _text(content["unit"], "'unit'"), content.get("rows_per_unit")
    of_type = content.get("unit_type")
    if isinstance(rows, Mapping):
        if set(rows) != {"private", "most"} or not isinstance(rows["private"], int | float):
            raise InputError(
                "rows_per_unit is a number, or {private: SHARE, most: NUMBER} to have each fit learn it privately"
            )
        return UnitOfLearnedRows(column, rows["most"], float(rows["private"]), type=of_type)
    return Unit(column, 1 if rows is None else rows, type=of_type)


def _defaults(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError("'defaults' must be keys of columns with values, such as {missing: [NA]}")
    if unknown := set(given) - set(_DEFAULTS):
        raise unknown_name("key of 'defaults'", min(map(str, unknown)), _DEFAULTS)
    return given


def _with_defaults(item: Any, defaults: Mapping[str, Any]) -> Any:
    """Return the entry of a column with what it does not say itself; files of codes have no marks."""
    if not isinstance(item, Mapping) or item.get("type") in (None, "code"):
        return item
    return {**defaults, **item}


def _texts(raw: Any, what: str) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple):
        raise InputError(f"{what} must be a list, such as [a, b], not {values.shown(raw)}")
    return tuple(_text(value, what) for value in raw)


def _text(value: Any, what: str) -> str:
    try:
        return text_of(value)
    except ValueError as error:
        raise InputError(f"{what}: {error}") from None


def _keys_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Return the JSON schema of a mapping with these keys and no others."""
    return {"additionalProperties": False, "properties": properties, "required": list(required), "type": "object"}


def _zeros(item: Any) -> StructuralZeros:
    try:
        names, cells = item["attributes"], item["cells"]
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
            raise TypeError
        if not isinstance(cells, list | tuple) or any(isinstance(c, str | Mapping) for c in cells):
            raise TypeError
        return StructuralZeros(tuple(names), tuple(map(tuple, cells)))
    except (KeyError, TypeError):
        raise InputError(f"every entry of {_ZEROS_NEED}, got {values.shown(item, 80)}") from None


_SHOWN = 20  # columns in the short form
_FACTS = ("labels", "edges", "missing", "special", "type")  # that may be read off the rows: what reveals most, first
Source = Literal["documented", "declared", "released", "inferred"]


class Domain:
    """Ordered columns with their sizes: the public frame of a `Table`.

    Parameters
    ----------
    columns : iterable of Column
        In column order; names are unique. If one of them is open, the domain is: a fit learns its labels or edges
        privately, and whatever needs codes raises `InputError`.
    source : {"documented", "declared", "released", "inferred"}
        Where the domain comes from: published documentation, the user's declaration, a differentially private
        release, or the private rows themselves (recorded with a warning: that costs privacy nobody accounted for).
        A domain with an inferred fact is inferred, whatever is said here.
    structural_zeros : iterable of StructuralZeros
    ignored : iterable of str
        Columns of files and data frames that are not read.
    rules : Rules
        What synthetic rows obey, and the columns that are derived from others: these are ignored, too.
    unit : Unit, optional
        Whose rows are protected together; default: each row alone. Its column has no codes.
    weights : str, optional
        The column of survey weights: how many persons a row stands for. It is a column like others, of numbers within
        public bounds from 0 on. Weighted means use it (`marginalia.inference.weighted_mean`).

    Attributes
    ----------
    declared_zeros : tuple of StructuralZeros
        Those that were given: a row that lies in one is refused.
    structural_zeros : tuple of StructuralZeros
        These, and those that follow from the rules: no model gives them mass.
    open_columns : tuple of Column
        The columns whose labels or edges are to be learned privately.

    Raises
    ------
    InputError
        Duplicate names, structural zeros outside the domain, rules that do not fit it, or a column of weights that
        is not in the domain or whose public bounds allow no weights.

    Examples
    --------
    >>> domain = Domain.from_sizes({"age": 8, "sex": 2, "region": 5})
    >>> domain.project(["region", "sex"]).n_cells()
    10
    >>> age = {"name": "age", "type": "integer", "edges": {"private": "adaptive", "bins": 4}}
    >>> domain = Domain.from_dict({"attributes": [age, {"name": "ill", "type": "boolean"}]})
    >>> [column.name for column in domain.open_columns]
    ['age']
    >>> domain.closed({"age": domain["age"].closed(edges=(0, 18, 65, 120))})
    Domain(age=4, ill=2; released)
    """

    def __init__(
        self,
        columns: Iterable[Column],
        *,
        source: Source = "declared",
        structural_zeros: Iterable[StructuralZeros] = (),
        ignored: Iterable[str] = (),
        rules: Rules = Rules(),
        unit: Unit | None = None,
        weights: str | None = None,
    ) -> None:
        self.columns = tuple(columns)
        if source not in get_args(Source):
            raise unknown_name("domain source", str(source), get_args(Source))
        self.source: Source = "inferred" if any(a.inferred for a in self.columns) else source
        self.rules = rules
        self.ignored = tuple(dict.fromkeys((*ignored, *rules.unread)))
        self._position = {a.name: i for i, a in enumerate(self.columns)}
        if len(self._position) != len(self.columns):
            twice, _ = Counter(a.name for a in self.columns).most_common(1)[0]
            raise InputError(f"column '{twice}' stands twice in the domain; give it once")
        self.unit = unit
        if unit is not None and (unit.column in self._position or unit.column in self.ignored):
            place = "column of the domain" if unit.column in self._position else "ignored column"
            raise InputError(f"'{unit.column}' names the unit of each row: it is no {place}")
        self.declared_zeros = tuple(structural_zeros)
        self.open_columns = tuple(a for a in self.columns if a.is_open)
        open_names = {a.name for a in self.open_columns}
        for zeros in self.declared_zeros:
            if both := open_names & set(zeros.attributes):
                raise InputError(f"structural zeros cannot name '{min(both)}': its codes are learned privately")
            sizes = [self[name].size for name in zeros.attributes]
            if len(set(zeros.attributes)) != len(sizes) or not sizes:
                raise InputError(f"structural zeros need different columns, not {list(zeros.attributes)}")
            for cell in zeros.cells:
                if len(cell) != len(sizes) or not all(c in range(m) for c, m in zip(cell, sizes, strict=True)):
                    raise InputError(f"structural zero {list(cell)} lies outside {list(zeros.attributes)} = {sizes}")
        self.weights = weights
        if weights is not None:
            self._check_weights(weights)
        if rules:
            rules.check(self.columns)
            tied = {name: self[name] for rule in rules.rules for name in rule.columns}
            # Of columns that are learned privately an error would reveal what was learned.
            if not any(column.lenient or column.is_open for column in tied.values()):
                feasible_row(tied, rules)

    def _check_weights(self, name: str) -> None:
        if name not in self._position:
            place = "names the unit" if self.unit is not None and self.unit.column == name else "is ignored"
            known = name in self.ignored or place == "names the unit"
            raise InputError(
                f"weights: '{name}' {place if known else 'is no column of the domain'}; list it under 'attributes'"
            )
        column = self[name]
        if column.lenient:  # learned within its bounds, which were checked
            return
        if column.type not in ("integer", "number"):
            raise InputError(f"weights: '{name}' is of type {column.type}; weights are of type integer or number")
        if column.private == "labels" or (column.private is not None and column.private.bounds is None):
            edges = "edges: {private: adaptive, bins: 32, bounds: [0, 5000]}"
            raise InputError(f"weights: '{name}' needs public bounds from 0 on, as in {edges}")
        private = column.private
        ends = private.bounds if private is not None else column.edges or [float(t) for t in column.labels or ()]
        if not ends or min(ends) < 0 or max(ends) <= 0:
            raise InputError(f"weights: '{name}' has bounds below 0; weights are at least 0, and some are above 0")

    @cached_property
    def structural_zeros(self) -> tuple[StructuralZeros, ...]:
        """Cells that no synthetic row lies in: those that were declared, and those that follow from the rules."""
        self.require_closed()
        return self.declared_zeros + zeros_of_rules({a.name: a for a in self.columns}, self.rules)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in column order."""
        return tuple(self._position)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each column, in column order."""
        self.require_closed()
        return tuple(a.size for a in self.columns)

    @property
    def is_open(self) -> bool:
        """Whether labels or edges of a column are to be learned privately."""
        return bool(self.open_columns)

    def require_closed(self, where: str = "") -> Domain:
        """Return the domain; raise `InputError` if a column is open. `where` is named in the message.

        >>> Domain([Column("ward", type="string", private="labels")]).sizes
        Traceback (most recent call last):
        marginalia.errors.InputError: the labels of 'ward' are left to be learned from the private rows; give ...
        """
        for column in self.open_columns:
            fact = f"the {column.open_fact} of '{column.name}'"
            place = f"{where}: " if where else ""
            raise InputError(f"{place}{fact} are left to be learned from the private rows; give them here instead")
        return self

    @property
    def inferred(self) -> dict[str, list[str]]:
        """The columns of each fact that was read off the private rows, and that nobody has confirmed.

        >>> ward = Column("ward", 1, labels=("A",), type="string", inferred=("type", "labels"))
        >>> Domain([ward]).inferred
        {'labels': ['ward'], 'type': ['ward']}
        """
        found = {fact: [a.name for a in self if fact in a.inferred] for fact in _FACTS}
        return {fact: names for fact, names in found.items() if names}

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.index(name)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        mine, theirs = ((d.columns, d.declared_zeros, d.rules, d.unit, d.weights) for d in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.columns, self.declared_zeros, self.rules))

    def __repr__(self) -> str:
        inside = ", ".join(f"{a.name}={a.size or 'open'}" for a in self.columns[:_SHOWN])
        if len(self) > _SHOWN:
            inside += f", ... {len(self)} columns in all"
        return f"Domain({inside}; {self.source})"

    def index(self, name: str) -> int:
        """Return the column number of `name`; raise `InputError` with the nearest name otherwise."""
        try:
            return self._position[name]
        except KeyError:
            raise unknown_name("column", str(name), self._position) from None

    def n_cells(self, names: Sequence[str] | None = None) -> int:
        """Return the exact number of cells of the marginal on `names` (default: the whole domain)."""
        sizes = self.sizes
        return math.prod(sizes if names is None else (sizes[self.index(n)] for n in names))

    def project(self, names: Sequence[str]) -> Domain:
        """Return the domain of `names`, in the order given, with the structural zeros that fit inside.

        It has no unit: a table of some columns knows the units of its rows. Files may have that column all the same.
        """
        kept = [z for z in self.declared_zeros if set(z.attributes) <= set(names)]
        ignored = (*self.ignored, *([] if self.unit is None else [self.unit.column]))
        facts = {"rules": self.rules.among(names), "weights": self.weights if self.weights in names else None}
        return self.replace([self[n] for n in names], structural_zeros=kept, ignored=ignored, unit=None, **facts)

    def replace(self, columns: Iterable[Column] | None = None, **facts: Any) -> Domain:
        """Return the domain with other columns, or with other keyword arguments of `Domain`.

        >>> Domain.from_sizes({"age": 8}).replace(source="documented")
        Domain(age=8; documented)
        """
        mine: dict[str, Any] = {
            "source": self.source,
            "structural_zeros": self.declared_zeros,
            "ignored": self.ignored,
            "rules": self.rules,
            "unit": self.unit,
            "weights": self.weights,
        }
        return Domain(self.columns if columns is None else columns, **(mine | facts))

    def with_column(self, column: Column) -> Domain:
        """Return the domain with another column of the same name in place of one."""
        return self.replace(column if a.name == column.name else a for a in self.columns)

    def of_kinds(self, kinds: Mapping[str, Kind]) -> Domain:
        """Return the domain with other kinds for some columns."""
        return self.replace(a.replace(kind=kinds.get(a.name, a.kind)) for a in self.columns)

    def of_unit(self, column: str | None, rows: int | None, of_type: KeyType | None = None) -> Domain:
        """Return the domain with a unit that is said elsewhere: its column and type, where it names none, or its rows.

        >>> print(Domain.from_sizes({"ward": 2}).of_unit("patient", 3).unit)
        one `patient`, at most 3 rows each
        """
        if column is None and rows is None and of_type is None:
            return self
        if self.unit is not None and column not in (None, self.unit.column):
            raise InputError(f"the unit is '{self.unit.column}' in the domain and '{column}' here: name one")
        own = {} if self.unit is None else unit_as_dict(self.unit)
        if of_type is not None and own.get("unit_type", of_type) != of_type:
            raise InputError(f"unit_type is '{own['unit_type']}' in the domain and '{of_type}' here: give it once")
        said = {"unit": column, "rows_per_unit": rows, "unit_type": of_type}
        unit = parse_unit({**own, **{key: value for key, value in said.items() if value}})
        return self.replace(ignored=[n for n in self.ignored if unit is None or n != unit.column], unit=unit)

    def closed(self, learned: Mapping[str, Column] | None = None) -> Domain:
        """Return the domain with the columns that were learned, by name, in place of the open ones.

        Its source is ``released`` where rows were read for them; ``inferred`` stays.
        """
        if not self.is_open:
            return self
        source = self.source
        if source != "inferred" and any(a.needs_epsilon for a in self.open_columns):
            source = "released"
        return self.replace(((learned or {}).get(a.name, a) for a in self.columns), source=source).require_closed()

    def placeholder(self) -> Domain:
        """Return the domain with a placeholder for each open column: any value has a code in it."""
        return self.closed({a.name: a.placeholder() for a in self.open_columns})

    def without_open(self) -> Domain:
        """Return the domain of the columns that are not open, by which tables with the others can be read."""
        known = [a for a in self.columns if not a.is_open]
        ignored = (*self.ignored, *(a.name for a in self.open_columns))
        names = [a.name for a in known]
        weights = self.weights if self.weights in names else None
        return self.replace(known, ignored=ignored, rules=self.rules.among(names), weights=weights)

    def drop(self, name: str) -> Domain:
        """Return the domain without column `name`."""
        self.index(name)
        return self.project([n for n in self.names if n != name])

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int], *, source: Source = "declared") -> Domain:
        """Build a domain of categorical columns from ``{name: size}``."""
        return cls((Column(str(n), m) for n, m in sizes.items()), source=source)

    @classmethod
    def draft(cls, frame: Any, *, missing: Sequence[str] = ()) -> Domain:
        """Draft the domain of a data frame, as `marginalia domain init` drafts that of a file.

        What is read off the rows stands under `inferred` of each column: nothing is certified before it is declared, or
        reviewed (`to_dict`, edit, `from_dict`). Labels and edges are left to private preprocessing.

        Parameters
        ----------
        frame : DataFrame
            Of pandas, or one that hands out Arrow columns (Polars, PyArrow, Narwhals, DuckDB).
        missing : sequence of str
            Public marks of missing values in all columns.

        Raises
        ------
        InputError
            This is no data frame, or a column has no usable name.

        Examples
        --------
        >>> import pandas as pd
        >>> drafted = Domain.draft(pd.DataFrame({"ill": ["yes", "no", "no"] * 10}))
        >>> drafted.inferred
        {'type': ['ill']}
        """
        from marginalia.data.drafting import draft

        check_collected(frame)
        if not is_frame(frame):
            raise InputError(f"Domain.draft needs a data frame, not {kind_of(frame)}")
        return cls.from_dict(draft(with_text_names(frame), missing=missing).content(), where="draft")

    @classmethod
    def from_dict(cls, content: Any, *, where: str = "domain") -> Domain:
        """Build a domain from either file form.

        Parameters
        ----------
        content : dict
            ``{"name": size, ...}``, or ``{"attributes": [{"name": ..., ...}, ...], "source": ...,
            "structural_zeros": [{"attributes": [...], "cells": [[...], ...]}], "ignored": [...], "defaults": {...}}``.
            The keys of a column are those of `Column`; it may leave `size` out where its labels or edges
            determine it. `other` may be true, which means the text "other"; edges of dates are ISO dates, of timestamps
            ISO date-times. ``reviewed: true`` says that whatever is `inferred` is public knowledge, and empties it.
            `defaults` holds `missing` or `reviewed` of all columns with a `type` that do not say it themselves.
        where : str
            Named in error messages.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        try:
            return _domain(content)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of domain files, by which editors complete their keys and mark what is wrong.

        >>> sorted(Domain.json_schema()["anyOf"][0]["properties"])[:4]
        ['attributes', 'defaults', 'derived', 'ignored']
        """
        column, zeros = Column.model_json_schema(), TypeAdapter(StructuralZeros).json_schema()
        facts = column["properties"]
        text, number, whole = {"type": "string"}, {"type": "number"}, {"minimum": 1, "type": "integer"}
        keys = {
            "attributes": {"items": column, "type": "array"},
            "defaults": _keys_of({key: facts[key] for key in _DEFAULTS}),
            "derived": {"additionalProperties": text, "type": "object"},
            "ignored": {"items": facts["name"], "type": "array"},
            "rows_per_unit": {"anyOf": [whole, _keys_of({"most": whole, "private": number}, "most", "private")]},
            "rules": {"items": {"anyOf": [text, _keys_of({"never": {"type": "object"}}, "never")]}, "type": "array"},
            "source": {"enum": list(get_args(Source))},
            "structural_zeros": {"items": zeros, "type": "array"},
            "unit": text,
            "unit_type": {"enum": list(get_args(KeyType))},
            "weights": text,
        }
        sizes = {"additionalProperties": whole, "type": "object"}
        return {"anyOf": [_keys_of(keys, "attributes"), sizes], "title": "Domain file of marginalia"}

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
        content: dict[str, Any] = {"attributes": [a.to_dict() for a in self.columns], "source": self.source}
        if self.declared_zeros:
            content["structural_zeros"] = [asdict(zeros) for zeros in self.declared_zeros]
        if ignored := [name for name in self.ignored if name not in dict(self.rules.derived)]:
            content["ignored"] = ignored
        weights = {} if self.weights is None else {"weights": self.weights}
        return content | unit_as_dict(self.unit) | weights | self.rules.to_dict()

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the full JSON form, atomically."""
        write_text(path, json.dumps(self.to_dict(), indent=1) + "\n")


def unit_as_dict(unit: Unit | None) -> dict[str, Any]:
    """Return the keys of a unit in a domain file.

    >>> unit_as_dict(Unit("patient", 3))
    {'unit': 'patient', 'rows_per_unit': 3}
    """
    if unit is None:
        return {}
    rows = {"private": unit.share, "most": unit.rows} if isinstance(unit, UnitOfLearnedRows) else unit.rows
    of_type = {} if unit.type is None else {"unit_type": unit.type}
    return {"unit": unit.column, "rows_per_unit": rows, **of_type}


Public = Domain | Mapping[str, Any] | str | os.PathLike[str]
"""What a fit takes as the domain of a data frame."""


def public_domain(given: Public | None) -> Domain:
    """Return the domain of a data frame.

    Parameters
    ----------
    given : Domain, dict or path
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
        return Domain.from_dict(given)
    if isinstance(given, str | os.PathLike):
        return Domain.from_yaml(given)
    raise InputError(f"domain is a Domain, a dict or the path of a domain file, not a {kind_of(given)} object")
