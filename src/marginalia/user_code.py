"""Python files of a user's: imported here, and tried in a process of their own first."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from marginalia.errors import InputError, unknown_name
from marginalia.waiting import longest, too_long


class _Source(SourceFileLoader):
    """Reads the file each time and leaves nothing beside it: bytecode is told from a newer file by seconds and size."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def class_from_file(path: Path, name: str) -> type:
    """Import a user's Python file and return its class `name`; what goes wrong is one line.

    >>> class_from_file(Path("none.py"), "Mine")
    Traceback (most recent call last):
    marginalia.errors.InputError: Python file none.py does not exist
    """
    classes = {k: v for k, v in vars(import_file(path)).items() if inspect.isclass(v)}
    if name not in classes:
        raise unknown_name(f"class in {path}", name, classes)
    return classes[name]


def import_file(path: Path) -> ModuleType:
    """Import a user's Python file, anew each time; what goes wrong is one line."""
    if not path.is_file():
        raise InputError(f"Python file {path} does not exist")
    loader = _Source(f"marginalia_own_{path.stem}", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"Python file {path} cannot be imported: {why}") from None
    return module


def try_import(path: Path) -> None:
    """Import a user's Python file in a new process: one that ends its process there does not end this one.

    Raises
    ------
    InputError
        It ends the process, hangs, or cannot be imported.

    >>> try_import(Path("none.py"))
    Traceback (most recent call last):
    marginalia.errors.InputError: Python file none.py does not exist
    """
    if not path.is_file():
        raise InputError(f"Python file {path} does not exist")
    status = path.stat()
    _try_import(path.absolute(), status.st_mtime_ns, status.st_size)


# Not a fork: a copy of a process whose linear algebra has threads can hang. What the file prints goes nowhere.
_TRIAL = """
import os, sys
answer, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
for file in range(3):
    os.dup2(null, file)
sys.path[:] = sys.argv[2:]
from marginalia import user_code
os.write(answer, b".")  # from here on the time counts
try:
    user_code.import_file(user_code.Path(sys.argv[1]))
    os.write(answer, b"imported")
except BaseException as error:
    os.write(answer, str(error).encode(errors="replace"))
finally:
    os._exit(0)
"""


@cache  # its time and size tell an edition of the file
def _try_import(path: Path, *edition: int) -> None:
    seconds, command = longest(), [sys.executable, "-c", _TRIAL, str(path), *sys.path]
    null = subprocess.DEVNULL
    # Without a buffer, which would keep what follows the first byte from `communicate`.
    with subprocess.Popen(command, bufsize=0, stdin=null, stdout=subprocess.PIPE, stderr=null) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        try:
            said, _ = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            raise InputError(f"Python file {path} cannot be imported: {too_long(seconds)}") from None
    if not said:
        how = child.returncode
        what = f"signal {-how}" if how < 0 else f"exit code {how}"
        raise InputError(f"Python file {path} cannot be imported: it ends the process with {what}")
    if said != b"imported":
        raise InputError(said.decode(errors="replace"))
