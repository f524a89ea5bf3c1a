import csv

import discretiser_report
import discretisers
import numpy as np
import pandas as pd
import pytest
from discretiser_tables import METRICS, Raw, quality

from marginalia.methods.mst import MST

pytestmark = pytest.mark.slow


def tiny(seed):
    rng = np.random.default_rng(seed)
    lsat = rng.normal(37, 5, 600).round()
    frame = pd.DataFrame({"lsat": lsat, "male": rng.integers(0, 2, 600), "pass_bar": (lsat > 35).astype(int)})
    return Raw("law", frame[:400], frame[400:], {"lsat": "number"}, "pass_bar")


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(discretisers, "TABLES", {"law": tiny})
    monkeypatch.setattr(discretisers, "SYNTHESIZERS", {"mst": MST})
    monkeypatch.setattr(discretisers, "RESULTS", tmp_path)
    monkeypatch.setattr(discretiser_report, "DOCS", tmp_path)
    monkeypatch.setattr(discretiser_report, "NAMES", {"law": "Law School"})
    return tmp_path / "discretisers.csv"


def test_one_command_makes_every_row_once_and_goes_on_where_it_stopped(results):
    runs = list(discretisers.planned(["race"], 1))
    discretisers.run_all(results, runs[:3], {})
    first = results.read_text()
    discretisers.main(["run", "race", "peers", "--seeds", "1"])  # no Python for the peers: they are left out
    assert results.read_text().startswith(first)
    with results.open(newline="") as file:
        assert [discretisers.Run.of(row) for row in csv.DictReader(file)] == runs
    (results.parent / "preprocessing.md").write_text(
        f"before\n{discretiser_report.BEGIN}old{discretiser_report.END}\nafter\n"
    )
    discretisers.main(["report"])
    page = (results.parent / "preprocessing.md").read_text()
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "old" not in page
    assert page.count("| Law School | MST |") == len(discretisers.RULES)
    assert (results.parent / "preprocessing_race.png").stat().st_size > 10_000


def test_the_real_rows_have_no_error_and_shuffled_columns_have_one():
    raw = tiny(0)
    assert {m: v for m, v in quality(raw, raw.train).items() if m != "auc"} == dict.fromkeys(list(METRICS)[:3], 0.0)
    rng = np.random.default_rng(1)
    shuffled = quality(raw, raw.train.apply(lambda column: rng.permutation(column)))
    assert shuffled["ks"] == 0
    assert shuffled["marginals"] > 0.1
    assert shuffled["auc"] < 0.7 < quality(raw, raw.train)["auc"]
