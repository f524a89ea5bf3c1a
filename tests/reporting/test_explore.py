"""The notebook that explores a results folder."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "explore.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@pytest.fixture
def explore(monkeypatch):
    """Run the code of the notebook on a folder, without a kernel; return its names and what it displays."""

    def run(folder):
        monkeypatch.setenv("MARGINALIA_RESULTS", str(folder))
        shown, names = [], {}
        monkeypatch.setattr("IPython.display.display", lambda *things: shown.extend(things))
        for cell in CELLS:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), NOTEBOOK.name, "exec"), names)
        return names, [thing for thing in shown if isinstance(thing, pd.DataFrame)]

    monkeypatch.setattr(plt, "show", lambda: None)
    yield run
    plt.close("all")


def run_of(method, epsilon, trial, value, **more):
    """Return a row of a run."""
    row = {"experiment": "sweep", "dataset": "toy", "task": "linear", "target": "y", "method": method, "variant": ""}
    row |= {"calibration": "tight", "relation": "add_remove", "epsilon": epsilon, "trial": trial, "split": "random"}
    row |= {"metric": "mse", "value": value, "status": "ok", "message": "", "certificate": None}
    return row | more


def folder_of(path, rows, **facts):
    (path / "tables").mkdir()
    pd.DataFrame(rows).to_parquet(path / "rows.parquet")
    (path / "provenance.json").write_text(json.dumps(facts))
    return path


def test_nothing_but_code_is_stored():
    for cell in CELLS:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


def test_own_methods_come_first_and_differences_are_paired(explore, tmp_path):
    values = {"ssp": [1.0, 5.0, 9.0], "mine": [2.0, 6.0, 10.0]}
    rows = [run_of(m, e, t, v + e) for m, found in values.items() for e in (0.5, 2.0) for t, v in enumerate(found)]
    rows += [run_of("ols", float("inf"), t, v, calibration="none") for t, v in enumerate([1.0, 5.0, 9.0])]
    rows += [run_of("mst", 0.5, 0, None, status="memory", message="needs more than 4000 MB")]
    config = {"methods": [{"id": "ssp"}, {"id": "mine", "file": "mine.py"}]}
    names, _ = explore(folder_of(tmp_path, rows, config=config))
    assert names["labels"] == ["mine tight", "ssp tight", "ols none", "mst tight"]
    found = names["differences"]("mine tight", "ssp tight", "mse")
    assert found["mean"].tolist() == [1.0, 1.0]
    assert found["sem"].tolist() == [0.0, 0.0]
    against_public = names["differences"]("mine tight", "ols none", "mse")
    assert against_public["mean"].tolist() == [1.5, 3.0]
    table = names["shown"]("mse")
    assert table.loc[("toy", "mine tight"), 0.5] == "6.5 ± 2.3"
    assert names["failed"]["message"].tolist() == ["needs more than 4000 MB"]


@pytest.mark.slow
def test_the_means_are_those_of_the_tables(explore):
    names, shown = explore(ROOT / "results" / "paper" / "dd_ssp")
    table = pd.read_csv(ROOT / "results/paper/dd_ssp/tables/mse.csv", keep_default_na=False)
    table = table.query("method == 'ssp' and epsilon == 0.5 and experiment == 'dd_ssp'")
    found = names["summary"]("mse").query("epsilon == 0.5 and experiment == 'dd_ssp'")
    found = found[found["label"].str.startswith("ssp ")]
    assert sorted(found["mean"]) == pytest.approx(sorted(table["mean"].astype(float)), rel=1e-5)
    assert sorted(found["sem"]) == pytest.approx(sorted(table["stderr"].astype(float)), rel=1e-5)
    assert any("spent" in frame.columns for frame in shown)


def test_a_folder_without_a_sweep_shows_its_tables(explore, capsys):
    _, shown = explore(ROOT / "results" / "paper" / "chebyshev")
    assert "this folder has no rows of a sweep" in capsys.readouterr().out
    assert len(shown) > 10


def test_a_folder_without_rows_is_one_line(explore, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no rows\.parquet: run the sweep"):
        explore(tmp_path)
