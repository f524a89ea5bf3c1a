"""Draft the domain file of a raw table: what each column seems to hold, and which facts were read off its rows."""

from __future__ import annotations

import datetime
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
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
FULL = 0.5  # share of the rows in one bin of equal width, from which on a column is skewed
SPREAD = 4  # bins of equal size that tell as much as those of a column that is not skewed, at least
POINT = 0.05  # share of the rows from which on one value gets a bin of its own,
TIMES = 5  # if that is so many times the mean of the other values in its bin
POINTS = 8  # of them at most
DECIMALS = 6  # that are kept at most
MOST = 0.9  # share of the values that decides for a type, or against a text
COVERED = 0.5  # share of the rows that the labels of an open set must cover,
OFTEN = 5  # unless its values stand that often in the mean: codes, and no free text
ENOUGH = 20  # rows, from which on values that all differ are an identifier
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)  # seconds
SERIES = (  # of round numbers in a decade, from the coarsest: one for a hundred, for ten, 1-2-5, and finer ones
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2),
)
KEYS = re.compile(r"(^|[\W_])(id|uuid|guid|key)$|^(id|uuid|guid)([\W_]|$)", re.IGNORECASE)
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

    Attributes
    ----------
    name : str
    attribute : Attribute or None
    note : str
        What a person must look at, or why the column is left out.
    question : str
        The note without what is particular to this column; columns with the same one are asked about together.

    Examples
    --------
    >>> Drafted("id", None, "nearly all values differ: an identifier").attribute is None
    True
    """

    name: str
    attribute: Attribute | None
    note: str = ""
    question: str = ""


class _UnclearError(Exception):
    """A column cannot be read without guessing; the message says why."""


def draft(frame: pd.DataFrame, *, missing: Sequence[str] = ()) -> list[Drafted]:
    """Return what each column of a raw table seems to hold.

    Every label, edge and mark of a missing value is read off the rows, and marked so: such a domain is `inferred`.

    Parameters
    ----------
    frame : DataFrame
    missing : sequence of str
        Marks of missing values in all columns, as public knowledge; others are looked for.

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
    columns = ((str(name), frame.iloc[:, j]) for j, name in enumerate(frame.columns))
    return [_column(name, RawColumn.of(raw, name), tuple(missing)) for name, raw in columns]


def _column(name: str, column: RawColumn, public: tuple[str, ...]) -> Drafted:
    counts = np.bincount(column.which[column.which >= 0], minlength=len(column.distinct))
    texts = [values.text(v) for v in column.distinct.tolist()]
    try:
        kind, marks, found, form = _type_of(name, column, texts, counts, public)
    except _UnclearError as error:
        return Drafted(name, None, str(error))
    known = [i for i, t in enumerate(texts) if t not in (*public, *marks) and counts[i]]
    if not known:
        return Drafted(name, None, "no values")
    gaps = bool(marks) or bool((column.which < 0).any())
    facts: dict[str, Any] = {"type": kind, "missing": (*public, *marks) if gaps or public else None, "format": form}
    facts["inferred"] = ("type", "missing") if marks or (gaps and not public) else ("type",)
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
        return Drafted(name, Attribute(name, 2 + (facts["missing"] is not None), **facts))
    read = [i for i in known if i in found]
    numbers, weights_read = np.array([found[i] for i in read]), counts[read]
    try:
        if kind == "string":
            return _of_strings(name, here, weights, facts)
        drafted = _of_numbers(name, numbers, weights_read, facts)
    except InputError as error:  # numbers that double precision cannot tell apart
        return Drafted(name, None, str(error))
    unread = [i for i in known if i not in found]
    if unread and drafted.attribute is not None:
        row = int(np.argmax(np.isin(column.which, unread)))
        many = int(counts[unread].sum())
        first = values.shown(column.distinct[column.which[row]])
        mend = "correct the file, list them under missing (`--missing`) or special, or make it strings (type, labels)"
        note = f"{many} cells are no {kind} (first: {first} in row {row}): {mend}"
        return replace(drafted, note=note, question=f"cells that are no {kind}, such as {first}: {mend}")
    return drafted


