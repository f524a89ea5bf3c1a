"""What a fitted object gives away: all that can be seen of it, and private rows that it still holds.

`visible` and `kept_findings` read the same walk (`walk`), from different roots. Replays compare `visible`, which stays
below the model: class attributes and the globals of a user's file outlive a fit, so they differ between two fits of a
sound method. `kept_findings` searches these too, because equal rows are private wherever they are.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.audit.findings import Finding
from marginalia.audit.tables import SyntheticTable
from marginalia.audit.tape import replaced
from marginalia.audit.walk import PLAIN, is_opaque, key_text, walk, without_addresses
from marginalia.data.table import RawTable, Table
from marginalia.errors import InputError, PrivacyError
from marginalia.learning.base import LinearLearner
from marginalia.methods.models import save_model
from marginalia.privacy.events import Event
from marginalia.privacy.ledger import Ledger
from marginalia.privacy.noise.samplers import BitSource
from marginalia.privacy.randomness import Randomness

_MOST_ENTRIES = 2**18  # of an array that are compared: on a hundred rows, what lies behind is unused workspace
_MOST_OBJECTS = 200_000  # that are searched for rows
_MOST_PAIRED = 6  # attributes whose marginals are compared: all pairs of a wide table would take most of the time
_LARGE = 2**25  # bytes of an array (a workspace) that makes a pickle not worth its time
_STREAMS = (Randomness, BitSource, np.random.Generator, np.random.BitGenerator)


def visible(model: Any, table: SyntheticTable) -> dict[str, str]:
    """Return what a fitted model shows, by where it is seen.

    Parameters
    ----------
    model : fitted synthesizer or learner
    table : SyntheticTable
        The rows to predict are its frame's, the same for every table.
    """
    seen = contents(model) | dict(_files(model))
    if hasattr(model, "ledger_") and callable(getattr(model.ledger_, "summary", None)):
        seen["the ledger's summary"] = json.dumps(model.ledger_.summary(), sort_keys=True, default=str)
    fixed = table.fixed_rows()
    if isinstance(fixed, RawTable) and getattr(model, "encoder_", None) is not None:
        fixed = fixed.coded(model.encoder_.domain)
    for name in ("predict", "decision_function", "predict_proba"):
        if callable(getattr(model, name, None)):
            seen[f"{name}()"] = _returned(getattr(model, name), fixed)
    if callable(getattr(model, "sample", None)):
        seen["sample(20)"] = _returned(model.sample, 20)
        seen["sample()"] = _returned(model.sample)
    if callable(getattr(model, "marginal", None)):
        names = table.names[:_MOST_PAIRED]
        for q in itertools.chain(itertools.combinations(names, 1), itertools.combinations(names, 2)):
            seen[f"marginal({','.join(q)})"] = _returned(model.marginal, list(q))
    return seen


def contents(model: Any) -> dict[str, str]:
    """Return the content of everything below a model, by the path to it; of what was met before only where.

    >>> contents({"a": [1, 2]})
    {'the model': "keys ['a']", 'attribute [a]': 'list of 2', 'attribute [a][0]': '1', 'attribute [a][1]': '2'}
    """
    return {
        _place(path): _content(value) if first is None else f"is {_place(first)}"
        for path, value, first in walk(("", model))
    }


def _place(path: str) -> str:
    return f"attribute {path}" if path else "the model"


def _content(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return _digest(value)
    if isinstance(value, bytes) and len(value) > 100:
        return f"{len(value)} bytes {hashlib.sha1(value).hexdigest()}"
    if isinstance(value, dict):
        return f"keys {[key_text(key) for key in value]}"
    if isinstance(value, list | tuple | set | frozenset):
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, types.FunctionType | types.MethodType):
        return f"function {value.__qualname__}"
    if isinstance(value, (*PLAIN, type, types.ModuleType)) or is_opaque(value):
        return without_addresses(repr(value))
    return type(value).__qualname__


def _digest(value: Any) -> str:
    if isinstance(value, Table):
        value = value.codes
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value if value.size <= 4 * _MOST_ENTRIES else value.ravel()[:_MOST_ENTRIES])
        shown = without_addresses(np.array2string(array, threshold=6, precision=17)) if array.size <= 6 else ""
        content = without_addresses(repr(array.tolist())).encode() if array.dtype == object else array.tobytes()
        return f"{array.dtype}{array.shape} {shown or hashlib.sha1(content).hexdigest()}"
    return repr(value)


def _returned(method: Callable[..., Any], *arguments: Any) -> str:
    try:
        return _digest(method(*arguments))
    except InputError as error:
        return f"InputError: {error}"


def _files(model: Any) -> Iterator[tuple[str, str]]:
    """Yield the parts of the saved file."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            written = saved_file(model, Path(folder) / "model")
        except InputError as error:
            yield "the saved file", str(error)
            return
        if written is None:
            return
        content = written.read_bytes()
        if content[:2] == b"PK":  # an archive: its bytes apart from the times of day
            with np.load(written, allow_pickle=False) as archive:
                for name in archive.files:
                    yield f"the saved file: {name}", _digest(archive[name])
        else:
            yield "the saved file", hashlib.sha1(content).hexdigest()


