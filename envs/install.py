"""Create or bring up to date the isolated environment `.venv` from the lock file.

Run with any Python >= 3.11 from anywhere: `python3 envs/install.py`. A second run does nothing.
Needs nothing but the standard library; packages come from the index that pip is configured for.
"""

import hashlib
import os
import platform
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK, UV_LOCK = ROOT / "envs" / "requirements.txt", ROOT / "envs" / "uv.txt"
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
STAMP = VENV / "installed-from"
TORCH = "2.13.0"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"


def main() -> int:
    """Install what the lock file says, and the package itself in editable form."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever Python there is
        print(f"marginalia needs Python >= 3.11, this is {platform.python_version()}", file=sys.stderr)
        return 2
    wanted = fingerprint()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return 0
    print(f"installing the locked environment into {VENV}", flush=True)
    try:
        if not (BIN / "python").exists() and not (BIN / "python.exe").exists():
            venv.create(VENV, with_pip=True, clear=VENV.exists())
        install_locked()
        install_torch()
        run("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
        run("-m", "compileall", "-q", str(ROOT / "src"))  # each job of a sweep imports it anew
    except subprocess.CalledProcessError as error:
        print(f"installation failed in: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    STAMP.write_text(wanted)
    # Compiled for this machine now, the first fit need not wait for it; where that fails, it does.
    print("compiling for this machine, which takes up to a minute", flush=True)
    subprocess.run([BIN / "python", "-W", "ignore", ROOT / "envs" / "compile_kernels.py"], check=False)
    return 0


def fingerprint() -> str:
    """Return what the environment depends on."""
    digest = hashlib.sha256()
    for path in (LOCK, ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return f"{digest.hexdigest()} python {platform.python_version()}\n"


def install_locked() -> None:
    """Install the lock file with uv, which takes seconds, or with pip where uv is not to be had."""
    options = ("--no-deps", "--require-hashes", "--requirement", str(LOCK))
    try:
        hashed = ("--require-hashes", "--requirement", str(UV_LOCK))
        run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *hashed)
        run("-m", "uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", str(BIN / "python"), *options)
    except subprocess.CalledProcessError:
        run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options)


def install_torch() -> None:
    """Install the CPU build of torch; without it everything but DP-SGD by Opacus works.

    A version ending in ``+cpu`` can never resolve to a CUDA build. Its hash is not pinned: it is another one for each
    system and each Python, on an index that the lock file is not made from.
    """
    pin = f"torch=={TORCH}" if sys.platform == "darwin" else f"torch=={TORCH}+cpu"
    attempts = [(pin,)] if sys.platform == "darwin" else [(pin,), (pin, "--index-url", CPU_WHEELS)]
    for attempt in attempts:
        try:
            run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *attempt)
            return
        except subprocess.CalledProcessError:
            continue
    print("note: no CPU build of torch could be had; DP-SGD by Opacus will be missing", file=sys.stderr)


def run(*arguments: str) -> None:
    """Run the environment's Python."""
    subprocess.run([BIN / "python", *arguments], check=True)


if __name__ == "__main__":
    sys.exit(main())
