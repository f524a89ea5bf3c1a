"""What a sweep on the user's own rows leaves behind: for whom it is, what its names tell, and the book of the table."""

import json
import multiprocessing
import os
import random
import signal
import stat
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from noted import RELEASES
from typer.testing import CliRunner

from marginalia.cli.app import app
from marginalia.data import Attribute, Domain, Table
from marginalia.data.catalogue.entry import parse_entry
from marginalia.errors import InputError
from marginalia.methods.registry import BUILT_IN
from marginalia.methods.task import Task
from marginalia.privacy.odometer import PrivacyOdometer
from marginalia.sweep.cells import SECRET, CellStore, StoreError
from marginalia.sweep.config import parse
from marginalia.sweep.isolation.supervisor import run_isolated
from marginalia.sweep.jobs import prepare_dataset, run_method
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.runner import Runner, version_of_arm

FORK = multiprocessing.get_context("fork")
TASK = Task("logistic", "y")
NOTED = str(Path(__file__).with_name("noted.py"))


@pytest.fixture(autouse=True)
def _open_umask(tmp_path):
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    yield
    os.umask(before)


def prepared(n=300, book=None):
    rng = np.random.default_rng(0)
    domain = Domain([Attribute("a", 2), Attribute("b", 2), Attribute("y", 2)])
    return Prepared("mine", Table(rng.integers(0, 2, (n, 3)), domain), (TASK,), book=book and str(book))


@pytest.fixture
def book(tmp_path):
    return PrivacyOdometer.create(tmp_path / "t.book", "add_remove", epsilon=3.0, delta=1e-5)


def job_of(*methods, name="mine", **content):
    config = parse({"datasets": [name], "trials": 1, "epsilons": [1], "methods": methods, **content})
    (job,) = plan(config, {"sweep": {name: (TASK,)}}).jobs.values()
    return job


def noted(**parameters):
    return {"id": "noted", "file": NOTED, "class": "Noted", "parameters": parameters}


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


def test_every_private_fit_is_in_the_book_and_what_is_read_back_is_not_entered_again(tmp_path, book):
    job = job_of("logistic", "ssp", trials=2)
    rows = run(job, tmp_path, prepared(book=book.path))
    assert set(rows["status"]) == {"ok"}
    assert [name for name, _ in book.releases()] == [
        f"sweep: ssp tight on mine (y), epsilon 1, trial {trial}" for trial in range(2)
    ]
    shown = CliRunner().invoke(app, ["budget", "show", str(book.path)]).output
    assert "under add_remove the total of a sweep is no statement about the whole table" in shown
    before = book.path.read_bytes()
    run(job, tmp_path, prepared(book=book.path))
    assert book.path.read_bytes() == before
    moved = tmp_path / "moved.book"
    book.path.rename(moved)
    run(job, tmp_path, prepared(book=moved))
    assert moved.read_bytes() == before
    other = PrivacyOdometer.create(tmp_path / "other.book", "add_remove", epsilon=3.0, delta=1e-5)
    run(job, tmp_path, prepared(book=other.path))
    assert other.releases() == PrivacyOdometer(moved).releases()  # a fit that is not in this book has to be made


def test_what_was_fitted_without_the_book_is_fitted_again(tmp_path, book):
    run(job_of("ssp"), tmp_path, prepared())
    run(job_of("ssp"), tmp_path, prepared(book=book.path))
    assert len(book.releases()) == 1


def test_beyond_the_total_cells_are_rows_that_say_so(tmp_path):
    book = PrivacyOdometer.create(tmp_path / "t.book", "add_remove", epsilon=1.1, delta=1e-5)
    rows = run(job_of("logistic", "ssp", trials=3), tmp_path, prepared(book=book.path))
    private = rows[(rows["method"] == "ssp") & (rows["metric"] == "auc")]
    assert list(private["status"]) == ["ok", "refused", "refused"]
    assert (
        private["message"].iloc[1].startswith(f"{book.path}: refused: epsilon 1 at delta 1e-05 is asked for, epsilon 0")
    )
    assert (rows[rows["method"] == "logistic"]["status"] == "ok").all()
    assert book.ledger.certified
    assert len(book.releases()) == 1


