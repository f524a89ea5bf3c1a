"""The two container recipes: the same base, and the locked environment as the README installs it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCKER = (ROOT / "Dockerfile").read_text(encoding="utf-8")
APPTAINER = (ROOT / "apptainer.def").read_text(encoding="utf-8")


def test_both_recipes_stand_on_the_python_of_the_package():
    (image,) = re.findall(r"^FROM (\S+)$", DOCKER, flags=re.M)
    assert re.findall(r"^From: (\S+)$", APPTAINER, flags=re.M) == [image]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert re.match(r"python:([\d.]+)-", image).group(1) == project["requires-python"].removeprefix(">=")


def test_both_recipes_install_from_the_lock():
    for recipe in (DOCKER, APPTAINER):
        assert "python3 envs/install.py" in recipe
        assert "pip install" not in recipe
    # and so with what a first fit would compile
    assert '"envs" / "compile_kernels.py"' in (ROOT / "envs" / "install.py").read_text(encoding="utf-8")


def test_what_is_made_does_not_go_into_the_image():
    """Nothing that git ignores in the root, but for what lies below published results and examples."""
    left_out = set((ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines())
    for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines():
        if re.fullmatch(r"\.[\w-]+/|build/|dist/", line):
            assert line.rstrip("/") in left_out
