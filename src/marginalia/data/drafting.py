"""Draft the domain file of a raw table: what each column holds. Labels and bins are left to private learning."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from marginalia.data import sentinels, similar, values
from marginalia.data.cells import Cell, Cells, cells_of
from marginalia.data.column import BOOLEANS, WIDE
from marginalia.data.keys import Key, key_of
from marginalia.data.labelled_drafts import categories, numbers
from marginalia.data.labelled_files import Labels, ValueLabels
from marginalia.data.number_formats import read_number
from marginalia.data.number_styles import NumberStyle, find_style, is_code
from marginalia.data.weights import is_weight, likely_weights
from marginalia.errors import one_line

if TYPE_CHECKING:
    import pandas as pd

MARKS = ("?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "<NA>", "NaT", "k.A.")
NUMBER_MARKS = (*MARKS, "None", "none", "-", "--", ".", "unknown", "missing")  # in text these may be categories
TRUTHS = (*zip(values.WORDS[False], values.WORDS[True], strict=True), ("nein", "ja"), ("n", "j"), ("non", "oui"))
FEW = 12  # distinct texts, up to which they are categories whatever they look like
MANY = 50  # texts that may be told apart, before the others become `other`
MOST = 0.9  # share of the values that decides for a type, or against a text
COVERED = 0.5  # share of the rows that the `MANY` most frequent categories must cover,
OFTEN = 5  # unless a value occurs this often on average: then they are codes, and no free text
_SHORTEST_DATE = 6  # characters
ENOUGH = 20  # rows, from which on values that all differ are an identifier
FEWEST = 0.2  # share of the values that are numbers at least where the others are short codes
DIGITS = ("%Y%m%d", "%d%m%Y", "%m%d%Y", "%Y%m%d%H%M", "%Y%m%d%H%M%S")
SHORT_YEARS = ("%d%m%y", "%m%d%y", "%y%m%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%m-%d-%y", "%y-%m-%d")
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M%p", "%H%M", "%H%M%S")
HOURS = 6  # different ones, from which on texts may be times of day
YEARS = (values.day("1850-01-01"), values.day("2101-01-01"))  # in which a whole number may be a date
FEW_NUMBERS = "few whole numbers; if they are codes and no amounts, write `labels: private` in place of `edges`"
PRIVATE_EDGES = {"private": "adaptive", "bins": 16}
PRIVATE_ROWS = {"private": 0.9, "most": 64}  # of a privacy unit
IDENTIFIER = re.compile(r"(^|[\W_])(id|uuid|guid|key|nr|no|number|index)$|^(id|uuid|guid|unnamed)", re.IGNORECASE)

# Names of columns whose whole numbers are codes, in surveys and registers.
CODES = re.compile(
    r"(^|[\W_])(sex|gender|race|rac\dp|ethnic\w*|hispan\w*|mar|marst|marital\w*|mig|migrat\w*|cit|citizen\w*|cow|"
    r"nationality|nativity|relig\w*|region|state|statefip|county\w*|country|language|occ|occp|occupation|industry|"
    r"sector|branch|status|type|category|group|department|dept|ward|clinic|diagnosis)\d*$",
    re.IGNORECASE,
)
# Texts that are numbers or dates to a person.
_AMOUNT = re.compile(r"([$€£¥]?) ?[-+(]?(?:\d{1,3}(?:[,.' ]\d{3})+|\d+)(?:[.,]\d+)?\)? ?(%|[$€£¥°µ]?[A-Za-z]{0,5})")
_CODE_NAME = re.compile(r"(^|[\W_])(zip|plz|postal|postcode|fips|icd|code|tract|district)([\W_]|$|code)", re.IGNORECASE)
_CLOCK_NAME = re.compile("time|hour|zeit|uhr|heure|hora", re.IGNORECASE)
_PADDED = re.compile(r"0\d{3}|0\d{5}", re.ASCII)
_REPEATED = re.compile(r"(\d)\1*", re.ASCII)  # 0, 99999999 in place of a date
_BLANK_DATE = re.compile(r"(0+|9+)([-/. ](0+|9+))*( 00:00(:00)?)?")  # 0000-00-00, 99.99.9999, 99999999
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_-]*")
_YAML_WORDS = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null"})


@dataclass(frozen=True)
class Drafted:
    """What was found in one column: keys of the domain file, or a reason to leave the column out.

    Attributes
    ----------
    name : str
    keys : dict or None
        Of the column in the domain file; None: it is left out.
    remark : str
        What a person must look at, or why the column is left out; nothing in it is a value or a number of the rows.
    found : str
        The remark with what was found in the rows, for their owner alone.
    special : dict of {str: int}
        The number of rows of each special value that is proposed, for the owner alone.
    key : Key or None
        Which several rows share: it may name a person.
    merge : tuple of {"case", "spaces", "accents"}
        The rules that would merge labels that are similar.
    alike : list of dict of {str: int}
        These labels with their rows, for the owner alone.

    Examples
    --------
    >>> Drafted("id", None, "an identifier").keys is None
    True
    """

    name: str
    keys: dict[str, Any] | None
    remark: str = ""
    found: str = ""
    special: Mapping[str, int] = field(default_factory=dict)
    key: Key | None = None
    merge: tuple[similar.Rule, ...] = ()
    alike: Sequence[Mapping[str, int]] = ()

    @property
    def note(self) -> str:
        """The remark, with what was found in the rows."""
        return self.found or self.remark


@dataclass(frozen=True)
class Draft:
    """What was found in a table.

    Attributes
    ----------
    columns : tuple of Drafted
    missing : tuple of str
        Public marks of missing values in all columns.

    Examples
    --------
    >>> Draft((Drafted("ill", {"type": "boolean"}), Drafted("id", None))).content()
    {'ignored': ['id'], 'attributes': [{'name': 'ill', 'type': 'boolean'}]}
    """

    columns: tuple[Drafted, ...]
    missing: tuple[str, ...] = ()

    @property
    def units(self) -> list[Drafted]:
        """The columns that may name the person or household of each row, the most likely first."""
        return sorted((c for c in self.columns if c.key is not None), key=lambda c: c.key.rank)  # type: ignore[union-attr]

    @property
    def weights(self) -> str | None:
        """The column that seems to hold survey weights, by its name."""
        binned = [c.name for c in self.columns if "edges" in (c.keys or {})]
        return likely_weights(binned, [c.name for c in self.columns])

    def content(self) -> dict[str, Any]:
        """Return the content of the domain file."""
        content: dict[str, Any] = {"defaults": {"missing": list(self.missing)}} if self.missing else {}
        unit = self.units[0] if self.units else None
        if unit is not None and unit.key is not None:
            content |= {"unit": unit.name, "unit_type": unit.key.type, "rows_per_unit": PRIVATE_ROWS}
        if ignored := [c.name for c in self.columns if c.keys is None and c is not unit]:
            content["ignored"] = ignored
        return content | {"attributes": [{"name": c.name, **c.keys} for c in self.columns if c.keys is not None]}


class _UnclearError(Exception):
    """A column cannot be read without guessing; the message says why."""


def draft(frame: pd.DataFrame, *, missing: Sequence[str] = (), labels: Labels | None = None) -> Draft:
    """Return what each column of a raw table seems to hold.

    Types, marks of missing values, special values, decimals, formats and the privacy unit are read off the rows. Each
    is a choice from a short public list, and is named under `inferred`. Labels and bins are left to private learning in
    each fit.

    Parameters
    ----------
    frame : DataFrame
    missing : sequence of str
        Marks of missing values in all columns, as public knowledge; others are looked for.
    labels : mapping of str to ValueLabels, optional
        What the file of the table declares of columns of codes; see `marginalia.data.labelled_files`.

    Examples
    --------
    >>> import pandas as pd
    >>> found = draft(pd.DataFrame({"ill": ["yes", "no", "no"] * 9, "ward": ["a", "b", "?"] * 9}))
    >>> found.columns[0].keys
    {'type': 'boolean', 'labels': ['no', 'yes'], 'inferred': ['type']}
    >>> found.columns[1].keys
    {'type': 'string', 'labels': 'private', 'missing': ['?'], 'inferred': ['type', 'missing']}
    """
    public, names = tuple(missing), map(str, frame.columns)
    cells = {name: cells_of(frame.iloc[:, j], name) for j, name in enumerate(names)}
    styles = {name: _style(column, (*public, *NUMBER_MARKS)) for name, column in cells.items()}
    clear = [style for style in styles.values() if style is not None and style.is_sure and style.has_decimals]
    points = Counter(style.point for style in clear)
    columns = []
    for name, column in cells.items():
        own, style = (labels or {}).get(name), styles[name]
        if own is None:
            columns.append(_column(name, column, public, style and style.among(points)))
        else:
            columns.append(_labelled(name, column, own, public))
    return Draft(tuple(columns), tuple(missing))


def _style(column: Cells, marks: Collection[str]) -> NumberStyle | None:
    """Return how the texts of a column write numbers; None if none is a number, or all numbers have a type."""
    counts = column.counts.tolist()
    return find_style(
        {
            cell.text: count
            for cell, count in zip(column.listed, counts, strict=True)
            if count and cell.kind == "text" and cell.text not in marks
        }
    )


@dataclass(frozen=True)
class _Cells:
    """The cells of a column by position: those that are no mark of missing values, their texts and counts."""

    name: str
    column: Cells
    texts: list[str]
    counts: NDArray[np.integer]
    known: list[int]
    style: NumberStyle | None = None  # of the numbers among them

    @property
    def rows(self) -> int:
        return int(self.counts[self.known].sum())

    def first(self, positions: Collection[int]) -> tuple[int, str]:
        """Return the first row with one of these cells, and its cell as a message shows it."""
        row = int(np.argmax(np.isin(self.column.which, list(positions))))
        return row, values.shown(self.column.listed[self.column.which[row]])

    def read(self, how: Callable[[Any], float]) -> tuple[dict[int, float], dict[int, str]]:
        """Return the cells that `how` can read, and why it cannot read the others."""
        numbers, reasons = {}, {}
        for i in self.known:
            try:
                numbers[i] = float(how(self.column.listed[i]))
            except ValueError as error:
                reasons[i] = str(error)
        return numbers, reasons

    def distinct(self, numbers: Mapping[int, float]) -> tuple[NDArray[np.float64], NDArray[np.integer]]:
        """Return the distinct numbers, ascending, and the rows of each: 1 and 1.0 are two texts."""
        found, which = np.unique(np.array([*numbers.values()]), return_inverse=True)
        return found, np.bincount(which, self.counts[[*numbers]]).astype(np.int64)

    def are_most(self, positions: Collection[int]) -> bool:
        return bool(self.counts[list(positions)].sum() >= MOST * self.rows)


def _column(name: str, column: Cells, public: tuple[str, ...], style: NumberStyle | None = None) -> Drafted:
    if key := key_of(name, column):
        return Drafted(name, None, key.question, f"{key.line}; {key.question}", key=key)
    counts = column.counts
    texts = [cell.text for cell in column.listed]
    here = [i for i, t in enumerate(texts) if counts[i] and t not in public]
    marks = [t for t in NUMBER_MARKS if t in {texts[i] for i in here}]
    cells = _Cells(name, column, texts, counts, [i for i in here if texts[i] not in marks], style)
    if not cells.known:
        return Drafted(name, None, "no values")
    try:
        drafted = _of_truth(cells) or _of_digits(cells) or _of_clocks(cells) or _of_numbers(cells) or _of_dates(cells)
    except _UnclearError as error:
        return Drafted(name, None, str(error))
    if drafted is None:
        marks = [t for t in marks if t in MARKS]
        drafted = _of_strings(_Cells(name, column, texts, counts, [i for i in here if texts[i] not in marks]))
    if drafted.keys is None:
        return drafted
    keys, inferred = drafted.keys, ["type"]
    if marks:
        keys["missing"] = [*public, *marks]
    elif keys["type"] == "boolean" and not public and (column.which < 0).any():
        keys["missing"] = []  # columns that are learned privately always have a code for gaps
    inferred += [fact for fact in ("missing", "special") if fact in keys]
    if cells.rows >= ENOUGH and len(cells.known) == 1 and not drafted.remark:
        drafted = replace(drafted, remark="one value in all rows: leave the column out, unless its values can differ")
    return replace(drafted, keys=keys | {"inferred": inferred})


def _labelled(name: str, codes: Cells, own: ValueLabels, public: tuple[str, ...]) -> Drafted:
    """Return a column of codes with labels in the file; its special values are those that the file declares."""
    if found := categories(codes, own):
        return Drafted(name, *found)
    rest, special, remark = numbers(codes, own)
    drafted = _column(name, rest, public)
    if drafted.keys is None:
        return drafted
    keys = dict(drafted.keys)
    inferred = keys.pop("inferred")
    if special:
        keys["special"] = list(dict.fromkeys([*special, *keys.get("special", ())]))
        inferred = list(dict.fromkeys([*inferred, "special"]))
    return replace(drafted, keys=keys | {"inferred": inferred}, remark=drafted.remark or remark)


def _of_truth(cells: _Cells) -> Drafted | None:
    """Return a column of yes and no, in the words of `TRUTHS`; a 0 or a letter alone is none."""
    words = {cells.texts[i].lower() for i in cells.known}
    for pair in TRUTHS:
        if words <= set(pair) and (len(words) == 2 or min(map(len, pair)) > 1):
            here = Counter({cells.texts[i]: int(cells.counts[i]) for i in cells.known})
            labels = max(
                ([style(word) for word in pair] for style in (str.lower, str.capitalize, str.upper)),
                key=lambda spelt: sum(here[word] for word in spelt),
            )
            return Drafted(cells.name, {"type": "boolean"} | ({} if tuple(labels) == BOOLEANS else {"labels": labels}))
    return None


def _of_numbers(cells: _Cells) -> Drafted | None:
    """Return a column of numbers; None where most cells are none."""
    style = cells.style or NumberStyle()
    found, _ = cells.read(partial(read_number, format=style.format(None)))
    codes = _codes(cells, found)
    apart, rows = cells.distinct(found)
    is_category = (style.has_sign and apart.size <= FEW) or (style.width and _is_code_column(cells, apart))
    if not found or not cells.are_most([*found, *codes]) or is_category:
        return None
    special = {values.text(code.value): code.rows for code in sentinels.of_numbers(apart, rows)}
    apart = apart[~np.isin(apart, [*map(float, special)])]
    whole = bool((apart == np.floor(apart)).all())
    if whole and (left_out := _no_measurement(cells.name, apart, int(rows.sum()) - sum(special.values()))):
        return left_out
    keys: dict[str, Any] = {"type": "integer" if whole else "number"}
    decimals = 0 if whole else int(values.decimals_of(apart).max())
    if 0 < decimals <= values.MOST_DECIMALS:
        keys["decimals"] = decimals
    if form := style.format(decimals if decimals <= values.MOST_DECIMALS else None):
        keys["format"] = form
    if special and apart.tolist() == [0, 1] and len(found) == len(cells.known) and not form:
        return _with_special(Drafted(cells.name, {"type": "boolean", "labels": ["0", "1"]}), special)
    if whole and rows.sum() >= max(ENOUGH, OFTEN * apart.size) and apart.size <= MANY and CODES.search(cells.name):
        keys["labels"] = "private"
    else:
        keys["edges"] = PRIVATE_EDGES
    special |= {cells.texts[i]: int(cells.counts[i]) for i in codes}
    drafted = _with_unread(cells, keys, [*found, *codes])
    is_few = "edges" in keys and whole and apart.size <= FEW and rows.sum() >= 2 * MANY
    remark = drafted.remark or _style_remark(style) or FEW_NUMBERS * bool(is_few)
    return _with_special(replace(drafted, remark=remark), special)


def _codes(cells: _Cells, numbers: Collection[int]) -> list[int]:
    """Return the cells that are short codes among numbers, such as A or <5; none where the numbers may be codes too.

    Each stands in several rows, so that none is a slip of one row.
    """
    codes = [i for i in cells.known if i not in numbers and cells.counts[i] > 1 and is_code(cells.texts[i])]
    among_many = len(numbers) > FEW and cells.counts[list(numbers)].sum() >= FEWEST * cells.rows
    return codes if len(codes) <= FEW and (among_many or cells.are_most(list(numbers))) else []


def _is_code_column(cells: _Cells, numbers: NDArray[np.float64]) -> bool:
    """Whether numbers with zeros before them are rather codes, such as postcodes."""
    return numbers.size <= MANY or _CODE_NAME.search(cells.name) is not None


def _style_remark(style: NumberStyle) -> str:
    """Return what a person must look at in how numbers are written."""
    if style.width:
        return "numbers with zeros before them; if they are codes, they are type: string with labels: private"
    if style.is_mixed:
        return "some numbers stand without the sign of the others; are all in the same unit?"
    if style.is_sure:
        return ""
    if style.group:
        other = style.among({style.group: 1}).format(3)
        return f'read as thousands; if the separator is a decimal one: type: number, decimals: 3, format: "{other}"'
    other = style.among({",": 1}).format(0)
    return f'read with three decimals; if the point stands between thousands: type: integer, format: "{other}"'


def _with_special(drafted: Drafted, special: Mapping[str, int]) -> Drafted:
    """Return a column with the special values that are proposed for it."""
    if not special or drafted.keys is None:
        return drafted
    return replace(drafted, keys=drafted.keys | {"special": [*special]}, special=special)


def _no_measurement(name: str, apart: NDArray[np.float64], n: int) -> Drafted | None:
    """Return why whole numbers name rows, or what rows belong to; None if they measure something."""
    dense = apart[-1] - apart[0] <= 1.2 * n
    number = f"{apart.size} different whole numbers in {n} rows: "
    is_named = IDENTIFIER.search(name) or (dense and apart.size > 0.99 * n)
    if n >= ENOUGH and apart.size >= MOST * n and is_named and not is_weight(name):
        return Drafted(name, None, "an identifier", f"{number}an identifier")
    if max(-apart[0], apart[-1]) >= WIDE:
        what = "whole numbers of 2^53 and more are not told apart; type: string, if they are categories"
        return Drafted(name, None, what)
    return None


def _of_digits(cells: _Cells) -> Drafted | None:
    """Return a column of dates as whole numbers, such as 20240131, or with years of two digits; None of others."""
    dates = {form: _in_format(cells, form) for form in (*DIGITS, *SHORT_YEARS)}
    most = max(map(len, dates.values()))
    best = [form for form, rows in dates.items() if len(rows) == most]
    form, rows = best[0], dates[best[0]]
    if not rows or not cells.are_most(rows):
        return None
    if "%y" in form:
        if len(rows) <= FEW or len(rows) < len(cells.known):
            return None
        choice = " or ".join(f'"{one}"' for one in best)
        raise _UnclearError(
            "dates whose year has two digits; to use them, put the column under attributes with type: date, "
            f"format: {choice} and pivot: the first of the hundred years that they lie in, such as {values.PIVOT}"
        )
    if len(best) > 1:
        raise _UnclearError(_two_ways(best))
    return _of_times(cells, cells.known, form)


def _of_clocks(cells: _Cells) -> Drafted | None:
    """Return a column of times of day, such as 08:30 or 0830; None of others."""
    padded = any(_PADDED.fullmatch(cells.texts[i]) for i in cells.known)
    found = {form: _in_format(cells, form) for form in CLOCKS}
    form, times = max(found.items(), key=lambda item: len(item[1]))
    hours = {values.moment(cells.column.listed[i], "hour", form) for i in times}
    is_number = ":" not in form and not padded and not _CLOCK_NAME.search(cells.name)
    if not times or not cells.are_most(times) or is_number or len(hours) < HOURS:
        return None
    keys = _time_keys([cells.column.listed[i] for i in times], form)
    return _with_unread(cells, keys | {"edges": PRIVATE_EDGES | {"bounds": ["00:00", "24:00"]}}, times)


def _in_format(cells: _Cells, form: str) -> list[int]:
    """Return the cells that are dates of a format in years that a table may have; none if few of the first ones are."""
    rows: list[int] = []
    for seen, i in enumerate(cells.known):
        if seen == FEW and len(rows) < FEW / 2:
            return []
        with suppress(ValueError):
            rows += [i] if YEARS[0] <= values.day(Cell("text", cells.texts[i]), form) < YEARS[1] else []
    return rows


def _two_ways(forms: Sequence[str | None]) -> str:
    choice = " or ".join(f'"{one}"' for one in forms)
    return (
        "dates that can be read in two ways; to use them, put the column under attributes with type: date and "
        f"format: {choice}"
    )


def _of_dates(cells: _Cells) -> Drafted | None:
    """Return a column of dates or times; None where most cells are none.

    A format is taken where most cells fit it, and no other format fits as many.
    """
    blank = [i for i in cells.known if len(cells.texts[i]) >= _SHORTEST_DATE and _BLANK_DATE.fullmatch(cells.texts[i])]
    blank = [i for i in blank if len({*cells.texts[i]} & {"0", "9"}) == 1]
    cells = replace(cells, known=[i for i in cells.known if i not in blank])
    if not cells.known:
        return None
    iso, _ = cells.read(values.day)
    fits: dict[int, list[str | None]] = {
        i: [*([None] if i in iso else []), *values.formats_of(cells.texts[i])] for i in cells.known
    }
    if not cells.are_most([i for i in cells.known if fits[i]]):
        return None
    rows: Counter[str | None] = Counter()
    for i, known in fits.items():
        rows.update(dict.fromkeys(known, int(cells.counts[i])))
    most = max(rows.values())
    best = [form for form in rows if rows[form] == most]
    likely = [form for form in rows if rows[form] >= MOST * cells.rows]
    form = None if None in best else best[0]
    if likely and (form is None or (len(best) == 1 and (most == cells.rows or best == likely))):
        return _of_times(cells, [i for i in cells.known if form in fits[i]], form, blank)
    if most == cells.rows:
        raise _UnclearError(_two_ways(best))
    raise _UnclearError("dates that are written in several ways; write them in one, such as 2024-01-31")


def _of_times(cells: _Cells, likely: Collection[int], form: str | None, blank: Sequence[int] = ()) -> Drafted:
    """Return a column of dates or times of a format, which are among some cells; `blank` dates are special values."""
    found, _ = cells.read(partial(values.moment, unit="second", format=form))
    read = [i for i in likely if i in found]
    keys = _time_keys([cells.column.listed[i] for i in read], form)
    unit = keys.get("unit", "day")
    times = {i: float(values.moment(cells.column.listed[i], unit, form)) for i in read}
    codes = sentinels.of_times(*cells.distinct(times), unit)
    special = {values.written_time(code.value, unit, form): code.rows for code in codes}
    repeated = [i for i in cells.known if i not in times and form and _REPEATED.fullmatch(cells.texts[i])]
    special |= {cells.texts[i]: int(cells.counts[i]) for i in [*repeated, *blank]}
    return _with_special(_with_unread(cells, keys | {"edges": PRIVATE_EDGES}, [*read, *repeated]), special)


def _time_keys(cells: Collection[Any], form: str | None) -> dict[str, Any]:
    """Return type and coarsest unit of dates or times, the zone of instants, and the format."""
    more = ({"zone": "UTC"} if any(map(values.is_instant, cells)) else {}) | ({"format": form} if form else {})
    for unit in get_args(values.Unit):
        if unit == "second" or not any(values.is_shortened(cell, unit, form) for cell in cells):
            return ({"type": "date"} if unit == "day" else {"type": "timestamp", "unit": unit}) | more
    raise AssertionError


def _with_unread(cells: _Cells, keys: dict[str, Any], found: Collection[int]) -> Drafted:
    """Return a column, with a remark if some cells are no values of its type."""
    if not (unread := [i for i in cells.known if i not in found]):
        return Drafted(cells.name, keys)
    what = "every fit counts them as missing; correct them, or list them under missing or special"
    row, cell = cells.first(unread)
    many = int(cells.counts[unread].sum())
    which = f"{many} cells are no {keys['type']} (first: {cell} in row {row})"
    return Drafted(cells.name, keys, f"some cells are no {keys['type']}: {what}", f"{which}: {what}")


def _of_strings(cells: _Cells) -> Drafted:
    here, weights, n = [cells.texts[i] for i in cells.known], cells.counts[cells.known], cells.rows
    if two := _two_conventions(cells):
        return Drafted(cells.name, None, *two)
    if len(here) > FEW and (reason := _amounts(here, weights)):
        return Drafted(cells.name, None, *reason)
    if len(here) >= MOST * n and n >= ENOUGH:
        what = "an identifier, or free text"
        return Drafted(cells.name, None, what, f"{len(here)} different texts in {n} rows: {what}")
    share = np.sort(weights)[-MANY:].sum() / n
    if share < COVERED and n < OFTEN * len(here):
        what = f"free text: the {MANY} most frequent values are"
        return Drafted(cells.name, None, f"{what} less than half of the rows", f"{what} {share:.0%} of the rows")
    rare = (
        f"more than {MANY} different texts: those of few rows become `other`, unless a public list of labels is given"
    )
    rules, alike = similar.similar(dict(zip(here, weights.tolist(), strict=True)))
    remark = rare if len(here) > MANY else ""
    return Drafted(cells.name, {"type": "string", "labels": "private"}, remark, merge=rules, alike=alike)


def _two_conventions(cells: _Cells) -> tuple[str, str] | None:
    """Return the reason where some numbers have decimal points and some decimal commas: without and with examples."""
    points, commas = (set(cells.read(partial(read_number, format=form))[0]) for form in ("#,##0.#", "#.##0,#"))
    if not cells.are_most(points | commas):
        return None
    only = [points - commas, commas - points]
    if not any(only):  # such as 1.234 and 1,234
        only = [{i for i in points if mark in cells.texts[i]} for mark in ".,"]
    if not all(only):
        return None
    examples = [cells.texts[min(some)] for some in only]
    return _such_as(
        "numbers with decimal points and numbers with decimal commas", examples, "write all of them in one way"
    )


def _amounts(here: list[str], weights: NDArray[np.integer]) -> tuple[str, str] | None:
    """Return what makes most texts no numbers or dates for us, though they are to a person: without and with a text."""
    signs: Counter[tuple[str, ...]] = Counter()
    for written, weight in zip(here, weights.tolist(), strict=True):
        if found := _AMOUNT.fullmatch(written):
            signs[found.groups()] += weight
    odd = [t for t in here if not t.replace(".", "").isdecimal()]
    if not odd or not signs or signs.most_common(1)[0][1] < MOST * weights.sum():
        return None
    return _such_as("numbers with more than their digits", odd[:1], "write the number alone, or declare its `format`")


def _such_as(what: str, texts: Sequence[str], fix: str) -> tuple[str, str]:
    return f"{what}; {fix}", f"{what} ({' and '.join(map(values.shown, texts))}); {fix}"


HEAD = """\
# Drafted by `marginalia domain init` from {file}.
#
# This file holds no label and no bin edge of the table. Each fit learns them with a part of epsilon (`private`), and
# its certificate covers that. Read off the rows, and named under `inferred`, are only choices from short public lists:
#   type     what a column holds; with it `format`, `unit`, `zone`, `decimals`, and the two words of a boolean
#   missing  the texts that mark a missing value
#   special  what stands for no value among numbers and dates, such as 9999, A or <5: each gets a code of its own
# The choice of ignored columns and of the privacy unit was read off the rows, too.
#
# Your review:
#   1. Correct what is wrong, and move columns that nobody needs to `ignored`. Numbers that are codes (postcodes) are
#      `type: string` with `labels: private`.
#   2. Are labels or bins of a column public (a code book, a form, a law)? Write them in place of `private`, such as
#      `labels: [north, south]` or `edges: [0, 18, 65, 120]`. They then cost nothing. Do not copy them from the rows.
#      A column that a model is to predict (`fit --target`) needs them. Public bounds help where bins stay private:
#      `edges: {{private: adaptive, bins: 16, bounds: [2024-01-01, 2025-01-01]}}`.
#   3. Do several rows belong to one person? Name the column that says whose a row is: `unit: patient_id`.
#   4. Take away the # before `defaults`: it says that what stands under `inferred` is public. Until then no fit is
#      certified.
#   5. Comments on columns tell what was seen in the rows: delete them before others see this file.
"""


_COMMENTS = {"special": "  # alone at an end of the range; take this line away if they are ordinary values"}
LABELS = """\
# Lists under `labels`, and the special values beside them, are no labels of the rows, but the value labels that the
# file declares. They are public if they come from a questionnaire or a code book. Some programs, such as pandas, make
# them from the rows: then write `labels: private`.
"""
_COMMENTS = {"special": "  # no values of the column, it seems; take this line away if they are ordinary values"}


def as_yaml(found: Draft, file: str) -> str:
    """Return the draft as a domain file with comments for its reader; it holds no value of the rows.

    >>> print(as_yaml(Draft((Drafted("id", None, "an identifier"),)), "t.csv").splitlines()[-2])
      - id  # an identifier
    """
    content = found.content()
    missing = f"missing: {_scalar(list(found.missing))}, " if found.missing else ""
    lines = [HEAD.format(file=one_line(file))]
    if any("labels" in (column.keys or {}).get("inferred", ()) for column in found.columns):
        lines.append(LABELS)
    if missing:
        lines.append(f"defaults: {{{missing.removesuffix(', ')}}}  # of every column that does not say it itself")
    lines.append(f"# defaults: {{{missing}reviewed: true}}{'  # in place of the line above' if missing else ''}")
    if "unit" in content:
        lines += [
            "# All rows with the same value are protected together. Does the column name persons or households? If no",
            "# column does, take these three lines away and list the column under `ignored`.",
            *(f"{key}: {_scalar(content[key])}" for key in ("unit", "unit_type")),
            f"rows_per_unit: {_scalar(content['rows_per_unit'])}  # each fit learns how many rows of one unit it keeps",
        ]
    if (weights := found.weights) is not None:
        lines += [
            "# By its name this column may hold survey weights. If so, take this # away, and give the column public",
            "# bounds, to which its values are clipped: `edges: {private: adaptive, bins: 32, bounds: [0, LARGEST]}`.",
            f"# weights: {_scalar(weights)}",
        ]
    if "ignored" in content:
        remarks = {column.name: column.remark for column in found.columns}
        lines.append("ignored:  # columns that are not read")
        lines += [f"  - {_scalar(name)}  # {one_line(remarks[name])}" for name in content["ignored"]]
    lines.append("attributes:")
    for column in found.columns:
        if column.keys is not None:
            lines.append(f"  - name: {_scalar(column.name)}")
            lines += [f"    # {column.remark}"] if column.remark else []
            comments = _COMMENTS if column.special else {}
            lines += [f"    {key}: {_scalar(value)}{comments.get(key, '')}" for key, value in column.keys.items()]
            if column.merge:
                what = "similar labels differ only in this: take away the # to count them as one"
                lines.append(f"    # merge: {_scalar([*column.merge])}  # {what}")
    return "\n".join(lines) + "\n"


def questions(found: Draft) -> Iterator[str]:
    """Yield what a person has to look at, one line for all columns with the same question; for the owner alone.

    >>> list(questions(Draft(tuple(Drafted(name, None, "an identifier") for name in ("a", "b")))))
    ['ignored: a, b (an identifier)']
    """
    unit = found.content().get("unit")
    for word in ("unit", "ignored", "look at"):
        groups: dict[str, list[Drafted]] = {}
        for c in found.columns:
            of = "look at" if c.keys is not None else "unit" if c.name == unit else "ignored"
            if c.remark and of == word:
                groups.setdefault(c.remark, []).append(c)
        for remark, group in groups.items():
            yield f"{word}: {_names([c.name for c in group])} ({group[0].note if len(group) == 1 else remark})"
    if (weights := found.weights) is not None:
        yield f"weights: {weights} (survey weights, by its name? then `weights: {weights}`, and public bounds of it)"
    for column in found.columns:
        if column.special:
            codes = ", ".join(f"{text} in {rows:,} rows" for text, rows in column.special.items())
            yield f"special values: {column.name} ({codes})"
        if column.merge:
            named = "; ".join(
                _names([f"{text!r} in {n:,} rows" for text, n in group.items()]) for group in column.alike[:3]
            )
            more = f"; and {len(column.alike) - 3} more labels" if len(column.alike) > 3 else ""
            merge = f"`merge: {_scalar([*column.merge])}` counts them as one"
            yield f"similar labels: {column.name} ({named}{more}): {merge}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _scalar(value: Any) -> str:
    """Return flow YAML: plain words and printable text stand as they are, the latter in quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_scalar(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _YAML_WORDS:
        return value
    if not isinstance(value, str):
        return json.dumps(value)
    if value.isprintable() and ('"' in value or "\\" in value):
        return "'" + value.replace("'", "''") + "'"
    inside = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
    return f'"{"".join(inside)}"'
