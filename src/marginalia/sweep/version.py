"""What a result depends on: the code that made it, found by following imports.

The version of a piece of work is a hash of the modules that it imports, theirs, and so on; comments and docstrings do
not count. Of the module that holds the work itself only the definitions count that the work uses, so that the caption
at the end of a card does not rerun the card.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import marginalia
from marginalia.data.files import atomic_path
from marginalia.errors import InputError

# Stands before every hash, and changes only by hand, where all results shall count as made by other code: a release of
# the package, which changes none of the numbers, makes no result stale.
GENERATION = "0.1.0"
AUDIT_ENDING = ".audit.json"  # of the record of an audit, beside the audited file
ROOT = Path(marginalia.__file__).parent
METHODS = "methods/catalogue.toml"  # parameters and constants of methods change results as code does
# Of the words of these records: what counts. The functions of a card count by name.
_COUNTED = {"Card": ("id", "defaults", "datasets"), "Metric": ("id", "tasks", "of", "function")}
_NAMED = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


@cache
def code_version() -> str:
    """Return a hash of the whole library and its catalogue of methods, after the generation of results."""
    methods = json.dumps(tomllib.loads((ROOT / METHODS).read_text(encoding="utf-8")), sort_keys=True)
    return _stamp([*(_hash(ast.unparse(_bare(path))) for path in sorted(ROOT.rglob("*.py"))), _hash(methods)])


def version_of(*roots: str | Callable[..., Any]) -> str:
    """Return a hash of all code that some work depends on, after the generation of results.

    Parameters
    ----------
    *roots : str or function
        A module by its dotted name; a function, or its name as ``module:function``; a user's Python file.
    """
    return _version(tuple(sorted({name for root in roots for name in _names(root)})))


def modules_behind(*roots: str | Callable[..., Any]) -> frozenset[str]:
    """Return the names of the modules that `version_of` looks at, apart from users' files."""
    seen: set[str] = set()
    waiting = [m for root in roots for name in _names(root) for m in _start(name)[1]]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting.extend(_whole(module).imports)
    return frozenset(seen)


def is_audited(path: Path) -> bool:
    """Return whether an audit of the code in a user's Python file, as it stands now, found nothing."""
    return audit_findings(path) == 0


def audit_findings(path: Path) -> int | None:
    """Return the number of findings of an audit of the code in a user's Python file; None if it was not audited.

    The record of an audit is ``<path>.audit.json`` with ``version``, the `version_of` the file, and ``findings``, a
    number. A record of other code does not count.
    """
    try:
        record = json.loads(Path(f"{path}{AUDIT_ENDING}").read_text(encoding="utf-8"))
        return int(record["findings"]) if record["version"] == version_of(str(path)) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@cache
def _version(roots: tuple[str, ...]) -> str:
    parts = [text for root in roots for text in _start(root)[0]]
    return _stamp([*parts, *(f"{m}\n{_whole(m).text}" for m in sorted(modules_behind(*roots)))])


def _stamp(texts: Iterable[str]) -> str:
    return f"{GENERATION}+{_hash(''.join(texts))[:12]}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _names(root: str | Callable[..., Any]) -> Iterator[str]:
    """Yield where a function is defined; one made by another function depends on what it was made with, too."""
    if isinstance(root, str):
        yield root
        return
    if root.__module__ == "builtins":
        return
    name = root.__qualname__.split(".")[0]
    if name != "<lambda>":
        yield f"{root.__module__}:{name}"
    for code in _codes(root.__code__) if name == "<lambda>" else ():
        yield f"={(code.co_code, code.co_names, *(c for c in code.co_consts if not isinstance(c, CodeType)))}"
        yield from (f"{root.__module__}:{used}" for used in code.co_names)
    for value in (cell.cell_contents for cell in root.__closure__ or ()):
        yield from _names(value) if callable(value) else (f"={value!r}",)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a lambda, and of the comprehensions and lambdas inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@dataclass(frozen=True)
class _Code:
    text: str
    imports: frozenset[str]


def _start(root: str) -> tuple[list[str], frozenset[str]]:
    """Return texts that count for a root itself, and the modules that count whole."""
    module, _, name = root.partition(":")
    if module.startswith("="):
        return [root], frozenset()
    if module.endswith(".py"):
        text = Path(module).read_text(encoding="utf-8")
        return [text], _existing(_imports(ast.parse(text)))
    if not name:
        return [], frozenset({module})
    part = _definitions(module, name)
    return [f"{root}\n{part.text}"], part.imports


@cache
def _whole(module: str) -> _Code:
    text, names = _text_and_imports(_file(module))
    return _Code(text + _data(module, text), _existing(names))


