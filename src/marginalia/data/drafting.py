"""Draft the domain file of a raw table: what each column seems to hold, and which facts were read off its rows."""

from __future__ import annotations

import datetime
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.data.attribute import BOOLEANS, WIDE, Attribute, Type
from marginalia.data.coding import ROWS, RawColumn
from marginalia.data.domain import as_dict
from marginalia.errors import InputError, one_line

if TYPE_CHECKING:
    import pandas as pd

MARKS = ("?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "<NA>", "NaT")
NUMBER_MARKS = (*MARKS, "None", "none", "-", "--", ".", "unknown", "missing")  # in text these may be categories
FEW = 12  # most distinct whole numbers that become labels
MANY = 50  # most labels; beyond, the rest is `other`
BINS = 16  # aimed at
MOST = 0.9  # share of the values that decides for a type, or against a text
COVERED = 0.5  # share of the rows that the labels of an open set must cover
ENOUGH = 20  # rows, from which on values that all differ are an identifier
_DATES = ("%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%Y/%m/%d")  # beside ISO
FORMATS = tuple(f"{date}{time}" for time in ("", " %H:%M", " %H:%M:%S") for date in _DATES)
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)  # seconds
IDENTIFIER = re.compile(r"(^|[\W_])(id|uuid|guid|key|nr|no|number|index)$|^(id|uuid|guid|unnamed)", re.IGNORECASE)


# Texts that are numbers or dates to a person; each with the part that they must share, and what to do about it.
_AMOUNT = re.compile(r"([$€£¥]?) ?[-+(]?(?:\d{1,3}(?:[,.' ]\d{3})+|\d+)(?:[.,]\d+)?\)? ?(%|[$€£¥°µ]?[A-Za-z]{0,5})")
_SHORT_DATE = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2}")
_MARK_LIKE = frozenset({-1.0, *(sign * (10.0**k - 1) for k in range(1, 6) for sign in (1, -1))})  # 9, -99, 999, ..
_LEADING_ZERO = re.compile(r"0\d+")
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_-]*")
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null"})


@dataclass(frozen=True)
class Drafted:
    """What was found in one column: an attribute, or a reason to leave the column out.

    >>> Drafted("id", None, "nearly all values differ: an identifier").attribute is None
    True
    """

    name: str
    attribute: Attribute | None
    note: str = ""


class _UnclearError(Exception):
    """A column cannot be read without guessing; the message says why."""


def draft(frame: pd.DataFrame) -> list[Drafted]:
    """Return what each column of a raw table seems to hold.

    Every label, edge and mark of a missing value is read off the rows, and marked so: such a domain is `inferred`.

    Raises
    ------
    InputError
        A number with a comma.

    Examples
    --------
    >>> import pandas as pd
    >>> [age, ward] = draft(pd.DataFrame({"age": [*range(18, 81)] * 2, "ward": ["a", "b", "?"] * 42}))
    >>> age.attribute.edges[:3], age.attribute.top, ward.attribute.labels, ward.attribute.missing
    ((15.0, 20.0, 25.0), True, ('a', 'b'), ('?',))
    """
    return [_column(str(name), RawColumn.of(frame.iloc[:, j], str(name))) for j, name in enumerate(frame.columns)]


def _column(name: str, column: RawColumn) -> Drafted:
    counts = np.bincount(column.which[column.which >= 0], minlength=len(column.distinct))
    texts = [values.text(v) for v in column.distinct.tolist()]
    try:
        kind, marks, found, form = _type_of(name, column, texts, counts)
    except _UnclearError as error:
        return Drafted(name, None, str(error))
    known = [i for i, t in enumerate(texts) if t not in marks and counts[i]]
    if not known:
        return Drafted(name, None, "no values")
    gaps = bool(marks) or bool((column.which < 0).any())
    facts: dict[str, Any] = {"type": kind, "missing": marks if gaps else None, "format": form}
    facts["inferred"] = ("type", "missing") if gaps else ("type",)
    if kind == "date":
        cells = {i: column.distinct[i] for i in found if i in set(known)}
        facts |= _time_facts(cells.values(), form)
        if "unit" in facts:
            kind, found = "timestamp", {i: values.moment(c, facts["unit"], form) for i, c in cells.items()}
    here, weights = [texts[i] for i in known], counts[known]
    if kind == "boolean":
        low = {t.lower(): t for t in here}
        if not set(here) <= set(BOOLEANS):
            facts["labels"] = low["false"], low["true"]
        return Drafted(name, Attribute(name, 2 + gaps, **facts))
    numbers = np.array([found[i] for i in known if i in found])
    try:
        if kind == "string":
            return _of_strings(name, here, weights, facts)
        drafted = _of_numbers(name, numbers, int(weights.sum()), facts)
    except InputError as error:  # numbers that double precision cannot tell apart
        return Drafted(name, None, str(error))
    unread = [i for i in known if i not in found]
    if unread and drafted.attribute is not None:
        row = int(np.argmax(np.isin(column.which, unread)))
        many = int(counts[unread].sum())
        note = f"{many} cells are no {kind} (first: {values.shown(column.distinct[column.which[row]])} in row {row}): "
        return Drafted(
            name,
            drafted.attribute,
            f"{note}correct the file, list them as marks under missing, or make it strings (type, labels)",
        )
    return drafted


