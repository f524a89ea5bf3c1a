"""One column of a public domain: its codes, and the values of the file that they stand for.

Its labels or edges may be open: each fit then learns them from the private rows, with a part of its budget.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from marginalia.data import similar, values
from marginalia.data.edges import EDGE_KEYS, MOST_BINS, bins_of, bounds_of, edges_of, points_of
from marginalia.data.number_formats import NumberFormat, read_number
from marginalia.errors import InputError, unknown_name
from marginalia.validation import Strict, input_error

Kind = Literal["categorical", "ordinal", "numeric"]
Type = Literal["code", "string", "integer", "number", "boolean", "date", "timestamp"]
Unit = values.Unit
Fact = Literal["type", "labels", "edges", "missing", "special"]
Within = Literal["log"] | tuple[tuple[tuple[float, float], ...], ...]
Rule = Literal["adaptive", "quantile", "uniform"]

LARGEST_SIZE = 10_000_000
"""Most codes of one column: every method counts at least one column at a time, with 8 bytes a code, and 80 MB is
what a graphical model may take by default."""

BOOLEANS = ("False", "True")
WHOLE = ("integer", "date", "timestamp")  # types of whole numbers
NUMBERS = ("number", *WHOLE)  # types whose values are numbers here
OTHER = "other"
WIDE = values.WIDE
# Dates and times that a format must tell apart.
_SOME_TIMES = {
    unit: [
        (day * 86_400 + second) // values.SECONDS[unit] for day, second in ((12482, 0), (6573, 46_861), (17115, 83_399))
    ]
    for unit in get_args(Unit)
}
# Times of day; of days there are none.
_SOME_CLOCKS: dict[Unit, list[int]] = _SOME_TIMES | {
    unit: [second // values.SECONDS[unit] for second in (46_861, 83_399)] for unit in get_args(Unit) if unit != "day"
}
_LARGEST_WHOLE = 2**53  # whole numbers beyond are not told apart in double precision


def text_of(value: Any) -> str:
    """Return a scalar of a file as text; ValueError of truth values and of nothing: YAML reads yes, no and null so.

    >>> text_of(1.5), text_of(datetime.date(2024, 2, 1))
    ('1.5', '2024-02-01')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        word = {True: "true (YAML's yes, on, true)", False: "false (YAML's no, off, false)", None: "null"}[value]
        raise ValueError(f"{word} is not a text; put the word in quotes")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if not isinstance(value, int | float):
        raise ValueError(f"{values.shown(value)} is not a text")
    return values.text(value)


def _texts_of(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple):
        raise ValueError("must be a list, such as [a, b]")
    return tuple(map(text_of, raw))


def _within_of(raw: Any) -> Within | None:
    if raw is None or raw == "log":
        return raw
    try:
        return tuple(tuple((float(place), float(below)) for place, below in places) for places in raw)
    except (TypeError, ValueError):
        raise ValueError("is log, or for each bin a list of pairs [place, share below]") from None


Text = Annotated[str, BeforeValidator(text_of, json_schema_input_type=str | float)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts_of, json_schema_input_type=tuple[str | float, ...])]
Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(strict=True)]


@dataclass(frozen=True)
class PrivateBins:
    """How a fit learns the edges of a column privately.

    Parameters
    ----------
    rule : {"adaptive", "quantile", "uniform"}
        How edges are chosen.
    bins : int
        Most bins, at least 2.
    bounds : tuple of float, optional
        Public bounds of the edges, ascending; of dates in days since 1970-01-01, of timestamps in units since then.
        None: they are learned, too.
    points : tuple of float
        Values that have a bin of their own; see `point_edges`.

    Examples
    --------
    >>> PrivateBins("uniform", 4, bounds=(0, 8)).reads_rows
    False
    """

    rule: Rule
    bins: int = 16
    bounds: tuple[float, float] | None = None
    points: tuple[float, ...] = ()

    @property
    def reads_rows(self) -> bool:
        """Whether rows are read: bins of equal width inside public bounds need none."""
        return self.rule != "uniform" or self.bounds is None


