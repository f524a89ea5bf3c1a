"""What a sweep on the user's own rows leaves behind, and for whom it is."""

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

from marginalia.data import Column, Domain, Table
from marginalia.data.catalogue.entry import parse_entry
from marginalia.methods.task import Task
from marginalia.sweep.config import parse
from marginalia.sweep.isolate import Ended
from marginalia.sweep.plan import plan
from marginalia.sweep.prepare import prepare_dataset
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.run import Runner, run_job

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
    domain = Domain([Column("a", 2), Column("b", 2), Column("y", 2)])
    return Prepared("mine", Table(rng.integers(0, 2, (n, 3)), domain), (TASK,))


def job_of(*methods, name="mine", **content):
    config = parse(
        {"relation": "add_remove", "datasets": [name], "trials": 1, "epsilons": [1], "methods": methods, **content}
    )
    (job,) = plan(config, {"sweep": {name: (TASK,)}}).jobs.values()
    return job


def run(job, folder, data):
    data.save(folder / "data")
    out = folder / "records" / "r.parquet"
    run_job(job.settings(), data=folder / "data", seed=0, out=out)
    return pd.read_parquet(out)


def open_to_others(folder):
    found = [folder, *folder.rglob("*")]
    return [str(path) for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_files_of_own_data_are_for_the_owner(tmp_path):
    frame = prepared().table.to_frame()
    frame.to_csv(tmp_path / "t.csv", index=False)
    files = {"table": "t.csv", "domain": "d.json"}
    (tmp_path / "d.json").write_text(json.dumps(dict.fromkeys(frame, 2)))
    entry = parse_entry("mine", {"files": files, "tasks": {"logistic": {"target": "y"}}}, folder=tmp_path)
    results = tmp_path / "results"
    prepare_dataset(entry.model_dump(mode="json"), results / "data")
    settings = job_of("independent", "gaussian_marginals").settings()
    run_job(settings, data=results / "data", seed=0, out=results / "records" / "r.parquet")
    assert {path.suffix for path in results.rglob("*")} >= {".parquet", ".json"}
    assert open_to_others(results) == []
    assert os.umask(0o022) == 0o022


@pytest.mark.parametrize("name", ["mine", "adult"])
def test_a_kill_between_writing_and_naming_leaves_nothing_that_others_can_read(tmp_path, monkeypatch, name):
    replace(prepared(), name=name).save(tmp_path / "data")

    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    def run_and_die():
        monkeypatch.setattr(Path, "replace", die)
        job = job_of("independent", name=name)
        run_job(job.settings(), data=tmp_path / "data", seed=0, out=tmp_path / "out" / "records.parquet")

    process = FORK.Process(target=run_and_die)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    (left,) = (tmp_path / "out").glob(".*")
    assert left.stat().st_size
    assert bool(open_to_others(tmp_path / "out")) == (name == "adult")


def test_models_of_own_data_that_others_post_process_are_for_the_owner_while_the_job_runs(tmp_path, monkeypatch):
    seen = []
    original = Runner._load_source

    def looked_at(self, cell):
        seen.extend(open_to_others(self.models))
        return original(self, cell)

    monkeypatch.setattr(Runner, "_load_source", looked_at)
    monkeypatch.setattr("marginalia.sweep.run.in_child", lambda function, **_: Ended(function()))
    job = job_of("independent", {"id": "dd_ssp", "source": "independent"})
    rows = run(job, tmp_path, prepared())
    assert set(rows["status"]) == {"ok"}
    assert seen == []
