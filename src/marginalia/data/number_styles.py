"""Find how the numbers of a raw column are written, by all of its cells: a choice from short public lists.

A draft alone looks at a whole column. What it proposes is declared in the domain, and read cell by cell from then on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from marginalia.data.number_formats import APOSTROPHES, MINUS, SPACES, NumberFormat

CURRENCIES = (
    *("$", "€", "£", "¥", "₹", "₽", "₩", "₺", "US$", "R$", "zł", "Kč", "kr", "kr.", "Fr.", "CHF", "EUR", "USD", "GBP"),
    *("JPY", "CAD", "AUD", "SEK", "NOK", "DKK", "PLN", "CZK", "INR", "CNY", "BRL"),
)
UNITS = (
    *("%", "‰", "mm", "cm", "m", "km", "mg", "g", "kg", "µg", "ml", "l", "°C", "°F", "ms", "s", "min", "h", "mmHg"),
    *("kcal", "kWh"),
)
GROUPS = (",", ".", SPACES, APOSTROPHES)  # between thousands
MOST = 0.9  # share of the rows that decides
SEVERAL = 10  # numbers with a separator, from which on their decimals would show
_BEFORE, _AFTER = (
    "|".join(re.escape(sign) for sign in sorted(signs, key=len, reverse=True))
    for signs in (CURRENCIES, (*CURRENCIES, *UNITS))
)
_SPACE = f"[{SPACES}]"
_BODY = rf"\d(?:[\d.,{SPACES}{APOSTROPHES}]*\d)?[.,]?|[.,]\d+"
_CELL = re.compile(
    rf"(?P<minus>[{MINUS}+]?)(?P<outer>(?:(?:{_BEFORE}){_SPACE}?)?)(?P<open>\(?)(?P<prefix>(?:(?:{_BEFORE}){_SPACE}?)?)"
    rf"(?P<inner>[{MINUS}+]?)(?P<body>{_BODY})(?P<exponent>(?:[eE][+-]?\d{{1,3}})?)"
    rf"(?P<suffix>(?:{_SPACE}?(?:{_AFTER}))?)(?P<last>[{MINUS}]?)(?P<close>\)?)(?P<after>(?:{_SPACE}?(?:{_AFTER}))?)",
    re.ASCII,
)
_CODE = re.compile(r"[A-Za-z]|[A-Za-z][0-9]{1,3}|[<>≤≥]=? ?[0-9]+(?:[.,][0-9]+)?")
_PADDED = re.compile(r"0[0-9]+")
_AMBIGUOUS = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")


@dataclass(frozen=True)
class NumberStyle:
    """How the numbers of a column are written.

    Attributes
    ----------
    group, point : str
        Between thousands (empty: nothing), and before the decimals.
    width : int
        Digits, where zeros fill the number; else 0.
    prefix, suffix, negative : str
        As of a `NumberFormat`.
    has_decimals : bool
        Whether some numbers have decimals.
    is_sure : bool
        False: numbers such as 1.234 have either thousands or three decimals.
    is_mixed : bool
        Whether some numbers stand without the sign that most have.

    Examples
    --------
    >>> find_style({"1.234,56": 1, "12": 1}).format(2)
    '#.##0,00'
    >>> find_style({"12 %": 5, "7 %": 1}).format(0), find_style({"1.5": 1}).format(1)
    ('0 %', None)
    """

    group: str = ""
    point: str = "."
    width: int = 0
    prefix: str = ""
    suffix: str = ""
    negative: str = "-0"
    has_decimals: bool = False
    is_sure: bool = True
    is_mixed: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written with a decimal point and nothing else."""
        return replace(self, has_decimals=False, is_sure=True, is_mixed=False) == NumberStyle()

    @property
    def has_sign(self) -> bool:
        """Whether numbers stand beside a currency, a percent sign or a unit."""
        return bool(self.prefix or self.suffix)

    def format(self, decimals: int | None) -> str | None:
        """Return the format of numbers with so many decimals (None: any); None of plain numbers."""
        if self.is_plain:
            return None
        whole = f"#{self.group}##0" if self.group else "0" * max(1, self.width)
        written = whole + ("" if decimals == 0 else self.point + ("#" if decimals is None else "0" * decimals))
        return self.negative.replace("0", f"{self.prefix}{written}{self.suffix}").removeprefix("-")

    def among(self, points: Mapping[str, int]) -> NumberStyle:
        """Return the style where other columns have these decimal points, with their numbers of columns."""
        if self.is_sure or len(points) != 1:
            return self
        [point] = points
        mark = self.group or self.point
        found = replace(self, group="", point=mark) if mark == point else replace(self, group=mark, point=point)
        return replace(found, is_sure=True)


