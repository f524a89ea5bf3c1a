"""Check a formula before formulaic evaluates it, since formulaic runs parts of a formula as Python code.

Nothing is evaluated here. formulaic's own tokenizer and parser cut the text, so that the checked code is the code that
would run. `_Code` walks through the syntax tree of this code once and rejects everything that is not in a set: it may
only calculate with columns, numbers and a few functions of a single row. Functions of all rows (`scale`, `poly`,
splines) would be computed from the private table.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from marginalia.data.domain import Domain
from marginalia.errors import InputError

if TYPE_CHECKING:
    from formulaic.parser.types import Factor, Token

_LONGEST = 4000  # letters
_MOST_PRODUCTS = 2000  # terms of a formula before equal terms are merged
_MOST_POWER = 64
_OF_ALL_ROWS = {"bs", "cc", "cr", "cs", "te", "center", "poly", "scale", "standardize", "lag"}
_CONTRASTS = {"Treatment", "Sum", "Helmert", "Poly", "Diff"}
_CONTRASTS |= {f"contr.{kind}" for kind in ("treatment", "sum", "helmert", "poly", "diff", "sas")}
_OF_NUMBERS = """
    abs ceil clip cos exp expm1 floor log log10 log1p log2 maximum minimum round sign sin sqrt square tanh where
