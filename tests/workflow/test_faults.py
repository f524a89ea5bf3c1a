"""Whole runs with faults in them: methods that die, processes that are killed, a configuration edited in between."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TABLES = ("mse", "auc", "marginal_error", "accuracy", "risk", "certificates", "failures")
TIMEOUT = 2


def own(how):
    return {
        "id": how,
        "file": str(ROOT / "tests/sweep/faulty.py"),
        "class": "Faulty",
        "parameters": {"how": how},
    }


CONFIG = {
    "datasets": ["diabetes"],
    "epsilons": [1],
    "trials": 1,
    "figures": False,
    "experiments": {
        "ending": {"methods": ["ols", "ada_ssp", "independent", own("follows_a_null_pointer")]},
        "hanging": {"methods": [own("holds_the_interpreter")], "timeout_seconds": TIMEOUT},
    },
    "results_dir": "results",
}
EDITED = {**CONFIG, "epsilons": [0.5, 1]}


class Run:
    """Snakemake in a folder of its own, with its own lock: `command` as a user types it there."""

    def __init__(self, folder, config=None, *arguments):
        if config:
            (folder / "config.yaml").write_text(yaml.safe_dump(config))
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            str(ROOT / "Snakefile"),
            "--directory",
            str(folder),
        ]
        command += ["--workflow-profile", str(ROOT / "profiles/default"), "--cores", "2", "--nocolor", *arguments]
        self.folder = folder
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
        )

    def finish(self):
        self.said = self.process.communicate(timeout=600)[0]
        return self.process.returncode

    def processes(self):
        """Yield the processes below Snakemake: each with its command line and the stem of the log that it writes."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if ".run_methods.py" in line:
                    logs = [Path(file.path).stem for file in process.open_files() if "/results/logs/" in file.path]
                    yield process, line, logs[0] if logs else ""

    def until(self, done):
        """Call `done` for each of the processes until it has returned true."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(psutil.Error):
                for process, line, log in self.processes():
                    if done(process, line, log):
                        return
            time.sleep(0.05)
        self.process.kill()
        raise AssertionError(self.process.communicate()[0])


def tables_of(folder):
    return {name: (folder / "results/tables" / f"{name}.csv").read_text() for name in TABLES}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    run = Run(folder, EDITED)
    assert run.finish() == 0, run.said
    return folder


def test_a_sweep_with_methods_that_die_and_hang_ends_with_its_report(undisturbed):
    assert (undisturbed / "results/report.html").is_file()
    failures = pd.read_csv(undisturbed / "results/tables/failures.csv")
    said = failures.groupby(["method", "status", "message"]).size().to_dict()
    assert said == {
        ("follows_a_null_pointer", "failed", "the process of the fit died: SIGSEGV (Segmentation fault)"): 2,
        ("holds_the_interpreter", "timeout", f"took longer than {TIMEOUT} s"): 2,
    }
    page = (undisturbed / "results/report.html").read_text()
    assert "SIGSEGV" in page
    assert f"took longer than {TIMEOUT} s" in page


def test_every_planned_fit_has_its_rows(undisturbed):
    rows = pd.concat(pd.read_parquet(p) for p in (undisturbed / "results/records").rglob("*.parquet"))
    counts = rows.drop_duplicates(["method", "epsilon", "trial"])["method"].value_counts()
    assert counts["ols"] == 1
    assert counts["independent"] == counts["follows_a_null_pointer"] == counts["holds_the_interpreter"] == 2
    assert set(rows.loc[rows["method"].isin(["ols", "ada_ssp", "independent"]), "status"]) == {"ok"}


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    """The same sweep, whose processes are killed one after the other, and what each run said."""
    folder = tmp_path_factory.mktemp("disturbed")
    said = {}
    met = {}  # what was met, and the job that it was of

    def end_one_of_each(process, line, log):
        """Stop the process of one job, and kill that of another."""
        if log == "holds_the_interpreter-all" and "stopped" not in met:
            process.suspend()
            met["stopped"] = process
        elif log and log != "holds_the_interpreter-all" and "killed" not in met:
            process.kill()
            met["killed"] = log
        return len(met) == 2

    run = Run(folder, CONFIG)
    run.until(end_one_of_each)
    other = Run(folder)
    assert other.finish() != 0
    said["second run"] = other.said
    below = psutil.Process(run.process.pid).children(recursive=True)
    run.process.kill()
    met["stopped"].resume()
    said["rule killed"] = run.process.communicate()[0]
    said["locks"] = list((folder / ".snakemake/locks").iterdir())
    _, alive = psutil.wait_procs(below, timeout=60)
    said["left behind"] = [" ".join(p.cmdline()) for p in alive]

    assert Run(folder, None, "--unlock").finish() == 0
    run = Run(folder, EDITED)
    assert run.finish() == 0, run.said
    said["resumed"] = run.said
    return folder, said


def test_a_killed_rule_is_named_and_leaves_no_output(disturbed):
    """What does not need it goes on until Snakemake is killed too."""
    assert "Error in rule run_methods" in disturbed[1]["rule killed"]


def test_two_runs_at_once_in_one_folder_are_refused(disturbed):
    assert "cannot be locked" in disturbed[1]["second run"]


def test_a_killed_snakemake_leaves_no_process_behind(disturbed):
    assert disturbed[1]["left behind"] == []


def test_after_a_kill_the_folder_is_locked_and_snakemake_says_how_to_go_on(disturbed):
    assert disturbed[1]["locks"]
    assert "--unlock" in disturbed[1]["second run"]


def test_damaged_results_are_named_and_made_again_once_they_are_deleted(undisturbed, tmp_path):
    """Records and prepared data: one flipped bit, and the sizes that a power failure leaves."""
    shutil.copytree(undisturbed, tmp_path, dirs_exist_ok=True)
    results = tmp_path / "results"
    records = sorted((results / "records").rglob("*.parquet"))[0]
    table = results / "data/diabetes/table.parquet"
    content = bytearray(records.read_bytes())
    content[len(content) // 2] ^= 1
    for path, damaged, needs_it, delete in (
        (records, content, results / "tables", records),
        (table, b"", results / "records", results / "data/diabetes/dataset.json"),
    ):
        shutil.rmtree(needs_it)
        (results / "report.html").unlink()
        path.write_bytes(damaged)
        run = Run(tmp_path)
        assert run.finish() == 1, run.said
        assert f"{path.relative_to(tmp_path)} is damaged" in run.said
        assert "and snakemake makes" in run.said
        delete.unlink()
        run = Run(tmp_path)
        assert run.finish() == 0, run.said
    assert tables_of(tmp_path) == tables_of(undisturbed)


def test_a_run_killed_again_and_again_and_edited_ends_with_the_tables_of_an_undisturbed_one(disturbed, undisturbed):
    assert tables_of(disturbed[0]) == tables_of(undisturbed)