def test_what_post_processes_a_fit_costs_nothing_and_falls_with_it(tmp_path):
    book = PrivacyOdometer.create(tmp_path / "t.book", "add_remove", epsilon=1.1, delta=1e-5)
    methods = {"methods": ["gaussian_marginals", {"id": "dd_ssp", "source": "gaussian_marginals"}], "trials": 2}
    config = parse({"datasets": ["mine"], "epsilons": [1], **methods})
    prepared(book=book.path).save(tmp_path / "data")
    found = []
    for group, job in {key[2]: job for key, job in plan(config, {"sweep": {"mine": (TASK,)}}).jobs.items()}.items():
        out = tmp_path / f"{group}.parquet"
        run_method(job.settings(), data=tmp_path / "data", seed=0, store=tmp_path / "cells", out=out)
        found.append(pd.read_parquet(out))
    rows = pd.concat(found)
    assert rows.groupby(["method", "trial"])["status"].first().to_dict() == {
        ("dd_ssp", 0): "ok",
        ("dd_ssp", 1): "refused",
        ("gaussian_marginals", 0): "ok",
        ("gaussian_marginals", 1): "refused",
    }
    assert len(book.releases()) == 1


def test_who_keeps_books_of_its_own_gives_nothing(tmp_path, book):
    rows = run(job_of(noted(beside=True)), tmp_path, prepared(book=book.path))
    assert set(rows["status"]) == {"refused"}
    assert "method 'noted' does not record its releases" in rows["message"].iloc[0]
    assert rows["value"].isna().all()
    assert book.releases() == []
    assert not stored(tmp_path, "certificate.json")


def test_a_book_that_is_none_ends_the_job(tmp_path):
    with pytest.raises(InputError, match="cannot open the budget file"):
        run(job_of("ssp"), tmp_path, prepared(book=tmp_path / "none.book"))


def kept(book, folder, told):
    """Check that all that was released is in the book; return how many releases there are in it."""
    entries = [json.loads(line)["event"] for line in book.path.read_text().splitlines()[1:]]
    labels = {event["label"] for event in entries}
    assert set(told.read_text().split()) <= labels
    for path in folder.glob("cells/??/*.certificate.json"):
        events = json.loads(path.read_text())["events"]
        assert {event["label"] for event in events} <= labels
    assert book.ledger.certified
    return len(entries)


def killed(target, told, times, within, whom=lambda process, number: process.pid):
    """Run `target` in a process that is killed, or whom it began, again and again: in its first fit, or after one."""
    rng = random.Random(0)
    for number in range(times):
        line, end = len("0123456789ab\n"), time.monotonic() + 60
        wanted = told.stat().st_size + line * (1 if number % 4 < 2 else 1 + RELEASES)
        process = FORK.Process(target=target)
        process.start()
        while told.stat().st_size < wanted and time.monotonic() < end:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, within))
        with suppress(ProcessLookupError):
            os.kill(whom(process, number), signal.SIGKILL)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_kills_of_a_sweep_leave_no_release_that_is_not_in_the_book(tmp_path, book):
    (told := tmp_path / "told").touch()
    job = job_of(noted(told=str(told)), trials=1000)
    run(job_of(noted()), tmp_path / "first", prepared())  # compiles and imports
    prepared(book=book.path).save(tmp_path / "data")
    settings = {"data": tmp_path / "data", "seed": 0, "store": tmp_path / "cells", "out": tmp_path / "r.parquet"}
    killed(lambda: run_method(job.settings(), **settings), told, times=12, within=0.02)
    done, entered = len(stored(tmp_path, "certificate.json")), kept(book, tmp_path, told)
    assert done >= 5
    assert entered <= len(told.read_text().split()) + 12  # a kill costs one entry at most that was not released


@pytest.mark.slow
def test_fifty_kills_of_workers_and_of_who_watches_them(tmp_path, book):
    """Each worker, in a process of its own, opens the book by itself."""
    (told := tmp_path / "told").touch()
    prepared(book=book.path).save(tmp_path / "data")
    settings = job_of(noted(told=str(told)), trials=400).settings()
    places = {"data": tmp_path / "data", "seed": 0, "store": tmp_path / "cells", "out": tmp_path / "r.parquet"}

    def whom(process, number):
        workers = psutil.Process(process.pid).children()
        return workers[0].pid if workers and number % 2 else process.pid

    killed(lambda: run_isolated(settings, **places), told, times=50, within=0.05, whom=whom)
    assert len(stored(tmp_path, "certificate.json")) > 0
    time.sleep(1)  # for workers to end with those who watched them
    kept(book, tmp_path, told)
