"""What the repository promises about itself."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "marginalia"
FLOORS = [
    {"data"},
    {"privacy"},
    {"marginals"},
    {"synthesis"},
    {"learning"},  # DD-SSP fits a synthesizer when it is given none
    {"sweep"},
    {"reporting"},
    {"papers"},
    {"planning"},
    {"cli"},
]


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def floor_of(part: str) -> int | None:
    return next((i for i, parts in enumerate(FLOORS) if part in parts), None)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("marginalia"):
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name.startswith("marginalia"))
    return {name.split(".")[1] for name in found if name.count(".")}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_import_only_from_floors_below(path):
    own = floor_of(part_of(path))
    if own is None:
        return  # __init__, errors: below all floors
    for part in imports(path):
        other = floor_of(part)
        if other is None or part == part_of(path):
            continue
        assert other < own, f"{path.relative_to(SOURCE)} imports marginalia.{part}"


def test_light_imports_stay_light():
    """The command line and the Snakefile start quickly: no plotting, learning or compiling libraries."""
    code = (
        "import sys, marginalia, marginalia.data, marginalia.cli;"
        "import marginalia.sweep.resolve, marginalia.sweep.jobs;"
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
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = set(re.findall(r"^([a-z0-9][A-Za-z0-9._-]*)==", (ROOT / "envs/requirements.txt").read_text(), flags=re.M))
    for requirement in project["dependencies"]:
        assert re.match(r"[A-Za-z0-9_.-]+", requirement).group().lower() in locked


def test_lint_filter_lets_other_complaints_through():
    sys.path.insert(0, str(ROOT / ".ci"))
    try:
        from check_lint import complaints
    finally:
        sys.path.pop(0)
    accepted = "    * Specify a conda environment or container for each rule.:\n"
    assert complaints(accepted) == []
    assert complaints(accepted + "    * Mixed rules and functions in same snakefile.:\n")


@pytest.mark.parametrize("path", [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
def test_links_between_pages_exist(path):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_configuration_page_names_every_key():
    from marginalia.sweep.config import Config, MethodChoice

    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    for model in (Config, MethodChoice):
        for name, field in model.model_fields.items():
            assert f"`{field.alias or name}`" in page
