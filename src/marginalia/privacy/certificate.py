"""Certificates: a JSON document with the method, the protected rows, all events and their cost, to be verified."""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from marginalia import __version__
from marginalia.data.checksums import sha256_of
from marginalia.data.files import atomic_path, read_content, write_text
from marginalia.errors import InputError
from marginalia.privacy.events import GaussianEvent, count_events
from marginalia.privacy.ledger import Ledger

FORMAT = "marginalia-certificate"
FORMAT_VERSION = 1
MOST_BYTES = 50_000_000  # of the JSON that is read: a certificate has a few thousand, a wide model some millions
MOST_EVENTS = 100_000
MOST_KINDS = 100  # of different releases that are not Gaussian: each has its own loss distribution
ENDING = ".certificate.json"  # of the certificate of a table
HASH = "table_sha256"  # the key that binds a certificate to the bytes of its table


@dataclass(frozen=True)
class Certificate:
    """The certificate of one fitted model.

    Parameters
    ----------
    content : mapping
        In plain JSON types: ``format``, ``version`` and ``software``; ``method`` and its public ``parameters`` (never
        the seed); all keys of `Ledger.summary`; and ``table_sha256`` if a table was released.
    others : tuple of mappings
        Parameters at other places of the same file, which must not contradict the certificate.

    Examples
    --------
    >>> from marginalia.privacy.events import GaussianEvent
    >>> class Mean:
    ...     ledger_ = Ledger("replace_one", epsilon=1.0, delta=1e-5)
    >>> Mean.ledger_.append(GaussianEvent(sensitivity=1.0, sigma=4.0, label="sum"), "system")
    >>> certificate = Certificate.of(Mean())
    >>> certificate.content["method"], round(certificate.content["epsilon_spent"], 3)
    ('Mean', 0.926)
    """

    content: Mapping[str, Any]
    others: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, model: Any) -> Self:
        """Return the certificate of a fitted private model. Raise `InputError` if its ledger is not a `Ledger`."""
        ledger = getattr(model, "ledger_", None)
        if type(ledger) is not Ledger:
            raise InputError(f"this {type(model).__name__} has no ledger of marginalia's: it has no certificate")
        head = {"format": FORMAT, "version": FORMAT_VERSION, "software": f"marginalia {__version__}"}
        return cls({**head, "method": type(model).__name__, "parameters": _parameters(model), **ledger.summary()})

    def __repr__(self) -> str:
        try:
            description = repr(self.ledger)
        except InputError as error:
            description = str(error)
        return f"Certificate({self.content.get('method')}: {description})"

    def bind_to(self, path: str | os.PathLike[str]) -> Self:
        """Return this certificate with the SHA-256 of a released table."""
        return replace(self, content={**self.content, HASH: sha256_of(path)})

    def hash_mismatch(self, path: str | os.PathLike[str]) -> bool:
        """Whether the certificate holds the hash of another table than this one; False if it holds no hash."""
        return HASH in self.content and self.content[HASH] != sha256_of(path)

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, rebuilt from the events; see `Ledger.from_summary`.

        Raises
        ------
        InputError
            No fit can have led to these events, or there are more events than `MOST_EVENTS` or more kinds of events
            than `MOST_KINDS`, for which the accountants would need minutes.
        """
        _check_head(self.content)
        _check_number(self.content.get("events"))
        ledger = Ledger.from_summary(self.content)
        kinds = {part for event in ledger.events for part in count_events(event) if not isinstance(part, GaussianEvent)}
        if len(kinds) > MOST_KINDS:
            number = f"{len(kinds)} other than Gaussian releases that differ in parameters"
            raise InputError(f"the certificate lists {number}; no more than {MOST_KINDS} are recomputed")
        return ledger

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate as a JSON file, atomically."""
        write_text(path, json.dumps(self.content, indent=1) + "\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a certificate from its own file, from a model (JSON) or from a fitted synthesizer (npz).

        Raises
        ------
        InputError
            The file is missing, has another format, or holds a model that is not private.
        """
        content = _content(Path(path))
        others: tuple[Mapping[str, Any], ...] = ()
        if isinstance(content, dict) and content.get("format") != FORMAT and isinstance(content.get("params"), dict):
            others, content = (content["params"],), content.get("certificate", "")
            if content is None:
                raise InputError(f"{path} holds a model without privacy: it has no certificate")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(f"{path} is no certificate, model or synthesizer")
        if content.get("version") != FORMAT_VERSION:
            versions = f"its version is {content.get('version')!r}, this marginalia reads {FORMAT_VERSION}"
            raise InputError(f"{path} is no certificate of this version: {versions}")
        if missing := [name for name in ("method", "parameters") if name not in content]:
            raise InputError(f"{path}: '{missing[0]}' of the certificate is missing")
        certificate = cls(content, others)
        try:
            _ = certificate.ledger  # raises an error for impossible events
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        return certificate


def certificate_path(table: str | os.PathLike[str]) -> Path:
    """Return the path of the certificate of a table.

    >>> certificate_path("made.csv").name
    'made.csv.certificate.json'
    """
    return Path(f"{os.fspath(table)}{ENDING}")


@contextmanager
def write_with_certificate(model: Any, table: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path for the table of a fitted model, then move the table and its certificate into place.

    At no moment does a certificate lie next to a table with another hash: the old certificate is removed first, then
    the new table is moved, then the new certificate, which holds the SHA-256 of the table. If the table or the
    certificate cannot be written, for example on a full disk, the old pair is unchanged.

    Parameters
    ----------
    model : object
        With its ledger in ``ledger_``.
    table : path

    Raises
    ------
    InputError
        A file cannot be written, or the model has no certificate.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> class Mean:
    ...     ledger_ = Ledger("replace_one", epsilon=1.0, delta=1e-5)
    >>> with TemporaryDirectory() as folder:
    ...     table = Path(folder, "t.csv")
    ...     with write_with_certificate(Mean(), table) as path:
    ...         _ = path.write_text("a")
    ...     Certificate.read(certificate_path(table)).hash_mismatch(table)
    False
    """
    final, temporary = certificate_path(table), Path(table)
    waiting = final.with_name(f".{final.name}")
    try:
        with atomic_path(table) as temporary:
            yield temporary
            Certificate.of(model).bind_to(temporary).write(waiting)  # if the disk is full now, the old pair remains
            final.unlink(missing_ok=True)
        waiting.replace(final)
    except InputError as error:
        raise InputError(str(error).replace(str(temporary), str(table)).replace(str(waiting), str(final))) from None
    finally:
        waiting.unlink(missing_ok=True)


def _check_head(content: Mapping[str, Any]) -> None:
    """Raise `InputError` if the method or its parameters have a wrong type."""
    for name in ("method", "software"):
        if not isinstance(content.get(name, ""), str):
            raise InputError(f"'{name}' of the certificate is no text")
    parameters = content.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise InputError("'parameters' of the certificate is not an object of names and values")
    source = parameters.get("marginals")
    has_method = isinstance(source, Mapping) and isinstance(source.get("method"), str)
    if isinstance(source, Mapping) and not (has_method and isinstance(source.get("parameters"), Mapping)):
        raise InputError("'marginals' of the certificate's parameters is no method with its parameters")


def _check_number(events: Any) -> None:
    """Raise `InputError` if the tree of events has too many nodes, before any of them is read."""
    waiting, n = [events], 0
    while waiting:
        node = waiting.pop()
        inner = list(node.values()) if isinstance(node, Mapping) else node if isinstance(node, list) else ()
        n += isinstance(node, Mapping)
        waiting += [part for part in inner if isinstance(part, Mapping | list)]
        if n > MOST_EVENTS:
            raise InputError(f"the certificate lists more than {MOST_EVENTS} events; no more are recomputed")


def _check_size(path: Path, size: int) -> None:
    if size > MOST_BYTES:
        most = f"no more than {MOST_BYTES // 10**6} are read"
        raise InputError(f"{path} is no certificate, model or synthesizer: it holds {size // 10**6} MB of JSON; {most}")


def _parameters(model: Any) -> dict[str, Any]:
    """Return the constructor's parameters in plain JSON types, and those of a marginal source.

    Without the seed, which is secret, and what a learner says of its data: the digest of the domain is a public input.
    """
    if not hasattr(model, "get_params"):
        return {}
    values = model.get_params(deep=False)
    apart = {"random_state"} | ({"domain", "target"} if "domain" in values else set())
    parameters = {name: _plain(value) for name, value in sorted(values.items()) if name not in apart}
    if hasattr(model, "marginals_"):  # a model that only post-processes the release of this source
        parameters["marginals"] = _plain(model.marginals_)
    return parameters


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if hasattr(value, "get_params"):
        return {"method": type(value).__name__, "parameters": _parameters(value)}
    if is_dataclass(value) and not isinstance(value, type):
        return _plain({f.name: getattr(value, f.name) for f in fields(value)})
    return type(value).__name__


def _content(path: Path) -> Any:
    """Return the JSON of a file, or of the header of an npz file."""
    try:
        if path.suffix != ".npz" and not zipfile.is_zipfile(path):
            _check_size(path, path.stat().st_size if path.is_file() else 0)
            return read_content(path, "certificate", as_json=True)
        with zipfile.ZipFile(path) as archive:
            _check_size(path, archive.getinfo("header.npy").file_size)
        with np.load(path, allow_pickle=False) as arrays:
            return json.loads(arrays["header"].tobytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except InputError as error:
        if not path.is_file():
            raise
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path} is no certificate, model or synthesizer: {reason}") from None
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        RecursionError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        raise InputError(f"{path} is no certificate, model or synthesizer: it is no whole npz file") from None
