"""Build the documentation into `site/` and check it: `python3 envs/build_site.py`. Needs `.venv` (envs/install.py).

Sphinx goes from the lock file `envs/site.txt` into an environment of its own, `.site`, made once. Every warning is an
error; then every link and anchor of the finished pages is followed, and what would ask another host is an error, too.
"""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAIN = ROOT / ".venv" / "bin" / "python"
HOME = ROOT / ".site"
LOCK = ROOT / "envs" / "site.txt"
OUT = ROOT / "site"


def main() -> int:
    """Install what is missing, build, and check."""
    if not MAIN.exists():
        print("the API pages import the library: first python3 envs/install.py", file=sys.stderr)
        return 2
    if Path(sys.executable) != MAIN:  # the same Python, whose packages the site's environment reads
        return subprocess.run([MAIN, __file__]).returncode
    try:
        install()
        options = ["--fail-on-warning", "--keep-going", "--quiet", "--doctree-dir", HOME / "doctrees"]
        subprocess.run([HOME / "bin" / "python", "-m", "sphinx", *options, ROOT / "docs", OUT], check=True)
        subprocess.run([MAIN, ROOT / ".ci" / "check_site.py", OUT], check=True)
    except subprocess.CalledProcessError as error:
        return error.returncode
    print(f"{OUT / 'index.html'}")
    return 0


def install() -> None:
    """Make the environment from the lock file, unless it is there already."""
    stamp = HOME / "installed-from"
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest() + f" python {sys.version.split()[0]}\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    venv.create(HOME, with_pip=False, symlinks=True, clear=True)
    options = ["--quiet", "--compile-bytecode", "--no-deps", "--require-hashes", "--python", HOME / "bin" / "python"]
    try:
        subprocess.run([sys.executable, "-m", "uv", "pip", "install", *options, "--requirement", LOCK], check=True)
    except subprocess.CalledProcessError:  # as envs/install.py: uv may not be to be had
        pip = [sys.executable, "-m", "pip", "--python", HOME / "bin" / "python", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--require-hashes", "--requirement", LOCK], check=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    sys.exit(main())
