"""What a formula may hold: formulaic runs what stands in a formula as Python, so it is looked through before.

Nothing is evaluated here. The text is cut into tokens by formulaic's own tokenizer, so that what is looked at is what
would be run; code in it may only calculate with columns, numbers and a few functions, each of which is a function of a
row alone: what is read off all rows (`scale`, `poly`, splines) would be read off the private table.
"""

from __future__ import annotations

import ast
import math
import re
from typing import TYPE_CHECKING, Any

from marginalia.data.domain import Domain
from marginalia.errors import InputError

if TYPE_CHECKING:
    from formulaic.parser.types import Factor, Token

_LONGEST = 4000  # letters
_MOST_PRODUCTS = 2000  # terms that a formula may have before those that agree are put together
_MOST_POWER = 64
_OF_ROWS = {"bs", "cc", "cr", "cs", "te", "center", "poly", "scale", "standardize", "lag"}
_CONTRASTS = {"Treatment", "Sum", "Helmert", "Poly", "Diff"}
_CONTRASTS |= {f"contr.{kind}" for kind in ("treatment", "sum", "helmert", "poly", "diff", "sas")}
_FUNCTIONS = {"C", "I", "log", "log2", "log10", "exp", "exp2"}
_FUNCTIONS |= {
    f"np.{name}" for name in ("abs", "ceil", "clip", "cos", "exp", "expm1", "floor", "log", "log10", "log1p")
}
_FUNCTIONS |= {
    f"np.{name}" for name in ("log2", "maximum", "minimum", "round", "sign", "sin", "sqrt", "square", "tanh")
}
_FUNCTIONS |= {"np.where"}
_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Load),
    *(ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr),
    *(ast.USub, ast.UAdd, ast.Invert, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)


