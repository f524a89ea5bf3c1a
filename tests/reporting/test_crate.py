"""RO-Crates of results folders."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from marginalia.errors import InputError
from marginalia.papers import registry
from marginalia.reporting import crate

ROOT = Path(__file__).parents[2]
BLOCK = ROOT / "results/paper/reduced_space"
HERE = """
import sys
sys.path.append({place!r})
from marginalia.cli import main
main()
"""


@pytest.fixture
def folder(tmp_path):
    """A published block, below a citation file."""
    shutil.copy(ROOT / "CITATION.cff", tmp_path)
    return Path(shutil.copytree(BLOCK, tmp_path / "reduced_space", ignore=shutil.ignore_patterns(crate.FILE)))


def described(folder):
    """Write a crate's list of files by hand."""
    files = [{"@id": name, "@type": "File", "sha256": digest} for name, digest in crate._hashes(folder).items()]
    outside = {"@id": "https://example.org/a.csv", "@type": "File"}
    (folder / crate.FILE).write_text(json.dumps({"@graph": [{"@id": "./", "@type": "Dataset"}, outside, *files]}))


def test_without_its_package_the_command_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocrate", None)
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    with pytest.raises(InputError, match=r"pip install 'marginalia\[crate\]'"):
        crate.write(folder, registry.cards())
    assert not (folder / crate.FILE).exists()


@pytest.mark.parametrize(("datasets", "mode"), [(["adult"], 0o644), (["adult", "mine"], 0o600)])
def test_a_crate_of_private_rows_is_for_their_owner(folder, monkeypatch, datasets, mode):
    made = MagicMock()
    made.ROCrate.return_value.metadata.generate.return_value = {}
    monkeypatch.setitem(sys.modules, "rocrate", made)
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", made)
    monkeypatch.setattr(crate, "_datasets", lambda *_: datasets)
    folder.chmod(0o755)
    before = os.umask(0o022)
    try:
        path = crate.write(folder, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_files_are_held_against_their_crate(folder):
    assert list(crate.differences(folder)) == []  # there is none
    described(folder)
    assert list(crate.differences(folder)) == []
    with open(folder / "tables/certificates.csv", "a") as file:
        file.write("\n")
    (folder / "tables/failures.csv").unlink()
    changed, gone = crate.differences(folder)
    assert "certificates.csv has other content" in changed
    assert "failures.csv is not in both" in gone


@pytest.mark.parametrize(
    "text",
    ["[1]", '{"@graph": null}', '{"@graph": ["a"]}', '{"@graph": [{"@id": "a"}]}', '{"@graph": [{"@type": "File"}]}'],
)
def test_what_is_no_crate_is_one_line(folder, text):
    (folder / crate.FILE).write_text(text)
    with pytest.raises(InputError, match="is no crate; write it anew"):
        list(crate.differences(folder))


@pytest.mark.slow
def test_the_command_verify_sees_a_crate_of_other_files(folder, capsys):
    from marginalia.cli.results import _verify

    described(folder)
    with open(folder / "report.html", "a") as file:
        file.write("\n")
    assert not _verify(folder, as_json=False)
    said = [line for line in capsys.readouterr().out.splitlines() if "DIFFERENT" in line]
    assert any("report.html has other content" in line for line in said)


@pytest.mark.slow
def test_a_published_block_makes_a_crate_that_validates(folder, tmp_path):
    """By packages of their own lock file, which nothing else needs; twice the same bytes."""
    place = str(tmp_path / "packages")
    locked = ["--no-deps", "--require-hashes", "--target", place, "--requirement", str(ROOT / "envs/crate.txt")]
    subprocess.run([sys.executable, "-m", "uv", "pip", "install", "--quiet", *locked], check=True)
    command = [sys.executable, "-c", HERE.format(place=place), "crate", str(folder)]
    written = []
    for _ in range(2):
        subprocess.run(command, check=True, cwd=tmp_path)
        written.append((folder / crate.FILE).read_bytes())
    assert written[0] == written[1]
    assert list(crate.differences(folder)) == []
    graph = {one["@id"]: one for one in json.loads(written[0])["@graph"]}
    run, root = graph["#run"], graph["./"]
    facts = json.loads((folder / "provenance.json").read_text())
    assert run["startTime"] == facts["cost"]["first_job_began"]
    assert facts["code"]["commit"] in graph[run["instrument"]["@id"]]["description"]
    assert {one["@id"] for one in run["result"]} == set(crate._hashes(folder))
    assert all(len(graph[one["@id"]]["sha256"]) == 64 for one in run["object"] if "://" in one["@id"])
    assert graph[root["author"]["@id"]]["name"] == "The marginalia authors"
    validate = [sys.executable, str(Path(__file__).with_name("validate_crate.py")), "REQUIRED", str(folder)]
    done = subprocess.run(validate, env={"PYTHONPATH": place}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].endswith(" checks")
    assert len(done.stdout.splitlines()) == 1, done.stdout
