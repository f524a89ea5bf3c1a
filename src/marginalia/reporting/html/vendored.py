"""The one library that is part of the page: its version, size, hash and licence."""

from __future__ import annotations

from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable

from marginalia.errors import InputError

NAME, VERSION, LICENCE = "uPlot", "1.6.32", "MIT (vendored/uPlot.LICENSE)"
SOURCE = "https://registry.npmjs.org/uplot/-/uplot-1.6.32.tgz, folder dist"
FILES = {  # bytes, SHA-256
    "uPlot.iife.min.js": (51081, "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
    "uPlot.min.css": (1857, "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
}


def folder() -> Traversable:
    """Return where the files lie, the licence beside them."""
    return resources.files("marginalia.reporting.html") / "vendored"


def text(name: str) -> str:
    """Return one of `FILES`; refuse one that is not what was vendored."""
    content = (folder() / name).read_bytes()
    if (len(content), sha256(content).hexdigest()) != FILES[name]:
        raise InputError(f"vendored/{name} is not the file of {NAME} {VERSION}: install the package again")
    return content.decode("utf-8").strip()
