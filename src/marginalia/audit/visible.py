"""Everything that can be seen of a fitted model: its attributes at every depth, its file, its rows, its predictions."""

from __future__ import annotations

import enum
import hashlib
import itertools
import json
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from marginalia.audit.made import Made
from marginalia.data.table import RawTable, Table
from marginalia.errors import InputError
from marginalia.learning.base import LinearLearner
from marginalia.methods.models import save_model

_PLAIN = (str, bytes, bool, int, type(None), enum.Enum)
_SEED = "random_state"
_MOST_ENTRIES = 2**18  # of an array that are compared: on a hundred rows, what lies behind is unused workspace


def visible(model: Any, made: Made) -> dict[str, str]:
    """Return what a fitted model shows, by where it is seen.

    Parameters
    ----------
    model : fitted synthesizer or learner
    made : Made
        The rows to predict are its frame's, the same for every table.
    """
    seen = dict(_attributes("", model, {}))
    seen |= dict(_files(model))
    if hasattr(model, "ledger_") and callable(getattr(model.ledger_, "summary", None)):
        seen["the ledger's summary"] = json.dumps(model.ledger_.summary(), sort_keys=True, default=str)
    fixed = made.fixed_rows()
    if isinstance(fixed, RawTable) and getattr(model, "encoder_", None) is not None:
        fixed = fixed.coded(model.encoder_.domain)
    for name in ("predict", "decision_function", "predict_proba"):
        if callable(getattr(model, name, None)):
            seen[f"{name}()"] = _asked(getattr(model, name), fixed)
    if callable(getattr(model, "sample", None)):
        seen["sample(20)"] = _asked(model.sample, 20)
        seen["sample()"] = _asked(model.sample)
    if callable(getattr(model, "marginal", None)):
        names = made.names
        for q in itertools.chain(itertools.combinations(names, 1), itertools.combinations(names, 2)):
            seen[f"marginal({','.join(q)})"] = _asked(model.marginal, list(q))
    return seen


def _asked(method: Callable[..., Any], *arguments: Any) -> str:
    try:
        return _digest(method(*arguments))
    except InputError as error:
        return f"InputError: {error}"


def _digest(value: Any) -> str:
    if isinstance(value, Table):
        value = value.codes
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value if value.size <= 4 * _MOST_ENTRIES else value.ravel()[:_MOST_ENTRIES])
        shown = np.array2string(array, threshold=6, precision=17) if array.size <= 6 else ""
        content = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        return f"{array.dtype}{array.shape} {shown or hashlib.sha1(content).hexdigest()}"
    return repr(value)


def _files(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the parts of the saved file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        try:
            if callable(getattr(model, "save", None)):
                model.save(path)
            elif isinstance(model, LinearLearner) and getattr(model, "encoder_", None) is not None:
                save_model(model, path)
            else:
                return
        except InputError as error:
            yield "the saved file", str(error)
            return
        written = path if path.exists() else path.with_suffix(".npz")
        content = written.read_bytes()
        if content[:2] == b"PK":  # an archive: its bytes apart from the times of day
            with np.load(written, allow_pickle=False) as archive:
                for name in archive.files:
                    yield f"the saved file: {name}", _digest(archive[name])
        else:
            yield "the saved file", hashlib.sha1(content).hexdigest()


def _attributes(path: str, value: Any, known: dict[int, str]) -> Iterator[tuple[str, str]]:
    """Yield every leaf below `value` with the way to it; of what was met before only where."""
    where = f"attribute {path}" if path else "the model"
    if isinstance(value, np.random.SeedSequence):
        return
    if isinstance(value, _PLAIN):
        yield where, repr(value)
        return
    if isinstance(value, float | complex | np.generic):
        yield where, repr(value)
        return
    if id(value) in known:
        yield where, f"is {known[id(value)]}"
        return
    known[id(value)] = where
    if isinstance(value, np.ndarray):
        yield where, _digest(value)
    elif isinstance(value, dict):
        yield where, f"keys {[_key(k) for k in value]}"
        for key, inner in value.items():
            if key != _SEED:
                yield from _attributes(f"{path}[{_key(key)}]", inner, known)
    elif isinstance(value, list | tuple):
        yield where, f"{type(value).__name__} of {len(value)}"
        for i, inner in enumerate(value):
            yield from _attributes(f"{path}[{i}]", inner, known)
    elif isinstance(value, set | frozenset):
        yield where, repr(sorted(map(repr, value)))
    elif isinstance(value, types.FunctionType):
        yield where, f"function {value.__qualname__}"
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            yield from _attributes(f"{path}.<closure {name}>", cell.cell_contents, known)
    elif isinstance(value, types.MethodType):
        yield where, f"method {value.__qualname__}"
        yield from _attributes(f"{path}.__self__", value.__self__, known)
    elif isinstance(value, type | types.ModuleType):
        yield where, repr(value)
    else:
        yield where, type(value).__qualname__
        for name, inner in _fields(value):
            if name != _SEED:
                yield from _attributes(f"{path}.{name}" if path else name, inner, known)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    yield from sorted(getattr(value, "__dict__", {}).items())
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


def _key(key: object) -> str:
    return key if isinstance(key, str) else repr(key)
