"""Parts of the corpus, their committed values, and the comparison of both."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
VALUES = Path(__file__).parent / "values"
LOCK = ROOT / "envs" / "requirements.txt"
# Last digits and written bytes depend on the versions of these libraries.
LIBRARIES = (
    "numpy", "scipy", "pandas", "pyarrow", "scikit-learn", "numba", "dp-accounting", "duckdb", "polars", "matplotlib",
    "typer", "rich", "pydantic",
)  # fmt: skip
SHOWN = 5  # differences in a message

Values = dict[str, dict[str, str]]  # group -> key -> value


@dataclass(frozen=True)
class Part:
    """One file of golden values.

    Attributes
    ----------
    name : str
    groups : callable
        Names of the groups of the part; a group is checked by one test.
    values : callable
        ``values(group)``: the present values of a group, by key.
    slow : frozenset of str
        Groups of the nightly tier.
    mirror : bool
        Whether the part reads the published data files.
    incomplete : bool
        Whether a group may have no values here, since its files cannot be had.
    """

    name: str
    groups: Callable[[], list[str]]
    values: Callable[[str], dict[str, str]]
    slow: frozenset[str] = frozenset()
    mirror: bool = False
    incomplete: bool = False

    @property
    def path(self) -> Path:
        """File of the committed values."""
        return VALUES / f"{self.name}.json"

    def committed(self) -> Values:
        """Return the committed values."""
        return json.loads(self.path.read_text(encoding="utf-8"))

    def write(self, values: Mapping[str, Mapping[str, str]]) -> None:
        """Write values, one key in each line."""
        text = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(self.path)


def digest(*contents: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of bytes, texts or values that JSON can hold."""
    sha = hashlib.sha256()
    for content in contents:
        if isinstance(content, str):
            content = content.encode()
        elif not isinstance(content, bytes):
            content = json.dumps(content, sort_keys=True, default=str).encode()
        sha.update(len(content).to_bytes(8, "little") + content)
    return sha.hexdigest()[:16]


def differences(committed: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """Return one line for each key whose value changed, is new, or is missing."""
    lines = [
        f"{key}: {committed[key]} -> {present[key]}"
        for key in committed
        if present.get(key, committed[key]) != committed[key]
    ]
    lines += [f"{key}: no longer produced" for key in committed if key not in present]
    return lines + [f"{key}: not in the corpus" for key in present if key not in committed]


def message(part: Part, group: str, lines: list[str]) -> str:
    """Return the message of a failed check: the first differences, and the command that updates the values."""
    shown = "\n".join(lines[:SHOWN] + [f"... and {len(lines) - SHOWN} more"] * (len(lines) > SHOWN))
    return (
        f"{len(lines)} golden values of '{part.name}' ({group}) changed:\n{shown}\n"
        f"If the change is intended, run `python -m tests.golden --update {part.name}` "
        "and name the change in the commit."
    )


def other_versions() -> str:
    """Return the libraries whose version differs from the lock file's as one text; empty where none does."""
    locked = set(re.findall(r"^([a-z0-9-]+==[^ ;\\]+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE))
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return ", ".join(f"{name} {version}" for name, version in found.items() if f"{name}=={version}" not in locked)


def why_not_comparable() -> str:
    """Return why this environment cannot reproduce the corpus; empty where it can."""
    if sys.version_info[:2] != (3, 11):
        return f"golden values are those of Python 3.11, this is {sys.version_info[0]}.{sys.version_info[1]}"
    if versions := other_versions():
        return f"golden values are those of the lock file, these versions differ: {versions}"
    from marginalia.kernels import why_not_pinned

    if reason := why_not_pinned():
        return f"golden values are those of pinned kernels: {reason}"
    return ""


def has_mirror() -> bool:
    """Return whether the published data files are at hand."""
    return Path(os.environ.get("MARGINALIA_MIRROR", "") or os.devnull).is_dir()
