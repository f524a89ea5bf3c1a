"""Environments of peers, made from a wheel that lies beside the lock file: no index is asked. And a run with them."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pyarrow
import pytest
import yaml

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "envs" / "install_peer.py"
RAISED = "PeerError: peer 'tiny' ended with exit code 1: ValueError: epsilon is too odd"
OFFLINE = {"UV_OFFLINE": "1", "UV_NO_CONFIG": "1"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the adapter and the lock file of a made-up library, which is in the wheel there."""
    monkeypatch.chdir(tmp_path)
    peers = tmp_path / "envs" / "peers"
    peers.mkdir(parents=True)
    (peers / "tiny.py").write_text("METHODS = {}\n")
    (peers / "tiny.txt").write_text(requirement(wheel(tmp_path)))
    return tmp_path


def wheel(folder, **files):
    """Make a wheel of one module, and of other files; return its path."""
    name, meta = "tinylib", "tinylib-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    content = {
        f"{name}.py": "answer = 42\n",
        f"{meta}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{meta}/WHEEL": "Wheel-Version: 1.0\nGenerator: here\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **files,
    }
    content[f"{meta}/RECORD"] = "".join(f"{place},,\n" for place in [*content, f"{meta}/RECORD"])
    with ZipFile(path, "w") as archive:
        for place, text in content.items():
            archive.writestr(place, text)
    return path


def requirement(path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{path.name.split('-')[0]} @ {path.as_uri()} --hash=sha256:{digest}\n"


def install(*arguments):
    command = [sys.executable, str(INSTALL), "tiny", *arguments]
    return subprocess.Popen(command, env={**os.environ, **OFFLINE}, stdout=subprocess.PIPE, text=True)


def made(*arguments):
    """Install; return what the record says then."""
    process = install(*arguments)
    process.communicate(timeout=300)
    assert process.returncode == 0  # a peer that cannot be installed stops nothing
    return json.loads(Path(".peers/tiny/environment.json").read_text())


@pytest.mark.slow
def test_an_environment_is_made_once_and_anew_when_the_lock_file_is_edited(folder):
    first = made("copy.json")
    assert first["problem"] == ""
    assert json.loads(Path("copy.json").read_text()) == first
    run = subprocess.run([first["python"], "-c", "import tinylib; print(tinylib.answer)"], stdout=subprocess.PIPE)
    assert run.stdout == b"42\n"
    home = Path(first["python"]).parents[1]
    (home / "mine").touch()
    assert made() == first
    assert (home / "mine").exists()
    lock = folder / "envs/peers/tiny.txt"
    lock.write_text("# edited\n" + lock.read_text())
    assert made()["made_from"] != first["made_from"]
    assert not (home / "mine").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lock", "said"),
    [
        ("tinylib @ {uri} --hash=sha256:" + 64 * "0" + "\n", "ash mismatch"),
        ("tinylib @ {uri}\n", "must have a hash"),
        ("tinylib === = 1\n", "tiny.txt"),
        ("surely-no-such-library==1 --hash=sha256:" + 64 * "0" + "\n", "surely-no-such-library"),
    ],
)
def test_what_is_wrong_with_a_lock_file_is_the_problem_and_mending_it_is_enough(folder, lock, said):
    good = Path("envs/peers/tiny.txt").read_text()
    Path("envs/peers/tiny.txt").write_text(lock.format(uri=(folder / "tinylib-1.0-py3-none-any.whl").as_uri()))
    found = made()
    assert said in found["problem"]
    assert found["python"] == ""
    Path("envs/peers/tiny.txt").write_text(good)
    assert made()["problem"] == ""


def test_without_a_lock_file_the_adapter_says_why(folder):
    Path("envs/peers/tiny.txt").unlink()
    assert made()["problem"] == "there is no lock file envs/peers/tiny.txt"
    Path("envs/peers/tiny.py").write_text("UNAVAILABLE = 'it is in no index'\nraise SystemExit\n")
    assert made()["problem"] == "it is in no index"


@pytest.mark.slow
def test_after_a_kill_half_way_the_next_run_makes_it_anew(folder):
    process = install()
    home = Path(".peers/tiny")
    while not home.exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (home / "environment.json").write_text('{"python": "/us')  # and a record cut short
    assert made()["problem"] == ""


@pytest.mark.slow
def test_two_at_once_make_one(folder):
    both = [install(f"copy{i}.json") for i in range(2)]
    assert [process.communicate(timeout=300)[0] for process in both] == 2 * [
        f"tiny: {folder / '.peers/tiny/bin/python'}\n"
    ]
    assert Path("copy0.json").read_text() == Path("copy1.json").read_text()


@pytest.mark.slow
def test_peers_that_fail_and_hang_cost_a_run_their_rows(folder):
    """Their environment is made by the rule; Arrow and NumPy, which the exchange needs, are lent to it."""
    shutil.copy(INSTALL, folder / "envs" / "install_peer.py")
    shutil.copy(ROOT / "tests/peers/tiny_peer.py", folder / "envs/peers/tiny.py")
    lent = wheel(folder, **{"lent.pth": str(Path(pyarrow.__file__).parents[1]) + "\n"})
    (folder / "envs/peers/tiny.txt").write_text(requirement(lent))
    config = {
        "datasets": ["diabetes"],
        "epsilons": [1],
        "trials": 1,
        "timeout_seconds": 20,
        "results_dir": "results",
        "experiments": {
            "short": {"methods": ["peer/tiny/hang"], "relation": "add_remove", "timeout_seconds": 1},
            "add_remove": {"methods": ["peer/tiny/raise"], "relation": "add_remove"},
            "replace_one": {"methods": ["peer/tiny/mean"], "relation": "replace_one"},
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    command += ["--workflow-profile", str(ROOT / "profiles/default"), "--cores", "2", "--"]
    done = subprocess.run([*command, "results/rows.parquet"], env={**os.environ, **OFFLINE}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    rows = pd.read_parquet("results/rows.parquet").query("metric in ('marginal_error', 'mse') and variant == ''")
    said = rows.set_index("method")[["relation", "status", "message"]].T.to_dict("list")
    assert said == {
        "peer/tiny/hang": ["add_remove", "timeout", "took longer than 1 s"],
        "peer/tiny/mean": ["replace_one", "ok", said["peer/tiny/mean"][2]],
        "peer/tiny/raise": ["add_remove", "failed", RAISED],
    }
    assert said["peer/tiny/mean"][2].startswith("declared by tiny: its epsilon is its own claim")
