"""What is known of a peer without running it: the methods that its adapter names.

A peer is a library with a file ``envs/peers/<library>.py``, its adapter, and a lock file ``envs/peers/<library>.txt``.
The adapter runs in the peer's environment only; here its literal ``METHODS`` is read, and its code is not run. A peer
of the main environment has its adapter in this package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from marginalia.errors import InputError, unknown_name
from marginalia.methods.record import LEARNERS, NON_PRIVATE, Arm, Kind, Method
from marginalia.peers.claim import CLAIMED
from marginalia.peers.environment import MAIN, adapter, lock_hash, problem_here

PREFIX = "peer/"
_RELATIONS = {"add_remove", "replace_one"}
_MODELS = "marginalia.peers.models"


class PeerMethod(Method):
    """The record of a peer's method: its class is what peers share, with the names of library and method."""

    __slots__ = ()

    @property
    def is_foreign(self) -> bool:
        """True: a class of peers accepts no calibration, and has a seed without privacy too."""
        return True

    def load(self, task: str = "") -> type:
        """Return the class for `task`."""
        base = Method.load(self, task)
        library, method = _parts(self.id)
        own: dict[str, Any] = {"library": library, "method": method, "task": task, "__module__": base.__module__}
        own["codes"] = facts_of(library, method)["codes"]
        return type(f"{library}/{method}", (base,), own)


def is_peer(name: str) -> bool:
    """Return whether a method id is that of a peer."""
    return name.startswith(PREFIX)


def runs_here(name: str) -> bool:
    """Return whether a method id is that of a peer in the main environment."""
    return is_peer(name) and _parts(name)[0] in MAIN


def problem_of(name: str) -> str:
    """Return why a method cannot run, in one line; empty if it can, or has an environment of its own.

    >>> problem_of("aim"), problem_of("peer/mbi/aim")
    ('', '')
    """
    return problem_here(_parts(name)[0]) if runs_here(name) else ""


def record(name: str) -> PeerMethod:
    """Return the record of ``peer/<library>/<method>``.

    Raises
    ------
    InputError
        There is no such adapter or method, or its ``METHODS`` cannot be read.
    """
    library, method = _parts(name)
    facts = facts_of(library, method)
    tasks = tuple(facts["tasks"])
    base = ("LearnerHere" if library in MAIN else "PeerLearner") if tasks else "PeerSynthesizer"
    path = f"{_MODELS}:{base}"
    kind: Kind = "learner" if tasks else "synthesizer"
    arms = [Arm(name, CLAIMED if facts["private"] else NON_PRIVATE, tasks=tasks)]
    if not tasks:
        arms += [Arm(name, CLAIMED, learner, (task,), name, learner) for task, learner in LEARNERS]
    return PeerMethod(
        name,
        kind,
        dict.fromkeys(tasks or ("",), path),
        tuple(arms),
        about=str(facts["about"]),
        relations=tuple(facts["relations"]),
        cost="slow",
    )


def records(arms: Iterable[Arm]) -> dict[str, PeerMethod]:
    """Return the records of the peers among some arms, by id."""
    return {name: record(name) for name in dict.fromkeys(arm.method for arm in arms) if is_peer(name)}


def libraries(arms: Iterable[Arm]) -> list[str]:
    """Return the peers whose environments some arms need."""
    return sorted({_parts(arm.method)[0] for arm in arms if is_peer(arm.method)} - MAIN.keys())


def facts_of(library: str, method: str) -> dict[str, Any]:
    """Return what an adapter says of a method: ``tasks``, ``relations``, ``about``, ``private`` and ``codes``."""
    path = adapter(library)
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        literal = next(
            node.value
            for node in body
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "METHODS" for t in node.targets)
        )
        methods: dict[str, dict[str, Any]] = ast.literal_eval(literal)
        found = {name: {**dict(facts), "tasks": list(facts["tasks"])} for name, facts in methods.items()}
    except (OSError, SyntaxError, StopIteration, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: no readable METHODS ({type(error).__name__}); see docs/peers.md") from None
    if method not in found:
        raise unknown_name(f"method of peer '{library}'", method, found)
    facts = found[method]
    known = {"linear", "logistic"}
    if not known.issuperset(facts["tasks"]) or not _RELATIONS.issuperset(facts.get("relations") or {""}):
        raise InputError(
            f"{path}: method '{method}' needs 'tasks' of {', '.join(sorted(known))} (none: a synthesizer) and "
            f"'relations' of {', '.join(sorted(_RELATIONS))}"
        )
    if not facts.get("private", True) and not facts["tasks"]:
        raise InputError(f"{path}: method '{method}' has no privacy and no task; a synthesizer is private")
    return {"about": "", "private": True, "codes": False, **facts}


def sources(name: str) -> set[str]:
    """Return what the numbers of a peer depend on besides, for `version_of`: its adapter and locked packages."""
    library = _parts(name)[0]
    return {str(adapter(library)), f"={lock_hash(library)}"}


def _parts(name: str) -> tuple[str, str]:
    parts = name.split("/")
    if len(parts) != 3 or not all(parts):  # two of these become names of files
        raise InputError(f"method '{name}': a peer is named peer/<library>/<method>")
    return parts[1], parts[2]
