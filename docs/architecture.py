"""Draw the packages from what their modules import: ``python docs/architecture.py`` writes ``docs/architecture.svg``.

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
    (
        "figure_style",
        "kernels",
        "memory",
        "postponed",
        "progress",
        "subsets",
        "threads",
        "usage",
        "validation",
        "waiting",
    ),
    ("data",),
    ("user_code",),  # Python files of a user's
    ("experiment",),  # what an experiment consists of
    ("privacy",),
    ("marginals",),
    ("synthesis",),  # what synthesizers share
    ("learning",),  # what learners share
    ("methods",),
    ("inference",),  # error bars on what was released
    ("analyses",),  # regressions that are declared before a release
    ("peers",),
    ("sweep",),
    ("audit",),
    ("reporting",),
    ("quality",),
    ("papers",),
    ("advice",),
    ("cli",),
    ("__main__",),
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


WIDTH, GAP, CELL, LINE = 660, 12, 26, 24  # of a box; between boxes; of a column of the grid; of a row of inner packages


def picture() -> str:
    """Return the picture: a box for each floor, and to its right a dot for each floor that it imports from.

    The column of a floor goes up from its name.
    """
    floors = [parts[0] for parts in FLOORS[GROUND:]][::-1]
    towards = arrows()
    boxes, dots, y = [], [], GAP
    for i, name in enumerate(floors):
        box, height = _box(name, y)
        boxes.append(box)
        middle = y + height / 2
        below = range(i + 1, len(floors))
        for j in below:
            x = _column(j)
            strong = floors[j] in towards[name]
            radius, fill = (6, "#0072b2") if strong else (1.5, "#9aa5b1")
            dots.append(f'<circle cx="{x}" cy="{middle:g}" r="{radius}" fill="{fill}"/>')
        if i:
            x = _column(i)
            boxes.append(f'<path d="M{x} {GAP + 26} V{middle - 10:g}" stroke="#e3e7eb"/>')
            dots.append(f'<text x="{x + 7}" y="{middle + 4:g}" text-anchor="end" font-size="13">{name}</text>')
        y += height + GAP
    right = _column(len(floors) - 1) + 2 * GAP
    boxes.append(
        f'<rect x="{GAP}" y="{y}" width="{WIDTH}" height="40" rx="6" fill="#eeeeee"/>'
        f'<text x="{2 * GAP}" y="{y + 25}"><tspan font-weight="bold">{", ".join(sum(FLOORS[:GROUND], ()))}</tspan>'
        '<tspan dx="10" fill="#555555">imported from every floor</tspan></text>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right} {y + 52}" width="{right}" height="{y + 52}" '
            'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="14">',
            "<title>The packages of marginalia, top floor first, and which floors below each imports from</title>",
            f'<rect width="{right}" height="{y + 52}" fill="#ffffff"/>',
            *boxes,
            *dots,
            "</svg>\n",
        ]
    )


def _column(place: int) -> int:
    """Return where the column of the floor at a place stands: a floor's own name ends the stairs at its row."""
    return WIDTH + GAP + 64 + place * CELL


def _box(name: str, y: int) -> tuple[str, int]:
    """Return the box of a package, and its height: its name, its first sentence, and the packages inside it."""
    folder = SOURCE / name
    source = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    line = (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").split("\n")[0]
    parts = []
    x, row = 2 * GAP, y + 50
    inner = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
    for label in inner:
        length = 12 + round(7.9 * len(label))
        if x + length > WIDTH:
            x, row = 2 * GAP, row + LINE
        parts.append(
            f'<rect x="{x}" y="{row}" width="{length}" height="19" rx="4" fill="#ffffff" stroke="#9aa5b1"/>'
            f'<text x="{x + 6}" y="{row + 14}" font-size="12">{label}</text>'
        )
        x += length + 6
    height = row + 28 - y if inner else 52
    parts = [
        f'<rect x="{GAP}" y="{y}" width="{WIDTH}" height="{height}" rx="6" fill="#f4f6f8" stroke="#9aa5b1"/>',
        f'<text x="{2 * GAP}" y="{y + 22}" font-weight="bold" font-size="16">{name}</text>',
        f'<text x="{2 * GAP}" y="{y + 41}" fill="#444444" font-size="12.5">{escape(line)}</text>',
        *parts,
    ]
    return "\n".join(parts), height


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
