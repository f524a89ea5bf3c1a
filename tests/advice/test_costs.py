"""Looking up measured costs, and gathering them from a finished run."""

import json
import math

import pandas as pd
import pytest

from marginalia.advice import costs
from marginalia.advice.costs import Costs, Estimate, Measured, gather
from marginalia.errors import InputError
from marginalia.methods.record import Arm


def fit(method="aim", dataset="adult", epsilon=1.0, seconds=4.0, task="", variant="", calibration="tight"):
    return Measured("fit", method, variant, calibration, task, dataset, epsilon, seconds, 500.0, "test")


def test_what_was_measured_is_what_is_said():
    known = Costs([fit(epsilon=0.1, seconds=1.0), fit(epsilon=10.0, seconds=100.0)])
    assert known.fit(Arm("aim"), dataset="adult", epsilon=0.1) == Estimate(pytest.approx(1.0), 500.0, "measured")
    assert known.fit(Arm("aim"), dataset="adult", epsilon=1.0).seconds == pytest.approx(10.0)


def test_far_beyond_the_measured_budgets_it_is_no_measurement():
    known = Costs([fit(epsilon=1.0, seconds=4.0)])
    assert known.fit(Arm("aim"), dataset="adult", epsilon=2.0).basis == "measured"
    far = known.fit(Arm("aim"), dataset="adult", epsilon=8.0)
    assert (far.seconds, far.basis) == (pytest.approx(4.0), "other data")


def test_another_data_set_is_the_geometric_mean_of_the_known_ones():
    known = Costs([fit(dataset="a", seconds=1.0), fit(dataset="b", seconds=9.0)])
    there = known.fit(Arm("aim"), dataset="c", epsilon=1.0)
    assert (there.seconds, there.basis) == (pytest.approx(3.0), "other data")


def test_the_arm_itself_is_preferred_and_its_method_stands_in():
    known = Costs([fit(variant="x", seconds=1.0), fit(variant="y", seconds=5.0)])
    assert known.fit(Arm("aim", variant="y"), dataset="adult", epsilon=1.0).seconds == pytest.approx(5.0)
    assert known.fit(Arm("aim", variant="z"), dataset="adult", epsilon=1.0).seconds == pytest.approx(3.0)


def test_an_unknown_method_is_a_guess_with_a_wide_range():
    guess = Costs([]).fit(Arm("mine"), dataset="adult", epsilon=1.0)
    low, high = guess.range
    assert guess.basis == "guess"
    assert high / low == pytest.approx(100)


def test_methods_without_privacy_have_no_budget():
    known = Costs([fit("ols", epsilon=math.inf, task="linear", calibration="none", seconds=0.1)])
    assert known.fit(Arm("ols", "none"), task="linear", dataset="adult", epsilon=math.inf).seconds == pytest.approx(0.1)


def finished_run(folder):
    (folder / "tables").mkdir()
    (folder / "benchmarks/methods/sweep/adult").mkdir(parents=True)
    (folder / "benchmarks/studies/x1").mkdir(parents=True)
    (folder / "provenance.json").write_text(json.dumps({"code": {"version": "1"}, "machine": {"processor": "P"}}))
    line = {"method": "aim", "variant": "", "calibration": "tight", "task": "", "dataset": "adult", "epsilon": 1.0}
    pd.DataFrame([line | {"seconds": 2.0, "peak_mb": 300, "k": 5}]).to_csv(folder / "tables/timings.csv", index=False)
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
    assert rows["rule", "methods"].seconds == pytest.approx(15 * 0.8 - 5 * 2.0)
    assert rows["study", "x1"].seconds == pytest.approx(32)
    assert rows["rule", "tables"].peak_mb == 400


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
    assert len({row[:7] for row in known.rows}) == len(known.rows)
    assert known.fit(Arm("aim"), dataset="adult@dd_ssp", epsilon=1.0).basis == "measured"
