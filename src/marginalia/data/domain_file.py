"""How a public domain is written down: the keys of its file, read strictly and written back."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from marginalia.data import values
from marginalia.data.attribute import Attribute, Fact, Kind, StructuralZeros, Type
from marginalia.errors import InputError, unknown_name

Rule = Literal["adaptive", "quantile", "uniform"]

OTHER = "other"
WIDE = 2.0**53  # beyond which double precision does not tell whole numbers apart

_KEYS = ("attributes", "source", "structural_zeros", "ignored")
_ZEROS_NEED = "'structural_zeros' needs 'attributes' (names) and 'cells' (lists of codes)"
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
_COLUMN_KEYS = tuple(f.name for f in fields(Attribute))


@dataclass(frozen=True)
class Purchase:
    """A column whose labels or edges are left to be bought from the private rows.

    Parameters
    ----------
    name : str
    fact : {"labels", "edges"}
        What is bought; the other parameters are as of `Attribute`.
    rule : {"adaptive", "quantile", "uniform"}, optional
        How edges are chosen.
    bins : int
        Most bins, at least 2.
    bounds : tuple of float, optional
        Public bounds of the edges, ascending; of dates in days since 1970-01-01. None: they are bought too.

    Examples
    --------
    >>> column = Purchase("age", "edges", rule="adaptive", bins=4, type="integer")
    >>> column.attribute(edges=(0, 18, 65)).texts
    ('0', '1', 'missing')
    """

    name: str
    fact: Literal["labels", "edges"]
    rule: Rule | None = None
    bins: int = 16
    bounds: tuple[float, float] | None = None
    kind: Kind = "categorical"
    type: Type | None = None
    bottom: bool = False
    top: bool = False
    other: str | None = None
    missing: tuple[str, ...] | None = None
    inferred: tuple[Fact, ...] = ()
    format: str | None = None

    def attribute(self, *, labels: Sequence[str] | None = None, edges: Sequence[float] | None = None) -> Attribute:
        """Return the column with the labels or edges that were bought; every value has a code then.

        Values beyond the edges count to the outer bins, other labels to `other`, and gaps have a code whether there are
        any or not: all else would tell about single rows. Numbers and dates that are categories are so by their text,
        and the column is then one of strings: only these have an `other`.
        """
        facts: dict[str, Any] = {"missing": self.missing or (), "inferred": self.inferred, "lenient": True}
        if edges is not None:
            known = tuple(map(float, edges))
            return Attribute(
                self.name,
                len(known),
                "numeric",
                edges=known,
                type=self.type,
                bottom=True,
                top=True,
                format=self.format,
                **facts,
            )
        other = self.other or OTHER
        while other in facts["missing"]:
            other += "_"
        known_labels = tuple(label for label in labels or () if label != other)
        if not known_labels:  # an attribute needs one; this one then stays empty
            known_labels, other = (other,), f"{other}_"
        return Attribute(self.name, len(known_labels) + 2, self.kind, known_labels, type="string", other=other, **facts)

    @property
    def free(self) -> bool:
        """Whether its edges follow from public bounds alone, and no row is read for them."""
        return self.rule == "uniform" and self.bounds is not None

    def stand_in(self) -> Attribute:
        """Return an attribute that every value fits, as it will with the one that is bought.

        >>> Purchase("ward", "labels", type="string").stand_in().texts
        ('(none)', 'other', 'missing')
        """
        return self.attribute(labels=("(none)",)) if self.fact == "labels" else self.attribute(edges=(-WIDE, WIDE))

    def __str__(self) -> str:
        if self.fact == "labels":
            return f"the labels of '{self.name}'"
        ends = "bounds too" if self.bounds is None else "inside public bounds"
        return f"the edges of '{self.name}' ({self.rule}, at most {self.bins} bins, {ends})"


@dataclass(frozen=True)
class Content:
    """What a domain file says.

    >>> parse({"age": 8}).columns[0].name
    'age'
    """

    columns: tuple[Attribute | Purchase, ...]
    source: Any = "declared"
    structural_zeros: tuple[StructuralZeros, ...] = ()
    ignored: tuple[str, ...] = ()


def parse(content: Any, *, where: str = "domain") -> Content:
    """Return what a domain file of either form says; see `Domain.from_dict`.

    >>> parse({"attributes": [{"name": "age", "edges": [0, "x"]}]})
    Traceback (most recent call last):
    marginalia.errors.InputError: domain: attribute 'age': edges are numbers (or dates, with type: date), not 'x'
    """
    if not isinstance(content, Mapping) or not content:
        raise InputError(f"{where}: expected an object of attribute names and sizes")
    if not isinstance(content.get("attributes"), list):
        if "attributes" in content and not isinstance(content["attributes"], int):
            raise InputError(f"{where}: 'attributes' must be a list, with a name for every entry")
        return Content(tuple(_located(where, Attribute, str(n), m) for n, m in content.items()))
    if unknown := set(content) - set(_KEYS):
        raise unknown_name(f"key in {where}", min(map(str, unknown)), _KEYS)
    zeros = content.get("structural_zeros") or ()
    if not isinstance(zeros, list | tuple):
        raise InputError(f"{where}: 'structural_zeros' must be a list; every entry of {_ZEROS_NEED}")
    ignored = _texts(content.get("ignored") or (), f"{where}: 'ignored'")
    columns = tuple(_located(where, _column, item) for item in content["attributes"])
    if both := set(ignored) & {c.name for c in columns}:
        raise InputError(f"{where}: column '{min(both)}' stands under 'attributes' and under 'ignored'")
    return Content(columns, content.get("source", "declared"), tuple(_zeros(z, where) for z in zeros), ignored)


def as_dict(attribute: Attribute) -> dict[str, Any]:
    """Return the keys of an attribute in a file; what is not set is left out.

    >>> as_dict(Attribute("born", 1, "numeric", edges=(0.0, 2.0), type="date"))["edges"]
    ['1970-01-01', '1970-01-03']
    """
    content: dict[str, Any] = {"name": attribute.name, "size": attribute.size, "kind": attribute.kind}
    for key in _COLUMN_KEYS[3:]:
        value = getattr(attribute, key)
        if value is not None and value is not False and (value or key == "missing"):
            content[key] = list(value) if isinstance(value, tuple) else value
    if attribute.type == "date" and attribute.edges is not None:
        content["edges"] = [values.iso(edge) for edge in attribute.edges]
    return content


def purchase_as_dict(purchase: Purchase) -> dict[str, Any]:
    """Return the keys of a column that is to be bought, as a file has them.

    >>> purchase_as_dict(Purchase("ward", "labels", type="string"))
    {'name': 'ward', 'kind': 'categorical', 'type': 'string', 'labels': 'private'}
    """
    of_date = purchase.type == "date"
    content: dict[str, Any] = {"name": purchase.name, "kind": purchase.kind, "type": purchase.type}
    if purchase.fact == "labels":
        content["labels"] = "private"
    else:
        content["edges"] = {"private": purchase.rule, "bins": purchase.bins}
        if purchase.bounds is not None:
            content["edges"]["bounds"] = [values.iso(b) if of_date else b for b in purchase.bounds]
    for key in ("bottom", "top", "other", "missing", "inferred", "format"):
        value = getattr(purchase, key)
        if value is not None and value is not False and (value or key == "missing"):
            content[key] = list(value) if isinstance(value, tuple) else value
    return content


def _located(where: str, make: Any, *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _column(item: Any) -> Attribute | Purchase:
    if not isinstance(item, Mapping) or "name" not in item:
        raise InputError(f"every entry of 'attributes' needs a name, got {values.shown(item)}")
    name = _text(item["name"], "the name of an attribute")
    here = f"attribute '{name}'"
    if unknown := set(item) - set(_COLUMN_KEYS):
        raise unknown_name(f"key of {here}", min(map(str, unknown)), _COLUMN_KEYS)
    kind = item.get("kind", "numeric" if item.get("edges") is not None else "categorical")
    facts: dict[str, Any] = {
        "type": item.get("type"),
        "bottom": _flag(item, "bottom", here),
        "top": _flag(item, "top", here),
        "other": _other(item.get("other"), here),
        "missing": None if item.get("missing") is None else _texts(item["missing"], f"{here}: 'missing'"),
        "inferred": _texts(item.get("inferred") or (), f"{here}: 'inferred'"),
        "lenient": _flag(item, "lenient", here),
        "format": None if item.get("format") is None else _text(item["format"], f"{here}: 'format'"),
    }
    for key in ("kind", "type"):
        if not isinstance({"kind": kind, **facts}[key], str | None):
            raise InputError(f"{here}: '{key}' must be a word")
    raw_labels, raw_edges = item.get("labels"), item.get("edges")
    if raw_labels == "private" or isinstance(raw_edges, Mapping):
        return _purchase(name, here, item, kind, facts)
    labels = None if raw_labels is None else _texts(raw_labels, f"{here}: 'labels'")
    edges = None if raw_edges is None else _edges(raw_edges, here, facts["type"])
    known = len(labels) if labels is not None else len(edges) - 1 if edges is not None else None
    if known is None and facts["type"] == "boolean":
        known = 2
    counted = None if known is None else known + (facts["other"] is not None) + (facts["missing"] is not None)
    size = item.get("size", counted)
    if size is None:
        raise InputError(f"{here} needs a size, labels or edges")
    return Attribute(name, size, kind, labels, edges, **facts)


def _purchase(name: str, here: str, item: Mapping[str, Any], kind: Any, facts: dict[str, Any]) -> Purchase:
    if facts["type"] in (None, "code", "boolean"):
        raise InputError(f"{here}: what is bought needs a type: string, integer, number or date")
    if "size" in item:
        raise InputError(f"{here}: leave 'size' out; it follows from what is bought")
    fact = "edges" if item.get("labels") is None else "labels"
    del facts["lenient"]  # it will be
    facts["inferred"] = tuple(known for known in facts["inferred"] if known != fact)  # it will be bought
    if fact == "labels":
        if item["labels"] != "private" or item.get("edges") is not None:
            raise InputError(f"{here}: give labels or edges, and one of them may be bought")
        return Purchase(name, "labels", kind=kind, **facts)
    wanted = item["edges"]
    keys = ("private", "bins", "bounds")
    if unknown := set(wanted) - set(keys):
        raise unknown_name(f"key of the edges of {here}", min(map(str, unknown)), keys)
    if (rule := wanted.get("private")) not in get_args(Rule):
        raise unknown_name(f"rule for private edges of {here}", str(rule), get_args(Rule))
    if facts["type"] == "string":
        raise InputError(f"{here}: edges are for integers, numbers and dates, not for type string")
    bins = wanted.get("bins", 16)
    if isinstance(bins, bool) or not isinstance(bins, int) or not 2 <= bins <= 4096:
        raise InputError(f"{here}: bins must be a whole number from 2 to 4096, not {values.shown(bins)}")
    bounds = None if wanted.get("bounds") is None else _edges(wanted["bounds"], here, facts["type"])
    if bounds is not None and (len(bounds) != 2 or not bounds[0] < bounds[1]):
        raise InputError(f"{here}: bounds are two numbers (or dates), the lower first")
    if bounds is not None and facts["type"] == "integer" and not all(map(float.is_integer, bounds)):
        raise InputError(f"{here}: bounds of integers are whole numbers")
    purchase = Purchase(name, "edges", rule, bins, bounds, kind, **facts)
    if bounds is not None:
        purchase.attribute(edges=bounds)  # refuses what no bins can lie between
    return purchase


def _edges(raw: Any, here: str, of_type: Any) -> tuple[float, ...]:
    if not isinstance(raw, list | tuple):
        raise InputError(f"{here}: edges must be a list of numbers, such as [0, 18, 65], not {values.shown(raw)}")
    edges = []
    for value in raw:
        try:
            if of_type == "date":
                edges.append(float(values.day(value)))
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


def _zeros(item: Any, where: str) -> StructuralZeros:
    try:
        names, cells = item["attributes"], item["cells"]
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
            raise TypeError
        if not isinstance(cells, list | tuple) or any(isinstance(c, str | Mapping) for c in cells):
            raise TypeError
        return StructuralZeros(tuple(names), tuple(map(tuple, cells)))
    except (KeyError, TypeError):
        raise InputError(f"{where}: every entry of {_ZEROS_NEED}, got {values.shown(item, 80)}") from None
