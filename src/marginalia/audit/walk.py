"""The walk over everything that a fitted object refers to.

The audit compares the content of what it meets between fits (`leaks.visible`), and searches it for private rows
(`leaks.kept_findings`).
"""

from __future__ import annotations

import enum
import functools
import gc
import re
import types
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from marginalia.data.column import Column
from marginalia.data.domain import Domain

PLAIN = (str, bytes, bool, int, float, complex, type(None), enum.Enum, np.generic)
_NOT_ENTERED = (*PLAIN, type, types.ModuleType, types.FrameType, types.CodeType)


def walk(*roots: tuple[str, Any]) -> Iterator[tuple[str, Any, str | None]]:
    """Yield everything below the roots, depth first and in a fixed order, with the path to it.

    An object that was met before is yielded again and not entered again: the third value is then the path at which it
    was met first, and otherwise None.

    >>> shared = [1.5]
    >>> for path, value, earlier in walk(("model", {"a": shared, "b": shared})):
    ...     print(path, value, earlier)
    model {'a': [1.5], 'b': [1.5]} None
    model[a] [1.5] None
    model[a][0] 1.5 None
    model[b] [1.5] model[a]
    """
    met: dict[int, tuple[str, Any]] = {}  # holds the objects, so that no id is used twice
    waiting = list(reversed(roots))
    while waiting:
        path, value = waiting.pop()
        if not isinstance(value, PLAIN):
            if id(value) in met:
                yield path, value, met[id(value)][0]
                continue
            met[id(value)] = path, value
        yield path, value, None
        if not isinstance(value, _NOT_ENTERED):
            waiting += [(f"{path}{name}".lstrip("."), inner) for name, inner in reversed(list(_parts(value)))]


def without_addresses(text: str) -> str:
    """Return the `repr` of an object without addresses in memory, which differ between equal objects."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def key_text(key: object) -> str:
    """Return a key of a dictionary as text."""
    return key if isinstance(key, str) else without_addresses(repr(key))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object refers to directly, with the step that leads there."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, PLAIN):
                yield f"<key {key_text(key)}>", key
            yield f"[{key_text(key)}]", inner
    elif isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        yield from ((f"[{i}]", item) for i, item in enumerate(items))
    elif isinstance(value, np.ndarray):
        if value.base is not None:
            yield ".base", value.base
        if value.dtype == object:
            yield from ((f"[{i}]", item) for i, item in enumerate(value.ravel()))
    elif isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            yield from ((f".<closure {name}>", content) for content in gc.get_referents(cell))  # an empty one has none
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        yield from ((f".<default {i}>", default) for i, default in enumerate(defaults))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
        yield ".__func__", value.__func__
    elif isinstance(value, types.BuiltinFunctionType):
        yield ".__self__", value.__self__
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield from ((f".<argument {i}>", argument) for i, argument in enumerate(value.args))
        yield from ((f".<argument {name}>", argument) for name, argument in value.keywords.items())
    attributes = list(_attributes(value))
    yield from ((f".{name}", inner) for name, inner in attributes)
    if is_opaque(value):
        known = {id(type(value)), *(id(inner) for _, inner in attributes)}
        referents = [inner for inner in gc.get_referents(value) if id(inner) not in known]
        yield from ((f".<inside {i}>", inner) for i, inner in enumerate(referents))


_TRANSPARENT = (dict, list, tuple, set, frozenset, np.ndarray, types.MethodType, types.BuiltinFunctionType)


def is_opaque(value: Any) -> bool:
    """Return whether an object has neither items nor an attribute dictionary: `gc` alone knows what it refers to."""
    return not isinstance(value, _TRANSPARENT) and not hasattr(value, "__dict__")


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    fields = sorted(getattr(value, "__dict__", {}).items())
    if isinstance(value, Column | Domain):  # public, and which properties were looked up so far is no content
        fields = [(name, v) for name, v in fields if not isinstance(getattr(type(value), name, None), cached_property)]
    yield from fields
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)
