"""Looking up measured costs, and gathering them from a finished run."""

import json

import pandas as pd
import pytest

from marginalia.advice import costs
from marginalia.advice.costs import Costs, Estimate, Measured, gather
from marginalia.errors import InputError
from marginalia.methods.record import Arm

FACTS = {
    "code": {"version": "1"},
    "machine": {"processor": "P"},
    "datasets": [{"name": "adult", "rows": 48_842, "attributes": 15}],
}


def fit(method="aim", dataset="adult", seconds=4.0, *, size=(1000, 10), task="", variant="", calibration="tight"):
    return Measured("fit", method, variant, calibration, task, dataset, *size, seconds, 500.0, "test")


def test_the_cost_of_a_measured_fit_is_the_measured_one():
    known = Costs([fit(seconds=1.0), fit(dataset="other", seconds=9.0)])
    expected = Estimate(1.0, 500.0, "measured", "adult: 1,000 rows, 10 columns")
    assert known.fit(Arm("aim"), dataset="adult") == expected


def test_another_table_costs_as_much_as_the_nearest_in_size():
    """Nearest in the logarithms of rows and columns: (10,000, 10) is nearer to (40,000, 10) than to (1,000, 10)."""
    sizes = {"a": (1000, 10), "b": (40_000, 10), "c": (40_000, 100)}
    known = Costs([fit(dataset=name, size=size, seconds=size[0] / 1000) for name, size in sizes.items()])
    there = known.fit(Arm("aim"), shape=(10_000, 10))
    assert (there.seconds, there.basis, there.measured_on) == (40.0, "other data", "b: 40,000 rows, 10 columns")
    assert known.fit(Arm("aim"), shape=(20_000, 60)).measured_on.startswith("c: ")
    assert known.fit(Arm("aim"), shape=(1, 1)).measured_on.startswith("a: ")


def test_a_data_set_of_unknown_size_costs_as_much_as_the_median():
    known = Costs([fit(dataset="a", seconds=1.0), fit(dataset="b", seconds=100.0), fit(dataset="c", seconds=9.0)])
    there = known.fit(Arm("aim"), dataset="own")
    assert (there.seconds, there.basis) == (9.0, "other data")


def test_the_arm_itself_is_preferred_and_its_method_stands_in():
    known = Costs([fit(variant="x", seconds=1.0), fit(variant="y", seconds=5.0)])
    assert known.fit(Arm("aim", variant="y"), dataset="adult").seconds == 5.0
    assert known.fit(Arm("aim", variant="z"), dataset="adult").seconds == 3.0


def test_an_unknown_method_is_a_guess():
    assert Costs([fit()]).fit(Arm("mine"), dataset="adult").basis == "guess"
    assert Costs([fit()]).fit(Arm("aim"), task="linear", dataset="adult").basis == "guess"


def finished_run(folder):
    (folder / "tables").mkdir()
    (folder / "benchmarks/methods/sweep/adult").mkdir(parents=True)
    (folder / "benchmarks/studies/x1").mkdir(parents=True)
    (folder / "provenance.json").write_text(json.dumps(FACTS))
    line = {"method": "aim", "variant": "", "calibration": "tight", "task": "", "dataset": "adult", "epsilon": 1.0}
    timings = [line | {"seconds": 2.0, "peak_mb": 300, "k": 5}]
    pd.DataFrame(timings).to_csv(folder / "tables/timings.csv", index=False)
    # Wall seconds of a job, and CPU seconds when it was last looked at: after 40 seconds that is 25 seconds ago.
    for path, wall, cpu in (
        ("methods/sweep/adult/aim-1.tsv", 15, 12),
        ("studies/x1/p.tsv", 40, 12.4),
        ("tables.tsv", 3, 2.4),
    ):
        (folder / "benchmarks" / path).write_text(f"s\tmax_rss\tcpu_time\n{wall}\t400\t{cpu}\n")


def test_a_finished_run_is_gathered(tmp_path):
    finished_run(tmp_path)
    rows = {(r.kind, r.name): r for r in gather(tmp_path).itertuples()}
    assert rows["fit", "aim"].seconds == 2.0
    assert (rows["fit", "aim"].rows, rows["fit", "aim"].columns) == (48_842, 15)
    assert rows["rule", "run_methods"].seconds == pytest.approx(15 * 0.8 - 5 * 2.0)
    assert rows["study", "x1"].seconds == pytest.approx(32)
    assert rows["rule", "aggregate_tables"].peak_mb == 400


def test_the_seconds_of_a_fit_are_the_mean_over_epsilon(tmp_path):
    finished_run(tmp_path)
    path = tmp_path / "tables/timings.csv"
    timings = pd.read_csv(path)
    pd.concat([timings, timings.assign(epsilon=8.0, seconds=6.0, peak_mb=200)]).to_csv(path, index=False)
    found = next(r for r in gather(tmp_path).itertuples() if r.kind == "fit")
    assert (found.seconds, found.peak_mb) == (4.0, 300)


def test_a_fit_that_was_always_ended_at_its_limit_costs_what_it_had_used(tmp_path):
    finished_run(tmp_path)
    line = {"variant": "", "calibration": "tight", "task": "", "dataset": "adult", "epsilon": 1.0, "peak_mb": 50.0}
    ends = [
        ("aim", 0, "ok", 2.0),
        ("aim", 1, "timeout", 60.0),
        ("slow", 0, "timeout", 50.0),
        ("slow", 1, "timeout", 70.0),
    ]
    rows = [line | dict(zip(("method", "trial", "status", "seconds"), end, strict=True)) for end in ends]
    pd.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")
    found = {r.name: r.seconds for r in gather(tmp_path).itertuples() if r.kind == "fit"}
    assert found == {"aim": 2.0, "slow": pytest.approx(60.0)}


def test_the_file_keeps_what_a_new_run_does_not_hold(tmp_path, monkeypatch):
    finished_run(tmp_path)
    monkeypatch.setattr(costs, "FILE", tmp_path / "costs.csv")
    costs.main([str(tmp_path)])
    first = (tmp_path / "costs.csv").read_text()
    (tmp_path / "benchmarks/studies/x1/p.tsv").unlink()
    costs.main([str(tmp_path)])
    assert (tmp_path / "costs.csv").read_text() == first
    assert "study,x1" in first


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no finished run"):
        gather(tmp_path)


def test_the_committed_measurements_can_be_read():
    known = Costs()
    assert all(row.seconds >= 0 and row.source for row in known.rows)
    assert len({row[:6] for row in known.rows}) == len(known.rows)
    assert all(row.rows > 0 < row.columns for row in known.rows if row.kind == "fit")
    assert known.fit(Arm("aim"), dataset="adult@dd_ssp").basis == "measured"
