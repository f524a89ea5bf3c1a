"""Fits that hang, grow or die, and jobs that are killed: each becomes rows that say so, and nothing else is lost."""

import gc
import json
import os
import random
import re
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

import marginalia.sweep.run as sweep_run
from marginalia import usage
from marginalia.data import Column, Domain, Table
from marginalia.data.checksums import DamagedError
from marginalia.errors import InputError
from marginalia.methods.task import Task
from marginalia.sweep.config import parse
from marginalia.sweep.isolate import Ended, frozen, in_child
from marginalia.sweep.log import logged
from marginalia.sweep.plan import plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.records import read_certificates, read_records
from marginalia.sweep.run import run_job

FAULTY = str(Path(__file__).with_name("faulty.py"))
FAULTS = runpy.run_path(FAULTY)["FAULTS"]
TIMEOUT, MEMORY = 2.0, 700
TASKS = (Task("linear", "c"), Task("logistic", "y", drop=("b",)))


def prepared(n=200):
    rng = np.random.default_rng(0)
    domain = Domain([Column("a", 3), Column("b", 4, "numeric"), Column("c", 5, "numeric"), Column("y", 2)])
    a, b = rng.integers(0, 3, n), rng.integers(0, 4, n)
    c = np.clip(a + b // 2 + rng.integers(0, 2, n), 0, 4)
    table = Table(np.column_stack([a, b, c, (rng.random(n) < 0.2 + 0.6 * (c > 2)).astype(int)]), domain)
    # The name of a set of the catalogue: its noise has seeds, so that two runs can be compared.
    return Prepared("adult", table, TASKS, n_public=n)


def job_of(*methods, **content):
    config = parse(
        {"relation": "add_remove", "datasets": ["adult"], "trials": 1, "epsilons": [1], "methods": methods, **content}
    )
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
        "out": folder / f"{name}.parquet",
    }


def run(job, folder, name="a"):
    run_job(**request(job, folder, name))
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
    """All that can happen to one: below."""
    hows = ("kills_itself", "does_well")
    frame = run(job_of(*map(faulty, hows), timeout_seconds=60.0, memory_mb=MEMORY), tmp_path)
    assert sorted(set(frame["variant"])) == sorted(hows)
    for how in hows:
        assert_the_row_says_so(frame, how)


def test_a_fit_reaches_no_open_file_of_its_job(tmp_path):
    """But for the standard streams: what it writes to any number would be in the middle of another file or pipe."""
    with open(tmp_path / "file", "wb") as file:
        written = in_child(lambda: os.write(file.fileno(), b"not for you"))
        assert in_child(lambda: os.write(1, b"a line\n")).value == 7
    assert (written.status, written.message) == ("failed", "the fit ended its process with exit code 1")
    assert (tmp_path / "file").read_bytes() == b""


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """Every fault: those that hang in one job with a time limit, all others in one without; and what was printed."""
    folder = tmp_path_factory.mktemp("faults")
    told = {"leaves_a_process": {"told": str(folder / "pid")}}
    hang = [how for how, (status, _) in FAULTS.items() if status == "timeout"]
    frames = []
    with open(folder / "log", "w", buffering=1) as log, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", log)
        patch.setattr(sys, "stderr", log)
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
    assert len(re.findall(r"\[\d+/\d+\] own ", log)) == len(FAULTS)


@pytest.mark.slow
def test_what_a_fit_prints_and_where_it_crashed_is_in_the_log(faults):
    log = faults[1]
    assert "and one from below" in log
    assert re.search("Segmentation fault.*in follows_a_null_pointer", log, flags=re.S)


@pytest.mark.slow
def test_a_stack_overflow_ends_one_fit(faults):
    """Python notices some kinds itself, by version."""
    message = faults[0].set_index("variant").loc["overflows_the_stack", "message"].iloc[0]
    assert "SIGSEGV" in message or "RecursionError" in message


@pytest.mark.slow
def test_a_process_that_a_fit_leaves_behind_is_ended(faults):
    assert not psutil.pid_exists(faults[2])


@pytest.mark.slow
def test_the_cost_of_a_fit_that_was_ended_is_that_of_its_process(faults):
    frame = faults[0][faults[0]["metric"] == "marginal_error"].set_index("variant")
    assert 0.1 < frame.loc["stays_in_lapack", "seconds"] < 2 * TIMEOUT
    assert frame.loc["sleeps", "seconds"] < 0.5
    assert frame.loc["grows_where_no_limit_holds", "peak_mb"] > MEMORY
    assert 10 < frame.loc["does_well", "peak_mb"] < MEMORY


