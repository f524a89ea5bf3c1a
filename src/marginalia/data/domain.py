"""The public domain of a table: which attributes it has, which values each can take, and how that is written down.

A domain file is read strictly. Where it leaves labels or edges to be learned from the private rows, the domain is open.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from marginalia.data import values
from marginalia.data.attribute import (
    NUMBERS,
    OTHER,
    Attribute,
    Fact,
    Kind,
    PrivateBins,
    Rule,
    StructuralZeros,
    Within,
    point_edges,
)
from marginalia.data.files import read_content, write_text
from marginalia.data.reading import kind_of
from marginalia.data.rules.feasible import feasible_row, zeros_of_rules
from marginalia.data.rules.rules import Rules
from marginalia.data.units import BoughtUnit, KeyType, Unit
from marginalia.errors import InputError, unknown_name

_KEYS = ("attributes", "source", "structural_zeros", "ignored", "derived", "rules", "defaults")
_UNIT_KEYS = ("unit", "rows_per_unit", "unit_type")
_DEFAULTS = ("missing", "reviewed")
_ZEROS_NEED = "'structural_zeros' needs 'attributes' (names) and 'cells' (lists of codes)"
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_EDGE_KEYS = ("private", "bins", "bounds", "from", "to", "steps")
_COLUMN_KEYS = (*(f.name for f in fields(Attribute) if f.name != "private"), "points")
_READ_KEYS = (*_COLUMN_KEYS, "reviewed")
_DECADES = 6  # below the largest edge, between which and 0 there are no more steps


def _domain(content: Any) -> Domain:
    """Return the domain of the content of a file of either form; see `Domain.from_dict`."""
    if not isinstance(content, Mapping) or not content:
        raise InputError("expected an object of attribute names and sizes")
    if not isinstance(content.get("attributes"), list):
        if "attributes" in content and not isinstance(content["attributes"], int):
            raise InputError("'attributes' must be a list, with a name for every entry")
        return Domain(Attribute(str(n), m) for n, m in content.items())
    if unknown := set(content) - {*_KEYS, *_UNIT_KEYS}:
        raise unknown_name("key", min(map(str, unknown)), (*_KEYS, *_UNIT_KEYS))
    zeros = content.get("structural_zeros") or ()
    if not isinstance(zeros, list | tuple):
        raise InputError(f"'structural_zeros' must be a list; every entry of {_ZEROS_NEED}")
    ignored = _texts(content.get("ignored") or (), "'ignored'")
    defaults = _defaults(content.get("defaults") or {})
    columns = [_column(_with_defaults(item, defaults)) for item in content["attributes"]]
    if both := set(ignored) & {c.name for c in columns}:
        raise InputError(f"column '{min(both)}' stands under 'attributes' and under 'ignored'")
    return Domain(
        columns,
        source=content.get("source", "declared"),
        structural_zeros=map(_zeros, zeros),
        ignored=ignored,
        rules=Rules.parse(content.get("rules") or (), content.get("derived") or {}),
        unit=parse_unit(content),
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
        return BoughtUnit(column, rows["most"], float(rows["private"]), type=of_type)
    return Unit(column, 1 if rows is None else rows, type=of_type)


def _defaults(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError("'defaults' must be keys of attributes with values, such as {missing: [NA]}")
    if unknown := set(given) - set(_DEFAULTS):
        raise unknown_name("key of 'defaults'", min(map(str, unknown)), _DEFAULTS)
    return given


def _with_defaults(item: Any, defaults: Mapping[str, Any]) -> Any:
    """Return the entry of an attribute with what it does not say itself; files of codes have no marks."""
    if not isinstance(item, Mapping) or item.get("type") in (None, "code"):
        return item
    return {**defaults, **item}


def as_dict(attribute: Attribute) -> dict[str, Any]:
    """Return the keys of an attribute in a file; what is not set is left out.

    >>> as_dict(Attribute("born", 1, "numeric", edges=(0.0, 2.0), type="date"))["edges"]
    ['1970-01-01', '1970-01-03']
    >>> as_dict(Attribute("ward", type="string", private="labels"))
    {'name': 'ward', 'kind': 'categorical', 'type': 'string', 'labels': 'private'}
    """
    content: dict[str, Any] = {"name": attribute.name, "size": attribute.size, "kind": attribute.kind}
    for key in _COLUMN_KEYS[3:-1]:
        value = getattr(attribute, key)
        if value is not None and value is not False and (value or key in ("missing", "decimals")):
            content[key] = _listed(value)
    unit, private = attribute.counted_in, attribute.private
    if unit is not None and attribute.edges is not None:  # the first whole unit of a bin
        content["edges"] = [values.iso(math.ceil(edge), unit) for edge in attribute.edges]
    if private is not None:
        del content["size"]
    if private == "labels":
        content["labels"] = "private"
    elif private is not None:
        content["edges"] = {"private": private.rule, "bins": private.bins}
        if private.bounds is not None:
            content["edges"]["bounds"] = [b if unit is None else values.iso(b, unit) for b in private.bounds]
        if private.points:
            content["points"] = list(private.points)
    return content


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, tuple) else value


def _column(item: Any) -> Attribute:
    if not isinstance(item, Mapping) or "name" not in item:
        raise InputError(f"every entry of 'attributes' needs a name, got {values.shown(item)}")
    name = _text(item["name"], "the name of an attribute")
    here = f"attribute '{name}'"
    if unknown := set(item) - set(_READ_KEYS):
        raise unknown_name(f"key of {here}", min(map(str, unknown)), _READ_KEYS)
    kind = item.get("kind", "numeric" if item.get("edges") is not None else "categorical")
    facts: dict[str, Any] = {
        "type": item.get("type"),
        "bottom": _flag(item, "bottom", here),
        "top": _flag(item, "top", here),
        "other": _other(item.get("other"), here),
        "missing": None if item.get("missing") is None else _texts(item["missing"], f"{here}: 'missing'"),
        "inferred": _inferred(item, here),
        "lenient": _flag(item, "lenient", here),
        "format": None if item.get("format") is None else _text(item["format"], f"{here}: 'format'"),
        "unit": item.get("unit"),
        "zone": None if item.get("zone") is None else _text(item["zone"], f"{here}: 'zone'"),
        "special": _texts(item.get("special") or (), f"{here}: 'special'"),
        "decimals": item.get("decimals"),
    }
    if not isinstance(facts["decimals"], int | None):
        raise InputError(f"{here}: decimals are a whole number, not {values.shown(facts['decimals'])}")
    for key in ("kind", "type", "unit"):
        if not isinstance({"kind": kind, **facts}[key], str | None):
            raise InputError(f"{here}: '{key}' must be a word")
    raw_labels, raw_edges = item.get("labels"), item.get("edges")
    if raw_labels == "private" or (isinstance(raw_edges, Mapping) and "private" in raw_edges):
        return _open_column(name, here, item, kind, facts)
    labels = None if raw_labels is None else _texts(raw_labels, f"{here}: 'labels'")
    edges = None if raw_edges is None else _edges(raw_edges, here, facts)
    if points := _points(item, here, facts):
        if edges is None:
            raise InputError(f"{here}: 'points' go with edges")
        edges = tuple(sorted({*edges, *points}))
        for end, flag in ((edges[:2], "bottom"), (edges[-2:], "top")):
            if facts[flag] and set(end) <= set(points):
                raise InputError(f"{here}: the point {end[0]:g} has no bin of its own beside `{flag}: true`")
    if edges is not None and len(edges) < 2:
        raise InputError(f"{here}: bins have two edges at least, such as [0, 18, 65], not {values.shown(raw_edges)}")
    known = len(labels) if labels is not None else len(edges) - 1 if edges is not None else None
    if known is None and facts["type"] == "boolean":
        known = 2
    counted = None if known is None else known + _beside(facts)
    size = item.get("size", counted)
    if size is None:
        raise InputError(f"{here} needs a size, labels or edges")
    within = None if item.get("within") is None else _within(item["within"], here)
    return Attribute(name, size, kind, labels, edges, **facts, within=within)


def _beside(facts: Mapping[str, Any]) -> int:
    """Return the number of codes that stand for no label or bin."""
    return (facts["other"] is not None) + len(facts["special"]) + (facts["missing"] is not None)


def _inferred(item: Mapping[str, Any], here: str) -> tuple[str, ...]:
    """Return the facts that were read off the rows and that nobody has confirmed as public."""
    found = _texts(item.get("inferred") or (), f"{here}: 'inferred'")
    if unknown := set(found) - set(get_args(Fact)):
        raise unknown_name(f"fact under 'inferred' of {here}", min(unknown), get_args(Fact))
    return () if _flag(item, "reviewed", here) else found


def _open_column(name: str, here: str, item: Mapping[str, Any], kind: Any, facts: dict[str, Any]) -> Attribute:
    if "size" in item:
        raise InputError(f"{here}: leave 'size' out; it follows from what is learned")
    fact = "edges" if item.get("labels") is None else "labels"
    facts["lenient"] = False  # the column that is learned will be
    facts["inferred"] = tuple(known for known in facts["inferred"] if known != fact)  # each fit learns it
    if fact == "labels":
        if item["labels"] != "private" or item.get("edges") is not None:
            raise InputError(f"{here}: give labels or edges, and one of them may be private")
        return Attribute(name, kind=kind, private="labels", **facts)
    wanted = item["edges"]
    if unknown := set(wanted) - set(_EDGE_KEYS):
        raise unknown_name(f"key of the edges of {here}", min(map(str, unknown)), _EDGE_KEYS)
    if (rule := wanted.get("private")) not in get_args(Rule):
        raise unknown_name(f"rule for private edges of {here}", str(rule), get_args(Rule))
    bins = _bins(wanted.get("bins", 16), here)
    bounds = None if wanted.get("bounds") is None else _bounds(wanted["bounds"], here, facts)
    points = _edges(item["points"], here, facts) if _points(item, here, facts) else ()
    return Attribute(name, kind=kind, private=PrivateBins(rule, bins, bounds, points), **facts)


def _points(item: Mapping[str, Any], here: str, facts: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the edges that the points of a column add to its own."""
    if item.get("points") is None:
        return ()
    if facts["type"] not in NUMBERS:
        raise InputError(f"{here}: 'points' are for integers, numbers, dates and timestamps")
    if not isinstance(item["points"], list | tuple):
        raise InputError(f"{here}: 'points' must be a list of values, such as [0, 9.99]")
    try:
        return point_edges(_edges(item["points"], here, facts), facts["type"], facts["decimals"])
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(here) else f"{here}: {error}") from None


