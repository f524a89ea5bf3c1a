"""Draw the house from what its modules import: ``python docs/architecture.py`` writes ``docs/architecture.svg``.

`FLOORS` says which package may import which; ``tests/test_repository.py`` checks it with the functions below.
"""

import ast
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "marginalia"
PICTURE = Path(__file__).with_suffix(".svg")
# From the ground up; a module imports only from floors below its own, and from its own package.
FLOORS = (
    ("errors",),
    ("card", "kernels", "memory", "postponed", "threads"),
    ("data",),
    ("privacy",),
    ("marginals",),
    ("synthesis",),  # what synthesizers share
    ("learning",),  # what learners share
    ("methods",),
    ("peers",),
    ("sweep",),
    ("streamed",),
    ("audit",),
    ("reporting",),
    ("quality",),
    ("papers",),
    ("planning",),
    ("recommend",),
    ("cli",),
)
GROUND = 2  # floors that are drawn as one, below all others
_IN_TEXT = re.compile(r"marginalia(?:\.[a-z_][a-z0-9_]*)+")


def modules() -> dict[str, Path]:
    """Return the file of every module of the library by its full name."""
    return {
        ".".join(("marginalia", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in sorted(SOURCE.rglob("*.py"))
    }


def floor_of(module: str) -> int:
    """Return the floor of a module, from 0; the package itself is on the ground."""
    part = module.split(".")[1] if "." in module else "errors"
    return next(i for i, parts in enumerate(FLOORS) if part in parts)


def imports(path: Path, known: dict[str, Path], *, typing_only: bool = True, texts: bool = True) -> set[str]:
    """Return the modules of the library that a file imports, at its top or in its functions.

    Parameters
    ----------
    known : dict of name to Path
        As `modules` returns them.
    typing_only : bool
        With what is imported under ``if TYPE_CHECKING`` only.
    texts : bool
        With what is named in text: a string that begins with the name of a module, docstrings apart.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and not typing_only and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    names = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif texts and isinstance(node, ast.Constant) and node not in docstrings:
            named = _IN_TEXT.match(str(node.value))  # the start of an f-string is such a constant too
            names |= {named[0]} if named else set()
    return {module for name in names if name.startswith("marginalia.") and (module := _module(name, known))}


def _module(name: str, known: dict[str, Path]) -> str:
    """Return the longest beginning of a dotted name that is a module, or nothing."""
    while name not in known:
        name = name.rpartition(".")[0]
        if not name:
            return ""
    return name if name != "marginalia" else ""


def arrows() -> dict[str, set[str]]:
    """Return which packages each package imports, the ground floor apart."""
    known = modules()
    towards: dict[str, set[str]] = {}
    for module, path in known.items():
        if floor_of(module) >= GROUND:
            there = {name.split(".")[1] for name in imports(path, known) if floor_of(name) >= GROUND}
            towards.setdefault(module.split(".")[1], set()).update(there - {module.split(".")[1]})
    return towards


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#6f4e9c", "#b8860b", "#3b8ea5", "#a02c2c", "#4d4d4d")
WIDTH, ROW, GAP, LANE, PORT = 680, 76, 14, 26, 7


def picture() -> str:
    """Return the picture: a row for each floor, and to its right where its package's imports go."""
    floors = [parts[0] for parts in FLOORS[GROUND:]][::-1]
    towards = arrows()
    top = {name: GAP + i * (ROW + GAP) for i, name in enumerate(floors)}
    lanes = {name: WIDTH + (len(floors) - i) * LANE for i, name in enumerate(floors)}
    height = GAP + (len(floors) + 1) * (ROW + GAP) - 36
    width = max(lanes.values()) + GAP
    rows = [_row(name, top[name]) for name in floors]
    ground = top[floors[-1]] + ROW + GAP
    rows.append(
        f'<rect x="{GAP}" y="{ground}" width="{WIDTH - GAP}" height="{ROW - 36}" rx="6" fill="#eeeeee"/>'
        f'<text x="{2 * GAP}" y="{ground + 25}"><tspan font-weight="bold">errors, kernels, memory, threads</tspan>'
        '<tspan dx="10" fill="#555555">imported from every floor</tspan></text>'
    )
    lines = []
    for colour, name in zip(COLOURS, floors, strict=False):
        below = [other for other in floors if other in towards[name]]
        ends = []
        for other in below:
            # Ports of a row: the lane of the floor just above is nearest to the box, and its arrow the lowest.
            y = top[other] + ROW - 8 - PORT * (floors.index(other) - floors.index(name) - 1)
            ends.append(y)
            lines.append(f'<path d="M{lanes[name]} {y} H{WIDTH + 6}" stroke="{colour}" class="line"/>')
            lines.append(f'<path d="M{WIDTH} {y} l8 -3.5 v7 z" fill="{colour}"/>')
        if ends:
            start = top[name] + 10
            lines.append(f'<path d="M{WIDTH} {start} H{lanes[name]} V{max(ends)}" stroke="{colour}" class="line"/>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="14">',
            "<title>The packages of marginalia, and which of them import which</title>",
            "<style>.line { fill: none; stroke-width: 1.5 }</style>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *rows,
            *lines,
            "</svg>\n",
        ]
    )


def _row(name: str, y: int) -> str:
    folder = SOURCE / name
    source = folder / "__init__.py" if folder.is_dir() else SOURCE / f"{name}.py"
    line = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").split("\n")[0]
    parts = [
        f'<rect x="{GAP}" y="{y}" width="{WIDTH - GAP}" height="{ROW}" rx="6" fill="#f4f6f8" stroke="#9aa5b1"/>',
        f'<text x="{2 * GAP}" y="{y + 24}" font-weight="bold" font-size="16">{name}</text>',
        f'<text x="{2 * GAP}" y="{y + 43}" fill="#444444" font-size="12.5">{escape(line)}</text>',
    ]
    x = 2 * GAP
    for inner in sorted(path.parent.name for path in folder.glob("*/__init__.py")):
        length = 12 + round(7.6 * len(inner))
        parts.append(
            f'<rect x="{x}" y="{y + 51}" width="{length}" height="19" rx="4" fill="#ffffff" stroke="#9aa5b1"/>'
            f'<text x="{x + 6}" y="{y + 65}" font-size="12">{inner}</text>'
        )
        x += length + 6
    return "\n".join(parts)


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
