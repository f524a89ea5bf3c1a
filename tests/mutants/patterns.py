"""Replace a piece of code in a syntax tree. The piece is addressed by symbol and by syntax, not by text."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MODULE = "<module>"  # symbol of the code outside of all functions and classes
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IGNORED = ("kind", "type_comment")  # fields that do not change what the code does


@dataclass(frozen=True)
class Edit:
    """Replacement of the only piece of code inside `symbol` that equals `old`.

    `symbol` is the qualified name of a function, a method, a class, or a variable of a module or class; or MODULE.
    `old` and `new` are two expressions or two sequences of statements. A sequence matches consecutive statements of one
    block. An empty `new` deletes them. Formatting and comments do not matter.

    `...` is a placeholder in two positions of `old`. As the only statement of a block, it matches any block. As the
    last positional argument of a call, it matches all arguments that the pattern does not name: `f(x, ..., k=1)`
    matches a call of `f` whose first argument is `x` and whose `k` is 1. In `new`, `...` stands for the matched block
    or arguments: the first placeholder of `new` for the first of `old`, and so on.
    """

    symbol: str
    old: str
    new: str

    def apply(self, tree: ast.Module) -> None:
        """Change `tree`. Raise LookupError for an unknown symbol, ValueError if there is not exactly one match."""
        old, new = _parsed(self.old, self.new)
        if [*map(ast.dump, old)] == [*map(ast.dump, new)]:
            raise ValueError(f"`old` and `new` are the same code in an edit of {self.symbol}")
        inside = {place.key: place for place in walk(tree, self.symbol)}
        if not inside:
            raise LookupError(self.symbol)
        matches = [match for place in inside.values() if (match := _match(place, old, inside)) is not None]
        if len(matches) != 1:
            advice = "give more context in `old`" if matches else "adapt `old` and `new` to the present code"
            pattern = textwrap.shorten(self.old, 80)
            raise ValueError(f"{self.symbol} contains {pattern!r} {len(matches)} times, not once; {advice}")
        place, hidden = matches[0]
        place.replace(new, hidden, number=len(old))


class Place(NamedTuple):
    """Position of a node in a tree."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None  # None if the field is not a list
    scope: str  # qualified name of the innermost function, method or class around the node, or MODULE
    symbols: frozenset[str]  # all symbols that contain the node

    @property
    def key(self) -> tuple[int, str, int | None]:
        """Identity of the position."""
        return id(self.parent), self.field, self.index

    def replace(self, new: Sequence[ast.AST], hidden: Sequence[Any] = (), *, number: int = 1) -> None:
        """Replace `number` nodes from this position on. The placeholders of `new` stand for the code `hidden`."""
        block = getattr(self.parent, self.field)
        old = [self.node] if self.index is None else block[self.index : self.index + number]
        for node in new:
            _locate(node, old)
        filled = _filled(new, iter(hidden))
        if self.index is None:
            setattr(self.parent, self.field, filled[0])
            return
        block[self.index : self.index + number] = filled
        if not block and self.field == "body":
            block.append(ast.copy_location(ast.Pass(), old[0]))


def walk(tree: ast.Module, symbol: str | None = None) -> list[Place]:
    """Return the positions of all nodes of a tree, or of one symbol, in the order of the source."""
    found: list[Place] = []

    def visit(parent: ast.AST, scope: str, symbols: frozenset[str], local: bool) -> None:
        for field in parent._fields:
            value = getattr(parent, field, None)
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(node, ast.AST):
                    continue
                names = _names(node, scope, local)
                inside = symbols.union(names) if names else symbols
                if symbol is None or symbol in inside:
                    found.append(Place(node, parent, field, index, scope, inside))
                if not isinstance(node, _SCOPES):
                    visit(node, scope, inside, local)
                elif symbol is None or symbol in inside - {MODULE} or symbol.startswith(f"{names[0]}."):
                    visit(node, names[0], inside - {MODULE}, not isinstance(node, ast.ClassDef))

    visit(tree, MODULE, frozenset({MODULE}), False)
    return found


def definitions(tree: ast.Module) -> set[str]:
    """Return all symbols: the functions, methods and classes, and the variables of the module and of classes."""
    return {name for place in walk(tree) for name in place.symbols} - {MODULE}


def _names(node: ast.AST, scope: str, local: bool) -> list[str]:
    """Return the qualified names that a node defines. Local variables of functions are not symbols."""
    prefix = "" if scope == MODULE else f"{scope}."
    if isinstance(node, _SCOPES):
        return [prefix + node.name]
    if local or not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [prefix + name.id for target in targets for name in ast.walk(target) if _is_target(name)]


