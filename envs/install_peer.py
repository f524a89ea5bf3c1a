"""Make the environment of a peer: `python3 envs/install_peer.py LIBRARY [COPY]`. A second run does nothing.

Packages are those of `envs/peers/LIBRARY.txt`, with hashes; they go into `.peers/LIBRARY` and nowhere else. Besides,
without their dependencies, what a line `# also: PACKAGE==VERSION` of `envs/peers/LIBRARY.in` names (CPU builds).
What became of it stands in `.peers/LIBRARY/environment.json`: `python`, or the `problem`; and in the file COPY. A peer
that cannot be installed is no error here: the fits that need it become rows that say so.
"""

import ast
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ADAPTERS, ENVIRONMENTS = Path("envs/peers"), Path(".peers")
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"


def main() -> int:
    """Install one peer, and say what became of it."""
    name = sys.argv[1]
    home = ENVIRONMENTS / name
    ENVIRONMENTS.mkdir(exist_ok=True)
    with open(ENVIRONMENTS / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # configurations that are run together need it at the same time
        record = home / "environment.json"
        wanted = fingerprint(name)
        made = read(record)
        if made.get("made_from") != wanted or made.get("problem"):
            made = {"python": "", "problem": "", "made_from": wanted}
            try:
                made["python"] = install(name, home)
            except (OSError, RuntimeError) as error:
                made["problem"] = " ".join(str(error).split())[:500]
            home.mkdir(exist_ok=True)
            write(record, made)
    print(f"{name}: {made['problem'] or made['python']}")
    for copy in sys.argv[2:]:
        write(Path(copy), made)
    return 0


def read(record: Path) -> dict[str, str]:
    """Return what a record says; one that was cut short says nothing."""
    try:
        made = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return made if isinstance(made, dict) else {}


def write(record: Path, made: dict[str, str]) -> None:
    """Write a record, whole or not at all."""
    part = record.with_name(f".{record.name}.{os.getpid()}")
    part.write_text(json.dumps(made) + "\n")
    part.replace(record)


def fingerprint(name: str) -> str:
    """Return what the environment depends on."""
    files = [ADAPTERS / f"{name}.in", ADAPTERS / f"{name}.txt", Path(__file__)]
    if not files[1].exists():
        files.append(ADAPTERS / f"{name}.py")
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes() if file.exists() else b"")
    return f"{digest.hexdigest()} python {sys.version.split()[0]}"


def install(name: str, home: Path) -> str:
    """Make the environment from nothing and return its Python."""
    lock = ADAPTERS / f"{name}.txt"
    if not lock.exists():
        raise RuntimeError(unavailable(ADAPTERS / f"{name}.py") or f"there is no lock file {lock}")
    if home.exists():
        shutil.rmtree(home)
    venv.create(home, with_pip=False, symlinks=True)
    python = str((home / "bin" / "python").absolute())
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python]
    run([*uv, "--no-deps", "--require-hashes", "--requirement", str(lock)])
    asked = ADAPTERS / f"{name}.in"
    for extra in re.findall(r"^# also: (\S+)$", asked.read_text() if asked.exists() else "", flags=re.M):
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", extra]
        try:  # as envs/install.py does: uv does not look where pip finds CPU builds
            run(pip)
        except RuntimeError:
            run([*pip, "--index-url", CPU_WHEELS])
    return python


def unavailable(adapter: Path) -> str:
    """Return why an adapter says that its library cannot be installed; its code is not run."""
    for node in ast.parse(adapter.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["UNAVAILABLE"]:
            return str(ast.literal_eval(node.value))
    return ""


def run(command: list[str]) -> None:
    """Run an installer of the main environment; what it says of a failure is the error."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"{command[2]} ended with exit code {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
