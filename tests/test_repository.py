"""What the repository promises about itself."""

import ast
import graphlib
import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "marginalia"


def load_script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


house = load_script(ROOT / "docs" / "architecture.py")  # also draws the picture
MODULES = house.modules()


def wing_of(module):
    """Return the paper that a module belongs to, if any."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["papers"] and len(parts) > 2 and (SOURCE / "papers" / parts[2]).is_dir() else None


# The public faces show the classes of `methods`, which lie above them; they load these when asked, and nothing else.
LAZY_FACES = {"marginalia.synthesis", "marginalia.learning"}


@pytest.mark.slow
def test_modules_import_only_from_floors_below():
    """Imports in functions, under TYPE_CHECKING and by name in a string count too."""
    climbs = []
    for module, path in MODULES.items():
        for other in house.imports(path, MODULES):
            here, there = module.split(".")[1:2], other.split(".")[1:2]
            if module == "marginalia":  # the face of the whole, by which no module of it imports
                allowed = there == ["privacy"]
            elif module in LAZY_FACES:
                allowed = there in (["methods"], ["papers"])
            else:
                allowed = here == there or house.floor_of(other) < house.floor_of(module)
            papers = {wing_of(module), wing_of(other)} - {None}
            if not allowed or len(papers) > 1:
                climbs.append(f"{module} imports {other}")
    assert not climbs


@pytest.mark.parametrize(
    "line",
    [
        "import marginalia.cli",
        "from marginalia.papers import registry",
        "def f():\n    from marginalia.sweep.plan import Job",
        "x = 'marginalia.reporting.tables:aggregate'",
        "x = f'marginalia.papers.{y}'",
    ],
)
def test_an_import_that_climbs_is_seen(line, tmp_path):
    (tmp_path / "m.py").write_text(f'"""marginalia.advice.costs is only named."""\n{line}\n')
    (seen,) = house.imports(tmp_path / "m.py", MODULES)
    assert house.floor_of(seen) > house.floor_of("marginalia.methods.ssp")


# Circles of imports that are allowed: public packages that load a class when it is asked for (module, what it loads).
LAZY_RE_EXPORTS = {(face, "marginalia.methods.registry") for face in LAZY_FACES}


def parents(module):
    """Yield the packages that an import of a module runs first."""
    while module := module.rpartition(".")[0]:
        if module in MODULES and module != "marginalia":
            yield module


def run_imports():
    """Return which modules each module imports when it or its functions run: by statement, or by name."""
    graph = {module: house.imports(path, MODULES, typing_only=False) for module, path in MODULES.items()}
    catalogue = tomllib.loads((SOURCE / "methods" / "catalogue.toml").read_text(encoding="utf-8"))
    classes = {path for entry in catalogue.values() for path in entry.get("classes", {}).values()}
    graph["marginalia.methods.registry"] |= {path.partition(":")[0] for path in classes}
    for module, others in graph.items():
        above = {parent for other in others for parent in parents(other)}
        others |= above - set(parents(module))
        others -= {module} | {loaded for face, loaded in LAZY_RE_EXPORTS if face == module}
        others -= set(parents("marginalia.methods.registry")) if module in LAZY_FACES else set()
    return graph


@pytest.mark.slow
def test_modules_do_not_import_each_other_in_a_circle():
    """Imports in functions and by name in a string or in the catalogue count; imports under TYPE_CHECKING do not."""
    try:
        graphlib.TopologicalSorter(run_imports()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.slow
def test_a_lazy_re_export_is_a_circle_that_the_test_would_see(monkeypatch):
    for allowed in LAZY_RE_EXPORTS:
        monkeypatch.setattr(f"{__name__}.LAZY_RE_EXPORTS", LAZY_RE_EXPORTS - {allowed})
        with pytest.raises(graphlib.CycleError):
            graphlib.TopologicalSorter(run_imports()).prepare()


def is_face(path):
    """Whether a file shows what other modules of its package define."""
    return path.name == "__init__.py" and len(ast.parse(path.read_text(encoding="utf-8")).body) > 1


FACES = {name for name, path in MODULES.items() if is_face(path)}


@pytest.mark.slow
def test_modules_import_from_where_things_are():
    """Never from the face of a package: that would import, and depend on, all that the face shows."""
    through = {module: house.imports(MODULES[module], MODULES, texts=False) & FACES for module in set(MODULES) - FACES}
    assert not {module: faces for module, faces in through.items() if faces}


@pytest.mark.slow
def test_the_picture_of_the_house_is_of_this_house():
    """After a change: python docs/architecture.py."""
    assert house.PICTURE.read_text(encoding="utf-8") == house.picture()


def test_the_page_of_the_house_names_what_is_there():
    """In backticks: a module or what it holds, without ``marginalia.``; or a path, of the library or the repository."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([^`\s]+)`", page))
    dotted = {n for n in named if re.fullmatch(r"[a-z_]+(\.\w+)+", n) and f"marginalia.{n.split('.')[0]}" in MODULES}
    for name in dotted:
        module = f"marginalia.{name}"
        while module not in MODULES:
            module = module.rpartition(".")[0]
        thing = importlib.import_module(module)
        for attribute in f"marginalia.{name}".removeprefix(module).split(".")[1:]:
            fields = getattr(thing, "model_fields", None) or getattr(thing, "__dataclass_fields__", {})
            assert hasattr(thing, attribute) or attribute in fields, f"{module} has no {name}"
            thing = getattr(thing, attribute, None)
    for name in {n for n in named if "/" in n and not n.startswith("results/")}:
        assert (ROOT / name).exists() or (SOURCE / name).exists(), f"{name} does not exist"
    assert len(dotted) > 20