def _is_target(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _parsed(old: str, new: str) -> tuple[list[Any], list[Any]]:
    """Parse both texts as expressions if possible, otherwise both as statements."""
    old, new = textwrap.dedent(old).strip(), textwrap.dedent(new).strip()
    try:
        return [ast.parse(old, mode="eval").body], [ast.parse(new, mode="eval").body]
    except SyntaxError:
        return ast.parse(old).body, ast.parse(new).body


def _match(place: Place, old: Sequence[ast.AST], inside: dict[Any, Place]) -> tuple[Place, list[Any]] | None:
    """Return the position and the code behind the placeholders if the nodes from this position on equal `old`."""
    hidden: list[Any] = []
    for offset, pattern in enumerate(old):
        other = inside.get((*place.key[:2], place.index + offset)) if offset else place
        if other is None or not _equal(pattern, other.node, hidden):
            return None
    return place, hidden


def _equal(pattern: Any, found: Any, hidden: list[Any]) -> bool:
    """Compare as `ast.dump` does. Append the code behind each placeholder of the pattern to `hidden`."""
    if isinstance(pattern, list):
        return len(pattern) == len(found) and all(_equal(*pair, hidden) for pair in zip(pattern, found, strict=True))
    if type(pattern) is not type(found):
        return False
    if not isinstance(pattern, ast.AST):
        return repr(pattern) == repr(found)
    if _is_open_call(pattern):
        return _equal_arguments(pattern, found, hidden)
    for field, value in ast.iter_fields(pattern):
        other = getattr(found, field, None)
        if other and isinstance(value, list) and len(value) == 1 and _is_block_placeholder(value[0]):
            hidden.append(other)
        elif field not in _IGNORED and not _equal(value, other, hidden):
            return False
    return True


def _equal_arguments(pattern: ast.Call, found: ast.Call, hidden: list[Any]) -> bool:
    """Compare a call with those arguments that the pattern names. Append the other ones to `hidden`."""
    *named, _ = pattern.args
    keywords = {keyword.arg: keyword for keyword in found.keywords}
    others = [keyword for keyword in found.keywords if keyword.arg not in {named.arg for named in pattern.keywords}]
    equal = (
        _equal(pattern.func, found.func, hidden)
        and _equal(named, found.args[: len(named)], hidden)
        and all(_equal(keyword, keywords.get(keyword.arg), hidden) for keyword in pattern.keywords)
    )
    hidden.append((found.args[len(named) :], found.keywords, others))
    return equal


def _filled(nodes: Sequence[Any], hidden: Iterator[Any]) -> list[Any]:
    """Return new nodes with the code behind the placeholders of the old ones."""
    filled = []
    for node in nodes:
        if _is_block_placeholder(node):
            filled += _next(hidden)
            continue
        filled.append(node)
        if not isinstance(node, ast.AST):
            continue
        is_open = _is_open_call(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, field, _filled(value, hidden))
            elif isinstance(value, ast.AST):
                _filled([value], hidden)
        if is_open:
            _fill_arguments(node, *_next(hidden))
    return filled


def _fill_arguments(call: ast.Call, args: list[ast.expr], all_keywords: list[ast.keyword], others: list[Any]) -> None:
    """Add the hidden arguments to a new call. A keyword argument with a new value keeps its position."""
    call.args = [*call.args[:-1], *args]
    named = {keyword.arg: keyword for keyword in call.keywords}
    kept = [named.pop(keyword.arg, keyword) for keyword in all_keywords if keyword in others or keyword.arg in named]
    call.keywords = [*kept, *named.values()]


def _next(hidden: Iterator[Any]) -> Any:
    try:
        return next(hidden)
    except StopIteration:
        raise ValueError("`new` has more placeholders `...` than `old`") from None


def _is_open_call(node: Any) -> bool:
    return isinstance(node, ast.Call) and bool(node.args) and _is_ellipsis(node.args[-1])


def _is_block_placeholder(node: Any) -> bool:
    return isinstance(node, ast.Expr) and _is_ellipsis(node.value)


def _is_ellipsis(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _locate(node: ast.AST, old: Sequence[ast.AST]) -> None:
    """Give new nodes the lines of the old ones, so that a traceback shows the lines of the file."""
    for new in ast.walk(node):
        ast.copy_location(new, old[0])
        if hasattr(old[-1], "end_lineno") and "end_lineno" in new._attributes:
            new.end_lineno, new.end_col_offset = old[-1].end_lineno, old[-1].end_col_offset
