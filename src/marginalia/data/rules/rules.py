"""What a domain file says under `rules` and `derived`: parsed, and held against the columns.

- ``a <= b`` (`Order`; ``<`` and chains too): holds where both have a value. A chain holds for any two of its columns.
- ``a needs b`` (`Needs`): a has a value only where b has one.
- ``never: {a: [x, y], b: [z]}`` (`Never`): no row has one of these values in every one of the columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.column import BOOLEANS, Column
from marginalia.data.rules.expressions import Compiled, Expression
from marginalia.errors import InputError, unknown_name

_SHAPES = "'a <= b', 'a needs b' or {never: {a: [x], b: [y]}}"
_WAYS = {"<=": (True, False), "<": (True, True), ">=": (False, False), ">": (False, True)}  # ascending, strict
_SIGNS = re.compile(r"\s*(<=|>=|==|!=|<>|<|>|=)\s*")
_NAME = re.compile(r"`[^`]+`|\"[^\"]+\"|[^\W\d]\w*")


@dataclass(frozen=True)
class Order:
    """Columns in ascending order; `strict[i]` says that column i + 1 is not equal to column i.

    >>> str(Order(("admission", "discharge"), (False,)))
    'admission <= discharge'
    """

    columns: tuple[str, ...]
    strict: tuple[bool, ...]

    def __str__(self) -> str:
        signs = (" < " if strict else " <= " for strict in self.strict)
        return _quoted(self.columns[0]) + "".join(s + _quoted(c) for s, c in zip(signs, self.columns[1:], strict=True))

    @property
    def pairs(self) -> tuple[tuple[str, str, bool], ...]:
        """Each two columns of the chain, and whether their order is strict."""
        n = len(self.columns)
        return tuple((self.columns[i], self.columns[j], any(self.strict[i:j])) for i, j in combinations(range(n), 2))


@dataclass(frozen=True)
class Needs:
    """A value of `column` only where each of `others` has one.

    >>> str(Needs("icd_3", ("icd_2",)))
    'icd_3 needs icd_2'
    """

    column: str
    others: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.column} needs {', '.join(self.others)}"

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it names."""
        return (self.column, *self.others)


