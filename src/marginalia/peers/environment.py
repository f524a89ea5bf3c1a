"""The files of a peer: its adapter, its lock file and the environment that it runs in.

A library of `MAIN` runs in the main environment instead. Its adapter is the module of its name in this package.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

from marginalia.errors import InputError, unknown_name

ADAPTERS = Path("envs/peers")  # under the working folder, as the rules of the workflow are
ENVIRONMENTS = Path(".peers")
MAIN = {"opacus": ("torch", "opacus")}  # library -> packages that it needs in the main environment


def lock_hash(library: str) -> str:
    """Return a hash of the packages that a peer runs with; an edit of the lock file makes the environment anew."""
    lock = adapter(library).with_suffix(".txt")
    return hashlib.sha256(lock.read_bytes() if lock.exists() else b"").hexdigest()


def adapter(library: str) -> Path:
    """Return the adapter of a peer, which is there."""
    if library in MAIN:
        return Path(__file__).with_name(f"{library}.py")
    path = ADAPTERS / f"{library}.py"
    if not path.is_file():
        raise unknown_name(f"peer in {ADAPTERS}/", library, sorted(p.stem for p in ADAPTERS.glob("*.py")))
    return path.absolute()


def problem_here(library: str) -> str:
    """Return which packages that a peer needs in `MAIN` are not installed, in one line; none is imported."""
    missing = " and ".join(name for name in MAIN.get(library, ()) if importlib.util.find_spec(name) is None)
    return f"{missing} not installed (envs/install.py, or pip install 'marginalia[torch]')" if missing else ""


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
