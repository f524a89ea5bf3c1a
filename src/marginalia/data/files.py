"""Write a file completely or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marginalia.errors import InputError


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it takes the name `path`, on failure it is removed.

    Missing parent folders are made; one that cannot be made or written is an `InputError`.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_path(f"{folder}/new/table.csv") as temporary:
    ...         _ = temporary.write_text("a")
    ...     Path(folder, "new", "table.csv").read_text()
    'a'
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}; choose a folder you can write to") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files private; results are for sharing
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path` in UTF-8, atomically.

    >>> write_text("/dev/null/table.csv", "a")
    Traceback (most recent call last):
    marginalia.errors.InputError: cannot write /dev/null/table.csv: ...
    """
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
