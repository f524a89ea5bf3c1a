"""A slice of the faults with a fixed seed; `.ci/nightly` does more of them with a random one."""

import random

import faults
import pytest


@pytest.mark.slow
def test_no_fault_loses_a_row_or_has_a_wrong_value_served(tmp_path):
    counts, found = faults.attack(2 * len(faults.KINDS), 1, tmp_path)
    assert not found, "\n".join(found)
    assert set(faults.KINDS) <= set(counts)


@pytest.mark.slow
def test_values_and_rows_that_are_not_those_of_the_undisturbed_run_are_seen(tmp_path):
    root = tmp_path / "disk/results"
    assert faults.run(root) == 0
    expected = faults.served(root)
    assert faults.wrong(root, expected) == ""
    assert faults.chosen(faults.rules(root)) == set()
    faults.damage("flip", root / "tables/mse.csv", random.Random(0))
    assert "another table mse" in faults.wrong(root, expected)
    rows = expected[1]
    assert faults.wrong(root, (expected[0], rows.assign(value=rows["value"] + 1e-15))) == "another row"
    rows.assign(seconds=0, peak_mb=0, status="failed").to_parquet(root / "rows.parquet")
    assert faults.wrong(root, expected) == f"{len(rows)} rows lost"
