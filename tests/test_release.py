"""What is installed from the package index: the core without the extras, and what is said where an extra is missing."""

import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ALONE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""
TABLE = "age,ward,stay\n" + "".join(f"{a},{'ab'[a % 2]},{a % 7}\n" for a in range(60))
DOMAIN = {
    "source": "documented",
    "attributes": [
        {"name": "age", "type": "integer", "kind": "numeric", "edges": [0, 20, 40, 60]},
        {"name": "ward", "type": "string", "labels": ["a", "b"]},
        {"name": "stay", "type": "integer", "kind": "numeric", "edges": [0, 2, 4, 7]},
    ],
}


def installed_with(requirements):
    """Return the distributions that an installation of some requirements brings."""
    waiting, found = [Requirement(r) for r in requirements], set()
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not any(one.marker.evaluate({"extra": e}) for e in {"", *one.extras})):
            continue
        found.add(name)
        with suppress(PackageNotFoundError):  # of another system
            waiting += [Requirement(r) for r in requires(name) or () if "extra ==" not in r]
    return found


@pytest.fixture(scope="module")
def core():
    """The distributions that the package alone brings."""
    return installed_with(PROJECT["dependencies"])


@pytest.fixture(scope="module")
def beyond(core):
    """All other modules that are installed. Not at import: to look for them takes a second in each process of tests."""
    return {
        module
        for module, owners in packages_distributions().items()
        if not {canonicalize_name(owner) for owner in owners} & {*core, "marginalia"}
    }


def run_without(modules, *commands, folder):
    """Run command lines in one process that lacks some modules."""
    calls = "".join(
        f"sys.argv = ['marginalia', *{command.split()!r}]\ntry: main()\nexcept SystemExit as e: codes.append(e.code)\n"
        for command in commands
    )
    head = f"BLOCKED = {sorted(modules)!r}\n{ALONE}from marginalia.cli import main\ncodes = []\n"
    code = f"{head}{calls}print(codes)"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


def test_the_core_is_small(core, beyond):
    """The packages that one must trust in order to release a table; the sweep brings as many again."""
    assert len(core) <= 40, sorted(core)
    assert not core & {"snakemake", "matplotlib", "torch", "opacus", "requests", "folktables", "jinja2"}
    assert {"snakemake", "matplotlib", "torch", "requests", "folktables", "jinja2", "ibis"} & beyond


@pytest.mark.slow
def test_fits_tables_and_certificates_need_the_core_only(beyond, tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(DOMAIN))
    rows = "--data t.csv --domain d.yaml --epsilon 1"
    done = run_without(
        beyond,
        "domain init t.csv",
        "datasets check t.csv --domain d.yaml",
        "methods list",
        f"fit --method ada_ssp {rows} --target stay --out m.json",
        f"fit --method objective_perturbation {rows} --target ward",
        "predict --model m.json --data t.csv --out p.csv",
        f"synthesize --method independent {rows} --out s.csv",
        "certify s.csv.certificate.json",
        "quality t.csv s.csv --domain d.yaml",
        folder=tmp_path,
    )
    assert done.stdout.splitlines()[-1] == str([0] * 9), done.stdout + done.stderr
    assert "verdict       certified" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        ("plan", "snakemake", "sweep"),
        ("quality t.csv t.csv --domain d.yaml --out q.html", "matplotlib", "report"),
    ],
)
def test_a_missing_extra_is_named_in_one_line(command, missing, extra, tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "d.yaml").write_text(yaml.safe_dump(DOMAIN))
    done = run_without({missing}, command, folder=ROOT if command == "plan" else tmp_path)
    said = f"marginalia: this needs {missing}, which is not installed: pip install 'marginalia[{extra}]'\n"
    assert done.stderr.endswith(said), done.stderr
    assert done.stdout.splitlines()[-1] == "[2]"
    assert not (tmp_path / "q.html").exists()


def test_all_extras_but_those_apart_are_locked():
    """torch comes by envs/install.py; Spark is half a gigabyte; the reference has its own environment."""
    locked = set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==", (ROOT / "envs/requirements.txt").read_text(), flags=re.M))
    for extra, requirements in PROJECT["optional-dependencies"].items():
        for name in {canonicalize_name(Requirement(r).name) for r in requirements} - {"marginalia", "torch"}:
            assert name in locked or extra in ("spark", "reference"), f"{name} of {extra}"


def test_the_version_is_written_once_more_only():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    assert str(cited) == PROJECT["version"]
