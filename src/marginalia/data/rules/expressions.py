"""A small language for derived columns: names, numbers, texts, arithmetic, comparisons, if-else and five functions.

Python's parser reads it; every node is then compiled by hand or refused, and nothing is evaluated by Python. A value is
an array of rows: numbers, dates (in days, see `marginalia.data.attribute`) and truth values are doubles, NaN where they
are missing; texts are objects, None where they are missing. What is missing on one side is missing in the result.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data import values
from marginalia.errors import InputError, unknown_name

Array = NDArray[Any]
Rows = Mapping[str, Array]  # values of columns, by name

LONGEST = 1000  # letters
DEEPEST = 50  # brackets and operators inside each other
WHOLE = 2.0**53  # whole numbers from here on are not told apart
DAYS = (values.day("0001-01-01"), values.day("9999-12-31"))
_PLACES: tuple[Any, ...] = tuple(range(7))
FUNCTIONS = ("round", "min", "max", "floor", "abs")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`([^`]+)`")
_NUMBERS = ("integer", "number")
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


@dataclass(frozen=True)
class Compiled:
    """The type of an expression, and the function from columns to its values.

    >>> Compiled("number", lambda rows: rows["a"] * 2).of({"a": np.ones(1)})
    array([2.])
    """

    type: str
    of: Callable[[Rows], Array]


@dataclass(frozen=True)
class Expression:
    """What a derived column is computed from.

    Parameters
    ----------
    text : str
        Names that are no words of letters, digits and ``_`` stand in backticks.

    Raises
    ------
    InputError
        It is no expression of the language; where, and why.

    Examples
    --------
    >>> total = Expression("round(`unit price` * quantity, 2)")
    >>> total.names
    ('unit price', 'quantity')
    >>> compiled = total.compiled({"unit price": "number", "quantity": "integer"})
    >>> compiled.type, compiled.of({"unit price": np.array([1.111, np.nan]), "quantity": np.array([2.0, 3.0])})
    ('number', array([2.22,  nan]))
    >>> Expression("__import__('os')").compiled({})
    Traceback (most recent call last):
    marginalia.errors.InputError: `__import__('os')`, letter 1: the functions are round, min, max, floor and abs
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise InputError(f"an expression is a text such as 'a + b', not {values.shown(self.text)}")
        if len(self.text) > LONGEST:
            raise InputError(f"an expression has at most {LONGEST} letters, not {len(self.text)}")
        assert self.names is not None  # parsed now, so that what is wrong is said now

    @cached_property
    def parsed(self) -> tuple[ast.expr, Mapping[str, str], str]:
        """The tree, the columns in backticks by what stands for them in it, and the text with these in their place."""
        names: dict[str, str] = {}

        def bare(found: re.Match[str]) -> str:
            if found[1] is None:
                return found[0]
            word = f"q{len(names)}".ljust(len(found[0]), "_")
            while word in self.text or word in names:
                word += "_"
            names[word] = found[1]
            return word

        source = _QUOTED.sub(bare, " ".join(self.text.split("\n"))).strip()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd but harmless Python
                tree = ast.parse(source, mode="eval").body
        except SyntaxError as error:
            where = f"letter {error.offset}" if error.offset else "its end"
            raise InputError(f"`{self.text[:100]}`, {where}: is no expression such as a + b") from None
        except (ValueError, RecursionError, MemoryError):
            raise InputError(f"`{self.text[:100]}` is no expression such as a + b") from None
        return tree, names, source

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that it names, in the order of the text."""
        tree, bare, _ = self.parsed
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return tuple(dict.fromkeys(bare.get(node.id, node.id) for node in found))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts in it, which files may hold."""
        nodes = ast.walk(self.parsed[0])
        return tuple(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))

    def compiled(self, types: Mapping[str, str]) -> Compiled:
        """Return the expression over columns of these types (integer, number, date, string, boolean)."""
        return _Compiler(self, types).compiled(self.parsed[0])