def _file_forms(schema: dict[str, Any]) -> None:
    """Describe the short forms of `Column.from_dict`, which are no facts of a column."""
    facts, number = schema["properties"], {"type": ["number", "string"]}
    numbers, bounds = (
        {"items": number, "type": "array"},
        {"items": number, "maxItems": 2, "minItems": 2, "type": "array"},
    )
    bins = {"maximum": MOST_BINS, "minimum": 2, "type": "integer"}
    forms = [
        ({"bins": bins, "bounds": bounds}, ["bins", "bounds"]),
        ({"from": number, "steps": {"type": ["integer", "string"]}, "to": number}, ["from", "steps", "to"]),
        ({"bins": bins, "bounds": bounds, "private": {"enum": list(get_args(Rule))}}, ["private"]),
    ]
    closed = {"additionalProperties": False, "type": "object"}
    facts["edges"] = {"anyOf": [numbers, *({**closed, "properties": keys, "required": need} for keys, need in forms)]}
    facts["labels"] = {"anyOf": [*facts["labels"]["anyOf"], {"const": "private"}]}
    facts["other"] = {"anyOf": [*facts["other"]["anyOf"], {"type": "boolean"}]}
    facts |= {"points": numbers, "reviewed": {"type": "boolean"}}
    del facts["private"], facts["size"]["default"], facts["kind"]["default"]
    schema.pop("$defs", None)