@pytest.mark.slow
def test_light_imports_stay_light():
    """The command line and the Snakefile start quickly: no plotting, learning or compiling libraries."""
    code = (
        "import sys, marginalia, marginalia.data, marginalia.cli;"
        "import marginalia.sweep.resolve;"
        "print([m for m in ('sklearn', 'numba', 'matplotlib', 'torch', 'dp_accounting', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def readme_commands() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```", text, flags=re.S | re.M)]


def test_readme_shows_exactly_two_set_up_commands_first():
    run, test = readme_commands()[:2]
    for command in (run, test):
        assert "\n" not in command
        assert command.startswith("python3 envs/install.py && ")
    assert run.endswith(".venv/bin/snakemake")
    assert test.endswith("-m pytest")


def test_ci_runs_the_readmes_test_command():
    printed = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "readme_command.py"), "2"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == readme_commands()[1]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert 'test_command="$(python3 .ci/readme_command.py 2)"' in script
    assert 'bash -c "$test_command"' in script


def test_lock_file_names_no_host_and_pins_hashes():
    text = (ROOT / "envs" / "requirements.txt").read_text(encoding="utf-8")
    assert "http" not in text.replace("httpcore", "").replace("httpx", "").replace("aiohttp", "").replace(
        "httptools", ""
    )
    assert not re.search(r"^(torch|nvidia-[a-z0-9-]+|triton)==", text, flags=re.M)
    pins = re.findall(r"^[a-z0-9][A-Za-z0-9._-]*==\S+", text, flags=re.M)
    assert len(pins) > 100
    assert text.count("--hash=sha256:") >= len(pins)


def test_direct_dependencies_are_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = set(re.findall(r"^([a-z0-9][A-Za-z0-9._-]*)==", (ROOT / "envs/requirements.txt").read_text(), flags=re.M))
    for requirement in project["dependencies"]:
        assert re.match(r"[A-Za-z0-9_.-]+", requirement).group().lower() in locked


def test_the_environment_of_the_rules_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for path in (ROOT / "workflow/envs").glob("*.yaml"):
        (packages,) = (d["pip"] for d in yaml.safe_load(path.read_text())["dependencies"] if isinstance(d, dict))
        assert packages == [f"marginalia[sweep]=={project['version']}"]


def test_links_between_pages_exist():
    broken = []
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8")):
            if not (path.parent / target).exists():
                broken.append(f"{path.name} links to {target}")
    assert broken == []


def test_configuration_page_names_every_key():
    from marginalia.sweep.config import Config, MethodChoice

    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for model in (Config, MethodChoice):
        for name, field in model.model_fields.items():
            assert f"`{field.alias or name}`" in page


def test_what_installs_and_releases_is_pinned_by_hash():
    for name in ("uv", "release", "browser", "site", "spark"):
        lock = (ROOT / "envs" / f"{name}.txt").read_text()
        assert lock.count("--hash=sha256:") >= len(re.findall(r"^[a-z0-9._-]+==", lock, flags=re.M)) > 0, name
    for script in (".ci/run", ".ci/nightly", ".ci/wheel"):
        for line in re.findall(r".*pip\"? install -.*", (ROOT / script).read_text().replace("\\\n", " ")):
            assert "--require-hashes" in line or ".whl" in line, (script, line)
    assert '"uv")' not in (ROOT / "envs/install.py").read_text()