class _Compiler:
    def __init__(self, expression: Expression, types: Mapping[str, str]) -> None:
        self.text, self.types = expression.text, types
        _, self.bare, self.source = expression.parsed

    def wrong(self, node: ast.expr, what: str) -> InputError:
        text = self.text if len(self.text) <= 100 else f"{self.text[:100]}..."
        before = self.source.encode()[: node.col_offset].decode(errors="ignore")  # Python counts bytes
        return InputError(f"`{text}`, letter {len(before) + 1}: {what}")

    def compiled(self, node: ast.expr, depth: int = 0) -> Compiled:
        if depth > DEEPEST:
            raise self.wrong(node, f"more than {DEEPEST} steps inside each other; derive a part as a column of its own")
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.column(node)
            case ast.BinOp():
                return self.arithmetic(node, depth)
            case ast.UnaryOp():
                return self.signed(node, depth)
            case ast.Compare():
                return self.comparison(node, depth)
            case ast.BoolOp():
                return self.logic(node, depth)
            case ast.IfExp():
                return self.choice(node, depth)
            case ast.Call():
                return self.call(node, depth)
        raise self.wrong(
            node, "allowed are names, numbers, texts, + - * /, comparisons, and, or, not, if-else and functions"
        )

    def constant(self, node: ast.Constant) -> Compiled:
        value = node.value
        if isinstance(value, bool):
            return _fixed("boolean", float(value))
        if isinstance(value, str):
            return _fixed("string", value)
        if not isinstance(value, int | float) or not abs(value) < (WHOLE if isinstance(value, int) else math.inf):
            raise self.wrong(node, "a number is finite, and a whole one below 2^53")
        return _fixed("integer" if isinstance(value, int) else "number", float(value))

    def column(self, node: ast.Name) -> Compiled:
        name = self.bare.get(node.id, node.id)
        if name not in self.types:
            raise self.wrong(node, str(unknown_name("column", name, self.types)))
        return Compiled(self.types[name], lambda rows: rows[name])

    def arithmetic(self, node: ast.BinOp, depth: int) -> Compiled:
        a, b = self.compiled(node.left, depth + 1), self.compiled(node.right, depth + 1)
        numbers = a.type in _NUMBERS and b.type in _NUMBERS
        whole = a.type == b.type == "integer"
        match node.op:
            case ast.Add() if numbers:
                return _step("integer" if whole else "number", np.add, a, b)
            case ast.Add() if (_is_time(a.type) and b.type == "integer") or (a.type == "integer" and _is_time(b.type)):
                return _step(a.type if _is_time(a.type) else b.type, np.add, a, b)
            case ast.Sub() if numbers:
                return _step("integer" if whole else "number", np.subtract, a, b)
            case ast.Sub() if _is_time(a.type) and b.type in ("integer", a.type):
                return _step(a.type if b.type == "integer" else "integer", np.subtract, a, b)
            case ast.Mult() if numbers:
                return _step("integer" if whole else "number", np.multiply, a, b)
            case ast.Div() if numbers:
                return _step("number", np.divide, a, b)
        raise self.wrong(
            node,
            f"{a.type} and {b.type} do not go together here: + - * / are for numbers, + - for a date and whole days",
        )

    def signed(self, node: ast.UnaryOp, depth: int) -> Compiled:
        a = self.compiled(node.operand, depth + 1)
        match node.op:
            case ast.Not() if a.type == "boolean":
                return Compiled("boolean", lambda rows: 1 - a.of(rows))
            case ast.USub() if a.type in _NUMBERS:
                return _step(a.type, np.negative, a)
            case ast.UAdd() if a.type in _NUMBERS:
                return a
        raise self.wrong(node, f"a sign is for numbers and 'not' for conditions, not for {a.type}")

    def comparison(self, node: ast.Compare, depth: int) -> Compiled:
        nodes = [node.left, *node.comparators]
        sides = [self.compiled(side, depth + 1) for side in nodes]
        pairs = []
        for i, op in enumerate(node.ops):
            if (compare := _COMPARED.get(type(op))) is None:
                raise self.wrong(node, "comparisons are < <= > >= == and !=")
            a, b = self.alike(nodes[i], sides[i], nodes[i + 1], sides[i + 1])
            if a.type in ("string", "boolean") and not isinstance(op, ast.Eq | ast.NotEq):
                raise self.wrong(node, f"values of type {a.type} have no order; compare them by == or !=")
            pairs.append(_truth(compare, a, b))
        return _all(pairs)

    def alike(self, left: ast.expr, a: Compiled, right: ast.expr, b: Compiled) -> tuple[Compiled, Compiled]:
        """Return two sides that can be compared: a text beside a date is a date."""
        if a.type == "date" and b.type == "string":
            b = self.date(right)
        elif b.type == "date" and a.type == "string":
            a = self.date(left)
        if a.type != b.type and not (a.type in _NUMBERS and b.type in _NUMBERS):
            raise self.wrong(right, f"{a.type} and {b.type} cannot be compared or be values of one column")
        return a, b

    def date(self, node: ast.expr) -> Compiled:
        try:
            if not isinstance(node, ast.Constant):
                raise ValueError
            day = values.day(node.value, "%Y-%m-%d")
        except ValueError:
            raise self.wrong(node, "beside a date stands a date such as '2024-01-31'") from None
        return _fixed("date", float(day))

    def logic(self, node: ast.BoolOp, depth: int) -> Compiled:
        parts = [self.compiled(part, depth + 1) for part in node.values]
        for part, of in zip(node.values, parts, strict=True):
            if of.type != "boolean":
                raise self.wrong(part, f"'and' and 'or' join conditions, not {of.type}")
        return _all(parts) if isinstance(node.op, ast.And) else _any(parts)

    def choice(self, node: ast.IfExp, depth: int) -> Compiled:
        test = self.compiled(node.test, depth + 1)
        if test.type != "boolean":
            raise self.wrong(node.test, f"'if' needs a condition, not {test.type}")
        one, other = self.compiled(node.body, depth + 1), self.compiled(node.orelse, depth + 1)
        a, b = self.alike(node.body, one, node.orelse, other)

        def chosen(rows: Rows) -> Array:
            said, yes, no = np.broadcast_arrays(test.of(rows), a.of(rows), b.of(rows))
            return np.where(np.isnan(said), _nothing(a.type), np.where(said == 1, yes, no))

        return Compiled(a.type if a.type == b.type else "number", chosen)

    def call(self, node: ast.Call, depth: int) -> Compiled:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in FUNCTIONS or node.keywords:
            raise self.wrong(node, "the functions are round, min, max, floor and abs")
        if name == "round":
            return self.rounded(node, depth)
        parts = [self.compiled(part, depth + 1) for part in node.args]
        if name in ("min", "max"):
            if len(parts) < 2:
                raise self.wrong(node, f"{name} takes two values or more")
            found = parts[0]
            for i, part in enumerate(parts[1:], 1):
                a, b = self.alike(node.args[i - 1], found, node.args[i], part)
                if a.type in ("string", "boolean"):
                    raise self.wrong(node, f"values of type {a.type} have no order")
                kind = a.type if a.type == b.type else "number"
                found = _step(kind, np.minimum if name == "min" else np.maximum, a, b)
            return found
        if len(parts) != 1 or parts[0].type not in _NUMBERS:
            raise self.wrong(node, f"{name} takes one number")
        return _step("integer", np.floor, parts[0]) if name == "floor" else _step(parts[0].type, np.abs, parts[0])

    def rounded(self, node: ast.Call, depth: int) -> Compiled:
        digits = node.args[1] if len(node.args) == 2 else ast.Constant(0)
        if len(node.args) not in (1, 2) or not isinstance(digits, ast.Constant) or digits.value not in _PLACES:
            raise self.wrong(node, "round takes a number and how many decimals, from 0 to 6")
        part = self.compiled(node.args[0], depth + 1)
        if part.type not in _NUMBERS:
            raise self.wrong(node, f"round takes a number, not {part.type}")
        places = _PLACES.index(digits.value)
        kind = "number" if places and part.type == "number" else "integer"
        return _step(kind, lambda x: rounded(x, places), part)


