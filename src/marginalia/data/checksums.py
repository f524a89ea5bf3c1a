"""A checksum inside each file that a sweep stores: a byte that changes later is noticed on reading.

Such a file is written with `BLANK` in it: as a value of its JSON or of a Parquet file's metadata, or as the comment of
an npz archive. `seal` puts the hash of the whole file, blank included, in its place, and so the checksum goes where the
file goes. What others write, and the rest of a folder, is sealed by the JSON file beside it that describes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalia.data.files import atomic_path
from marginalia.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_AGAIN = "delete it, and snakemake makes it again"
_WORD = "marginalia seal "
BLANK = _WORD + "0" * 64
_SEAL = re.compile(rb"marginalia seal ([0-9a-f]{64})")


class DamagedError(InputError):
    """A stored file is not what was written.

    >>> raise DamagedError("t.parquet is damaged: it is empty")
    Traceback (most recent call last):
    marginalia.data.checksums.DamagedError: t.parquet is damaged: it is empty
    """


def seal(path: Path) -> None:
    """Put the hash of a file in the place of its last `BLANK`.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w") as file:
    ...     _ = file.write(f"rows # {BLANK}")
    ...     file.flush()
    ...     seal(Path(file.name))
    ...     sealed(file.name)[:23]
    b'rows # marginalia seal '
    """
    content = path.read_bytes()
    with open(path, "r+b") as file:
        file.seek(content.rindex(BLANK.encode()) + len(_WORD))
        file.write(hashlib.sha256(content).hexdigest().encode())


def sealed(path: str | os.PathLike[str], *, required: bool = True) -> bytes:
    """Return the content of a sealed file; unless that is `required`, also of one of an earlier version, without seal.

    Raises
    ------
    InputError
        The file cannot be read.
    DamagedError
        It is not what was written.

    Examples
    --------
    >>> sealed(os.devnull)
    Traceback (most recent call last):
    marginalia.data.checksums.DamagedError: /dev/null is damaged: it is empty; delete it, and snakemake makes it again
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if not content:
        raise DamagedError(f"{path} is damaged: it is empty; {_AGAIN}")
    *_, last = [None, *_SEAL.finditer(content)]
    if last is None:
        if required:
            raise DamagedError(f"{path} is damaged, or of an earlier version: it has no checksum; {_AGAIN}")
        return content
    view, digest = memoryview(content), hashlib.sha256()
    for part in (view[: last.start(1)], b"0" * 64, view[last.end(1) :]):
        digest.update(part)
    if digest.hexdigest().encode() != last[1]:
        raise DamagedError(f"{path} is damaged: it does not have its checksum; {_AGAIN}")
    return content


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal.

    >>> sha256_of(os.devnull)[:12]
    'e3b0c44298fc'
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def write_description(path: Path, content: Mapping[str, Any], files: Iterable[Path]) -> None:
    """Write a JSON object as the sealed description of files beside it, which are there already, atomically.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     rows = Path(folder, "rows.csv")
    ...     _ = rows.write_text("a")
    ...     write_description(Path(folder, "of.json"), {"n": 1}, [rows])
    ...     print(read_description(Path(folder, "of.json"))["n"])
    ...     _ = rows.write_text("b")
    ...     read_description(Path(folder, "of.json"))
    Traceback (most recent call last):
    marginalia.data.checksums.DamagedError: ...rows.csv is damaged; delete ...of.json, and snakemake...
    """
    hashes = {file.name: sha256_of(file) for file in files}
    text = json.dumps({**content, "sha256": hashes, "seal": BLANK}, indent=1) + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
        seal(temporary)


def read_description(path: Path) -> dict[str, Any]:
    """Return what `write_description` wrote, once the files beside it are found to be those that it describes.

    Raises
    ------
    InputError
        The description cannot be read.
    DamagedError
        It, or one of the files, is damaged or missing.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_description(Path(folder, "of.json"), {"n": 1}, [])
    ...     read_description(Path(folder, "of.json"))["n"]
    1
    """
    content: dict[str, Any] = json.loads(sealed(path))
    for name, expected in content["sha256"].items():
        file = path.with_name(name)
        if not file.exists():
            raise DamagedError(f"{file} is missing; delete {path}, and snakemake makes both again")
        if sha256_of(file) != expected:
            raise DamagedError(f"{file} is damaged; delete {path}, and snakemake makes both again")
    return content


def write_parquet(
    path: str | os.PathLike[str], table: pa.Table, metadata: Mapping[str | bytes, str | bytes] = {}, **options: Any
) -> None:
    """Write a sealed Parquet file, atomically; `options` are those of ``pyarrow.parquet.ParquetWriter``.

    >>> import pyarrow
    >>> write_parquet("/dev/null/rows.parquet", pyarrow.table({"a": [1]}))
    Traceback (most recent call last):
    marginalia.errors.InputError: cannot write /dev/null/rows.parquet: ...
    """
    import pyarrow.parquet as pq

    with atomic_path(path) as temporary:
        with pq.ParquetWriter(temporary, table.schema, **options) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({**metadata, "marginalia.seal": BLANK})
        seal(temporary)


def seal_archive(path: Path) -> None:
    """Seal an npz archive.

    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile(suffix=".npz") as file:
    ...     zipfile.ZipFile(file.name, "w").close()
    ...     seal_archive(Path(file.name))
    ...     len(sealed(file.name))
    102
    """
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = BLANK.encode()
    seal(path)
