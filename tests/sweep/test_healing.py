"""Damage to what a sweep has stored: it is noticed, named, and made again as it was."""

import os
import subprocess
import sys

import pandas as pd
import pytest
from tiers import others_slow

from marginalia.data import Attribute, Domain, Table
from marginalia.data.checksums import DamagedError
from marginalia.errors import InputError
from marginalia.methods.task import Task
from marginalia.sweep.config import parse
from marginalia.sweep.healing import damaged
from marginalia.sweep.isolation.log import logged
from marginalia.sweep.jobs import run_method
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.records import read_certificates, read_records
from marginalia.sweep.runner import Runner

TASKS = (Task("linear", "b"),)


def emptied(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def flipped(path):
    """One bit, and the time of the file as it was: nobody wrote it."""
    content, status = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def deleted(path):
    path.unlink()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A call that runs the job of a synthesizer, or of what stands on it, and returns its rows but for their costs."""
    root = tmp_path_factory.mktemp("sweep")
    domain = Domain([Attribute("a", 3), Attribute("b", 4, "numeric")])
    data = Prepared("adult", Table([[i % 3, (i * i + i // 7) % 4] for i in range(200)], domain), TASKS)
    data.save(root / "data")  # of the catalogue: the noise has a seed
    config = parse(
        {"datasets": ["adult"], "trials": 1, "epsilons": [1], "methods": ["mst", {"id": "dd_ssp", "variant": "mst"}]}
    )
    jobs = {job.group: job for job in plan(config, {"sweep": {"adult": TASKS}}).jobs.values()}

    def run(group, folder):
        out = folder / f"{group}.parquet"
        run_method(jobs[group].settings(), data=root / "data", seed=1, store=folder / "cells", out=out)
        return read_records([out]).drop(columns=["seconds", "peak_mb"])

    return run


@pytest.mark.slow
@pytest.mark.parametrize("fault", [emptied, cut, flipped, deleted])
def test_a_synthesizer_that_is_lost_is_fitted_again(fault, run, tmp_path, capsys, monkeypatch):
    """And does not fail, for ever, all that stands on it."""
    above, below = run("synthesizers", tmp_path), run("downstream", tmp_path)
    assert set(below["status"]) == {"ok"}
    (model,) = (tmp_path / "cells").rglob("*.npz")
    whole = model.read_bytes()
    fitted = []
    original = Runner._fit_synthesizer
    monkeypatch.setattr(Runner, "_fit_synthesizer", lambda *a: (fitted.append(a[1]), original(*a))[1])
    fault(model)
    for path in (tmp_path / "cells").rglob("*.json"):
        if '"dd_ssp"' in path.read_text():
            path.unlink()
    capsys.readouterr()
    pd.testing.assert_frame_equal(run("downstream", tmp_path), below, check_exact=True)
    assert f"marginalia: {model} is {'missing' if fault is deleted else 'damaged'}" in capsys.readouterr().out
    assert model.read_bytes() == whole
    pd.testing.assert_frame_equal(run("synthesizers", tmp_path), above, check_exact=True)
    assert len(fitted) == 1


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".json", ".certificate.json"])
@pytest.mark.parametrize("fault", [emptied, cut, flipped])
def test_a_damaged_cell_is_run_again(fault, ending, run, tmp_path):
    above = run("synthesizers", tmp_path)
    proofs = read_certificates([tmp_path / "synthesizers.parquet"])
    for path in (tmp_path / "cells").rglob("*.json"):
        if "".join(path.suffixes) == ending:
            fault(path)
    pd.testing.assert_frame_equal(run("synthesizers", tmp_path), above, check_exact=True)
    assert read_certificates([tmp_path / "synthesizers.parquet"]) == proofs


@pytest.mark.parametrize("fault", others_slow([emptied, cut, flipped]))
def test_damaged_records_are_named_and_never_served(fault, run, tmp_path):
    run("synthesizers", tmp_path)
    path = tmp_path / "synthesizers.parquet"
    assert list(damaged([path])) == []
    fault(path)
    for read in (read_records, read_certificates):
        with pytest.raises(InputError, match=r"synthesizers\.parquet"):
            read([path])
    ((name, why),) = damaged([path])
    assert name == str(path)
    assert why.startswith(f"{path} is damaged")


@pytest.mark.parametrize("name", ["dataset.json", "domain.json", "table.parquet", "test.parquet"])
@pytest.mark.parametrize("fault", [emptied, cut, flipped, deleted])
def test_damage_to_prepared_data_is_named(fault, name, tmp_path):
    table = Table([[0], [1]], Domain.from_sizes({"a": 2}))
    Prepared("toy", table, (), table).save(tmp_path)
    assert list(damaged([tmp_path / "dataset.json"])) == []
    fault(tmp_path / name)
    with pytest.raises(InputError, match=name):
        Prepared.load(tmp_path)
    with pytest.raises(InputError, match=name):
        Prepared.load(tmp_path)
    if (fault, name) != (deleted, "dataset.json"):  # which Snakemake misses by itself
        ((path, why),) = damaged([tmp_path / "dataset.json"])
        assert path.endswith("dataset.json")
        assert name in why
        with pytest.raises(DamagedError):
            Prepared.load(tmp_path)


ON_A_FULL_DISK = """
import sys
from marginalia.sweep.isolation.log import logged
with logged("/dev/full"):
    print("what was done so far")
    with open("/dev/full", "w") as file:
        file.write("a table")
"""


def test_a_full_disk_that_holds_the_log_too_is_one_line_on_the_terminal():
    ended = subprocess.run([sys.executable, "-c", ON_A_FULL_DISK], capture_output=True, text=True)
    line = "marginalia: cannot go on: [Errno 28] No space left on device; mend it and run the same command again\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", line)


def test_a_log_that_cannot_be_made_stops_nothing(capsys):
    with logged("/no/such/folder/log"):
        print("said to nobody")
    assert capsys.readouterr().out == ""