def _type_of(
    name: str, column: RawColumn, texts: Sequence[str], counts: NDArray[np.integer]
) -> tuple[Type, tuple[str, ...], dict[int, float], str | None]:
    """Return the type that most values have, marks of missing values, numbers (or days) by position, a date format."""
    marks = tuple(t for t in NUMBER_MARKS if t in texts)
    rest = [i for i, t in enumerate(texts) if t not in marks and counts[i]]
    total = int(counts[rest].sum())
    if {texts[i].lower() for i in rest} == {"false", "true"}:
        return "boolean", marks, {}, None
    numbers, commas = _readable(values.number, "comma", column.distinct, rest)
    codes = any(_LEADING_ZERO.fullmatch(t) for t in texts)  # a postcode is no number
    if rest and not codes and counts[[*numbers, *commas]].sum() >= MOST * total:
        if commas:
            row = int(np.argmax(np.isin(column.which, list(commas))))
            cell = values.shown(column.distinct[column.which[row]])
            raise InputError(f"column '{name}', row {row}: {cell} {next(iter(commas.values()))} {ROWS}")
        whole = all(number.is_integer() for number in numbers.values())
        return ("integer" if whole else "number"), marks, numbers, None
    dates, unclear = _readable(values.day, "may be", column.distinct, rest)
    if rest and counts[[*dates, *unclear]].sum() >= MOST * total:
        both = [*dates, *unclear]
        fitting = [f for f in FORMATS if all(_fits(texts[i], f) for i in both)]
        if unclear and len(fitting) != 1:
            row = int(np.argmax(np.isin(column.which, list(unclear))))
            cell = values.shown(column.distinct[column.which[row]])
            ways = f"dates that can be read in two ways (row {row}: {cell})"
            if not fitting:
                raise _UnclearError(f"{ways} and are written in several; write them year-month-day")
            choice = " or ".join(f'"{f}"' for f in fitting)
            raise _UnclearError(f"{ways}; to use it, put it under attributes with type: date and format: {choice}")
        if len(fitting) == 1:
            return "date", marks, {i: float(values.day(texts[i], fitting[0])) for i in both}, fitting[0]
        return "date", marks, dates, None
    return "string", tuple(t for t in marks if t in MARKS), {}, None


def _time_facts(cells: Collection[Any], form: str | None) -> dict[str, Any]:
    """Return what dates are besides: the coarsest unit of those that have a time of day, the zone of those with one."""
    zone = {"zone": "UTC"} if any(map(values.is_instant, cells)) else {}
    for unit in get_args(values.Unit):
        if unit == "second" or not any(values.is_shortened(cell, unit, form) for cell in cells):
            return zone if unit == "day" else {"type": "timestamp", "unit": unit, **zone}
    raise AssertionError


def _fits(written: str, form: str) -> bool:
    try:
        values.day(written, form)
    except ValueError:
        return False
    return True


def _readable(read: Callable[[Any], float], nearly: str, distinct: NDArray[Any], which: list[int]) -> Any:
    """Return the values that can be read, and why some nearly can (the reason has the word), by position."""
    found, reasons = {}, {}
    for i in which:
        try:
            found[i] = float(read(distinct[i]))
        except ValueError as error:
            if nearly in str(error):
                reasons[i] = str(error)
    return found, reasons