def _edges(raw: Any, here: str, facts: Mapping[str, Any]) -> tuple[float, ...]:
    if isinstance(raw, Mapping):
        return _steps(raw, here, facts) if "steps" in raw else _equal_bins(raw, here, facts)
    if not isinstance(raw, list | tuple):
        raise InputError(f"{here}: edges must be a list of numbers, such as [0, 18, 65], not {values.shown(raw)}")
    edges = []
    for value in raw:
        if facts["type"] == "timestamp":
            edges.append(_time_edge(value, here, facts))
            continue
        try:
            if facts["type"] == "date":
                edges.append(float(values.day(value, zone=facts["zone"])))
                continue
            if isinstance(value, str) and _EXPONENT.fullmatch(value):  # YAML 1.1 takes 1e-7 for a text
                value = float(value)
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                raise ValueError
            edges.append(float(value))
        except (ValueError, OverflowError):
            raise InputError(
                f"{here}: edges are numbers (or dates, with type: date), not {values.shown(value)}"
            ) from None
    return tuple(edges)


def _time_edge(value: Any, here: str, facts: Mapping[str, Any]) -> float:
    if facts["unit"] not in get_args(values.Unit):
        raise InputError(f"{here}: a timestamp needs its 'unit': {', '.join(get_args(values.Unit))}")
    try:
        return float(values.whole_moment(value, facts["unit"], zone=facts["zone"]))
    except ValueError as error:
        raise InputError(f"{here}: edge {values.shown(value)} {error}") from None