class Column(Strict, json_schema_extra=_file_forms):
    """One column: codes from 0 to ``size - 1`` and what they mean.

    The codes are those of the labels or bins in their order, then that of `other`, then those of `special` texts, then
    that of missing values.

    Parameters
    ----------
    name : str
    size : int
        Number of codes, from 1 to 10,000,000; 0 while the column is open.
    kind : {"categorical", "ordinal", "numeric"}
        ``ordinal`` and ``numeric`` codes follow the order of the values.
    labels : tuple of str, optional
        The value behind each code.
    edges : tuple of float, optional
        Public bin edges, ascending, one more than bins; bins are left-closed. Of dates: days since 1970-01-01; of
        timestamps: so many `unit` since then.
    type : {"code", "string", "integer", "number", "boolean", "date", "timestamp"}, optional
        What files and data frames hold: the codes themselves, or original values. None (files of older versions):
        codes, as long as these cannot be confused with values.
    bottom, top : bool
        Values below the first edge, or from the last edge on, count to the outer bin; else they are refused.
    other : str, optional
        Strings that are no label have a code of their own and are written as this text.
    missing : tuple of str, optional
        Marks of missing values, which have the last code, as empty cells have; the first mark, or an empty cell, is
        what is written. None: missing values are refused.
    inferred : tuple of {"type", "labels", "edges", "missing", "special"}
        Facts that were read off the private rows.
    lenient : bool
        Every value has a code: one that cannot be read counts as missing, an infinite one to the outer bin. So it is
        with what was learned: a refusal would tell about a row. It needs `missing`, and open outer bins or `other`.
    decimals : int, optional
        Of numbers, from 0 to 6: a value is rounded to so many (half to even) before it gets a code, and has so many
        where it is written.
    within : "log" or tuple of tuple of pairs, optional
        How values lie inside bins, for drawing them: evenly in their logarithms (in bins beside 0 and across it: in
        themselves); or for each bin places, with the share of the bin's values below each, evenly between two. None:
        evenly in all bins.
    format : str, optional
        How values are written in files. Of dates and timestamps as `strptime` reads it: ``"%d/%m/%Y"``; None: in ISO
        form. A timestamp whose format names no day, such as ``"%H%M"``, is a time of day. Of integers and numbers as a
        spreadsheet shows it: ``"#.##0,00 €"``, see `NumberFormat`; None: with a decimal point. Edges and labels have
        the plain form either way.
    pivot : int, optional
        The first of the hundred years that the two-digit years of a `format` lie in.
    unit : {"day", "hour", "minute", "second"}, optional
        Of a timestamp: it counts whole units, and what is shorter is dropped.
    zone : str, optional
        Of dates and timestamps: whose clocks show an instant, such as ``"Europe/Berlin"``; None: UTC. Dates and times
        without an offset stand as they are.
    special : tuple of str
        Texts that have a code each, whatever the type: ``"<0.1"`` of a measurement, ``"refused"`` of an answer. They
        stand for no value of the type.
    merge : tuple of {"case", "spaces", "accents"}
        Of strings: texts that differ only by these count as one label. What is learned privately is their common form.
    private : "labels" or PrivateBins, optional
        The labels, or the edges, are open: each fit learns them from the private rows.

    Raises
    ------
    InputError
        The facts do not fit together.

    Examples
    --------
    >>> Column("age", 2, "numeric", edges=(0, 30, 65)).size
    2
    >>> Column("ward", 3, labels=("surgery", "medicine"), type="string", missing=("?",)).missing_code
    2
    >>> Column("ward", type="string", private="labels").is_open
    True
    """

    name: Annotated[Text, Field(min_length=1)]
    size: Whole = 0
    kind: Kind = "categorical"
    labels: Texts | None = None
    edges: tuple[float, ...] | None = None
    type: Type | None = None
    bottom: Flag = False
    top: Flag = False
    other: Text | None = None
    missing: Texts | None = None
    inferred: tuple[Fact, ...] = ()
    lenient: Flag = False
    format: Text | None = None
    pivot: Annotated[Whole, Field(ge=1, le=9900)] | None = None
    unit: Unit | None = None
    zone: Text | None = None
    special: Texts = ()
    decimals: Annotated[Whole, Field(ge=0, le=values.MOST_DECIMALS)] | None = None
    within: Annotated[Within | None, BeforeValidator(_within_of)] = None
    merge: tuple[similar.Rule, ...] = ()
    private: Literal["labels"] | PrivateBins | None = None

    def __init__(
        self,
        name: str,
        size: int = 0,
        kind: Kind = "categorical",
        labels: Sequence[str] | None = None,
        edges: Sequence[float] | None = None,
        **facts: Any,
    ) -> None:
        content = {"name": name, "size": size, "kind": kind, "labels": labels, "edges": edges, **facts}
        try:
            super().__init__(**content)
        except ValidationError as error:
            raise input_error(error, f"column '{name}'", type(self), content) from None

    @classmethod
    def from_dict(cls, item: Any) -> Self:
        """Return the column of an entry of a domain file, which has short forms for some facts.

        `size` and `kind` may be left out where labels or edges determine them. ``labels: private`` and ``edges:
        {private: adaptive, bins: 16}`` leave the column open. Edges may be bins of equal width or steps; of dates they
        are ISO dates. `points` adds bins of single values. ``other: true`` means the text "other"; ``reviewed: true``
        says that whatever is `inferred` is public knowledge.

        >>> Column.from_dict({"name": "age", "type": "integer", "edges": [0, 18, 65], "missing": []}).size
        3
        """
        if not isinstance(item, Mapping) or "name" not in item:
            raise InputError(f"every entry of 'attributes' needs a name, got {values.shown(item)}")
        here = f"column '{item['name']}'"
        if unknown := item.keys() - _FILE_KEYS:
            raise unknown_name(f"key of {here}", min(map(str, unknown)), _FILE_KEYS)
        try:
            facts = _facts({key: value for key, value in item.items() if value is not None or key == "name"})
        except InputError as error:
            raise InputError(f"{here}: {error}") from None
        return cls(**facts)

    def to_dict(self) -> dict[str, Any]:
        """Return the keys of the column in a file; what is not set is left out.

        >>> Column("born", 1, "numeric", edges=(0.0, 2.0), type="date").to_dict()["edges"]
        ['1970-01-01', '1970-01-03']
        >>> Column("ward", type="string", private="labels").to_dict()
        {'name': 'ward', 'kind': 'categorical', 'type': 'string', 'labels': 'private'}
        """
        content: dict[str, Any] = {"name": self.name, "size": self.size, "kind": self.kind}
        content |= self.model_dump(mode="json", exclude_defaults=True, exclude={"private"})
        unit, private = self.counted_in, self.private
        if unit is not None and self.edges is not None:  # the first whole unit of a bin
            content["edges"] = [self.time_text(math.ceil(edge)) for edge in self.edges]
        if private is not None:
            del content["size"]
        if private == "labels":
            content["labels"] = "private"
        elif private is not None:
            content["edges"] = {"private": private.rule, "bins": private.bins}
            if private.bounds is not None:
                content["edges"]["bounds"] = [b if unit is None else self.time_text(b) for b in private.bounds]
            if private.points:
                content["points"] = list(private.points)
        return content

    def replace(self, **facts: Any) -> Self:
        """Return the column with other facts.

        >>> Column("ward", 2).replace(kind="ordinal").kind
        'ordinal'
        """
        return type(self)(**{**self.__dict__, **facts})

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.is_open:
            self._check_open()
            return self
        if self.size < 1:
            raise self._wrong(f"size must be a positive integer, not {self.size!r}")
        if self.size > LARGEST_SIZE:
            raise self._wrong(
                f"size {self.size:,} is above {LARGEST_SIZE:,}, the most whose counts (8 bytes each) methods can hold; "
                "make its bins coarser or leave the column out"
            )
        if self.n_values < 1:
            raise self._wrong(
                f"{self.size} codes leave none for a value, besides those of 'other', 'special' and 'missing'"
            )
        self._check_time()
        self._check_decimals()
        self._check_labels()
        self._check_edges()
        self._check_within()
        self._check_type()
        return self

    @property
    def is_open(self) -> bool:
        """Whether its labels or edges are to be learned privately; it has no codes yet."""
        return self.private is not None

    @property
    def open_fact(self) -> Literal["labels", "edges"] | None:
        """What is to be learned privately."""
        return None if self.private is None else "labels" if self.private == "labels" else "edges"

    @property
    def needs_epsilon(self) -> bool:
        """Whether learning what is open takes a part of the budget."""
        return self.private == "labels" or (isinstance(self.private, PrivateBins) and self.private.reads_rows)

    def closed(
        self,
        *,
        labels: Sequence[str] | None = None,
        edges: Sequence[float] | None = None,
        within: Within | None = None,
        decimals: int | None = None,
    ) -> Column:
        """Return the open column with the labels or edges that were learned; every value has a code then.

        Values beyond the edges count to the outer bins, other labels to `other`, and gaps have a code whether there are
        any or not: all else would tell about single rows. Numbers and dates that are categories are so by their text,
        and the column is then one of strings: only these have an `other`.

        >>> age = Column("age", type="integer", private=PrivateBins("adaptive", 4))
        >>> age.closed(edges=(0, 18, 65)).texts
        ('0', '1', 'missing')
        """
        missing = self.missing or ()
        if edges is not None:
            known = tuple(map(float, edges))
            return self.replace(
                size=len(known) + len(self.special),
                kind="numeric",
                edges=known,
                bottom=True,
                top=True,
                other=None,
                missing=missing,
                lenient=True,
                decimals=self.decimals if decimals is None else decimals,
                within=within,
                private=None,
            )
        other = self.other or OTHER
        while other in (*missing, *self.special):
            other += "_"
        known_labels = tuple(label for label in labels or () if self.merged(label) != self.merged(other))
        if not known_labels:  # a column needs one; this one then stays empty
            known_labels = (f"{other}_",)
        return Column(
            self.name,
            len(known_labels) + len(self.special) + 2,
            self.kind,
            known_labels,
            type="string",
            other=other,
            missing=missing,
            inferred=self.inferred,
            lenient=True,
            special=self.special,
            merge=self.merge,
        )

    def placeholder(self) -> Column:
        """Return a column that every value fits, as it will fit the learned one; a closed column as it is.

        >>> Column("ward", type="string", private="labels").placeholder().texts
        ('(none)', 'other', 'missing')
        """
        if not self.is_open:
            return self
        if self.private == "labels":
            return self.closed(labels=("(none)",))
        widest = WIDE / 10 ** (self.decimals or 0)
        return self.closed(edges=(-widest, widest))

    @property
    def n_values(self) -> int:
        """Number of codes that stand for a label or a bin."""
        return self.size - (self.other is not None) - len(self.special) - (self.missing is not None)

    @property
    def other_code(self) -> int | None:
        """The code of strings that are no label."""
        return None if self.other is None else self.n_values

    @property
    def missing_code(self) -> int | None:
        """The code of missing values."""
        return None if self.missing is None else self.size - 1

    @property
    def special_codes(self) -> range:
        """The codes of the special texts, in their order."""
        first = self.n_values + (self.other is not None)
        return range(first, first + len(self.special))

    @property
    def counted_in(self) -> Unit | None:
        """The unit since 1970-01-01T00:00 in which the values of a date or timestamp are counted; None of others."""
        return "day" if self.type == "date" else self.unit

    def time_text(self, count: float) -> str:
        """Return the ISO text of a date or time of the column, without the day where it is a time of day.

        >>> column = Column("at", 1, edges=(0, 1440), type="timestamp", unit="minute", format="%H%M")
        >>> column.time_text(510), column.time_text(1440)
        ('08:30', '24:00')
        """
        assert self.counted_in is not None
        iso = values.iso(count, self.counted_in)
        if self.format is None or values.has_day(self.format):
            return iso
        day, _, clock = iso.partition("T")
        return clock if day == "1970-01-01" else "24:00"

    @property
    def holds_codes(self) -> bool:
        """Whether files hold the codes themselves."""
        return self.type is None or self.type == "code"

    @property
    def texts(self) -> tuple[str, ...]:
        """What each code is called: its label, False or True, or the code itself; then the rest."""
        known = self.labels or (BOOLEANS if self.type == "boolean" else tuple(map(str, range(self.n_values))))
        other = () if self.other is None else (self.other,)
        return (*known, *other, *self.special, *(() if self.missing is None else ("missing",)))

    @property
    def written(self) -> tuple[str, ...]:
        """The texts that files may hold: labels, `other`, special texts and the marks of missing values."""
        other = () if self.other is None else (self.other,)
        return (*(self.labels or ()), *other, *self.special, *(self.missing or ()))

    def merged(self, text: str) -> str:
        """Return the form of a text by which it is compared with labels, marks and special texts.

        >>> Column("ward", type="string", private="labels", merge=("case",)).merged("North")
        'north'
        """
        return similar.merged(text, self.merge) if self.merge else text

    @property
    def label_values(self) -> tuple[Any, ...]:
        """The labels as values of the column's type: numbers, units since 1970-01-01, Booleans, or text."""
        if self.type == "boolean":
            return (False, True)
        return tuple(value_of(self, label) for label in self.labels or ())

    @property
    def mark_values(self) -> frozenset[float]:
        """The values that stand for none, special or missing: numbers, or units since 1970-01-01."""
        marks = (number_or_text(self, mark) for mark in (*self.special, *(self.missing or ())))
        return frozenset(value for value in marks if not isinstance(value, str))

    def _wrong(self, what: str) -> InputError:
        return InputError(f"column '{self.name}': {what}")

    def _check_open(self) -> None:
        if self.type in (None, "code", "boolean"):
            raise self._wrong("what is learned privately needs a type: string, integer, number, date or timestamp")
        if self.size:
            raise self._wrong("leave 'size' out; it follows from what is learned")
        if self.labels is not None or self.edges is not None or self.within is not None:
            raise self._wrong("give labels or edges, and one of them may be private")
        if self.private == "labels" and self.type == "timestamp":
            raise self._wrong("only edges of timestamps can be learned privately; labels need type: string")
        if self.merge and self.type != "string":
            raise self._wrong("'merge' is for type string")
        if self.private != "labels" and self.type == "string":
            raise self._wrong("edges are for integers, numbers, dates and timestamps, not for type string")
        self.placeholder()  # checks the other facts
        if isinstance(self.private, PrivateBins) and self.private.bounds is not None:
            self.closed(edges=self.private.bounds)  # rejects bounds between which there are no bins

    def _check_labels(self) -> None:
        if self.labels is None:
            return
        if len(self.labels) != self.n_values:
            raise self._wrong(f"{len(self.labels)} labels for {self.n_values} codes")
        if self.type is None:
            return
        _check_texts(self, "label", self.labels)
        if self.merge and len(set(map(self.merged, self.labels))) < len(self.labels):
            raise self._wrong(f"two labels are one by `merge: {list(self.merge)}`; give one of them")
        if self.edges is not None:  # labels name the bins
            return
        known = []
        for label in self.labels:
            try:
                known.append(value_of(self, label))
                if self.type == "timestamp":
                    values.whole_moment(label, self.unit or "second", self.format, zone=self.zone, pivot=self.pivot)
            except ValueError as error:
                raise self._wrong(f"label {values.shown(label)} {error}; its type is {self.type}") from None
        if len(set(known)) < len(known):
            twice = self.labels[[i for i, v in enumerate(known) if known.count(v) > 1][1]]
            raise self._wrong(f"label {values.shown(twice)} is the same value as one before it")
        if self.type == "integer" and max(map(abs, known)) >= _LARGEST_WHOLE:
            raise self._wrong("whole numbers from 2^53 on are not told apart; as labels they need type: string")

    def _check_marks(self) -> None:
        """No mark or special text is a value: neither a label, nor what files or data frames may hold in its place."""
        if not (self.missing or self.special):
            return
        texts = {*(self.labels or ()), *(BOOLEANS if self.type == "boolean" else ())}
        merged = {*map(self.merged, self.labels or ())} if self.merge else texts
        for what, marks in (("mark of missing values", self.missing or ()), ("special text", self.special)):
            _check_texts(self, what, marks)
            both = [
                mark
                for mark in marks
                if mark in texts or self.merged(mark) in merged or (self.type == "code" and self._is_code(mark))
            ]
            if both or (self.edges is None and {number_or_text(self, mark) for mark in marks} & set(self.label_values)):
                raise self._wrong(f"a {what} is a label too; keep it in one of the two")
        met = Counter(number_or_text(self, mark) for mark in (*self.special, *(self.missing or ())))
        for text in self.special:
            if text == self.other or met[number_or_text(self, text)] > 1:
                raise self._wrong(
                    f"special text {values.shown(text)} is the same as 'other', another one or a mark of missing "
                    "values; keep it in one place"
                )

    def _is_code(self, written: str) -> bool:
        try:
            number = values.number(written)
        except ValueError:
            return False
        return number.is_integer() and 0 <= number < self.n_values

    def _check_edges(self) -> None:
        if self.edges is None:
            if self.bottom or self.top:
                raise self._wrong("'bottom' and 'top' go with edges")
            return
        if len(self.edges) != self.n_values + 1:
            raise self._wrong(f"{len(self.edges)} edges for {self.n_values} bins, need one more")
        if not all(math.isfinite(e) for e in (*self.edges, self.edges[-1] - self.edges[0])):
            raise self._wrong("bin edges must be finite; 'bottom' and 'top' open the outer bins")
        if not all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise self._wrong("bin edges must be strictly ascending")
        if self.type in ("string", "boolean", "code"):
            raise self._wrong(f"edges are for integers, numbers, dates and timestamps, not for type {self.type}")
        if self.type in WHOLE:
            self._check_whole_bins()
        if self.decimals is not None:
            self._check_decimal_bins()
        if not (marks := self.mark_values):
            return
        for a, b in zip(self.edges, self.edges[1:], strict=False):
            first = a
            while first in marks:
                first = math.nextafter(first, math.inf)
            if first >= b:
                raise self._wrong(f"the bin from {a!r} to {b!r} holds no number but marks of missing values")

    def _check_whole_bins(self) -> None:
        """Every bin holds a whole number that is no mark of missing values: what can be written back."""
        assert self.edges is not None
        if max(map(abs, self.edges)) > _LARGEST_WHOLE:
            raise self._wrong(f"edges of integers lie between -2^53 and 2^53, not at {max(self.edges, key=abs):g}")
        marks = self.mark_values
        for a, b in zip(self.edges, self.edges[1:], strict=False):
            inside = math.ceil(b) - math.ceil(a) - sum(a <= mark < b for mark in marks)
            if inside < 1:
                raise self._wrong(f"the bin from {a:g} to {b:g} holds no whole number (its right end does not count)")

    def _check_time(self) -> None:
        if self.unit is None and self.type == "timestamp":
            raise self._wrong(f"a timestamp needs its 'unit': {', '.join(get_args(Unit))}")
        if self.unit is not None and self.type != "timestamp":
            raise self._wrong("'unit' is for timestamps")
        if self.zone is not None:
            if self.counted_in is None:
                raise self._wrong("'zone' is for dates and timestamps")
            try:
                values.zone_rules(self.zone)
            except ValueError as error:
                raise self._wrong(f"zone {values.shown(self.zone)} {error}") from None

    def _check_format(self) -> None:
        if self.pivot is not None and (self.counted_in is None or "%y" not in (self.format or "")):
            raise self._wrong("'pivot' is for dates and timestamps whose format has years of two digits (%y)")
        if self.format is None:
            return
        if self.type in ("integer", "number"):
            self._check_number_format(self.format)
            return
        if self.counted_in is None:
            raise self._wrong("'format' is for integers, numbers, dates and timestamps")
        if "%y" in self.format and self.pivot is None:
            raise self._wrong(
                f"format {values.shown(self.format)} has years of two digits; declare the first of the hundred years "
                f"that they lie in: `pivot: {values.PIVOT}` reads them as {values.PIVOT} to {values.PIVOT + 99}"
            )
        some = (_SOME_TIMES if values.has_day(self.format) else _SOME_CLOCKS)[self.counted_in]
        if not values.is_time_format(self.format, self.counted_in, some, pivot=self._any_pivot):
            needs = "day, month and year; such as '%d/%m/%Y'"
            if self.type == "timestamp":
                needs = f"day, month, year and time to the {self.unit}; such as '%d/%m/%Y %H:%M:%S'"
            raise self._wrong(f"format {values.shown(self.format)} gives no {needs}")
        ends = self.label_values if self.edges is None else (math.ceil(self.edges[0]), math.ceil(self.edges[-1]) - 1)
        if not self.lenient and not values.is_time_format(self.format, self.counted_in, ends, pivot=self.pivot):
            raise self._wrong(f"format {values.shown(self.format)} tells not all years of its labels or edges apart")

    @property
    def _any_pivot(self) -> int | None:
        """A pivot by which a format with years of two digits tells `_SOME_TIMES` apart."""
        return None if self.pivot is None else values.PIVOT

    def _check_number_format(self, format: str) -> None:
        try:
            written = NumberFormat.parse(format)
        except ValueError as error:
            raise self._wrong(f"format {values.shown(format)} {error}") from None
        if self.type == "number" and written.decimals not in (0, None, self.decimals):
            what = "none" if self.decimals is None else self.decimals
            raise self._wrong(f"format {values.shown(format)} has {written.decimals} decimals, 'decimals' has {what}")

    def _check_decimals(self) -> None:
        if self.decimals is None:
            return
        if self.type != "number":
            raise self._wrong("'decimals' is for type number")
        for label in self.labels or ():
            if self.edges is None and (value := values.number(label)) != values.rounded(value, self.decimals):
                raise self._wrong(f"label {values.shown(label)} has more than {self.decimals} decimals")

    def _check_decimal_bins(self) -> None:
        """Every bin holds a number of so many decimals that is no mark of missing values."""
        assert self.edges is not None
        assert self.decimals is not None
        first = values.steps_from(self.edges, self.decimals)
        marks = values.rounded(sorted(self.mark_values), self.decimals)
        steps = np.diff(first) - np.diff(np.searchsorted(marks, self.edges))
        if (np.abs(first) > _LARGEST_WHOLE).any():
            raise self._wrong(f"edges of {self.decimals} decimals lie below 2^53 steps of 10^-{self.decimals}")
        for i in np.flatnonzero(steps < 1)[:1].tolist():
            a, b = self.edges[i], self.edges[i + 1]
            raise self._wrong(f"the bin from {a!r} to {b!r} holds no number of {self.decimals} decimals")

    def _check_within(self) -> None:
        if self.within is None:
            return
        if self.edges is None:
            raise self._wrong("'within' goes with edges")
        if self.within == "log":
            return
        if len(self.within) != self.n_values:
            raise self._wrong(f"'within' is log, or a list of places for each of the {self.n_values} bins")
        for a, b, places in zip(self.edges, self.edges[1:], self.within, strict=False):
            ends = ((a, 0.0), *places, (b, 1.0))
            if not all(x <= y and p <= q for (x, p), (y, q) in itertools.pairwise(ends)):
                raise self._wrong(f"the places within the bin from {a:g} to {b:g} do not ascend inside it")

    def _check_type(self) -> None:
        if self.merge and self.type != "string":
            raise self._wrong("'merge' is for type string")
        self._check_format()
        if self.type is None:
            given = self.other is not None or self.missing is not None or self.inferred or self.special
            if given or self.bottom or self.top or self.lenient:
                raise self._wrong(f"needs a type: {', '.join(get_args(Type))}")
            return
        if self.type == "boolean" and self.n_values != 2:
            raise self._wrong(f"a boolean has two values, not {self.n_values}")
        if self.type in (*NUMBERS, "string") and self.labels is None and self.edges is None:
            raise self._wrong(f"type {self.type} needs labels{' or edges' if self.type != 'string' else ''}")
        if self.other is not None:
            if self.type != "string":
                raise self._wrong(f"'other' is for type string, not {self.type}")
            if self.other in (*(self.labels or ()), *(self.missing or ())):
                raise self._wrong(
                    f"'other' is written as {self.other!r}, which is a label or a mark; choose another text"
                )
            _check_texts(self, "text of 'other'", (self.other,))
        if self.lenient and (self.missing is None or not (self.other is not None or (self.bottom and self.top))):
            raise self._wrong("lenient needs 'missing', and 'bottom' and 'top', or 'other'")
        self._check_marks()