def _type_of(
    name: str, column: RawColumn, texts: Sequence[str], counts: NDArray[np.integer], public: Sequence[str]
) -> tuple[Type, tuple[str, ...], dict[int, float], str | None]:
    """Return the type that most values have, marks of missing values, numbers (or days) by position, a date format."""
    marks = tuple(t for t in NUMBER_MARKS if t in texts and t not in public)
    rest = [i for i, t in enumerate(texts) if t not in (*public, *marks) and counts[i]]
    total = int(counts[rest].sum())
    if {texts[i].lower() for i in rest} == {"false", "true"}:
        return "boolean", marks, {}, None
    numbers, commas = _readable(values.number, "comma", column.distinct, rest)
    codes = any(_LEADING_ZERO.fullmatch(t) for t in texts)  # a postcode is no number
    if rest and not codes and counts[[*numbers, *commas]].sum() >= MOST * total:
        if commas:
            row = int(np.argmax(np.isin(column.which, list(commas))))
            cell = values.shown(column.distinct[column.which[row]])
            mend = "replace the commas of the column in the file"
            raise InputError(f"column '{name}', row {row}: {cell} {next(iter(commas.values()))}; {mend} {ROWS}")
        whole = all(number.is_integer() for number in numbers.values())
        return ("integer" if whole else "number"), marks, numbers, None
    dates, form = _dates(texts, column.distinct, counts, rest)
    if dates:
        return "date", marks, dates, form
    return "string", tuple(t for t in marks if t in MARKS), {}, None


def _time_facts(cells: Collection[Any], form: str | None) -> dict[str, Any]:
    """Return what dates are besides: the coarsest unit of those that have a time of day, the zone of those with one."""
    zone = {"zone": "UTC"} if any(map(values.is_instant, cells)) else {}
    for unit in get_args(values.Unit):
        if unit == "second" or not any(values.is_shortened(cell, unit, form) for cell in cells):
            return zone if unit == "day" else {"type": "timestamp", "unit": unit, **zone}
    raise AssertionError


def _dates(
    texts: Sequence[str], distinct: NDArray[Any], counts: NDArray[np.integer], which: list[int]
) -> tuple[dict[int, float], str | None]:
    """Return the days of a column of dates by position, and their format (None: ISO); no days where most are no dates.

    A format is taken where most dates fit it, and no other format fits as many.
    """
    fits: dict[int, tuple[str | None, ...]] = {i: values.formats_of(texts[i]) for i in which}
    iso, _ = _readable(values.day, "", distinct, which)
    fits |= {i: (None, *fits[i]) for i in iso}
    total = int(counts[which].sum())
    if not which or counts[[i for i in which if fits[i]]].sum() < MOST * total:
        return {}, None
    rows: Counter[str | None] = Counter()
    for i, known in fits.items():
        rows.update(dict.fromkeys(known, int(counts[i])))
    most = max(rows.values())
    best = [form for form in rows if rows[form] == most]
    rivals = [form for form in rows if rows[form] >= MOST * total]
    form = None if None in best else best[0]
    if rivals and (form is None or (len(best) == 1 and (most == total or best == rivals))):
        return {i: float(values.day(distinct[i], form)) for i in which if form in fits[i]}, form
    if most == total:
        choice = " or ".join(f'"{one}"' for one in best)
        raise _UnclearError(
            "dates that can be read in two ways; to use it, put it under attributes with type: date and format: "
            f"{choice}"
        )
    raise _UnclearError("dates that are written in several ways; write them in one, such as 2024-01-31")


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
        note = f"{len(here)} different texts in {n} rows: an identifier, or free text"
        return Drafted(name, None, note, "nearly all texts differ: identifiers, or free text")
    kept = sorted(range(len(here)), key=lambda i: (-weights[i], here[i]))[:MANY]
    share = weights[kept].sum() / n
    if share < COVERED and n < OFTEN * len(here):
        note = f"free text: its {MANY} most frequent values are {share:.0%} of the rows"
        return Drafted(name, None, note, f"free text: the {MANY} most frequent values are less than half of the rows")
    labels = tuple(sorted(here[i] for i in kept))
    facts |= {"labels": labels, "inferred": (*facts["inferred"], "labels")}
    if len(here) > MANY:
        facts["other"] = next(t for t in ("other", "(other)", "(any other)") if t not in labels)
    size = len(labels) + (len(here) > MANY) + (facts["missing"] is not None)
    return Drafted(name, Attribute(name, size, **facts))


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