def _of_strings(name: str, here: list[str], weights: NDArray[np.integer], facts: dict[str, Any]) -> Drafted:
    n = int(weights.sum())
    if len(here) > FEW and (reason := _numbers_in_disguise(here, weights)):
        return Drafted(name, None, reason)
    if len(here) >= MOST * n and n >= ENOUGH:
        return Drafted(name, None, f"{len(here)} different texts in {n} rows: an identifier, or free text")
    kept = sorted(range(len(here)), key=lambda i: (-weights[i], here[i]))[:MANY]
    if (share := weights[kept].sum() / n) < COVERED:
        return Drafted(name, None, f"free text: its {MANY} most frequent values are {share:.0%} of the rows")
    labels = tuple(sorted(here[i] for i in kept))
    facts |= {"labels": labels, "inferred": (*facts["inferred"], "labels")}
    if len(here) > MANY:
        facts["other"] = next(t for t in ("other", "(other)", "(any other)") if t not in labels)
    return Drafted(name, Attribute(name, len(labels) + (len(here) > MANY) + (facts["missing"] is not None), **facts))


def _numbers_in_disguise(here: list[str], weights: NDArray[np.integer]) -> str:
    """Return what makes most texts no numbers or dates for us, though they are to a person; empty if they are not."""
    short = np.array([bool(_SHORT_DATE.fullmatch(t)) for t in here])
    if weights[short].sum() >= MOST * weights.sum():
        return f"dates whose year has two digits ({values.shown(here[int(short.argmax())])}); write them year-month-day"
    signs: Counter[tuple[str, ...]] = Counter()
    for written, weight in zip(here, weights.tolist(), strict=True):
        if found := _AMOUNT.fullmatch(written):
            signs[found.groups()] += weight
    odd = [t for t in here if not t.replace(".", "").isdecimal()]
    if not odd or not signs or signs.most_common(1)[0][1] < MOST * weights.sum():
        return ""
    return f"numbers with more than their digits ({values.shown(odd[0])}); write the number alone"


def _of_numbers(name: str, numbers: NDArray[np.float64], n: int, facts: dict[str, Any]) -> Drafted:
    low, high, kind = float(numbers.min()), float(numbers.max()), facts["type"]
    apart = np.unique(numbers)
    distinct = apart.size
    note = ""
    for mark, rest in ((low, apart[1:]), (high, apart[:-1])):
        if mark in _MARK_LIKE and distinct > 2 and abs(mark - rest).min() > max(2.0, rest[-1] - rest[0]):
            note = f"{values.text(mark)} lies far from all other values; if it marks missing values, list it there"
    if kind == "integer" and numbers.size == n >= ENOUGH and (IDENTIFIER.search(name) or high - low == n - 1):
        return Drafted(name, None, f"{n} different whole numbers in {n} rows: an identifier")
    if kind == "integer" and max(-low, high) >= WIDE:
        return Drafted(
            name, None, "whole numbers of 2^53 and more are not told apart; type: string, if they are categories"
        )
    unit: values.Unit | None = "day" if kind == "date" else facts.get("unit")
    if low == high or (unit is None and distinct <= FEW and n >= 5 * distinct):
        small = kind == "integer" and high - low < FEW
        shown = np.arange(low, high + 1) if small else np.unique(numbers)
        labels = tuple(values.text(float(v)) if unit is None else values.iso(v, unit) for v in shown)
        facts |= {"labels": labels, "kind": "ordinal", "inferred": (*facts["inferred"], "labels")}
        return Drafted(name, Attribute(name, len(labels) + (facts["missing"] is not None), **facts), note)
    edges = _number_edges(low, high, whole=kind == "integer") if unit is None else _time_edges(low, high, unit)
    facts |= {"edges": edges, "kind": "numeric", "bottom": True, "top": True}
    facts["inferred"] = (*facts["inferred"], "edges")
    return Drafted(name, Attribute(name, len(edges) - 1 + (facts["missing"] is not None), **facts), note)


def _number_edges(low: float, high: float, *, whole: bool) -> tuple[float, ...]:
    """Return about `BINS` equal bins with round edges from at most `low` to above `high`."""
    width = max(high / BINS - low / BINS, sys.float_info.min)
    power = math.floor(math.log10(width))
    step = next(c * 10.0**power for c in (1, 2, 5, 10) if c * 10.0**power >= width)
    if whole:
        step = max(1.0, step)
    first, last = math.floor(low / step), math.floor(high / step) + 1
    return tuple(float(f"{k * step:.15g}") for k in range(first, last + 1))