_FILE_KEYS = {*Column.model_fields, "points", "reviewed"} - {"private"}


def value_of(column: Column, label: str) -> Any:
    """Return a label or a mark as a value of the column's type; ValueError if it is none.

    >>> value_of(Column("day", 1, edges=(0, 9), type="date"), "1970-01-03")
    2
    """
    if column.counted_in is not None:
        unit, zone, pivot = column.counted_in, column.zone, column.pivot
        return values.moment(label, unit, column.format, zone=zone, pivot=pivot, iso_first=True)
    if column.type not in ("integer", "number"):
        return label
    value = _number_of(label, column.format)
    if column.type == "integer" and not value.is_integer():
        raise ValueError("is not a whole number")
    return value


def _number_of(label: str, format: str | None) -> float:
    """Return a label or a mark as a number: as the file writes numbers, or in the plain form."""
    try:
        return read_number(label, format)
    except ValueError:
        return values.number(label)


def number_or_text(column: Column, mark: str) -> float | str:
    """Return a special text or a mark as the number or time of the column's type that it is, else as it is.

    >>> age = Column("age", 3, edges=(0, 18, 65), type="integer", missing=("-9", "?"))
    >>> number_or_text(age, "-9"), number_or_text(age, "?")
    (-9.0, '?')
    """
    try:
        value = value_of(column, mark)
    except ValueError:
        return mark
    return value if isinstance(value, str) else float(value)