def _of_numbers(name: str, numbers: NDArray[np.float64], counts: NDArray[np.integer], facts: dict[str, Any]) -> Drafted:
    apart, which = np.unique(numbers, return_inverse=True)  # 1 and 1.0 are two texts
    weights = np.bincount(which, weights=counts)
    low, high, kind, n, distinct = float(apart[0]), float(apart[-1]), facts["type"], int(counts.sum()), apart.size
    note = question = ""
    for mark, rest in ((low, apart[1:]), (high, apart[:-1])):
        if mark in _MARK_LIKE and distinct > 2 and abs(mark - rest).min() > max(2.0, rest[-1] - rest[0]):
            question = f"{values.text(mark)} lies far from all other values; if it marks missing values, list it there"
    if kind == "integer" and n >= ENOUGH and (why := _identifies(name, apart, n)):
        return Drafted(name, None, f"{distinct} different whole numbers in {n} rows: {why}", f"whole numbers: {why}")
    if kind == "integer" and max(-low, high) >= WIDE:
        return Drafted(
            name, None, "whole numbers of 2^53 and more are not told apart; type: string, if they are categories"
        )
    unit: values.Unit | None = "day" if kind == "date" else facts.get("unit")
    if low == high or (unit is None and distinct <= FEW and n >= 5 * distinct):
        small = kind == "integer" and high - low < FEW
        shown = np.arange(low, high + 1) if small else apart
        labels = tuple(values.text(float(v)) if unit is None else values.iso(v, unit) for v in shown)
        facts |= {"labels": labels, "kind": "ordinal", "inferred": (*facts["inferred"], "labels")}
        size = len(labels) + (facts["missing"] is not None)
        return Drafted(name, Attribute(name, size, **facts), question, question)
    if unit is not None:
        edges = _time_edges(low, high, unit)
    else:
        decimals = 0 if kind == "integer" else _decimals(apart)
        edges, (remark, of_remark) = _number_edges(apart, weights / n, decimals)
        note, question = (question, question) if question else (remark, of_remark)
        if kind == "number" and decimals is not None:
            facts["decimals"] = decimals
    facts |= {"edges": edges, "kind": "numeric", "bottom": True, "top": True}
    facts["inferred"] = (*facts["inferred"], "edges")
    attribute = Attribute(name, len(edges) - 1 + (facts["missing"] is not None), **facts)
    return Drafted(name, attribute, note or question, question)


def _identifies(name: str, apart: NDArray[np.float64], n: int) -> str:
    """Say why whole numbers name rows, or what rows belong to; empty if they measure something."""
    dense = apart[-1] - apart[0] <= 1.2 * n
    if apart.size >= MOST * n and (IDENTIFIER.search(name) or (dense and apart.size > 0.99 * n)):
        return "an identifier"
    return "a key, by its name" if apart.size > MANY and KEYS.search(name) else ""


def _decimals(apart: NDArray[np.float64]) -> int | None:
    """Return how many decimals all values can be written with; None if that are more than `DECIMALS`."""
    return next((d for d in range(DECIMALS + 1) if not _finer(apart, d).any()), None)


def _finer(apart: NDArray[np.float64], decimals: int = DECIMALS) -> NDArray[np.bool_]:
    """Return which values have more decimals."""
    with np.errstate(over="ignore"):
        return np.asarray(np.round(apart, decimals) != apart)


