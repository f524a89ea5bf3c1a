"""Fits that hang, grow or die, and jobs that are killed: each becomes rows that say so, and nothing else is lost."""

import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from tiers import others_slow

from marginalia.data import Attribute, Domain, Table
from marginalia.data.checksums import write_description
from marginalia.errors import InputError
from marginalia.methods.task import Task
from marginalia.sweep.cells import CellStore, StoreError
from marginalia.sweep.config import parse
from marginalia.sweep.isolation.log import logged
from marginalia.sweep.isolation.supervisor import WorkerError, run_isolated
from marginalia.sweep.jobs import run_method
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared

FAULTY = str(Path(__file__).with_name("faulty.py"))
FAULTS = runpy.run_path(FAULTY)["FAULTS"]
TIMEOUT, MEMORY = 2.0, 700
TASKS = (Task("linear", "c"), Task("logistic", "y", drop=("b",)))


def prepared(n=200):
    rng = np.random.default_rng(0)
    domain = Domain([Attribute("a", 3), Attribute("b", 4, "numeric"), Attribute("c", 5, "numeric"), Attribute("y", 2)])
    a, b = rng.integers(0, 3, n), rng.integers(0, 4, n)
    c = np.clip(a + b // 2 + rng.integers(0, 2, n), 0, 4)
    table = Table(np.column_stack([a, b, c, (rng.random(n) < 0.2 + 0.6 * (c > 2)).astype(int)]), domain)
    # The name of a set of the catalogue: its noise has seeds, so that two runs can be compared.
    return Prepared("adult", table, TASKS, n_public=n)


def job_of(*methods, **content):
    config = parse({"datasets": ["adult"], "trials": 1, "epsilons": [1], "methods": methods, **content})
    jobs = list(plan(config, {b.name: {"adult": TASKS} for b in config.blocks()}).jobs.values())
    # Own methods are a job each; here they are to meet what the one before left behind.
    return replace(jobs[0], arms=tuple(arm for job in jobs for arm in job.arms))


def faulty(how, **parameters):
    return {"id": "own", "variant": how, "file": FAULTY, "class": "Faulty", "parameters": {"how": how, **parameters}}


def request(job, folder, name="a"):
    if not (folder / "data").exists():
        prepared().save(folder / "data")
    return {
        "settings": job.settings(),
        "data": folder / "data",
        "seed": 3,
        "store": folder / f"cells_{name}",
        "out": folder / f"{name}.parquet",
    }


def run(job, folder, name="a"):
    run_isolated(**request(job, folder, name))
    return pd.read_parquet(folder / f"{name}.parquet")


def comparable(frame):
    return frame.drop(columns=["seconds", "peak_mb"])


def assert_the_row_says_so(frame, how):
    rows = frame[frame["metric"] == "marginal_error"].set_index("variant")  # of the two metrics of a run
    row = rows.loc[how]
    status, message = FAULTS[how]
    assert (row["status"], row["message"][: len(message)]) == (status, message)
    assert np.isfinite(row["value"]) == (status == "ok")
    assert len(row["message"]) <= 1000


def test_a_fit_that_dies_becomes_a_row_that_says_so(tmp_path):
    """In one job of two processes, since the one that dies is the first fit of its own. One that hangs: below."""
    hows = ("kills_itself", "does_well")
    frame = run(job_of(*map(faulty, hows), timeout_seconds=60.0, memory_mb=MEMORY), tmp_path)
    assert sorted(set(frame["variant"])) == sorted(hows)
    for how in hows:
        assert_the_row_says_so(frame, how)


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """Every fault: those that hang in one job with a time limit, all others in one without; and what was printed."""
    folder = tmp_path_factory.mktemp("faults")
    told = {"leaves_a_process": {"told": str(folder / "pid")}}
    hang = [how for how, (status, _) in FAULTS.items() if status == "timeout"]
    frames = []
    with open(folder / "log", "w", buffering=1) as log, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", log)
        for name, hows, limit in (("hang", hang, TIMEOUT), ("end", [how for how in FAULTS if how not in hang], None)):
            methods = [faulty(how, **told.get(how, {})) for how in hows]
            frames.append(run(job_of(*methods, timeout_seconds=limit, memory_mb=MEMORY), folder, name))
    return pd.concat(frames), (folder / "log").read_text(), int((folder / "pid").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("how", FAULTS)
def test_a_fit_that_misbehaves_becomes_a_row_that_says_so(faults, how):
    assert_the_row_says_so(faults[0], how)


@pytest.mark.slow
def test_every_fit_has_one_row_however_many_die(faults):
    frame, log, _ = faults
    assert sorted(frame.loc[frame["metric"] == "marginal_error", "variant"]) == sorted(FAULTS)
    said = [line for line in log.splitlines() if line.startswith("[")]
    assert len(said) == len(FAULTS) - 1  # one of them closed the output


@pytest.mark.slow
def test_what_a_fit_prints_and_where_it_crashed_is_in_the_log(faults):
    log = faults[1]
    assert "and one from below" in log
    assert "follows_a_null_pointer" in log.split("Segmentation fault")[1]


@pytest.mark.slow
def test_a_stack_overflow_ends_one_fit(faults):
    """Python notices some kinds itself, by version."""
    message = faults[0].set_index("variant").loc["overflows_the_stack", "message"].iloc[0]
    assert "SIGSEGV" in message or "RecursionError" in message


@pytest.mark.slow
def test_a_process_that_a_fit_leaves_behind_is_ended(faults):
    assert not psutil.pid_exists(faults[2])
    assert not [p for p in psutil.Process().children(recursive=True) if "isolation.worker" in " ".join(p.cmdline())]


@pytest.mark.slow
def test_the_cost_of_a_fit_that_was_ended_is_that_of_its_process(faults):
    frame = faults[0][faults[0]["metric"] == "marginal_error"].set_index("variant")
    assert 0.1 < frame.loc["stays_in_lapack", "seconds"] < 2 * TIMEOUT
    assert frame.loc["sleeps", "seconds"] < 0.5
    assert frame.loc["grows_where_no_limit_holds", "peak_mb"] > MEMORY
    assert 10 < frame.loc["does_well", "peak_mb"] < MEMORY


METHODS = ("ols", "logistic", "ssp", "ada_ssp")


@pytest.mark.slow
def test_rows_and_certificates_are_those_of_a_run_in_one_process(tmp_path):
    job = job_of(*METHODS, trials=2)
    isolated = run(job, tmp_path, "isolated")
    run_method(**request(job, tmp_path, "here"))
    here = pd.read_parquet(tmp_path / "here.parquet")
    assert (here["status"] == "ok").all(), here["message"].tolist()
    pd.testing.assert_frame_equal(comparable(isolated), comparable(here), check_exact=True)
    stored = [
        sorted(p.relative_to(tmp_path / f"cells_{n}") for p in (tmp_path / f"cells_{n}").rglob("*.*"))
        for n in ("isolated", "here")
    ]
    assert stored[0] == stored[1]
    certificates = [p for p in stored[0] if p.name.endswith("certificate.json")]
    assert certificates
    for path in certificates:
        assert (tmp_path / "cells_isolated" / path).read_bytes() == (tmp_path / "cells_here" / path).read_bytes()


def first_file(folder, pattern):
    """Wait for a file, at most a minute."""
    for _ in range(6000):
        if found := sorted(folder.glob(pattern)):
            return found[0]
        time.sleep(0.01)
    raise AssertionError(f"no {pattern} in {folder}")


def worker_of(process):
    return next(p for p in process.children() if "marginalia.sweep.isolation.worker" in p.cmdline())


@pytest.mark.slow
def test_a_worker_killed_from_outside_loses_nothing(tmp_path):
    """Somebody ends it in the middle: another one goes on, and does the fit at hand again."""
    told = tmp_path / "slept"
    killed = []

    def kill():
        first_file(tmp_path, told.name)
        worker = worker_of(psutil.Process())
        worker.kill()
        killed.append(worker.pid)

    thread = threading.Thread(target=kill)
    thread.start()
    frame = run(job_of(faulty("sleeps_once", told=str(told)), trials=3), tmp_path)
    thread.join()
    assert len(killed) == 1
    assert frame["status"].tolist() == ["ok"] * 6  # two metrics
    assert sorted(set(frame["trial"])) == [0, 1, 2]


SUPERVISED = """
import json, sys
from marginalia.sweep.isolation.supervisor import run_isolated
if __name__ == "__main__":
    run_isolated(**json.loads(sys.argv[1]))
"""


def supervised(arguments, **options):
    """Start a supervisor as a process of its own."""
    text = json.dumps(arguments, default=str)
    return subprocess.Popen([sys.executable, "-c", SUPERVISED, text], stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize(
    "number",
    others_slow([signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]),
    ids=lambda n: n.name,
)
@pytest.mark.slow
def test_no_process_stays_when_the_job_is_ended(tmp_path, number):
    """By Ctrl-C, by a scheduler, by a closed terminal: nor what the fit has started; by SIGKILL at least the fit."""
    job = job_of(faulty("sleeps_beside_a_process", told=str(tmp_path / "pid")))
    process = supervised(request(job, tmp_path))
    first_file(tmp_path, "pid")
    worker = worker_of(psutil.Process(process.pid))
    left = psutil.Process(int(first_file(tmp_path, "pid").read_text()))
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    ends = [worker] if number == signal.SIGKILL else [worker, left]
    _, alive = psutil.wait_procs(ends, timeout=20)
    assert not alive
    if number == signal.SIGKILL:
        left.kill()
    assert not list((tmp_path / "cells_a").rglob("*.json"))
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.slow
def test_a_job_killed_at_any_place_goes_on_where_it_stopped(tmp_path):
    """Supervisor and worker die without a word, twice; the third run makes the rows of a run that nobody disturbed."""
    job = job_of(*METHODS, trials=3)
    undisturbed = run(job, tmp_path, "undisturbed")
    finished = set()
    for _ in range(2):
        process = supervised(request(job, tmp_path, "killed"))
        while process.poll() is None:
            now = set((tmp_path / "cells_killed").rglob("*.json")) - finished
            if len(now) > 3:
                process.kill()
                break
            time.sleep(0.002)
        process.communicate(timeout=60)
        finished = set((tmp_path / "cells_killed").rglob("*.json"))
    assert finished
    before = {path: path.stat().st_mtime_ns for path in finished if path.suffixes == [".json"]}
    resumed = run(job, tmp_path, "killed")
    pd.testing.assert_frame_equal(comparable(resumed), comparable(undisturbed), check_exact=True)
    assert {path: path.stat().st_mtime_ns for path in before} == before  # read, and not run again


@pytest.mark.slow
def test_a_full_disk_ends_the_job_in_one_line_and_a_later_run_goes_on(tmp_path):
    """Files of more than a few bytes cannot be written; what could be stored is complete."""
    job = job_of("ssp", "ols", trials=2)
    undisturbed = run(job, tmp_path, "undisturbed")

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, resource.RLIM_INFINITY))

    process = supervised(request(job, tmp_path), preexec_fn=small_files)
    said = process.communicate(timeout=120)[1]
    assert process.returncode != 0
    assert "InputError: cannot write to" in said.splitlines()[-1]
    assert "File too large; finished fits are kept" in said.splitlines()[-1]
    assert not list((tmp_path / "cells_a").rglob("*.json"))
    assert not [p for p in (tmp_path / "cells_a").rglob("*") if p.is_file()]
    pd.testing.assert_frame_equal(comparable(run(job, tmp_path)), comparable(undisturbed), check_exact=True)


@pytest.mark.slow
def test_a_store_that_may_not_be_written_is_one_line(tmp_path):
    """As root too: under /proc nobody can make a folder."""
    arguments = {**request(job_of("ols"), tmp_path), "store": "/proc/marginalia"}
    with pytest.raises(InputError, match="cannot write") as caught:
        run_isolated(**arguments)
    assert "\n" not in str(caught.value)


def test_only_the_machines_errors_end_a_job(tmp_path):
    store = CellStore(tmp_path)
    with pytest.raises(StoreError, match="No space left on device"), store.writing():
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")
    with pytest.raises(FileNotFoundError), store.writing():
        Path("/no/such/file").read_text()
    with pytest.raises(InputError, match="no proof") as caught, store.writing():
        raise InputError("no proof")
    assert type(caught.value) is InputError


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".json", ".certificate.json"])
def test_a_stored_file_that_is_cut_off_is_made_again(tmp_path, ending):
    job = job_of("ssp")
    first = run(job, tmp_path)
    cut = [p for p in (tmp_path / "cells_a").rglob(f"*{ending}") if "".join(p.suffixes) == ending]
    for path in cut:
        path.write_bytes(path.read_bytes()[:40])
    assert cut
    pd.testing.assert_frame_equal(comparable(run(job, tmp_path)), comparable(first), check_exact=True)


