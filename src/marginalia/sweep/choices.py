"""What a configuration chooses of the methods, and what that stands for."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marginalia.errors import InputError, unknown_name
from marginalia.sweep.methods import BUILT_IN, Arm, Method, class_from_file, method, tupled


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of a configuration's ``methods``.

    Attributes
    ----------
    id : str
    calibration, variant : str or None
        Keep only the arms that match; a variant that no arm has names a new arm with `parameters` of its own.
    source : str or None
        For ``dd_ssp``: the synthesizer to stand on, any of them.
    parameters : mapping
        Passed to the class.
    file, class_name, tasks
        A method of the user's own: a Python file, the class in it, and the tasks it does (none: a synthesizer).
    """

    id: str
    calibration: str | None = None
    variant: str | None = None
    source: str | None = None
    parameters: Mapping[str, Any] | None = None
    file: str | None = None
    class_name: str | None = None
    tasks: tuple[str, ...] = ()


def own_method(choice: Choice) -> Method:
    """Return the `Method` of a user's Python file, after importing it once to see that it is usable."""
    if choice.id in BUILT_IN:
        raise InputError(f"method '{choice.id}': the id is taken by a built-in method; choose another")
    path = f"{choice.file}:{choice.class_name}"
    cls = class_from_file(Path(str(choice.file)), str(choice.class_name))
    needed = ("fit", "predict") if choice.tasks else ("fit", "sample", "marginal")
    for name in needed:
        if not callable(getattr(cls, name, None)):
            raise InputError(
                f"{choice.file}: class {choice.class_name} has no method {name}(), which every such method needs"
            )
    known = set(inspect.signature(cls).parameters)
    for name in ("epsilon", "delta", "random_state"):
        if name not in known:
            raise InputError(f"{choice.file}: class {choice.class_name} does not take the parameter '{name}'")
    arm = Arm(choice.id, choice.calibration or "tight", choice.variant or "", choice.tasks, parameters=_frozen(choice))
    classes = dict.fromkeys(choice.tasks or ("",), path)
    return Method(choice.id, "learner" if choice.tasks else "synthesizer", classes, (arm,), slow=True, about=path)


def select(choices: Sequence[Choice]) -> tuple[dict[str, Method], tuple[Arm, ...]]:
    """Return the registry and the arms that a configuration's choices stand for.

    Sources that a chosen arm post-processes are added when they were not chosen themselves.

    Raises
    ------
    InputError
        Unknown id, calibration or task, or an own class that lacks what every method needs.
    """
    registry = dict(BUILT_IN)
    arms: list[Arm] = []
    for choice in choices:
        if choice.file:
            registry[choice.id] = own_method(choice)
            arms.extend(registry[choice.id].arms)
        else:
            found = method(choice.id, registry)
            arms.extend(_matching(found, choice) if choice.source is None else [_on_source(found, choice, registry)])
    for arm in list(arms):
        if arm.source and not any(a.method == arm.source and not a.source for a in arms):
            arms.append(registry[arm.source].arms[0])
    unique = tuple(dict.fromkeys(arms))
    names = [(a.method, a.calibration, a.variant, a.tasks) for a in unique]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"method '{name[0]}' is chosen twice with different parameters; give one a variant name")
    return registry, unique


def _matching(found: Method, choice: Choice) -> Iterable[Arm]:
    offered = found.arms if choice.variant is None else (*found.arms, *found.named)
    arms = [a for a in offered if choice.calibration in (None, a.calibration)]
    if not arms:
        raise unknown_name(
            f"calibration of method '{found.id}'", str(choice.calibration), {a.calibration for a in offered}
        )
    named = [a for a in arms if choice.variant in (None, a.variant)]
    if not named:
        if not choice.parameters:
            raise unknown_name(
                f"variant of method '{found.id}'", str(choice.variant), {a.variant for a in arms if a.variant}
            )
        named = [replace(arms[0], variant=str(choice.variant))]
    return [replace(a, parameters=_frozen(choice)) if choice.parameters and not a.source else a for a in named]


def _on_source(found: Method, choice: Choice, registry: Mapping[str, Method]) -> Arm:
    if found.kind != "downstream" or not found.classes:
        raise InputError(f"method '{found.id}' takes no source; dd_ssp does")
    source = method(str(choice.source), registry)
    if source.kind != "synthesizer":
        raise InputError(f"method '{found.id}': source '{source.id}' is no synthesizer")
    return replace(found.arms[0], variant=source.id, source=source.id)


def _frozen(choice: Choice) -> tuple[tuple[str, Any], ...]:
    return tuple((k, tupled(v)) for k, v in sorted((choice.parameters or {}).items()))
