"""Other libraries' methods: the contract, on a made-up one that needs no environment of its own."""

import json
import math
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from marginalia.data import Column, Domain, Table
from marginalia.errors import InputError
from marginalia.methods.task import Task
from marginalia.peers import exchange
from marginalia.peers.record import record
from marginalia.sweep.config import parse
from marginalia.sweep.plan import Job, plan
from marginalia.sweep.protocols import Prepared
from marginalia.sweep.records import verdicts
from marginalia.sweep.run import run_job
from marginalia.sweep.version import version_of_arm

TINY = Path(__file__).with_name("tiny_peer.py")
ROOT = Path(__file__).resolve().parents[2]
TASKS = (Task("linear", "c"), Task("logistic", "y", drop=("b",)))
WRONG = {
    "crash": ("failed", "PeerError: peer 'tiny' ended with signal 6"),
    "raise": ("failed", "PeerError: peer 'tiny' ended with exit code 1: ValueError: epsilon is too odd"),
    "wrong_columns": ("failed", "InputError: peer 'tiny' made other columns: without ['a'], with ['another']"),
    "wrong_codes": ("failed", "InputError: peer 'tiny': "),
    "no_rows": ("failed", "InputError: peer 'tiny' made no rows"),
    "missing_output": ("failed", "PeerError: peer 'tiny' ended without an answer"),
    "garbage": ("failed", "PeerError: peer 'tiny' wrote no synthetic rows"),
    "few_scores": ("failed", "PeerError: peer 'tiny' gave 3 scores for 40 rows"),
    "no_numbers": ("failed", "PeerError: peer 'tiny' gave scores that are no numbers"),
}


@pytest.fixture
def peers(tmp_path, monkeypatch):
    """A working folder with the made-up peer, whose environment is the one of the tests."""
    (tmp_path / "envs" / "peers").mkdir(parents=True)
    shutil.copy(TINY, tmp_path / "envs" / "peers" / "tiny.py")
    environment(tmp_path, "tiny", python=sys.executable)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)  # where the variable is read again
    (tmp_path / "temporary").mkdir()
    return tmp_path


def environment(folder, name, *, python="", problem=""):
    home = folder / ".peers" / name
    home.mkdir(parents=True, exist_ok=True)
    (home / "environment.json").write_text(json.dumps({"python": python, "problem": problem}))


def own_memory():
    """Return what this process takes in MB, and so each fit that is forked from it."""
    return psutil.Process().memory_info().rss // 2**20


def jobs_of(*methods, **content):
    config = parse(
        {"relation": "add_remove", "datasets": ["adult"], "trials": 1, "epsilons": [1], "methods": methods, **content}
    )
    return plan(config, {b.name: {"adult": TASKS} for b in config.blocks()}).jobs