def _time_edges(low: float, high: float, unit: values.Unit) -> tuple[float, ...]:
    """Return the edges of dates; of times of few days, about `BINS` bins of so many hours, minutes or seconds."""
    a_day = 86_400 // values.SECONDS[unit]
    if a_day == 1 or high - low >= BINS * a_day:
        return tuple(day * a_day for day in _date_edges(low // a_day, high // a_day))
    step = next(s for s in _STEPS if s >= values.SECONDS[unit] and s * BINS >= (high - low) * values.SECONDS[unit])
    step //= values.SECONDS[unit]
    return tuple(float(k * step) for k in range(int(low // step), int(high // step) + 2))


def _date_edges(low: float, high: float) -> tuple[float, ...]:
    """Return at most `BINS` bins that begin with years, with months, or days apart; of the years 1 to 9999."""
    start, end = (datetime.date.fromordinal(int(d) + values.EPOCH) for d in (low, high))
    months = (end.year - start.year) * 12 + end.month - start.month + 1
    if months < 3:
        step = max(1, math.ceil((high - low + 1) / BINS))
        most = datetime.date.max.toordinal() - values.EPOCH
        days = {min(low + k * step, most) for k in range(int((high - low) // step) + 2)}
        return tuple(sorted(days if len(days) > 1 else {low - 1, low}))
    step = next(m for m in (1, 2, 3, 6, *(12 * k for k in range(1, 1000))) if months <= m * (BINS - 1))
    first = (start.year * 12 + start.month - 1) // step
    last = (end.year * 12 + end.month - 1) // step + 1
    firsts = sorted({min(max(k * step, 12), 9999 * 12 + 11) for k in range(first, last + 1)})
    return tuple(float(datetime.date(m // 12, m % 12 + 1, 1).toordinal() - values.EPOCH) for m in firsts)


HEAD = """\
# Drafted by `marginalia domain init` from {file}: {rows:,} rows, {columns} columns.
#
# The facts named under `inferred` were read off these rows, and no certificate covers that: a label or an edge can
# show what one person's row says. A fit with them warns, and its certificate says `inferred`. For each such fact:
#   confirm  where it is public knowledge (a code book, a form, a law): delete its name under `inferred`;
#   edit     write what is public in its place, and delete its name;
#   buy      put the commented line in its place: the fact is then bought with part of epsilon, and covered.
# Until then this file is as private as the table.
"""
MEANING = {
    "type": "type: how the values are written; as good as public in most tables",
    "missing": "missing: that the column has gaps, and how these are marked",
    "labels": "labels: each says that somebody in the table has this value",
    "edges": "edges: the first and last are the smallest and largest value of a row, rounded",
}


def as_yaml(columns: Sequence[Drafted], file: str, n_rows: int) -> str:
    """Return the draft as a domain file, with what each inferred fact means for privacy.

    >>> print(as_yaml([Drafted("id", None, "an identifier")], "t.csv", 3).splitlines()[-2])
      - id  # an identifier
    """
    lines = [HEAD.format(file=one_line(file), rows=n_rows, columns=len(columns)), "source: declared"]
    if any(c.attribute is None for c in columns):
        lines += [
            "ignored:  # columns that are not read",
            *(f"  - {_scalar(c.name)}  # {one_line(c.note)}" for c in columns if c.attribute is None),
        ]
    lines.append("attributes:")
    for column in columns:
        lines += _entry(column)
    return "\n".join(lines) + "\n"


def _entry(column: Drafted) -> Iterator[str]:
    if column.attribute is None:
        return
    content = as_dict(column.attribute)
    del content["size"]
    yield f"  - name: {_scalar(content.pop('name'))}"
    if column.note:
        yield f"    # {one_line(column.note)}"
    if column.attribute.type in ("integer", "number"):
        content["labels"] = [float(label) for label in content.get("labels", ())]
    for key in (
        "type",
        "unit",
        "zone",
        "format",
        "kind",
        "labels",
        "edges",
        "bottom",
        "top",
        "other",
        "missing",
        "inferred",
    ):
        if content.get(key) or (key == "missing" and key in content):
            yield f"    {key}: {_scalar(content[key])}"
    if column.attribute.edges is not None:
        yield "    # edges: {private: adaptive, bins: 16}  # buys them"
    elif column.attribute.type == "string":
        yield "    # labels: private  # buys them"
    for fact in column.attribute.inferred:
        yield f"    # {MEANING[fact]}"


def _scalar(value: Any) -> str:
    """Return flow YAML: plain words stand as they are, what YAML could take for something else in quotes."""
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _YAML_WORDS:
        return value
    if not isinstance(value, str):
        return json.dumps(value)
    inside = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
    return f'"{"".join(inside)}"'
