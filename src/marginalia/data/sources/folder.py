"""The data files of a folder, a pattern or a list: each once, and what was left out is said."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from marginalia.errors import InputError

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_SHOWN = 3  # names in a line of what was skipped


@dataclass(frozen=True)
class DataFiles:
    """Files of a table, in the order of their names, or in that of a list.

    Attributes
    ----------
    paths : tuple of str
    skipped : dict of str to list of str
        By the reason, what of a folder or pattern is not read: names below the folder; a folder's name ends in a slash.

    Examples
    --------
    >>> print(DataFiles(("a.csv",), {"hidden": [".ipynb_checkpoints/"], "no table": ["README.md"]}).line())
    skipped: .ipynb_checkpoints/ (hidden); README.md (no table)
    """

    paths: tuple[str, ...]
    skipped: dict[str, list[str]]

    def line(self) -> str:
        """Return one line on what was skipped; empty where nothing was."""
        told = []
        for why, names in self.skipped.items():
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            told.append(f"{', '.join(sorted(names)[:_SHOWN])}{more} ({why})")
        return f"skipped: {'; '.join(told)}" if told else ""


def data_files(given: Paths, endings: Sequence[str]) -> DataFiles:
    r"""Return the data files of a folder, a pattern or a list, each once.

    As Spark does, files and folders whose names begin with a dot or an underscore are skipped (``_SUCCESS``,
    ``_temporary/``, ``.ipynb_checkpoints/``), unless they name a column (``_year=2024/``) or the pattern spells that
    sign. Of a folder, files with other endings are skipped too, and links to folders, which could lead in a circle.

    Parameters
    ----------
    given : path of a file or folder, pattern such as ``year=*/part-*``, or iterable of paths
    endings : sequence of str
        Of the data files of a folder.

    Raises
    ------
    InputError
        A file stands twice, by its place on the disk (a symbolic or hard link, another way to it) or as ``t.csv``
        beside ``t.csv.gz``: its rows would count twice; or a list or pattern names no file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("a.csv", "_SUCCESS"):
    ...         _ = Path(folder, name).write_text("x\n1\n")
    ...     found = data_files(folder, [".csv"])
    ...     [Path(path).name for path in found.paths], found.skipped
    (['a.csv'], {'hidden': ['_SUCCESS']})
    """
    skipped: dict[str, list[str]] = {}
    if not isinstance(given, str | os.PathLike):
        paths = [os.fspath(path) for path in given]
    elif os.path.isdir(text := os.fspath(given)):
        paths = sorted(_below(text, endings, skipped))
    elif glob.has_magic(text) and not os.path.exists(text):
        paths = sorted(_matching(text, skipped))
    else:
        paths = [text]
    _check_each_once(paths)
    return DataFiles(tuple(paths), skipped)


def _below(folder: str, endings: Sequence[str], skipped: dict[str, list[str]]) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        below = Path(place).relative_to(folder)
        for name in folders:
            if _is_hidden(name):
                skipped.setdefault("hidden", []).append(f"{below / name}/")
            elif os.path.islink(os.path.join(place, name)):
                skipped.setdefault("a link to a folder", []).append(f"{below / name}/")
        folders[:] = [name for name in folders if not _is_hidden(name)]
        for name in files:
            if _is_hidden(name):
                skipped.setdefault("hidden", []).append(str(below / name))
            elif not name.endswith(tuple(endings)):
                skipped.setdefault("no table", []).append(str(below / name))
            else:
                yield str(Path(place, name))


def _matching(pattern: str, skipped: dict[str, list[str]]) -> Iterator[str]:
    parts = Path(pattern).parts
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    asked = {part[0] for part in parts[fixed:] if part[0] in "._"}
    for path in glob.glob(pattern, recursive=True):
        free = [part for part in Path(path).parts[fixed:] if part[0] not in asked]
        if any(map(_is_hidden, free)):
            skipped.setdefault("hidden", []).append(path)
        else:
            yield path


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _check_each_once(paths: Sequence[str]) -> None:
    seen: dict[object, str] = {}
    for path in paths:
        stem = "stem", os.path.abspath(path.removesuffix(".gz"))
        for key, why in ((_identity(path), "are one file"), (stem, "may hold the same rows")):
            if key in seen:
                twice = f"{path} stands twice" if seen[key] == path else f"{seen[key]} and {path} {why}"
                raise InputError(f"{twice}: rows would be counted twice; leave one out, or name the files by a pattern")
        seen |= {_identity(path): path, stem: path}


def _identity(path: str) -> object:
    """Return what a file is whatever it is called: its place on the disk, else where its name leads."""
    try:
        status = os.stat(path)
    except OSError:  # said when it is read
        return os.path.realpath(path)
    return status.st_dev, status.st_ino
