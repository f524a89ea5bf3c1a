"""Write a file completely or not at all; read JSON and YAML strictly."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from marginalia.errors import InputError


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes the name `path`, on failure it is removed.

    It is on the disk before it takes the name, so that after a power failure too the name stands for a whole file.
    Missing parent folders are made; one that cannot be made or written is an `InputError`. What replaces a file for the
    owner alone, or stands in a folder for the owner alone, is for the owner alone too, whatever the umask: all writers
    come here, so none of them opens to others what a sweep on private rows has closed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with atomic_path(f"{folder}/new/table.csv") as temporary:
    ...         _ = temporary.write_text("a")
    ...     Path(folder, "new", "table.csv").read_text()
    'a'
    """
    target = Path(path)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(4)}{target.suffix}"
    try:
        closed = _is_closed(target)
        for folder in reversed([place for place in target.parents if not place.exists()]):
            folder.mkdir(mode=0o700 if closed else 0o777, exist_ok=True)
        temporary.touch(mode=0o600 if closed else 0o666, exist_ok=False)  # from now on, also while it is written
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose a folder you can write to") from None
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(target)
        with suppress(OSError):  # not every file system can
            _flush(target.parent)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _is_closed(path: Path) -> bool:
    """Whether a file, or the nearest folder above it, is there and nobody but the owner may read it."""
    folder = next(place for place in path.absolute().parents if place.exists())
    return any(not place.stat().st_mode & 0o077 for place in (path, folder) if place.exists())


def _flush(path: Path) -> None:
    """Return once what was written is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def for_the_owner(private: bool = True) -> Iterator[None]:
    """Let the owner alone read what the body writes: files are 0600 and folders 0700 from the moment they are there.

    Temporary files, what other libraries write, and what the processes write that the body starts are covered too, as
    it is the umask of this process; so a kill at any moment leaves nothing that others can read.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, for_the_owner():
    ...     write_text(f"{folder}/new/rows.csv", "a")
    ...     [oct(path.stat().st_mode & 0o777) for path in sorted(Path(folder).rglob("*"))]
    ['0o700', '0o600']
    """
    if not private:
        yield
        return
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path` in UTF-8, atomically.

    >>> write_text("/dev/null/table.csv", "a")
    Traceback (most recent call last):
    marginalia.errors.InputError: cannot write /dev/null/table.csv: ...
    """
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_content(path: str | os.PathLike[str], what: str, *, as_json: bool = False) -> Any:
    """Read a JSON file (by its ending, or `as_json`) or else a YAML file; `what` names it in error messages.

    Refused are keys that stand twice, keys that YAML takes for truth values, and whole numbers that it takes for
    octal (``012``) or sexagesimal (``1:30``).

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/d.json", '{"age": 8, "age": 9}')
    ...     read_content(f"{folder}/d.json", "domain file")
    Traceback (most recent call last):
    marginalia.errors.InputError: ...d.json: key 'age' stands twice; keep one
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {what} {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{what} {path} is not UTF-8 text") from None
    try:
        return _json(text) if as_json or Path(path).suffix == ".json" else _yaml(text)
    except _RefusedError as error:
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None


class _RefusedError(Exception):
    """A file says something that cannot be meant; the message says what."""


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _RefusedError(f"not valid JSON ({error.msg}, line {error.lineno})") from None
    except ValueError as error:  # a number of thousands of digits
        raise _RefusedError(f"not valid JSON ({str(error).split(';')[0]})") from None


def _unique(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    content: dict[Any, Any] = {}
    for key, value in pairs:
        if key in content:
            raise _RefusedError(f"key '{key}' stands twice; keep one")
        content[key] = value
    return content


def _yaml(text: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        _check_size(root)
        _check_nodes(root)
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise _RefusedError(f"not valid YAML ({error.problem or error.context}{place})") from None
    except (yaml.YAMLError, ValueError) as error:  # a character that is not allowed; a date that does not exist
        raise _RefusedError(f"not valid YAML ({' '.join(str(error).split())})") from None
    finally:
        loader.dispose()


MOST_NODES = 10**6


def _check_size(root: Any) -> None:
    """Raise where anchors and merges stand for more than `MOST_NODES`: a few lines can mean any number."""
    sizes: dict[int, float] = {}
    waiting = [(root, False)]
    while waiting:
        node, done = waiting.pop()
        parts = [] if node.id == "scalar" else node.value
        if node.id == "mapping":
            parts = [part for pair in parts for part in pair]
        if done:
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in parts)
        elif id(node) not in sizes:
            sizes[id(node)] = math.inf  # until it is known: what holds itself has no end
            waiting.append((node, True))
            waiting += [(part, False) for part in parts]
    if sizes[id(root)] - len(sizes) > MOST_NODES:
        raise _RefusedError(f"its anchors (&, *) stand for more than {MOST_NODES:,} values; write fewer")


def _check_nodes(root: Any) -> None:
    """Raise for what YAML reads as something else than it says; each node once, as anchors may make circles."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        line = f"line {node.start_mark.line + 1}"
        if node.id == "scalar":
            if node.tag == "tag:yaml.org,2002:int" and re.fullmatch(r"[-+]?(0[0-9_]+|[0-9_]+(:[0-9]+)+)", node.value):
                raise _RefusedError(f"{line}: YAML reads {node.value} as another number; put it in quotes")
        elif node.id == "sequence":
            waiting.extend(reversed(node.value))
        else:
            names = set()
            for key, value in node.value:
                place, kind = f"line {key.start_mark.line + 1}", key.tag.rpartition(":")[2]
                if key.id != "scalar" or kind not in ("str", "int", "float", "merge"):
                    raise _RefusedError(f"{place}: YAML reads key {key.value!r} as {kind}; put it in quotes")
                if key.value in names:
                    raise _RefusedError(f"{place}: key '{key.value}' stands twice; keep one")
                names.add(key.value)
                waiting += [key, value]
