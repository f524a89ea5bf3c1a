"""Folders in which rows go out to a peer and what it makes comes back."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "marginalia-exchange-"


@contextmanager
def exchange() -> Iterator[Path]:
    """Yield a folder that nobody else can read, and that is gone afterwards."""
    sweep()
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep() -> None:
    """Take away the folders whose owners have ended: however a process ends, the system opens its locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is somebody's
            lock = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):  # before it was locked another process has swept it
            lock = _lock(folder, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _lock(folder: Path, operation: int) -> int:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, operation)
    except OSError:
        os.close(lock)
        raise
    return lock