def saved_file(model: Any, path: Path) -> Path | None:
    """Save a model, if it can be, and return where."""
    if callable(getattr(model, "save", None)):
        model.save(path)
    elif isinstance(model, LinearLearner) and getattr(model, "encoder_", None) is not None:
        save_model(model, path)
    else:
        return None
    return path if path.exists() else path.with_suffix(".npz")


def refit_findings(model: Any, table: SyntheticTable) -> Iterator[Finding]:
    """Yield whether a fit that fails half-way leaves the ledger of an earlier one."""

    def refuse(ledger: Ledger, event: Event, randomness: str = "") -> None:
        raise PrivacyError("refused")

    with replaced(Ledger, "append", refuse):
        try:
            model.fit(*table.fit_arguments())
        except PrivacyError:
            pass
        except InputError:  # a learner without privacy, on rows whose domain it cannot learn
            return
        else:  # post-processing: nothing is released
            return
    if hasattr(model, "ledger_"):
        yield Finding("charge", "a fit that is refused", "the ledger of the fit before stays on the model")


def kept_findings(model: Any, table: SyntheticTable, arguments: tuple[Any, ...], *, own: bool) -> list[Finding]:
    """Return what a fitted object keeps of its rows.

    Parameters
    ----------
    model : fitted synthesizer or learner
    table : SyntheticTable
        The rows it was fitted to.
    arguments : tuple
        The very objects that ``fit`` was called with.
    own : bool
        Whether the class is a user's: the variables of its module are searched too.
    """
    arguments = (*arguments, *(a.frame for a in arguments if isinstance(a, RawTable)))
    shared = [array for array in _arrays_of(arguments) if array.nbytes]
    private = _private_arrays(table)
    nodes = ((path, value) for path, value, first in walk(("", model), *_outside(model, own=own)) if first is None)
    objects = [node for node in itertools.islice(nodes, 5 * _MOST_OBJECTS) if not isinstance(node[1], PLAIN)]
    findings: dict[str, Finding] = {}
    for path, value in objects[:_MOST_OBJECTS]:
        content = _private_content(value, arguments, shared, private, table.n)
        if content and content not in findings:
            findings[content] = Finding("kept", path or "the object itself", content)
    if not any(isinstance(value, np.ndarray) and value.nbytes > _LARGE for _, value in objects):
        findings |= {f.what: f for f in _in_pickle(model, arguments)}
    return list(findings.values())


