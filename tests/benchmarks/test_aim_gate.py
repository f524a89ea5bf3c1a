import aim_gate
import pytest


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(aim_gate, "RESULT_FILE", tmp_path / "aim_gate.csv")
    pairs = [aim_gate.Pair("churn", s, 0.10, 0.10 + 0.001 * (s % 2), 2.0, 1.0, 30, 29) for s in range(1, 9)]
    aim_gate.Pair.append(aim_gate.RESULT_FILE, [pairs])


def test_the_limit_is_that_of_students_t(results):
    # Differences of 1 % and 0 % by turns: mean .5 %, standard error .189 %, t(7) = 1.895.
    assert aim_gate.report().splitlines()[2] == "| churn | 8 | 0.1 | 0.1005 | +0.5% | +0.9% | 2 | 1 |"


def test_rows_stand_for_many():
    table = aim_gate.RepeatedRows(aim_gate.tree_table(3, 50), 7)
    assert table.n_rows == 350
    assert table.counts(["x0", "x2"]).sum() == 350