def run(job, folder):
    if not (folder / "data").exists():
        rng = np.random.default_rng(0)
        domain = Domain([Column("a", 3), Column("b", 4), Column("c", 5, "numeric"), Column("y", 2)])
        a, b = rng.integers(0, 3, 200), rng.integers(0, 4, 200)
        codes = np.column_stack([a, b, np.clip(a + b // 2, 0, 4), (a + b > 2).astype(int)])
        Prepared("adult", Table(codes, domain), TASKS, n_public=200).save(folder / "data")
    out = folder / "out.parquet"
    run_job(job.settings(), data=folder / "data", seed=3, out=out)
    return pd.read_parquet(out)


def fits_only(job):
    """Return a job without what is trained on the synthetic rows."""
    return replace(job, arms=job.arms[:1])


@pytest.mark.slow
def test_a_peer_is_a_method_with_its_rows_and_what_is_trained_on_them(peers):
    (job,) = jobs_of("peer/tiny/uniform").values()
    assert job.group == "peer_tiny_uniform"  # a folder of its own
    assert Job.from_settings(json.loads(json.dumps(job.settings()))).arms == job.arms
    rows = run(job, peers)
    assert sorted(rows["metric"]) == ["accuracy", "auc", "k_marginal", "marginal_error", "mse", "risk"]
    assert set(rows["status"]) == {"ok"}
    assert set(rows["calibration"]) == {"claimed"}
    assert np.isinf(rows["epsilon_spent"]).all()
    assert rows["message"].str.startswith("declared by tiny: its epsilon is its own claim").all()
    assert set(verdicts(rows)) == {"declared"}  # what the tables say: not certified
    error = rows.loc[rows["metric"] == "marginal_error"].iloc[0]
    assert 0 < error["value"] < 1
    assert error["peak_mb"] > 10
    costs = ["seconds", "peak_mb"]
    pd.testing.assert_frame_equal(rows.drop(columns=costs), run(job, peers).drop(columns=costs))  # the same seed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "metric", "relation"), [("mean", "mse", "add_remove"), ("weights", "auc", "replace_one")]
)
def test_a_learner_gets_encoded_rows_and_predicts_held_out_ones(peers, name, metric, relation):
    (job,) = jobs_of(f"peer/tiny/{name}", relation=relation).values()
    rows = run(job, peers)
    assert set(rows["status"]) == {"ok"}
    value = rows.set_index("metric")["value"][metric]
    assert value > 0.8 if metric == "auc" else 0 < value < 1


@pytest.mark.slow
def test_a_learner_of_codes_gets_them_for_training_and_for_held_out_rows(peers):
    (job,) = jobs_of("peer/tiny/tree").values()
    rows = run(job, peers)
    assert set(rows["status"]) == {"ok"}, rows["message"].iloc[0]
    value = rows.set_index("metric")["value"]
    assert value["auc"] > 0.8
    assert 0 < value["mse"] < 1


@pytest.mark.slow
def test_a_peer_without_privacy_is_fitted_once_and_has_no_verdict(peers):
    (job,) = jobs_of("peer/tiny/ceiling", epsilons=[1, 2]).values()
    rows = run(job, peers)
    assert set(rows["status"]) == {"ok"}, rows["message"].iloc[0]
    assert set(rows["calibration"]) == {"none"}
    assert set(rows["metric"]) == {"auc", "accuracy"}  # one epsilon, infinity
    assert np.isinf(rows["epsilon"]).all()
    assert set(rows["message"]) == {""}
    assert set(verdicts(rows)) == {""}


@pytest.mark.slow
def test_a_learner_has_the_same_metrics_whether_it_succeeds_or_fails(peers):
    """It gives scores and no probability; what is planned is what is held against the rows when they are verified."""
    (job,) = jobs_of("peer/tiny/weights", relation="replace_one").values()
    measured = set(run(job, peers)["metric"])
    assert measured == job.metrics(TASKS) == {"auc", "accuracy"}
    environment(peers, "tiny", problem="gone")
    assert set(run(job, peers)["metric"]) == measured


@pytest.mark.slow
def test_each_fault_is_one_row_that_says_so(peers):
    jobs = jobs_of(*(f"peer/tiny/{name}" for name in WRONG))
    for job in map(fits_only, jobs.values()):
        row = next(run(job, peers).itertuples())
        status, message = WRONG[row.method.split("/")[2]]
        assert row.status == status
        assert row.message.startswith(message)
        assert math.isnan(row.value)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status", "limit"), [("hang", "timeout", 2), ("grow", "memory", 60)])
def test_a_peer_that_hangs_or_grows_is_ended(peers, name, status, limit):
    method = {"id": f"peer/tiny/{name}", "calibration": "claimed"}
    (job,) = jobs_of(method, timeout_seconds=limit, memory_mb=own_memory() + 400).values()
    rows = run(fits_only(job), peers)
    assert list(rows["status"]) == [status] * 2
    assert name == "grow" or rows["seconds"].iloc[0] > 0.1  # of the peer's process, which is not the fit's own
    assert not list((peers / "temporary").iterdir())  # nor are the rows left that it was given


@pytest.mark.slow
def test_a_peer_that_hangs_costs_its_time_once(peers):
    """Neither another trial nor a larger epsilon is begun; the rows say why."""
    hang = {"id": "peer/tiny/hang", "calibration": "claimed"}
    (job,) = jobs_of(hang, timeout_seconds=1, trials=3, epsilons=[1, 2]).values()
    rows = run(fits_only(job), peers)
    rows = rows[rows["metric"] == "k_marginal"]
    assert set(rows["status"]) == {"timeout"}
    ran = rows["message"] == "took longer than 1 s"
    assert list(zip(rows["epsilon"][ran], rows["trial"][ran], strict=True)) == [(1, 0)]
    assert set(rows["message"][~ran]) == {"not run: epsilon=1 trial=0 took longer than 1 s"}
    assert (rows["seconds"][~ran] == 0).all()


@pytest.mark.slow
def test_of_a_flood_of_output_the_end_is_kept(peers):
    method = {"id": "peer/tiny/flood", "parameters": {"kilobytes": 50_000}}
    mine = own_memory()
    (job,) = jobs_of(method, memory_mb=mine + 1000).values()
    row = next(run(fits_only(job), peers).itertuples())
    assert row.message == "PeerError: peer 'tiny' ended with exit code 1: ValueError: that was all"
    assert row.peak_mb < mine + 500


@pytest.mark.slow
def test_what_a_peer_starts_and_leaves_goes_with_it(peers):
    methods = [{"id": f"peer/tiny/{name}", "parameters": {"note": str(peers / name)}} for name in ("orphan", "litter")]
    for job in jobs_of(*methods).values():
        assert set(run(fits_only(job), peers)["status"]) == {"ok"}
    with suppress(psutil.NoSuchProcess):
        assert psutil.Process(int((peers / "orphan").read_text())).status() == psutil.STATUS_ZOMBIE
    assert not Path((peers / "litter").read_text()).exists()


def test_rows_of_ended_processes_are_taken_away_and_no_others(peers):
    """A process' number may be another's by now, or mean another in a container: what counts is the lock."""
    begin = "import sys, time; from marginalia.peers.exchange import exchange; folder = exchange()"
    code = f"{begin}; print(folder.__enter__(), flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        theirs = Path(owner.stdout.readline().strip())
        with exchange.exchange() as first, exchange.exchange() as second:
            assert {theirs, first, second} == set((peers / "temporary").iterdir())
            assert theirs.stat().st_mode & 0o077 == 0
        assert list((peers / "temporary").iterdir()) == [theirs]
        owner.kill()
        owner.wait()
        exchange.sweep()
    assert not theirs.exists()


def test_a_folder_swept_before_it_is_locked_is_made_again(peers, monkeypatch):
    real, made = tempfile.mkdtemp, []

    def swept(**given):
        made.append(Path(real(**given)))
        if len(made) < 3:
            exchange.sweep()
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    with exchange.exchange() as folder:
        assert folder == made[2]
        assert folder.exists()
    with pytest.raises(FileNotFoundError), exchange.exchange():
        raise FileNotFoundError  # one of the body's own


@pytest.mark.slow
def test_without_an_environment_the_row_says_why(peers):
    (job,) = jobs_of("peer/tiny/uniform").values()
    environment(peers, "tiny", problem="needs another Python")
    assert run(job, peers)["message"].str.contains("peer 'tiny' is not installed: needs another Python").all()
    shutil.rmtree(peers / ".peers")
    assert run(job, peers)["message"].str.contains("run `python3 envs/install_peer.py tiny`").all()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("peer/tinny/uniform", "did you mean 'tiny'"),
        ("peer/tiny/uniforme", "did you mean 'uniform'"),
        ("peer/tiny", "a peer is named peer/<library>/<method>"),
        ("peer/tiny/weights", "has no proof for add_remove"),
    ],
)
def test_a_wrong_name_is_one_line(peers, name, said):
    with pytest.raises(InputError, match=said):
        jobs_of(name)


def test_numbers_depend_on_adapter_and_lock_file(peers):
    def version():
        chosen = record("peer/tiny/uniform")
        return version_of_arm(chosen.arms[0], {chosen.id: chosen})

    before = version()
    (peers / "envs" / "peers" / "tiny.txt").write_text("numpy==1\n")
    assert version() != before


def test_every_adapter_of_the_repository_can_be_read_and_is_short():
    adapters = sorted((ROOT / "envs" / "peers").glob("*.py"))
    assert [path.stem for path in adapters] == [
        "diffprivlib",
        "dpmm",
        "dpsynth",
        "interpret",
        "mbi",
        "opendp",
        "sklearn",
        "smartnoise",
        "twinify",
    ]
    for path in adapters:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 60
        assert "import marginalia" not in text
        lock = path.with_suffix(".txt")
        assert lock.exists() != ("UNAVAILABLE" in text)
        assert not lock.exists() or "--hash=sha256:" in lock.read_text(encoding="utf-8")
