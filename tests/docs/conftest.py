"""How the commands of a page are run."""

import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from printed import printed_as

ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """The repository as far as the tutorials need it; the working folder."""
    for name in ("Snakefile", "config.yaml", ".test", "workflow", "profiles", "notebooks"):
        (tmp_path / name).symlink_to(ROOT / name)
    ignored = shutil.ignore_patterns("*.csv", "*.json", "*.html", "*.npz", "*.book", "*.domain.yaml")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=ignored)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "paper").symlink_to(ROOT / "results" / "paper")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def follow(repository, call, capsys):
    """Run one command of a page: ``marginalia`` and scripts in this process, the rest as programs beside it."""

    def run(command: str, printed: str) -> str:
        program, *arguments = shlex.split(command)
        if program == "marginalia":
            code, out, err = call(*arguments)
            assert code == 0, f"{command}\n{err}"
        elif program == "python":
            runpy.run_path(arguments[0], run_name="__main__")
            out = capsys.readouterr().out
        else:
            beside = Path(sys.executable).parent / program
            program = str(beside) if beside.exists() else program
            done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=900)
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            out = done.stderr + done.stdout if "snakemake" in program else done.stdout
        assert not printed or printed_as(printed, out), f"{command} printed\n{out}"
        return out

    return run
