"""The table of what published runs took."""

import json

import pandas as pd
import pytest

from marginalia.errors import InputError
from marginalia.planning.spent import spent
from marginalia.reporting.provenance import collect


def test_costs_of_finished_runs_are_added(tmp_path):
    for block, seconds, peak in (("a", 1800, 100), ("b", 3600, 300)):
        benchmarks = tmp_path / block / "benchmarks"
        (benchmarks / "studies").mkdir(parents=True)
        for name in ("one", "studies/two"):
            (benchmarks / f"{name}.tsv").write_text(f"s\tmax_rss\tmean_load\n{seconds}\t{peak}\t50.0\n")
        (benchmarks / "short.tsv").write_text("s\tmax_rss\tmean_load\n0.1\tNA\tNA\n")  # too short to be sampled
        facts = collect(pd.DataFrame({"seconds": [60.0], "k": [3]}), benchmarks)
        (tmp_path / block / "provenance.json").write_text(json.dumps(facts))
    table = spent(tmp_path).set_index("block")
    assert table.loc["a", "wall_hours_of_all_jobs"] == pytest.approx(1.0, abs=1e-4)
    assert table.loc["b", "cpu_hours_of_all_jobs"] == pytest.approx(1.0, abs=1e-4)
    assert table.loc["all", ["jobs", "largest_peak_mb"]].tolist() == [6, 300]
    assert table.loc["all", "wall_hours_of_all_jobs"] == pytest.approx(3.0, abs=1e-3)


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(InputError, match="no finished run"):
        spent(tmp_path)