@pytest.mark.slow
def test_a_source_that_dies_is_tried_once_and_fails_what_stands_on_it(tmp_path):
    own = {**faulty("told_and_dies", told=str(tmp_path / "tries")), "id": "mine"}
    config = parse({"datasets": ["adult"], "trials": 1, "epsilons": [1], "methods": [own, "mst"]})
    jobs = plan(config, {"sweep": {"adult": TASKS}}).jobs.values()
    (job,) = [j for j in jobs if j.group == "mine"]
    arm = replace(job.arms[0], tasks=("linear",), source="mine", learner="ols", parameters=())
    both = replace(job, arms=(arm, replace(arm, tasks=("logistic",), learner="logistic")), sources=job.arms)
    frame = run(both, tmp_path)
    assert (frame["status"] == "failed").all()
    assert frame["message"].str.startswith("SourceFailedError: source mine: failed: the fit ended its process").all()
    assert (tmp_path / "tries").read_text() == "x"


@pytest.mark.slow
def test_a_failed_fit_is_tried_again_in_the_next_run(tmp_path):
    """A time limit may be raised, a machine may have more memory: only within one run a failure is final."""
    job = job_of(faulty("told_and_dies", told=str(tmp_path / "tries")))
    assert run(job, tmp_path)["status"].tolist() == ["failed"] * 2
    assert run(job, tmp_path)["status"].tolist() == ["failed"] * 2
    assert (tmp_path / "tries").read_text() == "xx"


