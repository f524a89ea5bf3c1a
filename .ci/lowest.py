"""Make an environment with the lowest supported version of every direct dependency: `lowest.py FOLDER`.

Run with the Python of `.venv`, which brings uv. The lower bounds of `pyproject.toml` are the versions that must be
installed: a dependency without a bound, or one whose bound cannot be met beside the other bounds, is an error. Indirect
dependencies take their newest versions, and the test tools those of the lock file.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "statsmodels", "polars")
# Left out: torch has another build for each system, on an index of its own, and Spark and the reference of Private-PGM
# have environments of their own.
EXTRAS = ("datasets", "report", "sweep", "inference", "notebooks", "postgresql")


def direct_requirements(content: dict) -> list[Requirement]:
    """Return the direct dependencies: of the build, of the core and of the tested extras."""
    project = content["project"]
    lines = content["build-system"]["requires"] + project["dependencies"]
    lines += [line for extra in EXTRAS for line in project["optional-dependencies"][extra]]
    return [one for one in map(Requirement, lines) if one.name != project["name"]]


def lower_bound(requirement: Requirement) -> Version | None:
    """Return the version that `>=` or `==` names."""
    bounds = [Version(one.version) for one in requirement.specifier if one.operator in (">=", "==")]
    return max(bounds, default=None)


def pinned(lock: str) -> dict[str, str]:
    """Return the version of each package in a lock file."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, flags=re.M)
    return {canonicalize_name(name): version for name, version in pins}


def broken_bounds(requirements: list[Requirement], resolved: dict[str, str]) -> list[str]:
    """Return a line for each dependency that has no lower bound, or another version than its bound."""
    problems = []
    for requirement in requirements:
        bound = lower_bound(requirement)
        version = resolved[canonicalize_name(requirement.name)]
        if bound is None:
            problems.append(f"{requirement.name}: no lower bound")
        elif Version(version) != bound:
            problems.append(f"{requirement.name}: bound {bound}, but the other bounds need {version}")
    return problems


def main(folder: Path) -> int:
    """Resolve, check the bounds, install."""
    requirements = direct_requirements(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8")))
    locked = pinned((ROOT / "envs" / "requirements.txt").read_text(encoding="utf-8"))
    folder.mkdir(parents=True)
    wanted, lock = folder / "lowest.in", folder / "lowest.txt"
    lines = [str(requirement) for requirement in requirements] + [f"{name}=={locked[name]}" for name in TOOLS]
    wanted.write_text("\n".join(lines) + "\n")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    python = folder / "bin" / "python"
    resolve = ["pip", "compile", str(wanted), "--resolution", "lowest-direct", "--generate-hashes", "--no-annotate"]
    subprocess.run([*uv, *resolve, "--python", sys.executable, "--output-file", str(lock)], cwd=ROOT, check=True)
    resolved = pinned(lock.read_text(encoding="utf-8"))
    print(*sorted({f"{one.name}=={resolved[canonicalize_name(one.name)]}" for one in requirements}))
    if problems := broken_bounds(requirements, resolved):
        print(*problems, sep="\n")
        return 1
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [*uv, "pip", "install", "--python", str(python)]
    subprocess.run([*install, "--no-deps", "--require-hashes", "--requirement", str(lock)], check=True)
    subprocess.run([*install, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], check=True)
    return subprocess.run([str(python), "-m", "pip", "check"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