def _text_and_imports(path: Path) -> tuple[str, list[tuple[str, str]]]:
    """Return a module's bare text and what it imports, from beside its bytecode where they are of this very source.

    To work them out for the sixty modules behind a fit takes longer than a small fit.
    """
    source = hashlib.sha256(path.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    place = path.parent / "__pycache__" / f"{path.stem}.{sys.implementation.cache_tag}.bare"
    try:
        kept = json.loads(zlib.decompress(place.read_bytes()))
        if kept["source"] == source:
            return kept["text"], kept["imports"]
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        pass
    tree = _bare(path)
    text, names = ast.unparse(tree), list(_imports(tree))
    with (
        suppress(InputError),
        atomic_path(place) as temporary,
    ):  # as with bytecode: nothing is kept where nobody may write
        content = {"source": source, "text": text, "imports": names}
        temporary.write_bytes(zlib.compress(json.dumps(content).encode()))  # packed, so that searches pass it by
    return text, names


@cache
def _definitions(module: str, name: str) -> _Code:
    """Return the definitions of a module that `name` uses, directly or through others, and what they import."""
    body = _tree(module).body
    bound = {name: node for node in body for name in _bound(node)}
    # What is neither a definition nor an import may change one of them, so it counts always.
    used = {node for node in body if not isinstance(node, _NAMED) or not list(_bound(node))}
    waiting = [name, *(n.id for node in used for n in ast.walk(node) if isinstance(n, ast.Name))]
    while waiting:
        node = bound.get(waiting.pop())
        if node is not None and node not in used:
            used.add(node)
            waiting.extend(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    part = ast.Module([node for node in body if node in used], [])
    text = ast.unparse(part)
    return _Code(text + _data(module, text), _existing(_imports(part)))


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    else:  # of an assignment what stands on its left: a comprehension on the right binds nothing here
        places: list[ast.AST] = [node]
        if isinstance(node, ast.Assign):
            places = list(node.targets)
        elif isinstance(node, ast.AnnAssign):
            places = [node.target]
        names = (n for place in places for n in ast.walk(place) if isinstance(n, ast.Name))
        yield from (name.id for name in names if isinstance(name.ctx, ast.Store))


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what a tree imports of the library, on its top level or inside functions: module, and name in it if any."""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "marginalia")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "marginalia":
            yield from ((str(node.module), alias.name) for alias in node.names)


def _existing(imports: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return the modules behind what is imported: a name may be that of a module."""
    return frozenset(f"{module}.{name}" if name and _path(f"{module}.{name}") else module for module, name in imports)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements of a tree: to walk through their expressions, too, takes five times as long."""
    for block in _blocks(tree):
        for node in block:
            yield node
            yield from _statements(node)


def _blocks(node: ast.AST) -> Iterator[list[ast.AST]]:
    """Yield the lists of statements that stand right under a node, and of what has some (handlers, cases)."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        block = getattr(node, name, None)
        if isinstance(block, list):  # the body of a lambda is none
            yield block


def _data(module: str, text: str) -> str:
    """Return the claims and published values that a module of `papers` names: files beside it, and in folders there."""
    path = _path(module)
    if path is None or "papers" not in path.parts:
        return ""
    constants = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    there = (*path.parent.glob("*.csv"), *path.parent.glob("*/*.csv"))
    files = sorted(p for p in there if p.stem in constants or p.name in constants)
    return "".join(p.read_text(encoding="utf-8") for p in files)


@cache
def _tree(module: str) -> ast.Module:
    return _bare(_file(module))


def _file(module: str) -> Path:
    path = _path(module)
    if path is None:
        raise ModuleNotFoundError(f"{module} is no module of the library")
    return path


def _path(module: str) -> Path | None:
    stem = ROOT.joinpath(*module.split(".")[1:])
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


def _bare(path: Path) -> ast.Module:
    """Return a file's code without comments, docstrings and what only the type checker imports."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    _strip(tree)
    if any(record in text for record in _COUNTED):
        _strip_words(tree)
    return tree


def _strip(node: ast.AST) -> None:
    for block in _blocks(node):
        block[:] = [child for child in block if not _is_for_the_type_checker(child)]
        for child in block:
            _strip(child)
    if (
        isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    ):
        node.body = node.body[1:] or [ast.Pass()]


def _is_for_the_type_checker(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _strip_words(tree: ast.Module) -> None:
    """Of cards and metrics keep what functions may read of them: their words change no number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COUNTED:
            node.keywords = [k for k in node.keywords if k.arg in _COUNTED[node.func.id]]