def _number_edges(
    apart: NDArray[np.float64], shares: NDArray[np.float64], decimals: int | None
) -> tuple[tuple[float, ...], tuple[str, str]]:
    """Return about `BINS` bins with round edges from at most the least value to above the largest.

    They are of equal width, unless most rows lie in one of these: then those of three kinds that tell the most, by the
    entropy of the shares of the rows: equal ones, a logarithmic series such as 1-2-5, or equal ones of the middle. A
    value with many rows gets a bin of its own.

    Returns
    -------
    edges : tuple of float
    remark : tuple of two str
        What to say of a skewed column or of values with many rows, in full and without its numbers; else empty.
    """
    unit = 0.0 if decimals is None else 10.0**-decimals
    equal = edges = _equal_edges(float(apart[0]), float(apart[-1]), unit)
    fullest = float(_masses(apart, shares, equal).max())
    points = _points(apart, shares, equal)
    rest = ~np.isin(apart, points)
    others, of_others = apart[rest], shares[rest]
    full, short = [], []
    if others.size > SPREAD and _is_skewed(_masses(others, of_others, equal)):
        ways = equal, _log_edges(others, of_others, unit), _middle_edges(others, of_others, unit, equal)
        edges = max(ways, key=lambda way: _spread(_masses(others, of_others, way)))
        points += _points(others, of_others, edges)
    if edges != equal:
        which = f"one of {len(equal) - 1} bins of equal width"
        full.append(f"skewed: {fullest:.0%} of the rows would lie in {which}; the edges fit these rows instead")
        short.append("skewed: most rows would lie in one bin of equal width; the edges fit these rows instead")
    with_points = _with_points(edges, points := points[:POINTS], apart, unit)
    if with_points != edges:
        told = (f"{values.text(p)} ({shares[np.searchsorted(apart, p)]:.0%} of the rows)" for p in points)
        full.append(f"a bin of its own: {', '.join(told)}")
        short.append("values with many rows have bins of their own")
    return with_points, ("; ".join(full), "; ".join(short))


def _masses(apart: NDArray[np.float64], shares: NDArray[np.float64], edges: Sequence[float]) -> NDArray[np.float64]:
    """Return the share of the rows in each bin; the outer ones are open."""
    where = np.searchsorted(edges[1:-1], apart, side="right")
    return np.bincount(where, weights=shares, minlength=len(edges) - 1).astype(np.float64)


def _is_skewed(masses: NDArray[np.float64]) -> bool:
    return bool(masses.max() > FULL * masses.sum() or _spread(masses) < math.log(SPREAD))


def _spread(masses: NDArray[np.float64]) -> float:
    """Return the entropy of the shares of the rows in bins: the logarithm of how many equal ones tell as much."""
    some = masses[masses > 0] / masses.sum()
    return float(-(some * np.log(some)).sum())


def _points(apart: NDArray[np.float64], shares: NDArray[np.float64], edges: Sequence[float]) -> list[float]:
    """Return the values with many rows, and many times those of others in their bin; the largest first."""
    where = np.searchsorted(edges[1:-1], apart, side="right")
    others = np.bincount(where)[where] - 1
    of_others = np.bincount(where, weights=shares)[where] - shares
    many = np.flatnonzero((shares >= POINT) & (shares * others > TIMES * of_others) & (others > 0))
    return [float(apart[i]) for i in many[np.argsort(-shares[many], kind="stable")]]


def _with_points(
    edges: Sequence[float], points: Sequence[float], apart: NDArray[np.float64], unit: float
) -> tuple[float, ...]:
    """Return the edges with a bin for each point: of one unit, or without one up to a short number below the next."""
    found = set(edges)
    for point in points:
        end = _round(point + unit) if unit else _short(point, next(iter(apart[apart > point].tolist()), edges[-1]))
        found = {e for e in found if not point < e < end} | {point, end}
    return tuple(sorted(found))


def _short(low: float, high: float) -> float:
    """Return the number with the fewest digits about the middle of two, above the lower one."""
    middle = low / 2 + high / 2
    numbers = (float(f"{middle:.{digits}g}") for digits in range(1, 18))
    return next((number for number in numbers if low < number <= high), high)


