import numpy as np
import pytest
import wide
import wide_report
from harness import Row, store


def test_the_table_is_the_same_everywhere_and_its_columns_depend_on_each_other():
    table = wide.wide_table(40, 2000)
    assert sum(table.domain.sizes) == 237
    assert wide.fingerprint(table) == "ce2f825e36dd"
    codes = np.asarray(table.codes, float)
    strong = np.abs(np.corrcoef(codes.T)[np.triu_indices(40, 1)]) > 0.1  # independent columns: about 1e-5 of them
    assert 20 < strong.sum() < 400


@pytest.mark.slow
def test_report_draws_what_was_run(tmp_path, monkeypatch):
    monkeypatch.setattr(wide_report, "DOCS", tmp_path)
    (tmp_path / "large-tables.md").write_text(f"before {wide_report.BEGIN}old{wide_report.END} after", encoding="utf-8")
    rows = [
        Row("columns_20", "marginalia", 1.0, 1.0, 200.0, 0.006, "workload_error", "1 seeds, 70 rounds"),
        Row("columns_40", "marginalia", 4.0, 4.0, 300.0, 0.006, "workload_error", "1 seeds, 140 rounds"),
        Row("columns_40_table0", "marginalia", 31.0, 31.0, 700.0, 0.006, "workload_error", "1 seeds, 150 rounds"),
        Row("columns_40", "mbi 2.0.0", 9e3, 9e3, 900.0, float("nan"), "workload_error", "EXTRAPOLATED from 9 of 140"),
    ]
    store(tmp_path / "wide.csv", rows, wide.CASES)
    wide_report.write_report(tmp_path / "wide.csv")
    page = (tmp_path / "large-tables.md").read_text(encoding="utf-8")
    assert page.startswith("before ")
    assert page.endswith(" after")
    assert "old" not in page
    assert all(f"`{r.case}` | {r.implementation}" in page for r in rows)
    assert (tmp_path / "wide.png").stat().st_size > 5000
