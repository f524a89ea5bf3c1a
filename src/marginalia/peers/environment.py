"""The files of a peer: its adapter, its lock file and the environment that it runs in."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from marginalia.errors import InputError, unknown_name

ADAPTERS = Path("envs/peers")  # under the working folder, as the rules of the workflow are
ENVIRONMENTS = Path(".peers")


def lock_hash(library: str) -> str:
    """Return a hash of the packages that a peer runs with; an edit of the lock file makes the environment anew."""
    lock = adapter(library).with_suffix(".txt")
    return hashlib.sha256(lock.read_bytes() if lock.exists() else b"").hexdigest()


def adapter(library: str) -> Path:
    """Return the adapter of a peer, which is there."""
    path = ADAPTERS / f"{library}.py"
    if not path.is_file():
        raise unknown_name(f"peer in {ADAPTERS}/", library, sorted(p.stem for p in ADAPTERS.glob("*.py")))
    return path.absolute()


def python_of(library: str) -> str:
    """Return the Python of a peer's environment.

    Raises
    ------
    InputError
        It was not made, or cannot be: with the reason.
    """
    place = ENVIRONMENTS / library / "environment.json"
    try:
        made = json.loads(place.read_text(encoding="utf-8"))
        python, problem = str(made["python"]), str(made["problem"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"peer '{library}' has no environment: run `python3 envs/install_peer.py {library}` (the workflow does)"
        ) from None
    if problem:
        raise InputError(f"peer '{library}' is not installed: {problem}")
    return python