def sides(formula: str) -> tuple[str, str]:
    """Return the name on the left side, and the right side as it stands.

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
    """Look through the right side of a formula, and return the columns that it names.

    Raises
    ------
    InputError
        It cannot be read, names what is no column, has too many terms, or holds code that does more than calculate
        with one row.
    """
    from formulaic.errors import FormulaicError
    from formulaic.parser import DefaultFormulaParser
    from formulaic.parser.algos.sanitize_tokens import sanitize_tokens
    from formulaic.parser.algos.tokenize import tokenize

    found: set[str] = set()
    called: set[str] = set()
    try:
        for token in sanitize_tokens(tokenize(right)):
            if token.kind is token.Kind.NAME:
                domain.index(token.token)
                found.add(token.token)
            elif token.kind is token.Kind.PYTHON:
                columns, functions = _Code(formula, token.token, domain).check()
                found |= columns
                called |= {name.partition(".")[0] for name in functions}
            elif token.kind is token.Kind.OPERATOR and token.token == ".":
                raise InputError(f"formula {formula!r}: name the columns; '.' for all others is not read")
        tree: Any = DefaultFormulaParser(feature_flags=set()).parse(right, target="ast")
        if _products(formula, tree) > _MOST_PRODUCTS:
            raise InputError(f"formula {formula!r} multiplies out to more than {_MOST_PRODUCTS:,} terms")
    except InputError:
        raise
    except (FormulaicError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = str(error).split("\n\n")[0] or "it is nested too deeply"  # what follows is the formula, in colours
        raise InputError(f"formula {formula!r} cannot be read: {said}") from None
    if both := found & called:
        raise InputError(f"formula {formula!r}: {min(both)} is a function and a column; rename the column")
    return found


def columns_of(formula: str, factor: Factor, domain: Domain) -> set[str]:
    """Return the columns that a factor of a term needs; formulaic itself cuts names at a dot."""
    if factor.eval_method is factor.EvalMethod.PYTHON:
        return _Code(formula, factor.expr, domain).check()[0]
    return {factor.expr} if factor.eval_method is factor.EvalMethod.LOOKUP else set()


def _products(formula: str, node: Any) -> float:
    """Return how many terms a formula has at most, before any of them is made."""
    if not hasattr(node, "operator"):
        return _one(formula, node)
    symbol, given = node.operator.symbol, list(node.args)
    if symbol in ("**", "^"):
        power = str(given[1])
        if not (power.isdecimal() and int(power) <= _MOST_POWER):
            raise InputError(f"formula {formula!r}: the power of a sum is a whole number up to {_MOST_POWER}")
        return _products(formula, given[0]) ** int(power)
    sizes = [_products(formula, arg) for arg in given]
    if symbol == ":":
        return math.prod(sizes)
    return sum(sizes) + (math.prod(sizes) if symbol in ("*", "/", "in") else 0.0)


def _one(formula: str, token: Token) -> float:
    if token.kind is token.Kind.VALUE and token.token not in ("0", "1"):
        hint = "names that are no words stand in `backticks`" if token.token[0] in "'\"" else "write I(2 * age)"
        raise InputError(f"formula {formula!r}: {token.token} is no term; {hint}")
    return 1.0


class _Code:
    """Python code in a formula, which may only calculate with one row.

    Parameters
    ----------
    formula : str
        For messages.
    text : str
    domain : Domain
    """

    def __init__(self, formula: str, text: str, domain: Domain) -> None:
        from formulaic.utils.code import sanitize_variable_names

        self._formula, self._domain = formula, domain
        self._quoted: dict[str, str] = {}  # what formulaic, too, writes in place of names in backticks
        self._tree = ast.parse(sanitize_variable_names(text, {}, self._quoted), mode="eval")
        nodes = list(ast.walk(self._tree))
        self._functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        contrasts = [node for node in nodes if isinstance(node, ast.Name | ast.Attribute)]
        self._functions |= {id(node) for node in contrasts if ast.unparse(node) in _CONTRASTS - set(domain.names)}
        self._within = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}

    def check(self) -> tuple[set[str], set[str]]:
        """Return the columns and the functions that it names; InputError where it does more."""
        columns, functions = self._columns(self._tree), set()
        for node in reversed(list(ast.walk(self._tree))):
            if id(node) in self._functions:
                functions.add(self._function(node))
            elif not isinstance(node, _NODES) or (isinstance(node, ast.Attribute) and id(node) not in self._within):
                raise self._refused(node)
            elif isinstance(node, ast.Call):
                self._check_call(node)
            elif isinstance(node, ast.BinOp):
                self._check_arithmetic(node)
            elif isinstance(node, ast.Constant):
                self._check_constant(node)
        for name in columns:
            self._domain.index(name)
        return columns, functions

    def _columns(self, tree: ast.AST) -> set[str]:
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        free = [node for node in names if id(node) not in self._functions and id(node) not in self._within]
        return {self._quoted.get(node.id, node.id) for node in free}

    def _refused(self, node: ast.AST) -> InputError:
        what = ast.unparse(node)
        if what in self._domain:
            return InputError(f"formula {self._formula!r}: write the column {what} in `backticks`")
        return InputError(
            f"formula {self._formula!r}: {_shown(node)} cannot stand in a formula: it may hold columns, numbers, "
            "+ - * / **, comparisons, C(), I(), and functions of single numbers, such as log, exp, np.sqrt, np.where"
        )

    def _function(self, node: ast.AST) -> str:
        name = ast.unparse(node)
        if name in _FUNCTIONS | _CONTRASTS:
            return name
        last = name.rpartition(".")[2]
        if last in _OF_ROWS:
            raise InputError(
                f"{last}(): reads facts off the rows; give them as public numbers instead, as I((x - 40) / 10)"
            )
        raise self._refused(node)

    def _check_call(self, node: ast.Call) -> None:
        name = self._function(node.func)
        if any(keyword.arg not in ("base", "reference") for keyword in node.keywords):
            raise self._refused(node)
        # Its categories are those of the values of one column; of two, combinations would be left out.
        if name == "C" and not (node.args and len(self._columns(node.args[0])) == 1):
            raise InputError(f"formula {self._formula!r}: {_shown(node)}: C() takes one column, or a function of one")

    def _check_arithmetic(self, node: ast.BinOp) -> None:
        if any(isinstance(x, ast.Constant) and isinstance(x.value, str) for x in (node.left, node.right)):
            raise self._refused(node)
        # Powers of whole numbers grow without end; those of columns are floating-point numbers.
        power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
        if isinstance(node.op, ast.Pow) and not (isinstance(power, ast.Constant) and self._columns(node.left)):
            raise InputError(
                f"formula {self._formula!r}: {_shown(node)}: only powers of a column, by a number, are read"
            )

    def _check_constant(self, node: ast.Constant) -> None:
        plain = isinstance(node.value, bool | int | float)
        # Formulaic writes code around strings: a quote within one would end it.
        if not plain and not (isinstance(node.value, str) and not set(node.value) & set("'\"`\\{}\n")):
            raise InputError(f"formula {self._formula!r}: {_shown(node)} is no number, and no text without quotes")


def _shown(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:60]}..."