def _facts(item: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a column from an entry of a domain file; see `Column.from_dict`."""
    if not isinstance(reviewed := item.pop("reviewed", False), bool):
        raise InputError(f"'reviewed' is true or false, not {values.shown(reviewed)}")
    if reviewed:
        item["inferred"] = ()
    if not isinstance(zone := item.get("zone", ""), str):
        raise InputError(f"'zone' is a text, such as Europe/Berlin, not {values.shown(zone)}")
    if (decimals := item.get("decimals", 0)) not in range(values.MOST_DECIMALS + 1):
        raise InputError(f"decimals are a whole number from 0 to {values.MOST_DECIMALS}, not {values.shown(decimals)}")
    if item.get("type") == "number" and "decimals" not in item and (shown := _decimals_shown(item.get("format"))):
        item["decimals"] = shown
    labels, edges, points = item.get("labels"), item.get("edges"), item.pop("points", None)
    item.setdefault("kind", "categorical" if edges is None else "numeric")
    if isinstance(other := item.get("other"), bool):
        item["other"] = OTHER if other else None
    if labels == "private" or (isinstance(edges, Mapping) and "private" in edges):
        return _open_facts(item, points)
    if edges is not None:
        item["edges"] = edges_of(edges, item)
    if points is not None:
        item["edges"] = _with_points(item.get("edges"), points, item)
    if edges is not None and len(item["edges"]) < 2:
        raise InputError(f"bins have two edges at least, such as [0, 18, 65], not {values.shown(edges)}")
    if "size" not in item:
        known = len(item["edges"]) - 1 if labels is None and edges is not None else _length(labels)
        if labels is None and edges is None:
            if item.get("type") != "boolean":
                raise InputError("needs a size, labels or edges")
            known = 2
        beside = sum(item.get(fact) is not None for fact in ("other", "missing"))
        item["size"] = known + beside + _length(item.get("special"))
    return item


def _decimals_shown(format: Any) -> int | None:
    """Return the number of decimals that a format of numbers shows; None if it is no format, or leaves them open."""
    try:
        return NumberFormat.parse(format).decimals if isinstance(format, str) else None
    except ValueError:
        return None


def _length(texts: Any) -> int:
    return len(texts) if isinstance(texts, list | tuple) else 0


def _open_facts(item: dict[str, Any], points: Any) -> dict[str, Any]:
    """Return the facts of a column whose labels or edges are open."""
    if "size" in item:
        raise InputError("leave 'size' out; it follows from what is learned")
    item.pop("lenient", None)  # the column that is learned will be
    fact = "edges" if "labels" not in item else "labels"
    if isinstance(item.get("inferred"), list | tuple):
        item["inferred"] = [known for known in item["inferred"] if known != fact]  # each fit learns it
    if fact == "labels":
        if item.pop("labels") != "private" or "edges" in item:
            raise InputError("give labels or edges, and one of them may be private")
        return {**item, "private": "labels"}
    wanted = item.pop("edges")
    if unknown := set(wanted) - set(EDGE_KEYS):
        raise unknown_name("key of the edges", min(map(str, unknown)), EDGE_KEYS)
    if (rule := wanted["private"]) not in get_args(Rule):
        raise unknown_name("rule for private edges", str(rule), get_args(Rule))
    bounds = None if wanted.get("bounds") is None else bounds_of(wanted["bounds"], item)
    if points is not None:
        points_of(points, item)
        points = edges_of(points, item)
    return {**item, "private": PrivateBins(rule, bins_of(wanted.get("bins", 16)), bounds, points or ())}


def _with_points(edges: tuple[float, ...] | None, points: Any, item: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the edges of a column with those of the bins of single values."""
    added = points_of(points, item)
    if edges is None:
        raise InputError("'points' go with edges")
    joined = tuple(sorted({*edges, *added}))
    for end, flag in ((joined[:2], "bottom"), (joined[-2:], "top")):
        if item.get(flag) and set(end) <= set(added):
            raise InputError(f"the point {end[0]:g} has no bin of its own beside `{flag}: true`")
    return joined


def _check_texts(column: Column, what: str, texts: Sequence[str]) -> None:
    """Raise unless the texts differ, and each reads the same after a way through a file."""
    for one in texts:
        if not one or one != one.strip() or "\0" in one:
            raise InputError(f"column '{column.name}': {what} {one!r} is empty or has a space at its ends")
    if len(set(texts)) < len(texts):
        twice, _ = Counter(texts).most_common(1)[0]
        raise InputError(f"column '{column.name}': {what} {values.shown(twice)} stands twice")


@dataclass(frozen=True)
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