@dataclass(frozen=True)
class Never:
    """Values that never stand together in a row, some for each column: labels, 'missing', or of bins ``("< 15",)``.

    >>> str(Never((("sex", ("m",)), ("pregnant", ("yes",)))))
    'never sex: m with pregnant: yes'
    """

    sets: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        return "never " + " with ".join(f"{name}: {', '.join(texts)}" for name, texts in self.sets)

    def to_dict(self) -> dict[str, dict[str, list[str]]]:
        """Return the rule as a domain file has it."""
        return {"never": {name: list(texts) for name, texts in self.sets}}

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it names."""
        return tuple(name for name, _ in self.sets)


Rule = Order | Needs | Never


@dataclass(frozen=True)
class Rules:
    """The rules of a domain, and the formulas of its derived columns in the order in which they are computed.

    >>> rules = Rules.parse(["a <= b"], {"c": "b - a"})
    >>> rules.derived, rules.unread
    ((('c', 'b - a'),), ('c',))
    """

    rules: tuple[Rule, ...] = ()
    derived: tuple[tuple[str, str], ...] = ()
    unread: tuple[str, ...] = field(
        default=(), compare=False
    )  # columns that were derived from what is not here any more, too

    @classmethod
    def parse(cls, rules: Any, derived: Any) -> Rules:
        """Return what a domain file says under the two keys."""
        if not isinstance(rules, list | tuple):
            raise InputError(f"'rules' must be a list of {_SHAPES}")
        if not isinstance(derived, Mapping):
            raise InputError("'derived' must name columns and how they are computed, such as {total: price * quantity}")
        for name, text in derived.items():
            if not isinstance(name, str) or not name:
                raise InputError(f"'derived': the name of a column is a text, not {values.shown(name)}")
            _of(f"derived column '{name}'", Expression, text)
        names = {name: Expression(text).names for name, text in derived.items()}
        try:
            TopologicalSorter({n: [o for o in known if o in names] for n, known in names.items()}).prepare()
        except CycleError as error:
            raise InputError(f"derived columns go in a circle: {' from '.join(error.args[1])}") from None
        known: list[tuple[str, str]] = []
        while len(known) < len(derived):  # in the order of the file, as far as that can be
            done = dict(known)
            ready = (n for n in derived if n not in done and all(o in done for o in names[n] if o in names))
            known.append((name := next(ready), derived[name]))
        return cls(tuple(_of("rules", _rule, item) for item in rules), tuple(known), tuple(n for n, _ in known))

    def __bool__(self) -> bool:
        return bool(self.rules or self.derived)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that derived columns may hold."""
        return tuple(text for _, said in self.derived for text in Expression(said).texts)

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of a domain file that say the same."""
        content: dict[str, Any] = {}
        if self.derived:
            content["derived"] = dict(self.derived)
        if self.rules:
            content["rules"] = [rule.to_dict() if isinstance(rule, Never) else str(rule) for rule in self.rules]
        return content

    def among(self, names: Iterable[str]) -> Rules:
        """Return the rules about these columns alone, and the columns that can be derived from them."""
        if not self:
            return self
        known = set(names)
        derived = []
        for name, text in self.derived:
            if set(Expression(text).names) <= known:
                known.add(name)
                derived.append((name, text))
        return replace(self, rules=tuple(r for r in self.rules if set(r.columns) <= known), derived=tuple(derived))

    def compiled(self, columns: Iterable[Column]) -> dict[str, Compiled]:
        """Return the derived columns, ready to be computed."""
        types = {column.name: type_of(column) for column in columns}
        found = {}
        for name, text in self.derived:
            found[name] = _of(f"derived column '{name}'", Expression(text).compiled, types)
            types[name] = found[name].type
        return found

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse what does not fit the columns, and orders in a circle."""
        known = {column.name: column for column in columns}
        self.compiled(columns)
        for name, _ in self.derived:
            if name in known:
                raise InputError(f"column '{name}' stands under 'attributes' and under 'derived'; keep one")
        for rule in self.rules:
            for name in rule.columns:
                if name in self.unread:
                    raise InputError(f"rule '{rule}': '{name}' is derived; rules are about columns that are drawn")
                if name not in known:
                    raise InputError(f"rule '{rule}': {unknown_name('column', name, known)}")
            if len(set(rule.columns)) < max(2, len(rule.columns)):
                raise InputError(f"rule '{rule}': needs two different columns or more")
            _of(f"rule '{rule}'", _check_rule, rule, known)
        try:
            self.sequence  # noqa: B018
        except CycleError as error:
            raise InputError(f"the orders of 'rules' go in a circle: {' <= '.join(error.args[1])}") from None

    @cached_property
    def edges(self) -> tuple[tuple[str, str, bool], ...]:
        """Every order of two columns, and whether it is strict."""
        return tuple(dict.fromkeys(pair for r in self.rules if isinstance(r, Order) for pair in r.pairs))

    @cached_property
    def sequence(self) -> tuple[str, ...]:
        """The columns that have an order, each after those that are at most as large."""
        graph: dict[str, set[str]] = {}
        for below, above, _ in self.edges:
            graph.setdefault(above, set()).add(below)
        return tuple(TopologicalSorter(graph).static_order())

    @cached_property
    def components(self) -> tuple[Rules, ...]:
        """The rules that are tied together by columns, each component apart."""
        found: list[tuple[set[str], list[Rule]]] = []
        for rule in self.rules:
            names, tied = set(rule.columns), [rule]
            for part in [part for part in found if part[0] & names]:
                names, tied = names | part[0], [*part[1], *tied]
                found.remove(part)
            found.append((names, tied))
        return tuple(Rules(tuple(tied)) for _, tied in found)


def type_of(column: Column) -> str:
    """Return the type of what is drawn for a column, as expressions know it.

    >>> type_of(Column("a", 3))
    'integer'
    """
    if column.private == "labels":
        return "string"
    if column.type in (None, "code"):
        return "integer"
    unit = column.unit
    return f"timestamp in {unit}s" if column.type == "timestamp" else str(column.type)


def has_value(column: Column) -> NDArray[np.bool_]:
    """Return which codes stand for a value, shape (size,): all but that of missing ones.

    >>> has_value(Column("a", 2, labels=("x",), type="string", missing=()))
    array([ True, False])
    """
    return np.arange(column.size) != (-1 if column.missing_code is None else column.missing_code)