def rounded(numbers: Array, places: int) -> Array:
    """Return numbers rounded as Python rounds: to the nearest, of two to the even one, by the exact value of a double.

    >>> rounded(np.array([2.675, 0.125, 1e300]), 2)
    array([2.67e+000, 1.20e-001, 1.00e+300])
    """
    numbers = np.asarray(numbers, dtype=np.float64)
    scaled = np.where(np.abs(numbers) < WHOLE / 10**places, numbers, 0.0) * 10.0**places
    found = np.where(np.abs(numbers) < WHOLE / 10**places, np.rint(scaled) / 10.0**places, numbers)
    unclear = np.abs(scaled - np.floor(scaled) - 0.5) <= 1e-15 * np.maximum(1.0, np.abs(scaled)) * 8
    if unclear.any():  # scaling may have rounded to a tie, or away from one
        found = np.array(found)
        found[unclear] = [round(x, places) for x in numbers[unclear].tolist()]
    return found


def _fixed(kind: str, value: float | str) -> Compiled:
    found = np.array(value, dtype=object if kind == "string" else np.float64)
    return Compiled(kind, lambda rows: found)


def _is_time(kind: str) -> bool:
    return kind == "date" or kind.startswith("timestamp")


def _nothing(kind: str) -> Any:
    return None if kind == "string" else np.nan


def _step(kind: str, function: Callable[..., Array], *parts: Compiled) -> Compiled:
    """Return one step of arithmetic; where it has no value of its type (1/0, a year 10000), that is missing."""

    def of(rows: Rows) -> Array:
        with np.errstate(all="ignore"):
            found = np.asarray(function(*(part.of(rows) for part in parts)), dtype=np.float64)
            if kind == "date":
                valid = (found >= DAYS[0]) & (found <= DAYS[1])
            else:
                valid = np.abs(found) < (math.inf if kind == "number" else WHOLE)
        return np.where(valid, found, np.nan)

    return Compiled(kind, of)


def _gone(found: Array, kind: str) -> NDArray[np.bool_]:
    return np.array(found == None, dtype=bool) if kind == "string" else np.isnan(found)  # noqa: E711


def _truth(compare: Callable[[Any, Any], Any], a: Compiled, b: Compiled) -> Compiled:
    def of(rows: Rows) -> Array:
        x, y = np.broadcast_arrays(a.of(rows), b.of(rows))
        gone = _gone(x, a.type) | _gone(y, a.type)
        return np.where(gone, np.nan, compare(x, y).astype(np.float64))

    return Compiled("boolean", of)


def _all(parts: list[Compiled]) -> Compiled:
    return Compiled("boolean", lambda rows: np.minimum.reduce(np.broadcast_arrays(*(p.of(rows) for p in parts))))


def _any(parts: list[Compiled]) -> Compiled:
    return Compiled("boolean", lambda rows: np.maximum.reduce(np.broadcast_arrays(*(p.of(rows) for p in parts))))
