"""Which code a result depends on: a hash of the modules that it imports from the library, or of a user's file.

A job runs again when a module behind its methods changes. Comments and docstrings count; what no module of the method
imports does not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import marginalia
from marginalia.methods.record import Arm, Method
from marginalia.peers.record import is_peer, sources

# The release whose seeded results these are: raised when results shall count as made by other code.
GENERATION = "0.1.0"
AUDIT_ENDING = ".audit.json"  # of the record of an audit, next to the audited file
ROOT = Path(marginalia.__file__).parent
_FROM = re.compile(r"^\s*from (marginalia[\w.]*) import (\([^)]*\)|[^\n]*)", re.M)
_IMPORT = re.compile(r"^\s*import (marginalia[\w.]*)", re.M)


@cache
def code_version() -> str:
    """Return a hash of the whole library, after the generation of results."""
    return _stamp(path.read_bytes() for path in sorted((*ROOT.rglob("*.py"), *ROOT.rglob("*.toml"))))


def version_of(*roots: str | Callable[..., Any]) -> str:
    """Return a hash of all code that some work depends on, after the generation of results.

    Parameters
    ----------
    *roots : str or function
        A module by its dotted name; a function, whose module counts; a file; a text that begins with ``=`` and counts
        as it stands.
    """
    names = tuple(sorted(set(map(_name, roots))))
    return (_version if any(map(_is_own, names)) else _version_of_library)(names)


def files_behind(*roots: str | Callable[..., Any]) -> list[Path]:
    """Return the files whose contents `version_of` hashes: those of some modules, and of all that they import."""
    waiting = [path for root in map(_name, roots) if (path := _file(root)) is not None]
    seen: set[Path] = set()
    while waiting:
        if (path := waiting.pop()) not in seen:
            seen.add(path)
            waiting += (_imported_by_library if path.is_relative_to(ROOT) else _imported)(path)
    return sorted(seen)


def version_of_arm(arm: Arm, registry: Mapping[str, Method]) -> str:
    """Return the version of all code that the numbers of an arm depend on: its methods, the split and the metrics."""
    names = sorted({*filter(None, (arm.method, arm.source, arm.learner))})
    roots = {
        "marginalia.methods.fit",
        "marginalia.sweep.metrics",
        "marginalia.sweep.protocols",
        "marginalia.sweep.cells",
    }
    for name in names:
        method = registry[name]
        roots |= {path.rpartition(":")[0] for path in method.classes.values()}
        roots.add(f"={name} {sorted(method.classes.items())} {method.limits} {method.relations}")
        if is_peer(name):
            roots |= sources(name)
    if arm.tuned_on_test:
        roots.add(registry[arm.method].search)
    return version_of(*sorted(roots))


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


def _version(names: tuple[str, ...]) -> str:
    texts = [name.encode() for name in names if name.startswith("=")]
    return _stamp([*texts, *(path.read_bytes() for path in files_behind(*names))])


_version_of_library = cache(_version)  # whose files do not change while it runs


def _is_own(name: str) -> bool:
    return name.endswith(".py") and not Path(name).is_relative_to(ROOT)


def _stamp(contents: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(hashlib.sha256(content).digest())
    return f"{GENERATION}+{digest.hexdigest()[:12]}"


def _name(root: str | Callable[..., Any]) -> str:
    return root if isinstance(root, str) else root.__module__


def _file(name: str) -> Path | None:
    """Return the file of a module, or of a path; None for what is neither."""
    if name.startswith("="):
        return None
    if name.endswith(".py"):
        return Path(name)
    stem = ROOT.joinpath(*name.split(".")[1:])
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)


def _imported(path: Path) -> tuple[Path, ...]:
    """Return the files of the library that a file imports, and the tables in its folder if it is of a paper."""
    text = path.read_text(encoding="utf-8")
    found = [_file(name) for name in _names(text)]
    data = path.parent.glob("**/*.csv") if "papers" in path.parts and path.is_relative_to(ROOT) else ()
    return tuple(one for one in (*found, *data) if one is not None)


_imported_by_library = cache(_imported)


def _names(text: str) -> Iterator[str]:
    yield from _IMPORT.findall(text)
    for module, names in _FROM.findall(text):
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", names))