@lru_cache(maxsize=512)
def chosen(column: Column, texts: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which codes a set of values of `Never` means, shape (size,).

    A label that was not learned is the value of no code.

    >>> chosen(Column("age", 3, edges=(0, 15, 40, 90), type="integer"), ("< 40",))
    array([ True,  True, False])
    """
    if column.edges is None:
        truth = dict(zip(BOOLEANS, column.texts, strict=False)) if column.type == "boolean" else {}
        wanted = {truth.get(text, text) for text in texts}  # YAML's yes and no are truth values
        return np.array([known in wanted for known in column.texts], dtype=bool)
    found = np.zeros(column.size, dtype=bool)
    for text in texts:
        if text == "missing" and column.missing_code is not None:
            found[column.missing_code] = True
        elif sign := _THRESHOLD.fullmatch(text):
            at = _edge(column, sign[2])
            found[: column.n_values] |= (np.arange(column.n_values) < at) == (sign[1] == "<")
    return found


_THRESHOLD = re.compile(r"(<|>=)\s*(\S+)")
_NEEDS = re.compile(r"(.+?)\s+needs\s+(.+)")


def _edge(column: Column, written: str) -> int:
    """Return which edge a threshold is, counted from 0; InputError if it cuts a bin in two."""
    assert column.edges is not None
    try:
        number = values.day(written) if column.type == "date" else values.number(written)
    except ValueError as error:
        raise InputError(f"'{written}' {error}") from None
    first, last = int(column.bottom), len(column.edges) - int(column.top)
    if number not in column.edges[first:last]:
        raise InputError(f"{written} is no edge between bins of '{column.name}'; add it to its edges")
    return column.edges.index(number)


def _of(where: str, make: Any, *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def _rule(item: Any) -> Rule:
    if isinstance(item, Mapping) and set(item) == {"never"} and isinstance(item["never"], Mapping):
        return Never(tuple((str(name), _texts(name, texts)) for name, texts in item["never"].items()))
    if not isinstance(item, str):
        raise InputError(f"every rule is {_SHAPES}, not {values.shown(item)}")
    if found := _NEEDS.fullmatch(item.strip()):
        return Needs(_bare(found[1]), tuple(map(_bare, found[2].split(","))))
    return _order(item)


def _texts(name: Any, texts: Any) -> tuple[str, ...]:
    known = texts if isinstance(texts, list | tuple) else [texts]
    for text in known:
        if text is None or isinstance(text, Mapping | list | tuple):
            raise InputError(f"never: the values of '{name}' are texts, such as [a, b], not {values.shown(text)}")
    return tuple(values.text(text) for text in known)


def _bare(name: str) -> str:
    name = name.strip()
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] and name[0] in '`"' else name


def _order(text: str) -> Order:
    parts = _SIGNS.split(text.strip())
    columns, signs = parts[::2], parts[1::2]
    if not signs:
        raise InputError(f"`{text[:100]}` is no rule; a rule is {_SHAPES}")
    if not all(_NAME.fullmatch(column) for column in columns):
        raise InputError(f"`{text[:100]}`: an order is between columns; derive a column from what is computed")
    if not all(sign in _WAYS for sign in signs):
        raise InputError(f"`{text[:100]}`: orders are written by <= < >= >")
    ways = [_WAYS[sign] for sign in signs]
    if len({ascending for ascending, _ in ways}) > 1:
        raise InputError(f"`{text[:100]}`: one rule has < and <=, or > and >=, not both ways")
    step = 1 if ways[0][0] else -1
    return Order(tuple(map(_bare, columns))[::step], tuple(strict for _, strict in ways)[::step])


def _check_rule(rule: Rule, known: Mapping[str, Column]) -> None:
    if isinstance(rule, Order):
        groups = {_scale_of(known[name]) for name in rule.columns}
        if len(groups) > 1:
            raise InputError("numbers and dates have no order with each other")
    elif isinstance(rule, Needs):
        column = known[rule.column]
        if not column.is_open and column.missing is None:
            raise InputError(f"'{column.name}' is never missing; give it 'missing', or leave the rule out")
    else:
        for name, texts in rule.sets:
            _check_set(known[name], texts)


def _scale_of(column: Column) -> str:
    kind = type_of(column)
    if kind in ("string", "boolean"):
        raise InputError(f"orders are for integers, numbers and dates; '{column.name}' is of type {kind}")
    return "numbers" if kind in ("integer", "number") else "time"


def _check_set(column: Column, texts: Sequence[str]) -> None:
    if column.is_open:
        if column.private != "labels" and set(texts) != {"missing"}:
            raise InputError(f"the edges of '{column.name}' are learned privately; give them, or use its labels")
        return
    known = {*column.texts, *(BOOLEANS if column.type == "boolean" else ())}
    for text in texts:
        if column.edges is not None and text != "missing" and not _THRESHOLD.fullmatch(text):
            raise InputError(f"of the bins of '{column.name}' say '< 15' or '>= 15', not {values.shown(text)}")
        found = text in known if column.edges is None else chosen(column, (text,)).any()
        if not column.lenient and not found:  # an error would reveal which labels were learned
            raise unknown_name(f"value of '{column.name}'", text, column.texts)