def _outside(model: Any, *, own: bool) -> Iterator[tuple[str, Any]]:
    """Yield what a fit may have left outside the model: class attributes, and globals of a user's file."""
    for cls in type(model).__mro__:
        if cls.__module__.split(".")[0] in ("builtins", "sklearn", "abc"):
            continue
        values = {k: v for k, v in vars(cls).items() if not callable(v) and not k.startswith("__")}
        yield from ((f"class attribute {cls.__name__}.{k}", v) for k, v in values.items())
        functions = [v for v in vars(cls).values() if isinstance(v, types.FunctionType)]
        if own and functions and not cls.__module__.startswith("marginalia."):
            names = functions[0].__globals__
            yield from ((f"global {k}", v) for k, v in names.items() if not k.startswith("__"))


def _private_content(
    value: Any, arguments: tuple[Any, ...], shared: Sequence[NDArray[Any]], private: dict[bytes, str], n: int
) -> str:
    if any(value is argument for argument in arguments):
        return f"the private {type(value).__name__} itself"
    if isinstance(value, _STREAMS):
        return f"a stream of random numbers ({type(value).__name__}): whoever reads on meets the noise of the fit"
    if isinstance(value, Table):
        return "a table equal to the private one" if value.codes.tobytes() in private else ""
    if isinstance(value, list | tuple) and 3 <= len(value) <= 10_000 and all(type(v) in (int, float) for v in value):
        value = np.array(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iufb":
        return ""
    if any(np.may_share_memory(value, array) for array in shared):
        return "an array in the memory of the private rows"
    for flat in _views(value, n):
        if name := private.get(_bytes(flat), ""):
            return f"an array equal to {name}"
    return ""


def _views(value: NDArray[Any], n: int) -> Iterator[NDArray[Any]]:
    if value.size > 100_000:
        return
    yield value.ravel()
    if value.ndim == 2:
        yield value.T.ravel()
        if n in value.shape and value.shape[0] < 5000:
            yield from value.T if value.shape[0] == n else value


def _bytes(flat: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(flat, dtype=np.float64).tobytes()


def _private_arrays(table: SyntheticTable) -> dict[bytes, str]:
    """Return arrays that no model may keep, by their bytes: columns, counts and sums of squares, unless trivial."""
    arrays: list[tuple[str, NDArray[Any]]] = []
    if table.frame.domain is not None:
        rows = table.coded
        arrays += [("the rows", rows.codes.ravel()), ("the rows", rows.codes.T.ravel())]
        names = rows.domain.names
        arrays += [(f"the column '{a}'", rows.column(a)) for a in names]
        arrays += [(f"the counts of '{a}'", rows.counts([a])) for a in names]
        arrays += [(f"the counts of '{a}', '{b}'", rows.counts([a, b])) for a in names for b in names if a != b]
        arrays += [("the counts of all columns", rows.counts(names))]
    else:
        X, y = table.arrays
        Z = np.column_stack([X, y])
        arrays += [("the rows", X), ("the rows", X.T), ("the targets", y), ("Z'Z", Z.T @ Z), ("X'X", X.T @ X)]
        arrays += [(f"feature {j}", x) for j, x in enumerate(X.T)]
    return {_bytes(a.ravel()): name for name, a in arrays if a.size > 2 and np.unique(a).size > 2}


def _arrays_of(arguments: tuple[Any, ...]) -> list[NDArray[Any]]:
    return [a.codes if isinstance(a, Table) else a for a in arguments if isinstance(a, Table | np.ndarray)]


def _in_pickle(model: Any, arguments: tuple[Any, ...]) -> Iterator[Finding]:
    """Yield whether the bytes of the pickle hold the rows; an object that cannot be pickled has none."""
    try:
        content = pickle.dumps(model)
    except (TypeError, AttributeError, pickle.PicklingError, InputError):
        return
    for array in _arrays_of(arguments):
        for kind in (array.dtype, np.dtype(np.int64), np.dtype(np.float64)):
            for order in ("C", "F"):
                data = array.astype(kind).tobytes(order)
                if len(data) > 64 and data in content:
                    yield Finding("kept", "the pickle", "the private rows")
                    return