METHODS = ("ols", "logistic", "ssp", "ada_ssp")


@pytest.mark.slow
def test_rows_and_certificates_are_those_of_a_run_in_one_process(tmp_path, monkeypatch):
    job = job_of(*METHODS, trials=2)
    isolated = run(job, tmp_path, "isolated")
    monkeypatch.setattr("marginalia.sweep.run.in_child", lambda function, **_: Ended(function()))
    here = run(job, tmp_path, "here")
    assert (here["status"] == "ok").all(), here["message"].tolist()
    assert here["certificate"].notna().any()
    pd.testing.assert_frame_equal(comparable(isolated), comparable(here), check_exact=True)


def first_file(folder, pattern):
    """Wait for a file, at most a minute."""
    for _ in range(6000):
        if found := sorted(folder.glob(pattern)):
            return found[0]
        time.sleep(0.01)
    raise AssertionError(f"no {pattern} in {folder}")


@pytest.mark.slow
def test_a_fit_killed_from_outside_is_a_row_that_says_so(tmp_path):
    """As the system does that is out of memory; the other fits of the job are made."""
    told = tmp_path / "slept"

    def kill():
        first_file(tmp_path, told.name)
        for child in psutil.Process().children():
            child.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    frame = run(job_of(faulty("sleeps_once", told=str(told)), trials=3), tmp_path)
    thread.join()
    assert frame["status"].tolist() == ["failed"] * 2 + ["ok"] * 4  # two metrics
    assert frame["message"].iloc[0] == "the process of the fit died: SIGKILL (Killed)"


JOB = """
import json, sys
from marginalia.sweep.log import logged
from marginalia.sweep.run import run_job
with logged(sys.argv[2]):
    run_job(**json.loads(sys.argv[1]))
"""


def started(arguments, log, **options):
    """Start a job as a process of its own, as the workflow does."""
    command = [sys.executable, "-c", JOB, json.dumps(arguments, default=str), str(log)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize(
    "number",
    others_slow([signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]),
    ids=lambda n: n.name,
)
@pytest.mark.slow
def test_no_process_stays_when_the_job_is_ended(tmp_path, number):
    """By Ctrl-C, by a scheduler, by a closed terminal: nor what the fit has started; by SIGKILL at least the fit."""
    job = job_of(faulty("sleeps_beside_a_process", told=str(tmp_path / "pid")))
    process = started(request(job, tmp_path), tmp_path / "log")
    first_file(tmp_path, "pid")
    (fit,) = psutil.Process(process.pid).children()
    left = psutil.Process(int(first_file(tmp_path, "pid").read_text()))
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    ends = [fit] if number == signal.SIGKILL else [fit, left]
    _, alive = psutil.wait_procs(ends, timeout=20)
    assert not alive
    if number == signal.SIGKILL:
        left.kill()
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.slow
def test_a_full_disk_ends_the_job_in_one_line(tmp_path):
    """Files of more than a few bytes cannot be written."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, resource.RLIM_INFINITY))

    process = started(request(job_of("ssp", "ols"), tmp_path), tmp_path / "log", preexec_fn=small_files)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 2
    assert said.startswith("marginalia: cannot write to ")
    assert said.endswith("File too large; free the disk (or set TMPDIR) and run the same command again\n")
    assert said.count("\n") == 1
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.slow
def test_a_folder_that_may_not_be_written_is_one_line(tmp_path):
    """As root too: under /proc nobody can make a folder."""
    arguments = {**request(job_of("ols"), tmp_path), "out": "/proc/marginalia/a.parquet"}
    with pytest.raises(InputError, match="cannot write") as caught:
        run_job(**arguments)
    assert "\n" not in str(caught.value)


def test_a_failed_fit_is_tried_again_when_its_job_runs_again(tmp_path):
    """A machine may have more memory: only within one run a failure is final."""
    job = job_of(faulty("told_and_dies", told=str(tmp_path / "tries")))
    assert run(job, tmp_path)["status"].tolist() == ["failed"] * 2
    assert run(job, tmp_path)["status"].tolist() == ["failed"] * 2
    assert (tmp_path / "tries").read_text() == "xx"


@pytest.mark.slow
def test_data_that_cannot_be_read_is_one_line(tmp_path):
    arguments = request(job_of("ols"), tmp_path)
    (tmp_path / "data/dataset.json").unlink()
    with pytest.raises(InputError, match=r"cannot read .*dataset.json: No such file"):
        run_job(**arguments)


def test_no_code_of_the_users_runs_in_the_process_of_the_job(tmp_path):
    """What it does to its own process is gone with it: one fork for each fit, and none before."""
    own = faulty("told_and_dies", told=str(tmp_path / "tries"))
    run(job_of(own, {"id": "dd_ssp", "source": "own"}), tmp_path)
    assert (tmp_path / "tries").read_text() == "x"


@pytest.mark.parametrize("draw", [np.random.random, random.random], ids=["numpy", "python"])
def test_no_two_fits_draw_the_same_from_a_global_generator(draw):
    """A method of the user's may take its noise from there, and the difference of two fits would be exact."""
    assert len({in_child(draw).value for _ in range(5)}) == 5


def test_a_function_that_cannot_answer_says_why():
    assert in_child(lambda: lambda: 0).message == "the fit ended its process with exit code 1"  # cannot be pickled
    assert in_child(lambda: os.kill(os.getpid(), signal.SIGKILL)).message.endswith("SIGKILL (Killed)")
    slow = in_child(lambda: time.sleep(60), timeout_seconds=0.2)
    assert (slow.status, slow.message, slow.value) == ("timeout", "took longer than 0.2 s", None)


def emptied(path):
    path.write_bytes(b"")


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-20])