def _round(number: float) -> float:
    return float(f"{number:.15g}")


def _is_multiple(number: float, unit: float) -> bool:
    """Return whether a number is so many units; beyond 2^53 of them every floating-point number is."""
    return number / unit >= 2**53 or _round(round(number / unit) * unit) == _round(number)


def _equal_edges(low: float, high: float, unit: float) -> tuple[float, ...]:
    """Return about `BINS` equal bins with round edges from at most `low` to above `high`."""
    width = max(high / BINS - low / BINS, sys.float_info.min)
    power = math.floor(math.log10(width))
    step = max(unit, next(c * 10.0**power for c in (1, 2, 5, 10) if c * 10.0**power >= width))
    first, last = math.floor(low / step), math.floor(high / step) + 1
    return tuple(_round(k * step) for k in range(first, last + 1))


def _log_edges(apart: NDArray[np.float64], shares: NDArray[np.float64], unit: float) -> tuple[float, ...]:
    """Return edges of about equal ratios, on both sides of 0 where there are values on both."""
    sides: list[list[float]] = []
    for sign in (-1, 1):
        chosen = sign * apart > 0
        order = np.argsort(sign * apart[chosen])
        sizes, heaped = (sign * apart[chosen])[order], np.cumsum(shares[chosen][order])
        if not sizes.size:
            sides.append([])
            continue
        least = float(sizes[np.searchsorted(heaped, 0.01 * heaped[-1])])  # the least hundredth needs no bins
        one_sided = bool((sign * apart >= 0).all())
        sides.append(_series(least, float(sizes[-1]), unit, BINS if one_sided else BINS // 2))
    below, above = sides
    zero = [] if above and not below and apart[0] >= above[0] else [0.0]
    return (*(-e for e in reversed(below)), *zero, *above)


def _series(least: float, most: float, unit: float, many: int) -> list[float]:
    """Return round numbers from at most `least` to above `most`: the finest series of at most so many, or decades."""
    first, last = math.floor(math.log10(least)), math.floor(math.log10(most)) + 1
    finest = ((1, digits) for digits in reversed(SERIES))
    for step, digits in chain(finest, ((k, SERIES[0]) for k in range(2, 999))):
        powers = range(first, last + step, step)
        numbers = [x for p in powers for d in digits if 0 < (x := float(f"{d}e{p}")) < math.inf]
        if unit:
            numbers = [x for x in numbers if x >= unit and _is_multiple(x, unit)] or [unit]
        begin = max((x for x in numbers if x <= least), default=numbers[0])
        end = next((x for x in numbers if x > most), numbers[-1])
        chosen = [x for x in numbers if begin <= x <= end]
        if len(chosen) <= many:
            break
    return chosen


def _middle_edges(
    apart: NDArray[np.float64], shares: NDArray[np.float64], unit: float, equal: Sequence[float]
) -> tuple[float, ...]:
    """Return equal bins of all but the outer hundredths, with one beyond on either side."""
    heaped = np.cumsum(shares)
    low, high = (float(apart[np.searchsorted(heaped, q * heaped[-1])]) for q in (0.01, 0.99))
    if low == high:
        return tuple(equal)
    inner = _equal_edges(low, high, unit)
    return tuple(sorted({*inner, min(equal[0], inner[0]), max(equal[-1], inner[-1])}))


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
# show what one person's row says. With any of them a fit is not certified. What each of them is:
#   type     how the values are written; as good as public in most tables
#   missing  that the column has gaps, and how these are marked
#   labels   each says that somebody in the table has this value
#   edges    the first and last are the smallest and largest value of a row, rounded
# For each column:
#   buy      put the commented line in the place of its labels or edges (recommended: they then fit the rows as these
#            are, part of epsilon pays, and the certificate covers them), and add `reviewed: true` for the rest;
#   confirm  what is public knowledge (a code book, a form, a law): add `reviewed: true`;
#   edit     or write what is public in its place, and add `reviewed: true`.
# `defaults: {{reviewed: true}}` says so of all columns. Until then this file is as private as the table.
"""
_BUY = {
    "edges": "# edges: {private: adaptive, bins: 16}  # recommended: buys them",
    "labels": "# labels: private  # recommended: buys them",
}
_KEYS = (
    "type",
    "unit",
    "zone",
    "format",
    "decimals",
    "kind",
    "labels",
    "edges",
    "bottom",
    "top",
    "other",
    "missing",
    "inferred",
)


def as_yaml(columns: Sequence[Drafted], file: str, n_rows: int, *, missing: Sequence[str] = ()) -> str:
    """Return the draft as a domain file, with what each inferred fact means for privacy.

    `missing` are the marks that were given for all columns; they stand under `defaults`.

    >>> print(as_yaml([Drafted("id", None, "an identifier")], "t.csv", 3).splitlines()[-2])
      - id  # an identifier
    """
    lines = [HEAD.format(file=one_line(file), rows=n_rows, columns=len(columns)), "source: declared"]
    if missing:
        lines.append(f"defaults: {{missing: {_scalar(list(missing))}}}  # of every column that does not say it itself")
    if any(c.attribute is None for c in columns):
        lines += [
            "ignored:  # columns that are not read",
            *(f"  - {_scalar(c.name)}  # {one_line(c.note)}" for c in columns if c.attribute is None),
        ]
    lines.append("attributes:")
    asked: dict[str, str] = {}
    for column in columns:
        if column.attribute is not None:
            lines += _entry(column, column.attribute, asked, tuple(missing))
    return "\n".join(lines) + "\n"


def _entry(column: Drafted, attribute: Attribute, asked: dict[str, str], missing: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a column; what was asked of one before is not asked in full again."""
    content = as_dict(attribute)
    yield f"  - name: {_scalar(attribute.name)}"
    if column.note:
        first = asked.setdefault(column.question or column.note, attribute.name)
        yield f"    # {one_line(column.note) if first == attribute.name else f'see {one_line(first)}'}"
    if attribute.type in ("integer", "number"):
        content["labels"] = [float(label) for label in content.get("labels", ())]
    if missing and attribute.missing == missing:
        del content["missing"]
    for key in _KEYS:
        if content.get(key) or (key == "missing" and key in content):
            yield f"    {key}: {_scalar(content[key])}"
    if attribute.edges is not None or attribute.type == "string":
        yield f"    {_BUY['labels' if attribute.edges is None else 'edges']}"


def questions(columns: Sequence[Drafted]) -> Iterator[str]:
    """Yield what a person has to look at, one line for all columns of which the same is asked.

    >>> list(questions([Drafted(name, None, "an identifier") for name in ("a", "b")]))
    ['ignored: a, b (an identifier)']
    """
    for word in ("ignored", "look at"):
        groups: dict[str, list[Drafted]] = {}
        for c in columns:
            if c.note and (c.attribute is None) == (word == "ignored"):
                groups.setdefault(c.question or c.note, []).append(c)
        for question, group in groups.items():
            said = group[0].note if len(group) == 1 else question
            yield f"{word}: {_names([c.name for c in group])} ({said})"
    same: dict[str, list[Drafted]] = {}
    for c in columns:
        if c.attribute is not None and c.attribute.labels is not None and "labels" in c.attribute.inferred:
            same.setdefault(", ".join(c.attribute.labels), []).append(c)
    for labels, group in same.items():
        if len(group) > 2:
            names = _names([c.name for c in group])
            yield f"public? the labels {_cut(labels)} of {names}: then say `reviewed: true` there"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _scalar(value: Any) -> str:
    """Return flow YAML: plain words and printable text stand as they are, the latter in quotes."""
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _YAML_WORDS:
        return value
    if not isinstance(value, str):
        return json.dumps(value)
    if value.isprintable() and ('"' in value or "\\" in value):
        return "'" + value.replace("'", "''") + "'"
    inside = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
    return f'"{"".join(inside)}"'