def is_code(text: str) -> bool:
    """Whether a text among numbers is a short code: a letter, a letter with a number, or a limit such as <5.

    >>> is_code("A"), is_code("A12"), is_code("<0.5"), is_code("12 kg")
    (True, True, True, False)
    """
    return _CODE.fullmatch(text) is not None


def find_style(rows: Mapping[str, int]) -> NumberStyle | None:
    """Return how the numbers among the texts of a column are written; None if hardly a text is one.

    Parameters
    ----------
    rows : mapping of str to int
        The number of rows with each text.

    Examples
    --------
    >>> find_style({"7.889": 9, "870": 1, "12.345": 3}).is_sure, find_style({"a": 1}) is None
    (False, True)
    """
    cells = {text: found for text in rows if (found := _CELL.fullmatch(text))}
    if not cells:
        return None
    style, cells = _signs(cells, rows)
    style = replace(style, negative=_negative(cells.values()))
    bodies: Counter[str] = Counter()
    for text, found in cells.items():
        bodies[found["body"]] += rows[text]
    if any(map(_PADDED.fullmatch, bodies)):
        widths = set(map(len, bodies))
        return replace(style, width=widths.pop()) if len(widths) == 1 and all(map(str.isdigit, bodies)) else None
    return _separators(bodies, style)


def _signs(cells: Mapping[str, re.Match[str]], rows: Mapping[str, int]) -> tuple[NumberStyle, dict[str, re.Match[str]]]:
    """Return the texts before and after most numbers, and the cells that have these or none."""
    signs: dict[str, tuple[str, str]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for text, found in cells.items():
        before, after = found["outer"] or found["prefix"], found["suffix"] or found["after"]
        signs[text] = before, after
        counts[before.strip(), after.strip()] += rows[text]
    bare = counts.pop(("", ""), 0)
    best, most = counts.most_common(1)[0] if counts else (("", ""), 0)
    if most < bare or most < MOST * counts.total():
        best = "", ""
    kept = {text: cells[text] for text, pair in signs.items() if (pair[0].strip(), pair[1].strip()) in (best, ("", ""))}
    spelt = Counter(dict.fromkeys(signs.values(), 0))
    for text, pair in signs.items():
        spelt[pair] += rows[text] if (pair[0].strip(), pair[1].strip()) == best else 0
    (prefix, suffix), _ = spelt.most_common(1)[0]
    return NumberStyle(prefix=prefix, suffix=suffix, is_mixed=best != ("", "") and bare > 0), kept


def _negative(cells: Iterable[re.Match[str]]) -> str:
    """Return how numbers below 0 are written."""
    for found in cells:
        if found["open"] and found["close"]:
            return "(0)"
        if found["last"]:
            return f"0{found['last']}"
        if MINUS[1] in (found["minus"], found["inner"]):
            return f"{MINUS[1]}0"
    return "-0"


def _separators(bodies: Mapping[str, int], style: NumberStyle) -> NumberStyle | None:
    """Return the style with the separators by which the most rows are numbers."""
    plain, comma = replace(style, point="."), replace(style, point=",")
    grouped = [
        replace(style, group=group, point=point)
        for groups in GROUPS
        for group in groups
        for point in ".,"
        if group != point and any(group in body for body in bodies)
    ]
    counts = {one: _rows_read(bodies, one) for one in (plain, comma, *grouped)}
    most = max(counts.values())
    if most < MOST * sum(bodies.values()):
        return None
    best = next(one for one in counts if counts[one] == most)
    best = replace(best, has_decimals=any(best.point in body for body in bodies))
    separated = [body for body in bodies if "." in body or "," in body]
    ambiguous = separated and all(map(_AMBIGUOUS.fullmatch, separated))
    if not ambiguous or most < sum(bodies.values()):
        return best
    mark, *other = {body[-4] for body in separated}
    if other:  # 1.234 and 1,234: both may be a thousand
        return None
    thousands = replace(style, group=mark, point="," if mark == "." else ".")
    others = [len(body) for body in bodies if body.isdigit()]
    if others and max(others) < min(map(len, separated)) - 1 and len(separated) >= SEVERAL:
        return thousands  # of numbers with up to three decimals, some have fewer
    if max(others, default=0) > 4:
        return replace(style, point=mark)
    return replace(plain if mark == "." else thousands, is_sure=False)


def _rows_read(bodies: Mapping[str, int], style: NumberStyle) -> int:
    read = NumberFormat.parse(replace(style, prefix="", suffix="", negative="-0").format(None) or "0.#").read
    total = 0
    for body, rows in bodies.items():
        try:
            read(body)
        except ValueError:
            continue
        total += rows
    return total