"""
_FUNCTIONS = {"C", "I", "log", "log2", "log10", "exp", "exp2"} | {f"np.{name}" for name in _OF_NUMBERS.split()}
_SIGNS = (ast.USub, ast.UAdd, ast.Invert)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def sides(formula: str) -> tuple[str, str]:
    """Return the name on the left side, and the text of the right side.

    >>> sides("`hours per week` ~ age + C(sex)")
    ('hours per week', 'age + C(sex)')
    """
    if len(formula) > _LONGEST:
        raise InputError(f"formula {formula[:40]!r}... has {len(formula):,} letters; at most {_LONGEST:,} are possible")
    parts = re.findall(r"(?:`[^`]*`|[^~`]|`)+|~", formula)
    if parts.count("~") != 1 or len(parts) != 3 or not (parts[0].strip() and parts[2].strip()):
        raise InputError(f"formula {formula!r}: write it as 'response ~ terms'")
    left, right = parts[0].strip(), parts[2].strip()
    quoted = re.fullmatch(r"`([^`]*)`", left)
    return quoted[1] if quoted else left, right


def names_in(formula: str, right: str, domain: Domain) -> set[str]:
    """Check the right side of a formula, and return the columns that it names.

    Raises
    ------
    InputError
        The formula cannot be read, names an unknown column, has too many terms, or contains code that does more than
        calculate with one row.
    """
    from formulaic.errors import FormulaicError
    from formulaic.parser import DefaultFormulaParser
    from formulaic.parser.algos.sanitize_tokens import sanitize_tokens
    from formulaic.parser.algos.tokenize import tokenize

    columns: set[str] = set()
    functions: set[str] = set()
    try:
        for token in sanitize_tokens(tokenize(right)):
            if token.kind is token.Kind.NAME:
                domain.index(token.token)
                columns.add(token.token)
            elif token.kind is token.Kind.PYTHON:
                code = _Code(formula, token.token, domain)
                columns |= code.columns
                functions |= {name.partition(".")[0] for name in code.functions}
            elif token.kind is token.Kind.OPERATOR and token.token == ".":
                raise InputError(f"formula {formula!r}: name the columns; '.' for all others is not read")
        tree: Any = DefaultFormulaParser(feature_flags=set()).parse(right, target="ast")
        if _products(formula, tree) > _MOST_PRODUCTS:
            raise InputError(f"formula {formula!r} multiplies out to more than {_MOST_PRODUCTS:,} terms")
    except InputError:
        raise
    except (FormulaicError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = str(error).split("\n\n")[0] or "it is nested too deeply"  # the formula in colours follows
        raise InputError(f"formula {formula!r} cannot be read: {message}") from None
    if both := columns & functions:
        raise InputError(f"formula {formula!r}: {min(both)} is a function and a column; rename the column")
    return columns


def columns_of(formula: str, factor: Factor, domain: Domain) -> set[str]:
    """Return the columns that a factor of a term needs; formulaic itself would cut their names at a dot."""
    if factor.eval_method is factor.EvalMethod.PYTHON:
        return _Code(formula, factor.expr, domain).columns
    return {factor.expr} if factor.eval_method is factor.EvalMethod.LOOKUP else set()


def _products(formula: str, node: Any) -> float:
    """Return an upper bound of the number of terms of a formula, before any of them is made."""
    if not hasattr(node, "operator"):
        return _one(formula, node)
    symbol, operands = node.operator.symbol, list(node.args)
    if symbol in ("**", "^"):
        power = str(operands[1])
        if not (power.isdecimal() and int(power) <= _MOST_POWER):
            raise InputError(f"formula {formula!r}: the power of a sum is a whole number up to {_MOST_POWER}")
        return _products(formula, operands[0]) ** int(power)
    sizes = [_products(formula, operand) for operand in operands]
    if symbol == ":":
        return math.prod(sizes)
    return sum(sizes) + (math.prod(sizes) if symbol in ("*", "/", "in") else 0.0)


def _one(formula: str, token: Token) -> float:
    if token.kind is token.Kind.VALUE and token.token not in ("0", "1"):
        hint = "names that are no words stand in `backticks`" if token.token[0] in "'\"" else "write I(2 * age)"
        raise InputError(f"formula {formula!r}: {token.token} is no term; {hint}")
    return 1.0


class _Code:
    """Python code in a formula, with the columns and functions that it names.

    Parameters
    ----------
    formula : str
        For messages.
    text : str
    domain : Domain

    Raises
    ------
    InputError
        The code does more than calculate with one row.
    """

    def __init__(self, formula: str, text: str, domain: Domain) -> None:
        from formulaic.utils.code import sanitize_variable_names

        self._formula, self._domain = formula, domain
        self._quoted: dict[str, str] = {}  # the names that formulaic, too, writes in place of names in backticks
        self.functions: set[str] = set()
        self.columns = self._check(ast.parse(sanitize_variable_names(text, {}, self._quoted), mode="eval").body)
        for name in sorted(self.columns):
            domain.index(name)

    def _check(self, node: ast.expr) -> set[str]:
        """Return the columns of an expression, which may be one of the following only."""
        match node:
            case ast.Name() | ast.Attribute() if self._is_contrast(node):
                self.functions.add(ast.unparse(node))
                return set()
            case ast.Name():
                return {self._quoted.get(node.id, node.id)}
            case ast.Constant():
                return self._check_constant(node)
            case ast.UnaryOp() if isinstance(node.op, _SIGNS):
                return self._check(node.operand)
            case ast.Compare() if all(isinstance(op, _COMPARISONS) for op in node.ops):
                return self._check_all([node.left, *node.comparators])
            case ast.BinOp() if isinstance(node.op, _ARITHMETIC):
                return self._check_arithmetic(node)
            case ast.Call():
                return self._check_call(node)
        raise self._refused(node)

    def _check_all(self, nodes: Iterable[ast.expr]) -> set[str]:
        return set[str]().union(*map(self._check, nodes))

    def _is_contrast(self, node: ast.expr) -> bool:
        name = ast.unparse(node)
        return name in _CONTRASTS and name not in self._domain

    def _refused(self, node: ast.AST) -> InputError:
        code = ast.unparse(node)
        if code in self._domain:
            return InputError(f"formula {self._formula!r}: write the column {code} in `backticks`")
        return InputError(
            f"formula {self._formula!r}: {_shown(node)} cannot stand in a formula: it may hold columns, numbers, "
            "+ - * / **, comparisons, C(), I(), and functions of single numbers, such as log, exp, np.sqrt, np.where"
        )

    def _function(self, node: ast.expr) -> str:
        """Return the name of a called function."""
        name = ast.unparse(node)
        if name in _FUNCTIONS | _CONTRASTS:
            return name
        last = name.rpartition(".")[2]
        if last in _OF_ALL_ROWS:
            raise InputError(
                f"{last}(): reads facts off the rows; give them as public numbers instead, as I((x - 40) / 10)"
            )
        raise self._refused(node)

    def _check_call(self, node: ast.Call) -> set[str]:
        name = self._function(node.func)
        self.functions.add(name)
        arguments = [self._check(argument) for argument in node.args]
        if any(keyword.arg not in ("base", "reference") for keyword in node.keywords):
            raise self._refused(node)
        # The categories of C() are the values of one column. Of two columns, some combinations would have no category.
        if name == "C" and not (arguments and len(arguments[0]) == 1):
            raise InputError(f"formula {self._formula!r}: {_shown(node)}: C() takes one column, or a function of one")
        return self._check_all(keyword.value for keyword in node.keywords).union(*arguments)

    def _check_arithmetic(self, node: ast.BinOp) -> set[str]:
        left, right = self._check(node.left), self._check(node.right)
        if any(isinstance(x, ast.Constant) and isinstance(x.value, str) for x in (node.left, node.right)):
            raise self._refused(node)
        # Powers of whole numbers can get arbitrarily long. Powers of columns are floating-point numbers.
        power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        if isinstance(node.op, ast.Pow) and not (isinstance(power, ast.Constant) and left):
            raise InputError(
                f"formula {self._formula!r}: {_shown(node)}: only powers of a column, by a number, are read"
            )
        return left | right

    def _check_constant(self, node: ast.Constant) -> set[str]:
        is_number = isinstance(node.value, bool | int | float)
        # Formulaic writes code around strings: a quote within one would end it.
        if not is_number and not (isinstance(node.value, str) and not set(node.value) & set("'\"`\\{}\n")):
            raise InputError(f"formula {self._formula!r}: {_shown(node)} is no number, and no text without quotes")
        return set()


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:60]}..."
