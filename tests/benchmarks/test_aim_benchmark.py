import csv

import aim
import aim_report
import aim_worker
import numpy as np
import pytest
from harness import Row, store

TINY = {
    "aim_tiny": aim.AimCase(1.0, 1.0, "tree/4/500", seeds=1),
    "engine_tiny": aim.EngineCase(aim.AimCase(1.0, 1.0, "tree/4/500"), repeats=2),
}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(aim, "CASES", TINY)
    monkeypatch.setattr(aim, "RESULT_FILE", tmp_path / "aim.csv")
    monkeypatch.setattr(aim_report, "DOCS", tmp_path)
    return tmp_path / "aim.csv"


@pytest.mark.slow
def test_our_side_of_tiny_cases_runs_and_reports(results, monkeypatch):
    aim.main(["run", "aim_tiny", "--only", "marginalia", "--seeds", "2"])  # in a process of its own, as always
    monkeypatch.setattr(aim.Settings, "run_ours", lambda self, task, **options: aim_worker.TASKS[task](**options))
    aim.main(["run", "engine_tiny", "--only", "marginalia"])
    with results.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        *("case", "implementation", "cpu_seconds", "wall_seconds", "peak_mb", "quality", "quality_name", "note"),
        *("code_version", "machine"),
    ]
    assert [r["case"] for r in rows] == ["aim_tiny"] + ["engine_tiny"] * 4
    assert rows[0]["note"].startswith("1 seed, ")
    assert 0 < float(rows[0]["quality"]) < 0.5
    objectives = [float(r["quality"]) for r in rows if r["quality_name"] == "objective"]
    assert objectives[2] <= objectives[0]  # the final rules fit at least as well as the quick ones
    assert all(float(r["cpu_seconds"]) > 0 and float(r["peak_mb"]) > 1 for r in rows)
    aim.main(["report"])
    page = (results.parent / "benchmarks.md").read_text()
    assert "`aim_tiny`" in page
    assert "one inference pass" in page
    assert (results.parent / "benchmarks_aim.png").stat().st_size > 10_000


def a_row(case="aim_tiny", implementation="marginalia", cpu=1.0):
    return Row(case, implementation, cpu, 1.0, 1.0, 0.1, "workload_error", "2 seeds, 5 rounds")


@pytest.mark.slow
def test_rerunning_a_case_replaces_its_rows_only(results):
    store(results, [a_row(), a_row("engine_tiny"), a_row("engine_tiny", "other")], list(TINY))
    store(results, [a_row("engine_tiny", cpu=7.0), a_row("engine_tiny", cpu=8.0)], list(TINY))
    kept = [(r.case, r.implementation, r.cpu_seconds) for r in Row.read_all(results)]
    assert kept == [
        ("aim_tiny", "marginalia", 1.0),
        ("engine_tiny", "marginalia", 7.0),
        ("engine_tiny", "marginalia", 8.0),
        ("engine_tiny", "other", 1.0),
    ]
    store(results, [], ["aim_tiny"])
    assert [r.case for r in Row.read_all(results)] == ["aim_tiny"]


def test_a_stopped_reference_is_extrapolated_and_says_so():
    run = {
        "cpu": 60.0,
        "wall": 30.0,
        "peak_mb": 100.0,
        "finished": False,
        "rounds": [{"cpu": c} for c in (30.0, 40.0, 48.0, 60.0)],
        "workload_error": 0.5,
    }
    row = aim.reference_row("aim_tiny", run, 10)
    assert row.cpu_seconds == pytest.approx(60 + 6 * 10)
    assert row.wall_seconds == pytest.approx(60.0)
    assert np.isnan(row.quality)
    assert row.note.startswith("EXTRAPOLATED from 4 of 10 rounds")
    finished = aim.reference_row("aim_tiny", {**run, "finished": True}, 10)
    assert (finished.cpu_seconds, finished.quality) == (60.0, 0.5)


def test_a_missing_reference_or_case_is_one_clear_line(results, capsys, tmp_path):
    for arguments, message in (
        (["run", "aim_tinny"], "unknown case 'aim_tinny'; 'list' prints them"),
        (["run", "--reference-python", str(tmp_path / "none")], "run 'setup', or --only marginalia"),
    ):
        with pytest.raises(SystemExit) as stopped:
            aim.main(arguments)
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