def flipped(path):
    """One bit, and the time of the file as it was: nobody wrote it."""
    content, status = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("fault", others_slow([emptied, cut_off, flipped]))
def test_damaged_records_are_named_and_never_read(fault, tmp_path):
    run(job_of("ols"), tmp_path)
    fault(tmp_path / "a.parquet")
    for read in (read_records, read_certificates):
        with pytest.raises(DamagedError, match=r"a\.parquet is damaged.*; delete it, and snakemake makes it again"):
            read([tmp_path / "a.parquet"])


@pytest.mark.parametrize("name", ["dataset.json", "domain.json", "table.parquet", "test.parquet"])
@pytest.mark.parametrize("fault", [emptied, cut_off, flipped, Path.unlink])
def test_damaged_data_are_named_and_never_read(fault, name, tmp_path):
    table = Table([[0], [1]], Domain.from_sizes({"a": 2}))
    Prepared("toy", table, (), table).save(tmp_path)
    fault(tmp_path / name)
    with pytest.raises(InputError, match=name):
        Prepared.load(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_stopped_says_so_in_one_line(tmp_path, capsys, monkeypatch, number):
    monkeypatch.setattr(sys, "__stderr__", sys.stderr)
    with pytest.raises(SystemExit) as ended, logged(tmp_path / "log"):
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
    assert ended.value.code == 128 + number
    said = f"marginalia: stopped by {number.name}\n"
    assert (capsys.readouterr().err, (tmp_path / "log").read_text()) == (said, said)


ON_A_FULL_DISK = """
import sys
from marginalia.sweep.log import logged
with logged("/dev/full"):
    print("what was done so far")
"""


def test_a_full_disk_that_holds_the_log_too_is_one_line_on_the_terminal():
    ended = subprocess.run([sys.executable, "-c", ON_A_FULL_DISK], capture_output=True, text=True)
    line = "marginalia: cannot go on: [Errno 28] No space left on device; free the disk and run the same command again"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"{line}\n")


def test_collections_in_a_fork_leave_the_objects_of_its_parent_alone():
    objects = [[number] for number in range(5000)]
    before = gc.get_freeze_count()
    gc.disable()
    try:
        with frozen():
            assert gc.get_freeze_count() >= before + len(objects)
            assert in_child(lambda: (gc.isenabled(), len(gc.get_objects()) < len(objects))).value == (True, True)
        assert gc.get_freeze_count() == 0
        assert gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.slow
def test_fits_of_a_job_share_the_values_of_public_functions_and_no_file_of_a_user_adds_one(tmp_path, monkeypatch):
    """The cost of objective perturbation follows from public numbers: it is computed for each epsilon, not trial."""
    monkeypatch.setattr(usage, "_values", {})
    monkeypatch.setattr(sweep_run, "keep_values", lambda values: (handed_on.append(values), usage.keep_values(values)))
    handed_on: list[usage.Values] = []
    frame = run(job_of("objective_perturbation", trials=2, epsilons=[1, 2]), tmp_path)
    assert set(frame["status"]) == {"ok"}
    keys = [key for values in handed_on for key in values]
    assert len(handed_on) == frame["seed"].nunique()
    assert keys
    assert len(keys) == len(set(keys))
    handed_on.clear()
    run(job_of(faulty("does_well")), tmp_path, "own")
    assert handed_on == []