@pytest.mark.slow
def test_data_that_cannot_be_read_is_one_line(tmp_path):
    arguments = request(job_of("ols"), tmp_path)
    (tmp_path / "data/dataset.json").unlink()
    with pytest.raises(InputError, match=r"cannot read .*dataset.json: No such file"):
        run_isolated(**arguments)


@pytest.mark.slow
def test_a_job_that_is_broken_itself_says_so(tmp_path):
    arguments = request(job_of("ols"), tmp_path)
    write_description(tmp_path / "data/dataset.json", {}, [])
    with pytest.raises(WorkerError, match="KeyError"):
        run_isolated(**arguments)


@pytest.mark.slow
def test_a_job_larger_than_its_memory_says_so(tmp_path):
    """With its libraries alone it is: that is no fault of a fit."""
    arguments = request(job_of("ols"), tmp_path)
    arguments["settings"]["experiment"]["memory_mb"] = 30  # less than a configuration may say: NumPy alone takes more
    with pytest.raises(InputError, match="libraries and data alone need more than 30 MB; raise memory_mb"):
        run_isolated(**arguments)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_stopped_says_so_in_one_line(tmp_path, capsys, monkeypatch, number):
    monkeypatch.setattr(sys, "__stderr__", sys.stderr)
    with pytest.raises(SystemExit) as ended, logged(tmp_path / "log"):
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
    assert ended.value.code == 128 + number
    said = f"marginalia: stopped by {number.name}\n"
    assert (capsys.readouterr().err, (tmp_path / "log").read_text()) == (said, said)
