"""The methods by their ids, read from ``catalogue.toml``: nothing else names methods.

Reading it imports no method: the sweep plans and the command line completes names within milliseconds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from marginalia.errors import InputError, unknown_name
from marginalia.methods.record import (
    TRAINED_ON_ROWS,
    Arm,
    Audit,
    Kind,
    Limits,
    Method,
    frozen,
    trained_on_rows_of,
    tupled,
)


def _arm(method: str, entry: Mapping[str, Any]) -> Arm:
    tasks, parameters = tuple(entry.get("tasks", ())), frozen(method, entry.get("parameters"))
    return Arm(method, **{**entry, "tasks": tasks, "parameters": parameters})


def _method(name: str, entry: dict[str, Any]) -> Method:
    """Return the record that an entry of the catalogue describes."""
    if "class" in entry:
        entry["classes"] = {"": entry.pop("class")}
    arms, named = (tuple(_arm(name, arm) for arm in entry.pop(key, ())) for key in ("arms", "named"))
    variants = {variant: tupled(look) for variant, look in entry.pop("variants", {}).items()}
    if entry.pop("trained_on_rows", False):
        arms = (*(arms or (Arm(name),)), *trained_on_rows_of(name))
        variants |= TRAINED_ON_ROWS
    constants = {
        (calibration, variant): by_dataset
        for calibration, by_variant in entry.pop("constants", {}).items()
        for variant, by_dataset in by_variant.items()
    }
    audit = {key: value if key == "quick" else tupled(value) for key, value in entry.pop("audit", {}).items()}
    return Method(
        name,
        arms=arms or (Arm(name),),
        named=named,
        variants=variants,
        constants=constants,
        limits=Limits(**entry.pop("limits", {})),
        audit=Audit(**audit),
        **{"classes": {}, **{key: tupled(value) for key, value in entry.items()}},
    )


def _read(path: Path) -> dict[str, Method]:
    return {name: _method(name, entry) for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items()}


EVERY: dict[str, Method] = _read(Path(__file__).with_name("catalogue.toml"))
BUILT_IN: dict[str, Method] = {name: m for name, m in EVERY.items() if m.in_sweeps != "no"}
DEFAULT = tuple(name for name, m in BUILT_IN.items() if m.default)


def method(name: str, registry: Mapping[str, Method] = BUILT_IN) -> Method:
    """Return the method with id `name`, or raise an `InputError` with the nearest id.

    >>> method("aim").label
    'AIM'
    >>> method("aimm")
    Traceback (most recent call last):
    marginalia.errors.InputError: unknown method 'aimm'; did you mean 'aim'?
    """
    try:
        return registry[name]
    except KeyError:
        raise unknown_name("method", name, registry) from None


def class_named(name: str, *kinds: Kind) -> Any:
    """Return the class of that name of a method of one of some kinds, with its module loaded; KeyError if none has it.

    >>> class_named("OLSRegressor", "learner").__module__
    'marginalia.methods.ols'
    """
    places = {
        path.rpartition(":")[2]: (method, task)
        for method in EVERY.values()
        if method.kind in kinds
        for task, path in method.classes.items()
    }
    method, task = places[name]
    return method.load(task)


def arms_of(
    name: str,
    *,
    calibration: str | None = None,
    variant: str | None = None,
    source: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    registry: Mapping[str, Method] = BUILT_IN,
) -> list[Arm]:
    """Return the arms of a registered method, those of one calibration or variant if it is given.

    Parameters
    ----------
    name : str
        Method id.
    calibration : str, optional
    variant : str, optional
        One that the record does not know is a new one, if there are `parameters`.
    source : str, optional
        The synthesizer that a downstream method stands on; default: those of its record.
    parameters : mapping of str to value, optional
        Passed to the class in place of the record's; of a method that only post-processes, to its learner.
    registry : mapping of str to Method

    Raises
    ------
    InputError
        Unknown id, calibration, variant or source.

    >>> [arm.variant for arm in arms_of("ada_ssp", calibration="published")]
    ['code_constants', 'paper_constants']
    """
    chosen = method(name, registry)
    if source is not None:
        chosen = replace(chosen, arms=(_on_source(chosen, source, registry),))
    offered = chosen.arms
    if variant is not None or calibration is not None:
        offered += tuple(a for a in chosen.named if variant is not None or not a.variant)
    arms = [a for a in offered if calibration in (None, a.calibration)]
    if not arms:
        raise unknown_name(f"calibration of method '{name}'", str(calibration), {a.calibration for a in offered})
    found = [a for a in arms if variant in (None, a.variant)]
    if not found:
        if not parameters:
            raise unknown_name(f"variant of method '{name}'", str(variant), {a.variant for a in arms if a.variant})
        found = [replace(arms[0], variant=str(variant))]
    if not parameters:
        return found
    # Of a synthesizer and the learners on its rows, it is the synthesizer that takes them.
    takers = [a for a in found if not a.source] or found
    return [replace(a, parameters=frozen(name, parameters)) if a in takers else a for a in found]


def _on_source(chosen: Method, name: str, registry: Mapping[str, Method]) -> Arm:
    if chosen.kind != "downstream" or not chosen.classes:
        able = ", ".join(m.id for m in registry.values() if m.kind == "downstream" and m.classes)
        raise InputError(f"method '{chosen.id}' takes no source; {able} does")
    if name not in registry:
        raise unknown_name("synthesizer", name, (m.id for m in registry.values() if m.kind == "synthesizer"))
    source = method(name, registry)
    if source.kind != "synthesizer":
        raise InputError(f"method '{chosen.id}': source '{source.id}' is no synthesizer")
    return replace(chosen.arms[0], variant=source.id, source=source.id)
