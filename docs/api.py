"""Write the API pages, one for each package, from the modules that are there: `docs/conf.py` calls it at each build.

What a page says of a package is its docstring; of a module, class or function, theirs.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "marginalia"
PAGES = Path(__file__).with_name("api")
# Packages with all that is in them, and modules of others that own methods and results rest on.
SHOWN = (
    "data",
    "privacy",
    "marginals",
    "synthesis",
    "learning",
    "inference",
    "methods",
    "analyses",
    "papers/dd_ssp/methods",
    "papers/excess_risk/methods",
    "papers/recent/methods",
    "sweep/records.py",
)


def modules(shown: str) -> dict[str, list[Path]]:
    """Return the modules with something public by the package that holds them."""
    place = SOURCE / shown
    found: dict[str, list[Path]] = {}
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
        if path.name != "__init__.py" and any(map(_is_public, ast.parse(path.read_text(encoding="utf-8")).body)):
            found.setdefault(".".join(path.parent.relative_to(SOURCE).parts), []).append(path)
    return found


def _is_public(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")


def page(package: str, paths: list[Path]) -> str:
    """Return the page of one package: what its face shows, then each of its modules."""
    face = SOURCE.joinpath(*package.split("."), "__init__.py")
    tree = ast.parse(face.read_text(encoding="utf-8"))
    lines = [f"# `{package}`", "", ast.get_docstring(tree) or "", ""]
    names = _shown_by(tree)
    if names:
        listed = [f"   ~marginalia.{module}.{name}" for name, module in sorted(names.items())]
        lines += [f"## What `marginalia.{package}` shows", "", "```{eval-rst}", ".. autosummary::", "   :nosignatures:"]
        lines += ["", *listed, "```", ""]
    for path in paths:
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        lines += [f"## `{module}`", "", "```{eval-rst}", f".. automodule:: marginalia.{module}", "```", ""]
    return "\n".join(lines)


def _shown_by(face: ast.Module) -> dict[str, str]:
    """Return where the public names that a package's face imports are defined."""
    imports = [node for node in ast.walk(face) if isinstance(node, ast.ImportFrom) and node.level == 0]
    ours = [node for node in imports if (node.module or "").startswith("marginalia.")]
    exported = {
        text.value
        for node in face.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for text in ast.walk(node.value)
        if isinstance(text, ast.Constant)
    }
    return {
        alias.name: str(node.module).removeprefix("marginalia.")
        for node in ours
        for alias in node.names
        if alias.name in exported
    }


def write() -> None:
    """Write all pages, and remove those of packages that are gone."""
    pages = {name.replace(".", "-"): page(name, p) for s in SHOWN for name, p in modules(s).items()}
    for old in PAGES.glob("*.md"):
        if old.stem not in {"index", *pages}:
            old.unlink()
    for stem, text in pages.items():
        path = PAGES / f"{stem}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # Sphinx reads again what is newer
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
