"""The table of what published runs took."""

import json
import os

import pandas as pd
import pytest

from marginalia.advice.spent import spent
from marginalia.errors import InputError
from marginalia.reporting import provenance
from marginalia.reporting.provenance import benchmark, collect


@pytest.fixture(autouse=True)
def code_version(monkeypatch):
    """No test here is about the version, for which all modules are read."""
    monkeypatch.setattr(provenance, "code_version", lambda: "1+0123abc")


def test_costs_of_finished_runs_are_added(tmp_path):
    for block, seconds, sampled, peak, end in (("a", 1800, 1785.5, 100, 1e9), ("b", 3600, 3585.5, 300, 1e9 + 1800)):
        benchmarks = tmp_path / block / "benchmarks"
        (benchmarks / "studies").mkdir(parents=True)
        for name in ("one", "studies/two"):
            path = benchmarks / f"{name}.tsv"
            path.write_text(f"s\tmax_rss\tcpu_time\n{seconds}\t{peak}\t{sampled / 2}\n")
            os.utime(path, (end, end))
        short = benchmarks / "short.tsv"
        short.write_text("s\tmax_rss\tcpu_time\n0.1\tNA\tNA\n")  # too short to be sampled
        os.utime(short, (end, end))
        facts = collect({}, pd.DataFrame({"seconds": [60.0], "k": [3]}), benchmarks)
        (tmp_path / block / "provenance.json").write_text(json.dumps(facts))
    table = spent(tmp_path).set_index("block")
    assert table.loc["a", "wall_hours_of_all_jobs"] == pytest.approx(1.0, abs=1e-4)
    assert table.loc["b", "cpu_hours_of_all_jobs"] == pytest.approx(1.0, abs=1e-4)
    assert table.loc["all", ["jobs", "largest_peak_mb"]].tolist() == [6, 300]
    assert table.loc["all", "wall_hours_of_all_jobs"] == pytest.approx(3.0, abs=1e-3)
    # From 1800 s before 1e9 to then, and from 1800 s before to 1800 s after: together an hour.
    assert table["elapsed_hours"].tolist() == pytest.approx([0.5, 1.0, 1.0])


def test_the_pause_of_a_run_that_was_resumed_is_no_time_of_the_run(tmp_path):
    """Jobs at [0, 10], [5, 20], [6, 8] and, an hour later, [3600, 3630]: 50 seconds."""
    benchmarks = tmp_path / "a" / "benchmarks"
    benchmarks.mkdir(parents=True)
    for name, (began, ended) in enumerate([(0, 10), (5, 20), (6, 8), (3600, 3630)]):
        path = benchmarks / f"{name}.tsv"
        path.write_text(f"s\tmax_rss\tcpu_time\n{ended - began}\t100\t1\n")
        os.utime(path, (1e9 + ended, 1e9 + ended))
    facts = collect({}, pd.DataFrame({"seconds": [60.0], "k": [3]}), benchmarks)
    (tmp_path / "a" / "provenance.json").write_text(json.dumps(facts))
    assert spent(tmp_path)["elapsed_hours"].tolist() == pytest.approx([50 / 3600] * 2)


@pytest.mark.parametrize(
    ("wall", "sampled"), [(15.17, 14.49), (28.17, 15.18), (45.04, 14.88), (45.42, 14.54), (135.98, 134.23)]
)
def test_cpu_time_of_one_thread_is_nearly_its_wall_time(tmp_path, wall, sampled):
    """Jobs as Snakemake wrote them; those of 45 seconds were last looked at after 15."""
    path = tmp_path / "job.tsv"
    path.write_text(f"s\tmax_rss\tcpu_time\n{wall}\t400\t{sampled}\n")
    ((_, cpu, _),) = benchmark(path)
    assert 0.93 * wall < cpu < 1.02 * wall


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(InputError, match="no finished run"):
        spent(tmp_path)


def test_a_run_without_benchmark_files_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "provenance.json").write_text("{}")
    with pytest.raises(InputError, match="no benchmark files"):
        spent(tmp_path)
