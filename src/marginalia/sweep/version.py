"""The version of the code that a result depends on."""

import hashlib
from functools import cache
from pathlib import Path

import marginalia

# What a number depends on; reporting and the command line only show it.
PARTS = ("data", "privacy", "marginals", "synthesis", "learning", "sweep", "papers")


@cache
def code_version() -> str:
    """Return the package version and a hash of every source file that results depend on."""
    return version_of(*PARTS)


@cache
def version_of(*parts: str) -> str:
    """Return the package version and a hash of the source files of some parts of the library."""
    root = Path(marginalia.__file__).parent
    digest = hashlib.sha256()
    for part in parts:
        for path in sorted((root / part).rglob("*")):
            if path.suffix in {".py", ".yaml", ".csv", ".json", ".j2", ".css", ".js"}:
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{marginalia.__version__}+{digest.hexdigest()[:12]}"
