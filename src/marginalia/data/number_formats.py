"""Read and write numbers as a spreadsheet shows them: `#.##0,00 €`, `0.0 %`, `(#,##0)`, `00000`; cell by cell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from typing import Any

from marginalia.data import values

SPACES = " \u00a0\u202f\u2009"  # plain, without a break, narrow without a break, thin
APOSTROPHES = "'\u2019"
MINUS = "-\u2212"
_ALIKE = (SPACES, APOSTROPHES)  # characters that are read alike
_PICTURE = re.compile(
    rf"(?P<open>\(?)(?P<minus>[{MINUS}]?)(?P<prefix>[^#0-9()]*?)"
    rf"(?:#(?P<group>[.,{SPACES}{APOSTROPHES}])##0|(?P<padded>0+))"
    rf"(?:(?P<point>[.,])(?P<decimals>0+|#))?(?P<suffix>[^#0-9()]*?)(?P<last>[{MINUS}]?)(?P<close>\)?)"
)
_EXAMPLES = '"#.##0,00 €", "#,##0", "0.0 %", "00000" or "(#,##0)"'


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    The format is that of a spreadsheet, with the characters that the file has: ``0`` is a digit that is always written,
    ``#`` one that is not. Groups of thousands are optional where numbers are read, and so are the texts around a number
    and the spaces before them. A number of any count of decimals is read.

    Attributes
    ----------
    group : str
        Between thousands; empty: nothing.
    point : str
        Before the decimals.
    width : int
        Digits that are written before the point at least.
    decimals : int or None
        That are written; None: as many as a number has.
    prefix, suffix : str
        Such as a currency or a percent sign. They change no value: 12 % is 12.
    negative : str
        How a number below 0 is written: ``-0``, ``0-`` or ``(0)``.

    Examples
    --------
    >>> euros = NumberFormat.parse("#.##0,00 €")
    >>> euros.read("1.234,5 €"), euros.read("870"), euros.write(-1234.5)
    (1234.5, 870.0, '-1.234,50 €')
    """

    group: str
    point: str
    width: int
    decimals: int | None
    prefix: str
    suffix: str
    negative: str

    @classmethod
    def parse(cls, text: str) -> NumberFormat:
        """Read a format; ValueError says what is wrong with it.

        >>> NumberFormat.parse("1.234,56")
        Traceback (most recent call last):
        ValueError: is no format of numbers, such as "#.##0,00 €", "#,##0", "0.0 %", "00000" or "(#,##0)"
        """
        return _parsed(text)

    def read(self, text: str, *, infinite: bool = False) -> float:
        """Return the number that a text is; ValueError if it is none.

        >>> NumberFormat.parse("(#,##0)").read("(1,234)"), NumberFormat.parse("#'##0.00").read("1’234.5")
        (-1234.0, 1234.5)
        >>> NumberFormat.parse("#,##0").read("12,34")
        Traceback (most recent call last):
        ValueError: is not a number of this format
        """
        found = self._pattern.fullmatch(text)
        signs = [] if found is None else [sign for sign in found.group("minus", "inner", "last") if sign]
        if found is None or len(signs) > 1 or bool(found["open"]) != bool(found["close"]) or (found["open"] and signs):
            raise ValueError("is not a number of this format")
        digits = "".join(c for c in found["whole"] if c not in _alike(self.group)).replace(self.point, ".")
        number = float(digits + (found["exponent"] or ""))
        if number == float("inf") and not infinite:
            raise ValueError("is not a number of this format")
        return -number + 0.0 if found["open"] or any(sign in MINUS for sign in signs) else number

    def write(self, number: float, decimals: int | None = None) -> str:
        """Return the text of a finite number with so many decimals; None: as the format says.

        >>> NumberFormat.parse("00000").write(42), NumberFormat.parse("($#,##0.00)").write(-1234.5)
        ('00042', '($1,234.50)')
        >>> NumberFormat.parse("0,#").write(0.125)
        '0,125'
        """
        decimals = self.decimals if decimals is None else decimals
        plain = f"{abs(number):.{decimals}f}" if decimals is not None else f"{Decimal(repr(abs(float(number)))):f}"
        whole, _, fraction = plain.partition(".")
        if decimals is None:
            fraction = fraction.rstrip("0")
        written = f"{int(whole):,}".replace(",", self.group) if self.group else whole.zfill(self.width)
        written += self.point + fraction if fraction else ""
        written = f"{self.prefix}{written}{self.suffix}"
        return self.negative.replace("0", written) if number < 0 and plain.strip("0.") else written

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        space, point = f"[{SPACES}]?", re.escape(self.point)
        grouped = rf"[1-9]\d{{0,2}}(?:[{re.escape(_alike(self.group))}]\d{{3}})+|" if self.group else ""
        whole = rf"(?P<whole>(?:{grouped}\d+)(?:{point}\d*)?|{point}\d+)"
        prefix, suffix = (f"(?:{re.escape(sign.strip())})?" for sign in (self.prefix, self.suffix))
        last = rf"(?P<last>[{MINUS}]?)" if self.negative[0] == "0" else "(?P<last>)"
        first, close = (
            (r"(?P<open>\(?)", r"(?P<close>\)?)") if self.negative == "(0)" else ("(?P<open>)", "(?P<close>)")
        )
        sign = rf"[{MINUS}+]?"
        return re.compile(
            rf"(?P<minus>{sign}){space}{prefix}{space}{first}{prefix}{space}(?P<inner>{sign}){space}"
            rf"{whole}(?P<exponent>[eE][+-]?\d{{1,3}})?{space}{suffix}{space}{last}{close}{space}{suffix}",
            re.ASCII,
        )


@cache
def _parsed(text: str) -> NumberFormat:
    found = _PICTURE.fullmatch(text)
    signs = [] if found is None else [part for part in found.group("minus", "last", "open") if part]
    if found is None or len(signs) > 1 or bool(found["open"]) != bool(found["close"]):
        raise ValueError(f"is no format of numbers, such as {_EXAMPLES}")
    group, point = found["group"] or "", found["point"] or ""
    if group and group == point:
        raise ValueError(f"has {group!r} between thousands and before the decimals")
    decimals = {"": 0, "#": None}.get(found["decimals"] or "", len(found["decimals"] or ""))
    negative = "(0)" if found["open"] else f"0{found['last']}" if found["last"] else f"{found['minus'] or '-'}0"
    point = point or ("," if group == "." else ".")
    return NumberFormat(group, point, len(found["padded"] or "0"), decimals, found["prefix"], found["suffix"], negative)


def _alike(character: str) -> str:
    return next((alike for alike in _ALIKE if character and character in alike), character)


def read_number(value: Any, format: str | None, *, infinite: bool = False) -> float:
    """Return a raw value as a number: a text by the format, if there is one; what has the type of a number as it is.

    ValueError says why it is none.

    >>> read_number("1.234", "#.##0"), read_number(1.234, "#.##0"), read_number("1.234", None)
    (1234.0, 1.234, 1.234)
    """
    cell = values.cell_of(value)
    if format is None or cell.kind != "text":
        return values.number(cell, infinite=infinite)
    try:
        return NumberFormat.parse(format).read(cell.text, infinite=infinite)
    except ValueError:
        raise ValueError(f"is not a number of format {format}") from None