def _equal_bins(raw: Mapping[str, Any], here: str, facts: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the edges of bins of equal width between public bounds."""
    if unknown := set(raw) - set(_EDGE_KEYS):
        raise unknown_name(f"key of the edges of {here}", min(map(str, unknown)), _EDGE_KEYS)
    if set(raw) != {"bins", "bounds"}:
        raise InputError(f"{here}: equal bins need their number and bounds, such as {{bins: 4, bounds: [0, 8]}}")
    first, last = _bounds(raw["bounds"], here, facts)
    edges = np.linspace(first, last, _bins(raw["bins"], here) + 1)
    return tuple((np.ceil(edges) if facts["type"] in ("date", "timestamp") else edges).tolist())  # as they are written


def _steps(raw: Mapping[str, Any], here: str, facts: Mapping[str, Any]) -> tuple[float, ...]:
    """Return edges that follow the same steps in each power of ten, such as 1, 2, 5, 10, 20, 50 on both sides of 0."""
    of_type, decimals = facts["type"], facts.get("decimals")
    if set(raw) != {"from", "to", "steps"} or of_type not in ("integer", "number"):
        raise InputError(f"{here}: steps of numbers need both ends, such as {{from: 0, to: 1000, steps: 1-2-5}}")
    first, last = _bounds([raw["from"], raw["to"]], here, facts)
    if not re.fullmatch(r"1(-[2-9])*", steps := str(raw["steps"])) or (digits := steps.split("-")) != sorted(
        set(digits)
    ):
        raise InputError(f"{here}: steps are digits that ascend from 1, such as 1-2-5, not {values.shown(steps)}")
    largest = max(-first, last)
    unit = 1.0 if of_type == "integer" else 10.0 ** -(decimals or 0) if decimals is not None else 0.0
    least = first if first > 0 else -last if last < 0 else max(unit, largest / 10.0**_DECADES)
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(largest)) + 1)
    sizes = [float(f"{digit}e{power}") for power in powers for digit in digits]
    inner = {0.0, *(sign * size for size in sizes if size >= least for sign in (1, -1))}
    return (first, *sorted(edge for edge in inner if first < edge < last), last)


def _within(raw: Any, here: str) -> Within:
    if raw == "log":
        return "log"
    try:
        return tuple(tuple((float(place), float(below)) for place, below in places) for places in raw)
    except (TypeError, ValueError):
        raise InputError(
            f"{here}: 'within' is log, or for each bin a list of pairs [place, share below], not {values.shown(raw)}"
        ) from None


def _bins(raw: Any, here: str) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or not 2 <= raw <= 4096:
        raise InputError(f"{here}: bins must be a whole number from 2 to 4096, not {values.shown(raw)}")
    return raw


def _bounds(raw: Any, here: str, facts: Mapping[str, Any]) -> tuple[float, float]:
    bounds = () if isinstance(raw, Mapping) else _edges(raw, here, facts)
    if len(bounds) != 2 or not bounds[0] < bounds[1]:
        raise InputError(f"{here}: bounds are two numbers (or dates), the lower first")
    if facts["type"] == "integer" and not all(map(float.is_integer, bounds)):
        raise InputError(f"{here}: bounds of integers are whole numbers")
    return bounds


def _texts(raw: Any, what: str) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple):
        raise InputError(f"{what} must be a list, such as [a, b], not {values.shown(raw)}")
    return tuple(_text(value, what) for value in raw)


def _text(value: Any, what: str) -> str:
    """Return a scalar of a file as text; truth values and nothing are refused: YAML reads yes, no and null so."""
    if isinstance(value, bool) or value is None:
        word = {True: "true (YAML's yes, on, true)", False: "false (YAML's no, off, false)", None: "null"}[value]
        raise InputError(f"{what}: {word} is not a text; put the word in quotes")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if not isinstance(value, str | int | float):
        raise InputError(f"{what}: {values.shown(value)} is not a text")
    return values.text(value) if not isinstance(value, str) else value


def _flag(item: Mapping[str, Any], key: str, here: str) -> bool:
    if not isinstance(value := item.get(key, False), bool):
        raise InputError(f"{here}: '{key}' is true or false, not {values.shown(value)}")
    return value


def _other(raw: Any, here: str) -> str | None:
    if raw is None or raw is False:
        return None
    return OTHER if raw is True else _text(raw, f"{here}: 'other'")


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


_SHOWN = 20  # attributes in the short form
Source = Literal["documented", "declared", "released", "inferred"]


class Domain:
    """Ordered attributes with their sizes: the public frame of a `Table`.

    Parameters
    ----------
    attributes : iterable of Attribute
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
        Whose rows are protected together; default: each row alone. Its column is no attribute.

    Attributes
    ----------
    declared_zeros : tuple of StructuralZeros
        Those that were given: a row that lies in one is refused.
    structural_zeros : tuple of StructuralZeros
        These, and those that follow from the rules: no model gives them mass.
    open_columns : tuple of Attribute
        The columns whose labels or edges are to be learned privately.

    Raises
    ------
    InputError
        Duplicate names, structural zeros outside the domain, or rules that do not fit it.

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
        attributes: Iterable[Attribute],
        *,
        source: Source = "declared",
        structural_zeros: Iterable[StructuralZeros] = (),
        ignored: Iterable[str] = (),
        rules: Rules = Rules(),
        unit: Unit | None = None,
    ) -> None:
        self.attributes = tuple(attributes)
        if source not in get_args(Source):
            raise unknown_name("domain source", str(source), get_args(Source))
        self.source: Source = "inferred" if any(a.inferred for a in self.attributes) else source
        self.rules = rules
        self.ignored = tuple(dict.fromkeys((*ignored, *rules.unread)))
        self._position = {a.name: i for i, a in enumerate(self.attributes)}
        if len(self._position) != len(self.attributes):
            twice, _ = Counter(a.name for a in self.attributes).most_common(1)[0]
            raise InputError(f"attribute '{twice}' stands twice in the domain; give it once")
        self.unit = unit
        if unit is not None and (unit.column in self._position or unit.column in self.ignored):
            place = "attribute" if unit.column in self._position else "column that is ignored"
            raise InputError(f"'{unit.column}' names the unit of each row: it is no {place}")
        self.declared_zeros = tuple(structural_zeros)
        self.open_columns = tuple(a for a in self.attributes if a.is_open)
        open_names = {a.name for a in self.open_columns}
        for zeros in self.declared_zeros:
            if both := open_names & set(zeros.attributes):
                raise InputError(f"structural zeros cannot name '{min(both)}': its codes are learned privately")
            sizes = [self[name].size for name in zeros.attributes]
            if len(set(zeros.attributes)) != len(sizes) or not sizes:
                raise InputError(f"structural zeros need different attributes, not {list(zeros.attributes)}")
            for cell in zeros.cells:
                if len(cell) != len(sizes) or not all(c in range(m) for c, m in zip(cell, sizes, strict=True)):
                    raise InputError(f"structural zero {list(cell)} lies outside {list(zeros.attributes)} = {sizes}")
        if rules:
            rules.check(self.attributes)
            tied = {name: self[name] for rule in rules.rules for name in rule.columns}
            # Of columns that are learned privately an error would reveal what was learned.
            if not any(attribute.lenient or attribute.is_open for attribute in tied.values()):
                feasible_row(tied, rules)

    @cached_property
    def structural_zeros(self) -> tuple[StructuralZeros, ...]:
        """Cells that no synthetic row lies in: those that were declared, and those that follow from the rules."""
        self.require_closed()
        return self.declared_zeros + zeros_of_rules({a.name: a for a in self.attributes}, self.rules)

    @property
    def names(self) -> tuple[str, ...]:
        """Attribute names in column order."""
        return tuple(self._position)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute, in column order."""
        self.require_closed()
        return tuple(a.size for a in self.attributes)

    @property
    def is_open(self) -> bool:
        """Whether labels or edges of a column are to be learned privately."""
        return bool(self.open_columns)

    def require_closed(self, where: str = "") -> Domain:
        """Return the domain; raise `InputError` if a column is open. `where` is named in the message.

        >>> Domain([Attribute("ward", type="string", private="labels")]).sizes
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

        >>> ward = Attribute("ward", 1, labels=("A",), type="string", inferred=("type", "labels"))
        >>> Domain([ward]).inferred
        {'labels': ['ward'], 'type': ['ward']}
        """
        found = {fact: [a.name for a in self if fact in a.inferred] for fact in ("labels", "edges", "missing", "type")}
        return {fact: names for fact, names in found.items() if names}

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
        mine, theirs = ((d.attributes, d.declared_zeros, d.rules, d.unit) for d in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.attributes, self.declared_zeros, self.rules))

    def __repr__(self) -> str:
        inside = ", ".join(f"{a.name}={a.size or 'open'}" for a in self.attributes[:_SHOWN])
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
        sizes = self.sizes
        return math.prod(sizes if names is None else (sizes[self.index(n)] for n in names))

    def project(self, names: Sequence[str]) -> Domain:
        """Return the domain of `names`, in the order given, with the structural zeros that fit inside.

        It has no unit: a table of some columns knows the units of its rows. Files may have that column all the same.
        """
        kept = [z for z in self.declared_zeros if set(z.attributes) <= set(names)]
        ignored = (*self.ignored, *([] if self.unit is None else [self.unit.column]))
        rules = self.rules.among(names)
        return self.replace([self[n] for n in names], structural_zeros=kept, ignored=ignored, rules=rules, unit=None)

    def replace(self, attributes: Iterable[Attribute] | None = None, **facts: Any) -> Domain:
        """Return the domain with other attributes, or with other keyword arguments of `Domain`.

        >>> Domain.from_sizes({"age": 8}).replace(source="documented")
        Domain(age=8; documented)
        """
        mine: dict[str, Any] = {
            "source": self.source,
            "structural_zeros": self.declared_zeros,
            "ignored": self.ignored,
            "rules": self.rules,
            "unit": self.unit,
        }
        return Domain(self.attributes if attributes is None else attributes, **(mine | facts))

    def with_attribute(self, attribute: Attribute) -> Domain:
        """Return the domain with another attribute of the same name in place of one."""
        return self.replace(attribute if a.name == attribute.name else a for a in self.attributes)

    def of_kinds(self, kinds: Mapping[str, Kind]) -> Domain:
        """Return the domain with other kinds for some attributes."""
        return self.replace(replace(a, kind=kinds.get(a.name, a.kind)) for a in self.attributes)

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

    def closed(self, learned: Mapping[str, Attribute] | None = None) -> Domain:
        """Return the domain with the columns that were learned, by name, in place of the open ones.

        Its source is ``released`` where rows were read for them; ``inferred`` stays.
        """
        if not self.is_open:
            return self
        source = self.source
        if source != "inferred" and any(a.needs_epsilon for a in self.open_columns):
            source = "released"
        return self.replace(((learned or {}).get(a.name, a) for a in self.attributes), source=source).require_closed()

    def placeholder(self) -> Domain:
        """Return the domain with a placeholder for each open column: any value has a code in it."""
        return self.closed({a.name: a.placeholder() for a in self.open_columns})

    def without_open(self) -> Domain:
        """Return the domain of the columns that are not open, by which tables with the others can be read."""
        known = [a for a in self.attributes if not a.is_open]
        ignored = (*self.ignored, *(a.name for a in self.open_columns))
        return self.replace(known, ignored=ignored, rules=self.rules.among(a.name for a in known))

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
            "structural_zeros": [{"attributes": [...], "cells": [[...], ...]}], "ignored": [...], "defaults": {...}}``.
            The keys of an attribute are those of `Attribute`; it may leave `size` out where its labels or edges
            determine it. `other` may be true, which means the text "other"; edges of dates are ISO dates, of timestamps
            ISO date-times. ``reviewed: true`` says that whatever is `inferred` is public knowledge, and empties it.
            `defaults` holds `missing` or `reviewed` of all attributes with a `type` that do not say it themselves.
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
        if self.declared_zeros:
            content["structural_zeros"] = [asdict(zeros) for zeros in self.declared_zeros]
        if ignored := [name for name in self.ignored if name not in dict(self.rules.derived)]:
            content["ignored"] = ignored
        return content | unit_as_dict(self.unit) | self.rules.to_dict()

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
    rows = {"private": unit.share, "most": unit.rows} if isinstance(unit, BoughtUnit) else unit.rows
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
