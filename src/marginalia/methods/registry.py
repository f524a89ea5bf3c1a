"""Which methods there are: found by looking into the folders of `marginalia.methods`, one a method.

A folder holds the record of its method, a `Method` at the top level of its ``__init__.py``, beside the code; nothing
else names methods.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from marginalia import methods
from marginalia.errors import InputError, unknown_name
from marginalia.methods.record import Arm, Kind, Method, frozen


def _found() -> Iterator[Method]:
    for folder in pkgutil.iter_modules(methods.__path__, f"{methods.__name__}."):
        if folder.ispkg:
            yield from (value for value in vars(import_module(folder.name)).values() if isinstance(value, Method))


EVERY: dict[str, Method] = {m.id: m for m in sorted(_found(), key=lambda m: (m.place, m.id))}
BUILT_IN: dict[str, Method] = {name: m for name, m in EVERY.items() if m.in_sweeps}
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
    'marginalia.methods.ols.ols'
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
