"""What a sweep on the user's own rows leaves behind: for whom it is, and what its names tell."""

import json
import multiprocessing
import os
import signal
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalia.data import Attribute, Domain, Table
from marginalia.data.catalogue.entry import parse_entry
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.sweep.cells import SECRET, CellStore, StoreError
from marginalia.sweep.config import parse
from marginalia.sweep.jobs import prepare_dataset, run_method
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.runner import Runner, version_of_arm

FORK = multiprocessing.get_context("fork")
TASK = Task("logistic", "y")


@pytest.fixture(autouse=True)
def _open_umask(tmp_path):
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    yield
    os.umask(before)


def prepared(n=300):
    rng = np.random.default_rng(0)
    domain = Domain([Attribute("a", 2), Attribute("b", 2), Attribute("y", 2)])
    return Prepared("mine", Table(rng.integers(0, 2, (n, 3)), domain), (TASK,))


def job_of(*methods, name="mine", **content):
    config = parse({"datasets": [name], "trials": 1, "epsilons": [1], "methods": methods, **content})
    (job,) = plan(config, {"sweep": {name: (TASK,)}}).jobs.values()
    return job


def run(job, folder, data):
    data.save(folder / "data")
    out = folder / "records" / "r.parquet"
    run_method(job.settings(), data=folder / "data", seed=0, store=folder / "cells", out=out)
    return pd.read_parquet(out)


def stored(folder, ending="json"):
    return {path.name for path in folder.glob(f"cells/??/*.{ending}")}


def open_to_others(folder):
    found = [folder, *folder.rglob("*")]
    return [str(path) for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_names_of_stored_cells_follow_the_rows_and_tell_nothing_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr("marginalia.methods.record.Method.load", None)  # nothing is fitted
    job, names = job_of("independent"), {}
    (cell,) = job.cells((TASK,), 0)
    for n in (300, 299):
        for place in ("here", "there"):
            runner = Runner(prepared(n), BUILT_IN, {}, CellStore(tmp_path / place))
            again = Runner(prepared(n), BUILT_IN, {}, CellStore(tmp_path / place))
            names[n, place] = runner._key(cell)
            assert again._key(cell) == names[n, place]
            assert cell.key(prepared(n).digest, version_of_arm(cell.arm, BUILT_IN)) != names[n, place]
    assert len(set(names.values())) == 4
    public = replace(prepared(), name="adult")
    for place in ("here", "there"):  # whose cells anybody may name
        runner = Runner(public, BUILT_IN, {}, CellStore(tmp_path / place))
        assert runner._key(cell) == cell.key(public.digest, version_of_arm(cell.arm, BUILT_IN))


@pytest.mark.slow
def test_jobs_that_begin_together_make_one_secret(tmp_path):
    together, found = FORK.Barrier(8), FORK.Queue()

    def seal():
        store = CellStore(tmp_path / "cells")
        together.wait()
        found.put(store.sealed("x"))

    processes = [FORK.Process(target=seal) for _ in range(8)]
    for process in processes:
        process.start()
    assert len({found.get() for _ in processes}) == 1
    for process in processes:
        process.join()
    (secret,) = (tmp_path / "cells").iterdir()
    assert (secret.name, stat.S_IMODE(secret.stat().st_mode)) == (SECRET, 0o600)
    secret.write_bytes(b"")
    with pytest.raises(StoreError, match="secret is damaged"):
        CellStore(tmp_path / "cells").sealed("x")


def test_files_of_own_data_are_for_the_owner(tmp_path):
    frame = prepared().table.to_frame()
    frame.to_csv(tmp_path / "t.csv", index=False)
    files = {"table": "t.csv", "domain": "d.json"}
    (tmp_path / "d.json").write_text(json.dumps(dict.fromkeys(frame, 2)))
    entry = parse_entry("mine", {"files": files, "tasks": {"logistic": {"target": "y"}}}, folder=tmp_path)
    results = tmp_path / "results"
    prepare_dataset(entry.model_dump(mode="json"), results / "data")
    settings = job_of("independent", "gaussian_marginals").settings()
    run_method(settings, data=results / "data", seed=0, store=results / "cells", out=results / "records" / "r.parquet")
    assert {path.suffix for path in results.rglob("*")} >= {".parquet", ".json", ".npz"}
    assert open_to_others(results) == []
    assert os.umask(0o022) == 0o022


@pytest.mark.parametrize("name", ["mine", "adult"])
def test_a_kill_between_writing_and_naming_leaves_nothing_that_others_can_read(tmp_path, monkeypatch, name):
    data = replace(prepared(), name=name)
    data.save(tmp_path / "data")

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def run_and_die():
        monkeypatch.setattr(Path, "replace", die)
        job = job_of("independent", name=name)
        out = tmp_path / "records.parquet"
        run_method(job.settings(), data=tmp_path / "data", seed=0, store=tmp_path / "cells", out=out)

    process = FORK.Process(target=run_and_die)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    (left,) = (tmp_path / "cells").glob("??/.*")
    assert left.stat().st_size
    assert bool(open_to_others(tmp_path / "cells")) == (name == "adult")
