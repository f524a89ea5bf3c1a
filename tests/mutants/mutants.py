"""Mutants: deliberate privacy bugs, listed in `catalogue.toml` or generated from calls in the sources."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from patterns import MODULE, Edit, definitions, walk

HERE = Path(__file__).parent
TESTS = HERE.parent
ROOT = TESTS.parent
SOURCE = ROOT / "src" / "marginalia"
CATALOGUE = HERE / "catalogue.toml"


@dataclass(frozen=True)
class NodeEdit:
    """Replacement of one node, addressed by its position in the tree of the unchanged file."""

    position: int  # number of the node in the order of `walk`
    new: str  # an expression, in which the name OLD stands for the node; or a statement

    def apply(self, tree: ast.Module) -> None:
        """Change `tree`."""
        place = walk(tree)[self.position]
        statement = ast.parse(self.new).body[0]
        place.replace([statement] if isinstance(place.node, ast.stmt) else [_Insert(place.node).visit(statement.value)])


class _Insert(ast.NodeTransformer):
    """Put a node in the place of the name OLD."""

    def __init__(self, node: ast.AST) -> None:
        self.node = node

    def visit_Name(self, name: ast.Name) -> ast.AST:
        return self.node if name.id == "OLD" else name


@dataclass(frozen=True)
class Mutant:
    """A bug that is put into one file of the library."""

    id: str
    breaks: str  # one sentence: which guarantee no longer holds
    file: str  # relative to src/marginalia
    edits: tuple[Edit | NodeEdit, ...]
    caught_by: tuple[str, ...]  # tests that must fail, relative to tests/
    beyond: str = ""  # why no audit can detect the bug, if that is the case

    @property
    def module(self) -> str:
        """Name of the module."""
        return "marginalia." + self.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

    @property
    def path(self) -> Path:
        """Path of the file."""
        return SOURCE / self.file

    def tree(self) -> ast.Module:
        """Return the syntax tree of the file with the bug. Raise ValueError if an edit does not fit the file."""
        if not self.path.is_file():
            raise ValueError(f"{self.id}: no file {self.file}; {_advice(self.edits[0].symbol)}")
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        for edit in self.edits:
            try:
                edit.apply(tree)
            except LookupError:
                raise ValueError(
                    f"{self.id}: {self.file} has no symbol {edit.symbol}; {_advice(edit.symbol)}"
                ) from None
            except SyntaxError as error:
                raise ValueError(f"{self.id}: `old` or `new` is not valid Python: {error}") from None
            except ValueError as error:
                raise ValueError(f"{self.id}: {self.file}: {error}") from None
        return tree


def _advice(symbol: str) -> str:
    """Return which field of an entry to correct: where the symbol is now, or symbols with the same last name."""
    if symbol == MODULE:
        return "correct `file`"
    if files := [file for file, symbols in _definitions().items() if symbol in symbols]:
        return f"{', '.join(files)} defines it: correct `file`"
    last = symbol.rpartition(".")[2]
    similar = [
        f"{other} in {file}"
        for file, symbols in _definitions().items()
        for other in sorted(symbols)
        if other.rpartition(".")[2] == last
    ]
    if similar:
        return f"there is {', '.join(similar)}: correct `symbol`"
    return f"no file defines a symbol named {last}: correct `symbol`, or express the bug in the present code"


@cache
def _definitions() -> dict[str, set[str]]:
    """Return the symbols of each file of the library."""
    return {
        path.relative_to(SOURCE).as_posix(): definitions(ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def catalogue() -> list[Mutant]:
    """Return the mutants of the catalogue."""
    content = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    return [
        Mutant(
            entry["id"],
            entry["breaks"],
            entry["file"],
            tuple(Edit(edit["symbol"], edit["old"], edit["new"]) for edit in entry.get("edits", [entry])),
            tuple(entry["caught_by"]),
            entry.get("beyond", ""),
        )
        for entry in content["mutant"]
    ]


def call_checks() -> dict[str, tuple[str, ...]]:
    """Return the tests that must fail for a changed call, by file."""
    return {name: tuple(v) for name, v in tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))["calls"].items()}


def audited(mutant: Mutant) -> tuple[str, ...]:
    """Return the methods that `marginalia audit` runs on the mutant; none if no audit can detect it."""
    return (
        ()
        if mutant.beyond
        else tuple(tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))["audits"].get(mutant.file, ()))
    )


# Changes of arguments of a mechanism, a calibration or an event. OLD stands for the argument.
_CHANGES = {
    "sigma": ("half the noise", "OLD / 2"),
    "scale": ("half the noise", "OLD / 2"),
    "noise_multiplier": ("half the noise", "OLD / 2"),
    "sensitivity": ("half the sensitivity", "OLD / 2"),
    "epsilon": ("twice the epsilon", "OLD * 2"),
    "session": (
        "a ledger that is thrown away",
        '__import__("marginalia.privacy", fromlist=["Session"]).Session('
        '__import__("marginalia.privacy", fromlist=["Ledger"]).Ledger(OLD.ledger.relation), OLD.randomness)',
    ),
}
_NO_RELEASE = ("papers/dd_ssp/methods/dp_sgd_grid.py",)  # a published search on test rows; it claims no privacy
_SECRET = ("secret",)  # sessions of releases that are not published
_SESSIONS = ("session", "self.session", "self._session")
_CHARGES = {  # changes of what is recorded of a release, with the position of the argument
    "GaussianEvent": ((0, "charged at half the sensitivity", "OLD / 2"),),
    "LaplaceEvent": ((0, "charged at half the sensitivity", "OLD / 2"),),
    "ExponentialEvent": ((0, "charged at half the epsilon", "OLD / 2"),),
    "PoissonGaussianEvent": (
        (0, "charged at half the rate", "OLD / 2"),
        (1, "charged at twice the noise", "OLD * 2"),
        (2, "charged for half the steps", "max(1, OLD // 2)"),
    ),
    "ObjectivePerturbationEvent": ((0, "charged at half the bound", "OLD / 2"),),
    "CompositionEvent": ((1, "charged for half the steps", "max(1, OLD // 2)"),),
    "RandomStoppingEvent": ((1, "charged at a rarer law of runs", "min(0.99, 2 * OLD)"),),
}
_POSITIONAL = {  # names of arguments that are passed by position
    "measure_all": (None, None, "sigma", "session"),
    "release_apart": (None, None, "sigma", "sigma"),
    "with_gaussian_noise": (None, "sensitivity", "sigma"),
    "iterate": (None, None),
}
_RELEASES = {
    "gaussian", "gaussians", "laplace", "marginal", "residuals", "select", "partition", "gaussian_run", "poisson_run",
    "objective_perturbation", "with_gaussian_noise", "measure_all", "release_apart", "noise", "partial", "draw_runs",
    "descend", "noisy_descent", "iterate", "private_tuning", "release_density", "best_of_random_runs",
}  # fmt: skip


def call_mutants() -> Iterator[Mutant]:
    """Yield a mutant for each argument of a release that sets its noise or its cost, and for each unrecorded release.

    The calls are those in the folders with code that reads private rows.
    """
    checks = call_checks()
    for folder in ("privacy/mechanisms", "synthesis", "learning", "methods", "analyses", "papers/*/methods"):
        for path in sorted(SOURCE.glob(f"{folder}/**/*.py")):
            file = path.relative_to(SOURCE).as_posix()
            if file in _NO_RELEASE:
                continue
            yield from _of_file(file, path.read_text(encoding="utf-8"), checks.get(file, ()))


def _of_file(file: str, text: str, caught_by: tuple[str, ...]) -> Iterator[Mutant]:
    """Yield the mutants of one file. An id is `file::symbol: call: what`, and a number if several calls share it."""
    places = walk(ast.parse(text))
    positions = {place.node: position for position, place in enumerate(places)}
    seen: Counter[str] = Counter()
    for place in places:
        for call, what, node, new in _changes(place.node):
            name = f"{file}::{place.scope}: {_name(call)}: {what}"
            seen[name] += 1
            number = f" ({seen[name]})" if seen[name] > 1 else ""
            edit = NodeEdit(positions[node], new)
            yield Mutant(name + number, what[0].upper() + what[1:] + ".", file, (edit,), caught_by)


def _changes(node: ast.AST) -> Iterator[tuple[ast.Call, str, ast.AST, str]]:
    """Yield the call at a node, what a change of it does, the node to replace, and the new code."""
    if isinstance(node, ast.Expr) and ast.unparse(node).startswith(("session.charge(", "ledger.append(")):
        yield node.value, "the release is not charged", node, "pass"
    if not isinstance(node, ast.Call):
        return
    for position, what, new in _CHARGES.get(_name(node), ()):
        if position < len(node.args):
            yield node, what, node.args[position], new
    if _name(node) in _RELEASES:
        for argument, value in _arguments(node):
            what, new = _CHANGES[argument]
            yield node, what, value, new


def _arguments(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield those arguments of a call that can be changed."""
    for keyword in call.keywords:
        if keyword.arg in _CHANGES and ast.unparse(keyword.value) not in _SECRET:
            yield keyword.arg, keyword.value
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in _SESSIONS:
        yield "session", call.func.value
    for name, value in zip(_POSITIONAL.get(_name(call), ()), call.args, strict=False):
        if name is not None:
            yield name, value


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
