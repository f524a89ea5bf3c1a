"""What a synthesizer's files hold, and how many rows it can be asked for."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginalia.data.files import atomic_path
from marginalia.errors import InputError
from marginalia.memory import check_cost, short

FORMAT = "marginalia-synthesizer"
FORMAT_VERSION = 2
_BYTES_A_VALUE = 24  # of a sampled table: codes, the random numbers behind them, and the frame that is written
_PACKED_BYTES_A_VALUE = 1 / 16  # in a Parquet file, at the least: half a bit


def read_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Mapping[str, NDArray[Any]]]:
    """Return the header and the arrays of a file written by `Synthesizer.save`.

    >>> read_arrays("/dev/null")
    Traceback (most recent call last):
    marginalia.errors.InputError: /dev/null is not a synthesizer file ...
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            state = {name: archive[name] for name in archive.files}
        header = json.loads(state.pop("header").tobytes())
    except OSError as error:
        raise InputError(f"cannot read model {path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError, NotImplementedError) as error:
        raise InputError(f"{path} is not a synthesizer file ({type(error).__name__}); write one with .save()") from None
    except (zipfile.BadZipFile, zlib.error):
        raise InputError(f"{path} is damaged: it is no whole npz file; write it again with .save()") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path} is not a synthesizer file; write one with .save()")
    if header.get("version") != FORMAT_VERSION:
        said = f"version {header.get('version')!r} of the format, this marginalia reads version {FORMAT_VERSION}"
        raise InputError(f"model {path} has {said}; fit it again")
    return header, state


def write_arrays(path: str | os.PathLike[str], header: Mapping[str, Any], state: Mapping[str, NDArray[Any]]) -> None:
    """Write a header and arrays for `read_arrays`, atomically.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_arrays(f"{folder}/m.npz", {"class": "MST"}, {"total": np.ones(1)})
    ...     read_arrays(f"{folder}/m.npz")[1]
    {'total': array([1.])}
    """
    text = json.dumps(_jsonable({"format": FORMAT, "version": FORMAT_VERSION, **header}))
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, header=np.frombuffer(text.encode(), dtype=np.uint8), **state)  # type: ignore[arg-type]


def _jsonable(value: Any) -> Any:
    """Return JSON's types for NumPy's numbers, and a list of pairs for what maps marginals to their weights."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        items = {k: _jsonable(v) for k, v in value.items()}
        return items if all(isinstance(k, str) for k in items) else list(items.items())
    return [_jsonable(v) for v in value] if isinstance(value, list | tuple) else value


def check_number(n_rows: object) -> None:
    """Refuse a number of rows that is none.

    >>> check_number(-1)
    Traceback (most recent call last):
    marginalia.errors.InputError: n_rows must be a non-negative integer, not -1
    """
    if isinstance(n_rows, bool) or not isinstance(n_rows, int | np.integer) or n_rows < 0:
        raise InputError(f"n_rows must be a non-negative integer, not {n_rows!r}")


def check_rows(n_rows: int, n_columns: int) -> None:
    """Refuse a synthetic table that does not fit in memory.

    >>> check_rows(10**12, 14)
    Traceback (most recent call last):
    marginalia.errors.InputError: a table of 1,000,000,000,000 rows and 14 columns needs ... MB of memory, ...
    """
    what = f"a table of {short(n_rows)} rows and {n_columns} columns"
    check_cost(what, _BYTES_A_VALUE * n_rows * n_columns, mend="ask for fewer rows, or draw them with `sample_batches`")


def check_room(path: str | os.PathLike[str], n_rows: int, n_columns: int) -> None:
    """Refuse a file of synthetic rows that the disk has no room for.

    >>> check_room("rows.csv", 10**15, 14)
    Traceback (most recent call last):
    marginalia.errors.InputError: rows.csv: 1e+15 rows and 14 columns take at least ... MB, the disk has ...
    """
    least = (_PACKED_BYTES_A_VALUE if os.fspath(path).endswith(".parquet") else 2) * n_rows * n_columns
    folders = Path(path).resolve().parents  # some may still have to be made
    free = shutil.disk_usage(next(folder for folder in folders if folder.exists())).free
    if least > free:
        said = f"take at least {short(int(least) >> 20)} MB, the disk has {short(free >> 20)} MB left"
        raise InputError(f"{path}: {short(n_rows)} rows and {n_columns} columns {said}; ask for fewer rows")


def family(cls: type[Any]) -> Iterator[type[Any]]:
    """Yield a class and all that derive from it.

    >>> class Above: ...
    >>> class Below(Above): ...
    >>> [kind.__name__ for kind in family(Above)]
    ['Above', 'Below']
    """
    yield cls
    for child in cls.__subclasses__():
        yield from family(child)


def parameter(value: Any) -> Any:
    """Undo JSON's turning of tuples into lists: a workload is a list of tuples of columns, some with a weight.

    >>> parameter([["a", "b"]])
    [('a', 'b')]
    """

    def tupled(value: Any) -> Any:
        return tuple(tupled(v) for v in value) if isinstance(value, list) else value

    return list(tupled(value)) if isinstance(value, list) else value
